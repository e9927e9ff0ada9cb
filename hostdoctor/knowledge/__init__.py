"""Known-good rules: data with a source for each entry, read from compiled tables when first asked for.

The *.toml files are the source; `python -m hostdoctor.knowledge.compile` turns each into the *.json beside it, which is
what is read at run time. Every loader keeps its result.

Units: speeds in GT/s, bandwidths in GB/s (10^9) in one direction, memory in GiB where a name says `_gib` and in bytes
where it says `_bytes`. PCI ids are "vendor:device" in lower-case hexadecimal. A kernel is its major and minor, (6, 12).
"""

from hostdoctor.knowledge.buses import (
    HostBridge,
    IdRange,
    LinkRate,
    OnBoard,
    OnBoardRole,
    chipset_name,
    cpu_port_name,
    external_switch_name,
    host_bridge_allowed,
    is_chipset,
    lane_gbs,
    link_gbs,
    load_link_rates,
    nvidia_old_root_port,
    on_board_role,
)
from hostdoctor.knowledge.gpus import (
    AmdGeneration,
    Atomics,
    Gpu,
    NvLink,
    PcieP2p,
    VendorClass,
    chip_of,
    dma_bits_of,
    gpus_by_id,
    is_integrated,
    is_intel_discrete,
    lanes_of,
    load_amd_generations,
    load_gpus,
    name_of,
    vram_range_bytes,
)
from hostdoctor.knowledge.kernel import (
    KernelParameters,
    Kind,
    KnownNames,
    LastWins,
    Parameter,
    ParameterValue,
    Rule,
    load_kernel_parameters,
)
from hostdoctor.knowledge.read import KernelPair, presence
from hostdoctor.knowledge.remedies import Remedy, Source, load_remedies, load_sources

__all__ = [
    "AmdGeneration",
    "Atomics",
    "Gpu",
    "HostBridge",
    "IdRange",
    "KernelPair",
    "KernelParameters",
    "Kind",
    "KnownNames",
    "LastWins",
    "LinkRate",
    "NvLink",
    "OnBoard",
    "OnBoardRole",
    "Parameter",
    "ParameterValue",
    "PcieP2p",
    "Remedy",
    "Rule",
    "Source",
    "VendorClass",
    "chip_of",
    "chipset_name",
    "cpu_port_name",
    "dma_bits_of",
    "external_switch_name",
    "gpus_by_id",
    "host_bridge_allowed",
    "is_chipset",
    "is_integrated",
    "is_intel_discrete",
    "lane_gbs",
    "lanes_of",
    "link_gbs",
    "load_amd_generations",
    "load_gpus",
    "load_kernel_parameters",
    "load_link_rates",
    "load_remedies",
    "load_sources",
    "name_of",
    "nvidia_old_root_port",
    "on_board_role",
    "presence",
    "vram_range_bytes",
]
