"""Options and errors that the commands which read a host share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from hostdoctor.evidence import Evidence, Unreadable
from hostdoctor.evidence.files import FileEvidence

if TYPE_CHECKING:
    from hostdoctor.evidence.attached import Attached
    from hostdoctor.evidence.capture import Capture, CaptureEvidence
    from hostdoctor.evidence.recording import Record
    from hostdoctor.facts.host import Host
    from hostdoctor.readers.attached import Pasted
    from hostdoctor.readers.boot_loader import Files as BootFileReader
    from hostdoctor.report.model import Sources

F = TypeVar("F", bound=Callable[..., Any])

# Where hardware evidence begins: a folder with neither is no host.
_PARTS = ("sys", "proc")
_WHAT_CAN_BE = "Attach what lspci -vvv, dmesg or the GPUs' tools print"
_GZIP = b"\x1f\x8b\x08"
_HEAD_BYTES = 4096
_CAPTURE_LIMIT = 128 << 20
_SHORTEST_S, _LONGEST_S = 0.1, 86_400.0


def fail(message: str) -> NoReturn:
    """End with one line on standard error and the code for "could not be done"."""
    from hostdoctor.report.phrases import safe  # noqa: PLC0415  it costs time that only this way out needs

    click.echo(f"hostdoctor: {safe(message)}", err=True)
    sys.exit(3)


def warn(message: str) -> None:
    """One line on standard error; the command goes on."""
    from hostdoctor.report.phrases import safe  # noqa: PLC0415  as above

    click.echo(f"hostdoctor: {safe(message)}", err=True)


def write(data: bytes, output: str | None, at_once: bool = False) -> None:
    """Write to a file, or to standard output where none, or "-", is named; ends the program where that fails.

    With `at_once` whoever reads the file never finds half of it.
    """
    if output is None or output == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        if at_once and (os.path.isfile(output) or not os.path.lexists(output)):
            from hostdoctor import atomic  # noqa: PLC0415  few reports need it

            atomic.write(output, data, 0o644)
            return
        with open(output, "wb") as file:
            file.write(data)
    except OSError as error:
        fail(f"{output}: {error.strerror}")


def _deadline(_context: click.Context, _option: click.Parameter, value: float) -> float:
    if not _SHORTEST_S <= value <= _LONGEST_S:  # what is no number compares false
        raise click.BadParameter(f"{value:g} is not between {_SHORTEST_S:g} and {_LONGEST_S:g} seconds")
    return value


def evidence_options(command: F) -> F:
    """PATH, --root and the options of reading and judging."""
    return reading_options(
        click.option("--assume-bare-metal", is_flag=True, help="Judge a guest as if what it sees were hardware.")(command)
    )


def reading_options(command: F) -> F:
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
        )
    ):
        command = option(command)
    return command


def open_evidence(root: str | None, paths: Sequence[str], beside: Sequence[str] = ()) -> Opened:
    """This host, the tree or capture that was named, or attachments; ends the program where there is nothing to read.

    Args:
        root: the tree named by --root.
        paths: trees, captures and attachments.
        beside: attachments that belong to this host where nothing else is named.
    """
    if root is not None and _is_sosreport(root):  # it holds no whole tree, but what commands printed
        paths, root = [root, *paths], None
    for path in (*paths, *beside):
        if path != "-" and not os.path.lexists(path):
            fail(f"{path}: there is no such file or folder")
    given = {"-": _standard_input()} if "-" in (*paths, *beside) else {}
    captures = {path: found for path in ([root] if root else []) + [*paths] if (found := _capture(path, given))}
    trees = [path for path in ([root] if root is not None else []) if path not in captures]
    trees += [path for path in paths if path not in captures and _is_tree(path)]
    attached = [*(path for path in paths if path not in captures and not _is_tree(path)), *beside]
    if len(trees) + len(captures) > 1:
        fail("one host at a time: " + ", ".join((*trees, *captures)))
    if captures:
        ((path, capture),) = captures.items()
        return Opened(capture.evidence if capture.has_host else None, attached, given, capture)
    if trees:
        return Opened(_tree(trees[0]), attached, given)
    return Opened(FileEvidence("/", "live") if len(attached) == len(beside) else None, attached, given)


def _standard_input() -> bytes:
    from hostdoctor.evidence.attached import FILE_LIMIT  # noqa: PLC0415  most scans have no use for it

    try:
        return sys.stdin.buffer.read(FILE_LIMIT + 1)
    except OSError as error:
        fail(f"standard input: {error.strerror}")


def _capture(path: str, given: Mapping[str, bytes]) -> Capture | None:
    """The capture that a file is; None where it is something else."""
    data = given.get(path)
    if data is None:
        data = _start_of_capture(path)
    if not data.startswith(_GZIP):
        return None
    from hostdoctor.evidence.capture import BadCapture, Capture, NoCapture, looks_like_one  # noqa: PLC0415  as above

    if not looks_like_one(data):
        return None
    try:
        if path not in given:
            with open(path, "rb") as file:
                data = file.read(_CAPTURE_LIMIT + 1)
        if len(data) > _CAPTURE_LIMIT:
            fail(f"{path}: it is larger than any capture")
        capture = Capture(data, "standard input" if path == "-" else path)
    except NoCapture:
        return None
    except BadCapture as error:
        fail(f"{path}: a capture that cannot be read: {error}")
    except OSError as error:
        fail(f"{path}: {error.strerror}")
    if capture.trouble:
        warn(f"{path}: {capture.trouble}. What is not in it counts as unknown")
    return capture


def _start_of_capture(path: str) -> bytes:
    """The first bytes of a file; none where it cannot be read, which reading it as an attachment tells."""
    try:
        if os.path.isfile(path):
            with open(path, "rb") as file:
                return file.read(_HEAD_BYTES)
    except OSError:
        pass
    return b""


def _tree(path: str) -> FileEvidence:
    if not _is_tree(path):
        fail(f"{path}: {_why_no_tree(path)}")
    try:
        return FileEvidence(path, "root")
    except Unreadable as error:
        fail(f"{path}: {error.reason}")


class Opened:
    """What a command reads: files of a host, attachments, or both. A context manager that closes them.

    Attributes:
        capture: the capture that it comes from, if it does.
        attached: what was attached, now or when it was captured.
        pasted: the same, taken apart; None where nothing was.
    """

    def __init__(
        self,
        files: FileEvidence | CaptureEvidence | None,
        attached: Sequence[str],
        given: Mapping[str, bytes] | None = None,
        capture: Capture | None = None,
    ) -> None:
        self._closes = files if isinstance(files, FileEvidence) else None
        self._files: Evidence | None = files
        self.capture = capture
        self.attached: Attached | None = None
        self.pasted: Pasted | None = None
        if attached or (capture and (capture.attached.files or capture.attached.unread or files is None)):
            from hostdoctor.evidence.attached import Attached, read_attachments  # noqa: PLC0415  most scans have none
            from hostdoctor.readers.attached import Pasted  # noqa: PLC0415

            found = read_attachments(attached, given)
            if capture:
                found = Attached(capture.attached.files + found.files, capture.attached.unread + found.unread)
            sources = (*(capture.evidence.sources if capture and files is None else ()), *attached)
            self.attached, self.pasted = found, Pasted(found, sources)
            self._check_reports(self.pasted)

    def _check_reports(self, pasted: Pasted) -> None:
        """End the program where there is more than one host to judge."""
        names = [carried.name for carried in pasted.carried]
        if len(names) > len(set(names)) == 1:
            fail(f"one report at a time: {names[0]} holds {len(names)} that differ; `hostdoctor diff` compares two files")
        if len(names) > 1:
            fail(f"one report at a time: {', '.join(names)}; `hostdoctor diff` compares two")
        if names and self._files is not None:
            other = "this host" if self._files.kind == "live" else self._files.sources[0]
            fail(f"one host at a time: {names[0]} is a report with the facts of a host, and {other} is another")

    @property
    def has_files(self) -> bool:
        """Whether there are files of a host, beside what is attached."""
        return self._files is not None

    @property
    def evidence(self) -> Evidence:
        """The files of the host."""
        if self._files is not None:
            return self._files
        assert self.pasted is not None  # noqa: S101  there is one or the other
        return self.pasted.evidence

    def record(self) -> Record | None:
        """From now on keep all that is read of the host's files; None where there are none."""
        if self._files is None:
            return None
        from hostdoctor.evidence.recording import RecordingEvidence  # noqa: PLC0415  only who captures needs it

        recording = RecordingEvidence(self._files)
        self._files = recording
        return recording.record

    def read(self, deadline_s: float, assume_bare_metal: bool) -> Host:
        """All facts of the host; ends the program where nothing could be read."""
        if self.pasted is None:
            from hostdoctor.readers.host import read_host  # noqa: PLC0415  so that wrong usage is told at once

            host = read_host(self.evidence, deadline_s, assume_bare_metal)
            if all(problem is not None for _, _, problem in self.evidence.reads):
                fail(f"{self.evidence.sources[0]}: nothing in it could be read")
            return host
        from hostdoctor.readers.attached import read_attached  # noqa: PLC0415

        if self._files is None and not self.pasted.parts and not self.pasted.carried:
            fail(f"{', '.join(self.pasted.evidence.sources)}: {self._why_nothing()}")
        return read_attached(self.pasted, self._files, deadline_s, assume_bare_metal)

    def boot_files(self) -> BootFileReader:
        """The boot loader's files, of the host's own first."""
        from hostdoctor.readers.boot_loader import Files  # noqa: PLC0415  only who mends needs it

        pasted = [self.pasted.evidence] if self.pasted else []
        return Files([self._files, *pasted] if self._files is not None else pasted)

    def _why_nothing(self) -> str:
        assert self.pasted is not None  # noqa: S101  only attachments can hold nothing
        if self.pasted.refused:
            name, reason = self.pasted.refused[0]
            if self.pasted.json_reports:
                reason += "; `hostdoctor report` renders it, `hostdoctor diff` compares it with another"
            return reason if self.pasted.evidence.sources[0].endswith(name) else f"{name}: {reason}"
        unread = self.pasted.unread
        if not unread:
            return "there is nothing in it"
        return f"nothing in it could be judged; {unread[0][0]}: {unread[0][1]}. {_WHAT_CAN_BE}"

    def sources(self) -> Sources:
        """What was read, for the report."""
        from hostdoctor.report.model import sources_of  # noqa: PLC0415  a cycle of nothing but types

        found = sources_of(self.evidence, self.pasted)
        if not self.capture:
            return found
        return found.of_capture(self.capture.evidence.sources[0], self.capture.trouble)

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        if self._closes is not None:
            self._closes.close()


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
