"""What a check sees: the host's facts and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from hostdoctor import p2p
from hostdoctor.facts.bandwidth import is_host
from hostdoctor.facts.driver import Nvml, NvmlPair, PairWord
from hostdoctor.facts.host import Host
from hostdoctor.facts.pci import ATI, NVIDIA, Function
from hostdoctor.facts.unknown import Unknown
from hostdoctor.measured import Measured
from hostdoctor.names import device_name
from hostdoctor.topology import Card, Topology

# As many GPUs as one host can use: MAX_GPU_INSTANCE of Linux drivers/gpu/drm/amd/amdgpu/amdgpu.h. NVIDIA's driver has
# room for 32 (NV_MAX_DEVICES of its nvlimits.h). Pairs grow with the square of the number.
MOST_GPUS = 64


class View:
    """The facts of one host, its topology and its P2P predictions, each worked out once."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.topology = Topology({} if isinstance(host.functions, Unknown) else host.functions)

    @property
    def gpus(self) -> tuple[Function, ...]:
        """The discrete GPUs."""
        return self.topology.gpus

    @property
    def crowd(self) -> Unknown | None:
        """Why no pairs of GPUs are judged, where there are more than one host has."""
        if len(self.gpus) <= MOST_GPUS:
            return None
        why = f"{len(self.gpus):,} GPUs are more than one host has"
        return Unknown(why, "give the outputs of one host at a time")

    @property
    def cards(self) -> tuple[Card, ...]:
        """The discrete GPUs with their slots."""
        return self.topology.cards

    def gpus_of(self, vendor: int) -> list[Function]:
        """The discrete GPUs of one vendor that belong to this host, not to a guest."""
        return [gpu for gpu in self.gpus if gpu.vendor == vendor and gpu.driver != "vfio-pci"]

    @property
    def amd_gpus(self) -> list[Function]:
        """AMD's discrete GPUs."""
        return self.gpus_of(ATI)

    @property
    def nvidia_gpus(self) -> list[Function]:
        """NVIDIA's discrete GPUs."""
        return self.gpus_of(NVIDIA)

    @cached_property
    def adapters(self) -> tuple[Function, ...]:
        """Network cards and NVMe drives, without virtual functions."""
        functions = self.topology.functions.values()
        return tuple(each for each in functions if (each.is_network_card or each.is_nvme) and not each.is_virtual_function)

    @cached_property
    def uses_vfio(self) -> bool:
        """Whether some function is handed to guests, so that isolation between functions matters."""
        return any(function.driver == "vfio-pci" for function in self.topology.functions.values())

    @cached_property
    def pairs(self) -> tuple[p2p.Prediction, ...]:
        """A prediction for each ordered pair of discrete GPUs."""
        return p2p.predict(self)

    @cached_property
    def pair_of(self) -> Mapping[tuple[str, str], p2p.Prediction]:
        """The prediction for each (accessor, owner)."""
        return {(pair.accessor.address, pair.owner.address): pair for pair in self.pairs}

    @cached_property
    def _words(self) -> Mapping[tuple[str, str], list[PairWord]]:
        found: dict[tuple[str, str], list[PairWord]] = {}
        for word in self.host.pair_words:
            found.setdefault((word.accessor, word.owner), []).append(word)
        return found

    def words_on(self, accessor: str, owner: str) -> list[PairWord]:
        """What pasted tools say of an ordered pair."""
        return self._words.get((accessor, owner), [])

    @cached_property
    def processor_words(self) -> Mapping[str, list[PairWord]]:
        """What pasted tools say of the processors' access to each GPU's memory."""
        found: dict[str, list[PairWord]] = {}
        for word in self.host.pair_words:
            if is_host(word.accessor):
                found.setdefault(word.owner, []).append(word)
        return found

    @cached_property
    def some_access_granted(self) -> bool:
        """Whether a pasted tool was granted access between any two GPUs."""
        return any(word.allowed for word in self.host.pair_words if not is_host(word.accessor))

    @cached_property
    def measured(self) -> Measured:
        """What recorded runs tell."""
        return Measured(self)

    @cached_property
    def nvml_pairs(self) -> Mapping[tuple[str, str], NvmlPair]:
        """What NVML says of each (accessor, owner)."""
        pairs = self.host.nvml.pairs if isinstance(self.host.nvml, Nvml) else ()
        return {(pair.accessor, pair.owner): pair for pair in pairs}

    @cached_property
    def amd_reaches(self) -> Mapping[tuple[str, str], p2p.Condition]:
        """For each (accessor, owner) of AMD GPUs that PCIe joins: whether the owner's BAR is within reach."""
        amd = p2p.candidates(self, ATI) if self.crowd is None else []
        kfd = self.host.kfd
        return {
            (a.address, b.address): p2p.reach(self, a, b)
            for a in amd
            for b in amd
            if a is not b and not p2p.same_hive(kfd, a, b)
        }

    @property
    def rests_on_translation(self) -> bool:
        """Whether some pair of AMD GPUs does P2P only because the IOMMU translates, so that iommu=pt would end it."""
        return any(each.state == "holds" and "beyond" in each.text for each in self.amd_reaches.values())

    def name(self, function: Function) -> str:
        """What a GPU is called, or its ids where nothing knows it."""
        return device_name(function) or (f"[{function.id}]" if function.device else "unknown model")
