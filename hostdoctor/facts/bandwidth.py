"""Measured transfers, in one model whatever tool measured them.

Bandwidths are in GB/s (10^9 bytes a second) and of one direction unless `both_ways` says that they are the sum of two
copies that ran against each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from hostdoctor.facts.driver import PairWord

HOST = "host"

Engine = Literal["copy-engine", "kernel", ""]
Statistic = Literal["average", "median", "peak", ""]


class Transfer(msgspec.Struct, frozen=True):
    """One cell of a tool's table.

    Attributes:
        origin: where the bytes come from: a GPU's subject ("0000:43:00.0", or "GPU0" where no address is known), or HOST
            with the NUMA node where it is told, "host", "host:1".
        target: where they go; the same as `origin` for a copy inside one device.
        gbs: the bandwidth; None where the tool says N/A, NaN or nothing possible, which is not 0.
        both_ways: whether it is the sum of both directions at once.
        contended: whether other copies ran meanwhile that are not part of the figure, so that it says little of the link.
        peer_access: whether the copy was asked to go directly (True), was staged, on purpose or because the driver grants no
            access (False), or the paste does not tell (None).
        latency_us: of a copy of a few bytes, where that is what was measured.
        initiator: which end ran the copy, where the tool tells: "origin", "target" or "".
        source: where it stands, "rbt.txt:42".
        printed: the figure as the tool prints it, where that is another number ("25.10 GiB/s").
    """

    origin: str
    target: str
    gbs: float | None
    both_ways: bool = False
    contended: bool = False
    peer_access: bool | None = None
    latency_us: float | None = None
    initiator: Literal["origin", "target", ""] = ""
    engine: Engine = ""
    statistic: Statistic = ""
    size_bytes: int | None = None
    source: str = ""
    printed: str = ""


class Verification(msgspec.Struct, frozen=True):
    """Whether the data of one copy arrived as they were sent; None where the tool did not test it (N/A).

    Both ends are empty where the tool does not tell which copy it speaks of.
    """

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
    source: str = ""


class LoadedLink(msgspec.Struct, frozen=True):
    """A link as it was seen while copies ran over it; `port` is the function at its lower end."""

    port: str
    speed_gts: float
    width: int
    source: str


class Broken(msgspec.Struct, frozen=True):
    """A copy that did not come to its end: it hung, crashed, or the kernel logged a fault; `text` says which."""

    origin: str
    target: str
    text: str
    source: str


class Run(msgspec.Struct, frozen=True):
    """One run of one tool.

    Attributes:
        tool: "rocm-bandwidth-test", "TransferBench", "nvbandwidth", "p2pBandwidthLatencyTest", "simpleP2P"; "cuda" and "hip"
            are copies of hostdoctor's own.
        version: as the tool prints it, or empty.
        source: where its output begins, "rbt.txt:1".
        devices: what it lists, the processors' memory nodes among them.
        transfers: every cell of its tables.
        verifications: what it says of the data, where it compares them.
        words: what it says of the access that the driver grants, before any copy.
        cut: whether the paste ends before the output does, or begins after it.
        has_domains: whether it prints PCI domains; where it does not, 0000 was assumed.
        links: as they were seen meanwhile.
        broken: copies that did not come to their end.
    """

    tool: str
    version: str
    source: str
    devices: tuple[Device, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    verifications: tuple[Verification, ...] = ()
    words: tuple[PairWord, ...] = ()
    cut: bool = False
    has_domains: bool = True
    links: tuple[LoadedLink, ...] = ()
    broken: tuple[Broken, ...] = ()

    @property
    def gpus(self) -> tuple[Device, ...]:
        """The GPUs among the devices."""
        return tuple(device for device in self.devices if device.is_gpu)


def is_host(place: str) -> bool:
    """Whether an end of a transfer is host memory."""
    return place == HOST or place.startswith(f"{HOST}:")


def host_node(node: int) -> str:
    """The name of a memory node as an end of a transfer."""
    return f"{HOST}:{node}"


def renamed(run: Run, names: Mapping[str, str]) -> Run:
    """A run whose devices have other subjects: {"GPU0": "0000:43:00.0"}."""
    if not names:
        return run
    replace = msgspec.structs.replace

    def ends(each: Transfer | Verification) -> dict[str, str]:
        return {"origin": names.get(each.origin, each.origin), "target": names.get(each.target, each.target)}

    return replace(
        run,
        devices=tuple(replace(each, subject=names.get(each.subject, each.subject)) for each in run.devices),
        transfers=tuple(replace(each, **ends(each)) for each in run.transfers),
        verifications=tuple(replace(each, **ends(each)) for each in run.verifications),
        words=tuple(
            replace(each, accessor=names.get(each.accessor, each.accessor), owner=names.get(each.owner, each.owner))
            for each in run.words
        ),
    )
