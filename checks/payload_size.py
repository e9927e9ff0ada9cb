"""Maximum payload and read request sizes on the way to each GPU."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from hostdoctor.facts.pci import INTEGRATED_ENDPOINT, Express, Function
from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import Check, Cost, Evidence, Finding, unjudged
from hostdoctor.topology import Card
from hostdoctor.view import View

ID = "payload-size"

# The smallest there is. Each doubling halves the requests for the same data; guides for GPU nodes ask for far more.
_SMALL_READ_REQUEST_BYTES = 128


def judge(view: View) -> Iterator[Finding]:
    """One finding for the path of each GPU."""
    for card in view.cards:
        yield _judge_path(view, card)


def _judge_path(view: View, card: Card) -> Finding:
    path = [card.gpu, *view.topology.above(card.gpu)]
    subject = (card.gpu.address,)
    expresses: list[tuple[Function, Express]] = []
    for function in path:
        express = function.express
        if isinstance(express, Unknown):
            return unjudged(ID, subject, "payload sizes", express)
        if express is not None and express.port_type != INTEGRATED_ENDPOINT:
            expresses.append((function, express))
    if not expresses:
        return unjudged(ID, subject, "payload sizes", Unknown("it has no PCI Express capability"))
    for lower, upper in pairwise(expresses):
        if why := _rejected(lower[1], upper[1]):
            return _mismatch(subject, lower, upper, why)
    if not view.topology.knows_way_up(card.gpu):
        return unjudged(ID, subject, "payload sizes", Unknown("the ports above the card are not all in this evidence"))
    smallest = expresses[0][1].max_read_request_bytes
    evidence = tuple(
        Evidence(function.source("config"), f"MaxPayload {express.max_payload_bytes} bytes") for function, express in expresses
    )
    if smallest <= _SMALL_READ_REQUEST_BYTES:
        title = f"the GPU asks for at most {smallest} bytes in one read request (MRRS)"
        explanation = "Small requests cost bandwidth on reads of host memory; drivers usually set 512 bytes or more."
        return Finding(
            ID, "info", subject, title, explanation, evidence=(Evidence(card.gpu.source("config"), f"MaxReadReq {smallest}"),)
        )
    sizes = {express.max_payload_bytes for _, express in expresses}
    title = f"one payload size on the path ({min(sizes)} bytes)"
    if len(sizes) > 1:
        title = "payload sizes on the path differ, but no packet can be too large for who receives it"
    return Finding(ID, "ok", subject, title, evidence=evidence)


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
    summary="Every port on the way to a GPU has a payload size its neighbour accepts.",
    looks_at="Maximum payload size and maximum read request size of the GPU and of every port above it.",
    why="A packet larger than its receiver's payload size is malformed: an uncorrectable error.",
    decides="A warning where two ends of a link differ so that packets can be rejected; info where the GPU's read requests "
    f"are {_SMALL_READ_REQUEST_BYTES} bytes; unknown where config space cannot be read.",
    sources=(
        "PCI Express Base Specification 6.0, 7.5.3.4 Device Control, 2.2.2 TLPs with data payloads",
        "Linux drivers/pci/probe.c pci_configure_mps, pcie_bus_configure_settings",
    ),
    judge=judge,
    remedies=("payload-size-safe",),
)
