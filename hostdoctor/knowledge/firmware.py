"""Firmware setup menus: which boards have which, and how to set options without the menu."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal

import msgspec

from hostdoctor.knowledge.read import read_table

Means = Literal["switch", "base", "limit", "per-bus", "size"]
Kind = Literal["server", "workstation", "client", "portable", "any"]
Confidence = Literal["certain", "likely", "possible"]


class Setting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a setting is, whoever makes the board.

    Attributes:
        id: "mmio-base".
        title: what it sets, in words.
        name: what to call it where the board's own name for it is not known.
        means: how its choices are read.
        path: where to look for it where the board's own menus are not known.
        synonyms: names that boards give it.
        affects: what else changes with it, in sentences.
        checks: ids of checks that tell afterwards whether it worked.
        look: the file to look at, and what it must show.
        confidence: of name and path.
        source: keys of sources.toml.
        target: of a switch, what to choose.
    """

    id: str
    title: str
    name: str
    means: Means
    path: str
    synonyms: tuple[str, ...]
    affects: tuple[str, ...]
    checks: tuple[str, ...]
    look: str
    confidence: Confidence
    source: tuple[str, ...]
    target: str = ""


class Family(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Boards whose menus are alike; what is empty fits any host, patterns are those of fnmatch in lower case.

    Attributes:
        id: "supermicro-x11".
        title: what it is called in a guide.
        kind: what kind of computer.
        enter: how to get into the setup.
        confidence: that a board with these names has these menus.
        source: keys of sources.toml.
        vendor: beginnings of the board's or system's vendor.
        board: patterns of the board's name.
        product: patterns of the system's product name.
        processor: patterns of the processor's name.
        exact: names of boards whose own screens were seen.
        forms: ids of ways to set options without the menu.
    """

    id: str
    title: str
    kind: Kind
    enter: str
    confidence: Confidence
    source: tuple[str, ...]
    vendor: tuple[str, ...] = ()
    board: tuple[str, ...] = ()
    product: tuple[str, ...] = ()
    processor: tuple[str, ...] = ()
    exact: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()


class Option(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one family calls a setting.

    Attributes:
        family: id of the family.
        setting: id of the setting.
        name: as the menu writes it.
        means: how its choices are read.
        path: the menu, "Advanced > PCIe/PCI/PnP Configuration".
        confidence: of name, path and choices.
        source: keys of sources.toml.
        choices: as the menu offers them.
        default: what it is set to by the maker.
        target: of a switch, what to choose.
        prefer: choices known to work.
        seen: on which firmware it was seen.
        note: what else to know.
        attribute: its name for Redfish and vendors' tools.
        group: the group that racadm keeps it in.
        absent: the family has no such option; `note` says what instead.
    """

    family: str
    setting: str
    name: str
    means: Means
    path: str
    confidence: Confidence
    source: tuple[str, ...]
    choices: tuple[str, ...] = ()
    default: str = ""
    target: str = ""
    prefer: tuple[str, ...] = ()
    seen: str = ""
    note: str = ""
    attribute: str = ""
    group: str = ""
    absent: bool = False


class Form(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to set options without the menu; commands have {attribute}, {dotted}, {group}, {name}, {value} for an option's.

    Attributes:
        id: "dell-racadm".
        title: the tool.
        needs: what must be there.
        read: commands that show what is set.
        change: commands for each option.
        finish: commands after them.
        note: what to know.
        confidence: that these commands do it.
        source: keys of sources.toml.
        body: the request body that goes with it: none, attributes alone, or with the time to apply them.
        by_name: whether the attributes' names must first be looked up by the menu's.
    """

    id: str
    title: str
    needs: str
    read: tuple[str, ...]
    change: tuple[str, ...]
    finish: tuple[str, ...]
    note: str
    confidence: Confidence
    source: tuple[str, ...]
    body: Literal["", "attributes", "on-reset"] = ""
    by_name: bool = False


class _Firmware(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    setting: tuple[Setting, ...]
    family: tuple[Family, ...]
    option: tuple[Option, ...]
    form: tuple[Form, ...]


@cache
def _table() -> _Firmware:
    return read_table("firmware", _Firmware)


@cache
def load_firmware_settings() -> Mapping[str, Setting]:
    """All settings, by id."""
    return {setting.id: setting for setting in _table().setting}


def load_firmware_families() -> tuple[Family, ...]:
    """All families, the most specific first."""
    return _table().family


@cache
def load_firmware_options() -> Mapping[tuple[str, str], Option]:
    """All options, by family and setting."""
    return {(option.family, option.setting): option for option in _table().option}


@cache
def load_firmware_forms() -> Mapping[str, Form]:
    """All ways to set options without the menu, by id."""
    return {form.id: form for form in _table().form}
