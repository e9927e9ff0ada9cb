"""What the files have in common that a boot loader reads itself: nothing is to be run, the next start takes the change."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hostdoctor.facts.boot_files import BootFiles
from hostdoctor.facts.unknown import Unknown
from hostdoctor.readers.boot_loader import Files
from hostdoctor.remedies import kernel_line
from hostdoctor.remedies.patch import TAKE_BACK, FileChange, Patch, Refused, Request

MENU = "Hold the space bar while the host starts, press e at the entry, undo the change on the line and press Enter."


class Edit(msgspec.Struct, frozen=True):
    """A file with a kernel line in it.

    Attributes:
        change: the file.
        base: the pieces of the line as they stand.
        result: the same after the change.
    """

    change: FileChange
    base: Sequence[str]
    result: Sequence[str]


class Words(msgspec.Struct, frozen=True):
    """What there is to say and to run beside the file; as in Patch."""

    show: str
    once_without: str
    notes: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


def patch_of(request: Request, running: str | Unknown, edit: Edit, words: Words) -> Patch:
    """The patch; without anything to do where the file and the running kernel have it all."""
    path = edit.change.path
    kernel_line.refuse_other_root(kernel_line.joined(edit.base), running, path)
    line = kernel_line.joined(edit.result)
    changes = not kernel_line.is_same(edit.base, edit.result)
    if not changes and kernel_line.is_in_force(request, running):
        return Patch(result=line, show=words.show, reboot=False)
    notes = [*words.notes] if changes else [kernel_line.waits(path)]
    return Patch(
        files=(edit.change,) if changes else (),
        commands=words.commands,
        result=line,
        show=words.show,
        revert=(TAKE_BACK, *words.commands) if changes else (),
        once_without=words.once_without,
        notes=(*notes, *kernel_line.not_found_notes(edit.base, request, path)),
    )


def text_of(files: Files, path: str, manual: str, *, ends_with_cr: bool = False) -> str:
    """A file that must be there."""
    text = kernel_line.read_text(files, path, manual, ends_with_cr=ends_with_cr)
    if text is None:
        raise Refused(f"there is no /{path}", manual)
    return text


def loader_of(boot: BootFiles) -> str:
    """The name of the loader that governs."""
    return "" if isinstance(boot.loader, Unknown) else boot.loader.name
