"""The P2P matrix and the measured copies as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from hostdoctor.facts.bandwidth import is_host
from hostdoctor.findings import Finding, Outcome
from hostdoctor.report.matrix import letters_of, short_names
from hostdoctor.report.model import HostReport, MeasuredCell, PairReport

_DIGITS_OF_LARGE = 100.0  # from here on one digit after the point says nothing
_SPREAD = 1.02  # measurements nearer to each other than that are one figure


class Cell(msgspec.Struct, frozen=True):
    """One cell.

    Attributes:
        kind: of a prediction "yes", "no", "by-design" (no, and nothing is broken), "suspect"
            (no, and why is not clear), "unknown" or "wrong" (data were, when
            it was measured); of a measurement "value",
            "wrong" (data), "withheld" (data were wrong in another copy between these two), "right" (data, and no figure) or
            "n/a" (the tool gave no figure); "same" for a device and itself;
            "none" where nothing is told.
        text: what stands in it.
        more: a second, smaller line.
        heat: 0 to 1, by the greatest figure of the table.
        title: all of it in words.
    """

    kind: Literal["yes", "no", "by-design", "suspect", "unknown", "value", "wrong", "withheld", "right", "n/a", "same", "none"]
    text: str
    more: str = ""
    heat: float = 0.0
    title: str = ""


class Table(msgspec.Struct, frozen=True):
    """A square of rows by columns; `legend` has a text for each letter."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    legend: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()


# --- predictions ------------------------------------------------------------------------------------------------------


def matrix(host: HostReport, findings: Iterable[Finding] = ()) -> Table | None:
    """The predictions, accessor by owner; None where there are none. The findings tell which of them are faults."""
    findings = tuple(findings)
    judged = {finding.subject: finding.outcome for finding in findings if finding.check == "p2p-pair"}
    wrong = {frozenset(finding.subject) for finding in findings if finding.check == "p2p-data" and finding.outcome == "failure"}
    if not host.pairs:
        return None
    addresses = list(dict.fromkeys(pair.accessor for pair in host.pairs))
    names = short_names(addresses)
    letters = letters_of(host.pairs)
    found = {(pair.accessor, pair.owner): pair for pair in host.pairs}

    def cell(row: str, owner: str) -> Cell:
        if row == owner:
            return Cell("same", "")
        made = _predicted(found.get((row, owner)), letters, judged.get((row, owner)))
        return _with_wrong_data(made) if frozenset((row, owner)) in wrong else made

    rows = tuple((names[row], tuple(cell(row, owner) for owner in addresses)) for row in addresses)
    legend = tuple((letter, f"{_words(host.pairs, reason)}: {reason}") for reason, letter in letters.items())
    return Table("", tuple(names[each] for each in addresses), rows, legend, tuple(_driver_notes(host.pairs)))


def _words(pairs: Sequence[PairReport], reason: str) -> str:
    states = {pair.p2p for pair in pairs if pair.reason == reason}
    return " or ".join(word for state, word in (("fails", "fails"), ("unknown", "not known")) if state in states)


def _predicted(pair: PairReport | None, letters: dict[str, str], outcome: Outcome | None) -> Cell:
    if pair is None:
        return Cell("none", "–", title="not judged")
    title = f"{pair.accessor} reads {pair.owner}: {pair.reason}"
    letter = letters.get(pair.reason, "")
    if pair.p2p == "holds":
        return Cell("yes", "yes", title=title)
    if pair.p2p == "unknown":
        return Cell("unknown", "?", letter, title=title)
    kind: Literal["by-design", "suspect", "no"]
    kind = "by-design" if outcome == "info" else "suspect" if outcome == "warning" else "no"
    return Cell(kind, "no", letter, title=title)


def _with_wrong_data(cell: Cell) -> Cell:
    """A cell of two GPUs between which data arrived wrong: what is expected of them is not in order."""
    more = ", ".join(part for part in (cell.more, "wrong data") if part)
    return msgspec.structs.replace(cell, kind="wrong", more=more, title=f"{cell.title}; measured: data arrive wrong")


def _driver_notes(pairs: Sequence[PairReport]) -> Iterator[str]:
    told = [pair for pair in pairs if pair.driver_says is not None]
    if not told:
        yield "The driver's own verdict is not known: this is worked out from the hardware, the firmware and the kernel."
        return
    grants = sum(pair.driver_says is True for pair in told)
    yield f"The driver itself grants {grants} of the {len(told)} ordered pairs it tells of."


# --- measurements -----------------------------------------------------------------------------------------------------


def measurements(host: HostReport) -> list[Table]:
    """A table for each tool and kind of copy, rates before latencies."""
    kinds: dict[tuple[bool, str, bool], list[MeasuredCell]] = {}
    for cell in host.measured:
        kinds.setdefault((cell.latency_us is not None, cell.tool, cell.both_ways), []).append(cell)
    order = {gpu.address: number for number, gpu in enumerate(host.gpus)}
    return [
        _measured(cells, order)
        for _, of_kind in sorted(kinds.items(), key=lambda item: item[0][0])
        for cells in _by_access(of_kind)
    ]


def _by_access(cells: Sequence[MeasuredCell]) -> list[list[MeasuredCell]]:
    """Direct and staged copies apart where a way was measured as both; else together, as the tool prints them."""
    if len({(cell.origin, cell.target) for cell in cells}) == len(cells):
        return [list(cells)]
    found: dict[bool | None, list[MeasuredCell]] = {}
    for cell in cells:
        found.setdefault(cell.peer_access, []).append(cell)
    return list(found.values())


def _measured(cells: Sequence[MeasuredCell], order: dict[str, int]) -> Table:
    def place(end: str) -> tuple[bool, int, str]:
        return not is_host(end), order.get(end, len(order)), end

    notes = tuple(_data_notes(cells))
    accesses = {cell.peer_access for cell in cells}
    caption = _caption(cells[0], cells[0].peer_access if len(accesses) == 1 else None)
    if not any(_says_something(cell) for cell in cells):
        return Table(caption, (), (), notes=(f"N/A for each of the {len(cells)} ways: the tool gave no figure.",))
    origins = sorted({cell.origin for cell in cells}, key=place)
    targets = sorted({cell.target for cell in cells}, key=place)
    names = _names([*origins, *targets])
    found = {(cell.origin, cell.target): cell for cell in cells}
    most = max((cell.gbs for cell in cells if cell.gbs is not None and _counts(cell)), default=0.0)
    rows = tuple(
        (names[origin], tuple(_figure(found.get((origin, target)), most, len(accesses) > 1) for target in targets))
        for origin in origins
    )
    return Table(caption, tuple(names[each] for each in targets), rows, notes=notes)


def _says_something(cell: MeasuredCell) -> bool:
    return cell.gbs is not None or cell.latency_us is not None or cell.data != "not-compared" or cell.withheld


def _counts(cell: MeasuredCell) -> bool:
    """Whether the scale of colours looks at it: not at copies inside a device, nor at wrong ones."""
    return cell.origin != cell.target and cell.data != "wrong"


def _names(ends: Sequence[str]) -> dict[str, str]:
    gpus = [end for end in dict.fromkeys(ends) if not is_host(end)]
    names = short_names(gpus) if gpus else {}
    return {end: end.replace(":", " ") if is_host(end) else names[end] for end in dict.fromkeys(ends)}


def _caption(cell: MeasuredCell, peer_access: bool | None) -> str:
    what = "latency of small copies, µs" if cell.latency_us is not None else "GB/s"
    ways = "both directions at once, added up" if cell.both_ways else "one direction"
    access = {True: ", asked to go directly", False: ", staged through the host", None: ""}[peer_access]
    return f"{cell.tool or 'measured'}: {ways}{access}, {what}"


def _figure(cell: MeasuredCell | None, most: float, is_mixed: bool) -> Cell:
    if cell is None:
        return Cell("none", "–", title="not measured")
    title = f"{cell.origin} to {cell.target}, {cell.source}"
    if cell.data == "wrong":
        return Cell("wrong", "wrong", "data", title=f"{title}: the data that arrived are wrong")
    if cell.withheld:
        why = "data arrived wrong in another copy between these two, so no rate is given"
        return Cell("withheld", "withheld", title=f"{title}: {why}")
    if cell.latency_us is not None:
        return Cell("same" if cell.origin == cell.target else "value", _number(cell.latency_us), title=title)
    if cell.gbs is None:
        is_test = cell.data == "right" and not cell.both_ways
        return Cell("right", "right", "no rate", title=title) if is_test else Cell("n/a", "N/A", title=title)
    if cell.origin == cell.target:
        return Cell("same", _number(cell.gbs), title=f"{title}: inside the device")
    more = "staged" if is_mixed and cell.peer_access is False else _spread(cell)
    return Cell("value", _number(cell.gbs), more, cell.gbs / most if most else 0.0, title)


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= _DIGITS_OF_LARGE else f"{value:.1f}"


def _spread(cell: MeasuredCell) -> str:
    low, high = cell.lowest_gbs, cell.highest_gbs
    return "" if low is None or high is None or high <= low * _SPREAD else f"to {_number(high)}"


def _data_notes(cells: Sequence[MeasuredCell]) -> Iterator[str]:
    """What is known of the data; a rate alone proves nothing."""
    ways = [cell for cell in cells if cell.latency_us is None and cell.origin != cell.target]
    wrong, right = (sum(cell.data == word for cell in ways) for word in ("wrong", "right"))
    withheld = sum(cell.withheld and cell.data != "wrong" for cell in ways)
    if wrong:
        yield f"Wrong data: no rate is shown for {wrong} of {len(ways)} copies."
    if withheld:
        yield f"Withheld for {withheld} of {len(ways)} copies: data arrived wrong in another copy between the same two."
    if ways and right == len(ways):
        yield "What arrived was compared with what was sent, and was right in every copy."
    elif right:
        yield f"Data were compared and right in {right} of {len(ways)} copies."
    elif ways and not wrong and not withheld:
        yield "Nothing compared what arrived with what was sent."
