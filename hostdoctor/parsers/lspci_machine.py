"""The forms of lspci that are made for programs: -mm, one function a line, and -vmm, one record a function.

Source: pciutils lspci.8, "Machine readable output", and lspci.c show_machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hostdoctor.facts.unknown import NOT_CAPTURED
from hostdoctor.parsers.lspci import Entry, Identity
from hostdoctor.parsers.lspci_registers import PLAIN

_LINE = re.compile(r'\s*((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7]) "([^"]*)" "([^"]*)" "([^"]*)"(.*)')
_QUOTED = re.compile(r'"([^"]*)"')
_INTERFACE = re.compile(r" -p([0-9a-f]{2})\b")
_BRACKETED = re.compile(r"(.*?) ?\[([0-9a-f]{4})\]$")
_CODE = re.compile(r"[0-9a-f]{4}$")
_DEVICE = re.compile(r"Device ([0-9a-f]{4})$")
_LONGEST = 2048
_MOST_LINES = 40  # of a record


def parse_machine(lines: Sequence[str]) -> tuple[Entry, ...]:
    """The functions of -mm, -mmn or -mmnn."""
    found = []
    for number, line in enumerate(lines):
        match = _LINE.match(line[:_LONGEST])
        if match is None:
            continue
        interface = _INTERFACE.search(match[5])
        subsystem = (*_QUOTED.findall(match[5]), "", "")[:2]
        names = (match[2], match[3], match[4], *subsystem)
        identity = _identity(names, int(interface[1], 16) if interface else 0)
        found.append(Entry(number, match[1], identity, config=PLAIN, link=PLAIN, bars=PLAIN))
    return tuple(found)


def parse_record(lines: Sequence[str]) -> Entry | None:
    """One record of -vmm, with or without -k and -n; its first line holds the address, whatever it is called."""
    record: dict[str, str] = {}
    address = ""
    for line in lines[:_MOST_LINES]:
        name, colon, value = line.strip()[:_LONGEST].partition(":")
        if not colon:
            break
        if not address:
            address = value.strip()
        else:
            record.setdefault(name, value.strip())
    if not address:
        return None
    names = [record.get(name, "") for name in ("Class", "Vendor", "Device", "SVendor", "SDevice")]
    interface, node, group = (record.get(name, "") for name in ("ProgIf", "NUMANode", "IOMMUGroup"))
    knows_driver = "Driver" in record or "Module" in record
    return Entry(
        line=0,
        address=address,
        identity=_identity(names, int(interface, 16) if re.fullmatch(r"[0-9a-f]{2}", interface) else 0),
        config=PLAIN,
        link=PLAIN,
        bars=PLAIN,
        driver=record.get("Driver") if knows_driver else NOT_CAPTURED,
        numa_node=int(node) if re.fullmatch(r"[0-9]{1,4}", node) else NOT_CAPTURED,
        iommu_group=group if re.fullmatch(r"[0-9]{1,6}", group) else NOT_CAPTURED,
    )


def _identity(names: Sequence[str], interface: int) -> Identity:
    (class_name, class_code), (vendor_name, vendor), (device_name, device), *subsystem = map(_named, names)
    return Identity(
        class_name=class_name,
        class_code=class_code << 8 | interface if class_code or not class_name else -1,
        text=f"{vendor_name} {device_name}".strip(),
        vendor=vendor,
        device=device,
        subsystem_vendor=subsystem[0][1],
        subsystem_device=subsystem[1][1],
        interface=interface,
    )


def _named(text: str) -> tuple[str, int]:
    """Name and number of "GA102 [GeForce RTX 3090] [2204]", "2204", "Device 2204" or a name alone."""
    if match := _BRACKETED.match(text):
        return match[1], int(match[2], 16)
    if _CODE.match(text):
        return "", int(text, 16)
    if match := _DEVICE.match(text):
        return "", int(match[1], 16)
    return text, 0
