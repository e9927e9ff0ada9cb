"""Copies of our own, by the CUDA driver or by HIP, each step in a worker process: data compared in both arms."""

from __future__ import annotations

import sys

import msgspec

from hostdoctor.bandwidth import process
from hostdoctor.bandwidth.adapters import Found, Means, Vendor, ended_badly, failed
from hostdoctor.bandwidth.steps import Api, Copying, Step, StepResult

_WORKER = "hostdoctor.bandwidth.worker"
_NAMES = {"cuda": "CUDA", "hip": "HIP"}
_VENDORS: dict[str, Vendor] = {"cuda": "nvidia", "hip": "amd"}


class InProcess:
    """See Adapter."""

    proves = "copy engines deliver the data, with peer access and without; kernels that read peer memory are not tried"

    def __init__(self, api: Api) -> None:
        self.name: str = api
        self.vendor = _VENDORS[api]
        self.path = sys.executable
        self.version = ""
        self._command = (sys.executable, "-m", _WORKER, api)

    def devices(self, deadline_s: float) -> Found:
        """See Adapter."""
        result = self.take(Step("devices"), Means(deadline_s))
        self.version = result.library
        why_not = result.error or ("" if result.devices else "it sees no GPU")
        return Found(result.devices, why_not)

    def can(self, step: Step) -> bool:
        """See Adapter."""
        return bool(step.kind)

    def calls(self, step: Step) -> int:
        """See Adapter."""
        return 1 if step.kind else 0

    def take(self, step: Step, means: Means) -> StepResult:
        """See Adapter."""
        heard = _Heard(step, means)
        plan = process.Means(means.deadline_s, on_line=heard.line, tick=heard.tick, every_s=means.every_s)
        name = f"the {_NAMES[self.name]} worker"
        try:
            ended = process.run(self._command, plan, given=msgspec.json.encode(step).decode() + "\n")
        except OSError as error:
            return failed(step, "other", f"{name} could not be started: {error.strerror}")
        if heard.result is not None:
            return heard.result
        said = ended.last_words or f"exit status {ended.status}"
        return ended_badly(step, ended, name, means.deadline_s) or failed(step, "other", f"{name} gave no result: {said}")


class _Heard:
    """What a worker says."""

    def __init__(self, step: Step, means: Means) -> None:
        self._step, self._means = step, means
        self._copying = False
        self.result: StepResult | None = None
        self._decode_copying = msgspec.json.Decoder(Copying).decode
        self._decode_result = msgspec.json.Decoder(StepResult).decode

    def line(self, line: str) -> None:
        """Understand a line; libraries print others."""
        if line[:1] != "{":
            return
        try:
            self._copying = self._decode_copying(line).copying
        except (msgspec.MsgspecError, UnicodeEncodeError):
            self._take_result(line)

    def _take_result(self, line: str) -> None:
        try:
            result = self._decode_result(line)
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
            return
        if result.step.key == self._step.key:
            self.result = result

    def tick(self) -> None:
        """Look at the links while copies run."""
        self._means.tick()
        if self._copying:
            self._means.look()
