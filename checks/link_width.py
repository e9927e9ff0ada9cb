"""The trained width of each card's slot link."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hostdoctor import drivers, knowledge
from hostdoctor.facts.host import Host
from hostdoctor.facts.pci import NVIDIA
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown, known
from hostdoctor.findings import Check, Evidence, Finding, cost_of, unjudged
from hostdoctor.topology import Card, Segment, gbs_of, link_of
from hostdoctor.view import View

ID = "link-width"

# Portable, laptop, notebook, sub notebook, tablet, convertible, detachable (SMBIOS specification 3.6, 7.4.1).
_PORTABLE = ("8", "9", "10", "14", "30", "31", "32")

# Mobile products, and NVIDIA's chips for them: "GA104M [GeForce RTX 3080 Mobile / Max-Q 8GB/16GB]", "TU106GLM [Quadro ...]".
# A name that lists products of both kinds, as some of AMD's do, tells nothing.
_MOBILE = re.compile(r"\b(?:Mobile|Max-Q|Laptop GPU)\b|^[A-Z]{2}\d{3}(?:GL)?M\b")


def judge(view: View) -> Iterator[Finding]:
    """One finding a card."""
    for card in view.cards:
        yield _judge_card(view.host, card)


def _judge_card(host: Host, card: Card) -> Finding:
    subject = (card.gpu.address,)
    edge = link_of(card.top)
    width = edge.current_width
    if isinstance(width, Unknown):
        return _by_driver(host, card, width)
    other = drivers.other_width(host, card)
    evidence = (Evidence(card.top.source("current_link_width"), str(width)), *other)
    if width == 0:
        return unjudged(ID, subject, "link width", Unknown("the link is down (x0)"), evidence)
    slot = card.slot_or_reason
    possible = slot if isinstance(slot, Unknown) else _possible_width(card, slot)
    if isinstance(possible, Unknown) or isinstance(slot, Unknown):
        # A card without a switch of its own that runs all its lanes is in order, whatever is above it.
        if width == edge.max_width and card.gpu.vendor == NVIDIA:
            return Finding(ID, "ok", subject, f"x{width}, all that the card can do", evidence=evidence)
        return unjudged(ID, subject, "link width", possible if isinstance(possible, Unknown) else NOT_CAPTURED, evidence)
    if width >= possible:
        return Finding(ID, "ok", subject, f"x{width}, all that card and slot can do", evidence=evidence)
    if built_in := _soldered(host, card):
        title = (
            f"the link runs x{width}, although card and port say x{possible}: in a portable computer that is how it is built"
        )
        why = "A chip that is soldered in often has fewer lanes wired than its register says; there is nothing to reseat."
        return Finding(
            ID,
            "info",
            subject,
            title,
            why,
            "likely",
            (*evidence, built_in),
        )
    return _failure(card, slot, width, possible, other)


def _soldered(host: Host, card: Card) -> Evidence | None:
    """What shows that the GPU is a chip of a portable computer: the chassis, or a name that only such chips bear."""
    chassis, gpu = host.firmware.chassis_type, card.gpu
    if chassis in _PORTABLE:
        return Evidence("/sys/class/dmi/id/chassis_type", str(chassis))
    return Evidence(gpu.origin, gpu.name) if isinstance(chassis, Unknown) and _MOBILE.search(gpu.name) else None


def _by_driver(host: Host, card: Card, why: Unknown) -> Finding:
    """The width that only the driver tells.

    NVML calls its maximum that of GPU and system together, but names the card's where the port above it has fewer lanes
    (seen with x8 cards in slots of four), so fewer lanes than that are no proof of a fault. AMD SMI's link may be one inside
    the card, so it is none at all.
    """
    subject, link = (card.gpu.address,), drivers.driver_link(host, card)
    if card.gpu.vendor != NVIDIA or link is None or isinstance(link.width, Unknown) or not link.width:
        return unjudged(ID, subject, "link width", why)
    told, wired = drivers.nvml_gpu(host, card.gpu), knowledge.lanes_of(card.gpu.id)
    most = told.max_width if told else why
    if link.width in (most, wired):
        whose = "the card" if link.width == wired or wired is None else "card and slot"
        return Finding(ID, "ok", subject, f"x{link.width}, all that {whose} can do", evidence=(link.width_evidence,))
    help_ = "sudo lspci -vvv shows both ends of the link"
    possible = known(most, 0) or wired
    if not possible:
        title = f"x{link.width}; what card and slot can do is not in this evidence"
        return Finding(ID, "unknown", subject, title, evidence=(link.width_evidence,), help=help_)
    return Finding(
        ID,
        "unknown",
        subject,
        f"x{link.width}, and the card can do x{possible}: what the slot can do is not in this evidence",
        "Fewer lanes than the card has can be how the slot is built, or a fault of riser or contacts: only the port above "
        "the card tells.",
        evidence=(link.width_evidence,),
        help=help_,
    )


def _possible_width(card: Card, slot: Segment) -> int | Unknown:
    """Lanes that card and port can do; a card known to have fewer wired than its register says counts as that."""
    both, wired = slot.max_width, knowledge.lanes_of(card.gpu.id)
    return both if isinstance(both, Unknown) or wired is None else min(both, wired)


def _failure(card: Card, slot: Segment, width: int, possible: int, other: tuple[Evidence, ...]) -> Finding:
    port = slot.upper.address
    evidence = (
        Evidence(slot.lower.source("current_link_width"), str(width)),
        Evidence(slot.lower.source("max_link_width"), f"{link_of(slot.lower).max_width}"),
        Evidence(slot.upper.source("max_link_width"), f"{link_of(slot.upper).max_width}"),
        *other,
    )
    speed = slot.max_speed_gts
    have, could = gbs_of(speed, width), gbs_of(speed, possible)
    own = f" The link judged is that of the card's own switch, {slot.lower.address}." if card.has_own_switch else ""
    return Finding(
        ID,
        "failure",
        (card.gpu.address,),
        f"the link runs x{width}, although card and slot can do x{possible}",
        f"Link training left lanes out between the card and its port {port}. Width does not follow the load, so this is "
        f"no power saving: a riser, dirty or bent contacts, a card not fully seated, or a setting of the slot.{own}",
        "certain",
        evidence,
        cost_of(have, could),
        ("reseat-or-move-card",),
        "power off, reseat the card or change its riser, then compare with another slot",
    )


CHECK = Check(
    id=ID,
    subject="card",
    summary="The link between slot and card has all the lanes that both ends can do.",
    looks_at="The current width and the maximum widths of the card's edge (the upstream port of its on-board switch, "
    "where it carries one) and of the port above it; on the host itself also the width that NVML or AMD SMI sees, which is "
    "named where it differs and the GPU is not idle.",
    why="Every copy between host and card, and between cards, passes this link; half the lanes are half the bandwidth.",
    decides="A failure where fewer lanes are trained than both card and port can do, at any power state: width does not "
    "follow the load. A card with fewer lanes wired than its register says is measured by what is wired; "
    "in a portable computer, or where the GPU's name is that of a chip for one, fewer lanes than said are info, since the "
    "chip is soldered in. Unknown where "
    "the port is not in the evidence (a card that runs all its own lanes is in order without it) or the card is asleep.",
    sources=(
        "PCI Express Base Specification 6.0, 7.5.3.6 Link Capabilities and 7.5.3.8 Link Status",
        "Linux drivers/pci/pci-sysfs.c current_link_width_show, max_link_width_show",
        "Linux drivers/gpu/drm/amd/amdgpu/amdgpu_device.c: the card's own switch is skipped to find the slot's link",
    ),
    judge=judge,
    remedies=("reseat-or-move-card",),
)
