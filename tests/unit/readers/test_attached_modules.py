"""Whether amdgpu does P2P, from the few lines of /sys, /boot and /proc that people paste beside an lspci."""

from __future__ import annotations

import pytest

from hostdoctor.evidence.attached import Attached, Attachment
from hostdoctor.facts.unknown import Unknown
from hostdoctor.readers.attached import Pasted, read_attached

FOLDER = "/sys/module/amdgpu/parameters"
MISSING = f"cat: {FOLDER}/pcie_p2p: No such file or directory"
CARDS = "".join(
    f"{bus}:00.0 VGA compatible controller [0300]: Advanced Micro Devices, Inc. [AMD/ATI] Navi 31 [1002:744c] (rev c8)\n"
    "\tKernel driver in use: amdgpu\n\tKernel modules: amdgpu\n"
    for bus in ("03", "06")
)
NAMES = ["abmlevel", *(f"option_{letter}" for letter in "abcdefghijklmnopqrs"), "ppfeaturemask", "vm_size"]


@pytest.fixture
def kernel(build):
    """The verdict of p2p-kernel over two cards and what is pasted below them."""

    def judged(*lines, cards=CARDS):
        text = "\n".join(("$ lspci -nnk", cards, *lines))
        host = read_attached(Pasted(Attached((Attachment("paste.txt", "", text),), ()), ("paste.txt",)), None, 1.0, False)
        return build.verdict("p2p-kernel", host)

    return judged


@pytest.mark.parametrize(
    "lines",
    [
        (f"$ cat {FOLDER}/pcie_p2p", MISSING),
        (f"$ grep . {FOLDER}/pcie_p2p", f"grep: {FOLDER}/pcie_p2p: No such file or directory"),
        (f"$ ls {FOLDER}/pcie_p2p", f"ls: cannot access '{FOLDER}/pcie_p2p': No such file or directory"),
        (f"$ ls {FOLDER}", *NAMES),
        (f"$ ls {FOLDER}/", "  ".join(NAMES)),
    ],
)
def test_a_missing_parameter_was_not_built(kernel, lines):
    found = kernel(*lines)
    assert (found.outcome, found.remedies) == ("failure", ("kernel-with-p2p",))
    assert "no parameter pcie_p2p" in found.title


@pytest.mark.parametrize(
    "lines",
    [
        (f"$ cat {FOLDER}/noretry", "-1"),
        (f"{FOLDER}/noretry:-1", f"{FOLDER}/vm_size:-1"),
        (f"$ cat {FOLDER}/pcie_p2p", f"cat: {FOLDER}/pcie_p2p: Permission denied"),
        (f"$ ls {FOLDER}", *NAMES[:-2]),
        (f"$ ls {FOLDER}", *NAMES, "pcie_p2p"),
        (f"$ ls {FOLDER}", *NAMES[:5]),
        (f"$ ls {FOLDER}", *NAMES, "... and so on"),
    ],
)
def test_one_that_is_not_shown_may_be_there(kernel, lines):
    assert kernel(*lines).outcome == "unknown"


def test_of_a_module_that_is_not_loaded_every_file_is_missing(kernel):
    unbound = CARDS.replace("\tKernel driver in use: amdgpu\n", "")
    assert kernel(MISSING, cards=unbound).outcome == "unknown"


@pytest.mark.parametrize("value", ["Y", "N"])
def test_its_value_decides(kernel, value):
    assert kernel(f"$ cat {FOLDER}/pcie_p2p", value).outcome == ("ok" if value == "Y" else "failure")


@pytest.mark.parametrize(
    ("lines", "outcome"),
    [
        (("# CONFIG_PCI_P2PDMA is not set",), "failure"),
        (("# CONFIG_PCI_P2PDMA is not set", "CONFIG_HSA_AMD=y"), "failure"),
        (("# CONFIG_HSA_AMD_P2P is not set",), "unknown"),  # AMD's own package may be loaded
        (("CONFIG_PCI_P2PDMA=y", "# CONFIG_HSA_AMD_P2P is not set"), "unknown"),
        (("CONFIG_HSA_AMD_P2P=y",), "unknown"),  # built, but is it on?
        (("CONFIG_HSA_AMD=y",), "unknown"),
        (("CONFIG_DRM_AMDGPU=m",), "unknown"),
    ],
)
def test_picked_lines_of_the_configuration(kernel, lines, outcome):
    assert kernel("$ grep -i p2p /boot/config-$(uname -r)", *lines).outcome == outcome


@pytest.mark.parametrize(("value", "outcome"), [("0", "failure"), ("n", "failure"), ("1", "unknown"), ("", "unknown")])
def test_the_command_line_switches_it_off_however_it_was_built(kernel, value, outcome):
    line = f"BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro amdgpu.pcie_p2p{'=' if value else ''}{value}"
    found = kernel("$ cat /proc/cmdline", line)
    assert found.outcome == outcome
    assert outcome == "unknown" or "on the kernel command line" in found.title


def test_the_parameter_itself_stands_against_the_command_line(kernel):
    line = "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro amdgpu.pcie_p2p=0"
    assert kernel("$ cat /proc/cmdline", line, f"$ cat {FOLDER}/pcie_p2p", "Y").outcome == "ok"


def scanned(text):
    return read_attached(Pasted(Attached((Attachment("paste.txt", "", text),), ()), ("paste.txt",)), None, 1.0, False)


def test_what_a_tool_says_in_place_of_a_file_is_not_its_text():
    host = scanned("$ cat /etc/default/grub\ncat: /etc/default/grub: No such file or directory\n\n$ cat /proc/cmdline\n"
                   "cat: /proc/cmdline: Keine Berechtigung\n")  # fmt: skip
    assert isinstance(host.boot.command_line, Unknown)
    assert host.boot_files.configured is None


def test_the_release_alone():
    assert scanned("$ uname -r\n6.8.12-4-pve\n").boot.release == "6.8.12-4-pve"


def test_picked_lines_of_cpuinfo():
    cpu = scanned("$ grep -m3 -E 'vendor|family' /proc/cpuinfo\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\n").cpu
    assert cpu.is_amd
    assert cpu.family == 25
    assert isinstance(cpu.hypervisor_flag, Unknown)


def test_what_somebody_says_below_the_running_line_is_no_part_of_it():
    host = scanned("$ cat /proc/cmdline\nconsole=ttyS0\nquiet\n\nI also tried other things - IOMMU on — no luck\n")
    assert [each.text for each in host.boot.parameters] == ["console=ttyS0", "quiet"]
