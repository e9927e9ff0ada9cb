"""Takes out of reports and captures what is private: one secret has one placeholder everywhere in one output.

A placeholder is of a shape that every parser, shell, XML reader and Markdown renderer leaves in peace, so that what was
redacted is judged as before; that is why there are no angle brackets:

| kind | placeholder |
|---|---|
| host, user, disk, path, token, network | `redacted-host-1`, `redacted-user-1` ... |
| email | `redacted-email-1@example.invalid` |
| uuid | `00000000-0000-4000-8000-000000000001`; without dashes (machine-id, boot id) `00000000000040008000000000000001` |
| uuid of a RAID | `00000000:00004000:80000000:00000001` |
| container | 64 digits, `0...01` |
| uuid of a FAT or MBR partition | `0001-0000`, `00000001-02` (the partition's number stays) |
| serial | `redacted-serial-1`; of 16 hexadecimal digits `0000000000000001`, of KFD's decimal ones `9000000000000000001` |
| mac, also EUI-64 and lspci's Device Serial Number | `02:00:00:00:00:01`, locally administered, separated as it was |
| guid, of InfiniBand | `0200:0000:0000:0001` |
| ipv4, ipv6 | of documentation's networks: `192.0.2.1`, then 198.51.100/24, 203.0.113/24, 198.18/15; `2001:db8::1` |

Redacting what is redacted changes nothing. A name that is a word of tools too ("node7", "max") goes only where its place
says that it is a name. docs/redaction.md says what is replaced and what stays, for those who send such output.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from hostdoctor.redaction import rules, words
from hostdoctor.redaction.rewrite import Names, Rewriter, told_names

Kind = Literal["host", "user", "email", "uuid", "mac", "guid", "ipv4", "ipv6", "serial", "token", "disk", "path", "network"]

_SHORTEST_LEARNT = 3
_MOST_LEARNT = 512  # a hostile log could name another host in each line
_SHORTEST_IN_BINARY = 6
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b")) + b"\x7f"
_HEAD = 4096
# Files that hold nothing but a secret.
_WHOLE_FILE = re.compile(
    r"(?:\A|/)(?:(?P<serial>unique_id|serial(?:_?number)?|(?:board|product|chassis)_serial|(?:xgmi_)?hive_id|product_uuid|fru_id"
    r"|wwid|nguid|eui|uuid|machine-id|boot_id|(?:board|chassis|product)_asset_tag|(?:node|sys_image)_guid)|(?P<host>hostname|nodename))\Z"
)
_CONFIG_FILE = re.compile(r"(?:\A|/)[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]/config\Z")
_ESCAPED = re.compile(r'(?<!\\)"[^"\\\n]*\\.(?:[^"\\\n]|\\.)*"')  # a string of JSON with something escaped in it
_SERIAL_CAPABILITY = 0x0003  # pci_regs.h PCI_EXT_CAP_ID_DSN
_MOST_CAPABILITIES = 64


class Replacement(msgspec.Struct, frozen=True):
    """A secret that was replaced.

    Attributes:
        placeholder: what stands in its place.
        secret: as it was first seen; only for the eyes of who redacts.
        count: how often it was replaced.
        sources: in which texts, as the caller named them.
    """

    kind: str
    placeholder: str
    secret: str
    count: int
    sources: tuple[str, ...]


class Redactor:
    """Replaces secrets in all that belongs to one output.

    What is known beforehand is given to `learn`, and texts that name hosts, users or serial numbers to `observe`: names
    found there are replaced in all later texts. `text` and `value` observe what they are given first.
    """

    def __init__(self) -> None:
        self._names = Names()
        self._rewriter = Rewriter(self._names)

    @property
    def replaced(self) -> tuple[Replacement, ...]:
        """What was replaced, by kind and in the order of first sight."""
        found = self._names.found.items()
        rows = (Replacement(kind, placeholder, secret, count, tuple(at)) for placeholder, (kind, secret, count, at) in found)
        return tuple(sorted(rows, key=lambda row: row.kind))

    def learn(self, kind: Kind, secret: str) -> None:
        """Replace a name or number from now on, wherever it stands as a word of its own.

        Args:
            kind: what it is: a host's name (with its domain or without), a user's, a serial number.
            secret: nothing happens where it is no secret: "root", "localhost", a placeholder, an empty one.
        """
        self._learn(kind, secret)

    def observe(self, text: str) -> None:
        """Learn the names that a text tells by their places, and change nothing."""
        for each in (text, *_escaped_in(text)):
            for kind, secret in told_names(each):
                self._learn(kind, secret)

    def text(self, text: str, source: str = "") -> str:
        """A text without its secrets.

        Args:
            text: of any kind.
            source: what `replaced` calls it. Where it is the path of a file that holds nothing but a secret
                (".../unique_id", "etc/hostname"), that is what tells it.
        """
        self._names.source = source
        whole, body = _WHOLE_FILE.search(source), text.strip()
        if whole and body and "\n" not in body:
            kind = "host" if whole["host"] else "serial"
            self._learn(kind, body)
            return text.replace(body, self._names.part(kind, body))
        self.observe(text)
        if text.lstrip()[:1] in ("{", "["):
            text = _ESCAPED.sub(self._escaped, text)
        return self._rewriter.text(text)

    def data(self, data: bytes, source: str = "") -> bytes:
        """A file without its secrets: its text, in UTF-8, UTF-16 or neither.

        What is no text keeps its length and loses only what was learnt; config space loses its serial number.
        """
        if _CONFIG_FILE.search(source):
            return self._config_space(data, source)
        if (at := _start_of_utf16(data)) is not None:
            told = self.text(data[at:].decode("utf-16-le", "surrogatepass"), source)
            return data[:at] + told.encode("utf-16-le", "surrogatepass")
        head = data[:_HEAD]
        if len(head.translate(None, _CONTROLS)) * 20 < len(head) * 19:
            return self._binary(data, source)
        return self.text(data.decode("utf-8", "surrogateescape"), source).encode("utf-8", "surrogateescape")

    def value(self, tree: object, source: str = "") -> object:
        """A tree of dicts, lists and strings, as msgspec.to_builtins makes it, without secrets in its values and keys."""
        for text in _strings(tree):
            self.observe(text)
        self._names.source = source
        return self._tree(tree, {})

    def _learn(self, kind: str, secret: str) -> None:
        secret = secret.strip().strip(".")
        if kind == "host" and not secret.replace(".", "").isdecimal():
            secret = secret.partition(".")[0]  # its domain goes with it
        if kind == "serial":
            secret = secret.lower().removeprefix("0x")
            if not _is_telling(secret):
                return
        if len(secret) < _SHORTEST_LEARNT or not self._names.is_secret(kind, secret):
            return
        is_weak = kind in ("host", "user", "disk") and words.is_common(secret)
        names = self._names.weak if is_weak else self._names.learnt
        if len(names) < _MOST_LEARNT:
            names.setdefault(secret.lower(), kind)

    def _escaped(self, match: re.Match[str]) -> str:
        """A string of JSON that holds lines of its own, as a journal's or a report's."""
        text = _unescaped(match[0])
        told = self._rewriter.text(text)
        return match[0] if told == text else msgspec.json.encode(told).decode()

    def _tree(self, tree: object, done: dict[str, str]) -> object:
        if isinstance(tree, str):
            if tree not in done:
                done[tree] = self._rewriter.text(tree)
            return done[tree]
        if isinstance(tree, dict):
            return {self._tree(key, done): self._field(key, value, done) for key, value in tree.items()}
        if isinstance(tree, list | tuple):
            return [self._tree(each, done) for each in tree]
        return tree

    def _field(self, key: object, value: object, done: dict[str, str]) -> object:
        """The value of a key, which may be what tells that it is private: {"serial": "1320"}."""
        if isinstance(key, str) and isinstance(value, str):
            for kind, pattern in rules.KEYS.items():
                if pattern.fullmatch(key):
                    return self._names.part(kind, value)
        return self._tree(value, done)

    def _binary(self, data: bytes, source: str) -> bytes:
        lowered, self._names.source = data.lower(), source
        for name, kind in self._names.learnt.items():
            secret = name.encode("utf-8", "replace")
            if len(secret) < _SHORTEST_IN_BINARY or secret not in lowered:
                continue
            fake = self._names.placed(kind, name).encode().ljust(len(secret), b"-")[: len(secret)]
            data = re.sub(rb"(?i)(?<![A-Za-z0-9])" + re.escape(secret) + rb"(?![A-Za-z0-9])", fake, data)
        return data

    def _config_space(self, data: bytes, source: str) -> bytes:
        """Config space with another number in its Device Serial Number capability (PCI Express Base, 7.9.3)."""
        at = 0x100
        for _ in range(_MOST_CAPABILITIES):
            if not 0x100 <= at <= len(data) - 12:
                break
            header = int.from_bytes(data[at : at + 4], "little")
            if header & 0xFFFF == _SERIAL_CAPABILITY:
                octets = "-".join(f"{octet:02x}" for octet in reversed(data[at + 4 : at + 12]))
                fake = self.text(octets, source).replace("-", "")
                return data[: at + 4] + bytes.fromhex(fake)[::-1] + data[at + 12 :]
            at = header >> 20
        return data


def _is_telling(serial: str) -> bool:
    """Whether a serial number is so long that nothing else can read the same."""
    return len(serial) >= 10 or (len(serial) >= 6 and not serial.isdecimal() and not serial.isalpha())


def _escaped_in(text: str) -> Iterable[str]:
    return (_unescaped(match[0]) for match in _ESCAPED.finditer(text)) if text.lstrip()[:1] in ("{", "[") else ()


def _unescaped(string: str) -> str:
    """What a string of JSON stands for; empty where it is none."""
    try:
        return msgspec.json.decode(string.encode("utf-8", "surrogateescape"), type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


def _strings(tree: object) -> Iterable[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from _strings(key)
            yield from _strings(value)
    elif isinstance(tree, list | tuple):
        for each in tree:
            yield from _strings(each)


def _start_of_utf16(data: bytes) -> int | None:
    """Where UTF-16 begins in a file, which in EFI variables has four bytes before it; None where there is none."""
    for at in (0, 2, 4):
        body = data[at : at + _HEAD]
        units = len(body) // 2
        if units < 4 or len(body) % 2 or body[:2] == b"\0\0":
            continue
        if body[1::2].count(0) * 10 >= units * 8 and body[::2].count(0) * 4 < units:
            return at
    return None
