"""Flatcar: grub.cfg of the OEM partition, a script of GRUB's that sets linux_append, which its own grub.cfg hands on.

Between double quotes GRUB takes all but $, " and a backslash before these as it is, and a variable's value is not parsed
again (GNU GRUB manual, "Quoting"); blanks split it into arguments. Source: Flatcar, "Adding custom kernel boot options".
"""

from __future__ import annotations

import re

from hostdoctor.facts.boot_files import BootFiles
from hostdoctor.facts.unknown import Unknown
from hostdoctor.readers.boot_loader import Files
from hostdoctor.remedies import kernel_line
from hostdoctor.remedies.patch import TAKE_BACK, FileChange, Patch, Refused, Request

_PATHS = ("oem/grub.cfg", "usr/share/oem/grub.cfg")
_SET = re.compile(
    r"""([ \t]*set[ \t]+linux_append=)(?:"((?:\$linux_append(?=[ "]))?[^"\\$`']*)"|'([^'"\\]*)'|([^\s"'\\$;{}|&<>]*))[ \t]*\Z"""
)
_HARMLESS = re.compile(r"""[ \t]*(?:#.*|(?:set|serial|terminal_input|terminal_output|insmod|export)\b[^;{}|&<>]*)?\Z""")
_BY_HAND = 'Add a line set linux_append="$linux_append PARAMETERS" to /oem/grub.cfg.'
_OWN = "$linux_append"


def patch(request: Request, files: Files, _boot: BootFiles, running: str | Unknown) -> Patch:
    """The change of the OEM partition's grub.cfg."""
    kernel_line.refuse_unsound(request, " \"'\\$", "which GRUB takes for itself")
    path = next((path for path in _PATHS if files.has(path)), "")
    if not path:
        path = next((each for each in _PATHS if files.has(each.rpartition("/")[0])), _PATHS[0])
    before = kernel_line.read_text(files, path, _BY_HAND)
    lines = (before or "").split("\n")
    set_there = _assignments(lines, path)
    pieces = [value.removeprefix(_OWN) for _, _, value in set_there]
    taken_out = kernel_line.edited(pieces, Request((), request.remove)) if pieces else []
    for (number, head, value), new in zip(set_there, taken_out, strict=True):
        own = _OWN if value.startswith(_OWN) else ""
        if new != value.removeprefix(own):
            lines[number] = f'{head}"{own}{new.rstrip()}"'
    fresh = [token for token in request.add if not kernel_line.is_in_force(Request((token,)), " ".join(taken_out))]
    if fresh:
        kernel_line.edited([" ".join(taken_out)], Request(tuple(fresh)))  # refuses a second list
    text = "\n".join(lines)
    if fresh:
        text = f'{text}{"" if not text or text.endswith(chr(10)) else chr(10)}set linux_append="{_OWN} {" ".join(fresh)}"\n'
    return _patch(request, running, FileChange(f"/{path}", before, text), pieces)


def _patch(request: Request, running: str | Unknown, change: FileChange, pieces: list[str]) -> Patch:
    line = "" if isinstance(running, Unknown) else kernel_line.joined(kernel_line.edited([running], request))
    changes = change.after != (change.before or "")
    show = f"cat {change.path}"
    if not changes and kernel_line.is_in_force(request, running):
        return Patch(result=line, show=show, reboot=False)
    notes = ["The OEM partition belongs to both copies of the system: starting the other one does not take it back."]
    notes += [] if changes else [kernel_line.waits(change.path)]
    notes += kernel_line.not_found_notes(pieces, request, change.path)
    once = "Press e at the entry in GRUB's menu, undo the change on the line and press Ctrl-x."
    revert = (TAKE_BACK,) if changes else ()
    return Patch((change,) if changes else (), (), line, show, revert, once, tuple(notes))


def _assignments(lines: list[str], path: str) -> list[tuple[int, str, str]]:
    """Number, text before the value, and value of each assignment; refused where a line is more than that."""
    found: list[tuple[int, str, str]] = []
    for number, line in enumerate(lines):
        match = _SET.match(line)
        if match:
            value = next((each for each in match.groups()[1:] if each is not None), "")
            if found and not value.startswith(_OWN):
                raise Refused(f"/{path}:{number + 1} sets linux_append anew, so what stands before it is lost", _BY_HAND)
            found.append((number, match[1], value))
        elif "linux_append" in line.partition("#")[0] or not _HARMLESS.match(line):
            raise Refused(f"/{path}:{number + 1} is more than a setting", _BY_HAND)
    return found
