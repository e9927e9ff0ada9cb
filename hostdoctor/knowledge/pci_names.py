"""What pci.ids calls vendors, classes and devices: from the names that lspci prints back to ids.

A name may stand for several ids. Then no id is claimed; where the tables say the same of all of them, one of them may
stand for the rest when the tables are asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from hostdoctor.knowledge import buses, gpus
from hostdoctor.knowledge.read import read_table

_NOT_COMPARED: dict[str, Any] = {"id": "", "name": "", "note": "", "others": "", "source": ()}


class _Classes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    codes: Mapping[str, str]
    source: tuple[str, ...]


class _Vendor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    names: tuple[str, ...]
    source: tuple[str, ...]
    devices: Mapping[str, str] = {}


class _Names(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    class_: tuple[_Classes, ...] = msgspec.field(name="class")
    vendor: tuple[_Vendor, ...]


@cache
def _names() -> _Names:
    return read_table("pci_names", _Names)


@cache
def _devices() -> Mapping[str, Mapping[str, str]]:
    return {vendor.id: vendor.devices for vendor in _names().vendor}


@cache
def _vendors() -> Mapping[str, Sequence[tuple[str, tuple[str, ...]]]]:
    """By the first word of a vendor's name: its whole name, the longest first, and the ids it stands for."""
    ids: dict[str, tuple[str, ...]] = {}
    for vendor in _names().vendor:
        for name in vendor.names:
            ids[name] = (*ids.get(name, ()), vendor.id)
    found: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for name in sorted(ids, key=len, reverse=True):
        found.setdefault(name.split(" ", 1)[0], []).append((name, ids[name]))
    return found


@cache
def _class_codes() -> Mapping[str, int]:
    return {name: int(code, 16) for entry in _names().class_ for name, code in entry.codes.items()}


def class_named(name: str) -> int | None:
    """Class and subclass of a name, "VGA compatible controller" is 0x0300; None where it is in no table."""
    return _class_codes().get(name)


def vendors_named(text: str) -> tuple[tuple[str, ...], str]:
    """The ids of the vendor that a text begins with, and what follows its name; no id and all of it where none is known."""
    for name, ids in _vendors().get(text.split(" ", 1)[0], ()):
        if text == name or text.startswith(f"{name} "):
            return ids, text[len(name) + 1 :]
    return (), text


def ids_named(vendor: str, name: str) -> tuple[str, ...]:
    """Every id ("1002:73bf") of a vendor ("1002") that has that name."""
    return tuple(f"{vendor}:{device}" for device in _devices().get(vendor, {}).get(name, "").split())


def tables_agree(ids: Sequence[str]) -> bool:
    """Whether the tables know these ids and say the same of all of them."""
    said = {_said_of(id_) for id_ in ids}
    return len(said) == 1 and any(said.pop())


def _said_of(id_: str) -> tuple[object, ...]:
    """Everything the tables say of an id but its name; all of it empty or false where they do not know it."""
    return (
        tuple(msgspec.structs.replace(gpu, **_NOT_COMPARED) for gpu in gpus.gpus_by_id(id_)),
        buses.chipset_name(id_) or buses.cpu_port_name(id_) or buses.external_switch_name(id_) or buses.tunnel_name(id_),
        buses.on_board_role(id_),
        gpus.is_integrated(id_),
        gpus.is_integrated("", id_),
        gpus.is_intel_discrete(id_),
        buses.nvidia_old_root_port(id_),
        str(buses.host_bridge_allowed(id_, (6, 12)) or ""),
    )


def is_known_gpu(id_: str) -> bool:
    """Whether the tables know it as a GPU, on a card or in a processor."""
    return bool(gpus.gpus_by_id(id_)) or gpus.is_integrated(id_) or gpus.is_intel_discrete(id_)
