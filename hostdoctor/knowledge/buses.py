"""Bridges, host bridges and link rates."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Literal

import msgspec

from hostdoctor.knowledge.read import KernelPair, in_range, presence, read_table

OnBoardRole = Literal["upstream", "downstream", "single"]


class OnBoard(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A port of a card's own switch; "single" where one id is all that is known of that switch."""

    id: str
    role: OnBoardRole
    name: str
    source: tuple[str, ...]


class IdRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """PCI ids of one vendor from `first` to `last`, both included."""

    first: str
    last: str
    name: str
    source: tuple[str, ...]


class HostBridge(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of the kernel's list of host bridges that let peers through (drivers/pci/p2pdma.c).

    Attributes:
        id: of the first device on the root bus; "1ae0:*" is any device of the vendor.
        name: what it is.
        source: keys of sources.toml.
        same_host_bridge: allowed only where both devices lie below the same host bridge.
        present_in: kernel trees that list it, "6.12".
        absent_in: kernel trees that do not.
    """

    id: str
    name: str
    source: tuple[str, ...]
    same_host_bridge: bool = False
    present_in: tuple[str, ...] = ()
    absent_in: tuple[str, ...] = ()


class LinkRate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One PCI Express rate: GT/s, generation, and Mbit/s (10^6) of a lane in one direction after coding."""

    speed_gts: float
    generation: int
    mbits_per_lane: int
    source: tuple[str, ...]


class _Bridges(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    on_board: tuple[OnBoard, ...]
    chipset: tuple[IdRange, ...]
    cpu_port: tuple[IdRange, ...]
    switch: tuple[IdRange, ...]
    tunnel_root: tuple[IdRange, ...]
    tunnel_port: tuple[IdRange, ...]


class _HostBridges(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    whitelist: tuple[HostBridge, ...]
    old_root_port: tuple[IdRange, ...]


class _Links(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rate: tuple[LinkRate, ...]


@cache
def _bridges() -> _Bridges:
    return read_table("bridges", _Bridges)


@cache
def _host_bridges() -> _HostBridges:
    return read_table("host_bridges", _HostBridges)


def _name_in(ranges: tuple[IdRange, ...], id_: str) -> str:
    return next((entry.name for entry in ranges if in_range(id_, entry.first, entry.last)), "")


@cache
def _on_board() -> Mapping[str, OnBoardRole]:
    return {entry.id: entry.role for entry in _bridges().on_board}


def on_board_role(id_: str) -> OnBoardRole | Literal[""]:
    """The part a bridge plays in a card's own switch: "upstream", "downstream", "single", or "" for any other bridge.

    "single": one id is all that is known of that switch, so the port type in config space decides which port it is.
    """
    return _on_board().get(id_, "")


@lru_cache(maxsize=4096)
def chipset_name(id_: str) -> str:
    """The chipset a port belongs to ("AMD 600 series chipset"), or empty."""
    return _name_in(_bridges().chipset, id_)


def is_chipset(id_: str) -> bool:
    """Whether a port belongs to a chipset or its switch, so that everything below shares the chipset's uplink."""
    return bool(chipset_name(id_))


@lru_cache(maxsize=4096)
def cpu_port_name(id_: str) -> str:
    """The processor a root port belongs to, or empty where the id is not known as one."""
    return _name_in(_bridges().cpu_port, id_)


@lru_cache(maxsize=4096)
def external_switch_name(id_: str) -> str:
    """The switch a bridge belongs to ("PLX PEX 87xx (8 GT/s)"), or empty. Ask it of bridges only."""
    return _name_in(_bridges().switch, id_)


@lru_cache(maxsize=4096)
def tunnel_name(id_: str) -> str:
    """The port of Thunderbolt or USB4 that an id stands for, or empty."""
    return _name_in((*_bridges().tunnel_root, *_bridges().tunnel_port), id_)


def is_tunnel(lower: str, upper: str) -> bool:
    """Whether the link between two ports, by their ids, is no wire but runs through Thunderbolt or USB4."""
    return bool(_name_in(_bridges().tunnel_root, upper) or (tunnel_name(lower) and tunnel_name(upper)))


def is_known_bridge(id_: str) -> bool:
    """Whether some table says whose port it is."""
    return bool(on_board_role(id_) or chipset_name(id_) or cpu_port_name(id_) or external_switch_name(id_) or tunnel_name(id_))


def host_bridge_allowed(id_: str, kernel: KernelPair) -> tuple[HostBridge, bool | None] | None:
    """Whether a kernel lets peers cross this host bridge. AMD processors of family 17h and later need no entry.

    A kernel newer than the newest tree looked at counts as the newest, one older than the oldest as the oldest.

    Args:
        id_: of the first device on the root bus.
        kernel: major and minor, (6, 8).

    Returns:
        None where no tree lists the id. Otherwise the entry and True, False, or None: the kernel lies between a tree
        that lists it and one that does not.
    """
    any_id = f"{id_[:4]}:*"
    for entry in _host_bridges().whitelist:
        if entry.id in (id_, any_id):
            return entry, presence(kernel, entry.present_in, entry.absent_in)
    return None


def nvidia_old_root_port(id_: str) -> bool:
    """Whether NVIDIA's driver refuses P2P between GPUs below these root ports on different root buses."""
    return bool(_name_in(_host_bridges().old_root_port, id_))


@cache
def load_link_rates() -> Mapping[float, LinkRate]:
    """PCI Express rates, by GT/s."""
    return {rate.speed_gts: rate for rate in read_table("links", _Links).rate}


def lane_gbs(speed_gts: float) -> float | None:
    """GB/s (10^9) of one lane in one direction after coding; None for a rate that is none of PCI Express."""
    return link_gbs(speed_gts, 1)


def link_gbs(speed_gts: float, width: int) -> float | None:
    """GB/s (10^9) of a link in one direction after coding, not rounded; protocol overhead still comes off.

    Args:
        speed_gts: 2.5, 5, 8, 16, 32 or 64.
        width: lanes.
    """
    rate = load_link_rates().get(speed_gts)
    return None if rate is None else rate.mbits_per_lane * width / 8000
