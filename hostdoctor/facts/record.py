"""A host's facts with where they come from, as a report carries them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from hostdoctor.facts.boot_files import Loader
from hostdoctor.facts.host import Host
from hostdoctor.facts.pci import Function
from hostdoctor.facts.unknown import Unknown, known
from hostdoctor.loaders import LOADERS

# As the kernel writes a function's address, or as a GPU is called that a tool knows by its number alone.
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]|GPU\d{1,6}")


class Record(msgspec.Struct, frozen=True):
    """What a scan read.

    Attributes:
        host: the facts.
        kind: of the evidence.
        sources: what the user named.
        unread: what was there and could not be read, with the reason.
        files: what was read.
        assumed: what was taken for granted.
        version: of the program that read it.
    """

    host: Host
    kind: Literal["live", "root", "capture", "attachments"]
    sources: tuple[str, ...]
    unread: tuple[tuple[str, str], ...] = ()
    files: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    version: str = ""


def contradiction(record: Record) -> str:
    """What facts say that no reader of a host would, so that nothing may be built on them; empty for sound ones."""
    host = record.host
    loader = host.boot_files.loader
    if isinstance(loader, Loader) and loader.name not in LOADERS:
        return "no boot loader is called so"
    return "" if isinstance(host.functions, Unknown) else _of_functions(host.functions)


def _of_functions(functions: Mapping[str, Function]) -> str:
    for address, function in functions.items():
        if address != function.address or not _ADDRESS.fullmatch(address):
            return "a function has no address that it can have"
        if not (0 <= function.vendor <= 0xFFFF and 0 <= function.device <= 0xFFFF and 0 <= function.class_code <= 0xFFFFFF):
            return "a function has ids that it cannot have"
    sound: set[str] = set()
    for address in functions:
        way: set[str] = set()
        above: str | None = address
        while above is not None and above in functions and above not in sound:
            if above in way:
                return "a function lies below itself"
            way.add(above)
            above = known(functions[above].parent, None)
        sound |= way
    return ""
