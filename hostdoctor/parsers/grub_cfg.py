"""GRUB's own configuration: the words of a command, the menu entries of grub.cfg, and the variables of grubenv.

GRUB reads a line a second time after the shell has written it: it takes quotes and backslashes off, puts variables in, and
ends a command at ; or a line end (GRUB manual, 6.1 to 6.3; grub-core/script/yylex.l).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from hostdoctor.facts.boot_files import Parameter
from hostdoctor.parsers.cmdline import parse_command_line

_MOST_WORDS = 4096
_MOST_VARIABLES, _MOST_ENTRIES = 1000, 1000
_LONGEST_VALUE = 1 << 13  # a variable may hold another many times over
_LONGEST_LINE = 1 << 16
_PIECE = re.compile(
    r"""(?P<single>'[^']*'?)|(?P<double>"(?:[^"\\]|\\.)*"?)|\\(?P<escaped>.)|(?P<variable>\$(?:\w+|\{\w*\}?))|(?P<end>[;&|<>{}\n])"""
    r"""|(?P<blank>[ \t\r]+)|(?P<plain>[^'"\\$;&|<>{}\n \t\r]+)|(?P<other>[\\$])""",
    re.DOTALL,
)
_IN_DOUBLE = re.compile(r"\\(?P<escaped>[\"$\\])|(?P<variable>\$(?:\w+|\{\w*\}?))|(?P<plain>[^\\$]+|.)", re.DOTALL)
# The lines of grub.cfg that say something of kernels.
_LINE = re.compile(
    r"[ \t]*(?:### BEGIN (?P<section>\S+) ###|(?P<word>menuentry|linux(?:16|efi)?|initrd(?:16|efi)?|set|blscfg)\b(?P<rest>.*))"
)
_RECOVERY = frozenset(("single", "s", "S", "1", "recovery", "rescue", "emergency", "systemd.unit=rescue.target"))


class Menuentry(msgspec.Struct, frozen=True):
    """A menu entry with a kernel.

    Attributes:
        title: as the menu shows it.
        id: what --id gives, or empty.
        section: the script that made it, "/etc/grub.d/10_linux", or empty.
        line: the number of its `linux` line, from 1.
        kernel: the path on that line.
        initrds: the paths on its `initrd` line.
        arguments: the rest of it, before variables are put in.
    """

    title: str
    id: str
    section: str
    line: int
    kernel: str
    initrds: tuple[str, ...]
    arguments: str


class GrubCfg(msgspec.Struct, frozen=True):
    """A grub.cfg.

    Attributes:
        entries: those that start Linux, in order.
        variables: what plain `set` lines give; of several the last.
        blscfg: whether entries of the Boot Loader Specification are read.
    """

    entries: tuple[Menuentry, ...]
    variables: Mapping[str, str]
    blscfg: bool


def grub_words(text: str, variables: Mapping[str, str] | None = None) -> list[str]:
    """The words of a command as GRUB hands them over, up to the end of the command; unset variables are empty."""
    known = variables or {}
    words: list[str] = []
    current: str | None = None
    begun = False  # a word that is nothing but an unset variable so far has begun as well
    for match in _PIECE.finditer(text[:_LONGEST_LINE]):
        kind = match.lastgroup
        if kind in ("blank", "end") or len(words) > _MOST_WORDS or (current and len(current) > _LONGEST_LINE):
            if current is not None:
                words.append(current)
            current, begun = None, False
            if kind != "blank":
                return words[:_MOST_WORDS]
            continue
        piece = match.group()
        if kind == "plain" and not begun and piece.startswith("#"):
            return words
        begun = True
        if kind == "variable":
            # An unquoted variable is split into words: $kernelopts is a whole line.
            first, *more = known.get(piece.strip("${}"), "")[:_LONGEST_VALUE].split(" ") or [""]
            for each in more:
                words += [current + first] if current else [first] if first else []
                current, first = None, each
            current = (current or "") + first if current is not None or first else None
            continue
        current = (current or "") + _plain(kind or "", piece, match, known)
    return (words if current is None else [*words, current])[:_MOST_WORDS]


class RawWord(msgspec.Struct, frozen=True):
    """A word as it stands in a text that GRUB reads, and what GRUB hands over for it, with unset variables empty."""

    start: int
    end: int
    text: str
    word: str


def raw_words(text: str) -> list[RawWord] | None:
    """The words with their places; None where GRUB ends the command, or takes a quote for open, before the text ends.

    Whatever is written behind such a text does not get to the kernel.
    """
    found: list[RawWord] = []
    start: int | None = None
    for match in _PIECE.finditer(text):
        kind, piece = match.lastgroup, match.group()
        if kind in ("end", "other") or (kind == "plain" and start is None and piece.startswith("#")):
            return None
        open_ = (kind == "single" and (len(piece) < 2 or piece[-1] != "'")) or (
            kind == "double" and not re.fullmatch(r'"(?:[^"\\]|\\.)*"', piece, re.DOTALL)
        )
        if open_:
            return None
        if kind != "blank":
            start = match.start() if start is None else start
        elif start is not None:
            found.append(_raw_word(text, start, match.start()))
            start = None
    return found if start is None else [*found, _raw_word(text, start, len(text))]


def _raw_word(text: str, start: int, end: int) -> RawWord:
    return RawWord(start, end, text[start:end], " ".join(grub_words(text[start:end])))


def _plain(kind: str, piece: str, match: re.Match[str], known: Mapping[str, str]) -> str:
    if kind == "single":
        return piece[1:].removesuffix("'")
    if kind == "double":
        inner = piece[1:-1] if len(piece) > 1 and piece.endswith('"') else piece[1:]
        return _in_double(inner, known)
    if kind == "escaped":
        return "" if match["escaped"] == "\n" else match["escaped"]
    return piece


def _in_double(inner: str, known: Mapping[str, str]) -> str:
    """What stands in double quotes: variables are put in, and a backslash takes quotes, dollars and itself as they are."""
    found: list[str] = []
    length = 0
    for match in _IN_DOUBLE.finditer(inner):
        variable = match["variable"]
        text = known.get(variable.strip("${}"), "") if variable else match["escaped"] or match["plain"] or ""
        found.append(text)
        length += len(text)
        if length > _LONGEST_LINE:
            break
    return "".join(found)


def kernel_parameters(text: str, variables: Mapping[str, str] | None = None) -> tuple[Parameter, ...]:
    """The parameters that the kernel gets from the arguments of a `linux` command.

    GRUB puts words that hold blanks into double quotes (grub-core/lib/cmdline.c grub_create_loader_cmdline).
    """
    words = grub_words(text, variables)
    return parse_command_line(" ".join(f'"{word}"' if " " in word else word for word in words))[0]


def is_recovery(parameters: Iterable[Parameter]) -> bool:
    """Whether a kernel line starts a rescue system."""
    return any(parameter.text in _RECOVERY for parameter in parameters)


def parse_grub_cfg(text: str) -> GrubCfg:
    """The entries of a grub.cfg, line by line: conditions in it are not followed."""
    reader = _Reader()
    for number, line in enumerate(_lines(text), 1):
        if line is not None and (match := _LINE.match(line)):
            reader.read(number, match)
    return GrubCfg(tuple(reader.entries), reader.variables, reader.blscfg)


def _lines(text: str) -> Iterable[str | None]:
    """The lines; one that ends in a backslash together with those that continue it, which are None then."""
    held: list[str] = []
    waiting = 0
    for line in text.split("\n"):
        if line.endswith("\\") and len(held) < 100:
            held.append(line[:-1])
            waiting += 1
            continue
        yield "".join((*held, line))[:_LONGEST_LINE]
        yield from [None] * waiting
        held, waiting = [], 0
    if held:
        yield "".join(held)[:_LONGEST_LINE]


class _Reader:
    """What the lines so far said."""

    def __init__(self) -> None:
        self.entries: list[Menuentry] = []
        self.variables: dict[str, str] = {}
        self.blscfg = False
        self._section = self._title = self._id = ""

    def read(self, number: int, match: re.Match[str]) -> None:
        """One line that says something."""
        if match["section"]:
            self._section, self._title, self._id = match["section"], "", ""
            return
        word, rest = match["word"], match["rest"]
        if word == "blscfg":
            self.blscfg = True
        elif word == "set":
            name, _, value = rest.strip().partition("=")
            if name and not name.startswith("-") and len(self.variables) < _MOST_VARIABLES:
                self.variables[name] = " ".join(grub_words(value, self.variables))[:_LONGEST_VALUE]
        elif word == "menuentry":
            words = grub_words(rest, {"menuentry_id_option": "--id"})
            self._title = words[0] if words else ""
            self._id = words[words.index("--id") + 1] if "--id" in words[:-1] else ""
        elif word.startswith("linux"):
            kernel, arguments = (*rest.split(None, 1), "", "")[:2]
            if kernel and rest[0] in " \t" and len(self.entries) < _MOST_ENTRIES:
                self.entries.append(Menuentry(self._title, self._id, self._section, number, kernel, (), arguments))
        elif self.entries and not self.entries[-1].initrds:
            self.entries[-1] = msgspec.structs.replace(self.entries[-1], initrds=tuple(grub_words(rest)))


def parse_grubenv(text: str) -> dict[str, str]:
    """The variables of a grubenv, "name=value" lines with backslashes taken off (grub-core/lib/envblk.c)."""
    found = {}
    for line in text.split("\n"):
        name, equals, value = line.partition("=")
        if equals and not name.startswith("#"):
            found[name] = re.sub(r"\\(.)", r"\1", value)
    return found
