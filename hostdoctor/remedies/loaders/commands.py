"""Systems that change the kernel command line by a command, or by a configuration that only its owner can write.

A command that begins with # is a step by hand, in its place among the others.

Sources: kernelstub(1); rpm-ostree(1) kargs and ostree's ostree-kernel-args; bootc, "Kernel arguments"; NixOS manual,
boot.kernelParams; Ubuntu Core, "Modify kernel boot parameters"; Talos Linux, "Kernel" and "Image Factory"; Flatcar,
"Adding custom kernel boot options"; GNU GRUB manual, "Quoting".
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence

import msgspec

from hostdoctor.facts.boot_files import BootFiles, Parameter
from hostdoctor.facts.unknown import Unknown
from hostdoctor.parsers.cmdline import parse_command_line
from hostdoctor.parsers.os_release import parse_os_release
from hostdoctor.readers.boot_loader import Files
from hostdoctor.remedies import kernel_line
from hostdoctor.remedies.loaders import flatcar
from hostdoctor.remedies.loaders.plain import MENU, loader_of
from hostdoctor.remedies.patch import Patch, Refused, Request
from hostdoctor.remedies.quoting import for_grub

_SNAPD = "var/lib/snapd/state.json"
_OLD_DEPLOYMENT = "Choose the older deployment in the boot menu."


def patch(request: Request, files: Files, boot: BootFiles, running: str | Unknown) -> Patch:
    """The commands of the system that governs."""
    kernel_line.refuse_unsound(request)
    writers = {
        "kernelstub": _kernelstub,
        "rpm-ostree": _ostree,
        "nixos": _nixos,
        "ubuntu-core": _ubuntu_core,
        "talos": _talos,
        "flatcar": flatcar.patch,
    }
    return writers[loader_of(boot)](request, files, boot, running)


class _Left(msgspec.Struct, frozen=True):
    """What is left to do.

    Attributes:
        add: what is not configured yet.
        remove: what is still configured.
        is_done: whether it is configured and runs, so that there is nothing to do.
        line: the running kernel's line after the change; empty where the running one is not known.
        notes: what its owner should know.
    """

    add: tuple[str, ...]
    remove: tuple[str, ...]
    is_done: bool
    line: str
    notes: tuple[str, ...] = ()

    @property
    def only_waits(self) -> bool:
        """Whether a restart alone is missing."""
        return not self.add and not self.remove and not self.is_done


def _left(request: Request, configured: Sequence[Parameter] | None, running: str | Unknown) -> _Left:
    """What a request leaves to do, by what is configured, or by what runs where that is not known."""
    now = "" if isinstance(running, Unknown) else running
    known = " ".join(each.text for each in configured) if configured is not None else now
    line = kernel_line.joined(kernel_line.edited([now], request)) if now else ""
    if configured is None and not now:
        return _Left(request.add, request.remove, False, line)
    add = tuple(token for token in request.add if not kernel_line.is_in_force(Request((token,)), known))
    remove = tuple(token for token in request.remove if not kernel_line.is_in_force(Request((), (token,)), known))
    if add:
        kernel_line.edited([known], Request(add, request.remove))  # refuses a second list
    is_done = not add and not remove and kernel_line.is_in_force(request, running)
    notes = ("It is configured already: what is missing is the restart.",) if not (add or remove or is_done) else ()
    return _Left(add, remove, is_done, line, notes)


def _quoted(tokens: Sequence[str]) -> str:
    return shlex.quote(" ".join(tokens))


def _configured(boot: BootFiles) -> Sequence[Parameter] | None:
    configured = boot.configured
    return None if configured is None or configured.unknown else [each.parameter for each in configured.parameters]


# --- Pop!_OS ----------------------------------------------------------------------------------------------------------


def _kernelstub(request: Request, _files: Files, boot: BootFiles, running: str | Unknown) -> Patch:
    kernel_line.refuse_unsound(request, ' "', "which kernelstub takes for itself")
    left = _left(request, _configured(boot), running)
    show = "kernelstub -p"
    if left.is_done:
        return Patch(result=left.line, show=show, reboot=False)
    do, undo = [], []
    if left.remove:
        do.append(f"kernelstub -d {_quoted(left.remove)}")
        undo.append(f"kernelstub -a {_quoted(left.remove)}")
    if left.add:
        do.append(f"kernelstub -a {_quoted(left.add)}")
        undo.insert(0, f"kernelstub -d {_quoted(left.add)}")
    notes = (*left.notes, "The entry Pop_OS-oldkern gets the same parameters.")
    return Patch((), tuple(do), left.line, show, tuple(undo), MENU, notes)


# --- rpm-ostree and bootc ---------------------------------------------------------------------------------------------


def _ostree(request: Request, files: Files, boot: BootFiles, running: str | Unknown) -> Patch:
    if files.has("usr/bin/bootc") and not files.has("usr/bin/rpm-ostree"):
        return _bootc(request, running)
    kernel_line.refuse_unsound(request, " \"'\\", "which GRUB and ostree read each in its own way")
    entries = boot.entries
    next_one = None if isinstance(entries, Unknown) or not entries else entries[0].parameters
    left = _left(request, next_one, running)
    if left.is_done:
        return Patch(result=left.line, show="rpm-ostree kargs", reboot=False)
    by_grub = not isinstance(running, Unknown) and kernel_line.names(running, "BOOT_IMAGE") is not None
    written = for_grub if by_grub else _as_it_is
    options = _kargs(left, [each.text for each in next_one or parse_command_line(left.line)[0]], written)
    notes = list(left.notes)
    if any(written(token) != token for token in (*left.add, *left.remove)):
        notes.append("The backslashes are for GRUB, which reads the entry once more; the kernel does not get them.")
    commands = (f"rpm-ostree kargs {' '.join(options)}",) if options else ()
    return Patch((), commands, left.line, "rpm-ostree kargs", ("rpm-ostree rollback",), _OLD_DEPLOYMENT, tuple(notes))


def _as_it_is(token: str) -> str:
    return token


def _kargs(left: _Left, there: Sequence[str], written: Callable[[str], str]) -> list[str]:
    """The options of one call, so that it makes one deployment; what changes its value keeps its place."""
    add, options = list(left.add), []
    for token in left.remove:
        name, _, old = token.partition("=")
        new = [each for each in add if each.partition("=")[0] == name]
        values = [each.partition("=")[2] for each in (token, *new)]
        in_place = len(new) == 1 and all(values) and not any("=" in value for value in values) and there.count(token) == 1
        if in_place:
            add.remove(new[0])
            options.append(f"--replace={shlex.quote(f'{name}={written(old)}={written(values[1])}')}")
        else:
            options.append(f"--delete-if-present={shlex.quote(written(token))}")
    return [*options, *(f"--append-if-missing={shlex.quote(written(token))}" for token in add)]


def _bootc(request: Request, running: str | Unknown) -> Patch:
    left = _left(request, None, running)
    if left.is_done:
        return Patch(result=left.line, show="bootc status", reboot=False)
    steps = [f"# in the image, take out of /usr/lib/bootc/kargs.d/*.toml: {' '.join(left.remove)}"] if left.remove else []
    if left.add:
        steps.append(f"# in the image, as /usr/lib/bootc/kargs.d/50-hostdoctor.toml: kargs = {json.dumps(list(left.add))}")
    commands = (*steps, "# build the image and push it", "bootc upgrade")
    notes = (*left.notes, "A bootc host takes its parameters from its image.")
    return Patch((), commands, left.line, "bootc status", ("bootc rollback",), _OLD_DEPLOYMENT, notes)


# --- NixOS ------------------------------------------------------------------------------------------------------------


def _nixos(request: Request, _files: Files, boot: BootFiles, running: str | Unknown) -> Patch:
    left = _left(request, _configured(boot), running)
    show = "cat /nix/var/nix/profiles/system/kernel-params"
    if left.is_done:
        return Patch(result=left.line, show=show, reboot=False)
    steps = []
    if left.remove:
        steps.append(f"# in the configuration, take out of boot.kernelParams: {' '.join(left.remove)}")
    if left.add:
        listed = " ".join(_nix(token) for token in left.add)
        steps.append(f"# in the configuration (/etc/nixos/configuration.nix, or a flake): boot.kernelParams = [ {listed} ];")
    commands = (*steps, "nixos-rebuild boot") if steps else ()
    notes = (*left.notes, "Lists of several modules are joined; where the file has boot.kernelParams, add to its list.")
    once = "Choose the older generation in the boot menu."
    return Patch((), commands, left.line, show, ("nixos-rebuild boot --rollback",), once, notes)


def _nix(token: str) -> str:
    """A string of the Nix language."""
    escaped = token.replace("\\", "\\\\").replace('"', '\\"').replace("${", "\\${")
    return f'"{escaped}"'


# --- Ubuntu Core ------------------------------------------------------------------------------------------------------


def _ubuntu_core(request: Request, files: Files, _boot: BootFiles, running: str | Unknown) -> Patch:
    """The whole list that is appended is set, so that what stands in it is kept."""
    kernel_line.refuse_unsound(request, ' "', "which snapd takes for itself")
    manual = (
        "See snap get system system.kernel, and set system.kernel.cmdline-append with all parameters that are to be appended."
    )
    release = files.text("etc/os-release")
    version = "" if isinstance(release, Unknown) else parse_os_release(release).get("VERSION_ID", "")
    if version in ("16", "18"):
        raise Refused(f"Ubuntu Core {version} has no setting for kernel parameters", "Build a gadget snap with them.")
    left = _left(request, None, running)
    if left.is_done:
        return Patch(result=left.line, show="snap get system system.kernel", reboot=False)
    appended = _appended(files)
    if left.remove and (
        appended is None or any(kernel_line.is_in_force(Request((), (each,)), appended) for each in left.remove)
    ):
        raise Refused(f"whether {' '.join(left.remove)} comes from the gadget snap or from a setting is not known", manual)
    get, option = "snap get system system.kernel.cmdline-append", "system.kernel.cmdline-append"
    if appended is None:
        commands = (f'snap set system {option}="$({get} 2>/dev/null) "{_quoted(left.add)}',)
        undo = (f"# set it to what {get} printed before",)
    else:
        after = kernel_line.edited([appended], Request(left.add, left.remove))[0]
        commands = (f"snap set system {option}={shlex.quote(after)}",)
        undo = (f"snap set system {option}={shlex.quote(appended)}",)
    notes = (
        "The gadget snap must allow each parameter; on a model of grade dangerous, dangerous-cmdline-append takes any.",
        "snapd seals the disk's keys anew and asks for a restart.",
    )
    once = "Start in recovery mode, by holding 1 while the host starts."
    return Patch((), commands, left.line, "snap get system system.kernel", undo, once, notes)


def _appended(files: Files) -> str | None:
    """What is appended now, as snapd keeps it; None where that cannot be read."""
    data = files.data(_SNAPD)
    if isinstance(data, Unknown):
        return None
    try:
        found: object = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return None
    for key in ("data", "config", "core", "system", "kernel", "cmdline-append"):
        if not isinstance(found, dict):
            return None
        found = found.get(key, "" if key in ("core", "cmdline-append") else {})
        if found == "":
            return ""
    return found if isinstance(found, str) else None


# --- Talos ------------------------------------------------------------------------------------------------------------


def _talos(request: Request, _files: Files, _boot: BootFiles, running: str | Unknown) -> Patch:
    left = _left(request, None, running)
    if left.is_done:
        return Patch(result=left.line, show="talosctl read /proc/cmdline", reboot=False)
    steps = [f"# take out of the schematic's extraKernelArgs: {' '.join(left.remove)}"] if left.remove else []
    if left.add:
        listed = json.dumps(list(left.add))
        steps.append(f'# add to the schematic of the Image Factory: {{"customization": {{"extraKernelArgs": {listed}}}}}')
    steps.append("# talosctl upgrade --nodes NODE --image factory.talos.dev/installer/SCHEMATIC:VERSION")
    notes = (
        "Talos has no shell: these steps are for the computer from which you manage it.",
        "Started by a unified kernel image (UEFI, Talos 1.10 and later) it ignores .machine.install.extraKernelArgs.",
    )
    once = "Choose the older image in the boot menu."
    return Patch((), tuple(steps), left.line, "talosctl read /proc/cmdline", ("# talosctl rollback --nodes NODE",), once, notes)
