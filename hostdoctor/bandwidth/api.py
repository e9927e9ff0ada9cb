"""What a measurement needs of a GPU library, and how its errors are told."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Protocol, TypeVar

import msgspec

from hostdoctor.bandwidth.steps import Device, ErrorKind

HOST = -1  # stands for host memory where a GPU's number is expected

# What streams and events are to whoever measures: nothing but things to hand back to the library.
Stream = Any
Event = Any

T = TypeVar("T")


class Fault(Exception):
    """A step cannot go on.

    Attributes:
        kind: see ErrorKind.
        code: as the library calls it, or empty.
        number: the library's, or 0.
    """

    def __init__(self, kind: ErrorKind, text: str, code: str = "", number: int = 0) -> None:
        """Say what happened, in one line."""
        super().__init__(text)
        self.kind = kind
        self.code = code
        self.number = number


class Place(msgspec.Struct, frozen=True):
    """Memory: that of the GPU of some number, or pinned memory of the host (HOST)."""

    gpu: int
    address: int

    def further(self, size_bytes: int) -> Place:
        """The place so many bytes further."""
        return Place(self.gpu, self.address + size_bytes)


class Api(Protocol):
    """A GPU library. Everything raises Fault where it fails; the numbers of GPUs are the library's own.

    Attributes:
        library: what it is called, with its version.
        stages: whether it stages copies between GPUs that may not access each other, as a control needs it.
        hiding: variables of the environment that keep GPUs from it.
    """

    library: str
    stages: bool
    hiding: tuple[str, ...]

    def devices(self) -> tuple[Device, ...]:
        """The GPUs that it sees, without what the kernel tells of them."""

    def open(self, gpu: int) -> None:
        """Make a GPU ready; comes before all that follows here."""

    def may_access(self, accessor: int, owner: int) -> bool:
        """Whether it says that a GPU can get access to another's memory."""

    def set_access(self, accessor: int, owner: int, granted: bool) -> None:
        """Grant a GPU access to another's memory, or take it away; nothing where it is so already."""

    def allocate(self, gpu: int, size_bytes: int) -> Place:
        """Memory of a GPU, or pinned memory of the host that the copy engines of all GPUs reach."""

    def free(self, place: Place) -> None:
        """Give memory back."""

    def fill(self, place: Place, value: int, size_bytes: int) -> None:
        """Set each byte of a GPU's memory, and wait for it."""

    def copy(self, target: Place, source: Place, size_bytes: int, stream: Stream) -> None:
        """Put a copy into a queue, without waiting for it."""

    def stream(self, gpu: int) -> Stream:
        """A queue of a GPU, whose copy engine runs what is put into it."""

    def end_stream(self, stream: Stream) -> None:
        """Give a queue back."""

    def event(self, gpu: int) -> Event:
        """A mark in time, for the queues of a GPU."""

    def end_event(self, event: Event) -> None:
        """Give a mark back."""

    def record(self, event: Event, stream: Stream) -> None:
        """Set a mark when a queue gets there."""

    def wait(self, stream: Stream, event: Event) -> None:
        """Have a queue, of whichever GPU, wait for a mark."""

    def synchronise(self, stream: Stream) -> None:
        """Wait until a queue is empty."""

    def elapsed_ms(self, start: Event, stop: Event) -> float:
        """The time between two marks of one GPU."""


def hidden_by(variables: tuple[str, ...]) -> str:
    """Which of those variables are set, in words, to go behind a sentence."""
    found = [f"{name} is set to {os.environ[name]!r} here" for name in variables if name in os.environ]
    return f"; {' and '.join(found)}" if found else ""


def kept(stack: ExitStack, thing: T, give_back: Callable[[T], None]) -> T:
    """Something that is given back when the stack ends.

    After an error that leaves a GPU unusable nothing more is asked of the library, where the call might hang; what was held is
    given back when the process ends. That something could not be given back is no error of the step.
    """

    def end(kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if not (isinstance(error, Fault) and error.kind in ("sticky", "lost")):
            with contextlib.suppress(Fault):
                give_back(thing)

    stack.push(end)
    return thing


# Numbers of errors, which CUDA's driver and HIP share (cuda.h CUresult, hip_runtime_api.h hipError_t).
_KINDS: dict[int, ErrorKind] = {
    2: "out-of-memory",
    34: "no-library",
    46: "busy",
    100: "no-device",
    101: "no-device",
    214: "sticky",
    217: "forbidden",
    220: "sticky",
    700: "sticky",
    702: "sticky",
    709: "sticky",
    710: "sticky",
    714: "sticky",
    715: "sticky",
    716: "sticky",
    717: "sticky",
    718: "sticky",
    719: "sticky",
    721: "sticky",
    800: "permission",
}

_MEANINGS = {
    2: "there is not enough memory",
    3: "the library could not be initialised",
    34: "the library found is a stub that only serves to build programs, not the driver's",
    35: "the driver is older than the library needs",
    36: "the driver is too old for what it was asked",
    46: "the GPU is in use by another process alone, or its compute mode forbids its use",
    100: "the library sees no GPU that it can use",
    101: "the library does not know the GPU",
    214: "the GPU found an error in its memory that ECC cannot correct",
    217: "the driver grants no peer access for this pair",
    220: "the GPU found an error on NVLink that cannot be corrected",
    304: "the operating system refused the driver's library something",
    700: "the copy touched memory that is not mapped",
    702: "the GPU did not get done in time and was stopped",
    711: "the driver's limit of GPUs with peer access to each other is reached",
    719: "the GPU failed while it worked",
    721: "the GPU contained an error of its memory",
    800: "the operation is not permitted",
    802: "the system is not ready: on machines with NVSwitch, nvidia-fabricmanager does not run",
    803: "the driver's library and its kernel module are of different versions: a reboot, or loading the module again, helps",
    804: "the forward compatibility library of CUDA does not serve this GPU",
    999: "the library gives no reason",
}


def fault(number: int, code: str, function: str) -> Fault:
    """What an error of a library means.

    Args:
        number: the library's.
        code: how the library calls it.
        function: that returned it.
    """
    kind = _KINDS.get(number, "other")
    meaning = _MEANINGS.get(number)
    if meaning is None:
        meaning = "the GPU cannot be used any more by this process" if kind == "sticky" else "the library failed"
    return Fault(kind, f"{meaning} ({function} returned {code})", code, number)
