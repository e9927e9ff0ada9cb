"""Device files as ls and getfacl list them, and users as id, groups and ulimit do.

Sources: GNU coreutils ls -l and id; acl getfacl; POSIX.1e draft 17, access check algorithm.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

_LISTED = re.compile(r"[cb]([rwxsStT-]{9})([.+@]?)\s+\d{1,6}\s+(\S{1,64})\s+(\S{1,64})\s+\d{1,6},\s*\d{1,7}\s(.*)")
_MISSING = re.compile(r"ls: .*?(/dev/[\w./*-]{1,60}).*: No such file or directory\s*\Z")
_ID = re.compile(r"uid=(\d{1,10})(?:\(([^)]{0,64})\))?")
_ID_GROUPS = re.compile(r"\s(?!uid=|gid=|euid=|egid=|context=)[^\s=]{1,20}=(.+?)(?: context=\S*)?\s*\Z")
_ID_PRIMARY = re.compile(r"\sgid=(\S+)")
_WHOLE_GROUPS = re.compile(r"\d{1,10}(?:\([^)]{0,64}\))?(?:,\d{1,10}(?:\([^)]{0,64}\))?){0,4096}")
_GROUP = re.compile(r"(\d{1,10})(?:\(([^)]{0,64})\))?")
_GROUPS = re.compile(r"(?:(\S{1,64}) : )?([A-Za-z_][\w.-]{0,63}(?: [A-Za-z_][\w.-]{0,63})*)\s*\Z")
_MEMLOCK = re.compile(r"(?:max locked memory\s.*?-l\)\s*)?(unlimited|\d{1,15})\s*\Z")
_ACL = re.compile(r"(user|group|mask|other):([^:]{0,64}):([rwx-]{3})")

_RIGHTS = {"r": 4, "w": 2, "x": 1, "s": 1, "t": 1}


class ListedNode(msgspec.Struct, frozen=True):
    """A device file as it is listed; owner and group are names, or numbers where nothing names them."""

    path: str
    owner: str
    group: str
    mode: int
    has_acl: bool
    line: int


class Acl(msgspec.Struct, frozen=True):
    """An access control list: rights by entry, ("user", "alice") -> 6; the owner's and the group's have no name."""

    path: str
    owner: str
    group: str
    rights: Mapping[tuple[str, str], int]


class User(msgspec.Struct, frozen=True):
    """Who uses the devices: numbers where they are told, names where they are; groups as (number, name)."""

    line: int
    number: int | None = None
    name: str = ""
    groups: tuple[tuple[int | None, str], ...] = ()


def parse_listing(lines: Sequence[str]) -> tuple[list[ListedNode], list[tuple[str, int]]]:
    """The device files below /dev of an `ls -l`, and those that it says are missing, with their lines."""
    nodes, missing = [], []
    for number, line in enumerate(lines):
        if found := _LISTED.match(line[:300]):
            path = _path(found[5].split()[-1] if found[5].split() else "")
            if path:
                nodes.append(ListedNode(path, found[3], found[4], mode_of(found[1]), found[2] == "+", number))
        elif gone := _MISSING.match(line[:300]):
            missing.append((gone[1], number))
    return nodes, missing


def _path(name: str) -> str:
    """The path of a device file, also where ls listed its folder and so gives the name alone."""
    if name.startswith("/dev/"):
        return name
    if re.fullmatch(r"(?:card|renderD)\d{1,4}", name):
        return f"/dev/dri/{name}"
    return f"/dev/{name}" if name == "kfd" or re.fullmatch(r"nvidia(?:\d{1,4}|ctl|-uvm)", name) else ""


def mode_of(text: str) -> int:
    """Permission bits of "rw-rw----"."""
    bits = 0
    for place, letter in enumerate(text[:9]):
        bits |= _RIGHTS.get(letter, 0) << (6 - place // 3 * 3)
    return bits


def parse_acls(lines: Sequence[str]) -> list[Acl]:
    """The lists of a getfacl, which names each file without its leading slash."""
    found: list[Acl] = []
    head: dict[str, str] = {}
    rights: dict[tuple[str, str], int] = {}
    for line in (*lines, "# file: "):
        if line.startswith("# file: "):
            if rights:
                path = "/" + head.get("file", "").lstrip("/")
                found.append(Acl(path, head.get("owner", ""), head.get("group", ""), rights))
            head, rights = {"file": line[8:].strip()}, {}
        elif line.startswith(("# owner: ", "# group: ")):
            head[line[2:7]] = line[9:].strip()
        elif entry := _ACL.match(line):
            rights[entry[1], entry[2]] = mode_of(entry[3].rjust(9, "-"))
    return found


def parse_id(lines: Sequence[str]) -> User | None:
    """The user of an `id`, whatever language it speaks; nobody where the line ends before the groups do."""
    for number, line in enumerate(lines):
        if found := _ID.match(line):
            listed = _ID_GROUPS.search(line) or (_ID_PRIMARY.search(line) if found[1] == "0" else None)
            if found[1] != "0" and (listed is None or not _WHOLE_GROUPS.fullmatch(listed[1])):
                continue
            groups = [(int(each[1]), each[2] or "") for each in _GROUP.finditer(listed[1] if listed else "")]
            return User(number, int(found[1]), found[2] or "", tuple(groups))
    return None


def parse_groups(lines: Sequence[str]) -> User | None:
    """The user of a `groups`: "alice : alice video" where a user was named, else only the groups."""
    for number, line in enumerate(lines):
        if found := _GROUPS.match(line[:4096]):
            name = found[1] or ""
            return User(number, 0 if name == "root" else None, name, tuple((None, group) for group in found[2].split()))
    return None


def parse_memlock(lines: Sequence[str]) -> int | None:
    """Bytes of `ulimit -l`, which counts in KiB; -1 stands for unlimited, None for no answer."""
    for line in lines:
        if found := _MEMLOCK.match(line[:200]):
            return -1 if found[1] == "unlimited" else int(found[1]) << 10
    return None
