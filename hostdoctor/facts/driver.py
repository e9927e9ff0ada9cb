"""What drivers, vendor libraries and the network say of the host, beside what PCI and sysfs tell.

Verdicts stand without these facts; where both speak, a difference is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown


class NvmlGpu(msgspec.Struct, frozen=True):
    """One GPU as NVML sees it, asked or as nvidia-smi printed it. Generations are PCIe generations, 1 for 2.5 GT/s."""

    address: str
    name: str | Unknown = NOT_CAPTURED
    link_generation: int | Unknown = NOT_CAPTURED
    link_width: int | Unknown = NOT_CAPTURED
    gpu_max_generation: int | Unknown = NOT_CAPTURED  # of the GPU alone
    max_generation: int | Unknown = NOT_CAPTURED  # of GPU and system together
    max_width: int | Unknown = NOT_CAPTURED
    performance_state: int | Unknown = NOT_CAPTURED  # 0 is the fastest, 8 and above are idle states
    busy_percent: int | Unknown = NOT_CAPTURED
    throttle_reasons: int | Unknown = NOT_CAPTURED  # bits of nvmlClocksThrottleReasons
    replay_count: int | Unknown = NOT_CAPTURED
    bar1_bytes: int | Unknown = NOT_CAPTURED
    memory_bytes: int | Unknown = NOT_CAPTURED
    nvlinks_active: int | Unknown = NOT_CAPTURED
    ecc_enabled: bool | Unknown = NOT_CAPTURED
    ecc_uncorrected: int | Unknown = NOT_CAPTURED
    lost: bool = False  # NVML_ERROR_GPU_IS_LOST
    mig_enabled: bool | Unknown = NOT_CAPTURED
    trouble: str = ""  # what else the driver says is wrong with it, "the GPU requires a reset"
    origin: str = ""  # where nvidia-smi's words stand, "smi.txt:9"; empty where NVML itself was asked


class NvmlPair(msgspec.Struct, frozen=True):
    """NVML's verdict on an ordered pair: nvmlGpuP2PStatus codes and the nvmlGpuTopologyLevel between them."""

    accessor: str
    owner: str
    read: int | Unknown
    write: int | Unknown
    nvlink: int | Unknown = NOT_CAPTURED
    topology: int | Unknown = NOT_CAPTURED
    atomics: int | Unknown = NOT_CAPTURED
    origin: str = ""  # where nvidia-smi's matrix has it; empty where NVML itself was asked


class Nvml(msgspec.Struct, frozen=True):
    """NVIDIA's management library."""

    driver_version: str | Unknown
    library_version: str | Unknown
    cuda_version: int | Unknown  # 12080 is 12.8
    gpus: tuple[NvmlGpu, ...]
    pairs: tuple[NvmlPair, ...]
    origin: str = "NVML"  # what told it: the library, or the place of nvidia-smi's output


class PairWord(msgspec.Struct, frozen=True):
    """What a pasted tool's output says of an ordered pair, beside what NVML and KFD say where they can be asked.

    Attributes:
        accessor: a GPU's address, or "GPU0" where none is known.
        owner: the other.
        allowed: whether the driver grants access; None where the table does not tell.
        text: the tool's own word, "CANNOT access", "0", "XGMI, 1 hop".
        source: where it stands, "rbt.txt:17".
        link: "PCIE", "XGMI", "NVLINK" or empty.
    """

    accessor: str
    owner: str
    allowed: bool | None
    text: str
    source: str
    link: str = ""


class AmdSmiGpu(msgspec.Struct, frozen=True):
    """One GPU as AMD SMI sees it; speeds in GT/s."""

    address: str
    link_speed_gts: float | Unknown = NOT_CAPTURED
    link_width: int | Unknown = NOT_CAPTURED
    max_speed_gts: float | Unknown = NOT_CAPTURED
    max_width: int | Unknown = NOT_CAPTURED
    replay_count: int | Unknown = NOT_CAPTURED
    busy_percent: int | Unknown = NOT_CAPTURED
    memory_bytes: int | Unknown = NOT_CAPTURED


class AmdSmiPair(msgspec.Struct, frozen=True):
    """AMD SMI's verdict on an ordered pair; it repeats what KFD publishes."""

    accessor: str
    owner: str
    accessible: bool | Unknown
    link_type: str | Unknown = NOT_CAPTURED  # "PCIE", "XGMI"


class AmdSmi(msgspec.Struct, frozen=True):
    """AMD's management library; `source` is the folder its Python binding came from."""

    library_version: str | Unknown
    source: str
    gpus: tuple[AmdSmiGpu, ...]
    pairs: tuple[AmdSmiPair, ...]


class DeviceNode(msgspec.Struct, frozen=True):
    """A device file that compute needs, and what the calling user may do with it (without opening it)."""

    path: str
    owner: int
    group: int
    mode: int  # permission bits
    readable: bool
    writable: bool
    source: str = ""  # where it is listed, if not by this host's kernel


class Access(msgspec.Struct, frozen=True):
    """The calling user's rights; in a paste, those of the user whom it tells of.

    Attributes:
        user: the number; negative where a paste gives none.
        groups: their numbers, negative for those of which only the name is known.
        nodes: the device files.
        group_names: of the groups that own them.
        memlock_bytes: None is unlimited.
        user_name: where only a paste tells it.
        absent: paths that are known not to be there; None where those are all that `nodes` lacks.
    """

    user: int
    groups: tuple[int, ...]
    nodes: tuple[DeviceNode, ...]
    group_names: Mapping[int, str] = {}
    memlock_bytes: int | Unknown | None = NOT_CAPTURED
    user_name: str = ""
    absent: tuple[str, ...] | None = None


RefusalKind = Literal["permission", "prohibited", "missing", "module", "driver", "runtime"]


class Refusal(msgspec.Struct, frozen=True):
    """That a tool of AMD's could not use the driver.

    Attributes:
        kind: "permission" (EACCES), "prohibited" (EPERM: not by the file's mode), "missing" (no such file), "module" (not
            loaded), "driver" (opening was allowed, and the driver refused) or "runtime" (no cause told).
        answer: in the kernel's or the tool's words.
        source: where that stands.
        notes: what the tool says beside it, of the user's groups.
    """

    kind: RefusalKind
    answer: str
    source: str
    notes: tuple[tuple[str, str], ...] = ()


class ErrorCounters(msgspec.Struct, frozen=True):
    """Counts since boot of one function (aer_dev_correctable and its neighbours), only those that are not zero."""

    address: str
    correctable: Mapping[str, int] = {}
    nonfatal: Mapping[str, int] = {}
    fatal: Mapping[str, int] = {}
    replays: int | Unknown = NOT_CAPTURED  # pcie_replay_count of amdgpu

    @property
    def total(self) -> int:
        """All errors together."""
        return sum((*self.correctable.values(), *self.nonfatal.values(), *self.fatal.values()))


class LinkSample(msgspec.Struct, frozen=True):
    """One look at a card's slot link while sampling; seconds since the first."""

    address: str
    seconds: float
    speed_gts: float | Unknown
    width: int | Unknown
    busy_percent: int | Unknown = NOT_CAPTURED


class Samples(msgspec.Struct, frozen=True):
    """Links and counters watched over a while; `uevents` are those of PCI functions meanwhile, "remove 0000:43:00.0"."""

    interval_s: float
    links: tuple[LinkSample, ...]
    counters_before: Mapping[str, ErrorCounters] = {}
    counters_after: Mapping[str, ErrorCounters] = {}
    uevents: tuple[str, ...] = ()


class NetworkDevice(msgspec.Struct, frozen=True):
    """A network interface and the PCI function it belongs to."""

    name: str
    address: str
    speed_mbits: int | Unknown = NOT_CAPTURED
    up: bool | Unknown = NOT_CAPTURED
    rdma: tuple[str, ...] = ()  # RDMA devices on the same function, "mlx5_0"
