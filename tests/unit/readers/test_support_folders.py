"""Support folders and logs, read as a whole: sosreport, node-scraper, rocm_techsupport."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from hostdoctor.evidence.attached import Attached, Attachment, read_attachments
from hostdoctor.facts.unknown import Unknown
from hostdoctor.readers.attached import Pasted, read_attached

CASES = Path(__file__).parents[2] / "cases"
V620 = CASES / "seed-v620-before"
NAME = "sosreport-gpu01-2024-05-01-abcdefg"
BALLAST = 300


def read(*paths):
    """The attachments of some paths, and the host that they tell of."""
    pasted = Pasted(read_attachments([str(path) for path in paths]), tuple(map(str, paths)))
    return pasted, read_attached(pasted, None, 10, assume_bare_metal=False)


def kinds(pasted):
    return [part.kind for part in pasted.parts]


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def sosreport(root, log="dmesg"):
    """A sosreport of the host with four V620: what sos copies, what it runs, and the many files that tell nothing."""
    for part in ("boot", "etc", "proc"):
        shutil.copytree(V620 / "input" / part, root / part)
    dmi = root / "sys/devices/virtual/dmi/id"
    dmi.parent.mkdir(parents=True)
    shutil.copytree(V620 / "input/sys/class/dmi/id", dmi)
    (root / "sys/class").mkdir()
    (root / "sys/class/dmi").symlink_to("../devices/virtual/dmi")
    put(root / "sys/module/amdgpu/parameters/pcie_p2p", "Y\n")
    put(root / "sys/module/vfio/version", "0.3\n")
    commands = root / "sos_commands"
    put(commands / "pci/lspci_-nnvv", (V620 / "attachments/lspci-vvv.txt").read_text())
    (root / "lspci").symlink_to("sos_commands/pci/lspci_-nnvv")
    messages = (V620 / "attachments/dmesg.txt").read_text()
    put(commands / "kernel/dmesg", messages if log == "dmesg" else "".join(messages.splitlines(keepends=True)[20:]))
    put(commands / "kernel/dmesg_-T", messages)
    put(commands / "kernel/uname_-a", "Linux gpu01 6.8.0-52-generic #53-Ubuntu SMP x86_64 GNU/Linux\n")
    put(commands / "kernel/sysctl_-a", "fs.aio-nr = 0\nkernel.numa_balancing = 1\nvm.swappiness = 60\n")
    journal = "".join(f"Jul 01 08:00:01 gpu01 kernel: {line.partition('] ')[2]}\n" for line in messages.splitlines())
    put(commands / "logs/journalctl_--no-pager_--boot", journal)
    put(commands / "logs/journalctl_--no-pager_--boot_-1", journal.replace("kernel: ", "kernel: before: "))
    put(root / "var/log/messages", journal)
    put(root / "version.txt", "sosreport: 4.5.6\n")
    for number in range(BALLAST):
        put(commands / f"systemd/unit-{number}", "ActiveState=active\n")
        put(root / f"etc/pki/cert-{number}", "0000:00:00.0\n")
    return root


@pytest.fixture
def folder(tmp_path):
    return sosreport(tmp_path / NAME)


def check_host(host):
    assert host.boot.release == "6.8.0-52-generic"
    assert host.boot.command_line == (V620 / "input/proc/cmdline").read_text().strip()
    assert not isinstance(host.boot.config, Unknown)
    assert host.firmware.board_name == (V620 / "input/sys/class/dmi/id/board_name").read_text().strip()
    assert host.cpu.vendor == "GenuineIntel"
    assert host.modules["amdgpu"].parameters == {"pcie_p2p": "Y"}
    assert host.numa.balancing == int((V620 / "input/proc/sys/kernel/numa_balancing").read_text())


def test_a_sosreport(folder):
    pasted, host = read(folder)
    check_host(host)
    assert kinds(pasted).count("kernel-log") == 1
    assert "lspci" in kinds(pasted)
    (left_out,) = [int(why.split()[0]) for where, why in pasted.unread if where == str(folder)]
    assert 2 * BALLAST < left_out < 2 * BALLAST + 20
    assert len(pasted.unread) < 5


def test_a_sosreport_by_any_other_name_below_other_folders(folder, tmp_path):
    renamed = tmp_path / "upload" / "host"
    renamed.parent.mkdir()
    folder.rename(renamed)
    for named in (renamed, renamed.parent):
        pasted, host = read(named)
        check_host(host)
        assert kinds(pasted).count("kernel-log") == 1
        assert len(pasted.unread) < 5


def test_a_sosreport_packed(folder, tmp_path):
    packed = tmp_path / "upload.tar.xz"
    with tarfile.open(packed, "w:xz") as archive:
        archive.add(folder, arcname=NAME)
    pasted, host = read(packed)
    check_host(host)
    assert kinds(pasted).count("kernel-log") == 1
    assert [why for _, why in pasted.unread if "of its files tell nothing" in why]


def test_the_log_that_begins_with_the_boot_is_read(tmp_path):
    pasted, _ = read(sosreport(tmp_path / NAME, log="journal"))
    sources = [part.source for part in pasted.parts if part.kind == "kernel-log"]
    assert sources == ["sos_commands/logs/journalctl_--no-pager_--boot"]


def test_a_sosreport_is_no_tree(folder, tmp_path):
    """Its sys lacks nearly all: what it has not must not be taken for what the host has not."""
    from click.testing import CliRunner  # noqa: PLC0415  only here

    from hostdoctor.cli.main import cli  # noqa: PLC0415

    reports = []
    for arguments in (["--from", str(folder)], ["--root", str(folder)], [str(folder)]):
        done = CliRunner().invoke(cli, ["scan", "--format", "json", *arguments])
        assert done.exit_code in (0, 1), done.output
        reports.append(json.loads(done.stdout))
    assert {report["evidence"]["kind"] for report in reports} == {"attachments"}
    assert reports[0]["findings"] == reports[1]["findings"] == reports[2]["findings"]
    assert not [each for each in reports[0]["findings"] if each["check"] == "device-lost" and each["outcome"] == "failure"]


def test_links_are_not_followed(folder, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("root=/dev/secret quiet\n")
    (folder / "etc/kernel").mkdir()
    (folder / "etc/kernel/cmdline").symlink_to(secret)
    pasted, _ = read(folder)
    assert "secret" not in str(pasted.evidence.names("etc"))
    assert not any("secret" in line for part in pasted.parts for line in part.lines)


# --- node-scraper -----------------------------------------------------------------------------------------------------


def artifacts(**outputs):
    entries = [{"command": command, "stdout": text, "stderr": "", "exit_code": 0} for command, text in outputs.items()]
    return json.dumps([*entries, {"command": "false", "stdout": "", "stderr": "no", "exit_code": 1}], indent=2)


@pytest.fixture
def scraper(tmp_path):
    root = tmp_path / "scraper_logs_gpu01_2025_06_01"
    list_json = '[{"gpu": 0, "bdf": "0000:05:00.0"}, {"gpu": 1, "bdf": "0000:26:00.0"}]'
    topology = (CASES / "mi250x-mesh-healthy/input/amd-smi-topology.txt").read_text()
    put(root / "cmdline_plugin/cmdline_collector/command_artifacts.json", artifacts(**{"cat /proc/cmdline": "ro iommu=pt"}))
    put(
        root / "kernel_plugin/kernel_collector/command_artifacts.json",
        artifacts(
            **{
                "sh -c 'uname -a'": "Linux gpu01 5.15.0-91-generic #101-Ubuntu SMP x86_64 GNU/Linux",
                "sh -c 'cat /proc/sys/kernel/numa_balancing'": "0",
            }
        ),
    )
    put(root / "amd_smi_plugin/amd_smi_collector/command_artifacts.json", artifacts(**{"amd-smi list --json": list_json}))
    put(root / "amd_smi_plugin/amd_smi_collector/topology.txt", topology)
    put(root / "dmesg_plugin/dmesg_collector/dmesg.log", "[    0.000000] Linux version 5.15.0-91-generic\n")
    put(root / "dmesg_plugin/dmesg_collector/result.json", '{"status": "OK", "message": "task completed"}')
    put(root / "nodescraper.log", "2025-06-01 10:00:00,000 INFO nodescraper | Running plugin CmdlinePlugin\n")
    return root


def test_a_node_scraper_run(scraper):
    pasted, host = read(scraper)
    assert host.boot.command_line == "ro iommu=pt"
    assert host.boot.release == "5.15.0-91-generic"
    assert host.numa.balancing == 0
    assert {"0000:05:00.0", "0000:26:00.0", "0000:29:00.0"} <= set(host.functions)
    assert pasted.evidence.shown("proc/cmdline") == (
        "cmdline_plugin/cmdline_collector/command_artifacts.json (cat /proc/cmdline)"
    )


def test_texts_that_are_there_twice_are_read_once(scraper):
    log = (scraper / "dmesg_plugin/dmesg_collector/dmesg.log").read_text()
    put(scraper / "dmesg_plugin/dmesg_collector/command_artifacts.json", artifacts(dmesg=log.strip()))
    pasted, _ = read(scraper)
    assert kinds(pasted).count("kernel-log") == 1


# --- rocm_techsupport.sh ----------------------------------------------------------------------------------------------

TECHSUPPORT = """=== ROCm TechSupport Log Collection Utility: V1.25 ===
Thu May  2 10:00:00 UTC 2024
===== Section: OS Distribution         ===============
Linux gpu01 5.4.0-42-generic #46-Ubuntu SMP Fri Jul 10 00:24:02 UTC 2020 x86_64 x86_64 x86_64 GNU/Linux
NAME="Ubuntu"
VERSION="20.04.1 LTS (Focal Fossa)"
PRETTY_NAME="Ubuntu 20.04.1 LTS"
ID=ubuntu
===== Section: Kernel Boot Parameters  ===============
BOOT_IMAGE=/boot/vmlinuz-5.4.0-42-generic root=UUID=1 ro quiet
===== Section: dmesg GPU/DRM/ATOM/BIOS ===============
Section: dmesg boot logs
[    0.000000] Linux version 5.4.0-42-generic (buildd@lgw01)
[    3.000000] amdgpu 0000:43:00.0: amdgpu: GPU reset(1) succeeded!
Section: Current boot logs
May 02 09:00:00 gpu01 kernel: amdgpu 0000:43:00.0: amdgpu: GPU reset(1) succeeded!
Section: Previous boot logs
Apr 30 09:00:00 gpu01 kernel: amdgpu 0000:43:00.0: amdgpu: GPU reset(2) failed
Section: Second Previous boot logs
Apr 29 09:00:00 gpu01 kernel: amdgpu 0000:43:00.0: amdgpu: GPU reset(2) failed
===== Section: CPU Information         ===============
Architecture:                    x86_64
Vendor ID:                       AuthenticAMD
CPU family:                      23
Model:                           49
Model name:                      AMD EPYC 7302 16-Core Processor
Socket(s):                       1
NUMA node(s):                    1
Flags:                           fpu vme de pse tsc msr pae mce svm
===== Section: dmidecode Information   ===============
# dmidecode 3.2
Handle 0x0002, DMI type 2, 15 bytes
Base Board Information
\tManufacturer: ASRockRack
\tProduct Name: ROMED8-2T
===== Section: lspci verbose output    ===============
43:00.0 Display controller: Advanced Micro Devices, Inc. [AMD/ATI] Device 738c (rev 01)
\tKernel driver in use: amdgpu
===== Section: ROCm SMI                ===============

======================= ROCm System Management Interface =======================
================================= Concise Info =================================
GPU  Temp   AvgPwr  SCLK    MCLK     Fan   Perf  PwrCap  VRAM%  GPU%
0    35.0c  37.0W   300Mhz  1200Mhz  0%    auto  290.0W    0%   0%
================================================================================
============================= End of ROCm SMI Log ==============================
===== Section: KFD PIDs sysfs kfd proc ===============
===== Section: rocminfo                ===============
ROCk module is loaded
Unable to open /dev/kfd read-write: Cannot allocate memory
"""


def test_a_techsupport_log():
    files = (Attachment("gpu01.rocm_techsupport.log", "", TECHSUPPORT),)
    pasted = Pasted(Attached(files, ()), ("log",))
    host = read_attached(pasted, None, 10, assume_bare_metal=False)
    assert host.boot.release == "5.4.0-42-generic"
    assert host.boot.distribution == "Ubuntu 20.04.1 LTS"
    assert (host.cpu.family, host.cpu.sockets, host.numa.nodes) == (23, 1, (0,))
    assert host.firmware.board_name == "ROMED8-2T"
    assert host.environment.kind == "bare-metal"
    logs = [line for part in pasted.parts if part.kind == "kernel-log" for line in part.lines]
    assert len(logs) == 2
    assert not [line for line in logs if "failed" in line]
    assert [refusal.kind for refusal in host.refusals] == ["driver"]


# --- pastes of commands -----------------------------------------------------------------------------------------------


def test_what_a_command_printed_is_that_file():
    text = "$ cat /proc/sys/kernel/numa_balancing\n1\n$ cat /sys/class/dmi/id/board_name\nX11DPG-QT\n$ ls\n12\n"
    pasted = Pasted(Attached((Attachment("a.txt", "", text),), ()), ("a.txt",))
    host = read_attached(pasted, None, 10, assume_bare_metal=False)
    assert (host.numa.balancing, host.firmware.board_name) == (1, "X11DPG-QT")
    assert [where for where, _ in pasted.unread] == ["a.txt:6"]


def test_many_unknown_pieces_are_summed_up():
    files = tuple(Attachment(f"{number}.txt", "", "nothing that anybody knows\n" * (number + 1)) for number in range(40))
    unread = Pasted(Attached(files, ()), ("folder",)).unread
    assert len(unread) == 13
    assert "28 more pieces in 28 files" in unread[-1][1]
