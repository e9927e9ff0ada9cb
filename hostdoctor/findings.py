"""What a check says: findings, and the check itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal

import msgspec

from hostdoctor.facts.unknown import Unknown

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


def cost_of(have_gbs: float | Unknown, could_have_gbs: float | Unknown) -> Cost | None:
    """The cost of a slow link, in GB/s each way; None where one of the two is not known."""
    if isinstance(have_gbs, Unknown) or isinstance(could_have_gbs, Unknown):
        return None
    text = f"{have_gbs:.1f} GB/s each way instead of {could_have_gbs:.1f}"
    return Cost(text, round(have_gbs, 2), round(could_have_gbs, 2))


def unjudged(check: str, subject: tuple[str, ...], what: str, why: Unknown, evidence: tuple[Evidence, ...] = ()) -> Finding:
    """The finding of a check that lacks a fact: what was not judged, why, and what would help."""
    return Finding(check, "unknown", subject, f"{what} not judged: {why.reason}", evidence=evidence, help=why.help)


def without_pci(check: str, why: Unknown) -> Finding:
    """The finding of a check that needs PCI functions where the evidence has none."""
    return Finding(check, "unknown", (), f"there are no PCI functions to look at: {why.reason}", help=why.help)


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
        nothing: what is said where the check finds nothing to judge.
        bare_metal_only: in a guest it is not run and reported as not applicable.
        needs_pci: without any PCI function in the evidence it is not run and reported as unknown.
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
    nothing: str = "no discrete GPU here"
    bare_metal_only: bool = True
    needs_pci: bool = True
