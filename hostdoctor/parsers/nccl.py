"""Logs of NCCL and RCCL with NCCL_DEBUG=INFO: which GPU is which rank, and how NCCL sends from one to another.

NCCL's choice of a transport is its own policy (the level of P2P it allows by default, its environment), so that of shared
memory proves nothing about P2P; peer access does, since NCCL has opened the peer's memory then.
Sources: NCCL src/init.cc, src/transport/p2p.cc, shm.cc and net.cc, src/graph/paths.cc ncclTopoCheckP2p, src/misc/utils.cc
int64ToBusId; RCCL src/init.cc.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

MOST_LINES = 200_000
_LONGEST_LINE = 2048

_PREFIX = re.compile(r"(?:^|[\s\]>)])([\w.-]{1,80}):\d{1,9}:\d{1,9} \[\d{1,4}\]")
_RANK = re.compile(
    r"comm (?:0x)?[0-9a-f]{1,16} rank (?P<rank>\d{1,6}) nranks \d{1,6} (?:cudaDev|hipDev) (?P<cuda>\d{1,3})"
    r"(?: nvmlDev (?P<nvml>\d{1,3}))? busId (?P<bus>[0-9a-f]{2,13})\b"
)
_HOP = re.compile(
    r"Channel \d{1,4}(?:/\d{1,3})? ?: (?P<from>\d{1,6})\[(?P<from_mark>[0-9a-f]{1,13})\] ?-> (?P<to>\d{1,6})"
    r"\[(?P<to_mark>[0-9a-f]{1,13})\] (?:\[(?:send|receive)\] )?via (?P<via>\S.{0,60}?)(?= comm |\s*$)"
)
_DISABLED = re.compile(r"P2P is disabled between (?P<nvlink>NVLINK )?connected GPUs (?P<a>\d{1,3}) and (?P<b>\d{1,3})")
_SETTING = re.compile(r"(?P<name>(?:NCCL|RCCL)_P2P_\w{1,40}) set by environment to (?P<value>[\w.-]{1,40})")
_VERSION = re.compile(r"(?P<library>RCCL|NCCL) version ?:? ?(?P<version>\d[\w.+-]{1,40})")
_NVML_FAILED = re.compile(r"\bnvmlInit(?:_v2)?\(\) failed: (?P<text>\S.{0,80})")
_NUMA_BALANCING = "NUMA auto balancing enabled"


class Rank(msgspec.Struct, frozen=True):
    """One GPU of a communicator; `bus_id` is NCCL's number of it, hexadecimal without punctuation."""

    rank: int
    cuda_device: int
    nvml_device: int | None
    bus_id: str
    line: int


class Hop(msgspec.Struct, frozen=True):
    """One channel from a rank to another.

    Attributes:
        sender: its rank.
        sender_mark: what stands in brackets after it: a bus id in older versions, a device's number in newer ones.
        receiver: its rank.
        receiver_mark: the same of it.
        via: "P2P/IPC", "P2P/CUMEM/read", "SHM/direct/direct", "NET/IB/0/GDRDMA".
        line: where it stands first, from 0.
    """

    sender: int
    sender_mark: str
    receiver: int
    receiver_mark: str
    via: str
    line: int


class NcclLog(msgspec.Struct, frozen=True):
    """What the lines of one host tell; lines of further hosts in the same log are left out.

    Attributes:
        ranks: each GPU once for each communicator.
        hops: each kind once.
        disabled: pairs of NVML's numbers between which NVML does not report P2P as allowed, whether NVLink joins them, and
            the line.
        settings: of the environment, name to value and line.
        version: "2.21.5+cuda12.4", or empty.
        is_rccl: whether AMD's library wrote it.
        numa_balancing: the line where it complains of NUMA balancing, or None.
        nvml_failure: what NVML answered NCCL where it could not be started, and the line; or None.
    """

    ranks: tuple[Rank, ...] = ()
    hops: tuple[Hop, ...] = ()
    disabled: tuple[tuple[int, int, bool, int], ...] = ()
    settings: Mapping[str, tuple[str, int]] = {}
    version: str = ""
    is_rccl: bool = False
    numa_balancing: int | None = None
    nvml_failure: tuple[str, int] | None = None


class _Reader:
    """Goes through the lines once."""

    def __init__(self) -> None:
        self.ranks: dict[tuple[int, str], Rank] = {}
        self.hops: dict[tuple[int, str, int, str, str], Hop] = {}
        self.disabled: dict[tuple[int, int], tuple[int, int, bool, int]] = {}
        self.settings: dict[str, tuple[str, int]] = {}
        self.version = ""
        self.is_rccl = False
        self.numa_balancing: int | None = None
        self.nvml_failure: tuple[str, int] | None = None

    def take(self, number: int, line: str) -> None:
        """What one line tells; each tells at most one thing."""
        if found := _HOP.search(line):
            key = (int(found["from"]), found["from_mark"], int(found["to"]), found["to_mark"], found["via"])
            self.hops.setdefault(key, Hop(*key, number))
        elif found := _RANK.search(line):
            nvml = None if found["nvml"] is None else int(found["nvml"])
            rank = Rank(int(found["rank"]), int(found["cuda"]), nvml, found["bus"], number)
            self.ranks.setdefault((rank.rank, rank.bus_id), rank)
        elif found := _DISABLED.search(line):
            pair = (int(found["a"]), int(found["b"]))
            self.disabled.setdefault(pair, (*pair, bool(found["nvlink"]), number))
        elif found := _SETTING.search(line):
            self.settings.setdefault(found["name"], (found["value"], number))
        elif not self.version and (found := _VERSION.search(line)):
            self.version = found["version"]
            self.is_rccl = found["library"] == "RCCL" or "hip" in found["version"]
        elif self.nvml_failure is None and (found := _NVML_FAILED.search(line)):
            self.nvml_failure = (found["text"].strip(), number)
        elif self.numa_balancing is None and _NUMA_BALANCING in line:
            self.numa_balancing = number


def parse_log(lines: Sequence[str]) -> NcclLog:
    """The log of the host whose line comes first."""
    reader = _Reader()
    host = ""
    for number, line in enumerate(lines[:MOST_LINES]):
        text = line[:_LONGEST_LINE]
        if found := _PREFIX.search(text):
            host = host or found[1]
            if found[1] != host:
                continue
        reader.take(number, text)
    return NcclLog(
        tuple(reader.ranks.values()),
        tuple(reader.hops.values()),
        tuple(reader.disabled.values()),
        reader.settings,
        reader.version,
        reader.is_rccl,
        reader.numa_balancing,
        reader.nvml_failure,
    )


def address_of_bus_id(bus_id: str) -> str | None:
    """The address of NCCL's bus id: "901d0" is 0000:90:1d.0. None where it is no address."""
    number = int(bus_id, 16)
    domain, bus, device, function = number >> 20, number >> 12 & 0xFF, number >> 4 & 0xFF, number & 0xF
    if device > 0x1F or function > 7 or domain >> 32:
        return None
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function}"
