"""Options of kernel modules in /etc/modprobe.d: changed where they stand, instead of overruled on the kernel command line.

What modprobe finds on the kernel command line comes after its files, and the last value of a module's parameter counts
(kmod libkmod-config.c kmod_config_new; kernel/params.c parse_args). So a parameter on the line always works, but whoever
reads a file that says the opposite is misled. A new file is made only for what the tables say belongs there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from hostdoctor import knowledge
from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import Finding
from hostdoctor.parsers.cmdline import parse_command_line
from hostdoctor.parsers.modprobe import ModuleOptions
from hostdoctor.readers.boot_loader import Files, read_signs
from hostdoctor.readers.module_files import ADMINISTRATORS, ModuleFile, read_module_files
from hostdoctor.remedies.patch import FileChange
from hostdoctor.remedies.wanted import Change, Wanted, change_of
from hostdoctor.view import View

# Systems on which options of modules belong on the kernel command line, since their initramfs or /etc is made elsewhere.
_ON_THE_LINE = frozenset(("rpm-ostree", "uki", "nixos", "talos", "ubuntu-core", "flatcar", "sdbootutil"))
_REBUILDS = {"debian": "update-initramfs -u -k all", "redhat": "dracut -f --regenerate-all", "arch": "mkinitcpio -P"}
_BY_HAND = "# build the initramfs again, if the module is in it"


class ModuleChange(msgspec.Struct, frozen=True):
    """One option of a module.

    Attributes:
        module: "nvidia".
        option: "NVreg_EnableResizableBar=1".
        action: whether it is added, takes the place of `instead_of`, or goes.
        file: where, "/etc/modprobe.d/hostdoctor-nvidia.conf".
        change: the same as a kernel parameter, with the findings it cures, its risk and how to see that it worked.
        instead_of: what stands there now.
    """

    module: str
    option: str
    action: str
    file: str
    change: Change
    instead_of: str = ""


class ModulePatch(msgspec.Struct, frozen=True):
    """Files to change and what to run afterwards."""

    changes: tuple[ModuleChange, ...] = ()
    files: tuple[FileChange, ...] = ()
    commands: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def settle(asked: Wanted, view: View, findings: Sequence[Finding], files: Files) -> tuple[Wanted, ModulePatch]:
    """What is left for the kernel command line, and what is changed in the files of modprobe instead."""
    loader = view.host.boot_files.loader
    if not isinstance(loader, Unknown) and loader.name in _ON_THE_LINE:
        return asked, ModulePatch()
    found, unread = read_module_files(files)
    edit = _Edit(found)
    on_line = {parameter.key for parameter in view.host.boot.parameters}
    left = []
    for change in asked.add:
        key = parse_command_line(change.parameter)[0][0].key
        if key in on_line or "--add" in change.because or not edit.sets(change):
            left.append(change)
    for change in _misfits(view, findings, on_line):
        edit.drops(change)
    if not edit.changes:
        return asked, ModulePatch()
    notes = tuple(f"/{path} could not be read ({why.reason}): see what it says of the module." for path, why in unread)
    family = read_signs(files, view.host.boot).family
    patch = ModulePatch(tuple(edit.changes), edit.files(), (_REBUILDS.get(family, _BY_HAND),), notes)
    return msgspec.structs.replace(asked, add=tuple(left)), patch


def _misfits(view: View, findings: Sequence[Finding], on_line: set[str]) -> Iterator[Change]:
    """Options that a module does not know, according to the kernel's log, and that the kernel command line does not hold."""
    environment = view.host.environment
    if environment.is_guest or environment.container:
        return
    for finding in findings:
        if finding.check == "kernel-parameters" and "remove-parameter" in finding.remedies:
            for subject in finding.subject:
                if "." in subject and subject.partition("=")[0].replace("-", "_") not in on_line:
                    yield change_of(subject, finding, "remove-parameter")


class _Edit:
    """The files of modprobe while they are changed."""

    def __init__(self, files: Sequence[ModuleFile]) -> None:
        self._before = {file.path: file.text for file in files}
        self._files = list(files)
        self.changes: list[ModuleChange] = []

    def sets(self, change: Change) -> bool:
        """Give a module's option the value of a parameter, "amdgpu.pcie_p2p=1"; False where that belongs elsewhere."""
        module, _, option = change.parameter.partition(".")
        name = option.partition("=")[0]
        if not option or " " in change.parameter:
            return False
        places = list(self._places(module, name))
        if not places:
            return self._adds(module, option, change)
        number, line, text = places[-1]  # which counts
        if not self._files[number].is_administrators or _place_of(line.text, text) is None:
            return False
        if text == option:  # it stands there and waits for the module to be loaded again
            return False
        self._replace(number, line, text, option)
        self.changes.append(ModuleChange(module, option, "replace", f"/{self._files[number].path}", change, text))
        return True

    def drops(self, change: Change) -> None:
        """Take an option out of the administrator's files."""
        module, _, option = change.parameter.partition(".")
        name = option.partition("=")[0].replace("-", "_")
        while found := next(self._changeable(module, name), None):
            number, line, text = found
            self._replace(number, line, text, "")
            self.changes.append(ModuleChange(module, text, "remove", f"/{self._files[number].path}", change))

    def files(self) -> tuple[FileChange, ...]:
        """What became of the files."""
        return tuple(
            FileChange(f"/{file.path}", self._before.get(file.path), file.text or None)
            for file in self._files
            if file.text != self._before.get(file.path)
        )

    def _places(self, module: str, name: str) -> Iterator[tuple[int, ModuleOptions, str]]:
        """The file's number, its line and the option's text, in the order in which modprobe reads them."""
        for number, file in enumerate(self._files):
            for line in file.lines:
                if line.module == module.replace("-", "_"):
                    yield from ((number, line, each.text) for each in line.options if each.key == name)

    def _changeable(self, module: str, name: str) -> Iterator[tuple[int, ModuleOptions, str]]:
        """Those places that are the administrator's and stand in the file as they were read."""
        for number, line, text in self._places(module, name):
            if self._files[number].is_administrators and _place_of(line.text, text) is not None:
                yield number, line, text

    def _adds(self, module: str, option: str, change: Change) -> bool:
        if not any(
            each.in_modprobe and each.parameter == change.parameter for each in knowledge.load_kernel_changes().values()
        ):
            return False
        path = f"{ADMINISTRATORS}/hostdoctor-{module}.conf"
        number = next((number for number, file in enumerate(self._files) if file.path == path), None)
        text = f"{_complete(self._files[number].text) if number is not None else ''}options {module} {option}\n"
        if number is None:
            self._files.append(ModuleFile(path, text))
        else:
            self._files[number] = ModuleFile(path, text)
        self.changes.append(ModuleChange(module, option, "add", f"/{path}", change))
        return True

    def _replace(self, number: int, line: ModuleOptions, old: str, new: str) -> None:
        """Put one option in the place of another, or take it away, and the line with it where it was the only one."""
        file = self._files[number]
        kept = [each for each in line.options if each.text != old]
        text = _with(line.text, old, new) if new or kept else ""
        self._files[number] = ModuleFile(file.path, file.text[: line.start] + text + file.text[line.start + len(line.text) :])


def _complete(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _with(line: str, old: str, new: str) -> str:
    """A line with one of its words changed; a word that goes takes the blank before it along."""
    at = _place_of(line, old)
    if at is None:
        return line
    if new:
        return line[:at] + new + line[at + len(old) :]
    begin = at - 1 if line[at - 1] in " \t" else at
    return line[:begin] + line[at + len(old) :]


def _place_of(line: str, word: str) -> int | None:
    """Where a word stands last in a line; None where lines are joined within it, or its bytes are no UTF-8."""
    places = range(len(line) - len(word), 0, -1)
    return next((at for at in places if line.startswith(word, at) and _is_word(line, at, at + len(word))), None)


def _is_word(line: str, start: int, end: int) -> bool:
    return line[start - 1].isspace() and (end == len(line) or line[end].isspace() or line.startswith("\\\n", end))
