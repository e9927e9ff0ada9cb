"""Watches the cards' slot links for a while, and which errors are counted and which functions come and go meanwhile.

Each look is taken by a guarded child, since the GPU's driver serves some of the files. A GPU that stops answering ends the
watch: what was seen until then stands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from hostdoctor.evidence import Evidence, Unreadable
from hostdoctor.evidence.guarded import GuardedRead
from hostdoctor.facts.driver import ErrorCounters, LinkSample, Samples
from hostdoctor.facts.host import Host
from hostdoctor.facts.pci import Function
from hostdoctor.facts.unknown import ASLEEP, NOT_CAPTURED, Unknown
from hostdoctor.names import udev_context
from hostdoctor.parsers.sizes import link_speed, link_width
from hostdoctor.readers.errors import read_counters
from hostdoctor.readers.text import attribute, integer, unknown_from
from hostdoctor.topology import Card, Topology

_UEVENTS_AT_MOST = 1000


class Clock(Protocol):
    """Time, as far as watching needs it."""

    def now(self) -> float:
        """Seconds since some moment."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


_PIECE_S = 0.25


class SystemClock:
    """The host's own time."""

    def now(self) -> float:
        """See Clock."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """See Clock.

        In pieces: a signal that comes just before the kernel is asked to sleep does not cut that sleep short.
        """
        ends = self.now() + seconds
        while (left := ends - self.now()) > 0:
            time.sleep(min(left, _PIECE_S))


class Uevents(Protocol):
    """A source of uevents of PCI functions."""

    def drain(self) -> Iterable[str]:
        """Those since it was asked last, "remove 0000:43:00.0"."""


class NoUevents:
    """Where there are none to be had."""

    def drain(self) -> Iterable[str]:
        """See Uevents."""
        return ()


class KernelUevents:
    """This host's, from the kernel's own socket by way of libudev; works without udevd running."""

    def __init__(self) -> None:
        """Begin to listen; raises ImportError or OSError where that is not possible."""
        context = udev_context()
        from pyudev import Monitor  # noqa: PLC0415  loading libudev costs time that only watching pays

        self._monitor = Monitor.from_netlink(context, source="kernel")
        self._monitor.filter_by("pci")
        self._monitor.start()

    def drain(self) -> Iterable[str]:
        """See Uevents."""
        for _ in range(_UEVENTS_AT_MOST):
            device = self._monitor.poll(timeout=0)
            if device is None:
                return
            yield f"{device.action} {device.sys_name}"


def uevents_of(evidence: Evidence) -> Uevents:
    """The uevents that go with an evidence: this host's where it is this host, none elsewhere."""
    if evidence.kind != "live":
        return NoUevents()
    try:
        return KernelUevents()
    except (ImportError, OSError, AttributeError):  # no libudev, no permission, a libudev that lacks a function
        return NoUevents()


class Plan(msgspec.Struct, frozen=True):
    """How to watch: that many looks, so far apart, each of which may take so long."""

    samples: int
    interval_s: float
    deadline_s: float = 10.0


class Means(msgspec.Struct, frozen=True):
    """What watching needs besides files.

    Attributes:
        tick: called after each look.
        clock: the time.
        uevents: where uevents come from; None for those that go with the evidence.
    """

    tick: Callable[[], object] = lambda: None
    clock: Clock = SystemClock()
    uevents: Uevents | None = None


class _Look(msgspec.Struct, frozen=True):
    """What one look at a card found."""

    speed_gts: float | Unknown
    width: int | Unknown
    busy_percent: int | Unknown = NOT_CAPTURED


def watched(evidence: Evidence, host: Host, plan: Plan, means: Means | None = None) -> Host:
    """The host with samples of its cards' links; as it was where there is nothing to watch.

    Args:
        evidence: where the host was read from.
        host: its facts; its error counters are those before.
        plan: how to watch.
        means: clock, uevents, and whom to tell.
    """
    if isinstance(host.functions, Unknown) or host.environment.is_guest:
        return host
    cards = Topology(host.functions).cards
    if not cards:
        return host
    links, uevents = _watch(evidence, cards, plan, means or Means())
    before = {} if isinstance(host.error_counters, Unknown) else host.error_counters
    counted = [host.functions[address] for address in before if address in host.functions]
    after = _counters(evidence, counted, plan.deadline_s)
    return msgspec.structs.replace(host, samples=Samples(plan.interval_s, tuple(links), before, after, tuple(uevents)))


def _watch(evidence: Evidence, cards: Sequence[Card], plan: Plan, means: Means) -> tuple[list[LinkSample], list[str]]:
    clock, uevents = means.clock, means.uevents or uevents_of(evidence)
    links: list[LinkSample] = []
    seen: list[str] = []
    began = clock.now()
    ends = began + (plan.samples - 1) * plan.interval_s + plan.deadline_s
    noted = 0
    for number in range(plan.samples):
        # By the plan, not by when the last look ended: a slow look shortens the wait after it.
        wait = began + number * plan.interval_s - clock.now()
        if number and wait > 0:
            clock.sleep(wait)
        at = clock.now() - began
        if began + at > ends:
            break
        looks, hangs = _look(evidence, cards, plan.deadline_s)
        # The same files every time: the first look has noted them.
        noted = noted or len(evidence.reads)
        del evidence.reads[noted:]
        links += [
            LinkSample(address, round(at, 3), look.speed_gts, look.width, look.busy_percent) for address, look in looks.items()
        ]
        seen += uevents.drain()
        means.tick()
        if hangs:
            break
    return links, seen[:_UEVENTS_AT_MOST]


def _look(evidence: Evidence, cards: Sequence[Card], deadline_s: float) -> tuple[dict[str, _Look], bool]:
    """Each card's link as it is now, and whether some file did not answer."""

    def reader(source: Evidence) -> dict[str, _Look]:
        return {card.gpu.address: _look_at(source, card) for card in cards}

    at_work = GuardedRead(evidence, reader, deadline_s)
    try:
        looks = reader(at_work.answers())
    finally:
        at_work.abandon()
    return looks, bool(at_work.hung_on)


def _look_at(evidence: Evidence, card: Card) -> _Look:
    """The speed and width of the card's edge, unless the GPU or the edge sleeps: reading would wake it."""
    try:
        edge = evidence.directory(card.top.origin.lstrip("/"))
        gpu = evidence.directory(card.gpu.origin.lstrip("/")) if card.has_own_switch else edge
    except Unreadable as error:
        why = unknown_from(error)
        return _Look(why, why, why)
    try:
        if any(attribute(folder, "power/runtime_status") in ("suspended", "suspending") for folder in (gpu, edge)):
            return _Look(ASLEEP, ASLEEP, ASLEEP)
        speed, width = attribute(edge, "current_link_speed"), attribute(edge, "current_link_width")
        busy = integer(attribute(gpu, "gpu_busy_percent")) if card.gpu.driver == "amdgpu" else NOT_CAPTURED
    finally:
        edge.close()
        if gpu is not edge:
            gpu.close()
    return _Look(
        speed if isinstance(speed, Unknown) else link_speed(speed),
        width if isinstance(width, Unknown) else link_width(width),
        busy,
    )


def _counters(evidence: Evidence, functions: Sequence[Function], deadline_s: float) -> Mapping[str, ErrorCounters]:
    if not functions:
        return {}

    def reader(source: Evidence) -> dict[str, ErrorCounters]:
        return read_counters(source, functions)

    at_work = GuardedRead(evidence, reader, deadline_s)
    try:
        return reader(at_work.answers())
    finally:
        at_work.abandon()
