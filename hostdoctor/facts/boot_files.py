"""How the host is configured to boot: which boot loader, what its files say, and what was generated from them.

Files are named as their host names them ("/etc/default/grub"); `where` says where a line stands in the evidence, which
for an attachment is another place ("paste.txt:12").
"""

from __future__ import annotations

import msgspec

from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown


class Parameter(msgspec.Struct, frozen=True):
    """One token of the kernel command line, split as the kernel splits it (lib/cmdline.c next_arg)."""

    name: str
    value: str | None
    text: str  # as it stands on the line

    @property
    def key(self) -> str:
        """The name with the kernel's equivalence of - and _ (parameq)."""
        return self.name.replace("-", "_")


class Assignment(msgspec.Struct, frozen=True):
    """One assignment in a shell file.

    Attributes:
        variable: "GRUB_CMDLINE_LINUX".
        file: "/etc/default/grub".
        line: its number, from 1.
        value: the variable's whole value after it.
        keeps: whether the value before is part of it ("$GRUB_CMDLINE_LINUX foo", +=).
    """

    variable: str
    file: str
    line: int
    value: str | Unknown
    keeps: bool


class Placed(msgspec.Struct, frozen=True):
    """A kernel parameter and where it stands; `variable` is empty in files that hold nothing but the line."""

    parameter: Parameter
    file: str
    line: int
    where: str
    variable: str = ""


class Overridden(msgspec.Struct, frozen=True):
    """A parameter that a later assignment drops again."""

    placed: Placed
    by_file: str
    by_where: str


class Configuration(msgspec.Struct, frozen=True):
    """What an administrator wrote for the next boot: one kernel line, put together from one or more files.

    Attributes:
        file: the file an administrator edits, "/etc/default/grub".
        files: all that were read for it, in order.
        parameters: of a normal entry, in order.
        always: those of them that recovery entries get as well.
        overridden: what was assigned and then dropped.
        unknown: why a part of it is not known, one reason each.
        complete: whether every file that could add something is in the evidence.
        was_in_force: whether its own loader's generated files hold what it says, so that it was used once.
    """

    file: str
    files: tuple[str, ...]
    parameters: tuple[Placed, ...] = ()
    always: tuple[Placed, ...] = ()
    overridden: tuple[Overridden, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    complete: bool = True
    was_in_force: bool = False


class Entry(msgspec.Struct, frozen=True):
    """What a boot loader can start: a menu entry of grub.cfg, or an entry of the Boot Loader Specification.

    Attributes:
        name: its title, or its id.
        file: the file it stands in.
        where: where in the evidence.
        kernel: the path of the kernel as it stands there.
        parameters: its kernel line.
        id: of the Boot Loader Specification, without ".conf"; of grub.cfg, what --id says.
        initrds: the paths of its initial RAM disks.
        version: the kernel's release, where it says so.
        recovery: whether it starts a rescue system, which has parameters of its own.
        standard: whether it was made from the configuration, not by hand or for another system.
        is_next: whether the boot loader says that it starts this one by default.
        was_booted: whether the boot loader says that it started this one.
    """

    name: str
    file: str
    where: str
    kernel: str
    parameters: tuple[Parameter, ...]
    id: str = ""
    initrds: tuple[str, ...] = ()
    version: str = ""
    recovery: bool = False
    standard: bool = True
    is_next: bool = False
    was_booted: bool = False


class Loader(msgspec.Struct, frozen=True):
    """The boot loader that started the running kernel; its name is a key of hostdoctor.loaders.LOADERS.

    Attributes:
        name: "grub-debian".
        why: what shows it, as (source, value).
        certain: whether that leaves no other.
    """

    name: str
    why: tuple[tuple[str, str], ...]
    certain: bool = True


class BootFiles(msgspec.Struct, frozen=True):
    """The boot configuration.

    Attributes:
        loader: which loader governs, or why that cannot be told.
        configured: what its files say, else None.
        entries: what was generated from them; empty where there is none in the evidence.
        entries_file: the file or folder that holds the entries.
        unread: files of other loaders, which this one never reads.
    """

    loader: Loader | Unknown = NOT_CAPTURED
    configured: Configuration | None = None
    entries: tuple[Entry, ...] | Unknown = ()
    entries_file: str = ""
    unread: tuple[Configuration, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the evidence holds nothing of it."""
        return self.configured is None and self.entries == () and not self.unread
