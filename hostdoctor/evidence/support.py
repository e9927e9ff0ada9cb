"""Folders that support tools collect: sosreport, node-scraper, rocm_techsupport and copies of a host's own files.

They hold thousands of files, and few of them tell of GPUs, PCI, the kernel or how it is booted. What a file is shows in
its path; nothing of it has to be read for that.

Sources: sosreport/sos sos/report/plugins (pci, kernel, hardware, processor, logs, grub2, numa, nvidia); amd/node-scraper
docs/PLUGIN_DOC.md and taskresulthooks/filesystemloghook.py, whose command_artifacts.json lists commands with their output.
"""

from __future__ import annotations

import re

import msgspec

# Files below these are a host's own where a folder or archive holds them.
_ROOTS = frozenset({"boot", "dev", "efi", "etc", "lib", "proc", "run", "sys", "usr", "var"})
_SOS_FOLDERS = frozenset({"sos_commands", "sos_logs", "sos_reports", "sos_strings"})
SOS_MARK = "sos_commands"
_DEEPEST = 4  # folders around a host's root: "attachments/case-1/sosreport-host-2024/"

# The host's files that readers look at, by their path below its root.
_PLACES = re.compile(
    r"(?:proc/(?:cmdline|version|cpuinfo|iomem|modules|config\.gz|xen/capabilities|1/cgroup)"
    r"|proc/sys/kernel/[\w.-]+|proc/driver/nvidia/(?:version|params|gpus/[^/]+/information)"
    r"|sys/class/dmi/id/(?:sys_vendor|product_name|board_vendor|board_name|bios_vendor|bios_version|bios_date|chassis_type)"
    r"|sys/module/\w+/(?:version|initstate|parameters/\w+)|sys/devices/system/node/online|sys/class/iommu/[\w.-]+"
    r"|sys/bus/pci/devices/[^/]+/(?:\w+|power/\w+)|sys/class/kfd/kfd/topology/.+|sys/kernel/iommu_groups/\d+/type"
    r"|etc/(?:os-release|default/.+|kernel/.+|grub\.d/.+|modprobe\.conf|modprobe\.d/[^/]+|sysctl\.conf|sysctl\.d/[^/]+)"
    r"|etc/(?:lilo|zipl|extlinux|refind|limine|silo|sdboot)[^/]*"
    r"|(?:usr/)?lib/(?:os-release|modprobe\.d/[^/]+|modules/[^/]+/config|kernel/[^/]+\.conf|sysctl\.d/[^/]+)|run/modprobe\.d/[^/]+"
    r"|boot/(?:config-[^/]+|grub2?/(?:grub\.cfg|custom\.cfg|user\.cfg|grubenv)|loader/.+\.conf|[^/]+\.(?:conf|cfg|txt))"
    r"|(?:boot/)?efi/.+\.(?:conf|cfg)|boot/(?:firmware|extlinux)/[^/]+\.(?:txt|conf)"
    r"|run/(?:systemd/container|\.containerenv)|\.dockerenv)\Z"
)
# Where the kernel itself has the files that sys/class leads to.
_DMI = re.compile(r"sys/devices/virtual/dmi/id/(\w+)\Z")
_LOGS = re.compile(r"var/log/(?:dmesg|messages|kern\.log|syslog)\Z")

# Each of these repeats the kernel's messages of this boot; the earlier in the list, the rather it is read.
_KERNEL_LOGS = (
    re.compile(r"sos_commands/kernel/dmesg\Z"),
    re.compile(r"sos_commands/logs/journalctl.*--boot\Z"),
    re.compile(r"var/log/(?:dmesg|kern\.log|messages|syslog)\Z"),
)

# Of a sosreport's commands, those that tell something; their options stand in the names, with "_" for blanks.
_SOS_COMMANDS = re.compile(
    r"sos_commands/(?:pci/lspci.*|kernel/(?:dmesg|uname.*|sysctl_-a.*|lsmod)|hardware/dmidecode|processor/lscpu"
    r"|logs/journalctl.*--boot|grub2/grubby.*|boot/(?:bootctl|grubby).*|nvidia/.*|(?:amd|rocm|gpu)[^/]*/.*)\Z"
)
_ARTIFACTS_LIMIT = 10_000
_CAT = re.compile(r"(?:sh -c ')?(?:sudo )?(?:/\w+)*/?cat /([^\s'|;&<>*?]{1,200})'?(?: 2>/dev/null)?\Z")
_SYSCTL = re.compile(r"(?:sudo )?sysctl -n ([\w.]{1,80})\Z")


def place_of(path: str) -> str:
    """Where on its host a file of a folder or archive lies, "proc/cmdline"; empty where it is none that is looked at.

    >>> place_of("sosreport-gpu01-2024-05-01/etc/default/grub")
    'etc/default/grub'
    """
    below = below_root(path)
    if dmi := _DMI.match(below):
        below = f"sys/class/dmi/id/{dmi[1]}"
    elif below == "proc/config":  # it was compressed
        below = "proc/config.gz"
    return below if _PLACES.match(below) else ""


def below_root(path: str) -> str:
    """The path from the host's root on, or from the folder of the support tool; empty where there is neither."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        return ""
    for at, part in enumerate(parts[:_DEEPEST]):
        if part in _ROOTS or part in _SOS_FOLDERS or part == ".dockerenv":
            return "/".join(parts[at:])
    return ""


def is_ballast(path: str, in_sos: bool = False) -> bool:
    """Whether a file is one of the thousands that tell nothing here, by its path alone.

    Args:
        path: inside the folder or archive.
        in_sos: whether that is a sosreport; one whose folder still bears its name is known by it.
    """
    below = below_root(path)
    top = below.partition("/")[0]
    if top == SOS_MARK:
        return not _SOS_COMMANDS.match(below)
    if top in _SOS_FOLDERS:
        return True
    if not below or not (in_sos or path.startswith("sosreport-") or "/sosreport-" in path):
        return False
    return not (place_of(path) or _LOGS.match(below))


def rank_of_log(path: str) -> int | None:
    """How good a copy of the kernel's messages a file of a sosreport is, 0 for the best; None for any other file."""
    below = below_root(path)
    return next((rank for rank, pattern in enumerate(_KERNEL_LOGS) if pattern.match(below)), None)


def path_of_command(command: str) -> str:
    """The host's file that a command prints as it is, "proc/cmdline"; empty for any other command."""
    command = command.strip()
    if found := _CAT.match(command):
        return found[1]
    if found := _SYSCTL.match(command):
        return f"proc/sys/{found[1].replace('.', '/')}"
    return ""


class _Artifact(msgspec.Struct):
    command: str
    stdout: str


def artifacts_of(text: str) -> list[tuple[str, str]]:
    """Command and output of each entry of a node-scraper's command_artifacts.json; empty for any other text."""
    if not text[:64].lstrip().startswith("[") or '"stdout"' not in text[:100_000]:
        return []
    try:
        found = msgspec.json.decode(text, type=list[_Artifact])
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        return []
    return [(each.command, each.stdout) for each in found[:_ARTIFACTS_LIMIT] if each.stdout.strip()]
