"""What recorded runs measured, as tables of text."""

from __future__ import annotations

from collections.abc import Iterator

from hostdoctor.report.model import HostReport
from hostdoctor.report.tables import Cell, Table, measurements

_MOST_LISTED = 64  # of a table that is too wide, its copies one by one


def measured_lines(host: HostReport, width: int) -> Iterator[str]:
    """A table for each tool and kind of copy, from row to column; nothing where nothing was measured."""
    for number, table in enumerate(measurements(host)):
        if number:
            yield ""
        yield f"{table.caption} (row to column)"
        yield from _rows(table, width)
        yield from (f"  {note}" for note in table.notes)


def _rows(table: Table, width: int) -> Iterator[str]:
    if not table.rows:
        return
    head = max(len(name) for name, _ in table.rows)
    column = max(*(len(name) for name in table.columns), *(len(_said(cell)) for _, cells in table.rows for cell in cells)) + 2
    if 2 + head + column * len(table.columns) > width:
        yield from _list(table)
        return
    yield f"  {'':{head}}" + "".join(f"{name:>{column}}" for name in table.columns)
    for name, cells in table.rows:
        yield f"  {name:>{head}}" + "".join(f"{_said(cell):>{column}}" for cell in cells)


def _list(table: Table) -> Iterator[str]:
    """Too many for the width."""
    told = [
        f"  {name} to {column}: {_said(cell)}"
        for name, cells in table.rows
        for column, cell in zip(table.columns, cells, strict=True)
        if cell.kind != "none"
    ]
    yield from told[:_MOST_LISTED]
    if len(told) > _MOST_LISTED:
        yield f"  and {len(told) - _MOST_LISTED:,} more"


def _said(cell: Cell) -> str:
    return "-" if cell.kind == "none" else f"{cell.text} {cell.more}".rstrip()
