"""Takes a paste apart: cleans its lines, and finds the outputs in it.

Pastes come with Markdown fences, prompts, quotes, diff prefixes, terminal escapes and more than one output in a file. Each
part keeps the number of its first line, so that evidence can say where it stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from hostdoctor.parsers.formats import Format, of_command, recogniser

# CSI, OSC and other escape sequences (ECMA-48), in their seven and eight bit forms.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[PX^_][^\x1b\n]*(?:\x1b\\)?"
    r"|\x1b[ -/]*[0-~]|\x9b[0-?]*[ -/]*[@-~]"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ASCII_CONTROLS = bytes(code for code in range(0x80) if _CONTROLS.match(chr(code)))
# What web pages make of signs, and put around what is code. In XML the signs are its own matter.
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&#x27;": "'", "&nbsp;": " ", "&amp;": "&"}
_ENTITY = re.compile("|".join(_ENTITIES))
_XML = re.compile(r"^[ \t]{0,20}<(?:\?xml|nvidia_smi_log|system|topology)\b", re.MULTILINE)
_CODE_TAGS = re.compile(
    r"^[ \t]{0,8}(?:</?(?:pre|code)(?: [^>\n]{0,100})?>|\[/?code\])+|(?:</(?:pre|code)>|\[/code\])+$", re.MULTILINE
)
_TAGS = ("<pre", "code>", "[code]")  # each search takes time in a long text
_PROMPT = re.compile(
    r"(?:\([\w.-]+\) ?)?(?:\[?[\w.-]+@[\w.-]+[ :][^\]$#%\n]{0,80}\]?[$#%>] {0,3}|[$#] |root@\S+#|❯|➜) ?(?P<command>\S.*)?$"
)
_FENCE = re.compile(r"\s{0,3}(?:```|~~~)")
_SECTION = re.compile(
    r"={3,} ?(Section: \S[^=]{0,80}?) *={3,}|(Section: (?:[A-Z]|dmesg)[\w ]{0,60} logs)\s*$"
)  # rocm_techsupport.sh
# Between the sections of nvidia-bug-report.log, and above each of its files.
_RULE = re.compile(r"_{30,}\s*$|\*\*\* (?:ls: |/)")
# A command that people write above its output without a prompt.
_BARE_COMMAND = re.compile(
    r"[\s#*`]{0,8}(?:sudo )?(?:/[\w./-]{1,60}/)?(?P<command>nvidia-smi(?: (?:-|topo\b|nvlink\b)[\w ,.=-]{0,300})?)[`: ]{0,3}$"
)
_QUOTED = re.compile(r">+ ?")
_DIFFED = re.compile(r"[-+ ](?![-+]{2})")
_LONGEST_LINE = 16_384  # what is longer is no line of any format that is read by lines


class Part(msgspec.Struct, frozen=True):
    """One output, or what nothing recognised.

    Attributes:
        kind: of formats.FORMATS; empty for what no format took.
        source: the name of the file it was found in.
        first_line: the number of its first line there, from 1.
        lines: without line ends, escapes and prefixes that the paste added.
        command: the command that a prompt above shows, or empty.
        block: how many fences, prompts and section titles stand above it in the file: what one command printed has one number.
    """

    kind: str
    source: str
    first_line: int
    lines: tuple[str, ...]
    command: str = ""
    block: int = 0

    def where(self, line: int = 0) -> str:
        """Where a line of it stands, "dmesg.txt:120"; `line` counts from 0."""
        return f"{self.source}:{self.first_line + line}"

    @property
    def text(self) -> str:
        """All of it."""
        return "\n".join(self.lines)


def clean(text: str) -> str:
    """Without escape sequences, control characters and foreign line ends; the number of lines stays."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n" if "\n" not in text else "")
    if "\x1b" in text or "\x9b" in text:
        text = _ESCAPES.sub("", text)
    if "\u00a0" in text:
        text = text.replace("\u00a0", " ")
    if text.isascii():  # ten times as fast
        return text.encode().translate(None, _ASCII_CONTROLS).decode()
    return _CONTROLS.sub("", text)


def split(text: str, source: str) -> list[Part]:
    """The outputs in a text, in order; linear in its length."""
    cleaned = _without_web(clean(text).lstrip("\ufeff"))
    lines = cleaned.split("\n")
    if cleaned.startswith((">", "@@ ")) or "\n>" in cleaned or "\n@@ " in cleaned:
        lines = _without_prefixes(lines)
    return list(_Splitter(source, lines).parts())


def _without_web(text: str) -> str:
    """Without the marks of a web page; the number of lines stays."""
    if any(tag in text for tag in _TAGS):
        text = _CODE_TAGS.sub("", text)
    if "&" in text and _ENTITY.search(text) and not _XML.search(text):
        text = _ENTITY.sub(lambda found: _ENTITIES[found[0]], text)
    return text


def _without_prefixes(lines: list[str]) -> list[str]:
    """Without what quoting or a diff put before every line."""
    filled = [line for line in lines if line.strip()]
    if not filled:
        return lines
    if sum(line.startswith(">") for line in filled) * 5 >= len(filled) * 4:
        return [_QUOTED.sub("", line, count=1) for line in lines]
    if any(line.startswith("@@ ") for line in filled):
        return [_DIFFED.sub("", line, count=1) for line in lines]
    return lines


class _Splitter:
    """Goes through the lines once; at most one part is open."""

    def __init__(self, source: str, lines: list[str]) -> None:
        self._source, self._lines = source, lines
        self._format: Format | None = None
        self._start = 0
        self._command = ""
        self._block = 0

    def parts(self) -> Iterator[Part]:
        """The parts, in order."""
        recognise = recogniser()
        match, by_group = recognise.pattern.match, recognise.by_group
        for number, line in enumerate(self._lines):
            format_ = self._format
            if format_ is not None and format_.extent == "indented" and (not line or line[0] in "\t "):
                continue
            if not line or line.isspace():
                continue
            found = match(line) if len(line) <= _LONGEST_LINE else None
            if found is not None:
                new, is_start = by_group[found.lastgroup or ""]
                if self._goes_on(new, is_start):
                    continue
                yield from self._close(number)
                self._format, self._start = new, number
            elif boundary := self._boundary(line):
                yield from self._close(number)
                self._command = boundary.strip()
                self._block += 1
                self._format, self._start = of_command(self._command), number + 1
            elif format_ is not None and format_.extent == "line":
                yield from self._close(number)
                self._format, self._start = None, number
        yield from self._close(len(self._lines))

    def _goes_on(self, new: Format, is_start: bool) -> bool:
        """Whether a recognised line belongs to the part that is open."""
        open_ = self._format
        if open_ is None:
            return False
        if open_.extent in ("block", "body"):
            return not is_start or ((open_.extent == "body" or open_.gathers) and open_.kind == new.kind)
        return (open_.kind, open_.extent) == (new.kind, new.extent)

    def _boundary(self, line: str) -> str:
        """The command of a prompt, a section's title, a blank for what else parts outputs, or empty for any other line."""
        if _FENCE.match(line) or _RULE.match(line):
            return " "
        if section := _SECTION.match(line):
            return section[1] or section[2]
        prompt = _PROMPT.match(line) or _BARE_COMMAND.match(line)
        return "" if prompt is None else prompt["command"] or " "

    def _close(self, end: int) -> Iterator[Part]:
        lines = self._lines[self._start : end]
        while lines and not lines[-1].strip():
            lines.pop()
        if lines and any(map(str.strip, lines)):
            kind = self._format.kind if self._format else ""
            yield Part(kind, self._source, self._start + 1, tuple(lines), self._command, self._block)
            if self._format is not None:
                self._command = ""
