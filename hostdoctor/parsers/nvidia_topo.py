"""The matrices of `nvidia-smi topo -m` and `topo -p2p`, and the codes in them.

Sources: nvidia-smi(1) of driver 550, topo; nvml.h nvmlGpuTopologyLevel_t and nvmlGpuP2PStatus_t.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

# nvmlGpuTopologyLevel_t; SOC is what drivers before 387 print for SYS.
LEVELS = {"PSB": 0, "PIX": 10, "PXB": 20, "PHB": 30, "NODE": 40, "SYS": 50, "SOC": 50}
# nvmlGpuP2PStatus_t.
STATUS = {"OK": 0, "CNS": 1, "GNS": 2, "TNS": 3, "DR": 4, "NS": 5, "U": 6}

_NVLINK = re.compile(r"NV\d{1,3}")
_COLUMN = re.compile(r"[A-Za-z][\w.-]{0,31}$")
_GPU = re.compile(r"GPU\d{1,3}$")
_AFTER_COLUMNS = ("CPU", "NUMA", "GPU")  # of "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"
_NODE = re.compile(r"\d{1,4}")
_MOST_ROWS = 64


class Matrix(msgspec.Struct, frozen=True):
    """One matrix.

    Attributes:
        line: of its first row, from 0.
        gpus: the GPUs of its columns, "GPU0".
        cells: by row and column, GPUs only, as they stand there.
        rows: the line of each row, by its GPU.
        numa_nodes: by GPU, where one is named.
    """

    line: int
    gpus: tuple[str, ...]
    cells: Mapping[tuple[str, str], str]
    rows: Mapping[str, int]
    numa_nodes: Mapping[str, int]

    @property
    def is_p2p(self) -> bool:
        """Whether it shows what the driver grants, rather than how the GPUs are connected."""
        return any(cell in STATUS for cell in self.cells.values())


def parse_matrices(lines: Sequence[str]) -> list[Matrix]:
    """Every matrix in some lines whose cells are all codes that nvidia-smi has; one may have lost its heading."""
    found = []
    at = 0
    while at < len(lines):
        columns, start = _columns(lines[at]), at + 1
        if not columns:
            columns, start = _columns_of_row(lines[at]), at
        if columns:
            matrix, at = _matrix(lines, start, columns, "NUMA Affinity" in lines[at])
            if matrix is not None:
                found.append(matrix)
        else:
            at += 1
    return found


def _columns(line: str) -> list[str]:
    """The columns of a heading: GPUs, then network cards; empty where the line is none."""
    words = line.split()
    if not words or words[0] != "GPU0":
        return []
    end = next((n for n, word in enumerate(words) if word in _AFTER_COLUMNS), len(words))
    return words[:end] if all(_COLUMN.match(word) and not _is_code(word) for word in words[:end]) else []


def _columns_of_row(line: str) -> list[str]:
    """The columns that the first row of a matrix tells, where it has no heading: as many GPUs as it has codes."""
    words = line.split()
    if words[:2] != ["GPU0", "X"]:
        return []
    codes = next((n for n, word in enumerate(words[1:]) if not _is_code(word)), len(words) - 1)
    return [f"GPU{n}" for n in range(codes)] if codes > 1 else []


def _is_code(word: str) -> bool:
    return word == "X" or word in LEVELS or word in STATUS or bool(_NVLINK.fullmatch(word))


def _matrix(lines: Sequence[str], start: int, columns: list[str], has_node: bool) -> tuple[Matrix | None, int]:
    """The matrix whose first row is at `start`, and the line after it."""
    gpus = tuple(column for column in columns if _GPU.match(column))
    cells: dict[tuple[str, str], str] = {}
    rows: dict[str, int] = {}
    nodes: dict[str, int] = {}
    at = start
    while at < len(lines) and len(rows) < _MOST_ROWS:
        words = lines[at].split()
        if not words or words[0] not in columns or len(words) <= len(columns):
            break
        row, values = words[0], words[1 : len(columns) + 1]
        if not all(map(_is_code, values)):  # another tool's table, or where the paste was cut
            at += 1
            break
        if row in gpus:
            rows[row] = at
            cells.update({(row, column): value for column, value in zip(columns, values, strict=True) if column in gpus})
            node = _numa_node(lines[at], len(columns)) if has_node else None
            if node is not None:
                nodes[row] = node
        at += 1
    complete = {pair: cell for pair, cell in cells.items() if pair[0] != pair[1]}
    return (Matrix(start, gpus, complete, rows, nodes) if rows else None), max(at, start)


def _numa_node(line: str, columns: int) -> int | None:
    """The node after the cells and the CPU list; None where the firmware names none, or several are meant."""
    fields = [field.strip() for field in line.split("\t")] if "\t" in line.strip() else line.split()
    rest = fields[columns + 1 :]
    if len(rest) < 2 or not _NODE.fullmatch(rest[1]):
        return None
    return int(rest[1])


def nvlinks_of(cell: str) -> int:
    """How many NVLinks a cell says, of "NV18"; 0 for other cells."""
    return int(cell[2:]) if _NVLINK.fullmatch(cell) else 0
