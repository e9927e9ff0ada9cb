"""The output of lspci: functions, each with its header and what stands below.

Understood are -v to -vvv, -n and -nn, -k, -D, -x to -xxxx in any combination, with or without root, whole or cut, also
lines that somebody picked. The forms for machines and the tree have parsers of their own. Source: pciutils lspci.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

import msgspec

from hostdoctor.facts.pci import Acs, Bar, ConfigFacts, Link, Window
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.parsers.lspci_bars import bars_of, windows_of
from hostdoctor.parsers.lspci_body import Body, read_body
from hostdoctor.parsers.lspci_registers import CUT, Context, acs_of, decode, port_type

_HEADER = re.compile(r"[ \t]*((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7]) +((?:Class )?\S[^:]{0,80}): (\S.*)")
_CLASS_CODE = re.compile(r"(?:Class |.*\[)?([0-9a-f]{4})\]?$")
_REVISION = re.compile(r" \(rev ([0-9a-f]{2})\)")
_INTERFACE = re.compile(r" \(prog-if ([0-9a-f]{2})\b")
_TAIL = re.compile(r" \((?:rev|prog-if) ")
_IDS = re.compile(r"(?:.*\[)?([0-9a-f]{4}):([0-9a-f]{4})\]?$")
_BARE_DEVICE = re.compile(r"(?:(.*) )?Device (?:([0-9a-f]{4}):)?([0-9a-f]{4})$")
_NODE = re.compile(r"NUMA node (\d{1,4})\b")
_GROUP = re.compile(r"IOMMU group (\d{1,6})\b")
_VF_PLACES = re.compile(r"offset: (\d{1,5}), stride: (\d{1,5})\b")
_LONGEST = 1024  # characters of a header

_NO_NODE = Unknown("the firmware names no memory node for it")
# Drivers whose names are known whole, should the text end right behind one.
_WHOLE_DRIVERS = ("amdgpu", "i915", "mlx5_core", "nouveau", "nvidia", "nvme", "pcieport", "snd_hda_intel", "vfio-pci", "xe")


class Identity(msgspec.Struct, frozen=True):
    """Who a function is, as lspci prints it: ids that are not printed are 0, and then the names are all there is.

    Attributes:
        class_name: "VGA compatible controller", or empty.
        class_code: class, subclass and programming interface; -1 where only the name is there.
        text: names of vendor and device, or what is left of them beside the ids.
        vendor, device: ids.
        subsystem_vendor, subsystem_device: ids.
        interface: the programming interface.
    """

    class_name: str
    class_code: int
    text: str
    vendor: int = 0
    device: int = 0
    subsystem_vendor: int = 0
    subsystem_device: int = 0
    interface: int = 0


class Entry(msgspec.Struct, frozen=True):
    """One function of an output.

    Attributes:
        line: of its header, from 0.
        address: as printed.
        identity: who it is.
        config, link, bars, windows, driver, numa_node, iommu_group: as in facts.pci.Function.
        power: "D0" to "D3", or empty.
        port_type: of the Express capability, which -v shows where it shows no registers.
        virtual_functions: offset, stride and number of the virtual functions in use.
        is_denied: whether lspci was not allowed to read its capabilities.
    """

    line: int
    address: str
    identity: Identity
    config: ConfigFacts | Unknown = NOT_CAPTURED
    link: Link | Unknown | None = NOT_CAPTURED
    bars: tuple[Bar, ...] | Unknown = NOT_CAPTURED
    windows: tuple[Window, ...] = ()
    driver: str | Unknown | None = NOT_CAPTURED
    numa_node: int | Unknown = NOT_CAPTURED
    iommu_group: str | Unknown | None = NOT_CAPTURED
    power: str = ""
    port_type: int | None = None
    virtual_functions: tuple[int, int, int] = (0, 0, 0)
    is_denied: bool = False


class Listing(msgspec.Struct, frozen=True):
    """One output.

    Attributes:
        entries: its functions.
        loose_acs: the ACS registers of lines that stand below no header, each with its line.
    """

    entries: tuple[Entry, ...]
    loose_acs: tuple[tuple[int, Acs], ...]


def parse_lspci(lines: Sequence[str]) -> Listing:
    """Reads an output of lspci; what is not understood is left out."""
    headers = [
        (number, match)
        for number, line in enumerate(lines)
        if line > "\n" and (match := _HEADER.match(line[:_LONGEST])) is not None  # that is, not empty and not after a tab
    ]
    starts = [number for number, _ in headers]
    ends = [*starts[1:], len(lines)] if starts else []
    bodies = [read_body(lines, start + 1, end) for start, end in zip(starts, ends, strict=True)]
    shown = frozenset(name for body in bodies for name in (*body.fields, *body.sections))
    is_extended = any(body.has_extended for body in bodies)
    entries = []
    for (number, match), body, end in zip(headers, bodies, ends, strict=True):
        has_ended = not body.cut and (end < len(lines) or _ends_whole(body, lines))
        context = Context(shown, is_extended, has_ended, _number(_REVISION.search(match[3])))
        entries.append(_entry(number, match, body, context))
    return Listing(tuple(entries), tuple(_loose_acs(lines[: starts[0] if starts else len(lines)])))


def _ends_whole(body: Body, lines: Sequence[str]) -> bool:
    """Whether the last function's lines are all there: the driver comes last, and only a hex dump after it."""
    if body.dump or "modules" in body.fields:
        return True
    return "driver" in body.fields and _last_word(lines) in _WHOLE_DRIVERS


def _last_word(lines: Sequence[str]) -> str:
    words = lines[-1].split()
    return words[-1] if words else ""


def _number(match: re.Match[str] | None) -> int:
    return int(match[1], 16) if match else 0


def _entry(number: int, match: re.Match[str], body: Body, context: Context) -> Entry:
    config, link = decode(body, context)
    return Entry(
        line=number,
        address=match[1],
        identity=_identity(match[2], match[3], body),
        config=config,
        link=link,
        bars=bars_of(body, context),
        windows=windows_of(body),
        driver=_driver(body, context),
        numa_node=_node(body, context),
        iommu_group=_group(body, context),
        power=body.power,
        port_type=port_type(body),
        virtual_functions=_virtual_functions(body, config),
        is_denied=body.denied,
    )


def _identity(class_text: str, text: str, body: Body) -> Identity:
    identity = _identity_of(class_text, text, body.text("Subsystem"))
    dump = body.config_space if body.dump else b""
    return _with_dump(identity, dump) if len(dump) >= 64 and dump[:2] not in (b"\xff\xff", b"\0\0") else identity


@lru_cache(maxsize=512)  # a host has many functions of one kind
def _identity_of(class_text: str, text: str, subsystem_text: str) -> Identity:
    code = _CLASS_CODE.match(class_text)
    tail = _TAIL.search(text)
    names = text[: tail.start()].rstrip() if tail else text.rstrip()
    interface = _number(_INTERFACE.search(text))
    subsystem = _ids(subsystem_text)
    identity = Identity(
        class_name="" if code and code[1] == class_text else class_text.partition(" [")[0],
        class_code=int(code[1], 16) << 8 | interface if code else -1,
        text=names,
        subsystem_vendor=subsystem[0],
        subsystem_device=subsystem[1],
        interface=interface,
    )
    vendor, device = _ids(names)
    if vendor:
        identity = msgspec.structs.replace(identity, vendor=vendor, device=device, text=names.rpartition(" [")[0])
    elif bare := _BARE_DEVICE.match(names):
        ids = {"vendor": int(bare[2] or "0", 16), "device": int(bare[3], 16)}
        identity = msgspec.structs.replace(identity, text=bare[1] or "", **ids)
    return identity


def _with_dump(identity: Identity, dump: bytes) -> Identity:
    """With the ids of a hex dump's header."""
    changes = {
        "vendor": int.from_bytes(dump[:2], "little"),
        "device": int.from_bytes(dump[2:4], "little"),
        "class_code": int.from_bytes(dump[9:12], "little"),
    }
    if not dump[0x0E] & 0x7F:
        changes["subsystem_vendor"] = int.from_bytes(dump[0x2C:0x2E], "little")
        changes["subsystem_device"] = int.from_bytes(dump[0x2E:0x30], "little")
    return msgspec.structs.replace(identity, **changes)


def _ids(text: str) -> tuple[int, int]:
    """Both of "[10de:2204]" at the end, or of "10de:2204" alone."""
    match = _IDS.match(text[:_LONGEST])
    return (int(match[1], 16), int(match[2], 16)) if match else (0, 0)


def _driver(body: Body, context: Context) -> str | Unknown | None:
    if name := body.text("driver"):
        words = name.split()
        return words[0] if context.has_ended or words[0] in _WHOLE_DRIVERS or "modules" in body.fields else CUT
    if "modules" in body.fields:
        return None
    if "driver" in context.shown:
        return None if context.has_ended else CUT
    return NOT_CAPTURED


def _node(body: Body, context: Context) -> int | Unknown:
    text = body.text("NUMA")
    match = _NODE.search(body.text("Flags")) if not text else None
    if match is not None or (text.isdecimal() and text.isascii() and len(text) <= 4):
        return int(match[1] if match else text)
    return _NO_NODE if "NUMA" in context.shown and context.has_ended and body.is_whole_of else NOT_CAPTURED


def _group(body: Body, context: Context) -> str | Unknown | None:
    text = body.text("IOMMU")
    match = _GROUP.search(body.text("Flags")) if not text else None
    if match is not None or (text.isdecimal() and text.isascii() and len(text) <= 6):
        return match[1] if match else text
    return None if "IOMMU" in context.shown and context.has_ended and body.is_whole_of else NOT_CAPTURED


def _virtual_functions(body: Body, config: ConfigFacts | Unknown) -> tuple[int, int, int]:
    match = _VF_PLACES.search(body.text("VF"))
    if match is None or isinstance(config, Unknown) or config.sriov is None or isinstance(config.sriov, Unknown):
        return (0, 0, 0)
    return int(match[1]), int(match[2]), min(config.sriov.num_vfs, 256)


def _loose_acs(lines: Sequence[str]) -> Iterator[tuple[int, Acs]]:
    for number, line in enumerate(lines):
        name, colon, rest = line.strip()[:_LONGEST].partition(":")
        if name == "ACSCtl" and colon and (acs := acs_of("", rest)):
            yield number, acs
