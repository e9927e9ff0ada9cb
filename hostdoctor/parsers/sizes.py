"""Small values of sysfs: sizes a BAR can take, speed and width of a link, lists of processors."""

from __future__ import annotations

from hostdoctor.facts.unknown import Unknown

MIB = 1 << 20
MAX_CPU_NUMBER = 65_535  # far above CONFIG_NR_CPUS of any distribution (8,192)
_MAX_CPU_LIST = 1 << 20  # characters
_WIDTH_UNKNOWN = 0xFF  # include/linux/pci.h PCIE_LNK_WIDTH_UNKNOWN


def bar_sizes(bitmap: int) -> tuple[int, ...]:
    """Sizes in bytes of a Resizable BAR bitmap: bit n stands for 2^n MiB.

    Source: drivers/pci/rebar.c pci_rebar_get_possible_sizes; the specification ends at 8 EiB, bit 43.
    """
    return tuple(MIB << bit for bit in range(min(bitmap.bit_length(), 44)) if bitmap >> bit & 1)


def parse_resize_bitmap(text: str) -> tuple[int, ...]:
    """Sizes in bytes a BAR can take, from a resourceN_resize file (Documentation/ABI/testing/sysfs-bus-pci).

    Args:
        text: the file's hexadecimal bitmap, "000000000000ff00".

    Returns:
        The sizes, smallest first; nothing where the text is no bitmap of 64 bits.
    """
    digits = text[:64].strip()
    if not digits or len(digits) > 18:
        return ()
    try:
        bitmap = int(digits, 16)
    except ValueError:
        return ()
    return bar_sizes(bitmap) if bitmap > 0 else ()


def link_speed(text: str) -> float | Unknown:
    """Speed in GT/s of current_link_speed or max_link_speed (drivers/pci/pci-sysfs.c, probe.c pci_speed_string).

    Args:
        text: "16.0 GT/s PCIe", "2.5 GT/s" of older kernels, "Unknown" or "Unknown speed".
    """
    number, separator, _ = text[:64].strip().partition(" GT/s")
    if not separator or not number.replace(".", "", 1).isdecimal() or not number.isascii():
        return _speed_unknown(text)
    speed = float(number)
    return speed if 0 < speed < 1000 else _speed_unknown(text)


def _speed_unknown(text: str) -> Unknown:
    return Unknown(f"the kernel gives the link speed as {text[:40].strip()!r}")


def link_width(text: str) -> int | Unknown:
    """Lanes of current_link_width or max_link_width; 0 is a link that is down, 255 one that could not be read."""
    digits = text[:64].strip()
    if digits.isdecimal() and digits.isascii() and int(digits) <= 32:
        return int(digits)
    return Unknown(f"the kernel gives the link width as {digits[:40]!r}")


def parse_cpu_list(text: str) -> tuple[int, ...] | Unknown:
    """Numbers of a list of processors or nodes, "0-1,4" (lib/bitmap-str.c bitmap_parselist, without strides).

    Returns:
        The numbers in order, each once; an empty list is the empty tuple; Unknown for anything else, and for numbers
        above MAX_CPU_NUMBER.
    """
    numbers: set[int] = set()
    listed = 0
    for item in text[:_MAX_CPU_LIST].strip().split(","):
        if not item:
            continue
        bounds = _bounds(item)
        if bounds is None:
            return Unknown(f"not a list of numbers: {item[:40]!r}")
        listed += bounds[1] - bounds[0] + 1
        if listed > MAX_CPU_NUMBER + 1:
            return Unknown("the list names some numbers more than once")
        numbers.update(range(bounds[0], bounds[1] + 1))
    return tuple(sorted(numbers))


def _bounds(item: str) -> tuple[int, int] | None:
    """First and last of "4" or "0-3"; None where it is neither."""
    first, dash, last = item.strip().partition("-")
    if not (first.isdecimal() and first.isascii() and len(first) <= 6):
        return None
    if not dash:
        last = first
    elif not (last.isdecimal() and last.isascii() and len(last) <= 6):
        return None
    return (int(first), int(last)) if int(first) <= int(last) <= MAX_CPU_NUMBER else None
