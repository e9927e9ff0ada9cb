"""The facts of a host from what people attach: parts of pastes and files, whose texts say where they stand.

Each module here has one function `apply`, from a host and all parts to the host with what its formats tell. They run in
the order of authority: what an earlier one learnt stands, and a later one that says otherwise is named a contradiction.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from hostdoctor.parsers.paste import Part

if TYPE_CHECKING:
    from hostdoctor.facts.host import Host

# The module and the kinds of parts that it reads; one whose parts are not at hand is not imported.
APPLIERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("lspci", ("lspci", "lspci-fields", "lspci-tree", "lspci-machine", "lspci-records", "sysfs-listing")),
    ("topology_xml", ("topology-xml", "hwloc-xml")),
    ("nvidia", ("nvidia-smi", "nvidia-smi-q", "nvidia-smi-xml", "nvidia-topo", "nvidia-query")),
    ("amd", ("rocminfo", "rocm-smi", "amd-smi", "device-files", "user-ids", "user-groups", "json")),
    ("kernel_log", ("kernel-log",)),
    ("nccl", ("nccl-log",)),
    ("bandwidth", ("rocm-bandwidth-test", "transferbench", "p2p-bandwidth-latency-test", "simple-p2p", "nvbandwidth", "json")),
)


def apply_parts(host: Host, parts: Sequence[Part]) -> Host:
    """The host with everything that the parts tell of it."""
    kinds = {part.kind for part in parts}
    for module, wanted in APPLIERS:
        if kinds.intersection(wanted):
            chosen = [part for part in parts if part.kind in wanted]
            host = import_module(f"{__name__}.{module}").apply(host, chosen)
    return host
