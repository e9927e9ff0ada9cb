"""Options and errors that the commands which read a host share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from hostdoctor.evidence import Evidence, Unreadable
from hostdoctor.evidence.files import FileEvidence

if TYPE_CHECKING:
    from hostdoctor.facts.host import Host
    from hostdoctor.readers.attached import Pasted
    from hostdoctor.readers.boot_loader import Files as BootFileReader
    from hostdoctor.report.model import Sources

F = TypeVar("F", bound=Callable[..., Any])

# Where hardware evidence begins: a folder with neither is no host.
_PARTS = ("sys", "proc")
_WHAT_CAN_BE = "Attach what lspci -vvv, dmesg or the GPUs' tools print"
_SHORTEST_S, _LONGEST_S = 0.1, 86_400.0


def fail(message: str) -> NoReturn:
    """End with one line on standard error and the code for "could not be done"."""
    from hostdoctor.report.text import safe  # noqa: PLC0415  rich costs time that only this way out needs

    click.echo(f"hostdoctor: {safe(message)}", err=True)
    sys.exit(3)


def _deadline(_context: click.Context, _option: click.Parameter, value: float) -> float:
    if not _SHORTEST_S <= value <= _LONGEST_S:  # what is no number compares false
        raise click.BadParameter(f"{value:g} is not between {_SHORTEST_S:g} and {_LONGEST_S:g} seconds")
    return value


def evidence_options(command: F) -> F:
    """PATH, --root and the options of reading."""
    for option in reversed(
        (
            click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path()),
            click.option("--from", "attached", multiple=True, metavar="PATH", help="The same as PATH; repeatable."),
            click.option("--root", metavar="DIR", help="Folder that holds another host's sys, proc, etc and boot."),
            click.option(
                "--deadline",
                "deadline_s",
                type=float,
                callback=_deadline,
                default=10.0,
                show_default=True,
                metavar="S",
                help="Seconds that files served by GPU drivers may take.",
            ),
            click.option("--assume-bare-metal", is_flag=True, help="Judge a guest as if what it sees were hardware."),
        )
    ):
        command = option(command)
    return command


def open_evidence(root: str | None, paths: Sequence[str], beside: Sequence[str] = ()) -> Opened:
    """This host, the tree that was named, or attachments; ends the program where there is nothing to read.

    Args:
        root: the tree named by --root.
        paths: trees and attachments.
        beside: attachments that belong to this host where nothing else is named.
    """
    if root is not None and _is_sosreport(root):  # it holds no whole tree, but what commands printed
        paths, root = [root, *paths], None
    named = [] if root is None else [root]
    for path in (*paths, *beside):
        if path != "-" and not os.path.lexists(path):
            fail(f"{path}: there is no such file or folder")
    named += [path for path in paths if _is_tree(path)]
    attached = [*(path for path in paths if not _is_tree(path)), *beside]
    if len(named) > 1:
        fail("one tree at a time: " + ", ".join(named))
    if named:
        return Opened(_tree(named[0]), attached)
    return Opened(FileEvidence("/", "live") if len(attached) == len(beside) else None, attached)


def _tree(path: str) -> FileEvidence:
    if not _is_tree(path):
        fail(f"{path}: {_why_no_tree(path)}")
    try:
        return FileEvidence(path, "root")
    except Unreadable as error:
        fail(f"{path}: {error.reason}")


class Opened:
    """What a command reads: files of a host, attachments, or both. A context manager that closes them."""

    def __init__(self, files: FileEvidence | None, attached: Sequence[str]) -> None:
        self._files = files
        self.pasted: Pasted | None = None
        if attached:
            from hostdoctor.evidence.attached import read_attachments  # noqa: PLC0415  most scans have none
            from hostdoctor.readers.attached import Pasted  # noqa: PLC0415

            self.pasted = Pasted(read_attachments(attached), tuple(attached))

    @property
    def evidence(self) -> Evidence:
        """The files of the host."""
        if self._files is not None:
            return self._files
        assert self.pasted is not None  # noqa: S101  there is one or the other
        return self.pasted.evidence

    def read(self, deadline_s: float, assume_bare_metal: bool) -> Host:
        """All facts of the host; ends the program where nothing could be read."""
        if self.pasted is None:
            from hostdoctor.readers.host import read_host  # noqa: PLC0415  so that wrong usage is told at once

            host = read_host(self.evidence, deadline_s, assume_bare_metal)
            if all(problem is not None for _, _, problem in self.evidence.reads):
                fail(f"{self.evidence.sources[0]}: nothing in it could be read")
            return host
        from hostdoctor.readers.attached import read_attached  # noqa: PLC0415

        if self._files is None and not self.pasted.parts:
            fail(f"{', '.join(self.pasted.evidence.sources)}: {self._why_nothing()}")
        return read_attached(self.pasted, self._files, deadline_s, assume_bare_metal)

    def boot_files(self) -> BootFileReader:
        """The boot loader's files, of the host's tree first."""
        from hostdoctor.readers.boot_loader import Files  # noqa: PLC0415  only who mends needs it

        pasted = [self.pasted.evidence] if self.pasted else []
        return Files([self._files, *pasted] if self._files is not None else pasted)

    def _why_nothing(self) -> str:
        unread = self.pasted.unread if self.pasted else []
        if not unread:
            return "there is nothing in it"
        return f"nothing in it could be judged; {unread[0][0]}: {unread[0][1]}. {_WHAT_CAN_BE}"

    def sources(self) -> Sources:
        """What was read, for the report."""
        from hostdoctor.report.model import sources_of  # noqa: PLC0415  a cycle of nothing but types

        return sources_of(self.evidence, self.pasted)

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        if self._files is not None:
            self._files.__exit__(None, None, None)


def _is_tree(path: str) -> bool:
    return any(os.path.isdir(os.path.join(path, part)) for part in _PARTS) and not _is_sosreport(path)


def _is_sosreport(path: str) -> bool:
    return os.path.isdir(os.path.join(path, "sos_commands"))


def _why_no_tree(path: str) -> str:
    if not os.path.lexists(path):
        return "there is no such folder"
    if not os.path.isdir(path):
        return "not a folder; what can be read here is a folder with another host's sys or proc"
    if not os.access(path, os.R_OK | os.X_OK):
        return "no permission to read it"
    return "neither sys nor proc in it, so there is no host to judge"
