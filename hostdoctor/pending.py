"""Compares three kernel lines: the one configured in files, the one generated from them, and the one that runs.

Nothing here judges: checks/kernel_parameters_pending.py says what a difference means to the owner of a host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from hostdoctor.facts.boot_files import BootFiles, Configuration, Entry, Loader, Overridden, Parameter, Placed
from hostdoctor.facts.host import Boot
from hostdoctor.facts.unknown import Unknown
from hostdoctor.loaders import LOADERS, LoaderKind
from hostdoctor.parameters import all_meanings, is_of_boot_process, is_of_field, meanings

# Their loaders start what they started last, so that the entry that was booted is the one to look at.
_STARTED_BY_NAME = ("systemd-boot", "kernel-install", "kernelstub", "sdbootutil")
# The firmware and u-boot add parameters from the device tree, pci=pcie_bus_safe among them.
_WITH_FOREIGN_PARAMETERS = ("raspberry-pi", "extlinux")
# Their files are all there is; with other loaders people, and grubby before RHEL 8, also edit what was generated.
_SOLE_SOURCE = ("grub-debian", "grub", "grub-suse", "proxmox-systemd-boot", "nixos")


class Waiting(msgspec.Struct, frozen=True):
    """What waits in one file, by what has to be done.

    Attributes:
        not_made: configured, but not in what was generated, or nobody can see what was generated.
        not_started: in what was generated, but not running.
        removed: running, but not in the files any more.
    """

    not_made: tuple[Placed, ...] = ()
    not_started: tuple[Placed, ...] = ()
    removed: tuple[Parameter, ...] = ()


class Comparison:
    """The boot configuration of a host against its running kernel."""

    def __init__(self, files: BootFiles, loader: Loader, boot: Boot) -> None:
        self.files = files
        self.boot = boot
        self.loader = loader
        self.kind: LoaderKind = LOADERS[loader.name]
        self.entry = self._entry()
        self._running = all_meanings(boot.parameters)
        self._will = all_meanings(self.entry.parameters) if self.entry else frozenset[str]()

    @property
    def configured(self) -> Configuration | None:
        """What the governing loader's files say."""
        return self.files.configured

    @property
    def reads_kept_entries(self) -> bool:
        """Whether /etc/default/grub is there and read, but entries are kept by a command, not made from it."""
        return self.kind.grub_files and not self.kind.entries_are_made

    def _entry(self) -> Entry | None:
        """The entry that the next start takes, as far as it shows."""
        entries, boot = self.files.entries, self.boot
        if isinstance(entries, Unknown):
            return None
        normal = [entry for entry in entries if entry.standard and not entry.recovery]
        if self.loader.name not in _STARTED_BY_NAME:
            return next((entry for entry in normal if entry.is_next), normal[0] if normal else None)
        initrds = {(each.value or "").replace("\\", "/") for each in boot.parameters if each.name == "initrd"}
        for candidates in (
            [entry for entry in normal if entry.was_booted],
            [entry for entry in normal if initrds & set(entry.initrds)],
            [entry for entry in normal if entry.version and entry.version == boot.release],
            normal,
        ):
            if len(candidates) == 1:
                return candidates[0]
        return None

    @property
    def starts_another_root(self) -> bool:
        """Whether the entry names another root file system, in the same way as the running kernel's line does."""
        lines = (self.boot.parameters, self.entry.parameters if self.entry else ())
        ours, theirs = ([each.value or "" for each in line if each.name == "root"] for line in lines)
        if not ours or not theirs or ours[-1] == theirs[-1]:
            return False
        ways = {value.partition("=")[0] if "=" in value else "" for value in (ours[-1], theirs[-1])}
        return len(ways) == 1 and "" not in ways

    def runs(self, parameter: Parameter) -> bool:
        """Whether the running kernel got what a parameter asks for."""
        return meanings(parameter) <= self._running

    def will_run(self, parameter: Parameter) -> bool:
        """Whether the next start brings it, as far as an entry shows."""
        return self.entry is not None and meanings(parameter) <= self._will

    def is_configured(self, parameter: Parameter) -> bool:
        """Whether the files ask for it."""
        return self.configured is not None and meanings(parameter) <= all_meanings(
            each.parameter for each in self.configured.parameters
        )

    def sets(self, key: str) -> bool:
        """Whether the files set a parameter of this name, to whatever."""
        return self.configured is not None and any(each.parameter.key == key for each in self.configured.parameters)

    @property
    def waiting(self) -> list[Placed]:
        """What is configured and does not run.

        Where entries are not made from the file at each change, only what somebody surely wanted counts.
        """
        if self.configured is None:
            return []
        return [
            each
            for each in self.configured.parameters
            if not is_of_boot_process(each.parameter)
            and not (self.reads_kept_entries and not is_of_field(each.parameter))
            and not self.runs(each.parameter)
        ]

    @property
    def removed(self) -> list[Parameter]:
        """What runs and is gone from the files, of this tool's field: others may come from anywhere."""
        if self.loader.name in _WITH_FOREIGN_PARAMETERS:
            return []
        configured = self.configured
        told = self.loader.name in _SOLE_SOURCE and configured is not None and configured.complete and not configured.unknown
        return [
            each
            for each in self.boot.parameters
            if is_of_field(each)
            and ((self.entry is not None and not self.will_run(each)) or (told and not self.is_configured(each)))
        ]

    def by_file(self) -> Mapping[str, Waiting]:
        """What waits, by the file where it stands or stood."""
        found: dict[str, Waiting] = {}

        def add(file: str, **more: Placed | Parameter) -> None:
            old = found.get(file, Waiting())
            changes = {name: (*getattr(old, name), each) for name, each in more.items()}
            found[file] = msgspec.structs.replace(old, **changes)

        waiting = self.waiting
        for placed in waiting:
            add(placed.file, **{"not_started" if self.will_run(placed.parameter) else "not_made": placed})
        named = all_meanings(each.parameter for each in waiting)
        for parameter in self.entry.parameters if self.entry else ():
            if not is_of_boot_process(parameter) and not self.runs(parameter) and not meanings(parameter) <= named:
                entry = self.entry
                add(entry.file, not_started=Placed(parameter, entry.file, 0, entry.where)) if entry else None
        for parameter in self.removed:
            add(self.configured.file if self.configured else self.files.entries_file, removed=parameter)
        return found

    def started_by_hand(self) -> Entry | None:
        """An entry that was made by hand, or for another system, and is what runs."""
        if isinstance(self.files.entries, Unknown):
            return None
        running = all_meanings(each for each in self.boot.parameters if not is_of_boot_process(each))
        image = next((each.value or "" for each in self.boot.parameters if each.name == "BOOT_IMAGE"), "")
        for entry in self.files.entries:
            theirs = all_meanings(each for each in entry.parameters if not is_of_boot_process(each))
            if not entry.standard and theirs == running and _without_device(image) == _without_device(entry.kernel):
                return entry
        return None

    def overridden(self) -> Mapping[tuple[str, str], Sequence[Overridden]]:
        """What one assignment gives and a later one drops, by file and the place of the later one.

        Where the same file sets the parameter to something else later, its owner changed it, and nothing was lost.
        """
        found: dict[tuple[str, str], list[Overridden]] = {}
        if self.configured is None:
            return found
        for each in self.configured.overridden:
            parameter = each.placed.parameter
            changed = self.sets(parameter.key) and each.by_file == each.placed.file
            if is_of_field(parameter) and not changed and not self.runs(parameter):
                found.setdefault((each.placed.file, each.by_where), []).append(each)
        return found

    def in_vain(self, configuration: Configuration) -> list[Placed]:
        """What stands in a file that this loader never reads, and is set nowhere else."""
        ours = [each.parameter for each in self.configured.parameters] if self.configured else []
        ours += self.entry.parameters if self.entry else ()
        keys = {each.key for each in (*ours, *self.boot.parameters)}
        return [
            each
            for each in configuration.parameters
            if is_of_field(each.parameter) and not self.runs(each.parameter) and each.parameter.key not in keys
        ]


def _without_device(path: str) -> str:
    """A kernel's path without GRUB's name of its device: "(hd0,gpt2)/vmlinuz" is "/vmlinuz"."""
    return path.rpartition(")")[2]
