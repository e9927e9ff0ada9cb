"""Which board this is, from DMI, and which families of firmware menus fit it, the most specific first."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from hostdoctor.facts.host import Cpu, Firmware
from hostdoctor.facts.unknown import Unknown, known
from hostdoctor.findings import Confidence, Evidence
from hostdoctor.knowledge.firmware import Family, load_firmware_families

Kind = Literal["server", "client", "portable", ""]

# What boards carry where nobody filled in DMI (github.com/linuxhw/DMI).
_JUNK = frozenset(
    (
        *("empty", "null", "none", "n/a", "default string", "system manufacturer", "system product name", "system version"),
        *("to be filled by o.e.m.", "not specified", "not applicable", "unknown", "o.e.m.", "oem", "undefined", "x.x"),
        *("type2 - board vendor name1", "type2 - board product name1", "base board manufacturer", "base board product name"),
        *("0123456789", "super server"),
    )
)
_LONGEST = 80  # characters of a name; SMBIOS allows more, boards do not use it

# SMBIOS 7.4.1, chassis types.
PORTABLE = frozenset(("8", "9", "10", "11", "14", "30", "31", "32"))
_SERVER = frozenset(("17", "23", "25", "28", "29"))
_CLIENT = frozenset(("3", "4", "5", "6", "7", "13", "15", "16", "24", "35", "36"))
_SERVER_CPUS = ("*epyc*", "*xeon*gold*", "*xeon*silver*", "*xeon*platinum*", "*xeon*bronze*", "*xeon*e5-*", "*xeon*e7-*")
_CLIENT_CPUS = ("*ryzen*", "*athlon*", "*threadripper*", "*intel*core*", "*pentium*", "*celeron*")

# These put a part number into the board's name and the model into the product's.
_BY_PRODUCT = ("dell", "hp", "hewlett", "lenovo", "cisco", "inspur", "h3c", "oracle", "xfusion")


class Board(msgspec.Struct, frozen=True):
    """The board as DMI names it.

    Attributes:
        name: "Supermicro X11DPG-QT (SYS-7049GP-TRT)"; empty where DMI names none.
        bios: "BIOS 3.8a of 10/28/2022", or empty.
        kind: what kind of computer, or empty.
        family: title of the family of menus that the guide follows; empty where none is known.
        confidence: that the host has that family's menus.
        enter: how to get into the setup.
        evidence: the DMI strings this rests on.
    """

    name: str
    bios: str
    kind: Kind
    family: str
    confidence: Confidence
    enter: str
    evidence: tuple[Evidence, ...]


class _Names(msgspec.Struct, frozen=True):
    system: str
    product: str
    vendor: str
    board: str


def cleaned(text: str | Unknown) -> str:
    """A DMI string without the padding that vendors put around it; empty where it says nothing."""
    if isinstance(text, Unknown):
        return ""
    plain = " ".join(text[: 4 * _LONGEST].split()).strip("'\" ")
    if plain.startswith("-[") and plain.endswith("]-"):
        plain = plain[2:-2]
    if "-[" in plain and plain.endswith("]-"):
        plain = plain.partition("-[")[0].strip()
    return "" if plain.casefold() in _JUNK else plain[:_LONGEST]


def identify(firmware: Firmware, cpu: Cpu) -> tuple[Board, tuple[Family, ...]]:
    """The board, and the families whose menus it may have, the most specific first.

    A portable computer gets its own family and no other: no server's or desktop's menu is its.
    """
    names = _Names(
        cleaned(firmware.system_vendor),
        cleaned(firmware.product_name),
        cleaned(firmware.board_vendor),
        cleaned(firmware.board_name),
    )
    kind = _kind(firmware, cpu)
    processor = known(cpu.name, "").casefold()
    families = tuple(family for family in load_firmware_families() if _fits(family, names, kind, processor))
    named = next((family for family in families if family.vendor), None)
    first = named or next(iter(families), None)
    board = Board(
        name=_shown(names),
        bios=_bios(firmware),
        kind=kind,
        family=first.title if first else "",
        confidence=_confidence(named, names),
        enter=first.enter if first else "",
        evidence=_evidence(firmware),
    )
    return board, families


def _kind(firmware: Firmware, cpu: Cpu) -> Kind:
    """The processor tells a server board in a tower from a desktop, the chassis a laptop from both."""
    chassis, processor = known(firmware.chassis_type, ""), known(cpu.name, "").casefold()
    if chassis in PORTABLE:
        return "portable"
    if chassis in _SERVER or any(fnmatchcase(processor, pattern) for pattern in _SERVER_CPUS):
        return "server"
    if chassis in _CLIENT or any(fnmatchcase(processor, pattern) for pattern in _CLIENT_CPUS):
        return "client"
    return ""


def _fits(family: Family, names: _Names, kind: Kind, processor: str) -> bool:
    named = bool(family.board or family.product)
    if (kind == "portable") != (family.kind == "portable"):
        return False
    if family.kind == "client" and kind == "server" and not named:
        return False
    if family.processor and not any(fnmatchcase(processor, pattern) for pattern in family.processor):
        return False
    vendors = (names.vendor.casefold(), names.system.casefold())
    if family.vendor and not any(vendor.startswith(family.vendor) for vendor in vendors if vendor):
        return False
    return not named or _is(names.board, family.board) or _is(names.product, family.product)


def _is(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name.casefold(), pattern) for pattern in patterns)


def _confidence(family: Family | None, names: _Names) -> Confidence:
    if family is None:
        return "possible"
    return "certain" if names.board.casefold() in family.exact else family.confidence


def _shown(names: _Names) -> str:
    maker, model, beside = names.vendor or names.system, names.board, names.product
    if names.system.casefold().startswith(_BY_PRODUCT) and names.product:
        maker, model, beside = names.system, names.product, ""
    text = " ".join(each for each in (maker, model or beside) if each)
    return f"{text} ({beside})" if model and beside and beside != model else text


def _bios(firmware: Firmware) -> str:
    version, date = cleaned(firmware.bios_version), cleaned(firmware.bios_date)
    if not version:
        return f"BIOS of {date}" if date else ""
    return f"BIOS {version} of {date}" if date else f"BIOS {version}"


def _evidence(firmware: Firmware) -> tuple[Evidence, ...]:
    named = (
        ("board_vendor", firmware.board_vendor),
        ("board_name", firmware.board_name),
        ("sys_vendor", firmware.system_vendor),
        ("product_name", firmware.product_name),
        ("bios_version", firmware.bios_version),
    )
    found = ((name, cleaned(value)) for name, value in named)
    return tuple(Evidence(f"/sys/class/dmi/id/{name}", value) for name, value in found if value)
