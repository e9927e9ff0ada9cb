"""nvbandwidth and p2pBandwidthLatencyTest, a pair at a time: no other GPU is shown to them.

CUDA is told to number GPUs by their addresses, and each output says which GPUs it is about, so that a figure cannot be
put down to the wrong one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from glob import glob

import msgspec

from hostdoctor.bandwidth import process
from hostdoctor.bandwidth.adapters import Found, Means, Vendor, copies_directly, ended_badly, failed, sampled
from hostdoctor.bandwidth.steps import Device, Step, StepResult
from hostdoctor.facts.bandwidth import Run, Transfer, is_host
from hostdoctor.parsers import nvbandwidth, p2p_bandwidth_latency_test
from hostdoctor.parsers.paste import Part, split

_SAMPLE_FOLDERS = (
    "/usr/local/cuda/extras/demo_suite",
    "/usr/local/cuda/samples/bin/*/linux/release",
    "/usr/local/cuda/samples/*/p2pBandwidthLatencyTest",
)
_DCGM = (
    "/usr/libexec/datacenter-gpu-manager-4/plugins/cuda*",
    "/usr/lib/*/nvvs/plugins/cuda*",
    "/usr/share/nvidia-validation-suite/plugins/cuda*",
)
_MIB = 1 << 20


def find_nvbandwidth() -> str | None:
    """The program, on PATH or among DCGM's plugins."""
    return _first("nvbandwidth", _DCGM)


def find_p2p_test() -> str | None:
    """The sample, on PATH or where CUDA's packages put built ones."""
    return _first("p2pBandwidthLatencyTest", _SAMPLE_FOLDERS)


def _first(name: str, patterns: Sequence[str]) -> str | None:
    places = [os.path.join(folder, name) for pattern in patterns for folder in sorted(glob(pattern), reverse=True)]
    return shutil.which(name) or next((each for each in places if os.access(each, os.X_OK) and os.path.isfile(each)), None)


class _Tool:
    """What both have in common."""

    vendor: Vendor = "nvidia"

    def __init__(self, path: str, gpus: Sequence[Device]) -> None:
        """Name the program and all of the host's GPUs that NVIDIA's driver runs, in the order of their addresses."""
        self.path = path
        self.version = ""
        self._gpus = tuple(sorted(gpus, key=lambda each: each.subject))
        self._numbers = {gpu.subject: number for number, gpu in enumerate(self._gpus)}

    def devices(self, deadline_s: float) -> Found:
        """See Adapter: the tools have no way to list GPUs without copying, so these are the driver's own."""
        return Found(self._gpus, "" if self._gpus else "NVIDIA's driver runs no GPU here")

    def _run(self, step: Step, arguments: Sequence[str], means: Means, deadline_s: float) -> process.Ended:
        visible = ",".join(str(self._numbers[gpu]) for gpu in step.gpus)
        environment = {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": visible}
        return process.run([self.path, *arguments], means.throughout(deadline_s), environment=environment)

    def _unlike(self, step: Step, run: Run) -> StepResult | None:
        """The failure where it copied between others than it was asked to."""
        seen = {device.subject for device in run.gpus}
        if seen == set(step.gpus):
            return None
        return failed(step, "no-device", f"it sees {', '.join(sorted(seen))} where {', '.join(step.gpus)} was to be seen")


class NvBandwidth(_Tool):
    """See Adapter."""

    name = "nvbandwidth"
    proves = "copy engines deliver the data with peer access; there is no arm without it to compare with"

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
            return failed(step, "no-device", f"NVIDIA's driver does not run {missing[0]}")
        size = str(max(1, step.size_bytes // _MIB))
        arguments = ["-j", "-b", size, "-i", "1", "-t", _TESTS[step.kind, step.both_ways]]

        def once(found: StepResult) -> StepResult:
            try:
                ended = self._run(step, arguments, means, means.deadline_s)
            except OSError as error:
                return failed(step, "no-library", f"{self.path}: {error.strerror}")
            return self._with_sample(found, ended, means.deadline_s)

        return sampled(step, once)

    def _with_sample(self, found: StepResult, ended: process.Ended, deadline_s: float) -> StepResult:
        step = found.step
        if bad := ended_badly(step, ended, self.name, deadline_s):
            return bad
        run = nvbandwidth.parse(_json_part(ended.output)) if ended.output.strip() else None
        if run is None:
            return failed(step, "other", _nvidia_error(ended))
        if wrong := next((each for each in run.verifications if each.right is False), None):
            return StepResult(step, data="wrong", wrong_kind="other", wrong_text=wrong.text[:300])
        self.version = run.version
        if unlike := self._unlike(step, run):
            return unlike
        rate = _cell(run.transfers, step)
        if rate is None or ended.status != 0:
            what = "the driver grants no peer access" if step.kind == "pair" and ended.status == 0 else _nvidia_error(ended)
            return failed(step, "forbidden" if step.kind == "pair" and ended.status == 0 else "other", what)
        return msgspec.structs.replace(found, samples_gbs=(*found.samples_gbs, rate), data="right")


_TESTS = {
    ("to-gpu", False): "host_to_device_memcpy_ce",
    ("from-gpu", False): "device_to_host_memcpy_ce",
    ("inside", False): "device_local_copy",
    ("pair", False): "device_to_device_memcpy_write_ce",
    ("pair", True): "device_to_device_bidirectional_memcpy_write_ce",
}


def _json_part(output: str) -> Part:
    return Part("json", "nvbandwidth", 1, tuple(output.splitlines()))


def _cell(transfers: Sequence[Transfer], step: Step) -> float | None:
    """The figure of the step; of both ways together the sum, or what each direction reached while the other ran."""
    ends = [(step.origin, step.target)] + ([(step.target, step.origin)] if step.both_ways else [])
    found = {
        (each.origin, each.target): each.gbs
        for each in transfers
        if each.gbs is not None and (not step.both_ways or each.both_ways or each.contended)
    }
    if step.kind in ("to-gpu", "from-gpu"):
        return next((gbs for (origin, target), gbs in found.items() if is_host(origin) == is_host(step.origin)), None)
    total = next((each.gbs for each in transfers if each.both_ways and each.gbs is not None), None)
    if step.both_ways and total is not None:
        return total
    rates = [found.get(each) for each in ends]
    return None if any(rate is None for rate in rates) else round(sum(rate or 0.0 for rate in rates), 3)


def _nvidia_error(ended: process.Ended) -> str:
    document = _json_part(ended.output).text
    at = document.find('"error"')
    said = document[at + 8 :].strip(' :"{}\n')[:200] if at >= 0 else ended.last_words
    if "NO_DEVICE" in said:
        return "CUDA sees no GPU: is NVIDIA's driver loaded? (nvidia-smi)"
    return said or f"it printed nothing (exit status {ended.status})"


class P2pTest(_Tool):
    """See Adapter. It does everything for its pair at once, so a pair's first step runs it and the others look that up."""

    name = "p2pBandwidthLatencyTest"
    proves = "rates with peer access and without; it never compares data"

    def __init__(self, path: str, gpus: Sequence[Device]) -> None:
        super().__init__(path, gpus)
        self._ran: dict[tuple[str, ...], Run | StepResult] = {}

    def can(self, step: Step) -> bool:
        """See Adapter."""
        return step.kind == "pair"

    def calls(self, step: Step) -> int:
        """See Adapter."""
        return int(step.kind == "pair")

    def take(self, step: Step, means: Means) -> StepResult:
        """See Adapter."""
        pair = tuple(sorted(step.gpus))
        if pair not in self._ran:
            self._ran[pair] = self._whole(step, means)
        run = self._ran[pair]
        if isinstance(run, StepResult):
            return msgspec.structs.replace(run, step=step)
        refused = next((word for word in run.words if (word.accessor, word.owner) == (step.origin, step.target)), None)
        if step.peer_access and refused is not None and refused.allowed is False:
            return failed(step, "forbidden", "the driver grants no peer access")
        return _picked(run, step)

    def _whole(self, step: Step, means: Means) -> Run | StepResult:
        if any(gpu not in self._numbers for gpu in step.gpus):
            return failed(step, "no-device", "NVIDIA's driver does not run both GPUs")
        try:
            ended = self._run(step, [], means, means.deadline_s)
        except OSError as error:
            return failed(step, "no-library", f"{self.path}: {error.strerror}")
        if bad := ended_badly(step, ended, self.name, means.deadline_s):
            return bad
        parts = [part for part in split(ended.output, self.name) if part.kind == "p2p-bandwidth-latency-test"]
        run = p2p_bandwidth_latency_test.parse(parts[0]) if parts else None
        if run is None or ended.status != 0:
            return failed(step, "other", _nvidia_error(ended))
        return self._unlike(step, run) or run


def _picked(run: Run, step: Step) -> StepResult:
    ends = (step.origin, step.target)
    fits = [
        each for each in run.transfers if (each.origin, each.target) == ends and each.peer_access is not (not step.peer_access)
    ]
    rates = [each.gbs for each in fits if each.gbs is not None and each.both_ways == step.both_ways and each.latency_us is None]
    if not rates:
        return failed(step, "other", "its output has no figure for this pair")
    latency = next((each.latency_us for each in fits if each.latency_us), None) if step.latency else None
    return StepResult(step, (rates[0],), latency)
