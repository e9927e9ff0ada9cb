"""What the host's own boot files say, beside what is asked for: what only waits, what is in the way, and what is nowhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from hostdoctor.facts.boot_files import Parameter
from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import Finding
from hostdoctor.parameters import does_nothing, is_of_field
from hostdoctor.pending import Comparison
from hostdoctor.remedies.kernel_line import undone_by
from hostdoctor.remedies.wanted import Change, Wanted, same
from hostdoctor.view import View

_PENDING = "kernel-parameters-pending"


def with_waiting(view: View, findings: Sequence[Finding], asked: Wanted) -> Wanted:
    """With what the files hold and does not run: it is carried over, or taken out where it would undo what is asked for."""
    undoing = tuple(_undoing(view, asked))
    asked = msgspec.structs.replace(asked, remove=(*asked.remove, *undoing))
    return msgspec.structs.replace(asked, add=(*asked.add, *_not_made(view, findings, asked)))


def _undoing(view: View, asked: Wanted) -> Iterator[Change]:
    """What the files set another way than is asked for, and does not run yet."""
    named = {each.parameter for each in (*asked.add, *asked.remove)}
    for parameter in _configured(view):
        for change in asked.add:
            if parameter.text not in named and undone_by([parameter.text], change.parameter):
                named.add(parameter.text)
                yield msgspec.structs.replace(change, parameter=parameter.text, risk="", verify="")


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
