"""The output of NVIDIA's sample simpleP2P, and of its HIP port.

It copies 64 MiB to and fro between the first two GPUs that can reach each other, lets a kernel on each read the other's
memory, and compares the result: a wrong byte does not tell in which direction it went wrong. Its GB/s are 2^30 bytes.

Source: github.com/NVIDIA/cuda-samples, Samples/0_Introduction/simpleP2P/simpleP2P.cu.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hostdoctor.facts.bandwidth import Device, Run, Transfer, Verification
from hostdoctor.facts.driver import PairWord
from hostdoctor.parsers.matrix import bandwidth
from hostdoctor.parsers.paste import Part

TOOL = "simpleP2P"
_COPY_BYTES = 64 << 20
_GIB_IN_GB = (1 << 30) / 1e9

_ACCESS = re.compile(
    r"\s*> Peer access from (?P<a_name>.{0,120}?) ?\(GPU(?P<a>\d{1,3})\) -> (?P<b_name>.{0,120}?) ?\(GPU(?P<b>\d{1,3})\) : "
    r"(?P<word>Yes|No)\b"
)
_COPY = re.compile(r"\s*\w+MemcpyPeer / \w+Memcpy between GPU(?P<a>\d{1,3}) and GPU(?P<b>\d{1,3}): (?P<gibs>[\d.]{1,20}) ?GB/s")
_KERNEL = re.compile(r"\s*Run kernel on GPU(?P<b>\d{1,3}), taking source data from GPU(?P<a>\d{1,3}) and writing to")
_ERROR = re.compile(r"\s*Verification error @ element .*")
_VERDICT = re.compile(r"\s*Test (?P<word>passed|failed)")


def parse(part: Part) -> Run | None:
    """The run; None where nothing of it is left."""
    reading = _Reading(part)
    for at, line in enumerate(part.lines):
        reading.read_line(line[:400], part.where(at))
    return reading.run()


class _Reading:
    """Goes through the lines once."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._devices: dict[int, Device] = {}
        self._words: list[PairWord] = []
        self._pair: tuple[str, str] | None = None
        self._transfers: list[Transfer] = []
        self._wrong: tuple[str, str] | None = None
        self._verdict: tuple[str, str] | None = None

    def read_line(self, line: str, where: str) -> None:
        """Understand a line."""
        if access := _ACCESS.match(line):
            for side in "ab":
                self._add_device(int(access[side]), access[f"{side}_name"], where)
            ends = (f"GPU{int(access['a'])}", f"GPU{int(access['b'])}")
            self._words.append(PairWord(*ends, access["word"] == "Yes", f"peer access: {access['word']}", where))
        elif found := _COPY.match(line) or _KERNEL.match(line):
            self._pair = self._pair or (f"GPU{int(found['a'])}", f"GPU{int(found['b'])}")
            for side in "ab":
                self._add_device(int(found[side]), "", where)
            if found.re is _COPY:
                self._transfers.append(_copied(*self._pair, found["gibs"], where))
        elif _ERROR.match(line):
            self._wrong = self._wrong or (line.strip(), where)
        elif found := _VERDICT.match(line):
            self._verdict = (found["word"], where)

    def run(self) -> Run | None:
        """What was understood."""
        verified = tuple(self._verified())
        if not (self._devices or verified):
            return None
        devices, words = tuple(self._devices.values()), tuple(self._words)
        cut = self._verdict is None
        return Run(TOOL, "", self._part.where(), devices, tuple(self._transfers), verified, words, cut)

    def _add_device(self, number: int, name: str, where: str) -> None:
        self._devices.setdefault(number, Device(f"GPU{number}", number, name, True, where))

    def _verified(self) -> Iterator[Verification]:
        failed = self._verdict if self._verdict and self._verdict[0] == "failed" else None
        if self._wrong or failed:
            text, source = self._wrong or ("Test failed", failed[1] if failed else "")
            for origin, target in _both_ways(self._pair):
                yield Verification(origin, target, False, f"{text} (in which direction is not told)", source)
        elif self._verdict is not None and self._pair is not None:
            for origin, target in _both_ways(self._pair):
                yield Verification(origin, target, True, "Test passed", self._verdict[1])


def _both_ways(pair: tuple[str, str] | None) -> tuple[tuple[str, str], ...]:
    return (("", ""),) if pair is None else (pair, pair[::-1])


def _copied(a: str, b: str, gibs: str, where: str) -> Transfer:
    """The copies, half of them each way, one at a time."""
    rate = bandwidth(gibs)
    gbs = None if rate is None else rate * _GIB_IN_GB
    printed = f"{gibs} GiB/s"
    return Transfer(a, b, gbs, peer_access=True, statistic="average", size_bytes=_COPY_BYTES, source=where, printed=printed)
