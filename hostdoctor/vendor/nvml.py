"""NVIDIA's management library, through NVIDIA's own binding pynvml (the package nvidia-ml-py).

Source: nvml.h, as NVIDIA publishes it with the CUDA toolkit. Identifiers and serial numbers are never asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TypeVar

import msgspec

from hostdoctor.facts.driver import Nvml, NvmlGpu, NvmlPair
from hostdoctor.facts.unknown import Unknown
from hostdoctor.vendor import child

T = TypeVar("T")

NAME = "NVML"

_LOST = Unknown("the GPU is lost: it fell off the bus or does not answer (NVML 15)")

# By nvmlReturn_t.
_REASONS = {
    4: Unknown("NVML has no permission to ask the driver (4)", "run with sudo"),
    9: Unknown("NVML finds no NVIDIA driver loaded (9)"),
    12: Unknown("the driver's library libnvidia-ml.so.1 is not installed here"),
    15: _LOST,
    18: Unknown(
        "the loaded NVIDIA driver and its libraries are of different versions (NVML 18)",
        "reboot, or unload and load the driver's modules, so that the installed version runs",
    ),
}

# nvmlGpuP2PCapsIndex_t. pynvml 13.615 has a tuple where its constant for reading should be a number.
_P2P_READ, _P2P_WRITE, _P2P_NVLINK = 0, 1, 2
_STATE_UNKNOWN = 32  # NVML_PSTATE_UNKNOWN
_UNCORRECTED, _SINCE_LOAD = 1, 0  # nvmlMemoryErrorType_t, nvmlEccCounterType_t
_MOST_NVLINKS = 36  # NVML_NVLINK_MAX_LINKS


def ask(addresses: Sequence[str], deadline_s: float) -> child.Question[Nvml]:
    """Ask about the GPUs at these addresses, all of which must be awake: NVML touches every GPU it is asked about."""
    return child.ask(NAME, lambda: probe(addresses), Nvml, deadline_s)


def probe(addresses: Sequence[str]) -> Nvml | Unknown:
    """Load the library and ask it; to be run in a child."""
    try:
        library = importlib.import_module("pynvml")
    except ImportError:
        return Unknown("the Python package nvidia-ml-py is not installed")
    if not hasattr(library, "nvmlLib"):
        return Unknown(
            "the installed pynvml is not NVIDIA's: another package has put its own in its place",
            "install nvidia-ml-py into an environment without that package (hip-python-interop does this)",
        )
    try:
        # Without flags: it attaches no GPU by itself, the handle of a GPU does (nvml.h, nvmlInit_v2).
        library.nvmlInit()
    except library.NVMLError as error:
        return _reason(error.value, str(error))
    gpus = [_Gpu(library, address) for address in addresses]
    facts = tuple(gpu.facts() for gpu in gpus)
    reachable = [gpu for gpu in gpus if gpu.reachable]
    return Nvml(
        driver_version=_answer(library, "nvmlSystemGetDriverVersion", of=str),
        library_version=_answer(library, "nvmlSystemGetNVMLVersion", of=str),
        cuda_version=_answer(library, "nvmlSystemGetCudaDriverVersion_v2", of=int),
        gpus=facts,
        pairs=tuple(_pair(library, accessor, owner) for accessor in reachable for owner in reachable if accessor is not owner),
    )


def _answer(library: ModuleType, name: str, *arguments: object, of: Callable[..., T | Unknown]) -> T | Unknown:
    """What a function gives, as a value of the type wanted, or why it gives nothing."""
    function = getattr(library, name, None)
    if function is None:
        return Unknown(f"the installed nvidia-ml-py has no {name}")
    try:
        return of(function(*arguments))
    except library.NVMLError as error:
        return _reason(error.value, str(error))
    except ValueError as error:  # a text that is none
        return Unknown(f"the answer of {name} cannot be understood: {error}")


def _reason(code: int, text: str) -> Unknown:
    return _REASONS.get(code) or Unknown(f"NVML answers: {text.rstrip('.')} ({code})")


class _Gpu:
    """One GPU that is asked; once NVML says that it is lost, it is left alone."""

    def __init__(self, library: ModuleType, address: str) -> None:
        self.address = address
        self._library = library
        self._why_not: Unknown | None = None
        handle = _answer(library, "nvmlDeviceGetHandleByPciBusId", address, of=lambda found: found)
        if isinstance(handle, Unknown):
            self._why_not = handle
        self.handle: object = handle

    @property
    def reachable(self) -> bool:
        """Whether it can still be asked."""
        return self._why_not is None

    def _ask(self, name: str, *arguments: object, of: Callable[..., T | Unknown]) -> T | Unknown:
        if self._why_not is not None:
            return self._why_not
        found = _answer(self._library, name, self.handle, *arguments, of=of)
        if found is _LOST:
            self._why_not = _LOST
        return found

    def facts(self) -> NvmlGpu:
        """All that is asked about one GPU; what it is doing and its link first, so that both are of one moment."""
        found = NvmlGpu(
            self.address,
            performance_state=self._ask("nvmlDeviceGetPerformanceState", of=_state),
            busy_percent=self._ask("nvmlDeviceGetUtilizationRates", of=lambda rates: int(rates.gpu)),
            link_generation=self._ask("nvmlDeviceGetCurrPcieLinkGeneration", of=int),
            link_width=self._ask("nvmlDeviceGetCurrPcieLinkWidth", of=int),
            gpu_max_generation=self._ask("nvmlDeviceGetGpuMaxPcieLinkGeneration", of=int),
            max_generation=self._ask("nvmlDeviceGetMaxPcieLinkGeneration", of=int),
            max_width=self._ask("nvmlDeviceGetMaxPcieLinkWidth", of=int),
            name=self._ask("nvmlDeviceGetName", of=str),
            throttle_reasons=self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", of=int),
            replay_count=self._ask("nvmlDeviceGetPcieReplayCounter", of=int),
            bar1_bytes=self._ask("nvmlDeviceGetBAR1MemoryInfo", of=lambda memory: int(memory.bar1Total)),
            memory_bytes=self._ask("nvmlDeviceGetMemoryInfo", of=lambda memory: int(memory.total)),
            ecc_enabled=self._ask("nvmlDeviceGetEccMode", of=lambda modes: bool(modes[0])),
            ecc_uncorrected=self._ask("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _SINCE_LOAD, of=int),
            nvlinks_active=self._nvlinks(),
        )
        return msgspec.structs.replace(found, lost=self._why_not is _LOST)

    def _nvlinks(self) -> int | Unknown:
        """How many NVLinks are up. Links that a GPU does not have answer with an error, but not all where it has any."""
        states = [self._ask("nvmlDeviceGetNvLinkState", link, of=int) for link in range(_MOST_NVLINKS)]
        told = [state for state in states if not isinstance(state, Unknown)]
        return sum(state == 1 for state in told) if told else states[0]


def _pair(library: ModuleType, accessor: _Gpu, owner: _Gpu) -> NvmlPair:
    ends = (accessor.handle, owner.handle)
    return NvmlPair(
        accessor.address,
        owner.address,
        read=_answer(library, "nvmlDeviceGetP2PStatus", *ends, _P2P_READ, of=int),
        write=_answer(library, "nvmlDeviceGetP2PStatus", *ends, _P2P_WRITE, of=int),
        nvlink=_answer(library, "nvmlDeviceGetP2PStatus", *ends, _P2P_NVLINK, of=int),
        topology=_answer(library, "nvmlDeviceGetTopologyCommonAncestor", *ends, of=int),
    )


def _state(number: int) -> int | Unknown:
    return Unknown("NVML does not know the performance state") if number == _STATE_UNKNOWN else number
