"""What a measuring run is made of, and what runs and workers say to each other.

Each step runs in a child process of its own (`python -m hostdoctor.bandwidth.worker cuda|hip`), so that a driver that hangs
or a context that is lost takes nothing else along. The child reads one Step as a line of JSON from standard input and writes
lines of JSON to standard output: Copying when the timed copies begin and end, so that the links can be read while they are
busy, and at last one StepResult. A child that was not done at its deadline is ended with its process group.

Bandwidths are in GB/s (10^9 bytes a second); of `both_ways` steps they are the sum of both directions.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from hostdoctor.facts.bandwidth import is_host

Api = Literal["cuda", "hip"]

# devices: which GPUs the library sees. to-gpu, from-gpu: host memory and a GPU. inside: within a GPU. pair: two GPUs.
StepKind = Literal["devices", "to-gpu", "from-gpu", "inside", "pair"]

# right: every byte arrived as sent. wrong: some did not. not-compared: the step was not asked to, or did not come so far.
Data = Literal["right", "wrong", "not-compared"]

# dropped: the target still holds what it held before the copy. zeroed: it holds zeroes. partial: some bytes are right.
WrongKind = Literal["", "dropped", "zeroed", "partial", "other"]

ErrorKind = Literal[
    "",
    "no-library",  # the driver's library or the Python binding is not installed
    "no-device",  # the library sees no GPU, or not the one that was asked for
    "permission",  # this user may not open the devices
    "forbidden",  # the driver grants no peer access for the pair
    "out-of-memory",
    "lost",  # the GPU is gone: fell off the bus, was reset
    "sticky",  # an error that leaves the context, or the GPU, unusable
    "busy",  # the GPU is exclusively another's
    "timeout",  # not done at its deadline, and ended by force
    "died",  # the child ended without a result
    "other",
]

SIZE_BYTES = 64 << 20
REPEATS = 7
FEWEST_REPEATS = 5


class Device(msgspec.Struct, frozen=True):
    """A GPU as the library sees it.

    Attributes:
        subject: its PCI address, "0000:43:00.0".
        name: as the library calls it.
        numa_node: the memory node that it is attached to; None where sysfs does not tell.
        memory_bytes: of the GPU.
        number: the library's own, which is good for messages alone.
    """

    subject: str
    name: str = ""
    numa_node: int | None = None
    memory_bytes: int = 0
    number: int = 0


class Step(msgspec.Struct, frozen=True):
    """One thing to do.

    Attributes:
        kind: see StepKind.
        origin: where the bytes come from: a GPU's PCI address, or "host:0" for memory of NUMA node 0, "host" for any.
        target: where they go, likewise; the same as `origin` where kind is "inside"; both are empty where it is "devices".
        accessor: the GPU whose copy engine runs the copy, which is the origin unless another is named.
        peer_access: of pairs: True copies directly, False lets the driver stage the copy through host memory (the control).
        both_ways: copies in both directions run against each other, and the samples are the sum.
        size_bytes: of each copy.
        repeats: samples to take, each a batch of copies that takes long enough to be timed, after a warm-up that counts not.
        latency: also time copies of a few bytes.
        verify: compare the data, in each direction that is copied, before anything is timed.
    """

    kind: StepKind
    origin: str = ""
    target: str = ""
    accessor: str = ""
    peer_access: bool = True
    both_ways: bool = False
    size_bytes: int = SIZE_BYTES
    repeats: int = REPEATS
    latency: bool = False
    verify: bool = True

    @property
    def gpus(self) -> tuple[str, ...]:
        """The GPUs that take part."""
        return tuple(dict.fromkeys(end for end in (self.origin, self.target) if end and not is_host(end)))

    @property
    def key(self) -> str:
        """What tells this step from the others of a run, whatever sizes and repeats it has."""
        arm = "" if self.kind != "pair" else " direct" if self.peer_access else " staged"
        ways = " both-ways" if self.both_ways else ""
        return f"{self.kind} {self.origin} {self.target}{arm}{ways}".rstrip()


class Copying(msgspec.Struct, frozen=True):
    """A worker's line while it works: {"copying": true} when the timed copies begin, false when they have ended."""

    copying: bool


class StepResult(msgspec.Struct, frozen=True):
    """What came of a step.

    Attributes:
        step: the one that was asked for.
        samples_gbs: in the order in which they were taken; empty where nothing was timed, or the data were wrong.
        latency_us: of one copy of a few bytes, on the average of many.
        data: see Data.
        wrong_kind: how the data were wrong.
        wrong_bytes: how many bytes differ.
        wrong_text: the first difference in words: "first at byte 0 of 67108864".
        error: one line that says what failed, empty where nothing did.
        error_kind: see ErrorKind.
        error_code: as the library calls it, "CUDA_ERROR_TOO_MANY_PEERS".
        devices: what a step of kind "devices" found.
        library: what ran the copies, "CUDA driver 12.8" or "HIP 6.2.41133".
        size_bytes: of each copy that was made: less than was asked for where memory was short; 0 where none was made.
        host_node: the memory node of the pinned host memory; None where it is not known or there was none.
    """

    step: Step
    samples_gbs: tuple[float, ...] = ()
    latency_us: float | None = None
    data: Data = "not-compared"
    wrong_kind: WrongKind = ""
    wrong_bytes: int = 0
    wrong_text: str = ""
    error: str = ""
    error_kind: ErrorKind = ""
    error_code: str = ""
    devices: tuple[Device, ...] = ()
    library: str = ""
    size_bytes: int = 0
    host_node: int | None = None
