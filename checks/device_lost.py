"""Functions that no longer answer."""

from __future__ import annotations

from collections.abc import Iterator

from hostdoctor import logged, wording
from hostdoctor.facts.driver import Nvml
from hostdoctor.facts.log import KernelLog, LogEvent
from hostdoctor.facts.pci import Function
from hostdoctor.facts.unknown import ASLEEP, NOT_CAPTURED, Unknown
from hostdoctor.findings import Check, Evidence, Finding, unjudged
from hostdoctor.view import View

ID = "device-lost"

_OFF_THE_BUS = "79"  # NVIDIA's Xid


def judge(view: View) -> Iterator[Finding]:
    """One finding a lost function, or one for all."""
    functions = view.topology.functions.values()
    asked = [function for function in functions if not isinstance(function.config, Unknown)]
    lost = [function for function in asked if not isinstance(function.config, Unknown) and function.config.lost]
    for function in lost:
        yield _lost(view, function)
    logged_lost = _by_the_log(view, {function.address for function in lost})
    told = {address for finding in logged_lost for address in finding.subject}
    logged_lost += _lost_to_the_driver(view, {*told, *(function.address for function in lost)})
    yield from logged_lost
    for address in view.host.lacking_functions:
        title = f"{address} is listed, but its folder is not in this evidence"
        yield Finding(ID, "unknown", (address,), title, "What it is and whether it answers cannot be told.")
    silent = _silent(view, {address for finding in logged_lost for address in finding.subject})
    for why, addresses in silent.items():
        yield unjudged(ID, tuple(addresses), f"answer of {wording.listed(addresses)}", why)
    asleep = [function.address for function in functions if function.asleep]
    if asked and not lost and not logged_lost and not silent and not view.host.lacking_functions:
        text = f"; {wording.count(len(asleep), 'sleeping function')} left alone" if asleep else ""
        yield Finding(ID, "ok", (), f"every function that was asked answers{text}")
    elif functions and not asked and not silent and not logged_lost:
        why = ASLEEP if asleep else NOT_CAPTURED
        yield unjudged(ID, (), "answer of the functions", why)


def _lost_to_the_driver(view: View, known_lost: set[str]) -> Iterator[Finding]:
    """GPUs that NVIDIA's driver has lost, whatever PCI says of them."""
    for gpu in view.host.nvml.gpus if isinstance(view.host.nvml, Nvml) else ():
        if gpu.lost and gpu.address not in known_lost:
            yield Finding(
                ID,
                "failure",
                (gpu.address,),
                f"{gpu.address} no longer answers: NVIDIA's driver has lost it",
                "It fell off the bus: its link went down, it lost power, or its firmware hangs. The driver brings it back only "
                "after a restart.",
                evidence=(Evidence(gpu.origin or "NVML", "GPU is lost (NVML 15)"),),
                remedies=("check-power-and-seating",),
                next="read the kernel log for the Xid of that moment, check power and seating, then power cycle the host",
            )


def _by_the_log(view: View, known_lost: set[str]) -> list[Finding]:
    """Functions that the log says are gone, and that nothing shows to be back."""
    log = view.host.log
    found: dict[str, list[LogEvent]] = {}
    for event in log.of("lost", "inaccessible", "xid") if log else ():
        if event.kind == "xid" and event.details.get("code") != _OFF_THE_BUS:
            continue
        address = event.address or logged.owner(view, event, event.details.get("driver", ""))
        if address not in known_lost and log is not None and _still_gone(view, log, address, event):
            found.setdefault(address, []).append(event)
    return [_logged_as_lost(view, address, events) for address, events in found.items()]


def _still_gone(view: View, log: KernelLog, address: str, event: LogEvent) -> bool:
    if event.back or (event.boots_ago and (address in log.drivers or log.from_boot)):
        return False
    function = logged.function_at(view, address)
    if function is not None and function.origin.startswith("/") and not isinstance(function.config, Unknown):
        return False  # it was asked after that, and answered
    # Docks and drives are taken out while the host runs, and leave such messages; a network card's own word is its own.
    return event.kind == "lost" or logged.is_gpu(view, address)


def _logged_as_lost(view: View, address: str, events: list[LogEvent]) -> Finding:
    name = logged.name(view, address) if address else "a GPU that the log does not name"
    off = any(event.kind != "inaccessible" for event in events)
    how = "has fallen off the bus" if off else "does not come back from sleep or reset"
    return Finding(
        ID,
        "failure",
        logged.subject(address),
        f"{name} {how}",
        "Nothing answers at its address any more: its link went down, it lost power, or its firmware hangs."
        f"{_errors_before(view, address)}",
        "certain" if off else "likely",
        logged.evidence(events),
        remedies=("check-power-and-seating",),
        next="check power cables, riser and seating, then cut the host's power for a minute: a restart may not bring it back",
    )


def _errors_before(view: View, address: str) -> str:
    """Errors on the way to it, as a sentence with a space before it."""
    log, function = view.host.log, logged.function_at(view, address)
    above = {port.address for port in view.topology.above(function)} if function else set()
    events = [event for event in log.events if event.kind.startswith("aer-") and event.address in above] if log else []
    if not events:
        return ""
    name = logged.name(view, events[0].address)
    return f" {name[0].upper()}{name[1:]} reported errors: see link-errors."


def _silent(view: View, known_lost: set[str]) -> dict[Unknown, dict[str, None]]:
    """GPUs and the ports above them that were not read although they are awake, by the reason."""
    found: dict[Unknown, dict[str, None]] = {}
    for gpu in view.gpus:
        for function in (gpu, *view.topology.above(gpu)):
            if isinstance(function.config, Unknown) and not function.asleep and function.address not in known_lost:
                found.setdefault(function.config, {})[function.address] = None
    return found


def _lost(view: View, function: Function) -> Finding:
    reason = "" if isinstance(function.config, Unknown) else function.config.lost
    evidence = (Evidence(function.source("config"), reason), *_power_evidence(function))
    name = f"{function.address} [{function.id}]"
    if isinstance(function.power.runtime_status, Unknown) and function.power.state not in ("D0", "D1", "D2"):
        return Finding(
            ID,
            "unknown",
            (function.address,),
            f"{name} {_how(reason)}: lost, or powered off to save energy (D3cold)",
            "Both look the same from outside; the power state is not in this evidence.",
            evidence=evidence,
            help="wake the device by using it, then look again",
        )
    below = [gpu.address for gpu in view.gpus if function in view.topology.above(gpu)]
    also = f" The GPU {wording.listed(below)} lies below it." if below else ""
    return Finding(
        ID,
        "failure",
        (function.address,),
        f"{name} no longer answers: it {_how(reason)}",
        "The kernel still lists the function and counts it as awake, but nothing answers on the bus: its link went "
        f"down, it lost power, or its firmware hangs.{also}",
        "certain",
        evidence,
        remedies=("check-power-and-seating",),
        next="read the kernel log for the moment it went, check power cables and seating, then power cycle the host",
    )


def _how(reason: str) -> str:
    return reason if reason.startswith("reads") else f"shows {reason}"


def _power_evidence(function: Function) -> tuple[Evidence, ...]:
    status = function.power.runtime_status
    return () if isinstance(status, Unknown) else (Evidence(function.source("power/runtime_status"), status),)


CHECK = Check(
    id=ID,
    subject="function",
    summary="Every function the kernel lists still answers.",
    looks_at="The first bytes of config space of every function that is awake, which GPUs NVIDIA's driver has lost, and what "
    "the kernel's log says of functions that are gone.",
    why="A GPU that fell off the bus fails every program that touches it, and can hang the scan of others.",
    decides="A failure where an awake function reads as all ones or has header type 7f, or where the log says that "
    "a GPU or network card is off the bus and nothing later shows it alive; unknown where it may be powered "
    "off (D3cold), which looks the same, or where a GPU or a port above it was not read. Sleeping functions are left "
    "alone, since reading would wake them.",
    sources=(
        "PCI Express Base Specification 6.0, 2.3.2: a request nobody completes reads as all ones",
        "Linux drivers/pci/probe.c pci_bus_generic_read_dev_vendor_id, include/linux/pci.h PCI_ERROR_RESPONSE",
        "Linux drivers/pci/pci.c pci_power_up, pci_dev_wait; NVIDIA, Xid errors: 79",
    ),
    judge=judge,
    remedies=("check-power-and-seating",),
    nothing="no functions",
    bare_metal_only=True,
)
