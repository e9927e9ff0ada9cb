"""What all patches for GRUB have in common: the line of the next start, what is left to run, and the way back."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hostdoctor.facts.boot_files import BootFiles, Entry, Parameter
from hostdoctor.facts.unknown import Unknown
from hostdoctor.parameters import is_of_boot_process
from hostdoctor.parsers.cmdline import parse_command_line
from hostdoctor.readers.boot_loader import Files
from hostdoctor.remedies.grub_line import DEFAULT, changed, check_in_force, check_length, meaning, meanings
from hostdoctor.remedies.patch import OF_LOADER, FileChange, Patch, Request

_OF_GRUB = frozenset(("root", "ro", "rw", "rootflags", "rootfstype"))  # what 10_linux itself writes before the variables
RECOVERY = "The entry for recovery mode, under Advanced options, starts without what is added here."


class Task(msgspec.Struct, frozen=True):
    """What a writer is given: what is wanted, the host's files, what was read of them, and the running kernel's line."""

    request: Request
    files: Files
    boot: BootFiles
    running: str | Unknown

    @property
    def running_texts(self) -> list[str] | None:
        """The running kernel's parameters; None where they are not known."""
        return None if isinstance(self.running, Unknown) else [each.text for each in parse_command_line(self.running)[0]]


class Grub(msgspec.Struct, frozen=True):
    """A distribution's GRUB.

    Attributes:
        make: the command that makes its configuration again.
        grub_cfg: where that is written.
        bash: whether sh is bash there, where the evidence does not show it.
        variable: where parameters go.
        recovery: a sentence on the entry that starts without them, or empty.
        notes: what its owners should know of every change.
    """

    make: str
    grub_cfg: str
    bash: bool = True
    variable: str = DEFAULT
    recovery: str = ""
    notes: tuple[str, ...] = ()


class Outcome(msgspec.Struct, frozen=True):
    """What changing GRUB's files comes to.

    Attributes:
        changes: the files.
        before: the parameters that the files give today, in order; None where that is not known.
        after: what they give then.
        revert: how to take the files back, before GRUB's configuration is made again.
        recovery: a sentence on the entry that starts without what is added, or empty.
        notes: what its owner should know besides.
    """

    changes: tuple[FileChange, ...]
    before: Sequence[str] | None
    after: Sequence[str] | None
    revert: tuple[str, ...] = ()
    recovery: str = ""
    notes: tuple[str, ...] = ()


def next_entry(boot: BootFiles) -> Entry | None:
    """The generated entry that the next start takes, as far as it shows."""
    entries = () if isinstance(boot.entries, Unknown) else boot.entries
    normal = [entry for entry in entries if entry.standard and not entry.recovery]
    return next((entry for entry in normal if entry.is_next), normal[0] if normal else None)


def next_line(task: Task, before: Sequence[str] | None, after: Sequence[str] | None) -> list[str]:
    """The kernel's parameters at the next start, as far as they can be told, from what the files give before and after."""
    base = base_line(task)
    if before is None or after is None:
        return changed(base, task.request)
    place = _place(base, before)
    if place is not None:
        return [*base[:place], *after, *(text for text in base[place + len(before) :] if _is_of_boot_process(text))]
    head: list[str] = []
    for text in base:
        if meaning(text)[0] not in _OF_GRUB:
            break
        head.append(text)
    return [*head, *after]


def _is_of_boot_process(text: str) -> bool:
    """Whether GRUB's scripts may have written it behind the variables by themselves (vt.handoff)."""
    return all(is_of_boot_process(each) for each in parse_command_line(text)[0])


def _left_out(task: Task, line: Sequence[str]) -> list[str]:
    """What is on the line today, stands in no file, and is gone once the configuration is made again."""
    there = meanings([*line, *task.request.remove])
    return [text for text in base_line(task) if meaning(text) not in there and not _is_of_boot_process(text)]


def base_line(task: Task) -> list[str]:
    """The line of the next start as things stand, without what the loader itself adds."""
    entry = next_entry(task.boot)
    parameters: Sequence[Parameter] = ()
    if entry is not None:
        parameters = entry.parameters
    elif not isinstance(task.running, Unknown):
        parameters = parse_command_line(task.running)[0]
    return [each.text for each in parameters if each.name not in OF_LOADER]


def _place(base: Sequence[str], part: Sequence[str]) -> int | None:
    """Where a part of a line begins in it."""
    of_base, of_part = [meaning(each) for each in base], [meaning(each) for each in part]
    if not part:
        return None
    starts = range(len(base) - len(part), -1, -1)
    return next((start for start in starts if of_base[start : start + len(part)] == of_part), None)


def is_there(line: Sequence[str], request: Request) -> bool:
    """Whether a line has all that is to be added, and nothing that is to go."""
    there = meanings(line)
    return meanings(request.add) <= there and not meanings(request.remove) & there


def finished(task: Task, grub: Grub, outcome: Outcome) -> Patch:
    """The patch, with the commands that are left to run: none where the generated entry holds the line already."""
    line = next_line(task, outcome.before, outcome.after)
    check_length(line)
    check_in_force(line, task.request)
    entry, running = next_entry(task.boot), task.running_texts
    made = entry is not None and is_there([each.text for each in entry.parameters], task.request)
    runs = running is not None and is_there(running, task.request)
    changes = outcome.changes
    commands = () if not changes and (made or (runs and entry is None)) else (grub.make,)
    notes = list(outcome.notes)
    if not changes and commands:
        notes.insert(0, "The files hold all of it already; what GRUB starts from was not made from them since.")
    elif not changes and not runs:
        notes.insert(0, "All of it is in place already: only a restart is missing.")
    if commands and outcome.before is not None and (lost := _left_out(task, line)):
        notes.append(
            f"{grub.make.split()[0]} leaves out what is on the line today and in none of these files: {_listed(lost)}. "
            "To keep it, give it with --add."
        )
    return Patch(
        files=changes,
        commands=commands,
        result=" ".join(line),
        show=f"grep -m1 -E '^[[:space:]]*linux' {grub.grub_cfg}",
        revert=(*outcome.revert, grub.make) if changes else (),
        once_without=once_without(effective(task), outcome.recovery),
        notes=tuple(notes),
        reboot=not runs or bool(changes) or bool(commands),
    )


def effective(task: Task) -> Request:
    """What of the request changes the line that the host was started with: the rest is no step on the way back."""
    line = task.running_texts
    there = meanings(base_line(task) if line is None else line)
    add = tuple(each for each in task.request.add if meaning(each) not in there)
    remove = tuple(each for each in task.request.remove if meaning(each) in there)
    return Request(add, remove) if add or remove else task.request


def once_without(request: Request, recovery: str = "") -> str:
    """How to start once as if nothing had been changed."""
    steps = []
    if request.add:
        steps.append(f"delete {_listed(request.add)} from the line that begins with linux")
    if request.remove:
        where = "into that line" if request.add else "into the line that begins with linux"
        steps.append(f"write {_listed(request.remove)} {where}")
    what = ", ".join(steps) or "change the line that begins with linux"
    text = (
        "While the host starts, hold Shift (BIOS) or press Esc (UEFI) for GRUB's menu, press e on the entry, "
        f"{what}, and press Ctrl-x: this holds for that start alone."
    )
    return f"{text} {recovery}".strip()


def _listed(texts: Sequence[str]) -> str:
    return " and ".join(texts)
