"""How placeholders look: by the kind of the secret and by its own shape, so that a reader of that shape still reads it."""

from __future__ import annotations

import re
from collections.abc import Callable

from hostdoctor.redaction import rules

_WORD = re.compile(r"redacted-(?:host|user|email|serial|token|disk|path|network)-\d{1,9}(?!\w)")
_FAKES = re.compile(
    r"00000000(?P<apart>-|_|\\x2d)0000(?P=apart)4000(?P=apart)8000(?P=apart)\d{12}|00000000000040008000\d{12}"
    r"|00000000:00004000:80000000:\d{8}|0{52}\d{12}"
    r"|02(?:00){1,31}[0-9a-f]{6}|02(?:(?P<between>[:-])00)(?:(?P=between)[0-9a-f]{2}){4,31}|0200:0000:[0-9a-f]{4}:[0-9a-f]{4}"
    r"|(?:0x)?0{8}\d{8}|9000000000\d{9}|\d{4}-0000|0000\d{4}-[0-9A-Fa-f]{2}"
)
_HEX16 = re.compile(r"(?:0x)?[0-9a-fA-F]{16}")
_DOCUMENTATION = ("192.0.2.", "198.51.100.", "203.0.113.")

Shape = Callable[[int], str]


def placeholder_in(secret: str) -> str:
    """The placeholder that a text is, or has in it; empty where there is none."""
    match = _WORD.search(secret) or _FAKES.fullmatch(secret)
    return match[0] if match else ""


def shape_of(kind: str, secret: str) -> tuple[str, str, Shape]:
    """What to call a secret, what is the same however it is written, and how its placeholders look, by their number."""
    lowered = secret.lower()
    if kind == "tag":
        kind = "serial"
    if kind == "container":
        return kind, lowered, lambda n: f"{n:064d}"
    if kind == "number":  # KFD's, which its reader takes for one
        return "serial", f"{int(secret):016x}", lambda n: f"9{n:018d}"
    if kind in ("uuid", "serial"):
        return _number(kind, secret, lowered)
    if kind == "mac":
        sign = ":" if ":" in secret else "-" if "-" in secret else ""
        key = lowered.replace(":", "").replace("-", "")
        return kind, key, lambda n: sign.join(f"02{n:0{len(key) - 2}x}"[at : at + 2] for at in range(0, len(key), 2))
    if kind == "guid":
        return kind, lowered, lambda n: f"0200:0000:{n >> 16 & 0xFFFF:04x}:{n & 0xFFFF:04x}"
    if kind == "ipv4":
        return kind, lowered, _ipv4
    if kind == "ipv6":
        return kind, lowered, lambda n: f"2001:db8::{n & 0xFFFF:x}"
    if kind == "email":
        return kind, lowered, lambda n: f"redacted-email-{n}@example.invalid"
    key = lowered.partition(".")[0] if kind == "host" else lowered if kind == "user" else secret
    return kind, key, lambda n: f"redacted-{kind}-{n}"


def _number(kind: str, secret: str, lowered: str) -> tuple[str, str, Shape]:
    if match := rules.UUID.fullmatch(secret):
        apart = match["apart"]
        return "uuid", lowered.replace(apart, ""), lambda n: apart.join(("00000000", "0000", "4000", "8000", f"{n:012d}"))
    if rules.RAID_UUID.fullmatch(secret):
        return "uuid", lowered.replace(":", ""), lambda n: f"00000000:00004000:80000000:{n:08d}"
    if rules.HEX32.fullmatch(secret):
        return "uuid", lowered, lambda n: f"00000000000040008000{n:012d}"
    if _HEX16.fullmatch(secret):
        prefix = secret[:2] if lowered.startswith("0x") else ""
        return "serial", lowered.removeprefix("0x"), lambda n: f"{prefix}{n:016d}"
    if rules.OCTETS.fullmatch(secret):
        return shape_of("mac", secret)
    if kind == "uuid" and len(secret) == 9:
        return "uuid", lowered, lambda n: f"{n % 10_000:04d}-0000"
    if kind == "uuid":
        return "uuid", lowered.partition("-")[0], lambda n: f"{n % 10_000:08d}-{secret.rpartition('-')[2]}"
    return "serial", lowered, lambda n: f"redacted-serial-{n}"


def _ipv4(number: int) -> str:
    block, rest = divmod(number - 1, 254)
    if block < len(_DOCUMENTATION):
        return f"{_DOCUMENTATION[block]}{rest + 1}"
    return f"198.{18 + (number >> 16 & 1)}.{number >> 8 & 255}.{number & 255}"


def ipv6_key(address: str) -> str:
    """An address as it is written shortest; empty where it is none, or one that is nobody's own."""
    groups = address.split(":")
    if ("::" not in address and len(groups) != 8) or not any(map(str.isdecimal, address)):
        return ""
    if all(len(group) == 2 for group in groups):  # an EUI-64
        return ""
    from ipaddress import IPv6Address  # noqa: PLC0415  costs time that a text without such an address need not spend

    try:
        found = IPv6Address(address)
    except ValueError:
        return ""
    is_public = found.is_loopback or found.is_unspecified or found.is_multicast or address.lower().startswith("2001:db8:")
    return "" if is_public else str(found)
