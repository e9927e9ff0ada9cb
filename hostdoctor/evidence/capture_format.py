"""What a capture holds: a gzipped tar that a person can unpack, in which the host's files lie below `files/` under their own
paths, and tables say what else was asked and answered.

    manifest.json     what made it, when, of what; it comes first, and by it a capture is known
    links.json        path -> target
    listings.json     path -> sorted names
    folders.json      paths that were entered
    pieces.json       path -> [offset, size asked for, size given], of files that were read in pieces; their gaps are zeros
    errors.json       [way of asking, problem, detail, paths], and where it was another path, [path, that path]
    attachments.json  what was attached: name, path inside a folder or archive, and where it lies here
    facts/*.json      what no file tells: the answers of vendors' libraries, rights of whoever captured, speeds of networks
    attachments/*     texts
    logs/*            the kernel's log, which is read like an attached one
    commands/*        what the vendors' and pciutils' tools print, for people; nothing here reads them
    files/*           files
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

import msgspec

from hostdoctor import __version__
from hostdoctor.evidence.protocol import Problem
from hostdoctor.facts.driver import Access, AmdSmi, Nvml
from hostdoctor.facts.unknown import Unknown

SCHEMA = 1
WHEN = "%Y-%m-%dT%H:%M:%SZ"
MANIFEST = "manifest.json"
FILES = "files/"
LOG = "logs/dmesg.txt"

# All but these stand in a name as they are: ASCII that can be printed, without the sign that marks the others.
_PLAIN = "".join(sign for sign in map(chr, range(0x20, 0x7F)) if sign != "%")
_DOTS = re.compile(r"(?<![^/])(\.{1,2})(?![^/])")

_Pair = tuple[str, str]
Paths = list[str | list[str]]


class Tool(msgspec.Struct, frozen=True):
    """Which program made it."""

    name: str = "hostdoctor"
    version: str = __version__


class Trouble(msgspec.Struct, frozen=True):
    """A source that is there and is not in the capture, or not whole."""

    source: str
    reason: str


class Manifest(msgspec.Struct, frozen=True):
    """What a capture is of.

    Attributes:
        schema: of the capture.
        tool: which program made it.
        origin: "live", "root" (a tree) or "attachments" (nothing but these).
        captured: when, "2025-01-31T12:00:00Z".
        kernel: the running one's release, where that is known.
        privileged: whether root captured it.
        redacted: whether names, addresses of networks and numbers of single devices were replaced.
        sources: what was named on the command line; "/" for the host itself.
        errors: what could not be read.
    """

    schema: int
    tool: Tool
    origin: str
    captured: str
    kernel: str = ""
    privileged: bool = False
    redacted: bool = False
    sources: tuple[str, ...] = ()
    errors: tuple[Trouble, ...] = ()


class Listed(msgspec.Struct, frozen=True):
    """One attachment: its name, its path inside a folder or archive, and the member that holds its text."""

    name: str
    path: str
    member: str


class AttachedTable(msgspec.Struct, frozen=True):
    """All attachments, and what of them could not be read."""

    files: tuple[Listed, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()


class _Said(msgspec.Struct, frozen=True):
    """Why a library said nothing."""

    refusal: Unknown | None = None


class NvmlSaid(_Said, frozen=True):
    """What NVML said; neither where nobody asked."""

    answer: Nvml | None = None


class AmdSmiSaid(_Said, frozen=True):
    """What AMD SMI said."""

    answer: AmdSmi | None = None


class AccessSaid(_Said, frozen=True):
    """The rights of whoever captured."""

    answer: Access | None = None


class FailureRow(msgspec.Struct, frozen=True, array_like=True):
    """Paths that could not be read for the same reason."""

    verb: str
    problem: Problem
    detail: str
    paths: Paths


def member_of(path: str) -> str:
    """The member that holds a file; any path can be one, and none leads out of the folder it is unpacked to.

    >>> member_of("sys/bus/pci/../x%")
    'files/sys/bus/pci/%2E%2E/x%25'
    """
    quoted = quote(path, safe=_PLAIN) if not path.isprintable() or "%" in path or not path.isascii() else path
    return FILES + _DOTS.sub(lambda found: "%2E" * len(found[1]), quoted)


def path_of(member: str) -> str:
    """The file that a member holds."""
    name = member[len(FILES) :]
    return unquote(name) if "%" in name else name
