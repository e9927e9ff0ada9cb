"""Which boot file a pasted part is, where its text alone does not tell: by the command that printed it, or its file's name.

/etc/kernel/cmdline looks like /proc/cmdline, and a file of grub.d like /etc/default/grub.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hostdoctor.parsers.paste import Part

# In the names of attached files people write - or _ for the / of a path.
_PATHS = re.compile(
    r"(?:.*[^a-z])?(?:etc[/_.-]default[/_.-]grub\.d[/_.-](?P<drop_in>[\w.+-]+?\.cfg)|(?P<grub>etc[/_.-]default[/_.-]grub)"
    r"|(?P<kernel>etc[/_.-]kernel[/_.-]cmdline)|(?P<uuids>etc[/_.-]kernel[/_.-]proxmox-boot-uuids)"
    r"|(?P<running>proc[/_.-]cmdline))(?:\.(?:txt|log))?\Z"
)
_PLACES = {
    "grub": "etc/default/grub",
    "kernel": "etc/kernel/cmdline",
    "uuids": "etc/kernel/proxmox-boot-uuids",
    "running": "proc/cmdline",
}
_DROP_IN = re.compile(r"(?:.*/)?(\d\d[\w.+-]*\.cfg)\Z")
_PRINTS = re.compile(r"(?:sudo +)?(?:cat|head|less|more|grep(?: +-\w+)*(?: +(?:'[^']*'|\"[^\"]*\"|[^\s/]+))?) +/(\S+)\s*\Z")
_LONGEST = 300
# A part of these kinds, or of none, may be another file than it seems.
_UNSURE = ("", "file:proc/cmdline", "grub-default")

_ENDS_STATEMENT = re.compile(r"(?:#[ \t]*)?(?:export[ \t]+)?GRUB_[A-Z_]+\+?=|(?:fi|done|esac|\})[ \t;]*\Z")


def boot_place(part: Part) -> str:
    """Where on its host the boot file lies that this part is, "etc/kernel/cmdline"; empty where nothing tells."""
    if part.kind not in _UNSURE:
        return ""
    printed = _PRINTS.match(part.command) if len(part.command) <= _LONGEST else None
    if printed:
        return _place(printed[1])
    place = "" if part.command else _place(part.source)
    if not place and part.kind == "grub-default" and (drop_in := _DROP_IN.match(part.source[-_LONGEST:])):
        return f"etc/default/grub.d/{drop_in[1]}"
    return place


def _place(name: str) -> str:
    found = _PATHS.match(name) if len(name) <= _LONGEST else None
    if found is None:
        return ""
    if found["drop_in"]:
        return f"etc/default/grub.d/{found['drop_in']}"
    return next(place for key, place in _PLACES.items() if found[key])


def without_prose(lines: Sequence[str]) -> str:
    """A shell file without what people wrote below it, which the shell would take for commands."""
    last = max(
        (number for number, line in enumerate(lines) if _ENDS_STATEMENT.match(line.lstrip(" \t"))), default=len(lines) - 1
    )
    goes_on = lines[last].endswith("\\") or any(sign in line for line in lines[last + 1 :] for sign in "\"'\\")
    return "\n".join(lines if goes_on else lines[: last + 1])
