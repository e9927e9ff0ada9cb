"""Options of kernel modules in `hostdoctor fix`: what stands in /etc/modprobe.d is changed there."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

CASES = Path(__file__).parents[2] / "cases"
AMD, NVIDIA = CASES / "seed-v620-after/input", CASES / "seed-blackwell-ada/input"
BAR1 = "0x0000004000000000 0x00000047ffffffff", "0x0000004000000000 0x000000400fffffff"
OPTION = "NVreg_EnableResizableBar=1"


class Tree:
    """A copy of a case's tree that is changed."""

    def __init__(self, root):
        self.root = root

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return self

    def read(self, path):
        return (self.root / path).read_text()

    def patched(self, patch, *options):
        subprocess.run(["patch", "-p1", "-s", *options, "-i", patch], check=True, cwd=self.root)
        return self


@pytest.fixture
def without_p2p(tmp_path):
    """The four V620, on which amdgpu's P2P is switched off by a file of this content."""

    def make(text, name="etc/modprobe.d/amdgpu.conf", case=AMD):
        tree = Tree(shutil.copytree(case, tmp_path / "host", symlinks=True))
        return tree.write("sys/module/amdgpu/parameters/pcie_p2p", "N\n").write(name, text)

    return make


@pytest.fixture
def small_bar(tmp_path):
    """An NVIDIA GPU whose BAR1 is 256 MiB although it offers more, and whose driver does not enlarge it."""
    tree = Tree(shutil.copytree(NVIDIA, tmp_path / "host", symlinks=True))
    resource = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/resource"
    assert BAR1[0] in tree.read(resource)
    return tree.write(resource, tree.read(resource).replace(*BAR1))


@pytest.fixture
def plan(hostdoctor):
    def make(tree, *arguments):
        return json.loads(hostdoctor("fix", "--format", "json", "--root", tree.root, *arguments).stdout)

    return make


def test_the_option_is_changed_where_it_stands(hostdoctor, plan, without_p2p, tmp_path):
    tree = without_p2p("# quiet\noptions amdgpu aspm=0 pcie_p2p=0 dpm=1\n")
    found = plan(tree)
    assert (found["add"], found["remove"], found["nothing"], found["refused"]) == ([], [], "", None)
    (module,) = found["modules"]
    assert (module["module"], module["option"], module["instead_of"]) == ("amdgpu", "pcie_p2p=1", "pcie_p2p=0")
    assert (module["action"], module["file"]) == ("replace", "/etc/modprobe.d/amdgpu.conf")
    assert module["change"]["because"] == ["p2p-kernel"]
    assert found["commands"] == ["update-initramfs -u -k all"]
    assert found["reboot"] is True
    patch = tmp_path / "fix.patch"
    assert hostdoctor("fix", "--root", tree.root, "-o", patch).returncode == 0
    assert tree.patched(patch).read("etc/modprobe.d/amdgpu.conf") == "# quiet\noptions amdgpu aspm=0 pcie_p2p=1 dpm=1\n"
    tree.patched(patch, "-R")
    assert tree.read("etc/modprobe.d/amdgpu.conf") == "# quiet\noptions amdgpu aspm=0 pcie_p2p=0 dpm=1\n"
    assert found["revert"] == ["patch -R -p1 -d / < FILE", "update-initramfs -u -k all"]


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("options amdgpu pcie_p2p=0", "options amdgpu pcie_p2p=1"),
        ("options amdgpu \\\n\tpcie_p2p=N \\\n\tdpm=1\n", "options amdgpu \\\n\tpcie_p2p=1 \\\n\tdpm=1\n"),
        ("options amdgpu pcie_p2p=0 pcie_p2p=0\n", "options amdgpu pcie_p2p=0 pcie_p2p=1\n"),
        ("options amdgpu pcie_p2p=1\noptions amdgpu pcie_p2p=0\n", "options amdgpu pcie_p2p=1\noptions amdgpu pcie_p2p=1\n"),
    ],
)
def test_the_last_word_counts_and_nothing_else_moves(hostdoctor, without_p2p, tmp_path, text, after):
    tree, patch = without_p2p(text), tmp_path / "fix.patch"
    hostdoctor("fix", "--root", tree.root, "-o", patch)
    assert tree.patched(patch).read("etc/modprobe.d/amdgpu.conf") == after


@pytest.mark.parametrize("name", ["usr/lib/modprobe.d/vendor.conf", "etc/modprobe.d/amdgpu.conf.bak"])
def test_what_cannot_be_changed_there_is_overruled_on_the_kernel_command_line(plan, without_p2p, name):
    found = plan(without_p2p("options amdgpu pcie_p2p=0\n", name))
    assert (found["add"], found["modules"]) == (["amdgpu.pcie_p2p=1"], [])


def test_a_word_on_two_lines_is_left_to_the_kernel_command_line(plan, without_p2p):
    found = plan(without_p2p("options amdgpu pcie_\\\np2p=0\n"))
    assert (found["add"], found["modules"]) == (["amdgpu.pcie_p2p=1"], [])


def test_a_parameter_on_the_line_outweighs_the_files(plan, without_p2p):
    tree = without_p2p("options amdgpu pcie_p2p=0\n")
    tree.write("proc/cmdline", f"{tree.read('proc/cmdline').strip()} amdgpu.pcie_p2p=0\n")
    assert plan(tree)["add"] == ["amdgpu.pcie_p2p=1"]


def test_what_its_owner_adds_goes_onto_the_line(plan, without_p2p):
    found = plan(without_p2p("options amdgpu pcie_p2p=0\n"), "--add", "amdgpu.pcie_p2p=1")
    assert (found["add"], found["modules"]) == (["amdgpu.pcie_p2p=1"], [])


def test_another_modules_option_is_left_alone(plan, without_p2p):
    found = plan(without_p2p("options radeon pcie_p2p=0\n"))
    assert (found["add"], found["modules"]) == (["amdgpu.pcie_p2p=1"], [])


def test_many_findings_of_one_check_are_counted(hostdoctor, without_p2p):
    tree = without_p2p("options amdgpu pcie_p2p=0\n", case=CASES / "seed-v620-before/input")
    assert "for     p2p-kernel, p2p-pair (12 times)\n" in hostdoctor("fix", "--root", tree.root).stdout


def test_a_file_for_nvidias_driver(hostdoctor, plan, small_bar, tmp_path):
    found = plan(small_bar)
    (module,) = found["modules"]
    assert (module["option"], module["action"], module["file"]) == (OPTION, "add", "/etc/modprobe.d/hostdoctor-nvidia.conf")
    assert module["change"]["because"] == ["bar-size 0000:01:00.0"]
    assert found["add"] == []
    patch = tmp_path / "fix.patch"
    hostdoctor("fix", "--root", small_bar.root, "-o", patch)
    assert "Option of the kernel module nvidia, in /etc/modprobe.d/hostdoctor-nvidia.conf" in patch.read_text()
    assert small_bar.patched(patch).read("etc/modprobe.d/hostdoctor-nvidia.conf") == f"options nvidia {OPTION}\n"
    subprocess.run(["patch", "-p1", "-s", "-R", "-i", patch], check=True, cwd=small_bar.root)
    assert not (small_bar.root / "etc/modprobe.d/hostdoctor-nvidia.conf").exists()


def test_an_option_that_says_no_is_turned(plan, small_bar):
    small_bar.write("etc/modprobe.d/nvidia.conf", "options nvidia NVreg_EnableResizableBar=0 NVreg_NvLinkDisable=0\n")
    (module,) = plan(small_bar)["modules"]
    assert (module["action"], module["file"]) == ("replace", "/etc/modprobe.d/nvidia.conf")


def test_on_images_the_option_goes_onto_the_kernel_command_line(plan, small_bar):
    small_bar.write("proc/cmdline", "BOOT_IMAGE=(hd0,gpt3)/ostree/x/vmlinuz-6.12 ostree=/ostree/boot.1/x/y/0 root=UUID=z\n")
    small_bar.write("etc/os-release", "ID=fedora\n")
    found = plan(small_bar)
    assert (found["add"], found["modules"]) == ([f"nvidia.{OPTION}"], [])


def test_nothing_where_the_driver_enlarges_already_or_does_not_know_how(plan, small_bar):
    params = "proc/driver/nvidia/params"
    text = small_bar.read(params)
    for changed in (
        text.replace("EnableResizableBar: 0", "EnableResizableBar: 1"),
        text.replace("EnableResizableBar: 0\n", ""),
    ):
        small_bar.write(params, changed)
        found = plan(small_bar)
        assert (found["add"], found["modules"]) == ([], [])
        assert found["firmware"]


def test_the_rebuild_is_that_of_the_distribution(plan, small_bar):
    for release, command in (
        ("ID=fedora\n", "dracut -f --regenerate-all"),
        ("ID=arch\n", "mkinitcpio -P"),
        ("ID=slackware\n", "# build the initramfs again, if the module is in it"),
    ):
        assert command in plan(small_bar.write("etc/os-release", release))["commands"]


def test_the_playbook_writes_the_file_and_rebuilds(hostdoctor, small_bar):
    play = yaml.safe_load(hostdoctor("fix", "--ansible", "--root", small_bar.root).stdout)[0]
    copy = next(task["ansible.builtin.copy"] for task in play["tasks"] if "ansible.builtin.copy" in task)
    assert (copy["dest"], copy["content"]) == ("/etc/modprobe.d/hostdoctor-nvidia.conf", f"options nvidia {OPTION}\n")
    assert play["handlers"][0]["ansible.builtin.shell"] == "update-initramfs -u -k all"


def test_an_option_that_the_module_does_not_know_goes(plan, without_p2p, tmp_path):
    tree = without_p2p("options amdgpu si_support=1\noptions amdgpu pcie_p2p=1 nosuch=1\n")
    tree.write("sys/module/amdgpu/parameters/pcie_p2p", "Y\n")
    log = tmp_path / "dmesg.txt"
    log.write_text("[    0.000000] Linux version 6.8.0-52-generic\n[    3.100000] amdgpu: unknown parameter 'nosuch' ignored\n")
    (module,) = plan(tree, log)["modules"]
    assert (module["action"], module["option"], module["file"]) == ("remove", "nosuch=1", "/etc/modprobe.d/amdgpu.conf")


def test_an_unreadable_file_is_named(plan, small_bar):
    (small_bar.root / "etc/modprobe.d").mkdir(parents=True)
    (small_bar.root / "etc/modprobe.d/odd.conf").mkdir()
    assert any("/etc/modprobe.d/odd.conf could not be read" in note for note in plan(small_bar)["notes"])
