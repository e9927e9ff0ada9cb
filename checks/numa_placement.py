"""On which memory node each GPU sits."""

from __future__ import annotations

from collections.abc import Iterator

from hostdoctor import wording
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.findings import Check, Cost, Evidence, Finding, unjudged
from hostdoctor.view import View

ID = "numa-placement"


def judge(view: View) -> Iterator[Finding]:
    """One finding for all GPUs."""
    if not view.gpus:
        return
    nodes = view.host.numa.nodes
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


CHECK = Check(
    id=ID,
    subject="GPU",
    summary="At which memory nodes the GPUs sit.",
    looks_at="numa_node of each GPU and the memory nodes that are online.",
    why="Host memory at another node, and GPUs at another node, are reached through the link between the processors.",
    decides="Info where the GPUs are spread over nodes or the firmware names none for them on a host with several; ok "
    "otherwise. It is how the host is built, not a fault.",
    sources=("Linux Documentation/ABI/testing/sysfs-bus-pci numa_node",),
    judge=judge,
    remedies=("numa-bind",),
)
