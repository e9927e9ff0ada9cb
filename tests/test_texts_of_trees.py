"""Each recorded host judged by its files and by what people paste of it: the same findings wherever the text tells as much.

The text is what `lspci -vvv` prints of the tree, its command line, and its boot log where the case has one. It may tell less,
never otherwise: what differs must be unknown there, of a check that is listed here with what the text lacks.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess

import pytest

from hostdoctor.diagnosis import diagnose
from hostdoctor.evidence.attached import Attached, Attachment
from hostdoctor.evidence.files import FileEvidence
from hostdoctor.readers.attached import Pasted, read_attached
from hostdoctor.readers.host import read_host
from hostdoctor.registry import built_in
from hostdoctor.view import View
from tests.test_cases import TREES, by_name

LSPCI = shutil.which("lspci", path=os.environ.get("PATH", "") + ":/usr/bin:/usr/sbin:/sbin")
CHECKS = list(built_in())
UNJUDGED = ("unknown", "not-applicable")

# Checks that the text alone cannot tell, and why; lspci and the boot log tell of these what they do, or nothing.
NEVER_TOLD = {
    "environment": "the hypervisor flag is the processor's, in /proc/cpuinfo",
    "gpu-access": "rights are those of device files, groups and limits",
    "iommu-mode": "the domain type in force is the group's, in /sys/kernel/iommu_groups",
    "kernel-parameters-pending": "the boot loader's files are not in it",
    "link-errors": "errors are counted in sysfs; lspci shows sticky bits alone, which a check does not count",
    "numa-balancing": "the setting is in /proc/sys/kernel",
    "p2p-kernel": "amdgpu's parameters are in /sys/module, the kernel's configuration in /boot",
}
# Checks that the text can tell where it has more in it, and what it lacks where it does not.
SOMETIMES_TOLD = {
    "bar-reach": "beyond a GPU's address bits the mode of its IOMMU decides, where the kernel lets it",
    "bar-size": "how much memory a board has, where its id stands for several, only its driver tells",
    "bar-unassigned": "lspci leaves out BARs without an address, and of the last function it does not show that it ended",
    "gpu-driver": "that the last function has no driver is not told: its lines may have been cut off",
    "kernel-parameters": "whose processor and which kernel it is: the boot log tells, or a host bridge",
    "numa-placement": "lspci prints no node where the host has one alone",
    "p2p-pair": "its conditions are those of p2p-kernel, iommu-mode and bar-reach",
    "window-space": "what the firmware gave a root bus is in /proc/iomem, and in the boot log",
}
# The tree has no kernel log, so that nothing was judged there.
ONLY_IN_THE_LOG = ("gpu-faults", "iommu-faults")

pytestmark = pytest.mark.skipif(LSPCI is None, reason="lspci is not installed")


def judged(host):
    return {(each.check, each.outcome, each.subject) for each in diagnose(View(host), CHECKS)}


@functools.cache
def by_its_files(case):
    with FileEvidence(str(case / "input"), "root") as evidence:
        return judged(read_host(evidence))


def printed(tree):
    """What lspci prints of a tree; without -A it silently shows this machine where it does not like one."""
    devices = tree / "sys" / "bus" / "pci"
    if not devices.is_dir():
        return ""
    command = [LSPCI, "-A", "linux-sysfs", "-O", f"sysfs.path={devices}", "-vvv"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env={"LC_ALL": "C"}).stdout


@functools.cache
def by_its_texts(case):
    tree = case / "input"
    line = (tree / "proc" / "cmdline").read_text(encoding="utf-8")
    texts = {"lspci.txt": printed(tree), "cmdline.txt": f"$ cat /proc/cmdline\n{line}"}
    texts |= {path.name: path.read_text(encoding="utf-8") for path in case.glob("attachments/dmesg*")}
    files = tuple(Attachment(name, "", text) for name, text in texts.items())
    return judged(read_attached(Pasted(Attached(files, ()), tuple(texts)), None, 10.0, assume_bare_metal=False))


def of_a_subject(findings, check, subject):
    """What is said of it, by itself or else among others, or of the host."""
    said = [(outcome, whom) for other, outcome, whom in findings if other == check]
    alike = [outcome for outcome, whom in said if whom == subject]
    return {*(alike or [outcome for outcome, whom in said if not whom or {*whom} & {*subject}])}


@pytest.mark.parametrize("case", TREES, ids=by_name)
def test_the_text_says_nothing_that_the_files_do_not(case):
    said = {each for each in by_its_texts(case) - by_its_files(case) if each[1] not in UNJUDGED}
    assert {each for each in said if each[0] not in ONLY_IN_THE_LOG} == set()
    assert all(outcome == "ok" for _, outcome, _ in said), "the recorded logs are of hosts without such faults"


@pytest.mark.parametrize("case", TREES, ids=by_name)
def test_what_the_files_say_and_the_text_does_not_is_unknown_there(case):
    silent = {each for each in by_its_files(case) - by_its_texts(case) if each[1] not in UNJUDGED}
    for check, _, subject in silent:
        assert check in NEVER_TOLD or check in SOMETIMES_TOLD, f"{check} {subject} can be told by a text"
        assert of_a_subject(by_its_texts(case), check, subject) <= {*UNJUDGED}


@pytest.mark.parametrize("check", NEVER_TOLD)
def test_what_a_text_cannot_tell_it_never_says(check):
    outcomes = {outcome for case in TREES for other, outcome, _ in by_its_texts(case) if other == check}
    assert outcomes <= {*UNJUDGED}


@pytest.mark.parametrize("check", SOMETIMES_TOLD)
def test_what_a_text_sometimes_tells_it_tells_of_some_host(check):
    outcomes = {outcome for case in TREES for other, outcome, _ in by_its_texts(case) if other == check}
    assert outcomes - {*UNJUDGED}, "it belongs among those that no text tells"
