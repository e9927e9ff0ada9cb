"""Recorded runs in the terms of checks: what was measured for a pair or a GPU, and what its way could give.

What a way gives is told by the narrowest link on it as it runs under load. Where no link is known, the copies to and from
the host of the same run tell what the links give at least; where there are none of those either, nothing does.

Sources of the rules: hostdoctor/knowledge/bandwidth.toml.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import msgspec

from hostdoctor import knowledge, wording
from hostdoctor.boot_links import boot_link
from hostdoctor.facts.bandwidth import Broken, LoadedLink, Transfer, Verification, is_host
from hostdoctor.facts.pci import Function
from hostdoctor.facts.unknown import Unknown, known
from hostdoctor.findings import Evidence
from hostdoctor.topology import TUNNEL, Card, Segment, gbs_of, to_root_gbs

if TYPE_CHECKING:
    from hostdoctor.view import View

# What a processor is planned to forward is met with some tolerance, and half of it is far below.
_LIMIT_TOLERANCE, _LIMIT_FAILURE = 0.85, 0.5
# More than 32 GT/s x16 carries each way.
MOST_OF_PCIE_GBS = 64.0
# The rate of 8 GT/s x16: links of later generations belong to processors that have no limit below theirs.
_OLD_LINK_GBS = 15.8


class PairMeasurements(msgspec.Struct):
    """Everything measured of an ordered pair, accessor first. `latency` holds copies of a few bytes."""

    one_way: list[Transfer] = []
    both_ways: list[Transfer] = []
    latency: list[Transfer] = []
    staged_one_way: list[Transfer] = []
    staged_both_ways: list[Transfer] = []
    staged_latency: list[Transfer] = []
    not_measured: list[Transfer] = []

    @property
    def is_direct(self) -> bool:
        """Whether a copy that may have been direct was measured at all."""
        return bool(self.one_way or self.both_ways)

    @property
    def is_staged_only(self) -> bool:
        """Whether the driver staged everything that was measured."""
        return not self.is_direct and bool(self.staged_one_way or self.staged_both_ways)

    def put(self, transfer: Transfer) -> None:
        """Put a transfer where it belongs."""
        staged = transfer.peer_access is False
        if transfer.latency_us is not None:
            (self.staged_latency if staged else self.latency).append(transfer)
        elif transfer.gbs is None:
            self.not_measured.append(transfer)
        elif not transfer.contended:
            one, both = (self.staged_one_way, self.staged_both_ways) if staged else (self.one_way, self.both_ways)
            (both if transfer.both_ways else one).append(transfer)


class HostMeasurements(msgspec.Struct):
    """Copies between a GPU and host memory, by memory node ("host:0"), without those beside which others ran."""

    to_gpu: dict[str, list[Transfer]] = {}
    from_gpu: dict[str, list[Transfer]] = {}

    def put(self, transfer: Transfer) -> None:
        """Put a transfer where it belongs."""
        if transfer.gbs is None or transfer.contended or transfer.both_ways:
            return
        to_gpu = is_host(transfer.origin)
        places, node = (self.to_gpu, transfer.origin) if to_gpu else (self.from_gpu, transfer.target)
        places.setdefault(node, []).append(transfer)


class Expectation(msgspec.Struct, frozen=True):
    """What direct copies of a pair reach one way where all is well, and both ways together.

    Attributes:
        raw_gbs: the rate of the narrowest link one way, or what copies to the host show of it.
        by_host_copies: whether it is the latter.
        ok_gbs: one way, from here on in order.
        failure_gbs: one way, below this something is wrong.
        staged_sum_gbs: both ways together, below this copies are not direct.
        direct_sum_gbs: both ways together, from here on they are.
        evidence: the link, or the host copy.
    """

    raw_gbs: float
    by_host_copies: bool
    ok_gbs: float
    failure_gbs: float
    staged_sum_gbs: float
    direct_sum_gbs: float
    evidence: tuple[Evidence, ...]


Fabric = Literal["pcie", "xgmi", "nvlink", "unknown"]


def least(transfers: Iterable[Transfer]) -> Transfer | None:
    """The slowest of several measurements of one thing; kernels count only where no copy engine was used."""
    found = list(transfers)
    engines = [each for each in found if each.engine != "kernel"]
    return min(engines or found, key=lambda each: each.gbs or 0.0, default=None)


def best(transfers: Iterable[Transfer]) -> Transfer | None:
    """The fastest of several."""
    found = list(transfers)
    engines = [each for each in found if each.engine != "kernel"]
    return max(engines or found, key=lambda each: each.gbs or 0.0, default=None)


def rate(transfer: Transfer | None) -> float | None:
    """Its GB/s."""
    return None if transfer is None else transfer.gbs


def shown(transfer: Transfer, label: str = "") -> Evidence:
    """A measurement as evidence."""
    what = f"{transfer.latency_us:g} us" if transfer.latency_us is not None else f"{known_rate(transfer)} GB/s"
    what += f" (printed: {transfer.printed})" if transfer.printed else ""
    both = " both ways together" if transfer.both_ways else ""
    ends = f"{transfer.origin} to {transfer.target}"
    return Evidence(transfer.source, f"{ends}: {what}{both}{f' ({label})' if label else ''}")


def known_rate(transfer: Transfer) -> str:
    """The rate as text, N/A where there is none."""
    return "N/A" if transfer.gbs is None else f"{transfer.gbs:.2f}"


class Measured:
    """All runs of a host."""

    def __init__(self, view: View) -> None:
        self._view = view

    @cached_property
    def pairs(self) -> Mapping[tuple[str, str], PairMeasurements]:
        """By accessor and owner; a copy that the target ran is the target's access to the origin's memory."""
        pairs: dict[tuple[str, str], PairMeasurements] = {}
        for transfer in self._transfers:
            if transfer.origin == transfer.target or is_host(transfer.origin) or is_host(transfer.target):
                continue
            ends = (transfer.origin, transfer.target)
            ends = ends[::-1] if transfer.initiator == "target" else ends
            pairs.setdefault(ends, PairMeasurements()).put(transfer)
        return dict(sorted(pairs.items()))

    @cached_property
    def host_copies(self) -> Mapping[str, HostMeasurements]:
        """By GPU."""
        found: dict[str, HostMeasurements] = {}
        for transfer in self._transfers:
            if is_host(transfer.origin) != is_host(transfer.target):
                gpu = transfer.target if is_host(transfer.origin) else transfer.origin
                found.setdefault(gpu, HostMeasurements()).put(transfer)
        return dict(sorted(found.items()))

    @cached_property
    def inside(self) -> Mapping[str, float]:
        """The slowest copy inside each GPU, GB/s as the tool counts it."""
        found: dict[str, float] = {}
        for transfer in self._transfers:
            if transfer.origin == transfer.target and transfer.gbs is not None:
                found[transfer.origin] = min(transfer.gbs, found.get(transfer.origin, transfer.gbs))
        return found

    @cached_property
    def wrong(self) -> Mapping[tuple[str, str], Verification]:
        """The copies whose data were wrong, by origin and target; ("", "") where the tool does not tell which."""
        return {(each.origin, each.target): each for each in self.verifications if each.right is False}

    @cached_property
    def broken(self) -> Mapping[tuple[str, str], Broken]:
        """The copies that did not come to their end, by origin and target; the first of each."""
        found: dict[tuple[str, str], Broken] = {}
        for run in self._view.host.runs:
            for each in run.broken:
                found.setdefault((each.origin, each.target), each)
        return found

    @cached_property
    def loaded(self) -> Mapping[str, LoadedLink]:
        """The links that were looked at while copies ran, by the function at the lower end; the best of each."""
        found: dict[str, LoadedLink] = {}
        for each in (link for run in self._view.host.runs for link in run.links):
            known_one = found.get(each.port)
            if known_one is None or each.speed_gts * each.width > known_one.speed_gts * known_one.width:
                found[each.port] = each
        return found

    def _segment_gbs(self, segment: Segment) -> float | Unknown:
        """GB/s one way of a link under load: as it was seen then, else as an idle one comes up to."""
        seen = self.loaded.get(segment.lower.address)
        rate = gbs_of(seen.speed_gts, seen.width) if seen else segment.loaded_gbs
        return segment.loaded_gbs if isinstance(rate, Unknown) else rate

    @cached_property
    def verifications(self) -> tuple[Verification, ...]:
        """What all runs say of the data."""
        return tuple(each for run in self._view.host.runs for each in run.verifications)

    @cached_property
    def names(self) -> Mapping[str, str]:
        """What tools call each GPU."""
        return {device.subject: device.name for run in self._view.host.runs for device in run.gpus}

    @property
    def _transfers(self) -> list[Transfer]:
        return [each for run in self._view.host.runs for each in run.transfers]

    @cached_property
    def cards(self) -> Mapping[str, Card]:
        """The cards that runs can speak of."""
        return {card.gpu.address: card for card in self._view.cards}

    def gpu(self, subject: str) -> Function | None:
        """The function of a GPU, if it is known as one."""
        card = self.cards.get(subject)
        return card.gpu if card else None

    def data_wrong(self, a: str, b: str) -> Verification | None:
        """Wrong data of a pair in either direction, or somewhere in a run that does not tell where."""
        return self.wrong.get((a, b)) or self.wrong.get((b, a)) or self.wrong.get(("", ""))

    def host_data_wrong(self, subject: str) -> Verification | None:
        """Wrong data of a GPU's copies with host memory, of any node and in either direction."""
        return next((each for ends, each in self.wrong.items() if subject in ends and any(map(is_host, ends))), None)

    # --- what a way gives ---------------------------------------------------------------------------------------------

    @cached_property
    def cpu_name(self) -> str:
        """The processor's name; empty where nothing tells it."""
        names = (device.name for run in self._view.host.runs for device in run.devices if not device.is_gpu)
        return known(self._view.host.cpu.name, "") or next((name for name in names if name), "")

    @property
    def is_intel(self) -> bool:
        """Whether the processor is Intel's; of an unknown one too, since less is expected of it then."""
        cpu = self._view.host.cpu
        if not isinstance(cpu.vendor, Unknown):
            return cpu.is_intel
        return not self.cpu_name or "intel" in self.cpu_name.lower()

    def link(self, subject: str) -> tuple[float, Evidence] | Unknown:
        """GB/s one way of the narrowest link between a GPU and the root complex, under load."""
        card = self.cards.get(subject)
        if card is None:
            return Unknown("which card it is, is not known")
        if card.attachment == "chipset":
            return Unknown("the card sits at the chipset, whose link is shared and not described")
        raw = card.slot if isinstance(card.slot, Unknown) else to_root_gbs(card)
        if isinstance(raw, Unknown):
            return raw if raw is TUNNEL else self._link_at_boot(card) or raw
        return self._narrowest(card.segments)

    def _narrowest(self, segments: Sequence[Segment]) -> tuple[float, Evidence]:
        """The narrowest of some links whose rates are all known."""
        narrowest = min(segments, key=lambda each: known(self._segment_gbs(each), 0.0))
        raw = known(self._segment_gbs(narrowest), 0.0)
        seen = self.loaded.get(narrowest.lower.address)
        if seen is None:
            return raw, _link_evidence(narrowest, raw)
        link = wording.link(seen.speed_gts, seen.width)
        text = f"link of {seen.port} to {narrowest.upper.address} while it copied: {link}, {raw:.1f} GB/s each way"
        return raw, Evidence(seen.source, text)

    def _link_at_boot(self, card: Card) -> tuple[float, Evidence] | None:
        """The same as the kernel found it at the boot, before drivers saved power, where nothing newer tells it."""
        link = boot_link(self._view.host, card)
        if link is None:
            return None
        text = (
            f"{wording.link(link.speed_gts, link.width)} at {link.limited_by or card.top.address}: {link.gbs:.1f} GB/s each way"
        )
        return link.gbs, Evidence(link.source, text)

    def between(self, a: str, b: str) -> Expectation | None:
        """What direct copies between two GPUs reach over PCIe; None where nothing tells it."""
        links = [self._link_below_common(each, other) for each, other in ((a, b), (b, a))]
        told = [each for each in links if not isinstance(each, Unknown)]
        if len(told) == len(links):
            raw, evidence = min(told, key=lambda each: each[0])
            return self._expectation(a, b, raw, (evidence,), by_host_copies=False)
        if any(card.attachment == "chipset" for subject in (a, b) if (card := self.cards.get(subject))):
            return None
        copies = [self.host_rate(each) for each in (a, b)]
        slower = min((each for each in copies if each), key=lambda each: each.gbs or 0.0, default=None)
        if slower is None or slower.gbs is None or None in copies:
            return None
        return self._expectation(a, b, slower.gbs, (shown(slower),), by_host_copies=True)

    def _link_below_common(self, subject: str, other: str) -> tuple[float, Evidence] | Unknown:
        """As `link`, but only up to the bridge that both share, where they share one."""
        card, peer = self.cards.get(subject), self.cards.get(other)
        common = self._view.topology.common_bridge(card.gpu, peer.gpu) if card and peer else None
        if card is None or common is None:
            return self.link(subject)
        above = [each.address for each in (common, *self._view.topology.above(common))]
        below = [each for each in card.segments if each.lower.address not in above]
        rates = [each.loaded_gbs for each in below]
        if not below or any(isinstance(each, Unknown) for each in rates):
            return Unknown("a link below the common bridge is not known")
        return self._narrowest(below)

    def host_rate(self, subject: str) -> Transfer | None:
        """The slower of a GPU's best copies to and from the host; nothing where their data were wrong."""
        copies = self.host_copies.get(subject)
        if copies is None or self.host_data_wrong(subject):
            return None
        found = [best(each for node in side.values() for each in node) for side in (copies.to_gpu, copies.from_gpu) if side]
        return min((each for each in found if each), key=lambda each: each.gbs or 0.0, default=None)

    def _expectation(self, a: str, b: str, raw: float, evidence: tuple[Evidence, ...], *, by_host_copies: bool) -> Expectation:
        below_switch = self._have_common_bridge(a, b)
        floor = knowledge.load_copy_floors()["switch" if below_switch else "root-complex"]
        factor = knowledge.intel_factor() if self.is_intel and not below_switch else 1.0
        limit = None if below_switch else self._limit(a, b, raw)
        one_way, total = (limit.one_way_gbs, limit.sum_gbs) if limit else (raw, 2 * raw)
        sign = knowledge.load_staging_signs()["both_ways"]
        return Expectation(
            raw,
            by_host_copies,
            min(floor.ok * raw * factor, _LIMIT_TOLERANCE * one_way),
            min(floor.failure * raw * factor, _LIMIT_FAILURE * one_way),
            min(sign.staged * 2 * raw * factor, _LIMIT_TOLERANCE * total),
            min(sign.direct * 2 * raw * factor, total),
            evidence,
        )

    def _have_common_bridge(self, a: str, b: str) -> bool:
        first, second = self.gpu(a), self.gpu(b)
        return bool(first and second and self._view.topology.common_bridge(first, second))

    def _limit(self, a: str, b: str, raw: float) -> knowledge.RootComplex | None:
        """The least that the processors between two GPUs may forward."""
        name = self.cpu_name
        limits = [knowledge.root_complex_limit(name)] if name or raw <= _OLD_LINK_GBS else []
        if self._may_be_across_sockets(a, b):
            limits.append(knowledge.inter_socket_limit(name))
        return min((each for each in limits if each), key=lambda each: each.one_way_gbs, default=None)

    def _may_be_across_sockets(self, a: str, b: str) -> bool:
        nodes = [gpu.numa_node for subject in (a, b) if (gpu := self.gpu(subject)) and not isinstance(gpu.numa_node, Unknown)]
        if len(nodes) == 2 and min(nodes) >= 0:
            return nodes[0] != nodes[1]
        if not isinstance(sockets := self._view.host.cpu.sockets, Unknown):
            return sockets > 1
        listed = [sum(not device.is_gpu for device in run.devices) for run in self._view.host.runs]
        return max(listed, default=0) != 1


def _link_evidence(segment: Segment, raw: float) -> Evidence:
    return Evidence(segment.lower.origin, f"link to {segment.upper.address}: {raw:.1f} GB/s each way under load")


def spread(values: Sequence[float]) -> str:
    """Figures as a range: "6.6 GB/s", "6.4 to 6.7 GB/s"."""
    low, high = f"{min(values):.1f}", f"{max(values):.1f}"
    return f"{low} GB/s" if low == high else f"{low} to {high} GB/s"
