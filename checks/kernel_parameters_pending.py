"""Kernel parameters that are configured for the next start and not in force, or in force and not configured any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from hostdoctor import wording
from hostdoctor.facts.boot_files import Configuration, Entry, Loader, Overridden, Parameter, Placed
from hostdoctor.facts.host import Cpu
from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import Check, Confidence, Evidence, Finding, Outcome, unjudged
from hostdoctor.parameters import does_nothing, is_of_field
from hostdoctor.parsers.grub_cfg import is_recovery
from hostdoctor.pending import Comparison, Waiting
from hostdoctor.view import View

T = TypeVar("T", Placed, Parameter)

ID = "kernel-parameters-pending"

_LINE = "/proc/cmdline"
_WHAT = "what waits for the next start"
_REMEDY = ("apply-boot-configuration",)


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
        why = Unknown("the running kernel's command line is not in this evidence", "add the output of cat /proc/cmdline")
        yield unjudged(ID, subject, _WHAT, why)
        return
    if isinstance(files.loader, Unknown):
        yield unjudged(ID, subject, _WHAT, files.loader)
        return
    compared = Comparison(files, files.loader, boot)
    if compared.entry is not None and compared.starts_another_root:
        why = Unknown(f"{compared.entry.file} starts another root file system than the running one")
        yield unjudged(ID, subject, _WHAT, why)
        return
    if is_recovery(boot.parameters):
        found = [*_in_recovery(compared)]
    else:
        found = [*_overridden(compared, view.host.cpu), *_differences(compared)]
    found += _never_read(compared, view.host.cpu)
    yield from found
    if not found:
        yield _nothing_pending(compared)


def _nothing_pending(compared: Comparison) -> Finding:
    configured, entries = compared.configured, compared.files.entries
    if configured is not None and configured.unknown:
        return unjudged(ID, (configured.file,), f"part of {configured.file}", configured.unknown[0])
    # Where GRUB reads entries that a command keeps, the file of GRUB's own tools tells little.
    decides = configured is not None and not compared.reads_kept_entries
    if not decides and isinstance(entries, Unknown):
        return unjudged(ID, (), _WHAT, entries)
    if not decides and compared.entry is None:
        return unjudged(ID, (), _WHAT, Unknown("which entry is started next does not show"))
    what = configured.file if configured else compared.entry.file if compared.entry else ""
    return Finding(ID, "ok", (), f"what {what} says is what runs", evidence=_because(compared.loader))


# --- differences ------------------------------------------------------------------------------------------------------


def _differences(compared: Comparison) -> Iterator[Finding]:
    by_file = compared.by_file()
    by_hand = compared.started_by_hand() if by_file else None
    for file, waiting in by_file.items():
        yield _started_by_hand(compared, file, waiting, by_hand) if by_hand else _pending(compared, file, waiting)


def _pending(compared: Comparison, file: str, waiting: Waiting) -> Finding:
    """The finding for one file."""
    evidence = _seen(_first_of_field((*waiting.not_made, *waiting.not_started)))
    entry = compared.entry
    if entry is not None:
        evidence += _in_entry(compared, entry, waiting)
    apply = compared.kind.apply
    # What was taken out of the file is still in what was generated, or may be.
    old = any(entry is None or compared.will_run(each) for each in waiting.removed)
    steps = [f"run {apply}" if apply and (waiting.not_made or old) else "", "restart the host"]
    return Finding(
        ID,
        "warning",
        (file,),
        _title(compared, file, waiting),
        _explanation(compared, file, waiting),
        _confidence(compared),
        tuple(dict.fromkeys((*evidence, *_shows(compared)))),
        remedies=_REMEDY,
        next=", then ".join(step for step in steps if step),
    )


def _in_entry(compared: Comparison, entry: Entry, waiting: Waiting) -> Iterator[Evidence]:
    """Which of the parameters the entry has, and which not."""
    parameters = [each.parameter for each in (*waiting.not_made, *waiting.not_started)] + list(waiting.removed)
    for word, there in (("without", False), ("with", True)):
        texts = dict.fromkeys(each.text for each in parameters if compared.will_run(each) is there)
        if texts:
            yield Evidence(entry.where, f"{entry.name or 'its entry'}: {word} {' '.join(texts)}")


def _title(compared: Comparison, file: str, waiting: Waiting) -> str:
    not_run = "not on the running command line"
    if waiting.not_made:
        what, verb = _named(waiting.not_made)
        made = f"not in {compared.entry.file}, and " if compared.entry is not None else ""
        return f"{what} {verb} in {file}, but {made}{not_run}"
    if waiting.not_started:
        what, verb = _named(waiting.not_started)
        return f"{what} {verb} in {file} for the next start, but {not_run}"
    what, verb = _named(waiting.removed)
    entry = compared.entry
    gone_from = entry.file if entry and any(compared.is_configured(each) for each in waiting.removed) else file
    return f"{what} {verb} on the running command line, but no longer in {gone_from}"


def _explanation(compared: Comparison, file: str, waiting: Waiting) -> str:
    parts = []
    kind, entry = compared.kind, compared.entry
    if waiting.not_made and entry is not None:
        made = f", which {kind.apply} makes from {file}" if kind.entries_are_made and kind.apply else ""
        parts.append(f"{kind.title} reads {entry.file}{made}: without that, a restart alone changes nothing.")
    elif waiting.not_made:
        parts.append("It was not carried over to what the boot loader reads, or the host was not restarted since.")
    if waiting.not_started:
        what, verb = _named(waiting.not_started)
        parts.append(f"{what} {verb} in {entry.file if entry else file}, and the host was not restarted since.")
    if waiting.not_made and compared.configured is not None:
        parts += [f"{why.reason}." for why in compared.configured.unknown]
    if waiting.removed and (waiting.not_made or waiting.not_started):
        what, verb = _named(waiting.removed)
        parts.append(f"{what} {verb} on the running command line and no longer there.")
    elif waiting.removed:
        parts.append("The next start will be without it, or it was typed into the boot menu for this one start.")
    return " ".join(parts)


def _started_by_hand(compared: Comparison, file: str, waiting: Waiting, entry: Entry) -> Finding:
    differing: list[Parameter] = [each.parameter for each in (*waiting.not_made, *waiting.not_started)]
    what, _ = _named([*differing, *waiting.removed])
    return Finding(
        ID,
        "info",
        (file,),
        f"this host runs from the menu entry {entry.name!r}, which does not follow {file}: {what} differs",
        evidence=(Evidence(entry.where, entry.name or "a menu entry"), *_shows(compared)),
    )


def _in_recovery(compared: Comparison) -> Iterator[Finding]:
    """Recovery entries leave out what only normal ones get."""
    waiting = _first_of_field(compared.waiting)
    if waiting and compared.configured is not None:
        what, _ = _named(waiting)
        yield Finding(
            ID,
            "info",
            (compared.configured.file,),
            f"this host runs in recovery mode, which leaves {what} out",
            evidence=(*_seen(waiting), *_shows(compared)),
            next="start the normal entry",
        )


# --- overridden, and never read ---------------------------------------------------------------------------------------


def _overridden(compared: Comparison, cpu: Cpu) -> Iterator[Finding]:
    for (file, by_where), lost in compared.overridden().items():
        further_line = not lost[0].placed.variable
        title, next_ = _on_further_line(compared, file, lost) if further_line else _dropped(compared, file, lost)
        gone = [each.placed.parameter for each in lost if not compared.sets(each.placed.parameter.key)]
        effective = not all(does_nothing(each, cpu) for each in gone)
        # Of two lines in one file the owner sees both, and what another file sets to another value may be meant so.
        outcome: Outcome = "warning" if effective and (lost[0].by_file != file or further_line) else "info"
        by = "the line that counts" if further_line else f"assigns {lost[0].placed.variable} again"
        evidence = (*_seen(each.placed for each in lost), Evidence(by_where, by), *_shows(compared))
        why = "The last assignment counts, so generating the boot files again would not bring it."
        yield Finding(
            ID,
            outcome,
            (file,),
            title,
            "" if further_line else why,
            _confidence(compared),
            tuple(dict.fromkeys(evidence)),
            remedies=_REMEDY,
            next=next_,
        )


def _dropped(compared: Comparison, file: str, lost: Sequence[Overridden]) -> tuple[str, str]:
    """Title and next step where a later assignment drops parameters."""
    what, verb = _named([each.placed for each in lost])
    by, variable = lost[0].by_file, lost[0].placed.variable
    later = f"{by} assigns {variable} again later" if by != file else f"a later line assigns {variable} again"
    next_ = f"put {what} into {by}, or into a file that sorts after it, run {compared.kind.apply}, then restart the host"
    return f"{what} {verb} in {file}, but {later}, without it", next_


def _on_further_line(compared: Comparison, file: str, lost: Sequence[Overridden]) -> tuple[str, str]:
    """Title and next step where parameters stand on a line that nobody reads."""
    what, verb = _named([each.placed for each in lost])
    next_ = f"write all parameters on the first line of {file}, run {compared.kind.apply}, then restart the host"
    return f"{what} {verb} on a further line of {file}, and only its first line counts", next_


def _never_read(compared: Comparison, cpu: Cpu) -> Iterator[Finding]:
    """What stands in files of another boot loader, where somebody wanted it and it does not run.

    Somebody who has parameters of this field in the right place knows that place: what is left elsewhere is only worth a
    word then, as it is where the other loader ran earlier.
    """
    running = [*compared.boot.parameters, *(compared.entry.parameters if compared.entry else ())]
    running += [each.parameter for each in compared.configured.parameters] if compared.configured else []
    at_home = any(is_of_field(each) and not does_nothing(each, cpu) for each in running)
    for configuration in compared.files.unread:
        if wanted := compared.in_vain(configuration):
            idle = all(does_nothing(each.parameter, cpu) for each in wanted)
            outcome: Outcome = "info" if at_home or idle or configuration.was_in_force else "warning"
            yield _in_vain(compared, configuration, wanted, outcome)


def _in_vain(compared: Comparison, configuration: Configuration, wanted: Sequence[Placed], outcome: Outcome) -> Finding:
    what, verb = _named(wanted)
    kind = compared.kind
    belongs = (
        f"Here they belong into {kind.file}." if kind.file else f"Here they are set by {kind.apply}." if kind.apply else ""
    )
    steps = [f"put {what} into {kind.file}" if kind.file else "", f"run {kind.apply}" if kind.apply else ""]
    evidence = _seen(wanted) + _seen(compared.configured.parameters if compared.configured else ())
    return Finding(
        ID,
        outcome,
        tuple(dict.fromkeys((wanted[0].file, *(each.file for each in wanted)))) or (configuration.file,),
        f"{what} {verb} in {wanted[0].file}, which this host's boot loader never reads",
        f"This host is started by {kind.title}. {belongs}".strip(),
        _confidence(compared),
        tuple(dict.fromkeys((*evidence, *_shows(compared)))),
        remedies=_REMEDY,
        next=", ".join([*(step for step in steps if step), "then restart the host"]),
    )


# --- words ------------------------------------------------------------------------------------------------------------


def _first_of_field(parameters: Iterable[T]) -> list[T]:
    """In their order, those of this tool's field before the others."""
    return sorted(parameters, key=lambda each: not is_of_field(each.parameter if isinstance(each, Placed) else each))


def _named(parameters: Iterable[T]) -> tuple[str, str]:
    """Their names, and the verb that goes with them."""
    first = _first_of_field(parameters)
    names = list(dict.fromkeys(each.parameter.text if isinstance(each, Placed) else each.text for each in first))
    return wording.listed(names), "stands" if len(names) == 1 else "stand"


def _seen(placed: Iterable[Placed]) -> list[Evidence]:
    """Where parameters stand, those of one line together."""
    lines: dict[tuple[str, str], list[str]] = {}
    for each in placed:
        lines.setdefault((each.where, each.variable), []).append(each.parameter.text)
    return [
        Evidence(where, f"{variable}: {' '.join(texts)}" if variable else " ".join(texts))
        for (where, variable), texts in lines.items()
    ]


def _shows(compared: Comparison) -> tuple[Evidence, ...]:
    """The running line, and what else tells the boot loader."""
    others = (Evidence(source, value) for source, value in compared.loader.why if source != _LINE)
    return (Evidence(_LINE, str(compared.boot.command_line)), *others)


def _because(loader: Loader) -> tuple[Evidence, ...]:
    return tuple(Evidence(source, value) for source, value in loader.why)


def _confidence(compared: Comparison) -> Confidence:
    return "certain" if compared.loader.certain else "likely"


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
