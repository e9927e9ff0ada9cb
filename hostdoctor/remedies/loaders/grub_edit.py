"""GRUB of Arch, Gentoo and others that read /etc/default/grub alone: an edit of that file, proved by following it again.

In place in the last assignment where that is plain; else an assignment of our own behind everything, between marks; else
it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hostdoctor.facts.boot_files import BootFiles
from hostdoctor.facts.unknown import Unknown
from hostdoctor.parsers.shell_words import Token
from hostdoctor.readers.boot_files import script_reads_drop_ins, shell_is_bash
from hostdoctor.readers.boot_loader import Files
from hostdoctor.remedies.grub_files import (
    PATH,
    GrubFiles,
    follow,
    keeps_recovery_clean,
    notes_on_menu,
    printable,
    read_texts,
    refuse_broken,
)
from hostdoctor.remedies.grub_line import ALWAYS, DEFAULT, check, meaning, meanings
from hostdoctor.remedies.grub_patch import RECOVERY, Grub, Outcome, Task, finished
from hostdoctor.remedies.grub_text import assignment_at, is_in_block, is_plain, with_added, with_block, without, words_in
from hostdoctor.remedies.patch import TAKE_BACK, FileChange, Patch, Refused, Request

_GRUB = Grub("grub-mkconfig -o /boot/grub/grub.cfg", "/boot/grub/grub.cfg", recovery=RECOVERY)
_MANAGED = re.compile(
    r"^[ \t]*#.*\b(?:ansible[ _-]managed|(?:managed|generated|maintained|controlled) by (?:ansible|puppet|chef|salt\w*|cfengine"
    r"|cloud-init|maas)|puppet[ -]managed)\b.*",
    re.IGNORECASE | re.MULTILINE,
)


def patch(request: Request, files: Files, boot: BootFiles, running: str | Unknown) -> Patch:
    """The patch: an edit of /etc/default/grub, or a drop-in where this GRUB reads such."""
    return patch_as_read(Task(request, files, boot, running), _GRUB)


def patch_as_read(task: Task, grub: Grub) -> Patch:
    """The same for any GRUB: its own grub-mkconfig tells whether it reads grub.d."""
    if script_reads_drop_ins(task.files):
        from hostdoctor.remedies.loaders.grub_debian import patch_by_drop_in  # noqa: PLC0415  few distributions took it over

        return patch_by_drop_in(task, grub)
    return patch_in_place(task, grub)


def patch_in_place(task: Task, grub: Grub) -> Patch:
    """The same for any GRUB that does not read grub.d."""
    check(task.request)
    now, after = edited_files(task.request, task.files, grub)
    old, new = now.texts[PATH], after.texts[PATH]
    changes = () if new == old else (FileChange(PATH, old, new),)
    notes = list(grub.notes)
    if changes and not task.files.is_tree:
        notes.append(f"The diff was made from a copy of {PATH} in the evidence: try it with patch --dry-run first.")
    if after.unknown is not None:
        notes.append(
            f"What {PATH} gives cannot be told without running it ({printable(after.unknown.reason)}): look before the restart "
            "at what is made of it."
        )
    notes += notes_on_menu(after) if changes else []
    recovery = grub.recovery if keeps_recovery_clean(task.request, after) else ""
    return finished(task, grub, Outcome(changes, now.line, after.line, (TAKE_BACK,), recovery, tuple(notes)))


def edited_files(request: Request, files: Files, grub: Grub) -> tuple[GrubFiles, GrubFiles]:
    """The host's files before and after; raises Refused."""
    texts = read_texts(files, drop_ins=False)
    if PATH not in texts:
        raise Refused(f"{PATH} is not in the evidence", f"Add the output of cat {PATH} to what is given.")
    known = shell_is_bash(files)
    now = follow(texts, grub.bash if known is None else known)
    refuse_broken(now)
    after = edited(now, request, grub.variable)
    if after.texts != now.texts and (match := _MANAGED.search(now.texts[PATH])):
        number = now.texts[PATH].count("\n", 0, match.start()) + 1
        raise Refused(
            f"{PATH}, line {number} says that a configuration management keeps the file: {printable(match[0].strip()[:80])}",
            "Make the change there, so that it is not undone.",
        )
    return now, after


def edited(now: GrubFiles, request: Request, variable: str) -> GrubFiles:
    """The files after a change of /etc/default/grub; raises Refused where it cannot be made surely."""
    if now.evaluation.stopped is not None:
        raise _refused(now, variable, f"{printable(now.evaluation.stopped.reason)}, so that what comes after it is not sure")
    after = now
    for each in (ALWAYS, DEFAULT):
        after = _removed(after, request.remove, each)
    there = meanings(text for each in (ALWAYS, DEFAULT) for text in _texts(after, each))
    wanted = [each for each in dict.fromkeys(request.add) if meaning(each) not in there]
    return _added(after, wanted, variable) if wanted else after


def _texts(grub: GrubFiles, variable: str) -> list[str]:
    """The parameters in a variable; of one that is not known, those that stand in hostdoctor's own block."""
    found = grub.words(variable)
    if not isinstance(found, Unknown):
        return [word.text for word in found]
    block = _block(grub, variable)
    return [] if block is None else words_in(block)


def _last(grub: GrubFiles, variable: str) -> Token | None:
    """The last assignment of a variable."""
    lines = [each.line for each in grub.evaluation.assignments if each.variable == variable]
    return assignment_at(grub.texts[PATH], variable, lines[-1]) if lines else None


def _block(grub: GrubFiles, variable: str) -> Token | None:
    """The assignment between hostdoctor's marks, where that is the last one."""
    token = _last(grub, variable)
    return token if token is not None and is_in_block(grub.texts[PATH], token) else None


# --- taking out -------------------------------------------------------------------------------------------------------


def _removed(now: GrubFiles, parameters: Sequence[str], variable: str) -> GrubFiles:
    """Take parameters out of a variable, in as few of its assignments as it needs, from the last one on."""
    gone = meanings(parameters)
    words = now.words(variable)
    if isinstance(words, Unknown):
        if not parameters:
            return now
        raise _refused(now, variable, f"{printable(words.reason)}, so that {' '.join(parameters)} cannot be taken out surely")
    if not any(meaning(word.text) in gone for word in words):
        return now
    expected = [word for word in words if meaning(word.text) not in gone]
    after = now
    lines = dict.fromkeys(each.line for each in reversed(now.evaluation.assignments) if each.variable == variable)
    for line in lines:
        text = after.texts[PATH]
        token = assignment_at(text, variable, line)
        changed = text if token is None else without(text, token, gone)
        if changed == text:
            continue
        after = now.with_texts({**now.texts, PATH: changed})
        if after.words(variable) == expected and _same_otherwise(now, after, variable):
            return after
    named = " ".join(word.text for word in words if meaning(word.text) in gone)
    raise _refused(now, variable, f"{named} stands in {variable} in a form that cannot be taken out surely")


# --- adding -----------------------------------------------------------------------------------------------------------


def _added(now: GrubFiles, parameters: Sequence[str], variable: str) -> GrubFiles:
    """Add parameters to a variable, in place where that can be."""
    text = now.texts[PATH]
    value = now.evaluation.value(variable)
    candidates = []
    last, block = _last(now, variable), _block(now, variable)
    if last is not None and (block is not None or (isinstance(value, str) and is_plain(last))):
        candidates.append(with_added(text, last, value if isinstance(value, str) else "...", parameters))
    candidates.append(with_block(text, variable, parameters))
    for changed in candidates:
        after = now.with_texts({**now.texts, PATH: changed})
        if _has_added(now, after, parameters, variable):
            return after
    raise _refused(now, variable, f"nothing can be added to {variable} in {PATH} so that it surely counts")


def _has_added(now: GrubFiles, after: GrubFiles, parameters: Sequence[str], variable: str) -> bool:
    if after.evaluation.stopped is not None or not _same_otherwise(now, after, variable):
        return False
    old, new = now.words(variable), after.words(variable)
    if isinstance(old, Unknown) or isinstance(new, Unknown):
        return isinstance(old, Unknown) and isinstance(new, Unknown)
    added = [meaning(word.text) for word in new[len(old) :]]
    return new[: len(old)] == old and added == [meaning(each) for each in parameters]


def _same_otherwise(now: GrubFiles, after: GrubFiles, variable: str) -> bool:
    """Whether every other variable has the value it had."""
    old, new = now.evaluation.values, after.evaluation.values
    same = all(_known(old.get(name)) == _known(new.get(name)) for name in {*old, *new} if name != variable)
    return same and after.evaluation.stopped is None


def _known(value: str | Unknown | None) -> str | bool | None:
    """A value to compare: of those that are not known, why they are not, changes with line numbers."""
    return True if isinstance(value, Unknown) else value


# --- refusing ---------------------------------------------------------------------------------------------------------


def _refused(now: GrubFiles, variable: str, reason: str) -> Refused:
    """Why not, and the line to change by hand."""
    found = [each.line for each in now.evaluation.assignments if each.variable == variable]
    if not found:
        return Refused(reason, f'Add a line by hand behind all others in {PATH}: {variable}="${{{variable}}} ..."')
    shown = printable(now.texts[PATH].split("\n")[found[-1] - 1])
    return Refused(reason, f"Change line {found[-1]} of {PATH} by hand: {shown}")
