"""`hostdoctor bandwidth`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import import_module

import click

from hostdoctor import wording
from hostdoctor.bandwidth import journal
from hostdoctor.bandwidth.choice import TOOLS
from hostdoctor.bandwidth.plan import Wishes
from hostdoctor.bandwidth.recorded import cells, runs_of
from hostdoctor.bandwidth.session import Allowed, Files, Place, Refused, prepared, read_file
from hostdoctor.bandwidth.steps import FEWEST_REPEATS, REPEATS
from hostdoctor.cli.evidence import fail, write
from hostdoctor.cli.measure import NOT_ASKED, agreed, can_ask, ran, show_plan
from hostdoctor.diagnosis import diagnose, selected
from hostdoctor.evidence import Unreadable
from hostdoctor.evidence.files import FileEvidence
from hostdoctor.readers.attached.bandwidth import with_runs
from hostdoctor.registry import load_checks
from hostdoctor.report import model
from hostdoctor.report.bandwidth import Outcome, to_csv, to_json, to_text
from hostdoctor.report.text import Style, width_of
from hostdoctor.view import View

# What a measurement is judged by; the rest of the checks is scan's.
CHECKS = ("host-bandwidth", "p2p-bandwidth", "p2p-data", "link-speed")
_FORMATS = ("text", "json", "csv", "markdown", "html")


@click.command("bandwidth", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--tool", type=click.Choice(["auto", *TOOLS]), default="auto", show_default=True, help="What measures.")
@click.option("--gpu", "only", metavar="ADDRESS", multiple=True, help="Measure only this GPU; repeatable.")
@click.option(
    "--size", "size_mib", type=click.IntRange(1, 4096), default=64, show_default=True, metavar="MIB", help="Size of a copy."
)
@click.option(
    "--repeats",
    type=click.IntRange(FEWEST_REPEATS, 1000),
    default=REPEATS,
    show_default=True,
    metavar="N",
    help="Samples of each figure, of which the median counts.",
)
@click.option(
    "--step-deadline",
    "deadline_s",
    type=click.FloatRange(1, 3600),
    default=60.0,
    show_default=True,
    metavar="S",
    help="Seconds after which a program that copies is ended.",
)
@click.option("-y", "--yes", is_flag=True, help="Measure without asking.")
@click.option("--dry-run", is_flag=True, help="Only show the plan.")
@click.option("--force", is_flag=True, help="Measure although other programs use the GPUs.")
@click.option("--assume-bare-metal", is_flag=True, help="Measure and judge a guest as if what it sees were hardware.")
@click.option("--results", metavar="FILE", type=click.Path(), help="Where results are written as they come.")
@click.option("--resume", metavar="FILE", type=click.Path(), default="", help="Go on with the run that wrote this file.")
@click.option("--retry", is_flag=True, help="With --resume: also try again what the run died on.")
@click.option("--root", metavar="DIR", default="/", help="Where this host's sys, proc and dev are mounted, in a container.")
@click.option("--format", "format_", type=click.Choice(_FORMATS), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", type=click.Path(), help="Write the report to a file.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="Also show the verdicts on what is in order.")
def command(  # noqa: PLR0913, PLR0917  one parameter an option
    tool: str,
    only: tuple[str, ...],
    size_mib: int,
    repeats: int,
    deadline_s: float,
    yes: bool,
    dry_run: bool,
    force: bool,
    assume_bare_metal: bool,
    results: str | None,
    resume: str,
    retry: bool,
    root: str,
    format_: str,
    output: str | None,
    color: str,
    verbose: bool,
) -> None:
    """Measure copies between this host's GPUs and its memory, compare the data, and judge the figures.

    The plan is shown first. Each result is on disk before the next step begins, so that a run that took the host down can
    be gone on with (--resume). The file can be given to `hostdoctor scan --with-bandwidth`. Exit status: 0 nothing wrong,
    1 a failure, 2 wrong usage, 3 nothing could be measured, 130 interrupted.
    """
    if not (yes or dry_run or can_ask()):
        raise click.UsageError(NOT_ASKED)
    if retry and not resume:
        raise click.UsageError("--retry goes with --resume")
    if resume and results:
        raise click.UsageError("--resume FILE goes on in that file; --results names a new one")
    if output and not os.path.isdir(os.path.dirname(output) or "."):
        fail(f"{output}: there is no such folder")  # told now rather than after all the copies
    place = opened(root, assume_bare_metal)
    wishes = Wishes(size_mib << 20, repeats, deadline_s, tuple(each.lower() for each in only))
    try:
        path = results or ("" if resume or dry_run else journal.default_path())
        if results and os.path.lexists(results):
            raise Refused(f"{results}: it is there already; go on with it by --resume, or name another file")
        session = prepared(place, tool, wishes, Allowed(force, retry), Files(path or "a new file", resume))
        show_plan(session)
        if dry_run:
            return
        if session.tasks and not agreed(yes=yes):
            fail("nothing was measured")
        ran(session)
        outcome = judged(place, session.path)
    except Refused as why:
        fail(str(why))
    except OSError as error:
        fail(f"{error.filename or session_path(results, resume)}: {error.strerror}")
    write(render(outcome, format_, color, verbose=verbose, to_file=output is not None), output)
    sys.exit(outcome.exit)


def session_path(results: str | None, resume: str) -> str:
    """The file that was meant, for a message."""
    return resume or results or "the results file"


def opened(root: str, assume_bare_metal: bool) -> Place:
    """This host; ends the program where it cannot be read."""
    from hostdoctor.readers.host import read_host  # noqa: PLC0415  so that wrong usage is told at once

    try:
        evidence = FileEvidence(root, "live" if root == "/" else "root")
    except Unreadable as error:
        fail(f"{root}: {error.reason}")
    return Place(root, evidence, read_host(evidence, 10.0, assume_bare_metal))


def judged(place: Place, path: str) -> Outcome:
    """What the file tells, with the verdicts and the exit status."""
    found, name = read_file(path), os.path.basename(path)
    runs = runs_of(found, name)
    view = View(with_runs(place.host, runs))
    checks = selected(load_checks(), CHECKS)
    measured = {device.subject for run in runs for device in run.devices}
    findings = [each for each in diagnose(view, checks) if set(each.subject) <= measured]
    shown = cells(found, name)
    broken = found.ended in ("fault", "hung") or any(cell.state == "broken" for cell in shown)
    bad = broken or any(each.outcome == "failure" for each in findings)
    nothing = not bad and not any(cell.state in ("measured", "wrong") for cell in shown)
    links = [link for run in runs for link in run.links]
    status = 1 if bad else 3 if nothing else 0
    report = model.build(model.sources_of(place.evidence), view, findings, status)
    return Outcome(found, shown, links, findings, path, status, report, dict(_ways(view)))


def _ways(view: View) -> Iterator[tuple[str, str]]:
    """The links of each card as they were while it copied, from the card to the root complex."""
    for card in view.cards:
        seen = [view.measured.loaded.get(segment.lower.address) for segment in card.segments]
        links = [wording.link(each.speed_gts, each.width) for each in seen if each]
        if links:
            yield card.gpu.address, f"{', '.join(dict.fromkeys(links))} while it copied"


def render(outcome: Outcome, format_: str, color: str, *, verbose: bool, to_file: bool) -> bytes:
    """The report in one of the formats."""
    if format_ == "json":
        return to_json(outcome)
    if format_ == "csv":
        return to_csv(outcome)
    if format_ in ("markdown", "html"):  # as a scan shows measured copies
        page = import_module(f"hostdoctor.report.{format_}")
        text: str = page.render(outcome.report)
        return text.encode("utf-8", "replace")
    terminal = sys.stdout.isatty() and not to_file
    colored = color == "always" or (color == "auto" and terminal and not os.environ.get("NO_COLOR"))
    style = Style(width=width_of(sys.stdout if terminal else None), color=colored, verbose=verbose)
    return to_text(outcome, style).encode("utf-8", "replace")
