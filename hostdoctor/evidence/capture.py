"""Reads a capture: the answers that a host gave when it was captured, to whoever asks the same.

It can come from a stranger: nothing is written to disk, sizes have limits, and paths are keys of tables that lead nowhere.
Of a capture that was cut, what is missing is unknown, never absent.
"""

from __future__ import annotations

import zlib
from typing import Literal, NoReturn, TypeVar

import msgspec

from hostdoctor.evidence.archives import Limits, TarFiles, decompressed_gzip
from hostdoctor.evidence.attached import Attached, Attachment
from hostdoctor.evidence.capture_format import (
    FILES,
    LOG,
    MANIFEST,
    SCHEMA,
    AccessSaid,
    AmdSmiSaid,
    AttachedTable,
    FailureRow,
    Manifest,
    NvmlSaid,
    path_of,
)
from hostdoctor.evidence.protocol import ATTRIBUTE_LIMIT, FILE_LIMIT, Directory, Opened, Problem, Read, Unreadable
from hostdoctor.evidence.recording import Failure
from hostdoctor.facts.answers import Answers
from hostdoctor.facts.unknown import ANOTHER_USER, Unknown

T = TypeVar("T")

MAGIC = b"\x1f\x8b\x08"
HEAD_BYTES = 4096  # enough of a file to see whether it is a capture
_TOTAL_LIMIT = 256 << 20
_MOST_MEMBERS = 500_000
_TABLE_LIMIT = 32 << 20  # ten thousand functions fill a quarter of it
_TAR_MAGIC_AT = 257

# These come first; a capture that was cut before its end is read as far as it goes, but not without them.
_TABLES = ("links.json", "listings.json", "folders.json", "pieces.json", "errors.json")


class NoCapture(Exception):
    """It is another kind of file."""


class BadCapture(Exception):
    """A capture that cannot be read, and why, as the end of a sentence."""


def looks_like_one(head: bytes) -> bool:
    """Whether a file that begins like this may be a capture: a gzipped tar whose first member is the manifest."""
    if not head.startswith(MAGIC):
        return False
    try:
        start = zlib.decompressobj(wbits=31).decompress(head[:HEAD_BYTES], 512)
    except zlib.error:
        return False
    return start.startswith(MANIFEST.encode() + b"\0") and start[_TAR_MAGIC_AT : _TAR_MAGIC_AT + 5] == b"ustar"


class Capture:
    """All that a capture holds.

    Attributes:
        manifest: what it is of.
        evidence: the host's files.
        attached: what was attached when it was made, and the kernel's log.
        trouble: why it could not be read to its end, or empty.
    """

    def __init__(self, data: bytes, source: str) -> None:
        """Unpack it.

        Args:
            data: the whole file.
            source: how people know it.

        Raises:
            NoCapture: it is none.
            BadCapture: it is damaged, or of a version that cannot be read.
        """
        unpacked, cut = decompressed_gzip(data, Limits(_TOTAL_LIMIT, 0))
        members = TarFiles(unpacked, _MOST_MEMBERS)
        name, content = next(members, ("", b""))
        self.manifest = _manifest(name, content)
        found = dict(members)
        self.trouble = cut or members.trouble
        lacking = next((each for each in _TABLES if each not in found), "")
        if lacking:
            raise BadCapture(f"it is cut or damaged: {self.trouble or f'{lacking} is missing'}")
        self.attached = _attached(found)
        is_live = self.manifest.origin == "live"
        answers = _answers(found, Unknown("the capture is cut") if self.trouble else None) if is_live else None
        self.evidence = CaptureEvidence(_Tables(found, bool(self.trouble)), source, is_live and not self.trouble, answers)

    @property
    def has_host(self) -> bool:
        """Whether it holds a host's files, and not attachments alone."""
        return self.manifest.origin != "attachments"


def _manifest(name: str, content: bytes) -> Manifest:
    if name != MANIFEST:
        raise NoCapture
    try:
        known = msgspec.json.decode(content, type=_Identity)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise NoCapture from None
    if known.tool.name != "hostdoctor":
        raise NoCapture
    if known.schema != SCHEMA:
        made = f"hostdoctor {known.tool.version[:20]}" if known.tool.version else "another hostdoctor"
        raise BadCapture(f"it is of schema {known.schema}, made by {made}; this version reads schema {SCHEMA}")
    return _decoded(content, Manifest, MANIFEST)


class _IdentityTool(msgspec.Struct):
    name: str = ""
    version: str = ""


class _Identity(msgspec.Struct):
    schema: int
    tool: _IdentityTool


def _decoded(content: bytes, type_: type[T], name: str) -> T:
    if len(content) > _TABLE_LIMIT:
        raise BadCapture(f"{name} in it is larger than any")
    try:
        return msgspec.json.decode(content, type=type_)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise BadCapture(f"{name} in it is damaged") from None


def _attached(found: dict[str, bytes]) -> Attached:
    table = AttachedTable()
    if "attachments.json" in found:
        table = _decoded(found["attachments.json"], AttachedTable, "attachments.json")
    files, unread = [], list(table.unread)
    for each in table.files:
        if each.member in found:
            files.append(Attachment(each.name, each.path, found[each.member].decode("utf-8", "replace")))
        else:
            unread.append((each.name, "it is not in the capture, which is cut"))
    if LOG in found:
        files.append(Attachment(LOG, "", found[LOG].decode("utf-8", "replace")))
    return Attached(tuple(files), tuple(unread))


def _answers(found: dict[str, bytes], lost: Unknown | None) -> Answers:
    """What no file tells; what is not there for a reason is that."""
    nvml = _said(found, "nvml", NvmlSaid(refusal=lost))
    amd_smi = _said(found, "amd_smi", AmdSmiSaid(refusal=lost))
    access = _said(found, "access", AccessSaid(refusal=lost))
    speeds = _decoded(found.get("facts/speeds.json", b"{}"), dict[str, int], "facts/speeds.json")
    return Answers(
        nvml.refusal or nvml.answer,
        amd_smi.refusal or amd_smi.answer,
        access.refusal or access.answer or ANOTHER_USER,
        speeds,
    )


def _said(found: dict[str, bytes], name: str, nothing: T) -> T:
    member = f"facts/{name}.json"
    return _decoded(found[member], type(nothing), member) if member in found else nothing


class _Tables:
    """The answers by path, and why there is none."""

    def __init__(self, found: dict[str, bytes], is_cut: bool) -> None:
        self.files = {path_of(name): data for name, data in found.items() if name.startswith(FILES)}
        self.links: dict[str, str] = _decoded(found["links.json"], dict[str, str], "links.json")
        self.listings: dict[str, list[str]] = _decoded(found["listings.json"], dict[str, list[str]], "listings.json")
        entered = _decoded(found["folders.json"], list[str], "folders.json")
        pieces = _decoded(found["pieces.json"], dict[str, list[tuple[int, int, int]]], "pieces.json")
        self.pieces = {path: {(offset, size): given for offset, size, given in rows} for path, rows in pieces.items()}
        # Guarded children walk another way to the same files: what holds something is a folder.
        known = (self.files, self.links, self.listings, self.pieces)
        self.folders = {*entered, *self.listings, *(path.rpartition("/")[0] for table in known for path in table)}
        self._failures = _failures(_decoded(found["errors.json"], list[FailureRow], "errors.json"))
        self._is_cut = is_cut

    def fail(self, verb: str, path: str) -> NoReturn:
        """Raise why a path has no answer: it had none, or nobody asked."""
        failure = self._failures.get((verb, path))
        if failure:
            raise Unreadable(failure.path or path, failure.problem, failure.detail)
        if self._is_cut:
            raise Unreadable(path, "failed", "the capture is cut")
        raise Unreadable(path, "unrecorded")

    def failed(self, verb: str, path: str) -> bool:
        """Whether there was no answer."""
        return (verb, path) in self._failures


def _failures(rows: list[FailureRow]) -> dict[tuple[str, str], Failure]:
    found = {}
    for row in rows:
        for each in row.paths:
            path, other = (each, "") if isinstance(each, str) else ((*each, "", "")[0], (*each, "", "")[1])
            found[row.verb, path] = Failure(row.problem, row.detail, other)
    return found


class _File:
    """A file that was read in pieces."""

    def __init__(self, tables: _Tables, path: str) -> None:
        self._tables = tables
        self._path = path

    def read_at(self, offset: int, size: int) -> bytes:
        """See Opened: the same pieces as were read then; others are not in the capture."""
        given = self._tables.pieces[self._path].get((offset, size))
        if given is None or self._path not in self._tables.files:
            self._tables.fail("at", self._path)
        return self._tables.files[self._path][max(0, offset) : max(0, offset) + max(0, given)]

    def close(self) -> None:
        """Nothing is held."""


class _Folder:
    """A folder."""

    __slots__ = ("_evidence", "path")

    def __init__(self, evidence: CaptureEvidence, path: str) -> None:
        self._evidence = evidence
        self.path = path

    def read(self, name: str, limit: int = ATTRIBUTE_LIMIT) -> bytes:
        """See Directory."""
        return self._evidence.read_in(self.path, name, limit)

    def link(self, name: str) -> str:
        """See Directory."""
        return self._evidence.link(f"{self.path}/{name}")

    def names(self, name: str = ".") -> list[str]:
        """See Directory."""
        return self._evidence.names(self.path if name == "." else f"{self.path}/{name}")

    def open(self, name: str) -> Opened:
        """See Directory."""
        return self._evidence.open_in(self.path, name)

    def folder(self, name: str) -> Directory:
        """See Directory."""
        return self._evidence.enter("folder", f"{self.path}/{name}")

    def close(self) -> None:
        """Nothing is held."""


class CaptureEvidence:
    """The files of a host as they were answered when it was captured.

    Attributes:
        sources: the capture.
        reads: every attempt to read, as in all evidence.
        whole: whether the host itself was captured, and nothing of the capture is lost.
        answers: what no file tells.
    """

    kind: Literal["capture"] = "capture"

    def __init__(self, tables: _Tables, source: str, whole: bool, answers: Answers | None) -> None:
        self._tables = tables
        self.sources: tuple[str, ...] = (source,)
        self.reads: list[Read] = []
        self.whole = whole
        self.answers = answers

    def read(self, path: str, limit: int = FILE_LIMIT) -> bytes:
        """See Evidence."""
        return self.read_in("", path, limit)

    def read_in(self, folder: str, name: str, limit: int) -> bytes:
        """A whole file in a folder; raises Unreadable."""
        path = f"{folder}/{name}" if folder else name
        problem: Problem | None = None
        try:
            return self._file(path, limit)
        except Unreadable as error:
            problem = error.problem
            raise
        finally:
            self.reads.append((folder, name, problem))

    def _file(self, path: str, limit: int) -> bytes:
        data = self._tables.files.get(path)
        if data is None or path in self._tables.pieces or self._tables.failed("read", path):
            self._tables.fail("read", path)
        if len(data) > limit:
            raise Unreadable(path, "too-large", f"over {limit} bytes")
        return data

    def open_in(self, folder: str, name: str) -> Opened:
        """A file to be read in pieces; raises Unreadable."""
        path = f"{folder}/{name}"
        if path not in self._tables.pieces or self._tables.failed("open", path):
            try:
                self._tables.fail("open", path)
            except Unreadable as error:
                self.reads.append((folder, name, error.problem))
                raise
        self.reads.append((folder, name, None))
        return _File(self._tables, path)

    def names(self, path: str) -> list[str]:
        """See Evidence."""
        found = self._tables.listings.get(path)
        if found is None or self._tables.failed("names", path):
            self._tables.fail("names", path)
        return list(found)

    def link(self, path: str) -> str:
        """See Evidence."""
        found = self._tables.links.get(path)
        if found is None or self._tables.failed("link", path):
            self._tables.fail("link", path)
        return found

    def directory(self, path: str) -> Directory:
        """See Evidence."""
        return self.enter("directory", path)

    def enter(self, verb: Literal["directory", "folder"], path: str) -> Directory:
        """A folder; raises Unreadable."""
        if path not in self._tables.folders or self._tables.failed(verb, path):
            self._tables.fail(verb, path)
        return _Folder(self, path)

    def shown(self, path: str) -> str:
        """See Evidence."""
        return f"/{path}"
