"""What topologies in XML tell: functions and how they hang together, fabrics, network cards, processor and machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from hostdoctor.facts.driver import NetworkDevice, PairWord
from hostdoctor.facts.host import Host
from hostdoctor.facts.pci import Function, Link
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.parsers.kernel_release import parse_release
from hostdoctor.parsers.paste import Part
from hostdoctor.parsers.topology_xml import Device, Fabric, XmlTopology, parse_hwloc, parse_nccl_topology
from hostdoctor.readers.attached.merge import address_of, with_functions

S = TypeVar("S", bound=msgspec.Struct)

_CAPABILITY = Unknown("NCCL's file tells what both ends of a link can do, not what runs", "attach sudo lspci -vvv")
_PRODUCT = Unknown("hwloc's file gives speed and width of a link in one figure", "attach sudo lspci -vvv")
_LEFT_OUT = Unknown("NCCL's file leaves out the port directly above")
_FABRIC_SWITCH = 0x0680  # the class of NVSwitches
_FIRMWARE = {
    "system_vendor": "DMISysVendor",
    "product_name": "DMIProductName",
    "board_vendor": "DMIBoardVendor",
    "board_name": "DMIBoardName",
    "bios_vendor": "DMIBIOSVendor",
    "bios_version": "DMIBIOSVersion",
    "bios_date": "DMIBIOSDate",
    "chassis_type": "DMIChassisType",
}  # fmt: skip


def apply(host: Host, parts: Sequence[Part]) -> Host:
    """The host with what these files tell."""
    for part in parts:
        topology = parse_hwloc(part.text) if part.kind == "hwloc-xml" else parse_nccl_topology(part.text)
        host = _with_topology(host, topology, part)
    return host


def _with_topology(host: Host, topology: XmlTopology, part: Part) -> Host:
    known = {} if isinstance(host.functions, Unknown) else host.functions
    functions = [found for device in topology.devices if (found := _function(device, part, known))]
    host = with_functions(host, functions)
    processor, machine = topology.processor, topology.machine
    release = machine.get("OSRelease", "") if machine.get("OSName", "Linux") == "Linux" else ""
    told_firmware = {field: machine.get(name) for field, name in _FIRMWARE.items()}
    nodes = topology.numa_nodes if topology.all_numa_nodes or len(topology.numa_nodes) > 1 else None
    return msgspec.structs.replace(
        host,
        cpu=_filled(
            host.cpu,
            vendor=processor.vendor,
            family=processor.family,
            model=processor.model,
            name=processor.name,
            sockets=processor.sockets,
        ),
        firmware=_filled(host.firmware, **told_firmware),
        boot=_filled(host.boot, release=release, version=parse_release(release) if release else None),
        numa=_filled(host.numa, nodes=nodes),
        network=_network(topology) if isinstance(host.network, Unknown) and topology.nets else host.network,
        pair_words=tuple(dict.fromkeys((*host.pair_words, *_words(topology.fabrics, part)))),
    )


def _filled(facts: S, **told: object) -> S:
    """Facts with what a file tells of those that are unknown; empty values tell nothing."""
    changes = {
        name: value
        for name, value in told.items()
        if value not in (None, "", ()) and not isinstance(value, Unknown) and isinstance(getattr(facts, name), Unknown)
    }
    return msgspec.structs.replace(facts, **changes) if changes else facts


def _function(device: Device, part: Part, known: Mapping[str, Function]) -> Function | None:
    address = address_of(device.bus_id)
    if address is None or not device.vendor:
        return None
    parent = address_of(device.parent) if device.parent else None
    function = Function(
        address,
        device.vendor,
        device.device,
        device.class_code,
        device.subsystem_vendor,
        device.subsystem_device,
        driver=device.driver or NOT_CAPTURED,
        parent=parent or (_LEFT_OUT if device.ports_left_out else None),
        ports_left_out=device.ports_left_out and parent is not None,
        root=device.root or NOT_CAPTURED,
        numa_node=NOT_CAPTURED if device.numa_node is None else device.numa_node,
        link=_link(device),
        origin=part.where(device.line),
    )
    old = known.get(address)
    if old is not None and not isinstance(old.parent, Unknown):
        function = msgspec.structs.replace(function, parent=NOT_CAPTURED, ports_left_out=False)
    return function


def _link(device: Device) -> Link | Unknown:
    if not device.ports_left_out:
        return _PRODUCT
    speed, width = device.both_speed_gts, device.both_width
    return Link(_CAPABILITY, _CAPABILITY, NOT_CAPTURED if speed is None else speed, NOT_CAPTURED if width is None else width)


def _network(topology: XmlTopology) -> tuple[NetworkDevice, ...]:
    found = []
    for net in topology.nets:
        if address := address_of(net.bus_id):
            speed = net.speed_mbits or NOT_CAPTURED
            found.append(NetworkDevice(net.name, address, speed, rdma=(net.name,) if net.is_rdma else ()))
    return tuple(found)


def _words(fabrics: Sequence[Fabric], part: Part) -> Iterator[PairWord]:
    """Which GPUs a fabric joins: directly, or both to one of its switches."""
    behind: dict[str, list[Fabric]] = {}
    for fabric in fabrics:
        source, target = address_of(fabric.source), address_of(fabric.target)
        if source is None or target is None:
            continue
        if fabric.target_class >> 8 == _FABRIC_SWITCH:
            behind.setdefault(target, []).append(fabric)
        else:
            text = f"{fabric.count} {_name(fabric.kind)} between them"
            yield PairWord(source, target, None, text, part.where(fabric.line), fabric.kind)
    for switch, members in behind.items():
        for one in members:
            for other in members:
                ends = address_of(one.source), address_of(other.source)
                if one is not other and ends[0] and ends[1]:
                    text = f"both are at the {_name(one.kind)} switch {switch}"
                    yield PairWord(ends[0], ends[1], None, text, part.where(one.line), one.kind)


def _name(kind: str) -> str:
    return "NVLink" if kind == "NVLINK" else kind
