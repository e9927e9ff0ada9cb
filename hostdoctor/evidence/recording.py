"""Keeps everything that is read of a host, listed, or followed as a link, with what was refused and what is not there.

So whoever reads the recording the same way gets the same answers. Nothing is read here that nobody asked for: some files
of sysfs read device registers, and some devices break when all of their config space is read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

import msgspec

from hostdoctor.evidence.protocol import (
    ATTRIBUTE_LIMIT,
    FILE_LIMIT,
    Directory,
    Evidence,
    Opened,
    Problem,
    Read,
    Unreadable,
)
from hostdoctor.facts.answers import Answers

T = TypeVar("T")
Verb = Literal["read", "open", "at", "link", "names", "directory", "folder"]

# Read for the names of groups alone, which the answers hold; what else stands in it is nobody's business.
_NOT_KEPT = frozenset({"etc/group"})


class Failure(msgspec.Struct, frozen=True):
    """Why something could not be read; `path` where that is another one than was asked for."""

    problem: Problem
    detail: str = ""
    path: str = ""


class Record:
    """What was answered, by path. Of two answers to the same question the last stands.

    Attributes:
        files: read as a whole.
        pieces: of files read in pieces, by offset and size that was asked for.
        links: targets.
        listings: sorted names in folders.
        folders: that were entered.
        failures: by the way of asking and the path.
        answers: what no file tells.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.pieces: dict[str, dict[tuple[int, int], bytes]] = {}
        self.links: dict[str, str] = {}
        self.listings: dict[str, list[str]] = {}
        self.folders: set[str] = set()
        self.failures: dict[tuple[Verb, str], Failure] = {}
        self.answers: Answers | None = None

    def ask(self, verb: Verb, path: str, question: Callable[[], T]) -> T:
        """Put a question and keep why it has no answer; raises what it raises."""
        try:
            answer = question()
        except Unreadable as error:
            if error.problem != "too-large" or path not in self.files:  # somebody takes less than somebody else
                self.failures[verb, path] = Failure(error.problem, error.detail, "" if error.path == path else error.path)
            raise
        self.failures.pop((verb, path), None)
        return answer

    def read(self, path: str, question: Callable[[], bytes]) -> bytes:
        """Read a whole file."""
        if path in _NOT_KEPT:
            return question()
        self.files[path] = data = self.ask("read", path, question)
        return data

    def link(self, path: str, question: Callable[[], str]) -> str:
        """Read a link."""
        self.links[path] = target = self.ask("link", path, question)
        return target

    def names(self, path: str, question: Callable[[], list[str]]) -> list[str]:
        """List a folder."""
        self.listings[path] = names = self.ask("names", path, question)
        return names

    def enter(self, verb: Literal["directory", "folder"], path: str, question: Callable[[], Directory]) -> Directory:
        """Enter a folder."""
        folder = _Folder(self.ask(verb, path, question), self, path)
        self.folders.add(path)
        return folder


class _Opened:
    """A file of the evidence that is read in pieces."""

    def __init__(self, opened: Opened, record: Record, path: str) -> None:
        self._opened = opened
        self._record = record
        self._path = path

    def read_at(self, offset: int, size: int) -> bytes:
        """See Opened."""
        data = self._record.ask("at", self._path, lambda: self._opened.read_at(offset, size))
        self._record.pieces[self._path][offset, size] = data
        return data

    def close(self) -> None:
        """See Opened."""
        self._opened.close()


class _Folder:
    """A folder of the evidence."""

    __slots__ = ("_folder", "_record", "path")

    def __init__(self, folder: Directory, record: Record, path: str) -> None:
        self._folder = folder
        self._record = record
        self.path = path

    def read(self, name: str, limit: int = ATTRIBUTE_LIMIT) -> bytes:
        """See Directory."""
        return self._record.read(f"{self.path}/{name}", lambda: self._folder.read(name, limit))

    def link(self, name: str) -> str:
        """See Directory."""
        return self._record.link(f"{self.path}/{name}", lambda: self._folder.link(name))

    def names(self, name: str = ".") -> list[str]:
        """See Directory."""
        return self._record.names(self.path if name == "." else f"{self.path}/{name}", lambda: self._folder.names(name))

    def open(self, name: str) -> Opened:
        """See Directory."""
        path = f"{self.path}/{name}"
        opened = self._record.ask("open", path, lambda: self._folder.open(name))
        self._record.pieces.setdefault(path, {})
        return _Opened(opened, self._record, path)

    def folder(self, name: str) -> Directory:
        """See Directory."""
        return self._record.enter("folder", f"{self.path}/{name}", lambda: self._folder.folder(name))

    def close(self) -> None:
        """See Directory."""
        self._folder.close()


class RecordingEvidence:
    """Another evidence, whose answers are kept.

    Attributes:
        record: what was answered so far.
    """

    def __init__(self, evidence: Evidence, record: Record | None = None) -> None:
        self._evidence = evidence
        self.record = record or Record()
        self.kind = evidence.kind
        self.whole = evidence.whole
        self.answers = evidence.answers
        self.sources = evidence.sources
        self.reads: list[Read] = evidence.reads

    def around(self, other: Evidence) -> Evidence:
        """See Recorder."""
        return RecordingEvidence(other, self.record)

    def note(self, answers: Answers) -> None:
        """See Recorder."""
        self.record.answers = answers

    def read(self, path: str, limit: int = FILE_LIMIT) -> bytes:
        """See Evidence."""
        return self.record.read(path, lambda: self._evidence.read(path, limit))

    def names(self, path: str) -> list[str]:
        """See Evidence."""
        return self.record.names(path, lambda: self._evidence.names(path))

    def link(self, path: str) -> str:
        """See Evidence."""
        return self.record.link(path, lambda: self._evidence.link(path))

    def directory(self, path: str) -> Directory:
        """See Evidence."""
        return self.record.enter("directory", path, lambda: self._evidence.directory(path))

    def shown(self, path: str) -> str:
        """See Evidence."""
        return self._evidence.shown(path)

    def close(self) -> None:
        """Let go of the evidence."""
        if close := getattr(self._evidence, "close", None):
            close()
