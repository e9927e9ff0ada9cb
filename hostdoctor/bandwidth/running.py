"""Takes the steps of a run one by one, writing down each before and after, and stops at the first sign of harm."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence

import msgspec

from hostdoctor import __version__
from hostdoctor.bandwidth import journal
from hostdoctor.bandwidth.adapters import Means
from hostdoctor.bandwidth.choice import Chosen
from hostdoctor.bandwidth.kernel_watch import Fault, KernelWatch
from hostdoctor.bandwidth.links import LinkWatch
from hostdoctor.bandwidth.plan import Task
from hostdoctor.bandwidth.steps import Step, StepResult
from hostdoctor.evidence import Evidence
from hostdoctor.facts.host import Host
from hostdoctor.facts.unknown import Unknown, known
from hostdoctor.topology import Topology

# Of steps that had to be ended, one after the other: then it is not one pair that hangs.
_HANGS_AT_MOST = 2
_KMSG_EVERY_S = 0.1
# A copy that ended like this may have left its GPUs in no state to copy further.
BREAKS = ("timeout", "died", "lost", "sticky")


class FaultLogged(Exception):
    """The kernel logged a fault while copies ran."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.event.text)
        self.fault = fault


class Progress(msgspec.Struct, frozen=True):
    """Whom to tell: before each step, and after it."""

    begins: Callable[[Task, int], object] = lambda task, left: None
    ended: Callable[[Task, StepResult], object] = lambda task, result: None


class Around(msgspec.Struct, frozen=True):
    """What a run needs of the host."""

    evidence: Evidence
    topology: Topology
    watch: KernelWatch
    deadline_s: float
    progress: Progress = Progress()


def header(host: Host, chosen: Sequence[Chosen], tasks: Sequence[Task], boot_id: str) -> Iterator[journal.Record]:
    """What a journal begins with: the run, its tools with their GPUs, and all steps."""
    yield journal.Began(__version__, journal.now(), boot_id, known(host.boot.release, ""), steps=len(tasks))
    for each in chosen:
        adapter = each.adapter
        yield journal.Tool(adapter.name, adapter.version, adapter.path, adapter.vendor, each.devices)
    for task in tasks:
        yield journal.Planned(task.adapter.name, task.step)


def measure(tasks: Sequence[Task], writer: journal.Writer, around: Around) -> journal.HowEnded:
    """Take the steps; however it ends, that is written down.

    Raises KeyboardInterrupt again once that is done.
    """
    how: journal.HowEnded = "interrupted"
    try:
        how = _Measuring(writer, around).all(tasks)
    finally:
        writer.write(journal.Ended(journal.now(), how))
    return how


class _Measuring:
    """A run that is on."""

    def __init__(self, writer: journal.Writer, around: Around) -> None:
        self._writer, self._around = writer, around
        self._looked_at = 0.0
        self._hangs = 0
        self._broken: set[frozenset[str]] = set()
        self._during = ""
        self._noted: set[tuple[str, str]] = set()

    def all(self, tasks: Sequence[Task]) -> journal.HowEnded:
        """Take the steps, as far as that goes."""
        for number, task in enumerate(tasks):
            self._around.progress.begins(task, len(tasks) - number)
            self._during = task.step.key
            if _is_broken(task.step, self._broken):
                self._leave_out(task)
                continue
            self._writer.write(journal.Begun(journal.now(), task.adapter.name, task.step))
            try:
                result = self._take(task)
                self._watch()
            except FaultLogged as logged:
                self._stopped(task, logged.fault)
                return "fault"
            self._around.progress.ended(task, result)
            if result.error_kind in BREAKS:
                self._broken.add(_ends(task.step))
            self._hangs = self._hangs + 1 if result.error_kind == "timeout" else 0
            if self._hangs >= _HANGS_AT_MOST or "stuck in the kernel" in result.error:
                return "hung"
        return "complete"

    def _leave_out(self, task: Task) -> None:
        """What a copy between the same two, or of one of them and the host, broke is not tried again in other ways."""
        text = "not tried: an earlier copy of this GPU, or between these two, did not end well"
        result = StepResult(task.step, error=text, error_kind="other")
        self._writer.write(journal.Done(journal.now(), task.adapter.name, result))
        self._around.progress.ended(task, result)

    def _take(self, task: Task) -> StepResult:
        around = self._around
        links = LinkWatch(around.evidence, around.topology, task.step.gpus)
        began = time.monotonic()
        result = task.adapter.take(task.step, Means(around.deadline_s, links.look, self._tick))
        seconds = round(time.monotonic() - began, 3)
        self._writer.write(journal.Done(journal.now(), task.adapter.name, result, seconds, links.seen))
        return result

    def _tick(self) -> None:
        """Read the kernel's log every now and then while a step runs."""
        if time.monotonic() - self._looked_at >= _KMSG_EVERY_S:
            self._looked_at = time.monotonic()
            self._watch()

    def _watch(self) -> None:
        for fault in self._around.watch.faults():
            event = fault.event
            key = (event.kind, event.address)
            if fault.stops or key not in self._noted:
                self._noted.add(key)
                text = event.text[:300]
                record = journal.Fault(journal.now(), event.kind, event.address, text, self._during, fault.stops)
                self._writer.write(record)
            if fault.stops:
                raise FaultLogged(fault)

    def _stopped(self, task: Task, fault: Fault) -> None:
        """Have a result also of the step that a fault ended."""
        text = f"the kernel logged a fault: {fault.event.text}"[:300]
        gone = fault.event.kind in ("lost", "inaccessible", "slot-emptied")
        result = StepResult(task.step, error=text, error_kind="lost" if gone else "sticky")
        self._writer.write(journal.Done(journal.now(), task.adapter.name, result))
        self._around.progress.ended(task, result)


def left_to_do(tasks: Sequence[Task], found: journal.Journal, *, retry: bool) -> tuple[list[Task], list[Task]]:
    """What a resumed run still has to take, and what it leaves out because the last one died on that pair.

    Args:
        tasks: all of the run.
        found: what its file tells.
        retry: take those again that it died on.
    """
    broken = {_ends(done.result.step) for _, done in found.done.values() if done.result.error_kind in BREAKS}
    broken.update(_ends(begun.step) for begun in found.died_on)
    todo: list[Task] = []
    left_out: list[Task] = []
    for task in tasks:
        is_broken = _is_broken(task.step, broken)
        failed = task.key in found.done and bool(found.done[task.key][1].result.error)
        if task.key in found.done and not (retry and is_broken and failed):
            continue
        (left_out if is_broken and not retry else todo).append(task)
    return todo, left_out


def _ends(step: Step) -> frozenset[str]:
    return frozenset(step.gpus)


def _is_broken(step: Step, broken: Collection[frozenset[str]]) -> bool:
    """Whether a copy of the same GPUs did not end well, or one of a single GPU among them: that breaks all of its pairs."""
    return any(ends <= _ends(step) for ends in broken)


def boot_id(evidence: Evidence) -> str:
    """Which boot this is, so that a file tells whether the host went down in between."""
    from hostdoctor.readers.text import text_of  # noqa: PLC0415  a cycle of nothing but types

    text = text_of(evidence, "proc/sys/kernel/random/boot_id")
    return "" if isinstance(text, Unknown) else text.strip()[:40]
