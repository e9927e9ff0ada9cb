"""What lies in folders and archives that support tools collect, made ready to be taken apart.

Two hazards are removed here: what was collected twice would be counted twice (the kernel's messages stand in dmesg, in the
journal and in log files), and messages of earlier boots tell of another state of the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from hostdoctor.evidence.attached import Attachment
from hostdoctor.evidence.support import artifacts_of, path_of_command, place_of, rank_of_log
from hostdoctor.parsers.paste import Part
from hostdoctor.readers.attached.boot_names import boot_place

_BOOT = "Linux version "  # a log that begins with the boot has it among its first lines
_HEAD = 1 << 16

_EARLIER_BOOT = re.compile(r"Section: (?:\w+ )?Previous boot logs")
_SAME_BOOT = "Section: Current boot logs"
_DMESG = "Section: dmesg boot logs"

_BY_COMMAND = {
    "groups": "user-groups",
    "id -nG": "user-groups",
    "id -Gn": "user-groups",
    "ulimit -l": "memlock",
    "uname -r": "file:proc/sys/kernel/osrelease",
}
_PICKS_CPUINFO = re.compile(r"(?:cat|e?grep|head)\b.{0,200} /proc/cpuinfo\b")
_LISTS_PARAMETERS = re.compile(r"(?:sudo )?ls(?: -\w{1,8})* /sys/module/amdgpu/parameters/?\Z")
# What tools say in place of a file that they could not read, in any language: "cat: /sys/x: No such file or directory".
_COMPLAINT = re.compile(r"(?:z?cat|e?grep|head|tail|less|more|sudo|ls|(?:ba|z|da)?sh): \S")


def unfolded(files: Iterable[Attachment]) -> list[Attachment]:
    """The texts, those that list commands with their outputs replaced by these, and each text only once."""
    found: list[Attachment] = []
    seen: set[tuple[int, int]] = set()
    for file in files:
        outputs = artifacts_of(file.text)
        inner = [Attachment(f"{file.name} ({command[:80]})", path_of_command(command), text) for command, text in outputs]
        for each in inner or [file]:
            text = each.text.strip()
            mark = (len(text), hash(text))
            if mark not in seen:
                seen.add(mark)
                found.append(each)
    return _one_kernel_log(found)


def _one_kernel_log(files: list[Attachment]) -> list[Attachment]:
    """Of a sosreport's copies of the kernel's messages the best: one that begins with the boot, else the first."""
    logs = [(rank, file) for file in files if (rank := rank_of_log(file.path)) is not None]
    if len(logs) < 2:
        return files
    best = min(logs, key=lambda each: (_BOOT not in each[1].text[:_HEAD], each[0], each[1].path))[1]
    others = {id(file) for _, file in logs if file is not best}
    return [file for file in files if id(file) not in others]


def placed(files: Iterable[Attachment]) -> tuple[dict[str, Attachment], list[Attachment]]:
    """The host's own files by where they lie on it, and the other texts; of two for one place the first stands."""
    own: dict[str, Attachment] = {}
    rest: list[Attachment] = []
    for file in files:
        place = place_of(file.path) if file.path else ""
        if place:
            own.setdefault(place, file)
        else:
            rest.append(file)
    return own, rest


def named(part: Part) -> Part:
    """A part that nothing recognised, or of which there is more than one kind, as the command above it or its name tells."""
    if not part.kind and _COMPLAINT.match(next((line for line in part.lines if line.strip()), "")):
        return msgspec.structs.replace(part, kind="complaint")
    if place := boot_place(part):
        return msgspec.structs.replace(part, kind=f"file:{place}")
    if part.kind or not part.command:
        return part
    kind = _printed_by(part.command)
    return msgspec.structs.replace(part, kind=kind) if kind else part


def _printed_by(command: str) -> str:
    """The kind of what a command printed, of which the lines say nothing."""
    if place := place_of(path_of_command(command)):
        return f"file:{place}"
    if _LISTS_PARAMETERS.match(command):
        return "parameter-names"
    return "file:proc/cpuinfo" if _PICKS_CPUINFO.match(command) else _BY_COMMAND.get(command, "")


def of_this_boot(parts: Sequence[Part]) -> Iterator[Part]:
    """Without the messages of earlier boots, nor those of this one a second time (rocm_techsupport.sh prints all)."""
    has_dmesg = any(part.kind == "kernel-log" and _DMESG in part.command for part in parts)
    for part in parts:
        if part.kind == "kernel-log" and _EARLIER_BOOT.search(part.command):
            continue
        if part.kind == "kernel-log" and has_dmesg and _SAME_BOOT in part.command:
            continue
        yield part
