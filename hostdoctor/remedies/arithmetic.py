"""Where 64-bit MMIO can lie: sizes as firmware menus write them, and a base that leaves room for all below a limit.

All addresses and sizes are in bytes. A limit of N address bits ends at 2^N, so the last address used must be below it.
Sources: Linux drivers/gpu/drm/amd/amdgpu/gmc_v*.c (bits of each GPU), drivers/iommu/amd/amd_iommu_types.h HT_RANGE_START
(what AMD processors keep for HyperTransport), AMD's ROCm documentation, how-to/Bar-Memory (base plus size below the limit).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

GIB, TIB = 1 << 30, 1 << 40
FOUR_GIB = 1 << 32
_UNITS = {"G": GIB, "GB": GIB, "GIB": GIB, "T": TIB, "TB": TIB, "TIB": TIB}
_SIZE = re.compile(r"([0-9]{1,6}) ?(GIB|GB|G|TIB|TB|T)\Z")
_BITS = re.compile(r"([0-9]{2}) ?BITS?(?: \(.{0,20}\))?\Z")

# Bases that Intel's reference firmware offers (Supermicro X11 and the tokens of Cisco UCS list the same), highest first.
REFERENCE_BASES = ("56T", "40T", "32T", "24T", "16T", "4T", "2T", "1T", "512G", "256G")


class Limits(msgspec.Struct, frozen=True):
    """What MMIO must stay within.

    Attributes:
        bits: address bits; the end of the range is 2^bits.
        floor_bytes: the first address above 4 GiB that memory leaves free.
        holes: ranges (first, last) that hold no MMIO.
    """

    bits: int
    floor_bytes: int = FOUR_GIB
    holes: tuple[tuple[int, int], ...] = ()

    @property
    def end_bytes(self) -> int:
        """The first address that is too high."""
        return 1 << self.bits

    def hold(self, base: int, size: int) -> bool:
        """Whether a range of that size fits when it begins at that base."""
        end = base + size
        within = max(self.floor_bytes, FOUR_GIB) <= base and size > 0 and end <= self.end_bytes
        return within and not any(base <= last and end > first for first, last in self.holes)


class Menu(msgspec.Struct, frozen=True):
    """What a firmware's menu offers; choices that are no sizes are left out.

    Attributes:
        bases: where 64-bit MMIO can begin.
        granules: sizes that each root bus can get; none where the firmware takes as much as it needs.
        prefer: choices of either kind that are known to work, the best first.
    """

    bases: Sequence[str]
    granules: Sequence[str] = ()
    prefer: Sequence[str] = ()


class Placement(msgspec.Struct, frozen=True):
    """Settings under which 64-bit MMIO fits.

    Attributes:
        base: the choice of the menu, "4T".
        granule: the choice for the size of each root bus, "1024G"; empty where the menu has none.
        buses: root buses that get a range each.
        total_bytes: what all ranges take together.
    """

    base: str
    granule: str
    buses: int
    total_bytes: int

    @property
    def base_bytes(self) -> int:
        """The first address."""
        return choice_bytes(self.base) or 0

    @property
    def end_bytes(self) -> int:
        """The first address behind all ranges."""
        return self.base_bytes + self.total_bytes


def choice_bytes(text: str) -> int | None:
    """The bytes of a menu's choice; None where it is no size.

    Args:
        text: "56T", "12TB", "1024G", "512 GB", or an address width as AMD's menus write it, "40bit (1 TB)".
    """
    shouted = text[:40].strip().upper()
    if found := _SIZE.match(shouted):
        return int(found[1]) * _UNITS[found[2]]
    found = _BITS.match(shouted)
    return 1 << int(found[1]) if found else None


def menu_size(bytes_: int) -> str:
    """As firmware menus write it, rounded down: "56T", "256G"."""
    return f"{bytes_ // TIB}T" if bytes_ >= TIB else f"{bytes_ // GIB}G"


def reference_base(bits: int) -> str:
    """The base to name where the board's own choices are not known: at most half the limit, so that sizes have room.

    Args:
        bits: the address bits of the narrowest GPU.
    """
    fitting = (text for text in REFERENCE_BASES if (choice_bytes(text) or 0) * 2 <= 1 << bits)
    return next(fitting, REFERENCE_BASES[-1])


def current_choice(address: int, choices: Sequence[str]) -> str:
    """The base that must be set for a lowest address: the highest choice at or below it; empty where none is."""
    sized = [(size, text) for text in choices if (size := choice_bytes(text)) is not None and size <= address]
    return max(sized)[1] if sized else ""


def place(menu: Menu, buses: int, need_bytes: int, limits: Limits) -> Placement | None:
    """Chooses base and granularity so that all ranges lie within the limits.

    Preferred choices come first where they fit. Otherwise the granularity is the smallest that holds the need, and the base
    the highest that fits: as far from memory as the limit allows.

    Args:
        menu: what can be chosen.
        buses: root buses that get a range each.
        need_bytes: what the neediest root bus needs; without granules, what all of them take together.
        limits: what the ranges must stay within.

    Returns:
        None where no combination fits.
    """
    sizes = _ordered(menu.granules, menu.prefer, descending=False) if menu.granules else [("", need_bytes)]
    for granule, size in sizes:
        total = size * buses if granule else size
        if size < need_bytes:
            continue
        for base, start in _ordered(menu.bases, menu.prefer, descending=True):
            if limits.hold(start, total):
                return Placement(base, granule, buses, total)
    return None


def _ordered(choices: Sequence[str], prefer: Sequence[str], *, descending: bool) -> list[tuple[str, int]]:
    """Choices with their bytes, those preferred first, in that order."""
    sized = [(text, size) for text in choices if (size := choice_bytes(text)) is not None]
    sized.sort(key=lambda each: each[1], reverse=descending)
    return sorted(sized, key=lambda each: prefer.index(each[0]) if each[0] in prefer else len(prefer))


def rounded_up(size: int) -> int:
    """The smallest power of two that holds a size; 0 for nothing."""
    return 1 << (size - 1).bit_length() if size > 0 else 0


def common_granule(sizes: Sequence[int]) -> int | None:
    """The size that every range has, where they all have the same power of two; what granularity they suggest."""
    unique = set(sizes)
    size = next(iter(unique)) if len(unique) == 1 else 0
    return size if size and size & (size - 1) == 0 else None
