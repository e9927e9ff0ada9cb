"""What a measuring run found, as matrices for a terminal, as JSON and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from hostdoctor import wording
from hostdoctor.bandwidth.journal import Fault, Journal
from hostdoctor.bandwidth.recorded import Cell
from hostdoctor.bandwidth.steps import Device
from hostdoctor.facts.bandwidth import LoadedLink
from hostdoctor.findings import Finding
from hostdoctor.report.model import Report, printable
from hostdoctor.report.model import Tool as Program
from hostdoctor.report.phrases import safe
from hostdoctor.report.text import Style, render_findings

SCHEMA = 1
_WIDTH = 8  # of a cell: "1,234.5!"
_COLUMNS = 11  # of those in 100 columns of a terminal
_WORDS = {
    "wrong": "WRONG",
    "withheld": "wrong",
    "forbidden": "none",
    "broken": "BROKEN",
    "failed": "?",
    "not-taken": "-",
}
_MEANS = {
    "WRONG": "data arrived wrong",
    "wrong": "data of these two arrived wrong in another copy, so no figure is given",
    "none": "the driver grants no peer access",
    "BROKEN": "the copy did not come to its end",
    "?": "failed, see below",
    "-": "not taken",
    "!": "a failure, see below",
    "~": "slower than it should be, see below",
}
_HOW = {
    "complete": "",
    "interrupted": "The run was interrupted",
    "fault": "The run stopped because the kernel logged a fault",
    "hung": "The run stopped because copies hang",
    "": "The run did not end in good order: it was killed, or the host went down",
}


class Measurement(msgspec.Struct, frozen=True):
    """A cell of the JSON; rates in GB/s (10^9), of both ways the sum; null where there is none."""

    tool: str
    kind: str
    origin: str
    target: str
    peer_access: bool | None
    both_ways: bool
    state: str
    median_gbs: float | None
    low_gbs: float | None
    high_gbs: float | None
    samples: int
    latency_us: float | None
    data: str
    text: str


class MeasuredWith(msgspec.Struct, frozen=True):
    """A tool and its GPUs."""

    name: str
    version: str
    path: str
    devices: tuple[Device, ...]


class BandwidthReport(msgspec.Struct, frozen=True):
    """One run, as JSON (schema 1)."""

    ended: str
    results: str
    tools: tuple[MeasuredWith, ...]
    measurements: tuple[Measurement, ...]
    links: tuple[LoadedLink, ...]
    faults: tuple[Fault, ...]
    findings: tuple[Finding, ...]
    exit: int
    tool: Program = Program()
    schema: int = SCHEMA


class Outcome(msgspec.Struct, frozen=True):
    """Everything a report is made of; `report` is the same run as a scan reports it."""

    journal: Journal
    cells: Sequence[Cell]
    links: Sequence[LoadedLink]
    findings: Sequence[Finding]
    path: str
    exit: int
    report: Report
    ways: Mapping[str, str] = {}  # of each GPU: its way to the root complex while it copied


def to_json(outcome: Outcome) -> bytes:
    """The run as JSON."""
    found = outcome.journal
    report = BandwidthReport(
        found.ended or "died",
        outcome.path,
        tuple(MeasuredWith(each.name, each.version, each.path, each.devices) for each in found.tools),
        tuple(map(_measurement, outcome.cells)),
        tuple(outcome.links),
        found.faults,
        tuple(outcome.findings),
        outcome.exit,
    )
    return printable(report)


def _measurement(cell: Cell) -> Measurement:
    step = cell.step
    return Measurement(
        cell.tool,
        step.kind,
        step.origin,
        step.target,
        step.peer_access if step.kind == "pair" else None,
        step.both_ways,
        cell.state,
        cell.gbs,
        cell.low_gbs,
        cell.high_gbs,
        cell.samples,
        cell.latency_us,
        cell.data,
        cell.text,
    )


def to_csv(outcome: Outcome) -> bytes:
    """One line a step."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(Measurement.__struct_fields__)
    for each in map(_measurement, outcome.cells):
        values = [getattr(each, name) for name in Measurement.__struct_fields__]
        writer.writerow(["" if value is None else safe(value) if isinstance(value, str) else value for value in values])
    return file.getvalue().encode("utf-8", "replace")


# --- text -------------------------------------------------------------------------------------------------------------


def to_text(outcome: Outcome, style: Style) -> str:
    """Matrices with the bad cells marked, what the marks mean, and the verdicts."""
    lines: list[str] = []
    for tool in outcome.journal.tools:
        shown = [cell for cell in outcome.cells if cell.tool == tool.name]
        version = f" {tool.version}" if tool.version else ""
        lines += [f"  measured with {tool.name}{version}", *_matrices(tool.devices, shown, outcome)]
    lines += [*_failures(outcome.cells), *_faults(outcome)]
    text = "".join(f"{safe(line)}\n" for line in lines)
    verdicts = render_findings(outcome.findings, style)
    if outcome.exit == 0 and not any(each.outcome in ("failure", "warning") for each in outcome.findings):
        verdicts = f"  Nothing wrong found. {_proven(outcome.findings)}\n\n{verdicts}"
    ended = _HOW[outcome.journal.ended]
    closing = f"  {ended}; go on with: hostdoctor bandwidth --resume {outcome.path}\n" if ended else ""
    return f"{text}\n{verdicts}{safe(closing.rstrip())}\n  results: {safe(outcome.path)}\n".replace("\n\n\n", "\n\n")


def _proven(findings: Sequence[Finding]) -> str:
    """What the data show, which is no more than was compared."""
    told = [each.outcome for each in findings if each.check == "p2p-data" and len(each.subject) == 2]
    right = told.count("ok")
    if not told:
        return ""
    if right == len(told):
        return f"Data arrived as they were sent between all {wording.count(right, 'ordered pair')} of the GPUs measured."
    return f"Data were compared between {right} of {wording.count(len(told), 'ordered pair')} of GPUs."


def _matrices(devices: Sequence[Device], cells: Sequence[Cell], outcome: Outcome) -> Iterator[str]:
    numbers = {device.subject: number for number, device in enumerate(devices)}
    yield ""
    for device in devices:
        node = "" if device.numa_node is None else f"  node {device.numa_node}"
        way = f"  {outcome.ways[device.subject]}" if device.subject in outcome.ways else ""
        yield f"  {numbers[device.subject]:>2}  {device.subject}  {device.name}{node}{way}"
    marks = _marks(outcome.findings)
    used: dict[str, None] = {}
    yield from _host_table([cell for cell in cells if cell.step.kind != "pair"], numbers, marks, used)
    for title, chosen in _tables(cells):
        texts = {}
        for (row, column), (cell, latency) in chosen.items():
            texts[row, column] = _text(cell, marks.get((row, column), ""), latency=latency)
        yield from _matrix(title, texts, numbers)
        for text in texts.values():
            used.update(dict.fromkeys(_signs(text)))
    yield ""
    for sign, meaning in _MEANS.items():
        if sign in used:
            yield f"  {sign:>6}  {meaning}"


def _signs(text: str) -> Iterator[str]:
    if text in _MEANS:
        yield text
    elif text[-1:] in ("!", "~"):
        yield text[-1]


def _marks(findings: Sequence[Finding]) -> Mapping[tuple[str, ...], str]:
    """The worst word on each pair or GPU."""
    found: dict[tuple[str, ...], str] = {}
    for each in findings:
        if each.outcome in ("failure", "warning"):
            sign = "!" if each.outcome == "failure" else "~"
            found[each.subject] = min(found.get(each.subject, sign), sign)
    return found


def _text(cell: Cell, mark: str, *, latency: bool = False) -> str:
    if cell.state != "measured" or cell.gbs is None:
        return _WORDS.get(cell.state, "?")
    value = cell.latency_us if latency else cell.gbs
    if value is None:
        return ""
    is_direct = cell.step.kind != "pair" or cell.step.peer_access
    return f"{value:,.1f}{mark if is_direct and not latency else ''}"


def _host_table(
    cells: Sequence[Cell], numbers: Mapping[str, int], marks: Mapping[tuple[str, ...], str], used: dict[str, None]
) -> Iterator[str]:
    """Host copies and copies inside each GPU, with the spread of the samples."""
    found = {(cell.step.gpus[0], cell.step.kind): cell for cell in cells if cell.step.gpus}
    if not found:
        return
    yield ""
    yield "  host memory and GPU, GB/s, median (lowest to highest)"
    yield f"      {'to the GPU':<26}{'from the GPU':<26}inside the GPU"
    for subject, number in numbers.items():
        texts = []
        for kind in ("to-gpu", "from-gpu", "inside"):
            cell = found.get((subject, kind))
            if cell is None:
                texts.append("")
                continue
            text = _text(cell, marks.get((subject,), "") if kind != "inside" else "")
            used.update(dict.fromkeys(_signs(text)))
            spread = f" ({cell.low_gbs:,.1f} to {cell.high_gbs:,.1f})" if cell.low_gbs is not None else ""
            texts.append(text + spread)
        if any(texts):
            yield f"  {number:>2}  {texts[0]:<26}{texts[1]:<26}{texts[2]}".rstrip()


_Table = dict[tuple[str, str], tuple[Cell, bool]]


def _tables(cells: Sequence[Cell]) -> Iterator[tuple[str, _Table]]:
    """The matrices: direct ones first."""
    pairs = [cell for cell in cells if cell.step.kind == "pair"]
    for direct, how in ((True, "direct"), (False, "by way of host memory")):
        for both_ways, ways in ((False, "one way, row to column"), (True, "both ways together")):
            chosen = [cell for cell in pairs if cell.step.peer_access == direct and cell.step.both_ways == both_ways]
            if chosen:
                yield f"  {how}, {ways}, GB/s", _placed(chosen, latency=False)
        small = [cell for cell in pairs if cell.step.peer_access == direct and cell.latency_us is not None]
        if small:
            yield f"  {how}, a copy of a few bytes, us", _placed(small, latency=True)


def _placed(cells: Sequence[Cell], *, latency: bool) -> _Table:
    found: _Table = {}
    for cell in cells:
        found[cell.step.origin, cell.step.target] = (cell, latency)
        if cell.step.both_ways:
            found[cell.step.target, cell.step.origin] = (cell, latency)
    return found


def _matrix(title: str, texts: Mapping[tuple[str, str], str], numbers: Mapping[str, int]) -> Iterator[str]:
    """The table; more columns than a terminal has room for stand below the first ones."""
    yield ""
    yield title
    columns = list(numbers)
    for first in range(0, len(columns), _COLUMNS):
        block = columns[first : first + _COLUMNS]
        yield f"      {''.join(f'{numbers[column]:>{_WIDTH}}' for column in block)}"
        for row, number in numbers.items():
            cells = (texts.get((row, column), "." if row == column else "") for column in block)
            yield f"  {number:>2}  {''.join(f'{text:>{_WIDTH}}' for text in cells)}".rstrip()


def _failures(cells: Sequence[Cell]) -> Iterator[str]:
    """What failed, each reason once."""
    reasons: dict[str, list[str]] = {}
    for cell in cells:
        if cell.state in ("failed", "broken", "forbidden"):
            reasons.setdefault(cell.text, []).append(f"{cell.step.origin} to {cell.step.target}")
    for reason, ends in reasons.items():
        yield f"  {wording.listed(ends, 3)}: {reason}"


def _faults(outcome: Outcome) -> Iterator[str]:
    for fault in outcome.journal.faults:
        yield f'  the kernel logged during "{fault.during}": {fault.text}'
