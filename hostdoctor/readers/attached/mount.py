"""Puts the host's own files that were attached where they lie on that host, so that the readers of a tree find them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hostdoctor.evidence.attached import Attachment
from hostdoctor.evidence.memory import MemoryEvidence
from hostdoctor.parsers.paste import Part, clean
from hostdoctor.readers.boot_loader import BOOTCTL, GRUBBY

# Parts that are a host's file, by the path where its readers look.
_PLACES = {
    "grub-default": "etc/default/grub",
    "grub-cfg": "boot/grub/grub.cfg",
    "bls-entry": "boot/loader/entries/attached-{number}.conf",
    "grubby": GRUBBY,
    "bootctl": BOOTCTL,
    "modprobe": "etc/modprobe.d/attached-{number}.conf",
}
_FILE = "file:"
# Paths that name what a file is, where its text alone does not: with / or with what people write for it in names.
_KNOWN = re.compile(
    r"(?:\A|.*[^a-z])(?:(?P<drop_in>etc[/_.-]default[/_.-]grub\.d[/_.-](?P<name>[\w.+-]+?\.cfg))"
    r"|(?P<grub>etc[/_.-]default[/_.-]grub)|(?P<kernel>etc[/_.-]kernel[/_.-]cmdline)"
    r"|(?P<uuids>etc[/_.-]kernel[/_.-]proxmox-boot-uuids)|(?P<proc>proc[/_.-]cmdline)"
    r"|(?P<cfg>boot[/_.-]grub(?P<two>2?)[/_.-]grub\.cfg)|(?P<env>boot[/_.-]grub2?[/_.-]grubenv)"
    r"|(?P<entry>loader[/_.-]entries[/_.-](?P<id>[\w.+-]+?)\.conf)|(?P<stub>etc[/_.-]kernelstub[/_.-]configuration)"
    r"|(?P<extlinux>extlinux\.conf)|(?P<loader>etc[/_.-]sysconfig[/_.-]bootloader))(?:\.(?:txt|log|conf))?\Z"
)
_PRINTS = re.compile(r"(?:sudo +)?(?:cat|head|less|more|grep(?: +-\w+)*(?: +(?:'[^']*'|\"[^\"]*\"|[^\s/]+))?) +(/\S+)\s*\Z")
_LONGEST_NAME = 300
_ENDS_STATEMENT = re.compile(r"[ \t]*(?:#?[ \t]*(?:export[ \t]+)?GRUB_[A-Z_]+\+?=|(?:fi|done|esac|\})[ \t;]*\Z)")


def _path(named: str) -> str:
    """The path on its host that a name tells of, or empty."""
    found = _KNOWN.match(named) if len(named) <= _LONGEST_NAME else None
    if found is None:
        return ""
    groups = {key: value for key, value in found.groupdict().items() if value is not None}
    for key, place in (
        ("drop_in", f"etc/default/grub.d/{groups.get('name')}"),
        ("grub", "etc/default/grub"),
        ("kernel", "etc/kernel/cmdline"),
        ("uuids", "etc/kernel/proxmox-boot-uuids"),
        ("proc", "proc/cmdline"),
        ("cfg", f"boot/grub{groups.get('two', '')}/grub.cfg"),
        ("env", "boot/grub/grubenv"),
        ("entry", f"boot/loader/entries/{groups.get('id')}.conf"),
        ("stub", "etc/kernelstub/configuration"),
        ("extlinux", "boot/extlinux/extlinux.conf"),
        ("loader", "etc/sysconfig/bootloader"),
    ):
        if key in groups:
            return place
    return ""


def place_of_file(file: Attachment) -> str:
    """Where a file lies on its host, by its own name; or empty."""
    return _path(file.path or file.name)


def place_of(part: Part) -> str:
    """Where a part lies on its host, by the command that printed it, else by the name of its file; or empty."""
    printed = _PRINTS.match(part.command) if len(part.command) <= _LONGEST_NAME else None
    return _path(printed[1]) if printed else ""


def _without_prose(lines: Sequence[str]) -> str:
    """A shell file without what people wrote below it, which the shell would take for commands."""
    last = max((number for number, line in enumerate(lines) if _ENDS_STATEMENT.match(line)), default=len(lines) - 1)
    goes_on = lines[last].endswith("\\") or any(sign in line for line in lines[last + 1 :] for sign in "\"'\\")
    return "\n".join(lines if goes_on else lines[: last + 1])


def mount(files: Iterable[Attachment], parts: Sequence[Part], sources: tuple[str, ...]) -> MemoryEvidence:
    """The host's files among what was attached; of two for one path the first stands.

    A file whose own name tells what it is lies there whole; else each part does, by its command or its kind.
    """
    found: dict[str, bytes] = {}
    names: dict[str, str] = {}
    whole = set()
    for file in files:
        path = place_of_file(file)
        if path:
            whole.add(file.name)
        if path and path not in found:
            found[path] = clean(file.text).lstrip("\ufeff").encode()
            names[path] = f"{file.name}:1"
    for number, part in enumerate(parts):
        if part.source in whole:
            continue
        kind = part.kind
        place = place_of(part) or (kind.removeprefix(_FILE) if kind.startswith(_FILE) else _PLACES.get(kind, ""))
        path = place.format(number=number)
        if path and path not in found:
            text = _without_prose(part.lines) if kind == "grub-default" else part.text
            found[path] = f"{text}\n".encode()
            names[path] = part.where()
    return MemoryEvidence(found, sources, names)
