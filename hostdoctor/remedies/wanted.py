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
# Asked for without a fault too: AMD's own software wants passthrough where it costs nothing, and what does nothing misleads.
_OFFERED = ("iommu-passthrough", *_LINT)
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
    edit = _Edit(view.host.boot.parameters)
    for finding in findings:
        for remedy in finding.remedies:
            _apply(view, finding, remedy, edit)
    for parameter in list(edit.add):
        _clear_the_way(parameter, edit)
    return Wanted(edit.added(), tuple(edit.removed().values()), tuple(_uncurable(findings, edit)))


class _Edit:
    """What is asked of one kernel command line.

    A parameter can be a list, of which several findings want single elements out, so what is left of it is worked out once,
    at the end.
    """

    def __init__(self, line: Sequence[Parameter]) -> None:
        self.line = line
        self.add: dict[str, Change] = {}
        self._gone: dict[str, dict[str, Change]] = {}  # by the text of the parameter, then by the element

    def want(self, text: str, finding: Finding, remedy: str) -> None:
        """Note that a finding asks for a parameter."""
        self.add[text] = _joined(self.add.get(text), change_of(text, finding, remedy))

    def drop(self, parameter: Parameter, element: str, change: Change) -> None:
        """Note that an element of a parameter on the line is to go."""
        gone = self._gone.setdefault(parameter.text, {})
        gone[element] = _joined(gone.get(element), change)

    def takes_from(self, subject: Sequence[str]) -> bool:
        """Whether something of a finding's subject is to go, as kernel-parameters writes it, "iommu=nopt"."""
        gone = {f"{text.partition('=')[0]}={element}" for text, elements in self._gone.items() for element in elements}
        return bool(gone & set(subject))

    def removed(self) -> dict[str, Change]:
        """The parameters to take out, whole ones as they stand on the line."""
        found: dict[str, Change] = {}
        for text, gone in self._gone.items():
            for change in gone.values():
                found[text] = _joined(found.get(text), msgspec.structs.replace(change, parameter=text))
        return found

    def added(self) -> tuple[Change, ...]:
        """The parameters to add: what is left of lists, then what was asked for, since the kernel keeps what comes last."""
        removed, found = self.removed(), dict[str, Change]()
        for parameter in self.line:
            left = [each for each in _elements(parameter) if each not in self._gone.get(parameter.text, {})]
            if parameter.text in removed and left:
                text = f"{parameter.name}={','.join(left)}"
                found[text] = msgspec.structs.replace(removed[parameter.text], parameter=text)
        stand = {parameter.text for parameter in self.line} - set(removed)
        return tuple(change for text, change in {**found, **self.add}.items() if text not in stand)


def change_of(text: str, finding: Finding, remedy: str) -> Change:
    """A change that a finding asks for, with what the tables say of its remedy."""
    told, change = " ".join((finding.check, *finding.subject)), knowledge.load_kernel_changes()[remedy]
    return Change(text, (told,), finding.title, change.risk, change.verify, change.source)


def _joined(first: Change | None, second: Change) -> Change:
    """One change that several findings ask for names all of them."""
    if first is None:
        return second
    return msgspec.structs.replace(first, because=tuple(dict.fromkeys((*first.because, *second.because))))


def _elements(parameter: Parameter) -> tuple[str, ...]:
    """The elements of a parameter's value, the value itself where it is no list; one without a value has an empty one."""
    described = knowledge.load_kernel_parameters().by_name.get(parameter.key)
    value = parameter.value or ""
    return (described.elements(value) if described else ()) or (value,)


def _apply(view: View, finding: Finding, remedy: str, edit: _Edit) -> None:
    change = knowledge.load_kernel_changes().get(remedy)
    if change is None or finding.check != _ASKS.get(remedy, finding.check):
        return
    if finding.outcome not in ("failure", "warning") and not (finding.outcome == "info" and remedy in _OFFERED):
        return
    if remedy in _LINT:
        _lint(finding, remedy, edit)
    elif remedy == "acs-clear-redirect":
        _acs(view, finding, edit)
    elif change.parameter:
        edit.want(change.parameter, finding, remedy)


def _lint(finding: Finding, remedy: str, edit: _Edit) -> None:
    """Take out what a finding of kernel-parameters names: the whole parameter, or one element of its list."""
    replacement = _replacement(finding) if remedy == "replace-parameter" else ""
    if remedy == "replace-parameter" and not replacement:
        return  # what was meant is for its owner to say
    for shown in finding.subject:
        _drop(shown, finding, remedy, edit)
    if replacement:
        edit.want(replacement, finding, remedy)


def _drop(shown: str, finding: Finding, remedy: str, edit: _Edit) -> None:
    name, _, element = shown.partition("=")
    for parameter in edit.line:
        if parameter.key != name.replace("-", "_"):
            continue
        for each in _elements(parameter):
            if element in ("", each):
                edit.drop(parameter, each, change_of(parameter.text, finding, remedy))


def _replacement(finding: Finding) -> str:
    for rule in knowledge.load_kernel_parameters().rule:
        name, _, element = finding.subject[0].partition("=")
        if rule.remedy.startswith("replace:") and rule.parameter == name.replace("-", "_") and rule.matches(element):
            return rule.remedy.removeprefix("replace:")
    return ""


def _acs(view: View, finding: Finding, edit: _Edit) -> None:
    """Clear the redirect bits of exactly the bridges that the finding names."""
    from hostdoctor.acs import clearing  # noqa: PLC0415  few hosts have it

    bridges = [view.topology.functions[address] for address in finding.subject if address in view.topology.functions]
    option = clearing(view, bridges)
    for old in option.replaces:
        _drop(f"pci={old}", finding, "acs-clear-redirect", edit)
    edit.want(f"pci={option.text}", finding, "acs-clear-redirect")


def _clear_the_way(wanted_text: str, edit: _Edit) -> None:
    """Take out what sets the same thing another way, in whatever spelling and list it stands."""
    tables = knowledge.load_kernel_parameters()
    ours = next(((setting, way) for setting in tables.settings if (way := setting.way(wanted_text))), None)
    if ours is None:
        return
    for parameter in edit.line:
        described = tables.by_name.get(parameter.key)
        for element in _elements(parameter):
            way = ours[0].way(f"{parameter.key}={described.meaning(element) if described else element}")
            if way and way != ours[1]:
                change = edit.add[wanted_text]
                edit.drop(parameter, element, msgspec.structs.replace(change, parameter=parameter.text, risk="", verify=""))


def _uncurable(findings: Iterable[Finding], edit: _Edit) -> Iterator[Uncurable]:
    """Findings for which no parameter, no firmware setting and nothing at run time helps, each cure once."""
    remedies, seen = knowledge.load_remedies(), set()
    for finding in findings:
        if finding.outcome not in ("failure", "warning") or finding.check == "kernel-parameters-pending":
            continue
        if edit.takes_from(finding.subject) or any(_is_way(finding, each) for each in finding.remedies):
            continue
        cure = next((remedies[each].title for each in finding.remedies if each in remedies), "")
        text = finding.next or cure or "nothing that this tool knows"
        if (finding.check, text) not in seen:
            seen.add((finding.check, text))
            yield Uncurable(finding.check, text)


def _is_way(finding: Finding, remedy: str) -> bool:
    """Whether a remedy is a kernel parameter that is known, or a way that other parts of this tool tell."""
    if remedy == "replace-parameter":
        return bool(_replacement(finding))
    return remedy in knowledge.load_kernel_changes() or remedy.startswith(_BY_OTHER_MEANS)
