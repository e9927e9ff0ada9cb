"""The output of nvbandwidth, as text and as JSON (-j).

GB/s are 10^9 bytes, the median of the samples unless told otherwise. "CE" are copies by the GPU's copy engines, "SM" by a
kernel, which reads host memory slower than a copy engine does also where all is well. A bidirectional copy-engine test gives
the one direction that was measured while the other ran; "Total", and the tests by kernels, give the sum. A pair without
access is N/A, or 0.00 in older versions. A multinode test numbers the GPUs of several hosts: it tells nothing of this one.

Sources: github.com/NVIDIA/nvbandwidth, testcase.h, testcases_ce.cpp, testcases_sm.cpp, output.cpp, json_output.cpp; its
issues 11, 24 and 53 on what the figures mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from hostdoctor.facts.bandwidth import HOST, Device, Engine, Run, Transfer, Verification
from hostdoctor.parsers.matrix import Matrix, bandwidth, microseconds, read_matrix
from hostdoctor.parsers.paste import Part

TOOL = "nvbandwidth"

_VERSION = re.compile(r"\s*nvbandwidth Version: (?P<version>\S{1,20})")
_DEVICE = re.compile(r"\s*(?:Process \d{1,4} \(.{0,80}?\): )?[Dd]evice (?P<number>\d{1,3}): (?P<rest>\S.{0,200})")
_LISTED = re.compile(r"(?P<number>\d{1,3}): (?P<rest>\S.{0,200})")
_ADDRESS = re.compile(r"\((?P<address>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.0)?)\)", re.IGNORECASE)
_RUNNING = re.compile(r"\s*Running (?P<name>\w{1,80})\.")
_SUM = re.compile(r"\s*SUM (?P<name>\w{1,80}) ")
_DESCRIPTION = re.compile(
    r"\s*(?P<what>memcpy|memory latency) (?P<engine>CE|SM) (?P<row>CPU|GPU)\(row\) (?P<arrow><->|->|<-) GPU\(column\)"
    r"(?: (?P<part>Total|Read\d|Write\d))?"
)
_LOCAL = re.compile(r"\s*memcpy local GPU\(column\) bandwidth")
# What the tool stops with where the pattern that it copied did not arrive (memcpy.cpp, error_handling.h).
_MISMATCH = re.compile(r".*\bh_errorFlag == 0\b|.*(?:Data verification|verification) failed", re.IGNORECASE)
_SKIPS = ("-s", "--skipVerification")
_ENGINES: dict[str, Engine] = {"CE": "copy-engine", "SM": "kernel"}


class _Test(NamedTuple):
    """One table: the test's name, or empty, and what its description says."""

    name: str
    found: re.Match[str] | None  # None for a copy inside a GPU


def parse(part: Part) -> Run | None:
    """The run; None where nothing of it is left, or the JSON is another tool's."""
    if part.kind == "json" or part.lines[0].lstrip()[:1] == "{":
        return _parse_json(part)
    reading = _Reading(part)
    reading.read()
    return reading.run()


class _Reading:
    """Goes through the lines once."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._version = ""
        self._name = ""
        self._devices: dict[int, Device] = {}
        self._tables: list[tuple[_Test, Matrix]] = []
        self._wrong: list[Verification] = []
        self._cut = False

    def read(self) -> None:
        """Understand everything."""
        at = 0
        while at < len(self._part.lines):
            at = max(at + 1, self._read_line(self._part.lines[at], at))

    def run(self) -> Run | None:
        """What was understood."""
        transfers = [each for test, matrix in self._tables for each in _cells(test, matrix, self._devices, self._part)]
        if not (self._devices or transfers or self._wrong):
            return None
        verifications = (*self._wrong, *_verified(self._part, transfers, wrong=bool(self._wrong)))
        devices = tuple(self._devices.values())
        return Run(TOOL, self._version, self._part.where(), devices, tuple(transfers), verifications, cut=self._cut)

    def _read_line(self, line: str, at: int) -> int:
        if running := _RUNNING.match(line):
            self._name = running["name"]
        elif found := _DESCRIPTION.match(line) or _LOCAL.match(line):
            return self._read_table(found if found.re is _DESCRIPTION else None, at + 1)
        elif device := _DEVICE.match(line):
            _add_device(self._devices, device, self._part.where(at))
        elif version := _VERSION.match(line):
            self._version = version["version"]
        elif _MISMATCH.match(line):
            self._wrong.append(_mismatch(self._name, line, self._part.where(at)))
        return at

    def _read_table(self, found: re.Match[str] | None, at: int) -> int:
        matrix = read_matrix(self._part.lines, at)
        if matrix is None or not matrix.rows:
            self._cut = True
            return at
        after = next((line for line in self._part.lines[matrix.end : matrix.end + 3] if line.strip()), "")
        told = _SUM.match(after)
        self._tables.append((_Test(told["name"] if told else self._name, found), matrix))
        return matrix.end


def _add_device(devices: dict[int, Device], found: re.Match[str], where: str) -> None:
    number = int(found["number"])
    address = _ADDRESS.search(found["rest"])
    name = found["rest"][: address.start()] if address else found["rest"].partition(": (")[0]
    subject = _padded(address["address"]) if address else f"GPU{number}"
    devices.setdefault(number, Device(subject, number, name.strip(" :"), True, where))


def _padded(address: str) -> str:
    domain, bus, device = address.lower().removesuffix(".0").split(":")
    return f"{int(domain, 16):04x}:{bus}:{device}.0"


# --- what a table means -----------------------------------------------------------------------------------------------


def _cells(test: _Test, matrix: Matrix, devices: Mapping[int, Device], part: Part) -> Iterator[Transfer]:
    """The transfers of a table; none of one whose rows are no device of this host."""
    if test.name.startswith(("multinode", "all_to_one", "one_to_all")):
        return
    for row, column, text, at in matrix.cells():
        there = _place(column, devices)
        if test.found is None:
            yield Transfer(there, there, bandwidth(text, inside=True), engine="copy-engine", source=part.where(at))
        else:
            here = HOST if test.found["row"] == "CPU" else _place(row, devices)
            ends = (there, here) if test.found["arrow"] == "<-" else (here, there)
            yield msgspec.structs.replace(_transfer(test.name, test.found, ends, text), source=part.where(at))


def _transfer(name: str, found: re.Match[str], ends: tuple[str, str], text: str) -> Transfer:
    with_host = HOST in ends
    latency = found["what"] == "memory latency"
    both = found["arrow"] == "<->" and not latency
    summed = both and (found["part"] == "Total" or (found["engine"] == "SM" and not found["part"]))
    nanoseconds = microseconds(text) if latency else None
    initiator: Literal["origin", "target", ""] = ""
    if "_read_" in name or "_write_" in name:
        # A test that reads runs in the context of the target, one that writes in that of the origin.
        initiator = "target" if "_read_" in name else "origin"
    return Transfer(
        *ends,
        None if latency else bandwidth(text) or None,
        both_ways=summed,
        contended=(both and not summed) or (with_host and _has_company(name)),
        peer_access=None if with_host else True,
        latency_us=None if nanoseconds is None else nanoseconds / 1000,
        initiator="" if both else initiator,
        engine=_ENGINES[found["engine"]],
        statistic="median",
    )


def _has_company(name: str) -> bool:
    """Whether other copies ran beside a host copy; of a table without a name that must be assumed."""
    return not name or "bidirectional" in name or name.startswith(("all_to_host", "host_to_all"))


def _place(number: int, devices: Mapping[int, Device]) -> str:
    device = devices.get(number)
    return device.subject if device else f"GPU{number}"


def _verified(part: Part, transfers: Sequence[Transfer], *, wrong: bool) -> Iterator[Verification]:
    """What arrived is compared after each test, unless that was switched off, which only the command tells."""
    command = part.command.split()
    if wrong or not any(word.endswith("nvbandwidth") for word in command) or any(word in _SKIPS for word in command):
        return
    for each in transfers:
        if each.gbs is not None and each.origin != each.target and not each.both_ways:
            yield Verification(each.origin, each.target, True, "nvbandwidth compared its pattern", each.source)


def _mismatch(name: str, line: str, where: str) -> Verification:
    text = line.strip()[:200]
    return Verification("", "", False, f"{name}: {text}" if name else text, where)


# --- JSON -------------------------------------------------------------------------------------------------------------


def _parse_json(part: Part) -> Run | None:
    if TOOL not in part.text[:4096]:
        return None
    document, cut = _decoded(part.text)
    top = document.get(TOOL) if isinstance(document, dict) else None
    if not isinstance(top, dict):
        return None
    devices: dict[int, Device] = {}
    for text in _listed(top.get("GPU Device list")):
        if isinstance(text, str) and (found := _LISTED.match(text)):
            _add_device(devices, found, part.where())
    tests = {str(test.get("name")): test for test in _listed(top.get("testcases")) if isinstance(test, dict)}
    transfers = [each for name, test in tests.items() for each in _tested(name, test, devices, part)]
    errors = [str(text) for text in (top.get("error"), *(test.get("error") for test in tests.values())) if text]
    wrong = tuple(_mismatch("", text, part.where()) for text in errors if _MISMATCH.match(text))
    if not (devices or transfers or wrong):
        return None
    verifications = (*wrong, *_verified(part, transfers, wrong=bool(wrong)))
    version = str(top.get("version", ""))[:20]
    return Run(TOOL, version, part.where(), tuple(devices.values()), tuple(transfers), verifications, cut=cut)


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _tested(name: str, test: dict[str, Any], devices: Mapping[int, Device], part: Part) -> Iterator[Transfer]:
    """The transfers of one test of the JSON, of which the last of each name counts; its cells are texts."""
    description = str(test.get("bandwidth_description", ""))[:200]
    found = _DESCRIPTION.match(description)
    rows = [row for row in _listed(test.get("bandwidth_matrix")) if isinstance(row, list)]
    if not rows or (found is None and not _LOCAL.match(description)):
        return
    columns = list(range(max(map(len, rows))))
    texts = {number: [str(cell) for cell in row] for number, row in enumerate(rows)}
    at = next((line for line, text in enumerate(part.lines) if f'"{name}"' in text), 0)
    matrix = Matrix(columns, texts, dict.fromkeys(texts, at), 0)
    yield from _cells(_Test(name, found), matrix, devices, part)


def _decoded(text: str) -> tuple[object, bool]:
    """A JSON document, also where the paste ends before it does; whether it did."""
    decoder = json.JSONDecoder()
    for attempt, cut in ((text, False), (_closed(text), True)):
        try:
            return decoder.raw_decode(attempt.lstrip())[0], cut
        except (ValueError, RecursionError):
            continue
    return None, True


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},]')
_CLOSES = {"{": "}", "[": "]"}


def _closed(text: str) -> str:
    """A cut document up to its last whole element, with what was open closed."""
    end = 0
    for token in _TOKEN.finditer(text):
        if token[0] == ",":
            end = token.start()
        elif token[0] in "[]{}":
            end = token.end()
    kept, open_ = text[:end], list[str]()
    for token in _TOKEN.finditer(kept):
        if token[0] in _CLOSES:
            open_.append(_CLOSES[token[0]])
        elif token[0] in "]}" and open_:
            open_.pop()
    return kept + "".join(reversed(open_))
