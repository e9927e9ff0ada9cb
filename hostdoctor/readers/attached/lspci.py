"""The functions that outputs of lspci tell of, joined into one tree."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec

from hostdoctor.evidence.memory import MemoryEvidence
from hostdoctor.facts.host import Host
from hostdoctor.facts.pci import ROOT_PORT, ConfigFacts, Function, Link, Power
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown, known
from hostdoctor.knowledge import pci_names
from hostdoctor.parsers.lspci import Entry, Identity, Listing, parse_lspci
from hostdoctor.parsers.lspci_machine import parse_machine, parse_record
from hostdoctor.parsers.lspci_tree import Place, parse_lspci_tree
from hostdoctor.parsers.paste import Part
from hostdoctor.readers.attached.merge import address_of, with_functions
from hostdoctor.readers.attached.mount import listed_files
from hostdoctor.readers.attached.pci_names import named
from hostdoctor.readers.pci import link_of_attributes
from hostdoctor.readers.text import attribute, integer

_NO_BRIDGE = Unknown("the bridge above it is not in this evidence", "attach the whole output of sudo lspci -vvv")
_STATES = {"D3": "D3hot"}  # lspci reads the register, which a function in D3cold does not answer for
_HOST_BRIDGE, _BRIDGE, _VGA = 0x0600, 0x060400, 0x030000
_IDS = re.compile(r" ?\[([0-9a-f]{4}):([0-9a-f]{4})\]$")
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
_ROOT_BUS = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_IDENTITY = {"vendor": 0xFFFF, "device": 0xFFFF, "class": 0xFFFFFF}  # and what the file's number can be
_BLOCKS = ("lspci", "lspci-fields")
_VIRTUAL = ("Virtual Function", "MxGPU")


def apply(host: Host, parts: Sequence[Part]) -> Host:
    """The host with the functions of all outputs, and with the ACS bits of lines that name no function."""
    entries: list[Entry] = []
    new: list[Function] = []
    places: list[Place] = []
    loose = []
    for part in _joined(parts):
        if part.kind == "sysfs-listing":
            new += _linked(part)
        elif part.kind == "lspci-tree":
            drawn = parse_lspci_tree(part.lines)
            places += drawn
            new += [_function_of_place(part.where(place.line), place) for place in drawn if place.text or place.is_bridge]
        else:
            listing = _listing(part)
            entries += listing.entries
            new += [_function(part.where(entry.line), entry) for entry in listing.entries]
            loose += [(part.where(line), acs) for line, acs in listing.loose_acs]
    functions = _placed(_each_once(new), places, entries)
    host = with_functions(host, _with_virtual(functions, entries))
    denied = any(entry.is_denied for entry in entries)
    return msgspec.structs.replace(host, loose_acs=(*host.loose_acs, *loose), privileged=host.privileged and not denied)


def _listing(part: Part) -> Listing:
    if part.kind == "lspci-machine":
        return Listing(parse_machine(part.lines), ())
    if part.kind == "lspci-records":
        return Listing(tuple(filter(None, (parse_record(part.lines),))), ())
    return parse_lspci(part.lines)


def _joined(parts: Iterable[Part]) -> list[Part]:
    """With parts that follow each other without a gap put together: there the paste lost its indentation."""
    groups: list[list[Part]] = []
    for part in parts:
        last = groups[-1][-1] if groups else None
        if last and part.kind in _BLOCKS and groups[-1][0].kind == "lspci" and _follows(part, last):
            groups[-1].append(part)
        else:
            groups.append([part])
    return [msgspec.structs.replace(group[0], lines=tuple(chain(*(part.lines for part in group)))) for group in groups]


def _follows(part: Part, last: Part) -> bool:
    return part.source == last.source and part.first_line == last.first_line + len(last.lines) and not part.command


# --- functions -------------------------------------------------------------------------------------------------------


def _each_once(new: Iterable[Function]) -> dict[str, Function]:
    """Each function once, with what all outputs say of it; the first one stands where two say otherwise."""
    found: dict[str, Function] = {}
    for function in new:
        if function.address:
            old = found.get(function.address)
            found[function.address] = function if old is None else completed(old, function)
    return found


def _function(where: str, entry: Entry) -> Function:
    identity = entry.identity
    who = named(identity.text, identity.vendor, identity.device, entry.port_type)
    return Function(
        address=address_of(entry.address) or "",
        vendor=identity.vendor or who.vendor,
        device=who.device,
        class_code=_class_code(identity),
        subsystem_vendor=identity.subsystem_vendor,
        subsystem_device=identity.subsystem_device,
        driver=entry.driver,
        parent=_NO_BRIDGE,
        bars=entry.bars,
        windows=entry.windows,
        numa_node=entry.numa_node,
        link=entry.link,
        config=entry.config,
        power=Power(state=_STATES.get(entry.power, entry.power) or NOT_CAPTURED),
        iommu_group=entry.iommu_group,
        is_virtual_function=any(word in who.name for word in _VIRTUAL),
        origin=where,
        name=who.name,
        stand_in_id=who.stand_in_id,
    )


def _linked(part: Part) -> Iterator[Function]:
    """Functions of which files of sysfs are listed: links and ids, and the bridge above where the path leads over it.

    Whatever else is there the readers of a tree find.
    """
    files = {path: f"{text}\n".encode() for path, text in listed_files(part).items()}
    evidence = MemoryEvidence(files, ())
    for folder in evidence.folders_named(_ADDRESS):
        above, _, name = folder.rpartition("/")
        attributes = evidence.directory(folder)
        link = link_of_attributes(attributes)
        if (address := address_of(name)) and link and not isinstance(link, Unknown):
            vendor, device, class_code = (
                known(integer(attribute(attributes, each), 16), 0) & mask for each, mask in _IDENTITY.items()
            )
            yield Function(
                address=address,
                vendor=vendor,
                device=device,
                class_code=class_code,
                driver=NOT_CAPTURED,
                parent=_above(above.rpartition("/")[2]),
                link=link,
                origin=f"/{folder}",
            )


def _above(folder: str) -> str | Unknown | None:
    """What a function's folder lies in: that of the bridge above, or that of its root bus; any other tells nothing."""
    return None if _ROOT_BUS.fullmatch(folder) else _NO_BRIDGE if not _ADDRESS.fullmatch(folder) else address_of(folder)


def _class_code(identity: Identity) -> int:
    if identity.class_code >= 0:
        return identity.class_code
    return (pci_names.class_named(identity.class_name) or 0) << 8 | identity.interface


def _function_of_place(where: str, place: Place) -> Function:
    """A function of lspci -tv: a bridge has no name there, and others no class, which the tables have for GPUs alone."""
    match = _IDS.search(place.text)
    vendor, device = (int(match[1], 16), int(match[2], 16)) if match else (0, 0)
    who = named(place.text[: match.start()] if match else place.text, vendor, device, None)
    is_gpu = pci_names.is_known_gpu(f"{who.vendor:04x}:{who.device:04x}") or pci_names.is_known_gpu(who.stand_in_id)
    return Function(
        address=address_of(place.address) or "",
        vendor=who.vendor,
        device=who.device,
        class_code=_BRIDGE if place.is_bridge else _VGA if is_gpu else 0,
        driver=NOT_CAPTURED,
        parent=place.parent and address_of(place.parent),
        origin=where,
        name=who.name,
        stand_in_id=who.stand_in_id,
    )


def completed(first: Function, second: Function) -> Function:
    """A function with what another output says of it, down to single capabilities and values of the link."""
    changes = {
        name: _filled(getattr(first, name), getattr(second, name))
        for name in Function.__struct_fields__
        if name not in ("address", "origin")
    }
    tells_more = isinstance(first.config, Unknown) and not isinstance(second.config, Unknown)
    changes["origin"] = second.origin if tells_more else first.origin
    return msgspec.structs.replace(first, **changes)


def _filled(ours: Any, theirs: Any) -> Any:  # noqa: ANN401  of one field, whatever its type
    if isinstance(ours, Unknown) or ours in (0, "", ()):
        return ours if isinstance(theirs, Unknown) or theirs in (0, "", ()) else theirs
    if isinstance(ours, (ConfigFacts, Link, Power)) and type(ours) is type(theirs):
        names = ours.__struct_fields__
        return type(ours)(**{name: _filled(getattr(ours, name), getattr(theirs, name)) for name in names})
    return ours


# --- the tree --------------------------------------------------------------------------------------------------------


def _bus_of(address: str) -> str:
    return address.rpartition(":")[0]


def _placed(functions: dict[str, Function], places: Iterable[Place], entries: Iterable[Entry]) -> dict[str, Function]:
    """With the bridge above and the root bus of each, from the bridges' own bus numbers and from lspci -t.

    Bus 0 is a root bus for sure, and so are those where a root port or a host bridge sits.
    """
    above = dict(_bridges_by_bus(functions.values()))
    drawn = {address_of(place.address): place.parent and address_of(place.parent) for place in places}
    roots = {_bus_of(address_of(entry.address) or "") for entry in entries if entry.port_type == ROOT_PORT}
    roots.update(_bus_of(each.address) for each in functions.values() if each.class_code >> 8 == _HOST_BRIDGE)
    parents: dict[str, str | Unknown | None] = {}
    for address, function in functions.items():
        bus = _bus_of(address)
        bridge = above.get(bus)
        if address in drawn:
            parents[address] = drawn[address]
        elif bridge and bridge != address:
            parents[address] = bridge
        elif not isinstance(function.parent, Unknown):
            parents[address] = function.parent
        else:
            parents[address] = None if bus in roots or bus.endswith(":00") else _NO_BRIDGE
    return {
        address: msgspec.structs.replace(function, parent=parents[address], root=_root_of(address, parents))
        for address, function in functions.items()
    }


def _bridges_by_bus(functions: Iterable[Function]) -> Iterator[tuple[str, str]]:
    for function in functions:
        config = function.config
        if not isinstance(config, Unknown) and config.secondary_bus:
            yield f"{function.address.partition(':')[0]}:{config.secondary_bus:02x}", function.address


def _root_of(address: str, parents: dict[str, str | Unknown | None]) -> str | Unknown:
    seen = set()
    while address not in seen:
        seen.add(address)
        parent = parents.get(address, _NO_BRIDGE)
        if parent is None:
            return _bus_of(address)
        if isinstance(parent, Unknown):
            return parent
        address = parent
    return _NO_BRIDGE


def _with_virtual(functions: dict[str, Function], entries: Iterable[Entry]) -> list[Function]:
    """With SR-IOV virtual functions known as such, from the places that their physical function gives them."""
    virtual: set[str] = set()
    for entry in entries:
        offset, stride, count = entry.virtual_functions
        if count and (address := address_of(entry.address)):
            domain, bus, rest = address.split(":")
            device, _, number = rest.partition(".")
            place = int(bus, 16) << 8 | int(device, 16) << 3 | int(number)
            virtual.update(_address(domain, place + offset + stride * n) for n in range(count))
    return [
        msgspec.structs.replace(function, is_virtual_function=True) if address in virtual else function
        for address, function in functions.items()
    ]


def _address(domain: str, place: int) -> str:
    return f"{domain}:{place >> 8:02x}:{place >> 3 & 0x1F:02x}.{place & 7}"
