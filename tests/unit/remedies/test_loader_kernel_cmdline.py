"""/etc/kernel/cmdline: Proxmox, kernel-install, unified kernel images, sdbootutil."""

from __future__ import annotations

import pytest

from hostdoctor.evidence.attached import Attached, Attachment
from hostdoctor.facts.boot_files import BootFiles, Loader
from hostdoctor.readers.attached import Pasted
from hostdoctor.readers.boot_loader import Files
from hostdoctor.remedies.loaders import patch_for
from hostdoctor.remedies.patch import Refused, Request
from tests.unit.remedies.loader_trees import ARCH, DEBIAN, FEDORA, IOMMU, Host

ZFS = "root=ZFS=rpool/ROOT/pve-1 boot=zfs"
ID = "systemd.machine_id=0123456789abcdef0123456789abcdef"
ACS = "pci=disable_acs_redir=0000:40:01.1;0000:80:01.1"


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path / "host")


@pytest.fixture
def proxmox(host):
    def made(content=f"{ZFS}\n", line=ZFS):
        initrd = "initrd=\\EFI\\proxmox\\6.8.12-4-pve\\initrd.img-6.8.12-4-pve"
        return host.started_with(f"{initrd} {line}", DEBIAN).write("etc/kernel/cmdline", content)

    return made


@pytest.fixture
def kernel_install(host):
    def made(release, content=None, line="root=UUID=0a1b ro quiet"):
        host.started_with(f"initrd=\\x\\initrd.img {line} {ID}", release).variable("LoaderInfo", "systemd-boot 257.7")
        if content is not None:
            host.write("etc/kernel/cmdline", content)
        assert host.loader() == "kernel-install"
        return host

    return made


# --- Proxmox ----------------------------------------------------------------------------------------------------------


def test_proxmox(proxmox):
    patch = proxmox().changed()
    assert patch.files[0].after == f"{ZFS} iommu=pt\n"
    assert patch.commands == ("proxmox-boot-tool refresh",)
    assert patch.revert[-1] == "proxmox-boot-tool refresh"
    assert patch.result == f"{ZFS} iommu=pt"


def test_proxmox_takes_out_what_goes_and_keeps_the_rest(proxmox):
    patch = proxmox(f"{ZFS} quiet  amd_iommu=on mce=off\n", f"{ZFS} quiet amd_iommu=on mce=off").changed(
        Request(("iommu=pt", ACS), ("amd_iommu=on",))
    )
    assert patch.files[0].after == f"{ZFS} quiet mce=off iommu=pt {ACS}\n"


@pytest.mark.parametrize("content", [f"{ZFS}", f"{ZFS} \t\n", f"{ZFS}\n\n"])
def test_proxmox_keeps_the_end_of_the_file(proxmox, content):
    assert proxmox(content).changed().files[0].after == content.replace(ZFS, f"{ZFS} iommu=pt")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (f"{ZFS}\niommu=pt\n", "more than one line"),
        (f"# mine\n{ZFS}\n", "more than one line"),
        (f"\n{ZFS}\n", "first line"),
        ("", "first line"),
        (f"{ZFS}\r\n", "CR"),
        (f"\ufeff{ZFS}\n", "byte order mark"),
        (f"{ZFS}\0\n", "NUL"),
        (f'{ZFS} dyndbg="file x\n', "quote"),
        ("quiet boot=zfs\n", "no root="),
        ("root=ZFS=other/root boot=zfs\n", "root=ZFS=other/root"),
        (f"{ZFS} {'x' * 2000}\n", "bytes"),
    ],
)
def test_proxmox_refuses(proxmox, content, says):
    assert says in proxmox(content).refused().reason


def test_proxmox_that_only_needs_its_command(proxmox):
    patch = proxmox(f"{ZFS} iommu=pt\n").asked()
    assert (patch.files, patch.commands, patch.reboot) == ((), ("proxmox-boot-tool refresh",), True)
    assert any("says so already" in note for note in patch.notes)


def test_proxmox_without_the_file_uses_what_proxmox_boot_tool_would(proxmox):
    host = proxmox()
    (host.root / "etc/kernel/cmdline").unlink()
    patch = host.changed()
    assert (patch.files[0].before, patch.files[0].after) == (None, f"{ZFS} iommu=pt\n")


def test_a_paste_without_the_file():
    """Nobody can patch a file that was not seen; the manual way names file and command."""
    text = f"$ cat /proc/cmdline\ninitrd=\\EFI\\proxmox\\6.8.12-4-pve\\initrd.img-6.8.12-4-pve {ZFS}\n"
    evidence = Pasted(Attached((Attachment("paste.txt", "", text),), ()), ("paste.txt",)).evidence
    boot = BootFiles(Loader("proxmox-systemd-boot", ()))
    with pytest.raises(Refused) as caught:
        patch_for(IOMMU, Files((evidence,)), boot, ZFS)
    assert "not in this evidence" in caught.value.reason
    assert "/etc/kernel/cmdline" in caught.value.manual
    assert "proxmox-boot-tool refresh" in caught.value.manual


# --- the line itself --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "request_", "after"),
    [
        ("a -- b", Request(("c",)), "a c -- b"),
        ("a -- iommu=pt", Request(("iommu=pt",)), "a iommu=pt -- iommu=pt"),
        ("a -- b c", Request((), ("b",)), None),
        ("nosplash", Request(("splash",)), "nosplash splash"),
        ("intel-iommu=on", Request(("intel_iommu=on",)), None),
        ("iommu.passthrough=1", Request(("iommu=pt",)), None),
        ("iommu=pt iommu=nopt", Request(("iommu=pt",)), "iommu=pt iommu=nopt iommu=pt"),
        ("iommu=nopt", Request(("iommu=pt",), ("iommu=nopt",)), "iommu=pt"),
        ("pci=noaer,realloc", Request(("pci=realloc",)), None),
        ("console=ttyS0 console=tty0", Request(("console=ttyS0",)), None),
        ("console=tty0", Request(("console=ttyS0",)), "console=tty0 console=ttyS0"),
        ("pcie_aspm=off pcie_aspm=force", Request(("pcie_aspm=off",)), "pcie_aspm=off pcie_aspm=force pcie_aspm=off"),
        ('dyndbg="file a.c +p" x', Request(("y",), ("x",)), 'dyndbg="file a.c +p" y'),
        ('"a=b c" d', Request((), ("d",)), '"a=b c"'),
        ("a=\udcff\udcfe b", Request(("c",), ("b",)), "a=\udcff\udcfe c"),
        ("a=grün b", Request(("c",)), "a=grün b c"),
        (ACS, Request((ACS.replace("80", "81"),), (ACS,)), ACS.replace("80", "81")),
    ],
)
def test_a_line(proxmox, line, request_, after):
    patch = proxmox(f"{ZFS} {line}\n").asked(request_)
    assert [change.after for change in patch.files] == ([] if after is None else [f"{ZFS} {after}\n"])


def test_a_second_list_would_undo_the_first(proxmox):
    refused = proxmox(f"{ZFS} pci=noaer,disable_acs_redir=0000:00:01.0\n").refused(Request((ACS,)))
    assert "pci=noaer,disable_acs_redir=0000:00:01.0" in refused.reason
    assert "pci=disable_acs_redir=0000:00:01.0;0000:40:01.1;0000:80:01.1" in refused.manual


@pytest.mark.parametrize("token", ["a b", "a\nb", "", "`x`", "a\0"])
def test_what_is_no_parameter(proxmox, token):
    assert "no single" in proxmox().refused(Request((token,))).reason


def test_what_is_not_there_is_said(proxmox):
    patch = proxmox().asked(Request(("iommu=pt",), ("splash",)))
    assert any("splash is not in /etc/kernel/cmdline" in note for note in patch.notes)


# --- kernel-install ---------------------------------------------------------------------------------------------------


def test_kernel_install_on_debian(kernel_install):
    host = kernel_install(DEBIAN, "root=UUID=0a1b ro quiet\n")
    for version in ("6.1.0-9-amd64", "6.1.0-31-amd64"):
        host.write(f"boot/vmlinuz-{version}")
    patch = host.changed()
    assert patch.files[0].after == "root=UUID=0a1b ro quiet iommu=pt\n"
    assert patch.commands == (
        "kernel-install add 6.1.0-9-amd64 /boot/vmlinuz-6.1.0-9-amd64",
        "kernel-install add 6.1.0-31-amd64 /boot/vmlinuz-6.1.0-31-amd64",
    )
    assert any("leave out the command for 6.1.0-9-amd64" in note for note in patch.notes)


def test_kernel_install_on_fedora_adds_the_kernels_with_entries(kernel_install):
    host = kernel_install(FEDORA, "root=UUID=0a1b ro quiet\n")
    for version in ("6.11.4-301.fc42.x86_64", "6.12.9-200.fc42.x86_64", "$(reboot)"):
        host.write(f"usr/lib/modules/{version}/vmlinuz")
    host.write("boot/loader/entries/a-6.12.9.conf", f"title Fedora\nversion 6.12.9-200.fc42.x86_64\nlinux /l\noptions x {ID}\n")
    assert host.asked().commands == (
        "kernel-install add 6.12.9-200.fc42.x86_64 /usr/lib/modules/6.12.9-200.fc42.x86_64/vmlinuz",
    )


def test_kernel_install_without_the_file(kernel_install):
    """It would take the running line, without what is not a parameter of the next start."""
    host = kernel_install(FEDORA).write("usr/lib/modules/6.12.9/vmlinuz")
    patch = host.changed()
    assert (patch.files[0].before, patch.files[0].after) == (None, "root=UUID=0a1b ro quiet iommu=pt\n")
    assert patch.revert[0] == "printf '%s\\n' 'root=UUID=0a1b ro quiet' > /etc/kernel/cmdline"


def test_kernel_install_with_the_file_of_the_distribution(kernel_install):
    host = kernel_install(FEDORA).write("usr/lib/kernel/cmdline", "root=UUID=0a1b rw\nlog_buf_len=4M\n")
    assert host.changed().files[0].after == "root=UUID=0a1b rw log_buf_len=4M iommu=pt\n"


@pytest.mark.parametrize("typed", ["single", "systemd.unit=rescue.target", "init=/bin/sh", "rd.break"])
def test_kernel_install_after_a_start_for_one_purpose(kernel_install, typed):
    assert "for one purpose" in kernel_install(DEBIAN, line=f"root=UUID=0a1b ro {typed}").refused().reason


def test_kernel_install_takes_all_lines(kernel_install):
    host = kernel_install(DEBIAN, "root=UUID=0a1b ro\n\namd_iommu=on\nquiet nomodeset\n")
    patch = host.changed(Request(("iommu=pt",), ("amd_iommu=on",)))
    assert patch.files[0].after == "root=UUID=0a1b ro\n\nquiet nomodeset iommu=pt\n"
    assert patch.result == "root=UUID=0a1b ro quiet nomodeset iommu=pt"


def test_kernel_install_gives_comments_to_the_kernel(kernel_install):
    assert "comment" in kernel_install(DEBIAN, "# mine\nroot=UUID=0a1b ro\n").refused().reason


def test_kernels_of_an_evidence_without_kernels(kernel_install):
    assert kernel_install(DEBIAN, "root=UUID=0a1b ro\n").asked().commands == ("kernel-install add 6.12.9 /boot/vmlinuz-6.12.9",)
    assert kernel_install(FEDORA).asked().commands == ("kernel-install add 6.12.9 /lib/modules/6.12.9/vmlinuz",)


# --- unified kernel images --------------------------------------------------------------------------------------------


@pytest.fixture
def unified(host):
    def made(release=ARCH, line="root=UUID=0a1b rw quiet"):
        host.started_with(line, release).variable("StubInfo", "systemd-stub 257").variable("LoaderInfo", "systemd-boot 257")
        assert host.loader() == "uki"
        return host

    return made


@pytest.fixture
def mkinitcpio(unified):
    preset = (
        'ALL_kver="/boot/vmlinuz-linux"\nPRESETS=(\'default\')\n#default_image="/x"\ndefault_uki="/efi/EFI/Linux/arch.efi"\n'
    )
    return unified().write("etc/mkinitcpio.d/linux.preset", preset)


def test_mkinitcpio(mkinitcpio):
    mkinitcpio.write("etc/kernel/cmdline", "# mine\nroot=UUID=0a1b rw\nquiet\n")
    patch = mkinitcpio.changed()
    assert patch.files[0].after == "# mine\nroot=UUID=0a1b rw\nquiet iommu=pt\n"
    assert patch.commands == ("mkinitcpio -P",)


def test_mkinitcpio_without_a_file(mkinitcpio):
    assert mkinitcpio.changed().files[0].after == "root=UUID=0a1b rw quiet iommu=pt\n"


def test_mkinitcpio_with_drop_ins(mkinitcpio):
    mkinitcpio.write("etc/cmdline.d/10-root.conf", "root=UUID=0a1b rw amd_iommu=on\n")
    mkinitcpio.write("etc/cmdline.d/20-more.conf", "# more\nquiet\n").write("etc/cmdline.d/x.bak", "amd_iommu=on\n")
    patch = mkinitcpio.changed(Request(("iommu=pt",), ("amd_iommu=on",)))
    assert [(change.path, change.after) for change in patch.files] == [
        ("/etc/cmdline.d/10-root.conf", "root=UUID=0a1b rw\n"),
        ("/etc/cmdline.d/20-more.conf", "# more\nquiet iommu=pt\n"),
    ]
    assert patch.result == "root=UUID=0a1b rw quiet iommu=pt"


def test_mkinitcpio_with_both(mkinitcpio):
    mkinitcpio.write("etc/cmdline.d/root.conf", "root=UUID=0a1b rw quiet\n").write("etc/kernel/cmdline", "root=UUID=0a1b rw\n")
    assert [change.path for change in mkinitcpio.asked().files] == ["/etc/cmdline.d/root.conf"]
    mkinitcpio.write("etc/kernel/cmdline", "root=UUID=0a1b rw quiet\n")
    assert "does not show which" in mkinitcpio.refused().reason


def test_mkinitcpio_with_a_file_of_its_own(mkinitcpio):
    mkinitcpio.write("etc/mkinitcpio.d/linux.preset", 'default_uki="/x.efi"\ndefault_options="--cmdline /etc/mine"\n')
    assert "--cmdline" in mkinitcpio.refused().reason


def test_ukify_by_kernel_install(unified):
    host = unified(FEDORA, f"root=UUID=0a1b rw quiet {ID}").write(
        "etc/kernel/install.conf", "layout=uki\nuki_generator=ukify\n"
    )
    host.write("etc/kernel/uki.conf", "[UKI]\nSecureBootPrivateKey=/k\n").write("usr/lib/modules/6.12.9/vmlinuz")
    host.write("etc/kernel/cmdline", "root=UUID=0a1b rw quiet\n")
    patch = host.changed()
    assert patch.commands == ("kernel-install add 6.12.9 /usr/lib/modules/6.12.9/vmlinuz",)
    assert "older image" in patch.once_without
    host.write("etc/kernel/uki.conf", "[UKI]\nCmdline=root=UUID=1\n")
    assert "Cmdline=root=UUID=1" in host.refused().reason


def test_an_image_of_the_distribution(unified):
    host = unified(FEDORA).write("usr/lib/modules/6.12.9/vmlinuz-virt.efi").write("etc/kernel/cmdline", "root=UUID=0a1b rw\n")
    assert "from the distribution" in host.refused().reason
    assert "addon.efi" in host.refused().manual


def test_nobody_knows_who_builds_the_image(unified):
    assert "is not known" in unified().refused().reason


# --- sdbootutil -------------------------------------------------------------------------------------------------------


@pytest.fixture
def suse(host):
    def made(id_="opensuse-tumbleweed", kind="systemd-boot"):
        line = "root=UUID=0a1b rootflags=subvol=@/.snapshots/3/snapshot splash=silent quiet"
        host.started_with(f"initrd=\\x\\initrd {line}", f'ID="{id_}"\nID_LIKE="suse opensuse"\n')
        host.variable("LoaderInfo", "systemd-boot 257").write("etc/sysconfig/bootloader", f'LOADER_TYPE="{kind}"\n')
        return host.write("etc/kernel/cmdline", "root=UUID=0a1b splash=silent quiet\n")

    return made


def test_sdbootutil(suse):
    host = suse()
    assert host.loader() == "sdbootutil"
    patch = host.changed(Request(("iommu=pt", ACS)))
    assert patch.files[0].after == f"root=UUID=0a1b splash=silent quiet iommu=pt {ACS}\n"
    assert patch.commands == ("sdbootutil update-all-entries",)


def test_sdbootutil_with_grub(host):
    line = "BOOT_IMAGE=/boot/vmlinuz root=UUID=0a1b quiet"
    host.started_with(line, 'ID="opensuse-tumbleweed"\n').write("etc/sysconfig/bootloader", 'LOADER_TYPE="grub2-bls"\n')
    host.write("etc/kernel/cmdline", "root=UUID=0a1b quiet\n")
    assert "GRUB" in host.refused(Request((ACS,))).reason
    host.changed(IOMMU)


def test_a_system_changed_by_snapshots(suse):
    assert "transactional-update" in suse("opensuse-microos").refused().manual
