"""What can measure: the vendors' tools and copies of our own, behind one interface.

Each takes one step at a time and never raises for what a tool does: its failure is the step's result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

import msgspec

from hostdoctor.bandwidth import process
from hostdoctor.bandwidth.steps import Device, ErrorKind, Step, StepResult

Vendor = Literal["amd", "nvidia"]


class Means(msgspec.Struct, frozen=True):
    """What happens while a step runs.

    Attributes:
        deadline_s: how long each program may take that the step runs.
        look: looks at the links; called while copies run.
        tick: called every now and then; what it raises ends the step.
        every_s: how often.
    """

    deadline_s: float
    look: Callable[[], object] = lambda: None
    tick: Callable[[], object] = lambda: None
    every_s: float = 0.02

    def throughout(self, seconds: float) -> process.Means:
        """For a tool that does not tell when it copies: the links are looked at all the time, and the best counts."""

        def tick() -> None:
            self.tick()
            self.look()

        return process.Means(seconds, tick=tick, every_s=self.every_s)


class Found(msgspec.Struct, frozen=True):
    """The GPUs that a tool sees, or why it is of no use here."""

    devices: tuple[Device, ...] = ()
    why_not: str = ""


class Adapter(Protocol):
    """Something that measures.

    Attributes:
        name: what it is called, in files and messages.
        vendor: whose GPUs it measures.
        path: of the program.
        version: as far as it is known.
        proves: what its results tell, as the end of a sentence.
    """

    name: str
    vendor: Vendor
    path: str
    version: str
    proves: str

    def devices(self, deadline_s: float) -> Found:
        """The GPUs it sees."""

    def can(self, step: Step) -> bool:
        """Whether it can take a step of this kind at all."""

    def calls(self, step: Step) -> int:
        """How many programs it runs for a step, one after the other, each with a deadline of its own."""

    def take(self, step: Step, means: Means) -> StepResult:
        """Take a step."""


def failed(step: Step, kind: ErrorKind, text: str, code: str = "") -> StepResult:
    """The result of a step that came to nothing."""
    one_line = " ".join(text.split())
    return StepResult(step, error=one_line[:300], error_kind=kind, error_code=code[:80])


def copies_directly(step: Step) -> bool:
    """Whether a step is one for a tool that cannot leave peer access off."""
    return step.kind in ("to-gpu", "from-gpu", "inside") or (step.kind == "pair" and step.peer_access)


def sampled(step: Step, once: Callable[[StepResult], StepResult]) -> StepResult:
    """As many samples as a step asks for, or how the first one failed; `once` runs a program and adds what it measured."""
    found = StepResult(step)
    while len(found.samples_gbs) < step.repeats:
        found = once(found)
        if found.error or found.data == "wrong":
            return found
    return found


def ended_badly(step: Step, ended: process.Ended, name: str, deadline_s: float) -> StepResult | None:
    """The result where a program hung or was ended by a signal; None where it came to an end of its own."""
    if ended.timed_out or ended.stuck:
        stuck = ", and it does not die: it is stuck in the kernel" if ended.stuck else ""
        return failed(step, "timeout", f"{name} did not end within {deadline_s:.3g} s and was ended{stuck}")
    if ended.status is not None and ended.status < 0:
        return failed(step, "died", f"{name} was ended by signal {-ended.status}: {ended.last_words}".rstrip(": "))
    return None
