"""The output of NVIDIA's sample p2pBandwidthLatencyTest.

GB/s are 10^9 bytes; a cell of a bidirectional table is the sum of both directions; the diagonal is a copy inside one GPU.
Each table is printed twice: with peer access disabled, which the driver stages through host memory, and enabled, which is
direct where the driver grants access and staged where it does not. It never compares data. Bus numbers are hexadecimal.

Source: github.com/NVIDIA/cuda-samples, Samples/5_Domain_Specific/p2pBandwidthLatencyTest/p2pBandwidthLatencyTest.cu.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from hostdoctor.facts.bandwidth import Device, Run, Transfer
from hostdoctor.facts.driver import PairWord
from hostdoctor.parsers.matrix import Matrix, as_flag, bandwidth, microseconds, read_matrix
from hostdoctor.parsers.paste import Part

TOOL = "p2pBandwidthLatencyTest"
_COPY_BYTES = 160_000_000  # numElems 40,000,000 integers, unless told otherwise

_DEVICE = re.compile(
    r"\s*Device: (?P<number>\d{1,3}), (?P<name>.{1,120}?), pciBusID: (?P<bus>[0-9a-f]{1,2}), "
    r"pciDeviceID: (?P<device>[0-9a-f]{1,2}), pciDomainID: ?(?P<domain>[0-9a-f]{1,8})\s*\Z",
    re.IGNORECASE,
)
_ACCESS = re.compile(r"\s*Device=(?P<accessor>\d{1,3}) (?P<verb>CAN|CANNOT) Access Peer Device=(?P<owner>\d{1,3})\s*\Z")
_CONNECTIVITY = re.compile(r"\s*P2P Connectivity Matrix\s*\Z")
_BANDWIDTH = re.compile(r"\s*(?P<kind>Uni|Bi)directional P2P=(?P<arm>En|Dis)abled Bandwidth (?:\(P2P (?P<verb>\w+)\) )?Matrix")
_LATENCY = re.compile(r"\s*P2P=(?P<arm>En|Dis)abled Latency (?:\(P2P (?P<verb>\w+)\) )?Matrix")
_START = "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]"


class _Heading(NamedTuple):
    """What a table tells."""

    kind: Literal["uni", "bi", "latency"]
    enabled: bool
    reads: bool


def parse(part: Part) -> Run | None:
    """The run; None where nothing of it is left."""
    reading = _Reading(part)
    reading.read()
    return reading.run()


class _Reading:
    """Goes through the lines once."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._devices: dict[int, Device] = {}
        self._words: dict[tuple[str, str], PairWord] = {}
        self._tables: list[tuple[_Heading, Matrix]] = []
        self._cut = not any(line.startswith(_START) for line in part.lines)

    def read(self) -> None:
        """Understand everything."""
        at = 0
        while at < len(self._part.lines):
            at = max(at + 1, self._read_line(self._part.lines[at], at))

    def run(self) -> Run | None:
        """What was understood."""
        transfers = [each for heading, matrix in self._tables for each in self._measured(heading, matrix)]
        if not (self._devices or self._words or transfers):
            return None
        kinds = {heading.kind for heading, _ in self._tables if heading.enabled}
        return Run(
            TOOL,
            "",
            self._part.where(),
            tuple(self._devices.values()),
            tuple(transfers),
            words=tuple(self._words.values()),
            cut=self._cut or kinds != {"uni", "bi", "latency"},
        )

    def _read_line(self, line: str, at: int) -> int:
        if device := _DEVICE.match(line[:300]):
            self._add_device(device, at)
        elif access := _ACCESS.match(line[:100]):
            allowed = access["verb"] == "CAN"
            self._add_word(int(access["accessor"]), int(access["owner"]), allowed, f"{access['verb']} access", at)
        elif _CONNECTIVITY.match(line):
            return self._read_connectivity(at + 1)
        elif found := _BANDWIDTH.match(line):
            kind: Literal["uni", "bi"] = "uni" if found["kind"] == "Uni" else "bi"
            return self._read_table(_Heading(kind, found["arm"] == "En", found["verb"] == "Reads"), at + 1, r"D\\D")
        elif found := _LATENCY.match(line):
            return self._read_table(_Heading("latency", found["arm"] == "En", found["verb"] == "Reads"), at + 1, "GPU")
        return at

    def _add_device(self, found: re.Match[str], at: int) -> None:
        domain, bus, device = (int(found[name], 16) for name in ("domain", "bus", "device"))
        number = int(found["number"])
        subject = f"{domain:04x}:{bus:02x}:{device & 0x1F:02x}.0"
        self._devices[number] = Device(subject, number, found["name"].strip(), True, self._part.where(at))

    def _place(self, number: int) -> str:
        device = self._devices.get(number)
        return device.subject if device else f"GPU{number}"

    def _add_word(self, accessor: int, owner: int, allowed: bool, text: str, at: int) -> None:
        ends = (self._place(accessor), self._place(owner))
        if accessor != owner and ends not in self._words:
            self._words[ends] = PairWord(*ends, allowed, text, self._part.where(at))

    def _read_connectivity(self, at: int) -> int:
        matrix = read_matrix(self._part.lines, at, r"D\\D")
        if matrix is None:
            self._cut = True
            return at
        self._cut = self._cut or matrix.is_cut
        for row, column, text, line in matrix.cells():
            if (allowed := as_flag(text)) is not None:
                self._add_word(row, column, allowed, f"connectivity {text}", line)
        return matrix.end

    def _read_table(self, heading: _Heading, at: int, corner: str) -> int:
        """A table; of the two of latency the one that the GPU's own clock took."""
        matrix = read_matrix(self._part.lines, at, corner)
        if matrix is None:
            self._cut = True
            return at
        self._cut = self._cut or matrix.is_cut
        self._tables.append((heading, matrix))
        return matrix.end

    def _measured(self, heading: _Heading, matrix: Matrix) -> Iterator[Transfer]:
        for row, column, text, at in matrix.cells():
            # The row is the GPU whose stream runs the copy: it writes to the other, or reads from it.
            origin, target = (column, row) if heading.reads else (row, column)
            inside, latency = row == column, heading.kind == "latency"
            yield Transfer(
                self._place(origin),
                self._place(target),
                None if latency else bandwidth(text, inside=inside),
                both_ways=heading.kind == "bi",
                peer_access=None if inside else self._access(row, column, heading),
                latency_us=microseconds(text) if latency else None,
                initiator="" if heading.kind == "bi" else "target" if heading.reads else "origin",
                statistic="average",
                size_bytes=None if latency else _COPY_BYTES,
                source=self._part.where(at),
            )

    def _access(self, accessor: int, owner: int, heading: _Heading) -> bool | None:
        """Whether the copy went directly: what is not granted is staged in both arms."""
        if not heading.enabled:
            return False
        word = self._words.get((self._place(accessor), self._place(owner)))
        return word.allowed if word else None
