"""Measured transfers, in one model whatever tool measured them.

Bandwidths are in GB/s (10^9 bytes a second) and of one direction unless `both_ways` says that they are the sum of two
copies that ran against each other.
"""

from __future__ import annotations

from typing import Literal

import msgspec

HOST = "host"

Engine = Literal["copy-engine", "kernel", ""]
Statistic = Literal["average", "peak", "minimum", "maximum", ""]


class Transfer(msgspec.Struct, frozen=True):
    """One cell of a tool's table.

    Attributes:
        origin: where the bytes come from: a GPU's subject ("0000:43:00.0", or "GPU0" where no address is known), or HOST
            with the NUMA node where it is told, "host", "host:1".
        target: where they go; the same as `origin` for a copy inside one device.
        gbs: the bandwidth; None where the tool says N/A or did not measure, which is not 0.
        both_ways: whether it is the sum of both directions at once.
        peer_access: whether the copy was direct (True), staged on purpose as the control arm (False), or not told (None).
        latency_us: of a small copy, where that is what was measured.
        initiator: which end ran the copy, where the tool tells: "origin", "target" or "".
        source: where it stands, "rbt.txt:42".
    """

    origin: str
    target: str
    gbs: float | None
    both_ways: bool = False
    peer_access: bool | None = None
    latency_us: float | None = None
    initiator: Literal["origin", "target", ""] = ""
    engine: Engine = ""
    statistic: Statistic = ""
    size_bytes: int | None = None
    source: str = ""


class Verification(msgspec.Struct, frozen=True):
    """Whether the data of one copy arrived as they were sent; None where the tool did not test it (N/A)."""

    origin: str
    target: str
    right: bool | None
    text: str
    source: str


class Device(msgspec.Struct, frozen=True):
    """A device as a tool names it; `subject` as in Transfer."""

    subject: str
    number: int
    name: str
    is_gpu: bool


class Run(msgspec.Struct, frozen=True):
    """One run of one tool."""

    tool: str  # "rocm-bandwidth-test", "TransferBench", "nvbandwidth", "p2pBandwidthLatencyTest", "simpleP2P"
    version: str
    source: str
    devices: tuple[Device, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    verifications: tuple[Verification, ...] = ()
    cut: bool = False  # whether the paste ends before the output does


def is_host(place: str) -> bool:
    """Whether an end of a transfer is host memory."""
    return place == HOST or place.startswith(f"{HOST}:")
