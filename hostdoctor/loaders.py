"""The boot loaders: what each is called, where its kernel parameters belong, and what carries a change into effect.

Sources: GRUB manual, "Simple configuration"; grubby(8); Proxmox VE Administration Guide, "Editing the Kernel Commandline";
kernel-install(8), bootctl(1), systemd-stub(7); kernelstub(1); NixOS manual, boot.kernelParams; rpm-ostree(1) kargs;
openSUSE sdbootutil(8) and update-bootloader(8); rEFInd, refind_linux.conf; Debian u-boot-menu; Raspberry Pi documentation.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class LoaderKind(msgspec.Struct, frozen=True):
    """A boot loader with the tools around it.

    Attributes:
        title: as a sentence calls it.
        file: where kernel parameters belong, or empty where a command sets them.
        apply: the command that makes a change of it take effect at the next boot, or empty where none is needed.
        grub_files: whether its tools read /etc/default/grub.
        entries_are_made: whether what boots is generated from `file`; else entries are edited themselves, or by a command.
    """

    title: str
    file: str
    apply: str = ""
    grub_files: bool = False
    entries_are_made: bool = True


_GRUB, _KERNEL = "/etc/default/grub", "/etc/kernel/cmdline"

LOADERS: Mapping[str, LoaderKind] = {
    "grub-debian": LoaderKind("GRUB", _GRUB, "update-grub", True),
    "grub": LoaderKind("GRUB", _GRUB, "grub-mkconfig -o /boot/grub/grub.cfg", True),
    "grub-suse": LoaderKind("GRUB", _GRUB, "grub2-mkconfig -o /boot/grub2/grub.cfg", True),
    "grub-redhat": LoaderKind("GRUB", _GRUB, "grub2-mkconfig -o /boot/grub2/grub.cfg", True),
    "grub-bls": LoaderKind(
        "GRUB with entries of the Boot Loader Specification", "", 'grubby --update-kernel=ALL --args="..."', True, False
    ),
    "sdbootutil": LoaderKind("the boot loader that sdbootutil keeps", _KERNEL, "sdbootutil update-all-entries"),
    "proxmox-systemd-boot": LoaderKind("systemd-boot, kept by proxmox-boot-tool", _KERNEL, "proxmox-boot-tool refresh"),
    "kernelstub": LoaderKind("systemd-boot, kept by kernelstub", "", 'kernelstub --add-options "..."', False, False),
    "kernel-install": LoaderKind("systemd-boot, kept by kernel-install", _KERNEL, "kernel-install add"),
    "systemd-boot": LoaderKind("systemd-boot", "", "", False, False),
    "uki": LoaderKind("a unified kernel image", _KERNEL, "building the image again (mkinitcpio -P, or kernel-install add)"),
    "refind": LoaderKind("rEFInd", "/boot/refind_linux.conf"),
    "nixos": LoaderKind("NixOS", "", "nixos-rebuild boot"),
    "rpm-ostree": LoaderKind("rpm-ostree", "", "rpm-ostree kargs --append-if-missing=...", False, False),
    "talos": LoaderKind("Talos", "", "a new image", False, False),
    "ubuntu-core": LoaderKind("Ubuntu Core", "", 'snap set system system.kernel.cmdline-append="..."', False, False),
    "flatcar": LoaderKind("Flatcar", "/oem/grub.cfg"),
    "extlinux": LoaderKind("extlinux", "/boot/extlinux/extlinux.conf", "u-boot-update, where it is installed"),
    "raspberry-pi": LoaderKind("the Raspberry Pi's firmware", "/boot/firmware/cmdline.txt"),
}
