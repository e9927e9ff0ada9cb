"""On which memory node each GPU sits, and which network card and drive are near it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Sized

from hostdoctor import wording
from hostdoctor.facts.pci import Function
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown, known
from hostdoctor.findings import Check, Cost, Evidence, Finding, unjudged
from hostdoctor.view import View

ID = "numa-placement"

_SAME_SWITCH, _SAME_NODE, _OTHER_NODE = range(3)
_WORDS = {_SAME_SWITCH: "below the same switch", _SAME_NODE: "same node", _OTHER_NODE: "another node"}


def judge(view: View) -> Iterator[Finding]:
    """One finding for all GPUs, and one more where it matters which network card or drive a GPU uses."""
    if view.gpus:
        yield from _judge_gpus(view)
        yield from _judge_neighbours(view)


def _judge_gpus(view: View) -> Iterator[Finding]:
    nodes = _nodes(view)
    subject = tuple(gpu.address for gpu in view.gpus)
    if isinstance(nodes, Unknown):
        yield unjudged(ID, subject, "memory nodes of the GPUs", nodes)
        return
    if len(nodes) < 2:
        yield Finding(ID, "ok", subject, "the host has one memory node")
        return
    places: dict[int, list[str]] = {}
    unplaced = []
    unread = next((gpu.numa_node for gpu in view.gpus if gpu.numa_node == NOT_CAPTURED), None)
    if isinstance(unread, Unknown):
        yield unjudged(ID, subject, "memory nodes of the GPUs", unread)
        return
    for gpu in view.gpus:
        if isinstance(gpu.numa_node, Unknown):
            unplaced.append(gpu)
        else:
            places.setdefault(gpu.numa_node, []).append(gpu.address)
    evidence = tuple(Evidence(gpu.source("numa_node"), _text(gpu.numa_node)) for gpu in view.gpus)
    if unplaced:
        names = tuple(gpu.address for gpu in unplaced)
        title = f"the firmware does not say at which of {len(nodes)} memory nodes {_gpus(len(names))}"
        explanation = "Programs cannot place their memory near such a GPU by themselves."
        yield Finding(ID, "info", names, title, explanation, evidence=evidence, remedies=("numa-bind",))
    elif len(places) > 1:
        yield _spread(subject, places, evidence)
    else:
        yield Finding(ID, "ok", subject, f"all GPUs sit at memory node {next(iter(places))}", evidence=evidence)


def _nodes(view: View) -> Sized | Unknown:
    """The host's memory nodes: where it does not list them itself, those of its functions, if these are more than one."""
    nodes = view.host.numa.nodes
    if not isinstance(nodes, Unknown):
        return nodes
    seen = {each.numa_node for each in view.topology.functions.values() if not isinstance(each.numa_node, Unknown)}
    return seen if len(seen) > 1 else nodes


def _text(node: int | Unknown) -> str:
    return "-1" if isinstance(node, Unknown) else str(node)


def _gpus(number: int) -> str:
    return "the GPU sits" if number == 1 else f"{number} GPUs sit"


def _spread(subject: tuple[str, ...], places: dict[int, list[str]], evidence: tuple[Evidence, ...]) -> Finding:
    where = "; ".join(f"node {node}: {wording.listed(names, 8)}" for node, names in sorted(places.items()))
    return Finding(
        ID,
        "info",
        subject,
        f"the GPUs sit at {len(places)} memory nodes",
        f"{where}. Copies between GPUs of different nodes cross the link between the processors.",
        evidence=evidence,
        cost=Cost("when splitting a model, keep tensor parallel groups within one node where they fit"),
        remedies=("numa-bind",),
    )


def _judge_neighbours(view: View) -> Iterator[Finding]:
    """The nearest RDMA card and NVMe drive of each GPU, where there are nearer and farther ones."""
    network = () if isinstance(view.host.network, Unknown) else view.host.network
    rdma = {device.address: wording.listed(device.rdma) for device in network if device.rdma}
    cards = [function for function in view.adapters if function.address in rdma]
    drives = [function for function in view.adapters if function.is_nvme]
    above = {each.address: {bridge.address for bridge in view.topology.above(each)} for each in (*view.gpus, *cards, *drives)}
    lines, evidence = [], []
    for gpu in view.gpus:
        near = [text for text in (_nearest(gpu, cards, rdma, above), _nearest(gpu, drives, {}, above)) if text]
        if near:
            lines.append(f"{gpu.address}: {'; '.join(near)}")
            evidence.append(Evidence(gpu.source("numa_node"), _text(gpu.numa_node)))
    if lines:
        kinds = "RDMA network cards" if cards else ""
        kinds += (" and NVMe drives" if kinds else "NVMe drives") if drives else ""
        yield Finding(
            ID,
            "info",
            tuple(gpu.address for gpu in view.gpus),
            f"some {kinds} are nearer to a GPU than others",
            f"The nearest: {'. '.join(lines)}. Data from a farther one crosses the root complex, or the link between the "
            "processors.",
            evidence=tuple(evidence),
            remedies=("numa-bind",),
        )


def _nearest(gpu: Function, devices: Sequence[Function], names: Mapping[str, str], above: Mapping[str, set[str]]) -> str:
    """The nearest of some devices, and how near it is; empty where all are equally near, or nothing tells.

    `above` are the bridges above each function.
    """
    over = above[gpu.address]
    places = {each.address: _distance(gpu, each, over.isdisjoint(above[each.address])) for each in devices}
    found = {address: place for address, place in places.items() if place is not None}
    if len(set(found.values())) < 2:
        return ""
    least = min(found.values())
    nearest = [
        f"{names[each]} ({each})" if each in names else f"NVMe {each}" for each, place in found.items() if place == least
    ]
    return f"{wording.listed(nearest, 3)}, {_WORDS[least]}"


def _distance(gpu: Function, device: Function, apart: bool) -> int | None:
    if not apart:
        return _SAME_SWITCH
    if isinstance(gpu.numa_node, Unknown) or isinstance(device.numa_node, Unknown):
        same_root = known(gpu.root, "") and gpu.root == device.root
        return _SAME_NODE if same_root else None
    return _SAME_NODE if gpu.numa_node == device.numa_node else _OTHER_NODE


CHECK = Check(
    id=ID,
    subject="GPU",
    summary="At which memory nodes the GPUs sit.",
    looks_at="numa_node of each GPU, RDMA network card and NVMe drive, the bridges they share, and the memory nodes that are "
    "online.",
    why="Host memory at another node, and GPUs at another node, are reached through the link between the processors.",
    decides="Info where the GPUs are spread over nodes or the firmware names none for them on a host with several; ok "
    "otherwise. Info also where some RDMA network cards or NVMe drives are nearer to a GPU than others, below the same switch "
    "or at the same node, with the nearest of each GPU. It is how the host is built, not a fault.",
    sources=("Linux Documentation/ABI/testing/sysfs-bus-pci numa_node",),
    judge=judge,
    remedies=("numa-bind",),
)
