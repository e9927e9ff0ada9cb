"""Kernel messages as events: what happened to which function, each kind once, counted.

What each message looks like is in knowledge/log_messages.toml, with the kernel function or document it comes from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

import msgspec

from hostdoctor import knowledge
from hostdoctor.facts.log import LogEvent
from hostdoctor.parsers.addresses import address_of
from hostdoctor.parsers.kernel_log import Log, Message

_LONGEST_TEXT = 300
_LONGEST_MESSAGE = 4096
_MOST_EVENTS = 5000  # of one log; each kind and function is one
_MOST_VALUES = 6
# What comes within ten seconds is one burst, as a rate limit of the kernel lets ten messages through in five.
_QUIET_S = 10.0
# A driver's message of several lines is written at once; what stands further away belongs to another.
_FOLLOWS_LINES = 12

_DEVICE = re.compile(
    r"(?P<driver>[a-z][\w-]{1,31}) (?P<address>[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7])(?::[\w:]{1,24})?"
    r"(?: [\w.@-]{1,15})?: ?"  # of a network card also its interface
)
_DRM = re.compile(r"\[drm(?::[^\]\s]{1,80}(?: \[\w{1,32}\])?)?\] ?(?:\*ERROR\* ?)?")
_WORD = re.compile(r"(?P<word>[A-Za-z][\w-]{1,31}(?: kfd)?)(?: [\w.-]{1,40})?: ?")
_HARDWARE_ERROR = re.compile(r"(?:\{\d{1,9}\})?\[Hardware Error\]: ?")
_PREFIXES = re.compile(
    r"(?:(?:amdgpu|nvidia|iommu ivhd\d+|\*ERROR\*|GT\d): ?|\[drm(?::[^\]\s]{1,80}(?: \[\w{1,32}\])?)?\] ?|\*ERROR\* ?| +)*"
)
_SUPPRESSED = re.compile(r"(?P<function>\w{3,64}): (?P<number>\d{1,9}) callbacks suppressed")
# Which events a function of the kernel had suppressed.
_SUPPRESSED_KINDS = (
    ("dmar_fault", "iommu-fault"),
    ("amd_iommu", "iommu-fault"),
    ("arm_smmu", "iommu-fault"),
    ("aer_", "aer-corrected"),
    ("pcie_", "aer-corrected"),
    ("gmc_v", "gpu-page-fault"),
    ("amdgpu_vm", "gpu-page-fault"),
)
# Whose words a speaker's are where no driver stands before an address.
_DRIVER_OF = {"nvrm": "nvidia", "nvidia": "nvidia", "amdgpu": "amdgpu", "kfd kfd": "amdgpu"}
_SEVERITIES = {"corrected": "aer-corrected", "recoverable": "aer-nonfatal", "fatal": "aer-fatal"}
_GONE = frozenset({"lost", "inaccessible"})
_OFF_THE_BUS = "79"
# A function that is enumerated again, or whose command register takes what a driver writes, is there.
_ALIVE = re.compile(r"\[[0-9a-f]{4}:[0-9a-f]{4}\] type 0[012] |enabling device \(")


class Spoken(NamedTuple):
    """A message taken apart: who speaks, for which function, and where the message itself begins."""

    speaker: str
    driver: str
    address: str
    at: int


def spoken(text: str) -> Spoken:
    """Take the speaker off a message; the speakers are those of log_messages.toml."""
    if match := _DEVICE.match(text):
        return Spoken("device", match["driver"], address_of(match["address"]) or "", _after_prefixes(text, match.end()))
    if match := _DRM.match(text):
        return Spoken("drm", "", "", _after_prefixes(text, match.end()))
    if match := _HARDWARE_ERROR.match(text):
        return Spoken("hardware-error", "", "", match.end())
    if match := _WORD.match(text):
        word = match["word"].lower()
        if word.startswith("nvidia-nvswitch"):
            word = "nvidia-nvswitch"
        elif word.startswith("arm-smmu"):
            word = "arm-smmu"
        return Spoken(word, "", "", _after_prefixes(text, match.end()))
    return Spoken("", "", "", 0)


def _after_prefixes(text: str, at: int) -> int:
    match = _PREFIXES.match(text, at)
    return match.end() if match else at


@cache
def _rules() -> Mapping[str, tuple[re.Pattern[str], tuple[tuple[knowledge.LogRule, re.Pattern[str]], ...]]]:
    """By speaker: all its messages as one pattern, which most lines fail, and each by itself."""
    by_speaker: dict[str, list[knowledge.LogRule]] = {}
    for rule in knowledge.load_log_rules():
        for speaker in rule.speakers:
            by_speaker.setdefault(speaker, []).append(rule)
    return {
        speaker: (
            re.compile("|".join(re.sub(r"\(\?P<\w+>", "(?:", rule.pattern) for rule in rules)),
            tuple((rule, re.compile(rule.pattern)) for rule in rules),
        )
        for speaker, rules in by_speaker.items()
    }


def _matched(text: str, said: Spoken) -> tuple[knowledge.LogRule, dict[str, str]] | None:
    """The rule that a message fits, and what it names."""
    found = _rules().get(said.speaker)
    if found is None or found[0].match(text, said.at) is None:
        return None
    for rule, pattern in found[1]:
        if match := pattern.match(text, said.at):
            return rule, {name: value for name, value in match.groupdict().items() if value is not None}
    return None


class Read(NamedTuple):
    """The events of one log, and the driver that spoke last for each function in its last boot."""

    events: list[LogEvent]
    drivers: dict[str, str]


def read_events(log: Log) -> Read:
    """The events among a log's messages; linear in their length."""
    collector = _Collector(log)
    for message in log.messages:
        collector.take(message)
    return Read(list(collector.events()), collector.drivers)


class _Event(msgspec.Struct):
    """An event while it is counted."""

    key: tuple[str, str, str, int]
    kind: str
    address: str
    text: str
    source: str
    boot: int
    count: int = 0
    bursts: int = 0
    first_s: float | None = None
    last_s: float | None = None
    back: bool = False
    values: dict[str, dict[str, None]] = msgspec.field(default_factory=dict)

    def seen(self, message: Message, number: int) -> None:
        """Once more."""
        seconds = message.seconds
        self.count += number
        if seconds is None:
            self.bursts = self.bursts or 1
        else:
            quiet = self.last_s is None or seconds > self.last_s + _QUIET_S
            self.bursts += quiet
            self.first_s = seconds if self.first_s is None else self.first_s
            self.last_s = max(seconds, self.last_s or 0.0)

    def named(self, details: Mapping[str, str]) -> None:
        """Keep what a message names, each value once."""
        for name, value in details.items():
            values = self.values.setdefault(name, {})
            if len(values) < _MOST_VALUES:
                values[value] = None


class _Collector:
    """Goes through the messages of one log once."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._last_boot = log.boots - 1
        self._events: dict[tuple[str, str, str, int], _Event] = {}
        self._latest: dict[tuple[str, str], _Event] = {}  # by kind, or the word before its first hyphen, and address
        self._named: tuple[str, int] = ("", 0)  # the GPU that NVIDIA's driver named last, and where
        self._firmware: dict[str, str] = {}
        self._gone: dict[str, list[_Event]] = {}
        self.drivers: dict[str, str] = {}

    def take(self, message: Message) -> None:
        """Count what a message tells."""
        text = message.text[:_LONGEST_MESSAGE]
        said = spoken(text)
        if said.address:
            if message.boot == self._last_boot:
                self.drivers[said.address] = said.driver
            if said.address in self._gone and _ALIVE.match(text, said.at):
                for event in self._gone.pop(said.address):
                    event.back = True
        if text.endswith("callbacks suppressed") and (match := _SUPPRESSED.match(text)):
            self._suppressed(match["function"], int(match["number"]))
            return
        found = _matched(text, said)
        if found is not None:
            self._apply(message, said, *found)

    def _apply(self, message: Message, said: Spoken, rule: knowledge.LogRule, details: dict[str, str]) -> None:
        address = said.address
        named = address_of(details.pop("address", "")) or ""
        if named:
            address = named
        if rule.of_last:
            address = self._named[0] if message.line <= self._named[1] + _FOLLOWS_LINES else ""
        if said.speaker == "nvrm" and named:
            self._named = (named, message.line)
        if driver := said.driver or _DRIVER_OF.get(said.speaker, ""):
            details["driver"] = driver
        if rule.adds_to:
            self._add(rule, address, details)
        elif rule.kind.startswith("cper-"):
            self._of_firmware(message, rule.kind, address, details)
        elif rule.kind != "gpu-named":
            self._count(message, rule.kind, address, details)

    def _add(self, rule: knowledge.LogRule, address: str, details: dict[str, str]) -> None:
        """Give the last event of a kind what a further line of the same message names."""
        event = self._latest.get((rule.adds_to, address)) or self._latest.get((rule.adds_to, ""))
        if event is None:
            return
        event.named(details)
        if address and not event.address:
            del self._events[event.key]
            event.address = address
            event.key = (event.kind, address, event.key[2], event.boot)
            self._events.setdefault(event.key, event)
            del self._latest[(rule.adds_to, "")]

    def _of_firmware(self, message: Message, kind: str, address: str, details: dict[str, str]) -> None:
        """One block that the firmware reports: severity, section, and then the function."""
        if kind == "cper-device":
            severity = _SEVERITIES.get(self._firmware.get("severity", ""), "")
            if severity and "PCIe" in self._firmware.get("section", ""):
                self._count(message, severity, address, {})
        else:
            self._firmware.update(details)

    def _count(self, message: Message, kind: str, address: str, details: dict[str, str]) -> None:
        number = int(details.pop("number", "1")[:9]) * message.count
        if number == 0:
            return
        key = (kind, address, details.get("code", ""), message.boot)
        event = self._events.get(key)
        if event is None:
            if len(self._events) >= _MOST_EVENTS:
                return
            event = _Event(key, kind, address, message.text[:_LONGEST_TEXT], self._log.where(message), message.boot)
            self._events[key] = event
        event.seen(message, number)
        event.named(details)
        if kind in _GONE or details.get("code") == _OFF_THE_BUS:
            event.back = False
            self._gone.setdefault(address, []).append(event)
        self._latest[(kind, address)] = self._latest[(kind, "")] = event
        self._latest[(kind.partition("-")[0], address)] = event

    def _suppressed(self, function: str, number: int) -> None:
        kind = next((kind for start, kind in _SUPPRESSED_KINDS if function.startswith(start)), "")
        event = self._latest.get((kind, ""))
        if event is not None:
            event.count += number
            event.named({"suppressed": "yes"})

    def events(self) -> Iterator[LogEvent]:
        """The events, in the order of their first messages."""
        for event in self._events.values():
            yield LogEvent(
                event.kind,
                event.address,
                event.text,
                event.source,
                event.count,
                event.first_s,
                event.last_s,
                {name: ", ".join(values) for name, values in event.values.items()},
                max(event.bursts, 1),
                self._last_boot - event.boot,
                event.back,
            )


def joined(reads: Iterable[Read]) -> Read:
    """The events of several logs, which can tell of the same hours: of two that agree, the one that counts more stands."""
    events: dict[tuple[str, str, str, int], LogEvent] = {}
    drivers: dict[str, str] = {}
    for read in reads:
        drivers.update(read.drivers)
        for event in read.events:
            key = (event.kind, event.address, event.details.get("code", ""), event.boots_ago)
            if key not in events or events[key].count < event.count:
                events[key] = event
    return Read(list(events.values()), drivers)
