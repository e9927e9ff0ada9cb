"""The output of TransferBench: its presets p2p and a2a and single Transfers, as text and as CSV; also that of
`rocm_bandwidth_test run tb` of ROCm 7, which is the same engine.

GB/s are 10^9 bytes and averages, whatever the heading says. GPUs are numbered as HIP numbers them, processors by memory
node. A bidirectional table has a row for each direction and one for their sum. What a processor copies with its own threads
says little of a link.

Source: github.com/ROCm/TransferBench, src/client/Presets (PeerToPeer.hpp, AllToAll.hpp), Client.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from hostdoctor.facts.bandwidth import Device, Engine, Run, Transfer, Verification, host_node, is_host, renamed
from hostdoctor.facts.driver import PairWord
from hostdoctor.parsers.matrix import bandwidth, drop_broken_end
from hostdoctor.parsers.paste import Part

TOOL = "TransferBench"

_Initiator = Literal["origin", "target", ""]

_VERSION = re.compile(r".*TransferBench(?: \(Plugin\))? v(?P<version>\d[\w.]{0,20})")
_SIZE = re.compile(r"\s*Bytes Per Direction\s*(?P<size>\d{1,15})\s*\Z")
_P2P = re.compile(
    r"\s*(?P<kind>Uni|Bi)directional copy peak bandwidth GB/s \[(?P<how>Local|Remote) read / \w+ write\]"
    r"(?: \(GPU-Executor: (?P<executor>GFX|DMA)\))?"
)
_P2P_HEAD = re.compile(r"\s*SRC(?:\+EXE)?\\(?:EXE\+)?DST\b(?P<columns>.*)")
_COLUMN = re.compile(r"\b(CPU|GPU) (\d{2,3})\b")
_P2P_ROW = re.compile(r"\s*(?P<type>CPU|GPU) (?P<number>\d{2,3})\s+(?P<arrow><->|->|<-)\s(?P<cells>.*)")
_A2A = re.compile(r"\s*Summary: \[\d{1,15} bytes per Transfer\](?: \[(?P<executor>GFX|DMA))?")
_A2A_ROW = re.compile(r"\s*GPU (?P<number>\d{2,3})\s(?P<cells>.*)")
_TEST = re.compile(r"\s*Test \d{1,6}:")
_TRANSFER = re.compile(
    r"\s*Transfer \d{1,6}\s*\|\s*(?P<gbs>[\d.]+) GB/s\s*\|[^|]*\|\s*(?P<size>\d{1,15}) bytes\s*\|"
    r"\s*(?P<source>\w+) -> (?P<executor>[A-Z])\w*(?P<number>\d{2,4}):\S+ -> (?P<target>\w+)"
)
_ENGINES: dict[str, Engine] = {"DMA": "copy-engine", "GFX": "kernel"}
# How the tool names memory in a Transfer: on a processor's node, or on a GPU (TransferBench.hpp MemTypeStr).
_HOST_MEMORY, _GPU_MEMORY = "CB", "GFU"
_MEMORY = re.compile(r"(?P<type>[A-Z])(?P<number>\d{1,3})\Z")
_VALIDATES = re.compile(r"\s*ALWAYS_VALIDATE\s*[=,]\s*\d\s*[:,]\s*Validating after")
# Of the second GPU to the first's memory, as EnablePeerAccess prints its arguments.
_NO_ACCESS = re.compile(r"\s*\[ERROR\] Unable to enable peer access from GPU devices (?P<peer>\d{1,3}) to (?P<own>\d{1,3})\b")


# A GPU's row in the tool's list of links, which it prints when called without arguments.
_TOPOLOGY_ROW = re.compile(r"\s*GPU (?P<number>\d{2,3})\s*\|(?P<cells>.*)")
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z", re.IGNORECASE)
_LINK = re.compile(r"(?P<type>PCIE|XGMI)-\d{1,2}\Z")


class _Table(NamedTuple):
    """A table that is open."""

    kind: Literal["uni", "bi", "a2a"]
    engine: Engine
    remote_read: bool
    columns: tuple[str, ...]


def parse(part: Part) -> Run | None:
    """The run; None where nothing of it is left."""
    reading = _Reading(part)
    reading.read()
    return reading.run()


class _Reading:
    """Goes through the lines once."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._version = ""
        self._size: int | None = None
        self._transfers: list[Transfer] = []
        self._test: list[Transfer] = []
        self._table: _Table | None = None
        self._expected = self._rows = 0
        self._validates = False
        self._mismatches: list[Verification] = []
        self._addresses: dict[str, str] = {}
        self._words: list[PairWord] = []
        self._cut = False

    def read(self) -> None:
        """Understand everything."""
        for at, line in enumerate(self._part.lines):
            self._read_line(line[:8192].replace(",", " "), at)
        self._close_table()
        self._close_test()

    def run(self) -> Run | None:
        """What was understood."""
        if not (self._transfers or self._mismatches or self._addresses or self._words):
            return None
        ends = [end for each in self._transfers for end in (each.origin, each.target)]
        ends += [end for word in self._words for end in (word.accessor, word.owner)]
        places = dict.fromkeys((*self._addresses, *ends))
        devices = [Device(place, _number(place), "", not is_host(place), self._part.where()) for place in places]
        found = Run(
            TOOL,
            self._version,
            self._part.where(),
            tuple(sorted(devices, key=lambda each: (each.is_gpu, each.number))),
            tuple(self._transfers),
            tuple(self._verified()),
            tuple(self._words),
            self._cut,
        )
        return renamed(found, self._addresses)

    def _verified(self) -> Iterator[Verification]:
        """Every Transfer's data are compared when it is over, and a mismatch ends the run before figures are printed."""
        yield from self._mismatches
        if self._validates and not self._mismatches:
            text = "compared after all iterations, no mismatch"
            for each in self._transfers:
                if each.gbs is not None and each.origin != each.target and not each.both_ways:
                    yield Verification(each.origin, each.target, True, text, each.source)

    def _read_line(self, line: str, at: int) -> None:
        if version := _VERSION.match(line):
            self._version = self._version or version["version"]
        elif size := _SIZE.match(line):
            self._size = int(size["size"])
        elif _VALIDATES.match(line):
            self._validates = True
        elif "error" in line.lower():
            self._read_error(line, at)
        elif table := _opened(line):
            self._close_table()
            self._table = table
        elif transfer := _TRANSFER.match(line):
            self._add_transfer(transfer, at)
        elif topology := _TOPOLOGY_ROW.match(line):
            self._read_topology(topology, at)
        elif _TEST.match(line):
            self._close_test()
        elif self._table is not None:
            self._read_in_table(self._table, line, at)

    def _read_error(self, line: str, at: int) -> None:
        """What ends the run: a pair without access, or data that arrived wrong."""
        if refused := _NO_ACCESS.match(line):
            ends = (f"GPU{int(refused['own'])}", f"GPU{int(refused['peer'])}")
            self._words.append(PairWord(*ends, False, line.strip()[:120], self._part.where(at)))
        elif "mismatch" in line.lower().partition("error")[2]:
            self._mismatches.append(Verification("", "", False, line.strip()[:200], self._part.where(at)))

    def _read_topology(self, row: re.Match[str], at: int) -> None:
        """The address of a GPU and its links to the others."""
        name = _place("GPU", row["number"])
        for column, text in enumerate(map(str.strip, row["cells"].split("|"))):
            if _ADDRESS.match(text):
                self._addresses[name] = _padded(text)
            elif link := _LINK.match(text):
                self._words.append(PairWord(name, f"GPU{column}", None, text, self._part.where(at), link["type"]))

    # --- tables -------------------------------------------------------------------------------------------------------

    def _read_in_table(self, table: _Table, line: str, at: int) -> None:
        if head := _P2P_HEAD.match(line):
            columns = tuple(_place(*column) for column in _COLUMN.findall(head["columns"]))
            self._table = table._replace(columns=columns)
            self._expected, self._rows = len([each for each in columns if not is_host(each)]), 0
        elif table.kind == "a2a" and (row := _A2A_ROW.match(line)):
            self._add_row(table, _place("GPU", row["number"]), "->", row["cells"], at)
        elif table.kind != "a2a" and (row := _P2P_ROW.match(line)):
            self._add_row(table, _place(row["type"], row["number"]), row["arrow"], row["cells"], at)

    def _close_table(self) -> None:
        """A table that is over must have had a row for each GPU."""
        if self._table is not None and (not self._table.columns or self._rows < self._expected):
            self._cut = True
        self._table = None

    def _add_row(self, table: _Table, row: str, arrow: str, text: str, at: int) -> None:
        cells = text.split()
        if at == len(self._part.lines) - 1:
            drop_broken_end(cells, cells)
        if len(cells) < len(table.columns):
            self._cut = True
        elif not is_host(row) and arrow != "<-":
            self._rows += 1 if table.kind != "bi" or arrow == "<->" else 0
        for column, cell in zip(table.columns, cells, strict=False):
            origin, target = (column, row) if arrow == "<-" else (row, column)
            if not (is_host(origin) and is_host(target)):
                found = _cell(table, origin, target, cell, both_ways=arrow == "<->")
                self._transfers.append(msgspec.structs.replace(found, size_bytes=self._size, source=self._part.where(at)))

    # --- single Transfers ---------------------------------------------------------------------------------------------

    def _add_transfer(self, found: re.Match[str], at: int) -> None:
        ends = [_memory(found["source"]), _memory(found["target"])]
        executor = _place("CPU" if found["executor"] == "C" else "GPU", found["number"])
        initiator: _Initiator = "origin" if executor == ends[0] else "target" if executor == ends[1] else ""
        self._test.append(
            Transfer(
                ends[0],
                ends[1],
                bandwidth(found["gbs"], inside=ends[0] == ends[1]),
                initiator=initiator,
                engine="copy-engine" if found["executor"] == "D" else "kernel",
                statistic="average",
                size_bytes=int(found["size"]),
                source=self._part.where(at),
            )
        )

    def _close_test(self) -> None:
        """Transfers of one test run at once."""
        alone = len(self._test) == 1
        told = [
            each for each in self._test if each.origin and each.target and not (is_host(each.origin) and is_host(each.target))
        ]
        self._transfers += told if alone else _as_contended(told)
        self._test = []


def _opened(line: str) -> _Table | None:
    """The table that a heading opens."""
    if p2p := _P2P.match(line):
        kind: Literal["uni", "bi"] = "uni" if p2p["kind"] == "Uni" else "bi"
        return _Table(kind, _ENGINES.get(p2p["executor"] or "", ""), p2p["how"] == "Remote", ())
    if a2a := _A2A.match(line):
        return _Table("a2a", _ENGINES.get(a2a["executor"] or "", ""), False, ())
    return None


def _cell(table: _Table, origin: str, target: str, cell: str, *, both_ways: bool) -> Transfer:
    initiator: _Initiator = "target" if table.remote_read else "origin"
    by_processor = is_host(target if table.remote_read else origin)
    return Transfer(
        origin,
        target,
        bandwidth(cell, inside=origin == target),
        both_ways=both_ways,
        contended=table.kind == "a2a" or (table.kind == "bi" and not both_ways),
        initiator="" if both_ways else initiator,
        engine="kernel" if by_processor else table.engine,
        statistic="average",
    )


def _as_contended(transfers: Sequence[Transfer]) -> list[Transfer]:
    return [msgspec.structs.replace(each, contended=True) for each in transfers]


def _place(type_: str, number: str) -> str:
    return host_node(int(number)) if type_ == "CPU" else f"GPU{int(number)}"


def _memory(text: str) -> str:
    """One memory of a Transfer as an end of it; empty where there are several, none, or one of another kind."""
    found = _MEMORY.match(text)
    if found is None or found["type"] not in _HOST_MEMORY + _GPU_MEMORY:
        return ""
    return _place("CPU" if found["type"] in _HOST_MEMORY else "GPU", found["number"])


def _padded(address: str) -> str:
    domain, rest = address.lower().split(":", 1)
    return f"{int(domain, 16):04x}:{rest}"


def _number(place: str) -> int:
    return int(re.sub(r"\D", "", place) or 0)
