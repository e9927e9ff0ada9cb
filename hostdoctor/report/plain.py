"""The report as plain text, for trackers and mail that know no Markdown: what a scan prints, the host, and the facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hostdoctor.report import phrases, text
from hostdoctor.report.measured import measured_lines
from hostdoctor.report.model import Report
from hostdoctor.report.tree import drawn_lines

_WIDTH = 80


def render(report: Report, embedded: str, notes: Sequence[str] = ()) -> str:
    """The whole report.

    Args:
        report: what it says.
        embedded: the block of the facts, or the line that stands in its place.
        notes: sentences about how it was made.
    """
    parts = ["hostdoctor report\n", text.render(report, text.Style(_WIDTH)), *_host(report), *_notes(notes)]
    if "\n" in embedded:
        parts.append("The facts behind this report: `hostdoctor scan` on it judges them again.\n")
    parts.append(f"{embedded}\n")
    return "\n".join(parts)


def _host(report: Report) -> Iterator[str]:
    facts = [(label, value) for label, value in phrases.facts(report) if value]
    if isinstance(report.host.cmdline, str):
        facts.append(("command line", report.host.cmdline))
    width = max((len(label) for label, _ in facts), default=0)
    yield _lines("Host", [f"{label:{width}}  {value}" for label, value in facts])
    for title, lines in (
        ("Topology", drawn_lines(report.host.topology)),
        ("Measured", measured_lines(report.host, _WIDTH)),
    ):
        if found := list(lines):
            yield _lines(title, found)


def _lines(title: str, lines: Sequence[str]) -> str:
    return "".join(f"{phrases.safe(line)}\n" for line in (title, *(f"  {line}".rstrip() for line in lines)))


def _notes(notes: Sequence[str]) -> Iterator[str]:
    for note in notes:
        yield f"{phrases.safe(note)}\n"
