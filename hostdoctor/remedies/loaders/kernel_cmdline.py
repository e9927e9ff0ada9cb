"""/etc/kernel/cmdline, from which proxmox-boot-tool, kernel-install, sdbootutil and mkinitcpio make what boots.

Sources: Proxmox VE Administration Guide, "Editing the Kernel Commandline" (one line; no other is read); kernel-install(8)
and systemd's 90-loaderentry.install and 60-ukify.install (all lines together; /usr/lib/kernel/cmdline and then /proc/cmdline
without BOOT_IMAGE= and initrd= where the file is missing; existing entries stay as they are until a kernel is added again);
mkinitcpio(8) --cmdline and Arch Linux's "Unified kernel image" (# begins a comment; /etc/cmdline.d/*.conf);
openSUSE's sdbootutil(8) update-all-entries.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

import msgspec

from hostdoctor.facts.boot_files import BootFiles, Entry
from hostdoctor.facts.unknown import Unknown
from hostdoctor.parsers.cmdline import parse_command_line
from hostdoctor.parsers.grub_cfg import is_recovery
from hostdoctor.parsers.os_release import parse_os_release
from hostdoctor.readers.boot_loader import Files
from hostdoctor.remedies import kernel_line
from hostdoctor.remedies.kernel_line import read_text
from hostdoctor.remedies.loaders import uki
from hostdoctor.remedies.patch import TAKE_BACK, FileChange, Patch, Refused, Request
from hostdoctor.remedies.quoting import for_grub

_PATH, _VENDORS = "etc/kernel/cmdline", "usr/lib/kernel/cmdline"
# What the loader or kernel-install gives, and what somebody typed at the menu for one start.
_OF_ONE_START = ("BOOT_IMAGE", "initrd", "systemd.machine_id")
_FOR_ONE_START = ("systemd.unit", "init", "rd.break", "systemd.debug_shell", "systemd.mask")
_SOUND_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+~-]{0,120}\Z")
_NUMBERS = re.compile(r"(\d+)")
_MOST_KERNELS = 50
MENU = "Hold the space bar while the host starts, press e at the entry, undo the change on the line and press Enter."


class _Way(msgspec.Struct, frozen=True):
    """How what boots is made from the file.

    Attributes:
        commands: what makes it again.
        show: prints what the next start gets.
        one_line: whether the first line alone is read.
        skips_comments: whether lines that begin with # are left out.
        once_without: how to start once without the change.
        notes: what its owner should know.
    """

    commands: tuple[str, ...]
    show: str
    one_line: bool = False
    skips_comments: bool = False
    once_without: str = MENU
    notes: tuple[str, ...] = ()

    @property
    def by_hand(self) -> str:
        """The manual way."""
        return f"Write the parameters into /{_PATH}, all on one line, then run: {'; '.join(self.commands)}"


def patch(request: Request, files: Files, boot: BootFiles, running: str | Unknown) -> Patch:
    """The change of /etc/kernel/cmdline for the loader that governs."""
    kernel_line.refuse_unsound(request)
    loader = "" if isinstance(boot.loader, Unknown) else boot.loader.name
    if loader == "proxmox-systemd-boot":
        way = _proxmox()
    elif loader == "sdbootutil":
        way = _sdbootutil(request, files)
    elif loader == "uki":
        return _unified(request, files, boot, running)
    else:
        way = _kernel_install(files, boot)
    return change_of(request, files, running, way)


def kernel_install_patch(request: Request, files: Files, boot: BootFiles, running: str | Unknown) -> Patch:
    """The change where kernel-install made the entries, whatever name they have."""
    return change_of(request, files, running, _kernel_install(files, boot))


class _Edit(msgspec.Struct, frozen=True):
    """Files with one kernel line between them.

    Attributes:
        files: those that would change.
        shown: how a sentence calls them.
        base: the pieces of the line as they stand.
        result: the same after the change.
        notes: what its owner should know.
    """

    files: tuple[FileChange, ...]
    shown: str
    base: Sequence[str]
    result: Sequence[str]
    notes: tuple[str, ...] = ()


def change_of(request: Request, files: Files, running: str | Unknown, way: _Way) -> Patch:
    """The patch of /etc/kernel/cmdline, with the commands of its way."""
    before = read_text(files, _PATH, way.by_hand)
    if before is None:
        base = [_start(files, running, way.by_hand)]
        result = kernel_line.edited(base, request)
        made = (f"/{_PATH} is new: from then on it alone says what kernels are started with.",)
        return _finished(
            request, running, way, _Edit((FileChange(f"/{_PATH}", None, f"{result[0]}\n"),), f"/{_PATH}", base, result, made)
        )
    lines = before.split("\n")
    numbers = _lines_that_count(lines, way)
    base = [lines[number] for number in numbers]
    result = kernel_line.edited(base, request)
    change = FileChange(f"/{_PATH}", before, _replaced(lines, numbers, result))
    return _finished(request, running, way, _Edit((change,), change.path, base, result))


def _finished(request: Request, running: str | Unknown, way: _Way, edit: _Edit) -> Patch:
    """Where nothing changes and the running kernel has it all, there is nothing to do; else the commands are to be run."""
    kernel_line.refuse_other_root(kernel_line.joined(edit.base), running, edit.shown)
    line = kernel_line.joined(edit.result)
    _refuse_without_root(line, running, edit.shown)
    changes = () if kernel_line.is_same(edit.base, edit.result) else edit.files
    if not changes and kernel_line.is_in_force(request, running):
        return Patch(result=line, show=way.show, reboot=False)
    notes = [*way.notes, *edit.notes] if changes else [*way.notes, kernel_line.waits(edit.shown)]
    notes += kernel_line.not_found_notes(edit.base, request, edit.shown)
    return Patch(changes, way.commands, line, way.show, _revert(edit, way) if changes else (), way.once_without, tuple(notes))


def _revert(edit: _Edit, way: _Way) -> tuple[str, ...]:
    """A file that was made stays, with the line as it was: without it, the running kernel's line would be taken."""
    change = edit.files[0]
    if change.before is None:
        return (f"printf '%s\\n' {shlex.quote(edit.base[0])} > {change.path}", *way.commands)
    return (TAKE_BACK, *way.commands)


def _lines_that_count(lines: Sequence[str], way: _Way) -> list[int]:
    """The numbers of the lines that are read as parameters, from 0."""
    filled = [number for number, line in enumerate(lines) if line.strip()]
    comments = [number for number in filled if lines[number].lstrip().startswith("#")]
    if way.one_line and (filled != [0] or comments):
        what = "more than one line" if len(filled) > 1 else "no parameters on its first line"
        raise Refused(
            f"/{_PATH} has {what}, and only the first one is used",
            f"Put all parameters of /{_PATH} on its first line, without comments, then try again.",
        )
    if comments and not way.skips_comments:
        raise Refused(
            f"/{_PATH}:{comments[0] + 1} is a comment, which is given to the kernel as it is",
            "Take the comment out, then try again.",
        )
    kept = [number for number in filled if number not in comments]
    if not kept:
        raise Refused(f"/{_PATH} holds no parameters, not even root=", way.by_hand)
    return kept


def _replaced(lines: Sequence[str], numbers: Sequence[int], texts: Iterable[str]) -> str:
    """The file with some lines changed; a line of which nothing is left goes."""
    new = dict(zip(numbers, texts, strict=True))
    return "\n".join(new.get(number, line) for number, line in enumerate(lines) if new.get(number, "x").strip() or not line)


def _refuse_without_root(line: str, running: str | Unknown, shown: str) -> None:
    """Refuse a line without root= where the running kernel got one that no loader adds."""
    if isinstance(running, Unknown) or kernel_line.names(line, "root") is not None:
        return
    root = kernel_line.names(running, "root")
    if root is not None:
        raise Refused(
            f"{shown} has no root= and the running kernel got root={root}, so something else gives the command line",
            "Find out where root= stands, and change the parameters there.",
        )


def _start(files: Files, running: str | Unknown, by_hand: str) -> str:
    """The line for a new file: what is used as long as there is none."""
    vendors = read_text(files, _VENDORS, by_hand)
    if vendors is not None:
        return " ".join(vendors.split())
    if isinstance(running, Unknown):
        raise Refused(f"there is no /{_PATH}, and the running kernel's command line is not known: {running.reason}", by_hand)
    parameters, _ = parse_command_line(running)
    typed = next((each.text for each in parameters if each.key in _FOR_ONE_START), "")
    if is_recovery(parameters) or typed:
        raise Refused(
            f"there is no /{_PATH}, and the running kernel was started for one purpose ({typed or 'a rescue system'})",
            "Start the host as usual, then try again.",
        )
    return kernel_line.without_keys(running.strip(), _OF_ONE_START)


# --- the ways ---------------------------------------------------------------------------------------------------------


def _proxmox() -> _Way:
    return _Way(
        ("proxmox-boot-tool refresh",),
        "proxmox-boot-tool status",
        one_line=True,
        notes=("proxmox-boot-tool writes the entries of all kernels on all EFI system partitions; they are not mounted.",),
    )


def _sdbootutil(request: Request, files: Files) -> _Way:
    text = files.text("etc/os-release")
    id_ = "" if isinstance(text, Unknown) else parse_os_release(text).get("ID", "")
    if "micro" in id_ or id_ in ("opensuse-aeon", "opensuse-kalpa"):
        raise Refused(
            f"{id_} is changed in a new snapshot, not in the running system",
            "Run transactional-update shell, add the parameters to /etc/kernel/cmdline there, run sdbootutil "
            "update-all-entries, leave the shell and restart.",
        )
    kind = files.text("etc/sysconfig/bootloader")
    by_grub = isinstance(kind, Unknown) or parse_os_release(kind).get("LOADER_TYPE", "") != "systemd-boot"
    special = next((token for token in request.add if by_grub and for_grub(token) != token), "")
    if special:
        raise Refused(
            f"{special} holds a character that GRUB reads for itself when it starts the entries that sdbootutil writes",
            "Write it with a backslash before that character, and look at /proc/cmdline after the restart.",
        )
    return _Way(
        ("sdbootutil update-all-entries",),
        "sdbootutil list-entries",
        once_without="Press e at the entry in the menu and undo the change on the line.",
        notes=("Entries of older snapshots keep the command line of their own snapshot.",),
    )


def _kernel_install(files: Files, boot: BootFiles) -> _Way:
    kernels = _kernels(files, boot)
    commands = tuple(f"kernel-install add {shlex.quote(version)} {shlex.quote(image)}" for version, image in kernels)
    notes = ["Entries that exist do not change by the file alone: each kernel is added again."]
    if len(kernels) > 1:
        notes.append(f"To keep one entry as it is, leave out the command for {kernels[0][0]}.")
    if not kernels:
        commands = ('kernel-install add "$(uname -r)" "/lib/modules/$(uname -r)/vmlinuz"',)
        notes.append("Which kernels are installed is not in this evidence: repeat the command for each of them.")
    return _Way(commands, "bootctl list --no-pager", notes=tuple(notes))


def _unified(request: Request, files: Files, boot: BootFiles, running: str | Unknown) -> Patch:
    builder = uki.builder(files)
    without = "Choose an older image in the menu; with Secure Boot a line typed there is ignored."
    if builder == "kernel-install":
        way = msgspec.structs.replace(_kernel_install(files, boot), once_without=without)
        return change_of(request, files, running, way)
    notes = ("With Secure Boot the new image must be signed: sbctl does that by its hook, others by hand.",)
    way = _Way(("mkinitcpio -P",), "bootctl list --no-pager", skips_comments=True, once_without=without, notes=notes)
    if drop_ins := uki.drop_ins(files, running):
        return _of_drop_ins(request, files, running, way, drop_ins)
    return change_of(request, files, running, way)


def _of_drop_ins(request: Request, files: Files, running: str | Unknown, way: _Way, paths: Sequence[str]) -> Patch:
    """Files of /etc/cmdline.d, which belong together: each is changed where something goes, and the last gets what is new."""
    texts = {path: read_text(files, path, way.by_hand) or "" for path in paths}
    places = [
        (path, number)
        for path, text in texts.items()
        for number, line in enumerate(text.split("\n"))
        if line.strip() and not line.lstrip().startswith("#")
    ]
    base = [texts[path].split("\n")[number] for path, number in places]
    result = kernel_line.edited(base, request)
    changes = []
    for path, text in texts.items():
        mine = {number: new for (owner, number), new in zip(places, result, strict=True) if owner == path}
        changes.append(FileChange(f"/{path}", text, _replaced(text.split("\n"), list(mine), mine.values())))
    changed = tuple(each for each in changes if each.before != each.after)
    return _finished(request, running, way, _Edit(changed, f"/{uki.FOLDER}", base, result))


# --- kernels ----------------------------------------------------------------------------------------------------------


def _kernels(files: Files, boot: BootFiles) -> list[tuple[str, str]]:
    """Version and image of each kernel that has an entry, the oldest first; of all installed ones without entries."""
    entries = () if isinstance(boot.entries, Unknown) else boot.entries
    with_entry = {entry.version for entry in entries if _is_normal(entry)}
    found: dict[str, str] = {}
    for folder in ("usr/lib/modules", "lib/modules"):
        for version in files.names(folder):
            if files.has(f"{folder}/{version}/vmlinuz"):
                found.setdefault(version, f"/{folder}/{version}/vmlinuz")
    for name in files.names("boot"):
        if name.startswith("vmlinuz-"):
            found.setdefault(name.removeprefix("vmlinuz-"), f"/boot/{name}")
    if not found:
        is_debian = any(entry.kernel.rpartition("/")[2].startswith("vmlinuz-") for entry in entries) or _is_debian(files)
        running = files.text("proc/sys/kernel/osrelease")
        versions = with_entry or ({running.strip()} if isinstance(running, str) else set())
        found = {each: f"/boot/vmlinuz-{each}" if is_debian else f"/lib/modules/{each}/vmlinuz" for each in versions}
    kept = {version: image for version, image in found.items() if _SOUND_VERSION.match(version)}
    if with_entry & set(kept):
        kept = {version: image for version, image in kept.items() if version in with_entry}
    return sorted(kept.items(), key=lambda each: _in_order(each[0]))[-_MOST_KERNELS:]


def _is_normal(entry: Entry) -> bool:
    return bool(entry.version) and entry.standard and not entry.recovery


def _is_debian(files: Files) -> bool:
    text = files.text("etc/os-release")
    release = {} if isinstance(text, Unknown) else parse_os_release(text)
    return bool({"debian", "ubuntu"} & {release.get("ID", ""), *release.get("ID_LIKE", "").split()})


def _in_order(version: str) -> list[tuple[int, str]]:
    return [(int(part[:18]), "") if part.isdecimal() else (-1, part) for part in _NUMBERS.split(version)]
