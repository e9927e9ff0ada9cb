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


class KernelChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a remedy changes on the kernel command line.

    Attributes:
        remedy: id of the remedy.
        parameter: what is added, "iommu=pt"; empty where it depends on the host.
        risk: what else it does.
        verify: how to see after the restart that it worked.
        source: keys of sources.toml.
        in_modprobe: whether the option of a module belongs into /etc/modprobe.d, where the host has that.
    """

    remedy: str
    parameter: str
    risk: str
    verify: str
    source: tuple[str, ...]
    in_modprobe: bool = False


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An authority: its title, and where to find it (repository, path, version)."""

    title: str
    where: str


class _Remedies(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    remedy: tuple[Remedy, ...]


class _KernelChanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    change: tuple[KernelChange, ...]


@cache
def load_kernel_changes() -> Mapping[str, KernelChange]:
    """What remedies change on the kernel command line, by the remedy's id."""
    return {change.remedy: change for change in read_table("kernel_changes", _KernelChanges).change}


@cache
def load_remedies() -> Mapping[str, Remedy]:
    """All remedies, by id, in the order of the file."""
    return {remedy.id: remedy for remedy in read_table("remedies", _Remedies).remedy}


@cache
def load_sources() -> Mapping[str, Source]:
    """All sources, by key."""
    return read_table("sources", dict[str, Source])
