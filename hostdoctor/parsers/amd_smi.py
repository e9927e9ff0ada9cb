"""Output of amd-smi: list, static, metric, topology, xgmi and the overview, as text, JSON and CSV.

Source: ROCm/amdsmi amdsmi_cli of ROCm 6.0 to 7.2 (amdsmi_commands.py, amdsmi_logger.py). Keys are the same in all three
forms but for their case; they moved between sections over the years, so only the sections that decide are looked at. "N/A"
is no value.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from hostdoctor.parsers.amd_pairs import PairCell, What, read_table

_GPU = re.compile(r"GPU: (\d{1,3})\s*\Z")
_FIELD = re.compile(r"\s*([A-Z][A-Z0-9_ ]{0,39}):(?:\s+(\S.*))?\s*\Z")
_ADDRESS = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]\Z")
_NUMBERED = re.compile(r"GPU(\d{1,3})\s+([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])\b")
_OVERVIEW = re.compile(r"\| ([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]) +(\S[^|]*) \|")
_OVERVIEW_NUMBER = re.compile(r"\| {1,6}(\d{1,3})  ")
_OVERVIEW_MEMORY = re.compile(r"\d{1,9}/(\d{1,9}) MB")
_PLATFORM = re.compile(r"\| Platform: (Linux [\w() ]{1,40}?) *\|?\s*\Z")
_VERSION = re.compile(r"\| AMD-SMI (\S{1,40})")
_NO_DRIVER = re.compile(
    r"amdgpu[^.\n]{0,120} not found in modules|Drivers not loaded \(amdgpu|Unable to detect any GPU devices"
)
_MEASURE = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*([A-Za-z/]*)")
_HEX = re.compile(r"0x([0-9a-fA-F]{1,4})\Z")

_TABLES: dict[str, What] = {
    "ACCESS TABLE:": "access",
    "WEIGHT TABLE:": "weight",
    "HOPS TABLE:": "hops",
    "LINK TYPE TABLE:": "link",
    "NUMA BW TABLE:": "bandwidth",
}
_LINK_KEYS: dict[str, What] = {
    "link_status": "access",
    "weight": "weight",
    "num_hops": "hops",
    "link_type": "link",
    "bandwidth": "bandwidth",
}


class AmdSmiRecord(msgspec.Struct):
    """One GPU by amd-smi's number; what is empty, zero or None was not told. Speeds are in GT/s, sizes in bytes."""

    number: int
    line: int
    address: str = ""
    device: int = 0
    name: str = ""
    link_width: int | None = None
    link_speed_gts: float | None = None
    max_width: int | None = None
    max_speed_gts: float | None = None
    replays: int | None = None
    memory_bytes: int | None = None
    numa_affinity: int | None = None


class AmdSmiOutput(msgspec.Struct, frozen=True):
    """What one output tells.

    Attributes:
        gpus: each once.
        cells: of the topology's tables.
        version: of the tool, or empty.
        platform: "Linux Baremetal", "Linux Guest (Passthrough)"; or empty.
        platform_line: where that stands.
        no_driver: the line that says that amdgpu is not loaded.
    """

    gpus: tuple[AmdSmiRecord, ...] = ()
    cells: tuple[PairCell, ...] = ()
    version: str = ""
    platform: str = ""
    platform_line: int = 0
    no_driver: int | None = None


def parse_amd_smi(lines: Sequence[str]) -> AmdSmiOutput:
    """Reads one output, also a cut one."""
    reading = _Reading()
    for number, line in enumerate(lines):
        reading.take(number, line[:400], lines)
    if reading.csv_from is not None:
        reading.read_csv(lines[reading.csv_from :], reading.csv_from)
    return reading.result()


class _Reading:
    """Goes through the lines once."""

    def __init__(self) -> None:
        self._gpus: dict[int, AmdSmiRecord] = {}
        self._cells: list[PairCell] = []
        self._current: AmdSmiRecord | None = None
        self._section = ""
        self._waiting: tuple[int, str, str] | None = None  # of the overview: address and name come before the number
        self._said: dict[str, tuple[int, str]] = {}
        self.csv_from: int | None = None

    def gpu(self, number: int, line: int) -> AmdSmiRecord:
        return self._gpus.setdefault(number, AmdSmiRecord(number, line))

    def take(self, number: int, line: str, lines: Sequence[str]) -> None:
        if line.startswith("|"):
            self._overview(number, line)
        elif what := _TABLES.get(line.strip()):
            self._cells += read_table(lines, number + 1, what)
            self._current = None
        elif found := _GPU.match(line):
            self._current, self._section = self.gpu(int(found[1]), number), ""
        elif found := _NUMBERED.match(line):
            self.gpu(int(found[1]), number).address = found[2].lower()
        elif self.csv_from is None and line.startswith("gpu,"):
            self.csv_from = number
        elif self._current and (field := _FIELD.match(line.rstrip())):
            self._field(self._current, field[1].lower().replace(" ", "_"), field[2])
        elif _NO_DRIVER.search(line):
            self._said.setdefault("no_driver", (number, line))

    def _field(self, gpu: AmdSmiRecord, key: str, value: str | None) -> None:
        if value is None:
            self._section = key
        else:
            note(gpu, self._section, key, value)

    def _overview(self, number: int, line: str) -> None:
        if found := _OVERVIEW.match(line):
            self._waiting = (number, found[1].lower(), found[2].rstrip())
        elif self._waiting and (numbered := _OVERVIEW_NUMBER.match(line)):
            gpu = self.gpu(int(numbered[1]), self._waiting[0])
            gpu.address, gpu.name = self._waiting[1], gpu.name or self._waiting[2]
            if memory := _OVERVIEW_MEMORY.search(line):
                gpu.memory_bytes = int(memory[1]) << 20
            self._waiting = None
        elif platform := _PLATFORM.match(line):
            self._said.setdefault("platform", (number, platform[1]))
        elif version := _VERSION.match(line):
            self._said.setdefault("version", (number, version[1]))

    def read_csv(self, lines: Sequence[str], first: int) -> None:
        """Rows below a heading whose first column is the GPU's number."""
        try:
            rows = list(csv.reader(lines))
        except csv.Error:
            return
        heading = [name.strip().lower() for name in rows[0]]
        for offset, row in enumerate(rows[1:], 1):
            if not row or not re.fullmatch(r"\d{1,3}", row[0]):
                break
            gpu = self.gpu(int(row[0]), first + offset)
            for key, value in zip(heading[1:], row[1:], strict=False):
                note(gpu, "", key.removeprefix("gpu_"), value.strip())

    def result(self) -> AmdSmiOutput:
        platform = self._said.get("platform", (0, ""))
        no_driver = self._said.get("no_driver")
        return AmdSmiOutput(
            tuple(self._gpus.values()),
            tuple(self._cells),
            self._said.get("version", (0, ""))[1],
            platform[1],
            platform[0],
            no_driver[0] if no_driver else None,
        )


def note(gpu: AmdSmiRecord, section: str, key: str, value: str) -> None:
    """One value of one GPU; `section` is empty in CSV, which has none."""
    if key == "bdf" and _ADDRESS.match(value):
        gpu.address = value.lower()
    elif key == "device_id" and (found := _HEX.match(value)):
        gpu.device = int(found[1], 16)
    elif key in ("market_name", "name") and section in ("asic", "") and value != "N/A":
        gpu.name = gpu.name or value
    elif key in ("max_pcie_width", "max_pcie_lanes"):
        gpu.max_width = _count(value)
    elif key == "max_pcie_speed":
        gpu.max_speed_gts = _speed(value)
    elif section in ("pcie", "pcie_info", ""):
        _note_link(gpu, key, value)
    elif (section == "vram" and key == "size") or (section == "mem_usage" and key == "total_vram"):
        gpu.memory_bytes = _bytes(value)
    elif section == "numa" and key == "affinity":
        gpu.numa_affinity = _count(value)


def _note_link(gpu: AmdSmiRecord, key: str, value: str) -> None:
    if key in ("width", "current_lanes", "current_width"):
        gpu.link_width = _count(value)
    elif key in ("speed", "current_speed"):
        gpu.link_speed_gts = _speed(value)
    elif key in ("replay_count", "pcie_replay"):
        gpu.replays = _count(value)
    elif key == "total_vram":
        gpu.memory_bytes = _bytes(value)


def _count(value: str) -> int | None:
    found = re.match(r"\d{1,9}\b", value)
    return int(found[0]) if found else None


def _speed(value: str) -> float | None:
    """GT/s out of "32 GT/s" or "32000 MT/s"; a bare number is in GT/s."""
    found = _MEASURE.match(value)
    if not found:
        return None
    number = float(found[1]) / (1000 if found[2].upper() == "MT/S" else 1)
    return number or None


def _bytes(value: str) -> int | None:
    """Bytes out of "16368 MB", which are MiB (amdsmi.h amdsmi_vram_info_t)."""
    found = _MEASURE.match(value)
    return int(float(found[1])) << 20 if found and found[2].upper() in ("MB", "") and float(found[1]) > 0 else None


def parse_amd_smi_json(data: object) -> AmdSmiOutput | None:
    """The same from --json: a list with one object a GPU, in later versions below "gpu_data".

    Returns None for what is another program's JSON.
    """
    if isinstance(data, Mapping):
        data = data.get("gpu_data", [data] if "gpu" in data else None)
    if not isinstance(data, list):
        return None
    gpus: dict[int, AmdSmiRecord] = {}
    cells: list[PairCell] = []
    for each in data:
        if isinstance(each, Mapping) and isinstance(number := each.get("gpu"), int) and 0 <= number < 1000:
            gpu = gpus.setdefault(number, AmdSmiRecord(number, 0))
            for section, key, value in _leaves(each):
                note(gpu, section, key, value)
            cells += _json_cells(gpu, each.get("links"))
    return AmdSmiOutput(tuple(gpus.values()), tuple(cells)) if gpus else None


def _leaves(data: Mapping[object, object]) -> Iterator[tuple[str, str, str]]:
    """Section, key and text of each value, a section deep; a value with its unit is an object of both."""
    for name, value in data.items():
        if not isinstance(value, (Mapping, list)):
            yield "", str(name), str(value)
        if not isinstance(value, Mapping):
            continue
        for key, inner in value.items():
            yield str(name).lower(), str(key).lower(), _with_unit(inner)


def _with_unit(value: object) -> str:
    return f"{value.get('value')} {value.get('unit', '')}" if isinstance(value, Mapping) else str(value)


def _json_cells(gpu: AmdSmiRecord, links: object) -> Iterator[PairCell]:
    for link in links if isinstance(links, list) else ():
        if not isinstance(link, Mapping):
            continue
        row, column = (str(end) for end in (gpu.address or f"GPU{gpu.number}", link.get("bdf") or f"GPU{link.get('gpu')}"))
        if row != column:
            for key, what in _LINK_KEYS.items():
                if key in link:
                    yield PairCell(row, column, what, str(link[key]), 0)
