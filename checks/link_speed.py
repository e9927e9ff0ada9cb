"""The speed of each card's slot link."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hostdoctor import drivers
from hostdoctor.boot_links import slot_at_boot
from hostdoctor.facts.bandwidth import LoadedLink
from hostdoctor.facts.host import BootLink, Host
from hostdoctor.facts.pci import NVIDIA, GpuFacts
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown, known
from hostdoctor.findings import Check, Evidence, Finding, cost_of, unjudged
from hostdoctor.topology import Card, Segment, gbs_of, link_of
from hostdoctor.view import View

ID = "link-speed"


def judge(view: View) -> Iterator[Finding]:
    """One finding a card."""
    for card in view.cards:
        seen = view.measured.loaded.get(card.top.address)
        yield _judge_loaded(card, seen) if seen else _judge_card(view.host, card)


def _judge_loaded(card: Card, seen: LoadedLink) -> Finding:
    """By the link as it was while the GPU copied, which is no rest."""
    subject, slot, speed = (card.gpu.address,), card.slot_or_reason, seen.speed_gts
    evidence: tuple[Evidence, ...] = (Evidence(seen.source, f"{speed:g} GT/s while it copied"),)
    possible = slot if isinstance(slot, Unknown) else slot.max_speed_gts
    if isinstance(slot, Unknown) or isinstance(possible, Unknown):
        return unjudged(ID, subject, "link speed", possible if isinstance(possible, Unknown) else NOT_CAPTURED, evidence)
    if speed >= possible:
        title = f"{speed:g} GT/s while the GPU copied, all that card and slot can do"
        return Finding(ID, "ok", subject, title, evidence=evidence)
    limits = [(end.source("max_link_speed"), link_of(end).max_speed_gts) for end in (slot.lower, slot.upper)]
    return Finding(
        ID,
        "failure",
        subject,
        f"the link runs at {speed:g} GT/s while the GPU copies, although card and slot can do {possible:g}",
        "So this is no power saving: a riser or cable too poor for the speed, a slot set to a lower generation in the "
        "firmware, or a link that fell back after errors.",
        "certain",
        (*evidence, *(Evidence(source, f"{known(most, 0.0):g} GT/s") for source, most in limits)),
        cost_of(gbs_of(speed, seen.width), gbs_of(possible, seen.width)),
        ("reseat-or-move-card", "firmware-slot-full-speed"),
        "look for the slot's speed setting in the firmware, then try the card without its riser or in another slot",
    )


def _judge_card(host: Host, card: Card) -> Finding:
    subject = (card.gpu.address,)
    edge, slot = link_of(card.top), card.slot_or_reason
    speed = edge.current_speed_gts
    if isinstance(speed, Unknown):
        return _by_driver(host, card, speed)
    evidence = (Evidence(card.top.source("current_link_speed"), f"{speed:g} GT/s"),)
    if edge.current_width == 0:
        return unjudged(ID, subject, "link speed", Unknown("the link is down (x0)"), evidence)
    possible = slot if isinstance(slot, Unknown) else slot.max_speed_gts
    if isinstance(possible, Unknown) or isinstance(slot, Unknown):
        if speed == edge.max_speed_gts and card.gpu.vendor == NVIDIA:
            return Finding(ID, "ok", subject, f"{speed:g} GT/s, all that the card can do", evidence=evidence)
        return unjudged(ID, subject, "link speed", possible if isinstance(possible, Unknown) else NOT_CAPTURED, evidence)
    if speed >= possible:
        title = f"{speed:g} GT/s, all that card and slot can do"
        return Finding(ID, "ok", subject, title, evidence=(*evidence, *drivers.other_speed(host, card)))
    return _slow(host, card, slot, speed, possible)


def _by_driver(host: Host, card: Card, why: Unknown) -> Finding:
    """The speed that only the driver tells; its maximum is that of GPU and system together, as far as it knows the system."""
    subject, link = (card.gpu.address,), drivers.driver_link(host, card)
    told = drivers.nvml_gpu(host, card.gpu)
    if link is None or isinstance(link.speed_gts, Unknown):
        return unjudged(ID, subject, "link speed", why)
    both, own = (drivers.speed_of(each) for each in (told.max_generation, told.gpu_max_generation)) if told else (why, why)
    speed = link.speed_gts
    evidence = (link.speed_evidence,)
    if speed in (both, own):
        whose = "the card" if speed == own else "card and system"
        return Finding(ID, "ok", subject, f"{speed:g} GT/s, all that {whose} can do", evidence=evidence)
    possible = own if isinstance(both, Unknown) else both
    if isinstance(possible, Unknown):
        return unjudged(ID, subject, "link speed", possible, evidence)
    if told and (busy := known(told.busy_percent, 0)) >= drivers.BUSY_PERCENT and not drivers.held_down(host, card.gpu):
        return _slow_by_driver(card, link, speed, possible, busy)
    idle = drivers.activity(host, card.gpu)
    was = "was" if idle.state == "at-rest" else "may have been"
    return Finding(
        ID,
        "unknown",
        subject,
        f"{speed:g} GT/s then, {possible:g} possible by the driver: the GPU {was} idle",
        f"{idle.sentence}GPUs lower the speed of an idle link and raise it under load, so a reading at rest proves nothing.",
        evidence=(*evidence, *idle.evidence),
        help="run nvidia-smi -q again while the GPU works, and sudo lspci -vvv for the port above it",
    )


def _slow_by_driver(card: Card, link: drivers.DriverLink, speed: float, possible: float, busy: int) -> Finding:
    """Load and link are of one output, so of one moment."""
    return Finding(
        ID,
        "failure",
        (card.gpu.address,),
        f"the link ran at {speed:g} GT/s under load, although card and system can do {possible:g} by the driver",
        f"The GPU was {busy} % busy. So this is no power saving: a riser or cable too poor for the speed, a slot set to a "
        "lower generation in the firmware, or a link that fell back after errors.",
        "likely",
        (link.speed_evidence, Evidence(link.source, f"{busy} % busy")),
        remedies=("reseat-or-move-card", "firmware-slot-full-speed"),
        next="look for the slot's speed setting in the firmware, then try the card without its riser or in another slot",
    )


def _slow(host: Host, card: Card, slot: Segment, speed: float, possible: float) -> Finding:
    subject = (card.gpu.address,)
    evidence = (
        Evidence(slot.lower.source("current_link_speed"), f"{speed:g} GT/s"),
        Evidence(slot.lower.source("max_link_speed"), f"{link_of(slot.lower).max_speed_gts:g} GT/s"),
        Evidence(slot.upper.source("max_link_speed"), f"{link_of(slot.upper).max_speed_gts:g} GT/s"),
    )
    link = drivers.driver_link(host, card)
    if link and not isinstance(link.speed_gts, Unknown) and link.speed_gts >= possible:
        title = f"{link.speed_gts:g} GT/s by {link.source}, all that card and slot can do; {speed:g} when the kernel was asked"
        explanation = "The two were asked one after the other, and asking the driver can wake its link: it comes up to speed."
        if not link.of_this_moment:
            explanation = "The two are of different moments, and an idle link slows down: it does come up to speed."
        return Finding(ID, "ok", subject, title, explanation, evidence=(*evidence, link.speed_evidence))
    activity = drivers.activity(host, card.gpu)
    boot = slot_at_boot(host, card)
    if activity.state == "unknown" and boot is not None and boot.speed_gts < possible:
        return _slow_since_the_boot(card, boot, speed, possible, evidence)
    if activity.state != "at-work":
        known_idle = activity.state == "at-rest"
        return Finding(
            ID,
            "unknown",
            subject,
            f"{speed:g} GT/s now, {possible:g} possible: {'the GPU is idle' if known_idle else 'the GPU may be idle'}",
            f"{activity.sentence}GPUs lower the speed of an idle link and raise it under load, so a reading at rest proves "
            "nothing.",
            evidence=(*evidence, *activity.evidence),
            help="load the GPU and scan again, which hostdoctor scan --wake does on the host itself",
        )
    if chosen := _chosen_level(host.gpu_facts.get(card.gpu.address, GpuFacts()), speed):
        levels = Evidence(card.gpu.source("pp_dpm_pcie"), chosen)
        title = f"{speed:g} GT/s now, {possible:g} possible: the driver keeps a lower level of its link although the GPU works"
        help_ = "see the GPU's performance level, power_dpm_force_performance_level"
        return Finding(ID, "unknown", subject, title, evidence=(*evidence, levels), help=help_)
    if why := drivers.held_down(host, card.gpu):
        title = f"{speed:g} GT/s now, {possible:g} possible: the driver slows the GPU down ({why.value.partition(': ')[2]})"
        help_ = "see to its cooling and power, then scan under load again"
        return Finding(ID, "unknown", subject, title, evidence=(*evidence, *activity.evidence, why), help=help_)
    return Finding(
        ID,
        "failure",
        subject,
        f"the link runs at {speed:g} GT/s {activity.how}, although card and slot can do {possible:g}",
        f"{activity.sentence}So this is no power saving: a riser or cable too poor for the speed, a slot set to a lower "
        "generation in the firmware, or a link that fell back after errors.",
        "likely",
        (*evidence, *activity.evidence, *drivers.other_speed(host, card)),
        cost_of(slot.current_gbs, slot.loaded_gbs),
        ("reseat-or-move-card", "firmware-slot-full-speed"),
        "look for the slot's speed setting in the firmware, then try the card without its riser or in another slot",
    )


def _slow_since_the_boot(card: Card, boot: BootLink, speed: float, possible: float, evidence: tuple[Evidence, ...]) -> Finding:
    """The kernel asked before drivers saved power; but firmware may have left the link slow, after a warm start above all."""
    return Finding(
        ID,
        "warning",
        (card.gpu.address,),
        f"the link runs at {speed:g} GT/s and ran at {boot.speed_gts:g} when the kernel booted, {possible:g} are possible",
        "Whether the GPU is at work is not known, but at the boot no driver had lowered the speed yet: a riser or cable too "
        "poor for it, or a slot set to a lower generation in the firmware.",
        "possible",
        (*evidence, Evidence(boot.source, f"limited by {boot.speed_gts:g} GT/s x{boot.width} at {boot.limited_by}")),
        remedies=("reseat-or-move-card",),
        next="load the GPU and scan again: a link that comes up to speed then is in order",
    )


def _chosen_level(facts: GpuFacts, speed: float) -> str:
    """Amdgpu's levels of the link where it could go higher than it does ("1: 16.0GT/s, x16 *"); else nothing."""
    if isinstance(facts.link_levels, Unknown):
        return ""
    speeds = [float(found) for found in re.findall(r"([0-9]{1,3}(?:\.[0-9])?)GT/s", facts.link_levels[:4096])]
    return " | ".join(facts.link_levels.splitlines()[:8]) if speeds and max(speeds) > speed else ""


CHECK = Check(
    id=ID,
    subject="card",
    summary="The link between slot and card runs as fast as both ends can.",
    looks_at="The current speed and the maximum speeds of the card's edge and of the port above it, and whether the GPU "
    "is at work: gpu_busy_percent, and on the host itself what NVML or AMD SMI says of its load, its performance state and "
    "its link; the kernel's log of the boot; and the link as it was while hostdoctor bandwidth or scan --wake copied.",
    why="Each generation doubles the bandwidth of the same lanes.",
    decides="Ok where the link runs at the best speed of both ends. Below it, a failure only where the GPU is known to be "
    f"at work (it copied just then, is at least {drivers.BUSY_PERCENT} % busy, or in NVIDIA's performance states P0 to "
    "P2): idle GPUs lower their link's speed. A warning where nothing tells whether it is at work and the kernel's log "
    "shows less than possible at the boot too. Otherwise unknown, with what would tell; so too while heat or power makes "
    "the driver slow the GPU down.",
    sources=(
        "PCI Express Base Specification 6.0, 7.5.3.6 Link Capabilities and 7.5.3.8 Link Status",
        "nvidia-smi manual, pcie.link.gen.current: may be reduced when the GPU is not in use",
        "NVIDIA nvml.h nvmlDeviceGetPerformanceState, nvmlDeviceGetCurrPcieLinkGeneration, nvmlClocksThrottleReason*",
        "Linux drivers/gpu/drm/amd/amdgpu/amdgpu_device.c amdgpu_device_pcie_dynamic_switching_supported",
    ),
    judge=judge,
    remedies=("reseat-or-move-card", "firmware-slot-full-speed"),
)
