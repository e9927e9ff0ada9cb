"""Finds private columns in comma-separated values, as nvidia-smi, amd-smi and rocm-smi print them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hostdoctor.redaction import rules

_MOST_COLUMNS = 300  # amd-smi has about 150
_NUMBER = re.compile(r"[\w-]{3,64}")  # not the words of a sentence that has as many commas
_TELLING = ("serial", "unique", "pdi")


def private_cells(text: str) -> Iterator[tuple[int, int]]:
    """Where serial numbers stand, by start and end: in rows of as many cells as the line of names above them."""
    lowered = text.lower()
    if "," not in text or not any(word in lowered for word in _TELLING):
        return
    width, at = 0, 0
    private: tuple[int, ...] = ()
    for line in text.splitlines(keepends=True):
        cells = line.split(",", _MOST_COLUMNS)
        if len(cells) == width:
            spans = [*_spans(cells, at)]
            yield from (spans[column] for column in private if _NUMBER.fullmatch(text, *spans[column]))
        else:
            private = _private_columns(cells)
            width = len(cells) if private else 0
        at += len(line)


def _private_columns(cells: list[str]) -> tuple[int, ...]:
    if len(cells) < 2:
        return ()
    return tuple(number for number, cell in enumerate(cells) if rules.KEYS["serial"].fullmatch(cell.strip(' \t\r\n"')))


def _spans(cells: list[str], at: int) -> Iterator[tuple[int, int]]:
    for cell in cells:
        bare = cell.strip(' \t\r\n"')
        start = at + cell.find(bare)
        yield start, start + len(bare)
        at += len(cell) + 1
