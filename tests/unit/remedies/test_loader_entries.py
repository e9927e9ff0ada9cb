"""Entries of systemd-boot that were made by hand."""

from __future__ import annotations

import pytest

from hostdoctor.remedies.patch import Request
from tests.unit.remedies.loader_trees import ARCH, DEBIAN, Host

ROOT = "root=UUID=0a1b rw"
ENTRY = f"title   Arch Linux\nlinux   /vmlinuz-linux\ninitrd  /initramfs-linux.img\noptions {ROOT} quiet\n"


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path / "host")


@pytest.fixture
def arch(host):
    def made(entry=ENTRY, folder="boot", line=f"{ROOT} quiet", selected="arch.conf"):
        host.started_with(f"initrd=\\initramfs-linux.img {line}", ARCH).variable("LoaderInfo", "systemd-boot 257.7-1-arch")
        if selected:
            host.variable("LoaderEntrySelected", selected)
        if entry:
            host.write(f"{folder}/loader/entries/arch.conf", entry)
        return host

    return made


@pytest.mark.parametrize("folder", ["boot", "efi", "boot/efi"])
def test_an_entry(arch, folder):
    host = arch(folder=folder)
    assert host.loader() == "systemd-boot"
    patch = host.changed()
    assert patch.files[0].path == f"/{folder}/loader/entries/arch.conf"
    assert patch.files[0].after == ENTRY.replace("quiet", "quiet iommu=pt")
    assert patch.commands == ()
    assert f"cp /{folder}/loader/entries/arch.conf /{folder}/loader/entries/arch-fallback.conf" in " ".join(patch.notes)


def test_a_copy_spares_the_distributions_own_fallback(arch):
    host = arch()
    for name in ("arch-fallback.conf", "arch-fallback2.conf"):
        host.write(f"boot/loader/entries/{name}", ENTRY.replace("linux.img", "linux-fallback.img"))
    assert "/boot/loader/entries/arch-fallback3.conf" in host.changed().notes[0].split()


def test_an_entry_that_is_a_link(arch):
    host = arch(entry="")
    host.write("boot/entries/real.conf", ENTRY)
    (host.root / "boot/loader/entries").mkdir(parents=True)
    (host.root / "boot/loader/entries/arch.conf").symlink_to("../../entries/real.conf")
    patch = host.changed()
    assert patch.files[0].path == "/boot/entries/real.conf"
    assert (
        patch.notes[-1] == "/boot/loader/entries/arch.conf is a link: the diff changes /boot/entries/real.conf, where it leads."
    )


@pytest.mark.parametrize("target", ["/opt/arch.conf", "../../../srv/arch.conf"])
def test_a_link_out_of_the_boot_files(arch, target):
    host = arch(entry="")
    host.write("opt/arch.conf", ENTRY).write("srv/arch.conf", ENTRY)
    (host.root / "boot/loader/entries").mkdir(parents=True)
    (host.root / "boot/loader/entries/arch.conf").symlink_to(target)
    assert "is a link that leads to /" in host.refused().reason


@pytest.mark.parametrize(
    ("entry", "after"),
    [
        (ENTRY.rstrip("\n"), ENTRY.rstrip("\n").replace("quiet", "iommu=pt")),
        (ENTRY.replace("\n", "\r\n"), ENTRY.replace("\n", "\r\n").replace("quiet", "iommu=pt")),
        (ENTRY.replace("quiet", "quiet  "), ENTRY.replace(" quiet", " iommu=pt  ")),
        (f"# options x\n{ENTRY}options\tmce=off\n", f"# options x\n{ENTRY.replace(' quiet', '')}options\tmce=off iommu=pt\n"),
        (f"title L\xe4rm\x85 \x0c\n{ENTRY}", f"title L\xe4rm\x85 \x0c\n{ENTRY.replace('quiet', 'iommu=pt')}"),
        (f"title \udcff\udcfe\n{ENTRY}", f"title \udcff\udcfe\n{ENTRY.replace('quiet', 'iommu=pt')}"),
        (ENTRY.replace("quiet", "quiet -- 3"), ENTRY.replace("quiet", "iommu=pt -- 3")),
        (f"{ENTRY.replace(' quiet', '')}options quiet\n", f"{ENTRY.replace(' quiet', ' iommu=pt')}"),
    ],
)
def test_files_that_people_write(arch, entry, after):
    patch = arch(entry).asked(Request(("iommu=pt",), ("quiet",)))
    if entry.count("options quiet"):
        assert [each.split() for each in patch.files[0].after.split("\n")].count(["options", "iommu=pt"]) == 1
    else:
        assert patch.files[0].after == after
    arch(entry).applied(patch)


def test_the_entry_that_started_the_host(arch):
    host = arch(selected="").write("boot/loader/entries/lts.conf", ENTRY.replace("linux", "linux-lts"))
    assert [change.path for change in host.asked().files] == ["/boot/loader/entries/arch.conf"]
    host.write("boot/loader/entries/copy.conf", ENTRY)
    assert "arch" in host.refused().reason
    host.variable("LoaderEntrySelected", "copy.conf")
    assert [change.path for change in host.asked().files] == ["/boot/loader/entries/copy.conf"]


def test_the_settings_of_the_menu(arch):
    patch = arch().write("boot/loader/loader.conf", "timeout 3\ndefault lts*\neditor no\n").asked()
    assert "Choose another entry" in patch.once_without
    assert any("lts*" in note for note in patch.notes)
    patch = arch().write("boot/loader/loader.conf", "default arch*\n#editor no\n").asked()
    assert "press e" in patch.once_without
    assert not any("by default" in note for note in patch.notes)


def test_an_entry_of_kernel_install_without_a_machine_id(host):
    host.started_with("initrd=\\debian\\6.12.9\\initrd.img root=UUID=0a1b ro", DEBIAN).variable(
        "LoaderInfo", "systemd-boot 257"
    )
    host.write("etc/kernel/cmdline", "root=UUID=0a1b ro\n").write("boot/vmlinuz-6.12.9")
    host.write(
        "boot/efi/loader/entries/debian-6.12.9.conf",
        "version 6.12.9\nlinux /debian/6.12.9/linux\ninitrd /debian/6.12.9/initrd.img\noptions root=UUID=0a1b ro\n",
    )
    patch = host.changed()
    assert [change.path for change in patch.files] == ["/etc/kernel/cmdline"]
    assert patch.commands == ("kernel-install add 6.12.9 /boot/vmlinuz-6.12.9",)


@pytest.mark.parametrize(
    ("entry", "line", "says"),
    [
        ("", f"{ROOT} quiet", "none in this evidence"),
        (ENTRY.replace("options", "#options"), f"{ROOT} quiet", "has no options"),
        (ENTRY, "root=UUID=9999 quiet", "root=UUID=0a1b"),
        (f"# Ansible managed\n{ENTRY}", f"{ROOT} quiet", "other software"),
        (ENTRY.replace(" quiet", ' x="y'), f"{ROOT} quiet", "quote"),
        (ENTRY.replace(" quiet", " a\rb"), f"{ROOT} quiet", "CR"),
    ],
)
def test_refusals(arch, entry, line, says):
    assert says in arch(entry, line=line).refused().reason


def test_entries_that_a_program_writes(arch):
    refused = arch().write("etc/sdboot-manage.conf", 'LINUX_OPTIONS="quiet"\n').refused()
    assert "LINUX_OPTIONS" in refused.manual
