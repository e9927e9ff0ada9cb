"""Boot loaders whose own file has the kernel line on one line: rEFInd, extlinux with u-boot, the Raspberry Pi's firmware.

Sources: rEFInd's documentation, "Methods of Booting Linux", refind_linux.conf (two quoted fields a line, a quote inside is
doubled, the first line is the default, %v is the kernel's version); U-Boot doc/README.pxe and cmd/pxe_utils.c (APPEND,
${variables} are filled in); Debian's u-boot-menu, u-boot-update(8); NVIDIA Jetson Linux, "Kernel Boot Time Options" and the
comment in its extlinux.conf; Raspberry Pi documentation, "cmdline.txt" (one line) and config.txt cmdline=, os_prefix=.
"""

from __future__ import annotations

import re

import msgspec

from hostdoctor.facts.boot_files import BootFiles
from hostdoctor.facts.unknown import Unknown
from hostdoctor.parameters import all_meanings
from hostdoctor.parsers.cmdline import parse_command_line
from hostdoctor.parsers.kernel_cmdline_file import Label, parse_extlinux
from hostdoctor.readers.boot_loader import Files
from hostdoctor.remedies import kernel_line
from hostdoctor.remedies.loaders import u_boot_menu
from hostdoctor.remedies.loaders.plain import Edit, Words, loader_of, patch_of, text_of
from hostdoctor.remedies.patch import FileChange, Patch, Refused, Request

_REFIND, _EXTLINUX = "boot/refind_linux.conf", "boot/extlinux/extlinux.conf"
_REFINDS_OWN = ("boot/efi/EFI/refind/refind.conf", "efi/EFI/refind/refind.conf", "boot/EFI/refind/refind.conf")
_TWO_FIELDS = re.compile(r'([ \t]*"(?:[^"]|"")*"[ \t]+")((?:[^"]|"")*)("[ \t]*)\Z')
_APPEND = re.compile(r"([ \t]*append[ \t]+)(.*?)([ \t]*)\Z", re.IGNORECASE)
_KEY = re.compile(r"[ \t]*(menu[ \t]+label|[a-z]+)(?:[ \t]|\Z)", re.IGNORECASE)
_EXTLINUX_BY_HAND = f"Add the parameters to the APPEND line of the label that DEFAULT names in /{_EXTLINUX}."


def patch(request: Request, files: Files, boot: BootFiles, running: str | Unknown) -> Patch:
    """The change of the loader's own file."""
    kernel_line.refuse_unsound(request)
    writers = {"refind": _refind, "extlinux": _extlinux, "raspberry-pi": _raspberry_pi}
    return writers[loader_of(boot)](request, files, running)


# --- rEFInd -----------------------------------------------------------------------------------------------------------


def _refind(request: Request, files: Files, running: str | Unknown) -> Patch:
    manual = f"Add the parameters to the second field of the first line of /{_REFIND}."
    for token in request.add:
        if "%" in token:
            raise Refused(f"{token} holds a %, with which rEFInd begins a variable", manual)
    text = text_of(files, _REFIND, manual)
    lines = text.split("\n")
    number = next((number for number, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#")), None)
    match = _TWO_FIELDS.match(lines[number]) if number is not None else None
    if number is None or match is None:
        raise Refused(f'the first line of /{_REFIND} is not of the form "label" "options"', manual)
    base = match[2].replace('""', '"')
    result = kernel_line.edited([base], request)[0]
    lines[number] = match[1] + result.replace('"', '""') + match[3]
    _refuse_other_stanza(files, base, running)
    edit = Edit(FileChange(f"/{_REFIND}", text, "\n".join(lines)), [base], [result])
    fallback = any(_TWO_FIELDS.match(line) for line in lines[number + 1 :])
    without = "Press F2 or Insert at the entry in rEFInd's menu, and choose another line" if fallback else ""
    notes = () if fallback else (f'To keep a way back in the menu, add a second line to /{_REFIND}: "Before" "{match[2]}"',)
    once = f"{without}." if without else "Press F2 or Insert twice at the entry in rEFInd's menu, and undo the change."
    return patch_of(request, running, edit, Words(f"cat /{_REFIND}", once, notes))


def _refuse_other_stanza(files: Files, base: str, running: str | Unknown) -> None:
    """Refuse where a stanza of refind.conf may have started this host instead: it has options of its own."""
    texts = [text for path in _REFINDS_OWN if not isinstance(text := files.text(path), Unknown)]
    lines = [line.split() for text in texts for line in text.split("\n")]
    own = any(line[:1] == ["options"] for line in lines)
    if not own:
        return
    there = all_meanings(parse_command_line("" if isinstance(running, Unknown) else running)[0])
    if not all_meanings(parse_command_line(base)[0]) <= there:
        raise Refused(
            f"refind.conf has entries with options of their own, and the running kernel did not get what /{_REFIND} says",
            "Add the parameters where the entry that you start has its options.",
        )


# --- extlinux ---------------------------------------------------------------------------------------------------------


class _Place(msgspec.Struct, frozen=True):
    """Where the APPEND of the label that starts stands in the file."""

    lines: list[str]
    label: Label
    match: re.Match[str]


def _extlinux(request: Request, files: Files, running: str | Unknown) -> Patch:
    text = text_of(files, _EXTLINUX, _EXTLINUX_BY_HAND)
    kernel_line.refuse_unsound(request, "$", "with which U-Boot begins a variable")
    place = _place(text)
    if "u-boot-update" in text:
        return u_boot_menu.patch(request, files, running, place.match[2])
    if re.search(r"generated automatically|automatically generated|do not edit", text, re.IGNORECASE):
        raise Refused(f"/{_EXTLINUX} says that a program writes it, and which one is not known", _EXTLINUX_BY_HAND)
    base = place.match[2]
    result = kernel_line.edited([base], request)[0]
    lines = list(place.lines)
    lines[place.label.line - 1] = place.match[1] + result + place.match[3]
    after = "\n".join(lines)
    labels = [label.name for label in parse_extlinux(text)]
    notes: tuple[str, ...] = ()
    if "${cbootargs}" in base or _is_jetson(files):
        notes = ("${cbootargs} is filled in by NVIDIA's loader.",)
        if "backup" not in [name.lower() for name in labels]:
            after, labels = _with_backup(after, place), [*labels, "backup"]
    other = next((name for name in labels if name != place.label.name), "")
    without = f"Choose {other} in the menu on the serial console or screen, before its timeout."
    if not other:
        without = "Stop U-Boot on the serial console, and start the kernel without the parameters by hand."
        notes = (f"To have a way back in the menu, copy the label {place.label.name} under another name first.",)
    edit = Edit(FileChange(f"/{_EXTLINUX}", text, after), [base], [result])
    return patch_of(request, running, edit, Words(f"cat /{_EXTLINUX}", without, notes))


def _place(text: str) -> _Place:
    labels = parse_extlinux(text)
    label = next((label for label in labels if label.is_default), None)
    lines = text.split("\n")
    match = _APPEND.match(lines[label.line - 1]) if label else None
    if label is None or match is None:
        raise Refused(f"/{_EXTLINUX} has no APPEND for the label that starts", _EXTLINUX_BY_HAND)
    named = [line.split()[1] for line in lines if len(line.split()) > 1 and line.split()[0].lower() == "default"]
    if len(named) > 1 or (named and named[0] != label.name):
        raise Refused(f"DEFAULT of /{_EXTLINUX} names no label, or more than one", _EXTLINUX_BY_HAND)
    if sum(other.name == label.name for other in labels) > 1:
        raise Refused(f"/{_EXTLINUX} has more than one label {label.name}", _EXTLINUX_BY_HAND)
    start, end = _block(lines, label.line - 1)
    if sum(_key(line) == "append" for line in lines[start:end]) > 1:
        raise Refused(f"the label {label.name} of /{_EXTLINUX} has more than one APPEND", _EXTLINUX_BY_HAND)
    return _Place(lines, label, match)


def _block(lines: list[str], at: int) -> tuple[int, int]:
    """The lines of the label that line `at` belongs to."""
    start = next((number for number in range(at, -1, -1) if _key(lines[number]) == "label"), at)
    return start, next((number for number in range(start + 1, len(lines)) if _key(lines[number]) == "label"), len(lines))


def _key(line: str) -> str:
    match = _KEY.match(line)
    return " ".join(match[1].lower().split()) if match else ""


def _is_jetson(files: Files) -> bool:
    model = files.text("proc/device-tree/model")
    return not isinstance(model, Unknown) and "jetson" in model.lower()


def _with_backup(after: str, place: _Place) -> str:
    """The file with a copy of the old label at its end, as NVIDIA's comment in it advises."""
    lines = place.lines
    start, end = _block(lines, place.label.line - 1)
    while not _key(lines[end - 1]):
        end -= 1
    block = []
    for line in lines[start:end]:
        indent = line[: len(line) - len(line.lstrip())]
        key = _key(line)
        block.append(
            f"{indent}LABEL backup"
            if key == "label"
            else f"{indent}MENU LABEL before the change"
            if key == "menu label"
            else line
        )
    return after.rstrip("\n") + "\n\n" + "\n".join(block) + "\n"


# --- Raspberry Pi -----------------------------------------------------------------------------------------------------


def _raspberry_pi(request: Request, files: Files, running: str | Unknown) -> Patch:
    folder = "boot/firmware" if files.has("boot/firmware/cmdline.txt") else "boot"
    path = f"{folder}/cmdline.txt"
    manual = f"Add the parameters to the only line of /{path}."
    config = files.text(f"{folder}/config.txt")
    for line in [] if isinstance(config, Unknown) else config.split("\n"):
        key = line.strip().partition("=")[0].strip()
        if key in ("cmdline", "os_prefix"):
            raise Refused(f"/{folder}/config.txt has {line.strip()}, so another file may give the command line", manual)
    text = text_of(files, path, manual)
    lines = text.split("\n")
    filled = [number for number, line in enumerate(lines) if line.strip()]
    if filled != [0]:
        raise Refused(f"/{path} does not have exactly one line, and the firmware reads the first alone", manual)
    base = lines[0]
    result = kernel_line.edited([base], request)[0]
    lines[0] = result
    once = f"Put the card into another machine, and undo the change in {path.rpartition('/')[2]} there."
    notes = (f"Keep a copy on the same partition, so that another machine can bring it back: cp /{path} /{folder}/cmdline.old",)
    edit = Edit(FileChange(f"/{path}", text, "\n".join(lines)), [base], [result])
    return patch_of(request, running, edit, Words(f"cat /{path}", once, notes))
