"""The boot configuration: what stands in the boot loader's files, and what was generated from them.

Nothing is run. A file that may not be read, such as a grub.cfg of mode 0600, leaves its part unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from hostdoctor.evidence import Evidence
from hostdoctor.facts.boot_files import Assignment, BootFiles, Configuration, Entry, Overridden, Parameter, Placed
from hostdoctor.facts.host import Boot
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.loaders import LOADERS
from hostdoctor.parsers.cmdline import parse_command_line
from hostdoctor.parsers.grub_cfg import GrubCfg, is_recovery, kernel_parameters, parse_grub_cfg, parse_grubenv
from hostdoctor.parsers.grub_default import evaluate
from hostdoctor.parsers.grub_dropin import is_ours
from hostdoctor.readers.boot_loader import BOOTCTL, GRUBBY, Files, Signs, decide, read_signs

T = TypeVar("T")

_GRUB, _GRUB_FOLDER, _KERNEL = "etc/default/grub", "etc/default/grub.d", "etc/kernel/cmdline"
_GRUB_CFG = ("boot/grub/grub.cfg", "boot/grub2/grub.cfg")
_GRUBENV = ("boot/grub/grubenv", "boot/grub2/grubenv")
_SCRIPTS = ("usr/sbin/grub-mkconfig", "usr/sbin/grub2-mkconfig", "usr/bin/grub-mkconfig")
_ENTRIES = ("boot/loader/entries", "boot/efi/loader/entries", "efi/loader/entries")
_ALWAYS, _DEFAULT = "GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT"
_MOST_FILES = 200
_MADE_BY = re.compile(r"/etc/grub\.d/(?:09|10)_")
_VARIABLE = re.compile(r"\$\{?(\w+)")
_NUMBERS = re.compile(r"(\d+)")


def read_boot_files(evidences: Sequence[Evidence], boot: Boot, container: str = "") -> BootFiles:
    """The boot configuration of a host whose files lie in these evidences; a container has none."""
    if container:
        return BootFiles(Unknown("a container is started by its host"))
    files = Files(evidences)
    signs = read_signs(files, boot)
    loader = decide(signs)
    generated = _Generated(signs)
    grub = _grub_configuration(signs, generated.variables)
    if isinstance(loader, Unknown):
        kernel = _kernel_configuration(files, first_only=False)
        return BootFiles(loader, grub or kernel, unread=tuple(each for each in (kernel,) if grub and each))
    name = loader.name
    if name == "proxmox-systemd-boot":
        return BootFiles(loader, _kernel_configuration(files, first_only=True), unread=_these(grub))
    if LOADERS[name].grub_files:
        kernel = _kernel_configuration(files, first_only=False) if name in ("grub-debian", "grub", "grub-suse") else None
        entries, path = generated.of_bls(by_grub=True) if name == "grub-bls" else (generated.of_grub(), generated.path)
        return BootFiles(loader, grub, entries, path, _these(kernel))
    entries, path = generated.of_bls(by_grub=name in ("rpm-ostree",)) if name in _WITH_ENTRIES else ((), "")
    if name == "extlinux":
        entries, path = _extlinux(files), "/boot/extlinux/extlinux.conf"
    return BootFiles(loader, _configuration_of(name, files), entries, path, _these(_with_history(grub, generated.of_grub())))


def _with_history(grub: Configuration | None, entries: tuple[Entry, ...] | Unknown) -> Configuration | None:
    """GRUB's configuration, and whether it was generated from, so that GRUB started this host earlier."""
    if grub is None or isinstance(entries, Unknown):
        return grub
    says = {placed.parameter for placed in grub.parameters}
    in_force = any(says <= set(entry.parameters) for entry in entries if entry.standard)
    return msgspec.structs.replace(grub, was_in_force=in_force)


_WITH_ENTRIES = ("kernel-install", "systemd-boot", "kernelstub", "rpm-ostree", "sdbootutil")


def _these(*found: T | None) -> tuple[T, ...]:
    return tuple(each for each in found if each is not None)


def _configuration_of(name: str, files: Files) -> Configuration | None:
    """What the files of a loader other than GRUB say."""
    if name in ("kernel-install", "uki", "sdbootutil"):
        return _kernel_configuration(files, first_only=False)
    if name == "nixos":
        return _one_line(files, "nix/var/nix/profiles/system/kernel-params", "boot.kernelParams")
    if name == "raspberry-pi":
        path = "boot/firmware/cmdline.txt" if files.has("boot/firmware/cmdline.txt") else "boot/cmdline.txt"
        return _one_line(files, path)
    if name == "kernelstub":
        return _kernelstub(files)
    return None


# --- /etc/default/grub ------------------------------------------------------------------------------------------------


def _grub_configuration(signs: Signs, variables: Mapping[str, str]) -> Configuration | None:
    """What /etc/default/grub and grub.d give, where one of them is there."""
    files = signs.files
    found, unknown = _grub_texts(signs)
    if not found and not unknown:
        return None
    named = [(f"/{path}", text) for path, text in found]
    result = evaluate(named)
    if not _has_bash(signs, found) and (refused := evaluate(named, bash=False).stopped):
        unknown.append(refused)  # what its owner meant is plain all the same
    traced = {
        name: _trace(files, [each for each in result.assignments if each.variable == name], variables)
        for name in (_ALWAYS, _DEFAULT)
    }
    always, dropped_always = traced[_ALWAYS]
    default, dropped_default = traced[_DEFAULT]
    reasons = [result.value(name) for name in (_ALWAYS, _DEFAULT)]
    unknown += [reason for reason in reasons if isinstance(reason, Unknown)]
    unknown += [_BROKEN_LINE for reason in reasons if isinstance(reason, str) and "\n" in reason.strip()]
    stopped = result.stopped is not None
    overridden = () if stopped else (*dropped_always, *dropped_default)
    complete = files.is_tree or bool(files.names(_GRUB_FOLDER)) or signs.family in ("redhat", "suse", "arch")
    return Configuration(
        file=f"/{_GRUB}",
        files=tuple(f"/{path}" for path, _ in found),
        parameters=() if stopped else (*always, *default),
        always=() if stopped else always,
        overridden=overridden,
        unknown=tuple(dict.fromkeys(unknown)),
        complete=complete,
    )


_BROKEN_LINE = Unknown("a line end inside of the value, at which GRUB cuts the line")


def _grub_texts(signs: Signs) -> tuple[list[tuple[str, str]], list[Unknown]]:
    """The files in the order in which grub-mkconfig reads them, and why some are not known."""
    files, unknown = signs.files, []
    paths = [_GRUB]
    drop_ins = [f"{_GRUB_FOLDER}/{name}" for name in files.names(_GRUB_FOLDER) if name.endswith(".cfg") and name[0] != "."]
    if drop_ins:
        reads = _reads_drop_ins(signs)
        if reads is None:
            unknown.append(Unknown(f"whether this GRUB reads /{_GRUB_FOLDER}"))
        elif reads:
            paths += drop_ins[:_MOST_FILES]
    found = []
    for path in paths:
        text = files.text(path)
        if not isinstance(text, Unknown):
            found.append((path, text))
        elif text is not NOT_CAPTURED:
            unknown.append(text)
    return found, unknown


def _reads_drop_ins(signs: Signs) -> bool | None:
    """Whether grub-mkconfig reads grub.d: its text tells, else the distribution."""
    told = script_reads_drop_ins(signs.files)
    return told if told is not None else True if signs.family == "debian" or not signs.distribution else None


def script_reads_drop_ins(files: Files) -> bool | None:
    """Whether the host's grub-mkconfig reads grub.d, which is a patch of Debian's; None where it is not in the evidence."""
    for path in _SCRIPTS:
        text = files.text(path)
        if not isinstance(text, Unknown):
            return "default/grub.d" in text
    return None


def _has_bash(signs: Signs, found: Iterable[tuple[str, str]]) -> bool:
    """Whether sh is bash, where that matters."""
    if not any("+=" in text for _, text in found):
        return True
    told = shell_is_bash(signs.files)
    return signs.family != "debian" if told is None else told


def shell_is_bash(files: Files) -> bool | None:
    """Whether the host's sh is bash; None where that does not show."""
    from hostdoctor.evidence import Unreadable  # noqa: PLC0415  few files need it

    for evidence in files.evidences:
        for path in ("usr/bin/sh", "bin/sh"):
            try:
                return evidence.link(path).endswith("bash")
            except Unreadable:
                continue
    return None


def _trace(
    files: Files, assignments: Sequence[Assignment], variables: Mapping[str, str]
) -> tuple[tuple[Placed, ...], tuple[Overridden, ...]]:
    """The parameters of a variable, each where it was written first, and those that were dropped on the way."""
    current: list[Placed] = []
    dropped: list[Overridden] = []
    for each in assignments:
        if isinstance(each.value, Unknown):
            current = []
            continue
        where = files.where(each.file[1:], each.line)
        left = list(current) if each.keeps else []
        before, current = current, []
        for parameter in kernel_parameters(each.value.split("\n")[0], variables):
            old = next((placed for placed in left if placed.parameter == parameter), None)
            if old is not None:
                left.remove(old)
            current.append(old or Placed(parameter, each.file, each.line, where, each.variable))
        if is_ours(each.file):
            continue  # what this tool takes out is meant to be gone
        now = {placed.parameter for placed in current}
        dropped += [Overridden(old, each.file, where) for old in before if old.parameter not in now]
    final = {placed.parameter for placed in current}
    return tuple(current), tuple(each for each in dropped if each.placed.parameter not in final)


# --- files with one line ----------------------------------------------------------------------------------------------


def _kernel_configuration(files: Files, first_only: bool) -> Configuration | None:
    """/etc/kernel/cmdline: proxmox-boot-tool takes its first line alone, the others take all lines together."""
    text = files.text(_KERNEL)
    shown = f"/{_KERNEL}"
    if isinstance(text, Unknown):
        return None if text is NOT_CAPTURED else Configuration(shown, (shown,), unknown=(text,))
    from hostdoctor.parsers.kernel_cmdline_file import parse_command_line_file  # noqa: PLC0415  many hosts have none

    found = parse_command_line_file(text)
    if found.begins_with_comment and first_only:
        why = Unknown(f"{shown} begins with a comment, and proxmox-boot-tool takes its first line")
        return Configuration(shown, (shown,), unknown=(why,))
    placed = [
        [Placed(each, shown, line.number, files.where(_KERNEL, line.number)) for each in parse_command_line(line.text)[0]]
        for line in found.lines
    ]
    kept = placed[:1] if first_only else placed
    by = files.where(_KERNEL, found.lines[0].number) if found.lines else shown
    lost = [Overridden(each, shown, by) for line in placed[len(kept) :] for each in line]
    parameters = tuple(each for line in kept for each in line)
    return Configuration(shown, (shown,), parameters, parameters, tuple(lost))


def _one_line(files: Files, path: str, name: str = "") -> Configuration | None:
    text = files.text(path)
    shown = f"/{path}"
    if isinstance(text, Unknown):
        return None if text is NOT_CAPTURED else Configuration(shown, (shown,), unknown=(text,))
    where = files.where(path, 1)
    placed = tuple(Placed(each, shown, 1, where, name) for each in parse_command_line(text)[0])
    return Configuration(shown, (shown,), placed, placed)


def _kernelstub(files: Files) -> Configuration | None:
    """The options that kernelstub keeps for the user, as JSON."""
    path = "etc/kernelstub/configuration"
    data = files.data(path)
    if isinstance(data, Unknown):
        return None
    try:
        options = msgspec.json.decode(data, type=dict[str, dict[str, object]])["user"]["kernel_options"]
    except (msgspec.MsgspecError, KeyError, RecursionError):
        why = Unknown(f"/{path} does not read as the file that kernelstub writes")
        return Configuration(f"/{path}", (f"/{path}",), unknown=(why,))
    line = " ".join(each for each in options if isinstance(each, str)) if isinstance(options, list) else ""
    where = files.where(path, 1)
    placed = tuple(Placed(each, f"/{path}", 1, where, "kernel_options") for each in parse_command_line(line)[0])
    return Configuration(f"/{path}", (f"/{path}",), placed, placed)


def _extlinux(files: Files) -> tuple[Entry, ...] | Unknown:
    path = "boot/extlinux/extlinux.conf"
    text = files.text(path)
    if isinstance(text, Unknown):
        return text
    from hostdoctor.parsers.kernel_cmdline_file import parse_extlinux  # noqa: PLC0415  few hosts have it

    return tuple(
        Entry(
            label.name,
            f"/{path}",
            files.where(path, label.line),
            label.kernel,
            parse_command_line(label.append.replace("${cbootargs}", ""))[0],
            is_next=label.is_default,
        )
        for label in parse_extlinux(text)
    )


# --- what was generated -----------------------------------------------------------------------------------------------


class _Generated:
    """grub.cfg with its environment, and entries of the Boot Loader Specification."""

    def __init__(self, signs: Signs) -> None:
        self._files = signs.files
        self._signs = signs
        self.path = ""
        self._cfg: GrubCfg | Unknown = NOT_CAPTURED
        for path in _GRUB_CFG:
            text = self._files.text(path)
            if text is not NOT_CAPTURED:
                self.path = f"/{path}"
                self._cfg = text if isinstance(text, Unknown) else parse_grub_cfg(text)
                break
        self._environment = self._read_environment()
        environment = {} if isinstance(self._environment, Unknown) else self._environment
        set_there = {} if isinstance(self._cfg, Unknown) else self._cfg.variables
        self.variables: Mapping[str, str] = {**set_there, **environment}

    def _read_environment(self) -> Mapping[str, str] | Unknown:
        for path in _GRUBENV:
            text = self._files.text(path)
            if text is not NOT_CAPTURED:
                return text if isinstance(text, Unknown) else parse_grubenv(text)
        return NOT_CAPTURED

    def of_grub(self) -> tuple[Entry, ...] | Unknown:
        """The menu entries of grub.cfg; those of other systems and those made by hand are not standard."""
        if isinstance(self._cfg, Unknown):
            return () if self._cfg is NOT_CAPTURED else self._cfg
        found = []
        sections = any(entry.section for entry in self._cfg.entries)
        for entry in self._cfg.entries:
            parameters = kernel_parameters(entry.arguments, self.variables)
            found.append(
                Entry(
                    entry.title,
                    self.path,
                    self._files.where(self.path[1:], entry.line),
                    entry.kernel,
                    parameters,
                    entry.id,
                    entry.initrds,
                    recovery=is_recovery(parameters) or "-recovery-" in entry.id,
                    standard=not sections or bool(_MADE_BY.match(entry.section)),
                )
            )
        return tuple(found)

    def of_bls(self, by_grub: bool) -> tuple[tuple[Entry, ...] | Unknown, str]:
        """Entries of the Boot Loader Specification and their folder, the newest first, or what a tool printed of them."""
        for folder in _ENTRIES[:1] if by_grub else _ENTRIES:
            names = [name for name in self._files.names(folder) if name.endswith(".conf")][:_MOST_FILES]
            if names:
                return self._in_folder(folder, names, by_grub), f"/{folder}"
            if closed := self._files.why_closed(folder):
                return closed, f"/{folder}"
        return self._printed(), f"/{_ENTRIES[0]}"

    def _in_folder(self, folder: str, names: Sequence[str], by_grub: bool) -> tuple[Entry, ...] | Unknown:
        from hostdoctor.parsers.bls import parse_bls  # noqa: PLC0415  many hosts have none

        found = []
        saved = self.variables.get("saved_entry", "") if by_grub else ""
        selected = "" if by_grub else self._signs.variable("LoaderEntrySelected").removesuffix(".conf")
        for name in sorted(names, key=_in_order, reverse=True):
            path = f"{folder}/{name}"
            text = self._files.text(path)
            if isinstance(text, Unknown):
                return text
            entry = parse_bls(text)
            parameters = self._options(entry.options) if by_grub else parse_command_line(entry.options)[0]
            if isinstance(parameters, Unknown):
                return parameters
            id_ = name.removesuffix(".conf")
            found.append(
                Entry(
                    entry.title or id_,
                    f"/{path}",
                    self._files.where(path, entry.line),
                    entry.linux,
                    parameters,
                    id_,
                    entry.initrds,
                    entry.version,
                    _is_rescue(id_, parameters),
                    is_next=id_ == saved,
                    was_booted=bool(selected) and id_ == selected,
                )
            )
        return tuple(found)

    def _options(self, text: str) -> tuple[Parameter, ...] | Unknown:
        """The options as GRUB reads them, with its variables; one that is set nowhere is empty."""
        missing = [name for name in _VARIABLE.findall(text) if name not in self.variables]
        if missing and (isinstance(self._environment, Unknown) or isinstance(self._cfg, Unknown)):
            why = next((each for each in (self._environment, self._cfg) if isinstance(each, Unknown)), NOT_CAPTURED)
            return Unknown(f"what ${missing[0]} stands for: {why.reason}", why.help)
        return kernel_parameters(text, self.variables)

    def _printed(self) -> tuple[Entry, ...] | Unknown:
        """What grubby and bootctl printed, where that is attached."""
        from hostdoctor.parsers.bls import parse_bootctl, parse_grubby  # noqa: PLC0415  many hosts have none

        grubby, bootctl = (NOT_CAPTURED, NOT_CAPTURED) if not self._attached() else map(self._files.text, (GRUBBY, BOOTCTL))
        path, entries = (GRUBBY, parse_grubby(grubby)) if not isinstance(grubby, Unknown) else (BOOTCTL, ())
        if not entries and not isinstance(bootctl, Unknown):
            entries = parse_bootctl(bootctl).entries
        found = []
        for entry in entries:
            parameters = self._options(entry.options) if path == GRUBBY else parse_command_line(entry.options)[0]
            if isinstance(parameters, Unknown):
                return parameters
            found.append(
                Entry(
                    entry.title,
                    path.rpartition("/")[2],
                    self._files.where(path, entry.line),
                    entry.linux,
                    parameters,
                    entry.id.removesuffix(".conf"),
                    entry.initrds,
                    entry.version,
                    _is_rescue(entry.id or entry.title, parameters),
                    is_next="default" in entry.marks,
                    was_booted="selected" in entry.marks,
                )
            )
        return tuple(found)

    def _attached(self) -> bool:
        return any(evidence.kind == "attachments" for evidence in self._files.evidences)


def _is_rescue(name: str, parameters: Iterable[Parameter]) -> bool:
    lower = name.lower()
    return "rescue" in lower or "fallback" in lower or "oldkern" in lower or is_recovery(parameters)


def _in_order(name: str) -> list[tuple[int, str]]:
    """A key that sorts versions by their numbers."""
    return [(int(part[:18]), "") if part.isdecimal() else (-1, part) for part in _NUMBERS.split(name)]
