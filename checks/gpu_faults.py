"""What GPUs and their drivers report of faults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hostdoctor import knowledge, logged, wording
from hostdoctor.facts.log import KernelLog, LogEvent
from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import Check, Confidence, Finding, unjudged
from hostdoctor.view import View

ID = "gpu-faults"

# After these the GPU has lost what it was doing, or must be reset.
_BREAKS = {
    "gpu-reset": "reset",
    "gpu-reset-failed": "reset that failed",
    "lost": "lost from the bus",
    "wedged": "given up by its driver",
    "ras-uncorrectable": "uncorrectable memory or logic error",
    "ras-threshold": "more bad memory than it can replace",
}
# A program, or one of its queues, ends; the GPU goes on.
_PASSES = {
    "ring-timeout": "queue that did not answer in time",
    "ring-reset": "queue that was reset",
    "gpu-page-fault": "page fault",
    "gpu-hang": "hang of an engine",
    "ras-corrected": "corrected hardware error",
    "smu-timeout": "power controller that did not answer",
}
_XID, _SXID = "xid", "sxid"
_UNLISTED = knowledge.Xid(0, "not in the tables", "program", ())
# A fault of a program repeats itself at each run; three times is no chance.
_REPEATED_BURSTS = 3
# In a log without stamps one fault can fill some ten lines.
_REPEATED_LINES = 30
_NO_RECOVERY = "(None)"


def judge(view: View) -> Iterator[Finding]:
    """One finding for each GPU with faults, or one for all."""
    log = view.host.log
    if log is None:
        if view.gpus or isinstance(view.host.functions, Unknown):
            yield unjudged(ID, (), "faults of GPUs", logged.NO_LOG)
        return
    found, passed = [], []
    for address, events in _by_gpu(view, log).items():
        finding = _judge_gpu(view, address, events)
        if finding is None:
            passed += events
        else:
            found.append(finding)
    yield from found
    if not found:
        yield _quiet(log, passed)


def _by_gpu(view: View, log: KernelLog) -> dict[str, list[LogEvent]]:
    """The events of each GPU that is no part of the processor; what names none goes to the only one there is."""
    found: dict[str, list[LogEvent]] = {}
    for event in log.of(_XID, _SXID, *_BREAKS, *_PASSES):
        if event.kind == "lost" and not logged.is_gpu(view, event.address):
            continue
        address = event.address or _owner(view, log, event)
        if not logged.is_integrated(view, address):
            found.setdefault(address, []).append(event)
    return found


def _owner(view: View, log: KernelLog, event: LogEvent) -> str:
    if event.kind != _XID:
        return logged.owner(view, event, "amdgpu")
    others = {each.address for each in log.of(_XID) if each.address and each.boots_ago == event.boots_ago}
    return others.pop() if len(others) == 1 else ""


def _quiet(log: KernelLog, passed: Sequence[LogEvent]) -> Finding:
    if passed:
        what = wording.listed(dict.fromkeys(_described(event) for event in passed))
        explanation = "A program's own fault looks like this as well; the GPU went on."
        return Finding(
            ID, "ok", (), f"nothing but what passes by itself: {what}", explanation, evidence=logged.evidence(passed)
        )
    if not log.from_boot:
        return unjudged(ID, (), "faults of GPUs", logged.NOT_FROM_BOOT)
    return Finding(ID, "ok", (), "no Xid, reset, timeout or hardware error of a GPU in the log since boot")


def _xid(event: LogEvent) -> knowledge.Xid:
    code = event.details.get("code", "")
    return knowledge.load_xids().get(int(code) if code.isdigit() else 0, _UNLISTED)


def _class(event: LogEvent) -> str:
    """What an event is worth: "hardware", "watch", "program" or "sequel"."""
    if event.kind == _SXID:
        return "hardware" if "Fatal" in event.details.get("severity", "").split(", ") else "program"
    if event.kind != _XID:
        return "hardware" if event.kind in _BREAKS else "program"
    xid = _xid(event)
    if xid.class_ == "report":
        return "sequel" if event.text.endswith(_NO_RECOVERY) else "hardware"
    return xid.class_


def _described(event: LogEvent) -> str:
    """The event in words: "Xid 79 (the GPU has fallen off the bus)", "reset"."""
    if event.kind == _XID:
        code, text = event.details.get("code", "?"), _xid(event).text
        return f"Xid {code} ({text})"
    if event.kind == _SXID:
        return f"SXid {event.details.get('code', '?')} of an NVSwitch"
    return _BREAKS.get(event.kind) or _PASSES[event.kind]


def _is_repeated(event: LogEvent) -> bool:
    if event.first_s is None:
        return event.count >= _REPEATED_LINES
    return event.bursts >= _REPEATED_BURSTS


def _judge_gpu(view: View, address: str, events: Sequence[LogEvent]) -> Finding | None:
    now = [event for event in events if not event.boots_ago]
    if broken := [event for event in now if _class(event) == "hardware"]:
        return _broken(view, address, broken)
    if watched := [event for event in now if _class(event) == "watch"]:
        return _watched(view, address, watched)
    if repeated := [event for event in now if _class(event) == "program" and _is_repeated(event)]:
        return _repeated(view, address, repeated)
    if earlier := [event for event in events if event.boots_ago and _class(event) == "hardware"]:
        return _earlier(view, address, earlier)
    return None


def _listed(events: Sequence[LogEvent]) -> str:
    return wording.listed(dict.fromkeys(_described(event) for event in events))


def _name(view: View, address: str) -> str:
    return logged.name(view, address) if address else "a GPU that the log does not name"


def _broken(view: View, address: str, events: Sequence[LogEvent]) -> Finding:
    soft = {_xid(event).code for event in events if event.kind == _XID} <= {109, 119, 120} and any(
        event.kind == _XID for event in events
    )
    off = any(event.kind == "lost" or event.details.get("code") == "79" for event in events)
    confidence: Confidence = "likely" if soft or all(event.kind == "gpu-reset" for event in events) else "certain"
    return Finding(
        ID,
        "failure",
        logged.subject(address),
        f"{_name(view, address)}: {_listed(events)}",
        "It lost what it was computing, and programs that used it ended or hold wrong data.",
        confidence,
        logged.evidence(events),
        remedies=("check-power-and-seating",) if off else (),
        next=_next(events, off),
    )


def _next(events: Sequence[LogEvent], off: bool) -> str:
    if off:
        return "check power and seating, then power cycle the host; see device-lost"
    if any(event.kind == _XID for event in events):
        return "reset the GPU with nvidia-smi --gpu-reset or restart the host; if it comes back, try the card in another host"
    return "note what ran when it happened, update the driver and the GPU's firmware; if it comes back, try another host"


def _watched(view: View, address: str, events: Sequence[LogEvent]) -> Finding:
    return Finding(
        ID,
        "warning",
        logged.subject(address),
        f"{_name(view, address)}: {_listed(events)}",
        "The GPU coped with it this time. More of them mean that its memory or its link wears out.",
        "likely",
        logged.evidence(events),
        next="reset the GPU when nothing uses it, and watch nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT",
    )


def _repeated(view: View, address: str, events: Sequence[LogEvent]) -> Finding:
    most = max(events, key=lambda event: event.count)
    return Finding(
        ID,
        "warning",
        logged.subject(address),
        f"{_name(view, address)}: {_listed(events)}, again and again ({logged.times(most)})",
        "A program that uses the GPU wrongly causes this, and so does hardware that computes wrongly.",
        "possible",
        logged.evidence(events),
        next="see whether it is always the same program; if not, test the GPU's memory, power and clocks",
    )


def _earlier(view: View, address: str, events: Sequence[LogEvent]) -> Finding:
    return Finding(
        ID,
        "warning",
        logged.subject(address),
        f"{_name(view, address)}: {_listed(events)}, before the last restart",
        f"The GPU lost what it was computing.{logged.EARLIER}",
        "likely",
        logged.evidence(events),
        next="watch the log: if it comes back, check power and seating, and try the card in another host",
    )


CHECK = Check(
    id=ID,
    subject="GPU",
    summary="No GPU has reported faults to the kernel's log.",
    looks_at="The kernel's log: NVIDIA's Xid and SXid codes, amdgpu's resets, queues that time out, page faults and RAS "
    "errors, hangs of Intel's GPUs.",
    why="Programs see such faults as a crash, as a hang, or not at all while their results are wrong.",
    decides="A failure where a GPU was reset or must be, has an uncorrectable error or reports an Xid that NVIDIA answers with "
    "a reset. A warning where the GPU repaired itself (Xid 63, 92 and the like), where what a program can cause repeats itself "
    f"{_REPEATED_BURSTS} times, or where the fault is of an earlier boot. Ok where the log begins with the boot and has "
    "nothing else; unknown without a log, or with one that begins later.",
    sources=(
        "NVIDIA, Xid errors: the catalogue with its immediate actions, docs.nvidia.com/deploy/xid-errors",
        "Linux drivers/gpu/drm/amd/amdgpu/amdgpu_job.c, amdgpu_device.c amdgpu_device_gpu_recover, amdgpu_ras.c",
        "Linux drivers/gpu/drm/i915/i915_gpu_error.c",
    ),
    judge=judge,
    remedies=("check-power-and-seating",),
    nothing="no discrete GPU here, and no kernel log",
    bare_metal_only=False,
    needs_pci=False,
)
