"""What changed from one report to another: findings, facts, P2P between each pair of GPUs, and measured bandwidth.

A GPU is the same where its address and id are; one that moved is found by its id and name at another address, and what is
told of it there is compared with what was told of it before. What only one of two reports tells is no change.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Literal

import msgspec

from hostdoctor import wording
from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import OUTCOMES, Finding
from hostdoctor.parsers.cmdline import parse_command_line
from hostdoctor.report.model import GpuReport, HostReport, LinkReport, MeasuredCell, PairReport, Report

Verdict = Literal["worse", "better", "other"]
Kind = Literal["finding", "gpu", "fact", "pair", "bandwidth"]

_PROBLEMS = ("failure", "warning", "info")
_UNJUDGED = ("unknown", "not-applicable")
_GRAVE = ("failure", "warning")
# Margins of ours, which no source gives: how much two single measurements of one copy may differ before that says anything.
_SINGLE_SPREAD = 0.05
# And two that were repeated: what one run repeats shares its clocks, its temperature and its memory.
_RUN_SPREAD = 0.02
_FACTS = (
    ("kernel", "kernel"), ("distribution", "distribution"), ("bios", "BIOS"), ("system", "system"), ("board", "board"),
    ("cpu", "processor"), ("cpu_sockets", "processors"), ("physical_address_bits", "physical address bits"),
    ("virtualisation", "virtualisation"), ("hypervisor", "hypervisor"), ("container", "container"),
    ("iommu_units", "IOMMU units"), ("numa_nodes", "memory nodes"), ("integrated_gpus", "integrated GPUs"),
)  # fmt: skip
_DRIVERS = (
    ("nvidia", "NVIDIA driver"), ("nvml", "NVML"), ("cuda", "CUDA of the driver"), ("amdgpu", "amdgpu driver"),
    ("amd_smi", "AMD SMI library"),
)  # fmt: skip


class Change(msgspec.Struct, frozen=True):
    """One thing that changed.

    Attributes:
        kind: "finding", "gpu" (a card that is new, gone or elsewhere), "fact", "pair" or "bandwidth".
        verdict: whether it got worse.
        what: what is spoken of: "cured", "command line", "BARs".
        subject: functions, pairs and parameters, by their names in the second report where they are in both.
        before: what it was, in words; empty where it was not.
        after: what it is, in words.
        check: of a finding.
        evidence: of a finding that is in both, the values that changed: source, old, new.
    """

    kind: Kind
    verdict: Verdict
    what: str
    subject: tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    check: str = ""
    evidence: tuple[tuple[str, str, str], ...] = ()


class Difference(msgspec.Struct, frozen=True):
    """All that changed.

    Attributes:
        changes: worse first, of one kind together.
        pairs: how many pairs the second report judges.
        told_once: facts that only one of the reports tells.
        checks_once: checks that ran for only one of them.
    """

    changes: tuple[Change, ...]
    pairs: int = 0
    told_once: tuple[str, ...] = ()
    checks_once: tuple[str, ...] = ()

    @property
    def is_worse(self) -> bool:
        """Whether anything got worse."""
        return any(change.verdict == "worse" for change in self.changes)


def compare(before: Report, after: Report) -> Difference:
    """What changed from the first to the second."""
    cards = _Cards(before, after)
    facts = _Facts()
    facts.host(before.host, after.host)
    for old, new in cards.both:
        facts.card(old, new)
    changes = (
        *cards.changes(),
        *_findings(before, after, cards),
        *facts.changes,
        *_pairs(before.host.pairs, after.host.pairs, cards),
        *_bandwidths(before.host.measured, after.host.measured, cards),
    )
    order: tuple[Verdict, ...] = ("worse", "better", "other")
    ran = [{finding.check for finding in report.findings} for report in (before, after)]
    return Difference(
        changes=tuple(sorted(changes, key=lambda change: order.index(change.verdict))),
        pairs=len(after.host.pairs),
        told_once=(*(f"GPU {gpu.address}" for gpu in cards.untold), *facts.told_once),
        checks_once=tuple(sorted(ran[0] ^ ran[1])),
    )


class _Cards:
    """Which GPU of the second report each one of the first is."""

    def __init__(self, before: Report, after: Report) -> None:
        there = {gpu.address: gpu for gpu in after.host.gpus}
        here = {gpu.address: gpu for gpu in before.host.gpus}
        self.same = [(gpu, there[gpu.address]) for gpu in here.values() if _is_same(gpu, there.get(gpu.address))]
        known = {old.address for old, _ in self.same}
        waiting: dict[tuple[str, str], list[GpuReport]] = defaultdict(list)
        for gpu in there.values():
            if gpu.address not in known:
                waiting[gpu.id, gpu.name].append(gpu)
        self.moved: list[tuple[GpuReport, GpuReport]] = []
        self.gone: list[GpuReport] = []
        for gpu in here.values():
            if gpu.address in known:
                continue
            if waiting[gpu.id, gpu.name]:
                self.moved.append((gpu, waiting[gpu.id, gpu.name].pop(0)))
            else:
                self.gone.append(gpu)
        self.new = [gpu for rest in waiting.values() for gpu in rest]
        self._now = {old.address: new.address for old, new in self.moved}
        # What people paste need not tell of every card.
        self.untold = [*(_untold(self.gone, after)), *(_untold(self.new, before))]
        self.gone = [gpu for gpu in self.gone if gpu not in self.untold]
        self.new = [gpu for gpu in self.new if gpu not in self.untold]

    @property
    def both(self) -> list[tuple[GpuReport, GpuReport]]:
        """The cards that are in both, as they were and as they are."""
        return [*self.same, *self.moved]

    def now(self, subject: Iterable[str]) -> tuple[str, ...]:
        """A subject of the first report by the addresses of the second."""
        return tuple(self._now.get(each, each) for each in subject)

    def is_about_gone(self, subject: Iterable[str]) -> bool:
        """Whether it speaks of a card that is gone."""
        return any(gpu.address in subject for gpu in self.gone)

    def is_about_untold(self, subject: Iterable[str]) -> bool:
        """Whether it speaks of a card of which only one report can tell."""
        return any(gpu.address in subject for gpu in self.untold)

    def changes(self) -> Iterator[Change]:
        """Cards that are gone, new, or elsewhere."""
        for gpu in self.gone:
            yield Change("gpu", "worse", "GPU gone", (gpu.address,), gpu.name)
        for old, new in self.moved:
            if not (":" in old.address and ":" in new.address):
                continue  # a number in a tool's output, where the address is not told
            yield Change("gpu", "other", "GPU moved", (new.address,), f"{old.name} at {old.address}", f"at {new.address}")
        for gpu in self.new:
            yield Change("gpu", "other", "GPU new", (gpu.address,), "", gpu.name)


def _untold(cards: Sequence[GpuReport], report: Report) -> Sequence[GpuReport]:
    """The cards of which a report cannot say that they are not there."""
    return cards if report.evidence.kind == "attachments" else ()


def _is_same(before: GpuReport, after: GpuReport | None) -> bool:
    """By the id; a paste without one gives "10de:0000", and the name decides."""
    if after is None:
        return False
    unnumbered = before.id.endswith(":0000") or after.id.endswith(":0000")
    return before.id == after.id or (unnumbered and before.id[:4] == after.id[:4])


# --- findings -------------------------------------------------------------------------------------------------------------

_Key = tuple[str, tuple[str, ...]]


def _rank(outcome: str) -> int:
    return OUTCOMES.index(outcome) if outcome in OUTCOMES else len(OUTCOMES)


def _by_key(findings: Iterable[Finding], cards: _Cards | None = None) -> dict[_Key, list[Finding]]:
    """Findings by check and subject, the worst first."""
    found: dict[_Key, list[Finding]] = defaultdict(list)
    for finding in findings:
        found[finding.check, cards.now(finding.subject) if cards else finding.subject].append(finding)
    for group in found.values():
        group.sort(key=lambda finding: (_rank(finding.outcome), finding.title))
    return found


def _findings(before: Report, after: Report, cards: _Cards) -> Iterator[Change]:
    old, new = _by_key(before.findings, cards), _by_key(after.findings)
    ran = [{finding.check for finding in report.findings} for report in (before, after)]
    judged_now, unknown_before = _judged_as_a_whole(after), _unknown(before)
    for key in dict.fromkeys((*new, *old)):
        if any(key[0] not in checks for checks in ran) or cards.is_about_untold(key[1]):
            continue
        were, are = list(old.get(key, ())), list(new.get(key, ()))
        for was in list(were):  # what is the same is not in the way of what changed
            same = next((each for each in are if each.outcome == was.outcome and each.title == was.title), None)
            if same is not None:
                were.remove(was)
                are.remove(same)
                yield from _same_finding(was, same)
        for found, new_one in zip_longest(were, are):
            old_one = found or (unknown_before.get(key[0]) if new_one and new_one.outcome in _PROBLEMS else None)
            if old_one is not None and new_one is not None and old_one.outcome == new_one.outcome:
                yield from _same_finding(old_one, new_one)
            else:
                is_gone = cards.is_about_gone(key[1])
                yield from _moved_finding(key, old_one, new_one, judged=key[0] in judged_now, gone=is_gone)


def _judged_as_a_whole(report: Report) -> set[str]:
    """The checks that would have found again what they do not find; what people paste need not tell of everything."""
    judged = [finding for finding in report.findings if finding.outcome not in _UNJUDGED]
    if report.evidence.kind == "attachments":
        judged = [finding for finding in judged if finding.outcome == "ok" and not finding.subject]
    return {finding.check for finding in judged}


def _unknown(report: Report) -> dict[str, Finding]:
    """The checks that judged nothing because something they need is not told, each with one finding that says so."""
    judged = {finding.check for finding in report.findings if finding.outcome != "unknown"}
    return {finding.check: finding for finding in report.findings if finding.check not in judged}


def _same_finding(was: Finding, now: Finding) -> Iterator[Change]:
    """What is found in both, with the values that are others now."""
    if now.outcome not in _PROBLEMS:
        return
    changed = tuple(_values(was, now))
    if was.title != now.title or changed:
        before = was.title if was.title != now.title else ""
        yield Change("finding", "other", f"still {now.outcome}", now.subject, before, now.title, now.check, changed)


def _values(was: Finding, now: Finding) -> Iterator[tuple[str, str, str]]:
    """Source, old and new of the values that are others, of each source in their order."""
    old: dict[str, list[str]] = defaultdict(list)
    for each in was.evidence:
        old[_place(each.source)].append(each.value)
    new = [each for each in now.evidence if each.value not in old[_place(each.source)]]
    kept = {(_place(each.source), each.value) for each in now.evidence}
    for each in new:
        place = _place(each.source)
        gone = next((value for value in old[place] if (place, value) not in kept), None)
        if gone is not None:
            old[place].remove(gone)
            yield each.source, gone, each.value


def _place(source: str) -> str:
    """A source without the number of the line, which moves when anything above it does."""
    head, _, line = source.rpartition(":")
    return head if head and line.isdecimal() and "." in head.rpartition("/")[2] else source


def _moved_finding(key: _Key, was: Finding | None, now: Finding | None, judged: bool, gone: bool) -> Iterator[Change]:
    """One whose outcome changed; those that only tell that something was judged, or does not apply, are left out."""
    check, subject = key
    old, new = was.outcome if was else "", now.outcome if now else ""
    before, after = was.title if was else "", now.title if now else ""
    if new in _PROBLEMS and old == "unknown":
        verdict: Verdict = "other"  # it may have been so all the time
        what, before = f"{new}, not judged before", ""
    elif new in _PROBLEMS and (old not in _PROBLEMS or _rank(new) < _rank(old)):
        verdict = "worse" if new in _GRAVE else "other"
        what = f"new {new}" if old not in _PROBLEMS else f"worse, {old} before and {new} now"
    elif new in _PROBLEMS:
        verdict, what = "better", f"better, {old} before and {new} now"
    elif old not in _PROBLEMS:
        if old != "unknown" or new != "ok":
            return
        verdict, what = "better", "judged now"
    elif gone:
        verdict, what = "other", f"{old} gone with the card"
    elif new in _UNJUDGED or not (new or judged):
        verdict, what = "other", f"{old} no longer judged"
    else:
        verdict, what = ("better", "cured") if old in _GRAVE else ("better", "no longer")
    yield Change("finding", verdict, what, subject, before, after, check)


# --- facts ----------------------------------------------------------------------------------------------------------------


class _Facts:
    """Collects facts that are others now, and the names of those that only one of the reports tells."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.told_once: dict[str, None] = {}

    def add(self, what: str, before: object, after: object, subject: tuple[str, ...] = (), verdict: Verdict = "other") -> None:
        """Compare one fact."""
        if isinstance(before, Unknown) != isinstance(after, Unknown):
            self.told_once[what] = None
        elif not isinstance(before, Unknown) and before != after:
            self.changes.append(Change("fact", verdict, what, subject, _said(before), _said(after)))

    def host(self, before: HostReport, after: HostReport) -> None:
        """Those of the host."""
        self._command_line(before.cmdline, after.cmdline)
        for name, what in _FACTS:
            self.add(what, getattr(before, name), getattr(after, name))
        for name, what in _DRIVERS:
            old, new = getattr(before.drivers, name), getattr(after.drivers, name)
            if (old is None) == (new is None):
                self.add(what, old, new)
            else:  # a library that was not asked, as often as one that is not there
                self.told_once[what] = None

    def _command_line(self, before: str | Unknown, after: str | Unknown) -> None:
        """Parameter by parameter; their order alone is no change."""
        if isinstance(before, Unknown) or isinstance(after, Unknown):
            self.add("command line", before, after)
            return
        old, new = _parameters(before), _parameters(after)
        gone, added = old - new, new - old
        for token in gone.elements():
            name = token.partition("=")[0]
            instead = next((each for each in added if each.partition("=")[0] == name), "")
            if instead:
                added -= Counter((instead,))
            self.changes.append(Change("fact", "other", "command line", (instead or token,), token, instead))
        self.changes += (Change("fact", "other", "command line", (token,), "", token) for token in added.elements())

    def card(self, old: GpuReport, new: GpuReport) -> None:
        """Those of one GPU."""
        subject = (new.address,)
        self.add("driver", old.driver, new.driver, subject)
        self.add("IOMMU domain type", old.iommu_type, new.iommu_type, subject)
        self.add("memory", _size(old.memory_bytes), _size(new.memory_bytes), subject)
        self.add("size of the BAR", _size(old.bar_bytes), _size(new.bar_bytes), subject)
        self.add("BARs", *_places(old.bar_address, new.bar_address), subject)
        self.add("memory node", old.numa_node, new.numa_node, subject)
        self.add("address bits", old.dma_mask_bits, new.dma_mask_bits, subject)
        self.add("attached to", old.attachment, new.attachment, subject)
        if old.slot is not None and new.slot is not None:
            self._link(old.slot, new.slot, subject)

    def _link(self, old: LinkReport, new: LinkReport, subject: tuple[str, ...]) -> None:
        """The link between card and slot: fewer lanes are worse, while a speed follows what the card does."""
        is_narrower = isinstance(old.width, int) and isinstance(new.width, int) and new.width < old.width
        self.add("link width", _width(old), _width(new), subject, "worse" if is_narrower else "better")
        self.add("link speed", _speed(old), _speed(new), subject)
        self.add("link at most", _most(old), _most(new), subject)


def _said(value: object) -> str:
    if isinstance(value, tuple):
        return wording.listed(map(str, value), 8) if value else "none"
    return "none" if value is None or value == "" else str(value)


def _parameters(line: str) -> Counter[str]:
    kernel, init = parse_command_line(line)
    return Counter(each.text for each in (*kernel, *init))


def _size(bytes_: int | Unknown) -> str | Unknown:
    return bytes_ if isinstance(bytes_, Unknown) else wording.size(bytes_)


def _places(before: int | Unknown, after: int | Unknown) -> tuple[str | Unknown, str | Unknown]:
    """Where memory BARs lie: by TiB where that tells them apart, else by their addresses."""
    if isinstance(before, Unknown) or isinstance(after, Unknown):
        return (
            before if isinstance(before, Unknown) else wording.tebibytes(before),
            after if isinstance(after, Unknown) else wording.tebibytes(after),
        )
    old, new = wording.tebibytes(before), wording.tebibytes(after)
    return (old, new) if old != new else (hex(before), hex(after))


def _width(link: LinkReport) -> str | Unknown:
    return link.width if isinstance(link.width, Unknown) else f"x{link.width}"


def _speed(link: LinkReport) -> str | Unknown:
    return link.speed_gts if isinstance(link.speed_gts, Unknown) else f"{link.speed_gts:g} GT/s"


def _most(link: LinkReport) -> str | Unknown:
    speed, width = link.possible_speed_gts, link.possible_width
    if isinstance(speed, Unknown):
        return speed
    return width if isinstance(width, Unknown) else wording.link(speed, width)


# --- pairs ----------------------------------------------------------------------------------------------------------------


def _pairs(before: Sequence[PairReport], after: Sequence[PairReport], cards: _Cards) -> Iterator[Change]:
    old = {cards.now((pair.accessor, pair.owner)): pair for pair in before}
    for pair in after:
        was = old.get((pair.accessor, pair.owner))
        if was is None or (was.p2p == pair.p2p and was.condition == pair.condition):
            continue
        verdict: Verdict = "other"
        if was.p2p != pair.p2p:
            verdict = "worse" if was.p2p == "holds" and pair.p2p == "fails" else "better" if pair.p2p == "holds" else "other"
        yield Change("pair", verdict, "P2P", (pair.accessor, pair.owner), _pair_said(was), _pair_said(pair))


def _pair_said(pair: PairReport) -> str:
    return pair.p2p if pair.p2p == "holds" else f"{pair.p2p} ({pair.reason})"


# --- bandwidth --------------------------------------------------------------------------------------------------------------


class _Range(msgspec.Struct):
    """What the measurements of one copy gave, in GB/s: of a single one both ends are the same, of none both are None."""

    lowest: float | None = None
    highest: float | None = None
    wrong: bool = False

    def add(self, cell: MeasuredCell) -> None:
        self.wrong |= cell.data == "wrong"
        for gbs in (cell.lowest_gbs, cell.gbs, cell.highest_gbs):
            if gbs is not None:
                self.lowest = gbs if self.lowest is None else min(self.lowest, gbs)
                self.highest = gbs if self.highest is None else max(self.highest, gbs)

    def __str__(self) -> str:
        if self.wrong:
            return "wrong data"
        if self.lowest is None or self.highest is None:
            return "no figure"
        if self.highest > self.lowest:
            return f"{self.lowest:.1f} to {self.highest:.1f} GB/s"
        return wording.gbs(self.lowest)


# Ends, whether it is the sum of both ways, the tool.
_Way = tuple[str, str, bool, str]


def _bandwidths(before: Sequence[MeasuredCell], after: Sequence[MeasuredCell], cards: _Cards) -> Iterator[Change]:
    old, new = _ways(before, cards), _ways(after)
    for way, kinds in new.items():
        was = old.get(way, {})
        for access in [access for access in kinds if access in was]:
            yield from _bandwidth(way, was[access], kinds[access], _access(access))
        if was and not kinds.keys() & was.keys() and len(was) == len(kinds) == 1:
            (old_access, one), (new_access, other) = *was.items(), *kinds.items()
            told = " before, ".join(word for word in (_access(old_access), _access(new_access)) if word)
            if one.lowest is None or other.lowest is None:  # a way that gives no figure needs no word
                told = _access(old_access if other.lowest is None else new_access)
            else:
                told += " now"
            yield from _bandwidth(way, one, other, told)


def _access(access: bool | None) -> str:
    return "" if access is None else "direct" if access else "staged"


def _ways(cells: Iterable[MeasuredCell], cards: _Cards | None = None) -> dict[_Way, dict[bool | None, _Range]]:
    found: dict[_Way, dict[bool | None, _Range]] = defaultdict(lambda: defaultdict(_Range))
    for cell in cells:
        if cell.latency_us is not None and cell.gbs is None:
            continue
        origin, target = cards.now((cell.origin, cell.target)) if cards else (cell.origin, cell.target)
        found[origin, target, cell.both_ways, cell.tool][cell.peer_access].add(cell)
    return found


def _bandwidth(way: _Way, was: _Range, now: _Range, access: str) -> Iterator[Change]:
    verdict = _judged(was, now)
    if verdict == "other":
        return
    origin, target, both_ways, _ = way
    words = [word for word in ("both ways" if both_ways else "", access) if word]
    what = "bandwidth" + (f", {', '.join(words)}" if words else "")
    yield Change("bandwidth", verdict, what, (origin, target), str(was), str(now))


def _judged(was: _Range, now: _Range) -> Verdict:
    """Worse or better only beyond the spread of both; a figure of a copy with wrong data says nothing."""
    if was.wrong or now.wrong:
        return "worse" if now.wrong and not was.wrong else "better" if was.wrong and not now.wrong else "other"
    if was.lowest is None or now.lowest is None or was.highest is None or now.highest is None:
        return "other" if was.lowest is now.lowest else "better" if was.lowest is None else "worse"
    spread = _SINGLE_SPREAD if was.lowest == was.highest or now.lowest == now.highest else _RUN_SPREAD
    if now.highest < was.lowest * (1 - spread):
        return "worse"
    return "better" if now.lowest * (1 - spread) > was.highest else "other"
