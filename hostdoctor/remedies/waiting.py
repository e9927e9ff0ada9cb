"""What the host's own boot files say, beside what is asked for: what only waits, what is in the way, and what is nowhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from hostdoctor import knowledge
from hostdoctor.facts.boot_files import Parameter
from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import Finding
from hostdoctor.knowledge.kernel import LastWins
from hostdoctor.parameters import does_nothing, is_of_field
from hostdoctor.parsers.cmdline import parse_command_line
from hostdoctor.pending import Comparison
from hostdoctor.remedies.kernel_line import undone_by
from hostdoctor.remedies.wanted import Change, Wanted, same
from hostdoctor.view import View

_PENDING = "kernel-parameters-pending"


def with_waiting(view: View, findings: Sequence[Finding], asked: Wanted) -> Wanted:
    """With what the files hold and does not run: it is carried over, or taken out where it would undo what is asked for."""
    undoing = tuple(_undoing(view, asked))
    asked = _with_lists(view, msgspec.structs.replace(asked, remove=(*asked.remove, *undoing)))
    return msgspec.structs.replace(asked, add=(*asked.add, *_not_made(view, findings, asked)))


def _undoing(view: View, asked: Wanted) -> Iterator[Change]:
    """What the files set another way than is asked for, and does not run yet."""
    named = {each.parameter for each in (*asked.add, *asked.remove)}
    for parameter in _configured(view):
        for change in asked.add:
            if parameter.text not in named and undone_by([parameter.text], change.parameter):
                named.add(parameter.text)
                yield msgspec.structs.replace(change, parameter=parameter.text, risk="", verify="")


def _with_lists(view: View, asked: Wanted) -> Wanted:
    """One list where the files hold another of which the kernel would keep the last alone: ours come first in it."""
    named = {each.parameter for each in (*asked.add, *asked.remove)}
    add, remove = list(asked.add), list(asked.remove)
    for parameter in _configured(view):
        for number, change in enumerate(add):
            once = _list_in_both(parameter, change.parameter)
            if once is None or parameter.text in named:
                continue
            named.add(parameter.text)
            ours, theirs = change.parameter.partition("=")[2].split(","), (parameter.value or "").split(",")
            joined = _joined(ours, theirs, once)
            if _devices(joined, once).keys() == _devices(theirs, once).keys():
                add[number] = msgspec.structs.replace(change, parameter=parameter.text)  # it has all of ours
                break
            add[number] = msgspec.structs.replace(change, parameter=f"{parameter.name}={','.join(joined)}")
            remove.append(msgspec.structs.replace(change, parameter=parameter.text, risk="", verify=""))
            if left := [each for each in theirs if not each.startswith(once.element)]:
                add.insert(number, msgspec.structs.replace(remove[-1], parameter=f"{parameter.name}={','.join(left)}"))
            break
    return msgspec.structs.replace(asked, add=tuple(add), remove=tuple(remove))


def _list_in_both(parameter: Parameter, text: str) -> LastWins | None:
    """The list that both give."""
    others = parse_command_line(text)[0]
    lists = knowledge.load_kernel_parameters().last_wins
    return next(
        (
            once
            for once in lists
            if once.is_in(parameter.key, parameter.value) and any(once.is_in(each.key, each.value) for each in others)
        ),
        None,
    )


def _joined(ours: Iterable[str], theirs: Iterable[str], once: LastWins) -> list[str]:
    """The elements of ours, the list with what theirs holds besides."""
    merged = f"{once.element}{';'.join({**_devices(ours, once), **_devices(theirs, once)})}"
    return [merged if part.startswith(once.element) else part for part in ours]


def _devices(elements: Iterable[str], once: LastWins) -> dict[str, None]:
    """The entries of the lists among some elements, each once, in order."""
    lists = (each.removeprefix(once.element) for each in elements if each.startswith(once.element))
    return dict.fromkeys(entry for each in lists for entry in each.split(";") if entry)


def _not_made(view: View, findings: Sequence[Finding], asked: Wanted) -> Iterator[Change]:
    """What stands in the governing loader's files already, does something, and only waits for its command."""
    files = view.host.boot_files
    loud = [each for each in findings if each.check == _PENDING and each.outcome == "warning"]
    if not loud or isinstance(files.loader, Unknown):
        return
    named = {each.parameter for each in (*asked.add, *asked.remove)}
    for file, waiting in Comparison(files, files.loader, view.host.boot).by_file().items():
        for placed in (*waiting.not_made, *waiting.not_started):
            parameter = placed.parameter
            if parameter.text in named or not is_of_field(parameter) or does_nothing(parameter, view.host.cpu):
                continue
            named.add(parameter.text)
            yield Change(parameter.text, (f"{_PENDING} {file}",), f"it stands in {file} and does not run")


def without_absent(view: View, asked: Wanted) -> tuple[Wanted, tuple[str, ...]]:
    """Without what the owner wants to take out and stands nowhere, and a note on each of these."""
    there = [*view.host.boot.parameters, *_configured(view), *_of_entries(view)]
    absent = [
        each.parameter
        for each in asked.remove
        if each.because == ("--remove",) and not any(same(each.parameter, parameter.text) for parameter in there)
    ]
    kept = tuple(each for each in asked.remove if each.parameter not in absent)
    return msgspec.structs.replace(asked, remove=kept), tuple(_nowhere(each, there) for each in absent)


def _nowhere(text: str, there: Iterable[Parameter]) -> str:
    name = text.partition("=")[0].replace("-", "_")
    others = dict.fromkeys(each.text for each in there if each.key == name)
    hint = f" There is {' '.join(others)}: name one of these whole." if others else ""
    return f"{text} is neither on the kernel command line nor in the boot files that are known: nothing to take out.{hint}"


def _configured(view: View) -> list[Parameter]:
    configured = view.host.boot_files.configured
    return [each.parameter for each in configured.parameters] if configured else []


def _of_entries(view: View) -> list[Parameter]:
    entries = view.host.boot_files.entries
    return [] if isinstance(entries, Unknown) else [parameter for entry in entries for parameter in entry.parameters]
