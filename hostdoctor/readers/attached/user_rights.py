"""The user's rights on device files, from pasted listings: worked out as the kernel would, from mode, groups and lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from hostdoctor.facts.driver import Access, DeviceNode
from hostdoctor.facts.host import Host
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.parsers.device_files import (
    Acl,
    ListedNode,
    User,
    parse_acls,
    parse_groups,
    parse_id,
    parse_listing,
    parse_memlock,
)
from hostdoctor.parsers.paste import Part

_COMPUTE = ("/dev/kfd", "/dev/dri/renderD", "/dev/nvidia")
_NO_USER = Unknown("device files are listed, but not whose rights are asked for", "attach the output of id")
_READ, _WRITE = 4, 2
_WELL_KNOWN = {"root": 0}


def apply(host: Host, parts: Sequence[Part]) -> Host:
    """The host with the rights of the user whom these parts tell of."""
    listed: dict[str, tuple[ListedNode, str]] = {}
    absent: dict[str, str] = {}
    for part in parts:
        if part.kind == "device-files":
            found, missing = parse_listing(part.lines)
            for each in found:
                if each.path.startswith(_COMPUTE):
                    listed.setdefault(each.path, (each, part.where(each.line)))
            absent.update({path: part.where(line) for path, line in missing})
    if not listed and not absent:
        return host
    user = _user(parts)
    if user is None:
        return host if isinstance(host.access, Access) else msgspec.structs.replace(host, access=_NO_USER)
    acls = {acl.path: acl for part in parts if part.kind == "file-acls" for acl in parse_acls(part.lines)}
    numbers = _Numbers(user)
    nodes = [_node(each, source, user, numbers, acls.get(each.path)) for each, source in listed.values()]
    access = Access(
        user=-1 if user.number is None else user.number,
        groups=tuple(numbers.of(number, name) for number, name in user.groups),
        nodes=tuple(filter(None, nodes)),
        group_names=numbers.names,
        memlock_bytes=_memlock(parts),
        user_name=user.name,
        absent=tuple(path for path in absent if path.startswith(_COMPUTE)),
    )
    return msgspec.structs.replace(host, access=access)


def _user(parts: Sequence[Part]) -> User | None:
    """The first user who is told of, best by `id`, which has numbers and names."""
    for kind, parse in (("user-ids", parse_id), ("user-groups", parse_groups)):
        for part in parts:
            if part.kind == kind and (user := parse(part.lines)):
                return user
    return None


def _memlock(parts: Sequence[Part]) -> int | Unknown | None:
    for part in parts:
        if part.kind == "memlock" and (limit := parse_memlock(part.lines)) is not None:
            return None if limit < 0 else limit
    return NOT_CAPTURED


class _Numbers:
    """Numbers of groups; one of which only the name is known gets a negative number."""

    def __init__(self, user: User) -> None:
        self._by_name = {**_WELL_KNOWN, **{name: number for number, name in user.groups if name and number is not None}}
        self.names: dict[int, str] = {number: name for name, number in self._by_name.items()}

    def of(self, number: int | None, name: str) -> int:
        if number is not None:
            return number
        if name.isdecimal():
            return int(name)
        if name not in self._by_name:
            self._by_name[name] = -1 - len(self._by_name)
            self.names[self._by_name[name]] = name
        return self._by_name[name]


def _node(listed: ListedNode, source: str, user: User, numbers: _Numbers, acl: Acl | None) -> DeviceNode | None:
    """A device file with what the user may do with it; None where the listing does not tell."""
    rights = _rights(listed, user, acl)
    if rights is None:
        return None
    owner = _WELL_KNOWN.get(listed.owner, int(listed.owner) if listed.owner.isdecimal() else -1)
    group = numbers.of(None, listed.group)
    return DeviceNode(listed.path, owner, group, listed.mode, bool(rights & _READ), bool(rights & _WRITE), source)


def _rights(listed: ListedNode, user: User, acl: Acl | None) -> int | None:
    """Bits of what the user may do; root may all (CAP_DAC_OVERRIDE)."""
    if user.number == 0:
        return _READ | _WRITE
    if _is_owner(listed.owner, user):
        return listed.mode >> 6 & 7
    if listed.has_acl:
        return _rights_by_list(acl, user) if acl else _certain(listed.mode & 7)
    member = _is_member(listed.group, user)
    if member is None:
        return _certain(listed.mode & 7)
    return listed.mode >> 3 & 7 if member else listed.mode & 7


def _certain(rights: int) -> int | None:
    """What everybody may is certain even where the user's group is not."""
    return rights if rights & (_READ | _WRITE) == _READ | _WRITE else None


def _is_owner(owner: str, user: User) -> bool:
    return owner == user.name != "" or (owner.isdecimal() and int(owner) == user.number)


def _is_member(group: str, user: User) -> bool | None:
    """Whether the user is in a group; None where one of the two is a name and the other a number."""
    if group.isdecimal():
        numbers = [number for number, _ in user.groups]
        return True if int(group) in numbers else None if None in numbers else False
    names = [name for _, name in user.groups]
    return True if group in names else None if "" in names else False


def _rights_by_list(acl: Acl, user: User) -> int:
    """The access check of POSIX.1e: the user's own entry, else those of the groups, both within the mask; else other."""
    mask = acl.rights.get(("mask", ""), 7)
    for name in filter(None, (user.name, str(user.number))):
        if ("user", name) in acl.rights:
            return acl.rights["user", name] & mask
    matching = list(_group_entries(acl.rights, acl, user))
    if not matching:
        return acl.rights.get(("other", ""), 0)
    both = _READ | _WRITE
    return next((rights & mask for rights in matching if rights & mask & both == both), matching[0] & mask)


def _group_entries(rights: Mapping[tuple[str, str], int], acl: Acl, user: User) -> Iterator[int]:
    for (kind, name), bits in rights.items():
        if kind == "group" and _is_member(name or acl.group, user):
            yield bits
