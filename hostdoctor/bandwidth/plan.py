"""The steps of a run, in the order of the danger they bring.

Copies between host and GPU come first, then those inside a GPU, then between GPUs by way of host memory, and only then the
direct ones, a pair at a time: where these take the host down, all the rest is on disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations

import msgspec

from hostdoctor.bandwidth.adapters import Adapter
from hostdoctor.bandwidth.choice import Chosen
from hostdoctor.bandwidth.steps import REPEATS, SIZE_BYTES, Device, Step
from hostdoctor.facts.bandwidth import HOST, host_node

_TYPICAL_S = 2.5  # of a program that starts a library, copies, and ends


class Wishes(msgspec.Struct, frozen=True):
    """What the user wants of each step."""

    size_bytes: int = SIZE_BYTES
    repeats: int = REPEATS
    deadline_s: float = 60.0
    only: tuple[str, ...] = ()  # GPUs; all where empty


class Task(msgspec.Struct, frozen=True):
    """A step and what takes it."""

    adapter: Adapter
    step: Step

    @property
    def key(self) -> tuple[str, str]:
        """What tells it from the others of a run."""
        return self.adapter.name, self.step.key


def tasks_of(chosen: Sequence[Chosen], wishes: Wishes) -> list[Task]:
    """All steps of a run: those of every tool that are safe before those of any that are not."""
    found = [Task(each.adapter, step) for each in chosen for step in _steps(each.devices, wishes) if each.adapter.can(step)]
    return sorted(found, key=lambda task: _danger(task.step))


def _danger(step: Step) -> int:
    order = ("to-gpu", "from-gpu", "inside", "pair")
    return 2 * order.index(step.kind) + (step.kind == "pair" and step.peer_access)


def _steps(devices: Sequence[Device], wishes: Wishes) -> Iterator[Step]:
    size, repeats = wishes.size_bytes, wishes.repeats
    for device in devices:
        node = HOST if device.numa_node is None else host_node(device.numa_node)
        yield Step("to-gpu", node, device.subject, device.subject, size_bytes=size, repeats=repeats)
        yield Step("from-gpu", device.subject, node, device.subject, size_bytes=size, repeats=repeats)
        yield Step("inside", device.subject, device.subject, device.subject, size_bytes=size, repeats=repeats)
    subjects = [device.subject for device in devices]
    for pair in combinations(subjects, 2):
        for direct in (False, True):
            for origin, target in permutations(pair):
                yield Step("pair", origin, target, origin, direct, False, size, repeats, latency=True)
            yield Step("pair", *pair, pair[0], direct, True, size, repeats)


def expected_s(tasks: Sequence[Task]) -> float:
    """How long a run takes where nothing is wrong, roughly: most of it is the start of libraries."""
    return sum(_TYPICAL_S * task.adapter.calls(task.step) for task in tasks)


def longest_s(tasks: Sequence[Task], deadline_s: float) -> float:
    """How long it takes at most, where everything hangs."""
    return deadline_s * sum(task.adapter.calls(task.step) for task in tasks)
