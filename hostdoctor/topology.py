"""How the functions hang together: paths to the root complex, cards and their slots, what two GPUs share.

Sources: drivers/pci/p2pdma.c for the common bridge; Linux amdgpu_device_init_pcie_links and pci.ids for the switches that
some cards carry on board.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

import msgspec

from hostdoctor import knowledge
from hostdoctor.facts.pci import (
    AMD,
    ATI,
    DOWNSTREAM_PORT,
    INTEGRATED_ENDPOINT,
    INTEL,
    NVIDIA,
    ROOT_PORT,
    Express,
    Function,
    Link,
)
from hostdoctor.facts.unknown import Unknown, known

# Intel chipsets put their root ports at 00:1a.0 and up, processors below (Intel chipset datasheets, "PCI Express
# Root Ports", devices 26 to 29).
_FIRST_CHIPSET_DEVICE = 0x1A


class Segment(msgspec.Struct, frozen=True):
    """A link with both of its ends: `lower` faces up, `upper` is the port above it."""

    lower: Function
    upper: Function

    @property
    def max_width(self) -> int | Unknown:
        """Lanes that both ends can do."""
        return _least(self.lower, self.upper, "max_width")

    @property
    def max_speed_gts(self) -> float | Unknown:
        """GT/s that both ends can do."""
        return _least(self.lower, self.upper, "max_speed_gts")

    @property
    def current_gbs(self) -> float | Unknown:
        """GB/s of the link as it runs now."""
        return gbs_of(link_of(self.lower).current_speed_gts, link_of(self.lower).current_width)

    @property
    def loaded_gbs(self) -> float | Unknown:
        """GB/s at the trained width and the best speed of both ends: what an idle link comes up to."""
        return gbs_of(self.max_speed_gts, link_of(self.lower).current_width)

    @property
    def possible_gbs(self) -> float | Unknown:
        """GB/s that both ends could do."""
        return gbs_of(self.max_speed_gts, self.max_width)


_LEFT_OUT = Unknown("the ports above the card are left out of this evidence")
TUNNEL = Unknown(
    "it runs through Thunderbolt or USB4, whose ports say 2.5 GT/s whatever the cable carries",
    "hostdoctor bandwidth measures it",
)
_NO_LINK = Unknown("it has no PCI Express link")
_NOTHING = Link(_NO_LINK, _NO_LINK, _NO_LINK, _NO_LINK)


def link_of(function: Function) -> Link:
    """A function's link; where there is none, or it is not known, each of its values says why."""
    link = function.link
    if is_lost(function):
        link = Unknown("the device no longer answers")
    if isinstance(link, Unknown):
        return Link(link, link, link, link)
    return link or _NOTHING


def _least(lower: Function, upper: Function, name: str) -> int | Unknown:
    a, b = getattr(link_of(lower), name), getattr(link_of(upper), name)
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        return a if isinstance(a, Unknown) else b
    least: int = min(a, b)
    return least


def gbs_of(speed_gts: float | Unknown, width: int | Unknown) -> float | Unknown:
    """GB/s (10^9, one direction, after coding) of a link of that speed and width."""
    if isinstance(speed_gts, Unknown):
        return speed_gts
    if isinstance(width, Unknown):
        return width
    rate = knowledge.link_gbs(speed_gts, width)
    return Unknown(f"{speed_gts:g} GT/s is no known speed") if rate is None else rate


_NAMELESS = Unknown("which bridges lie above the card is not told by their ids", "attach lspci -nn -vvv, run with sudo")
_STRANGE = Unknown("whether the switch above it is the card's own is not known: its id is in no table")


class Card(msgspec.Struct, frozen=True):
    """A GPU and the connection of its card to the board.

    Attributes:
        gpu: the GPU function.
        top: the function at the card's edge: the upstream port of its on-board switch, or the GPU itself.
        slot: the link between card and slot; None where the GPU sits on a root bus, Unknown where the port is not in
            the evidence.
        uplinks: the links above the slot, nearest first.
        attachment: "processor", "chipset", "switch" or Unknown.
    """

    gpu: Function
    top: Function
    slot: Segment | Unknown | None
    uplinks: tuple[Segment, ...]
    attachment: str | Unknown

    @property
    def has_own_switch(self) -> bool:
        """Whether the card carries a switch, so that the GPU function's own link lies inside it."""
        return self.top is not self.gpu

    @property
    def slot_or_reason(self) -> Segment | Unknown:
        """The link between card and slot, or why there is none to judge."""
        return Unknown("there is no port above the card to compare with") if self.slot is None else self.slot

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The slot's link and those above it."""
        return (self.slot, *self.uplinks) if isinstance(self.slot, Segment) else self.uplinks


def to_root_gbs(card: Card) -> float | Unknown:
    """GB/s each way that the narrowest link between card and root complex carries under load."""
    rates: list[float] = []
    for segment in card.segments:
        if isinstance(segment.loaded_gbs, Unknown):
            return segment.loaded_gbs
        rates.append(segment.loaded_gbs)
    return min(rates) if rates else Unknown("there is no link above the card in this evidence")


class Topology:
    """The tree of functions."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self.functions = functions
        self._above: dict[str, tuple[Function, ...]] = {}

    def above(self, function: Function) -> tuple[Function, ...]:
        """The bridges above a function, nearest first, up to the root port; each once, also where parents form a loop."""
        found = self._above.get(function.address)
        if found is None:
            found = self._above[function.address] = tuple(self._climb(function))
        return found

    def _climb(self, function: Function) -> Iterator[Function]:
        seen = {function.address}
        parent = known(function.parent, None)
        while parent and parent in self.functions and parent not in seen:
            seen.add(parent)
            yield self.functions[parent]
            parent = known(self.functions[parent].parent, None)

    def knows_way_up(self, function: Function) -> bool:
        """Whether every bridge from a function up to its root bus is in the evidence."""
        return (self.above(function) or (function,))[-1].parent is None

    def common_bridge(self, a: Function, b: Function) -> Function | None:
        """The bridge nearest to both, or None where only the root complex joins them."""
        over_a = {bridge.address for bridge in self.above(a)}
        return next((bridge for bridge in self.above(b) if bridge.address in over_a), None)

    def way_between(self, a: Function, b: Function) -> list[Function]:
        """The way from one function to another over their common bridge, both and that bridge included.

        These are the functions whose ACS redirect decides: drivers/pci/p2pdma.c calc_map_type_and_dist asks each of
        them before it compares, so the two ends and the common bridge too.
        """
        common = self.common_bridge(a, b)
        if common is None:
            return []
        up, down = ([function, *self._below(common, function)] for function in (a, b))
        return [*up, common, *reversed(down)]

    def _below(self, bridge: Function, function: Function) -> tuple[Function, ...]:
        above = self.above(function)
        return above[: above.index(bridge)]

    def first_on_root(self, function: Function) -> Function | None:
        """The first function on a function's root bus, by which the kernel knows the host bridge (pci_host_bridge_dev)."""
        return self._first_on_root.get(known(function.root, ""))

    @cached_property
    def _first_on_root(self) -> dict[str, Function]:
        first: dict[str, Function] = {}
        for function in self.functions.values():
            root = known(function.root, "")
            if function.parent is None and root and (root not in first or function.address < first[root].address):
                first[root] = function
        # A text may leave out the first one, which stands at 00.0 wherever the kernel's list of host bridges looks.
        return {root: each for root, each in first.items() if each.is_from_sysfs or each.address.endswith(":00.0")}

    @cached_property
    def gpus(self) -> tuple[Function, ...]:
        """The discrete GPUs in address order: no integrated ones, no virtual functions, no second display head."""
        return tuple(function for function in self.functions.values() if self._is_discrete_gpu(function))

    @cached_property
    def integrated_gpus(self) -> tuple[Function, ...]:
        """GPUs that are part of the processor or chipset."""
        return tuple(
            function for function in self.functions.values() if is_gpu_class(function) and self._is_integrated(function)
        )

    def _is_discrete_gpu(self, function: Function) -> bool:
        if not is_gpu_class(function) or function.is_virtual_function or self._is_integrated(function):
            return False
        slot, _, number = function.address.rpartition(".")
        first = self.functions.get(f"{slot}.0")
        return not slot or number == "0" or first is None or not is_gpu_class(first)

    def _is_integrated(self, function: Function) -> bool:
        parent = self.functions.get(known(function.parent, None) or "")
        if knowledge.is_integrated(function.id, parent.id if parent else ""):
            return True
        # A copy that followed the links does not tell what is above a function; bus 00 is a root bus all the same.
        on_root_bus = function.parent is None or (isinstance(function.parent, Unknown) and ":00:" in function.address)
        if function.vendor != INTEL or not on_root_bus or knowledge.is_intel_discrete(function.id):
            return False
        on_chip = function.express_type in (None, INTEGRATED_ENDPOINT)
        return on_chip and (function.base_class == 0x12 or function.address.endswith(":00:02.0"))

    @cached_property
    def cards(self) -> tuple[Card, ...]:
        """Each discrete GPU with its slot."""
        return tuple(self._card(gpu) for gpu in self.gpus)

    def links_above(self, function: Function) -> list[Segment]:
        """The links from a function up to its root port, nearest first; none where ports between them are left out."""
        chain = [function, *self.above(function)]
        if any(each.ports_left_out for each in chain):
            return []
        return [_segment(chain[at], chain[at + 1]) for at in _link_starts(chain)]

    def links_inside(self, card: Card) -> list[Segment]:
        """The links between a GPU and the edge of its card, of cards that carry a switch."""
        if not card.has_own_switch:
            return []
        above = self.above(card.gpu)
        chain = [card.gpu, *above[: above.index(card.top) + 1]]
        return [_segment(chain[at], chain[at + 1]) for at in _link_starts(chain)]

    def _card(self, gpu: Function) -> Card:
        chain = [gpu, *self.above(gpu)]
        edge = 0
        while edge + 1 < len(chain) and (role := knowledge.on_board_role(chain[edge + 1].id)):
            edge += 1
            if role == "upstream":
                break
        rest = chain[edge:]
        if len(rest) > 1 and _may_be_on_board(gpu, rest[1]):
            why = _STRANGE if rest[1].has_known_id else _NAMELESS
            return Card(gpu, rest[0], why, (), why)
        if any(function.ports_left_out for function in rest):
            return Card(gpu, rest[0], _LEFT_OUT, (), _LEFT_OUT)
        segments = [_segment(rest[n], rest[n + 1]) for n in _link_starts(rest)]
        slot: Segment | Unknown | None = segments[0] if segments else None
        if slot is None and (known(rest[0].parent, None) or isinstance(rest[0].parent, Unknown)):
            slot = Unknown("the port above the card is not in this evidence")
        return Card(gpu, rest[0], slot, tuple(segments[1:]), self._attachment(gpu, rest[1:]))

    def _attachment(self, gpu: Function, bridges: list[Function]) -> str | Unknown:
        if any(is_chipset_port(bridge) for bridge in bridges):
            return "chipset"
        if not self.knows_way_up(gpu):
            return Unknown("the ports above the card are not all in this evidence")
        if not all(bridge.has_known_id for bridge in bridges):
            return _NAMELESS
        return "switch" if len(bridges) > 1 else "processor"


def _segment(lower: Function, upper: Function) -> Segment:
    """The link between two functions; what the registers at both ends of a tunnel say is no rate of anything."""
    if knowledge.is_tunnel(lower.id, upper.id):
        lower, upper = (msgspec.structs.replace(each, link=TUNNEL) for each in (lower, upper))
    return Segment(lower, upper)


def _may_be_on_board(gpu: Function, bridge: Function) -> bool:
    """Whether a bridge can belong to the card's own switch: its id is not in the evidence, or in no table.

    NVIDIA's cards have none. Of AMD's, some generations' ids are in no database; their switches have AMD's vendor ids.
    """
    express = bridge.express
    is_root_port = bridge.parent is None or (isinstance(express, Express) and express.port_type == ROOT_PORT)
    if gpu.vendor == NVIDIA or is_root_port:
        return False
    if not bridge.has_known_id:
        return True
    is_of_amd = gpu.vendor == ATI and bridge.vendor in (AMD, ATI)
    return is_of_amd and bridge.express_type == DOWNSTREAM_PORT and not knowledge.is_known_bridge(bridge.id)


def _link_starts(chain: list[Function]) -> list[int]:
    """Where in a chain of functions, lowest first, a link begins that leads to the next.

    Between the two ports of one switch there is no link: each downstream port is followed by its upstream port.
    """
    starts, at = [], 0
    while at + 1 < len(chain):
        if chain[at].express_type == DOWNSTREAM_PORT:
            at += 1
            continue
        starts.append(at)
        at += 2
    return starts


def is_lost(function: Function) -> str:
    """Why a function counts as gone, or nothing where it answers or was not asked."""
    return "" if isinstance(function.config, Unknown) else function.config.lost


def is_gpu_class(function: Function) -> bool:
    """A display controller or accelerator of AMD, NVIDIA or Intel."""
    return function.base_class in (0x03, 0x12) and function.vendor in (ATI, NVIDIA, INTEL)


def is_chipset_port(bridge: Function) -> bool:
    """Whether a port belongs to the chipset rather than to the processor."""
    if knowledge.is_chipset(bridge.id):
        return True
    device = int(bridge.address.split(":")[-1].split(".")[0], 16)
    on_first_bus = bridge.parent is None and bridge.address.startswith("0000:00:")
    return bridge.vendor == INTEL and on_first_bus and device >= _FIRST_CHIPSET_DEVICE
