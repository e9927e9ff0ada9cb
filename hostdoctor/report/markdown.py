"""The report as Markdown, for the trackers of GitHub and GitLab.

Findings first, then the host in tables and drawings, and at the end the block from which a scan reads the facts again. A
tracker takes only so much text: what does not fit is left out in a fixed order, and the report says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from hostdoctor import wording
from hostdoctor.facts.block import MARK, left_out
from hostdoctor.facts.codec import SCHEMA
from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import Finding, Outcome
from hostdoctor.report import phrases
from hostdoctor.report.inert import cell, code, fenced, inline
from hostdoctor.report.matrix import matrix_lines
from hostdoctor.report.measured import measured_lines
from hostdoctor.report.model import GpuReport, HostReport, Report
from hostdoctor.report.tree import drawn_lines

LIMIT = 60_000  # characters; GitHub takes 65,536 and counts some of them twice
_WIDTH = 100
_LONGEST = 600  # characters of one text; what evidence holds can be as long as a line of a log
_MOST_SEEN = 12
_MOST_SOURCES = 200
_LONGEST_COMMAND_LINE = 2048  # of the kernel on x86
_MOST_OPEN = 40  # lines of a drawing that need no click
_WITHOUT_FACTS = (
    "The facts behind this report did not fit into it. Whoever is to judge them needs the file that "
    "`hostdoctor capture FILE` writes on this host: please attach it."
)


class _Extent(msgspec.Struct, frozen=True):
    """How much is shown."""

    block: bool = True
    evidence_of_ok: bool = True
    sources: bool = True
    ok: bool = True
    measured: bool = True
    tree: bool = True
    matrix: bool = True
    evidence: bool = True
    groups: int | None = None  # of each outcome


def _extents() -> Iterator[_Extent]:
    """Everything, then always less: what a reader can do without, or see elsewhere, goes first.

    The block gives way only when little but the findings would be left beside it: from it all the rest can be made again.
    """
    for block, fewest in ((True, 5), (False, 2)):
        extent = _Extent(block=block)
        yield extent
        for name in ("evidence_of_ok", "sources", "ok", "measured", "tree", "matrix", "evidence"):
            extent = msgspec.structs.replace(extent, **{name: False})
            yield extent
        for groups in (40, 20, 10, 5, 2):
            if groups >= fewest:
                yield msgspec.structs.replace(extent, groups=groups)


def render(report: Report, embedded: str | None = None, notes: Sequence[str] = (), limit: int = LIMIT) -> str:
    """The whole report, of at most `limit` characters.

    Args:
        report: what it says.
        embedded: the block of the facts, or the line that stands in its place; None for a report that need not have one.
        notes: sentences about how it was made, in which `code` stands between backticks.
        limit: not less than 10,000 characters.
    """
    text = ""
    for extent in _extents():
        text = _joined(_sections(report, extent, embedded, notes), limit)
        if len(text) <= limit:
            break
    return text


def _joined(sections: Iterable[str], limit: int) -> str:
    """The sections with empty lines between them, up to the one with which they are longer than the limit."""
    parts, length = [], 0
    for section in sections:
        parts.append(section)
        length += len(section) + 2
        if length > limit + 1:  # the last one ends with one line end
            break
    return "\n\n".join(parts) + "\n"


def _sections(report: Report, extent: _Extent, embedded: str | None, notes: Sequence[str]) -> Iterator[str]:
    yield "# hostdoctor report"
    yield f"**{' · '.join(phrases.counts(report)) or 'Nothing was judged.'}**"
    if about := " · ".join(each for each in (phrases.machine(report.host), phrases.iommu(report.host)) if each):
        yield inline(_cut(about))
    if not any(each.outcome in ("failure", "warning") for each in report.findings):
        yield phrases.nothing_wrong(report)
    for outcome in ("failure", "warning"):
        yield from _loud(report, outcome, extent)
    yield from _quiet(report, "info", "worth knowing, nothing to repair", extent)
    yield "## Host"
    yield _host(report)
    yield from _drawings(report.host, extent)
    yield from _not_judged(report, extent)
    if extent.ok:
        yield from _quiet(report, "ok", "in order", extent)
    yield from _sources(report, extent)
    if extent != _Extent(block=extent.block):
        yield "Parts of this report are left out, because it is as long as a tracker allows."
    yield from notes
    yield from _facts(embedded, extent)


def _facts(embedded: str | None, extent: _Extent) -> Iterator[str]:
    if embedded is None:  # so that a scan of this text does not take its quotes for a host's own outputs
        yield f"<!-- {left_out('they were not asked for')} -->"
    elif "\n" not in embedded:
        yield f"```\n{embedded}\n```"
    elif extent.block:
        # The mark tells a scan what a copy of the page is in which this was not unfolded.
        about = f"The facts behind this report ({MARK}{SCHEMA}): <code>hostdoctor scan</code> on it judges them again"
        yield _folded(about, f"```\n{embedded}\n```")
    else:
        yield _WITHOUT_FACTS
        yield f"```\n{left_out('they are too large')}\n```"


def _folded(summary: str, *parts: str) -> str:
    """Parts that open at a click; the summary is HTML of ours."""
    inner = "\n\n".join(parts)
    return f"<details>\n<summary>{summary}</summary>\n\n{inner}\n\n</details>"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


# --- the host --------------------------------------------------------------------------------------------------------


def _host(report: Report) -> str:
    rows = [f"| {label} | {cell(_cut(text))} |" for label, text in phrases.facts(report) if text]
    return "\n".join(["| host | |", "|---|---|", *rows])


def _gpu_table(host: HostReport) -> str:
    guest = host.virtualisation in phrases.GUESTS
    rows = [_gpu_row(gpu, guest) for gpu in host.gpus]
    return "\n".join(["| GPU | model | memory | slot now / card, GT/s | to the CPU |", "|---|---|---:|---|---:|", *rows])


def _gpu_row(gpu: GpuReport, guest: bool) -> str:
    cells = (
        code(gpu.address, in_table=True),
        cell(_cut(f"{gpu.name} [{gpu.id}]")),
        "?" if isinstance(gpu.memory_bytes, Unknown) else phrases.memory(gpu.memory_bytes),
        "emulated" if guest else phrases.slot(gpu),
        "" if isinstance(gpu.to_root_gbs, Unknown) or guest else wording.gbs(gpu.to_root_gbs),
    )
    return f"| {' | '.join(cells)} |"


def _drawings(host: HostReport, extent: _Extent) -> Iterator[str]:
    if isinstance(host.cmdline, str) and host.cmdline:
        yield fenced(["$ cat /proc/cmdline", host.cmdline[:_LONGEST_COMMAND_LINE]])
    if host.gpus and len(host.gpus) <= (extent.groups or len(host.gpus)):
        yield _gpu_table(host)
    elif host.gpus:
        yield wording.count(len(host.gpus), "GPU")
    if extent.matrix and (lines := list(matrix_lines(host, _WIDTH))):
        yield fenced(_cut(line.removeprefix("  ")) for line in lines)
    if extent.measured and host.measured:
        yield fenced(map(_cut, measured_lines(host, _WIDTH)))
    if extent.tree and (lines := [_cut(line) for line in drawn_lines(host.topology)]):
        yield fenced(lines) if len(lines) <= _MOST_OPEN else _folded("Topology", fenced(lines))


# --- the findings ----------------------------------------------------------------------------------------------------


def _groups(report: Report, outcome: Outcome, extent: _Extent) -> tuple[list[list[Finding]], int]:
    """The groups of an outcome that are shown, and how many are left out."""
    found = phrases.groups(each for each in report.findings if each.outcome == outcome)
    shown = found[: extent.groups]
    return shown, len(found) - len(shown)


def _loud(report: Report, outcome: Outcome, extent: _Extent) -> Iterator[str]:
    """Failures and warnings, in full."""
    groups, left = _groups(report, outcome, extent)
    for group in groups:
        first = group[0]
        yield f"## {outcome.upper()}: {code(first.check)}: {inline(_cut(first.title))}"
        yield from _said(group, extent.evidence)
    if left:
        yield f"And {left} more {phrases.plural(outcome, left)}."


def _said(group: Sequence[Finding], with_evidence: bool) -> Iterator[str]:
    first = group[0]
    if subjects := phrases.subjects(group):
        yield f"**for** {inline(_cut(subjects))}"
    if explanation := phrases.explanation(group):
        yield inline(_cut(explanation))
    if with_evidence and first.evidence:
        yield fenced(_seen(group))
    items = [("costs", text) for text in phrases.costs(group)] + [("next", text) for text in phrases.next_steps(group)]
    if first.confidence != "certain":
        items.append(("sure?", first.confidence))
    if lines := [f"- **{label}** {inline(_cut(text))}" for label, text in items]:
        yield "\n".join(lines)


def _seen(group: Sequence[Finding]) -> Iterator[str]:
    first = group[0]
    for each in first.evidence[:_MOST_SEEN]:
        yield _cut(phrases.evidence(each))
    if len(first.evidence) > _MOST_SEEN:
        yield f"... and {len(first.evidence) - _MOST_SEEN} more"
    if len(group) > 1 and len(first.subject) == 1:
        yield f"(and alike for the other {len(group) - 1})"


def _quiet(report: Report, outcome: Outcome, about: str, extent: _Extent) -> Iterator[str]:
    """Findings that ask for nothing, behind a click."""
    groups, left = _groups(report, outcome, extent)
    if not groups:
        return
    with_evidence = extent.evidence_of_ok if outcome == "ok" else extent.evidence
    parts = [part for group in groups for part in _quiet_parts(group, outcome, with_evidence)]
    if left:
        parts.append(f"And {left} more.")
    yield _folded(f"{len(groups) + left} {about}", *parts)


def _quiet_parts(group: Sequence[Finding], outcome: Outcome, with_evidence: bool) -> Iterator[str]:
    first = group[0]
    if outcome != "ok":
        yield f"### {code(first.check)}: {inline(_cut(first.title))}"
        yield from _said(group, with_evidence)
        return
    subjects = phrases.subjects(group)
    yield f"- {code(first.check)}: {inline(_cut(first.title))}" + (f" ({inline(_cut(subjects))})" if subjects else "")
    if with_evidence and first.evidence:
        yield fenced(_seen(group))


def _not_judged(report: Report, extent: _Extent) -> Iterator[str]:
    """What is not known, checks that lack the same together."""
    groups, left = _groups(report, "unknown", extent)
    if not groups:
        return
    by_reason: dict[tuple[str, str, str], list[str]] = {}
    for group in groups:
        reason = (group[0].title, phrases.subjects(group), group[0].help)
        by_reason.setdefault(reason, []).append(group[0].check)
    yield "## Not judged"
    lines = [_unknown(checks, *reason) for reason, checks in by_reason.items()]
    yield "\n".join([*lines, *([f"- and {left} more"] if left else [])])


def _unknown(checks: Sequence[str], title: str, subjects: str, help_: str) -> str:
    whom = f" ({inline(_cut(subjects))})" if subjects and subjects not in title else ""
    helps = f" — {inline(_cut(help_))}" if help_ else ""
    return f"- {', '.join(map(code, checks))}: {inline(_cut(title))}{whom}{helps}"


def _sources(report: Report, extent: _Extent) -> Iterator[str]:
    evidence = report.evidence
    for each in evidence.contradictions[: extent.groups]:
        told = " and ".join(f"{source} says {value}" for source, value in each.said)
        yield inline(_cut(f"Contradiction: {each.what} of {each.subject}: {told}. The first was believed."))
    if not extent.sources:
        return
    lines = [*evidence.files, *(f"assumed: {each}" for each in evidence.assumed)]
    lines += [f"not read: {each.source}: {each.reason}" for each in evidence.unread]
    if lines:
        shown = [_cut(line) for line in lines[:_MOST_SOURCES]]
        more = len(lines) - len(shown)
        yield _folded("What was read", fenced([*shown, *([f"... and {more} more"] if more else [])]))
