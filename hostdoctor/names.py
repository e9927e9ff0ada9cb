"""Names of devices: the knowledge tables first, then udev's hardware database, then pci.ids.

The tables come first because distributions' databases lack cards newer than themselves.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from hostdoctor import knowledge
from hostdoctor.facts.pci import Function

if TYPE_CHECKING:
    import pyudev

_PCI_IDS = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids")
_PCI_IDS_LIMIT = 8 << 20

# Base class and subclass, as PCI Code and ID Assignment Specification 1.11 names those that this tool meets most.
_CLASSES = {
    0x0101: "IDE controller", 0x0106: "SATA controller", 0x0108: "NVMe drive", 0x0104: "RAID controller",
    0x0200: "Ethernet controller", 0x0207: "InfiniBand controller", 0x0280: "network controller",
    0x0300: "VGA controller", 0x0302: "3D controller", 0x0380: "display controller", 0x0403: "audio device",
    0x0600: "host bridge", 0x0601: "ISA bridge", 0x0604: "PCI bridge", 0x0805: "SD controller",
    0x0C03: "USB controller", 0x0C05: "SMBus", 0x0880: "system peripheral", 0x1200: "accelerator",
}  # fmt: skip


def class_name(class_code: int) -> str:
    """What kind of device it is, from its class code."""
    return _CLASSES.get(class_code >> 8, f"class {class_code >> 8:04x}")


def device_name(function: Function) -> str:
    """A function's product name, or empty where nothing knows it."""
    if not function.device:  # known from a tool's output, which tells no id
        return function.name
    named = knowledge.name_of(function.id) or _from_hwdb(function.vendor, function.device) or _from_pci_ids(function.id)
    return named or function.name


def udev_context() -> pyudev.Context:
    """A context of pyudev, which otherwise runs ldconfig to find libudev: a scan runs no programs.

    Raises:
        ImportError: there is no pyudev, or no libudev of the name that every distribution gives it.
    """
    import ctypes.util  # noqa: PLC0415  loading libudev costs time that known cards need not pay

    search = ctypes.util.find_library
    ctypes.util.find_library = lambda name: f"lib{name}.so.1"
    try:
        from pyudev import Context  # noqa: PLC0415

        return Context()
    except OSError as error:
        raise ImportError(f"libudev cannot be loaded: {error}") from None
    finally:
        ctypes.util.find_library = search


@cache
def _from_hwdb(vendor: int, device: int) -> str:
    """The name in udev's hardware database; empty without libudev, database or entry.

    pyudev declares the functions of libudev's hwdb without wrapping them in an API of its own.
    """
    try:
        context = udev_context()
        library = context._libudev  # noqa: SLF001
        database = library.udev_hwdb_new(context)
    except (ImportError, OSError, AttributeError):
        return ""
    if not database:
        return ""
    key = f"pci:v{vendor:08X}d{device:08X}".encode()
    entry = library.udev_hwdb_get_properties_list_entry(database, key, 0)
    name = ""
    while entry:
        if library.udev_list_entry_get_name(entry) == b"ID_MODEL_FROM_DATABASE":
            name = (library.udev_list_entry_get_value(entry) or b"").decode("utf-8", "replace")
        entry = library.udev_list_entry_get_next(entry)
    library.udev_hwdb_unref(database)
    return name


@cache
def _from_pci_ids(id_: str) -> str:
    """The name in the distribution's pci.ids; empty without file or entry."""
    vendor, device = id_.split(":")
    for path in _PCI_IDS:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read(_PCI_IDS_LIMIT)
        except OSError:
            continue
        start = text.find(f"\n{vendor}  ")
        if start < 0:
            continue
        end = re.compile(r"\n[0-9a-f]").search(text, start + 1)
        block = text[start : end.start() if end else len(text)]
        found = re.search(rf"\n\t{device}  (.+)", block)
        return found[1].strip() if found else ""
    return ""
