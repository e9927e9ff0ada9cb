"""Fedora and RHEL: calls of grubby that lose no parameter of a name that is set several times, and edits without entries."""

from __future__ import annotations

import re
import shlex

import pytest

from hostdoctor.evidence.memory import MemoryEvidence
from hostdoctor.parsers.grub_cfg import grub_words
from hostdoctor.readers.boot_files import read_boot_files
from hostdoctor.readers.boot_loader import GRUBBY, Files
from hostdoctor.readers.platform import read_boot
from hostdoctor.remedies.loaders import patch_for
from hostdoctor.remedies.patch import Refused, Request
from tests.unit.remedies.grub_host import ALWAYS, DEFAULT, RELEASES, GrubHost

ACS = "pci=disable_acs_redir=0000:40:01.1/00.0;0000:80:01.1"
START = "root=/dev/mapper/rl-root ro crashkernel=1G-4G:192M rhgb quiet"
RUNNING = "BOOT_IMAGE=(hd0,gpt2)/vmlinuz-5.14.0-503.el9.x86_64 "
GRUB = f"""\
GRUB_TIMEOUT=5
GRUB_DISTRIBUTOR="$(sed 's, release .*$,,g' /etc/system-release)"
GRUB_DEFAULT=saved
GRUB_DISABLE_SUBMENU=true
GRUB_TERMINAL_OUTPUT="console"
{ALWAYS}="crashkernel=1G-4G:192M rhgb quiet"
GRUB_DISABLE_RECOVERY="true"
GRUB_ENABLE_BLSCFG=true
"""
CFG = "insmod blscfg\nblscfg\n"
MACHINE = "0123456789abcdef0123456789abcdef"


def entry(options, version="5.14.0-503.el9.x86_64"):
    kernel = f"linux /vmlinuz-{version}\ninitrd /initramfs-{version}.img\n"
    return f"title Linux ({version})\nversion {version}\n{kernel}options {options}\n"


class Grubby:
    """What grubby makes of a line, by its own rules: all of a name go where one of it is added."""

    def __init__(self, command):
        program, *options = shlex.split(command)
        assert program == "grubby"
        self.options = dict(option.partition("=")[::2] for option in options)

    def __call__(self, line):
        for removed in self.options.get("--remove-args", "").split():
            rest = "" if "=" in removed else "(=[^ ]*)?"
            line = re.sub(rf"(^| ){removed}{rest}(?= |$)", "", line, count=0 if rest else 1)
        added = self.options.get("--args", "").split()
        for name in {each.partition("=")[0] for each in added}:
            line = re.sub(rf"(^| ){name}(=[^ ]*)?(?= |$)", "", line)
        return " ".join([line.strip(), *added]).strip()


@pytest.fixture
def host(tmp_path):
    def make(*options, system="rhel9", grub=GRUB, running=START):
        ours = GrubHost(tmp_path / "host", system=system, line=RUNNING + running, grub=grub).write("boot/grub2/grub.cfg", CFG)
        for number, text in enumerate(options):
            version = f"5.14.0-{503 - number}.el9.x86_64"
            ours.write(f"boot/loader/entries/{MACHINE}-{version}.conf", entry(text, version))
        rescue = entry(START, "0-rescue").replace("Linux (", "Linux rescue (")
        return ours.write(f"boot/loader/entries/{MACHINE}-0-rescue.conf", rescue)

    return make


@pytest.mark.parametrize(
    ("line", "add", "remove", "call"),
    [
        (START, ["iommu=pt"], [], ("iommu=pt", "")),
        (f"{START} pci=noaer", ["pci=realloc"], [], ("pci=noaer pci=realloc", "")),
        (f"{START} console=tty0 console=ttyS0", ["console=ttyS1"], [], ("console=tty0 console=ttyS0 console=ttyS1", "")),
        (f"{START} pci=noaer,realloc x", ["pci=noaer"], ["pci=noaer,realloc"], ("pci=noaer", "pci=noaer,realloc")),
        (f"{START} amd_iommu=on", ["iommu=pt"], ["amd_iommu=on"], ("iommu=pt", "amd_iommu=on")),
        (f"{START} nosmt nosmt=force", [], ["nosmt"], ("nosmt=force", "nosmt")),
        (f"{START} a=1 a=1", [], ["a=1"], ("", "a=1 a=1")),
        (START, [ACS], [], (ACS.replace("=disable", "='disable") + "'", "")),
    ],
)
def test_one_call_for_all_entries(host, line, add, remove, call):
    patch = host(line, line).patch(add, remove)
    assert patch.files == ()
    [command] = patch.commands
    grubby = Grubby(command)
    assert grubby.options.get("--update-kernel") == "ALL"
    assert (grubby.options.get("--args", ""), grubby.options.get("--remove-args", "")) == call
    after = grubby(line)
    kept = [each for each in line.split() if each not in remove]
    assert sorted(grub_words(after)) == sorted([*kept, *add])
    assert sorted(patch.result.split()) == sorted([*kept, *add])
    assert sorted(Grubby(patch.revert[-1])(after).split()) == sorted(line.split())
    assert patch.show == "grubby --info=DEFAULT"
    assert "press e" in patch.once_without
    assert any("rescue" in note for note in patch.notes)


def test_what_is_in_place_needs_no_command(host):
    patch = host(f"{START} iommu=pt").patch(["iommu=pt"], ["amd_iommu=on"])
    assert (patch.commands, patch.files, patch.reboot) == ((), (), True)
    assert "only a restart" in patch.notes[0]
    assert not host(f"{START} iommu=pt", running=f"{START} iommu=pt").patch(["iommu=pt"]).reboot


def test_a_second_time_nothing_is_left(host):
    grubby = Grubby(host(START).patch([ACS, "iommu=pt"]).commands[0])
    ours = host(grubby(START))
    assert ours.patch([ACS, "iommu=pt"]).commands == ()
    back = Grubby(ours.patch([], [ACS]).commands[0])
    assert back(grubby(START)) == f"{START} iommu=pt"


def test_entries_that_differ_have_a_call_each(host):
    patch = host(f"{START} pci=noaer", f"{START} pci=nomsi", f"{START} pci=realloc pci=noaer").patch(["pci=realloc"])
    assert [Grubby(each).options for each in patch.commands] == [
        {"--update-kernel": "/boot/vmlinuz-5.14.0-503.el9.x86_64", "--args": "pci=noaer pci=realloc"},
        {"--update-kernel": "/boot/vmlinuz-5.14.0-502.el9.x86_64", "--args": "pci=nomsi pci=realloc"},
    ]
    assert "installed later" in patch.notes[0]


@pytest.mark.parametrize("trap", [f'{DEFAULT}="quiet amd_iommu=on"\n', f'{ALWAYS}_RECOVERY="single"\n'])
def test_grubby_does_not_write_over_other_variables(host, trap):
    patch = host(f"{START} amd_iommu=on", grub=GRUB + trap).patch(["iommu=pt"], ["amd_iommu=on"])
    assert "--no-etc-grub-update" in patch.commands[0]
    assert "--no-etc-grub-update" in patch.revert[-1]
    [change] = patch.files
    assert f'{ALWAYS}="crashkernel=1G-4G:192M rhgb quiet iommu=pt"\n' in change.after
    assert "amd_iommu" not in change.after
    ours = host(f"{START} amd_iommu=on", grub=GRUB + trap)
    ours.apply(patch)
    assert ours.patch(["iommu=pt"], ["amd_iommu=on"]).files == ()


def test_a_file_that_cannot_be_followed_is_left_alone(host):
    patch = host(START, grub=GRUB + f'{DEFAULT}="quiet\n').patch(["iommu=pt"])
    assert patch.files == ()
    assert "--no-etc-grub-update" in patch.commands[0]
    assert "not closed" in patch.notes[0]


@pytest.mark.parametrize("grub", [GRUB, GRUB.replace("crashkernel=1G-4G:192M rhgb quiet", ""), None])
def test_grubby_writes_plain_files_itself(host, grub):
    patch = host(START, grub=grub).patch(["iommu=pt"])
    assert patch.files == ()
    assert "--no-etc-grub-update" not in patch.commands[0]


def test_options_that_stand_in_grubs_environment(host):
    environment = f"# GRUB Environment Block\nsaved_entry={MACHINE}-5.14.0-503.el9.x86_64\nkernelopts={START} pci=noaer \n"
    ours = host("$kernelopts $tuned_params", "$kernelopts $tuned_params", system="rhel8")
    ours.write("boot/grub2/grubenv", f"{environment}tuned_params=isolcpus=1-3 pci=nomsi\n")
    patch = ours.patch(["pci=realloc"])
    assert Grubby(patch.commands[0]).options["--args"] == "pci=noaer pci=realloc"
    assert patch.result == f"{START} pci=noaer pci=realloc isolcpus=1-3 pci=nomsi"
    assert ours.patch(["isolcpus=1-3"]).commands == ()
    with pytest.raises(Refused, match="tuned"):
        ours.patch([], ["isolcpus=1-3"])


def test_the_running_line_stands_for_entries_that_are_not_known(tmp_path):
    ours = GrubHost(tmp_path / "host", system="rhel9", line=f"{RUNNING}{START} pci=noaer", grub=GRUB)
    ours.write("boot/grub2/grub.cfg", CFG)
    patch = ours.patch(["pci=realloc"])
    assert Grubby(patch.commands[0]).options["--args"] == "pci=noaer pci=realloc"
    assert "not in the evidence" in patch.notes[0]


@pytest.mark.parametrize(
    ("kernel", "by_grubby"),
    [("6.11.4-301.fc41", True), ("4.18.0-553.el8_10", True), ("3.10.0-1160.el7", False), ("5.0.9-301.fc29", False)],
)
def test_where_nothing_but_the_kernels_release_is_known(tmp_path, kernel, by_grubby):
    ours = GrubHost(tmp_path / "host", system="fedora", line=f"BOOT_IMAGE=(hd0,gpt2)/vmlinuz-{kernel}.x86_64 {START} pci=noaer")
    if by_grubby:
        assert Grubby(ours.patch(["pci=realloc"]).commands[0]).options["--args"] == "pci=noaer pci=realloc"
    else:
        with pytest.raises(Refused, match="not in the evidence"):
            ours.patch(["pci=realloc"])


@pytest.mark.parametrize("parameter", ["a&b=1", "a;b", "isolcpus=*", "x=$y", "x=a'b"])
def test_what_grubby_does_not_keep(host, parameter):
    with pytest.raises(Refused):
        host(START).patch([parameter])


def test_what_grubby_printed_is_as_good_as_the_entries():
    printed = (
        'index=0\nkernel="/boot/vmlinuz-5.14.0-503.el9.x86_64"\nargs="ro rhgb quiet pci=noaer $tuned_params"\n'
        'root="/dev/mapper/rl-root"\ninitrd="/boot/initramfs-5.14.0-503.el9.x86_64.img"\ntitle="Linux"\nid="x"\n'
    )
    texts = {
        "etc/os-release": RELEASES["rhel9"],
        "proc/cmdline": f"{RUNNING}root=/dev/mapper/rl-root ro rhgb quiet pci=noaer\n",
        "boot/grub2/grub.cfg": CFG,
        "boot/grub2/grubenv": "saved_entry=x\n",
        GRUBBY: printed,
    }
    evidence = MemoryEvidence({path: text.encode() for path, text in texts.items()}, ("paste",))
    boot = read_boot(evidence, with_config=False)
    found = read_boot_files((evidence,), boot)
    patch = patch_for(Request(("pci=realloc",)), Files([evidence]), found, boot.command_line)
    assert Grubby(patch.commands[0]).options["--args"] == "pci=noaer pci=realloc"
    assert patch.result == "root=/dev/mapper/rl-root ro rhgb quiet pci=noaer pci=realloc"


@pytest.mark.parametrize("options", [f"{START} a\\;b", f"{START} a&b"])
def test_options_that_any_call_would_change(host, options):
    with pytest.raises(Refused, match="any call of grubby changes"):
        host(options).write("boot/grub2/grubenv", "# GRUB Environment Block\n").patch(["iommu=pt"])


def test_options_that_grub_cuts_today(host):
    with pytest.raises(Refused, match="to their end"):
        host(f"{START} {ACS}").patch(["iommu=pt"])


# --- without entries --------------------------------------------------------------------------------------------------

MENU = """\
### BEGIN /etc/grub.d/10_linux ###
menuentry 'Linux' {
\tlinux /vmlinuz-4.18.0-553.el8_10.x86_64 root=/dev/mapper/rl-root ro crashkernel=1G-4G:192M rhgb quiet
}
"""


@pytest.mark.parametrize(
    ("system", "efi", "command"),
    [
        ("rhel8", False, "grub2-mkconfig -o /boot/grub2/grub.cfg"),
        ("rhel8", True, "grub2-mkconfig -o /etc/grub2-efi.cfg"),
        ("rhel9", True, "grub2-mkconfig -o /boot/grub2/grub.cfg"),
        ("fedora", True, "grub2-mkconfig -o /boot/grub2/grub.cfg"),
    ],
)
def test_an_edit_where_no_entries_are_read(tmp_path, system, efi, command):
    ours = GrubHost(tmp_path / "host", system, RUNNING + START, grub=GRUB.replace("BLSCFG=true", "BLSCFG=false"))
    ours.write("boot/grub2/grub.cfg", MENU)
    if efi:
        ours.write("sys/firmware/efi/fw_platform_size", "64\n")
    patch = ours.patch(["iommu=pt"], ["rhgb"])
    assert patch.commands == (command,)
    assert f'{ALWAYS}="crashkernel=1G-4G:192M quiet iommu=pt"' in patch.files[0].after
    assert patch.result == "root=/dev/mapper/rl-root ro crashkernel=1G-4G:192M quiet iommu=pt"
    ours.apply(patch)
    assert ours.patch(["iommu=pt"], ["rhgb"]).files == ()


# --- openSUSE ---------------------------------------------------------------------------------------------------------

SUSE = f"""\
GRUB_DISTRIBUTOR=
GRUB_DEFAULT=saved
{DEFAULT}="splash=silent mitigations=auto quiet security=apparmor"
{ALWAYS}=""
GRUB_DISABLE_RECOVERY="true"
"""


def test_opensuse(tmp_path):
    ours = GrubHost(tmp_path / "host", system="suse", grub=SUSE)
    patch = ours.patch(["iommu=pt"], ["quiet"])
    assert patch.commands == ("grub2-mkconfig -o /boot/grub2/grub.cfg",)
    assert "/boot/grub2/grub.cfg" in patch.show
    assert "update-bootloader" in patch.notes[0]
    assert "recovery mode" not in patch.once_without
    ours.apply(patch)
    assert ours.configured() == ["splash=silent", "mitigations=auto", "security=apparmor", "iommu=pt"]


def test_opensuse_that_keeps_snapshots(tmp_path):
    ours = GrubHost(tmp_path / "host", system="suse", grub=SUSE)
    ours.write("etc/os-release", 'ID="opensuse-microos"\nID_LIKE="suse opensuse"\n')
    patch = ours.patch(["iommu=pt"])
    assert patch.commands == ("transactional-update grub.cfg",)
    assert "rollback" in patch.notes[0]


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ("$kernelopts", "has no root="),  # nothing sets the variable
        (START.replace("rl-root", "old-root"), "another entry started it"),
    ],
)
def test_an_entry_that_did_not_start_this_host(host, options, shown):
    with pytest.raises(Refused, match=shown):
        host(options).write("boot/grub2/grubenv", "# GRUB Environment Block\n").patch(["iommu=pt"])
