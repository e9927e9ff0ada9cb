"""Remedies and sources."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import msgspec

from hostdoctor.knowledge.read import read_table


class Remedy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to do about a finding, in words that fit every host.

    Attributes:
        id: "firmware-mmio-below-dma-limit".
        title: one line.
        steps: one to four sentences, in order.
        lasting: whether it survives a restart.
        source: keys of sources.toml.
    """

    id: str
    title: str
    steps: tuple[str, ...]
    lasting: bool
    source: tuple[str, ...]


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An authority: its title, and where to find it (repository, path, version)."""

    title: str
    where: str


class _Remedies(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    remedy: tuple[Remedy, ...]


@cache
def load_remedies() -> Mapping[str, Remedy]:
    """All remedies, by id, in the order of the file."""
    return {remedy.id: remedy for remedy in read_table("remedies", _Remedies).remedy}


@cache
def load_sources() -> Mapping[str, Source]:
    """All sources, by key."""
    return read_table("sources", dict[str, Source])
