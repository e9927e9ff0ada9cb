"""Messages of the kernel's log, and NVIDIA's Xid codes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal

import msgspec

from hostdoctor.knowledge.read import read_table

XidClass = Literal["hardware", "watch", "program", "sequel", "report"]


class LogRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One message that says what happened to a device; log_messages.toml tells what each field means."""

    kind: str
    speakers: tuple[str, ...] = msgspec.field(name="from")
    pattern: str
    source: tuple[str, ...]
    adds_to: str = ""
    of_last: bool = False


class Xid(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One Xid code; `class_` is one of those that log_messages.toml explains."""

    code: int
    text: str
    class_: XidClass = msgspec.field(name="class")
    source: tuple[str, ...]


class _Messages(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    message: tuple[LogRule, ...]
    xid: tuple[Xid, ...]


@cache
def _messages() -> _Messages:
    return read_table("log_messages", _Messages)


@cache
def load_log_rules() -> tuple[LogRule, ...]:
    """All messages that tell something, in the order in which they are tried."""
    return _messages().message


@cache
def load_xids() -> Mapping[int, Xid]:
    """NVIDIA's Xid codes whose class is known."""
    return {xid.code: xid for xid in _messages().xid}
