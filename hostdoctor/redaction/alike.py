"""Makes two reports comparable where one or both were redacted.

Placeholders are numbered within one output, so those of two outputs say nothing about each other, and one against the secret
itself even less: in a comparison each stands for anything of its kind.
"""

from __future__ import annotations

import json
import re
from typing import TypeVar

import msgspec

from hostdoctor.redaction import Redactor
from hostdoctor.redaction.structs import redacted

S = TypeVar("S", bound=msgspec.Struct)

# By kind, the placeholders that reports show; those that an address or a size could be as well are left out.
_SHAPES = (
    ("uuid", r"00000000(?P<apart>-|_|\\x2d)0000(?P=apart)4000(?P=apart)8000(?P=apart)\d{12}|00000000000040008000\d{12}"),
    ("uuid", r"(?<=UUID=)(?:\d{4}-0000|0000\d{4}(?=-\d\d\b))|00000000:00004000:80000000:\d{8}"),
    ("container", r"0{52}\d{12}"),
    ("mac", r"02(?P<between>[:-])00(?:(?P=between)[0-9a-f]{2}){4,6}|(?<=[ew][nlw]x)02000000[0-9a-f]{4}"),
    ("guid", r"0200:0000:[0-9a-f]{4}:[0-9a-f]{4}"),
    ("ipv4", r"(?:192\.0\.2|198\.51\.100|203\.0\.113|198\.1[89]\.\d{1,3})\.\d{1,3}"),
    ("ipv6", r"2001:db8::[0-9a-f]{1,4}"),
)
_NUMBERED = re.compile(r"\bredacted-([a-z]+)-\d{1,9}(?:@example\.invalid)?(?!\w)")
_FAKES = tuple((kind, re.compile(rf"(?:(?<!\w)|(?<=[a-z]x))(?:{shape})(?!\w)")) for kind, shape in _SHAPES)


def comparable(before: S, after: S) -> tuple[S, S]:
    """Both as they are, or, where either has placeholders in it, both redacted and without the numbers."""
    if any(_without_numbers(text) != text for text in map(_json, (before, after))):
        return _plain(before), _plain(after)
    return before, after


def _plain(report: S) -> S:
    text = _without_numbers(_json(redacted(report, Redactor())))
    return msgspec.json.decode(text.encode("utf-8", "replace"), type=type(report))


def _json(report: msgspec.Struct) -> str:
    """As JSON, whose bytes that were no UTF-8 in a file's name stay what they are."""
    return json.dumps(msgspec.to_builtins(report), ensure_ascii=False)


def _without_numbers(text: str) -> str:
    text = _NUMBERED.sub(r"redacted-\1", text)
    for kind, shape in _FAKES:
        text = shape.sub(f"redacted-{kind}", text)
    return text
