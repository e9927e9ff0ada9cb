"""What copies reach over a link that is in order, and what tells direct copies from staged ones. Rates in GB/s (10^9)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Literal

import msgspec

from hostdoctor.knowledge.read import read_table

CopyPath = Literal["host", "switch", "root-complex"]
SignOf = Literal["both_ways", "latency_us", "gain"]


class Floor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Shares of the raw rate of the narrowest link: from `ok` on in order, below `failure` far below."""

    path: CopyPath
    ok: float
    failure: float
    source: tuple[str, ...]


class Sign(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a figure speaks for direct copies, and where for staged ones; between the two it tells nothing."""

    what: SignOf
    direct: float
    staged: float
    source: tuple[str, ...]


class RootComplex(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a processor forwards between GPUs at most, however wide their links; `name` matches the processor's name."""

    about: str
    name: str
    one_way_gbs: float
    source: tuple[str, ...]
    both_ways_gbs: float | None = None

    @property
    def sum_gbs(self) -> float:
        """Both ways together."""
        return 2 * self.one_way_gbs if self.both_ways_gbs is None else self.both_ways_gbs


class _Factor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    vendor: Literal["intel"]
    factor: float
    source: tuple[str, ...]


class _NvLinkRate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    chip: str
    link_gbs: float
    source: tuple[str, ...]


class _XgmiFloor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    chip: str
    ok_gbs: float
    source: tuple[str, ...]


class _Bandwidth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    floor: tuple[Floor, ...]
    factor: tuple[_Factor, ...]
    root_complex: tuple[RootComplex, ...]
    inter_socket: tuple[RootComplex, ...]
    sign: tuple[Sign, ...]
    nvlink: tuple[_NvLinkRate, ...]
    xgmi: tuple[_XgmiFloor, ...]


@cache
def _table() -> _Bandwidth:
    return read_table("bandwidth", _Bandwidth)


@cache
def load_copy_floors() -> Mapping[CopyPath, Floor]:
    """The shares that count, by the path of a copy."""
    return {floor.path: floor for floor in _table().floor}


@cache
def load_staging_signs() -> Mapping[SignOf, Sign]:
    """What tells direct from staged, by the figure."""
    return {sign.what: sign for sign in _table().sign}


def intel_factor() -> float:
    """By what a rate through an Intel root complex is multiplied."""
    return next(entry.factor for entry in _table().factor if entry.vendor == "intel")


def root_complex_limit(cpu_name: str) -> RootComplex | None:
    """The limit of a processor that has one below its links' rate; of an unknown processor the lowest known."""
    entries = _table().root_complex
    if not cpu_name:
        return min(entries, key=lambda entry: entry.one_way_gbs)
    return next((entry for entry in entries if re.search(entry.name, cpu_name)), None)


def inter_socket_limit(cpu_name: str) -> RootComplex:
    """What passes between two sockets of that processor."""
    return next(entry for entry in _table().inter_socket if re.search(entry.name, cpu_name))


def nvlink_gbs(chip: str) -> float | None:
    """One NVLink of a chip one way; None where that is not known."""
    return next((entry.link_gbs for entry in _table().nvlink if entry.chip == chip), None)


def xgmi_floor_gbs(chip: str) -> float | None:
    """The rate from which a direct XGMI link of a chip is in order; None where that is not known."""
    return next((entry.ok_gbs for entry in _table().xgmi if entry.chip == chip), None)
