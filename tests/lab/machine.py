"""Machines to emulate: root ports, switches and devices by name, and what each shall look like to the guest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from tests.lab.config_space import Bar, Link, Look

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40

V620, MI210, RTX_4090, RTX_A5000, CONNECTX_7 = "1002:73a1", "1002:740f", "10de:2684", "10de:2231", "15b3:1021"
_PROPERTY_SPEED = {2.5: "2_5", 5.0: "5", 8.0: "8", 16.0: "16"}

# What the processor says of itself; nothing else of it is emulated differently.
EPYC = "max,la57=off,vendor=AuthenticAMD,family=23,model=49,stepping=0,model-id=AMD EPYC 7302 16-Core Processor"
XEON = "max,la57=off,vendor=GenuineIntel,family=6,model=85,stepping=4,model-id=Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz"

# Root ports of these processors.
ZEN_PORT, XEON_PORT = "1022:1483", "8086:2030"

FULL = Link(16.0, 16, 16.0, 16)


@dataclass(frozen=True)
class Part:
    """QEMU's arguments for some devices, and what each device, by its id, shall look like."""

    arguments: tuple[str, ...] = ()
    looks: Mapping[str, Look] = field(default_factory=dict)


@dataclass(frozen=True)
class Machine:
    """A whole machine."""

    parts: tuple[Part, ...] = ()
    cpu: str = EPYC
    memory: str = "1G"
    processors: str = "1"
    uefi: bool = False
    extra: tuple[str, ...] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """QEMU's arguments."""
        basic = ("-cpu", self.cpu, "-m", self.memory, "-smp", self.processors, *self.extra)
        return (*basic, *(word for part in self.parts for word in part.arguments))

    @property
    def looks(self) -> dict[str, Look]:
        """Every device that is to look like another."""
        return {name: look for part in self.parts for name, look in part.looks.items()}

    def with_parts(self, *parts: Part) -> Machine:
        """The machine with further devices, in front of the others."""
        return replace(self, parts=(*parts, *self.parts))


def as_hardware(machine: Machine) -> Machine:
    """The machine without what gives an emulator away, for trees that are judged without --assume-bare-metal."""
    board = "H12DSG-O-CPU" if machine.cpu.startswith(EPYC) else "X11DPG-QT"
    words = ["-smbios", "type=0,vendor=American Megatrends International,version=3.0,date=11/29/2023"]
    words += ["-smbios", "type=1,manufacturer=Supermicro,product=Super Server"]
    words += ["-smbios", f"type=2,manufacturer=Supermicro,product={board}", "-smbios", "type=3,manufacturer=Supermicro"]
    return replace(machine, cpu=f"{machine.cpu},hypervisor=off", extra=(*machine.extra, *words))


def device(driver: str, name: str, look: Look | None = None, **properties: str | int) -> Part:
    """A device of QEMU's."""
    words = [driver, f"id={name}", *(f"{key.replace('_', '-')}={value}" for key, value in properties.items())]
    return Part(("-device", ",".join(words)), {name: look} if look else {})


def root_port(
    name: str,
    slot: int,
    speed: float = 16.0,
    width: int = 16,
    *,
    id_: str = ZEN_PORT,
    bus: str = "pcie.0",
    reserve: str = "",
) -> Part:
    """A root port in a slot of that number; the bus below it has its name.

    QEMU's firmware heeds `reserve`, the window for devices to come, only where the port keeps QEMU's own id ("").
    """
    properties: dict[str, str | int] = {"x_speed": _PROPERTY_SPEED[speed], "x_width": width}
    if bus == "pcie.0":
        properties["addr"] = f"{slot:#x}"
    if reserve:
        properties["pref64_reserve"] = reserve
    return device("pcie-root-port", name, Look(id=id_) if id_ else None, bus=bus, chassis=1, slot=slot, **properties)


def upstream_port(name: str, bus: str, id_: str = "10b5:8796", link: Link = FULL) -> Part:
    """The upper end of a switch."""
    return device("x3130-upstream", name, Look(id=id_, link=link), bus=bus)


def downstream_port(name: str, bus: str, number: int, id_: str = "10b5:8796", *, acs: bool = False) -> Part:
    """A lower end of a switch."""
    look = Look(id=id_, link=FULL, acs=acs)
    return device("xio3130-downstream", name, look, bus=bus, chassis=_chassis(name), slot=number, addr=number)


def _chassis(name: str) -> int:
    """A number for the slot's chassis, of which no two slots of one number may have the same."""
    return 2 + sum(position * ord(letter) for position, letter in enumerate(name, 1)) % 250


def endpoint(name: str, bus: str, look: Look) -> Part:
    """A device of any look: QEMU's NVMe controller, which no driver knows any more once its ids are others."""
    return device("nvme", name, replace(look, aer=True), bus=bus, serial=_serial(name))


def _serial(name: str) -> str:
    """Not the name itself: a device is found in QEMU's memory by its name."""
    return f"serial-{name}"


def gpu(
    name: str, bus: str, id_: str = V620, link: Link = FULL, memory: int = 32 * GIB, *, bars: Mapping[int, Bar] | None = None
) -> Part:
    """A GPU with the BARs of its vendor."""
    vendor = id_.partition(":")[0]
    usual = {
        "1002": {0: Bar(memory), 2: Bar(2 * MIB), 5: Bar(MIB, is_64bit=False, prefetchable=False)},
        "10de": {0: Bar(16 * MIB, is_64bit=False, prefetchable=False), 1: Bar(memory), 3: Bar(32 * MIB)},
    }[vendor]
    class_code = 0x038000 if id_ == MI210 else 0x030000
    subsystem = "1002:0e34" if vendor == "1002" else "10de:167c"
    look = Look(id=id_, subsystem=subsystem, class_code=class_code, link=link, bars=usual if bars is None else bars)
    return endpoint(name, bus, look)


def amd_card(name: str, bus: str, id_: str = V620, slot: Link = FULL, memory: int = 32 * GIB) -> Iterator[Part]:
    """A card with a switch of its own; `slot` is its link to the board, while that to the GPU is always full."""
    yield upstream_port(f"{name}u", bus, "1002:1478", slot)
    yield downstream_port(f"{name}d", f"{name}u", 0, "1002:1479")
    yield gpu(name, f"{name}d", id_, memory=memory)


def nic(name: str, bus: str, link: Link = FULL) -> Part:
    """A network card."""
    return endpoint(name, bus, Look(id=CONNECTX_7, class_code=0x020000, link=link, bars={0: Bar(32 * MIB)}))


def intel_iommu(**properties: str | int) -> Part:
    """VT-d."""
    return Part(("-device", ",".join(["intel-iommu", "aw-bits=48", *(f"{key}={value}" for key, value in properties.items())])))


def two_sockets(*buses: int) -> Part:
    """A memory node with two processors for each host bridge, whose root buses are rc0, rc1 ... and have these numbers."""
    words = []
    for node, bus in enumerate(buses):
        words += ["-object", f"memory-backend-ram,id=ram{node},size=1G"]
        words += ["-numa", f"node,nodeid={node},cpus={2 * node}-{2 * node + 1},memdev=ram{node}"]
        words += ["-device", f"pxb-pcie,id=rc{node},bus=pcie.0,bus_nr={bus:#x},numa_node={node}"]
    return Part(tuple(words))


AMD_IOMMU = Part(("-device", "amd-iommu"))
INTEL_IOMMU = intel_iommu()
