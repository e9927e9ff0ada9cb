"""GRUB of Debian, Ubuntu, Mint and Proxmox, which reads /etc/default/grub.d: a file of our own that sorts last there.

The administrator's files stay as they are: Debian's package of GRUB rewrites every assignment in /etc/default/grub at
updates, and images of clouds assign in grub.d what /etc/default/grub says in vain. Parameters go into
GRUB_CMDLINE_LINUX_DEFAULT, which recovery entries do not get.
"""

from __future__ import annotations

from collections.abc import Sequence

from hostdoctor.facts.boot_files import BootFiles
from hostdoctor.facts.unknown import Unknown
from hostdoctor.parsers.grub_dropin import Step, is_ours, read_drop_in
from hostdoctor.readers.boot_files import script_reads_drop_ins, shell_is_bash
from hostdoctor.readers.boot_loader import Files
from hostdoctor.remedies.grub_dropin import NAME, drop_in_of
from hostdoctor.remedies.grub_files import (
    FOLDER,
    PATH,
    GrubFiles,
    follow,
    keeps_recovery_clean,
    notes_on_menu,
    others,
    printable,
    read_texts,
    refuse_broken,
)
from hostdoctor.remedies.grub_line import ALWAYS, DEFAULT, changed, check, meaning, meanings, words_of
from hostdoctor.remedies.grub_patch import RECOVERY, Grub, Outcome, Task, finished
from hostdoctor.remedies.patch import TAKE_BACK, FileChange, Patch, Refused, Request
from hostdoctor.remedies.quoting import for_grub

_MOST_LETTERS = 12
_GRUB = Grub("update-grub", "/boot/grub/grub.cfg", bash=False, recovery=RECOVERY)


def patch(request: Request, files: Files, boot: BootFiles, running: str | Unknown) -> Patch:
    """The patch: one file in grub.d, made, changed or taken away."""
    task = Task(request, files, boot, running)
    if script_reads_drop_ins(files) is False:
        from hostdoctor.remedies.loaders.grub_edit import patch_in_place  # noqa: PLC0415  GRUB that its owner built

        return patch_in_place(task, _GRUB)
    return patch_by_drop_in(task, _GRUB)


def patch_by_drop_in(task: Task, grub: Grub) -> Patch:
    """The same for any GRUB that reads grub.d."""
    check(task.request)
    known = shell_is_bash(task.files)
    texts = read_texts(task.files, drop_ins=True)
    now = follow(texts, grub.bash if known is None else known)
    refuse_broken(now)
    own = [path for path in texts if is_ours(path)]
    base = now.with_texts({path: text for path, text in texts.items() if path not in own})
    refuse_broken(base)
    old = _steps_of(texts, own)
    steps = _merged(old, task.request, base)
    path = f"{FOLDER}/{_name(others(texts, own))}"
    text = drop_in_of(steps, grub.make) if steps else None
    changes: tuple[FileChange, ...] = ()
    after = now
    if steps != old or own != ([path] if steps else []):
        gone = (FileChange(each, texts[each], None) for each in own if each != path or text is None)
        changes = (*gone, *([] if text is None else [FileChange(path, texts.get(path), text)]))
        after = base if text is None else now.with_texts({**base.texts, path: text})
    _prove(task.request, now, after)
    notes = [*grub.notes, *_notes(task.files, texts, after), *(notes_on_menu(after) if changes else ())]
    in_evidence = bool(set(texts) - set(own))  # else the running line is all there is to go by
    outcome = Outcome(
        changes,
        now.line if in_evidence else None,
        after.line,
        _revert(changes),
        grub.recovery if keeps_recovery_clean(task.request, after) else "",
        tuple(notes),
    )
    return finished(task, grub, outcome)


def _steps_of(texts: dict[str, str], own: Sequence[str]) -> list[Step]:
    """What earlier runs wrote."""
    found: list[Step] = []
    for path in own:
        steps = read_drop_in(texts[path])
        if steps is None:
            raise Refused(
                f"{path} was changed by hand since hostdoctor wrote it",
                "Change it by hand again, or give it another name and try again.",
            )
        found += [Step(each.variable, each.token, each.adds) for each in steps]
    return list(dict.fromkeys(found))


def _merged(old: Sequence[Step], request: Request, base: GrubFiles) -> list[Step]:
    """What the file is to do: what it did, less what this request takes back, and what the request needs besides."""
    added, gone = meanings(request.add), meanings(request.remove)
    kept = [step for step in old if meaning(_unquoted(step.token)) not in (gone if step.adds else added)]
    fresh = [step for step in _removals(request, base) if step not in kept]
    removals = [*(step for step in kept if not step.adds), *fresh]
    additions = [step for step in kept if step.adds]
    if base.line is not None:
        removed = meanings(_unquoted(step.token) for step in removals)
        there = meanings(base.line) - removed | meanings(_unquoted(step.token) for step in additions)
    else:
        there = meanings(_unquoted(step.token) for step in additions)
    wanted = [each for each in dict.fromkeys(request.add) if meaning(each) not in there]
    return [*removals, *additions, *(Step(DEFAULT, for_grub(each), True) for each in wanted)]


def _removals(request: Request, base: GrubFiles) -> list[Step]:
    """One step for each spelling of a parameter to remove, in the variable where it stands, or may stand."""
    gone = meanings(request.remove)
    found: list[Step] = []
    for variable in (ALWAYS, DEFAULT):
        words = base.words(variable)
        if isinstance(words, Unknown) or PATH not in base.texts:
            found += [Step(variable, for_grub(each), False) for each in request.remove]
        else:
            found += [Step(variable, word.raw, False) for word in words if meaning(word.text) in gone]
    return list(dict.fromkeys(found))


def _unquoted(token: str) -> str:
    """A parameter as the kernel gets it, from how it stands in a variable."""
    return next((word.text for word in words_of(token) or ()), token)


def _name(names: Sequence[str]) -> str:
    """A name that sorts behind all others, byte by byte, as the shell sorts them."""
    last = max((name.encode("utf-8", "surrogateescape") for name in names), default=b"")
    for letters in range(_MOST_LETTERS):
        if last < (name := "z" * letters + NAME).encode():
            return name
    raise Refused(
        f"{FOLDER}/{printable(last.decode('utf-8', 'replace'))} is read after any file that hostdoctor could add",
        f"Give that file a name that sorts before {NAME}, or add the parameters in it by hand.",
    )


def _prove(request: Request, now: GrubFiles, after: GrubFiles) -> None:
    """Refuse where following the files with the new one in place does not give what was asked for."""
    if now.line is None or after.line is None:
        return
    wanted, found = changed(now.line, request), after.line
    if sorted(map(repr, map(meaning, wanted))) != sorted(map(repr, map(meaning, found))):
        raise Refused(
            f"the parameters of {PATH} stand in a form that cannot be changed from another file (they would be "
            f"{printable(' '.join(found))!r})",
            f"Change {DEFAULT} in {PATH} by hand, and make grub.cfg again.",
        )


def _revert(changes: Sequence[FileChange]) -> tuple[str, ...]:
    if len(changes) == 1 and changes[0].before is None:
        return (f"rm {changes[0].path}",)
    return (TAKE_BACK,) if changes else ()


def _notes(files: Files, texts: dict[str, str], after: GrubFiles) -> list[str]:
    found = []
    if after.unknown is not None:
        found.append(
            f"What the files give cannot be told without running them ({printable(after.unknown.reason)}): look before the "
            "restart at what is made of them."
        )
    if not any(path.startswith(FOLDER) for path in texts) and not (files.is_tree and PATH in texts):
        found.append(f"{FOLDER} is not in the evidence: see that no file in it has a name that sorts after {NAME}.")
    replaced = [name for name in after.evaluation.values if name.startswith("GRUB_CMDLINE_LINUX_XEN_REPLACE")]
    if replaced:
        found.append(f"Entries for Xen take their parameters from {', '.join(sorted(replaced))}, which is left as it is.")
    return found
