"""Puts placeholders into a text: the names it is given, and what shows by its shape or its place that it is private."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from hostdoctor.redaction import rules, words
from hostdoctor.redaction.shapes import Shape, ipv6_key, placeholder_in, shape_of
from hostdoctor.redaction.tables import private_cells

_FILLER = re.compile(
    r"(?i)[\[(]?(?:n/?a|none|null|nil|unknown|unspecified|undefined|disabled|enabled|true|false|yes|no|y|n|default.{0,20}"
    r"|not .{0,40}|to be filled.{0,20}|to|system.{0,20}|chassis.{0,20}|x+|[0*.-]+|0x0+|0?123456789?0?|required|supported"
    r"|absent|invalid)[\])]?"
)
_SERIAL_DRIVER = "8250/16550"  # "Serial: 8250/16550 driver"
_PUBLIC_IPV4 = re.compile(r"127\.|0\.|255\.|22[4-9]\.|23\d\.|192\.0\.2\.|198\.51\.100\.|203\.0\.113\.|198\.1[89]\.")
_LOCAL_IPV4 = re.compile(r"10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|169\.254\.|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.")
_UNIT = re.compile(r"\\x2d|\S{0,80}?\.(?:service|socket|mount|timer|slice|scope|target|device|path|swap|automount)\b")
_UNIT_NAMES = ("systemd-", "getty", "serial-getty", "user", "dev-", "modprobe", "autovt", "blockdev", "run-")
_NO_HOST = re.compile(r"tty\w*|[\d.,]+\w{0,4}|(?=\w*\d)[0-9a-f]{1,11}")  # a mode's rate, an address in a device tree
_FILE_ENDING = re.compile(
    r"(?:txt|log|out|xml|json|gz|xz|zst|bz2|zip|tar|tgz|conf|cfg|d|so|ko|py|sh|md|html|csv|service|timer)"
)
_LISTS = ("lists.", "vger.kernel.org", "openssh.com")  # where anybody writes, and what names ciphers
_BEFORE_AN_ADDRESS = 40  # characters that are looked at


class Names:
    """Which placeholder each secret has, how often it was put in, and what was learnt beforehand."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._last: dict[str, int] = {}
        self._taken: set[str] = set()
        self.found: dict[str, tuple[str, str, int, dict[str, None]]] = {}
        self.learnt: dict[str, str] = {}  # by name in lower case its kind
        self.weak: dict[str, str] = {}  # the same, of names that are words too
        self.source = ""

    def placed(self, kind: str, secret: str) -> str:
        """The placeholder of a secret."""
        kind, key, shape = shape_of(kind, secret)
        placeholder = shape(self._number(kind, key, shape))
        _, first, count, sources = self.found.get(placeholder, (kind, secret, 0, {}))
        if self.source:
            sources[self.source] = None
        self.found[placeholder] = (kind, first, count + 1, sources)
        return placeholder

    def _number(self, kind: str, key: str, shape: Shape) -> int:
        number = self._numbers.get((kind, key))
        if number is None:
            number = self._last.get(kind, 0) + 1
            while shape(number) in self._taken:
                number += 1
            self._last[kind] = self._numbers[kind, key] = number
        return number

    def part(self, kind: str, secret: str) -> str:
        """What stands in a private place, replaced where it is a secret."""
        return self.placed(kind, secret) if self.is_secret(kind, secret) else secret

    def is_placeholder(self, secret: str) -> bool:
        """Whether it stands for a secret already; then no other secret gets it."""
        found = placeholder_in(secret)
        if found and found not in self.found:
            self._taken.add(found)
        return bool(found)

    def is_secret(self, kind: str, secret: str) -> bool:
        """Whether what stands in the place of a secret is one."""
        if not secret or _FILLER.fullmatch(secret) or self.is_placeholder(secret):
            return False
        lowered = secret.lower()
        if kind == "user":
            return lowered not in words.SYSTEM_USERS and lowered not in words.COMMON_HOSTS
        if kind == "host":
            return lowered not in words.COMMON_HOSTS and not re.fullmatch(r"[\d.:]+", secret)
        if kind == "number":
            return secret.strip("0") != ""
        if kind == "disk":
            return not words.is_common_disk(secret)
        if kind == "serial":
            return (
                not secret.startswith(_SERIAL_DRIVER) and any(map(str.isdecimal, secret)) and lowered not in words.PUBLIC_UUIDS
            )
        if kind == "tag":
            return (
                re.search(r"(?i)(?<![a-z])(?:no|dimm|string|tag|asset(?:[ _-]?tag)?)(?![a-z])|specified|filled", secret) is None
            )
        if kind == "network":
            return re.fullmatch(r"(?i)Wired connection \d+|(?:en|eth|ib)\w{1,14}|(?:0x)?[\da-f]{1,8}", secret) is None
        if kind == "token":
            return not secret.startswith(("/", "$")) and re.fullmatch(r"\d{1,7}", secret) is None
        return True


def told_names(text: str) -> Iterator[tuple[str, str]]:
    """The names and numbers that a text tells by their places, each with its kind."""
    lowered = text.lower()
    for place in (*rules.HOSTS_AND_USERS, *rules.SERIALS, *rules.DISKS, *rules.PATHS):
        if any(word in lowered for word in place.needs):
            for match in place.pattern.finditer(text):
                yield from _groups(match)
    for place in rules.DATASETS:
        if any(word in lowered for word in place.needs):
            for match in place.pattern.finditer(text):
                yield from (("disk", part) for part in re.split(r"[/@]", match["dataset"]))
    yield from (("serial", text[start:end]) for start, end in private_cells(text))
    if "@" in text:
        for match in rules.AT.finditer(text):
            if is_user_and_host(match):
                yield from (("user", match[1]), ("host", match[2]))


def _groups(match: re.Match[str]) -> Iterable[tuple[str, str]]:
    for name, secret in match.groupdict().items():
        if secret and (kind := name.rstrip("2")) in ("host", "user", "serial", "disk"):
            yield kind, secret


def is_user_and_host(match: re.Match[str]) -> bool:
    """Whether the two sides of an @ are a user and a host, rather than an e-mail address or no names at all."""
    return not (_is_unit(match) or _ending(match[2]) or match[1] in words.BUILDERS or _NO_HOST.fullmatch(match[2]))


def _is_unit(match: re.Match[str]) -> bool:
    """Whether it is an instance of a systemd unit, "getty@tty1.service"."""
    return match[1].startswith(_UNIT_NAMES) or _UNIT.match(match.string, match.start(2), match.end() + 80) is not None


def _ending(host: str) -> str:
    """The top-level domain of a host's full name, or empty."""
    ending = host.rpartition(".")[2] if "." in host else ""
    return ending if ending.isalpha() and len(ending) >= 2 else ""


class _Shapes:
    """Replaces what shows by its shape alone that it is private."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._shapes: tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
            ("", rules.UUID, self._uuid),
            (":", rules.RAID_UUID, self._uuid),
            ("", rules.CONTAINER, self._container),
            ("", rules.HEX32, self._uuid),
            ("-", rules.GPU_ID, self._gpu_id),
            ("", rules.INTERFACE, self._interface),
            ("", rules.OCTETS, self._octets),
            (":", rules.GUID4, self._guid),
            (":", rules.IPV6, self._ipv6),
            (".", rules.IPV4, self._ipv4),
        )

    def text(self, text: str) -> str:
        """The text without them."""
        for sign, pattern, put in self._shapes:
            if sign in text:
                text = pattern.sub(put, text)
        return text

    def _uuid(self, match: re.Match[str]) -> str:
        secret, apart = match[0], match.groupdict().get("apart", "-")
        if (
            secret.lower().replace(apart, "-") in words.PUBLIC_UUIDS
            or self._names.is_placeholder(secret)
            or not secret.strip("0:")
        ):
            return secret
        return self._names.placed("uuid", secret)

    def _container(self, match: re.Match[str]) -> str:
        """A container's id, or a checksum: 64 digits either way."""
        return match[0] if self._names.is_placeholder(match[0]) else self._names.placed("container", match[0])

    def _gpu_id(self, match: re.Match[str]) -> str:
        is_cut_placeholder = "00000000-0000-4000-8000-000000000000".startswith(match[2][:30])
        return match[0] if is_cut_placeholder else f"{match[1]}-{self._names.part('serial', match[2])}"

    def _interface(self, match: re.Match[str]) -> str:
        return match[0] if self._names.is_placeholder(match[1]) else match[0][:3] + self._names.placed("mac", match[1])

    def _octets(self, match: re.Match[str]) -> str:
        octets = match[0].lower().split(match[1])
        is_date = match[1] == "-" and len(octets) == 6 and "".join(octets).isdecimal()
        if is_date or len(set(octets)) == 1 or self._names.is_placeholder(match[0]):
            return match[0]
        return self._names.placed("mac", match[0])

    def _guid(self, match: re.Match[str]) -> str:
        is_none = not match[0].strip("0:") or self._names.is_placeholder(match[0])
        return match[0] if is_none else self._names.placed("guid", match[0])

    def _ipv6(self, match: re.Match[str]) -> str:
        found = match[0]
        end = ":" if found.endswith(":") and not found.endswith("::") else ""
        key = ipv6_key(found.removesuffix(":") if end else found)
        return self._names.placed("ipv6", key) + end if key else found

    def _ipv4(self, match: re.Match[str]) -> str:
        """Four numbers are an address where the words around say so, or the numbers do; most are versions."""
        address, text = match[0], match.string
        before = text[max(0, match.start() - _BEFORE_AN_ADDRESS) : match.start()].rpartition("\n")[2]
        if _PUBLIC_IPV4.match(address) or rules.VERSION_BEFORE.search(before):
            return address
        is_address = (
            _LOCAL_IPV4.match(address)
            or sum(int(part) >= 100 for part in address.split(".")) >= 2
            or rules.ADDRESS_BEFORE.search(before)
            or rules.ADDRESS_AFTER.match(text, match.end())
        )
        return self._names.placed("ipv4", address) if is_address else address


class Rewriter:
    """Replaces secrets in texts of one output."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._shapes = _Shapes(names)

    def text(self, text: str) -> str:
        """The text without its secrets."""
        lowered = text.lower()
        text = self._in_cells(text)
        text = self._in_places(text, lowered, (*rules.TOKENS, *rules.SERIALS, *rules.DISKS))
        for place in rules.DATASETS:
            if any(word in lowered for word in place.needs):
                text = place.pattern.sub(self._dataset, text)
        text = self._in_places(text, lowered, (*rules.NETWORKS, *rules.HOSTS_AND_USERS, *rules.PATHS))
        if "@" in text:
            text = rules.AT.sub(self._at, text)
        text = self._without_learnt(text)
        return self._shapes.text(text)  # last: what stands before four numbers tells whether they are an address

    def _in_cells(self, text: str) -> str:
        kept, at = [], 0
        for start, end in private_cells(text):
            kept += [text[at:start], self._names.part("serial", text[start:end])]
            at = end
        return "".join((*kept, text[at:])) if kept else text

    def _in_places(self, text: str, lowered: str, places: Iterable[rules.Place]) -> str:
        for place in places:
            if any(word in lowered for word in place.needs):
                text = place.pattern.sub(self._in_place, text)
        return text

    def _in_place(self, match: re.Match[str]) -> str:
        text, at = [], match.start()
        for name in sorted(match.re.groupindex, key=match.start):
            start, end = match.span(name)
            if name in ("quote", "base") or start < at:
                continue
            part = (
                re.sub(r"[^/]+", self._path_part, match[name])
                if name == "tail"
                else self._names.part(name.rstrip("2"), match[name])
            )
            text += [match.string[at:start], part]
            at = end
        return "".join((*text, match.string[at : match.end()]))

    def _path_part(self, match: re.Match[str]) -> str:
        part = match[0]
        if words.is_common_part(part) or not part.strip(".") or self._names.is_placeholder(part):
            return part
        return self._names.placed(self._names.learnt.get(part.lower(), "path"), part)

    def _dataset(self, match: re.Match[str]) -> str:
        start, end = (at - match.start() for at in match.span("dataset"))
        parts = re.sub(r"[^/@]+", lambda part: self._names.part("disk", part[0]), match["dataset"])
        return match[0][:start] + parts + match[0][end:]

    def _at(self, match: re.Match[str]) -> str:
        if is_user_and_host(match):
            return f"{self._names.part('user', match[1])}@{self._names.part('host', match[2])}"
        ending = _ending(match[2])
        if (
            not ending
            or ending == "invalid"
            or match[0].lower() in words.PUBLIC_EMAILS
            or match[2].startswith(_LISTS)
            or _FILE_ENDING.fullmatch(ending)
            or _is_unit(match)
        ):
            return match[0]
        return self._names.placed("email", match[0])

    def _without_learnt(self, text: str) -> str:
        lowered = text.lower()
        for names, before, after in (
            (
                self._names.learnt,
                "(?<![A-Za-z0-9])(?<!redacted-)",
                r"(?![A-Za-z0-9])(?P<rest>(?:\.[A-Za-z0-9][\w-]{0,62}){0,6})",
            ),
            (self._names.weak, "(?<![A-Za-z0-9/.])", r"(?P<rest>)(?=:\d{4,5}(?![\w:]))"),
        ):
            found = sorted((name for name in names if name in lowered), key=len, reverse=True)
            if found:
                text = re.sub(f"(?i){before}(?P<name>{'|'.join(map(re.escape, found))}){after}", self._learnt, text)
        return text

    def _learnt(self, match: re.Match[str]) -> str:
        """A learnt name; the domain behind a host's goes too, the ending of a file stays."""
        name, rest = match["name"], match["rest"]
        kind = self._names.learnt.get(name.lower()) or self._names.weak.get(name.lower())
        if kind is None:  # some letters have more than one lower case
            return match[0]
        ending = rest.rpartition(".")[2]
        if kind == "host" and not (_FILE_ENDING.fullmatch(ending) or ending.isdecimal()):
            rest = ""
        return self._names.placed(kind, name) + rest
