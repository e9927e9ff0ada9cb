"""`hostdoctor rocm-bandwidth-test`: ROCm's own test, with its silent failures told and its figures judged."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import click

from hostdoctor.bandwidth import process, rocm_tools
from hostdoctor.bandwidth.adapters.rocm_bandwidth_test import may_open_kfd
from hostdoctor.cli.bandwidth import CHECKS, opened
from hostdoctor.cli.evidence import fail
from hostdoctor.diagnosis import diagnose, selected
from hostdoctor.evidence.attached import Attached, Attachment
from hostdoctor.findings import Finding
from hostdoctor.readers.attached import Pasted, apply_parts
from hostdoctor.registry import load_checks
from hostdoctor.report.phrases import safe
from hostdoctor.report.text import Style, render_findings
from hostdoctor.view import View

_NOT_FOUND = (
    "no rocm-bandwidth-test or TransferBench in $ROCM_PATH, /opt/rocm* or PATH: install the package rocm-bandwidth-test, "
    "from ROCm 7.14 on transferbench-dev"
)
_FOLLOWS = "rocm-bandwidth-test has ended with ROCm 7.14, and TransferBench follows it: that runs here"
_LONGEST_S = 24 * 3600.0


@click.command(
    "rocm-bandwidth-test",
    context_settings={"help_option_names": ["-h", "--help"], "ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("arguments", metavar="[-- ARG...]", nargs=-1, type=click.UNPROCESSED)
@click.option("--root", metavar="DIR", default="/", help="Where this host's sys and proc are mounted, in a container.")
@click.option("--assume-bare-metal", is_flag=True, help="Judge a guest as if what it sees were hardware.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(1, _LONGEST_S), metavar="S", help="End the tool after that time.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True)
@click.option("--verbose", is_flag=True, help="Also show the verdicts on what is in order.")
def command(  # noqa: PLR0913, PLR0917  one parameter an option
    arguments: tuple[str, ...], root: str, assume_bare_metal: bool, timeout_s: float | None, color: str, verbose: bool
) -> None:
    """Run ROCm's bandwidth test, whichever this host has, and judge what it measures.

    ARG goes to the tool as it is: "-- -a", "-- -s 1 -d 2 -v"; from ROCm 7 on "-- run tb p2p". Without any, the tool measures
    all pairs. Its output is shown as it comes, then the verdicts. Exit status: the tool's own; 1 where it says 0 and a verdict
    is a failure, or it failed without saying so; 3 where it could not be run.
    """
    programs = rocm_tools.find(os.environ)
    if not programs:
        fail(_NOT_FOUND)
    program = programs[0]
    given, variables = _for_program(program, list(arguments))
    words = [*(f"{name}={value}" for name, value in variables.items()), program.path, *given]
    _told(f"runs {' '.join(words)} ({program.name})")
    if program.kind == "transferbench":
        _told(_FOLLOWS)
    ended = _run(program, given, variables, timeout_s)
    if ended.timed_out:
        _told(f"it did not end within {timeout_s:g} s and was ended" + (", and does not die" if ended.stuck else ""))
    bad = _judged(root, assume_bare_metal, (program.path, *given), ended.output, Style(color=_colored(color), verbose=verbose))
    complaint = rocm_tools.complaint(ended.output + ended.errors, given, may_open_kfd=may_open_kfd())
    if complaint is None and not ended.timed_out and not rocm_tools.informs(program, given):
        complaint = _silent_failure(program, given, ended, bad)
    if complaint is not None:
        _told(f"rocm-bandwidth-test: {complaint.text}; {complaint.next}")
    sys.exit(_status(ended, failed=complaint is not None or bad.failed))


def _silent_failure(
    program: rocm_tools.Program, arguments: Sequence[str], ended: process.Ended, bad: _Verdict
) -> rocm_tools.Complaint | None:
    """What no word of the tool tells: that it ended early, or came to nothing; None where neither is so."""
    status = ended.status or 0
    how = f"signal {-status} ended it" if status < 0 else f"exit status {status}"
    how += f": {ended.last_words}" if ended.errors.strip() else ""
    advice = "see its output above, and hostdoctor scan"
    if bad.cut:
        return rocm_tools.Complaint(f"a table of its output is not whole, so not all was measured ({how})", advice)
    if bad.measured:
        return None
    if ended.status == 0 and ended.output.strip() and not rocm_tools.should_measure(program, arguments, ended.output):
        _told("nothing in this output can be judged here")
        return None
    what = how if ended.output.strip() else f"it printed nothing, {how}"
    return rocm_tools.Complaint(f"it measured nothing ({what})", advice)


# What stands for the old switches since ROCm 7 (docs/reference/migration_guide.rst of rocm_bandwidth_test).
_NOW: dict[tuple[str, ...], dict[str, str]] = {(): {}, ("-a",): {"P2P_MODE": "1"}, ("-A",): {"P2P_MODE": "2"}}


def _for_program(program: rocm_tools.Program, arguments: list[str]) -> tuple[list[str], Mapping[str, str]]:
    """The arguments, and variables beside them; those of the old tool in the words of what follows it."""
    variables = _NOW.get(tuple(arguments))
    if program.kind == "rbt-2" or variables is None:
        return arguments, {}
    return [*(("run", "tb") if program.kind == "rbt-7" else ()), "p2p", "64M"], variables


def _told(text: str) -> None:
    click.echo(f"hostdoctor: {safe(text)}", err=True)


def _run(
    program: rocm_tools.Program, arguments: Sequence[str], variables: Mapping[str, str], timeout_s: float | None
) -> process.Ended:
    """Run the tool, showing what it prints as it comes; ends the program where it cannot be started."""
    environment = {**program.environment(os.environ), **variables}
    means = process.Means(timeout_s or _LONGEST_S, on_piece=_show, on_error=_show_error)
    try:
        return process.run([program.path, *arguments], means, environment=environment)
    except OSError as error:
        fail(f"{program.path}: {error.strerror}")


def _show(piece: bytes) -> None:
    sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def _show_error(piece: bytes) -> None:
    sys.stderr.buffer.write(piece)
    sys.stderr.buffer.flush()


class _Verdict(NamedTuple):
    """Whether the output holds any measurement, whether one is a failure, and whether a table is not whole."""

    measured: bool
    failed: bool
    cut: bool


def _judged(root: str, assume_bare_metal: bool, command_line: Sequence[str], output: str, style: Style) -> _Verdict:
    """Print what follows from the output."""
    text = f"$ {' '.join(command_line)}\n{output}"
    parts = Pasted(Attached((Attachment("rocm-bandwidth-test", "", text),), ()), ("rocm-bandwidth-test",)).parts
    found = [part for part in parts if part.kind in ("rocm-bandwidth-test", "transferbench")]
    if not found:
        return _Verdict(False, False, False)
    place = opened(root, assume_bare_metal)
    view = View(apply_parts(place.host, found))
    runs = view.host.runs
    has_data = any(run.devices or run.transfers or run.verifications or run.words for run in runs)
    findings: list[Finding] = []
    if any(run.transfers or run.verifications for run in runs):
        findings = diagnose(view, selected(load_checks(), CHECKS[:3]))
    shown = render_findings(findings, style)
    cut = any(run.cut for run in runs)
    if findings:
        fine = "Nothing wrong found in what there is of it." if cut else "Nothing wrong found in it."
        click.echo(f"\n--- hostdoctor on this output ---\n\n{shown.rstrip() or f'  {fine}'}")
    return _Verdict(has_data, any(each.outcome == "failure" for each in findings), cut)


def _colored(color: str) -> bool:
    return color == "always" or (color == "auto" and sys.stdout.isatty() and not os.environ.get("NO_COLOR"))


def _status(ended: process.Ended, *, failed: bool) -> int:
    """The tool's own, as a shell would say it; 1 where that hides a failure."""
    if ended.status is None or ended.timed_out:
        return 3
    status = ended.status if ended.status >= 0 else 128 - ended.status
    return status or int(failed)
