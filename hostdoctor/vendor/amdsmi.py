"""AMD's management library, through its Python binding.

The binding binds every function of the library when it is imported, so it fits only the library of its own ROCm: the host's
own copy comes first, the package from PyPI last. An import that failed leaves parts behind, so each copy is tried in a child
of its own. Without a library the import prints and raises KeyError, with a foreign one AttributeError.

Source: amdsmi.h and py-interface/amdsmi_interface.py of ROCm 6.0 to 7.0; what differs is noted where it is read.
"""

from __future__ import annotations

import importlib
import os
import stat
import sys
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TypeVar

from hostdoctor.facts.driver import AmdSmi, AmdSmiGpu, AmdSmiPair
from hostdoctor.facts.unknown import Unknown
from hostdoctor.vendor import child

T = TypeVar("T")
_Found = dict[str, object] | Unknown

NAME = "AMD SMI"

_LINK_TYPES = {1: "PCIE", 2: "XGMI"}  # amdsmi_link_type_t of 7.x, amdsmi_io_link_type_t before
_SPEEDS_MTS = (2500, 5000, 8000, 16000, 32000, 64000)
_NO_DRIVER = 34  # AMDSMI_STATUS_DRIVER_NOT_LOADED
_NOTHING_INSTALLED = Unknown(
    "AMD SMI's Python binding is not installed", "install amd-smi-lib of your ROCm, or hostdoctor[amdsmi]"
)


def usual_folders() -> tuple[str, ...]:
    """The folders that hold a copy of the binding, in the order in which they are tried."""
    named = [root for name in ("ROCM_HOME", "ROCM_PATH") if (root := os.environ.get(name))]
    roots = [*named, "/opt/rocm", *_newest_first("/opt", "rocm-"), *_newest_first("/opt/rocm", "core-")]
    of_host = [*(f"{root}/share/amd_smi" for root in roots), "/usr/share/amd_smi", "/usr/lib/python3/dist-packages"]
    own = [folder for folder in sys.path if folder]
    own = [*(f"{folder}/_rocm_sdk_core/share/amd_smi" for folder in own), *own]
    found = [folder for folder in of_host if _has_copy(folder) and _may_be_run(folder)]
    found += [folder for folder in own if _has_copy(folder)]
    return tuple(dict.fromkeys(os.path.realpath(folder) for folder in found))


def _has_copy(folder: str) -> bool:
    return os.path.isdir(f"{folder}/amdsmi")


def _newest_first(folder: str, prefix: str) -> list[str]:
    try:
        names = [name for name in os.listdir(folder) if name.startswith(prefix)]
    except OSError:
        return []
    return [f"{folder}/{name}" for name in sorted(names, key=_numbers, reverse=True)]


def _numbers(name: str) -> list[int]:
    return [int(part) for part in name.replace("-", ".").split(".") if part.isdecimal()]


def _may_be_run(folder: str) -> bool:
    """Whether root may run code from there: nobody else can write it. Ordinary users may run anything."""
    if os.geteuid() != 0:
        return True
    found = [os.stat(path) for path in (folder, f"{folder}/amdsmi")]
    return all(each.st_uid == 0 and not each.st_mode & stat.S_IWOTH for each in found)


def ask(folders: Sequence[str], addresses: Sequence[str], deadline_s: float) -> child.Question[AmdSmi]:
    """Ask about the GPUs at these addresses, all of which must be awake: AMD SMI opens every GPU when it starts.

    Args:
        folders: those that hold a copy of the binding, tried in this order.
        addresses: of the GPUs.
        deadline_s: for all copies together, from now on.
    """
    return _Copies(folders, addresses, deadline_s) if folders else child.Settled(_NOTHING_INSTALLED)


class _Copies:
    """The copies of the binding, the next one tried where one comes to grief."""

    def __init__(self, folders: Sequence[str], addresses: Sequence[str], deadline_s: float) -> None:
        self._left = list(folders)
        self._addresses = addresses
        self._ends = time.monotonic() + deadline_s
        self._question = self._next()

    def _next(self) -> child.Question[AmdSmi]:
        folder, addresses = self._left.pop(0), self._addresses
        left_s = max(0.0, self._ends - time.monotonic())
        return child.ask(f"{NAME} of {folder}", lambda: probe(folder, addresses), AmdSmi, left_s)

    def answer(self) -> AmdSmi | Unknown | None:
        """The answer of the first copy that works, else why each does not."""
        reasons = []
        while True:
            found = self._question.answer()
            failed = isinstance(self._question, child.Child) and self._question.failed
            if not isinstance(found, Unknown) or not failed:
                return found
            reasons.append(found.reason)
            if not self._left or time.monotonic() >= self._ends:
                return Unknown("; ".join(reasons), found.help)
            self._question = self._next()

    def abandon(self) -> None:
        """Give up the copy that is being asked."""
        self._question.abandon()


def probe(folder: str, addresses: Sequence[str]) -> AmdSmi | Unknown:
    """Load the copy in that folder and ask it; to be run in a child. Raises whatever a copy that does not fit raises."""
    sys.path.insert(0, folder)
    library = importlib.import_module("amdsmi")
    try:
        library.amdsmi_init(library.AmdSmiInitFlags.INIT_AMD_GPUS)
        handles = library.amdsmi_get_processor_handles()
    except Exception as error:
        if not hasattr(error, "get_error_code"):
            raise
        return _reason(error)
    gpus = [gpu for gpu in (_Gpu(library, handle) for handle in handles) if gpu.address in addresses]
    return AmdSmi(
        library_version=_answer(library, "amdsmi_get_lib_version", of=_version),
        source=os.path.dirname(os.path.dirname(str(library.__file__))),
        gpus=tuple(gpu.facts() for gpu in gpus),
        pairs=tuple(_pair(library, accessor, owner) for accessor in gpus for owner in gpus if accessor is not owner),
    )


def _answer(library: ModuleType, name: str, *arguments: object, of: Callable[..., T | Unknown]) -> T | Unknown:
    """What a function gives, as a value of the type wanted, or why it gives nothing."""
    try:
        return of(getattr(library, name)(*arguments))
    except Exception as error:
        return _reason(error)


def _reason(error: Exception) -> Unknown:
    """The library's errors have a code; others come from the binding, which has other functions in other versions."""
    if not hasattr(error, "get_error_code"):
        return Unknown(f"AMD SMI's binding does not give it ({type(error).__name__}: {error})")
    code = error.get_error_code()
    if code == _NO_DRIVER:
        return Unknown(f"AMD SMI finds no amdgpu driver loaded ({code})")
    text = str(getattr(error, "get_error_info", lambda: error)())
    return Unknown(f"AMD SMI answers: {text.rpartition(' - ')[2].strip()} ({code})")


class _Gpu:
    """One GPU that is asked."""

    def __init__(self, library: ModuleType, handle: object) -> None:
        self.handle = handle
        self._library = library
        address = self._ask("amdsmi_get_gpu_device_bdf", of=str)
        self.address = "" if isinstance(address, Unknown) else address.lower()

    def _ask(self, name: str, of: Callable[..., T | Unknown]) -> T | Unknown:
        return _answer(self._library, name, self.handle, of=of)

    def facts(self) -> AmdSmiGpu:
        """All that is asked about one GPU; what it is doing and its link first, so that both are of one moment."""
        busy = self._ask("amdsmi_get_gpu_activity", of=lambda found: _count(found["gfx_activity"]))
        now, could = self._links()
        replays = _of(now, "pcie_replay_count", to=_count)
        if isinstance(replays, Unknown):
            replays = self._ask("amdsmi_get_gpu_pci_replay_counter", of=_count)
        memory: _Found = self._ask("amdsmi_get_gpu_vram_info", of=dict)
        mebibytes = _of(memory, "vram_size", "vram_size_mb", to=_count)  # the first from 6.2 on
        return AmdSmiGpu(
            self.address,
            link_speed_gts=_of(now, "pcie_speed", to=_speed),
            link_width=_of(now, "pcie_width", "pcie_lanes", to=_count),
            max_speed_gts=_of(could, "max_pcie_speed", to=_speed),
            max_width=_of(could, "max_pcie_width", "max_pcie_lanes", to=_count),
            replay_count=replays,
            busy_percent=busy,
            memory_bytes=mebibytes if isinstance(mebibytes, Unknown) else mebibytes << 20,
        )

    def _links(self) -> tuple[_Found, _Found]:
        """The link as it is and as it could be: one call from 6.1 on, two before, whose keys speak of lanes."""
        if not hasattr(self._library, "amdsmi_get_pcie_info"):
            return self._ask("amdsmi_get_pcie_link_status", of=dict), self._ask("amdsmi_get_pcie_link_caps", of=dict)
        both: _Found = self._ask("amdsmi_get_pcie_info", of=dict)
        if isinstance(both, Unknown):
            return both, both
        return _of(both, "pcie_metric", to=_table), _of(both, "pcie_static", to=_table)


def _pair(library: ModuleType, accessor: _Gpu, owner: _Gpu) -> AmdSmiPair:
    ends = (accessor.handle, owner.handle)
    return AmdSmiPair(
        accessor.address,
        owner.address,
        accessible=_answer(library, "amdsmi_is_P2P_accessible", *ends, of=bool),
        link_type=_answer(library, "amdsmi_topo_get_link_type", *ends, of=_link_type),
    )


def _of(found: _Found, *names: str, to: Callable[..., T | Unknown]) -> T | Unknown:
    """The value of the first of these keys that is there."""
    if isinstance(found, Unknown):
        return found
    name = next((name for name in names if name in found), None)
    return Unknown(f"this version of AMD SMI gives no {names[0]}") if name is None else to(found[name])


def _plain(value: object) -> object:
    """A number out of ctypes' wrapping, in which some versions leave it."""
    return getattr(value, "value", value)


def _table(value: object) -> _Found:
    return value if isinstance(value, dict) else Unknown("AMD SMI gives no table where it should")


def _count(value: object) -> int | Unknown:
    number = _plain(value)
    return number if isinstance(number, int) else Unknown("AMD SMI gives no value for it")


def _speed(value: object) -> float | Unknown:
    """GT/s out of MT/s."""
    number = _plain(value)
    if number in _SPEEDS_MTS and isinstance(number, int):
        return number / 1000
    return Unknown(f"AMD SMI gives {number}, which is no speed of PCI Express")


def _version(found: dict[str, object]) -> str:
    """The version with the year in front, as long as there was one (6.x)."""
    return ".".join(str(found[name]) for name in ("year", "major", "minor", "release") if name in found)


def _link_type(found: dict[str, object]) -> str | Unknown:
    number = _plain(found["type"])
    known = _LINK_TYPES.get(number) if isinstance(number, int) else None
    return known or Unknown(f"AMD SMI gives the link type {number}")
