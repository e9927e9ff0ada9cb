"""What a check says: findings, and the check itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from hostdoctor.view import View

Outcome = Literal["failure", "warning", "info", "unknown", "ok", "not-applicable"]
Confidence = Literal["certain", "likely", "possible"]

# Worst first: the order of reports.
OUTCOMES: tuple[Outcome, ...] = ("failure", "warning", "info", "unknown", "ok", "not-applicable")


class Evidence(msgspec.Struct, frozen=True):
    """One thing that was seen, and where."""

    source: str
    value: str


class Cost(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the finding costs; bandwidths in GB/s (10^9), one direction."""

    text: str
    have_gbs: float | None = None
    could_have_gbs: float | None = None


class Finding(msgspec.Struct, frozen=True):
    """One verdict of one check about one subject."""

    check: str
    outcome: Outcome
    subject: tuple[str, ...]
    title: str
    explanation: str = ""
    confidence: Confidence = "certain"
    evidence: tuple[Evidence, ...] = ()
    cost: Cost | None = None
    remedies: tuple[str, ...] = ()
    next: str = ""  # the next step in words, with this host's values
    help: str = ""  # of an unknown: what would make it known


class Check(msgspec.Struct, frozen=True):
    """A check: its texts and the pure function from facts to findings.

    Attributes:
        id: stable name, "link-width".
        subject: what it speaks of, in the contract's words ("card", "ordered pair").
        summary: one line.
        looks_at: the facts it reads.
        why: why it matters.
        decides: how it decides, with the outcome of each case.
        sources: the authorities of its rule.
        remedies: ids of knowledge/remedies.toml it may name.
        judge: from the facts to the findings; must not read, print or change anything.
        bare_metal_only: in a guest it is not run and reported as not applicable.
    """

    id: str
    subject: str
    summary: str
    looks_at: str
    why: str
    decides: str
    sources: tuple[str, ...]
    judge: Callable[[View], Iterable[Finding]]
    remedies: tuple[str, ...] = ()
    bare_metal_only: bool = True
