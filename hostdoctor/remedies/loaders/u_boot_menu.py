"""Debian's u-boot-menu: /etc/default/u-boot, a file of sh, from which u-boot-update writes extlinux.conf.

Source: u-boot-update of u-boot-menu 4.2.2: U_BOOT_PARAMETERS, else /etc/kernel/cmdline (newer versions), else "ro quiet"; then
/usr/share/u-boot-menu/conf.d and /etc/u-boot-menu/conf.d. It prints with echo, which takes backslashes for itself.
"""

from __future__ import annotations

import re

from hostdoctor.facts.unknown import Unknown
from hostdoctor.readers.boot_loader import Files
from hostdoctor.remedies import kernel_line
from hostdoctor.remedies.loaders.plain import Edit, Words, patch_of
from hostdoctor.remedies.patch import FileChange, Patch, Refused, Request

_PATH = "etc/default/u-boot"
_FOLDERS = ("usr/share/u-boot-menu/conf.d", "etc/u-boot-menu/conf.d")
_BY_HAND = "Add the parameters to U_BOOT_PARAMETERS in /etc/default/u-boot, then run u-boot-update."
_ASSIGNMENT = re.compile(
    r"""(U_BOOT_PARAMETERS=)(?:(")([^"\\$`]*)"|(')([^']*)'|([^\s"'\\$`;&|<>()#]*))([ \t]*(?:[ \t]#.*)?)\Z"""
)
_SIMPLE = re.compile(r"""\s*(?:#.*|[A-Za-z_]\w*=(?:"[^"\\$`]*"|'[^']*'|[^\s"'\\$`;&|<>()#]*)\s*(?:\s#.*)?)?\Z""")
_WITHOUT = "Choose the recovery entry or another kernel in U-Boot's menu, on the serial console or screen."


def patch(request: Request, files: Files, running: str | Unknown, append: str) -> Patch:
    """The change of U_BOOT_PARAMETERS.

    Args:
        request: what to change.
        files: of the host.
        running: the running kernel's command line.
        append: what was generated for the entry that starts.
    """
    kernel_line.refuse_unsound(request, "\"'\\", "which sh and u-boot-update take for themselves")
    _refuse_fragments(files)
    before = kernel_line.read_text(files, _PATH, _BY_HAND)
    text = before or ""
    lines = text.split("\n")
    strange = next((number for number, line in enumerate(lines, 1) if not _SIMPLE.match(line)), 0)
    if strange:
        raise Refused(f"/{_PATH}:{strange} is more than an assignment", _BY_HAND)
    found = [number for number, line in enumerate(lines) if line.startswith("U_BOOT_PARAMETERS=")]
    match = _ASSIGNMENT.match(lines[found[0]]) if len(found) == 1 else None
    if len(found) > 1 or (found and match is None):
        raise Refused(f"/{_PATH}:{found[-1] + 1} sets U_BOOT_PARAMETERS in a way that is not understood, or again", _BY_HAND)
    if match is None and files.has("etc/kernel/cmdline"):
        raise Refused(
            "U_BOOT_PARAMETERS is not set, and newer versions of u-boot-update take /etc/kernel/cmdline then",
            "Add the parameters to /etc/kernel/cmdline, run u-boot-update, and look at /boot/extlinux/extlinux.conf.",
        )
    base = match[3] or match[5] or match[6] or "" if match else kernel_line.without_keys(append, ("root",))
    result = kernel_line.edited([base], request)[0]
    quote = (match[4] if match else "") or '"'
    line = f"U_BOOT_PARAMETERS={quote}{result}{quote}{match[7] if match else ''}"
    if found:
        lines[found[0]] = line
        after = "\n".join(lines)
    else:
        after = f"{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{line}\n"
    root = kernel_line.names(append, "root")
    roots = [] if root is None else [f"root={root}"]  # u-boot-update puts it before the parameters
    edit = Edit(FileChange(f"/{_PATH}", before, after), [*roots, base], [*roots, result])
    words = Words("cat /boot/extlinux/extlinux.conf", _WITHOUT, commands=("u-boot-update",))
    return patch_of(request, running, edit, words)


def _refuse_fragments(files: Files) -> None:
    for folder in _FOLDERS:
        for name in files.names(folder):
            text = files.text(f"{folder}/{name}")
            if name.endswith(".conf") and (isinstance(text, Unknown) or "U_BOOT_PARAMETERS" in text):
                raise Refused(
                    f"/{folder}/{name} is read after /{_PATH} and sets U_BOOT_PARAMETERS",
                    f"Add the parameters there. {_BY_HAND}",
                )
