"""The tree of functions as a tree of devices: what a person would draw.

The ports of one switch are one device, a card with its own switch is one card, and the root ports are parts of their host
bridge; what hangs on them hangs on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from hostdoctor import wording
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.report.model import Node, NodeLink, TopologyReport

Kind = Literal["host-bridge", "not-known", "switch", "chipset", "bridge", "card", "network", "nvme"]

_OF_NODES: dict[str, Kind] = {
    "host-bridge": "host-bridge", "root-port": "bridge", "chipset-port": "chipset", "switch": "switch", "card-switch": "card",
    "bridge": "bridge", "gpu": "card", "network": "network", "nvme": "nvme",
}  # fmt: skip
# Ports that are one device with the port above them where no link is between the two.
_HAS_PORTS = ("switch", "card-switch", "chipset-port")
# More drives alike below one device are drawn as one.
_ALIKE_AT_MOST = 2


class Device(msgspec.Struct, eq=False):
    """One device.

    Attributes:
        kind: "not-known" stands for whatever is above devices of which the evidence does not tell what is.
        address: of its uppermost function, or of a host bridge its root bus.
        name: its product, or empty; of what is not known the reason.
        link: to the device above.
        port: the function above it, on which it hangs; None below a host bridge's own bus.
        limits: whether that link limits a card.
        numa_node: the memory node.
        gpus: of a card.
        has_own_switch: of a card.
        below: what hangs on it.
        count: how many alike it stands for.
    """

    kind: Kind
    address: str
    name: str = ""
    link: NodeLink | None = None
    port: Node | None = None
    limits: bool = False
    numa_node: int | Unknown = NOT_CAPTURED
    gpus: list[Node] = []
    has_own_switch: bool = False
    below: list[Device] = []
    count: int = 1

    @property
    def all_gpus(self) -> list[Node]:
        """The GPUs on it and below it."""
        return [gpu for device, _ in walk(self) for gpu in device.gpus]


def walk(device: Device) -> Iterator[tuple[Device, int]]:
    """A device and everything below it, each after the one above it, with its depth."""
    waiting = [(device, 0)]
    while waiting:
        each, depth = waiting.pop()
        yield each, depth
        waiting.extend((below, depth + 1) for below in reversed(each.below))


def device_trees(topology: TopologyReport) -> list[Device]:
    """A tree for each host bridge, and one for each reason why it is not known what is above; those with GPUs first."""
    roots: dict[str, Device] = {}
    nodes: dict[str, Node] = {}
    owners: dict[str, Device] = {}
    for node in topology.nodes:
        nodes[node.address] = node
        owners[node.address] = _place(node, roots, nodes, owners)
    for device in roots.values():
        for each, _ in walk(device):
            each.below = _gathered(each.below)
    return sorted(roots.values(), key=lambda root: not root.all_gpus)


def _place(node: Node, roots: dict[str, Device], nodes: dict[str, Node], owners: dict[str, Device]) -> Device:
    """The device a node belongs to: one that is there, or a new one put where it belongs."""
    kind = _OF_NODES[node.kind]
    if node.parent is None:
        return roots.setdefault(node.address, Device("host-bridge", node.address, numa_node=node.numa_node))
    if isinstance(node.parent, Unknown):
        above = roots.setdefault(f"?{node.parent.reason}", Device("not-known", "", node.parent.reason))
        port = None
    else:
        above, port = owners[node.parent], nodes[node.parent]
        if node.link is None and port.kind == node.kind and node.kind in _HAS_PORTS:
            return above
        if node.kind == "gpu" and above.kind == "card":
            above.gpus.append(node)
            return above
        if port.kind == "host-bridge":
            if node.kind in ("root-port", "chipset-port"):
                return above
            port = None
    link = None if above.kind == "not-known" else node.link  # why it is not known stands above
    device = Device(kind, node.address, node.name, link, port, node.limits, node.numa_node)
    device.has_own_switch = node.kind == "card-switch"
    if node.kind == "gpu":
        device.gpus.append(node)
    above.below.append(device)
    return device


def _gathered(devices: Sequence[Device]) -> list[Device]:
    """Drives with the same link as one where they are many."""
    alike: dict[object, list[Device]] = {}
    for device in devices:
        is_plain = device.kind == "nvme" and not device.below
        alike.setdefault((device.kind, device.name, device.link) if is_plain else id(device), []).append(device)
    found: list[Device] = []
    for group in alike.values():
        if len(group) > _ALIKE_AT_MOST:
            first = group[0]
            found.append(msgspec.structs.replace(first, count=len(group), port=None))
        else:
            found.extend(group)
    return found


def title_of(device: Device) -> str:
    """What a device is, in a few words."""
    if device.kind == "host-bridge":
        return f"Host bridge {device.address}"
    if device.kind == "not-known":
        return "What is above is not known"
    if device.kind == "card":
        names = dict.fromkeys(gpu.name for gpu in device.gpus)
        return f"{len(device.gpus)} × {next(iter(names))}" if len(names) == 1 < len(device.gpus) else ", ".join(names) or "card"
    words = {"switch": "switch", "chipset": "chipset", "bridge": "bridge", "network": "network card", "nvme": "NVMe drive"}
    word = words[device.kind]
    return f"{device.count} {word}s" if device.count > 1 else device.name or word


def place_of(device: Device) -> str:
    """Where it is: its addresses, or of a host bridge its memory node."""
    if device.kind == "not-known":
        return device.name
    if device.kind == "host-bridge":
        node = device.numa_node
        return f"memory node {node}" if isinstance(node, int) and node >= 0 else ""
    addresses = [gpu.address for gpu in device.gpus] or [device.address]
    words = [wording.listed(addresses, 2)]
    if device.count > 1:
        words = [f"from {device.address} on"]
    if device.has_own_switch:
        words.append("own switch")
    if any(gpu.asleep for gpu in device.gpus):
        words.append("asleep")
    return ", ".join(words)


def port_of(device: Device) -> str:
    """The port it hangs on; empty where there is none."""
    port = device.port
    if port is None:
        return ""
    word = {"root-port": "root port", "chipset-port": "chipset port"}.get(port.kind, "port")
    return f"{word} {port.address}"


def link_words(link: NodeLink) -> str:
    """A link now and what both ends can do: "2.5 of 16 GT/s x8 of x16 · 15.8 GB/s"; the rate is that under load."""
    told = [each for each in (link.speed_gts, link.width) if not isinstance(each, Unknown)]
    if not told:
        return "link not known"
    if link.width == 0:
        return "link down"
    speed, width = _of(link.speed_gts, link.possible_speed_gts), _of(link.width, link.possible_width, "x")
    rate = "" if isinstance(link.loaded_gbs, Unknown) else f" · {wording.gbs(link.loaded_gbs)}"
    return f"{speed} GT/s {width}{rate}"


def _of(now: float | Unknown, possible: float | Unknown, before: str = "") -> str:
    text = f"{before}?" if isinstance(now, Unknown) else f"{before}{now:g}"
    more = not isinstance(possible, Unknown) and not isinstance(now, Unknown) and possible > now
    return f"{text} of {before}{possible:g}" if more else text


def lanes_of(device: Device) -> int:
    """The lanes that its link uses; 0 where they are not known."""
    link = device.link
    return 0 if link is None or isinstance(link.width, Unknown) else link.width


def limit_words(device: Device) -> str:
    """What a link limits, and whether as it is built; empty where it limits nothing."""
    if not device.limits:
        return ""
    what = "limits the card" if device.kind == "card" else "limits what is below"
    return what if is_short(device) else f"{what} by design"


def is_short(device: Device) -> bool:
    """Whether a link gives less than both of its ends can do: a card's in lanes, since its speed follows its load."""
    link = device.link
    if link is None:
        return False
    runs = link.loaded_gbs if device.kind == "card" else link.gbs
    return not isinstance(runs, Unknown) and not isinstance(link.possible_gbs, Unknown) and runs < link.possible_gbs


def described(root: Device) -> list[str]:
    """The tree in words, a line a device, for whoever does not see the drawing."""
    lines = []
    for device, depth in walk(root):
        parts = [title_of(device), place_of(device), port_of(device), link_words(device.link) if device.link else ""]
        parts.append(limit_words(device))
        lines.append("  " * depth + ", ".join(part for part in parts if part))
    return lines
