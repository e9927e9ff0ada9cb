"""The report a person reads in a terminal: 80 columns, worst first, nothing twice.

Everything from the evidence is untrusted: control characters are written out, so that none reaches the terminal.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator, Sequence
from typing import TextIO

import msgspec
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from hostdoctor import wording
from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import OUTCOMES, Finding, Outcome
from hostdoctor.report import phrases
from hostdoctor.report.matrix import matrix_lines
from hostdoctor.report.model import HostReport, Report
from hostdoctor.report.phrases import safe

_COLORS: dict[Outcome, str] = {
    "failure": "bold red",
    "warning": "bold yellow",
    "info": "bold cyan",
    "unknown": "bold magenta",
    "ok": "green",
    "not-applicable": "dim",
}
_SEEN_AT_MOST = 4
_SENTENCE_END = re.compile(r"(?<=[.!?]) +(?=[A-Z])")
_NARROWEST, _WIDEST = 60, 100
_DEFAULT_WIDTH = 80


class Style(msgspec.Struct, frozen=True):
    """How to print: columns, colour, and how much."""

    width: int = _DEFAULT_WIDTH
    color: bool = False
    verbose: bool = False
    quiet: bool = False


def width_of(terminal: TextIO | None) -> int:
    """The columns to use: 80 in a pipe, a terminal's own within reason."""
    if terminal is None:
        return _DEFAULT_WIDTH
    try:
        columns = os.get_terminal_size(terminal.fileno()).columns
    except OSError:
        return _DEFAULT_WIDTH
    return max(_NARROWEST, min(columns, _WIDEST))


def render(report: Report, style: Style, seconds: float | None = None) -> str:
    """The whole report; `seconds` is how long the scan took."""
    page = _Page(style)
    if style.quiet:
        for group in phrases.groups(each for each in report.findings if each.outcome in ("failure", "warning")):
            subjects = phrases.subjects(group)
            where = f" [{subjects}]" if subjects else ""
            page.line(f"{group[0].outcome}: {group[0].check}{where}: {group[0].title}")
        return page.text()
    _header(page, report, seconds)
    _gpu_table(page, report.host)
    _findings(page, report, style)
    _closing(page, report, style)
    return page.text()


def render_findings(findings: Sequence[Finding], style: Style) -> str:
    """Findings alone, worst first: failures, warnings and what there is to know; all of them where much is wanted."""
    page, said = _Page(style), set[str]()
    wanted: tuple[Outcome, ...] = OUTCOMES if style.verbose else ("failure", "warning", "info")
    for group in phrases.groups(each for each in findings if each.outcome in wanted):
        _group(page, group, said, "")
        page.line()
    return page.text()


class _Page:
    """Lines of text, wrapped, with colour where it is wanted."""

    def __init__(self, style: Style) -> None:
        self.style = style
        self._file = io.StringIO()
        self._console = Console(
            file=self._file,
            width=style.width,
            force_terminal=style.color,
            color_system="standard" if style.color else None,
            no_color=not style.color,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )

    def text(self) -> str:
        return self._file.getvalue()

    def line(self, text: str = "") -> None:
        """A line as it is, cut at nothing."""
        self._console.out(safe(text), highlight=False)

    def wrapped(self, text: str, indent: int = 0, first: str = "", lead: str = "", style: str = "") -> None:
        """Text wrapped to the width; the first line begins with `first`, of which `lead` is coloured."""
        width = self.style.width
        padding = " " * max(0, indent - cell_len(lead + first))
        body = Text(safe(text)).wrap(self._console, max(20, width - indent), tab_size=4)
        for number, piece in enumerate(body):
            piece.rstrip()
            if number == 0:
                self._console.print(Text(lead, style=style) + Text(first + padding) + piece, soft_wrap=True)
            else:
                self._console.print(Text(" " * indent) + piece, soft_wrap=True)


# --- the head --------------------------------------------------------------------------------------------------------


def _header(page: _Page, report: Report, seconds: float | None) -> None:
    host = report.host
    if report.evidence.kind != "live":
        page.wrapped(f"read from {wording.listed(report.evidence.sources)}", indent=2)
    page.wrapped(phrases.machine(host) or "a host that says little of itself", indent=2)
    counted = ""
    if host.functions:  # none means that nothing lists them, and a log may name GPUs all the same
        counted = f"{wording.count(len(host.gpus), 'GPU')}, {wording.count(host.functions, 'PCI function')}"
    took = "" if seconds is None else f"{seconds:.2f} s"
    if about := " · ".join(each for each in (phrases.iommu(host), counted, took) if each):
        page.wrapped(about, indent=2)


def _gpu_table(page: _Page, host: HostReport) -> None:
    if not host.gpus:
        return
    guest = host.virtualisation in ("virtual-machine", "wsl")
    rows = [("GPU", "model", "memory", "slot now / card, GT/s", "to the CPU")]
    rows += [
        (
            gpu.address,
            gpu.name.split(" / ")[0],
            "?" if isinstance(gpu.memory_bytes, Unknown) else phrases.memory(gpu.memory_bytes),
            "emulated" if guest else phrases.slot(gpu),
            "" if isinstance(gpu.to_root_gbs, Unknown) or guest else f"{gpu.to_root_gbs:.1f} GB/s",
        )
        for gpu in host.gpus
    ]
    widths = [max(cell_len(safe(row[at])) for row in rows) for at in range(5)]
    widths[1] = min(widths[1], max(8, page.style.width - sum(widths) + widths[1] - 10))
    page.line()
    for row in rows:
        cells = (_cell(safe(cell), width) for cell, width in zip(row, widths, strict=True))
        page.line(("  " + "  ".join(cells)).rstrip())


def _cell(text: str, width: int) -> str:
    """Text filled up to the width, or cut to it where one can see that it was cut."""
    return set_cell_size(text, width) if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"


# --- the findings ----------------------------------------------------------------------------------------------------


def _findings(page: _Page, report: Report, style: Style) -> None:
    wanted: tuple[Outcome, ...] = OUTCOMES if style.verbose else ("failure", "warning", "info")
    groups = phrases.groups(each for each in report.findings if each.outcome in wanted)
    page.line()
    if not any(each.outcome in ("failure", "warning") for each in report.findings):
        page.line(phrases.nothing_wrong(report))
        page.line()
    told: dict[str, str] = {}  # remedies that have been named, and the check that did
    said: set[str] = set()  # sentences that have been printed
    drawn = False
    for group in groups:
        is_pairs = group[0].check == "p2p-pair" and len(group[0].subject) == 2
        told_by = next((told[each] for each in group[0].remedies if each in told), "") if is_pairs else ""
        _group(page, group, said, told_by)
        told.update((each, group[0].check) for each in group[0].remedies if each not in told)
        if is_pairs and not drawn:
            page.line()
            _matrix(page, report)
            drawn = True
        page.line()
    if not drawn and any(pair.p2p != "unknown" or pair.driver_says is not None for pair in report.host.pairs):
        _matrix(page, report)
        page.line()


def _matrix(page: _Page, report: Report) -> None:
    for line in matrix_lines(report.host, page.style.width):
        page.wrapped(line.strip(), indent=len(line) - len(line.lstrip()), first=line[: len(line) - len(line.lstrip())])


def _unsaid(text: str, said: set[str]) -> str:
    """A text without the sentences that stand further up already."""
    sentences = [each for each in _SENTENCE_END.split(text) if each not in said]
    said.update(sentences)
    return " ".join(sentences)


def _group(page: _Page, group: Sequence[Finding], said: set[str], told_by: str) -> None:
    """One verdict; short where another check, `told_by`, has told what it rests on and the next step."""
    first = group[0]
    word = first.outcome.upper()
    page.wrapped(f"{first.check}: {first.title}", indent=9, lead=word, first=" ", style=_COLORS[first.outcome])
    if subjects := phrases.subjects(group):
        page.wrapped(subjects, indent=11, first="  for")
    is_explained = first.outcome not in ("ok", "not-applicable") and not told_by
    if is_explained and (explanation := _unsaid(phrases.explanation(group), said)):
        page.wrapped(explanation, indent=2, first="  ")
    for label, text in _details(group):
        # What a slow link costs may be the same for two links, what staging means for a model need be said once.
        shown = _unsaid(text, said) if label == "next" or (label == "costs" and first.check == "p2p-pair") else text
        if shown and (not told_by or label == "costs"):
            page.wrapped(shown, indent=11, first=f"  {label}")
    if first.outcome == "failure" and told_by not in ("", first.check):
        page.wrapped(f"as for {told_by}", indent=11, first="  next")


def _details(group: Sequence[Finding]) -> Iterator[tuple[str, str]]:
    first = group[0]
    if first.outcome not in ("ok", "not-applicable"):
        for number, evidence in enumerate(first.evidence[:_SEEN_AT_MOST]):
            yield ("" if number else "seen"), phrases.evidence(evidence)
    if len(group) > 1 and len(first.subject) == 1 and first.evidence and first.outcome not in ("ok", "not-applicable"):
        yield "", f"(and alike for the other {len(group) - 1})"
    yield from (("costs", text) for text in phrases.costs(group))
    if first.confidence != "certain" and first.outcome in ("failure", "warning", "info"):
        yield "sure?", first.confidence
    yield from (("next", text) for text in phrases.next_steps(group))


# --- the end ---------------------------------------------------------------------------------------------------------


def _closing(page: _Page, report: Report, style: Style) -> None:
    unknown = [each for each in report.findings if each.outcome == "unknown"]
    if unknown and not style.verbose:
        page.wrapped(phrases.not_judged(unknown, report), indent=2)
    for each in report.evidence.contradictions:
        told = " and ".join(f"{source} says {value}" for source, value in each.said)
        page.wrapped(f"Contradiction: {each.what} of {each.subject}: {told}. The first was believed.", indent=2)
    if report.evidence.attached_unread and not style.verbose:
        page.wrapped(phrases.not_understood(report), indent=2)
    if style.verbose:
        page.line("Read:")
        for path in report.evidence.files:
            page.line(f"  {path}")
        for assumed in report.evidence.assumed:
            page.line(f"  (assumed: {assumed})")
        for unread in report.evidence.unread:
            page.line(f"  {unread.source}: {unread.reason}")
    if phrases.has_patch_or_guide(report):
        given = "" if report.evidence.kind == "live" else ", given the same,"
        page.wrapped(
            f"To mend: hostdoctor fix{given} tells what the kernel command line and the board's setup can do.", indent=2
        )
    page.line(" · ".join(phrases.counts(report)))
