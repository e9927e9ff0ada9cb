"""Error counters of PCI functions: the aer_dev_* files (drivers/pci/pcie/aer.c aer_stats_dev_attr) and single numbers."""

from __future__ import annotations

import re

# Most files hold nothing but zeros, which one look tells.
_COUNTED = re.compile(r" 0*[1-9]")
_MAX_LINES = 64  # one line for each bit of a 32-bit status register, and the sum
_LARGEST = (1 << 63) - 1


def parse_aer_counters(text: str) -> dict[str, int]:
    """Each kind of error and how often it was counted, without those that were not and without the sum.

    Args:
        text: lines of a name and a number, "RxErr 3"; kernels before 5.2 write names with spaces, "Receiver Error 3".
    """
    found: dict[str, int] = {}
    if not _COUNTED.search(text, 0, 8192):
        return found
    for line in text[:8192].split("\n")[:_MAX_LINES]:
        name, _, digits = line.strip().rpartition(" ")
        if not name or name.startswith("TOTAL_ERR") or not (digits.isdecimal() and digits.isascii()) or len(digits) > 20:
            continue
        if number := min(int(digits), _LARGEST):
            found[name[:40].strip()] = number
    return found
