"""GPUs that share one uplink to the processor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from hostdoctor import wording
from hostdoctor.facts.pci import Acs, Function
from hostdoctor.facts.unknown import Unknown, known
from hostdoctor.findings import Check, Cost, Evidence, Finding, unjudged
from hostdoctor.topology import Card, Segment, is_chipset_port, link_of
from hostdoctor.view import View

ID = "shared-uplink"


def judge(view: View) -> Iterator[Finding]:
    """One finding for each uplink that several GPUs share, or one for all."""
    if len(view.cards) < 2:
        return
    unplaced = [(card, card.attachment) for card in view.cards if isinstance(card.attachment, Unknown)]
    for card, why in unplaced:
        yield unjudged(ID, (card.gpu.address,), "shared uplinks", why)
    shared = list(_shared(view.cards))
    chipset = [card for card in view.cards if card.attachment == "chipset"]
    if len(chipset) > 1:
        yield _chipset(chipset)
    for uplink, cards in shared:
        if not all(card in chipset for card in cards):
            yield _switch(view, uplink, cards)
    if len(chipset) < 2 and not shared and not unplaced:
        subject = tuple(card.gpu.address for card in view.cards)
        yield Finding(ID, "ok", subject, "each GPU has its own way to the processor")


def _shared(cards: tuple[Card, ...]) -> Iterator[tuple[Segment, list[Card]]]:
    """Links above the slot that more than one GPU uses, the narrowest link for each set of GPUs."""
    users: dict[str, list[Card]] = defaultdict(list)
    links: dict[str, Segment] = {}
    for card in cards:
        for uplink in card.uplinks:
            users[uplink.lower.address].append(card)
            links.setdefault(uplink.lower.address, uplink)
    seen: set[tuple[str, ...]] = set()
    for address, found in sorted(users.items(), key=lambda each: (known(links[each[0]].loaded_gbs, float("inf")), each[0])):
        members = tuple(card.gpu.address for card in found)
        if len(found) > 1 and members not in seen:
            seen.add(members)
            yield links[address], found


def _chipset(cards: list[Card]) -> Finding:
    ports = {
        port.address: port for card in cards for port in (segment.upper for segment in card.segments) if is_chipset_port(port)
    }
    return Finding(
        ID,
        "warning",
        tuple(card.gpu.address for card in cards),
        f"{len(cards)} GPUs share the chipset's uplink to the processor",
        "Everything behind a chipset, disks and network too, passes one link of a few lanes; GPUs there wait for each other.",
        evidence=tuple(Evidence(port.origin, f"chipset port {port.id}") for port in ports.values()),
        cost=Cost("copies of these GPUs at the same time share one uplink"),
        remedies=("move-card-to-cpu-slot",),
        next="move one of the cards to a slot that is wired to the processor",
    )


def _stay_below(view: View, cards: list[Card]) -> bool:
    """Whether copies between all of these GPUs are known to be switched below the uplink: P2P holds, nothing redirects."""
    gpus = {card.gpu.address for card in cards}
    pairs = [each for each in view.pairs if {each.accessor.address, each.owner.address} <= gpus]
    return len(pairs) == len(gpus) * (len(gpus) - 1) and all(
        pair.state == "holds"
        and pair.driver_says is not False
        and all(_clear(each) for each in view.topology.way_between(pair.accessor, pair.owner))
        for pair in pairs
    )


def _clear(function: Function) -> bool:
    acs = function.acs
    return acs is None or (isinstance(acs, Acs) and not acs.redirects)


def _switch(view: View, uplink: Segment, cards: list[Card]) -> Finding:
    link = link_of(uplink.lower)
    speed = uplink.max_speed_gts if not isinstance(uplink.max_speed_gts, Unknown) else link.current_speed_gts
    runs = uplink.loaded_gbs
    cost = None
    if not isinstance(runs, Unknown):
        cost = Cost(f"{wording.gbs(runs)} each way for {len(cards)} GPUs together", round(runs, 2))
    told = not isinstance(speed, Unknown) or not isinstance(link.current_width, Unknown)
    of = f" of {wording.link(speed, link.current_width)}" if told else ""
    between = ", while copies between these GPUs stay below it" if _stay_below(view, cards) else ""
    return Finding(
        ID,
        "info",
        tuple(card.gpu.address for card in cards),
        f"{len(cards)} GPUs share one uplink{of}",
        f"They lie behind the switch at {uplink.lower.address}: copies to and from host memory share its uplink{between}.",
        evidence=(Evidence(uplink.lower.origin, uplink.lower.id),),
        cost=cost,
    )


CHECK = Check(
    id=ID,
    subject="cards",
    summary="Which GPUs share one link to the processor.",
    looks_at="The bridges above each card: switches, the chipset's ports, root ports. For copies between GPUs below a "
    "switch, their P2P prediction and ACS on the way.",
    why="Copies to and from host memory of all GPUs behind one uplink share its bandwidth.",
    decides="A warning where two or more GPUs hang on the chipset, whose uplink they share with disks and network; info "
    "where they share a switch's uplink, as such machines are built. That copies between GPUs stay below the switch is "
    "said only where P2P is expected for each pair and ACS is known to redirect nothing on the way.",
    sources=(
        "AMD, ROCm on Radeon and Ryzen, limitations: use slots attached to the processor",
        "pci.ids: names of chipset ports and switches",
    ),
    judge=judge,
    remedies=("move-card-to-cpu-slot",),
    nothing="fewer than two discrete GPUs",
)
