"""Entries of the Boot Loader Specification, type 1, and what grubby and bootctl print of entries.

Sources: UAPI group, The Boot Loader Specification, "Type #1 Boot Loader Specification Entries"; grubby's
grubby-bls print_info; systemd src/bootctl/bootctl-util.c, src/shared/bootspec.c show_boot_entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

_KEY = re.compile(r"[ \t]*([a-z][a-z0-9_-]{0,40})[ \t]+(\S.*)")
_GRUBBY = re.compile(r"""([a-z]+)=(?:"(.*)"|'(.*)'|(.*))\s*\Z""")
_BOOTCTL = re.compile(r"[ \t]*([A-Za-z][A-Za-z /.-]{0,40}): (.*\S)")
_MARKS = re.compile(r"\((default|selected|reported/absent)\)")


class BlsEntry(msgspec.Struct, frozen=True):
    """An entry; what it does not say is empty.

    Attributes:
        line: the number of the line with its options, from 1.
        options: of several lines together.
        marks: "default" and "selected", where bootctl says so.
    """

    title: str = ""
    id: str = ""
    version: str = ""
    linux: str = ""
    initrds: tuple[str, ...] = ()
    options: str = ""
    line: int = 1
    sort_key: str = ""
    marks: frozenset[str] = frozenset()


def parse_bls(text: str) -> BlsEntry:
    """One file; keys may occur more than once, and their values belong together then."""
    values: dict[str, list[str]] = {}
    line_of_options = 1
    for number, line in enumerate(text.split("\n"), 1):
        match = _KEY.match(line)
        if match is None:
            continue
        if match[1] == "options" and "options" not in values:
            line_of_options = number
        values.setdefault(match[1], []).append(match[2].rstrip())
    first = {key: found[0] for key, found in values.items()}
    return BlsEntry(
        title=first.get("title", ""),
        version=first.get("version", ""),
        linux=first.get("linux", first.get("efi", "")),
        initrds=tuple(" ".join(values.get("initrd", ())).split()),
        options=" ".join(values.get("options", ())),
        line=line_of_options,
        sort_key=first.get("sort-key", ""),
    )


def parse_grubby(text: str) -> tuple[BlsEntry, ...]:
    """The entries in the output of `grubby --info=ALL`; grubby prints root= on a line of its own."""
    return tuple(_grubby_entries(text))


def _grubby_entries(text: str) -> Iterator[BlsEntry]:
    values: dict[str, str] = {}
    line_of_args = 1
    for number, line in enumerate([*text.split("\n"), "index="], 1):
        match = _GRUBBY.match(line.strip())
        if match is None:
            continue
        key, value = match[1], match[2] or match[3] or match[4] or ""
        if key == "index":
            if "kernel" in values:
                yield _grubby_entry(values, line_of_args)
            values = {}
        elif key == "args":
            line_of_args = number
        values.setdefault(key, value)


def _grubby_entry(values: dict[str, str], line: int) -> BlsEntry:
    root = f"root={values['root']} " if values.get("root") else ""
    initrds = tuple(values.get("initrd", "").split())
    title, kernel, id_ = values.get("title", ""), values["kernel"], values.get("id", "")
    return BlsEntry(title, id_, "", kernel, initrds, root + values.get("args", ""), line)


class Bootctl(msgspec.Struct, frozen=True):
    """What `bootctl status` and `bootctl list` print.

    Attributes:
        product: the boot loader that is running, "systemd-boot 257", or empty.
        stub: the stub that started the kernel, or empty.
        entries: the entries of type 1.
    """

    product: str
    stub: str
    entries: tuple[BlsEntry, ...]


def parse_bootctl(text: str) -> Bootctl:
    """Reads "key: value" lines by the headings above them; an entry begins at its type."""
    product = stub = heading = ""
    entries: list[BlsEntry] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line[:1] not in (" ", "\t", "") and line.rstrip().endswith(":"):
            heading = line.strip()
            continue
        match = _BOOTCTL.match(line)
        if match is None:
            if entries and entries[-1].options and line.startswith(" " * 12) and line.strip():
                entries[-1] = msgspec.structs.replace(entries[-1], options=f"{entries[-1].options} {line.strip()}")
            continue
        key, value = match[1].lower(), match[2]
        if heading.startswith("Current Boot Loader") and key == "product":
            product = value
        elif heading.startswith("Current Stub") and key == "product":
            stub = value
        elif "Entr" in heading:
            _read_entry(entries, key, value, number)
    return Bootctl(product, stub, tuple(entry for entry in entries if entry.linux))


def _read_entry(entries: list[BlsEntry], key: str, value: str, number: int) -> None:
    """One "key: value" line of an entry."""
    if key == "type":
        entries.append(BlsEntry())
    if not entries:
        return
    entry, replace = entries[-1], msgspec.structs.replace
    if key == "title":
        entries[-1] = replace(entry, title=_MARKS.sub("", value).strip(), marks=frozenset(_MARKS.findall(value)))
    elif key in ("id", "version", "linux"):
        entries[-1] = replace(entry, **{key: value})
    elif key == "options":
        entries[-1] = replace(entry, options=value, line=number)
    elif key == "initrd":
        entries[-1] = replace(entry, initrds=(*entry.initrds, value))
