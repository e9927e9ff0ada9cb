"""The output of rocm-bandwidth-test 2.0 to 2.6, the tool of ROCm up to 6: -a, -A, -s and -d, -b, -l, -t, -e, and -a -v.

GB/s are 10^9 bytes. "Peak" is the fastest of the iterations. A bidirectional cell is the sum of both directions, N/A is a
pair that was not measured, the diagonal is a copy inside one memory. Rows are sources, columns destinations; row and column
of the table of access are who accesses and whose memory. Addresses lack the domain and are not padded ("06:0.0").
Version 7 prints what TransferBench does.

Source: github.com/ROCm/rocm_bandwidth_test, rocm_bandwidth_test_report.cpp, _print.cpp, _topology.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from hostdoctor.facts.bandwidth import Device, Run, Statistic, Transfer, Verification, host_node, is_host
from hostdoctor.facts.driver import PairWord
from hostdoctor.parsers.matrix import Matrix, as_flag, bandwidth, microseconds, read_matrix
from hostdoctor.parsers.paste import Part

TOOL = "rocm-bandwidth-test"
_MATRIX_SIZE_BYTES = 64 << 20  # that of -a and -A
_SMALL_COPY_BYTES = 16

_DEVICE = re.compile(
    r"\s*Device: {1,3}(?P<number>\d{1,4}),\s{1,4}(?P<name>[^,]*(?:, (?!\s)[^,]*)*?)"
    r"(?P<uuid>,\s{1,4}GPU-\w{1,32})?(?:,\s{1,4}(?P<address>(?:[0-9a-f]{4,8}:)?[0-9a-f]{1,2}:[0-9a-f]{1,2}\.[0-7]))?\s*\Z",
    re.IGNORECASE,
)
_ENTRY = re.compile(r"\s*Device (?P<key>Index|Type|Name|\s?BDF):\s*(?P<value>.*?)\s*\Z")
_BDF = re.compile(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{1,2}:[0-9a-f]{1,2}\.[0-7]\Z", re.IGNORECASE)
_HEADINGS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("access", re.compile(r"\s*(?:Inter-)?Device Access\s*\Z")),
    ("link", re.compile(r"\s*(?:Inter-)?Device Link Type\b")),
    ("uni", re.compile(r"\s*Unidirectional copy (?P<how>peak|average) bandwidth GB/s\s*\Z")),
    ("bi", re.compile(r"\s*Bi?directional copy (?P<how>peak|average) bandwidth GB/s\s*\Z")),
    ("validation", re.compile(r"\s*Data Path Validation\s*\Z")),
)
_SINGLE = re.compile(r"=+\s+(?P<kind>Uni|Bi)directional Benchmark Result\s+=+\s*\Z")
_END = re.compile(r"=+ (?P<end>Src|Dst) Device Id: (?P<number>\d{1,4}) .*Device Type: (?P<type>\w+)")
_ROW = re.compile(
    r"\s*(?P<size>\d{1,7}) (?P<unit>Bytes|KB|MB|GB)\s+(?P<average_us>[\d.]+)\s+[\d.]+\s+[\d.]+\s+(?P<peak_gbs>[\d.]+)\s*\Z"
)
# What it says instead of copying, where -s and -d name two between which there is no access.
_REFUSED_END = re.compile(r"(?P<end>Src|Dst) Device: Index (?P<number>\d{1,4}), Type: (?P<type>CPU|GPU)")
_REFUSED = re.compile(r"Rocm Device hosting Src Memory cannot ACCESS Dst Memory")
_UNITS = {"Bytes": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_STATISTICS: dict[str, Statistic] = {"peak": "peak", "average": "average"}


def parse(part: Part) -> Run | None:
    """The run, with addresses as far as the tool prints them; None where nothing of it is left."""
    reading = _Reading(part)
    reading.read()
    return reading.run()


class _Reading:
    """Goes through the lines once."""

    def __init__(self, part: Part) -> None:
        self._part, self._lines = part, part.lines
        self._version = ""
        self._devices: dict[int, Device] = {}
        self._shared: set[str] = set()  # addresses that several devices print
        self._entry: dict[str, str] = {}
        self._transfers: list[Transfer] = []
        self._verifications: list[Verification] = []
        self._access: dict[tuple[str, str], PairWord] = {}
        self._links: dict[tuple[str, str], str] = {}
        self._refused: dict[str, str] = {}
        self._cut = False

    def read(self) -> None:
        """Understand everything."""
        at = 0
        while at < len(self._lines):
            at = max(at + 1, self._read_line(at))
        self._close_entry(len(self._lines) - 1)

    def run(self) -> Run | None:
        """What was understood."""
        words = [_with_link(word, self._links) for word in self._access.values()]
        if not (self._devices or self._transfers or words):
            return None
        has_matrix = bool(self._transfers or self._verifications or words)
        return Run(
            TOOL,
            self._version,
            self._part.where(),
            tuple(self._devices.values()),
            tuple(self._transfers),
            tuple(self._verifications),
            tuple(words),
            self._cut or not has_matrix,
            has_domains=False,
        )

    def _read_line(self, at: int) -> int:
        """Understand what begins at a line; where to go on."""
        line = self._lines[at]
        if (found := line.partition("RocmBandwidthTest Version:")[2]) and not self._version:
            self._version = found.strip()[:20]
        elif device := _DEVICE.match(line[:400]):
            is_gpu = bool(device["uuid"] or device["address"])
            self._add_device(int(device["number"]), device["name"], is_gpu, device["address"] or "", at)
        elif entry := _ENTRY.match(line[:400]):
            if entry["key"] == "Index":
                self._close_entry(at)
            self._entry.setdefault(entry["key"].strip(), entry["value"])
        elif single := _SINGLE.match(line):
            return self._read_single(at + 1, both_ways=single["kind"] == "Bi")
        elif end := _REFUSED_END.match(line):
            self._refused[end["end"]] = self._place(int(end["number"]), end["type"])
        elif _REFUSED.match(line):
            self._add_refusal(line, at)
        else:
            for kind, heading in _HEADINGS:
                if match := heading.match(line):
                    self._close_entry(at)
                    return self._read_table(kind, _STATISTICS.get(match.groupdict().get("how", ""), ""), at)
        return at

    # --- devices ------------------------------------------------------------------------------------------------------

    def _add_device(self, number: int, name: str, is_gpu: bool, address: str, at: int) -> None:
        subject = host_node(number) if not is_gpu else _address(address) if address else _unnamed(number)
        alike = [each for each in self._devices.values() if is_gpu and each.subject == subject and each.number != number]
        for each in alike:  # in other PCI domains, which are not printed, so that neither has an address
            self._devices[each.number] = msgspec.structs.replace(each, subject=_unnamed(each.number))
        if alike or (is_gpu and subject in self._shared):
            self._shared.add(subject)
            subject = _unnamed(number)
        self._devices[number] = Device(subject, number, name.strip(), is_gpu, self._part.where(at))

    def _close_entry(self, at: int) -> None:
        """Keep the device of the list that -t and -e print, now that its lines are over."""
        entry, self._entry = self._entry, {}
        number = entry.get("Index", "")
        if number.isdigit() and len(number) <= 4 and "Type" in entry:
            address = entry.get("BDF", "") if _BDF.match(entry.get("BDF", "")) else ""
            self._add_device(int(number), entry.get("Name", ""), entry["Type"] == "GPU", address, max(0, at - 1))

    def _place(self, number: int, type_: str = "GPU") -> str:
        device = self._devices.get(number)
        if device is not None:
            return device.subject
        return _unnamed(number) if type_.upper() == "GPU" else host_node(number)

    def _is_gpu(self, number: int) -> bool:
        return (device := self._devices.get(number)) is not None and device.is_gpu

    # --- tables -------------------------------------------------------------------------------------------------------

    def _read_table(self, kind: str, statistic: Statistic, at: int) -> int:
        matrix = read_matrix(self._lines, at + 1, "D/D")
        if matrix is None:
            self._cut = True
            return at + 1
        self._cut = self._cut or matrix.is_cut
        if kind == "uni":
            self._tell_devices(matrix)
        if kind in ("access", "link"):
            self._read_words(kind, matrix)
        elif kind == "validation":
            self._verifications += self._validated(matrix)
        else:
            self._transfers += self._measured(matrix, statistic, both_ways=kind == "bi")
        return matrix.end

    def _tell_devices(self, matrix: Matrix) -> None:
        """Which devices are GPUs, where the list of them is cut off: a processor makes no copy inside itself."""
        for row, column, text, at in matrix.cells():
            if row == column and row not in self._devices:
                self._add_device(row, "", bandwidth(text, inside=True) is not None, "", at)

    def _read_words(self, kind: str, matrix: Matrix) -> None:
        for row, column, text, at in matrix.cells():
            ends = (self._place(row), self._place(column))
            if row == column or not self._is_gpu(column) or row not in self._devices:
                continue
            if kind == "link":
                self._links[ends] = {"P": "PCIE", "X": "XGMI"}.get(text, "")
            elif (allowed := as_flag(text)) is not None:
                self._access[ends] = PairWord(*ends, allowed, f"access {text}", self._part.where(at))

    def _measured(self, matrix: Matrix, statistic: Statistic, *, both_ways: bool) -> Iterator[Transfer]:
        for row, column, text, at in matrix.cells():
            if not {row, column} <= self._devices.keys() or not (self._is_gpu(row) or self._is_gpu(column)):
                continue
            ends = (self._place(row), self._place(column))
            word = self._access.get(ends)
            yield Transfer(
                *ends,
                bandwidth(text, inside=row == column),
                both_ways=both_ways,
                peer_access=word.allowed if word and self._is_gpu(row) else None,
                engine="copy-engine",
                statistic=statistic,
                size_bytes=_MATRIX_SIZE_BYTES,
                source=self._part.where(at),
            )

    def _add_refusal(self, line: str, at: int) -> None:
        ends, self._refused = (self._refused.get("Src", ""), self._refused.get("Dst", "")), {}
        if all(ends) and ends[0] != ends[1] and not any(map(is_host, ends)):
            self._access[ends] = PairWord(*ends, False, line.strip()[:80], self._part.where(at))

    def _validated(self, matrix: Matrix) -> Iterator[Verification]:
        verdicts = {"PASS": True, "FAIL": False}
        for row, column, text, at in matrix.cells():
            if {row, column} <= self._devices.keys() and (self._is_gpu(row) or self._is_gpu(column)):
                ends = (self._place(row), self._place(column))
                yield Verification(*ends, verdicts.get(text.upper()), text, self._part.where(at))

    # --- single runs --------------------------------------------------------------------------------------------------

    def _read_single(self, at: int, *, both_ways: bool) -> int:
        """One result of -s and -d or -b: its ends, and a line for each size, of which the largest counts."""
        ends: dict[str, str] = {}
        found: list[Transfer] = []
        while at < len(self._lines) and not _SINGLE.match(self._lines[at]):
            if end := _END.match(self._lines[at]):
                ends[end["end"]] = self._place(int(end["number"]), end["type"])
            elif len(ends) == 2 and (row := _ROW.match(self._lines[at][:200])):
                found.append(self._of_size(row, ends, both_ways, at))
            at += 1
        self._transfers += _largest_and_smallest(found)
        return at

    def _of_size(self, row: re.Match[str], ends: dict[str, str], both_ways: bool, at: int) -> Transfer:
        size = int(row["size"]) * _UNITS[row["unit"]]
        latency = microseconds(row["average_us"]) if size == _SMALL_COPY_BYTES else None
        return Transfer(
            ends["Src"],
            ends["Dst"],
            None if latency else bandwidth(row["peak_gbs"]),
            both_ways=both_ways,
            latency_us=latency,
            engine="copy-engine",
            statistic="average" if latency else "peak",
            size_bytes=size,
            source=self._part.where(at),
        )


def _largest_and_smallest(found: Sequence[Transfer]) -> list[Transfer]:
    """The largest copy, where it is large enough to fill a link, and the one that latency is told by."""
    chosen = [each for each in found if each.latency_us is not None and not each.both_ways]
    largest = max((each for each in found if each.latency_us is None), key=lambda each: each.size_bytes or 0, default=None)
    if largest is not None and (largest.size_bytes or 0) >= _MATRIX_SIZE_BYTES:
        chosen.append(largest)
    return chosen


def _unnamed(number: int) -> str:
    """A GPU whose address the paste does not tell, by its number in this tool, which counts processors too."""
    return f"Device {number}"


def _address(text: str) -> str:
    """An address as the tool prints it in ours: "06:0.0" is "0000:06:00.0"."""
    *domain, bus, rest = text.lower().split(":")
    device, _, function = rest.partition(".")
    return f"{int(domain[0], 16) if domain else 0:04x}:{int(bus, 16):02x}:{int(device, 16):02x}.{function}"


def _with_link(word: PairWord, links: dict[tuple[str, str], str]) -> PairWord:
    link = links.get((word.accessor, word.owner), "")
    if not link:
        return word
    return PairWord(word.accessor, word.owner, word.allowed, f"{word.text}, link type {link}", word.source, link)
