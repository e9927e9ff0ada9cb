"""Maximum payload and read request sizes on the way to each GPU, network card and NVMe drive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from hostdoctor import logged
from hostdoctor.facts.log import LogEvent
from hostdoctor.facts.pci import INTEGRATED_ENDPOINT, Express, Function
from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import Check, Cost, Evidence, Finding, unjudged
from hostdoctor.names import class_name
from hostdoctor.view import View

ID = "payload-size"

# The smallest there is. Each doubling halves the requests for the same data; guides for GPU nodes ask for far more.
_SMALL_READ_REQUEST_BYTES = 128


def judge(view: View) -> Iterator[Finding]:
    """One finding for the path of each GPU; of network cards and drives each that is not in order, and one for the rest."""
    by_log = _by_the_log(view)
    yield from by_log.values()
    for card in view.cards:
        if card.gpu.address not in by_log:
            yield _judge_path(view, card.gpu)
    if view.cards:
        yield from _judge_adapters(view, by_log)


def _by_the_log(view: View) -> dict[str, Finding]:
    """Functions that could not take over their port's payload size, where config space does not tell what became of it."""
    log = view.host.log
    found = {}
    for event in logged.of_last_boot(log, "payload-size") if log else ():
        function = logged.function_at(view, event.address)
        if function is None or isinstance(function.express, Unknown):
            found[event.address] = _cannot_follow(view, event)
    return found


def _cannot_follow(view: View, event: LogEvent) -> Finding:
    size = event.details.get("size", "?")
    return Finding(
        ID,
        "warning",
        (event.address,),
        f"{logged.name(view, event.address)} cannot take its port's payload size of {size} bytes",
        f"The port may send it packets of {size} bytes, and a device rejects those that are larger than its own size: an "
        "uncorrectable error. Devices that never ask for so much at once work all the same.",
        "possible",
        logged.evidence([event]),
        Cost("errors under load, up to a lost device"),
        ("payload-size-safe",),
        "if the log has errors of this device, boot with pci=pcie_bus_safe, which gives a path one size",
    )


def _judge_path(view: View, gpu: Function) -> Finding:
    subject = (gpu.address,)
    path = _path(view, gpu)
    if isinstance(path, Unknown):
        return unjudged(ID, subject, "payload sizes", path)
    if not path:
        return unjudged(ID, subject, "payload sizes", Unknown("it has no PCI Express capability"))
    if mismatch := _mismatch_on(subject, path):
        return mismatch
    if not view.topology.knows_way_up(gpu):
        return unjudged(ID, subject, "payload sizes", Unknown("the ports above the card are not all in this evidence"))
    evidence = tuple(
        Evidence(function.source("config"), f"MaxPayload {express.max_payload_bytes} bytes") for function, express in path
    )
    if path[0][1].max_read_request_bytes <= _SMALL_READ_REQUEST_BYTES:
        return _small_requests(gpu, path[0][1], "the GPU")
    sizes = {express.max_payload_bytes for _, express in path}
    title = f"one payload size on the path ({min(sizes)} bytes)"
    if len(sizes) > 1:
        title = "payload sizes on the path differ, but no packet can be too large for who receives it"
    return Finding(ID, "ok", subject, title, evidence=evidence)


def _judge_adapters(view: View, by_log: Mapping[str, Finding]) -> Iterator[Finding]:
    """Those that sleep are left out: a network card without a cable often does, and it transfers nothing."""
    unread: dict[Unknown, list[str]] = {}
    fine = 0
    for adapter in view.adapters:
        if adapter.asleep or adapter.address in by_log:
            continue
        path = _path(view, adapter)
        if isinstance(path, Unknown):
            unread.setdefault(path, []).append(adapter.address)
        elif path and (mismatch := _mismatch_on((adapter.address,), path)):
            yield mismatch
        elif path and path[0][1].max_read_request_bytes <= _SMALL_READ_REQUEST_BYTES:
            yield _small_requests(adapter, path[0][1], f"the {class_name(adapter.class_code)}")
        else:
            fine += bool(path)
    for why, addresses in unread.items():
        yield unjudged(ID, tuple(addresses), "payload sizes of network cards and drives", why)
    if fine:
        yield Finding(ID, "ok", (), f"payload sizes fit on the way to network cards and drives ({fine:,})")


def _path(view: View, function: Function) -> list[tuple[Function, Express]] | Unknown:
    """A function and the ports above it, as far as they have PCI Express links; Unknown where one was not read."""
    found: list[tuple[Function, Express]] = []
    for each in (function, *view.topology.above(function)):
        express = each.express
        if isinstance(express, Unknown):
            return express
        if express is not None and express.port_type != INTEGRATED_ENDPOINT:
            found.append((each, express))
    return found


def _mismatch_on(subject: tuple[str, ...], path: Sequence[tuple[Function, Express]]) -> Finding | None:
    for lower, upper in pairwise(path):
        if why := _rejected(lower[1], upper[1]):
            return _mismatch(subject, lower, upper, why)
    return None


def _small_requests(function: Function, express: Express, who: str) -> Finding:
    smallest = express.max_read_request_bytes
    title = f"{who} asks for at most {smallest} bytes in one read request (MRRS)"
    explanation = "Small requests cost bandwidth on reads of host memory; drivers usually set 512 bytes or more."
    evidence = (Evidence(function.source("config"), f"MaxReadReq {smallest}"),)
    return Finding(ID, "info", (function.address,), title, explanation, evidence=evidence)


def _rejected(lower: Express, upper: Express) -> str:
    """Why packets can be too large for their receiver; empty where they cannot.

    A port may be set to more than the device below where that device's read requests are no larger than its own payload
    size: then no completion exceeds it (drivers/pci/probe.c pcie_write_mrrs, the mode "performance").
    """
    if lower.max_payload_bytes > upper.max_payload_bytes:
        return "what the device sends can be larger than its port accepts"
    if upper.max_payload_bytes > lower.max_payload_bytes and lower.max_read_request_bytes > lower.max_payload_bytes:
        return "what the port sends can be larger than the device accepts"
    return ""


def _mismatch(subject: tuple[str, ...], lower: tuple[Function, Express], upper: tuple[Function, Express], why: str) -> Finding:
    sizes = f"{lower[1].max_payload_bytes} bytes at {lower[0].address}, {upper[1].max_payload_bytes} at {upper[0].address}"
    return Finding(
        ID,
        "warning",
        subject,
        f"payload sizes differ on the path: {sizes}",
        f"{why[0].upper()}{why[1:]}: such a packet is rejected as malformed, an uncorrectable error.",
        "likely",
        tuple(
            Evidence(
                function.source("config"),
                f"MaxPayload {express.max_payload_bytes} (of {express.max_payload_supported_bytes}), "
                f"MaxReadReq {express.max_read_request_bytes} bytes",
            )
            for function, express in (lower, upper)
        ),
        Cost("errors under load, up to a lost device"),
        ("payload-size-safe",),
        "boot with pci=pcie_bus_safe, which gives a path one size",
    )


CHECK = Check(
    id=ID,
    subject="path",
    summary="Every port on the way to a GPU, network card or NVMe drive has a payload size its neighbour accepts.",
    looks_at="Maximum payload size and maximum read request size of each GPU, network card and NVMe drive, and of every port "
    "above it; where config space was not read, what the kernel's log says of sizes that it could not set.",
    why="A packet larger than its receiver's payload size is malformed: an uncorrectable error.",
    decides="A warning where two ends of a link differ so that packets can be rejected; info where the device's read "
    f"requests are {_SMALL_READ_REQUEST_BYTES} bytes; unknown where config space cannot be read. Cards and drives that sleep "
    "are left alone; those in order are counted together.",
    sources=(
        "PCI Express Base Specification 6.0, 7.5.3.4 Device Control, 2.2.2 TLPs with data payloads",
        "Linux drivers/pci/probe.c pci_configure_mps, pcie_bus_configure_settings",
    ),
    judge=judge,
    remedies=("payload-size-safe",),
)
