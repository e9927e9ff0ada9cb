"""Whether copies arrive as they were sent.

The target is read back by the GPU that owns it, through pinned host memory, after everything has ended. What is read back
lands on other poison, so that a reading that never arrives is not taken for data either.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import msgspec

from hostdoctor.bandwidth.api import HOST, Api, Fault, Place, Stream, kept
from hostdoctor.bandwidth.lanes import Lane
from hostdoctor.bandwidth.patterns import Difference, Pattern

_POISONS = (0x5A, 0xA5, 0x3C, 0xC3)


class Verifier:
    """Compares what lanes copy."""

    def __init__(self, api: Api, lanes: Sequence[Lane], size_bytes: int, names: Mapping[int, str], stack: ExitStack) -> None:
        """Set up what it needs.

        Args:
            api: the library.
            lanes: what copies.
            size_bytes: of each copy.
            names: of the GPUs, by number, for messages.
            stack: gives back what is set up.
        """
        self._api = api
        self._lanes = lanes
        self._size_bytes = size_bytes
        self._names = names
        self._poisons = itertools.cycle(_POISONS)
        self._poison = next(self._poisons)
        self._patterns: list[Pattern] = []
        self._scratch = kept(stack, api.allocate(HOST, size_bytes), api.free)
        self._streams: dict[int, Stream] = {}
        for gpu in {place.gpu for lane in lanes for place in (lane.source, lane.target)} - {HOST}:
            self._streams[gpu] = kept(stack, api.stream(gpu), api.end_stream)

    def renew(self) -> None:
        """Put new data into the source of each lane."""
        self._patterns = [self._placed(lane) for lane in self._lanes]

    def poison(self) -> None:
        """Make sure that no target holds what is to arrive there."""
        self._poison = next(self._poisons)
        for lane in self._lanes:
            if lane.target.gpu == HOST:
                ctypes.memset(lane.target.address, self._poison, self._size_bytes)
            else:
                self._api.fill(lane.target, self._poison, self._size_bytes)

    def difference(self) -> Difference | None:
        """How what the targets hold, once all copies have ended, differs from what was sent; None where every byte is right."""
        for lane, pattern in zip(self._lanes, self._patterns, strict=True):
            address = lane.target.address if lane.target.gpu == HOST else self._read_back(lane.target)
            wrong = pattern.difference(address, self._poison)
            if wrong and lane.target.gpu != HOST:
                self._told_from_no_answer(lane.target)
            if wrong and len(self._lanes) > 1:
                ways = " to ".join(self._names.get(place.gpu, "host memory") for place in (lane.source, lane.target))
                return msgspec.structs.replace(wrong, text=f"{ways}: {wrong.text}")
            if wrong:
                return wrong
        return None

    def _placed(self, lane: Lane) -> Pattern:
        pattern = Pattern(self._size_bytes)
        if lane.source.gpu == HOST:
            pattern.write(lane.source.address)
            return pattern
        pattern.write(self._scratch.address)
        self._wait_for_copy(lane.source, self._scratch)
        # Where the lane goes to the host, what comes back from the GPU is what is tested.
        if lane.target.gpu != HOST and pattern.difference(self._read_back(lane.source), self._poison):
            self._told_from_no_answer(lane.source)
            gpu = self._names[lane.source.gpu]
            text = f"data put into the memory of {gpu} do not come back as they were sent, so no copy of them can be judged"
            raise Fault("other", f"{text}: what is wrong lies between host memory and {gpu}")
        return pattern

    def _read_back(self, place: Place) -> int:
        """Copy a GPU's memory to the host; the address that it is at there."""
        ctypes.memset(self._scratch.address, 0xFF ^ self._poison, self._size_bytes)
        self._wait_for_copy(self._scratch, place)
        return self._scratch.address

    def _told_from_no_answer(self, place: Place) -> None:
        """Fault where nothing was read back, so that what the GPU holds is not known."""
        read = ctypes.string_at(self._scratch.address, self._size_bytes)
        if read.count(0xFF ^ self._poison) == self._size_bytes:
            text = f"nothing that {self._names[place.gpu]} sends arrives in host memory, so what it holds cannot be judged"
            raise Fault("other", text)

    def _wait_for_copy(self, target: Place, source: Place) -> None:
        stream = self._streams[source.gpu if target.gpu == HOST else target.gpu]
        self._api.copy(target, source, self._size_bytes, stream)
        self._api.synchronise(stream)
