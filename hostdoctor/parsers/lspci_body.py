"""The lines that lspci prints below a function's header, sorted by what they are; nothing is decoded here.

What a line is, its first word says; lines without one of their own continue the one above, so that wrapped text keeps
together. Tabs, blanks and no indentation at all are alike. Source: pciutils lspci.c, ls-caps.c, ls-ecaps.c.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

# Headings of capabilities, and how they are called here; ECAP_REBAR was not decoded by pciutils before 3.6.
_SECTIONS = {
    "Express": "express",
    "Power Management": "power",
    "Access Control Services": "acs",
    "Advanced Error Reporting": "aer",
    "Physical Resizable BAR": "rebar",
    "Resizable BAR": "rebar",
    "Single Root I/O Virtualization": "sriov",
    "Downstream Port Containment": "dpc",
}
_HEADING = re.compile(r"\[([0-9a-f]{2,4})(?: v\d+)?\] ")
_SECTION = re.compile("|".join(map(re.escape, _SECTIONS)))
_HEX_ROW = re.compile(r"(?:[0-9a-f]{2} ){0,15}[0-9a-f]{2}\s*$")
_HEX_OFFSET = re.compile(r"[0-9a-f]{2,3}:")
_CUT = re.compile(r"\W*(?:\.\.\.|…|--\s*$|snip\b|truncated\b|cut\b|omitted\b|\d+ lines\b)", re.IGNORECASE)
_LONGEST_FIELD = 40  # lines
_MOST_BARS = 6


class Body:
    """What stands below one header.

    Attributes:
        fields: lines by their first word without its colon ("LnkSta"), with the lines that continue them.
        sections: the headings of capabilities that matter, by their short name ("express").
        regions: BARs, each with its indentation.
        windows: lines "... behind bridge: ...".
        resizable: lines "0: current size: ..." of the Physical Resizable BAR capability, with those that continue them.
        dump: rows of the hex dump, by their offset.
        power: "D0" and so on, or empty.
        has_capabilities: whether any heading of a capability within 256 bytes is shown.
        has_extended: whether one beyond them is.
        denied: whether lspci was not allowed to read the capabilities.
        header_7f: whether lspci stumbled over an unknown type of header.
        cut: whether something shows that lines are missing.
        is_over: whether another function begins, without a header.
        section: the capability that the last line belongs to.
    """

    __slots__ = (
        "cut", "denied", "dump", "fields", "has_capabilities", "has_extended", "header_7f", "is_over", "power", "regions",
        "resizable", "section", "sections", "windows",
    )  # fmt: skip

    def __init__(self) -> None:
        self.fields: dict[str, list[str]] = {}
        self.sections: dict[str, str] = {}
        self.regions: list[tuple[int, str]] = []
        self.windows: list[str] = []
        self.resizable: list[list[str]] = []
        self.dump: dict[int, bytes] = {}
        self.power = self.section = ""
        self.has_capabilities = self.has_extended = self.denied = self.header_7f = self.cut = self.is_over = False

    def text(self, name: str) -> str:
        """A field with all its lines; empty where it is not shown."""
        lines = self.fields.get(name)
        if not lines:
            return ""
        return lines[0] if len(lines) == 1 else " ".join(lines)

    @property
    def is_whole_of(self) -> int:
        """2 where these are all lines of -vv or -vvv, 1 of -v, 0 where somebody picked lines: nobody picks these two."""
        return 2 if "Control" in self.fields else 1 if "Flags" in self.fields else 0

    @property
    def config_space(self) -> bytes:
        """The hex dump from its start as far as it has no gap."""
        found = bytearray()
        while (row := self.dump.get(len(found))) is not None and row:
            found += row
        return bytes(found)


def read_body(lines: Sequence[str], start: int, end: int) -> Body:
    """The lines from `start` to before `end`, sorted."""
    body = Body()
    fields, name_of, taker_of = body.fields, _NAMES.get, _TAKERS.get
    current: list[str] | None = None  # the field that a line without a first word of its own continues
    for line in lines[start:end]:
        words = line.split(None, 1)
        if not words:
            continue
        word = words[0]
        if (name := name_of(word)) is not None:
            current = None
            if name not in fields:
                current = fields[name] = words[1:]
        elif (taker := taker_of(word)) is not None:
            current = taker(body, words[1] if len(words) == 2 else "", line)
            if body.is_over:
                break
        elif word[-1] == ":":
            current = None
            _hex_row(body, word, words[-1])
        elif line[0] not in "\t " and _CUT.match(line):
            body.cut = True
        elif current is not None and len(current) < _LONGEST_FIELD:
            current.append(line)
    return body


def _hex_row(body: Body, word: str, rest: str) -> None:
    if len(word) <= 4 and _HEX_OFFSET.match(word) and _HEX_ROW.match(rest):
        body.dump[int(word[:-1], 16)] = bytes.fromhex(rest)


def _control(body: Body, rest: str, _line: str) -> None:
    """The command register, not that of the slot; a second one is another function's, whose header is missing."""
    if rest.startswith("I/O"):
        if "Control" in body.fields:
            body.is_over = body.cut = True
        body.fields.setdefault("Control", [rest])


def _capability(body: Body, rest: str, _line: str) -> None:
    body.section = "other"
    if rest.startswith("<access denied>"):
        body.denied = True
        return
    heading = _HEADING.match(rest)
    if heading is None:
        return
    if heading.end(1) > 3:  # "[40" or "[148"
        body.has_extended = True
    else:
        body.has_capabilities = True
    if known := _SECTION.match(rest, heading.end()):
        body.section = _SECTIONS[known[0]]
        body.sections.setdefault(body.section, rest[heading.end() : heading.end() + 200])


def _status(body: Body, rest: str, _line: str) -> None:
    if rest.startswith("Cap"):
        body.fields.setdefault("Status", [rest])
    elif rest[:1] == "D" and rest[1:2] in ("0", "1", "2", "3") and not body.power:
        body.power = rest[:2]


def _flags(body: Body, rest: str, _line: str) -> None:
    if not body.section and not rest.startswith("PMEClk"):
        body.fields.setdefault("Flags", [rest])


def _region(body: Body, _rest: str, line: str) -> None:
    """A BAR; inside a capability it is one of the virtual functions'."""
    if not body.section:
        text = line.lstrip()
        body.regions.append((len(line) - len(text), text))


def _memory(body: Body, rest: str, line: str) -> None:
    if " behind bridge:" in line:
        body.windows.append(line.strip())
    elif " at " in line:
        _region(body, rest, line)


def _bar(body: Body, rest: str, _line: str) -> list[str] | None:
    if body.section != "rebar" or len(body.resizable) > _MOST_BARS:
        return None
    body.resizable.append([rest])
    return body.resizable[-1]


def _kernel(body: Body, rest: str, _line: str) -> None:
    what, colon, name = rest.partition(":")
    if colon and what in ("driver in use", "modules"):
        body.fields.setdefault(what.partition(" ")[0], [name.strip()])


def _numa(body: Body, rest: str, _line: str) -> None:
    if rest.startswith("node:"):
        body.fields.setdefault("NUMA", [rest[5:].strip()])


def _iommu(body: Body, rest: str, _line: str) -> None:
    if rest.startswith("group:"):
        body.fields.setdefault("IOMMU", [rest[6:].strip()])


def _initial(body: Body, rest: str, _line: str) -> None:
    if body.section == "sriov":
        body.fields.setdefault("Initial", [rest])


def _offset(body: Body, rest: str, _line: str) -> None:
    if body.section == "sriov" and rest.startswith("offset:"):
        body.fields.setdefault("VF", [rest])


def _unknown_header(body: Body, rest: str, _line: str) -> None:
    body.header_7f |= rest.startswith("Unknown header type 7f")


_FIELDS = (
    "Bus", "Subsystem", "DevCap", "DevCtl", "LnkCap", "LnkCtl", "LnkSta", "LnkCtl2", "AtomicOpsCap",
    "AtomicOpsCtl", "ACSCap", "ACSCtl", "UESta", "CESta", "DpcSta",
)  # fmt: skip
_NAMES = {f"{name}:": name for name in _FIELDS}
_TAKERS: dict[str, Callable[[Body, str, str], list[str] | None]] = {
    **dict.fromkeys(("Memory", "I/O", "Prefetchable", "Expansion", "[virtual]", "[enhanced]"), _memory),
    "Capabilities:": _capability,
    "Control:": _control,
    "Status:": _status,
    "Flags:": _flags,
    "Region": _region,
    "BAR": _bar,
    "Kernel": _kernel,
    "NUMA": _numa,
    "IOMMU": _iommu,
    "Initial": _initial,
    "VF": _offset,
    "!!!": _unknown_header,
}
