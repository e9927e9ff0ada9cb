"""The uevent file of a PCI function: its whole identity in one read (drivers/pci/pci-driver.c pci_uevent)."""

from __future__ import annotations

import msgspec


class Uevent(msgspec.Struct, frozen=True):
    """Who a PCI function is; ids are 0 and names empty where the file does not say."""

    driver: str | None = None
    class_code: int = 0  # 24 bits: class, subclass, programming interface
    vendor: int = 0
    device: int = 0
    subsystem_vendor: int = 0
    subsystem_device: int = 0
    slot_name: str = ""  # the function's address, "0000:43:00.0"


def parse_uevent(content: bytes | str) -> Uevent:
    """Reads DRIVER, PCI_CLASS, PCI_ID, PCI_SUBSYS_ID and PCI_SLOT_NAME; what is missing or garbled is left out.

    Args:
        content: the file: one KEY=value a line, ids in hexadecimal without 0x.
    """
    text = content if isinstance(content, str) else content.decode("ascii", "replace")
    values: dict[str, str] = {}
    for line in text[:4096].split("\n"):
        key, _, value = line.partition("=")
        values[key] = value
    vendor, device = _pair(values.get("PCI_ID", ""))
    subsystem_vendor, subsystem_device = _pair(values.get("PCI_SUBSYS_ID", ""))
    return Uevent(
        values.get("DRIVER") or None,
        _hexadecimal(values.get("PCI_CLASS", ""), 0xFFFFFF),
        vendor,
        device,
        subsystem_vendor,
        subsystem_device,
        values.get("PCI_SLOT_NAME", ""),
    )


def _pair(text: str) -> tuple[int, int]:
    """Both halves of "1002:73A1"."""
    first, _, second = text.partition(":")
    return _hexadecimal(first, 0xFFFF), _hexadecimal(second, 0xFFFF)


def _hexadecimal(digits: str, largest: int) -> int:
    try:
        value = int(digits, 16)
    except ValueError:
        return 0
    return value if 0 <= value <= largest else 0
