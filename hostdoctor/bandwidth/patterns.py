"""Data that cannot be mistaken for other data, and what became of them.

A pattern is random and is drawn anew each time, so neither another pattern nor anything that an earlier step, or an earlier
process, left in memory passes for it. Before a copy the target is filled with poison, so that a copy that never arrived shows.
"""

from __future__ import annotations

import ctypes
import os
import random

import msgspec

from hostdoctor.bandwidth.steps import WrongKind

_CHUNK = 1 << 20
_RUN = 64  # bytes in a row that are no coincidence: of random data one in 2^512 such runs is poison, or right


class Difference(msgspec.Struct, frozen=True):
    """How memory differs from a pattern.

    Attributes:
        kind: as in StepResult.wrong_kind.
        wrong_bytes: how many bytes differ.
        text: where the first of them is, and what the wrong ones look like where that can be told.
    """

    kind: WrongKind
    wrong_bytes: int
    text: str


class Pattern:
    """Random bytes of some size."""

    def __init__(self, size_bytes: int) -> None:
        """Draw them.

        Args:
            size_bytes: how many.
        """
        self.size_bytes = size_bytes
        source = random.Random(os.urandom(16))  # noqa: S311  (nobody guesses them; they must only never come twice)
        self._chunks = [source.randbytes(min(_CHUNK, size_bytes - at)) for at in range(0, size_bytes, _CHUNK)]

    def write(self, address: int) -> None:
        """Put it into memory of this process."""
        for number, chunk in enumerate(self._chunks):
            ctypes.memmove(address + number * _CHUNK, chunk, len(chunk))

    def difference(self, address: int, poison: int) -> Difference | None:
        """How memory of this process differs from it; None where every byte is right.

        Args:
            address: of the memory.
            poison: the byte that it was filled with before the copy.
        """
        seen = _Seen(poison)
        for number, chunk in enumerate(self._chunks):
            found = ctypes.string_at(address + number * _CHUNK, len(chunk))
            seen.add(chunk, found, number * _CHUNK)
        return seen.difference(self.size_bytes) if seen.wrong_bytes else None


class _Seen:
    """What was seen of the memory so far."""

    def __init__(self, poison: int) -> None:
        self._poison = bytes([poison])
        self.wrong_bytes = 0
        self._first = 0
        self._all_poison = self._all_zero = True
        self._some_right = self._some_poison = self._some_zero = False

    def add(self, wanted: bytes, found: bytes, begin: int) -> None:
        if wanted == found:
            self._all_poison = self._all_zero = False
            self._some_right = True
            return
        size = len(found)
        both = int.from_bytes(wanted, "little") ^ int.from_bytes(found, "little")
        changed = both.to_bytes(size, "little")  # 0 where a byte is right
        if not self.wrong_bytes:
            self._first = begin + size - len(changed.lstrip(b"\0"))
        self.wrong_bytes += size - changed.count(0)
        run = min(_RUN, size)
        self._some_right |= bytes(run) in changed
        self._all_poison &= found.count(self._poison) == size
        self._all_zero &= found.count(0) == size
        self._some_poison |= self._poison * run in found
        self._some_zero |= bytes(run) in found

    def difference(self, size_bytes: int) -> Difference:
        text = f"first at byte {self._first} of {size_bytes}"
        if self._all_poison:
            return Difference("dropped", self.wrong_bytes, text)
        if self._all_zero:
            return Difference("zeroed", self.wrong_bytes, text)
        if self._some_poison:
            text += ", where the target holds what it held before"
        elif self._some_zero:
            text += ", where the target holds zeroes"
        return Difference("partial" if self._some_right else "other", self.wrong_bytes, text)
