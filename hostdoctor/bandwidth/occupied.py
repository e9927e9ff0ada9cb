"""Which other programs use the GPUs: what they copy would spoil the figures, and a fault would take them down.

Sources: Linux drivers/gpu/drm/amd/amdkfd/kfd_process.c (/sys/class/kfd/kfd/proc), NVIDIA's device files /dev/nvidiaN,
nvml.h nvmlDeviceGetComputeRunningProcesses.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from importlib import import_module

import msgspec

from hostdoctor.facts.unknown import Unknown

_NVIDIA = re.compile(r"/dev/nvidia\d{1,3}\Z")
_RENDER = re.compile(r"/dev/dri/(renderD\d{1,4})\Z")
_KFD = "/dev/kfd"
_MOST_PROCESSES = 100_000
# They hold the device files open as long as they run, and use no GPU (15 characters is all that comm has).
_IDLE_HOLDERS = ("nvidia-persiste", "nv-hostengine", "nvidia-powerd", "nvidia-fabricma", "dcgm-exporter", "amdgpu_exporter")
_NVML_DEADLINE_S = 5.0


class User(msgspec.Struct, frozen=True):
    """A process that uses a GPU; `what` says how that is known."""

    number: int
    name: str
    what: str


def users(root: str, gpus: Collection[str], *, ask_nvml: bool) -> list[User]:
    """The processes besides this one that use these GPUs, as far as this user may see them.

    Args:
        root: "/", or where the host's sys and proc are mounted.
        gpus: their addresses.
        ask_nvml: whether NVIDIA's library is asked too.
    """
    found: dict[int, User] = {}
    mine = {os.getpid(), os.getppid()}
    for user in (*_by_files(root, gpus), *_by_kfd(root), *(_by_nvml(root, tuple(gpus)) if ask_nvml else ())):
        if user.number not in mine and user.name not in _IDLE_HOLDERS:
            found.setdefault(user.number, user)
    return sorted(found.values(), key=lambda user: user.number)


def _by_files(root: str, gpus: Collection[str]) -> Iterator[User]:
    proc = os.path.join(root, "proc")
    for name in _names(proc)[:_MOST_PROCESSES]:
        if not name.isdigit():
            continue
        folder = os.path.join(proc, name, "fd")
        for descriptor in _names(folder):
            try:
                target = os.readlink(os.path.join(folder, descriptor))
            except OSError:
                continue
            if _is_gpu_file(root, target, gpus):
                yield User(int(name), _name_of(proc, name), f"has {target} open")
                break


def _is_gpu_file(root: str, target: str, gpus: Collection[str]) -> bool:
    """Whether a device file belongs to one of the GPUs; /dev/kfd is all of AMD's."""
    if target == _KFD or _NVIDIA.match(target):
        return True
    render = _RENDER.match(target)
    if render is None:
        return False
    device = os.path.realpath(os.path.join(root, "sys/class/drm", render[1], "device"))
    return os.path.basename(device) in gpus


def _by_kfd(root: str) -> Iterator[User]:
    proc = os.path.join(root, "proc")
    for name in _names(os.path.join(root, "sys/class/kfd/kfd/proc")):
        if name.isdigit():
            yield User(int(name), _name_of(proc, name), "computes on AMD's driver (KFD)")


def _by_nvml(root: str, gpus: tuple[str, ...]) -> Iterator[User]:
    from hostdoctor.vendor.child import ask  # noqa: PLC0415  only where there are such GPUs

    answer = ask("NVML", lambda: _nvml_processes(gpus), tuple[int, ...], _NVML_DEADLINE_S).answer()
    for number in () if answer is None or isinstance(answer, Unknown) else answer:
        yield User(number, _name_of(os.path.join(root, "proc"), str(number)), "computes on an NVIDIA GPU (NVML)")


def _nvml_processes(gpus: tuple[str, ...]) -> tuple[int, ...]:
    """The numbers of processes that compute on these GPUs; asked in a child, since the driver may hang."""
    pynvml = import_module("pynvml")  # loaded in the child alone
    pynvml.nvmlInitWithFlags(0)
    found: set[int] = set()
    for address in gpus:
        try:
            handle = pynvml.nvmlDeviceGetHandleByPciBusId(address)
            found.update(int(each.pid) for each in pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
        except pynvml.NVMLError:  # another vendor's GPU, or a driver that does not tell
            continue
    return tuple(sorted(found))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _name_of(proc: str, number: str) -> str:
    try:
        with open(os.path.join(proc, number, "comm"), encoding="utf-8", errors="replace") as file:
            return file.read(64).strip()
    except OSError:
        return ""
