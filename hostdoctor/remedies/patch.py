"""A change of the kernel command line as a patch of files and commands, for the boot loader that governs.

Every writer below hostdoctor/remedies/loaders has one function:

    def patch(request: Request, files: Files, boot: BootFiles, running: str | Unknown) -> Patch

It reads what it needs through `files`, changes as little as can be, and raises Refused where it does not understand a file
fully. Nothing is written and nothing is run.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

import msgspec

from hostdoctor.parsers.cmdline import parse_command_line

# The way back of what was given to patch as FILE.
TAKE_BACK = "patch -R -p1 -d / < FILE"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# What boot loaders themselves put on the line.
OF_LOADER = frozenset(("BOOT_IMAGE", "initrd"))


class Refused(Exception):
    """Why no patch can be made, and what to do by hand.

    Attributes:
        reason: as a sentence, with the file and line where there is one.
        manual: the manual way, a sentence or two.
    """

    def __init__(self, reason: str, manual: str) -> None:
        super().__init__(reason, manual)
        self.reason = reason
        self.manual = manual


class Request(msgspec.Struct, frozen=True):
    """Parameters to add and to take out, each as the kernel gets it, sound by quoting.is_sound."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


class FileChange(msgspec.Struct, frozen=True):
    """One file; `before` is None for a new one, `after` None for one that goes. The path has its leading slash."""

    path: str
    before: str | None
    after: str | None


class Patch(msgspec.Struct, frozen=True):
    """What to do.

    Attributes:
        files: changed files; empty where a command changes everything.
        commands: what to run as root after the files were changed, in order.
        result: the whole kernel command line of the next start, as far as it can be told.
        show: a command that prints what the next start would get.
        revert: commands that take everything back.
        once_without: how to start once without the change, a sentence.
        notes: what its owner should know besides, a sentence each.
        reboot: whether a restart is needed.
    """

    files: tuple[FileChange, ...] = ()
    commands: tuple[str, ...] = ()
    result: str = ""
    show: str = ""
    revert: tuple[str, ...] = ()
    once_without: str = ""
    notes: tuple[str, ...] = ()
    reboot: bool = True


def diff(changes: Iterable[FileChange]) -> str:
    """A unified diff that `patch -p1` and `git apply` accept, below a/ and b/."""
    return "".join(_diff(change) for change in changes)


def _diff(change: FileChange) -> str:
    path = change.path.lstrip("/")
    before, after = _lines(change.before or ""), _lines(change.after or "")
    ours, theirs = _quoted(f"a/{path}"), _quoted(f"b/{path}")
    end = "\t" if " " in path else ""  # as GNU diff ends a name with blanks, else patch takes its first word
    old = "/dev/null" if change.before is None else ours + end
    new = "/dev/null" if change.after is None else theirs + end
    lines = list(difflib.unified_diff(before, after, old, new))
    if not lines:
        return ""
    head = f"diff --git {ours} {theirs}\n"
    if change.before is None:
        head += "new file mode 100644\n"
    elif change.after is None:
        head += "deleted file mode 100644\n"
    return head + "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _quoted(name: str) -> str:
    """A name as patch and git read it: one with control characters, or a blank at its end, in the quotes of C."""
    if not _CONTROL.search(name) and not name.endswith(" "):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + _CONTROL.sub(lambda sign: f"\\{ord(sign[0]):03o}", escaped) + '"'


def _lines(text: str) -> list[str]:
    """The lines with their ends: only a line feed ends one, as for the tools that read a diff."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def changed_line(line: str, request: Request) -> str:
    """A kernel command line after a change: nothing else moves, and what is added comes before what goes to init."""
    gone = set(request.remove)
    parameters, arguments = parse_command_line(line)
    kept = [each.text for each in parameters if each.text not in gone]
    fresh = [each for each in request.add if each not in kept]
    return " ".join([*kept, *fresh, *(["--", *(each.text for each in arguments)] if arguments else [])])
