"""Errors that PCI Express has counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hostdoctor import drivers, logged, wording
from hostdoctor.errors import NOT_OF_THE_LINK, counted_meanwhile, of_the_link, watched_s
from hostdoctor.facts.driver import ErrorCounters, NvmlGpu
from hostdoctor.facts.log import LogEvent
from hostdoctor.facts.pci import Function
from hostdoctor.facts.unknown import ASLEEP, Unknown, known
from hostdoctor.findings import OUTCOMES, Check, Evidence, Finding, unjudged
from hostdoctor.names import class_name
from hostdoctor.view import View

ID = "link-errors"

# The specification allows one wrong bit in 10^12. The fastest link so far that has no error correction of its own,
# 32 GT/s x16, moves 5 * 10^11 bits a second: at full load that is one error in two seconds. Twenty times that is a storm.
_STORM_PER_S = 10
_STORM_AT_LEAST = 10
# One error within a short watch can be chance; a second one says that they go on.
_AGAIN = 2
# Counts since boot have no rate: how long ago that was is not known. Training and waking a link leave a few, some hundreds
# on a bad day; whoever has a thousand did not get them in one go.
_REPEATED = 1000

_SOFTWARE = frozenset({"UnsupReq", "Unsupported Request"})

# The kernel logs each error, up to a limit of its own; a few come with training and waking a link.
_LOGGED_CORRECTED, _LOGGED_UNCORRECTED = "aer-corrected", ("aer-nonfatal", "aer-fatal", "dpc")
_LOGGED_REPEATED = 4
_HOUR_S = 3600
_ORDER = {outcome: place for place, outcome in enumerate(OUTCOMES)}


def judge(view: View) -> Iterator[Finding]:
    """One finding for each function with errors and for GPUs without counters, or one for all."""
    counters = view.host.error_counters
    found = _by_counters(view, {} if isinstance(counters, Unknown) else counters)
    for address, finding in _by_the_log(view).items():
        counted = found.get(address)
        if counted is None or _ORDER[finding.outcome] < _ORDER[counted.outcome]:
            found[address] = finding
    for finding in _by_the_driver(view):
        found.setdefault(finding.subject[0], finding)
    yield from found.values()
    if isinstance(counters, Unknown):
        yield from _without_any_counters(view, counters, found)
        return
    silent = list(_without_counters(view, counters))
    for gpu in silent:
        why = ASLEEP if gpu.asleep else Unknown("neither it nor a port above it has error counters here")
        yield unjudged(ID, (gpu.address,), "PCI Express errors", why)
    if not found and not silent and counters:
        seconds = watched_s(view.host.samples)
        title = f"no errors counted since boot at {wording.count(len(counters), 'function')}"
        yield Finding(ID, "ok", (), f"{title}, nor in {seconds:g} s of watching" if seconds else title)


def _without_any_counters(view: View, why: Unknown, found: Mapping[str, Finding]) -> Iterator[Finding]:
    """What is left to say of the GPUs that no finding concerns; a silent log proves little, errors may not be reported."""
    concerned = {gpu.address for gpu in view.gpus for port in view.topology.above(gpu) if port.address in found} | set(found)
    if rest := tuple(gpu.address for gpu in view.gpus if gpu.address not in concerned):
        yield unjudged(ID, rest, "PCI Express errors", why)


def _by_counters(view: View, counters: Mapping[str, ErrorCounters]) -> dict[str, Finding]:
    found = {}
    for address, counted in counters.items():
        function = view.topology.functions.get(address)
        finding = _judge_function(view, function, counted) if function is not None else None
        if finding is not None:
            found[address] = finding
    return found


def _by_the_driver(view: View) -> Iterator[Finding]:
    """Replays that the GPUs' own drivers have counted."""
    for gpu in view.gpus:
        told = drivers.nvml_gpu(view.host, gpu) or drivers.amd_smi_gpu(view.host, gpu)
        replays = known(told.replay_count, 0) if told else 0
        if replays < _REPEATED:
            continue
        source = (told.origin if isinstance(told, NvmlGpu) else "") or "AMD SMI"
        yield Finding(
            ID,
            "warning",
            (gpu.address,),
            f"the driver has counted {replays:,} replays at the link of {gpu.address}",
            "Links correct errors by sending again; so many hint at a poor contact, riser or cable.",
            "possible",
            (Evidence(source, f"{replays:,} replays"),),
            remedies=("reseat-or-move-card",),
            next="look again under load; if the count rises, reseat the card and its riser",
        )


def _by_the_log(view: View) -> dict[str, Finding]:
    """Each function that the log names as the one with the error. Who reported it, and for whom, is not asked."""
    log = view.host.log
    if log is None:
        return {}
    events = log.of(_LOGGED_CORRECTED, *_LOGGED_UNCORRECTED)
    # Without the error itself, be it that the log is cut down or that the device was gone before it could be asked, the
    # port that received the report is all there is.
    if not any(event.kind in _LOGGED_UNCORRECTED for event in events):
        events += log.of("aer-report-uncorrected")
    events = events or log.of("aer-report-corrected")
    found = {}
    for address, all_of_it in logged.by_address(events).items():
        now = [event for event in all_of_it if not event.boots_ago]
        fatal = [event for event in all_of_it if event.kind in _LOGGED_UNCORRECTED or event.kind == "aer-report-uncorrected"]
        if fatal:
            found[address] = _logged_uncorrectable(view, address, fatal)
        elif now:
            found[address] = _logged_corrected(view, address, now)
    return found


def _logged_uncorrectable(view: View, address: str, events: Sequence[LogEvent]) -> Finding:
    bits = _bits(events)
    earlier = all(event.boots_ago for event in events)
    by_software = bool(bits) and bits <= _SOFTWARE and not any(event.kind in ("aer-fatal", "dpc") for event in events)
    contained = all(event.kind == "dpc" for event in events)
    what = "an error that cut its link off (DPC)" if contained else "uncorrectable errors"
    why = (
        "An unsupported request asked for something that is not there: the fault of a driver or firmware rather than of a link."
        if by_software
        else "Such a packet is lost: programs get wrong or no answers, a driver resets its device, or the host stops."
    )
    return Finding(
        ID,
        "warning" if earlier else "failure",
        (address,),
        f"{logged.name(view, address)} logged {what}{': ' if bits else ''}{', '.join(sorted(bits))}",
        f"{why}{_concerns_address(view, address)}{logged.EARLIER if earlier else ''}",
        "likely" if by_software or earlier else "certain",
        logged.evidence(events),
        remedies=() if by_software else ("reseat-or-move-card",),
        next=""
        if by_software
        else "reseat the card and its riser, or set the slot to a lower generation in the firmware, and watch the log",
    )


def _logged_corrected(view: View, address: str, events: Sequence[LogEvent]) -> Finding:
    number = sum(event.count for event in events)
    first = min((event.first_s for event in events if event.first_s is not None), default=None)
    last = max((event.last_s for event in events if event.last_s is not None), default=None)
    bits, name = _bits(events), logged.name(view, address)
    kinds = f" ({', '.join(sorted(bits))})" if bits else ""
    if bits and bits <= NOT_OF_THE_LINK:
        title = f"{name} logged {wording.count(number, 'advisory error')}{kinds}"
        explanation = "They say that something asked for what is not there, and nothing of the link itself."
        return Finding(ID, "info", (address,), title, explanation, evidence=logged.evidence(events))
    over_s = None if first is None or last is None else max(1.0, last - first)
    held_back = any("suppressed" in event.details for event in events)
    if held_back or (over_s is not None and number >= max(_STORM_AT_LEAST, _STORM_PER_S * over_s)):
        return _logged_storm(view, address, events, number, kinds)
    if number >= _LOGGED_REPEATED and (over_s is None or number >= over_s / _HOUR_S):
        return Finding(
            ID,
            "warning",
            (address,),
            f"{name} keeps logging corrected errors: {number:,}{kinds}",
            "Links correct such errors by sending again; one after the other hints at a poor contact, riser or cable, or at "
            f"power saving (ASPM) that the device does not take well.{_concerns_address(view, address)}",
            "likely",
            logged.evidence(events),
            remedies=("reseat-or-move-card",),
            next="reseat the card and its riser; boot once with pcie_aspm=off to see whether power saving is the cause",
        )
    return Finding(
        ID,
        "info",
        (address,),
        f"{name} logged {wording.count(number, 'corrected error')}{kinds}",
        "Links correct such errors by sending again, and a few are normal.",
        evidence=logged.evidence(events),
    )


def _logged_storm(view: View, address: str, events: Sequence[LogEvent], number: int, kinds: str) -> Finding:
    return Finding(
        ID,
        "failure",
        (address,),
        f"{logged.name(view, address)} logged a storm of corrected errors: {number:,}{kinds}",
        "A link within its specification has at most one in two seconds. Each costs a repeated packet, and with so many some "
        f"will not be corrected.{_concerns_address(view, address)}",
        "certain",
        logged.evidence(events),
        remedies=("reseat-or-move-card",),
        next="try the card without its riser or in another slot, or set the slot to a lower generation in the firmware",
    )


def _bits(events: Sequence[LogEvent]) -> set[str]:
    return {bit for event in events for bit in event.details.get("bits", "").split(", ") if bit}


def _concerns_address(view: View, address: str) -> str:
    function = logged.function_at(view, address)
    return _concerns(view, function) if function else ""


def _without_counters(view: View, counters: Mapping[str, ErrorCounters]) -> Iterator[Function]:
    for gpu in view.gpus:
        if not any(function.address in counters for function in (gpu, *view.topology.above(gpu))):
            yield gpu


def _judge_function(view: View, function: Function, before: ErrorCounters) -> Finding | None:
    samples = view.host.samples
    counted = samples.counters_after.get(function.address, before) if samples else before
    if not counted.total and not known(counted.replays, 0):
        return None
    evidence = _evidence(function, counted)
    if counted.fatal or counted.nonfatal:
        return _uncorrectable(view, function, counted, evidence)
    new = counted_meanwhile(samples, function.address)
    fresh, seconds = max(new.total, known(new.replays, 0)), watched_s(samples)
    if seconds and fresh >= max(_STORM_AT_LEAST, _STORM_PER_S * seconds):
        return _storm(view, function, fresh, seconds, evidence)
    number = of_the_link(counted)
    if fresh >= _AGAIN or number >= _REPEATED:
        return _repeated(view, function, number, fresh, evidence)
    return Finding(
        ID,
        "info",
        (function.address,),
        f"{_name(function)} has counted {wording.count(max(counted.total, number), 'corrected error')} since boot",
        "Links correct such errors by sending again, and a few are normal. How long ago they were is not known"
        f"{'' if seconds else ': hostdoctor scan --samples 60 tells whether they go on'}.",
        evidence=evidence,
    )


def _name(function: Function) -> str:
    return f"the {class_name(function.class_code)} {function.address}"


def _kinds(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {number:,}" for kind, number in counts.items())


def _evidence(function: Function, counted: ErrorCounters) -> tuple[Evidence, ...]:
    kinds = (("fatal", counted.fatal), ("nonfatal", counted.nonfatal), ("correctable", counted.correctable))
    found = [Evidence(function.source(f"aer_dev_{name}"), _kinds(counts)) for name, counts in kinds if counts]
    if replays := known(counted.replays, 0):
        found.append(Evidence(function.source("pcie_replay_count"), f"{replays:,}"))
    return tuple(found)


def _concerns(view: View, function: Function) -> str:
    """Which GPUs lie below a port, as a sentence with a space before it."""
    below = [gpu.address for gpu in view.gpus if function in view.topology.above(gpu)] if function.is_bridge else []
    return f" Below it: {wording.listed(below)}." if below else ""


def _uncorrectable(view: View, function: Function, counted: ErrorCounters, evidence: tuple[Evidence, ...]) -> Finding:
    kinds = {**counted.nonfatal, **counted.fatal}
    word = "fatal errors" if counted.fatal else "uncorrectable errors"
    by_software = not counted.fatal and set(kinds) <= _SOFTWARE
    why = (
        "An unsupported request asked for something that is not there: the fault of a driver or firmware rather than of a link."
        if by_software
        else "Such a packet is lost: programs get wrong or no answers, a driver resets its device, or the host stops."
    )
    return Finding(
        ID,
        "failure",
        (function.address,),
        f"{_name(function)} has counted {word}: {_kinds(kinds)}",
        f"{why} The count is since boot.{_concerns(view, function)}",
        "likely" if by_software else "certain",
        evidence,
        remedies=() if by_software else ("reseat-or-move-card",),
        next=f"look for AER and {function.address} in the kernel log: it names the device that sent the packet, and when",
    )


def _storm(view: View, function: Function, fresh: int, seconds: float, evidence: tuple[Evidence, ...]) -> Finding:
    return Finding(
        ID,
        "failure",
        (function.address,),
        f"{_name(function)} counted {fresh:,} corrected errors in {seconds:g} s",
        "A link within its specification has at most one in two seconds. Each costs a repeated packet, and with so many some "
        f"will not be corrected.{_concerns(view, function)}",
        "certain",
        evidence,
        remedies=("reseat-or-move-card", "firmware-slot-lower-speed"),
        next="try the card without its riser or in another slot, or set the slot to a lower generation in the firmware",
    )


def _repeated(view: View, function: Function, number: int, fresh: int, evidence: tuple[Evidence, ...]) -> Finding:
    meanwhile = f", {fresh:,} of them while it was watched" if fresh else " since boot"
    return Finding(
        ID,
        "warning",
        (function.address,),
        f"{_name(function)} keeps counting corrected errors: {max(number, fresh):,}{meanwhile}",
        "Links correct such errors by sending again; so many hint at a poor contact, riser or cable, or at power saving (ASPM) "
        f"that the device does not take well.{_concerns(view, function)}",
        "likely" if fresh else "possible",
        evidence,
        remedies=("reseat-or-move-card",),
        next="watch under load with hostdoctor scan --samples 60; if the count rises, reseat the card and its riser",
    )


CHECK = Check(
    id=ID,
    subject="port or function",
    summary="GPUs, the ports above them, network cards and NVMe drives have counted no errors.",
    looks_at="The kernel's AER counters since boot (aer_dev_fatal, aer_dev_nonfatal, aer_dev_correctable), the drivers' counts "
    "of replays, how they rise while links are watched (scan --samples), and what the kernel's log says of errors.",
    why="Errors show a poor riser, contact or signal long before a link falls back or a device is lost.",
    decides="A failure for any uncorrectable error, and for a storm while watching: "
    f"{_STORM_PER_S} corrected errors a second or more (the specification's one wrong bit in 10^12 gives one in two seconds "
    f"at 32 GT/s x16). A warning for {_AGAIN} or more corrected ones while watching, or {_REPEATED:,} of the link's own "
    "kinds since boot: that count has no rate, so less is info. In the log, a failure for uncorrectable errors, for links "
    f"that were cut off (DPC) and for {_STORM_AT_LEAST} corrected ones within a second, a warning for {_LOGGED_REPEATED} or "
    "more, one an hour at least, else info; the function whose error it is counts, not who reported it. Advisory errors and "
    "full logs do not count as the link's. Unknown where no function on the way to a GPU has counters.",
    sources=(
        "PCI Express Base Specification 6.0, 6.2 Error Signaling and Logging; 8.3 and 8.4: bit error rate of at most 10^-12",
        "Linux Documentation/ABI/testing/sysfs-bus-pci-devices-aer_stats",
        "Linux drivers/gpu/drm/amd/amdgpu/amdgpu_device.c pcie_replay_count",
    ),
    judge=judge,
    remedies=("reseat-or-move-card", "firmware-slot-lower-speed"),
    nothing="no discrete GPU here, and no error counters",
)
