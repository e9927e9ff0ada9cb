"""One writer a boot loader, found by the loader's name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

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
    return found


_BY_HAND = "Find out what starts the host (efibootmgr -v, bootctl status), and add the parameters in its configuration by hand."
