"""PCI functions, as the kernel's sysfs and their config space describe them.

Addresses are always written with their domain ("0000:43:00.0", "10000:e1:00.0"), speeds are in GT/s, sizes in bytes.
Sources: Linux drivers/pci/pci-sysfs.c and include/uapi/linux/pci_regs.h; PCI Express Base Specification, chapter 7.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown

AMD, NVIDIA, INTEL, ATI = 0x1022, 0x10DE, 0x8086, 0x1002

# Device/port type field of the PCI Express capabilities register.
ENDPOINT, LEGACY_ENDPOINT, ROOT_PORT, UPSTREAM_PORT, DOWNSTREAM_PORT = 0, 1, 4, 5, 6
PCIE_TO_PCI_BRIDGE, INTEGRATED_ENDPOINT = 7, 9

# Class and subclass of what competes with GPUs for links, or feeds them: Ethernet, InfiniBand, NVMe.
ETHERNET, INFINIBAND, NVME = 0x0200, 0x0207, 0x0108


class Link(msgspec.Struct, frozen=True):
    """One end of a link: what runs now and what this end could do.

    A width of 0 is a link that is down. Speeds and widths that read as "Unknown", 0 GT/s or 255 are `Unknown`.
    """

    current_speed_gts: float | Unknown
    current_width: int | Unknown
    max_speed_gts: float | Unknown
    max_width: int | Unknown


class Bar(msgspec.Struct, frozen=True):
    """One base address register with an address, or known to want one.

    `index` 6 is the expansion ROM and 7 to 12 are SR-IOV BARs, in the kernel's numbering.
    """

    index: int
    kind: str  # "mem", "io" or "rom"
    address: int
    size_bytes: int  # 0 where a BAR has no address and its size is not known
    is_64bit: bool
    prefetchable: bool
    assigned: bool
    said_at: str = ""  # the line of a log that tells it; empty where the function's own resource list does

    @property
    def end(self) -> int:
        """The last address, inclusive."""
        return self.address + max(self.size_bytes, 1) - 1

    @property
    def is_virtual_function_bar(self) -> bool:
        """Whether it belongs to the SR-IOV virtual functions rather than to this function."""
        return self.index > 6


class Window(msgspec.Struct, frozen=True):
    """An address range a bridge passes on, both ends inclusive."""

    kind: str  # "io", "mem" or "prefetchable"
    start: int
    end: int

    @property
    def size_bytes(self) -> int:
        """Bytes from start to end."""
        return self.end - self.start + 1


class RefusedWindow(msgspec.Struct, frozen=True):
    """A window that the kernel wanted to open at a bridge and found no space for.

    Attributes:
        kind: "mem" or "prefetchable".
        size_bytes: how large it had to be for what lies below.
        source: where the log says so.
    """

    kind: str
    size_bytes: int
    source: str


class Express(msgspec.Struct, frozen=True):
    """The PCI Express capability, decoded."""

    port_type: int
    slot_implemented: bool
    max_payload_supported_bytes: int
    max_payload_bytes: int
    max_read_request_bytes: int
    max_speed_gts: float | Unknown
    max_width: int
    current_speed_gts: float | Unknown
    current_width: int
    target_speed_gts: float | Unknown
    aspm_control: int
    link_training: bool
    atomic_routing: bool | Unknown
    atomic_32_completer: bool | Unknown
    atomic_64_completer: bool | Unknown
    atomic_128_completer: bool | Unknown
    atomic_requester_enabled: bool | Unknown
    atomic_egress_blocked: bool | Unknown


class Acs(msgspec.Struct, frozen=True):
    """Access Control Services: the control bits in force and which the port has at all."""

    capability: int
    control: int

    # Bits of the ACS capability and control registers (pci_regs.h PCI_ACS_*).
    SOURCE_VALIDATION = 0x01
    REQUEST_REDIRECT = 0x04
    COMPLETION_REDIRECT = 0x08
    UPSTREAM_FORWARDING = 0x10
    EGRESS_CONTROL = 0x20
    REDIRECT = REQUEST_REDIRECT | COMPLETION_REDIRECT | EGRESS_CONTROL

    @property
    def redirects(self) -> bool:
        """Whether peer requests leave for the root complex (drivers/pci/p2pdma.c pci_bridge_has_acs_redir)."""
        return bool(self.control & self.REDIRECT)


class ResizableBar(msgspec.Struct, frozen=True):
    """One entry of the Resizable BAR capability."""

    bar_index: int
    size_bytes: int
    sizes_bytes: tuple[int, ...]


class Sriov(msgspec.Struct, frozen=True):
    """The SR-IOV capability of a physical function."""

    total_vfs: int
    num_vfs: int


class Aer(msgspec.Struct, frozen=True):
    """Sticky status bits of Advanced Error Reporting."""

    uncorrectable_status: int
    correctable_status: int


class Dpc(msgspec.Struct, frozen=True):
    """Downstream Port Containment: whether the port has shut its link, and why."""

    triggered: bool
    reason: int


class ConfigFacts(msgspec.Struct, frozen=True):
    """What config space says; `None` where the function has no such capability."""

    express: Express | Unknown | None = None
    acs: Acs | Unknown | None = None
    aer: Aer | Unknown | None = None
    resizable_bars: tuple[ResizableBar, ...] | Unknown = ()
    sriov: Sriov | Unknown | None = None
    dpc: Dpc | Unknown | None = None
    bar_registers: tuple[int, ...] = ()
    secondary_bus: int | None = None
    subordinate_bus: int | None = None
    header_type: int | None = None
    revision: int | None = None
    # Why the function answers like one that is gone ("reads as all ones", "header type 7f"), or empty.
    lost: str = ""


class Power(msgspec.Struct, frozen=True):
    """Runtime power management, as it was before anything else was read."""

    runtime_status: str | Unknown = NOT_CAPTURED  # active, suspended, suspending, resuming, error, unsupported
    state: str | Unknown = NOT_CAPTURED  # D0, D1, D2, D3hot, D3cold, unknown, error

    @property
    def asleep(self) -> bool:
        """Whether reading the device could wake it."""
        return self.runtime_status in ("suspended", "suspending") or self.state in ("D3cold", "D3hot")


# What people call in a text what sysfs has as an attribute; config space stands there decoded, so its lines speak.
_IN_TEXT = {
    "config": "",
    "current_link_speed": "link status",
    "current_link_width": "link status",
    "device": "",
    "iommu_group/type": "IOMMU",
    "max_link_speed": "link capabilities",
    "max_link_width": "link capabilities",
    "numa_node": "NUMA node",
    "resource": "BARs",
}


class Function(msgspec.Struct, frozen=True):
    """One PCI function."""

    address: str
    vendor: int
    device: int
    class_code: int  # 24 bits: class, subclass, programming interface
    subsystem_vendor: int = 0
    subsystem_device: int = 0
    driver: str | Unknown | None = None
    parent: str | Unknown | None = None  # address of the bridge directly above; None on a root bus
    ports_left_out: bool = False  # whether ports lie between it and `parent` that the evidence leaves out
    root: str | Unknown = NOT_CAPTURED  # the root bus, "0000:17"
    bars: tuple[Bar, ...] | Unknown = NOT_CAPTURED
    windows: tuple[Window, ...] = ()
    refused_windows: tuple[RefusedWindow, ...] = ()
    numa_node: int | Unknown = NOT_CAPTURED
    link: Link | Unknown | None = NOT_CAPTURED
    config: ConfigFacts | Unknown = NOT_CAPTURED
    power: Power = Power()
    iommu_group: str | Unknown | None = NOT_CAPTURED
    iommu_type: str | Unknown | None = NOT_CAPTURED  # identity, DMA, DMA-FQ, blocked, unmanaged; None without IOMMU
    dma_mask_bits: int | Unknown = NOT_CAPTURED
    is_virtual_function: bool = False
    port_type: int | None = None  # device/port type by the kernel's log, where the capability itself was not read
    origin: str = ""  # where it was read: "/sys/bus/pci/devices/0000:43:00.0", "lspci.txt:120"
    name: str = ""  # as a text has it, for where no table knows the id or the text gives none; then the device id is 0
    # An id of which every table says the same as of the others that bear that name, or empty.
    stand_in_id: str = ""

    @property
    def id(self) -> str:
        """Vendor and device, "1002:73a1"; without a device id the one that stands in for it, else "1002:0000"."""
        if not self.device and self.stand_in_id:
            return self.stand_in_id
        return f"{self.vendor:04x}:{self.device:04x}"

    @property
    def has_known_id(self) -> bool:
        """Whether the tables can be asked about it: what they do not list is then known not to be in them."""
        return self.device != 0 or bool(self.stand_in_id)

    def is_twin_of(self, other: Function) -> bool:
        """Whether both are the same product, by their ids, or where these are not told by their names."""
        if self.has_known_id or other.has_known_id:
            return self.id == other.id
        return self.vendor == other.vendor and self.name == other.name and bool(self.name)

    @property
    def is_from_sysfs(self) -> bool:
        """Whether the kernel's own files tell of it, and so of every other function of the host too."""
        return self.origin.startswith("/")

    @property
    def base_class(self) -> int:
        """The class byte: 0x03 display, 0x06 bridge, 0x12 accelerator."""
        return self.class_code >> 16

    @property
    def is_bridge(self) -> bool:
        """Whether it is a PCI-to-PCI bridge, so that functions can lie below it."""
        return self.class_code >> 8 == 0x0604

    @property
    def is_network_card(self) -> bool:
        """Whether it is an Ethernet or InfiniBand controller."""
        return self.class_code >> 8 in (ETHERNET, INFINIBAND)

    @property
    def is_nvme(self) -> bool:
        """Whether it is an NVMe drive."""
        return self.class_code >> 8 == NVME

    @property
    def asleep(self) -> bool:
        """Whether it was runtime suspended when it was looked at."""
        return self.power.asleep

    @property
    def express(self) -> Express | Unknown | None:
        """The PCI Express capability."""
        return self.config if isinstance(self.config, Unknown) else self.config.express

    @property
    def express_type(self) -> int | None:
        """The device/port type, as config space has it or the kernel's log names it; None where neither tells."""
        express = self.express
        return self.port_type if isinstance(express, Unknown) or express is None else express.port_type

    @property
    def acs(self) -> Acs | Unknown | None:
        """The ACS capability."""
        return self.config if isinstance(self.config, Unknown) else self.config.acs

    def source(self, attribute: str) -> str:
        """Where a fact of this function stands, for evidence: the file of that sysfs attribute, or the place in a text."""
        if self.is_from_sysfs:
            return f"{self.origin}/{attribute}"
        words = "Resizable BAR" if attribute.endswith("_resize") else _IN_TEXT.get(attribute, attribute)
        return f"{self.origin} {words}".rstrip()


class RefusedSize(msgspec.Struct, frozen=True):
    """A size that the GPU's driver wanted to give a BAR and found no space for; 0 where it is not told how large."""

    bar_index: int
    size_bytes: int
    source: str


class GpuFacts(msgspec.Struct, frozen=True):
    """What the GPU's driver shows of it in sysfs, or wrote of it into the kernel's log."""

    vram_bytes: int | Unknown = NOT_CAPTURED
    visible_vram_bytes: int | Unknown = NOT_CAPTURED
    busy_percent: int | Unknown = NOT_CAPTURED
    link_levels: str | Unknown = NOT_CAPTURED  # pp_dpm_pcie
    bar_sizes_bytes: Mapping[int, tuple[int, ...]] = {}  # by BAR index, of the resourceN_resize files
    refused_sizes: tuple[RefusedSize, ...] = ()
    memory_source: str = ""  # where an attachment tells of its memory; empty where sysfs does
