"""What lspci says of a function's registers, decoded: the link and capabilities.

A capability that is not shown is absent only where all of the function's lines are there and lspci was allowed to read
them; else it is Unknown, with the reason. Every number must be followed by what lspci writes behind it, so that a text
cut in the middle of a line gives no smaller number. Source: pciutils lspci.c, ls-caps.c, ls-ecaps.c.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from hostdoctor.facts.pci import (
    INTEGRATED_ENDPOINT,
    PCIE_TO_PCI_BRIDGE,
    Acs,
    Aer,
    ConfigFacts,
    Dpc,
    Express,
    Link,
    ResizableBar,
    Sriov,
)
from hostdoctor.facts.unknown import NEEDS_ROOT, Unknown
from hostdoctor.parsers.config_space import ALL_ONES, HEADER_7F, NO_EXTENDED, NO_LINK, NO_TARGET_SPEED, read_config
from hostdoctor.parsers.lspci_body import Body

_WHOLE = "attach the whole output of sudo lspci -vvv"
PLAIN = Unknown("lspci without -vv shows no registers", _WHOLE)
BRIEF = Unknown("lspci -v does not show it", _WHOLE)
CUT = Unknown("the text ends within what lspci says of the device", _WHOLE)
PICKED = Unknown("only some lines of lspci's output are here", _WHOLE)
OLD = Unknown("this version of lspci does not show it", "run a newer lspci (pciutils 3.6 or later)")
SHORT_DUMP = Unknown("lspci -x shows the first 64 bytes only", _WHOLE)

EVENT_COLLECTOR = 10
PORT_TYPES = {
    "Endpoint": 0, "Legacy Endpoint": 1, "Root Port": 4, "Upstream Port": 5, "Downstream Port": 6,
    "PCI-Express to PCI/PCI-X Bridge": PCIE_TO_PCI_BRIDGE, "PCI/PCI-X to PCI-Express Bridge": 8,
    "Root Complex Integrated Endpoint": INTEGRATED_ENDPOINT, "Root Complex Event Collector": EVENT_COLLECTOR,
}  # fmt: skip
_EXPRESS = re.compile(r"Express (?:\(v(\d)\) )?([A-Z][^(,]*?)(?: \(Slot([+-])\))?(?:,|$)")
_MAX_PAYLOAD = re.compile(r"MaxPayload (\d{3,4}) bytes")
_MAX_READ = re.compile(r"MaxReadReq (\d{3,4}) bytes")
_SPEED = re.compile(r"Speed (\d{1,3}(?:\.\d)?)GT/s")
# Widths are 1, 2, 4, 8, 12, 16 and 32 lanes: at the very end of a cut text x1 may have been x16, and x3 x32.
_WIDTH = re.compile(r"Width x(\d{1,2})(?![\d])")
_ASPM = {"Disabled": 0, "L0s Enabled": 1, "L1 Enabled": 2, "L0s L1 Enabled": 3}
_TARGET = re.compile(r"Target Link Speed: (\d{1,3}(?:\.\d)?)GT/s")
_SET = re.compile(r"\b(\w+)\+")
_ACS_NAMES = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans")
_ACS_BITS = {name: position for position, name in enumerate(_ACS_NAMES)}
_UNCORRECTABLE = {
    "DLP": 4, "SDES": 5, "TLP": 12, "FCP": 13, "CmpltTO": 14, "CmpltAbrt": 15, "UnxCmplt": 16, "RxOF": 17, "MalfTLP": 18,
    "ECRC": 19, "UnsupReq": 20, "ACSViol": 21, "UncorrIntErr": 22, "BlockedTLP": 23, "AtomicOpBlocked": 24,
    "TLPBlockedErr": 25, "PoisonTLPBlocked": 26, "DMWrReqBlocked": 27, "IDECheck": 28, "MisIDETLP": 29, "PCRC_CHECK": 30,
    "TLPXlatBlocked": 31,
}  # fmt: skip
_CORRECTABLE = {
    "RxErr": 0, "BadTLP": 6, "BadDLLP": 7, "Rollover": 8, "Timeout": 12, "AdvNonFatalErr": 13, "NonFatalErr": 13,
    "CorrIntErr": 14, "HeaderOF": 15,
}  # fmt: skip
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50, "E": 1 << 60}
_REBAR = re.compile(r"(\d): current size: (\d{1,3})([MGTPE])B, supported: ([^,]{1,400})")
_REBAR_SIZE = re.compile(r"(\d{1,3})([MGTPE])B\b")
_BUSES = re.compile(r"primary=[0-9a-f]{2}, secondary=([0-9a-f]{2}), subordinate=([0-9a-f]{2})")
_VFS = re.compile(r"Total VFs: (\d{1,5}), Number of VFs: (\d{1,5}),")


class Context(NamedTuple):
    """What the rest of the output tells about one function's lines.

    Attributes:
        shown: the fields and sections that any function of it shows.
        is_extended: whether any function shows a capability beyond 256 bytes, so that these could be read.
        has_ended: whether the function's lines are all there.
        revision: as the header has it; 0xff where the function answers with ones.
    """

    shown: frozenset[str]
    is_extended: bool
    has_ended: bool
    revision: int


def decode(body: Body, context: Context) -> tuple[ConfigFacts | Unknown, Link | Unknown | None]:
    """Config space and the link, as far as the lines tell; a hex dump goes before what lspci made of it."""
    if reason := _lost(body, context):
        why = HEADER_7F if body.header_7f else ALL_ONES
        return ConfigFacts(why, why, why, why, why, why, lost=reason, revision=context.revision), why
    if not _shows_registers(body):
        return unseen(context), unseen(context)
    link = _link(body, context)
    express = _express(body, context, link)
    buses = _BUSES.search(body.text("Bus"))
    facts = ConfigFacts(
        express=express,
        acs=_acs(body, context, express),
        aer=_aer(body, context, express),
        resizable_bars=_resizable_bars(body, context, express),
        sriov=_sriov(body, context, express),
        dpc=_dpc(body, context, express),
        secondary_bus=int(buses[1], 16) if buses else None,
        subordinate_bus=int(buses[2], 16) if buses else None,
        header_type=1 if buses else 0 if body.is_whole_of else None,
        revision=context.revision,
    )
    return _with_dump(facts, body.config_space, link) if body.dump else (facts, link)


_REGISTER_FIELDS = frozenset(("Control", "Status", "Flags", "Bus", "LnkCap", "LnkSta", "DevCap", "DevCtl", "ACSCtl"))


def _shows_registers(body: Body) -> bool:
    return bool(body.sections or body.dump or body.denied or body.has_capabilities or _REGISTER_FIELDS & body.fields.keys())


def unseen(context: Context) -> Unknown:
    """Why a function has no lines that tell of registers."""
    return PICKED if context.shown & _REGISTER_FIELDS else PLAIN


def _lost(body: Body, context: Context) -> str:
    if body.header_7f:
        return "header type 7f"
    return "reads as all ones" if context.revision == 0xFF else ""


def absent(body: Body, context: Context, *names: str) -> Unknown | None:
    """Why a capability that is not shown may be there all the same; None where it is not there.

    Args:
        body: the function's lines.
        context: of the whole output.
        names: of the capability's section, and of its fields where only picked lines are at hand.
    """
    if body.denied:
        return NEEDS_ROOT
    if not context.has_ended or body.cut:
        return CUT
    if not body.is_whole_of:
        return None if context.shown.intersection(names) else PICKED
    return None if body.has_capabilities or body.text("Status").startswith("Cap-") else PICKED


def _absent_extended(body: Body, context: Context, express: Express | Unknown | None, *names: str) -> Unknown | None:
    """The same for capabilities beyond 256 bytes, which only PCI Express functions have."""
    why = absent(body, context, *names)
    if why is not None or (express is None and body.is_whole_of):
        return why
    return None if context.is_extended or not body.is_whole_of else NO_EXTENDED


# --- PCI Express -----------------------------------------------------------------------------------------------------


def port_type(body: Body) -> int | None:
    """The device/port type of the Express capability, which -v shows too; None where the lines do not have it."""
    match = _EXPRESS.match(body.sections.get("express", ""))
    return PORT_TYPES.get(match[2]) if match else None


def _link(body: Body, context: Context) -> Link | Unknown | None:
    if port_type(body) in (INTEGRATED_ENDPOINT, EVENT_COLLECTOR):
        return None
    status, capability = body.text("LnkSta"), body.text("LnkCap")
    if not status and not capability:
        if "express" in body.sections:
            return BRIEF if body.is_whole_of == 1 else CUT
        return absent(body, context, "express", "LnkSta")
    why = PICKED if context.has_ended else CUT
    return Link(
        _speed(status, why),
        _width(status, why, context),
        _speed(capability, why),
        _width(capability, why, context),
    )


def _speed(text: str, why: Unknown) -> float | Unknown:
    if match := _SPEED.search(text):
        return float(match[1])
    return Unknown("lspci gives the link speed as unknown") if "Speed unknown" in text else why


def _width(text: str, why: Unknown, context: Context) -> int | Unknown:
    match = _WIDTH.search(text)
    if match is None or (not context.has_ended and match[1] in ("1", "3") and match.end() == len(text)):
        return why
    width = int(match[1])
    return width if width <= 32 else Unknown(f"lspci gives the link width as x{width}")


def _express(body: Body, context: Context, link: Link | Unknown | None) -> Express | Unknown | None:
    heading = _EXPRESS.match(body.sections.get("express", ""))
    if heading is None:
        if "express" in body.sections:
            return Unknown("lspci shows a type of PCI Express function that is not known")
        return PICKED if isinstance(link, Link) else absent(body, context, "express")
    if not body.text("DevCap"):
        return BRIEF if body.is_whole_of == 1 else CUT if not context.has_ended else PICKED
    if not context.has_ended and body.section == "express":
        return CUT
    supported, payload = (_MAX_PAYLOAD.search(body.text(name)) for name in ("DevCap", "DevCtl"))
    read = _MAX_READ.search(body.text("DevCtl"))
    port = PORT_TYPES.get(heading[2])
    if supported is None or payload is None or read is None or port is None:
        return CUT
    links = _link_fields(body, link)
    if isinstance(links, Unknown):
        return links
    return Express(
        port_type=port,
        slot_implemented=heading[3] == "+",
        max_payload_supported_bytes=int(supported[1]),
        max_payload_bytes=int(payload[1]),
        max_read_request_bytes=int(read[1]),
        **links,
        **_atomics(body, context, heading[1] or "1"),
    )


def _link_fields(body: Body, link: Link | Unknown | None) -> dict[str, Any] | Unknown:
    if link is None:
        nothing = dict.fromkeys(("max_speed_gts", "current_speed_gts", "target_speed_gts"), NO_LINK)
        return {**nothing, "max_width": 0, "current_width": 0, "aspm_control": 0, "link_training": False}
    if isinstance(link, Unknown):
        return link
    if isinstance(link.max_width, Unknown) or isinstance(link.current_width, Unknown):
        return link.max_width if isinstance(link.max_width, Unknown) else CUT
    target = _TARGET.search(body.text("LnkCtl2"))
    return {
        "max_speed_gts": link.max_speed_gts,
        "max_width": link.max_width,
        "current_speed_gts": link.current_speed_gts,
        "current_width": link.current_width,
        "target_speed_gts": float(target[1]) if target else NO_TARGET_SPEED,
        "aspm_control": _ASPM.get(body.text("LnkCtl").partition(";")[0].removeprefix("ASPM ").strip(), 0),
        "link_training": " Train+" in body.text("LnkSta"),
    }


def _atomics(body: Body, context: Context, version: str) -> dict[str, Any]:
    """The atomics bits; lspci before 3.6 does not show them, and version 1 of the capability has none."""
    offers, controls = body.text("AtomicOpsCap"), body.text("AtomicOpsCtl")
    unsaid: bool | Unknown = False
    if version != "1" and not offers and not controls:
        unsaid = OLD if context.has_ended else CUT
    return {
        "atomic_routing": _flag(offers, "Routing", unsaid),
        "atomic_32_completer": _flag(offers, "32bit", unsaid),
        "atomic_64_completer": _flag(offers, "64bit", unsaid),
        "atomic_128_completer": _flag(offers, "128bitCAS", unsaid),
        "atomic_requester_enabled": _flag(controls, "ReqEn", unsaid),
        "atomic_egress_blocked": _flag(controls, "EgressBlck", unsaid),
    }


def _flag(text: str, name: str, unsaid: bool | Unknown) -> bool | Unknown:
    return True if f"{name}+" in text else False if f"{name}-" in text else unsaid


def _bits(text: str, positions: Mapping[str, int]) -> int:
    if "+" not in text:  # as of most
        return 0
    return sum(1 << positions[name] for name in _SET.findall(text) if name in positions)


# --- extended capabilities -------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def acs_of(capability: str, control: str) -> Acs | None:
    """The ACS registers of the lines "ACSCap:" and "ACSCtl:"; None where the control register is not told whole."""
    if "ReqRedir" not in control or "CmpltRedir" not in control or not re.search(r"EgressCtrl[+-]", control):
        return None
    has, uses = _bits(capability, _ACS_BITS), _bits(control, _ACS_BITS)
    return Acs(has or uses, uses)


def _unsaid(body: Body, context: Context) -> Unknown:
    """Why the registers of a capability are not shown whose heading is."""
    return BRIEF if body.is_whole_of == 1 else CUT if not context.has_ended else PICKED


def _acs(body: Body, context: Context, express: Express | Unknown | None) -> Acs | Unknown | None:
    if "ACSCtl" in body.fields:
        return acs_of(body.text("ACSCap"), body.text("ACSCtl")) or CUT
    if "acs" in body.sections:
        return _unsaid(body, context)
    return _absent_extended(body, context, express, "acs", "ACSCtl")


def _aer(body: Body, context: Context, express: Express | Unknown | None) -> Aer | Unknown | None:
    if "aer" not in body.sections:
        return _absent_extended(body, context, express, "aer")
    if "UESta" not in body.fields or "CESta" not in body.fields:
        return _unsaid(body, context)
    if not context.has_ended and body.section == "aer":
        return CUT
    return Aer(
        _bits(body.text("UESta"), _UNCORRECTABLE),
        _bits(body.text("CESta"), _CORRECTABLE),
    )


def _resizable_bars(body: Body, context: Context, express: Express | Unknown | None) -> tuple[ResizableBar, ...] | Unknown:
    if "rebar" not in body.sections:
        return _absent_extended(body, context, express, "rebar") or ()
    if not body.resizable:
        return OLD if "<?>" in body.sections["rebar"] else _unsaid(body, context)
    found = []
    if not context.has_ended and body.section == "rebar":
        return CUT
    for lines in body.resizable:
        match = _REBAR.match(" ".join(lines))
        if match is None:
            return CUT
        sizes = tuple(int(number) * UNITS[unit] for number, unit in _REBAR_SIZE.findall(match[4]))
        found.append(ResizableBar(int(match[1]), int(match[2]) * UNITS[match[3]], sizes))
    return tuple(found)


def _sriov(body: Body, context: Context, express: Express | Unknown | None) -> Sriov | Unknown | None:
    if "sriov" not in body.sections:
        return _absent_extended(body, context, express, "sriov")
    match = _VFS.search(body.text("Initial"))
    return Sriov(int(match[1]), int(match[2])) if match else _unsaid(body, context)


def _dpc(body: Body, context: Context, express: Express | Unknown | None) -> Dpc | Unknown | None:
    if "dpc" not in body.sections:
        return _absent_extended(body, context, express, "dpc")
    match = re.match(r"Trigger([+-]) Reason:([0-9a-f]{2})\b", body.text("DpcSta"))
    return Dpc(match[1] == "+", int(match[2], 16)) if match else _unsaid(body, context)


def _with_dump(
    facts: ConfigFacts, space: bytes, link: Link | Unknown | None
) -> tuple[ConfigFacts | Unknown, Link | Unknown | None]:
    """With what the hex dump says, where there is one; what it does not reach stays as the text has it."""
    if len(space) < 64:
        return facts, link
    dumped = read_config(lambda offset, size: space[offset : offset + size])
    if isinstance(dumped, Unknown):
        return facts, link
    if dumped.lost:
        return dumped, dumped.express if isinstance(dumped.express, Unknown) else link
    changes: dict[str, Any] = {
        name: value
        for name in ConfigFacts.__struct_fields__
        if not isinstance(value := getattr(dumped, name), Unknown) and value is not None and value != ()
    }
    for name in ("express", "acs", "aer", "sriov", "dpc"):
        ours, theirs = getattr(facts, name), getattr(dumped, name)
        if theirs is None or (isinstance(theirs, Unknown) and isinstance(ours, Unknown)):
            changes[name] = SHORT_DUMP if theirs is NEEDS_ROOT and ours is not NEEDS_ROOT else theirs
    joined = ConfigFacts(**{name: changes.get(name, getattr(facts, name)) for name in ConfigFacts.__struct_fields__})
    express = joined.express
    if isinstance(express, Express):
        link = None if express.port_type == INTEGRATED_ENDPOINT else _link_of(express)
    return joined, link


def _link_of(express: Express) -> Link:
    return Link(express.current_speed_gts, express.current_width, express.max_speed_gts, express.max_width)
