"""Output of rocm-smi, as text and as JSON.

Source: ROCm/rocm_smi_lib python_smi_tools/rocm_smi.py of ROCm 4 to 7: printLog ("GPU[0]<tabs>: key: value"),
showAllConcise, the show*Topology functions and formatMatrixToJSON. "0-0" of --shownodesbw says that two GPUs are not
joined directly, and N/A that nothing is known: neither is a bandwidth.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from hostdoctor.parsers.amd_pairs import PairCell, What, read_table

_OF_GPU = re.compile(r"GPU\[(\d{1,3})\]\s{0,8}:\s{0,8}(\S.*)\Z")
_CONCISE = re.compile(r"(?:GPU|Device)\s+(?:Temp|Node|\[Model|IDs)")
_ROW = re.compile(r"(\d{1,3})\s{1,20}(?:\d{1,3}\s+)?\[?(?:0x([0-9a-fA-F]{4})\b)?")
_HEX = re.compile(r"0x([0-9a-fA-F]{4})\Z")
_PAIR_KEY = re.compile(r"\(Topology\) (Weight|Hops|Link type|Link accessibility) between DRM devices (\d{1,3}) and (\d{1,3})\Z")
_CARD_KEY = re.compile(r"card(\d{1,3})\Z")
_NO_DRIVER = "amdgpu not found in modules"

_TABLES: tuple[tuple[str, What], ...] = (
    (" Weight between two GPUs ", "weight"),
    (" Hops between two GPUs ", "hops"),
    (" Link Type between two GPUs ", "link"),
    (" Link accessibility between two GPUs ", "access"),
    (" Bandwidth ", "bandwidth"),
)
_JSON_TABLES: dict[str, What] = {"Weight": "weight", "Hops": "hops", "Link type": "link", "Link accessibility": "access"}


class RocmSmiGpu(msgspec.Struct):
    """One GPU by rocm-smi's number; what is empty, zero or None was not told. Sizes are in bytes."""

    number: int
    line: int
    address: str = ""
    device: int = 0
    name: str = ""
    vram_bytes: int | None = None
    visible_vram_bytes: int | None = None
    numa_affinity: int | None = None
    replays: int | None = None


class RocmSmi(msgspec.Struct, frozen=True):
    """What one output tells; `no_driver` is the line that says that amdgpu is not loaded."""

    gpus: tuple[RocmSmiGpu, ...] = ()
    cells: tuple[PairCell, ...] = ()
    no_driver: int | None = None


def parse_rocm_smi(lines: Sequence[str]) -> RocmSmi:
    """Reads one output, also a cut one."""
    gpus: dict[int, RocmSmiGpu] = {}
    cells: list[PairCell] = []
    no_driver: int | None = None
    in_concise = False
    for number, line in enumerate(lines):
        if found := _OF_GPU.match(line[:300]):
            gpu = gpus.setdefault(int(found[1]), RocmSmiGpu(int(found[1]), number))
            key, _, value = found[2].partition(": ")
            _note(gpu, key, value.strip())
        elif line.startswith("="):
            in_concise = in_concise and not gpus
            what = next((what for heading, what in _TABLES if heading in line), None)
            if what:
                cells += read_table(lines, number + 1, what)
        elif _CONCISE.match(line):
            in_concise = True
        elif in_concise and (row := _ROW.match(line)):
            gpu = gpus.setdefault(int(row[1]), RocmSmiGpu(int(row[1]), number))
            gpu.device = gpu.device or int(row[2] or "0", 16)
        elif _NO_DRIVER in line:
            no_driver = number if no_driver is None else no_driver
    _add_named(gpus, cells)
    return RocmSmi(tuple(gpus.values()), tuple(cells), no_driver)


def _add_named(gpus: dict[int, RocmSmiGpu], cells: Sequence[PairCell]) -> None:
    """The GPUs that only a table names."""
    for cell in cells:
        for label in (cell.row, cell.column):
            if label.startswith("GPU"):
                gpus.setdefault(int(label[3:]), RocmSmiGpu(int(label[3:]), cell.line))


def _note(gpu: RocmSmiGpu, key: str, value: str) -> None:
    """One fact about a GPU, in the spellings of all versions."""
    key = key.strip().casefold().removeprefix("(topology) ")
    if key == "pci bus":
        gpu.address = value.split(maxsplit=1)[0].lower() if value else ""
    elif key in ("gpu id", "device id") and (found := _HEX.match(value)):
        gpu.device = int(found[1], 16)
    elif key in ("card series", "device name"):
        gpu.name = gpu.name or value
    elif key in _COUNTS:
        setattr(gpu, _COUNTS[key], _integer(value))


_COUNTS = {
    "vram total memory (b)": "vram_bytes",
    "vis_vram total memory (b)": "visible_vram_bytes",
    "numa affinity": "numa_affinity",
    "pcie replay count": "replays",
}


def _integer(value: str) -> int | None:
    return int(value) if re.fullmatch(r"-?\d{1,18}", value) else None


def parse_rocm_smi_json(data: object) -> RocmSmi | None:
    """The same from --json: an object with a key for each card, "card0", and one for the pairs, "system".

    Returns None for what is another program's JSON. Of a pair only one direction is printed; the type of its link is that
    of the other too.
    """
    if not isinstance(data, Mapping) or not any(_CARD_KEY.match(str(key)) or key == "system" for key in data):
        return None
    gpus: dict[int, RocmSmiGpu] = {}
    cells: list[PairCell] = []
    for name, facts in data.items():
        if not isinstance(facts, Mapping):
            continue
        if card := _CARD_KEY.match(str(name)):
            gpu = gpus.setdefault(int(card[1]), RocmSmiGpu(int(card[1]), 0))
            for key, value in facts.items():
                _note(gpu, str(key), str(value).strip())
        elif name == "system":
            cells += _json_cells(facts)
    _add_named(gpus, cells)
    return RocmSmi(tuple(gpus.values()), tuple(cells)) if gpus else None


def _json_cells(facts: Mapping[object, object]) -> list[PairCell]:
    cells = []
    for key, value in facts.items():
        if found := _PAIR_KEY.match(str(key)):
            ends = (f"GPU{int(found[2])}", f"GPU{int(found[3])}")
            what = _JSON_TABLES[found[1]]
            cells.append(PairCell(ends[0], ends[1], what, str(value), 0))
            if what == "link":
                cells.append(PairCell(ends[1], ends[0], what, str(value), 0))
    return [cell for cell in cells if cell.row != cell.column]
