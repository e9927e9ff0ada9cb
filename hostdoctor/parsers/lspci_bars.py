"""BARs and bridge windows as lspci prints them. Source: pciutils lspci.c show_bases, show_rom, show_range."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hostdoctor.facts.pci import Bar, Window
from hostdoctor.facts.unknown import Unknown
from hostdoctor.parsers.lspci_body import Body
from hostdoctor.parsers.lspci_registers import CUT, UNITS, Context, unseen

_ROM = 6
_REGION = re.compile(
    r"(?:\[virtual\] )?(?:Region (\d): )?(?:\[(?:virtual|enhanced)\] )*(?:(Memory|I/O ports)|(Expansion ROM)) at "
    r"(?:([0-9a-f]{1,16})\b|<\w+>)(?: \((64-bit|[\w -]+), (non-)?prefetchable\))?"
)
_SIZE = re.compile(r"\[size=(\d{1,6})([KMGTPE]?)\]")
_RESIZABLE = re.compile(r"([0-5]): current size: (\d{1,3})([MGTPE])B, supported: ")
_WITH_NUMBERS = 2  # of Body.is_whole_of: -vv numbers the BARs
_WINDOW = re.compile(r"(I/O|Memory|Prefetchable memory) behind bridge: ([0-9a-f]{1,16})-([0-9a-f]{1,16})")
_WINDOW_KINDS = {"I/O": "io", "Memory": "mem", "Prefetchable memory": "prefetchable"}
# Fields that lspci prints behind the BARs.
_BEHIND_BARS = frozenset(("Bus", "LnkCap", "LnkSta", "ACSCtl", "driver", "modules"))


def bars_of(body: Body, context: Context) -> tuple[Bar, ...] | Unknown:
    """The BARs; -v does not number them, so they are counted, a BAR of 64 bits as two."""
    if not context.has_ended and not (body.has_capabilities or body.denied or _BEHIND_BARS & body.fields.keys()):
        return CUT if body.regions or body.is_whole_of else unseen(context)
    if not body.regions and not body.is_whole_of:
        return unseen(context)
    found = list(_bars(body.regions))
    if body.is_whole_of == _WITH_NUMBERS and context.has_ended:
        found = [*found, *_left_out(body, {bar.index for bar in found})]
    if any(bar.assigned and not bar.size_bytes and bar.kind == "mem" for bar in found):
        return Unknown("lspci shows no sizes of the BARs")
    return tuple(found)


def _bars(regions: list[tuple[int, str]]) -> Iterator[Bar]:
    indent = regions[0][0] if regions else 0
    following = 0
    for depth, text in regions:
        match = _REGION.match(text)
        if match is None or depth != indent:
            continue
        is_rom = bool(match[3])
        index = _ROM if is_rom else int(match[1]) if match[1] else following
        if index < following or index > _ROM:
            return  # those of virtual functions, or of another function whose header is missing
        is_64bit = match[5] == "64-bit"
        address = int(match[4] or "0", 16)
        following = index + 1 + is_64bit
        yield Bar(
            index=index,
            kind="rom" if is_rom else "mem" if match[2] == "Memory" else "io",
            address=address,
            size_bytes=_size(text),
            is_64bit=is_64bit,
            prefetchable=match[5] is not None and not match[6],
            assigned=address > 0,
        )


def _left_out(body: Body, listed: set[int]) -> Iterator[Bar]:
    """BARs without an address that lspci leaves out: the kernel has no resource for them, the Resizable BAR capability does.

    Newer versions print no "<unassigned>" then. Only a size tells that the capability's entry is whole.
    """
    for lines in body.resizable:
        match = _RESIZABLE.match(lines[0])
        if match is not None and int(match[1]) not in listed:
            size = int(match[2]) * UNITS[match[3]]
            yield Bar(int(match[1]), "mem", 0, size, is_64bit=True, prefetchable=True, assigned=False)


def _size(text: str) -> int:
    match = _SIZE.search(text)
    return int(match[1]) * UNITS[match[2]] if match else 0


def windows_of(body: Body) -> tuple[Window, ...]:
    """The windows that are open; a closed one is shown as "[disabled]", "None", or with its end before its start."""
    found = []
    for line in body.windows:
        if match := _WINDOW.match(line):
            start, end = int(match[2], 16), int(match[3], 16)
            if 0 < end >= start:
                found.append(Window(_WINDOW_KINDS[match[1]], start, end))
    return tuple(found)
