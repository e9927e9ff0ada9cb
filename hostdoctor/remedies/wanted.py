"""Which kernel parameters the findings ask for: the smallest set, each with what it cures.

Nothing is asked for that is no finding's remedy, nothing in guests and containers, and nothing that is there already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from hostdoctor import knowledge
from hostdoctor.facts.boot_files import Parameter
from hostdoctor.findings import Finding
from hostdoctor.view import View

_LINT = ("remove-parameter", "replace-parameter")
# Only this check weighs all GPUs of the host before it asks for passthrough; others name it as one of several ways.
_ASKS = {"iommu-passthrough": "iommu-mode"}
_BY_OTHER_MEANS = ("firmware-", "numa-", "measure-", "check-power", "iommu-translate")


class Change(msgspec.Struct, frozen=True):
    """One parameter to add or to take out.

    Attributes:
        parameter: as the kernel gets it, "iommu=pt".
        because: the findings it cures, "iommu-mode 0000:43:00.0".
        why: the title of the first of them.
        risk: what else it does.
        verify: how to see after the restart that it worked.
        source: keys of the table of sources.
    """

    parameter: str
    because: tuple[str, ...]
    why: str
    risk: str = ""
    verify: str = ""
    source: tuple[str, ...] = ()


class Uncurable(msgspec.Struct, frozen=True):
    """A finding that no kernel parameter cures, and what does."""

    check: str
    text: str


class Wanted(msgspec.Struct, frozen=True):
    """What is to change on the kernel command line."""

    add: tuple[Change, ...] = ()
    remove: tuple[Change, ...] = ()
    uncurable: tuple[Uncurable, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to change."""
        return not self.add and not self.remove


def wanted(view: View, findings: Sequence[Finding]) -> Wanted:
    """What these findings ask for on this host."""
    environment = view.host.environment
    if environment.is_guest or environment.container:
        return Wanted()
    add, remove = _Changes(), _Changes()
    for finding in findings:
        for remedy in finding.remedies:
            _apply(view, finding, remedy, add, remove)
    for parameter in list(add):
        _clear_the_way(view, parameter, add, remove)
    running = {parameter.text for parameter in view.host.boot.parameters}
    return Wanted(
        tuple(change for text, change in add.items() if text not in running or text in remove),
        tuple(remove.values()),
        tuple(_uncurable(findings)),
    )


class _Changes(dict[str, Change]):
    """Changes by their parameter; one that several findings ask for names all of them."""

    def ask(self, parameter: str, finding: Finding, remedy: str) -> None:
        """Note that a finding asks for a parameter."""
        told = " ".join((finding.check, *finding.subject))
        known, change = self.get(parameter), knowledge.load_kernel_changes()[remedy]
        if known is None:
            self[parameter] = Change(parameter, (told,), finding.title, change.risk, change.verify, change.source)
        elif told not in known.because:
            self[parameter] = msgspec.structs.replace(known, because=(*known.because, told))


def _apply(view: View, finding: Finding, remedy: str, add: _Changes, remove: _Changes) -> None:
    change = knowledge.load_kernel_changes().get(remedy)
    if change is None or finding.check != _ASKS.get(remedy, finding.check):
        return
    if remedy in _LINT:
        _lint(view, finding, remedy, add, remove)
    elif remedy == "acs-clear-redirect":
        _acs(view, finding, add, remove)
    elif change.parameter:
        add.ask(change.parameter, finding, remedy)


def _lint(view: View, finding: Finding, remedy: str, add: _Changes, remove: _Changes) -> None:
    """Take out what a finding of kernel-parameters names: the whole parameter, or one element of its list."""
    for shown in finding.subject:
        for parameter in view.host.boot.parameters:
            rest = _without(parameter, shown)
            if rest is None:
                continue
            remove.ask(parameter.text, finding, remedy)
            if rest:
                add.ask(rest, finding, remedy)
    replacement = _replacement(finding) if remedy == "replace-parameter" else ""
    if replacement:
        add.ask(replacement, finding, remedy)


def _without(parameter: Parameter, shown: str) -> str | None:
    """A parameter without one element, empty where nothing is left of it, None where it does not hold the element."""
    name, _, element = shown.partition("=")
    if parameter.key != name.replace("-", "_"):
        return None
    described = knowledge.load_kernel_parameters().by_name.get(parameter.key)
    elements = list(described.elements(parameter.value or "")) if described else [parameter.value or ""]
    if element and element not in elements:
        return None
    left = [each for each in elements if each != element] if element else []
    return f"{parameter.name}={','.join(left)}" if left else ""


def _replacement(finding: Finding) -> str:
    for rule in knowledge.load_kernel_parameters().rule:
        name, _, element = finding.subject[0].partition("=")
        if rule.remedy.startswith("replace:") and rule.parameter == name.replace("-", "_") and rule.matches(element):
            return rule.remedy.removeprefix("replace:")
    return ""


def _acs(view: View, finding: Finding, add: _Changes, remove: _Changes) -> None:
    """Clear the redirect bits of exactly the bridges that the finding names."""
    from hostdoctor.acs import clearing  # noqa: PLC0415  few hosts have it

    bridges = [view.topology.functions[address] for address in finding.subject if address in view.topology.functions]
    option = clearing(view, bridges)
    for parameter in view.host.boot.parameters:
        for old in option.replaces:
            rest = _without(parameter, f"pci={old}")
            if rest is not None:
                remove.ask(parameter.text, finding, "acs-clear-redirect")
                if rest:
                    add.ask(rest, finding, "acs-clear-redirect")
    add.ask(f"pci={option.text}", finding, "acs-clear-redirect")


def _clear_the_way(view: View, parameter: str, add: _Changes, remove: _Changes) -> None:
    """Take out what sets the same thing another way, since the kernel keeps what comes last."""
    settings = knowledge.load_kernel_parameters().settings
    ours = next(((setting, way) for setting in settings if (way := setting.way(parameter))), None)
    if ours is None:
        return
    for other in view.host.boot.parameters:
        way = ours[0].way(f"{other.key}={other.value}")
        if way and way != ours[1]:
            change = add[parameter]
            remove[other.text] = msgspec.structs.replace(change, parameter=other.text, risk="", verify="")


def _uncurable(findings: Iterable[Finding]) -> Iterator[Uncurable]:
    """Findings for which no parameter, no firmware setting and nothing at run time helps, each cure once."""
    remedies, seen = knowledge.load_remedies(), set()
    for finding in findings:
        if finding.outcome not in ("failure", "warning") or finding.check == "kernel-parameters-pending":
            continue
        if any(each in knowledge.load_kernel_changes() or each.startswith(_BY_OTHER_MEANS) for each in finding.remedies):
            continue
        cure = next((remedies[each].title for each in finding.remedies if each in remedies), "")
        text = finding.next or cure or "nothing that this tool knows"
        if (finding.check, text) not in seen:
            seen.add((finding.check, text))
            yield Uncurable(finding.check, text)
