"""Describes hosts at the level of facts, so that a test reads like a description of a machine.

A host is a list of functions, or of groups of them (a card with its own switch is three):

    build.host(
        build.root_port("0000:40:01.1"),
        build.navi_card(0x41, below="0000:40:01.1"),
        kernel="6.8",
    )

Everything that is not said is in order: links run at their best, the IOMMU passes through, BARs lie below 16 TiB.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from hostdoctor import knowledge
from hostdoctor.diagnosis import diagnose
from hostdoctor.facts.bandwidth import Device, Run, Transfer, Verification
from hostdoctor.facts.boot_files import BootFiles, Configuration, Loader, Placed
from hostdoctor.facts.driver import Access, DeviceNode, ErrorCounters, LinkSample, NetworkDevice, Samples
from hostdoctor.facts.host import (
    Aperture,
    Boot,
    Cpu,
    Environment,
    Host,
    Iommu,
    Kfd,
    KfdLink,
    KfdNode,
    MemoryMap,
    Module,
    Numa,
)
from hostdoctor.facts.log import KernelLog, LogEvent
from hostdoctor.facts.pci import (
    DOWNSTREAM_PORT,
    ENDPOINT,
    ROOT_PORT,
    UPSTREAM_PORT,
    Acs,
    Bar,
    ConfigFacts,
    Express,
    Function,
    GpuFacts,
    Link,
    Power,
    ResizableBar,
)
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.parsers.cmdline import parse_command_line
from hostdoctor.parsers.kernel_release import parse_release
from hostdoctor.registry import built_in
from hostdoctor.view import View

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40

V620, MI210, MI100, MI50, W6800, POLARIS = (
    "1002:73a1", "1002:740f", "1002:738c", "1002:66a1", "1002:73a3", "1002:67df",
)  # fmt: skip
A5000, RTX_4090, RTX_3090, A6000, CMP_170HX = "10de:2231", "10de:2684", "10de:2204", "10de:2230", "10de:20c2"
RTX_PRO_4000_SFF, RTX_2000_ADA, H100, T4 = "10de:2c33", "10de:28b0", "10de:2331", "10de:1eb8"

ZEN = Cpu("AuthenticAMD", 0x17, 0x31, "AMD EPYC 7302")
ZEN_4 = Cpu("AuthenticAMD", 0x19, 0x61, "AMD Ryzen 9 7950X")
BULLDOZER = Cpu("AuthenticAMD", 0x15, 2, "AMD Opteron 6380")
HYGON = Cpu("HygonGenuine", 0x18, 1, "Hygon C86 7285")
INTEL = Cpu("GenuineIntel", 6, 85, "Intel Xeon")

REDIRECT = Acs(0x5F, Acs.SOURCE_VALIDATION | Acs.REQUEST_REDIRECT | Acs.COMPLETION_REDIRECT | Acs.UPSTREAM_FORWARDING)
VALIDATION_ONLY = Acs(0x5F, Acs.SOURCE_VALIDATION | Acs.UPSTREAM_FORWARDING)
NO_REDIRECT = Acs(0x5F, 0)

GUEST = Environment("virtual-machine", "KVM", evidence=(("/proc/cpuinfo", "flags: hypervisor"),))
BARE_METAL = Environment("bare-metal", evidence=(("/proc/cpuinfo", "no hypervisor flag"),))


# --- functions --------------------------------------------------------------------------------------------------------


def link(speed=16.0, width=16, max_speed=None, max_width=None):
    """A link that runs at its best unless told otherwise: link(2.5, 1, 16.0, 16)."""
    return Link(speed, width, speed if max_speed is None else max_speed, width if max_width is None else max_width)


def express(port_type, payload=256, read_request=512, supported=512, **changes):
    """A PCI Express capability with atomics all the way."""
    values = {
        "slot_implemented": port_type in (ROOT_PORT, DOWNSTREAM_PORT),
        "max_speed_gts": 16.0,
        "max_width": 16,
        "current_speed_gts": 16.0,
        "current_width": 16,
        "target_speed_gts": 16.0,
        "aspm_control": 0,
        "link_training": False,
        "atomic_routing": port_type != ENDPOINT,
        "atomic_32_completer": True,
        "atomic_64_completer": True,
        "atomic_128_completer": False,
        "atomic_requester_enabled": False,
        "atomic_egress_blocked": False,
    }
    return Express(port_type, **{**values, **changes}, **_payloads(supported, payload, read_request))


def _payloads(supported, payload, read_request):
    return {
        "max_payload_supported_bytes": supported,
        "max_payload_bytes": payload,
        "max_read_request_bytes": read_request,
    }


def function(address, id_, class_code=0x020000, **facts):
    """Any function; what is not given is as a Function has it, the root bus is worked out by host()."""
    vendor, device = (int(part, 16) for part in id_.split(":"))
    facts.setdefault("origin", f"/sys/bus/pci/devices/{address}")
    facts.setdefault("power", Power("active", "D0"))
    return Function(address, vendor, device, class_code, **facts)


def port(address, id_, port_type, *, below=None, at=None, acs=None, config=None, **facts):
    """A bridge: `at` is its link, `below` the bridge above it."""
    config = ConfigFacts(express=express(port_type), acs=acs) if config is None else config
    facts.setdefault("bars", ())
    return function(
        address, id_, 0x060400, parent=below, link=link() if at is None else at, config=config, driver="pcieport", **facts
    )


def root_port(address, id_="1022:1483", **facts):
    """A root port, by default of an AMD Zen processor."""
    return port(address, id_, ROOT_PORT, **facts)


def upstream_port(address, id_="10b5:8796", **facts):
    """The upper end of a switch."""
    return port(address, id_, UPSTREAM_PORT, **facts)


def downstream_port(address, id_="10b5:8796", **facts):
    """A lower port of a switch."""
    return port(address, id_, DOWNSTREAM_PORT, **facts)


def switch(bus, below, *, ports=2, id_="10b5:8796", at=None, acs=NO_REDIRECT):
    """An external switch: its upstream port on `bus`, its downstream ports 00.0, 01.0 ... on the bus after it."""
    up = f"0000:{bus:02x}:00.0"
    return [
        upstream_port(up, id_, below=below, at=at),
        *(downstream_port(f"0000:{bus + 1:02x}:{n:02x}.0", id_, below=up, acs=acs) for n in range(ports)),
    ]


def bar(address, size=32 * GIB, index=0):
    """A 64-bit prefetchable memory BAR with an address."""
    return Bar(index, "mem", address, size, True, True, True)


def missing_bar(index=0, size=0):
    """A memory BAR that the kernel lists without an address."""
    return Bar(index, "mem", 0, size, True, True, False)


_BAR_INDEX = {"1002": 0, "10de": 1, "8086": 2}
_DRIVER = {"1002": "amdgpu", "10de": "nvidia", "8086": "xe"}


def gpu(address, id_, below=None, *, at=None, bar_at=4 * TIB, bar_size=32 * GIB, **facts):
    """A GPU that is awake and driven by its vendor's driver, its memory BAR at `bar_at`."""
    vendor = id_[:4]
    facts.setdefault("bars", (bar(bar_at, bar_size, _BAR_INDEX[vendor]),))
    facts.setdefault("driver", _DRIVER[vendor])
    facts.setdefault("config", ConfigFacts(express=express(ENDPOINT)))
    facts.setdefault("iommu_type", "identity")
    facts.setdefault("numa_node", 0)
    facts.setdefault("class_code", 0x030000)
    return function(address, id_, parent=below, link=link() if at is None else at, **facts)


def navi_card(bus, below, id_=V620, at=None, acs=(None, None), **facts):
    """An AMD card with its own switch: 1478 on `bus`, 1479 on the next, the GPU on the third.

    `at` is the link to the slot, that of the 1478; the GPU's own always reads full. `acs` is that of the two ports.
    """
    up, down, end = (f"0000:{bus + n:02x}:00.0" for n in range(3))
    return [
        upstream_port(up, "1002:1478", below=below, at=at, acs=acs[0]),
        downstream_port(down, "1002:1479", below=up, acs=acs[1]),
        gpu(end, id_, below=down, **facts),
    ]


def changed(functions, address, **facts):
    """The functions, one of them with other facts."""
    return [msgspec.structs.replace(each, **facts) if each.address == address else each for each in _flat(functions)]


def lost_config(why):
    """Config space of a function that is gone: nothing else of it can be known."""
    gone = Unknown(why)
    return ConfigFacts(gone, gone, gone, gone, gone, gone, lost=why)


def gpu_facts(vram=NOT_CAPTURED, visible=None, busy=NOT_CAPTURED, sizes=None):
    """What a GPU's driver shows: all memory visible unless told otherwise."""
    return GpuFacts(vram, vram if visible is None else visible, busy, bar_sizes_bytes=sizes or {})


def resizable(index, size, *offered):
    """A config space with a resizable BAR."""
    return ConfigFacts(express=express(ENDPOINT), resizable_bars=(ResizableBar(index, size, offered),))


# --- hosts ------------------------------------------------------------------------------------------------------------


def host(
    *parts,
    kernel="6.12.1-generic",
    cpu=ZEN,
    command_line="BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro",
    pcie_p2p="Y",
    kernel_config=NOT_CAPTURED,
    facts=None,
    environment=BARE_METAL,
    nodes=(0,),
    balancing=0,
    units=("ivhd0",),
    apertures=NOT_CAPTURED,
    **more,
):
    """A host of these functions.

    `pcie_p2p` is amdgpu's parameter (None: the loaded amdgpu has none), `facts` what each GPU's driver shows, `units`
    the IOMMU's remapping units, `apertures` (root, first, last) or Unknown.
    """
    functions = {each.address: each for each in _flat(parts)}
    parameters, after = ((), ()) if not isinstance(command_line, str) else parse_command_line(command_line)
    boot = Boot(
        release=kernel,
        version=parse_release(kernel) if isinstance(kernel, str) else kernel,
        command_line=command_line,
        parameters=parameters,
        init_arguments=after,
        config=kernel_config,
        config_source="/boot/config-" + str(kernel),
    )
    amdgpu = {"dc": "1"} if pcie_p2p is None else {"dc": "1", "pcie_p2p": pcie_p2p}
    values = {
        "functions": {address: _with_root(each, functions) for address, each in sorted(functions.items())},
        "modules": {"amdgpu": Module("amdgpu", amdgpu)},
        "gpu_facts": facts or {},
        "iommu": Iommu(units),
        "numa": Numa(nodes, balancing),
        "error_counters": {address: ErrorCounters(address) for address in functions},
        "access": access(),
        "network": (),
        "boot_files": grub(*parameters),
        "log": log(),
        "memory_map": MemoryMap(apertures if not isinstance(apertures, tuple) else tuple(Aperture(*a) for a in apertures)),
    }
    return Host(environment, boot=boot, cpu=cpu, **{**values, **more})


def grub(*parameters):
    """GRUB, whose file holds these parameters."""
    file = "/etc/default/grub"
    placed = tuple(Placed(each, file, 1, f"{file}:1", "GRUB_CMDLINE_LINUX") for each in parameters)
    return BootFiles(Loader("grub-debian", (("/proc/cmdline", "BOOT_IMAGE=/vmlinuz"),)), Configuration(file, (file,), placed))


def _flat(parts) -> Iterator[Function]:
    for part in parts:
        if isinstance(part, Function):
            yield part
        else:
            yield from _flat(part)


def _with_root(each, functions):
    """The function with its root bus, where the way up to it is complete."""
    if each.root is not NOT_CAPTURED:
        return each
    top, seen = each, set()
    while top.parent in functions and top.address not in seen:
        seen.add(top.address)
        top = functions[top.parent]
    return msgspec.structs.replace(each, root=top.address[:-5]) if top.parent is None else each


def two_navi_cards(id_=V620, ports=("0000:40:01.1", "0000:80:01.1"), **facts):
    """Two AMD cards below one root port each, on root buses of their own: GPUs 0000:43:00.0 and 0000:83:00.0."""
    second = {**facts, "bar_at": facts.get("bar_at", 4 * TIB) + 64 * GIB}
    return [
        root_port(ports[0]),
        navi_card(0x41, ports[0], id_, **facts),
        root_port(ports[1]),
        navi_card(0x81, ports[1], id_, **second),
    ]


FIRST, SECOND = "0000:43:00.0", "0000:83:00.0"  # the GPUs of two_navi_cards


def two_nvidia_gpus(first=A5000, second=None, ports=("0000:40:01.1", "0000:80:01.1"), port_id="1022:1483", **facts):
    """Two NVIDIA cards below one root port each: 0000:41:00.0 and 0000:81:00.0."""
    return [
        root_port(ports[0], port_id),
        gpu("0000:41:00.0", first, ports[0], **facts),
        root_port(ports[1], port_id),
        gpu("0000:81:00.0", second or first, ports[1], **facts),
    ]


def below_one_switch(acs=NO_REDIRECT, own_acs=(None, None), root_id="1022:1483", at=None, **facts):
    """Two AMD cards below one external switch (0000:01:00.0): GPUs 0000:13:00.0 and 0000:23:00.0."""
    return [
        root_port("0000:00:01.1", root_id),
        switch(0x01, "0000:00:01.1", acs=acs, at=at),
        navi_card(0x11, "0000:02:00.0", acs=own_acs, **facts),
        navi_card(0x21, "0000:02:01.0", acs=own_acs, **{**facts, "bar_at": facts.get("bar_at", 4 * TIB) + 64 * GIB}),
    ]


def kfd(addresses, links=(), hives=(), firmware=100, cpu_links=()):
    """KFD's view: node 0 is the processor, the GPUs are 1, 2 ...; links are (accessor, owner) addresses."""
    numbers = {address: n for n, address in enumerate(addresses, 1)}
    nodes = [KfdNode(0, None, 0, 0, 0)]
    nodes += [KfdNode(n, address, hives[n - 1] if hives else 0, 100300, firmware) for address, n in numbers.items()]
    source = "/sys/class/kfd/kfd/topology/nodes/1/p2p_links/0/properties"
    found = [KfdLink(numbers[a], numbers[b], 2, 0, True, source) for a, b in links]
    found += [KfdLink(numbers[a], 0, type_, flags, False, source) for a, type_, flags in cpu_links]
    return Kfd(tuple(nodes), tuple(found))


def access(user=0, groups=None, memlock=8 << 20, **changed):
    """A user's rights on the usual device files; `changed` are those of some: access(1000, kfd=NO_RIGHTS), None: not there.

    Names are as in /dev, with _ for / and -.
    """
    nodes = []
    for path, group in (("kfd", 105), ("dri/renderD128", 105), ("nvidia0", 0), ("nvidiactl", 0), ("nvidia-uvm", 0)):
        rights = changed.get(path.replace("/", "_").replace("-", "_"), ALL_RIGHTS)
        if rights is not None:
            nodes.append(DeviceNode(f"/dev/{path}", 0, group, 0o660 if group else 0o666, *rights))
    return Access(user, groups or (user,), tuple(nodes), {105: "render", 0: "root"}, memlock)


ALL_RIGHTS, NO_RIGHTS, MAY_READ = (True, True), (False, False), (True, False)


def log(*events, from_boot=True, drivers=None):
    """A kernel log that begins with the boot and has these events."""
    return KernelLog(tuple(events), ("dmesg.txt",), from_boot, 100 + len(events), drivers or {})


def event(kind, address="", text="", count=1, *, first_s=None, last_s=None, **more):
    """One kind of message in the log."""
    last_s = first_s if last_s is None else last_s
    return LogEvent(kind, address, text or f"a message of {kind}", "dmesg.txt:7", count, first_s, last_s, **more)


def counters(*found):
    """Error counters by address."""
    return {each.address: each for each in found}


def samples(looks, *, before=(), after=(), uevents=(), interval_s=1.0):
    """Links that were watched: for each GPU's address its looks, each (GT/s, lanes) or (GT/s, lanes, % busy)."""
    links = [LinkSample(address, n * interval_s, *look) for address, seen in looks.items() for n, look in enumerate(seen)]
    return Samples(interval_s, tuple(links), {e.address: e for e in before}, {e.address: e for e in after}, tuple(uevents))


def steady(*addresses, look=(16.0, 16)):
    """Links that stay as they are."""
    return samples({address: [look] * 3 for address in addresses})


def rdma_card(address, below=None, **facts):
    """A network card that can do RDMA."""
    facts.setdefault("config", ConfigFacts(express=express(ENDPOINT)))
    facts.setdefault("class_code", 0x020000)
    return function(address, "15b3:1021", parent=below, driver="mlx5_core", **facts)


def nvme(address, below=None, **facts):
    """An NVMe drive."""
    facts.setdefault("config", ConfigFacts(express=express(ENDPOINT)))
    return function(address, "144d:a808", 0x010802, parent=below, driver="nvme", **facts)


def network(**cards):
    """RDMA cards by the name of their device: network(mlx5_0="0000:51:00.0")."""
    return tuple(NetworkDevice(f"eth{n}", address, 200_000, True, (name,)) for n, (name, address) in enumerate(cards.items()))


# --- recorded runs ----------------------------------------------------------------------------------------------------


def copy(origin, target, gbs=None, **more):
    """A measured transfer: copy(FIRST, SECOND, 25.0), copy("host:0", FIRST, 26.0), copy(a, b, 40.0, both_ways=True)."""
    more.setdefault("source", "run.txt:9")
    return Transfer(origin, target, gbs, **more)


def run(*transfers, tool="rocm-bandwidth-test", verified=(), words=(), cpus=("AMD EPYC 7302 16-Core Processor",), names=None):
    """A run of these transfers; `verified` are (origin, target, right), `names` what the tool calls each GPU."""
    places = dict.fromkeys(place for each in transfers for place in (each.origin, each.target) if not place.startswith("host"))
    devices = [Device(f"host:{n}", n, name, False) for n, name in enumerate(cpus)]
    devices += [Device(place, n, (names or {}).get(place, ""), True) for n, place in enumerate(places, len(devices))]
    tests = tuple(Verification(a, b, right, "PASS" if right else "FAIL", "run.txt:30") for a, b, right in verified)
    return Run(tool, "2.6.0", "run.txt:1", tuple(devices), transfers, tests, words)


def both_directions(a, b, one_way, both_ways, host=None, **more):
    """Copies between two GPUs, alike in both directions, and where `host` is given those of both with the host."""
    found = [copy(x, y, one_way, peer_access=True, **more) for x, y in ((a, b), (b, a))]
    if both_ways is not None:
        found += [copy(x, y, both_ways, both_ways=True, peer_access=True, **more) for x, y in ((a, b), (b, a))]
    if host is not None:
        found += [copy(*ends, host, **more) for gpu in (a, b) for ends in (("host:0", gpu), (gpu, "host:0"))]
    return tuple(found)


def run_in_order(a, b):
    """A run over links of 16 GT/s x16 that shows nothing wrong, its data compared."""
    return run(*both_directions(a, b, 25.0, 45.0, host=27.0), verified=((a, b, True), (b, a, True)))


# --- judging ----------------------------------------------------------------------------------------------------------


def view(*parts, **facts):
    """The view of a host made of these parts, or of the host given."""
    return View(parts[0] if parts and isinstance(parts[0], Host) else host(*parts, **facts))


def judge(id_, described):
    """The findings of one built-in check over a host, each held against what the contract asks of any finding."""
    check = next(check for check in built_in() if check.id == id_)
    found = diagnose(View(described), [check])
    remedies = knowledge.load_remedies()
    for finding in found:
        assert finding.check == id_
        assert finding.title
        assert "failed itself" not in finding.title, finding.title
        assert set(finding.remedies) <= set(check.remedies) <= set(remedies)
        assert all(evidence.source and evidence.value for evidence in finding.evidence), finding
        assert finding.outcome not in ("failure", "warning") or finding.evidence, finding
    return found


def verdict(id_, described):
    """The only finding of a check over a host."""
    found = judge(id_, described)
    assert len(found) == 1, found
    return found[0]


def text(finding):
    """Everything a person reads of a finding."""
    parts = [finding.title, finding.explanation, finding.next, finding.help]
    parts += [f"{evidence.source} {evidence.value}" for evidence in finding.evidence]
    return "\n".join([*parts, finding.cost.text if finding.cost else ""])
