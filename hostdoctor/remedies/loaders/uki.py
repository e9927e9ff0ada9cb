"""What builds a unified kernel image on a host, and from which files it takes the kernel command line.

Sources: kernel-install(8), install.conf layout= and uki_generator=; systemd's 60-ukify.install, which takes
/etc/kernel/cmdline whatever uki.conf says; mkinitcpio(8), presets with NAME_uki=; Arch Linux's "Unified kernel image".
"""

from __future__ import annotations

import re

from hostdoctor.facts.unknown import Unknown
from hostdoctor.parameters import all_meanings
from hostdoctor.parsers.cmdline import parse_command_line
from hostdoctor.readers.boot_loader import Files
from hostdoctor.remedies.patch import Refused

FOLDER = "etc/cmdline.d"
_PRESET = re.compile(r"[ \t]*\w+_(?:uki|efi_image)=")
_ADDON = (
    "Where the image cannot be built here, a signed add-on can append parameters: "
    "ukify build --cmdline=... --output=NAME.addon.efi, put into the folder IMAGE.efi.extra.d beside it."
)


def builder(files: Files) -> str:
    """Either "kernel-install" or "mkinitcpio"; refused where that is not known, and where the distribution built the image."""
    layout = _setting(files, "install.conf", "layout")
    if layout == "uki":
        line = _setting(files, "uki.conf", "cmdline")
        if line and line not in ("@/etc/kernel/cmdline", '"@/etc/kernel/cmdline"'):
            raise Refused(
                f"uki.conf has a command line of its own: Cmdline={line}", "Change it there, and add the kernels again."
            )
        return "kernel-install"
    for folder in ("usr/lib/modules", "lib/modules"):
        for version in files.names(folder):
            if any(name.endswith(".efi") for name in files.names(f"{folder}/{version}")):
                raise Refused(
                    f"the image of {version} comes from the distribution, with its command line built in and signed", _ADDON
                )
    presets = [name for name in files.names("etc/mkinitcpio.d") if name.endswith(".preset")]
    for name in presets:
        text = files.text(f"etc/mkinitcpio.d/{name}")
        lines = [] if isinstance(text, Unknown) else [line for line in text.split("\n") if not line.lstrip().startswith("#")]
        if any("--cmdline" in line for line in lines):
            raise Refused(
                f"/etc/mkinitcpio.d/{name} names a file of its own with --cmdline",
                "Change the parameters in that file, run mkinitcpio -P.",
            )
        if any(_PRESET.match(line) for line in lines):
            return "mkinitcpio"
    raise Refused(
        "what builds this host's unified kernel image is not known: there is neither layout=uki in /etc/kernel/install.conf "
        "nor a preset of mkinitcpio that makes one",
        f"Change the command line where the image is built (dracut: kernel_cmdline=), and build it again. {_ADDON}",
    )


def drop_ins(files: Files, running: str | Unknown) -> list[str]:
    """The files of /etc/cmdline.d, where they give the command line; refused where /etc/kernel/cmdline may as well."""
    paths = [f"{FOLDER}/{name}" for name in files.names(FOLDER) if name.endswith(".conf")]
    if not paths or not files.has("etc/kernel/cmdline"):
        return paths
    ours, theirs = _gives(files, paths, running), _gives(files, ["etc/kernel/cmdline"], running)
    if ours == theirs:
        raise Refused(
            "both /etc/kernel/cmdline and /etc/cmdline.d have parameters, and the running kernel's line "
            "does not show which is read",
            "Keep one of the two, run mkinitcpio -P, restart, then try again.",
        )
    return paths if ours else []


def _gives(files: Files, paths: list[str], running: str | Unknown) -> bool:
    """Whether the running kernel got exactly what files say."""
    texts = [text for path in paths if isinstance(text := files.text(path), str)]
    lines = [line for text in texts for line in text.split("\n") if not line.lstrip().startswith("#")]
    configured = parse_command_line(" ".join(lines))[0]
    there = parse_command_line("" if isinstance(running, Unknown) else running)[0]
    return all_meanings(each for each in there if each.name != "initrd") == all_meanings(configured)


def _setting(files: Files, name: str, key: str) -> str:
    """A setting of kernel-install's or ukify's files, "" where there is none: that in /etc hides that of the distribution."""
    for folder in ("etc/kernel", "usr/lib/kernel"):
        text = files.text(f"{folder}/{name}")
        if isinstance(text, Unknown):
            continue
        for line in text.split("\n"):
            found, _, value = line.strip().partition("=")
            if found.strip().lower() == key:
                return value.strip()
        return ""
    return ""
