"""Files that hold a kernel line and nothing else: /etc/kernel/cmdline, cmdline.txt, kernel-params, and extlinux.conf."""

from __future__ import annotations

import re

import msgspec

_EXTLINUX = re.compile(r"[ \t]*(default|label|linux|kernel|append|initrd)[ \t]+(\S.*)", re.IGNORECASE)


class Line(msgspec.Struct, frozen=True):
    """One line with something in it, by its number from 1."""

    number: int
    text: str


class CommandLineFile(msgspec.Struct, frozen=True):
    """A file with a kernel line.

    Programs read it differently: proxmox-boot-tool takes the first line alone, kernel-install joins all lines, and
    mkinitcpio leaves out those that begin with #.

    Attributes:
        lines: those with something in them, comments left out.
        comments: those that begin with #.
        begins_with_comment: whether the very first line is one.
    """

    lines: tuple[Line, ...]
    comments: tuple[Line, ...]
    begins_with_comment: bool


def parse_command_line_file(text: str) -> CommandLineFile:
    """The lines of the file."""
    filled = [Line(number, line.strip()) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    comments = tuple(line for line in filled if line.text.startswith("#"))
    return CommandLineFile(
        tuple(line for line in filled if not line.text.startswith("#")), comments, bool(filled) and filled[0] in comments
    )


class Label(msgspec.Struct, frozen=True):
    """One entry of an extlinux.conf; `line` is that of its APPEND."""

    name: str
    kernel: str
    append: str
    line: int
    is_default: bool


def parse_extlinux(text: str) -> tuple[Label, ...]:
    """The labels of an extlinux.conf or syslinux.cfg with their APPEND lines; without DEFAULT the first is taken."""
    default = ""
    labels: list[Label] = []
    for number, line in enumerate(text.split("\n"), 1):
        match = _EXTLINUX.match(line)
        if match is None:
            continue
        key, value = match[1].lower(), match[2].rstrip()
        if key == "default":
            default = value
        elif key == "label":
            labels.append(Label(value, "", "", number, False))
        elif labels and key in ("linux", "kernel"):
            labels[-1] = msgspec.structs.replace(labels[-1], kernel=value)
        elif labels and key == "append":
            labels[-1] = msgspec.structs.replace(labels[-1], append=value, line=number)
    chosen = next((n for n, label in enumerate(labels) if label.name == default), 0)
    return tuple(msgspec.structs.replace(label, is_default=n == chosen) for n, label in enumerate(labels))
