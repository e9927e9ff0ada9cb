"""The small protocol through which all evidence is read.

Paths are relative to the root of the host they describe and have no leading slash: "proc/cmdline".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from hostdoctor.facts.answers import Answers

# "missing" is what the host does not have, "unrecorded" what nobody asked for while it was captured.
Problem = Literal[
    "missing", "permission", "too-large", "timed-out", "not-a-file", "outside", "dangling", "failed", "unrecorded"
]

# One attempt to read: the folder, the name in it, and what stood in the way, if anything.
Read = tuple[str, str, "Problem | None"]

# An attribute of sysfs is at most one page; nothing in /proc that is read whole comes near a mebibyte.
ATTRIBUTE_LIMIT = 64 * 1024
FILE_LIMIT = 1 << 20

_REASONS: dict[str, str] = {
    "missing": "there is no such file",
    "permission": "no permission to read it",
    "too-large": "it is larger than anything this file should hold",
    "timed-out": "reading it did not end in time",
    "not-a-file": "it is no ordinary file",
    "outside": "it points out of the folder that was given",
    "dangling": "it is listed, but what it leads to is not there",
    "failed": "reading it failed",
    "unrecorded": "it is not in this capture",
}


class Unreadable(Exception):
    """A piece of evidence that could not be read: which, and why."""

    def __init__(self, path: str, problem: Problem, detail: str = "") -> None:
        super().__init__(path, problem, detail)
        self.path = path
        self.problem: Problem = problem
        self.detail = detail

    @property
    def reason(self) -> str:
        """Why, as the end of a sentence."""
        return f"{_REASONS[self.problem]} ({self.detail})" if self.detail else _REASONS[self.problem]

    def __str__(self) -> str:
        return f"/{self.path}: {self.reason}"


class Opened(Protocol):
    """An open file that is read in pieces, such as config space."""

    def read_at(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer at the end, none beyond it or where reading fails.

        Raises Unreadable where it does not end in time.
        """

    def close(self) -> None:
        """Let go of the file."""


class Directory(Protocol):
    """A folder of the evidence. Names are relative to it and may lie one or more folders down."""

    path: str

    def read(self, name: str, limit: int = ATTRIBUTE_LIMIT) -> bytes:
        """The whole file; raises Unreadable."""

    def link(self, name: str) -> str:
        """The target of a symbolic link, as it stands; raises Unreadable."""

    def names(self, name: str = ".") -> list[str]:
        """The sorted names in the folder, or in a folder below it; raises Unreadable."""

    def open(self, name: str) -> Opened:
        """A file to be read in pieces; raises Unreadable."""

    def folder(self, name: str) -> Directory:
        """The folder of that name in this one, which must not be a link; raises Unreadable."""

    def close(self) -> None:
        """Let go of the folder."""


class Evidence(Protocol):
    """A host's files."""

    sources: tuple[str, ...]
    reads: list[Read]

    @property
    def whole(self) -> bool:
        """Whether the host's own kernel served it, so that what is missing here is missing there.

        Of a tree, somebody may have left things out.
        """

    @property
    def answers(self) -> Answers | None:
        """What was asked on the host when it was captured, because no file tells it; None of all other evidence."""

    @property
    def kind(self) -> Literal["live", "root", "capture", "attachments"]:
        """What kind of evidence it is, in the report's words."""

    def read(self, path: str, limit: int = FILE_LIMIT) -> bytes:
        """The whole file; raises Unreadable."""

    def names(self, path: str) -> list[str]:
        """The sorted names in a folder; raises Unreadable."""

    def link(self, path: str) -> str:
        """The target of a symbolic link, as it stands; raises Unreadable."""

    def directory(self, path: str) -> Directory:
        """A folder, with links on the way followed inside the root; raises Unreadable."""

    def shown(self, path: str) -> str:
        """How a path of this evidence is named to people: "/proc/cmdline"."""


@runtime_checkable
class Recorder(Protocol):
    """An evidence that keeps what is read through it, so that it can be read again elsewhere."""

    def around(self, other: Evidence) -> Evidence:
        """The same recording of another evidence of the same host: what a guarded child read."""

    def note(self, answers: Answers) -> None:
        """Keep what was asked because no file tells it."""
