"""One writer a boot loader, found by the loader's name."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from importlib import import_module

import msgspec

from hostdoctor.facts.boot_files import BootFiles
from hostdoctor.facts.unknown import Unknown
from hostdoctor.readers.boot_loader import Files
from hostdoctor.remedies.patch import Patch, Refused, Request

# The module of each loader that hostdoctor.loaders.LOADERS names.
WRITERS: Mapping[str, str] = {
    "grub-debian": "grub_debian",
    "grub": "grub_edit",
    "grub-suse": "grub_suse",
    "grub-redhat": "grub_redhat",
    "grub-bls": "grub_redhat",
    "sdbootutil": "kernel_cmdline",
    "proxmox-systemd-boot": "kernel_cmdline",
    "kernel-install": "kernel_cmdline",
    "uki": "kernel_cmdline",
    "systemd-boot": "entries",
    "kernelstub": "commands",
    "rpm-ostree": "commands",
    "nixos": "commands",
    "ubuntu-core": "commands",
    "talos": "commands",
    "flatcar": "commands",
    "refind": "one_line",
    "extlinux": "one_line",
    "raspberry-pi": "one_line",
}


def patch_for(request: Request, files: Files, boot: BootFiles, running: str | Unknown) -> Patch:
    """The patch for the loader that governs; raises Refused where none can be made."""
    loader = boot.loader
    if isinstance(loader, Unknown):
        raise Refused(f"which boot loader starts this host is not known: {loader.reason}", _BY_HAND)
    if not loader.certain:
        shown = "; ".join(f"{source}: {value}" for source, value in loader.why)
        raise Refused(f"the signs leave more than one boot loader possible ({shown})", _BY_HAND)
    module = import_module(f"{__name__}.{WRITERS[loader.name]}")
    found: Patch = module.patch(request, files, boot, running)
    return _without_links(found, files)


def _without_links(patch: Patch, files: Files) -> Patch:
    """The patch of the files that links lead to: neither patch nor git apply changes a file through a link."""
    notes, changes = [*patch.notes], []
    for change in patch.files:
        path = change.path if change.before is None else _target(change.path, files)
        changes.append(msgspec.structs.replace(change, path=path))
        if path != change.path:
            notes.append(f"{change.path} is a link: the diff changes {path}, where it leads.")
    return msgspec.structs.replace(patch, files=tuple(changes), notes=tuple(notes))


def _target(path: str, files: Files) -> str:
    """The file behind links; refused where it lies outside of the folders of the boot configuration."""
    found = path
    for _ in range(_MOST_LINKS):
        link = files.link(found[1:])
        if not link:
            break
        found = posixpath.normpath(posixpath.join(posixpath.dirname(found), link))
    if files.link(found[1:]) or (found != path and not found.startswith(_OURS)):
        raise Refused(f"{path} is a link that leads to {found}", f"Change {found} by hand, and see what else uses it.")
    return found


_MOST_LINKS = 8
_OURS = ("/etc/", "/boot/", "/efi/", "/oem/", "/usr/share/oem/")
_BY_HAND = "Find out what starts the host (efibootmgr -v, bootctl status), and add the parameters in its configuration by hand."
