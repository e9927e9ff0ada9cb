"""The whole plan of `hostdoctor fix`: what to change, why, the patch for the loader that governs, and how to see afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import Finding
from hostdoctor.loaders import LOADERS
from hostdoctor.parsers.cmdline import parse_command_line
from hostdoctor.readers.boot_loader import Files
from hostdoctor.remedies.firmware import as_json, firmware_guide
from hostdoctor.remedies.loaders import patch_for
from hostdoctor.remedies.module_options import ModuleChange, ModulePatch, settle
from hostdoctor.remedies.patch import OF_LOADER, TAKE_BACK, FileChange, Patch, Refused, Request, changed_line, diff
from hostdoctor.remedies.runtime import RuntimeStep, runtime_steps
from hostdoctor.remedies.waiting import with_waiting, without_absent
from hostdoctor.remedies.wanted import Change, Uncurable, Wanted, wanted
from hostdoctor.view import View

SCHEMA = 1


class LoaderReport(msgspec.Struct, frozen=True):
    """The boot loader that governs, and what shows it; its name is empty where that is not known."""

    name: str
    title: str
    why: tuple[str, ...]


class Refusal(msgspec.Struct, frozen=True):
    """Why there is no patch, and the manual way."""

    reason: str
    manual: str


class Plan(msgspec.Struct, frozen=True):
    """What to change; as JSON it is what people script against (schema 1).

    Attributes:
        loader: the boot loader that governs.
        running: the kernel command line now.
        now: the same without what the boot loader itself puts before it.
        result: the one after the change; empty where it cannot be told.
        add: parameters to add.
        remove: parameters to take out.
        because: by parameter, the findings that ask for it.
        diff: a unified diff of files.
        commands: what to run as root, in order.
        reboot: whether a restart is needed.
        uncurable: findings that no parameter cures, and what does.
        firmware: settings of the firmware that findings ask for.
        details: by parameter, what else it does and how to see that it worked.
        show: the command that prints what the next start would get.
        revert: commands that take everything back.
        once_without: how to start once without the change.
        notes: what to know besides.
        runtime: what can be done without a restart, and is lost at the next one.
        refused: why there is no patch although something is to change; null where there is one.
        nothing: why nothing is to change; empty where something is.
        modules: options of kernel modules that are changed in /etc/modprobe.d.
    """

    loader: LoaderReport
    running: str | Unknown
    result: str
    add: tuple[str, ...]
    remove: tuple[str, ...]
    because: Mapping[str, tuple[str, ...]]
    diff: str
    commands: tuple[str, ...]
    reboot: bool
    uncurable: tuple[Uncurable, ...]
    firmware: tuple[Mapping[str, object], ...]
    now: str = ""
    details: Mapping[str, Change] = {}
    show: str = ""
    revert: tuple[str, ...] = ()
    once_without: str = ""
    notes: tuple[str, ...] = ()
    runtime: tuple[RuntimeStep, ...] = ()
    refused: Refusal | None = None
    nothing: str = ""
    modules: tuple[ModuleChange, ...] = ()
    schema: int = SCHEMA


class Made(msgspec.Struct, frozen=True):
    """A plan, and the files it changes, whole."""

    plan: Plan
    files: tuple[FileChange, ...] = ()


def make_plan(view: View, findings: Sequence[Finding], files: Files, own: Request) -> Made:
    """The plan for a host.

    Args:
        view: the host.
        findings: all findings of a scan of it.
        files: its boot files.
        own: what its owner asked for with --add and --remove.
    """
    asked, absent = without_absent(view, with_waiting(view, findings, wanted(view, findings, own)))
    asked, modules = settle(asked, view, findings, files)
    request = Request(tuple(each.parameter for each in asked.add), tuple(each.parameter for each in asked.remove))
    patch, refusal = Patch(result=_result(view, request), reboot=False), None
    if not asked.is_empty:
        try:
            patch = patch_for(request, files, view.host.boot_files, view.host.boot.command_line)
        except Refused as refused:
            refusal = Refusal(refused.reason, refused.manual)
    patch = _with_modules(msgspec.structs.replace(patch, notes=(*patch.notes, *absent, *map(_in_vain, asked.in_vain))), modules)
    return Made(_plan(view, findings, asked, patch, refusal, modules.changes), patch.files)


def _with_modules(patch: Patch, modules: ModulePatch) -> Patch:
    """The loader's patch with that of modprobe's files."""
    if not modules.files:
        return patch
    files = (*modules.files, *patch.files)
    undo = [each for each in patch.revert if each != TAKE_BACK and not each.startswith("rm ")]
    return msgspec.structs.replace(
        patch,
        files=files,
        commands=(*modules.commands, *patch.commands),
        revert=(TAKE_BACK, *modules.commands, *undo),
        notes=(*patch.notes, *modules.notes),
        reboot=True,
    )


def _plan(  # noqa: PLR0913, PLR0917  each is a part of the plan
    view: View,
    findings: Sequence[Finding],
    asked: Wanted,
    patch: Patch,
    refusal: Refusal | None,
    modules: tuple[ModuleChange, ...],
) -> Plan:
    nothing = "" if modules else _nothing(view, asked)
    changes = (*asked.add, *asked.remove)
    return Plan(
        loader=_loader(view),
        running=view.host.boot.command_line,
        result=_without_loader(patch.result),
        add=tuple(each.parameter for each in asked.add),
        remove=tuple(each.parameter for each in asked.remove),
        because={each.parameter: each.because for each in changes},
        diff=diff(patch.files),
        commands=patch.commands,
        reboot=patch.reboot and not nothing,
        uncurable=asked.uncurable,
        firmware=tuple(as_json(firmware_guide(view, findings))),
        now=_running(view),
        details={each.parameter: each for each in changes},
        show=patch.show,
        revert=patch.revert,
        once_without=patch.once_without,
        notes=patch.notes,
        runtime=runtime_steps(view, findings),
        refused=refusal,
        nothing=nothing,
        modules=modules,
    )


def _loader(view: View) -> LoaderReport:
    loader = view.host.boot_files.loader
    if isinstance(loader, Unknown):
        return LoaderReport("", "not known", (loader.reason,))
    return LoaderReport(loader.name, LOADERS[loader.name].title, tuple(f"{source}: {value}" for source, value in loader.why))


def _running(view: View) -> str:
    line = view.host.boot.command_line
    return "" if isinstance(line, Unknown) else _without_loader(line)


def _without_loader(line: str) -> str:
    """A line without what the boot loader itself puts on it."""
    parameters, arguments = parse_command_line(line)
    kept = [each.text for each in parameters if each.name not in OF_LOADER]
    return " ".join([*kept, *(["--", *(each.text for each in arguments)] if arguments else [])])


def _result(view: View, request: Request) -> str:
    return "" if isinstance(view.host.boot.command_line, Unknown) else changed_line(_running(view), request)


def _in_vain(change: Change) -> str:
    return (
        f"{change.parameter} runs already, and {', '.join(change.because)} asks for it all the same: see why it does not help."
    )


def _nothing(view: View, asked: Wanted) -> str:
    """Why nothing is to change on the kernel command line, as a sentence without its full stop."""
    environment = view.host.environment
    if not asked.is_empty:
        return ""
    if environment.container:
        return "this is a container, and the kernel is its host's: run hostdoctor fix there"
    if environment.is_guest:
        return "this is a guest, whose GPUs, links and IOMMU are its hypervisor's: run hostdoctor fix on the host"
    return "no finding asks for a kernel parameter"
