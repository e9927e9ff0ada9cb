"""What the owner of a host asks of `hostdoctor fix`, against what findings ask for and what stands there already."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

CASES = Path(__file__).parents[2] / "cases"
BEFORE = CASES / "seed-v620-before/input"
LINE = "BOOT_IMAGE=/vmlinuz-6.8.0-52-generic root=/dev/mapper/ubuntu--vg-ubuntu--lv ro"
DEFAULT = "GRUB_CMDLINE_LINUX_DEFAULT"


@pytest.fixture
def host(tmp_path):
    """The founding host with other parameters on its line and in its files."""

    def make(line="", configured="quiet", grub_cfg=None):
        root = shutil.copytree(BEFORE, tmp_path / "host", symlinks=True, dirs_exist_ok=True)
        (root / "proc/cmdline").write_text(f"{LINE} {line}\n")
        (root / "etc/default/grub").write_text(f'{DEFAULT}="{configured}"\n')
        if grub_cfg is not None:
            entry = f"menuentry 'Ubuntu' {{\n\tlinux /vmlinuz-6.8.0-52-generic root=/dev/sda1 ro {grub_cfg}\n}}\n"
            (root / "boot/grub/grub.cfg").write_text(
                f"### BEGIN /etc/grub.d/10_linux ###\n{entry}### END /etc/grub.d/10_linux ###\n"
            )
        return root

    return make


@pytest.fixture
def planned(hostdoctor):
    return lambda root, *options: json.loads(hostdoctor("fix", "--format", "json", "--root", root, *options).stdout)


@pytest.fixture
def verified(hostdoctor):
    return lambda root, *options: hostdoctor("fix", "--verify", "--root", root, *options)


# --- add and remove ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "add", "remove"),
    [
        (("--add", "iommu=nopt"), ["iommu=nopt"], []),  # the owner is right where findings ask for the opposite
        (("--add", "iommu.passthrough=1"), ["iommu.passthrough=1"], []),  # the same in other words
        (("--remove", "iommu=pt"), [], []),
        (("--add", "quiet"), ["iommu=pt", "quiet"], []),
    ],
)
def test_the_owner_against_findings(host, planned, options, add, remove):
    plan = planned(host("quiet"), *options)
    assert (plan["add"], plan["remove"]) == (add, remove)


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (("--add", "quiet", "--remove", "quiet"), "--add quiet and --remove quiet"),
        (("--add", "amd-iommu=off", "--remove", "amd_iommu=off"), "undo each other"),
        (("--add", "iommu=pt", "--add", "iommu=nopt"), "--add iommu=pt and --add iommu=nopt"),
        (("--add", "iommu=pt", "--add", "iommu.passthrough=off"), "undo each other"),
    ],
)
def test_wishes_that_undo_each_other(host, hostdoctor, options, shown):
    done = hostdoctor("fix", "--root", host("quiet"), *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert shown in " ".join(done.stderr.split())


def test_one_element_of_a_list_is_taken_out(host, planned):
    plan = planned(host("quiet pci=noaer,realloc", "quiet pci=noaer,realloc"), "--remove", "pci=noaer")
    assert (plan["add"], plan["remove"]) == (["pci=realloc", "iommu=pt"], ["pci=noaer,realloc"])
    assert plan["result"].split()[-3:] == ["quiet", "pci=realloc", "iommu=pt"]


@pytest.mark.parametrize("gone", ["nothere", "hugepages", "hugepages=5"])
def test_what_is_nowhere_cannot_be_taken_out(host, planned, gone):
    plan = planned(host("quiet hugepages=4", "quiet hugepages=4"), "--remove", gone)
    assert plan["remove"] == []
    (note,) = plan["notes"]
    assert note.startswith(f"{gone} is neither on the kernel command line nor in the boot files")
    assert ("There is hugepages=4: name one of these whole." in note) is gone.startswith("hugepages")


def test_what_only_waits_in_a_file_can_be_taken_out(host, planned):
    plan = planned(host("quiet", "quiet hugepages=4"), "--remove", "hugepages=4")
    assert plan["remove"] == ["hugepages=4"]
    assert "hugepages" not in plan["result"]


# --- what the files hold ----------------------------------------------------------------------------------------------


def test_a_configured_opposite_is_taken_out(host, planned):
    plan = planned(host("quiet", "quiet iommu=nopt"))
    assert (plan["add"], plan["remove"]) == (["iommu=pt"], ["iommu=nopt"])
    assert plan["result"].endswith(" ro quiet iommu=pt")


def test_nothing_that_does_nothing_is_carried_over(host, planned):
    plan = planned(host("quiet", "quiet amd_iommu=on pci=noacs hugepages=4"))
    assert plan["add"] == ["iommu=pt", "hugepages=4"]


def test_what_works_is_left_to_its_owner(host, planned):
    line = "quiet iommu=soft pci=pcie_bus_perf intel_iommu=strict"
    plan = planned(host(line, line))
    assert (plan["add"], plan["remove"]) == (["iommu=pt"], [])


def test_what_is_generated_anew_loses_what_no_file_has(host, planned):
    plan = planned(host("quiet pci=realloc vt.handoff=7", "quiet", "quiet pci=realloc vt.handoff=7"))
    assert plan["result"] == "root=/dev/sda1 ro quiet iommu=pt vt.handoff=7"
    assert any("update-grub leaves out" in note and "pci=realloc" in note for note in plan["notes"])


def test_nothing_is_lost_where_nothing_is_generated(host, planned):
    plan = planned(host("quiet pci=realloc", "quiet iommu=pt", "quiet pci=realloc iommu=pt"))
    assert plan["commands"] == []
    assert not any("leaves out" in note for note in plan["notes"])


def test_two_lists_of_which_the_kernel_keeps_one(host, planned):
    root = host("quiet", r"quiet pci=disable_acs_redir=0000:00:03.0")
    plan = planned(root, "--add", "pci=disable_acs_redir=0000:40:03.0")
    assert plan["result"].endswith(" ro quiet iommu=pt pci=disable_acs_redir=0000:40:03.0;0000:00:03.0")


def test_refused_lines_are_compared_alike(host, planned):
    plan = planned(host("quiet -- five", "quiet -- five"))
    assert plan["refused"]
    assert (plan["now"], plan["result"]) == (
        f"{LINE.partition(' ')[2]} quiet -- five",
        f"{LINE.partition(' ')[2]} quiet iommu=pt -- five",
    )


def test_lines_before_and_after_are_shown_alike(host, planned):
    root = host()
    line = "root=UUID=1 rw ostree=/ostree/boot.1/fedora/0123/0"
    (root / "proc/cmdline").write_text(f"BOOT_IMAGE=(hd0,gpt3)/ostree/vmlinuz {line}\n")
    plan = planned(root)
    assert (plan["loader"]["name"], plan["now"], plan["result"]) == ("rpm-ostree", line, f"{line} iommu=pt")


# --- afterwards -------------------------------------------------------------------------------------------------------


def test_a_parameter_that_runs_and_does_not_help(host, verified, planned):
    root = host("quiet iommu=pt", "quiet iommu=pt")  # the GPUs' groups are still translated there
    done = verified(root)
    assert done.returncode == 1
    assert "iommu=pt runs and has not helped: iommu-mode 0000:1a:00.0" in done.stdout
    assert "Cured" not in done.stdout
    plan = planned(root)
    assert plan["add"] == []
    assert any(note.startswith("iommu=pt runs already, and iommu-mode") for note in plan["notes"])


def test_a_parameter_that_a_later_one_undoes(host, verified):
    done = verified(host("quiet iommu=pt iommu=nopt", "quiet iommu=pt"))
    assert done.returncode == 1
    assert "iommu=nopt, which comes later, undoes it" in " ".join(done.stdout.split())
    assert "iommu=nopt is still to be taken out" in done.stdout
    assert "iommu=nopt is still wanted" not in done.stdout
    assert "ok    iommu=pt" not in done.stdout


@pytest.mark.parametrize(
    ("line", "options", "shown"),
    [
        ("pci=realloc,noaer", ("--add", "pci=noaer"), "ok    pci=noaer: runs"),
        ("pci=realloc,noaer", ("--remove", "pci=noaer"), "MISS  pci=noaer: is still there"),
        ("intel-iommu=on", ("--remove", "intel_iommu=on"), "MISS  intel_iommu=on: is still there"),
        ("-- foo", ("--add", "foo"), "MISS  foo: does not run"),
    ],
)
def test_verify_what_the_owner_names(host, verified, line, options, shown):
    assert shown in verified(host(line), *options).stdout


def test_no_verdict_without_the_running_line(hostdoctor):
    done = hostdoctor("fix", "--verify", CASES / "seed-v620-before/attachments/lspci-vvv.txt")
    assert (done.returncode, done.stdout) == (3, "")
    assert "command line is not in this evidence" in done.stderr


def test_guests_have_nothing_to_verify(hostdoctor):
    done = hostdoctor("fix", "--verify", CASES / "wsl2/input")
    assert done.returncode == 0
    assert done.stdout.startswith("Nothing to verify: the GPUs of a guest are its hypervisor's.")


def test_what_no_parameter_cures_is_not_called_cured(hostdoctor):
    done = hostdoctor("fix", "--verify", "--root", CASES / "lab-bar-without-space/input")
    assert "Cured" not in done.stdout
    assert "NOT CURED BY KERNEL PARAMETERS\n    gpu-driver:" in done.stdout


# --- other processors -------------------------------------------------------------------------------------------------


def test_passthrough_of_other_processors_than_x86(host, planned):
    root = host("quiet")
    shutil.rmtree(root / "sys/class/iommu")
    (root / "sys/class/iommu/smmu3.0x0000000012c00000").mkdir(parents=True)
    plan = planned(root)
    assert plan["add"] == ["iommu.passthrough=1"]
    assert plan["result"].endswith(" iommu.passthrough=1")


# --- lists of which the kernel keeps the last -------------------------------------------------------------------------

PORTS = "0000:18:08.0;0000:18:10.0"
ACS = f"pci=disable_acs_redir={PORTS}"


@pytest.fixture
def switched(hostdoctor, tmp_path):
    """The plan for GPUs below a switch whose ports redirect, from what its owner attached."""

    def make(line, grub=""):
        folder = shutil.copytree(CASES / "acs-redirect-under-switch/input", tmp_path / "attached")
        (folder / "cmdline.txt").write_text(f"BOOT_IMAGE=/boot/vmlinuz-6.8.0-52-generic root=UUID=1 ro {line}\n")
        if grub:
            (folder / "grub.txt").write_text(f'GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX=""\n{DEFAULT}="{grub}"\n')
        return json.loads(hostdoctor("fix", "--format", "json", folder).stdout)

    return make


@pytest.mark.parametrize(
    ("grub", "add", "remove"),
    [
        ("quiet pci=disable_acs_redir=0000:99:01.0", [f"{ACS};0000:99:01.0"], ["pci=disable_acs_redir=0000:99:01.0"]),
        (
            "quiet pci=noaer,disable_acs_redir=0000:18:08.0",
            ["pci=noaer", ACS],
            ["pci=noaer,disable_acs_redir=0000:18:08.0"],
        ),
        (
            r"quiet pci=disable_acs_redir=0000:99:01.0\\;0000:18:08.0\\;0000:18:10.0",
            [f"pci=disable_acs_redir=0000:99:01.0;{PORTS}"],
            [],
        ),
    ],
)
def test_a_list_that_waits_is_joined(switched, grub, add, remove):
    plan = switched("quiet", grub)
    assert (plan["refused"], plan["add"], plan["remove"]) == (None, add, remove)
    assert plan["result"].count("disable_acs_redir") == 1


def test_a_list_that_runs_and_does_not_help(switched):
    plan = switched(ACS)
    assert (plan["add"], plan["remove"], plan["diff"]) == ([], [], "")
    assert plan["notes"][0].startswith(f"{ACS} runs already, and acs-redirect")
