"""What the drivers of GPUs serve: their attributes and config space, and KFD's topology.

A sick GPU can block any of these reads for ever, so this reader runs in a guarded child (evidence.guarded).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from hostdoctor.evidence import Directory, Evidence, Unreadable
from hostdoctor.facts.driver import ErrorCounters, NetworkDevice
from hostdoctor.facts.host import Kfd, KfdLink, KfdNode
from hostdoctor.facts.pci import NVIDIA, Function, GpuFacts
from hostdoctor.facts.unknown import ASLEEP, NOT_CAPTURED, Unknown
from hostdoctor.parsers.kfd import kfd_link, kfd_node
from hostdoctor.parsers.sizes import parse_resize_bitmap
from hostdoctor.readers.errors import counters_of
from hostdoctor.readers.pci import config_of, link_of_attributes, link_of_config
from hostdoctor.readers.text import attribute, integer, unknown_from

if TYPE_CHECKING:
    from hostdoctor.readers.nvidia import NvidiaDriver

KFD = "sys/class/kfd/kfd/topology/nodes"

_SLEEPING = GpuFacts(ASLEEP, ASLEEP, ASLEEP, ASLEEP)
_NUMBER_LIMIT = 256  # nodes, and links of one node: more than any host has


class DriverFacts(msgspec.Struct, frozen=True):
    """The GPU functions with all that was to be learnt of them, and what drivers tell of themselves and of the network."""

    functions: Mapping[str, Function]
    gpu_facts: Mapping[str, GpuFacts]
    kfd: Kfd | Unknown | None
    error_counters: Mapping[str, ErrorCounters] = {}
    nvidia: NvidiaDriver | None = None
    network: tuple[NetworkDevice, ...] | Unknown = NOT_CAPTURED


def read_driver_facts(evidence: Evidence, gpus: Iterable[Function], with_kfd: bool) -> DriverFacts:
    """Read every GPU function given, and KFD where an AMD GPU makes it worth while."""
    functions: dict[str, Function] = {}
    facts: dict[str, GpuFacts] = {}
    counters: dict[str, ErrorCounters] = {}
    for gpu in gpus:
        functions[gpu.address], facts[gpu.address] = _read_gpu(evidence, gpu, counters)
    kfd = _read_kfd(evidence) if with_kfd else None
    of_nvidia = [function for function in functions.values() if function.vendor == NVIDIA and function.driver == "nvidia"]
    nvidia = None
    if of_nvidia:
        from hostdoctor.readers.nvidia import read_nvidia  # noqa: PLC0415  other hosts need not load it

        nvidia = read_nvidia(evidence, of_nvidia)
        for address, bits in nvidia.dma_bits.items():
            functions[address] = msgspec.structs.replace(functions[address], dma_mask_bits=bits)
    return DriverFacts(functions, facts, kfd, counters, nvidia)


def _read_gpu(evidence: Evidence, gpu: Function, counters: dict[str, ErrorCounters]) -> tuple[Function, GpuFacts]:
    if gpu.asleep:
        return msgspec.structs.replace(gpu, config=ASLEEP, link=ASLEEP, dma_mask_bits=ASLEEP), _SLEEPING
    try:
        folder = evidence.directory(gpu.origin.lstrip("/"))
    except Unreadable as error:
        why = unknown_from(error)
        return msgspec.structs.replace(gpu, config=why, link=why, dma_mask_bits=why), GpuFacts(why, why, why, why)
    try:
        config = config_of(folder, gpu.power)
        link = link_of_attributes(folder)
        function = msgspec.structs.replace(
            gpu,
            config=config,
            link=link_of_config(config) if isinstance(link, Unknown) and link is not ASLEEP else link,
            dma_mask_bits=integer(attribute(folder, "dma_mask_bits")),
        )
        facts = _attributes(folder, gpu.driver)
        found = counters_of(folder, gpu.address, gpu.driver)
        if found is not None:
            counters[gpu.address] = found
        return function, facts
    finally:
        folder.close()


def _attributes(folder: Directory, driver: str | Unknown | None) -> GpuFacts:
    sizes = {index: found for index in (0, 1, 2) if (found := _resize_bitmap(folder, index))}
    if driver != "amdgpu":
        return GpuFacts(bar_sizes_bytes=sizes)
    return GpuFacts(
        vram_bytes=integer(attribute(folder, "mem_info_vram_total")),
        visible_vram_bytes=integer(attribute(folder, "mem_info_vis_vram_total")),
        busy_percent=integer(attribute(folder, "gpu_busy_percent")),
        link_levels=attribute(folder, "pp_dpm_pcie"),
        bar_sizes_bytes=sizes,
    )


def _resize_bitmap(folder: Directory, index: int) -> tuple[int, ...]:
    text = attribute(folder, f"resource{index}_resize")
    return () if isinstance(text, Unknown) else parse_resize_bitmap(text)


def _read_kfd(evidence: Evidence) -> Kfd | Unknown | None:
    """KFD's nodes and the links between them (drivers/gpu/drm/amd/amdkfd/kfd_topology.c)."""
    try:
        names = [name for name in evidence.names(KFD) if name.isdecimal()][:_NUMBER_LIMIT]
    except Unreadable as error:
        return NOT_CAPTURED if error.problem == "missing" else unknown_from(error)
    nodes: list[KfdNode] = []
    links: list[KfdLink] = []
    for name in sorted(names, key=int):
        try:
            text = evidence.read(f"{KFD}/{name}/properties").decode("ascii", "replace")
            nodes.append(kfd_node(int(name), text))
            links += _links(evidence, f"{KFD}/{name}/io_links", peer=False)
            links += _links(evidence, f"{KFD}/{name}/p2p_links", peer=True)
        except Unreadable as error:
            # One node that hides (a device cgroup, A4.1) makes the matrix incomplete: then it proves nothing.
            return unknown_from(error)
    return Kfd(tuple(nodes), tuple(links))


def _links(evidence: Evidence, path: str, peer: bool) -> list[KfdLink]:
    try:
        names = evidence.names(path)[:_NUMBER_LIMIT]
    except Unreadable as error:
        if error.problem == "missing":
            return []
        raise
    found = []
    for name in names:
        source = f"{path}/{name}/properties"
        link = kfd_link(evidence.read(source).decode("ascii", "replace"), peer, evidence.shown(source))
        if link is not None:
            found.append(link)
    return found
