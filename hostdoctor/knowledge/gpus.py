"""GPUs as they are sold, AMD's generations, and which GPUs are part of a processor.

A PCI id does not name a product: several share one, and a rule may only use what all of them agree on. The functions
here that return one value do so, and return None where products disagree or nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Literal, TypeVar

import msgspec

from hostdoctor.knowledge.read import read_table

T = TypeVar("T")

VendorClass = Literal["professional", "consumer", "mining", "titan"]
PcieP2p = Literal["kernel", "allowed", "refused", "unconfirmed", "none"]
NvLink = Literal["none", "bridge", "sxm", "unknown"]
Atomics = Literal["always", "never", "firmware", ""]

GIB = 1 << 30


class Gpu(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One product.

    Attributes:
        id: "1002:73a1"; not unique.
        name: "Radeon PRO V620".
        vendor_class: professional (data centre, Instinct, Radeon Pro, Quadro, Tesla, RTX A, Ada and PRO), consumer
            (GeForce, Radeon RX), mining, titan.
        source: keys of sources.toml.
        chip: the die, "navi21", "ga102"; empty where unknown.
        instinct: AMD Instinct.
        lanes: lanes wired on the card, or None.
        speed_gts: the card's highest rate, GT/s, or None.
        vram_gib: nominal memory of one function, GiB, or None. Boards show up to 8 % less.
        also_vram_gib: other sizes sold under the same name, GiB.
        memory_bandwidth_gbs: nominal memory bandwidth of one function, GB/s (10^9), or None.
        dma_bits: address bits of the GPU, or None.
        pcie_p2p: "kernel": AMD's and the kernel's conditions decide. "allowed": NVIDIA's driver is not known to refuse;
            the pair still needs equal chips. "refused": the stock driver refuses by policy. "unconfirmed": nobody
            could say. "none": a mining card.
        by_analogy: the refusal was reported for sister products only.
        nvlink: none, bridge (if one is fitted), sxm, or unknown.
        xgmi: has XGMI links; whether they are connected, KFD says.
        atomics_required: "always", "never", or "firmware": only below `atomics_min_firmware`. Empty for other vendors.
        atomics_min_firmware: version of the compute firmware (MEC), 0 where it does not matter.
        others: products that share the id and have no entry, as words.
        note: what else is worth knowing.
    """

    id: str
    name: str
    vendor_class: VendorClass
    source: tuple[str, ...]
    chip: str = ""
    instinct: bool = False
    lanes: int | None = None
    speed_gts: float | None = None
    vram_gib: int | None = None
    also_vram_gib: tuple[int, ...] = ()
    memory_bandwidth_gbs: float | None = None
    dma_bits: int | None = None
    pcie_p2p: PcieP2p = "unconfirmed"
    by_analogy: bool = False
    nvlink: NvLink = "unknown"
    xgmi: bool = False
    atomics_required: Atomics = ""
    atomics_min_firmware: int = 0
    others: str = ""
    note: str = ""


class AmdGeneration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What amdgpu does with one die.

    Attributes:
        chip: "navi21".
        gc: versions of the graphics core, "10.3.0"; "8" where there was no IP discovery yet.
        gmc: the memory-controller block that sets the mask.
        dma_bits: the mask it sets.
        atomics: whether KFD refuses the GPU without PCIe atomics; see `Gpu.atomics_required`.
        source: keys of sources.toml.
        atomics_min_firmware: MEC version from which atomics are not needed.
        note: exceptions.
    """

    chip: str
    gc: tuple[str, ...]
    gmc: str
    dma_bits: int
    atomics: Atomics
    source: tuple[str, ...]
    atomics_min_firmware: int = 0
    note: str = ""


class Ids(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """PCI ids under one name."""

    ids: tuple[str, ...]
    name: str
    source: tuple[str, ...]


class _Gpus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    gpu: tuple[Gpu, ...]


class _Generations(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    generation: tuple[AmdGeneration, ...]


class _Integrated(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    gpu: tuple[Ids, ...]
    bridge: tuple[Ids, ...]
    never: tuple[Ids, ...]
    intel_discrete: tuple[Ids, ...]


@cache
def load_gpus() -> Mapping[str, tuple[Gpu, ...]]:
    """All products, by PCI id."""
    by_id: dict[str, tuple[Gpu, ...]] = {}
    for gpu in read_table("gpus", _Gpus).gpu:
        by_id[gpu.id] = (*by_id.get(gpu.id, ()), gpu)
    return by_id


def gpus_by_id(id_: str) -> tuple[Gpu, ...]:
    """The products that share a PCI id; empty where none is known."""
    return load_gpus().get(id_, ())


# Words that tools put before or into a product's name and the tables leave out, and models that are named by one word.
_NOISE = frozenset(("nvidia", "amd", "ati", "corporation", "tesla"))
_WORD = re.compile(r"\d+ ?gb\b|[a-z0-9]+")
_MODEL = re.compile(r"(?:[abhlptv]\d{1,3}s?|mi\d{2,3}[a-z]?)\Z")


def _words(name: str) -> frozenset[str]:
    return frozenset(word.replace(" ", "") for word in _WORD.findall(name.lower())) - _NOISE


@lru_cache(maxsize=256)
def gpus_by_name(name: str) -> tuple[Gpu, ...]:
    """The products that a tool's name can mean: "NVIDIA A100-SXM4-80GB" is A100 SXM4 80 GB; empty where none is known.

    Where the whole name is not in the tables, all products of a data-centre model count (any "H100"): use only what they
    agree on. The name in brackets is the product's where there is one ("Vega 10 [Radeon Vega Frontier Edition]").
    """
    words = _words(name.partition("[")[2].partition("]")[0] or name)
    products = [gpu for gpus in load_gpus().values() for gpu in gpus]
    if same := [gpu for gpu in products if words and _words(gpu.name) == words]:
        return tuple(same)
    models = {word for word in words if _MODEL.match(word)}
    return tuple(gpu for gpu in products if models and models <= _words(gpu.name))


def _only(values: Iterable[T | None]) -> T | None:
    """The value all agree on; None where they differ, one is unknown, or there is none."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def lanes_of(id_: str) -> int | None:
    """Lanes wired on the card, where all known products of the id have the same."""
    return _only(gpu.lanes for gpu in gpus_by_id(id_))


def dma_bits_of(id_: str) -> int | None:
    """Address bits of the GPU. What sysfs says in dma_mask_bits goes before this."""
    return _only(gpu.dma_bits for gpu in gpus_by_id(id_))


def chip_of(id_: str) -> str | None:
    """The die, "ga102": NVIDIA's driver does PCIe P2P between equal dies only."""
    return _only(gpu.chip or None for gpu in gpus_by_id(id_))


def name_of(id_: str) -> str:
    """The product, or up to three that share the id ("Radeon RX 7900 XTX / Radeon RX 7900 XT"); empty where unknown."""
    names = list(dict.fromkeys(gpu.name for gpu in gpus_by_id(id_)))
    return " / ".join(names) if len(names) <= 3 else ""


def vram_range_bytes(id_: str) -> tuple[int, int] | None:
    """Smallest and largest nominal memory of one function, in bytes, among the known products of the id.

    Nominal: a real board shows up to 8 % less (24,467 MiB for 24 GiB; 30,704 MiB for 32 GiB where ECC takes its share),
    so compare with a margin. Products that share the id and have no entry (`Gpu.others`) may lie outside.
    """
    sizes = [size for gpu in gpus_by_id(id_) if gpu.vram_gib is not None for size in (gpu.vram_gib, *gpu.also_vram_gib)]
    return (min(sizes) * GIB, max(sizes) * GIB) if sizes else None


@cache
def load_amd_generations() -> Mapping[str, AmdGeneration]:
    """AMD's generations, by die."""
    return {generation.chip: generation for generation in read_table("amd_generations", _Generations).generation}


@cache
def _integrated() -> tuple[frozenset[str], frozenset[str], frozenset[str], frozenset[str]]:
    table = read_table("integrated", _Integrated)

    def ids(entries: tuple[Ids, ...]) -> frozenset[str]:
        return frozenset(id_ for entry in entries for id_ in entry.ids)

    return ids(table.gpu), ids(table.bridge), ids(table.never), ids(table.intel_discrete)


def is_integrated(gpu_id: str, parent_id: str | None = None) -> bool:
    """Whether a GPU is part of a processor or chipset: by its own id, or because it sits below an internal bridge.

    Intel's integrated GPUs are not told by this; see `is_intel_discrete`.

    Args:
        gpu_id: "1002:15bf".
        parent_id: id of the bridge directly above the GPU, None or empty on a root bus.
    """
    gpus, bridges, never, _ = _integrated()
    return gpu_id not in never and (gpu_id in gpus or (parent_id or "") in bridges)


def is_intel_discrete(gpu_id: str) -> bool:
    """Whether it is one of Intel's GPUs on cards (DG1, Arc, Flex, Max)."""
    return gpu_id in _integrated()[3]
