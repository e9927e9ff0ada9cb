"""Tables that AMD's tools print of pairs of GPUs: one row and one column a GPU, each named by number or PCI address.

A row is where a link begins and a column where it ends (rocm_smi.py showTypeTopology, amdsmi_commands.py topology): the
accessor and the owner, in the words of this program.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

What = Literal["access", "link", "hops", "weight", "bandwidth"]

_LABEL = re.compile(r"(?:GPU\d{1,3}|(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])\Z")
_MOST_COLUMNS = 128

_ALLOWED = {"TRUE": True, "ENABLED": True, "FALSE": False, "DISABLED": False}
_LINKS = {"XGMI": "XGMI", "PCIE": "PCIE"}


class PairCell(NamedTuple):
    """One cell beside the diagonal, with its line in the part."""

    row: str
    column: str
    what: What
    text: str
    line: int


def allowed(text: str) -> bool | None:
    """What a cell of access says; None where it says nothing, as "N/A" does."""
    return _ALLOWED.get(text.upper())


def link_type(text: str) -> str:
    """What a cell of link types says: "XGMI", "PCIE" or nothing."""
    return _LINKS.get(text.upper(), "")


def labels(line: str) -> list[str]:
    """The names of a heading that names nothing but GPUs; empty for any other line."""
    words = line.split()
    if not words or len(words) > _MOST_COLUMNS or not all(map(_LABEL.match, words)):
        return []
    return words


def read_table(lines: Sequence[str], start: int, what: What) -> list[PairCell]:
    """The cells of the table whose heading is the first filled line from `start` on; cut rows give what they have."""
    columns: list[str] = []
    cells: list[PairCell] = []
    for number in range(start, len(lines)):
        words = lines[number].split()
        if not words:
            continue
        if not columns:
            columns = labels(lines[number])
            if not columns:
                return []
            continue
        if not _LABEL.match(words[0]) or len(words) == 1 or labels(lines[number]):
            break
        pairs = zip(columns, words[1:], strict=False)
        cells += [PairCell(words[0], column, what, text, number) for column, text in pairs if column != words[0]]
    return cells
