"""rEFInd, extlinux and the Raspberry Pi: files with the kernel line on one line."""

from __future__ import annotations

import pytest

from hostdoctor.parsers.kernel_cmdline_file import parse_extlinux
from hostdoctor.remedies.patch import Request
from tests.unit.remedies.loader_trees import ARCH, DEBIAN, Host

ROOT = "root=UUID=0a1b rw"
ACS = "pci=disable_acs_redir=0000:40:01.1;0000:80:01.1"


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path / "host")


# --- rEFInd -----------------------------------------------------------------------------------------------------------

REFIND = f'"Boot with standard options"  "{ROOT} quiet"\n"Boot to single-user mode"    "{ROOT} single"\n'


@pytest.fixture
def refind(host):
    def made(content=REFIND, line=f"{ROOT} quiet"):
        host.started_with(f"{line} initrd=boot\\initramfs-linux.img", ARCH).variable("LoaderInfo", "rEFInd 0.14.2")
        return host.write("boot/refind_linux.conf", content)

    return made


def test_refind(refind):
    patch = refind().changed(Request(("iommu=pt", ACS), ("quiet",)))
    assert patch.files[0].after == REFIND.replace("quiet", f"iommu=pt {ACS}")
    assert "another line" in patch.once_without


def test_refind_with_comments_and_quotes(refind):
    content = f'# mine\n\n"One ""good"" line" "{ROOT} dyndbg=""file a.c +p"""'
    patch = refind(content).changed(Request(('x="a b"',)))
    assert patch.files[0].after == f'# mine\n\n"One ""good"" line" "{ROOT} dyndbg=""file a.c +p"" x=""a b"""'
    assert patch.result == f'{ROOT} dyndbg="file a.c +p" x="a b"'
    assert f'"Before" "{ROOT} dyndbg=""file a.c +p"""' in patch.notes[0]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("Boot options\n", "form"),
        (f'"a" {ROOT}\n', "form"),
        (f'"a" "{ROOT}" # comment\n', "form"),
        ("", "form"),
        (REFIND.replace("\n", "\r\n"), "CR"),
        (REFIND.replace("0a1b", "9999"), "root=UUID=9999"),
    ],
)
def test_refind_refuses(refind, content, says):
    assert says in refind(content).refused().reason


def test_refind_with_stanzas(refind):
    host = refind().write(
        "boot/efi/EFI/refind/refind.conf", 'menuentry "Arch" {\n  loader /vmlinuz\n  options "root=UUID=0a1b"\n}\n'
    )
    host.asked()
    refind(line="root=UUID=0a1b rw mine")
    assert "refind.conf" in host.refused().reason


def test_refind_with_its_variable(refind):
    assert "%" in refind().refused(Request(("a=%v",))).reason


# --- extlinux ---------------------------------------------------------------------------------------------------------

JETSON = """\
TIMEOUT 30
DEFAULT primary

MENU TITLE L4T boot options

LABEL primary
      MENU LABEL primary kernel
      LINUX /boot/Image
      INITRD /boot/initrd
      APPEND ${cbootargs} root=PARTUUID=0a1b rw rootwait console=ttyTCU0,115200

# When testing a custom kernel, it is recommended that you create a backup of
# the original kernel and add a new entry to this file so that the device can
# fallback to the original kernel.
# LABEL backup
#    MENU LABEL backup kernel
"""


@pytest.fixture
def jetson(host):
    def made(content=JETSON, line="root=PARTUUID=0a1b rw rootwait console=ttyTCU0,115200 bl_prof_dataptr=1"):
        host.started_with(line, "ID=ubuntu\nID_LIKE=debian\n", "5.15.148-tegra")
        host.write("proc/device-tree/model", "NVIDIA Jetson AGX Orin Developer Kit\0")
        return host.write("boot/extlinux/extlinux.conf", content)

    return made


def test_jetson(jetson):
    host = jetson()
    assert host.loader() == "extlinux"
    patch = host.changed()
    labels = {label.name: label.append for label in parse_extlinux(patch.files[0].after)}
    old = "${cbootargs} root=PARTUUID=0a1b rw rootwait console=ttyTCU0,115200"
    assert labels == {"primary": f"{old} iommu=pt", "backup": old}
    assert patch.files[0].after.startswith(JETSON.replace("115200\n", "115200 iommu=pt\n"))
    assert patch.once_without.startswith("Choose backup")
    assert next(label.name for label in parse_extlinux(patch.files[0].after) if label.is_default) == "primary"


def test_a_backup_that_is_there_stays(jetson):
    backup = "\nLABEL backup\n  LINUX /boot/Image.backup\n  APPEND root=PARTUUID=0a1b\n"
    patch = jetson(JETSON + backup).changed()
    assert patch.files[0].after == (JETSON + backup).replace("115200\n", "115200 iommu=pt\n")


def test_extlinux_by_hand(host):
    content = "label one\n  kernel /vmlinuz\n  append root=/dev/sda1 ro\nlabel two\n  kernel /old\n  append root=/dev/sda1 ro\n"
    host.started_with("root=/dev/sda1 ro", DEBIAN).write("proc/device-tree/model", "Honeycomb\0")
    patch = host.write("boot/extlinux/extlinux.conf", content).changed(Request((ACS,)))
    assert patch.files[0].after == content.replace("ro\nlabel two", f"ro {ACS}\nlabel two")
    assert patch.once_without.startswith("Choose two")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("label a\n  kernel /x\n", "no APPEND"),
        (JETSON.replace("DEFAULT primary", "DEFAULT other"), "DEFAULT"),
        (JETSON.replace("\n", "\r\n"), "CR"),
        (JETSON.replace("0a1b", "9999"), "root=PARTUUID=9999"),
        (f"{JETSON}\nLABEL primary\n  APPEND x\n", "more than one label"),
        (JETSON.replace("APPEND", "APPEND x\n      APPEND"), "more than one APPEND"),
        (f"# generated automatically\n{JETSON}", "a program writes it"),
    ],
)
def test_extlinux_refuses(jetson, content, says):
    assert says in jetson(content).refused().reason


def test_extlinux_with_a_variable(jetson):
    assert "variable" in jetson().refused(Request(("a=$x",))).reason


# --- Debian's u-boot-menu ---------------------------------------------------------------------------------------------

GENERATED = """\
## /boot/extlinux/extlinux.conf
##
## IMPORTANT WARNING
##
## The configuration of this file is generated automatically.
## Do not edit this file manually, use: u-boot-update

default l0
menu title U-Boot menu
prompt 0
timeout 50


label l0
\tmenu label Debian GNU/Linux 13 6.12.9-arm64
\tlinux /boot/vmlinuz-6.12.9-arm64
\tinitrd /boot/initrd.img-6.12.9-arm64
\tfdtdir /usr/lib/linux-image-6.12.9-arm64/

\tappend root=UUID=0a1b ro quiet
"""
COMMENTED = '## /etc/default/u-boot\n\n#U_BOOT_UPDATE="true"\n#U_BOOT_PARAMETERS="ro quiet"\n'


@pytest.fixture
def u_boot_menu(host):
    def made(content=COMMENTED):
        host.started_with("root=UUID=0a1b ro quiet", DEBIAN).write("proc/device-tree/model", "Radxa ROCK 5B\0")
        host.write("boot/extlinux/extlinux.conf", GENERATED)
        return host if content is None else host.write("etc/default/u-boot", content)

    return made


@pytest.mark.parametrize(
    ("content", "after"),
    [
        (COMMENTED, f'{COMMENTED}U_BOOT_PARAMETERS="ro quiet {ACS}"\n'),
        (None, f'U_BOOT_PARAMETERS="ro quiet {ACS}"\n'),
        ('U_BOOT_PARAMETERS="ro quiet"', f'U_BOOT_PARAMETERS="ro quiet {ACS}"'),
        ("U_BOOT_PARAMETERS='ro  quiet'  # mine\n", f"U_BOOT_PARAMETERS='ro  quiet {ACS}'  # mine\n"),
        ("A=1\nU_BOOT_PARAMETERS=ro\nB='2'\n", f"A=1\nU_BOOT_PARAMETERS=\"ro {ACS}\"\nB='2'\n"),
    ],
)
def test_u_boot_menu(u_boot_menu, content, after):
    patch = u_boot_menu(content).changed(Request((ACS,)))
    assert patch.files[0].after == after
    assert patch.commands == ("u-boot-update",)
    assert patch.result.startswith("root=")


@pytest.mark.parametrize(
    "content",
    [
        'U_BOOT_PARAMETERS="ro $X"\n',
        'U_BOOT_PARAMETERS="ro\nquiet"\n',
        'U_BOOT_PARAMETERS="ro"\nU_BOOT_PARAMETERS="x"\n',
        'if true; then\nU_BOOT_PARAMETERS="x"\nfi\n',
        ". /etc/other\n",
        'export U_BOOT_PARAMETERS="ro"\n',
        '  U_BOOT_PARAMETERS="x" reboot\n',
    ],
)
def test_u_boot_menu_refuses(u_boot_menu, content):
    assert "/etc/default/u-boot:" in u_boot_menu(content).refused().reason


def test_fragments_that_are_read_later(u_boot_menu):
    host = u_boot_menu().write("etc/u-boot-menu/conf.d/a.conf", 'U_BOOT_PARAMETERS="$U_BOOT_PARAMETERS x"\n')
    assert "conf.d/a.conf" in host.refused().reason


# --- Raspberry Pi -----------------------------------------------------------------------------------------------------

PI = "console=serial0,115200 console=tty1 root=PARTUUID=0a1b-02 rootfstype=ext4 fsck.repair=yes rootwait"


@pytest.fixture
def pi(host):
    def made(content=f"{PI}\n", folder="boot/firmware"):
        host.started_with(f"reboot=w coherent_pool=1M 8250.nr_uarts=1 {PI}", DEBIAN)
        host.write("proc/device-tree/model", "Raspberry Pi 5 Model B Rev 1.0\0")
        return host.write(f"{folder}/cmdline.txt", content)

    return made


@pytest.mark.parametrize("folder", ["boot/firmware", "boot"])
@pytest.mark.parametrize("end", ["\n", ""])
def test_raspberry_pi(pi, folder, end):
    host = pi(f"{PI}{end}", folder)
    assert host.loader() == "raspberry-pi"
    patch = host.changed(Request(("pci=pcie_bus_safe",)))
    assert patch.files[0].after == f"{PI} pci=pcie_bus_safe{end}"
    assert patch.files[0].path == f"/{folder}/cmdline.txt"


def test_raspberry_pi_refuses(pi):
    assert "exactly one line" in pi(f"{PI}\nquiet\n").refused().reason
    assert "exactly one line" in pi(f"\n{PI}\n").refused().reason
    assert "CR" in pi(f"{PI}\r\n").refused().reason
    assert "os_prefix" in pi().write("boot/firmware/config.txt", "[all]\nos_prefix=current/\n").refused().reason
