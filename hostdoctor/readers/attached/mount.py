"""Puts the host's own files that were attached where they lie on that host, so that the readers of a tree find them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import dropwhile, takewhile

from hostdoctor.evidence.attached import Attachment
from hostdoctor.evidence.memory import MemoryEvidence
from hostdoctor.parsers.paste import Part
from hostdoctor.parsers.system_tools import dmidecode_files, lscpu_files, parameter_files, release_files, sysctl_files
from hostdoctor.readers.attached.boot_names import without_prose
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
# Files of one line, which mail programs may have wrapped: what stands below an empty line is somebody's words.
_OF_ONE_LINE = ("proc/cmdline", "etc/kernel/cmdline", "proc/sys/")
# The names of PCI functions and root buses have colons as well.
_LISTED = re.compile(r"/(sys(?:/(?:(?:pci)?[0-9a-f]{4,8}:[0-9a-f]{2}(?::[0-9a-f]{2}\.[0-7])?|[^/:\s]+))+):(.*)")
# Outputs of tools that say what a host's files say; those come first.
_TOOLS: dict[str, Callable[[Sequence[str]], dict[str, str]]] = {
    "uname": release_files,
    "file:proc/version": release_files,
    "sysctl": sysctl_files,
    "lscpu": lscpu_files,
    "dmidecode": dmidecode_files,
    "parameter-names": parameter_files,
}


def mount(parts: Sequence[Part], sources: tuple[str, ...], own: Mapping[str, Attachment] | None = None) -> MemoryEvidence:
    """The files among the parts, and those whose paths told where they lie; of two for one path the first stands."""
    files: dict[str, bytes] = {}
    names: dict[str, str] = {}
    for path, file in (own or {}).items():
        files[path], names[path] = file.text.encode(), file.name
        if path == "proc/version":
            for release, text in release_files(file.text.split("\n")).items():
                files.setdefault(release, text.encode())
                names.setdefault(release, file.name)
    for path, text, where in (*_of_parts(parts), *_of_tools(parts)):
        if path not in files:
            files[path], names[path] = f"{text}\n".encode(), where
    return MemoryEvidence(files, sources, names)


def _of_parts(parts: Iterable[Part]) -> Iterable[tuple[str, str, str]]:
    for number, part in enumerate(parts):
        place = part.kind.removeprefix(_FILE) if part.kind.startswith(_FILE) else _PLACES.get(part.kind, "")
        if place:
            yield place.format(number=number), _content(place, part), part.where()
        elif part.kind == "sysfs-listing":
            for path, text in listed_files(part).items():
                yield path, text, part.where()


def _content(place: str, part: Part) -> str:
    """What of a part is the file's."""
    if place.startswith("etc/default/grub"):
        return without_prose(part.lines)
    return _first_paragraph(part.lines) if place.startswith(_OF_ONE_LINE) else part.text


def _first_paragraph(lines: Sequence[str]) -> str:
    kept = dropwhile(lambda line: not line.strip(), lines)
    return "\n".join(takewhile(lambda line: line.strip(), kept))


def listed_files(part: Part) -> dict[str, str]:
    """The files of which "grep . FILES" prints each line behind the file's path."""
    files: dict[str, list[str]] = {}
    for line in part.lines:
        if match := _LISTED.match(line):
            files.setdefault(posixpath.normpath(match[1]), []).append(match[2].strip())
    return {path: "\n".join(lines) for path, lines in files.items()}


def _of_tools(parts: Iterable[Part]) -> Iterable[tuple[str, str, str]]:
    for part in parts:
        if part.kind in _TOOLS:
            for path, text in _TOOLS[part.kind](part.lines).items():
                yield path, text, part.where()
