"""Memory ranges of the root buses, from /proc/iomem (kernel/resource.c r_show, drivers/acpi/pci_root.c)."""

from __future__ import annotations

import re

from hostdoctor.facts.host import Aperture
from hostdoctor.facts.unknown import Unknown

HIDDEN = Unknown("addresses in /proc/iomem are hidden from ordinary users", "run with sudo")
EMPTY = Unknown("/proc/iomem names no ranges")

_LINE = re.compile(r"^( *)([0-9a-f]{1,16})-([0-9a-f]{1,16}) : (.*)$", re.MULTILINE)
# Memory of the kernel's own and memory that programs may map (kernel/resource.c, drivers/dax/kmem.c, drivers/nvdimm).
_MEMORY = ("System RAM", "Persistent Memory", "Soft Reserved")
_BUS = re.compile(r"PCI Bus ([0-9a-f]{4,8}:[0-9a-f]{2})\Z")
# On hosts with a device tree the root bus's range bears its node's name, and the buses below it are not root buses.
_HOST_BRIDGE_NODE = ("pcie@", "pci@")
_MAX_DEPTH = 16  # the kernel ends at 8, MAX_IORES_LEVEL
_MAX_TEXT = 1 << 24  # characters


def parse_apertures(text: str) -> tuple[Aperture, ...] | Unknown:
    """Finds the ranges, in bytes and both ends inclusive, that belong to root buses.

    Such a range is a line "PCI Bus DDDD:BB" that does not lie within another bus's: two blanks a level say what lies
    within what.

    Args:
        text: the file.

    Returns:
        The ranges in the file's order. Unknown where the file hides its addresses or names no range at all.
    """
    apertures: list[Aperture] = []
    within_bus = [False] * (_MAX_DEPTH + 1)  # by depth: whether the last line there was a bus
    lines = 0
    hidden = True
    for match in _LINE.finditer(text[:_MAX_TEXT]):
        indent, first, last, name = match.groups()
        lines += 1
        start, end = int(first, 16), int(last, 16)
        hidden = hidden and end == 0
        depth = min(len(indent) // 2, _MAX_DEPTH)
        bus = _BUS.match(name)
        if bus and start < end and not (depth and within_bus[depth - 1]):
            apertures.append(Aperture(bus.group(1), start, end))
        within_bus[depth] = bus is not None or name.startswith(_HOST_BRIDGE_NODE)
    if not lines:
        return EMPTY
    return HIDDEN if hidden else tuple(apertures)


def parse_memory_end(text: str) -> int | Unknown:
    """Finds the last address of installed memory, in bytes and inclusive.

    Args:
        text: the file.

    Returns:
        The highest end of all ranges of memory; Unknown where the file hides its addresses or names no memory.
    """
    ends = [int(match[3], 16) for match in _LINE.finditer(text[:_MAX_TEXT]) if match[4].startswith(_MEMORY)]
    if not ends:
        return EMPTY
    return max(ends) or HIDDEN
