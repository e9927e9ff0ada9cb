"""What error counters tell: which kinds come from the link itself, and what was counted while it was watched."""

from __future__ import annotations

from collections.abc import Mapping

from hostdoctor.facts.driver import ErrorCounters, Samples
from hostdoctor.facts.unknown import known

# Correctable kinds that tell nothing of the link: advice that software asked for something that is not there, and a log
# that was full. Both by the kernel's names of today and of before 5.2 (drivers/pci/pcie/aer.c).
NOT_OF_THE_LINK = frozenset({"NonFatalErr", "HeaderOF", "Advisory Non-Fatal", "Header Log Overflow"})


def of_the_link(counters: ErrorCounters) -> int:
    """How many errors the link itself had that were corrected: by AER, or by amdgpu's count of replays if that is more."""
    corrected = sum(number for kind, number in counters.correctable.items() if kind not in NOT_OF_THE_LINK)
    return max(corrected, known(counters.replays, 0))


def watched_s(samples: Samples | None) -> float:
    """How long the links were watched; 0 where they were not."""
    return max((look.seconds for look in samples.links), default=0.0) if samples else 0.0


def counted_meanwhile(samples: Samples | None, address: str) -> ErrorCounters:
    """What was counted for a function while it was watched; nothing where it was not."""
    before = samples.counters_before.get(address) if samples else None
    after = samples.counters_after.get(address) if samples else None
    if before is None or after is None:
        return ErrorCounters(address)
    return ErrorCounters(
        address,
        _rise(before.correctable, after.correctable),
        _rise(before.nonfatal, after.nonfatal),
        _rise(before.fatal, after.fatal),
        max(0, known(after.replays, 0) - known(before.replays, 0)),
    )


def _rise(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {kind: number - before.get(kind, 0) for kind, number in after.items() if number > before.get(kind, 0)}
