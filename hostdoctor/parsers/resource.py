"""The `resource` file of a PCI function: its BARs, and what a bridge passes on.

One line a resource, "start end flags", in the order of struct pci_dev's resources (drivers/pci/pci-sysfs.c
resource_show, include/linux/pci.h): BARs 0 to 5, the ROM, six SR-IOV BARs where the kernel has CONFIG_PCI_IOV, and
four bridge windows where the function has a bus below it. That makes 7, 11, 13 or 17 lines.
"""

from __future__ import annotations

from hostdoctor.facts.pci import Bar, Window

# include/linux/ioport.h
_IO, _MEMORY, _PREFETCH = 0x100, 0x200, 0x2000
_MEMORY_64, _DISABLED, _UNSET = 0x100000, 0x10000000, 0x20000000

_ROM = 6
_LINES_WITHOUT_IOV = 11  # of a bridge
_MAX_LINES = 17
_MAX_TEXT = 4096
_LARGEST = (1 << 64) - 1
_NO_RESOURCE = "0x0000000000000000 0x0000000000000000 0x0000000000000000"

_Resource = tuple[int, int, int]  # start, end, flags


def parse_resource(text: str, bridge: bool = False) -> tuple[tuple[Bar, ...], tuple[Window, ...]]:
    """Reads a function's BARs and, of a bridge, its windows; addresses and sizes are in bytes.

    Args:
        text: the file.
        bridge: whether the lines after the BARs are windows of a bridge; they are left out otherwise.

    Returns:
        The BARs in use, whether they have an address or only want one, and the windows that are open. Lines that are
        no resource are left out.
    """
    lines = text[:_MAX_TEXT].split("\n", _MAX_LINES)[:_MAX_LINES]
    first_window = 7 if _lines(lines) <= _LINES_WITHOUT_IOV and bridge else 13
    bars: list[Bar] = []
    windows: list[Window] = []
    for index, line in enumerate(lines):
        if line == _NO_RESOURCE:
            continue
        resource = _resource(line)
        if resource is None:
            continue
        if index < first_window:
            bars.append(_bar(index, *resource))
        elif bridge and not resource[2] & (_UNSET | _DISABLED) and resource[1] > 0:
            windows.append(_window(*resource))
    return tuple(bars), tuple(windows)


def _lines(lines: list[str]) -> int:
    return len(lines) - (not lines[-1])


def _resource(line: str) -> _Resource | None:
    """One line; None where it is none, or neither memory nor I/O, or has no size and wants no address."""
    try:
        start, end, flags = (int(word, 16) for word in line.split())
    except ValueError:
        return None
    if not flags & (_IO | _MEMORY) or not 0 <= start <= end <= _LARGEST or flags > _LARGEST:
        return None
    # The kernel's own rule (resource_size in pci_resource_len): both zero is a resource without a size.
    return (start, end, flags) if end or flags & _UNSET else None


def _bar(index: int, start: int, end: int, flags: int) -> Bar:
    assigned = start > 0 and not flags & _UNSET
    return Bar(
        index=index,
        kind="rom" if index == _ROM else "mem" if flags & _MEMORY else "io",
        address=start if assigned else 0,
        size_bytes=end - start + 1 if end else 0,
        is_64bit=bool(flags & _MEMORY_64),
        prefetchable=bool(flags & _PREFETCH),
        assigned=assigned,
    )


def _window(start: int, end: int, flags: int) -> Window:
    return Window("io" if flags & _IO else "prefetchable" if flags & _PREFETCH else "mem", start, end)
