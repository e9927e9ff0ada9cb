"""Copies in one direction, and how long they take.

Times are those of marks that the GPU itself sets in its queues. A batch is put into the queue behind a copy that is not timed
and that keeps the GPU busy meanwhile, so that what the calls cost this process is not measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack

from hostdoctor.bandwidth.api import HOST, Api, Event, Fault, Place, kept

_RESOLUTION_MS = 0.0005  # of marks (CUDA driver API reference, cuEventElapsedTime)
_SHORTEST_MS = 100 * _RESOLUTION_MS  # so that a mark is off by 1 % at most
_BATCH_MS = 40.0
_MOST_COPIES = 200
_WARM_MS = 300.0  # a link that was slow to save power is at its full speed by then
_MOST_WARM_BATCHES = 40
_LEAD_MS = 0.5
_LATENCY_LEAD_MS = 3.0
_MOST_LEADS = 64
_SLOW_MS = 100.0
_SMALL_BYTES = 16
_SMALL_COPIES = 100
_LATENCY_BATCHES = 5
_BOUNCE_BYTES = 4 << 20


class Lane:
    """Copies from one place to another that the library makes in one go.

    Attributes:
        source: where the bytes come from.
        target: where they go.
        runner: the GPU whose copy engine copies.
        stream: its queue.
    """

    def __init__(self, api: Api, source: Place, target: Place, runner: int, stack: ExitStack) -> None:
        """Set up the queue.

        Args:
            api: the library.
            source: where the bytes come from.
            target: where they go.
            runner: the GPU whose copy engine copies.
            stack: gives the queue back.
        """
        self._api = api
        self.source = source
        self.target = target
        self.runner = runner
        self.stream = kept(stack, api.stream(runner), api.end_stream)

    def put(self, size_bytes: int) -> None:
        """Put one copy into the queue."""
        self._api.copy(self.target, self.source, size_bytes, self.stream)

    def settle(self) -> None:
        """Have what is put into the queue next come after all that was put."""


class StagedLane(Lane):
    """Copies from a GPU to another through pinned host memory, in parts, so that both halves overlap.

    It is the control for libraries that copy directly even where no access was granted.
    """

    def __init__(self, api: Api, source: Place, target: Place, size_bytes: int, stack: ExitStack) -> None:
        """Set up both queues.

        Args:
            api: the library.
            source: where the bytes come from; its GPU runs the first half.
            target: where they go; its GPU runs the second half.
            size_bytes: of the largest copy.
            stack: gives back what is set up.
        """
        super().__init__(api, source, target, source.gpu, stack)
        self._bounce = kept(stack, api.allocate(HOST, size_bytes), api.free)
        self._inward = kept(stack, api.stream(target.gpu), api.end_stream)
        parts = range(0, size_bytes, _BOUNCE_BYTES)
        self._full = [kept(stack, api.event(source.gpu), api.end_event) for _ in parts]
        self._free = [kept(stack, api.event(target.gpu), api.end_event) for _ in parts]
        self._used = 0  # parts that have been filled before
        self._last = kept(stack, api.event(target.gpu), api.end_event)

    def put(self, size_bytes: int) -> None:
        """Put one copy into the queues."""
        api = self._api
        for part, at in enumerate(range(0, size_bytes, _BOUNCE_BYTES)):
            size, bounce = min(_BOUNCE_BYTES, size_bytes - at), self._bounce.further(at)
            if part < self._used:
                api.wait(self.stream, self._free[part])
            api.copy(bounce, self.source.further(at), size, self.stream)
            api.record(self._full[part], self.stream)
            api.wait(self._inward, self._full[part])
            api.copy(self.target.further(at), bounce, size, self._inward)
            api.record(self._free[part], self._inward)
            self._used = max(self._used, part + 1)

    def settle(self) -> None:
        """Have what is put into the queue next come after all that was put."""
        self._api.record(self._last, self._inward)
        self._api.wait(self.stream, self._last)


class Timer:
    """Times copies in one lane, or in two against each other."""

    def __init__(self, api: Api, lanes: Sequence[Lane], stack: ExitStack) -> None:
        """Set up the marks.

        Args:
            api: the library.
            lanes: what copies; with two of them both work at once.
            stack: gives the marks back.
        """
        self._api = api
        self._lanes = lanes
        first, *others = lanes
        self._start: Event = kept(stack, api.event(first.runner), api.end_event)
        self._stop: Event = kept(stack, api.event(first.runner), api.end_event)
        self._others = [(lane, kept(stack, api.event(lane.runner), api.end_event)) for lane in others]
        self._copy_ms = math.inf  # as far as is known

    def once(self, size_bytes: int) -> None:
        """One copy in each lane, all at once, until they are done."""
        self._batch(size_bytes, 1, 0, size_bytes)

    def warm_up(self, size_bytes: int) -> int:
        """Copy until links and clocks are at their full speed; how many copies make a batch that can be timed."""
        copies, warm_ms = 1, 0.0
        for _ in range(_MOST_WARM_BATCHES):
            took_ms = self._batch(size_bytes, copies, 1, size_bytes)
            warm_ms += took_ms
            self._copy_ms = took_ms / copies
            copies = max(1, min(_MOST_COPIES, int(_BATCH_MS / self._copy_ms)))
            if warm_ms >= _WARM_MS:
                break
        return copies

    def sample_gbs(self, size_bytes: int, copies: int) -> float:
        """The bandwidth of a batch of copies, all lanes together."""
        took_ms = self._batch(size_bytes, copies, self._leads(_LEAD_MS), size_bytes)
        if took_ms < _SHORTEST_MS:
            text = f"the library says that {copies} copies of {size_bytes} bytes took {took_ms:.3g} ms, which cannot be timed"
            raise Fault("other", text)
        return size_bytes * copies * len(self._lanes) / took_ms / 1e6

    def latency_us(self, size_bytes: int) -> float:
        """What one copy of a few bytes takes, on the average of a batch; the median of some batches.

        Args:
            size_bytes: of the copies behind which the small ones are put into the queue.
        """
        leads = max(1, self._leads(_LATENCY_LEAD_MS))
        taken = sorted(self._batch(_SMALL_BYTES, _SMALL_COPIES, leads, size_bytes) for _ in range(_LATENCY_BATCHES))
        return taken[len(taken) // 2] * 1e3 / _SMALL_COPIES

    def _leads(self, needed_ms: float) -> int:
        """Copies that keep the GPU busy so long; none where even one copy takes far longer than any call."""
        return 0 if self._copy_ms > _SLOW_MS else min(_MOST_LEADS, math.ceil(needed_ms / self._copy_ms))

    def _batch(self, size_bytes: int, copies: int, leads: int, lead_bytes: int) -> float:
        api, first = self._api, self._lanes[0]
        self._put(lead_bytes, leads)
        self._join()
        api.record(self._start, first.stream)
        for lane, _ in self._others:
            api.wait(lane.stream, self._start)
        self._put(size_bytes, copies)
        self._join()
        api.record(self._stop, first.stream)
        api.synchronise(first.stream)
        took_ms = api.elapsed_ms(self._start, self._stop)
        if not took_ms >= 0:
            raise Fault("other", f"the library says that copies took {took_ms:.3g} ms, which is not possible")
        return max(took_ms, _RESOLUTION_MS)

    def _put(self, size_bytes: int, copies: int) -> None:
        for _ in range(copies):
            for lane in self._lanes:
                lane.put(size_bytes)

    def _join(self) -> None:
        """Have the first lane's queue wait for all that was put into any."""
        for lane in self._lanes:
            lane.settle()
        for lane, mark in self._others:
            self._api.record(mark, lane.stream)
            self._api.wait(self._lanes[0].stream, mark)
