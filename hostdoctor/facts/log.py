"""What the kernel's log tells: events, each kind and function once, counted."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec


class LogEvent(msgspec.Struct, frozen=True):
    """One kind of message about one function, however often it was logged.

    Attributes:
        kind: stable name of what happened, "aer-correctable", "iommu-fault", "xid", "bar-no-space" ...
        address: the function it is about, with its domain; empty where the message names none.
        text: the first such message, without time stamp and prefix.
        source: where that message stands, "dmesg.txt:120".
        count: how often; messages that say "N callbacks suppressed" or "repeated N times" count as N.
        first_s: seconds since boot of the first; None where the log has no such stamps.
        last_s: of the last.
        details: what the message names beside, by kind: {"code": "79"}, {"bar": "0", "size": "0x10000000"}; "driver" is
            who spoke. Where several messages differ, their values stand in a row, "RxErr, BadTLP".
        bursts: how often there was quiet before it, the first time included; 1 where the log has no stamps.
        boots_ago: how many boots before the last one of its log.
        back: whether the function showed signs of life later in its log.
    """

    kind: str
    address: str
    text: str
    source: str
    count: int = 1
    first_s: float | None = None
    last_s: float | None = None
    details: Mapping[str, str] = {}
    bursts: int = 1
    boots_ago: int = 0
    back: bool = False

    @property
    def span_s(self) -> float:
        """Seconds from the first to the last; 0 where the log has no stamps."""
        return 0.0 if self.first_s is None or self.last_s is None else max(0.0, self.last_s - self.first_s)


class KernelLog(msgspec.Struct, frozen=True, dict=True):
    """All events of the logs at hand.

    Attributes:
        events: in the order of their first message.
        sources: the files they come from.
        from_boot: whether the log begins with the boot ("Linux version ..."), so that silence about it means something.
        lines: how many lines were understood as the kernel's.
        drivers: by the address of each function that a driver spoke for, which one did so last, "nvidia" or "pcieport".
    """

    events: tuple[LogEvent, ...] = ()
    sources: tuple[str, ...] = ()
    from_boot: bool = False
    lines: int = 0
    drivers: Mapping[str, str] = {}

    def of(self, *kinds: str) -> list[LogEvent]:
        """The events of some kinds."""
        return [event for event in self.events if event.kind in kinds]

    def about(self, address: str, *kinds: str) -> list[LogEvent]:
        """The events of some kinds (or of all, without any) about one function."""
        return [event for event in self._by_address.get(address, ()) if not kinds or event.kind in kinds]

    @cached_property
    def _by_address(self) -> Mapping[str, list[LogEvent]]:
        found: dict[str, list[LogEvent]] = {}
        for event in self.events:
            found.setdefault(event.address, []).append(event)
        return found
