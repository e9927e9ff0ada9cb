"""Entries of systemd-boot that were made by hand: the options of the one that started this host.

systemd-boot hands the options over as they are: no shell, no variables, several lines joined by blanks; a line ends at CR or
LF (Boot Loader Specification, type 1; systemd src/boot/efi/boot.c line_get_key_value; loader.conf(5) default, editor).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from fnmatch import fnmatchcase

from hostdoctor.facts.boot_files import BootFiles, Entry
from hostdoctor.facts.unknown import Unknown
from hostdoctor.parsers.cmdline import parse_command_line
from hostdoctor.readers.boot_loader import Files
from hostdoctor.remedies import kernel_line
from hostdoctor.remedies.loaders import kernel_cmdline
from hostdoctor.remedies.loaders.plain import MENU, Edit, Words, patch_of, text_of
from hostdoctor.remedies.patch import FileChange, Patch, Refused, Request

_MOST_COPIES = 20
_OPTIONS = re.compile(r"([ \t]*options[ \t]+)(.*?)([ \t\r]*)\Z")
_KERNEL_INSTALLS = re.compile(r"/[^/]+/[^/]+/linux\Z")
_BY_HAND = "Add the parameters to the options line of the entry that bootctl list marks as selected."
# What writes the entries anew, by a file that it has, and what to do there.
_WRITERS = {
    "etc/sdboot-manage.conf": "Add the parameters to LINUX_OPTIONS in /etc/sdboot-manage.conf, then run sdboot-manage gen.",
    "usr/bin/clr-boot-manager": "Write the parameters into a file of /etc/kernel/cmdline.d, then run clr-boot-manager update.",
}


def patch(request: Request, files: Files, boot: BootFiles, running: str | Unknown) -> Patch:
    """The change of the entry that started this host."""
    kernel_line.refuse_unsound(request)
    for path, manual in _WRITERS.items():
        if files.has(path):
            raise Refused(f"/{path} is there, so the entries are written anew by a program", manual)
    entry = _started(boot, running)
    if _KERNEL_INSTALLS.match(entry.kernel):
        return kernel_cmdline.kernel_install_patch(request, files, boot, running)
    path = entry.file[1:]
    if not entry.file.startswith("/"):
        raise Refused(f"the file of the entry {entry.name} is not in this evidence", _BY_HAND)
    text = text_of(files, path, _BY_HAND, ends_with_cr=True)
    if "90-loaderentry.install" in text:
        return kernel_cmdline.kernel_install_patch(request, files, boot, running)
    return patch_of(request, running, _edited(text, path, request), _words(files, path, entry))


def _edited(text: str, path: str, request: Request) -> Edit:
    lines = text.split("\n")
    found = {number: match for number, line in enumerate(lines) if (match := _OPTIONS.match(line))}
    if not found:
        raise Refused(f"/{path} has no options, not even root=", _BY_HAND)
    base = [match[2] for match in found.values()]
    result = kernel_line.edited(base, request)
    for (number, match), new in zip(found.items(), result, strict=True):
        lines[number] = f"{match[1]}{new}{match[3]}"
    emptied = {number for number, new in zip(found, result, strict=True) if not new.strip()}
    after = "\n".join(line for number, line in enumerate(lines) if number not in emptied)
    return Edit(FileChange(f"/{path}", text, after), base, result)


def _words(files: Files, path: str, entry: Entry) -> Words:
    root = path.removesuffix("/entries/" + path.rpartition("/")[2])
    settings = _loader_conf(files, f"{root}/loader.conf")
    copy = _free(files, path.removesuffix(".conf"))
    notes = [
        f"To have the old line in the menu as well, copy the entry first: cp {shlex.quote('/' + path)} {shlex.quote(copy)}"
    ]
    chosen = settings.get("default", "")
    if chosen and not chosen.startswith("@") and not fnmatchcase(f"{entry.id}.conf", chosen) and chosen != entry.id:
        notes.append(f"/{root}/loader.conf starts {chosen} by default, and this host was started from {entry.id}.conf.")
    closed = settings.get("editor", "yes").lower() in ("no", "n", "0", "false", "f", "off")
    without = "Choose another entry in the menu: its editor is switched off in loader.conf." if closed else MENU
    return Words("bootctl list --no-pager", without, tuple(notes))


def _free(files: Files, stem: str) -> str:
    """A path for a copy of an entry, where none lies yet: distributions have a fallback of their own."""
    numbers = ["", *map(str, range(2, _MOST_COPIES))]
    return next((f"/{path}" for each in numbers if not files.has(path := f"{stem}-fallback{each}.conf")), f"/{stem}.old")


def _loader_conf(files: Files, path: str) -> dict[str, str]:
    text = files.text(path)
    lines = [] if isinstance(text, Unknown) else [line.split(None, 1) for line in text.split("\n")]
    return {line[0]: line[1].strip() for line in lines if len(line) == 2 and not line[0].startswith("#")}


def _started(boot: BootFiles, running: str | Unknown) -> Entry:
    """The entry that started this host, by what the loader says, else by its initrd, else by its options."""
    entries = boot.entries
    if isinstance(entries, Unknown) or not entries:
        why = entries.reason if isinstance(entries, Unknown) else "there is none in this evidence"
        raise Refused(f"which entry started this host is not known: {why}", _BY_HAND)
    parameters = () if isinstance(running, Unknown) else parse_command_line(running)[0]
    initrds = {(each.value or "").replace("\\", "/") for each in parameters if each.name == "initrd"}
    ours = {each.text for each in parameters if each.name != "initrd"}
    candidates: Sequence[Entry] = ()
    for candidates in (
        [entry for entry in entries if entry.was_booted],
        [entry for entry in entries if initrds & set(entry.initrds) and {each.text for each in entry.parameters} == ours],
        [entry for entry in entries if {each.text for each in entry.parameters} == ours],
        [entry for entry in entries if initrds & set(entry.initrds)],
        [entry for entry in entries if not entry.recovery],
    ):
        if len(candidates) == 1:
            return candidates[0]
    names = ", ".join(entry.id or entry.name for entry in entries[:5])
    raise Refused(f"which entry started this host is not known: {names} are possible", _BY_HAND)
