"""Links above the slot that are narrower than the card's own."""

from __future__ import annotations

from collections.abc import Iterator

from hostdoctor import wording
from hostdoctor.facts.unknown import Unknown, known
from hostdoctor.findings import Check, Evidence, Finding, cost_of, unjudged
from hostdoctor.topology import Card, Segment, link_of
from hostdoctor.view import View

ID = "path-bottleneck"


def judge(view: View) -> Iterator[Finding]:
    """One finding a card: the narrowest link above its slot."""
    for card in view.cards:
        yield _judge_card(view, card)


def _judge_card(view: View, card: Card) -> Finding:
    subject, slot = (card.gpu.address,), card.slot_or_reason
    if isinstance(slot, Unknown):
        return unjudged(ID, subject, "path", slot)
    if not view.topology.knows_way_up(card.gpu):
        return unjudged(ID, subject, "path", Unknown("the ports above the card are not all in this evidence"))
    if not card.uplinks:
        return Finding(ID, "ok", subject, f"the slot's port {slot.upper.address} is a root port: nothing lies above it")
    need = slot.loaded_gbs
    if isinstance(need, Unknown):
        return unjudged(ID, subject, "path", need)
    narrower: list[tuple[float, Segment]] = []
    unread: Finding | None = None
    for uplink in card.uplinks:
        runs = uplink.current_gbs
        if isinstance(runs, Unknown):
            unread = unread or unjudged(ID, subject, f"path above {uplink.lower.address}", runs)
        elif runs < need:
            narrower.append((runs, uplink))
    # One that can be mended is worth more words than one that is narrow by design, even if that is narrower still.
    faulty = [(runs, uplink) for runs, uplink in narrower if runs < known(uplink.possible_gbs, 0.0)]
    if faulty or (narrower and unread is None):
        runs, uplink = min(faulty or narrower, key=lambda each: each[0])
        return _narrower(card, uplink, runs, need)
    return unread or Finding(ID, "ok", subject, "no link above the slot is narrower than the card's")


def _narrower(card: Card, uplink: Segment, runs: float, need: float) -> Finding:
    subject = (card.gpu.address,)
    link = link_of(uplink.lower)
    now = wording.link(link.current_speed_gts, link.current_width)
    ends = f"{uplink.lower.address} and {uplink.upper.address}"
    can = wording.link(uplink.max_speed_gts, uplink.max_width)
    evidence = (
        Evidence(uplink.lower.source("current_link_speed"), now),
        Evidence(uplink.upper.source("max_link_speed"), f"both ends: {can}"),
    )
    possible = uplink.possible_gbs
    if isinstance(possible, Unknown):
        return unjudged(ID, subject, f"path above {uplink.lower.address}", possible, evidence)
    if runs < possible:
        return Finding(
            ID,
            "warning",
            subject,
            f"a link further up runs at {now}, although both of its ends can do {can}",
            f"Between {ends} the path to the processor is narrower than the card's own link, and not by design.",
            "likely",
            evidence,
            cost_of(runs, min(need, possible)),
            ("reseat-or-move-card",),
            f"look at the riser, cable or backplane between {ends}",
        )
    return Finding(
        ID,
        "info",
        subject,
        f"a link further up gives at most {can}, less than the card's own",
        f"Between {ends} the path to the processor is narrower by design: a chipset's or a switch's uplink.",
        evidence=evidence,
        cost=cost_of(runs, need),
    )


CHECK = Check(
    id=ID,
    subject="card",
    summary="No link between slot and processor is narrower than the card's own.",
    looks_at="Speed and width, now and at most, of each link above the slot: switches, chipset, backplanes.",
    why="A card behind a switch or a chipset is as fast as the narrowest link on its way to the processor.",
    decides="A warning where an upper link trained below what both of its ends can do; info where it is narrower by "
    "design; ok where no upper link is narrower than the card's.",
    sources=(
        "Linux drivers/pci/pci.c __pcie_print_link_status: every bridge up to the root counts",
        "PCI Express Base Specification 6.0, 7.5.3.8 Link Status",
    ),
    judge=judge,
    remedies=("reseat-or-move-card",),
)
