"""Tables of numbers as bandwidth tools print them: a line of column numbers, and rows that begin with theirs.

Shared by the formats that print such tables. Pastes wrap wide rows and end anywhere; an N/A is no zero.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

# More than any link carries both ways together (NVLink 5: 1,800 GB/s); what is above was timed wrongly.
MOST_GBS = 4_000.0
_CELL = re.compile(r"(?:N/A|PASS|FAIL|[PX]|[-+]?(?:nan|inf)|[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?)\Z", re.IGNORECASE)
_WHOLE = re.compile(r"\d{1,4}\Z")
WIDEST = 128  # devices of one host that are read, far more than any has


class Matrix(msgspec.Struct):
    """A table.

    Attributes:
        columns: their numbers, as printed.
        rows: the cells of each row, by its number; a row of a cut paste is shorter than the columns.
        lines: the line that each row begins at.
        end: the first line that is not part of it.
    """

    columns: list[int]
    rows: dict[int, list[str]]
    lines: dict[int, int]
    end: int

    @property
    def is_cut(self) -> bool:
        """Whether rows or cells are missing of a square table."""
        return len(self.rows) < len(self.columns) or any(len(row) < len(self.columns) for row in self.rows.values())

    def cells(self) -> Iterator[tuple[int, int, str, int]]:
        """Row, column, text and line of each cell."""
        for row, texts in self.rows.items():
            for column, text in zip(self.columns, texts, strict=False):
                yield row, column, text, self.lines[row]


def read_matrix(lines: Sequence[str], at: int, corner: str = "") -> Matrix | None:
    """The table whose head is the next line that is not empty; None where that is no head.

    Args:
        lines: of the part.
        at: where to begin.
        corner: what stands before the column numbers ("D/D"); a regular expression, or empty where nothing does.
    """
    while at < len(lines) and not lines[at].strip():
        at += 1
    if at >= len(lines):
        return None
    head = re.match(rf"\s*{corner}(?P<columns>(?:\s+\d{{1,4}})+)\s*\Z", lines[at] if corner else f" {lines[at]}")
    if head is None:
        return None
    columns = [int(text) for text in head["columns"].split()]
    matrix = Matrix(columns[:WIDEST], {}, {}, at + 1)
    _read_rows(matrix, lines)
    return matrix


def _read_rows(matrix: Matrix, lines: Sequence[str]) -> None:
    row: int | None = None
    for at in range(matrix.end, len(lines)):
        tokens = lines[at].split()
        if not tokens:
            continue
        if len(tokens) > WIDEST + 1 or not all(_CELL.match(token) for token in tokens):
            break
        if row is None and _continues_head(matrix.columns, tokens):
            matrix.columns += [int(token) for token in tokens]
        elif (row := _place(matrix, row, tokens, at)) is None:
            break
        matrix.end = at + 1
    if matrix.rows and matrix.end == len(lines):
        last = list(matrix.rows.values())[-1]
        if len(last) < len(matrix.columns) or not lines[-1].endswith(" "):
            drop_broken_end(last, [cell for row in matrix.rows.values() for cell in row])


def _continues_head(columns: list[int], tokens: list[str]) -> bool:
    """Whether a line goes on counting the columns, as where a window wrapped the head; it may have cut a number in two."""
    if len(columns) + len(tokens) > WIDEST:
        return False
    broken = len(columns) > 1 and columns[-1] != columns[-2] + 1
    if broken and f"{columns[-1]}{tokens[0]}" == str(columns[-2] + 1):
        columns[-1] = columns[-2] + 1
        tokens.pop(0)
    first = columns[-1] + 1
    return tokens == [str(number) for number in range(first, first + len(tokens))]


def _place(matrix: Matrix, row: int | None, tokens: list[str], at: int) -> int | None:
    """Put a line's cells where they belong; the row they are of, or None where the line is not of this table."""
    width = len(matrix.columns)
    if row is not None and len(tokens) <= width:
        _mend(matrix.rows[row], tokens)
        if len(tokens) <= width - len(matrix.rows[row]):
            matrix.rows[row] += tokens
            return row
    if not _WHOLE.match(tokens[0]) or int(tokens[0]) in matrix.rows or len(tokens) > width + 1:
        return None
    new = int(tokens[0])
    matrix.rows[new], matrix.lines[new] = tokens[1:], at
    return new


def _mend(row: list[str], tokens: list[str]) -> None:
    """Join the two halves of a number that a wrapped line cut: "10.1" and "0" where all others have two decimals."""
    if len(row) < 2 or not tokens:
        return
    wanted, halves = _decimals(row[0]), row[-1] + tokens[0]
    if wanted and _decimals(row[-1]) < wanted and _CELL.match(halves) and _decimals(halves) == wanted:
        row[-1] = halves
        tokens.pop(0)


def _decimals(text: str) -> int:
    return len(text.partition(".")[2])


def drop_broken_end(cells: list[str], others: Sequence[str]) -> None:
    """Take the last number of a paste away where the paste ends inside it: "12.9" where the others are like "12.984"."""
    wanted = {decimals for cell in others if (decimals := _decimals(cell))}
    if cells and wanted and _number(cells[-1]) is not None and _decimals(cells[-1]) < max(wanted):
        cells.pop()


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def bandwidth(text: str, *, inside: bool = False) -> float | None:
    """GB/s of a cell; None for N/A, NaN and what no link carries (inside one device there is no such limit).

    Every tool prints decimals: what has none is the beginning of a number that the paste cut.
    """
    value = _number(text) if "." in text else None
    return value if value is not None and (inside or value <= MOST_GBS) else None


def microseconds(text: str) -> float | None:
    """A latency; None where it was not measured, which 0 says too."""
    return _number(text) or None


def as_flag(text: str) -> bool | None:
    """1 and 0 of a table of access; None for anything else."""
    flags: Mapping[str, bool] = {"1": True, "0": False}
    return flags.get(text)
