"""Evidence that lies in memory: files that were taken out of pastes and archives, by the path they have on their host."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Literal

from hostdoctor.evidence.protocol import ATTRIBUTE_LIMIT, FILE_LIMIT, Directory, Opened, Read, Unreadable


class MemoryFile:
    """An open file."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read_at(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`."""
        return self._data[offset : offset + size]

    def close(self) -> None:
        """Nothing is held."""


class MemoryDirectory:
    """A folder."""

    def __init__(self, evidence: MemoryEvidence, path: str) -> None:
        self._evidence = evidence
        self.path = path

    def _at(self, name: str) -> str:
        return posixpath.normpath(posixpath.join(self.path, name))

    def read(self, name: str, limit: int = ATTRIBUTE_LIMIT) -> bytes:
        """The whole file; raises Unreadable."""
        return self._evidence.read(self._at(name), limit)

    def link(self, name: str) -> str:
        """There are no links; raises Unreadable."""
        return self._evidence.link(self._at(name))

    def names(self, name: str = ".") -> list[str]:
        """The sorted names in the folder, or in one below it; raises Unreadable."""
        return self._evidence.names(self._at(name))

    def open(self, name: str) -> Opened:
        """A file to be read in pieces; raises Unreadable."""
        return MemoryFile(self._evidence.read(self._at(name)))

    def folder(self, name: str) -> Directory:
        """The folder of that name in this one; raises Unreadable."""
        return self._evidence.directory(self._at(name))

    def close(self) -> None:
        """Nothing is held."""


class MemoryEvidence:
    """Files by their path, without a leading slash.

    Attributes:
        sources: what the user named.
        reads: every attempt to read, as in all evidence.
        kind: always "attachments".
        names_of: how a path is shown, where a file came from another place: "proc/cmdline" -> "paste.txt:3".
    """

    kind: Literal["attachments"] = "attachments"
    whole = False
    answers = None

    def __init__(self, files: Mapping[str, bytes], sources: tuple[str, ...], names_of: Mapping[str, str] | None = None) -> None:
        self._files = files
        self._folders: dict[str, set[str]] = {"": set()}
        self.sources = sources
        self.reads: list[Read] = []
        self._names_of = names_of or {}
        for path in files:
            while path:
                folder, _, name = path.rpartition("/")
                self._folders.setdefault(folder, set()).add(name)
                path = folder  # noqa: PLW2901  up to the root

    def read(self, path: str, limit: int = FILE_LIMIT) -> bytes:
        """The whole file; raises Unreadable."""
        data = self._files.get(path)
        if data is None:
            self.reads.append(("", path, "missing"))
            raise Unreadable(path, "not-a-file" if path in self._folders else "missing")
        if len(data) > limit:
            self.reads.append(("", path, "too-large"))
            raise Unreadable(path, "too-large")
        self.reads.append(("", path, None))
        return data

    def names(self, path: str) -> list[str]:
        """The sorted names in a folder; raises Unreadable."""
        found = self._folders.get("" if path == "." else path.rstrip("/"))
        if found is None:
            raise Unreadable(path, "missing")
        return sorted(found)

    def folders_named(self, pattern: re.Pattern[str]) -> list[str]:
        """The paths of all folders whose own name is what the pattern matches, sorted."""
        return sorted(path for path in self._folders if pattern.fullmatch(path.rpartition("/")[2]))

    def link(self, path: str) -> str:
        """There are no links; raises Unreadable."""
        raise Unreadable(path, "not-a-file" if path in self._files else "missing")

    def directory(self, path: str) -> Directory:
        """A folder; raises Unreadable."""
        if path not in self._folders:
            raise Unreadable(path, "missing")
        return MemoryDirectory(self, path)

    def shown(self, path: str) -> str:
        """How a path is named to people: the paste it stands in, else the path on its host."""
        return self._names_of.get(path, f"/{path}")
