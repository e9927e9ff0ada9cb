"""What the paths inside support folders tell."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.evidence.support import artifacts_of, is_ballast, path_of_command, place_of, rank_of_log

SOS = "sosreport-gpu01-2024-05-01-abcdefg"


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("proc/cmdline", "proc/cmdline"),
        (f"{SOS}/proc/cmdline", "proc/cmdline"),
        (f"case-17/{SOS}/etc/default/grub", "etc/default/grub"),
        ("./etc/default/grub.d/50-gpu.cfg", "etc/default/grub.d/50-gpu.cfg"),
        ("boot/grub2/grub.cfg", "boot/grub2/grub.cfg"),
        ("boot/config-6.8.0-51-generic", "boot/config-6.8.0-51-generic"),
        ("boot/loader/entries/a-6.8.conf", "boot/loader/entries/a-6.8.conf"),
        ("etc/kernel/cmdline", "etc/kernel/cmdline"),
        ("etc/modprobe.d/amdgpu.conf", "etc/modprobe.d/amdgpu.conf"),
        ("proc/sys/kernel/numa_balancing", "proc/sys/kernel/numa_balancing"),
        ("proc/config", "proc/config.gz"),
        ("sys/devices/virtual/dmi/id/board_name", "sys/class/dmi/id/board_name"),
        ("sys/module/amdgpu/parameters/pcie_p2p", "sys/module/amdgpu/parameters/pcie_p2p"),
        ("usr/lib/os-release", "usr/lib/os-release"),
        # what is none of the host's own, or is not looked at
        ("cmdline", ""),
        ("notes/cmdline", ""),
        ("a/b/c/d/proc/cmdline", ""),
        ("sos_commands/proc/cmdline", ""),
        ("etc/passwd", ""),
        ("sys/class/dmi/id/product_serial", ""),
        ("sys/devices/virtual/dmi/id/product_uuid", ""),
        ("proc/../etc/default/grub", ""),
        ("boot/dmesg.log", ""),
        ("", ""),
    ],
)
def test_places(path, place):
    assert place_of(path) == place


@pytest.mark.parametrize(
    "path",
    [
        "sos_commands/pci/lspci_-nnvv",
        f"{SOS}/sos_commands/kernel/dmesg",
        f"{SOS}/sos_commands/logs/journalctl_--no-pager_--boot",
        f"{SOS}/proc/cmdline",
        f"{SOS}/var/log/messages",
        f"{SOS}/version.txt",
        "lspci.txt",
        "logs/boot.txt",
        "boot/my-dmesg.txt",
        "etc/whatever.txt",
    ],
)
def test_what_is_read(path):
    assert not is_ballast(path)


@pytest.mark.parametrize(
    "path",
    [
        "sos_commands/rpm/package-data",
        f"{SOS}/sos_commands/devices/udevadm_info_--export-db",
        f"{SOS}/sos_commands/kernel/dmesg_-T",
        f"{SOS}/sos_commands/logs/journalctl_--no-pager_--boot_-1",
        f"{SOS}/sos_reports/sos.html",
        f"{SOS}/etc/passwd",
        f"{SOS}/proc/1/status",
        f"{SOS}/var/log/messages-20240501",
    ],
)
def test_what_is_left_out(path):
    assert is_ballast(path)


def test_a_sosreport_whose_folder_has_another_name():
    assert is_ballast("etc/passwd", in_sos=True)
    assert not is_ballast("etc/passwd")
    assert not is_ballast("rocm-smi.txt", in_sos=True)


def test_logs_by_how_good_they_are():
    paths = ("sos_commands/kernel/dmesg", "sos_commands/logs/journalctl_--boot", "var/log/messages", "lspci.txt")
    assert [rank_of_log(path) for path in paths] == [0, 1, 2, None]


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("cat /proc/cmdline", "proc/cmdline"),
        ("/bin/cat /etc/default/grub", "etc/default/grub"),
        ("sh -c 'cat /proc/sys/kernel/numa_balancing'", "proc/sys/kernel/numa_balancing"),
        ("sudo cat /proc/iomem", "proc/iomem"),
        ("sysctl -n kernel.numa_balancing", "proc/sys/kernel/numa_balancing"),
        ("cat /proc/cmdline | tr ' ' '\\n'", ""),
        ("cat /etc/*release", ""),
        ("cat /proc/cmdline /proc/version", ""),
        ("lspci -vvv", ""),
    ],
)
def test_commands_that_print_a_file(command, path):
    assert path_of_command(command) == path


def test_lists_of_commands():
    entries = [
        {"command": "cat /proc/cmdline", "stdout": "ro quiet", "stderr": "", "exit_code": 0},
        {"command": "false", "stdout": "", "stderr": "x", "exit_code": 1},
    ]
    assert artifacts_of(json.dumps(entries, indent=2)) == [("cat /proc/cmdline", "ro quiet")]
    assert artifacts_of('[{"stdout": 1}]') == artifacts_of('["stdout"]') == artifacts_of("[1,") == artifacts_of("") == []


@given(st.text(alphabet="./abcsyproetk-_", max_size=60))
def test_any_path(path):
    assert isinstance(place_of(path), str)
    assert is_ballast(path, in_sos=True) in (True, False)
