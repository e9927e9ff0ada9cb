"""Topologies in XML: the files that NCCL and RCCL write (NCCL_TOPO_DUMP_FILE), and hwloc's (`lstopo --of xml`).

Sources: NCCL src/graph/xml.cc ncclTopoGetXmlFromSys, ncclTopoGetXmlFromCpu and ncclTopoGetXmlFromGpu, RCCL's of the same
name; hwloc hwloc/topology-xml.c, hwloc.dtd and hwloc2.dtd.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from hostdoctor.parsers.xml_tree import Element, parse_xml

MOST_DEVICES = 20_000

_SPEED = re.compile(r"(\d{1,3}(?:\.\d)?) ?GT/s")
_PCI_TYPE = re.compile(r"([0-9a-f]{4}) \[([0-9a-f]{4}):([0-9a-f]{4})\] \[([0-9a-f]{4}):([0-9a-f]{4})\]")
_HOST_BRIDGE = re.compile(r"([0-9a-f]{4,8}):\[([0-9a-f]{2})-[0-9a-f]{2}\]")
_DRIVERS = {"nvml": "nvidia", "cuda": "nvidia", "rsmi": "amdgpu"}  # by the names of hwloc's OS devices


class Device(msgspec.Struct, frozen=True):
    """One PCI function of a topology.

    Attributes:
        bus_id: as it stands there.
        line: where, from 0.
        vendor: its id; likewise `device` and the subsystem's.
        device: its id.
        class_code: 24 bits; 0 where it is not told.
        subsystem_vendor: its id.
        subsystem_device: its id.
        parent: bus id of the bridge above it that the file names, or empty.
        ports_left_out: whether the file leaves out the port between it and that bridge.
        root: the root bus, "0000:40", or empty.
        numa_node: its memory node, or None.
        both_speed_gts: the speed that both ends of its link can do, or None.
        both_width: the same of the width.
        driver: of a GPU that its vendor's library knows; else empty.
    """

    bus_id: str
    line: int
    vendor: int = 0
    device: int = 0
    class_code: int = 0
    subsystem_vendor: int = 0
    subsystem_device: int = 0
    parent: str = ""
    ports_left_out: bool = False
    root: str = ""
    numa_node: int | None = None
    both_speed_gts: float | None = None
    both_width: int | None = None
    driver: str = ""


class Fabric(msgspec.Struct, frozen=True):
    """Links of a GPU to another GPU or to a switch of the fabric; `kind` is "NVLINK" or "XGMI"."""

    source: str
    target: str
    target_class: int
    count: int
    kind: str
    line: int


class Net(msgspec.Struct, frozen=True):
    """A network card as NCCL knows it."""

    name: str
    bus_id: str
    speed_mbits: int
    is_rdma: bool


class Processor(msgspec.Struct, frozen=True):
    """What kind of processor it is; empty or None where it is not told."""

    vendor: str = ""
    family: int | None = None
    model: int | None = None
    name: str = ""
    sockets: int | None = None


class XmlTopology(msgspec.Struct, frozen=True):
    """One file.

    Attributes:
        devices: parents before what lies below them.
        fabrics: NVLink and XGMI.
        nets: network cards.
        processor: of the host.
        numa_nodes: those that the file names.
        all_numa_nodes: whether these are all of the host.
        machine: what hwloc says of the machine, "DMIBoardName" and the like.
    """

    devices: tuple[Device, ...] = ()
    fabrics: tuple[Fabric, ...] = ()
    nets: tuple[Net, ...] = ()
    processor: Processor = Processor()
    numa_nodes: tuple[int, ...] = ()
    all_numa_nodes: bool = False
    machine: dict[str, str] = {}


# --- NCCL and RCCL ----------------------------------------------------------------------------------------------------


def parse_nccl_topology(text: str) -> XmlTopology:
    """A topology of NCCL or RCCL; of a cut one, what stands before the cut.

    NCCL walks up two levels at a time, from a device past the port it is plugged into to the switch above, so every second
    port is missing, root ports too. Its speeds and widths are what both ends can do, not what runs.
    """
    system = next(parse_xml(text).all("system"), None)
    devices: list[Device] = []
    fabrics: list[Fabric] = []
    nets: list[Net] = []
    processor, nodes = Processor(), []
    for cpu in system.children if system else ():
        if cpu.tag != "cpu":
            continue
        node = _node(cpu.attributes.get("numaid", ""))
        nodes += [] if node is None else [node]
        processor = processor if processor.vendor else _nccl_processor(cpu)
        for device, element in _nccl_devices(cpu, node):
            devices.append(device)
            fabrics += _fabrics(device, element)
            nets += _nets(device, element)
            if len(devices) >= MOST_DEVICES:
                break
    return XmlTopology(tuple(devices), tuple(fabrics), tuple(nets), processor, tuple(sorted(set(nodes))))


def _node(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 5 else None


def _nccl_processor(cpu: Element) -> Processor:
    """NCCL joins the base and extended family by their bits, where the kernel adds them (CPUID leaf 1)."""
    family, model = _node(cpu.attributes.get("familyid", "")), _node(cpu.attributes.get("modelid", ""))
    if cpu.attributes.get("arch") != "x86_64":
        return Processor()
    if family is not None:
        family = (family & 0xF) + (family >> 4) if family & 0xF == 0xF else family & 0xF
    return Processor(cpu.attributes.get("vendor", "")[:20], family, model)


def _nccl_devices(cpu: Element, node: int | None) -> Iterator[tuple[Device, Element]]:
    waiting = [(each, "") for each in reversed(cpu.children)]
    while waiting:
        element, parent = waiting.pop()
        if element.tag != "pci":
            continue
        told = element.attributes
        bus_id = told.get("busid", "")
        speed = _SPEED.match(told.get("link_speed", ""))
        width = _node(told.get("link_width", ""))
        yield (
            Device(
                bus_id,
                element.line,
                _hex(told.get("vendor", "")),
                _hex(told.get("device", "")),
                _hex(told.get("class", "")),
                _hex(told.get("subsystem_vendor", "")),
                _hex(told.get("subsystem_device", "")),
                parent,
                ports_left_out=True,
                numa_node=node,
                both_speed_gts=float(speed[1]) if speed else None,
                both_width=width or None,
                driver=_driver(element),
            ),
            element,
        )
        waiting += [(each, bus_id) for each in reversed(element.children)]


def _driver(element: Element) -> str:
    """The driver of a device that NCCL or RCCL works with."""
    vendor = _hex(element.attributes.get("vendor", ""))
    return {0x10DE: "nvidia", 0x1002: "amdgpu"}.get(vendor, "") if element.child("gpu") else ""


def _hex(text: str) -> int:
    return int(text, 16) if re.fullmatch(r"0x[0-9a-fA-F]{1,6}", text) else 0


def _fabrics(device: Device, element: Element) -> Iterator[Fabric]:
    gpu = element.child("gpu")
    for link in gpu.children if gpu else ():
        if link.tag in ("nvlink", "xgmi"):
            count = _node(link.attributes.get("count", "")) or 1
            target, class_ = link.attributes.get("target", ""), _hex(link.attributes.get("tclass", ""))
            yield Fabric(device.bus_id, target, class_, count, link.tag.upper(), link.line)


def _nets(device: Device, element: Element) -> Iterator[Net]:
    nic = element.child("nic")
    for net in nic.children if nic else ():
        speed = net.attributes.get("speed", "")
        is_rdma = net.attributes.get("guid", "0x0").lstrip("0x") != ""
        if net.tag == "net" and net.attributes.get("name"):
            yield Net(net.attributes["name"][:40], device.bus_id, int(speed) if speed.isdecimal() else 0, is_rdma)


# --- hwloc ------------------------------------------------------------------------------------------------------------


class _Place(msgspec.Struct, frozen=True):
    """Where an object of hwloc lies: the bridge and root bus above, and the memory node."""

    parent: str = ""
    root: str = ""
    numa_node: int | None = None


def parse_hwloc(text: str) -> XmlTopology:
    """A topology of hwloc, version 1 or 2; of a cut one, what stands before the cut."""
    root = next(parse_xml(text).all("topology"), None)
    devices: list[Device] = []
    nodes: set[int] = set()
    packages: list[Element] = []
    machine: Element | None = None
    waiting = [(each, _Place()) for each in reversed(root.children)] if root else []
    while waiting and len(devices) < MOST_DEVICES:
        element, place = waiting.pop()
        kind = element.attributes.get("type", "")
        if kind == "NUMANode" and (node := _node(element.attributes.get("os_index", ""))) is not None:
            nodes.add(node)
        packages += [element] if kind in ("Package", "Socket") else []
        machine = element if kind == "Machine" else machine
        if kind in ("Bridge", "PCIDev") and (device := _hwloc_device(element, place)):
            devices.append(device)
        below = _below(element, kind, place)
        waiting += [(each, below) for each in reversed(element.children) if each.tag == "object"]
    return XmlTopology(
        tuple(devices),
        processor=_hwloc_processor(packages),
        numa_nodes=tuple(sorted(nodes)),
        all_numa_nodes=bool(nodes),
        machine=_infos(machine) if machine else {},
    )


def _below(element: Element, kind: str, place: _Place) -> _Place:
    """The place of what lies in an object."""
    if kind == "Bridge":
        if element.attributes.get("bridge_type") == "0-1":
            found = _HOST_BRIDGE.match(element.attributes.get("bridge_pci", ""))
            return msgspec.structs.replace(place, parent="", root=f"{found[1]}:{found[2]}" if found else "")
        return msgspec.structs.replace(place, parent=element.attributes.get("pci_busid", ""))
    if kind == "NUMANode":
        return msgspec.structs.replace(place, numa_node=_node(element.attributes.get("os_index", "")))
    own = [each for each in element.children if each.attributes.get("type") == "NUMANode"]
    if len(own) == 1 and not own[0].children:  # version 2 puts a node beside what is near to it
        return msgspec.structs.replace(place, numa_node=_node(own[0].attributes.get("os_index", "")))
    return msgspec.structs.replace(place, numa_node=None) if len(own) > 1 else place


def _hwloc_device(element: Element, place: _Place) -> Device | None:
    told = element.attributes
    found = _PCI_TYPE.match(told.get("pci_type", ""))
    if not told.get("pci_busid") or found is None:
        return None
    class_, vendor, device, subsystem_vendor, subsystem_device = (int(text, 16) for text in found.groups())
    names = [each.attributes.get("name", "").rstrip("0123456789") for each in element.children]
    return Device(
        told["pci_busid"],
        element.line,
        vendor,
        device,
        class_ << 8,
        subsystem_vendor,
        subsystem_device,
        place.parent,
        root=place.root,
        numa_node=place.numa_node,
        driver=next((_DRIVERS[name] for name in names if name in _DRIVERS), ""),
    )


def _hwloc_processor(packages: Sequence[Element]) -> Processor:
    told = _infos(packages[0]) if packages else {}
    family, model = (_node(told.get(name, "")) for name in ("CPUFamilyNumber", "CPUModelNumber"))
    return Processor(told.get("CPUVendor", ""), family, model, told.get("CPUModel", ""), len(packages) or None)


def _infos(element: Element) -> dict[str, str]:
    infos = [each.attributes for each in element.children if each.tag == "info"]
    return {info["name"]: info["value"].strip()[:120] for info in infos if info.get("name") and info.get("value")}
