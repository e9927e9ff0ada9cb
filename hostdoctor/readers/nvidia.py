"""What NVIDIA's driver tells of itself below /proc/driver/nvidia. It serves these files, so they are read in a guarded child.

`information` also holds the GPU's UUID, which is never kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from hostdoctor.evidence import Evidence
from hostdoctor.facts.host import Module
from hostdoctor.facts.pci import Function
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.parsers.nvidia import dma_bits, driver_parameters, driver_version
from hostdoctor.readers.text import text_of

FOLDER = "proc/driver/nvidia"


class NvidiaDriver(msgspec.Struct, frozen=True):
    """The loaded driver: its version, the parameters in force (RegistryDwords ...), address bits by GPU."""

    version: str | Unknown = NOT_CAPTURED
    parameters: Mapping[str, str] = {}
    dma_bits: Mapping[str, int] = {}

    def add_to(self, modules: Mapping[str, Module] | Unknown) -> Mapping[str, Module] | Unknown:
        """The modules with what the driver tells of itself; sysfs shows its parameters empty."""
        if isinstance(modules, Unknown) or (isinstance(self.version, Unknown) and not self.parameters):
            return modules
        module = modules.get("nvidia", Module("nvidia", {}))
        version = module.version or (None if isinstance(self.version, Unknown) else self.version)
        return {**modules, "nvidia": Module("nvidia", {**module.parameters, **self.parameters}, version)}


def read_nvidia(evidence: Evidence, gpus: Iterable[Function]) -> NvidiaDriver:
    """Read what the driver tells of itself and of those of the GPUs that are awake and whose mask is not known."""
    version, parameters = text_of(evidence, f"{FOLDER}/version"), text_of(evidence, f"{FOLDER}/params")
    bits = {}
    for gpu in gpus:
        if gpu.asleep or not isinstance(gpu.dma_mask_bits, Unknown):
            continue
        text = text_of(evidence, f"{FOLDER}/gpus/{gpu.address}/information")
        number = None if isinstance(text, Unknown) else dma_bits(text)
        if number is not None:
            bits[gpu.address] = number
    return NvidiaDriver(
        version if isinstance(version, Unknown) else driver_version(version) or NOT_CAPTURED,
        {} if isinstance(parameters, Unknown) else driver_parameters(parameters),
        bits,
    )
