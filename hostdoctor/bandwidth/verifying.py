"""Whether copies arrive as they were sent.

The target is read back by the GPU that owns it, through pinned host memory, after everything has ended. What is read back
lands on other poison, so that a reading that never arrives is not taken for data either.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Mapping, Sequence
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
        self._scratch = kept(stack, api.allocate(HOST, size_bytes), api.free)
        self._streams: dict[int, Stream] = {}
        for gpu in {place.gpu for lane in lanes for place in (lane.source, lane.target)} - {HOST}:
            self._streams[gpu] = kept(stack, api.stream(gpu), api.end_stream)

    def check(self, copy: Callable[[], None]) -> Difference | None:
        """How the data of new copies differ from what was sent; None where every byte is right.

        Args:
            copy: makes at least one copy in each lane and waits for the last.
        """
        poison = next(self._poisons)
        patterns = [self._prepared(lane, poison) for lane in self._lanes]
        copy()
        for lane, pattern in zip(self._lanes, patterns, strict=True):
            if wrong := self._arrived(lane, pattern, poison):
                return wrong
        return None

    def _prepared(self, lane: Lane, poison: int) -> Pattern:
        """Put a new pattern into the source of a lane, and poison into its target."""
        pattern = Pattern(self._size_bytes)
        if lane.source.gpu == HOST:
            pattern.write(lane.source.address)
        else:
            pattern.write(self._scratch.address)
            self._wait_for_copy(lane.source, self._scratch)
            # What comes back from a GPU to the host is what is tested where that is where the lane goes.
            if lane.target.gpu != HOST and pattern.difference(self._read_back(lane.source, poison), poison):
                gpu = self._names[lane.source.gpu]
                text = f"data put into the memory of {gpu} do not come back as they were sent, so no copy of them can be judged"
                raise Fault("other", f"{text}: what is wrong lies between host memory and {gpu}")
        if lane.target.gpu == HOST:
            ctypes.memset(lane.target.address, poison, self._size_bytes)
        else:
            self._api.fill(lane.target, poison, self._size_bytes)
        return pattern

    def _arrived(self, lane: Lane, pattern: Pattern, poison: int) -> Difference | None:
        address = lane.target.address if lane.target.gpu == HOST else self._read_back(lane.target, poison)
        wrong = pattern.difference(address, poison)
        if wrong and len(self._lanes) > 1:
            ways = " to ".join(self._names.get(place.gpu, "host memory") for place in (lane.source, lane.target))
            wrong = msgspec.structs.replace(wrong, text=f"{ways}: {wrong.text}")
        return wrong

    def _read_back(self, place: Place, poison: int) -> int:
        """Copy a GPU's memory to the host; the address that it is at there."""
        other = 0xFF ^ poison
        ctypes.memset(self._scratch.address, other, self._size_bytes)
        self._wait_for_copy(self._scratch, place)
        if ctypes.string_at(self._scratch.address, self._size_bytes).count(other) == self._size_bytes:
            gpu = self._names[place.gpu]
            raise Fault("other", f"nothing that {gpu} sends arrives in host memory, so what it holds cannot be judged")
        return self._scratch.address

    def _wait_for_copy(self, target: Place, source: Place) -> None:
        stream = self._streams[source.gpu if target.gpu == HOST else target.gpu]
        self._api.copy(target, source, self._size_bytes, stream)
        self._api.synchronise(stream)
