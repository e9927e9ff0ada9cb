"""Options of kernel modules in files of /etc/modprobe.d (modprobe.d(5); kmod libkmod-config.c kmod_config_parse)."""

from __future__ import annotations

import re

import msgspec

from hostdoctor.facts.boot_files import Parameter
from hostdoctor.parsers.cmdline import parse_command_line

_LINE = re.compile(r"(?:[^\n\\]|\\[\s\S]|\\\Z)*(?:\n|\Z)")  # a backslash before a line feed joins two lines
_OPTIONS = re.compile(r"[ \t]*options[ \t]+(\S+)[ \t]+(.*)", re.DOTALL)
_MOST_TEXT = 1 << 20


class ModuleOptions(msgspec.Struct, frozen=True):
    """One line "options MODULE OPTION...", with those that are joined to it.

    Attributes:
        module: with _ for -, as kmod compares names.
        options: in order, split as the kernel splits them.
        line: its number, from 1.
        start: where its text begins in the file.
        text: the line as it stands, with its line feed where it has one.
    """

    module: str
    options: tuple[Parameter, ...]
    line: int
    start: int
    text: str


def parse_modprobe(text: str) -> tuple[ModuleOptions, ...]:
    """The lines with options, in order; everything else (aliases, blacklists, comments) is passed over."""
    found: list[ModuleOptions] = []
    line = 1
    for match in _LINE.finditer(text[:_MOST_TEXT]):
        joined = match.group().replace("\\\n", "").rstrip("\n")
        if options := _OPTIONS.fullmatch(joined):
            parameters = parse_command_line(options[2])[0]
            found.append(ModuleOptions(options[1].replace("-", "_"), parameters, line, match.start(), match.group()))
        line += match.group().count("\n")
    return tuple(found)
