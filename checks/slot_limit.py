"""What the slot cannot give, although the card could use it."""

from __future__ import annotations

from collections.abc import Iterator

from hostdoctor import knowledge, wording
from hostdoctor.boot_links import slot_at_boot
from hostdoctor.facts.host import Host
from hostdoctor.facts.pci import Link
from hostdoctor.facts.unknown import Unknown, known
from hostdoctor.findings import Check, Cost, Evidence, Finding, unjudged
from hostdoctor.topology import Card, Segment, link_of
from hostdoctor.view import View

ID = "slot-limit"


def judge(view: View) -> Iterator[Finding]:
    """One finding a card."""
    for card in view.cards:
        yield _judge_card(view.host, card)


def _judge_card(host: Host, card: Card) -> Finding:
    slot = card.slot_or_reason
    if isinstance(slot, Unknown):
        return _unknown(host, card, slot)
    edge, port = link_of(slot.lower), link_of(slot.upper)
    for value in (edge.max_speed_gts, edge.max_width, port.max_speed_gts, port.max_width):
        if isinstance(value, Unknown):
            return _unknown(host, card, value)
    return _compare(card, slot, edge, port)


def _unknown(host: Host, card: Card, why: Unknown) -> Finding:
    """Not judged; with what the kernel found at the boot, which is the slot's limit or a link that trained too low."""
    subject, boot = (card.gpu.address,), slot_at_boot(host, card)
    if boot is None:
        return unjudged(ID, subject, "slot", why)
    had, could = wording.link(boot.speed_gts, boot.width), wording.link(boot.capable_speed_gts, boot.capable_width)
    return Finding(
        ID,
        "unknown",
        subject,
        f"at the boot the slot's link ran at {had}, of {could} that the card is able to; what the slot can do is not known",
        f"Whether port {boot.limited_by} can give no more, or the link trained below what both ends can do, is not in this "
        "evidence.",
        evidence=(Evidence(boot.source, f"limited by {had} at {boot.limited_by}, capable of {could}"),),
        help="add the output of lspci -vvv, as root",
    )


def _compare(card: Card, slot: Segment, edge: Link, port: Link) -> Finding:
    subject = (card.gpu.address,)
    lanes = min(known(edge.max_width, 0), knowledge.lanes_of(card.gpu.id) or known(edge.max_width, 0))
    card_can = wording.link(edge.max_speed_gts, lanes)
    slot_can = wording.link(port.max_speed_gts, port.max_width)
    evidence = (
        Evidence(slot.lower.source("max_link_speed"), f"card: {card_can}"),
        Evidence(slot.upper.source("max_link_speed"), f"slot: {slot_can}"),
    )
    if known(port.max_speed_gts, 0.0) >= known(edge.max_speed_gts, 0.0) and known(port.max_width, 0) >= lanes:
        return Finding(ID, "ok", subject, f"the slot gives all that the card can use ({card_can})", evidence=evidence)
    have = slot.possible_gbs
    could = knowledge.link_gbs(known(edge.max_speed_gts, 0.0), lanes)
    cost = None
    if not isinstance(have, Unknown) and could is not None:
        cost = Cost(f"at most {wording.gbs(have)} each way; the card could do {wording.gbs(could)}", round(have, 2), could)
    return Finding(
        ID,
        "info",
        subject,
        f"the slot gives at most {slot_can}; the card could use {card_can}",
        f"A limit of the board or of how its lanes are divided (port {slot.upper.address}): nothing is broken.",
        evidence=evidence,
        cost=cost,
    )


CHECK = Check(
    id=ID,
    subject="card",
    summary="Whether slot and board can give all that the card could use.",
    looks_at="The maximum speed and width of the card's edge and of the port above it. Where they are not in the evidence, how "
    "the link ran at the boot by the kernel's log, which alone is no verdict.",
    why="It explains a link that is slower than the card's data sheet although nothing is wrong, and says what another "
    "slot would bring.",
    decides="Info where the port's maximum is below the card's: a PCIe 3.0 board, a slot with four lanes, lanes divided "
    "between two slots. Never more than info: it is a limit by design.",
    sources=(
        "PCI Express Base Specification 6.0, 7.5.3.6 Link Capabilities",
        "Linux drivers/pci/pci-sysfs.c max_link_speed_show, max_link_width_show",
    ),
    judge=judge,
)
