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
    """The functions of a tree; what does not hang together with the lines above is left out."""
    buses: list[_Bus] = []
    places: list[Place] = []
    for number, line in enumerate(lines):
        places += _line(number, line, buses)
    return tuple(places)


def _line(number: int, line: str, buses: list[_Bus]) -> Iterator[Place]:
    """The functions of one line; `buses` are those that are open, the innermost last, and change with it."""
    opened: _Bus | None = None
    last: Place | None = None
    position = 0
    for token in _TOKEN.finditer(line):
        if not _DRAWN.match(line[position : token.start()]):
            break
        position = token.end()
        if token["bus"]:
            opened = _opened(token, last, buses)
            if opened is None:
                break
            continue
        bus = _bus_at(token.start(), opened, buses)
        if bus is None:
            break
        opened = None
        is_bridge = line.startswith("-[", token.end("device"))
        text = "" if token["end"] == "-" else line[token.end("device") :].strip()
        last = Place(number, f"{bus.domain}:{bus.number}:{token['device']}", bus.parent, bus.root, is_bridge, text)
        yield last
        if not is_bridge:
            break


def _opened(token: re.Match[str], last: Place | None, buses: list[_Bus]) -> _Bus | None:
    """A bus whose functions follow: a root bus, or the one below the function just read. Its column is not known yet."""
    if last is not None:
        domain = token["domain"] or last.address.partition(":")[0]
        return _Bus(-1, domain, token["bus"], last.address, last.root)
    if not token["domain"]:
        return None
    buses.clear()
    return _Bus(-1, token["domain"], token["bus"], None, f"{token['domain']}:{token['bus']}")


def _bus_at(column: int, opened: _Bus | None, buses: list[_Bus]) -> _Bus | None:
    if opened is not None and len(buses) < _DEEPEST:
        buses.append(msgspec.structs.replace(opened, column=column))
        return buses[-1]
    while buses and buses[-1].column > column:
        buses.pop()
    return buses[-1] if buses and buses[-1].column == column else None
