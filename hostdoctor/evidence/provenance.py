"""What was read, in few lines: a host with thousands of functions reads the same attributes of each."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hostdoctor.evidence.protocol import Read, Unreadable

_FUNCTION = re.compile(r"(?:sys/devices/[^*]*|sys/bus/pci/devices)/[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7](?=/|$)")
_NUMBER = re.compile(r"(?<=/)\d+(?=/)")


def pattern(folder: str, name: str) -> str:
    """The file that was read, with addresses of functions and numbers of nodes and groups as a star."""
    path = f"{folder}/{name}" if folder else name
    return "/" + _NUMBER.sub("*", _FUNCTION.sub("sys/bus/pci/devices/*", path))


def files_read(reads: Iterable[Read]) -> list[str]:
    """The files that were read, sorted, each pattern once."""
    return sorted({pattern(folder, name) for folder, name, problem in reads if problem is None})


def files_unread(reads: Iterable[Read]) -> list[tuple[str, str]]:
    """The files that are there and could not be read, with the reason; each pattern once."""
    found = {
        (pattern(folder, name), Unreadable("", problem).reason)
        for folder, name, problem in reads
        if problem not in (None, "missing")
    }
    return sorted(found)
