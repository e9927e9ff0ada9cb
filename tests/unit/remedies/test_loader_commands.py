"""Systems whose command line a command changes, or a configuration that only its owner writes."""

from __future__ import annotations

import json

import pytest

from hostdoctor.remedies.patch import Request
from tests.unit.remedies.loader_trees import FEDORA, IOMMU, Host

ACS = "pci=disable_acs_redir=0000:40:01.1;0000:80:01.1"
BOTH = Request(("iommu=pt",), ("amd_iommu=on",))


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path / "host")


def nothing_after(host, patch):
    """Asking a host that runs the result leaves nothing to do."""
    done = host.asked(BOTH, line=patch.result)
    assert (done.files, done.commands, done.reboot) == ((), (), False)


# --- Pop!_OS ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def pop(host):
    def made(*options, line="root=UUID=0a1b ro quiet splash amd_iommu=on"):
        host.started_with(f"initrd=\\EFI\\Pop_OS-0a1b\\initrd.img {line}", "ID=pop\nID_LIKE=ubuntu\n")
        host.variable("LoaderInfo", "systemd-boot 255")
        return host.write("etc/kernelstub/configuration", json.dumps({"user": {"kernel_options": list(options)}}))

    return made


def test_kernelstub(pop):
    host = pop("quiet", "splash", "amd_iommu=on")
    assert host.loader() == "kernelstub"
    patch = host.asked(Request(("iommu=pt", ACS), ("amd_iommu=on",)))
    assert patch.commands == ("kernelstub -d amd_iommu=on", f"kernelstub -a 'iommu=pt {ACS}'")
    assert patch.revert == (f"kernelstub -d 'iommu=pt {ACS}'", "kernelstub -a amd_iommu=on")
    assert patch.result.endswith(f"quiet splash iommu=pt {ACS}")
    assert patch.files == ()


def test_kernelstub_that_only_waits_for_the_restart(pop):
    patch = pop("quiet", "splash", "iommu=pt").asked(BOTH)
    assert (patch.commands, patch.reboot) == ((), True)
    assert any("restart" in note for note in patch.notes)
    nothing_after(pop("quiet", "iommu=pt"), patch)


def test_kernelstub_without_blanks(pop):
    assert "a blank" in pop().refused(Request(('x="a b"',))).reason


# --- rpm-ostree and bootc ---------------------------------------------------------------------------------------------


@pytest.fixture
def atomic(host):
    def made(options="root=UUID=0a1b rw ostree=/ostree/boot.1/fedora/x/0", line="", image="(hd0,gpt2)/ostree/fedora-x/vmlinuz"):
        host.started_with(f"BOOT_IMAGE={image} {line or options}", FEDORA).write("usr/bin/rpm-ostree")
        host.write("boot/loader/entries/ostree-1.conf", "title F\nversion 1\noptions old\nlinux /x\n")
        host.write("boot/loader/entries/ostree-2.conf", f"title F\nversion 2\noptions {options}\nlinux /x\n")
        return host.write("boot/grub2/grub.cfg", "blscfg\n")

    return made


OSTREE = "root=UUID=0a1b rw ostree=/ostree/boot.1/fedora/x/0"


def test_rpm_ostree(atomic):
    host = atomic(f"{OSTREE} amd_iommu=on")
    assert host.loader() == "rpm-ostree"
    patch = host.asked(BOTH)
    assert patch.commands == ("rpm-ostree kargs --delete-if-present=amd_iommu=on --append-if-missing=iommu=pt",)
    assert patch.revert == ("rpm-ostree rollback",)
    nothing_after(atomic(f"{OSTREE} iommu=pt"), patch)


def test_rpm_ostree_replaces_in_place(atomic):
    host = atomic(f"{OSTREE} pcie_aspm=force console=ttyS0 console=tty0")
    assert host.asked(Request(("pcie_aspm=off", "console=ttyS1"), ("pcie_aspm=force", "console=ttyS0"))).commands == (
        "rpm-ostree kargs --replace=pcie_aspm=force=off --replace=console=ttyS0=ttyS1",
    )


def test_rpm_ostree_writes_for_grub(atomic):
    patch = atomic().asked(Request((ACS,)))
    assert patch.commands == (f"rpm-ostree kargs --append-if-missing='{ACS.replace(';', chr(92) + ';')}'",)
    assert any("backslash" in note for note in patch.notes)
    assert ACS in patch.result
    escaped = atomic(f"{OSTREE} {ACS.replace(';', chr(92) + ';')}", OSTREE).asked(Request((ACS,)))
    assert (escaped.commands, escaped.reboot) == ((), True)


def test_bootc(atomic):
    host = atomic(f"{OSTREE} amd_iommu=on").write("usr/bin/bootc")
    (host.root / "usr/bin/rpm-ostree").unlink()
    patch = host.asked(BOTH)
    assert 'kargs = ["iommu=pt"]' in patch.commands[1]
    assert patch.commands[-1] == "bootc upgrade"
    assert all(command.startswith("#") for command in patch.commands[:-1])


# --- NixOS ------------------------------------------------------------------------------------------------------------


def test_nixos(host):
    host.started_with("initrd=\\x init=/nix/store/y amd_iommu=on", "ID=nixos\n")
    host.write("nix/var/nix/profiles/system/kernel-params", "amd_iommu=on loglevel=4")
    patch = host.asked(Request(("iommu=pt", 'a="b ${c}"'), ("amd_iommu=on",)))
    assert patch.commands[0] == "# in the configuration, take out of boot.kernelParams: amd_iommu=on"
    assert patch.commands[1].endswith('boot.kernelParams = [ "iommu=pt" "a=\\"b \\${c}\\"" ];')
    assert patch.commands[2] == "nixos-rebuild boot"
    host.write("nix/var/nix/profiles/system/kernel-params", "iommu=pt loglevel=4")
    assert (host.asked(BOTH).commands, host.asked(BOTH).reboot) == ((), True)


# --- Ubuntu Core ------------------------------------------------------------------------------------------------------


@pytest.fixture
def core(host):
    def made(appended=None, version="24"):
        host.started_with("snapd_recovery_mode=run amd_iommu=on", f'ID=ubuntu-core\nVERSION_ID="{version}"\n')
        if appended is None:
            return host
        kernel = {"kernel": {"cmdline-append": appended}} if appended else {}
        return host.write("var/lib/snapd/state.json", json.dumps({"data": {"config": {"core": {"system": kernel}}}}))

    return made


@pytest.mark.parametrize(
    ("appended", "after"), [("", "iommu=pt"), ("quiet", "'quiet iommu=pt'"), ("quiet x=1 -- y", "'quiet x=1 iommu=pt -- y'")]
)
def test_ubuntu_core_keeps_what_is_appended(core, appended, after):
    patch = core(appended).asked(IOMMU)
    assert patch.commands == (f"snap set system system.kernel.cmdline-append={after}",)


def test_ubuntu_core_takes_out_what_was_appended_only(core):
    assert core("amd_iommu=on quiet").asked(BOTH).commands == ("snap set system system.kernel.cmdline-append='quiet iommu=pt'",)
    assert "gadget" in core("quiet").refused(BOTH).reason


def test_ubuntu_core_without_snapds_state(core):
    (command,) = core().asked(IOMMU).commands
    assert command.startswith('snap set system system.kernel.cmdline-append="$(snap get')
    assert command.endswith('"iommu=pt')


def test_ubuntu_core_that_is_too_old(core):
    assert "18" in core(version="18").refused().reason


# --- Talos ------------------------------------------------------------------------------------------------------------


def test_talos(host):
    host.started_with("talos.platform=metal amd_iommu=on", "ID=talos\n")
    patch = host.asked(BOTH)
    assert all(command.startswith("#") for command in patch.commands)
    assert '"extraKernelArgs": ["iommu=pt"]' in patch.commands[1]
    nothing_after(host, patch)


# --- Flatcar ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def flatcar(host):
    def made(content=None, path="oem/grub.cfg"):
        line = "BOOT_IMAGE=/flatcar/vmlinuz-a mount.usr=/dev/mapper/usr root=LABEL=ROOT amd_iommu=on"
        host.started_with(line, "ID=flatcar\nID_LIKE=coreos\n")
        return host.folder("oem") if content is None else host.write(path, content)

    return made


@pytest.mark.parametrize(
    ("content", "after"),
    [
        (None, f'set linux_append="$linux_append iommu=pt {ACS}"\n'),
        ("", f'set linux_append="$linux_append iommu=pt {ACS}"\n'),
        ('set oem_id="ec2"', f'set oem_id="ec2"\nset linux_append="$linux_append iommu=pt {ACS}"\n'),
        (
            '# OEM\nset linux_append="flatcar.autologin amd_iommu=on"\nset linux_console="console=ttyS0,115200n8"\n',
            '# OEM\nset linux_append="flatcar.autologin"\nset linux_console="console=ttyS0,115200n8"\n'
            f'set linux_append="$linux_append iommu=pt {ACS}"\n',
        ),
        (
            'set linux_append="$linux_append amd_iommu=on"\n',
            f'set linux_append="$linux_append"\nset linux_append="$linux_append iommu=pt {ACS}"\n',
        ),
    ],
)
def test_flatcar(flatcar, content, after):
    host = flatcar(content)
    request = Request(("iommu=pt", ACS), ("amd_iommu=on",))
    patch = host.asked(request)
    assert patch.files[0].after == after
    host.applied(patch)
    assert host.asked(request).files == ()


@pytest.mark.parametrize(
    "content",
    [
        'if [ "$x" = y ]; then\n  set linux_append="a"\nfi\n',
        'set linux_append="a $b"\n',
        'set linux_append="a"; set x=1\n',
        'set linux_append="a"\nset linux_append="b"\n',
        "source /x\n",
    ],
)
def test_flatcar_refuses(flatcar, content):
    assert "/oem/grub.cfg:" in flatcar(content).refused().reason


def test_flatcar_of_old(flatcar):
    assert flatcar('set oem_id="x"\n', "usr/share/oem/grub.cfg").asked().files[0].path == "/usr/share/oem/grub.cfg"


def test_flatcar_with_quotes(flatcar):
    assert "GRUB" in flatcar().refused(Request(('x="a b"',))).reason
