"""Which kernel parameters the findings ask for: the smallest set, each with what it cures.

Nothing is asked for that is no finding's remedy, nothing in guests and containers, and nothing that is there already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from hostdoctor import knowledge
from hostdoctor.facts.boot_files import Parameter
from hostdoctor.findings import Finding
from hostdoctor.knowledge.kernel import Rule, Setting
from hostdoctor.parameters import passthrough
from hostdoctor.parsers.cmdline import parse_command_line
from hostdoctor.remedies.kernel_line import stands
from hostdoctor.remedies.patch import Request
from hostdoctor.view import View

_LINT = ("remove-parameter", "replace-parameter")
# Asked for without a fault too: AMD's own software wants passthrough where it costs nothing, and what does nothing misleads.
_OFFERED = ("iommu-passthrough", *_LINT)
# Only this check weighs all GPUs of the host before it asks for passthrough; others name it as one of several ways.
_ASKS = {"iommu-passthrough": "iommu-mode"}
_NOTHING = Request()
_WORKS = ("side-effect", "deprecated")  # kinds of rules on what has an effect
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
    """What is to change on the kernel command line.

    Attributes:
        add: parameters to add.
        remove: parameters to take out.
        uncurable: findings that no parameter cures.
        in_vain: what findings ask for although it stands on the line of the running kernel, and nothing undoes it there.
    """

    add: tuple[Change, ...] = ()
    remove: tuple[Change, ...] = ()
    uncurable: tuple[Uncurable, ...] = ()
    in_vain: tuple[Change, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to change."""
        return not self.add and not self.remove


def wanted(view: View, findings: Sequence[Finding], own: Request = _NOTHING) -> Wanted:
    """What these findings ask for on this host, and what its owner does, who is right where the two differ."""
    environment = view.host.environment
    edit = _Edit(view.host.boot.parameters)
    is_judged = not environment.is_guest and not environment.container
    for finding in findings if is_judged else ():
        for remedy in finding.remedies:
            _apply(view, finding, remedy, edit)
    _follow(own, edit)
    for parameter in list(edit.add):
        _clear_the_way(parameter, edit)
    uncurable = tuple(_uncurable(findings, edit)) if is_judged else ()
    return Wanted(edit.added(), tuple(edit.removed().values()), uncurable, edit.in_vain())


def undo_each_other(own: Request) -> tuple[str, str] | None:
    """Two of the owner's wishes of which the second undoes the first."""
    for number, text in enumerate(own.add):
        if any(same(text, each) for each in own.remove):
            return f"--add {text}", f"--remove {text}"
        for other in own.add[:number]:
            if (ours := _way(text)) and (theirs := _way(other)) and ours[0] == theirs[0] and ours != theirs:
                return f"--add {other}", f"--add {text}"
    return None


class _Edit:
    """What is asked of one kernel command line.

    A parameter can be a list, of which several findings want single elements out, so what is left of it is worked out once,
    at the end.
    """

    def __init__(self, line: Sequence[Parameter]) -> None:
        self.line = line
        self.add: dict[str, Change] = {}
        self._gone: dict[str, dict[str, Change]] = {}  # by the text of the parameter, then by the element
        self._own: dict[str, Change] = {}  # what the owner adds, on the line or not
        self._elsewhere: dict[str, Change] = {}  # what the owner takes out and is not on the line

    def want(self, text: str, finding: Finding, remedy: str) -> None:
        """Note that a finding asks for a parameter."""
        self.add[text] = _joined(self.add.get(text), change_of(text, finding, remedy))

    def drop(self, parameter: Parameter, element: str, change: Change) -> None:
        """Note that an element of a parameter on the line is to go."""
        gone = self._gone.setdefault(parameter.text, {})
        gone[element] = _joined(gone.get(element), change)

    def take_out(self, text: str) -> None:
        """Note that the owner takes out a parameter, or one element of a list."""
        change = Change(text, ("--remove",), "asked for with --remove")
        for each in [each for each in self.add if same(each, text)]:
            del self.add[each]
        wholes = [parameter for parameter in self.line if same(parameter.text, text)]
        found = [(parameter, element) for parameter in wholes for element in _elements(parameter)]
        name, _, wanted_out = text.partition("=")
        found = found or [
            (parameter, element)
            for parameter in self.line
            for element in _elements(parameter)
            if parameter.key == name.replace("-", "_") and element == wanted_out
        ]
        for parameter, element in found:
            self.drop(parameter, element, change)
        if not found:
            self._elsewhere[text] = change

    def put(self, text: str) -> None:
        """Note that the owner adds a parameter: it takes the place of what findings ask for in the same matter."""
        for each in [each for each in self.add if _sets_the_same(each, text)]:
            del self.add[each]
        self._gone = {each: gone for each, gone in self._gone.items() if not same(each, text)}
        change = Change(text, ("--add",), "asked for with --add", verify="it is in /proc/cmdline")
        self._own[text] = self.add[text] = _joined(self.add.get(text), change)

    def in_vain(self) -> tuple[Change, ...]:
        """What findings ask for and is in force; that something takes the place of another says nothing of it."""
        line = [parameter.text for parameter in self.line]
        return tuple(
            change
            for text, change in self.add.items()
            if text not in self._own
            and stands(line, text)
            and not all(each.startswith("kernel-parameters ") for each in change.because)
        )

    def _left(self) -> list[str]:
        """The line without what is to go."""
        removed = self.removed()
        return [parameter.text for parameter in self.line if parameter.text not in removed]

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
        return {**found, **self._elsewhere}

    def added(self) -> tuple[Change, ...]:
        """The parameters to add: what is left of lists, then what was asked for, since the kernel keeps what comes last."""
        removed, found = self.removed(), dict[str, Change]()
        for parameter in self.line:
            left = [each for each in _elements(parameter) if each not in self._gone.get(parameter.text, {})]
            if parameter.text in removed and left:
                text = f"{parameter.name}={','.join(left)}"
                found[text] = msgspec.structs.replace(removed[parameter.text], parameter=text)
        line = self._left()
        return tuple(change for text, change in {**found, **self.add}.items() if text in self._own or not stands(line, text))


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
    elif remedy == "iommu-passthrough":
        edit.want(passthrough(view.host), finding, remedy)
    elif change.parameter:
        edit.want(change.parameter, finding, remedy)


def _lint(finding: Finding, remedy: str, edit: _Edit) -> None:
    """Take out what a finding of kernel-parameters names: the whole parameter, or one element of its list."""
    replacement = _replacement(finding) if remedy == "replace-parameter" else ""
    if remedy == "replace-parameter" and not replacement:
        return  # what was meant is for its owner to say
    if finding.outcome == "info" and any(rule.kind in _WORKS for rule in _rules(finding)):
        return  # it does something, and who set it may need that
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


def _rules(finding: Finding) -> list[Rule]:
    """The rules on the parameter that a finding is about."""
    name, _, element = finding.subject[0].partition("=")
    rules = knowledge.load_kernel_parameters().rule
    return [rule for rule in rules if rule.parameter == name.replace("-", "_") and rule.matches(element)]


def _replacement(finding: Finding) -> str:
    replaces = (rule.remedy for rule in _rules(finding) if rule.remedy.startswith("replace:"))
    return next(replaces, "").removeprefix("replace:")


def _acs(view: View, finding: Finding, edit: _Edit) -> None:
    """Clear the redirect bits of exactly the bridges that the finding names."""
    from hostdoctor.acs import clearing  # noqa: PLC0415  few hosts have it

    bridges = [view.topology.functions[address] for address in finding.subject if address in view.topology.functions]
    option = clearing(view, bridges)
    for old in () if option.changes_nothing else option.replaces:
        _drop(f"pci={old}", finding, "acs-clear-redirect", edit)
    edit.want(f"pci={option.text}", finding, "acs-clear-redirect")


def _clear_the_way(wanted_text: str, edit: _Edit) -> None:
    """Take out what sets the same thing another way, in whatever spelling and list it stands."""
    tables = knowledge.load_kernel_parameters()
    ours = _way(wanted_text)
    if ours is None:
        return
    for parameter in edit.line:
        described = tables.by_name.get(parameter.key)
        for element in _elements(parameter):
            way = ours[0].way(f"{parameter.key}={described.meaning(element) if described else element}")
            if way and way != ours[1]:
                change = edit.add[wanted_text]
                edit.drop(parameter, element, msgspec.structs.replace(change, parameter=parameter.text, risk="", verify=""))


def _follow(own: Request, edit: _Edit) -> None:
    for text in own.remove:
        edit.take_out(text)
    for text in own.add:
        edit.put(text)


def same(text: str, other: str) -> bool:
    """Whether two texts are one parameter, however it is quoted and with - or _ in its name."""
    return _identity(text) == _identity(other)


def _identity(text: str) -> tuple[str, str | None]:
    parameters, _ = parse_command_line(text)
    return (parameters[0].key, parameters[0].value) if parameters else (text, None)


def _sets_the_same(text: str, other: str) -> bool:
    """Whether of two parameters only one can count: they set one thing, or the kernel keeps one list only."""
    ours, theirs = _way(text), _way(other)
    if ours and theirs and ours[0] == theirs[0]:
        return True
    lists = [
        {
            (once.parameter, once.element)
            for once in knowledge.load_kernel_parameters().last_wins
            if once.is_in(*_identity(each))
        }
        for each in (text, other)
    ]
    return bool(lists[0] & lists[1])


def _way(text: str) -> tuple[Setting, str] | None:
    """What a parameter sets that others set too, and how."""
    name, value = _identity(text)
    described = knowledge.load_kernel_parameters().by_name.get(name)
    spelled = f"{name}={described.meaning(value or '') if described else value}"
    settings = knowledge.load_kernel_parameters().settings
    return next(((setting, way) for setting in settings if (way := setting.way(spelled))), None)


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
