"""The topology as a tree of text."""

from __future__ import annotations

from collections.abc import Iterator

from hostdoctor import knowledge, wording
from hostdoctor.facts.pci import Function
from hostdoctor.facts.unknown import Unknown, known
from hostdoctor.names import class_name, device_name
from hostdoctor.report.model import Node, TopologyReport
from hostdoctor.topology import is_chipset_port, link_of
from hostdoctor.view import View


def tree_lines(view: View, everything: bool) -> Iterator[str]:
    """One line a function, indented by its place; without `everything`, GPUs and what is above them."""
    functions = view.topology.functions
    if not functions:
        why = view.host.functions
        yield f"no PCI functions: {why.reason}" if isinstance(why, Unknown) else "no PCI functions"
        return
    wanted = set(functions) if everything else _above_gpus(view)
    if not wanted:
        yield "no discrete GPU here; --all shows every function"
        return
    below: dict[str | None, list[Function]] = {}
    for function in functions.values():
        if function.address in wanted:
            parent = known(function.parent, None)
            # A bridge that is not in the evidence must not hide what lies below it.
            below.setdefault(parent if parent in wanted else None, []).append(function)
    roots: dict[str, list[Function]] = {}
    for function in below.get(None, []):
        roots.setdefault(known(function.root, "?"), []).append(function)
    for root, children in sorted(roots.items()):
        node = next((known(child.numa_node, -1) for child in children if not isinstance(child.numa_node, Unknown)), None)
        where = "" if node is None else f", memory node {node}"
        yield f"root bus {root}{where}"
        yield from _branch(view, children, below, "")


def _above_gpus(view: View) -> set[str]:
    found: set[str] = set()
    for gpu in view.gpus:
        found.add(gpu.address)
        found.update(bridge.address for bridge in view.topology.above(gpu))
    return found


def _branch(view: View, children: list[Function], below: dict[str | None, list[Function]], indent: str) -> Iterator[str]:
    for number, child in enumerate(children):
        last = number == len(children) - 1
        yield f"{indent}{'└─' if last else '├─'} {_line(view, child)}"
        yield from _branch(view, below.get(child.address, []), below, indent + ("   " if last else "│  "))


def _line(view: View, function: Function) -> str:
    parts = [function.address, f"{function.id}", _role(view, function)]
    link = link_of(function)
    if function.asleep:
        parts.append("asleep")
    elif not isinstance(link.current_width, Unknown):
        parts.append(
            f"{wording.link(link.current_speed_gts, link.current_width)} of {wording.link(link.max_speed_gts, link.max_width)}"
        )
    if function in view.gpus:
        parts.append(f"IOMMU {known(function.iommu_type, None) or 'off'}")
    return "  ".join(part for part in parts if part)


def _role(view: View, function: Function) -> str:
    role = knowledge.on_board_role(function.id)
    if role:
        return f"the card's own switch ({role})"
    if function.is_bridge:
        if is_chipset_port(function):
            return "chipset port"
        switch = knowledge.external_switch_name(function.id)
        return switch or ("root port" if function.parent is None else "bridge")
    return device_name(function) or class_name(function.class_code)


_KINDS = {
    "host-bridge": "host bridge",
    "root-port": "root port",
    "chipset-port": "chipset port",
    "card-switch": "the card's own switch",
    "network": "network card",
    "nvme": "NVMe drive",
}


def drawn_lines(topology: TopologyReport) -> Iterator[str]:
    """The nodes of a report as a tree, one line each."""
    below: dict[str | None, list[Node]] = {}
    known_nodes = {node.address for node in topology.nodes}
    for node in topology.nodes:
        parent = known(node.parent, None)
        below.setdefault(parent if parent in known_nodes else None, []).append(node)
    open_ = [(node, "", "") for node in reversed(below.get(None, []))]
    while open_:
        node, mark, indent = open_.pop()
        yield f"{mark}{_drawn(node)}"
        children = below.pop(node.address, [])  # each once, whatever a report says of what is below what
        for child in reversed(children):
            last = child is children[-1]
            open_.append((child, f"{indent}{'└─' if last else '├─'} ", f"{indent}{'   ' if last else '│  '}"))
    if topology.left_out:
        yield f"and {wording.count(topology.left_out, 'more network card or drive')} away from the GPUs"


def _drawn(node: Node) -> str:
    parts = [node.address, _KINDS.get(node.kind, node.kind if node.kind in ("switch", "bridge") else ""), node.name]
    link = node.link
    if node.asleep:
        parts.append("asleep")
    elif link and not isinstance(link.width, Unknown):
        most = wording.link(link.possible_speed_gts, link.possible_width)
        slow = known(link.speed_gts, 0.0) < known(link.possible_speed_gts, 0.0) and not isinstance(link.speed_gts, Unknown)
        parts.append(f"{wording.link(link.speed_gts, link.width)}{' (idle?)' if slow else ''} of {most}")
    if node.limits:
        parts.append("<- the narrowest link above")
    node_number = known(node.numa_node, -1)
    if node.kind == "host-bridge" and node_number >= 0:
        parts.append(f"memory node {node_number}")
    return "  ".join(part for part in parts if part)
