"""GRUB of Fedora, RHEL and their kin: grubby where entries of the Boot Loader Specification are read, else an edit.

Sources: grubby(8); RHEL documentation, "Configuring kernel command-line parameters"; GRUB of RHEL, blscfg and the switch
--update-bls-cmdline of grub2-mkconfig.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from hostdoctor.facts.boot_files import BootFiles, Entry
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.parsers.bls import parse_bls
from hostdoctor.parsers.grub_cfg import parse_grub_cfg, parse_grubenv
from hostdoctor.parsers.os_release import parse_os_release
from hostdoctor.readers.boot_loader import Files
from hostdoctor.remedies.grub_files import PATH, follow
from hostdoctor.remedies.grub_line import ALWAYS, Word, check, check_in_force, check_length, meaning, meanings, words_of
from hostdoctor.remedies.grub_patch import Grub, Task, base_line, effective, is_there, next_entry, once_without
from hostdoctor.remedies.grubby import Call, applied, call_for, changed_words, does, refuse_fragile
from hostdoctor.remedies.loaders.grub_edit import edited_files, patch_as_read
from hostdoctor.remedies.patch import TAKE_BACK, FileChange, Patch, Refused, Request
from hostdoctor.remedies.quoting import for_grub

_GRUB_CFG, _GRUBENV = "/boot/grub2/grub.cfg", "/boot/grub2/grubenv"
_ENTRIES = "/boot/loader/entries/"
_EFI_CFG = "/etc/grub2-efi.cfg"  # a link to where it is read on the EFI system partition
_KEEPS_ETC = "--no-etc-grub-update"
_ETC_LINE = re.compile(r"^GRUB_CMDLINE_LINUX(\w*)", re.MULTILINE)
_RELEASE = re.compile(r"BOOT_IMAGE=\S*\.(?P<kind>el|fc)(?P<number>\d{1,3})")
_SHOW = "grubby --info=DEFAULT"
_EVERYWHERE = (
    "grubby changes all entries, that of the rescue system too: with --update-kernel=DEFAULT in place of ALL the others stay "
    "as they are."
)


def patch(request: Request, files: Files, boot: BootFiles, running: str | Unknown) -> Patch:
    """The patch: calls of grubby, or an edit of /etc/default/grub where grub.cfg is made from it."""
    task = Task(request, files, boot, running)
    check(request)
    if not isinstance(boot.loader, Unknown) and (boot.loader.name == "grub-bls" or _has_entries_by_age(task)):
        return _by_grubby(task)
    grub_cfg = _EFI_CFG if files.has("sys/firmware/efi") and _is_old(files) else _GRUB_CFG
    return patch_as_read(task, Grub(f"grub2-mkconfig -o {grub_cfg}", grub_cfg, variable=ALWAYS))


def _has_entries_by_age(task: Task) -> bool:
    """Whether the running kernel's release alone speaks, and says RHEL 8 or Fedora 30 or later, which have entries."""
    if any(task.files.text(path[1:]) is not NOT_CAPTURED for path in (PATH, _GRUB_CFG)):
        return False
    match = None if isinstance(task.running, Unknown) else _RELEASE.search(task.running)
    return match is not None and int(match["number"]) >= (30 if match["kind"] == "fc" else 8)


def _is_old(files: Files) -> bool:
    """Whether grub.cfg itself lies on the EFI system partition: before RHEL 9 and Fedora 34."""
    text = files.text("etc/os-release")
    release = {} if isinstance(text, Unknown) else parse_os_release(text)
    number = release.get("VERSION_ID", "").partition(".")[0]
    if not number.isdecimal():
        return False
    return int(number) < {"fedora": 34, "amzn": 2023}.get(release.get("ID", ""), 9)


# --- entries ----------------------------------------------------------------------------------------------------------


class _Line(msgspec.Struct, frozen=True):
    """The options of an entry: those that grubby changes, and those that a variable of GRUB brings."""

    entry: Entry | None
    words: list[Word]
    brought: list[str]


def _by_grubby(task: Task) -> Patch:
    lines = _lines(task)
    request = task.request
    for line in lines:
        if found := [text for text in line.brought if meaning(text) in meanings(request.remove)]:
            raise Refused(
                f"{' '.join(found)} comes from tuned, which puts it into /boot/grub2/grubenv",
                "Take it out of the [bootloader] section of tuned's profile (tuned-adm active names it).",
            )
    wanted = [(line, changed_words(line.words, _missing(line, request), request.remove)) for line in lines]
    unfinished = [(line, new) for line, new in wanted if not is_there(_texts(line, line.words), request)]
    first, new = wanted[0]
    _refuse_other_root(task, _texts(first, first.words), first.entry)
    result = _texts(first, new)
    check_length(result)
    check_in_force(result, request)
    runs = task.running_texts is not None and is_there(task.running_texts, request)
    if not unfinished:
        notes = () if runs else ("All of it is in place already: only a restart is missing.",)
        return Patch(
            result=" ".join(result), show=_SHOW, once_without=once_without(effective(task)), notes=notes, reboot=not runs
        )
    line, end = unfinished[0]
    call = call_for(line.words, end)
    if all(does(call, each.words, its_end) for each, its_end in wanted):
        return _for_all(task, call, call_for(end, line.words), result, _by_evidence(lines))
    return _for_each(task, unfinished, result)


def _refuse_other_root(task: Task, texts: Sequence[str], entry: Entry | None) -> None:
    """Refuse an entry whose line is not understood, or that starts another system than the one that runs."""
    running = task.running_texts
    if entry is None or running is None:
        return
    ours, theirs = (
        [name_and_value[1] for each in line if (name_and_value := meaning(each))[0] == "root"] for line in (texts, running)
    )
    if theirs and not ours:
        raise Refused(
            f"{entry.where}: what its options come to has no root=, and the running kernel has root={theirs[-1]}",
            "See what grubby --info=ALL says, and add its output to what is given.",
        )
    ways = {(value or "").partition("=")[0] if "=" in (value or "") else "" for value in (*ours[-1:], *theirs[-1:])}
    if ours and theirs and ours[-1] != theirs[-1] and len(ways) == 1:
        raise Refused(
            f"{entry.where} has root={ours[-1]} and this host was started with root={theirs[-1]}, so another entry started it",
            "Start the entry that is to be changed, then try again.",
        )


def _missing(line: _Line, request: Request) -> list[str]:
    """What is to be added and does not come from a variable already."""
    brought = meanings(line.brought)
    return [each for each in request.add if meaning(each) not in brought]


def _texts(line: _Line, words: Sequence[Word]) -> list[str]:
    return [*(word.text for word in words if word.text), *line.brought]


def _by_evidence(lines: Sequence[_Line]) -> tuple[str, ...]:
    if lines[0].entry is not None:
        return ()
    return (
        "The entries are not in the evidence: the running kernel's line stands for them. Compare it with grubby --info=ALL.",
    )


def _lines(task: Task) -> list[_Line]:
    """The options of the entries that can be started, the next one first; of the running kernel where none is known."""
    first = next_entry(task.boot)
    if first is None:
        if task.running_texts is None:
            raise Refused(
                "neither the entries nor the running kernel's command line are in the evidence, and grubby drops what is not "
                "named again",
                "Add the output of grubby --info=ALL to what is given.",
            )
        return [_Line(None, [Word(for_grub(text), text) for text in base_line(task)], [])]
    variables = _variables(task.files)
    entries = () if isinstance(task.boot.entries, Unknown) else task.boot.entries
    others = [entry for entry in entries if entry.standard and not entry.recovery and entry is not first]
    return [_line(task.files, entry, variables) for entry in (first, *others)]


def _line(files: Files, entry: Entry, variables: Mapping[str, str]) -> _Line:
    text = files.text(entry.file[1:]) if entry.file.startswith(_ENTRIES) else None
    brought = [each.text for each in words_of(variables.get("tuned_params", "")) or ()]
    if text is None or isinstance(text, Unknown):
        there = meanings(brought)
        texts = [each.text for each in entry.parameters if meaning(each.text) not in there]
        return _Line(entry, [Word(for_grub(each), each) for each in texts], brought)
    options = parse_bls(text).options
    if "$tuned_params" not in options:
        brought = []
    raw = re.sub(r"\$(?:kernelopts\b|\{kernelopts\})", lambda _: variables.get("kernelopts", ""), options)
    refuse_fragile(raw, entry.where)
    words = words_of(raw)
    if words is None:
        raise Refused(
            f"{entry.where}: GRUB does not read the options to their end, because of a quote or one of ; & | < > {{ }} # there",
            "Put what holds that sign between single quotes, in that file by hand, and try again.",
        )
    return _Line(entry, words, brought)


def _variables(files: Files) -> dict[str, str]:
    """GRUB's variables, from its configuration and its environment."""
    cfg, environment = files.text(_GRUB_CFG[1:]), files.text(_GRUBENV[1:])
    found = {} if isinstance(cfg, Unknown) else dict(parse_grub_cfg(cfg).variables)
    return found if isinstance(environment, Unknown) else {**found, **parse_grubenv(environment)}


# --- patches ----------------------------------------------------------------------------------------------------------


def _for_all(task: Task, call: Call, back: Call, result: Sequence[str], notes: tuple[str, ...]) -> Patch:
    """One call for all entries, and /etc/default/grub with them where grubby does that rightly."""
    changes, options, more = _etc(task, call)
    quoted = ("The single quotes keep GRUB from ending the line at the sign between them.",) if "'" in "".join(call.add) else ()
    return Patch(
        files=changes,
        commands=(call.command("ALL", *options),),
        result=" ".join(result),
        show=_SHOW,
        revert=(*((TAKE_BACK,) if changes else ()), back.command("ALL", *options)),
        once_without=once_without(effective(task)),
        notes=(*notes, *quoted, *more, _EVERYWHERE),
    )


def _for_each(task: Task, unfinished: Sequence[tuple[_Line, list[Word]]], result: Sequence[str]) -> Patch:
    """A call for each kernel, where one for all would change what differs between the entries."""
    commands, revert = [], []
    for line, new in unfinished:
        kernel = line.entry.kernel if line.entry else ""
        call = call_for(line.words, new)
        if not does(call, line.words, new) or "'" in kernel or " " in kernel:
            raise Refused(f"{kernel}: no call of grubby gives this entry what it should have", "Change its options by hand.")
        path = f"/boot/{kernel.rpartition('/')[2]}"
        commands.append(call.command(path))
        revert.append(call_for(new, line.words).command(path))
    return Patch(
        commands=tuple(commands),
        result=" ".join(result),
        show=_SHOW,
        revert=tuple(revert),
        once_without=once_without(effective(task)),
        notes=(
            "The entries differ in parameters that grubby sets together, so that each kernel has its own call; kernels that "
            "are installed later need one as well.",
        ),
    )


def _etc(task: Task, call: Call) -> tuple[tuple[FileChange, ...], tuple[str, ...], tuple[str, ...]]:
    """What becomes of /etc/default/grub: nothing to do where grubby writes it rightly, else an edit of our own, or a note.

    grubby writes one value over every line that begins with GRUB_CMDLINE_LINUX, that of GRUB_CMDLINE_LINUX_DEFAULT too.
    """
    text = task.files.text(PATH[1:])
    if isinstance(text, Unknown) or _grubby_writes_rightly(text, call):
        return (), (), ()
    why = f"grubby would write {PATH} wrongly, where more than one plain line sets the kernel's parameters"
    try:
        now, after = edited_files(task.request, task.files, Grub("", "", variable=ALWAYS))
    except Refused as refused:
        return (), (_KEEPS_ETC,), (f"{why}, and it is left as it is: {refused.reason}.",)
    old, new = now.texts[PATH], after.texts[PATH]
    changes = () if old == new else (FileChange(PATH, old, new),)
    return changes, (_KEEPS_ETC,), (f"{why}; it is changed by the diff instead.",) if changes else ()


def _grubby_writes_rightly(text: str, call: Call) -> bool:
    names = _ETC_LINE.findall(text)
    grub = follow({PATH: text}, bash=True)
    words = grub.words(ALWAYS)
    value = grub.evaluation.value(ALWAYS)
    if isinstance(value, Unknown) or isinstance(words, Unknown) or any(names) or len(names) > 1:
        return False
    if not value:
        return True  # it leaves an empty one alone
    if set('"\\&$`*?[') & set(value):
        return False
    new = [meaning(word.text) for word in applied(words, call)]
    kept = [meaning(word.text) for word in words if meaning(word.text) not in meanings(call.remove)]
    return set(kept) <= set(new)
