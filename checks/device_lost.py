"""Functions that no longer answer."""

from __future__ import annotations

from collections.abc import Iterator

from hostdoctor import wording
from hostdoctor.facts.driver import Nvml
from hostdoctor.facts.pci import Function
from hostdoctor.facts.unknown import ASLEEP, NOT_CAPTURED, Unknown
from hostdoctor.findings import Check, Evidence, Finding, unjudged
from hostdoctor.view import View

ID = "device-lost"


def judge(view: View) -> Iterator[Finding]:
    """One finding a lost function, or one for all."""
    functions = view.topology.functions.values()
    asked = [function for function in functions if not isinstance(function.config, Unknown)]
    lost = [function for function in asked if not isinstance(function.config, Unknown) and function.config.lost]
    for function in lost:
        yield _lost(view, function)
    yield from _lost_to_the_driver(view, {function.address for function in lost})
    for address in view.host.lacking_functions:
        title = f"{address} is listed, but its folder is not in this evidence"
        yield Finding(ID, "unknown", (address,), title, "What it is and whether it answers cannot be told.")
    silent = _silent(view)
    for why, addresses in silent.items():
        yield unjudged(ID, tuple(addresses), f"answer of {wording.listed(addresses)}", why)
    asleep = [function.address for function in functions if function.asleep]
    if asked and not lost and not silent and not view.host.lacking_functions:
        text = f"; {wording.count(len(asleep), 'sleeping function')} left alone" if asleep else ""
        yield Finding(ID, "ok", (), f"every function that was asked answers{text}")
    elif functions and not asked and not silent:
        why = ASLEEP if asleep else NOT_CAPTURED
        yield unjudged(ID, (), "answer of the functions", why)


def _lost_to_the_driver(view: View, known: set[str]) -> Iterator[Finding]:
    """GPUs that NVIDIA's driver has lost, whatever PCI says of them."""
    for gpu in view.host.nvml.gpus if isinstance(view.host.nvml, Nvml) else ():
        if gpu.lost and gpu.address not in known:
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


def _silent(view: View) -> dict[Unknown, dict[str, None]]:
    """GPUs and the ports above them that were not read although they are awake, by the reason."""
    found: dict[Unknown, dict[str, None]] = {}
    for gpu in view.gpus:
        for function in (gpu, *view.topology.above(gpu)):
            if isinstance(function.config, Unknown) and not function.asleep:
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
    looks_at="The first bytes of config space of every function that is awake, and which GPUs NVIDIA's driver has lost.",
    why="A GPU that fell off the bus fails every program that touches it, and can hang the scan of others.",
    decides="A failure where an awake function reads as all ones or has header type 7f; unknown where it may be powered "
    "off (D3cold), which looks the same, or where a GPU or a port above it was not read. Sleeping functions are left "
    "alone, since reading would wake them.",
    sources=(
        "PCI Express Base Specification 6.0, 2.3.2: a request nobody completes reads as all ones",
        "Linux drivers/pci/probe.c pci_bus_generic_read_dev_vendor_id, include/linux/pci.h PCI_ERROR_RESPONSE",
    ),
    judge=judge,
    remedies=("check-power-and-seating",),
    nothing="no functions",
    bare_metal_only=True,
)
