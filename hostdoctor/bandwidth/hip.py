"""AMD's GPUs, through HIP's runtime (libamdhip64.so) and its binding, hip-python.

The package hip-python-interop must never be wanted: it puts packages of its own in the place of cuda-bindings and nvidia-ml-py.

hipMemcpyPeerAsync copies directly wherever the hardware lets it, whether hipDeviceEnablePeerAccess was called or not (ROCm/clr,
rocclr/device/rocm/rocvirtual.cpp, VirtualGPU::submitCopyMemoryP2P goes by the agents that may access the memory). So taking
access away gives no control, and what is to be staged is staged here.
"""

from __future__ import annotations

import glob
import os
from types import ModuleType
from typing import Any

import msgspec

from hostdoctor.bandwidth.api import HOST, Event, Fault, Place, hidden_by
from hostdoctor.bandwidth.binding import Binding
from hostdoctor.bandwidth.machine import Machine
from hostdoctor.bandwidth.steps import Device
from hostdoctor.parsers.addresses import address_of

_NAME_BYTES = 256
_ADDRESS_BYTES = 32
_STREAM_NON_BLOCKING = 1
_HOST_PORTABLE = 1
_HOST_NUMA_USER = 0x20000000  # the pages follow this thread's memory policy, not the GPU that is current
_ALREADY_SO = (704, 705)
_UNTOLD = (3, 100, 101, 999)  # what the library gives where it may not open its devices, too
_LIBRARY = "lib/libamdhip64.so"


class _Stream(msgspec.Struct, frozen=True):
    gpu: int
    handle: Any


class Hip:
    """HIP's runtime; see api.Api.

    Attributes:
        library: "HIP 6.2.41133".
        stages: it does not, see above.
        hiding: what hides GPUs.
    """

    stages = False
    hiding: tuple[str, ...] = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")

    def __init__(self, machine: Machine) -> None:
        """Load it; Fault where it is not there or sees no GPU."""
        self.library = "HIP"
        self._call = Binding(_binding(), "hip-python", _not_loaded)
        self._current = HOST
        try:
            self._call("hipInit", 0)
            self._count = self._call("hipGetDeviceCount")
        except Fault as found:
            if found.number in _UNTOLD and machine.may_not_open("kfd"):
                text = f"this user may not open {machine.devices}/kfd: its group (render, or video) is missing"
                raise Fault("permission", text, found.code) from found
            if found.kind == "no-device":
                raise Fault(found.kind, f"{found}{hidden_by(self.hiding)}", found.code) from found
            raise
        version = self._call("hipRuntimeGetVersion")
        self.library = f"HIP {version // 10_000_000}.{version // 100_000 % 100}.{version % 100_000}"

    def devices(self) -> tuple[Device, ...]:
        """The GPUs that HIP shows to this process, each once: parts of one are not told apart."""
        found: dict[str, Device] = {}
        for number in range(self._count):
            subject = address_of(_text(self._call("hipDeviceGetPCIBusId", _ADDRESS_BYTES, number)))
            if subject is None or subject in found:
                continue
            name = _text(self._call("hipDeviceGetName", _NAME_BYTES, number))
            memory_bytes = int(self._call("hipDeviceTotalMem", number))
            found[subject] = Device(subject, name=name, memory_bytes=memory_bytes, number=number)
        return tuple(found.values())

    def open(self, gpu: int) -> None:
        """See api.Api."""
        self._use(gpu)

    def _use(self, gpu: int) -> None:
        if gpu != self._current:
            self._call("hipSetDevice", gpu)
            self._current = gpu

    def may_access(self, accessor: int, owner: int) -> bool:
        """See api.Api."""
        return bool(self._call("hipDeviceCanAccessPeer", accessor, owner))

    def set_access(self, accessor: int, owner: int, granted: bool) -> None:
        """See api.Api."""
        self._use(accessor)
        try:
            if granted:
                self._call("hipDeviceEnablePeerAccess", owner, 0)
            else:
                self._call("hipDeviceDisablePeerAccess", owner)
        except Fault as found:
            # Where the hardware allows no access there is none to take away.
            if found.number not in _ALREADY_SO and (granted or found.kind != "forbidden"):
                raise

    def allocate(self, gpu: int, size_bytes: int) -> Place:
        """See api.Api."""
        if gpu == HOST:
            return Place(HOST, int(self._call("hipHostMalloc", size_bytes, _HOST_PORTABLE | _HOST_NUMA_USER)))
        self._use(gpu)
        return Place(gpu, int(self._call("hipMalloc", size_bytes)))

    def free(self, place: Place) -> None:
        """See api.Api."""
        if place.gpu == HOST:
            self._call("hipHostFree", place.address)
        else:
            self._use(place.gpu)
            self._call("hipFree", place.address)

    def fill(self, place: Place, value: int, size_bytes: int) -> None:
        """See api.Api."""
        self._use(place.gpu)
        self._call("hipMemset", place.address, value, size_bytes)
        self._call("hipDeviceSynchronize")

    def copy(self, target: Place, source: Place, size_bytes: int, stream: _Stream) -> None:
        """See api.Api."""
        self._use(stream.gpu)
        to, from_, queue, kinds = target.address, source.address, stream.handle, self._call.module.hipMemcpyKind
        if HOST not in (source.gpu, target.gpu) and source.gpu != target.gpu:
            self._call("hipMemcpyPeerAsync", to, target.gpu, from_, source.gpu, size_bytes, queue)
            return
        if source.gpu == HOST:
            kind = kinds.hipMemcpyHostToDevice
        elif target.gpu == HOST:
            kind = kinds.hipMemcpyDeviceToHost
        else:
            kind = kinds.hipMemcpyDeviceToDevice
        self._call("hipMemcpyAsync", to, from_, size_bytes, kind, queue)

    def stream(self, gpu: int) -> _Stream:
        """See api.Api."""
        self._use(gpu)
        return _Stream(gpu, self._call("hipStreamCreateWithFlags", _STREAM_NON_BLOCKING))

    def end_stream(self, stream: _Stream) -> None:
        """See api.Api."""
        self._call("hipStreamDestroy", stream.handle)

    def event(self, gpu: int) -> Event:
        """See api.Api."""
        self._use(gpu)
        return self._call("hipEventCreate")

    def end_event(self, event: Event) -> None:
        """See api.Api."""
        self._call("hipEventDestroy", event)

    def record(self, event: Event, stream: _Stream) -> None:
        """See api.Api."""
        self._use(stream.gpu)
        self._call("hipEventRecord", event, stream.handle)

    def wait(self, stream: _Stream, event: Event) -> None:
        """See api.Api."""
        self._call("hipStreamWaitEvent", stream.handle, event, 0)

    def synchronise(self, stream: _Stream) -> None:
        """See api.Api."""
        self._call("hipStreamSynchronize", stream.handle)

    def elapsed_ms(self, start: Event, stop: Event) -> float:
        """See api.Api."""
        return float(self._call("hipEventElapsedTime", start, stop))


def _binding() -> ModuleType:
    """hip-python, told where ROCm is: it looks in ROCM_PATH and in /opt/rocm, which not every installation has."""
    if not {"ROCM_PATH", "ROCM_HOME"} & set(os.environ) and not os.path.exists(f"/opt/rocm/{_LIBRARY}"):
        found = [path for pattern in ("/opt/rocm/core-*", "/opt/rocm-*") for path in glob.glob(f"{pattern}/{_LIBRARY}")]
        if found:
            os.environ["ROCM_PATH"] = max(found)[: -len(_LIBRARY) - 1]
    try:
        # A module of that name or, from version 10 on, one of another name under that one: only this finds both.
        from hip import hip  # noqa: PLC0415
    except ImportError as error:
        text = "the Python package hip-python is not installed (pip install 'hostdoctor[hip]')"
        raise Fault("no-library", text) from error
    except RuntimeError as error:  # versions that load the library at once
        raise _not_loaded(error, "hipInit") from error
    module: ModuleType = hip
    return module


def _not_loaded(error: RuntimeError, name: str) -> Fault:
    if "dlopen" in str(error):
        return Fault("no-library", "AMD's HIP runtime, libamdhip64.so, is not installed here, or not where hip-python looks")
    return Fault("other", f"AMD's HIP runtime is too old for the installed hip-python: it has no {name}")


def _text(data: bytes) -> str:
    return bytes(data).split(b"\0")[0].decode("utf-8", "replace")
