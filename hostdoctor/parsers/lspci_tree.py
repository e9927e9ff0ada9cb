"""lspci -t and -tv: which function lies below which bridge. Source: pciutils ls-tree.c.

A line goes on where one above it left off: functions on one bus stand in one column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

_TOKEN = re.compile(
    r"\[(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<bus>[0-9a-f]{2})(?:-[0-9a-f]{2})?\]|(?P<device>[0-9a-f]{2}\.[0-7])(?P<end>-|\s|$)"
)
_DRAWN = re.compile(r"[-+|\\ ]*$")
_DEEPEST = 256


class Place(msgspec.Struct, frozen=True):
    """Where one function hangs.

    Attributes:
        line: where it stands, from 0.
        address: with its domain, as printed.
        parent: the bridge above it, or None on a root bus.
        root: its root bus, "0000:17".
        is_bridge: whether buses lie below it.
        text: its names where -v shows them.
    """

    line: int
    address: str
    parent: str | None
    root: str
    is_bridge: bool
    text: str


class _Bus(msgspec.Struct, frozen=True):
    column: int
    domain: str
    number: str
    parent: str | None
    root: str


def parse_lspci_tree(lines: Sequence[str]) -> tuple[Place, ...]:
    """The functions of a tree.

    Where lines are missing in the middle, those that are left could hang on a wrong bus: then only lines count that begin
    at a root bus themselves.
    """
    tree = _Tree()
    places = [(place, tree.begins_at_root) for number, line in enumerate(lines) for place in tree.line(number, line)]
    return tuple(place for place, begins_at_root in places if tree.is_whole or begins_at_root)


class _Tree:
    """What is open while the lines are read.

    Attributes:
        is_whole: whether every drawn line so far goes on from the line above.
        begins_at_root: whether the line last read names its root bus.
    """

    def __init__(self) -> None:
        self.is_whole = True
        self.begins_at_root = False
        self._buses: list[_Bus] = []  # the innermost last
        self._drawn: list[int] | None = None  # columns where a line goes on downwards

    def line(self, number: int, line: str) -> Iterator[Place]:
        """The functions of the next line."""
        opened: _Bus | None = None
        last: Place | None = None
        position = 0
        self.begins_at_root = False
        for token in _TOKEN.finditer(line):
            between = line[position : token.start()]
            if not _DRAWN.match(between):
                break
            self._draw(between, position, last is not None or opened is not None)
            position = token.end()
            if token["bus"]:
                opened = self._opened(token, last)
                if opened is None:
                    break
                continue
            bus = self._bus_at(token.start(), opened)
            if bus is None:
                break
            opened = None
            is_bridge = line.startswith("-[", token.end("device"))
            text = "" if token["end"] == "-" else line[token.end("device") :].strip()
            last = Place(number, f"{bus.domain}:{bus.number}:{token['device']}", bus.parent, bus.root, is_bridge, text)
            yield last
            if not is_bridge:
                break

    def _draw(self, between: str, offset: int, is_inside: bool) -> None:
        """Follows the lines that are drawn: each goes on from the line above until a backslash ends it."""
        found = [(offset + column, sign) for column, sign in enumerate(between) if sign in "|+\\"]
        if is_inside:
            self._drawn = [*(self._drawn or []), *(column for column, _ in found)]
            return
        if self._drawn is not None and [column for column, _ in found] != self._drawn:
            self.is_whole = False
        self.is_whole &= all(sign == "|" for _, sign in found[:-1])
        self._drawn = [column for column, sign in found if sign != "\\"]

    def _opened(self, token: re.Match[str], last: Place | None) -> _Bus | None:
        """A bus whose functions follow: a root bus, or the one below the function just read. Its column is not known yet."""
        if last is not None:
            domain = token["domain"] or last.address.partition(":")[0]
            return _Bus(-1, domain, token["bus"], last.address, last.root)
        if not token["domain"]:
            return None
        self._buses.clear()
        self.begins_at_root = True
        return _Bus(-1, token["domain"], token["bus"], None, f"{token['domain']}:{token['bus']}")

    def _bus_at(self, column: int, opened: _Bus | None) -> _Bus | None:
        if opened is not None and len(self._buses) < _DEEPEST:
            self._buses.append(msgspec.structs.replace(opened, column=column))
            return self._buses[-1]
        while self._buses and self._buses[-1].column > column:
            self._buses.pop()
        return self._buses[-1] if self._buses and self._buses[-1].column == column else None
