"""A firmware guide as plain values, before any of it is rendered."""

from __future__ import annotations

from typing import Literal

import msgspec

from hostdoctor.findings import Confidence, Evidence
from hostdoctor.remedies.board import Board

NOT_VISIBLE = "not visible from the running system"
NOTHING = "nothing to change in the firmware"

Role = Literal["needed", "optional", "instead", "trial"]


class GuideSetting(msgspec.Struct, frozen=True):
    """One setting to change.

    Attributes:
        id: "mmio-base".
        setting: the option's name in this board's menu.
        role: needed; optional (nothing is broken today); instead (where the others cannot be had); trial (to find a cause).
        purpose: the role in words, as the end of a sentence.
        path: the menu it is in, or where to look for it.
        seen: on which firmware name and path were seen.
        known_here: whether the board's own menu is known.
        synonyms: names that other boards and releases give it.
        now: today's value as the menu would write it, or NOT_VISIBLE.
        now_seen: what that rests on.
        target: what to set.
        value: the choice to set, exactly as the menu offers it; empty where that is not known.
        sums: the arithmetic, a sentence each.
        why: what the finding says.
        because: the findings it is for, "bar-reach 0000:43:00.0".
        affects: what else changes with it.
        checks: checks that must be ok afterwards.
        look: the file to look at afterwards.
        note: what else to know of this option.
        attribute: its name for Redfish and tools, or empty.
        group: of racadm.
        confidence: that the board has this option there, with these choices.
        sources: where that is from, as titles.
    """

    id: str
    setting: str
    role: Role
    purpose: str
    path: str
    seen: str
    known_here: bool
    synonyms: tuple[str, ...]
    now: str
    now_seen: tuple[Evidence, ...]
    target: str
    value: str
    sums: tuple[str, ...]
    why: str
    because: tuple[str, ...]
    affects: tuple[str, ...]
    checks: tuple[str, ...]
    look: str
    note: str
    attribute: str
    group: str
    confidence: Confidence
    sources: tuple[str, ...]


class Way(msgspec.Struct, frozen=True):
    """How to set the same without the menu; `body` is a JSON text to save as change.json, or empty."""

    title: str
    needs: str
    commands: tuple[str, ...]
    body: str
    note: str
    confidence: Confidence


class FirmwareGuide(msgspec.Struct, frozen=True):
    """All there is to change in the firmware of one host.

    Attributes:
        board: the board as DMI names it.
        nothing: why there is nothing to change; empty where there is.
        settings: what to change, in the order to do it.
        notes: what the firmware cannot mend, and what can.
        before: what to do first.
        after: how to see that it worked.
        back: how to get back.
        ways: the same without the menu.
    """

    board: Board
    nothing: str
    settings: tuple[GuideSetting, ...]
    notes: tuple[str, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    back: tuple[str, ...]
    ways: tuple[Way, ...]
