"""What was read, in few lines: a host with thousands of functions reads the same attributes of each."""

from __future__ import annotations

import re
from collections.abc import Iterable

from hostdoctor.evidence.protocol import Problem, Read, Unreadable

_FUNCTION = re.compile(r"(?:sys/devices/[^*]*|sys/bus/pci/devices)/[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7](?=/|$)")
_LEADING_NUMBER = re.compile(r"\A\d+(?=/)")
_NUMBER = re.compile(r"(?<=/)\d+(?=/)")


def pattern(path: str) -> str:
    """A path with addresses of functions, and numbers of nodes and groups, as a star."""
    return "/" + _NUMBER.sub("*", _FUNCTION.sub("sys/bus/pci/devices/*", path))


def summarise(reads: Iterable[Read]) -> tuple[list[str], list[tuple[str, str]]]:
    """The files that were read, and those that are there and could not be, with the reason; each pattern once, sorted."""
    found = _patterns(reads)
    unread = [(path, Unreadable("", problem).reason) for path, problem in found if problem and problem != "missing"]
    return sorted(path for path, problem in found if problem is None), sorted(unread)


def _patterns(reads: Iterable[Read]) -> set[tuple[str, Problem | None]]:
    """Each pattern once with each outcome; the pattern of a folder is worked out once for all its files."""
    folders: dict[str, str] = {}
    found: set[tuple[str, Problem | None]] = set()
    for folder, name, problem in reads:
        if not folder:
            found.add((pattern(name), problem))
            continue
        if folder not in folders:
            folders[folder] = pattern(f"{folder}/")
        shown = _LEADING_NUMBER.sub("*", name) if name[0].isdecimal() else name
        found.add((folders[folder] + shown, problem))
    return found
