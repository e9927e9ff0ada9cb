"""The libraries of the GPUs' vendors, asked in children of their own.

A library can hang, crash, print, or wake every GPU of its vendor. So each is asked by one forked child, and only where every
GPU that its driver serves is awake; a host without such a GPU pays nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hostdoctor.facts.driver import AmdSmi, Nvml
from hostdoctor.facts.pci import ATI, NVIDIA, Function
from hostdoctor.facts.unknown import Unknown
from hostdoctor.vendor.child import Question, Settled

ASLEEP = Unknown("a GPU is asleep, and asking the library would wake it", "use the GPUs, then scan again")


class Vendors(msgspec.Struct, frozen=True):
    """Which libraries may be asked; by default those of this machine.

    Attributes:
        nvml: whether NVIDIA's may be.
        amd_smi: folders in which AMD's Python binding is looked for, in this order; None stands for the usual ones.
    """

    nvml: bool = True
    amd_smi: tuple[str, ...] | None = None

    def ask(self, gpus: Sequence[Function], deadline_s: float) -> Asked:
        """Put the questions about these GPUs; each library has that long from now on."""
        return Asked(self._ask_nvml(gpus, deadline_s), self._ask_amd_smi(gpus, deadline_s))

    def _ask_nvml(self, gpus: Sequence[Function], deadline_s: float) -> Question[Nvml]:
        addresses = _bound(gpus, NVIDIA, "nvidia") if self.nvml else ()
        if isinstance(addresses, Unknown):
            return Settled(addresses)
        if not addresses:
            return Settled(None)
        from hostdoctor.vendor import nvml  # noqa: PLC0415  most hosts have no use for it

        return nvml.ask(addresses, deadline_s)

    def _ask_amd_smi(self, gpus: Sequence[Function], deadline_s: float) -> Question[AmdSmi]:
        addresses = _bound(gpus, ATI, "amdgpu") if self.amd_smi != () else ()
        if isinstance(addresses, Unknown):
            return Settled(addresses)
        if not addresses:
            return Settled(None)
        from hostdoctor.vendor import amdsmi  # noqa: PLC0415  most hosts have no use for it

        return amdsmi.ask(amdsmi.usual_folders() if self.amd_smi is None else self.amd_smi, addresses, deadline_s)


class Asked:
    """The questions that were put."""

    def __init__(self, nvml: Question[Nvml], amd_smi: Question[AmdSmi]) -> None:
        self._nvml = nvml
        self._amd_smi = amd_smi

    def answers(self) -> tuple[Nvml | Unknown | None, AmdSmi | Unknown | None]:
        """Wait for the answers, at most until the deadline; None of a library that was not asked."""
        return self._nvml.answer(), self._amd_smi.answer()

    def abandon(self) -> None:
        """Give up what has not been answered."""
        self._nvml.abandon()
        self._amd_smi.abandon()


def _bound(gpus: Sequence[Function], vendor: int, driver: str) -> tuple[str, ...] | Unknown:
    """The addresses of a vendor's GPUs that its driver serves; Unknown where one of them sleeps."""
    bound = [gpu for gpu in gpus if gpu.vendor == vendor and gpu.driver == driver]
    return ASLEEP if any(gpu.asleep for gpu in bound) else tuple(gpu.address for gpu in bound)
