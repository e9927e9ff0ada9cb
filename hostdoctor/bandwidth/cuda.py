"""NVIDIA's GPUs, through the driver's library (libcuda.so.1) and its binding, cuda-bindings.

The driver's interface is used because it needs nothing of the CUDA toolkit. Copies between GPUs are cuMemcpyPeerAsync: the
driver makes them directly where a context may access the other's memory, and stages them through host memory where not
(CUDA driver API reference, cuMemcpyPeer and cuCtxEnablePeerAccess).
"""

from __future__ import annotations

import importlib
import importlib.metadata
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
_HOST_PORTABLE = 1  # pinned for every context, not only for that which allocates
_ALREADY_SO = (704, 705)  # access is granted already, or was not
_UNTOLD = (100, 101, 304, 999)  # what the library gives where it may not open its devices, too


class _Stream(msgspec.Struct, frozen=True):
    gpu: int
    handle: Any


class Cuda:
    """The driver's library; see api.Api.

    Attributes:
        library: "CUDA driver 12.8".
        stages: the driver stages copies between GPUs without access.
        hiding: what hides GPUs.
    """

    stages = True
    hiding: tuple[str, ...] = ("CUDA_VISIBLE_DEVICES",)

    def __init__(self, machine: Machine) -> None:
        """Load it; Fault where it is not there or sees no GPU."""
        self.library = "CUDA"
        self._call = Binding(_binding(), "cuda-bindings", lambda error, name: _not_loaded(error, name, self.library))
        self._contexts: dict[int, Any] = {}
        self._handles: dict[int, Any] = {}
        self._current = HOST
        try:
            self._call("cuInit", 0)
        except Fault as found:
            if found.number in _UNTOLD and machine.may_not_open("nvidiactl"):
                text = f"this user may not open {machine.devices}/nvidiactl, NVIDIA's device file"
                raise Fault("permission", text, found.code) from found
            if found.kind == "no-device":
                raise Fault(found.kind, f"{found}{hidden_by(self.hiding)}", found.code) from found
            raise
        version = self._call("cuDriverGetVersion")
        self.library = f"CUDA driver {version // 1000}.{version % 1000 // 10}"

    def devices(self) -> tuple[Device, ...]:
        """The GPUs that the driver shows to this process, each once: parts of one (MIG) are not told apart."""
        found: dict[str, Device] = {}
        for number in range(self._call("cuDeviceGetCount")):
            handle = self._handles[number] = self._call("cuDeviceGet", number)
            subject = address_of(_text(self._call("cuDeviceGetPCIBusId", _ADDRESS_BYTES, handle)))
            if subject is None or subject in found:
                continue
            name = _text(self._call("cuDeviceGetName", _NAME_BYTES, handle))
            memory_bytes = int(self._call("cuDeviceTotalMem", handle))
            found[subject] = Device(subject, name=name, memory_bytes=memory_bytes, number=number)
        return tuple(found.values())

    def may_access(self, accessor: int, owner: int) -> bool:
        """See api.Api."""
        return bool(self._call("cuDeviceCanAccessPeer", self._handles[accessor], self._handles[owner]))

    def set_access(self, accessor: int, owner: int, granted: bool) -> None:
        """See api.Api."""
        self._use(accessor)
        try:
            if granted:
                self._call("cuCtxEnablePeerAccess", self._contexts[owner], 0)
            else:
                self._call("cuCtxDisablePeerAccess", self._contexts[owner])
        except Fault as found:
            if found.number not in _ALREADY_SO:
                raise

    def open(self, gpu: int) -> None:
        """See api.Api."""
        self._use(gpu)

    def _use(self, gpu: int) -> None:
        """Make the context of a GPU this thread's: the primary one."""
        if gpu not in self._contexts:
            self._contexts[gpu] = self._call("cuDevicePrimaryCtxRetain", self._handles[gpu])
        if gpu != self._current:
            self._call("cuCtxSetCurrent", self._contexts[gpu])
            self._current = gpu

    def allocate(self, gpu: int, size_bytes: int) -> Place:
        """See api.Api."""
        if gpu == HOST:
            return Place(HOST, int(self._call("cuMemHostAlloc", size_bytes, _HOST_PORTABLE)))
        self._use(gpu)
        return Place(gpu, int(self._call("cuMemAlloc", size_bytes)))

    def free(self, place: Place) -> None:
        """See api.Api."""
        if place.gpu == HOST:
            self._call("cuMemFreeHost", place.address)
        else:
            self._use(place.gpu)
            self._call("cuMemFree", place.address)

    def fill(self, place: Place, value: int, size_bytes: int) -> None:
        """See api.Api."""
        self._use(place.gpu)
        self._call("cuMemsetD8", place.address, value, size_bytes)
        self._call("cuCtxSynchronize")

    def copy(self, target: Place, source: Place, size_bytes: int, stream: _Stream) -> None:
        """See api.Api."""
        self._use(stream.gpu)
        to, from_, queue = target.address, source.address, stream.handle
        if source.gpu == HOST:
            self._call("cuMemcpyHtoDAsync", to, from_, size_bytes, queue)
        elif target.gpu == HOST:
            self._call("cuMemcpyDtoHAsync", to, from_, size_bytes, queue)
        elif source.gpu == target.gpu:
            self._call("cuMemcpyDtoDAsync", to, from_, size_bytes, queue)
        else:
            contexts = self._contexts
            self._call("cuMemcpyPeerAsync", to, contexts[target.gpu], from_, contexts[source.gpu], size_bytes, queue)

    def stream(self, gpu: int) -> _Stream:
        """See api.Api."""
        self._use(gpu)
        return _Stream(gpu, self._call("cuStreamCreate", _STREAM_NON_BLOCKING))

    def end_stream(self, stream: _Stream) -> None:
        """See api.Api."""
        self._call("cuStreamDestroy", stream.handle)

    def event(self, gpu: int) -> Event:
        """See api.Api."""
        self._use(gpu)
        return self._call("cuEventCreate", 0)

    def end_event(self, event: Event) -> None:
        """See api.Api."""
        self._call("cuEventDestroy", event)

    def record(self, event: Event, stream: _Stream) -> None:
        """See api.Api."""
        self._call("cuEventRecord", event, stream.handle)

    def wait(self, stream: _Stream, event: Event) -> None:
        """See api.Api."""
        self._call("cuStreamWaitEvent", stream.handle, event, 0)

    def synchronise(self, stream: _Stream) -> None:
        """See api.Api."""
        self._call("cuStreamSynchronize", stream.handle)

    def elapsed_ms(self, start: Event, stop: Event) -> float:
        """See api.Api."""
        return float(self._call("cuEventElapsedTime", start, stop))


def _binding() -> ModuleType:
    try:
        importlib.metadata.version("hip-python-interop")
    except importlib.metadata.PackageNotFoundError:
        pass
    else:
        text = "the package hip-python-interop is installed, which puts a package of its own in the place of cuda-bindings"
        raise Fault("no-library", f"{text}: uninstall it, and install cuda-bindings again")
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        text = "the Python package cuda-bindings is not installed (pip install 'hostdoctor[cuda]')"
        raise Fault("no-library", text) from error


def _not_loaded(error: RuntimeError, name: str, library: str) -> Fault:
    if type(error).__name__ == "DynamicLibNotFoundError":
        return Fault("no-library", "NVIDIA's driver library, libcuda.so.1, is not installed here")
    return Fault("other", f"NVIDIA's driver ({library}) is too old for the installed cuda-bindings: it has no {name}")


def _text(data: bytes) -> str:
    return data.split(b"\0")[0].decode("utf-8", "replace")
