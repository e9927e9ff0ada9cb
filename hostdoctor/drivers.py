"""What the vendors' libraries tell beside sysfs, in the terms of checks: whether a GPU is at work, its link, its memory, P2P.

Sources: nvml.h nvmlPstates_t, nvmlGpuP2PStatus_t and nvmlGpuP2PCapsIndex_t; NVIDIA open-gpu-kernel-modules
src/nvidia/src/kernel/platform/p2p/p2p_caps.c for what an override among the registry keys skips.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from hostdoctor import knowledge
from hostdoctor.facts.driver import AmdSmi, AmdSmiGpu, Nvml, NvmlGpu, NvmlPair
from hostdoctor.facts.host import Host
from hostdoctor.facts.pci import Function, GpuFacts
from hostdoctor.facts.unknown import Unknown, known
from hostdoctor.findings import Evidence
from hostdoctor.topology import Card, link_of

# By the share of time a GPU's pipes work: from here on its clocks and its link are up.
BUSY_PERCENT = 50
# NVIDIA's performance states: 0 is the fastest; compute runs in 0 to 2, rest begins at 8.
_STATE_AT_WORK, _STATE_AT_REST = 2, 8

_P2P_OK, _P2P_BY_KEY, _P2P_UNKNOWN = 0, 4, 6
# As nvidia-smi topo -p2p writes them.
_P2P_WORDS = {0: "OK", 1: "CNS", 2: "GNS", 3: "TNS", 4: "DR", 5: "NS", 6: "U"}
_P2P_STATUS = {
    0: "allowed",
    1: "not supported by the chipset (CNS)",
    2: "not supported by the GPU (GNS)",
    3: "not supported by the topology (TNS: different I/O hubs)",
    4: "disabled by a registry key of the driver (DR)",
    5: "not supported (NS)",
    6: "not known to the driver",
}


# nvml.h nvmlClocksThrottleReason*: the reasons that are trouble rather than a limit somebody chose, or rest.
_HELD_DOWN = {0x08: "hardware slowdown", 0x20: "heat", 0x40: "heat, by the hardware", 0x80: "the power supply's brake signal"}


class Activity(msgspec.Struct, frozen=True):
    """Whether a GPU is at work.

    Attributes:
        state: at work, at rest, or unknown.
        text: what says so, as a clause: "the GPU is 97 % busy".
        evidence: where it was seen.
    """

    state: Literal["at-work", "at-rest", "unknown"]
    text: str = ""
    evidence: tuple[Evidence, ...] = ()

    @property
    def sentence(self) -> str:
        """The text as a sentence that another one follows; empty without it."""
        return f"{self.text[0].upper()}{self.text[1:]}. " if self.text else ""

    @property
    def how(self) -> str:
        """At work, in the words of a sentence about the link."""
        return "under load" if self.text.endswith(" busy") else "with the GPU at work"


class DriverLink(msgspec.Struct, frozen=True):
    """The link of a card without a switch of its own, as its driver sees it."""

    source: str
    speed_gts: float | Unknown
    width: int | Unknown
    of_this_moment: bool = True  # asked together with everything else, rather than printed at some time

    @property
    def speed_evidence(self) -> Evidence:
        """The speed, where it is known."""
        return Evidence(f"{self.source}, link speed", f"{known(self.speed_gts, 0.0):g} GT/s")

    @property
    def width_evidence(self) -> Evidence:
        """The width, where it is known."""
        return Evidence(f"{self.source}, link width", f"x{known(self.width, 0)}")


class P2pVerdict(msgspec.Struct, frozen=True):
    """What NVML says of an ordered pair.

    Attributes:
        allowed: whether reads and writes are; None where NVML itself does not know.
        text: the same as a clause.
        evidence: both codes.
        over_nvlink: whether NVLink joins the two.
        by_key: whether a registry key forbids it, which can be taken away.
        granted: whether reads or writes are known to be allowed, and neither is known to be refused.
    """

    allowed: bool | None
    text: str
    evidence: tuple[Evidence, ...]
    over_nvlink: bool = False
    by_key: bool = False
    granted: bool = False


def nvml_gpu(host: Host, gpu: Function) -> NvmlGpu | None:
    """What NVML tells of a GPU, if it tells anything."""
    found = host.nvml.gpus if isinstance(host.nvml, Nvml) else ()
    return next((each for each in found if each.address == gpu.address), None)


def amd_smi_gpu(host: Host, gpu: Function) -> AmdSmiGpu | None:
    """What AMD SMI tells of a GPU, if it tells anything."""
    found = host.amd_smi.gpus if isinstance(host.amd_smi, AmdSmi) else ()
    return next((each for each in found if each.address == gpu.address), None)


def activity(host: Host, gpu: Function) -> Activity:
    """Whether a GPU is at work, by its driver's file in sysfs, else by its vendor's library."""
    busy = host.gpu_facts.get(gpu.address, GpuFacts()).busy_percent
    source = gpu.source("gpu_busy_percent")
    if isinstance(busy, Unknown) and (amd := amd_smi_gpu(host, gpu)):
        busy, source = amd.busy_percent, "AMD SMI amdsmi_get_gpu_activity"
    if not isinstance(busy, Unknown):
        state: Literal["at-work", "at-rest"] = "at-work" if busy >= BUSY_PERCENT else "at-rest"
        return Activity(state, f"the GPU is {busy} % busy", (Evidence(source, str(busy)),))
    nvidia = nvml_gpu(host, gpu)
    found = _nvidia_activity(nvidia) if nvidia else Activity("unknown")
    # What was printed at another moment proves no load at the moment of the link's reading.
    return Activity("unknown") if nvidia and nvidia.origin and found.state == "at-work" else found


def _nvidia_activity(gpu: NvmlGpu) -> Activity:
    state, busy = gpu.performance_state, gpu.busy_percent
    evidence: tuple[Evidence, ...] = ()
    if not isinstance(state, Unknown):
        evidence += (_evidence(gpu, "nvmlDeviceGetPerformanceState", f"P{state}"),)
    if not isinstance(busy, Unknown):
        evidence += (_evidence(gpu, "nvmlDeviceGetUtilizationRates", f"{busy} %"),)
    if not isinstance(busy, Unknown) and (busy >= BUSY_PERCENT or isinstance(state, Unknown)):
        return Activity("at-work" if busy >= BUSY_PERCENT else "at-rest", f"the GPU is {busy} % busy", evidence)
    if isinstance(state, Unknown):
        return Activity("unknown")
    text = f"the GPU is in performance state P{state}"
    if state <= _STATE_AT_WORK:
        return Activity("at-work", text, evidence)
    return Activity("at-rest" if state >= _STATE_AT_REST or not isinstance(busy, Unknown) else "unknown", text, evidence)


def _evidence(gpu: NvmlGpu, function: str, value: str) -> Evidence:
    """Something that NVML tells by a function of its, or nvidia-smi in its place."""
    return Evidence(gpu.origin or f"NVML {function}", value)


def held_down(host: Host, gpu: Function) -> Evidence | None:
    """Why NVIDIA's driver slows a GPU down, where heat or power makes it; None where nothing does, or it is not known."""
    nvidia = nvml_gpu(host, gpu)
    bits = known(nvidia.throttle_reasons, 0) if nvidia else 0
    reasons = [text for bit, text in _HELD_DOWN.items() if bits & bit]
    if nvidia is None or not reasons:
        return None
    return _evidence(nvidia, "nvmlDeviceGetCurrentClocksThrottleReasons", f"{bits:#x}: {', '.join(reasons)}")


def driver_link(host: Host, card: Card) -> DriverLink | None:
    """A card's link as its driver sees it.

    None where no library tells anything of the GPU, and of a card with its own switch: which of its links is meant is not
    documented.
    """
    if card.has_own_switch:
        return None
    if nvidia := nvml_gpu(host, card.gpu):
        return DriverLink(nvidia.origin or "NVML", speed_of(nvidia.link_generation), nvidia.link_width, not nvidia.origin)
    amd = amd_smi_gpu(host, card.gpu)
    return DriverLink("AMD SMI", amd.link_speed_gts, amd.link_width) if amd else None


def speed_of(generation: int | Unknown) -> float | Unknown:
    """The rate of a PCIe generation, GT/s."""
    if isinstance(generation, Unknown):
        return generation
    speeds = (rate.speed_gts for rate in knowledge.load_link_rates().values() if rate.generation == generation)
    return next(speeds, Unknown(f"there is no PCIe generation {generation}"))


def _link_at_this_moment(host: Host, card: Card) -> DriverLink | None:
    """The link by the driver, where it can be compared with PCI's: asked with it, and the GPU not at rest."""
    link = driver_link(host, card)
    return link if link and link.of_this_moment and activity(host, card.gpu).state != "at-rest" else None


def other_speed(host: Host, card: Card) -> tuple[Evidence, ...]:
    """The speed of a card's link by its driver, where that is another than PCI's and the GPU is not at rest."""
    link = _link_at_this_moment(host, card)
    if link is None or isinstance(link.speed_gts, Unknown):
        return ()
    return () if link.speed_gts == link_of(card.top).current_speed_gts else (link.speed_evidence,)


def other_width(host: Host, card: Card) -> tuple[Evidence, ...]:
    """The same of the width."""
    link = _link_at_this_moment(host, card)
    if link is None or isinstance(link.width, Unknown):
        return ()
    return () if link.width == link_of(card.top).current_width else (link.width_evidence,)


def memory_bytes(host: Host, gpu: Function) -> tuple[int | Unknown, str]:
    """How much memory a GPU has by its driver, and where that stands."""
    facts = host.gpu_facts.get(gpu.address, GpuFacts())
    found = facts.vram_bytes
    if not isinstance(found, Unknown):
        return found, facts.memory_source or gpu.source("mem_info_vram_total")
    if nvidia := nvml_gpu(host, gpu):
        return nvidia.memory_bytes, nvidia.origin or "NVML nvmlDeviceGetMemoryInfo"
    if amd := amd_smi_gpu(host, gpu):
        return amd.memory_bytes, "AMD SMI amdsmi_get_gpu_vram_info"
    return found, gpu.source("mem_info_vram_total")


def with_memory(host: Host, gpu: Function) -> GpuFacts:
    """What is known of a GPU, its memory also from its vendor's library where sysfs does not tell it."""
    facts = host.gpu_facts.get(gpu.address, GpuFacts())
    return msgspec.structs.replace(facts, vram_bytes=memory_bytes(host, gpu)[0])


def nvml_p2p(pair: NvmlPair | None) -> P2pVerdict | None:
    """NVML's verdict on an ordered pair; None where it gives none."""
    if pair is None:
        return None
    codes = {"reads": pair.read, "writes": pair.write}
    told = {what: code for what, code in codes.items() if not isinstance(code, Unknown)}
    refused = {what: code for what, code in told.items() if code not in (_P2P_OK, _P2P_UNKNOWN)}
    nvlink = pair.nvlink == _P2P_OK
    evidence = _p2p_evidence(pair, told)
    if refused:
        by_meaning: dict[str, list[str]] = {}
        for what, code in refused.items():
            by_meaning.setdefault(_P2P_STATUS.get(code, f"refused with the code {code}"), []).append(what)
        text = "; ".join(f"{' and '.join(what)} {meaning}" for meaning, what in by_meaning.items())
        by_key = all(code == _P2P_BY_KEY for code in refused.values())
        return P2pVerdict(False, f"by NVIDIA's driver P2P {text}", evidence, nvlink, by_key)
    if _P2P_UNKNOWN in told.values():
        return P2pVerdict(None, "NVIDIA's driver itself does not know whether it allows P2P for the pair", evidence, nvlink)
    if len(told) == len(codes):
        return P2pVerdict(True, "NVIDIA's driver allows P2P reads and writes", evidence, nvlink, granted=True)
    if not told:
        return P2pVerdict(None, "what NVIDIA's driver allows is not told", evidence, nvlink) if nvlink else None
    allowed, other = (next(iter(each)) for each in (told, codes.keys() - told))
    text = f"NVIDIA's driver allows P2P {allowed}; whether {other} too is not told"
    return P2pVerdict(None, text, evidence, nvlink, granted=True)


def _p2p_evidence(pair: NvmlPair, told: Mapping[str, int]) -> tuple[Evidence, ...]:
    shown = told if isinstance(pair.nvlink, Unknown) else {**told, "NVLink": pair.nvlink}
    source, words = pair.origin or "NVML nvmlDeviceGetP2PStatus", _P2P_WORDS if pair.origin else {}
    return (Evidence(source, ", ".join(f"{what} {words.get(code, code)}" for what, code in shown.items())),)


def nvidia_parameter(host: Host, name: str) -> str | None:
    """The value that NVIDIA's driver says is in force, by the name in /proc/driver/nvidia/params; None where it is not told."""
    module = None if isinstance(host.modules, Unknown) else host.modules.get("nvidia")
    return module.parameters.get(name) if module else None
