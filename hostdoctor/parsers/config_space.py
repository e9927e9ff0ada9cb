"""PCI config space: the header, and of its capabilities what the checks need, by small reads along the two chains.

A whole config space is never read: on hardware each dword is a transaction of its own, and 4 KiB take about 10 ms.
Tables say where a field stands; one decoder applies them. Sources: Linux include/uapi/linux/pci_regs.h and
drivers/pci/{pci,probe,access,rebar}.c; PCI Express Base Specification 6.0, sections 7.5 to 7.9.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from struct import Struct
from typing import Any

from hostdoctor.facts.pci import Acs, Aer, ConfigFacts, Dpc, Express, ResizableBar, Sriov
from hostdoctor.facts.unknown import NEEDS_ROOT, Unknown
from hostdoctor.parsers.sizes import MIB, bar_sizes

ReadAt = Callable[[int, int], bytes]

NOT_READABLE = Unknown("config space cannot be read")
NO_EXTENDED = Unknown("extended config space is not readable")
TRUNCATED = Unknown("config space ends in the middle of its capabilities")
ALL_ONES = Unknown("config space reads as all ones")
HEADER_7F = Unknown("the function answers with header type 7f")
NO_LINK = Unknown("part of the root complex, without a link")
NO_TARGET_SPEED = Unknown("its PCI Express capability has no target speed")

# A row is (field, register's offset in the capability, lowest bit, bits, what each value means or None for itself).
_Row = tuple[str, int, int, int, "Sequence[Any] | None"]
# The same with the bit counted from the start of the capability, and a mask.
_Compiled = tuple[tuple[int, int, "Sequence[Any] | None"], ...]
# Registers to read: (offset in the capability, bytes).
_Spans = tuple[tuple[int, int], ...]

_FLAG = (False, True)
_PAYLOAD = tuple(128 << code for code in range(8))  # bytes; 6 and 7 are reserved, the kernel shifts them alike
_RATES = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}  # GT/s
_SPEED = tuple(_RATES.get(code, Unknown(f"reserved speed code {code}")) for code in range(16))

_FLAGS, _DEVCAP, _DEVCTL, _LNKCAP, _LNKCTL, _LNKSTA = 0x02, 0x04, 0x08, 0x0C, 0x10, 0x12
_DEVCAP2, _DEVCTL2, _LNKCTL2 = 0x24, 0x28, 0x30

_EXPRESS: tuple[_Row, ...] = (
    ("port_type", _FLAGS, 4, 4, None),
    ("slot_implemented", _FLAGS, 8, 1, _FLAG),
    ("max_payload_supported_bytes", _DEVCAP, 0, 3, _PAYLOAD),
    ("max_payload_bytes", _DEVCTL, 5, 3, _PAYLOAD),
    ("max_read_request_bytes", _DEVCTL, 12, 3, _PAYLOAD),
    ("max_speed_gts", _LNKCAP, 0, 4, _SPEED),
    ("max_width", _LNKCAP, 4, 6, None),
    ("current_speed_gts", _LNKSTA, 0, 4, _SPEED),
    ("current_width", _LNKSTA, 4, 6, None),
    ("target_speed_gts", _LNKCTL2, 0, 4, _SPEED),
    ("aspm_control", _LNKCTL, 0, 2, None),
    ("link_training", _LNKSTA, 11, 1, _FLAG),
    ("atomic_routing", _DEVCAP2, 6, 1, _FLAG),
    ("atomic_32_completer", _DEVCAP2, 7, 1, _FLAG),
    ("atomic_64_completer", _DEVCAP2, 8, 1, _FLAG),
    ("atomic_128_completer", _DEVCAP2, 9, 1, _FLAG),
    ("atomic_requester_enabled", _DEVCTL2, 6, 1, _FLAG),
    ("atomic_egress_blocked", _DEVCTL2, 7, 1, _FLAG),
)
_AER: tuple[_Row, ...] = (
    ("uncorrectable_status", 0x04, 0, 32, None),
    ("correctable_status", 0x10, 0, 32, None),
)
_ACS: tuple[_Row, ...] = (
    ("capability", 0x04, 0, 16, None),
    ("control", 0x06, 0, 16, None),
)
_SRIOV: tuple[_Row, ...] = (
    ("total_vfs", 0x0E, 0, 16, None),
    ("num_vfs", 0x10, 0, 16, None),
)
_DPC: tuple[_Row, ...] = (
    ("triggered", 0x08, 0, 1, _FLAG),
    ("reason", 0x08, 1, 2, None),
)


def _compile(rows: tuple[_Row, ...], absent: Collection[int] = (), reason: Unknown = ALL_ONES) -> _Compiled:
    """Turns rows into shifts and masks; a field of an absent register has one value: the reason, 0 or False."""
    compiled: list[tuple[int, int, Sequence[Any] | None]] = []
    for _, register, shift, width, meaning in rows:
        if register in absent:
            compiled.append((0, 0, (reason if meaning is _SPEED else meaning[0] if meaning else 0,)))
        else:
            compiled.append((register * 8 + shift, (1 << width) - 1, meaning))
    return tuple(compiled)


_LINK_REGISTERS = (_LNKCAP, _LNKCTL, _LNKSTA, _LNKCTL2)
_VERSION_2_REGISTERS = (_DEVCAP2, _DEVCTL2, _LNKCTL2)

# By (has a link, version 2 or later): drivers/pci/access.c pcie_capability_reg_implemented.
_EXPRESS_LAYOUTS: dict[tuple[bool, bool], tuple[_Spans, _Compiled]] = {
    (True, True): (((_DEVCAP, 16), (_DEVCAP2, 8), (_LNKCTL2, 2)), _compile(_EXPRESS)),
    (True, False): (((_DEVCAP, 16),), _compile(_EXPRESS, _VERSION_2_REGISTERS, NO_TARGET_SPEED)),
    (False, True): (((_DEVCAP, 8), (_DEVCAP2, 8)), _compile(_EXPRESS, _LINK_REGISTERS, NO_LINK)),
    (False, False): (((_DEVCAP, 8),), _compile(_EXPRESS, _LINK_REGISTERS + _VERSION_2_REGISTERS, NO_LINK)),
}
_LINKED_TYPES = frozenset((0, 1, 4, 5, 6, 7, 8))  # pcie_cap_has_lnkctl: all but root complex endpoints and collectors

# By capability id: the field of ConfigFacts, what to read, where the fields stand, and their type.
_EXTENDED: dict[int, tuple[str, _Spans, _Compiled, Callable[..., Any]]] = {
    0x01: ("aer", ((0x04, 4), (0x10, 4)), _compile(_AER), Aer),
    0x0D: ("acs", ((0x04, 4),), _compile(_ACS), Acs),
    0x10: ("sriov", ((0x0E, 4),), _compile(_SRIOV), Sriov),
    0x1D: ("dpc", ((0x08, 2),), _compile(_DPC), Dpc),
}
_RESIZABLE_BAR = 0x15
_EXTENDED_FIELDS = ("aer", "acs", "sriov", "dpc", "resizable_bars")

_HEADER_BYTES = 64
_CAPABILITY_LIST = 0x10  # bit 4 of the status register
_POINTER = {0: 0x34, 1: 0x34, 2: 0x14}  # by header type; 2 is a CardBus bridge
_BARS = {0: Struct("<6I"), 1: Struct("<2I")}
_EXPRESS_ID = 0x10
_ONES = b"\xff" * 16


def read_config(read_at: ReadAt) -> ConfigFacts | Unknown:
    """Decodes a function's config space.

    Args:
        read_at: gives up to `size` bytes at `offset`, fewer where config space ends, none beyond what the reader may
            read. It must not raise.

    Returns:
        The facts. A capability that the function does not have is None; one that could not be looked for, because
        config space was cut short, is Unknown. Unknown altogether where not even the 64 bytes of the header are there.
    """
    header = read_at(0, _HEADER_BYTES)
    if len(header) < _HEADER_BYTES:
        return NOT_READABLE
    # SR-IOV virtual functions have no vendor id of their own and show ffff there: only more ones mean a lost function.
    if header.startswith(_ONES):
        return ConfigFacts(**_unknown(ALL_ONES), lost="reads as all ones")
    kind = header[0x0E] & 0x7F
    if kind == 0x7F:
        return ConfigFacts(**_unknown(HEADER_7F), header_type=kind, revision=header[8], lost="header type 7f")
    express = _read_express(read_at, header, kind)
    return ConfigFacts(
        express=express,
        bar_registers=_BARS[kind].unpack_from(header, 0x10) if kind in _BARS else (),
        secondary_bus=header[0x19] if kind == 1 else None,
        subordinate_bus=header[0x1A] if kind == 1 else None,
        header_type=kind,
        revision=header[8],
        **_read_extended(read_at, header, express),
    )


def _unknown(reason: Unknown) -> dict[str, Any]:
    """All capabilities unknown, for one reason."""
    return dict.fromkeys(("express", *_EXTENDED_FIELDS), reason)


def _read_express(read_at: ReadAt, header: bytes, kind: int) -> Express | Unknown | None:
    """Walks the standard chain to the PCI Express capability (drivers/pci/pci.c __pci_find_next_cap_ttl)."""
    if not header[6] & _CAPABILITY_LIST or kind not in _POINTER:
        return None
    position = header[_POINTER[kind]] & 0xFC
    visited = set()
    while position >= _HEADER_BYTES and position not in visited:
        visited.add(position)
        entry = read_at(position, 4)
        if len(entry) < 4:
            return TRUNCATED if read_at(_HEADER_BYTES, 1) else NEEDS_ROOT
        if entry[0] == _EXPRESS_ID:
            return _decode_express(read_at, position, entry[2] | entry[3] << 8)
        if entry[0] == 0xFF:
            return ALL_ONES
        position = entry[1] & 0xFC
    return None


def _decode_express(read_at: ReadAt, position: int, flags: int) -> Express | Unknown:
    spans, fields = _EXPRESS_LAYOUTS[(flags >> 4 & 0xF) in _LINKED_TYPES, flags & 0xF > 1]
    value = _registers(read_at, position, spans)
    if value is None:
        return TRUNCATED
    return Express(*_decode(value | flags << 16, fields))


def _registers(read_at: ReadAt, position: int, spans: _Spans) -> int | None:
    """The registers as one little-endian number that starts at the capability; None where config space ends first."""
    value = 0
    for offset, size in spans:
        data = read_at(position + offset, size)
        if len(data) < size:
            return None
        value |= int.from_bytes(data, "little") << (offset * 8)
    return value


def _decode(value: int, fields: _Compiled) -> list[Any]:
    return [value >> shift & mask if meaning is None else meaning[value >> shift & mask] for shift, mask, meaning in fields]


def _read_extended(read_at: ReadAt, header: bytes, express: Express | Unknown | None) -> dict[str, Any]:
    """The fields of ConfigFacts that come from extended capabilities; only PCI Express functions have them."""
    if express is None:
        return {}
    if isinstance(express, Unknown):
        return dict.fromkeys(_EXTENDED_FIELDS, express)
    entry = read_at(0x100, 4)
    if len(entry) < 4 or entry == b"\xff\xff\xff\xff":
        # drivers/pci/probe.c pci_cfg_space_size_ext: all ones mean that nothing beyond 256 bytes can be reached.
        return dict.fromkeys(_EXTENDED_FIELDS, NO_EXTENDED)
    found: dict[str, Any] = {}
    position = 0x100
    visited = set()
    while True:
        visited.add(position)
        if len(entry) < 4:
            return dict.fromkeys(_EXTENDED_FIELDS, TRUNCATED) | found
        capability = entry[0] | entry[1] << 8
        if capability in _EXTENDED:
            name, spans, fields, build = _EXTENDED[capability]
            if name not in found:
                value = _registers(read_at, position, spans)
                found[name] = TRUNCATED if value is None else build(*_decode(value, fields))
        elif capability == _RESIZABLE_BAR and "resizable_bars" not in found:
            found["resizable_bars"] = _resizable_bars(read_at, position, header)
        position = (entry[2] >> 4 | entry[3] << 4) & 0xFFC
        if position < 0x100 or position in visited:
            return found
        entry = read_at(position, 4)


def _resizable_bars(read_at: ReadAt, position: int, header: bytes) -> tuple[ResizableBar, ...] | Unknown:
    """The entries of the Resizable BAR capability (drivers/pci/rebar.c; specification section 7.8.6)."""
    first = read_at(position + 4, 8)
    if len(first) < 8:
        return TRUNCATED
    count = min(first[4] >> 5, 6)
    data = first if count < 2 else first + read_at(position + 12, 8 * (count - 1))
    if len(data) < 8 * count:
        return TRUNCATED
    return tuple(
        _resizable_bar(
            int.from_bytes(data[start : start + 4], "little"),
            int.from_bytes(data[start + 4 : start + 8], "little"),
            header,
        )
        for start in range(0, 8 * count, 8)
    )


def _resizable_bar(capability: int, control: int, header: bytes) -> ResizableBar:
    index = control & 0x7
    bitmap = capability >> 4 | control >> 16 << 28
    if index == 0 and bitmap == 0x700 and header.startswith(b"\x02\x10\x1f\x73"):
        bitmap = 0x3F00  # the kernel's quirk for the Sapphire RX 5600 XT Pulse, which names too few sizes
    return ResizableBar(index, MIB << (control >> 8 & 0x3F), bar_sizes(bitmap))
