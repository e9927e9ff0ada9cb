"""For each GPU that was measured: copies to and from the host against what the card's link gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from hostdoctor import knowledge
from hostdoctor.facts.bandwidth import Transfer, host_node, is_host
from hostdoctor.facts.unknown import Unknown, known
from hostdoctor.findings import Check, Cost, Evidence, Finding, Outcome
from hostdoctor.measured import MOST_OF_PCIE_GBS, HostMeasurements, Measured, best, shown, spread
from hostdoctor.view import View

ID = "host-bandwidth"

# More than a link on the card's way could: not PCIe.
_FASTER_THAN_LINK = 1.1
# Where nothing tells what the link gives, only a direction at less than half of the other is worth a word.
_LOPSIDED = 0.5
_FAR_NODE_SLOW = 0.5


class Verdict(msgspec.Struct, frozen=True):
    """What is said of a GPU; GPUs of one kind share a title, in which {range} stands for their figures."""

    kind: str
    outcome: Outcome
    title: str
    explanation: str = ""
    figures: tuple[float, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    cost: Cost | None = None
    remedies: tuple[str, ...] = ()


class _Gpu(msgspec.Struct):
    """A GPU with everything that its verdict rests on."""

    found: HostMeasurements
    near: list[Transfer]  # of its own memory node, at most one each way
    link: tuple[float, Evidence] | Unknown

    @property
    def figures(self) -> tuple[float, ...]:
        return tuple(each.gbs for each in self.near if each.gbs is not None)

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        link = () if isinstance(self.link, Unknown) else (self.link[1],)
        return (*(shown(each) for each in self.near), *link)

    @property
    def engines(self) -> set[str]:
        return {each.engine for each in self.near}


def judge(view: View) -> Iterator[Finding]:
    """One finding for each GPU whose host copies a run measured."""
    verdicts = {gpu: _verdict(view, view.measured, gpu, found) for gpu, found in view.measured.host_copies.items()}
    figures: dict[str, list[float]] = {}
    for verdict in verdicts.values():
        figures.setdefault(verdict.kind, []).extend(verdict.figures)
    ranges = {kind: spread(values) for kind, values in figures.items() if values}
    for gpu, verdict in verdicts.items():
        title = verdict.title.replace("{range}", ranges.get(verdict.kind, ""))
        yield Finding(
            ID,
            verdict.outcome,
            (gpu,),
            title,
            verdict.explanation,
            "certain",
            verdict.evidence,
            verdict.cost,
            verdict.remedies,
        )


def _verdict(view: View, measured: Measured, gpu: str, found: HostMeasurements) -> Verdict:
    if wrong := measured.host_data_wrong(gpu):
        title = "no rate is given: data arrived wrong, and the rate of wrong data means nothing"
        return Verdict("wrong", "unknown", title, evidence=(Evidence(wrong.source, wrong.text),))
    if broken := next((each for ends, each in measured.broken.items() if _is_host_copy_of(gpu, ends)), None):
        title = "a copy between host and GPU did not come to its end"
        seen = (Evidence(broken.source, f"{broken.origin} to {broken.target}: {broken.text}"),)
        return Verdict("broken", "failure", title, evidence=seen, remedies=("reseat-or-move-card",))
    near = [each for side in (found.to_gpu, found.from_gpu) if (each := _near(view, gpu, side))]
    if not near:
        title = "not measured: no copy between host and GPU ran by itself in this run"
        return Verdict("not-measured", "unknown", title)
    measurements = _Gpu(found, near, measured.link(gpu))
    link_gbs = 0.0 if isinstance(measurements.link, Unknown) else measurements.link[0]
    if max(measurements.figures) > max(MOST_OF_PCIE_GBS, _FASTER_THAN_LINK * link_gbs):
        title = "host copies of {range}: more than PCIe carries, so over another link, which is not judged"
        return Verdict("fabric", "info", title, "", measurements.figures, measurements.evidence)
    if isinstance(measurements.link, Unknown):
        return _without_link(measurements, measurements.link)
    return _against_link(measurements, link_gbs, is_near=_is_surely_near(view, gpu, found))


def _is_surely_near(view: View, gpu: str, found: HostMeasurements) -> bool:
    """Whether memory of the GPU's own node was among what was copied, where a host of several sockets makes that count."""
    if known(view.host.cpu.sockets, 1) == 1:
        return True
    function = view.topology.functions.get(gpu)
    node = function.numa_node if function else None
    nodes = found.to_gpu.keys() | found.from_gpu.keys()
    return len(nodes) > 1 or (isinstance(node, int) and host_node(node) in nodes)


def _is_host_copy_of(gpu: str, ends: tuple[str, str]) -> bool:
    return gpu in ends and any(map(is_host, ends))


def _near(view: View, gpu: str, side: Mapping[str, Sequence[Transfer]]) -> Transfer | None:
    """The best copy of the GPU's own memory node, or of the node that is fastest where its own is not known."""
    function = view.topology.functions.get(gpu)
    node = function.numa_node if function else None
    if isinstance(node, int) and (own := side.get(host_node(node))):
        return best(own)
    return best(each for copies in side.values() for each in copies)


def _without_link(gpu: _Gpu, why: Unknown) -> Verdict:
    """Only the figure, but for two directions that differ too much to be in order on any link."""
    figures = gpu.figures
    alike = len(figures) == 2 and len(gpu.engines) == 1 and "kernel" not in gpu.engines
    if alike and min(figures) < _LOPSIDED * max(figures):
        return Verdict(
            "lopsided",
            "warning",
            "host copies are far slower one way than the other: {range}",
            "A PCIe link carries the same in both directions. Memory of another node, pageable memory, or a link that loses "
            "packets one way can do that.",
            figures,
            gpu.evidence,
            _cost(min(figures), max(figures), "of the other direction"),
            ("measure-host-copies-again",),
        )
    title = "host copies of {range}; the link is not known, so they are not judged"
    return Verdict("unjudged", "info", title, f"{why.reason[0].upper()}{why.reason[1:]}.", figures, gpu.evidence)


def _against_link(gpu: _Gpu, raw: float, *, is_near: bool) -> Verdict:
    floor = knowledge.load_copy_floors()["host"]
    slowest = min(gpu.figures)
    if slowest >= floor.ok * raw:
        return _far_nodes(gpu) or Verdict(
            "ok",
            "ok",
            "host copies run at the rate of the link: {range}",
            f"The narrowest link on the way carries {raw:.1f} GB/s each way.",
            gpu.figures,
            gpu.evidence,
        )
    if "kernel" in gpu.engines:
        title = "host copies of {range} by kernels or processor threads, which are slower than the link and are not judged"
        return Verdict("kernels", "info", title, "", gpu.figures, gpu.evidence)
    outcome: Outcome = "failure" if slowest < floor.failure * raw and is_near else "warning"
    much = "far " if slowest < floor.failure * raw else ""
    which = (
        "" if is_near else " Which node is near is not known here: memory of another socket gives less, and may be all it is."
    )
    return Verdict(
        f"below-{outcome}",
        outcome,
        f"host copies give only {{range}}, {much}below what the link gives",
        f"The narrowest link on the way carries {raw:.1f} GB/s each way, and copies from pinned memory of the near node reach "
        f"{floor.ok * raw:.1f} or more. The link may not come up under load, or the test used pageable memory, another node, "
        f"or a busy GPU.{which}",
        gpu.figures,
        gpu.evidence,
        _cost(slowest, floor.ok * raw, "or more that the link gives"),
        ("measure-host-copies-again", "reseat-or-move-card"),
    )


def _far_nodes(gpu: _Gpu) -> Verdict | None:
    """Copies of other memory nodes at less than half the rate: by the links between the processors, not by the card's."""
    best_near, found = min(gpu.figures), gpu.found
    far = [each for side in (found.to_gpu, found.from_gpu) for copies in side.values() for each in copies]
    slow = [each for each in far if each.gbs is not None and each.gbs < _FAR_NODE_SLOW * best_near and each.engine != "kernel"]
    if not slow:
        return None
    return Verdict(
        "far-node",
        "info",
        "host copies of the near memory node run at the rate of the link, of a far node at less than half: {range}",
        "What comes from another node crosses the link between the processors, which gives what it gives.",
        tuple(each.gbs for each in slow if each.gbs is not None),
        tuple(shown(each) for each in (*gpu.near, *slow[:2])),
        remedies=("numa-bind",),
    )


def _cost(have_gbs: float, could_gbs: float, what: str) -> Cost:
    return Cost(f"{have_gbs:.1f} GB/s each way instead of {could_gbs:.1f} {what}", round(have_gbs, 2), round(could_gbs, 2))


CHECK = Check(
    id=ID,
    subject="GPU",
    summary="Measured copies between host and GPU run at the rate of the card's link.",
    looks_at="Runs of hostdoctor bandwidth, rocm-bandwidth-test, TransferBench and nvbandwidth: copies to and from each "
    "GPU, by memory node, that ran by themselves; and the narrowest link between card and processor as it runs under "
    "load.",
    why="All that a GPU is fed with passes here; a link that does not come up under load shows here and nowhere else.",
    decides="Ok from 75 % of the link's raw rate on, a warning below that, a failure below 60 % and where a copy hung or "
    "crashed; copies of the near memory node count, a far node is at most info; on several sockets, where nothing tells "
    "which node is near and copies of one alone were measured, it is a warning at most. Info where the link is not known, "
    "where a kernel copied, and where the rate is more than PCIe carries (NVLink-C2C). Without a known link a direction at "
    "less than half of the other is a warning.",
    sources=(
        "hostdoctor/knowledge/bandwidth.toml: the shares, with their sources",
        "Azure azurehpc-health-checks: floors of host copies by GPU",
        "NVIDIA nvbandwidth issues 11, 24, 53: which figures are no measure of the link",
    ),
    judge=judge,
    remedies=("measure-host-copies-again", "reseat-or-move-card", "numa-bind"),
    nothing="no recorded measurement between host and GPU",
    needs_pci=False,
)
