"""The options of pci= that clear ACS redirect on chosen functions, beside what stands on the kernel command line.

Of each option the kernel keeps the last list only, so there must be one. config_acs= is applied after disable_acs_redir= and
decides where both name a port (drivers/pci/pci.c pci_enable_acs).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from hostdoctor.facts.host import KernelVersion
from hostdoctor.facts.pci import Function
from hostdoctor.facts.unknown import Unknown

if TYPE_CHECKING:
    from hostdoctor.view import View

_CONFIG_ACS_SINCE = KernelVersion(6, 12)
_DISABLE, _CONFIG = "disable_acs_redir=", "config_acs="
_REDIRECT_FLAGS = (2, 3, 5)  # of an entry of config_acs=, numbered as in the control register
_ADDRESS = re.compile(r"(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})\.([0-7])")
_HEX = re.compile(r"[0-9a-fA-F]{1,4}")


class Option(msgspec.Struct, frozen=True):
    """One option of pci=.

    Attributes:
        text: "disable_acs_redir=0000:40:01.1;0000:80:01.1".
        replaces: the options on the command line whose place it takes.
    """

    text: str
    replaces: tuple[str, ...] = ()

    @property
    def changes_nothing(self) -> bool:
        """Whether it stands on the command line already, and alone."""
        name, _, entries = self.text.partition("=")
        return len(self.replaces) == 1 and _entries(self.replaces) == entries.split(";") and self.replaces[0].startswith(name)


def knows_config_acs(view: View) -> bool:
    """Whether the running kernel knows config_acs=."""
    version = view.host.boot.version
    return not isinstance(version, Unknown) and version >= _CONFIG_ACS_SINCE


def given(view: View) -> list[str]:
    """What of this is on the command line, as it stands there."""
    return _given(view, _DISABLE) + _given(view, _CONFIG)


def clearing(view: View, redirecting: Sequence[Function]) -> Option:
    """The option that clears redirect on these functions and keeps what the command line says of others."""
    if knows_config_acs(view) and (lists := _given(view, _CONFIG)):
        return Option(f"{_CONFIG}{';'.join(_merged_config(_entries(lists), redirecting))}", tuple(lists))
    lists = _given(view, _DISABLE)
    return Option(f"{_DISABLE}{';'.join(_merged(_entries(lists), redirecting))}", tuple(lists))


def _given(view: View, option: str) -> list[str]:
    """Each list of that option of pci= on the command line, as it stands there."""
    values = [parameter.value or "" for parameter in view.host.boot.parameters if parameter.key == "pci"]
    return [part for value in values for part in value.split(",") if part.startswith(option)]


def _entries(lists: Sequence[str]) -> list[str]:
    """The entries of all lists in one, each once."""
    split = (each.partition("=")[2].split(";") for each in lists)
    return list(dict.fromkeys(entry.strip() for entries in split for entry in entries if entry.strip()))


def _merged(entries: list[str], redirecting: Sequence[Function]) -> list[str]:
    missing = [each.address for each in redirecting if not any(_names(entry, each) for entry in entries)]
    return entries + missing


def _merged_config(entries: list[str], redirecting: Sequence[Function]) -> list[str]:
    """The entries with the redirect bits of these functions off, and theirs first: the kernel takes the first that fits."""
    ours, others = [], list(entries)
    for function in redirecting:
        entry = next((entry for entry in entries if _names(entry.rpartition("@")[2], function)), "")
        flags, _, device = entry.rpartition("@")
        cleared = "".join("0" if n in _REDIRECT_FLAGS else flag for n, flag in _flags(flags))
        if entry in others and _ADDRESS.fullmatch(device):
            others.remove(entry)
        ours.append(f"{cleared}@{device if _ADDRESS.fullmatch(device) else function.address}")
    return ours + others


def _flags(flags: str) -> list[tuple[int, str]]:
    """Each flag of an entry of config_acs= with the number of its bit; the last one is bit 0."""
    padded = flags.rjust(max(_REDIRECT_FLAGS) + 1, "x")
    return [(len(padded) - 1 - n, flag) for n, flag in enumerate(padded)]


def _names(device: str, function: Function) -> bool:
    """Whether a device of the command line is this function (drivers/pci/pci.c pci_dev_str_match)."""
    if found := _ADDRESS.fullmatch(device):
        domain, bus, slot, number = (int(part or "0", 16) for part in found.groups())
        return f"{domain:04x}:{bus:02x}:{slot:02x}.{number}" == function.address
    kind, *ids = device.split(":")
    has = (function.vendor, function.device, function.subsystem_vendor, function.subsystem_device)
    if kind != "pci" or len(ids) not in (2, 4) or not all(_HEX.fullmatch(each) for each in ids):
        return False
    return all(int(wanted, 16) in (0, value) for wanted, value in zip(ids, has, strict=False))
