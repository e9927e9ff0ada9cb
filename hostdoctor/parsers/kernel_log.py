"""The lines of a kernel log as messages, whatever wrote them down: dmesg, journalctl, syslog, /dev/kmsg.

Sources: Linux kernel/printk/printk.c (print_prefix, info_print_ext_header), util-linux sys-utils/dmesg.c, systemd
src/shared/logs-show.c, RFC 3164 and RFC 3339 for the stamps of syslog.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import msgspec

from hostdoctor.parsers.paste import Part

_DAY_S = 86_400
_KERNEL_FACILITY = 0
# Stamps of one boot rise, but for a little between processors; what falls back further begins another boot.
_FALLS_BACK_S = 60.0
_STILL_BOOTING_S = 5.0

_CLOCK = r"(?P<clock>\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)"
_MONTH = r"(?P<month>[^\W\d]{2,6}\.?|\d{1,2}[^\W\d])"  # in any language: "Feb", "févr.", "2月"
_DATED = rf"{_MONTH},? {{1,2}}(?P<day>\d{{1,2}}),?(?: \d{{4}})? {_CLOCK}(?: \d{{4}})?"
_SINCE_BOOT = r"\[ *(?P<seconds>\d{1,9}\.\d{1,9})(?: *<[ +-]*\d{1,9}\.\d{1,9} *>)?\](?: ?\[ *[TC]\d[^\]]{0,30}\])? ?"

# What Markdown puts around a line, and Docker a time before it.
_MARKUP = re.compile(r"[-*|`] ?`?(?=[\[<])|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z (?=\[ *\d{1,9}\.\d|<\d)")
# What grep puts before a line, dmesg --decode before a stamp, and the raw buffer before all.
_BEFORE = re.compile(
    r"(?:[\w./+-]{1,120}:)?(?:\d{1,7}[:-])?(?=\[ *\d|<\d|[^\W\d]{2,6}\.? {1,2}\d{1,2} \d\d:|\d{4}-\d\d-\d\dT)"
    r"|(?P<facility>[a-z0-9]{3,8}) *:(?P<level>[a-z]{3,6}) *: ?(?=\[|\d{4}-)"
)
_TALOS = re.compile(r"(?:\S{1,64}: )?(?P<facility>[a-z0-9]{3,8}): +[a-z]{3,8}: +(?=\[\d{4}-)")  # talosctl dmesg
_PRIORITY = re.compile(r"<(?P<priority>\d{1,3})>")
_STAMP = re.compile(_SINCE_BOOT)
_KMSG = re.compile(r"(?P<priority>\d{1,3}),\d{1,12},(?P<microseconds>\d{1,16}),[^;]{1,80};")
_WALLS = (
    re.compile(rf"(?P<bracket>\[)(?:[^\W\d]{{1,6}}\.?,? +)?{_DATED}\] ?"),  # dmesg --ctime
    re.compile(rf"(?P<bracket>\[)(?P<iso>\d{{4}}-\d\d-\d\d)T{_CLOCK}Z\]:? ?"),  # talosctl dmesg
    re.compile(rf"(?:[^\W\d]{{1,6}}\.? )?{_DATED} "),  # syslog, journalctl, logread
    re.compile(
        r"(?:[^\W\d]{1,6}\.? )?(?P<iso>\d{4}-\d\d-\d\d)[T ]" + _CLOCK + r"(?P<zone>Z|[+-]\d\d:?\d\d| [A-Z]{3,5}| [+-]\d\d)? ?"
    ),
)
_RELATIVE = re.compile(r"\[ *\+(?P<delta>\d{1,9}\.\d{1,9})\] ?|\[[^\W\d]{3}[ \d]\d \d\d:\d\d\] ?")  # dmesg --reltime
_KERNEL = re.compile(r"(?:\S{1,255} ){0,2}?kernel(?:\[[^\]]{0,20}\])?: ?")
_OTHER_PROGRAM = re.compile(r"\S{1,255} [\w.@/-]{1,64}\[\d{1,9}\]: ")

_NEW_BOOT = re.compile(r"-- (?:Boot [0-9a-f]{32}|Reboot) --")
_REPEATED = re.compile(r"message repeated (?P<times>\d{1,9}) times: \[ ?(?P<text>.*)\]$")
_LAST_REPEATED = re.compile(r"last message repeated (?P<times>\d{1,9}) times")
FIRST_MESSAGE = re.compile(r"Linux version \d")


class Message(msgspec.Struct, frozen=True):
    """One message of the kernel.

    Attributes:
        seconds: since boot; where the log has wall clocks alone, since its first line; None where it has no stamps.
        text: without any prefix.
        line: the number of its line in the file, from 1.
        count: how often, where the log says "message repeated N times".
        boot: which boot of the log it belongs to, from 0.
    """

    seconds: float | None
    text: str
    line: int
    count: int = 1
    boot: int = 0


class Log(msgspec.Struct, frozen=True):
    """The kernel's messages in one file.

    Attributes:
        source: the file.
        messages: in the order of their lines.
        boots: how many boots it tells of.
        from_boot: whether its last boot is there from its first message on.
    """

    source: str
    messages: tuple[Message, ...]
    boots: int = 1
    from_boot: bool = False

    def where(self, message: Message) -> str:
        """Where a message stands, "dmesg.txt:120"."""
        return f"{self.source}:{message.line}"


def read_logs(parts: Sequence[Part]) -> list[Log]:
    """The log of each file among these parts, which stand in the order of their lines."""
    lines: dict[str, list[tuple[int, str]]] = {}
    for part in parts:
        lines.setdefault(part.source, []).extend(enumerate(part.lines, part.first_line))
    return [read_log(source, numbered) for source, numbered in lines.items()]


def read_log(source: str, lines: Iterable[tuple[int, str]]) -> Log:
    """The kernel's messages among the lines of one file, each given with its number; linear in their length."""
    entries = list(_entries(lines))
    since_boot = any(entry.seconds is not None for entry in entries)
    start = next((entry.wall_s for entry in entries if entry.wall_s is not None), 0.0)
    boots, messages = _Boots(), []
    for entry in entries:
        wall = None if since_boot or entry.wall_s is None else entry.wall_s - start
        seconds = entry.seconds if since_boot else wall
        if entry.text is None:
            boots.marked()
            continue
        boot = boots.number_of(entry.text, entry.seconds, wall)
        messages.append(Message(seconds, entry.text, entry.line, entry.count, boot))
    return Log(source, tuple(messages), boots.number + 1, boots.from_its_start)


class _Entry(msgspec.Struct):
    """A line without its prefix; no text for a line that only marks another boot."""

    line: int
    text: str | None
    seconds: float | None = None
    wall_s: float | None = None
    count: int = 1


class _Boots:
    """Counts the boots that a log tells of."""

    def __init__(self) -> None:
        self.number = 0
        self.from_its_start = False
        self._last_s = 0.0
        self._began_s: float | None = None  # by the wall clock, where the log has no other
        self._filled = False

    def marked(self) -> None:
        """The journal says that another boot begins."""
        if self._filled:
            self._next()

    def number_of(self, text: str, seconds: float | None, wall_s: float | None) -> int:
        """The boot that a message belongs to."""
        first = FIRST_MESSAGE.match(text) is not None
        falls = seconds is not None and seconds < self._last_s - _FALLS_BACK_S
        runs = self._last_s > _STILL_BOOTING_S or (
            wall_s is not None and self._began_s is not None and wall_s > self._began_s + _STILL_BOOTING_S
        )
        if falls or (first and (self.from_its_start or runs)):
            self._next()
        if self._began_s is None:
            self._began_s = wall_s
        self.from_its_start |= first
        self._last_s = max(self._last_s, seconds or 0.0)
        self._filled = True
        return self.number

    def _next(self) -> None:
        self.number += 1
        self.from_its_start, self._last_s, self._began_s, self._filled = False, 0.0, None, False


def _entries(lines: Iterable[tuple[int, str]]) -> Iterator[_Entry]:
    calendar = _Calendar()
    relative_s = 0.0
    last: _Entry | None = None
    for number, line in lines:
        if line.startswith("-- ") and _NEW_BOOT.match(line):
            yield _Entry(number, None)
            continue
        stamp = _STAMP.match(line)  # most lines begin with one
        entry = _stamped(number, line.rstrip(), stamp) if stamp else _entry(number, line, calendar)
        if entry is None or not entry.text:
            continue
        if entry.seconds is None and (match := _RELATIVE.match(entry.text)):
            relative_s += float(match["delta"] or 0)
            entry.text, entry.seconds = entry.text[match.end() :], relative_s
        if "message repeated" in entry.text:
            _count(entry, last)
        last = entry
        yield entry


def _count(entry: _Entry, last: _Entry | None) -> None:
    """Put in what was repeated, and how often."""
    if match := _REPEATED.match(entry.text or ""):
        entry.text, entry.count = _without_stamp(match["text"]), int(match["times"])
    elif (match := _LAST_REPEATED.match(entry.text or "")) and last is not None:
        entry.text, entry.count = last.text, int(match["times"])


def _entry(number: int, line: str, calendar: _Calendar) -> _Entry | None:
    """One line; None where it is another program's."""
    line, at = _without_markup(line.strip()), 0
    if match := _BEFORE.match(line) or _TALOS.match(line):
        if match["facility"] not in (None, "kern"):
            return None
        at = match.end()
    if match := _PRIORITY.match(line, at):
        if int(match["priority"]) >> 3 != _KERNEL_FACILITY:
            return None
        at = match.end()
    if match := _STAMP.match(line, at):
        return _stamped(number, line, match)
    if match := _KMSG.match(line, at):
        if int(match["priority"]) >> 3 != _KERNEL_FACILITY:
            return None
        return _Entry(number, line[match.end() :], int(match["microseconds"]) / 1e6)
    for pattern in _WALLS:
        if match := pattern.match(line, at):
            return _after_wall(number, line[match.end() :], match, calendar)
    return _after_stamp(number, line[at:], None)


def _without_markup(line: str) -> str:
    match = _MARKUP.match(line)
    return line[match.end() :].rstrip("`| ") if match else line


def _stamped(number: int, line: str, stamp: re.Match[str]) -> _Entry | None:
    return _after_stamp(number, line[stamp.end() :], float(stamp["seconds"]))


def _after_stamp(number: int, text: str, seconds: float | None) -> _Entry | None:
    if match := _KERNEL.match(text):
        text = text[match.end() :]
    elif _OTHER_PROGRAM.match(text):
        return None
    return _Entry(number, text, seconds)


def _after_wall(number: int, text: str, wall: re.Match[str], calendar: _Calendar) -> _Entry | None:
    """The rest of a line with a wall clock; only dmesg's own lines do without "kernel: "."""
    wall_s = calendar.seconds(wall.groupdict())
    by_dmesg = wall.groupdict().get("bracket") or ("," in wall["clock"] and wall.groupdict().get("iso"))
    if match := _KERNEL.match(text):
        text = text[match.end() :]
    elif not by_dmesg:
        return None
    stamp = _STAMP.match(text)
    seconds = float(stamp["seconds"]) if stamp else None
    return _Entry(number, text[stamp.end() if stamp else 0 :], seconds, wall_s)


def _without_stamp(text: str) -> str:
    stamp = _STAMP.match(text)
    return text[stamp.end() if stamp else 0 :]


class _Calendar:
    """Wall clocks as seconds from some moment; a year is not needed, and months may have any language's names."""

    def __init__(self) -> None:
        self._month = ""
        self._months = 0

    def seconds(self, wall: dict[str, str | None]) -> float:
        """Seconds of a stamp; each month after the first counts as 31 days, which is enough to tell bursts from streams."""
        hours, minutes, seconds = (wall["clock"] or "0:0:0").replace(",", ".").split(":")
        of_day = int(hours) * 3600 + int(minutes) * 60 + float(seconds)
        if iso := wall.get("iso"):
            try:
                return datetime.fromisoformat(iso).toordinal() * _DAY_S + of_day
            except ValueError:
                return of_day
        if wall["month"] != self._month:
            self._months += bool(self._month)
            self._month = wall["month"] or ""
        return (self._months * 31 + int(wall["day"] or 0)) * _DAY_S + of_day
