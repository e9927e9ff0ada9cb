"""Puts the host's own files that were attached where they lie on that host, so that the readers of a tree find them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

from hostdoctor.evidence.memory import MemoryEvidence
from hostdoctor.parsers.paste import Part

# Parts that are a host's file, by the path where its readers look.
_PLACES = {
    "grub-default": "etc/default/grub",
    "grub-cfg": "boot/grub/grub.cfg",
    "bls-entry": "boot/loader/entries/attached-{number}.conf",
    "modprobe": "etc/modprobe.d/attached-{number}.conf",
}
_FILE = "file:"
# The names of PCI functions and root buses have colons as well.
_LISTED = re.compile(r"/(sys(?:/(?:(?:pci)?[0-9a-f]{4,8}:[0-9a-f]{2}(?::[0-9a-f]{2}\.[0-7])?|[^/:\s]+))+):(.*)")


def mount(parts: Iterable[Part], sources: tuple[str, ...]) -> MemoryEvidence:
    """The files among the parts; of two for one path the first stands."""
    files: dict[str, bytes] = {}
    names: dict[str, str] = {}
    for number, part in enumerate(parts):
        place = part.kind.removeprefix(_FILE) if part.kind.startswith(_FILE) else _PLACES.get(part.kind, "")
        path = place.format(number=number)
        if path and path not in files:
            files[path] = f"{part.text}\n".encode()
            names[path] = part.where()
        elif part.kind == "sysfs-listing":
            for path, data in listed_files(part).items():
                files.setdefault(path, data)
    return MemoryEvidence(files, sources, names)


def listed_files(part: Part) -> dict[str, bytes]:
    """The files of which "grep . FILES" prints each line behind the file's path."""
    files: dict[str, list[str]] = {}
    for line in part.lines:
        if match := _LISTED.match(line):
            files.setdefault(posixpath.normpath(match[1]), []).append(match[2].strip())
    return {path: "".join(f"{line}\n" for line in lines).encode() for path, lines in files.items()}
