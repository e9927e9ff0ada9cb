"""A stand-in for AMD SMI's Python binding as ROCm 6.0 had it: other functions and other keys than that of 7.0.

Copied into a folder as `amdsmi/__init__.py`. What differs: two calls for the link, whose keys speak of lanes; `vram_size_mb`;
a version with the year; numbers left in their ctypes wrapping.
"""

import ctypes
import enum

GPUS = ("0000:03:00.0", "0000:43:00.0")


class AmdSmiInitFlags(enum.IntEnum):
    INIT_AMD_GPUS = 2


class AmdSmiException(Exception):
    pass


class AmdSmiLibraryException(AmdSmiException):
    def get_error_code(self):
        return self.args[0]


class AmdSmiTimeoutException(AmdSmiLibraryException):
    pass


class AmdSmiParameterException(AmdSmiException):
    pass


def amdsmi_init(flag):
    print("Exception caught: rsmi_init.")  # noqa: T201  as the real library does
    if flag is not AmdSmiInitFlags.INIT_AMD_GPUS:
        raise AmdSmiParameterException(flag)


def amdsmi_get_processor_handles():
    return list(range(len(GPUS)))


def amdsmi_get_gpu_device_bdf(handle):
    return GPUS[handle].upper()


def amdsmi_get_lib_version():
    return {"year": 23, "major": 4, "minor": 0, "release": 0, "build": "x"}


def amdsmi_get_pcie_link_status(handle):
    return {"pcie_lanes": ctypes.c_uint16(8), "pcie_speed": ctypes.c_uint32(8000), "pcie_interface_version": 3}


def amdsmi_get_pcie_link_caps(handle):
    return {"max_pcie_lanes": 16, "max_pcie_speed": "N/A"}


def amdsmi_get_gpu_pci_replay_counter(handle):
    raise AmdSmiTimeoutException(23)


def amdsmi_get_gpu_activity(handle):
    return {"gfx_activity": "N/A"}


def amdsmi_get_gpu_vram_info(handle):
    return {"vram_size_mb": 30704}


def amdsmi_is_P2P_accessible(accessor, owner):  # noqa: N802  its name
    raise AmdSmiParameterException(owner)


def amdsmi_topo_get_link_type(accessor, owner):
    return {"hops": 1, "type": ctypes.c_uint32(2)}
