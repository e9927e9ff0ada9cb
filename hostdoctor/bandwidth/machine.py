"""What the kernel tells a worker of this host: where GPUs and memory are, and whether a GPU is still there."""

from __future__ import annotations

import ctypes
import os
import platform

from hostdoctor.facts.unknown import Unknown
from hostdoctor.parsers.sizes import parse_cpu_list

# Numbers of set_mempolicy and get_mempolicy (arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h).
_SYSTEM_CALLS = {"x86_64": (238, 239), "aarch64": (237, 236)}
# include/uapi/linux/mempolicy.h
_MPOL_BIND = 2
_MPOL_F_NODE, _MPOL_F_ADDR = 1, 2
_MOST_NODES = 1024
_TEXT_LIMIT = 4096


class Machine:
    """This host.

    Attributes:
        devices: where device files are.
    """

    def __init__(self, sysfs: str = "/sys", devices: str = "/dev") -> None:
        """Look at it.

        Args:
            sysfs: where sysfs is mounted.
            devices: where device files are.
        """
        self._sysfs = sysfs
        self.devices = devices

    def numa_node(self, address: str) -> int | None:
        """The memory node that a PCI function is attached to; None where that is not told."""
        try:
            node = int(self._read(f"bus/pci/devices/{address}/numa_node"))
        except (OSError, ValueError):
            return None
        return node if node >= 0 else None

    def answers(self, address: str) -> bool:
        """Whether a PCI function is there and answers: one that fell off the bus reads as ones."""
        try:
            with open(f"{self._sysfs}/bus/pci/devices/{address}/config", "rb") as file:
                return file.read(4) not in (b"", b"\xff\xff\xff\xff")
        except OSError:
            return False

    def may_not_open(self, name: str) -> bool:
        """Whether there is such a device file and this process may not open it."""
        try:
            os.close(os.open(os.path.join(self.devices, name), os.O_RDWR | os.O_CLOEXEC))
        except PermissionError:
            return True
        except OSError:
            return False
        return False

    def stay_at(self, node: int) -> bool:
        """Have this thread run on the processors of a memory node and take its memory from there; whether either worked.

        A container may forbid the one (its system-call filter, for want of CAP_SYS_NICE) and often allows the other.
        """
        runs_there = self._run_on(node)
        numbers = _SYSTEM_CALLS.get(platform.machine())
        if numbers is None or not 0 <= node < _MOST_NODES:
            return runs_there
        mask = (ctypes.c_ulong * (_MOST_NODES // 64))()
        mask[node // 64] = 1 << node % 64
        # The kernel looks at one bit less than it is told of (mm/mempolicy.c get_nodes).
        status = _system_call(numbers[0], _MPOL_BIND, ctypes.byref(mask), ctypes.c_ulong(_MOST_NODES + 1))
        return runs_there or status == 0

    def _run_on(self, node: int) -> bool:
        try:
            processors = parse_cpu_list(self._read(f"devices/system/node/node{node}/cpulist"))
            if isinstance(processors, Unknown):
                return False
            usable = os.sched_getaffinity(0) & set(processors)
            if usable:
                os.sched_setaffinity(0, usable)
        except OSError:
            return False
        return bool(usable)

    def node_of(self, address: int) -> int | None:
        """The memory node on which a page of this process lies; None where the kernel does not tell."""
        numbers = _SYSTEM_CALLS.get(platform.machine())
        node = ctypes.c_int(-1)
        if numbers is None:
            return None
        flags = ctypes.c_ulong(_MPOL_F_NODE | _MPOL_F_ADDR)
        status = _system_call(numbers[1], ctypes.byref(node), None, ctypes.c_ulong(0), ctypes.c_void_p(address), flags)
        return node.value if status == 0 and node.value >= 0 else None

    def _read(self, path: str) -> str:
        with open(f"{self._sysfs}/{path}", encoding="ascii", errors="replace") as file:
            return file.read(_TEXT_LIMIT)


def _system_call(number: int, *arguments: object) -> int:
    call = ctypes.CDLL(None).syscall
    call.restype = ctypes.c_long
    return int(call(ctypes.c_long(number), *arguments))
