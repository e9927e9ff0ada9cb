"""What recorded runs measured, as tables of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hostdoctor.facts.bandwidth import is_host
from hostdoctor.report.model import MeasuredCell

_MOST_LISTED = 64  # of a table that is too wide, its copies one by one

_Kind = tuple[str, bool, bool, bool | None]  # tool, whether latency, both ways, peer access


def measured_lines(cells: Sequence[MeasuredCell], width: int) -> Iterator[str]:
    """One table for each tool and kind of copy, from row to column; nothing where nothing was measured."""
    kinds: dict[_Kind, list[MeasuredCell]] = {}
    for cell in cells:
        kinds.setdefault((cell.tool, cell.latency_us is not None, cell.both_ways, cell.peer_access), []).append(cell)
    for number, (kind, group) in enumerate(kinds.items()):
        if number:
            yield ""
        yield _title(kind)
        yield from _table(group, width)
        if any(cell.data == "wrong" for cell in group):
            yield "WRONG: the data that arrived were not those that were sent, so that the rate says nothing"


def _title(kind: _Kind) -> str:
    tool, is_latency, both_ways, peer_access = kind
    how = {True: ", asked to go directly", False: ", not asked to go directly", None: ""}[peer_access]
    what = "latency of small copies in µs" if is_latency else f"GB/s, {'both ways together' if both_ways else 'one way'}"
    return f"{tool}: {what}{how} (row to column)"


def _table(cells: Sequence[MeasuredCell], width: int) -> Iterator[str]:
    ends = _in_order([*(cell.origin for cell in cells), *(cell.target for cell in cells)])
    rows = [end for end in ends if any(cell.origin == end for cell in cells)]
    columns = [end for end in ends if any(cell.target == end for cell in cells)]
    names = short_names(ends)
    said = {(cell.origin, cell.target): _said(cell) for cell in cells}
    head = max(len(names[row]) for row in rows)
    column = max(*(len(names[each]) for each in columns), *map(len, said.values())) + 1
    if 2 + head + column * len(columns) > width:
        yield from _list(cells, names)
        return
    yield f"  {'':{head}}" + "".join(f"{names[each]:>{column}}" for each in columns)
    for row in rows:
        yield f"  {names[row]:>{head}}" + "".join(f"{said.get((row, each), '-'):>{column}}" for each in columns)


def _list(cells: Sequence[MeasuredCell], names: dict[str, str]) -> Iterator[str]:
    for cell in cells[:_MOST_LISTED]:
        yield f"  {names[cell.origin]} to {names[cell.target]}: {_said(cell)}"
    if len(cells) > _MOST_LISTED:
        yield f"  and {len(cells) - _MOST_LISTED:,} more"


def _said(cell: MeasuredCell) -> str:
    """The figure; none where the data were wrong, since it says nothing."""
    if cell.data == "wrong":
        return "WRONG"
    rate = cell.latency_us if cell.latency_us is not None else cell.gbs
    return "n/a" if rate is None else f"{rate:.1f}"


def _in_order(ends: Iterable[str]) -> list[str]:
    """Each end once, host memory first."""
    found = dict.fromkeys(ends)
    return [*filter(is_host, found), *(each for each in found if not is_host(each))]


def short_names(addresses: Iterable[str]) -> dict[str, str]:
    """Addresses without what those of all functions have in common: the domain 0000 and function 0."""
    listed = list(addresses)
    functions = [each for each in listed if not is_host(each)]
    plain = all(each.startswith("0000:") and each.endswith(".0") for each in functions)
    return {each: each[5:-2] if plain and not is_host(each) else each for each in listed}
