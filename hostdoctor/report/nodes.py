"""What a drawing of the host needs: the nodes from the host bridges down to the GPUs, and what matters beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hostdoctor import knowledge
from hostdoctor.facts.pci import DOWNSTREAM_PORT, INFINIBAND, ROOT_PORT, UPSTREAM_PORT, Function
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown, known
from hostdoctor.report.model import Node, NodeKind, NodeLink, TopologyReport
from hostdoctor.topology import Card, Segment, gbs_of, is_chipset_port, link_of
from hostdoctor.view import View

# Away from the GPUs: what a drawing has room for. A server may hold dozens of drives.
_MOST_FAR_ADAPTERS = 16

_BETWEEN = Unknown("the ports between are left out of this evidence")


def topology_report(view: View) -> TopologyReport:
    """The GPUs, the adapters below the same root ports, RDMA network cards and drives elsewhere, and what is above them."""
    adapters, left_out = _adapters(view)
    links = _links(view, adapters)
    gaps = {card.top.address: card.slot for card in view.cards if isinstance(card.slot, Unknown)}
    limits = set() if view.host.environment.is_guest else set(_limits(view.cards))
    gpus = {gpu.address for gpu in view.gpus}
    nodes: dict[str, Node] = {}
    for leaf in (*view.gpus, *adapters):
        bridges = view.topology.above(leaf)
        parent = _top((bridges or (leaf,))[-1])
        if isinstance(parent, str) and parent not in nodes:
            nodes[parent] = Node(parent, "host-bridge", None, "", None, False, leaf.numa_node)
        for function in (*reversed(bridges), leaf):
            above, parent = parent, function.address
            if function.address in nodes:
                continue
            kind: NodeKind = "gpu" if function.address in gpus else _kind(function)
            nodes[function.address] = Node(
                function.address,
                kind,
                above,
                view.name(function) if kind == "gpu" else _name(view, function),
                _link(links.get(function.address), gaps.get(function.address) or _gap(function, above, nodes)),
                function.address in limits,
                function.numa_node,
                function.asleep,
            )
    return TopologyReport(tuple(nodes.values()), left_out)


def _adapters(view: View) -> tuple[list[Function], int]:
    """Network cards and drives that lie below a GPU's root port; RDMA cards and drives elsewhere, and how many are left out."""
    beside = {bridge.address for gpu in view.gpus for bridge in view.topology.above(gpu)[-1:]}
    network = () if isinstance(view.host.network, Unknown) else view.host.network
    rdma = {device.address for device in network if device.rdma}
    near: list[Function] = []
    far: list[Function] = []
    for adapter in view.adapters:
        if any(bridge.address in beside for bridge in view.topology.above(adapter)[-1:]):
            near.append(adapter)
        elif adapter.is_nvme or adapter.class_code >> 8 == INFINIBAND or adapter.address in rdma:
            far.append(adapter)
    far.sort(key=lambda adapter: adapter.is_nvme)  # network cards first: of drives there may be many
    return near + far[:_MOST_FAR_ADAPTERS], len(far[_MOST_FAR_ADAPTERS:])


def _links(view: View, adapters: list[Function]) -> Mapping[str, Segment]:
    """By its lower end. A card's own segments come first: they know where the card ends."""
    links: dict[str, Segment] = {}
    for card in view.cards:
        for segment in (*card.segments, *view.topology.links_inside(card)):
            links.setdefault(segment.lower.address, segment)
    for adapter in adapters:
        for segment in view.topology.links_above(adapter):
            links.setdefault(segment.lower.address, segment)
    return links


def _limits(cards: tuple[Card, ...]) -> Iterator[str]:
    """The lower end of the link that gives a card less than it could use; where several give as little, that nearest to it.

    Of the slot counts what it comes up to under load, of the links above it what they run at, as in check path-bottleneck.
    """
    for card in cards:
        usable = gbs_of(link_of(card.top).max_speed_gts, link_of(card.top).max_width)
        rates = [(_rate(segment, segment is card.slot), segment.lower.address) for segment in card.segments]
        told = [(rate, address) for rate, address in rates if not isinstance(rate, Unknown)]
        if isinstance(usable, Unknown) or not told or len(told) < len(rates):
            continue
        least, nearest = min(told, key=lambda each: each[0])
        if least < usable:
            yield nearest


def _rate(segment: Segment, is_slot: bool) -> float | Unknown:
    current = segment.current_gbs
    return segment.loaded_gbs if is_slot or isinstance(current, Unknown) else current


def _top(function: Function) -> str | Unknown:
    """What is above the uppermost function that the evidence has: its root bus, or not known."""
    if function.parent is None:
        return function.root
    return function.parent if isinstance(function.parent, Unknown) else NOT_CAPTURED


def _gap(function: Function, above: str | Unknown, nodes: Mapping[str, Node]) -> Unknown | None:
    """Why a link that must be there is not known; every device below a bridge has one."""
    if isinstance(above, Unknown):
        return above
    return None if function.is_bridge or nodes[above].kind == "host-bridge" else _BETWEEN


def _link(segment: Segment | None, gap: Unknown | None) -> NodeLink | None:
    """The link; one of which each value says why it is not known, where it leads out of the evidence."""
    if segment is None:
        return None if gap is None else NodeLink(*(gap,) * len(NodeLink.__struct_fields__))
    edge, speed_gts, width = link_of(segment.lower), segment.max_speed_gts, segment.max_width
    return NodeLink(
        speed_gts=edge.current_speed_gts,
        width=edge.current_width,
        gbs=gbs_of(edge.current_speed_gts, edge.current_width),
        loaded_gbs=gbs_of(speed_gts, edge.current_width),
        possible_speed_gts=speed_gts,
        possible_width=width,
        possible_gbs=gbs_of(speed_gts, width),
    )


def _kind(function: Function) -> NodeKind:
    if not function.is_bridge:
        return "nvme" if function.is_nvme else "network" if function.is_network_card else "bridge"
    if knowledge.on_board_role(function.id):
        return "card-switch"
    if is_chipset_port(function):
        return "chipset-port"
    if function.express_type == ROOT_PORT or function.parent is None:
        return "root-port"
    if function.express_type in (UPSTREAM_PORT, DOWNSTREAM_PORT) or knowledge.external_switch_name(function.id):
        return "switch"
    return "bridge"


def _name(view: View, function: Function) -> str:
    """What the tables call it, and of network cards their RDMA devices. No database of the host is asked: that costs time."""
    if function.is_bridge:
        tables = (knowledge.chipset_name, knowledge.cpu_port_name, knowledge.external_switch_name, knowledge.tunnel_name)
        return next((name for table in tables if (name := table(function.id))), "")
    network = () if isinstance(view.host.network, Unknown) else view.host.network
    names = [name for device in network if device.address == function.address for name in device.rdma or (device.name,)]
    return ", ".join(dict.fromkeys(names)) or known(function.name, "")
