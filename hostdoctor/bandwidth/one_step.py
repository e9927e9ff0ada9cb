"""One step, whatever library carries it out: the data first, then the time, and the data of what was timed.

What is asked of the library is in `api.py`. That it says a GPU may access another's memory is never taken for proof: what
counts is what arrives.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

import msgspec

from hostdoctor.bandwidth.api import HOST, Api, Fault, Place, hidden_by, kept
from hostdoctor.bandwidth.lanes import Lane, StagedLane, Timer
from hostdoctor.bandwidth.machine import Machine
from hostdoctor.bandwidth.patterns import Difference
from hostdoctor.bandwidth.steps import FEWEST_REPEATS, Device, Step, StepResult
from hostdoctor.bandwidth.verifying import Verifier
from hostdoctor.facts.bandwidth import HOST as HOST_NAME
from hostdoctor.facts.bandwidth import is_host

SMALLEST_BYTES = 1 << 20  # below it a copy says nothing of a link


def measured(step: Step, api: Api, machine: Machine, copying: Callable[[bool], None]) -> StepResult:
    """Carry out a step; what fails is in the result.

    Args:
        step: what to do.
        api: the library.
        machine: the host.
        copying: told when the timed copies begin and end.
    """
    try:
        devices = tuple(_placed(device, machine) for device in api.devices())
        if step.kind == "devices":
            return StepResult(step, devices=devices, library=api.library)
        measurement = _Measurement(step, api, machine, copying, {each.subject: each for each in devices})
        with _losses_told(step, machine):
            return measurement.run()
    except Fault as fault:
        return StepResult(step, error=str(fault), error_kind=fault.kind, error_code=fault.code, library=api.library)


def _placed(device: Device, machine: Machine) -> Device:
    return msgspec.structs.replace(device, numa_node=machine.numa_node(device.subject))


@contextmanager
def _losses_told(step: Step, machine: Machine) -> Iterator[None]:
    """Tell errors that come of a GPU that is gone from others: the libraries give all kinds of errors for it."""
    there = [gpu for gpu in step.gpus if machine.answers(gpu)]
    try:
        yield
    except Fault as fault:
        gone = [gpu for gpu in there if not machine.answers(gpu)]
        if gone:
            raise Fault("lost", f"{' and '.join(gone)} does not answer on the bus any more: {fault}", fault.code) from fault
        if fault.kind == "no-device" and fault.code:
            # It was there when the step began.
            raise Fault("lost", f"the library does not find the GPU any more: {fault}", fault.code) from fault
        raise


class _Measurement:
    """A step under way."""

    def __init__(
        self, step: Step, api: Api, machine: Machine, copying: Callable[[bool], None], devices: dict[str, Device]
    ) -> None:
        self._step = step
        self._api = api
        self._machine = machine
        self._copying = copying
        self._devices = devices
        self._size_bytes = step.size_bytes
        self._host_node: int | None = None
        self._bound_node: int | None = None

    def run(self) -> StepResult:
        """All of it."""
        numbers = [self._number(gpu) for gpu in self._step.gpus]
        if len(numbers) < (2 if self._step.kind == "pair" else 1):
            raise Fault("other", "the step does not name the GPUs that it is about")
        self._go_to_node(numbers)
        for number in numbers:
            self._api.open(number)
        self._set_access(numbers)
        while True:
            try:
                with ExitStack() as stack:
                    return self._with_memory(self._lanes(stack), stack)
            except Fault as fault:
                if fault.kind != "out-of-memory" or self._size_bytes // 2 < SMALLEST_BYTES:
                    raise
                self._size_bytes //= 2

    def _number(self, gpu: str) -> int:
        if gpu in self._devices:
            return self._devices[gpu].number
        seen = ", ".join(self._devices) or "no GPU at all"
        hidden = hidden_by(self._api.hiding)
        raise Fault("no-device", f"{gpu} is not among the GPUs that the library sees: {seen}{hidden}")

    def _go_to_node(self, numbers: Sequence[int]) -> None:
        """Be at the memory node that the step names, or else at that of the GPU."""
        step = self._step
        named = next((end for end in (step.origin, step.target) if is_host(end) and end != HOST_NAME), "")
        number = named.partition(":")[2]
        near = next(each.numa_node for each in self._devices.values() if each.number == numbers[0])
        node = int(number) if number.isdecimal() else near
        if node is not None and self._machine.stay_at(node):
            self._bound_node = node

    def _set_access(self, numbers: Sequence[int]) -> None:
        step = self._step
        if step.kind != "pair":
            return
        pairs = [(numbers[0], numbers[1]), (numbers[1], numbers[0])]
        if not step.peer_access:
            for accessor, owner in pairs:
                self._api.set_access(accessor, owner, False)
            return
        # The GPU that copies needs access; that the other gets it too is usual, and needed where both copy.
        needed = pairs if step.both_ways else [pair for pair in pairs if pair[0] == self._runner(numbers)]
        for pair in pairs:
            if pair in needed:
                self._grant(*pair)
            elif self._api.may_access(*pair):
                with suppress(Fault):
                    self._api.set_access(*pair, True)

    def _grant(self, accessor: int, owner: int) -> None:
        if not self._api.may_access(accessor, owner):
            names = {each.number: each.subject for each in self._devices.values()}
            raise Fault("forbidden", f"the driver says that {names[accessor]} cannot access the memory of {names[owner]}")
        self._api.set_access(accessor, owner, True)

    def _runner(self, numbers: Sequence[int]) -> int:
        """The GPU that copies in the direction that the step names."""
        accessor = self._step.accessor
        if accessor and accessor not in self._step.gpus:
            raise Fault("other", f"{accessor} takes no part in the step and cannot copy for it")
        return self._number(accessor) if accessor else numbers[0]

    def _lanes(self, stack: ExitStack) -> list[Lane]:
        """What copies, with memory for it: one lane, or one for each direction."""
        step = self._step
        ends = [HOST if is_host(end) else self._number(end) for end in (step.origin, step.target)]
        directions = [ends, ends[::-1]] if step.both_ways else [ends]
        lanes: list[Lane] = []
        for origin, target in directions:
            source, sink = self._memory(origin, stack), self._memory(target, stack)
            if step.kind == "pair" and not step.peer_access and not self._api.stages:
                lanes.append(StagedLane(self._api, source, sink, self._size_bytes, stack))
            else:
                gpus = [end for end in (origin, target) if end != HOST]
                runner = gpus[0] if lanes else self._runner(gpus)
                lanes.append(Lane(self._api, source, sink, runner, stack))
        return lanes

    def _memory(self, end: int, stack: ExitStack) -> Place:
        return kept(stack, self._api.allocate(end, self._size_bytes), self._api.free)

    def _with_memory(self, lanes: list[Lane], stack: ExitStack) -> StepResult:
        step, size_bytes = self._step, self._size_bytes
        timer = Timer(self._api, lanes, stack)
        names = {each.number: each.subject for each in self._devices.values()}
        data = Verifier(self._api, lanes, size_bytes, names, stack) if step.verify else None
        self._note_node(lanes)
        if data:
            data.renew()
            data.poison()
            timer.once(size_bytes)
            if wrong := data.difference():
                return self._wrong(wrong)
            data.renew()
        samples: list[float] = []
        copies = timer.warm_up(size_bytes)
        self._copying(True)
        try:
            for _ in range(max(step.repeats, FEWEST_REPEATS)):
                if data:
                    data.poison()
                samples.append(timer.sample_gbs(size_bytes, copies))
                if data and (wrong := data.difference()):
                    return self._wrong(wrong, "in the timed copies, ")
        finally:
            self._copying(False)
        latency_us = timer.latency_us(size_bytes) if step.latency else None
        return self._result(samples_gbs=tuple(samples), latency_us=latency_us, data="right" if data else "not-compared")

    def _note_node(self, lanes: list[Lane]) -> None:
        """Find out where the pinned memory of the copies lies."""
        hosts = [place for lane in lanes for place in (lane.source, lane.target) if place.gpu == HOST]
        if hosts:
            ctypes.memset(hosts[0].address, 0, self._size_bytes)  # what nobody wrote to need not lie anywhere yet
            node = self._machine.node_of(hosts[0].address)
            self._host_node = self._bound_node if node is None else node

    def _wrong(self, wrong: Difference, when: str = "") -> StepResult:
        return self._result(
            data="wrong", wrong_kind=wrong.kind, wrong_bytes=wrong.wrong_bytes, wrong_text=f"{when}{wrong.text}"
        )

    def _result(self, **found: object) -> StepResult:
        made = StepResult(self._step, library=self._api.library, size_bytes=self._size_bytes, host_node=self._host_node)
        return msgspec.structs.replace(made, **found)
