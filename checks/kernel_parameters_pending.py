"""Kernel parameters that are configured for the next start and not in force, or in force and not configured any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from hostdoctor import wording
from hostdoctor.facts.boot_files import BootFiles, Configuration, Entry, Loader, Overridden, Parameter, Placed
from hostdoctor.facts.host import Boot
from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import Check, Evidence, Finding, Outcome, unjudged
from hostdoctor.loaders import LOADERS, LoaderKind
from hostdoctor.parameters import all_meanings, does_nothing, is_of_boot_process, is_of_field, meanings
from hostdoctor.parsers.grub_cfg import is_recovery
from hostdoctor.view import View

T = TypeVar("T", Placed, Parameter)

ID = "kernel-parameters-pending"

_LINE = "/proc/cmdline"
_REMEDY = ("apply-boot-configuration",)
# Their loaders start what they started last, so that the entry that was booted is the one to look at.
_STARTED_BY_NAME = ("systemd-boot", "kernel-install", "kernelstub", "sdbootutil")
# The firmware and u-boot add parameters from the device tree, pci=pcie_bus_safe among them.
_WITH_FOREIGN_PARAMETERS = ("raspberry-pi", "extlinux")


class _Case(NamedTuple):
    """What is compared: the loader, its files, the entry that boots next, and what runs."""

    view: View
    files: BootFiles
    loader: Loader
    kind: LoaderKind
    entry: Entry | None
    running: frozenset[str]

    @property
    def boot(self) -> Boot:
        return self.view.host.boot

    def runs(self, parameter: Parameter) -> bool:
        return meanings(parameter) <= self.running


def judge(view: View) -> Iterator[Finding]:
    """One finding for each file with something pending in it, or one for all."""
    files, boot = view.host.boot_files, view.host.boot
    if view.host.environment.container:
        yield Finding(ID, "not-applicable", (), "a container is started by its host, with the host's parameters")
        return
    if files.is_empty:
        return
    subject = (files.configured.file,) if files.configured else ()
    if isinstance(boot.command_line, Unknown):
        why = Unknown(boot.command_line.reason, "add the output of cat /proc/cmdline")
        yield unjudged(ID, subject, "what waits for the next start", why)
        return
    if isinstance(files.loader, Unknown):
        yield unjudged(ID, subject, "what waits for the next start", files.loader)
        return
    entry = _compared(files, files.loader, boot)
    if entry is not None and _of_another_root(entry, boot):
        why = Unknown(f"{entry.file} starts another root file system than the running one")
        yield unjudged(ID, subject, "what waits for the next start", why)
        return
    case = _Case(view, files, files.loader, LOADERS[files.loader.name], entry, all_meanings(boot.parameters))
    found = [*_in_recovery(case)] if is_recovery(boot.parameters) else [*_overridden(case), *_differences(case)]
    found += _unread(case)
    yield from found
    if not found:
        yield _nothing_pending(case)


def _nothing_pending(case: _Case) -> Finding:
    configured, entries = case.files.configured, case.files.entries
    if configured is not None and configured.unknown:
        return unjudged(ID, (configured.file,), f"part of {configured.file}", configured.unknown[0])
    if configured is None and isinstance(entries, Unknown):
        return unjudged(ID, (), "what the next start brings", entries)
    if configured is None and case.entry is None:
        return unjudged(ID, (), "what the next start brings", Unknown("which entry is started next does not show"))
    what = configured.file if configured else case.entry.file if case.entry else ""
    return Finding(ID, "ok", (), f"what {what} says is what runs", evidence=_because(case.loader))


# --- which entry ------------------------------------------------------------------------------------------------------


def _compared(files: BootFiles, loader: Loader, boot: Boot) -> Entry | None:
    """The entry that the next start takes, as far as it shows."""
    if isinstance(files.entries, Unknown):
        return None
    normal = [entry for entry in files.entries if entry.standard and not entry.recovery]
    if loader.name not in _STARTED_BY_NAME:
        return next((entry for entry in normal if entry.is_next), normal[0] if normal else None)
    initrds = {(each.value or "").replace("\\", "/") for each in boot.parameters if each.name == "initrd"}
    for candidates in (
        [entry for entry in normal if entry.was_booted],
        [entry for entry in normal if initrds and initrds & set(entry.initrds)],
        [entry for entry in normal if entry.version and entry.version == boot.release],
        normal,
    ):
        if len(candidates) == 1:
            return candidates[0]
    return None


def _of_another_root(entry: Entry, boot: Boot) -> bool:
    """Whether the entry names another root file system, in the same way as the running kernel's line does."""
    ours, theirs = (
        [each.value or "" for each in parameters if each.name == "root"] for parameters in (boot.parameters, entry.parameters)
    )
    if not ours or not theirs or ours[-1] == theirs[-1]:
        return False
    ways = [value.partition("=")[0] if "=" in value else "" for value in (ours[-1], theirs[-1])]
    return bool(ways[0]) and ways[0] == ways[1]


def _started_otherwise(case: _Case) -> Entry | None:
    """An entry that was made by hand, or for another system, and is what runs."""
    entries = case.files.entries
    if isinstance(entries, Unknown):
        return None
    running = all_meanings(each for each in case.boot.parameters if not is_of_boot_process(each))
    image = next((each.value or "" for each in case.boot.parameters if each.name == "BOOT_IMAGE"), "")
    for entry in entries:
        theirs = all_meanings(each for each in entry.parameters if not is_of_boot_process(each))
        if not entry.standard and theirs == running and image.rpartition(")")[2].endswith(entry.kernel.rpartition(")")[2]):
            return entry
    return None


# --- differences ------------------------------------------------------------------------------------------------------


class _Pending(NamedTuple):
    """What waits in one file: parameters with where they stand, by what has to be done."""

    not_made: list[Placed]
    not_started: list[Placed]
    removed: list[Parameter]


def _differences(case: _Case) -> Iterator[Finding]:
    """What the files say against what runs, file by file."""
    by_file: dict[str, _Pending] = {}

    def of(file: str) -> _Pending:
        return by_file.setdefault(file, _Pending([], [], []))

    entry = case.entry
    will = all_meanings(entry.parameters) if entry else frozenset()
    for placed in _waiting(case):
        made = entry is not None and meanings(placed.parameter) <= will
        (of(placed.file).not_started if made else of(placed.file).not_made).append(placed)
    configured = case.files.configured
    if entry is not None:
        named = all_meanings(each.parameter for each in _waiting(case))
        for parameter in entry.parameters:
            if _matters(parameter) and not case.runs(parameter) and not meanings(parameter) <= named:
                of(entry.file).not_started.append(Placed(parameter, entry.file, 0, entry.where))
    for parameter in _removed(case, will):
        of(configured.file if configured else case.files.entries_file).removed.append(parameter)
    by_hand = _started_otherwise(case) if by_file else None
    for file, pending in by_file.items():
        yield _started_by_hand(case, file, pending, by_hand) if by_hand else _pending(case, file, pending)


def _matters(parameter: Parameter) -> bool:
    return not is_of_boot_process(parameter)


def _waiting(case: _Case) -> list[Placed]:
    """What is configured and does not run. Where entries are not made from the file, only what somebody surely wanted."""
    configured = case.files.configured
    if configured is None:
        return []
    counts = _matters if case.kind.entries_are_made or not case.kind.grub_files else is_of_field
    return [each for each in configured.parameters if counts(each.parameter) and not case.runs(each.parameter)]


def _removed(case: _Case, will: frozenset[str]) -> list[Parameter]:
    """What runs and is gone from the files, of this tool's field: others may come from anywhere."""
    if case.loader.name in _WITH_FOREIGN_PARAMETERS:
        return []
    configured, entry = case.files.configured, case.entry
    told = configured is not None and configured.complete and not configured.unknown and case.kind.entries_are_made
    says = all_meanings(each.parameter for each in configured.parameters) if configured else frozenset()
    found = []
    for parameter in case.boot.parameters:
        if not is_of_field(parameter):
            continue
        gone_from_entry = entry is not None and not meanings(parameter) <= will
        if gone_from_entry or (told and not meanings(parameter) <= says):
            found.append(parameter)
    return found


def _pending(case: _Case, file: str, pending: _Pending) -> Finding:
    """The finding for one file."""
    not_made, not_started = _first_of_field(pending.not_made), _first_of_field(pending.not_started)
    removed = pending.removed
    running = Evidence(_LINE, str(case.boot.command_line))
    evidence = [Evidence(placed.where, _shown(placed)) for placed in (*not_made, *not_started)]
    if case.entry is not None:
        evidence.append(Evidence(case.entry.where, " ".join(each.text for each in case.entry.parameters) or "no parameters"))
    apply = case.kind.apply
    steps = [f"run {apply}" if apply and (not_made or _not_made_again(case, removed)) else "", "restart the host"]
    return Finding(
        ID,
        "warning",
        (file,),
        _title(case, file, not_made, not_started, removed),
        _explanation(case, file, not_made, not_started, removed),
        "certain" if case.loader.certain else "likely",
        tuple(dict.fromkeys((*evidence, running, *_because(case.loader)))),
        remedies=_REMEDY,
        next=", then ".join(step for step in steps if step),
    )


def _not_made_again(case: _Case, removed: Sequence[Parameter]) -> bool:
    """Whether something that was taken out of the file is still in what was generated, or may be."""
    if case.entry is None:
        return bool(removed)
    will = all_meanings(case.entry.parameters)
    return any(meanings(each) <= will for each in removed)


def _title(
    case: _Case, file: str, not_made: Sequence[Placed], not_started: Sequence[Placed], removed: Sequence[Parameter]
) -> str:
    if not_made:
        what, verb = _named(not_made)
        if case.entry is not None:
            return f"{what} {verb} in {file}, but not in {case.entry.file}, and not on the running command line"
        return f"{what} {verb} in {file}, but not on the running command line"
    if not_started:
        what, verb = _named(not_started)
        return f"{what} {verb} in {file} for the next start, but not on the running command line"
    what = wording.listed(each.text for each in removed)
    verb = "is" if len(removed) == 1 else "are"
    return f"{what} {verb} on the running command line, but no longer in {_removed_from(case, file, removed)}"


def _removed_from(case: _Case, file: str, removed: Sequence[Parameter]) -> str:
    configured = case.files.configured
    says = all_meanings(each.parameter for each in configured.parameters) if configured else frozenset()
    if case.entry is not None and any(meanings(each) <= says for each in removed):
        return case.entry.file
    return file


def _explanation(
    case: _Case, file: str, not_made: Sequence[Placed], not_started: Sequence[Placed], removed: Sequence[Parameter]
) -> str:
    parts = []
    if not_made and case.entry is not None:
        tool = f", which {case.kind.apply} makes from {file}" if case.kind.entries_are_made and case.kind.apply else ""
        parts.append(f"{case.kind.title} reads {case.entry.file}{tool}: without that, a restart alone changes nothing.")
    elif not_made:
        parts.append("It was not carried over to what the boot loader reads, or the host was not restarted since.")
    if not_started:
        where = case.entry.file if case.entry is not None else file
        parts.append(
            f"{wording.listed(each.parameter.text for each in not_started)}: {where} has it, the host was not restarted since."
        )
    if removed and (not_made or not_started):
        parts.append(f"{wording.listed(each.text for each in removed)} runs now and is no longer there.")
    elif removed:
        parts.append("The next start will be without it, or it was typed into the boot menu for this one start.")
    return " ".join(parts)


def _started_by_hand(case: _Case, file: str, pending: _Pending, entry: Entry) -> Finding:
    names = wording.listed(
        [*(each.parameter.text for each in (*pending.not_made, *pending.not_started)), *(each.text for each in pending.removed)]
    )
    return Finding(
        ID,
        "info",
        (file,),
        f"this host runs from the menu entry {entry.name!r}, which does not follow {file}: {names} differs",
        evidence=(Evidence(entry.where, entry.name or "a menu entry"), Evidence(_LINE, str(case.boot.command_line))),
    )


def _in_recovery(case: _Case) -> Iterator[Finding]:
    """Recovery entries leave out what only normal ones get."""
    waiting = _first_of_field(_waiting(case))
    if waiting and case.files.configured is not None:
        what, _ = _named(waiting)
        yield Finding(
            ID,
            "info",
            (case.files.configured.file,),
            f"this host runs in recovery mode, which leaves {what} out",
            evidence=(Evidence(waiting[0].where, _shown(waiting[0])), Evidence(_LINE, str(case.boot.command_line))),
            next="start the normal entry",
        )


# --- overridden, and never read ---------------------------------------------------------------------------------------


def _overridden(case: _Case) -> Iterator[Finding]:
    """What one assignment gives and a later one drops, where nothing else sets the same parameter."""
    configured = case.files.configured
    if configured is None:
        return
    keys = {each.parameter.key for each in configured.parameters}
    by_place: dict[tuple[str, str], list[Overridden]] = {}
    for each in configured.overridden:
        parameter = each.placed.parameter
        if is_of_field(parameter) and parameter.key not in keys and not case.runs(parameter):
            by_place.setdefault((each.placed.file, each.by_where), []).append(each)
    for (file, by_where), lost in by_place.items():
        yield _override(case, file, by_where, lost)


def _override(case: _Case, file: str, by_where: str, lost: Sequence[Overridden]) -> Finding:
    what, verb = _named([each.placed for each in lost])
    by, placed = lost[0].by_file, lost[0].placed
    is_further_line = not placed.variable
    if is_further_line:
        title = f"{what} {verb} on a further line of {file}, and only the first line counts"
        next_ = f"write all parameters on one line of {file}, run {case.kind.apply}, then restart the host"
    else:
        later = f"{by} assigns {placed.variable} again later" if by != file else f"a later line assigns {placed.variable} again"
        title = f"{what} {verb} in {file}, but {later}, without it"
        next_ = f"put {what} into {by}, or into a file that sorts after it, run {case.kind.apply}, then restart the host"
    effective = not all(does_nothing(each.placed.parameter, case.view.host.cpu) for each in lost)
    outcome: Outcome = "warning" if effective and (by != file or is_further_line) else "info"
    evidence = [Evidence(each.placed.where, _shown(each.placed)) for each in lost]
    return Finding(
        ID,
        outcome,
        (file,),
        title,
        "The last assignment counts, so generating the boot files again would not bring it." if not is_further_line else "",
        "certain" if case.loader.certain else "likely",
        tuple(
            dict.fromkeys(
                (*evidence, Evidence(by_where, f"the later assignment in {by}"), Evidence(_LINE, str(case.boot.command_line)))
            )
        ),
        remedies=_REMEDY,
        next=next_,
    )


def _unread(case: _Case) -> Iterator[Finding]:
    """What stands in files of another boot loader, where somebody wanted it and it does not run.

    Somebody who has parameters of this field in the right place knows that place: what is left elsewhere is only worth a
    word then, as it is where the other loader ran earlier.
    """
    ours = [each.parameter for each in case.files.configured.parameters] if case.files.configured else []
    ours += case.entry.parameters if case.entry else ()
    known_keys = {each.key for each in (*ours, *case.boot.parameters)}
    at_home = any(is_of_field(each) and not does_nothing(each, case.view.host.cpu) for each in (*ours, *case.boot.parameters))
    for configuration in case.files.unread:
        wanted = [
            each
            for each in configuration.parameters
            if is_of_field(each.parameter) and not case.runs(each.parameter) and each.parameter.key not in known_keys
        ]
        if wanted:
            idle = all(does_nothing(each.parameter, case.view.host.cpu) for each in wanted)
            yield _never_read(
                case, configuration, wanted, "info" if at_home or idle or configuration.was_in_force else "warning"
            )


def _never_read(case: _Case, configuration: Configuration, wanted: Sequence[Placed], outcome: Outcome) -> Finding:
    what, verb = _named(wanted)
    kind = case.kind
    belongs = (
        f"Here they belong into {kind.file}." if kind.file else f"Here they are set by {kind.apply}." if kind.apply else ""
    )
    step = f"put {what} into {kind.file}" if kind.file else ""
    steps = [step, f"run {kind.apply}" if kind.apply else "", "restart the host"]
    evidence = [Evidence(placed.where, _shown(placed)) for placed in wanted]
    evidence += [
        Evidence(each.where, _shown(each)) for each in (case.files.configured.parameters[:1] if case.files.configured else ())
    ]
    return Finding(
        ID,
        outcome,
        tuple(dict.fromkeys(placed.file for placed in wanted)),
        f"{what} {verb} in {wanted[0].file}, which this host's boot loader never reads",
        f"This host is started by {kind.title}. {belongs}".strip(),
        "certain" if case.loader.certain else "likely",
        tuple(dict.fromkeys((*evidence, Evidence(_LINE, str(case.boot.command_line)), *_because(case.loader)))),
        remedies=_REMEDY,
        next=", ".join(each for each in steps if each),
    )


# --- words ------------------------------------------------------------------------------------------------------------


def _first_of_field(parameters: Iterable[T]) -> list[T]:
    """In their order, those of this tool's field before the others."""
    return sorted(parameters, key=lambda each: not is_of_field(each.parameter if isinstance(each, Placed) else each))


def _named(placed: Sequence[Placed]) -> tuple[str, str]:
    names = list(dict.fromkeys(each.parameter.text for each in placed))
    return wording.listed(names), "stands" if len(names) == 1 else "stand"


def _shown(placed: Placed) -> str:
    return f"{placed.variable}: {placed.parameter.text}" if placed.variable else placed.parameter.text


def _because(loader: Loader) -> tuple[Evidence, ...]:
    return tuple(Evidence(source, value) for source, value in loader.why)


CHECK = Check(
    id=ID,
    subject="file",
    summary="What is configured for the next start is what runs now.",
    looks_at="The boot loader's files (/etc/default/grub and grub.d, /etc/kernel/cmdline, entries of the Boot Loader "
    "Specification and others), what was generated from them, and the running kernel's command line.",
    why="A parameter that was written down and is not in force looks done, and the fault it was to cure stays.",
    decides="The boot loader that governs is told by what it left on the command line and in the firmware, then by files. A "
    "warning where a parameter is configured but not generated, generated but not booted, dropped by a file that is read "
    "later, or written to a file that this boot loader never reads; also where one of this tool's field runs and is no longer "
    "configured. What the boot process or an installer gives makes no difference. Info in recovery mode, after a start from a "
    "menu entry made by hand, and for leftovers in another loader's file. Unknown where the loader or the running line is not "
    "known; files are never run, so what only a shell could tell is unknown too.",
    sources=(
        "GNU GRUB manual, Simple configuration; GRUB util/grub-mkconfig.in; Debian grub2 packaging, /etc/default/grub.d",
        "UAPI group, The Boot Loader Specification; systemd, The Boot Loader Interface; kernel-install(8)",
        "Proxmox VE Administration Guide, Editing the Kernel Commandline",
        "Linux lib/cmdline.c next_arg",
    ),
    judge=judge,
    remedies=_REMEDY,
    nothing="no boot configuration in this evidence",
    needs_pci=False,
)
