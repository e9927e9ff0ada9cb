"""What the commands that measure share: the plan as text, the question before it, and the progress."""

from __future__ import annotations

import os
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from hostdoctor import wording
from hostdoctor.bandwidth.journal import default_path
from hostdoctor.bandwidth.plan import Task, Wishes, expected_s, longest_s
from hostdoctor.bandwidth.recorded import runs_of
from hostdoctor.bandwidth.running import Progress
from hostdoctor.bandwidth.session import Allowed, Files, Place, Refused, Session, choose_for, prepared, read_file
from hostdoctor.bandwidth.steps import Step, StepResult
from hostdoctor.bandwidth.waking import woken
from hostdoctor.cli.evidence import Opened, fail
from hostdoctor.facts.host import Host
from hostdoctor.readers.attached.bandwidth import with_runs
from hostdoctor.report.phrases import safe

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

_DANGER = (
    "Direct copies between GPUs can hang or reset a host whose P2P is broken: save your work, and stop what runs on it. "
    "What was measured until then stays in the file."
)
NOT_ASKED = (
    "nobody is there to ask: add --yes to measure (direct copies can hang a host whose P2P is broken), "
    "or --dry-run to see the plan"
)

_PLAN_WIDTH = 98


def can_ask() -> bool:
    """Whether there is somebody at a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def plan_lines(session: Session) -> Iterator[str]:
    """What will be done, with what, for how long, and where it is written down."""
    for each in session.choice.chosen:
        version = f" {each.adapter.version}" if each.adapter.version else ""
        yield f"Measures with {each.adapter.name}{version}: {each.adapter.proves}."
        for device in each.devices:
            node = "" if device.numa_node is None else f", host memory of node {device.numa_node}"
            yield f"  {device.subject}  {device.name}{node}"
    for name, why in session.choice.passed_over:
        yield f"  not with {name}: {why}"
    for address in session.unseen:
        yield f"  NOT measured: {address}, which none of these tools sees"
    yield from _steps_lines(session)
    watch = session.watch
    known_by = "the kernel's log is watched, and the first fault in it ends the run"
    yield f"Watch    {known_by if not watch.why_not else f'the kernel log cannot be watched for faults: {watch.why_not}'}"
    yield f"Results  {session.path}"
    for begun in session.resumed.died_on if session.resumed else ():
        again = "it is tried again" if not session.left_out else "not tried again without --retry"
        yield f"The run died on: {described(begun.step)}, begun at {begun.at}; {again}."
    if any(task.step.kind == "pair" and task.step.peer_access for task in session.tasks):
        yield _DANGER


def _steps_lines(session: Session) -> Iterator[str]:
    tasks, wishes = session.tasks, session.wishes
    host = sum(task.step.kind in ("to-gpu", "from-gpu") for task in tasks)
    inside = sum(task.step.kind == "inside" for task in tasks)
    staged = sum(task.step.kind == "pair" and not task.step.peer_access for task in tasks)
    direct = sum(task.step.kind == "pair" and task.step.peer_access for task in tasks)
    done = f", {len(session.resumed.done)} done before" if session.resumed else ""
    yield (
        f"Plan     {wording.count(len(tasks), 'step')}, one by one{done}: {host} between host and GPU, {inside} inside a GPU, "
        f"{staged} between GPUs by way of host memory, {direct} direct; {wishes.size_bytes >> 20} MiB a copy, "
        f"{wishes.repeats} samples each"
    )
    most = duration(longest_s(tasks, wishes.deadline_s))
    each = f"what hangs is ended after {wishes.deadline_s:g} s, so {most} at the very most"
    yield f"Time     about {duration(expected_s(tasks))}; {each}"


def duration(seconds: float) -> str:
    """A time as people say it: "40 s", "3 min", "2 h 10 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def described(step: Step) -> str:
    """A step in words."""
    if step.kind in ("to-gpu", "from-gpu", "inside"):
        return f"{step.origin} to {step.target}" if step.kind != "inside" else f"inside {step.origin}"
    how = "direct" if step.peer_access else "by way of host memory"
    return f"{step.origin} {'and' if step.both_ways else 'to'} {step.target}, {how}{', both ways' if step.both_ways else ''}"


def show_plan(session: Session) -> None:
    """Print the plan to standard error."""
    for line in plan_lines(session):
        hanging = " " * (len(line) - len(line.lstrip()) or 9)
        wrapped = textwrap.wrap(
            safe(line), _PLAN_WIDTH, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False
        )
        click.echo("\n".join(wrapped), err=True)


def agreed(*, yes: bool) -> bool:
    """Whether the user wants it."""
    return yes or click.confirm("Measure now?", err=True)


@contextmanager
def progress(session: Session) -> Iterator[Progress]:
    """A bar with the time left on standard error where that is a terminal; silence elsewhere."""
    if not sys.stderr.isatty():
        yield Progress()
        return
    from rich.console import Console  # noqa: PLC0415  only a terminal pays for it
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415
    from rich.progress import Progress as RichProgress  # noqa: PLC0415

    columns = (
        BarColumn(20),
        TextColumn("{task.completed}/{task.total}"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    # Without a thread of its own, so that processes can be started safely.
    with RichProgress(*columns, console=Console(stderr=True), auto_refresh=False, transient=True) as bar:
        yield Progress(*_movers(bar, len(session.tasks)))


def _movers(bar: Bar, total: int) -> tuple[Callable[[Task, int], object], Callable[[Task, StepResult], object]]:
    number = bar.add_task("", total=total)

    def begins(task: Task, _left: int) -> None:
        bar.update(number, description=safe(described(task.step)))
        bar.refresh()

    def ended(task: Task, result: StepResult) -> None:
        if result.error and result.error_kind != "forbidden":
            bar.console.print(safe(f"{described(task.step)}: {result.error}"), markup=False, highlight=False)
        bar.advance(number)
        bar.refresh()

    return begins, ended


# --- for scan ---------------------------------------------------------------------------------------------------------


def place_of(opened: Opened, root: str | None, host: Host) -> Place:
    """The host that a scan looks at, if copies can be made on it; ends the program where not."""
    if opened.evidence.kind not in ("live", "root"):
        fail("only this host can be measured, not what was attached")
    return Place(root or "/", opened.evidence, host)


def with_woken(place: Place) -> Host:
    """The host with its links as they are under load; ends the program where no GPU can be loaded."""
    try:
        found = woken(place, choose_for(place).chosen)
    except Refused as why:
        fail(f"no GPU can be woken: {why}")
    for address, reason in found.failed:
        click.echo(f"hostdoctor: {safe(f'{address} could not be woken: {reason}')}", err=True)
    return with_runs(place.host, found.runs)


def with_measured(place: Place, host: Host, *, yes: bool, force: bool) -> Host:
    """The host with what was measured now; ends the program where nothing can be, or the user does not want it."""
    try:
        session = prepared(place, "auto", Wishes(), Allowed(force), Files(default_path()))
        show_plan(session)
        if not agreed(yes=yes):
            fail("nothing was measured")
        ran(session)
        return with_runs(host, runs_of(read_file(session.path), os.path.basename(session.path)))
    except Refused as why:
        fail(str(why))


def ran(session: Session) -> None:
    """Measure; an interrupt leaves a valid file and is told in a line."""
    end_on_terminate()
    try:
        with progress(session) as telling:
            session.run(telling)
    except KeyboardInterrupt:
        click.echo(f"hostdoctor: interrupted; go on with: hostdoctor bandwidth --resume {session.path}", err=True)
        raise


def end_on_terminate() -> None:
    """Have SIGTERM and SIGHUP end the run as Ctrl-C does: children ended, the file in order."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
