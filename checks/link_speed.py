"""The speed of each card's slot link."""

from __future__ import annotations

from collections.abc import Iterator

from hostdoctor.facts.pci import NVIDIA, GpuFacts
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.findings import Check, Evidence, Finding, cost_of, unjudged
from hostdoctor.topology import Card, Segment, link_of
from hostdoctor.view import View

ID = "link-speed"

# amdgpu counts a GPU as busy by the share of time its pipes work; from here on its clocks and its link are up.
_BUSY_PERCENT = 50


def judge(view: View) -> Iterator[Finding]:
    """One finding a card."""
    for card in view.cards:
        yield _judge_card(card, view.host.gpu_facts.get(card.gpu.address, GpuFacts()))


def _judge_card(card: Card, facts: GpuFacts) -> Finding:
    subject = (card.gpu.address,)
    edge, slot = link_of(card.top), card.slot_or_reason
    speed = edge.current_speed_gts
    if isinstance(speed, Unknown):
        return unjudged(ID, subject, "link speed", speed)
    evidence = (Evidence(card.top.source("current_link_speed"), f"{speed:g} GT/s"),)
    if edge.current_width == 0:
        return unjudged(ID, subject, "link speed", Unknown("the link is down (x0)"), evidence)
    possible = slot if isinstance(slot, Unknown) else slot.max_speed_gts
    if isinstance(possible, Unknown) or isinstance(slot, Unknown):
        if speed == edge.max_speed_gts and card.gpu.vendor == NVIDIA:
            return Finding(ID, "ok", subject, f"{speed:g} GT/s, all that the card can do", evidence=evidence)
        return unjudged(ID, subject, "link speed", possible if isinstance(possible, Unknown) else NOT_CAPTURED, evidence)
    if speed >= possible:
        return Finding(ID, "ok", subject, f"{speed:g} GT/s, all that card and slot can do", evidence=evidence)
    return _slow(card, slot, speed, possible, facts)


def _slow(card: Card, slot: Segment, speed: float, possible: float, facts: GpuFacts) -> Finding:
    subject = (card.gpu.address,)
    evidence = (
        Evidence(slot.lower.source("current_link_speed"), f"{speed:g} GT/s"),
        Evidence(slot.lower.source("max_link_speed"), f"{link_of(slot.lower).max_speed_gts:g} GT/s"),
        Evidence(slot.upper.source("max_link_speed"), f"{link_of(slot.upper).max_speed_gts:g} GT/s"),
    )
    busy = facts.busy_percent
    if isinstance(busy, Unknown) or busy < _BUSY_PERCENT:
        known_idle = not isinstance(busy, Unknown)
        return Finding(
            ID,
            "unknown",
            subject,
            f"{speed:g} GT/s now, {possible:g} possible: {'the GPU is idle' if known_idle else 'the GPU may be idle'}",
            "GPUs lower the speed of an idle link and raise it under load, so a reading at rest proves nothing.",
            evidence=(*evidence, *_busy_evidence(card, facts)),
            help="load the GPU and scan again",
        )
    return Finding(
        ID,
        "failure",
        subject,
        f"the link runs at {speed:g} GT/s under load, although card and slot can do {possible:g}",
        f"The GPU is {busy} % busy, so this is no power saving: a riser or cable too poor for the speed, a slot set to "
        "a lower generation in the firmware, or a link that fell back after errors.",
        "likely",
        (*evidence, *_busy_evidence(card, facts)),
        cost_of(slot.current_gbs, slot.loaded_gbs),
        ("reseat-or-move-card",),
        "look for the slot's speed setting in the firmware, then try the card without its riser or in another slot",
    )


def _busy_evidence(card: Card, facts: GpuFacts) -> tuple[Evidence, ...]:
    busy = facts.busy_percent
    return () if isinstance(busy, Unknown) else (Evidence(card.gpu.source("gpu_busy_percent"), str(busy)),)


CHECK = Check(
    id=ID,
    subject="card",
    summary="The link between slot and card runs as fast as both ends can.",
    looks_at="The current speed and the maximum speeds of the card's edge and of the port above it, and whether the GPU "
    "is at work (gpu_busy_percent).",
    why="Each generation doubles the bandwidth of the same lanes.",
    decides="Ok where the link runs at the best speed of both ends. Below it, a failure only where the GPU is known to be "
    f"at work (at least {_BUSY_PERCENT} % busy): idle GPUs lower their link's speed. Otherwise unknown, with what would "
    "tell.",
    sources=(
        "PCI Express Base Specification 6.0, 7.5.3.6 Link Capabilities and 7.5.3.8 Link Status",
        "nvidia-smi manual, pcie.link.gen.current: may be reduced when the GPU is not in use",
        "Linux drivers/gpu/drm/amd/amdgpu/amdgpu_device.c amdgpu_device_pcie_dynamic_switching_supported",
    ),
    judge=judge,
    remedies=("reseat-or-move-card",),
)
