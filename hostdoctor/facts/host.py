"""The rest of the host: kernel, IOMMU, processor, firmware, memory map, KFD, and what kind of machine it is."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hostdoctor.facts.bandwidth import Run
from hostdoctor.facts.boot_files import BootFiles, Parameter
from hostdoctor.facts.driver import Access, AmdSmi, ErrorCounters, NetworkDevice, Nvml, PairWord, Refusal, Samples
from hostdoctor.facts.log import KernelLog
from hostdoctor.facts.pci import Acs, Function, GpuFacts
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown


class KernelVersion(msgspec.Struct, frozen=True, order=True):
    """The upstream part of a release: 6.8.0-52-generic is (6, 8)."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class Boot(msgspec.Struct, frozen=True):
    """The running kernel and how it was started."""

    release: str | Unknown = NOT_CAPTURED
    version: KernelVersion | Unknown = NOT_CAPTURED
    command_line: str | Unknown = NOT_CAPTURED
    parameters: tuple[Parameter, ...] = ()
    init_arguments: tuple[Parameter, ...] = ()  # after " -- ": they go to init
    config: Mapping[str, str] | Unknown = NOT_CAPTURED  # CONFIG_X -> y, m, n or a value
    config_source: str = ""
    distribution: str | Unknown = NOT_CAPTURED  # PRETTY_NAME
    distribution_id: str | Unknown = NOT_CAPTURED  # ID
    older_than: KernelVersion | None = None  # what the wording of its log tells where the version is not known


class Module(msgspec.Struct, frozen=True):
    """A loaded kernel module and its parameters.

    Attributes:
        name: "amdgpu".
        parameters: by name; one whose value was not read has an empty one.
        version: of a module built outside the kernel, or None.
        lists_all: whether a parameter that is not among them does not exist; a paste may show a few of them alone.
        missing: parameters that are known not to exist.
    """

    name: str
    parameters: Mapping[str, str]
    version: str | None = None
    lists_all: bool = True
    missing: tuple[str, ...] = ()

    def lacks(self, parameter: str) -> bool:
        """Whether it is known to have no such parameter; of a module without any, none could be read."""
        return parameter in self.missing or (self.lists_all and bool(self.parameters) and parameter not in self.parameters)


class Iommu(msgspec.Struct, frozen=True):
    """Which remapping units are active: ivhd* (AMD), dmar* (Intel); empty where the IOMMU is off."""

    units: tuple[str, ...] | Unknown = NOT_CAPTURED


class Cpu(msgspec.Struct, frozen=True):
    """The processor."""

    vendor: str | Unknown = NOT_CAPTURED  # AuthenticAMD, GenuineIntel, ...
    family: int | Unknown = NOT_CAPTURED
    model: int | Unknown = NOT_CAPTURED
    name: str | Unknown = NOT_CAPTURED
    physical_bits: int | Unknown = NOT_CAPTURED
    sockets: int | Unknown = NOT_CAPTURED
    hypervisor_flag: bool | Unknown = NOT_CAPTURED

    @property
    def is_intel(self) -> bool:
        """GenuineIntel."""
        return self.vendor == "GenuineIntel"

    @property
    def is_amd(self) -> bool:
        """AuthenticAMD (Hygon has its own vendor string)."""
        return self.vendor == "AuthenticAMD"


class Firmware(msgspec.Struct, frozen=True):
    """DMI strings that need no root and hold no serial number."""

    system_vendor: str | Unknown = NOT_CAPTURED
    product_name: str | Unknown = NOT_CAPTURED
    board_vendor: str | Unknown = NOT_CAPTURED
    board_name: str | Unknown = NOT_CAPTURED
    bios_vendor: str | Unknown = NOT_CAPTURED
    bios_version: str | Unknown = NOT_CAPTURED
    bios_date: str | Unknown = NOT_CAPTURED
    chassis_type: str | Unknown = NOT_CAPTURED


class Aperture(msgspec.Struct, frozen=True):
    """A memory range that the firmware gave a root bus, both ends inclusive (/proc/iomem "PCI Bus 0000:17")."""

    root: str
    start: int
    end: int
    source: str = "/proc/iomem"

    @property
    def size_bytes(self) -> int:
        """Bytes from start to end."""
        return self.end - self.start + 1


class MemoryMap(msgspec.Struct, frozen=True):
    """Root bus apertures, and the last address of installed memory."""

    apertures: tuple[Aperture, ...] | Unknown = NOT_CAPTURED
    memory_end: int | Unknown = NOT_CAPTURED


class Numa(msgspec.Struct, frozen=True):
    """The host's memory nodes and automatic balancing between them."""

    nodes: tuple[int, ...] | Unknown = NOT_CAPTURED
    balancing: int | Unknown = NOT_CAPTURED  # kernel.numa_balancing: bit 0 balancing, bit 1 memory tiering


class KfdLink(msgspec.Struct, frozen=True):
    """A link KFD publishes, from accessor to owner."""

    node_from: int
    node_to: int
    type: int  # 2 PCIe, 11 XGMI
    flags: int
    peer: bool  # from p2p_links rather than io_links
    source: str


class KfdNode(msgspec.Struct, frozen=True):
    """One node of KFD's topology: a CPU, or a GPU with the PCI address it sits at."""

    number: int
    address: str | None  # None for a CPU
    hive_id: int
    gfx_target: int
    firmware_version: int


class Kfd(msgspec.Struct, frozen=True):
    """AMD's compute driver's own view of the host."""

    nodes: tuple[KfdNode, ...]
    links: tuple[KfdLink, ...]


class Environment(msgspec.Struct, frozen=True):
    """What kind of machine this is.

    `kind` is "bare-metal", "virtual-machine", "wsl" or Unknown; a container is told apart from it because it shows the
    real PCI tree of whatever it runs on.
    """

    kind: str | Unknown
    hypervisor: str = ""
    container: str = ""  # "docker", "lxc", "container" ... or empty
    evidence: tuple[tuple[str, str], ...] = ()
    assumed_bare_metal: bool = False

    @property
    def is_guest(self) -> bool:
        """Whether PCI links, windows and the IOMMU seen here are a hypervisor's, and must not be judged."""
        return self.kind in ("virtual-machine", "wsl") and not self.assumed_bare_metal


class Contradiction(msgspec.Struct, frozen=True):
    """Two sources that cannot both be right about one thing; the first one was believed."""

    subject: str
    what: str  # "width of the link"
    said: tuple[tuple[str, str], ...]  # (source, value), the one that was believed first


class BootLink(msgspec.Struct, frozen=True):
    """The bandwidth between a function and the root complex as the kernel found it when it enumerated the function.

    It is taken before drivers save power, but tells of that moment alone: the narrowest link of the way, not each of them.

    Attributes:
        limited_by: the port whose link is the narrowest; empty where the function can use all it is able to.
        speed_gts: of that link.
        width: of that link.
        gbs: of that link, GB/s (10^9) one way, after coding.
        capable_speed_gts: what the function itself is able to.
        capable_width: lanes of the function itself.
        capable_gbs: the same in GB/s.
        source: where the log says so.
    """

    limited_by: str
    speed_gts: float
    width: int
    gbs: float
    capable_speed_gts: float
    capable_width: int
    capable_gbs: float
    source: str


class Host(msgspec.Struct, frozen=True):
    """All facts of one host."""

    environment: Environment
    functions: Mapping[str, Function] | Unknown
    gpu_facts: Mapping[str, GpuFacts] = {}
    boot: Boot = Boot()
    boot_files: BootFiles = BootFiles()
    modules: Mapping[str, Module] | Unknown = NOT_CAPTURED
    iommu: Iommu = Iommu()
    cpu: Cpu = Cpu()
    firmware: Firmware = Firmware()
    memory_map: MemoryMap = MemoryMap()
    numa: Numa = Numa()
    kfd: Kfd | Unknown | None = NOT_CAPTURED
    nvml: Nvml | Unknown | None = None
    nvml_complaint: str = ""  # where nvidia-smi's complaint stands that is the reason of an unknown `nvml`
    amd_smi: AmdSmi | Unknown | None = None
    access: Access | Unknown = NOT_CAPTURED
    error_counters: Mapping[str, ErrorCounters] | Unknown = NOT_CAPTURED
    samples: Samples | None = None
    network: tuple[NetworkDevice, ...] | Unknown = NOT_CAPTURED
    lacking_functions: tuple[str, ...] = ()  # listed by the kernel, but their folders are not in the evidence
    log: KernelLog | None = None  # None where no log is at hand
    boot_links: Mapping[str, BootLink] = {}  # by function, from the kernel's log
    runs: tuple[Run, ...] = ()  # recorded measurements
    pair_words: tuple[PairWord, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    loose_acs: tuple[tuple[str, Acs], ...] = ()  # ACS registers whose port is not told, and where they stand
    privileged: bool = True  # whether the evidence was read with enough rights for config space
