"""TransferBench, and `rocm_bandwidth_test run tb` of ROCm 7, which is the same engine: single Transfers by the copy engines.

Each Transfer's data are compared after its iterations, and a mismatch ends the program. Access between two GPUs that the
driver does not grant ends it too, so that there is no arm without peer access.
"""

from __future__ import annotations

import os

import msgspec

from hostdoctor.bandwidth import process
from hostdoctor.bandwidth.adapters import Found, Means, Vendor, copies_directly, ended_badly, failed, sampled
from hostdoctor.bandwidth.rocm_tools import Program, complaint
from hostdoctor.bandwidth.steps import Device, Step, StepResult
from hostdoctor.facts.bandwidth import Run, is_host
from hostdoctor.parsers import transferbench
from hostdoctor.parsers.paste import split

# The copy engine rather than kernels, whose figures on older GPUs end at the fabric (CHANGELOG 1.28).
_VARIABLES = {"ALWAYS_VALIDATE": "1", "NUM_ITERATIONS": "5", "NUM_WARMUPS": "1", "OUTPUT_TO_CSV": "0"}
_UNSET = ("SHOW_ITERATIONS", "HIDE_ENV", "USE_FINE_GRAIN", "USE_REMOTE_READ")


class TransferBench:
    """See Adapter."""

    vendor: Vendor = "amd"
    proves = "copy engines deliver the data with peer access; there is no arm without it to compare with"

    def __init__(self, program: Program) -> None:
        self.name = "TransferBench" if program.kind == "transferbench" else "rocm-bandwidth-test"
        self.path = program.path
        self.version = ""
        self._prefix = [program.path] if program.kind == "transferbench" else [program.path, "run", "tb"]
        inherited = program.environment(os.environ)
        kept = {name: value for name, value in inherited.items() if name not in _UNSET}
        self._environment = {**kept, **_VARIABLES}
        self._numbers: dict[str, int] = {}

    def devices(self, deadline_s: float) -> Found:
        """See Adapter."""
        try:
            ended = self._run([], process.Means(deadline_s))
        except OSError as error:
            return Found(why_not=f"{self.path}: {error.strerror}")
        run = _run_of(ended.output)
        gpus = [] if run is None else [device for device in run.gpus if ":" in device.subject]
        if run is None or not gpus:
            return Found(why_not=_why(ended))
        self.version = run.version
        self._numbers = {device.subject: device.number for device in gpus}
        return Found(tuple(Device(each.subject, each.name, number=each.number) for each in gpus))

    def can(self, step: Step) -> bool:
        """See Adapter."""
        return copies_directly(step)

    def calls(self, step: Step) -> int:
        """See Adapter."""
        return step.repeats

    def take(self, step: Step, means: Means) -> StepResult:
        """See Adapter."""
        missing = [gpu for gpu in step.gpus if gpu not in self._numbers]
        if missing:
            return failed(step, "no-device", f"{self.name} does not list {missing[0]}")

        def once(found: StepResult) -> StepResult:
            try:
                ended = self._run(self._arguments(step), means.throughout(means.deadline_s))
            except OSError as error:
                return failed(step, "no-library", f"{self.path}: {error.strerror}")
            return _with_sample(found, ended, self.name, means.deadline_s)

        return sampled(step, once)

    def _arguments(self, step: Step) -> list[str]:
        copies = [(step.origin, step.target)] + ([(step.target, step.origin)] if step.both_ways else [])
        lines = " ".join(self._transfer(*ends) for ends in copies)
        return ["cmdline", str(step.size_bytes), f"{len(copies)} 1 {lines}"]

    def _transfer(self, origin: str, target: str) -> str:
        """A copy by the copy engine of the GPU that it leaves, or of the one that it comes to from the host."""
        engine = self._numbers[target if is_host(origin) else origin]
        return f"({self._memory(origin)}->D{engine}->{self._memory(target)})"

    def _memory(self, end: str) -> str:
        return f"C{end.partition(':')[2] or 0}" if is_host(end) else f"G{self._numbers[end]}"

    def _run(self, arguments: list[str], means: process.Means) -> process.Ended:
        return process.run([*self._prefix, *arguments], means, environment=self._environment)


def _run_of(output: str) -> Run | None:
    parts = [part for part in split(output, "TransferBench") if part.kind == "transferbench"]
    runs = [run for part in parts if (run := transferbench.parse(part)) is not None]
    return runs[-1] if runs else None


def _with_sample(found: StepResult, ended: process.Ended, name: str, deadline_s: float) -> StepResult:
    if bad := ended_badly(found.step, ended, name, deadline_s):
        return bad
    run = _run_of(ended.output + ended.errors)
    if wrong := next((each for each in (run.verifications if run else ()) if each.right is False), None):
        return StepResult(found.step, data="wrong", wrong_kind="other", wrong_text=wrong.text[:300])
    rates = [each.gbs for each in (run.transfers if run else ()) if each.gbs is not None]
    wanted = 2 if found.step.both_ways else 1
    if len(rates) != wanted or ended.status != 0:
        if any(word.allowed is False for word in (run.words if run else ())):
            return failed(found.step, "forbidden", "the driver grants no peer access")
        return failed(found.step, "other", _why(ended))
    return msgspec.structs.replace(found, samples_gbs=(*found.samples_gbs, round(sum(rates), 3)), data="right")


def _why(ended: process.Ended) -> str:
    text = ended.output + ended.errors
    told = complaint(text, [], may_open_kfd=os.access("/dev/kfd", os.R_OK | os.W_OK) if os.path.exists("/dev/kfd") else None)
    if told is not None:
        return f"{told.text}; {told.next}"
    if ended.timed_out:
        return "it did not answer in time"
    return f"it lists no GPU ({ended.last_words})" if ended.last_words else f"it printed nothing (exit status {ended.status})"
