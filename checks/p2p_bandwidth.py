"""For each ordered pair that was measured: the rate of direct copies against what the way between the two gives."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from hostdoctor import knowledge, p2p
from hostdoctor.facts.bandwidth import Broken, Transfer
from hostdoctor.facts.driver import Nvml
from hostdoctor.facts.host import Kfd
from hostdoctor.facts.pci import ATI, Acs, Function
from hostdoctor.findings import Check, Confidence, Cost, Evidence, Finding, Outcome
from hostdoctor.measured import (
    MOST_OF_PCIE_GBS,
    Expectation,
    Fabric,
    Measured,
    PairMeasurements,
    least,
    rate,
    shown,
    spread,
)
from hostdoctor.p2p import Prediction, products_of
from hostdoctor.view import View

ID = "p2p-bandwidth"

# Runs differ by a few percent; what is slower than the control arm by more than that is slower.
_SCATTER = 0.95
_FAR_SLOWER = 0.6
_ASYMMETRY = 0.75  # more than 25 % between the directions
# No healthy path between sockets makes a GPU this much slower than the others are among themselves.
_OUTLIER = 0.25
_ALIKE = 0.75
_OUTLIER_AMONG = 3
_FASTER_THAN_LINK = 1.1
_STALLED_US = 1000.0  # a hundred times what a staged copy takes
_NVLINK_THERE = 0  # NVML_P2P_STATUS_OK of the NVLink capability
# A sentence, its evidence, and the remedy or nothing.
_Reason = tuple[str, tuple[Evidence, ...], str]
_NVLINK_OK, _NVLINK_FAILURE = 0.8, 0.5


class Verdict(msgspec.Struct, frozen=True):
    """What is said of a pair; pairs of one kind share a title, in which {range} stands for their figures."""

    kind: str
    outcome: Outcome
    title: str
    explanation: str = ""
    figure: float | None = None
    evidence: tuple[Evidence, ...] = ()
    confidence: Confidence = "certain"
    cost: Cost | None = None
    remedies: tuple[str, ...] = ()
    next: str = ""


class _Pair(msgspec.Struct):
    """A pair with everything that its verdict rests on."""

    view: View
    accessor: str
    owner: str
    found: PairMeasurements
    prediction: Prediction | None
    expected: Expectation | None
    fabric: Fabric
    back: Transfer | None  # the same the other way

    @property
    def measured(self) -> Measured:
        return self.view.measured

    @property
    def one_way(self) -> Transfer | None:
        return least(self.found.one_way)

    @property
    def both_ways(self) -> Transfer | None:
        return least(self.found.both_ways)

    @property
    def main(self) -> Transfer:
        """The figure the verdict is about; only of a pair that was measured."""
        return self.one_way or self.both_ways or self.found.one_way[0]

    @property
    def is_granted(self) -> bool:
        """Whether anything tells that the pair may copy directly; AMD's tools measure no other pairs."""
        gpu = self.measured.gpu(self.accessor)
        by_amd = gpu is not None and gpu.vendor == ATI
        return by_amd or any(each.peer_access for each in (*self.found.one_way, *self.found.both_ways))

    @property
    def figure(self) -> float:
        """Its GB/s."""
        return self.main.gbs or 0.0

    @property
    def unit(self) -> str:
        """What the figure is."""
        return "one way" if self.one_way else "both ways together"

    def evidence(self) -> tuple[Evidence, ...]:
        """The measurements, and what they are held against."""
        found = [each for each in (self.one_way, self.both_ways) if each]
        staged = [least(self.found.staged_both_ways if self.both_ways else self.found.staged_one_way)]
        held = self.expected.evidence if self.expected else ()
        latency = min(self.found.latency, key=lambda each: each.latency_us or 0.0, default=None)
        return (
            *(shown(each) for each in found),
            *held,
            *(shown(each, "without peer access") for each in staged if each),
            *((shown(latency),) if latency else ()),
        )


def judge(view: View) -> Iterator[Finding]:
    """One finding for each ordered pair that a run speaks of."""
    outliers = _outliers(view.measured)
    predictions = view.pair_of
    verdicts = {
        ends: _unfit(view.measured, ends, found) or _verdict(_pair(view, ends, predictions.get(ends)), outliers)
        for ends, found in view.measured.pairs.items()
    }
    figures: dict[str, list[float]] = {}
    for verdict in verdicts.values():
        if verdict.figure is not None:
            figures.setdefault(verdict.kind, []).append(verdict.figure)
    ranges = {kind: spread(values) for kind, values in figures.items()}
    for ends, verdict in verdicts.items():
        yield _finding(ends, verdict, ranges.get(verdict.kind, ""))


def _finding(ends: tuple[str, str], verdict: Verdict, range_: str) -> Finding:
    title = verdict.title.replace("{range}", range_)
    return Finding(
        ID,
        verdict.outcome,
        ends,
        title,
        verdict.explanation,
        verdict.confidence,
        verdict.evidence,
        verdict.cost,
        verdict.remedies,
        verdict.next,
    )


def _unfit(measured: Measured, ends: tuple[str, str], found: PairMeasurements) -> Verdict | None:
    """What is said of a pair for which there is no rate of direct copies; None where there is one."""
    if wrong := measured.data_wrong(*ends):
        title = "no rate is given: data arrived wrong, and the rate of wrong data means nothing"
        return Verdict("wrong", "unknown", title, evidence=(Evidence(wrong.source, wrong.text),), remedies=("distrust-p2p",))
    if broken := measured.broken.get(ends) or measured.broken.get(ends[::-1]):
        return _broken(broken)
    if found.is_staged_only:
        title = "no direct copy to measure: the driver grants no access, and every copy was staged through host memory"
        return Verdict("staged-only", "not-applicable", title, evidence=_staged_evidence(found))
    if not found.is_direct:
        title = "not measured: the tool says N/A for this pair, which is not 0 GB/s"
        return Verdict("not-measured", "unknown", title, evidence=tuple(shown(each) for each in found.not_measured[:1]))
    return None


def _broken(broken: Broken) -> Verdict:
    return Verdict(
        "broken",
        "failure",
        "a copy between the two GPUs did not come to its end",
        "A program that copies this way hangs or dies with it, and it can take the host down. Usual causes are an IOMMU that "
        "translates peer addresses, a bridge that sends peer requests where nobody answers, and a driver that was patched to "
        "allow P2P.",
        evidence=(Evidence(broken.source, f"{broken.origin} to {broken.target}: {broken.text}"),),
        remedies=("distrust-p2p", "find-what-slows-p2p"),
        next="keep P2P off (NCCL_P2P_DISABLE=1); look for what the kernel logged, and for a GPU that is gone",
    )


def _pair(view: View, ends: tuple[str, str], prediction: Prediction | None) -> _Pair:
    measured = view.measured
    back = measured.pairs.get(ends[::-1])
    return _Pair(
        view,
        *ends,
        measured.pairs[ends],
        prediction,
        measured.between(*ends),
        _fabric(view, ends, prediction),
        least(back.one_way) if back else None,
    )


def _verdict(pair: _Pair, outliers: dict[str, Verdict]) -> Verdict:
    return (
        _maybe_staged(pair)
        or _slower_than_staged(pair)
        or _stalled(pair)
        or _over_fabric(pair)
        or _without_fault(pair, _over_pcie(pair, outliers))
    )


def _staged_evidence(found: PairMeasurements) -> tuple[Evidence, ...]:
    staged = (least(found.staged_one_way), least(found.staged_both_ways))
    return tuple(shown(each, "staged") for each in staged if each)


# --- against the control arm ------------------------------------------------------------------------------------------


def _maybe_staged(pair: _Pair) -> Verdict | None:
    """Copies that are as fast without peer access, of a pair of which the paste does not tell whether it has any."""
    shares = [each for each in _against_staged(pair) if each is not None]
    signs = knowledge.load_staging_signs()
    latency = min((each.latency_us for each in pair.found.latency if each.latency_us), default=signs["latency_us"].staged)
    alike = bool(shares) and all(_FAR_SLOWER <= share < signs["gain"].direct for share in shares)
    if pair.is_granted or not alike or not signs["latency_us"].direct < latency < _STALLED_US:
        return None
    return Verdict(
        f"maybe-staged-{pair.unit}",
        "info",
        f"{{range}} {pair.unit}, as without peer access; whether any is granted is not in this paste",
        "It looks like this where the driver grants none, so that both parts of the test stage their copies.",
        pair.figure,
        pair.evidence(),
        next="attach the output from its first line on, or nvidia-smi topo -p2p r",
    )


def _without_fault(pair: _Pair, verdict: Verdict) -> Verdict:
    """A rate below the link's is no fault of a pair that by design has no direct copies, where nothing says that it has."""
    decisive = pair.prediction.decisive if pair.prediction else None
    refused = decisive is not None and decisive.state == "fails" and decisive.by_design
    if pair.is_granted or not refused or not verdict.kind.startswith("below-"):
        return verdict
    title = (
        f"{{range}} {pair.unit}; whether these copies were direct is not in this paste, and by p2p-pair none are to be expected"
    )
    return msgspec.structs.replace(
        verdict, kind=f"not-expected-{pair.unit}", outcome="info", title=title, cost=None, remedies=(), next=""
    )


def _slower_than_staged(pair: _Pair) -> Verdict | None:
    """Direct copies that lose to staged ones, which is wrong whatever the links can do."""
    one, both = _against_staged(pair)
    if one is None and both is None:
        return None
    if both is not None and both >= knowledge.load_staging_signs()["gain"].direct:
        if one is None or one >= _SCATTER or _lopsided(pair, pair.expected):
            return None
        title = "one way, direct copies are slower than staged ones ({range}); both ways together they win"
        return Verdict("slower-one-way", "info", title, "", pair.figure, pair.evidence())
    loss = min(each for each in (one, both) if each is not None)
    if loss >= _SCATTER:
        return None
    staged = least(pair.found.staged_one_way if one is not None and one == loss else pair.found.staged_both_ways)
    have = least(pair.found.one_way if one is not None and one == loss else pair.found.both_ways)
    cost = _cost(rate(have) or 0.0, rate(staged) or 0.0, "that copies through host memory reach")
    reasons = list(_reasons(pair))
    explained = "".join(f" {text}" for text, _, _ in reasons)
    return Verdict(
        "slower-than-staged",
        "failure" if loss < _FAR_SLOWER else "warning",
        "with peer access copies are slower than without: {range}",
        f"The same run without peer access, staged through host memory, was faster ({rate(staged):.1f} GB/s): the direct way "
        f"is held up somewhere.{explained}{_prediction_text(pair.prediction)}",
        rate(have),
        tuple(dict.fromkeys((*pair.evidence(), *(each for _, found, _ in reasons for each in found)))),
        "certain",
        cost,
        tuple(dict.fromkeys(("find-what-slows-p2p", *(remedy for _, _, remedy in reasons if remedy)))),
        "look at ACS redirect, IOMMU mode and the links of both cards; until then keep P2P off (NCCL_P2P_DISABLE=1)",
    )


def _stalled(pair: _Pair) -> Verdict | None:
    """Small copies that take milliseconds: no way between two GPUs is that long, so something holds each of them up."""
    latency = min((each.latency_us for each in pair.found.latency if each.latency_us), default=0.0)
    if latency < _STALLED_US:
        return None
    return Verdict(
        "stalled",
        "warning",
        "with peer access a copy of a few bytes takes milliseconds, where it should take microseconds",
        "Direct copies take 1 to 5 us and staged ones 11 to 21, so what is written to the peer does not arrive in order or at "
        f"once.{_prediction_text(pair.prediction)}",
        pair.figure,
        pair.evidence(),
        "likely",
        remedies=("find-what-slows-p2p",),
        next="look at ACS redirect and IOMMU mode, and compare data (simpleP2P); until then keep P2P off (NCCL_P2P_DISABLE=1)",
    )


def _against_staged(pair: _Pair) -> tuple[float | None, float | None]:
    """Direct as a share of staged, one way and both ways together."""
    found = pair.found
    pairs = ((pair.one_way, least(found.staged_one_way)), (pair.both_ways, least(found.staged_both_ways)))
    shares = [
        None if not direct or not staged or not staged.gbs else (direct.gbs or 0.0) / staged.gbs for direct, staged in pairs
    ]
    return shares[0], shares[1]


# --- NVLink and XGMI --------------------------------------------------------------------------------------------------


def _fabric(view: View, ends: tuple[str, str], prediction: Prediction | None) -> Fabric:
    """Over what the two are joined, as far as anything but the rate tells."""
    named = {condition.name for condition in prediction.conditions} if prediction else set()
    told = p2p.linked_by(view, *ends) or p2p.linked_by(view, *ends[::-1])
    if "xgmi" in named or told == "XGMI":
        return "xgmi"
    nvml = view.nvml_pairs.get(ends)
    if "nvlink" in named or told == "NVLINK" or (nvml is not None and nvml.nvlink == _NVLINK_THERE):
        return "nvlink"
    gpus = [view.measured.gpu(subject) for subject in ends]
    may_have_xgmi = any(product.xgmi for gpu in gpus if gpu for product in products_of(gpu))
    if may_have_xgmi and not isinstance(view.host.kfd, Kfd) and told != "PCIE":
        return "unknown"
    return "pcie"


def _over_fabric(pair: _Pair) -> Verdict | None:
    """The verdict on a pair that something other than PCIe joins; None for PCIe.

    Host copies show what a link gives at least, never that it could not give more: they may be of another node, or by a
    processor's threads.
    """
    expected = pair.expected
    most_gbs = MOST_OF_PCIE_GBS if expected is None or expected.by_host_copies else _FASTER_THAN_LINK * expected.raw_gbs
    over_pcie = _rate_one_way(pair) <= most_gbs
    if pair.fabric == "pcie" and over_pcie:
        return None
    if pair.fabric == "unknown" and over_pcie:
        title = "{range} " + pair.unit + "; whether XGMI or PCIe joins them is not known, so it is not judged"
        return Verdict(f"fabric-unknown-{pair.unit}", "info", title, "", pair.figure, pair.evidence())
    floor = _fabric_floor(pair)
    if floor is None or pair.one_way is None:
        name = {"xgmi": "over XGMI", "nvlink": "over NVLink"}.get(pair.fabric, "more than PCIe carries, so over a fabric")
        title = f"{{range}} {pair.unit}, {name}; what it should give is not known here"
        return Verdict(f"fabric-{name}-{pair.unit}", "info", title, "", pair.figure, pair.evidence())
    ok, failure, text = floor
    evidence = (*pair.evidence(), *((Evidence("hostdoctor knowledge bandwidth", text)),))
    if pair.figure >= ok:
        return Verdict("fabric-ok", "ok", "copies run at the rate of the fabric: {range}", text, pair.figure, evidence)
    return Verdict(
        "fabric-slow",
        "failure" if pair.figure < failure else "warning",
        "copies over the fabric give only {range}",
        f"{text[0].upper()}{text[1:]}. A link may be down, or copies take another way.",
        pair.figure,
        evidence,
        "likely",
        _cost(pair.figure, ok, "or more that the fabric gives"),
        ("find-what-slows-p2p",),
    )


def _fabric_floor(pair: _Pair) -> tuple[float, float, str] | None:
    """From where on a rate is in order, below what it is far too low, and why; None where that is not known."""
    gpu = pair.measured.gpu(pair.accessor)
    chip = p2p.chip_of(gpu) if gpu else ""
    if pair.fabric == "xgmi" and _direct_xgmi(pair):
        floor = knowledge.xgmi_floor_gbs(chip)
        return None if floor is None else (floor, floor / 2, f"one direct XGMI link of this chip gives {floor:g} GB/s or more")
    if pair.fabric != "nvlink":
        return None
    links, each = _nvlinks(pair), knowledge.nvlink_gbs(chip)
    if links is None or each is None:
        return None
    text = f"{links} NVLinks of {each:g} GB/s each join the two"
    return _NVLINK_OK * links * each, _NVLINK_FAILURE * links * each, text


def _rate_one_way(pair: _Pair) -> float:
    """What was measured one way, else half of both ways together."""
    return rate(pair.one_way) or (rate(pair.both_ways) or 0.0) / 2


def _direct_xgmi(pair: _Pair) -> bool:
    """Whether KFD publishes a link of type XGMI between the two; GPUs of one hive need not have one."""
    kfd = pair.view.host.kfd
    if not isinstance(kfd, Kfd):
        return False
    numbers = {node.address: node.number for node in kfd.nodes if node.address}
    ends = (numbers.get(pair.accessor), numbers.get(pair.owner))
    return any((link.node_from, link.node_to) == ends and link.type == p2p.XGMI for link in kfd.links)


def _nvlinks(pair: _Pair) -> int | None:
    """How many NVLinks join the two: as nvidia-smi topo tells ("NV12"), else all active ones of a host with two GPUs."""
    host = pair.view.host
    for word in pair.view.words_on(pair.accessor, pair.owner):
        if word.link == "NVLINK" and word.text.startswith("NV") and word.text[2:].isdigit():
            return int(word.text[2:])
    if isinstance(host.nvml, Nvml) and len(host.nvml.gpus) == 2:
        active = next((gpu.nvlinks_active for gpu in host.nvml.gpus if gpu.address == pair.accessor), None)
        return active if isinstance(active, int) and active else None
    return None


# --- PCIe -------------------------------------------------------------------------------------------------------------


def _over_pcie(pair: _Pair, outliers: dict[str, Verdict]) -> Verdict:
    outlier = outliers.get(pair.accessor) or outliers.get(pair.owner)
    if outlier is not None:
        outlier = msgspec.structs.replace(outlier, figure=pair.figure, evidence=(*pair.evidence(), *outlier.evidence))
    if pair.expected is None or _tells_nothing(pair, pair.expected):
        return outlier or _lopsided(pair, None) or _unjudged(pair)
    verdict = _against_link(pair, pair.expected)
    # Where the GPU's host copies are as slow, its link is: those of the others show that this is not the rule here.
    return outlier if outlier and pair.expected.by_host_copies and verdict.outcome == "ok" else verdict


def _tells_nothing(pair: _Pair, expected: Expectation) -> bool:
    """Whether host copies show nothing of the link, since they are slower than what they should tell of."""
    return expected.by_host_copies and _rate_one_way(pair) > _FASTER_THAN_LINK * expected.raw_gbs


def _against_link(pair: _Pair, expected: Expectation) -> Verdict:
    staged, direct = _signs(pair, expected)
    one, both = rate(pair.one_way), rate(pair.both_ways)
    reached = one if one is not None else (both or 0.0) / 2
    if reached < expected.failure_gbs or (both is not None and both < expected.staged_sum_gbs / 2):
        return _below(pair, expected, staged, "failure")
    if reached < expected.ok_gbs or (staged and not direct and both is not None and both < expected.staged_sum_gbs):
        return _below(pair, expected, staged, "warning")
    if lopsided := _lopsided(pair, expected):
        return lopsided
    what = "as fast as copies to and from the host" if expected.by_host_copies else "at the rate of the link"
    told = f" {direct[0]}" if direct else " A rate one way alone does not tell direct copies from staged ones."
    explanation = f"{_held_against(expected)}{told}{_prediction_text(pair.prediction)}"
    return Verdict(
        f"ok-{expected.by_host_copies}-{pair.unit}",
        "ok",
        f"copies between the GPUs run {what}: {{range}} {pair.unit}",
        explanation,
        pair.figure,
        pair.evidence(),
        "likely" if expected.by_host_copies else "certain",
    )


def _held_against(expected: Expectation) -> str:
    if expected.by_host_copies:
        return f"No link is known here; copies to and from the host of the same run give {expected.raw_gbs:.1f} GB/s."
    return f"The narrowest link on the way carries {expected.raw_gbs:.1f} GB/s each way, {expected.ok_gbs:.1f} are in order."


def _signs(pair: _Pair, expected: Expectation | None) -> tuple[list[str], list[str]]:
    """What speaks for staged copies, and what for direct ones, each a sentence."""
    signs = knowledge.load_staging_signs()
    staged: list[str] = []
    direct: list[str] = []
    both = rate(pair.both_ways)
    if both is not None and expected is not None:
        share = f"Both ways together give {both:.1f} GB/s"
        if both < expected.staged_sum_gbs:
            staged.append(f"{share}, as copies staged through host memory do; direct ones give {expected.direct_sum_gbs:.1f}.")
        elif both >= expected.direct_sum_gbs:
            direct.append(f"{share}, which only direct copies reach.")
    latency = min((each.latency_us for each in pair.found.latency if each.latency_us and each.engine != "kernel"), default=None)
    if latency is not None and latency > signs["latency_us"].staged:
        staged.append(f"A small copy takes {latency:.1f} us, as a staged one does.")
    elif latency is not None and latency < signs["latency_us"].direct:
        direct.append(f"A small copy takes {latency:.1f} us, which only a direct one does.")
    gain = _against_staged(pair)[1]
    if gain is not None and gain >= signs["gain"].direct:
        direct.append(f"Both ways together they are {gain:.1f} times as fast as staged ones.")
    elif gain is not None and gain <= signs["gain"].staged:
        staged.append("Both ways together they are no faster than staged ones.")
    return staged, direct


def _below(pair: _Pair, expected: Expectation, staged: list[str], outcome: Outcome) -> Verdict:
    """Less than the way gives."""
    reasons = list(_reasons(pair))
    link = "the host copies of the same run" if expected.by_host_copies else "the link"
    title = f"copies between the GPUs give only {{range}} {pair.unit}, {'far ' if outcome == 'failure' else ''}below {link}"
    if staged:
        title = f"copies between the GPUs are not direct: {{range}} {pair.unit}, far below {link}"
    texts = [_held_against(expected), *staged, *(text for text, _, _ in reasons)]
    if not reasons:
        texts.append("Redirection by ACS, translation by the IOMMU, and a shared or narrow link above the slots can do that.")
    evidence = (*pair.evidence(), *(each for _, found, _ in reasons for each in found))
    remedies = dict.fromkeys(("find-what-slows-p2p", *(remedy for _, _, remedy in reasons if remedy)))
    return Verdict(
        f"below-{outcome}-{bool(staged)}-{pair.unit}",
        outcome,
        title,
        f"{' '.join(texts)}{_prediction_text(pair.prediction)}",
        pair.figure,
        tuple(dict.fromkeys(evidence)),
        "likely" if expected.by_host_copies else "certain",
        _cost(pair.figure if pair.one_way else pair.figure / 2, expected.ok_gbs, "or more that this way gives"),
        tuple(remedies),
    )


def _reasons(pair: _Pair) -> Iterator[_Reason]:
    """What other facts explain it: a sentence, the evidence, and the remedy or nothing."""
    gpus = [gpu for subject in (pair.accessor, pair.owner) if (gpu := pair.measured.gpu(subject))]
    if len(gpus) == 2:
        yield from _redirected(pair.view, *gpus)
    for gpu in gpus:
        yield from _held_up(pair.view, gpu)


def _redirected(view: View, accessor: Function, owner: Function) -> Iterator[_Reason]:
    way = view.topology.way_between(owner, accessor)
    redirecting = [each for each in way if isinstance(each.acs, Acs) and each.acs.redirects]
    if redirecting:
        names = ", ".join(each.address for each in redirecting)
        evidence = tuple(Evidence(each.source("config"), "ACSCtl redirect") for each in redirecting)
        yield f"ACS redirect on {names} sends them up to the root complex.", evidence, "acs-clear-redirect"


def _held_up(view: View, gpu: Function) -> Iterator[_Reason]:
    if gpu.iommu_type in p2p.TRANSLATED:
        seen = (Evidence(gpu.source("iommu_group/type"), str(gpu.iommu_type)),)
        yield f"The IOMMU translates what {gpu.address} reads and writes ({gpu.iommu_type}).", seen, ""
    faults = view.host.log.about(gpu.address, "iommu-fault") if view.host.log else []
    if faults:
        yield f"The kernel logs IOMMU faults of {gpu.address}.", (Evidence(faults[0].source, faults[0].text),), ""
    for uplink in view.measured.cards[gpu.address].uplinks:
        runs, can = uplink.current_gbs, uplink.possible_gbs
        if isinstance(runs, float) and isinstance(can, float) and runs < can:
            seen = (Evidence(uplink.lower.source("current_link_width"), f"{runs:.1f} of {can:.1f} GB/s"),)
            text = f"The link from {uplink.lower.address} up to {uplink.upper.address} is narrower than it could be."
            yield text, seen, "reseat-or-move-card"


def _prediction_text(prediction: Prediction | None) -> str:
    """What p2p-pair predicts, beside the measurement."""
    if prediction is None or (prediction.decisive and prediction.decisive.state == "unknown"):
        return ""
    if prediction.decisive is None:
        return " By the conditions that p2p-pair tests, direct copies are to be expected."
    return f" By what p2p-pair tests there should be no direct copies: {prediction.decisive.text}."


def _lopsided(pair: _Pair, expected: Expectation | None) -> Verdict | None:
    """A direction that is more than a quarter slower than the other."""
    one, back = pair.one_way, pair.back
    if one is None or back is None or not back.gbs or one.engine != back.engine or (one.gbs or 0.0) >= _ASYMMETRY * back.gbs:
        return None
    in_order = expected is not None
    return Verdict(
        f"lopsided-{in_order}",
        "info" if in_order else "warning",
        "one direction is more than a quarter slower than the other: {range}",
        "The two directions use the same links, so that something on the way treats them differently: redirection, "
        "translation, or memory of another node." + _prediction_text(pair.prediction),
        pair.figure,
        (*pair.evidence(), shown(back)),
        "likely",
        _cost(pair.figure, back.gbs, "of the other direction"),
        ("find-what-slows-p2p",),
    )


def _unjudged(pair: _Pair) -> Verdict:
    """Nothing tells what the way gives: the figure, and what the run itself shows of it."""
    staged, direct = _signs(pair, None)
    if len(staged) > 1:
        return Verdict(
            "like-staged",
            "warning",
            "with peer access copies are as slow as staged ones: {range} " + pair.unit,
            " ".join(staged) + _prediction_text(pair.prediction),
            pair.figure,
            pair.evidence(),
            "likely",
            remedies=("find-what-slows-p2p",),
        )
    title = f"{{range}} {pair.unit} between the GPUs; their links are not known, so it is not judged"
    explanation = " ".join((*direct, *staged, "Attach lspci -vvv (as root) to have it judged."))
    return Verdict(
        f"unjudged-{bool(direct)}-{bool(staged)}-{pair.unit}", "info", title, explanation, pair.figure, pair.evidence()
    )


# --- a GPU unlike the others ------------------------------------------------------------------------------------------


def _outliers(measured: Measured) -> dict[str, Verdict]:
    """GPUs that are far slower with every other one than those are among themselves."""
    for both_ways in (True, False):
        rates = {
            ends: each.gbs
            for ends, found in measured.pairs.items()
            if (each := least(found.both_ways if both_ways else found.one_way)) and each.gbs is not None
            if not measured.data_wrong(*ends)
        }
        if rates:
            return _slow_ones(measured, rates, MOST_OF_PCIE_GBS * (2 if both_ways else 1))
    return {}


def _slow_ones(measured: Measured, rates: dict[tuple[str, str], float], most_of_pcie_gbs: float) -> dict[str, Verdict]:
    found: dict[str, Verdict] = {}
    gpus = list(dict.fromkeys(end for ends in measured.pairs for end in ends))
    middle = sorted(rates.values())[len(rates) // 2]
    slow = [gpu for gpu in gpus if _is_slow_with_all(gpu, gpus, rates, _OUTLIER * middle)]
    others = [value for ends, value in rates.items() if not set(ends) & set(slow)]
    names = {measured.names.get(gpu, "") for gpu in gpus}
    if len(gpus) - len(slow) < _OUTLIER_AMONG or len(names) > 1 or not others or min(others) < _ALIKE * middle:
        return found
    if min(others) > most_of_pcie_gbs:
        return found  # a fabric joins the others, and this one is not part of it
    for gpu in slow:
        found[gpu] = _slow_gpu(measured, gpu, others, [gpu for gpu in gpus if gpu not in slow])
    return found


def _is_slow_with_all(gpu: str, gpus: list[str], rates: dict[tuple[str, str], float], most_gbs: float) -> bool:
    """Whether a GPU was measured with every other one, which a cut table may not tell, and is that slow with all."""
    own = {ends: value for ends, value in rates.items() if gpu in ends}
    return {end for ends in own for end in ends} == set(gpus) and max(own.values()) <= most_gbs


def _slow_gpu(measured: Measured, gpu: str, others: list[float], fast: list[str]) -> Verdict:
    explanation = f"The other GPUs give {spread(others)} among themselves, so that it is this card, its slot or its link."
    own = measured.inside.get(gpu)
    typical = [rate for each in fast if (rate := measured.inside.get(each))]
    evidence: tuple[Evidence, ...] = ()
    if own and typical and own < _FAR_SLOWER * min(typical):
        explanation += f" Its own memory is slow too ({own:.0f} against {min(typical):.0f} GB/s): its clocks do not come up."
        evidence = (Evidence(f"copies inside {gpu}", f"{own:.0f} GB/s"),)
    return Verdict(
        f"outlier-{gpu}",
        "warning",
        f"{gpu} gives only {{range}} with every other GPU",
        explanation,
        evidence=evidence,
        confidence="likely",
        remedies=("reseat-or-move-card", "find-what-slows-p2p"),
        next=f"look at the link of {gpu} while it copies (lspci -vv, LnkSta), its power and its clocks",
    )


def _cost(have_gbs: float, could_gbs: float, what: str) -> Cost:
    return Cost(f"{have_gbs:.1f} GB/s each way instead of {could_gbs:.1f} {what}", round(have_gbs, 2), round(could_gbs, 2))


CHECK = Check(
    id=ID,
    subject="ordered pair",
    summary="Measured copies between GPUs run at the rate that the way between them gives.",
    looks_at="Runs of hostdoctor bandwidth, rocm-bandwidth-test, TransferBench, nvbandwidth, p2pBandwidthLatencyTest and "
    "simpleP2P: one way, both ways together, without peer access, latency. Beside them the links of both cards, the "
    "processor, NVLink and XGMI, and what p2p-pair, ACS, IOMMU and the links above the slots explain.",
    why="A granted access says nothing of the rate: copies can be redirected, translated or staged, and then a model that is "
    "split over GPUs waits for them.",
    decides="Against the narrowest link on the way under load: a failure below 45 %, a warning below 60 % (75 % below a "
    "common switch), less on processors that forward less; a warning also where both ways together give no more than "
    "staged copies do. Slower than without peer access: a warning, far slower: a failure; so is a copy that hung, crashed "
    "or made the kernel log a fault. Without a known link, the host copies of the same run count; a GPU far slower than "
    "all others, a direction much slower than the other, and small copies that take milliseconds are warnings, and "
    "anything else info. Info over XGMI without a direct link. No rate is given where data arrived wrong.",
    sources=(
        "hostdoctor/knowledge/bandwidth.toml: shares, limits and signs, each with its source",
        "NVIDIA nccl src/graph/topo.h, topo.cc: rates of links, root complexes and sockets",
        "NVIDIA cuda-samples p2pBandwidthLatencyTest.cu: the two arms of the test",
        "ROCm rocm_bandwidth_test: N/A is a pair without access, a bidirectional cell is the sum",
    ),
    judge=judge,
    remedies=("find-what-slows-p2p", "distrust-p2p", "acs-clear-redirect", "reseat-or-move-card"),
    nothing="no recorded measurement between GPUs",
    needs_pci=False,
)
