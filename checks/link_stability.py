"""What each card's slot link does while it is watched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from hostdoctor import logged, wording
from hostdoctor.errors import counted_meanwhile, of_the_link
from hostdoctor.facts.driver import LinkSample, Samples
from hostdoctor.facts.log import LogEvent
from hostdoctor.facts.unknown import Unknown, known
from hostdoctor.findings import Check, Evidence, Finding, cost_of, unjudged
from hostdoctor.topology import Card, Segment, gbs_of
from hostdoctor.view import View

ID = "link-stability"

# As in link-speed: from here on a GPU's clocks and its link are up.
_BUSY_PERCENT = 50
# Once down and up again is what a GPU does that goes to rest and back to work; the third change begins to repeat it.
_MANY_CHANGES = 3
_SHOWN_AT_MOST = 4

_DOWN, _UNTRAINED = ("link-down", "slot-emptied"), ("link-retrained", "link-training-failed")
_SOON_S = 600

_NOT_TWICE = Unknown("it was seen less than twice", "hostdoctor scan --samples 10")


def judge(view: View) -> Iterator[Finding]:
    """One finding a card, where links were watched."""
    by_the_log = list(_by_the_log(view))
    yield from by_the_log
    if not view.cards and not by_the_log:
        yield Finding(ID, "not-applicable", (), "no discrete GPU here")
    elif view.host.samples is not None:
        for card in view.cards:
            yield _judge_card(card, view.host.samples)


def _by_the_log(view: View) -> Iterator[Finding]:
    """One finding for each port whose link the log says came and went, or would not train."""
    log = view.host.log
    if log is None:
        return
    for address, events in logged.by_address(logged.of_last_boot(log, *_DOWN, *_UNTRAINED)).items():
        below = _gpus_below(view, address)
        down = [event for event in events if event.kind in _DOWN]
        times = max((event.count for event in down), default=0)
        # Docks and drives come and go while a host runs, at most once in a while.
        frequent = any(event.kind == "link-down" and event.count >= _MANY_CHANGES for event in down)
        untrained = [event for event in events if event.kind in _UNTRAINED]
        up = [event for event in log.about(address, "link-up") if not event.boots_ago]
        if (below and times and up) or (frequent and _in_a_row(down)):
            yield _came_and_went(view, address, below, down, up)
        elif times and (unseen := [gpu for gpu in below if _unseen(view, gpu)]):
            yield _stays_down(address, unseen, down)
        elif untrained and (below or sum(event.count for event in untrained) >= _MANY_CHANGES):
            yield _would_not_train(view, address, below, untrained)


def _in_a_row(down: Sequence[LogEvent]) -> bool:
    return all(event.span_s <= _SOON_S * event.count for event in down)


def _gpus_below(view: View, address: str) -> list[str]:
    port = logged.function_at(view, address)
    return [gpu.address for gpu in view.gpus if port in view.topology.above(gpu)] if port else []


def _unseen(view: View, address: str) -> bool:
    """Whether a function is known by the log alone, so that nothing shows it to be there still."""
    function = logged.function_at(view, address)
    return function is None or (not function.is_from_sysfs and isinstance(function.config, Unknown))


def _came_and_went(view: View, address: str, below: list[str], down: Sequence[LogEvent], up: Sequence[LogEvent]) -> Finding:
    concerned = f" to {wording.listed(below)}" if below else ""
    return Finding(
        ID,
        "warning",
        tuple(below) or (address,),
        f"the link below {address}{concerned} went down and came up again: {logged.times(max(down, key=lambda e: e.count))}",
        "Unless somebody took the card out, its contact, riser or power fails for moments, and what used it broke off.",
        "likely",
        logged.evidence([*down, *up]),
        remedies=("reseat-or-move-card",),
        next="check power, riser and seating, and watch the log",
    )


def _stays_down(address: str, below: list[str], down: Sequence[LogEvent]) -> Finding:
    return Finding(
        ID,
        "warning",
        tuple(below),
        f"the link below {address} to {wording.listed(below)} went down, and the log has nothing of its coming up again",
        "Unless somebody took the card out, its contact, riser or power failed, and what used it broke off.",
        "likely",
        logged.evidence(down),
        remedies=("reseat-or-move-card",),
        next="check power, riser and seating, then cut the host's power for a minute",
    )


def _would_not_train(view: View, address: str, below: list[str], events: Sequence[LogEvent]) -> Finding:
    concerned = f" to {wording.listed(below)}" if below else ""
    return Finding(
        ID,
        "warning",
        tuple(below) or (address,),
        f"the link below {address}{concerned} did not train at its speed",
        "The kernel had to train it again, at 2.5 GT/s: the signal is too poor for more, or the device does not follow the "
        "standard.",
        "likely",
        logged.evidence(events),
        remedies=("reseat-or-move-card",),
        next="reseat the card and its riser, or set the slot to a lower generation in the firmware",
    )


def _judge_card(card: Card, samples: Samples) -> Finding:
    subject = (card.gpu.address,)
    looks = [look for look in samples.links if look.address == card.gpu.address]
    seen = [look for look in looks if not isinstance(look.width, Unknown) and not isinstance(look.speed_gts, Unknown)]
    if gone := [event for event in samples.uevents if event in {f"remove {address}" for address in _ends(card)}]:
        return _removed(card, gone)
    if len(seen) < 2:
        why = next(
            (value for look in looks for value in (look.width, look.speed_gts) if isinstance(value, Unknown)), _NOT_TWICE
        )
        return unjudged(ID, subject, "stability of the link", why)
    evidence = _evidence(card, seen)
    if len({look.width for look in seen}) > 1:
        return _width_changes(card, seen, evidence)
    if falls := [(a, b) for a, b in pairwise(seen) if _is_busy(a) and _is_busy(b) and _speed(b) < _speed(a)]:
        return _falls_under_load(card, falls[0], evidence)
    changes = sum(_speed(a) != _speed(b) for a, b in pairwise(seen))
    errors = sum(of_the_link(counted_meanwhile(samples, address)) for address in _ends(card))
    if changes >= _MANY_CHANGES and errors:
        return _retrains(card, changes, errors, evidence)
    over = f"{len(seen)} looks over {seen[-1].seconds - seen[0].seconds:g} s"
    if changes:
        slowest, fastest = min(map(_speed, seen)), max(map(_speed, seen))
        title = f"the link's speed moved between {slowest:g} and {fastest:g} GT/s"
        explanation = "GPUs lower the speed of an idle link and raise it under load; nothing seen here speaks against that."
        return Finding(ID, "info", subject, title, explanation, evidence=evidence)
    title = f"{wording.link(seen[0].speed_gts, seen[0].width)} in {over}"
    return Finding(ID, "ok", subject, title, evidence=evidence)


def _ends(card: Card) -> list[str]:
    """The functions at both ends of the slot's link, and the GPU."""
    port = [card.slot.upper.address] if isinstance(card.slot, Segment) else []
    return list(dict.fromkeys([card.gpu.address, card.top.address, *port]))


def _speed(look: LinkSample) -> float:
    return known(look.speed_gts, 0.0)


def _is_busy(look: LinkSample) -> bool:
    return known(look.busy_percent, 0) >= _BUSY_PERCENT


def _evidence(card: Card, seen: Sequence[LinkSample]) -> tuple[Evidence, ...]:
    """The first look, and each that differs from the one before it."""
    differs = [b for a, b in pairwise(seen) if (a.width, a.speed_gts) != (b.width, b.speed_gts)]
    source = card.top.source("current_link_width")
    return tuple(Evidence(source, _text(look)) for look in [seen[0], *differs][:_SHOWN_AT_MOST])


def _text(look: LinkSample) -> str:
    busy = "" if isinstance(look.busy_percent, Unknown) else f", GPU {look.busy_percent} % busy"
    return f"{wording.link(look.speed_gts, look.width)} at {look.seconds:g} s{busy}"


def _removed(card: Card, events: Sequence[str]) -> Finding:
    return Finding(
        ID,
        "failure",
        (card.gpu.address,),
        f"the kernel removed {wording.listed(event.partition(' ')[2] for event in dict.fromkeys(events))} while it was watched",
        "Unless somebody took it out or removed it by hand, its link went down.",
        "likely",
        tuple(Evidence("uevent", event) for event in list(events)[:_SHOWN_AT_MOST]),
        remedies=("reseat-or-move-card",),
        next="read the kernel log for the moment it went, then check power, riser and seating",
    )


def _width_changes(card: Card, seen: Sequence[LinkSample], evidence: tuple[Evidence, ...]) -> Finding:
    widths = sorted({known(look.width, 0) for look in seen}, reverse=True)
    wide = [look for look in seen if look.width == widths[0]]
    worst, best = min(seen, key=_gbs), max(seen, key=_gbs)
    # Some drivers take lanes away from a link at rest, and then lower its speed as well.
    at_rest = all(_speed(look) < min(map(_speed, wide)) and not _is_busy(look) for look in seen if look not in wide)
    rest = " Here it was narrow only at a lower speed: it may be a driver that saves power." if at_rest else ""
    return Finding(
        ID,
        "failure",
        (card.gpu.address,),
        f"the link's width changes: {', '.join(f'x{width}' for width in widths)}",
        f"Lanes come and go: a contact, riser or cable that is not firm, or a signal too poor for the speed.{rest}",
        "possible" if at_rest else "likely",
        evidence,
        cost_of(gbs_of(worst.speed_gts, worst.width), gbs_of(best.speed_gts, best.width)),
        ("reseat-or-move-card",),
        "reseat the card and its riser, or try it in another slot, and watch again",
    )


def _gbs(look: LinkSample) -> float:
    return known(gbs_of(look.speed_gts, look.width), 0.0)


def _falls_under_load(card: Card, fall: tuple[LinkSample, LinkSample], evidence: tuple[Evidence, ...]) -> Finding:
    before, after = fall
    return Finding(
        ID,
        "failure",
        (card.gpu.address,),
        f"the link's speed falls under load, from {_speed(before):g} to {_speed(after):g} GT/s",
        f"The GPU was {known(after.busy_percent, 0)} % busy, so this is no power saving: the link fell back, as after errors.",
        "likely",
        tuple(dict.fromkeys((*(Evidence(card.top.source("current_link_speed"), _text(look)) for look in fall), *evidence))),
        cost_of(gbs_of(after.speed_gts, after.width), gbs_of(before.speed_gts, before.width)),
        ("reseat-or-move-card",),
        "reseat the card and its riser, or set the slot to a lower generation in the firmware, and watch again",
    )


def _retrains(card: Card, changes: int, errors: int, evidence: tuple[Evidence, ...]) -> Finding:
    return Finding(
        ID,
        "warning",
        (card.gpu.address,),
        f"the link changed its speed {changes} times, with {wording.count(errors, 'corrected error')} meanwhile",
        "Each change trains the link anew. With errors counted at the same time that is more than saving power.",
        "likely",
        evidence,
        remedies=("reseat-or-move-card",),
        next="load the GPU and watch longer: the speed must stay up then",
    )


CHECK = Check(
    id=ID,
    subject="card",
    summary="The link between slot and card keeps its width, and under load its speed.",
    looks_at="Several looks at the speed and width of the card's edge and at gpu_busy_percent (scan --samples), the errors "
    "counted and the functions removed meanwhile; links that go down and up again or do not train, by the kernel's log.",
    why="A link that flaps costs bandwidth when it is needed, and often is the first sign of a poor riser or contact.",
    decides="A failure where the width changes, where the speed falls between two looks at both of which the GPU is at "
    f"least {_BUSY_PERCENT} % busy, or where the kernel removes the card meanwhile; a warning where the speed changes "
    f"{_MANY_CHANGES} times or more and the link has corrected errors meanwhile; info where the speed moves otherwise, as "
    "it does with activity. A warning where the log has the link above a GPU go down, or any link come and go three times in "
    "a row, or where the kernel had to train it again; ok where the link stays as it is. Not applicable where it was looked "
    "at once and the log is silent.",
    sources=(
        "PCI Express Base Specification 6.0, 4.2.7 Link Training and Status State Rules",
        "nvidia-smi manual, pcie.link.gen.current: may be reduced when the GPU is not in use",
        "Linux drivers/pci/pci-sysfs.c current_link_speed_show, current_link_width_show",
    ),
    judge=judge,
    remedies=("reseat-or-move-card",),
    nothing="not watched (--samples 10 watches)",
)
