"""The links on the way of a copy, looked at while it runs: only then do they show what they give.

An idle GPU lets its link fall to a lower speed, so that what is read before or after a copy tells nothing. A link that comes
up late counts by the best it was seen at.
"""

from __future__ import annotations

from collections.abc import Iterable

from hostdoctor.bandwidth.journal import LinkSeen
from hostdoctor.bandwidth.steps import StepResult
from hostdoctor.evidence import Evidence, Unreadable
from hostdoctor.facts.pci import Function
from hostdoctor.facts.unknown import Unknown, known
from hostdoctor.parsers.sizes import link_speed, link_width
from hostdoctor.readers.text import attribute
from hostdoctor.topology import Topology, gbs_of

_TOLERANCE = 0.98  # clocks differ a little


class LinkWatch:
    """Looks at every link from some GPUs up to the root complex."""

    def __init__(self, evidence: Evidence, topology: Topology, gpus: Iterable[str]) -> None:
        self._evidence = evidence
        self._seen: dict[str, LinkSeen] = {}
        self._ports: dict[str, Function] = {}
        for address in gpus:
            gpu = topology.functions.get(address)
            for function in (gpu, *topology.above(gpu)) if gpu else ():
                if function.parent is not None and function.is_from_sysfs:
                    self._ports[function.address] = function

    def look(self) -> None:
        """Look once; a port that cannot be read is passed over."""
        noted = len(self._evidence.reads)
        for address, port in self._ports.items():
            found = self._look_at(address, port)
            if found is not None:
                self._seen[address] = _better(found, self._seen.get(address))
        del self._evidence.reads[noted:]

    def _look_at(self, address: str, port: Function) -> LinkSeen | None:
        try:
            folder = self._evidence.directory(port.origin.lstrip("/"))
        except Unreadable:
            return None
        speed, width = attribute(folder, "current_link_speed"), attribute(folder, "current_link_width")
        folder.close()
        gts = speed if isinstance(speed, Unknown) else link_speed(speed)
        lanes = width if isinstance(width, Unknown) else link_width(width)
        if isinstance(gts, Unknown) or isinstance(lanes, Unknown) or not lanes:
            return None
        return LinkSeen(address, gts, lanes)

    @property
    def seen(self) -> tuple[LinkSeen, ...]:
        """The best of each link, so far."""
        return tuple(self._seen.values())


def _better(one: LinkSeen, other: LinkSeen | None) -> LinkSeen:
    return one if other is None or (one.speed_gts * one.width) >= (other.speed_gts * other.width) else other


def believed(seen: Iterable[LinkSeen], result: StepResult) -> list[LinkSeen]:
    """The links that can have carried what was measured.

    Not every tool tells when it copies, so that all looks may have fallen beside the copies, where an idle link is slow:
    then more was copied than it carries. Only copies to and from the host count, which load every link of the way.
    """
    if result.step.kind not in ("to-gpu", "from-gpu") or not result.samples_gbs:
        return []
    rate = _TOLERANCE * max(result.samples_gbs)
    return [each for each in seen if known(gbs_of(each.speed_gts, each.width), 0.0) >= rate]
