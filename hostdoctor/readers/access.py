"""What the calling user may do with the device files that compute needs; nothing is opened.

os.access asks the kernel with the effective ids, so access lists and capabilities count too. What a container's device
rules forbid shows only when a file is opened, and so not here.
"""

from __future__ import annotations

import os
import re
import resource
import stat

from hostdoctor.evidence import Evidence
from hostdoctor.facts.driver import Access, DeviceNode
from hostdoctor.facts.unknown import ANOTHER_USER, Unknown
from hostdoctor.readers.text import text_of

_NVIDIA = re.compile(r"\Anvidia(?:\d+|ctl|-uvm)\Z")
_RENDER = re.compile(r"\ArenderD\d+\Z")
_NODES_LIMIT = 256


def read_access(evidence: Evidence) -> Access | Unknown:
    """The rights of whoever runs this; only this host's own evidence has a user."""
    if evidence.kind != "live":
        return ANOTHER_USER
    root = evidence.sources[0].rstrip("/")
    paths = ["/dev/kfd", *_matching(root, "/dev/dri", _RENDER), *_matching(root, "/dev", _NVIDIA)]
    nodes = [node for path in paths if (node := _node(root, path))]
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return Access(
        user=os.geteuid(),
        groups=tuple(sorted({os.getegid(), *os.getgroups()})),
        nodes=tuple(nodes),
        group_names=_group_names(evidence, {node.group for node in nodes}) if nodes else {},
        memlock_bytes=None if limit == resource.RLIM_INFINITY else limit,
    )


def _matching(root: str, folder: str, pattern: re.Pattern[str]) -> list[str]:
    try:
        names = os.listdir(root + folder)
    except OSError:
        return []
    return [f"{folder}/{name}" for name in sorted(names) if pattern.match(name)][:_NODES_LIMIT]


def _node(root: str, path: str) -> DeviceNode | None:
    try:
        status = os.stat(root + path)
    except OSError:
        return None
    if stat.S_ISDIR(status.st_mode):
        return None
    return DeviceNode(
        path,
        status.st_uid,
        status.st_gid,
        stat.S_IMODE(status.st_mode),
        _may(root + path, os.R_OK),
        _may(root + path, os.W_OK),
    )


def _may(path: str, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _group_names(evidence: Evidence, wanted: set[int]) -> dict[int, str]:
    """Names of groups, from the file alone: a directory service could keep us waiting, and does not hold these groups."""
    text = text_of(evidence, "etc/group")
    found: dict[int, str] = {}
    for line in "" if isinstance(text, Unknown) else text.splitlines():
        fields = line.split(":")
        if len(fields) >= 3 and fields[2].isdecimal() and int(fields[2]) in wanted:
            found.setdefault(int(fields[2]), fields[0])
    return found
