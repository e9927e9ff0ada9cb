"""rocm-bandwidth-test 2.x, a pair at a time: its figures are of one copy engine, and it has no arm without peer access."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection

import msgspec

from hostdoctor.bandwidth import process
from hostdoctor.bandwidth.adapters import Found, Means, Vendor, ended_badly, failed
from hostdoctor.bandwidth.rocm_tools import Program, complaint
from hostdoctor.bandwidth.steps import Device, ErrorKind, Step, StepResult
from hostdoctor.facts.bandwidth import HOST, Run, host_node, is_host
from hostdoctor.parsers import rocm_bandwidth_test
from hostdoctor.parsers.paste import split

_MEMORY = re.compile(r"\s*Allocatable Memory Size \(KB\):\s*(?P<kib>\d{1,15})")
_INDEX = re.compile(r"\s*Device Index:\s*(?P<number>\d{1,4})")
_MIB = 1 << 20
_Runner = Callable[[list[str], process.Means], process.Ended]


class _Place(msgspec.Struct, frozen=True):
    """A device of the tool: its number where agents are counted, and where pools of memory are."""

    agent: int
    pool: int


class RocmBandwidthTest:
    """See Adapter."""

    name = "rocm-bandwidth-test"
    vendor: Vendor = "amd"
    proves = "the copy engine's rate, and data compared one way; there is no arm without peer access to compare with"

    def __init__(self, program: Program, gpus: Collection[str]) -> None:
        """Name the program and the addresses of all of the host's GPUs: it prints those without a domain."""
        self.path = program.path
        self.version = ""
        self._gpus = gpus
        self._environment = program.environment(os.environ)
        self._places: dict[str, _Place] = {}

    def devices(self, deadline_s: float) -> Found:
        """See Adapter."""
        try:
            ended = self._run(["-t"], process.Means(deadline_s))
        except OSError as error:
            return Found(why_not=f"{self.path}: {error.strerror}")
        run = _run_of(ended.output)
        if run is None or not run.gpus:
            return Found(why_not=_why(ended, ["-t"]))
        self.version = run.version
        memory = _memory(ended.output)
        pool = 0
        for device in run.devices:
            # -s and -d count pools, and a node without memory has none.
            self._places[self._address(device.subject)] = _Place(device.number, pool)
            pool += device.number in memory or not memory
        sizes = {device.subject: memory.get(device.number, 0) for device in run.gpus}
        return Found(
            tuple(
                Device(self._address(each.subject), each.name, None, sizes[each.subject], each.number)
                for each in run.gpus
                if ":" in each.subject
            )
        )

    def _address(self, subject: str) -> str:
        """The GPU that a device of the tool is, where exactly one of the host has that address but for the domain."""
        fits = [gpu for gpu in self._gpus if gpu.partition(":")[2] == subject.partition(":")[2]]
        return fits[0] if len(fits) == 1 else subject if ":" not in subject or is_host(subject) else ""

    def can(self, step: Step) -> bool:
        """See Adapter."""
        if step.kind == "pair":
            return step.peer_access
        return step.kind in ("to-gpu", "from-gpu", "inside")

    def calls(self, step: Step) -> int:
        """See Adapter."""
        return step.repeats + _is_compared(step) + step.latency

    def take(self, step: Step, means: Means) -> StepResult:
        """See Adapter."""
        places = [self._place(end) for end in (step.origin, step.target)]
        origin, target = places
        if origin is None or target is None:
            return failed(step, "no-device", f"rocm-bandwidth-test does not list {step.origin} and {step.target}")
        taking = _Taking(self._run, step, means, origin, target)
        return taking.result()

    def _place(self, end: str) -> _Place | None:
        return self._places.get(host_node(0) if end == HOST else end)

    def _run(self, arguments: list[str], means: process.Means) -> process.Ended:
        return process.run([self.path, *arguments], means, environment=self._environment)


def _is_compared(step: Step) -> bool:
    return step.verify and not step.both_ways and step.kind != "inside"


class _Taking:
    """One step, in as many calls of the tool as it has samples, and one more to compare the data."""

    def __init__(self, run: _Runner, step: Step, means: Means, origin: _Place, target: _Place) -> None:
        self._run, self._step, self._means = run, step, means
        self._origin, self._target = origin, target

    def result(self) -> StepResult:
        """What came of it."""
        found = StepResult(self._step)
        ends = ["-s", str(self._origin.pool), "-d", str(self._target.pool)]
        if _is_compared(self._step):
            found = self._compared(found, [*ends, "-v"])
        size = ["-m", str(max(1, self._step.size_bytes // _MIB))]
        timed = ["-b", f"{self._origin.pool},{self._target.pool}", *size] if self._step.both_ways else [*ends, *size]
        while not found.error and found.data != "wrong" and len(found.samples_gbs) < self._step.repeats:
            found = self._sampled(found, timed)
        if self._step.latency and found.samples_gbs and not found.error:
            found = self._small(found, [*ends, "-l"])
        return found

    def _called(self, arguments: list[str]) -> tuple[Run | None, process.Ended | StepResult]:
        try:
            ended = self._run(arguments, self._means.throughout(self._means.deadline_s))
        except OSError as error:
            return None, failed(self._step, "no-library", str(error.strerror))
        bad = ended_badly(self._step, ended, "rocm-bandwidth-test", self._means.deadline_s)
        return _run_of(ended.output), bad or ended

    def _compared(self, found: StepResult, arguments: list[str]) -> StepResult:
        run, ended = self._called(arguments)
        if isinstance(ended, StepResult):
            return ended
        words = [each for each in (run.verifications if run else ()) if each.right is not None]
        if not words:
            return _refused(self._step, ended, arguments)
        right = all(each.right for each in words)
        text = "" if right else f"rocm-bandwidth-test -v says {next(each.text for each in words if not each.right)}"
        return msgspec.structs.replace(
            found, data="right" if right else "wrong", wrong_kind="" if right else "other", wrong_text=text
        )

    def _sampled(self, found: StepResult, arguments: list[str]) -> StepResult:
        run, ended = self._called(arguments)
        if isinstance(ended, StepResult):
            return msgspec.structs.replace(ended, data=found.data)
        rates = [each.gbs for each in (run.transfers if run else ()) if each.gbs is not None]
        if not rates:
            return msgspec.structs.replace(_refused(self._step, ended, arguments), data=found.data)
        return msgspec.structs.replace(found, samples_gbs=(*found.samples_gbs, rates[-1]))

    def _small(self, found: StepResult, arguments: list[str]) -> StepResult:
        run, ended = self._called(arguments)
        if isinstance(ended, StepResult):
            return found
        latency = next((each.latency_us for each in (run.transfers if run else ()) if each.latency_us), None)
        return msgspec.structs.replace(found, latency_us=latency)


def _run_of(output: str) -> Run | None:
    parts = [part for part in split(output, "rocm-bandwidth-test") if part.kind == "rocm-bandwidth-test"]
    runs = [run for part in parts if (run := rocm_bandwidth_test.parse(part)) is not None]
    return runs[-1] if runs else None


def _memory(output: str) -> dict[int, int]:
    """The bytes of each device that has memory of its own."""
    found: dict[int, int] = {}
    number = -1
    for line in output.splitlines():
        if index := _INDEX.match(line):
            number = int(index["number"])
        elif memory := _MEMORY.match(line):
            found[number] = max(found.get(number, 0), int(memory["kib"]) << 10)
    return found


def may_open_kfd() -> bool | None:
    """Whether this user may open AMD's compute device; None where there is none."""
    return os.access("/dev/kfd", os.R_OK | os.W_OK) if os.path.exists("/dev/kfd") else None


def _why(ended: process.Ended, arguments: list[str]) -> str:
    told = complaint(ended.output + ended.errors, arguments, may_open_kfd=may_open_kfd())
    if told is not None:
        return f"{told.text}; {told.next}"
    if ended.timed_out:
        return "it did not answer in time"
    return ended.last_words or f"it printed nothing (exit status {ended.status})"


def _refused(step: Step, ended: process.Ended, arguments: list[str]) -> StepResult:
    kind: ErrorKind = "other"
    if "cannot ACCESS" in ended.output:
        kind = "forbidden"
    elif "HSA_STATUS_ERROR_OUT_OF_RESOURCES" in ended.output and may_open_kfd() is False:
        kind = "permission"
    return failed(step, kind, _why(ended, arguments))
