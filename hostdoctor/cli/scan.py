"""`hostdoctor scan`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from hostdoctor.cli.evidence import Opened, evidence_options, open_evidence, write
from hostdoctor.diagnosis import diagnose, exit_code, failing, selected
from hostdoctor.findings import Check
from hostdoctor.registry import Broken, load_checks
from hostdoctor.report import model
from hostdoctor.view import View

if TYPE_CHECKING:
    from hostdoctor.evidence import Evidence
    from hostdoctor.facts.host import Host

_FORMATS = ("text", "json", "markdown", "html", "junit", "sarif", "prometheus")
_FAIL_ON = ("failure", "warning", "info", "never")
_MOST_SAMPLES = 10_000
_SHORTEST_S, _LONGEST_S = 0.01, 3600.0


def _interval(_context: click.Context, _option: click.Parameter, value: float) -> float:
    if not _SHORTEST_S <= value <= _LONGEST_S:  # what is no number compares false
        raise click.BadParameter(f"{value:g} is not between {_SHORTEST_S:g} and {_LONGEST_S:g} seconds")
    return value


@click.command("scan", context_settings={"help_option_names": ["-h", "--help"]})
@evidence_options
@click.option("--with-bandwidth", "measured", metavar="FILE", multiple=True, help="Also judge a recorded bandwidth run.")
@click.option("--measure", is_flag=True, help="Measure copies now (see `hostdoctor bandwidth`) and judge them with the rest.")
@click.option("--wake", is_flag=True, help="Load each GPU for a moment, so that its link can be judged.")
@click.option("--yes", is_flag=True, help="With --measure: do not ask.")
@click.option("--force", is_flag=True, help="With --measure: although other programs use the GPUs.")
@click.option("--check", "only", metavar="GLOB", multiple=True, help="Run only checks whose id matches; repeatable.")
@click.option("--skip", metavar="GLOB", multiple=True, help="Leave out checks whose id matches; repeatable.")
@click.option(
    "--samples",
    type=click.IntRange(1, _MOST_SAMPLES),
    default=1,
    show_default=True,
    metavar="N",
    help="Look at the slots' links N times, and at what errors are counted meanwhile.",
)
@click.option(
    "--interval",
    "interval_s",
    type=float,
    callback=_interval,
    default=1.0,
    show_default=True,
    metavar="S",
    help="Seconds from one of these looks to the next.",
)
@click.option(
    "--fail-on",
    type=click.Choice(_FAIL_ON),
    default="failure",
    show_default=True,
    help="Exit with 1 from this outcome on.",
)
@click.option("--strict", is_flag=True, help="Let what could not be judged count as a failure.")
@click.option("--format", "format_", type=click.Choice(_FORMATS), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", type=click.Path(), help="Write to a file.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="Also show what is in order, and every file that was read.")
@click.option("-q", "--quiet", is_flag=True, help="Show only failures and warnings, a line each.")
def command(  # noqa: PLR0913, PLR0917  one parameter an option
    paths: tuple[str, ...],
    root: str | None,
    attached: tuple[str, ...],
    deadline_s: float,
    assume_bare_metal: bool,
    measured: tuple[str, ...],
    measure: bool,
    wake: bool,
    yes: bool,
    force: bool,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    samples: int,
    interval_s: float,
    fail_on: str,
    strict: bool,
    format_: str,
    output: str | None,
    color: str,
    verbose: bool,
    quiet: bool,
) -> None:
    """Inspect a host, judge it, and print what is wrong.

    Without PATH it is this host. PATH is what somebody attached to a bug report: outputs and logs, folders of them, or "-"
    for standard input; a folder with sys or proc in it is another host's tree, as with --root.
    Nothing is changed, and no sleeping device is woken but by --wake and --measure. Exit status: 0 nothing found, 1 a
    failure, 2 wrong usage, 3 nothing could be read, or measured where that was asked for.
    """
    checks = _chosen(only, skip)
    copying = _copying(measure=measure, wake=wake, yes=yes, force=force)
    began = time.perf_counter()
    with open_evidence(root, (*paths, *attached), measured) as opened:
        host = opened.read(deadline_s, assume_bare_metal)
        if samples > 1:
            host = _watched(opened.evidence, host, samples, interval_s, deadline_s)
        host = copying(opened, root, host)
        view = View(host)
        findings = diagnose(view, checks)
        report = model.build(opened.sources(), view, findings, exit_code(findings, fail_on, strict))
    seconds = time.perf_counter() - began
    data = _rendered(format_, report, checks, seconds, failing(fail_on, strict))
    if data is None:
        data = _text(seconds, color, verbose, quiet, to_file=output is not None)(report)
    write(data, output, format_ == "prometheus")
    sys.exit(report.exit)


def _copying(*, measure: bool, wake: bool, yes: bool, force: bool) -> Callable[[Opened, str | None, Host], Host]:
    """What adds measurements to a host; wrong usage is told before anything is read."""
    if not (measure or wake):
        return lambda opened, root, host: host
    from hostdoctor.cli import measure as measuring  # noqa: PLC0415  only who measures pays for it

    if measure and not yes and not measuring.can_ask():
        raise click.UsageError(measuring.NOT_ASKED.partition(", or")[0])

    def copied(opened: Opened, root: str | None, host: Host) -> Host:
        place = measuring.place_of(opened, root, host)
        host = measuring.with_woken(place) if wake else host
        return measuring.with_measured(place, host, yes=yes, force=force) if measure else host

    return copied


def _watched(evidence: Evidence, host: Host, samples: int, interval_s: float, deadline_s: float) -> Host:
    from hostdoctor.readers.sampling import Means, Plan, watched  # noqa: PLC0415  only who watches pays for it

    with _progress(samples) as tick:
        return watched(evidence, host, Plan(samples, interval_s, deadline_s), Means(tick))


@contextmanager
def _progress(samples: int) -> Iterator[Callable[[], object]]:
    """A bar on standard error where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    with click.progressbar(length=samples, label="Watching", file=sys.stderr) as bar:
        yield lambda: bar.update(1)


def _chosen(only: Sequence[str], skip: Sequence[str]) -> list[Check | Broken]:
    checks = load_checks()
    for option, patterns in (("--check", only), ("--skip", skip)):
        for pattern in patterns:
            if not selected(checks, [pattern]):
                raise click.BadParameter(f"no check matches {pattern!r}; `hostdoctor checks` lists them", param_hint=option)
    chosen = selected(checks, only, skip)
    if not chosen:
        raise click.UsageError("no check is left to run")
    return chosen


def _rendered(
    format_: str, report: model.Report, checks: Sequence[Check | Broken], seconds: float, failing_: Sequence[str]
) -> bytes | None:
    """The report in a format that does not depend on the terminal; None for text."""
    if format_ == "json":
        return model.to_json(report)
    if format_ == "junit":
        from hostdoctor.report import junit  # noqa: PLC0415  each costs time that the others need not pay

        return junit.render(report, failing_, seconds, time.time())
    if format_ == "sarif":
        from hostdoctor.report import sarif  # noqa: PLC0415

        return sarif.render(report, checks, time.time())
    if format_ == "prometheus":
        from hostdoctor.report import prometheus  # noqa: PLC0415

        return prometheus.render(report, seconds, time.time())
    if format_ == "markdown":
        from hostdoctor.report import markdown  # noqa: PLC0415

        return markdown.render(report).encode("utf-8", "replace")
    if format_ == "html":
        from hostdoctor.report import html  # noqa: PLC0415

        return html.render(report).encode("utf-8", "replace")
    return None


def _text(seconds: float, color: str, verbose: bool, quiet: bool, to_file: bool) -> Callable[[model.Report], bytes]:
    from hostdoctor.report import text  # noqa: PLC0415  rich costs time that JSON need not pay

    terminal = sys.stdout.isatty() and not to_file
    colored = color == "always" or (color == "auto" and terminal and not os.environ.get("NO_COLOR"))
    style = text.Style(width=text.width_of(sys.stdout if terminal else None), color=colored, verbose=verbose, quiet=quiet)
    return lambda report: text.render(report, style, seconds).encode("utf-8", "replace")
