"""`hostdoctor fix` as its users run it."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

CASES = Path(__file__).parents[2] / "cases"
BEFORE, AFTER = CASES / "seed-v620-before/input", CASES / "seed-v620-after/input"
PENDING = CASES / "grub-configured-not-regenerated/input"
PROXMOX = CASES / "proxmox-zfs-edited-grub/input"
DROP_IN = "etc/default/grub.d/zz-hostdoctor.cfg"


@pytest.fixture
def host(tmp_path):
    """A copy of a case's tree that may be changed."""

    def make(case):
        return shutil.copytree(case, tmp_path / "host", symlinks=True)

    return make


def planned(hostdoctor, *arguments):
    return json.loads(hostdoctor("fix", "--format", "json", *arguments).stdout)


# --- the founding host ------------------------------------------------------------------------------------------------


def test_both_remedies_of_the_founding_host(hostdoctor):
    plan = planned(hostdoctor, "--root", BEFORE)
    assert (plan["add"], plan["remove"]) == (["iommu=pt"], [])
    assert plan["loader"]["name"] == "grub-debian"
    assert plan["commands"] == ["update-grub"]
    assert plan["reboot"] is True
    assert plan["because"]["iommu=pt"] == [
        f"iommu-mode {gpu}" for gpu in ("0000:1a:00.0", "0000:1d:00.0", "0000:88:00.0", "0000:8b:00.0")
    ]
    first = plan["firmware"][0]
    assert (first["setting"], first["now"], first["target"]) == ("MMIO High Base", "56T", "4T")
    guide = hostdoctor("fix", "--firmware", "--root", BEFORE).stdout
    assert "X11DPG-QT" in guide


def test_what_the_firmware_has_to_do_comes_first(hostdoctor):
    """The kernel parameter alone cures nothing there."""
    text = hostdoctor("fix", "--root", BEFORE).stdout
    assert text.startswith("# First, in the firmware: MMIO High Base 56T -> 4T. hostdoctor fix --firmware")
    assert "# FIRMWARE, BESIDES: MMIO High Granularity Size." in text


def test_nothing_once_it_is_cured(hostdoctor):
    done = hostdoctor("fix", "--root", AFTER)
    assert done.returncode == 0
    assert done.stdout.startswith("Nothing to change on the kernel command line: no finding asks for a kernel\nparameter.\n")
    plan = planned(hostdoctor, "--root", AFTER)
    assert (plan["add"], plan["remove"], plan["diff"], plan["commands"], plan["firmware"]) == ([], [], "", [], [])
    assert plan["reboot"] is False


def test_nothing_for_an_unequal_pair(hostdoctor):
    plan = planned(hostdoctor, "--root", CASES / "seed-blackwell-ada/input")
    assert (plan["add"], plan["firmware"]) == ([], [])


# --- the patch --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [["patch", "-p1", "-s", "-i"], ["git", "apply"]])
@pytest.mark.parametrize("case", [BEFORE, PROXMOX])
def test_the_whole_output_is_a_patch(hostdoctor, host, tmp_path, how, case):
    root = host(case)
    patch = tmp_path / "fix.patch"
    assert hostdoctor("fix", "--root", root, "-o", patch).returncode == 0
    subprocess.run(["git", "init", "-q", root], check=True)
    subprocess.run([*how, patch], check=True, cwd=root)
    changed = (root / DROP_IN if case == BEFORE else root / "etc/kernel/cmdline").read_text()
    assert "iommu=pt" in changed


def test_a_second_run_changes_no_file(hostdoctor, host, tmp_path):
    root = host(BEFORE)
    patch = tmp_path / "fix.patch"
    hostdoctor("fix", "--root", root, "-o", patch)
    subprocess.run(["patch", "-p1", "-s", "-i", patch], check=True, cwd=root)
    plan = planned(hostdoctor, "--root", root)
    assert (plan["diff"], plan["commands"]) == ("", ["update-grub"])


def test_what_only_waits_for_its_command(hostdoctor):
    plan = planned(hostdoctor, "--root", PENDING)
    assert (plan["diff"], plan["commands"]) == ("", ["update-grub"])


def test_lines_fit_a_terminal(hostdoctor):
    for case in (BEFORE, PENDING, PROXMOX):
        text = hostdoctor("fix", "--root", case).stdout
        outside = [line for line in text.splitlines() if not line.startswith(("+", "-", " ", "diff "))]
        assert max(map(len, outside)) <= 80


def test_parameters_of_the_owner(hostdoctor):
    plan = planned(hostdoctor, "--root", AFTER, "--add", "pcie_aspm.policy=performance", "--remove", "iommu=pt")
    assert (plan["add"], plan["remove"]) == (["pcie_aspm.policy=performance"], ["iommu=pt"])
    assert "pcie_aspm.policy=performance" in plan["diff"]
    assert "iommu=pt" not in plan["result"].split()


@pytest.mark.parametrize("bad", ["a b", "x\ny", "", "`id`", 'a"b'])
@pytest.mark.parametrize("option", ["--add", "--remove"])
def test_what_is_no_parameter(hostdoctor, option, bad):
    done = hostdoctor("fix", "--root", AFTER, option, bad)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no single kernel parameter" in done.stderr


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_an_unknown_loader_is_refused_with_the_manual_way(hostdoctor):
    paste = CASES / "acs-redirect-under-switch/input/lspci-vvv.txt"
    done = hostdoctor("fix", paste)
    assert done.returncode == 3
    assert "disable_acs_redir=" in done.stdout
    assert "No patch: which boot loader starts this host is not known" in done.stdout
    done = hostdoctor("fix", "--format", "json", paste)
    assert (done.returncode, json.loads(done.stdout)["diff"]) == (3, "")
    done = hostdoctor("fix", "--ansible", paste)
    assert (done.returncode, done.stdout) == (3, "")
    assert "no playbook" in done.stderr


@pytest.mark.parametrize("case", ["vm-flat-bus", "wsl2"])
def test_guests_get_nothing(hostdoctor, case):
    done = hostdoctor("fix", CASES / case / "input")
    assert done.returncode == 0
    assert "this is a guest" in done.stdout
    assert hostdoctor("fix", "--runtime", CASES / case / "input").stdout.startswith("Nothing to change at run time")


@pytest.mark.parametrize("mode", ["--diff", "--ansible", "--runtime", "--verify"])
@pytest.mark.parametrize("format_", ["markdown", "html"])
def test_formats_of_the_guide_alone(hostdoctor, mode, format_):
    assert hostdoctor("fix", mode, "--format", format_, "--root", AFTER).returncode == 2


# --- other forms ------------------------------------------------------------------------------------------------------


class Loader(yaml.SafeLoader):
    """YAML with Ansible's mark for texts that are no templates."""


Loader.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(node))


def playbook(hostdoctor, *arguments):
    (play,) = yaml.load(hostdoctor("fix", "--ansible", *arguments).stdout, Loader)
    return play


def test_a_playbook(hostdoctor):
    play = playbook(hostdoctor, "--root", BEFORE)
    stat, check, folder, task = play["tasks"]
    assert stat["ansible.builtin.stat"]["path"] == f"/{DROP_IN}"
    assert check["ansible.builtin.assert"]["that"].startswith(f"{stat['register']}.stat.checksum | default('') in ['', '")
    assert folder["ansible.builtin.file"] == {"path": "/etc/default/grub.d", "state": "directory"}
    assert task["ansible.builtin.copy"]["dest"] == f"/{DROP_IN}"
    assert "iommu=pt" in task["ansible.builtin.copy"]["content"]
    assert [each["ansible.builtin.shell"] for each in play["handlers"]] == ["update-grub"]
    assert {each["listen"] for each in play["handlers"]} == {task["notify"]}


def test_a_playbook_changes_the_file_that_it_was_made_for_alone(hostdoctor, host):
    root = host(BEFORE)
    (root / "etc/os-release").write_text("ID=arch\n")
    stat, check, task = playbook(hostdoctor, "--root", root)["tasks"]
    copy = task["ansible.builtin.copy"]
    old, new = (root / "etc/default/grub").read_bytes(), copy["content"].encode()
    assert [hashlib.sha256(each).hexdigest() in check["ansible.builtin.assert"]["that"] for each in (old, new)] == [True, True]
    assert stat["ansible.builtin.stat"] == {"path": copy["dest"], "checksum_algorithm": "sha256"}
    assert "mode" not in copy  # that of the file stays


def test_no_playbook_that_would_lose_bytes(hostdoctor, host):
    root = host(BEFORE)
    (root / "etc/os-release").write_text("ID=arch\n")
    with (root / "etc/default/grub").open("ab") as file:
        file.write(b"# \xe4\n")
    assert hostdoctor("fix", "--root", root).returncode == 0
    done = hostdoctor("fix", "--ansible", "--root", root)
    assert (done.returncode, done.stdout) == (3, "")
    assert "bytes that are no UTF-8" in done.stderr


def test_a_playbook_of_commands_alone(hostdoctor):
    assert [each["ansible.builtin.shell"] for each in playbook(hostdoctor, "--root", PENDING)["tasks"]] == ["update-grub"]


def test_no_playbook_for_nothing(hostdoctor):
    assert hostdoctor("fix", "--ansible", "--root", AFTER).stdout.startswith("# nothing to change")


@pytest.mark.parametrize("format_", ["text", "markdown", "html"])
def test_the_firmware_guide_in_each_format(hostdoctor, format_):
    text = hostdoctor("fix", "--firmware", "--format", format_, "--root", BEFORE).stdout
    assert "MMIO High Base" in text
    assert ("<html" in text) == (format_ == "html")


def test_what_can_be_done_at_once(hostdoctor):
    text = hostdoctor("fix", "--runtime", "--root", PENDING).stdout
    assert text.startswith("EVERYTHING HERE IS LOST AT THE NEXT RESTART")
    assert "/type" in text


# --- afterwards -------------------------------------------------------------------------------------------------------


def test_verify_a_host_that_is_cured(hostdoctor):
    done = hostdoctor("fix", "--verify", "--root", AFTER)
    assert done.returncode == 0
    assert "iommu=pt: runs" in done.stdout
    assert "Cured" in done.stdout


def test_verify_a_host_that_waits(hostdoctor):
    done = hostdoctor("fix", "--verify", "--root", PENDING)
    assert done.returncode == 1
    assert "iommu=pt (/etc/default/grub" in done.stdout.replace("\n        ", " ")
    found = json.loads(hostdoctor("fix", "--verify", "--format", "json", "--root", PENDING).stdout)
    assert [each["parameter"] for each in found["uncured"]] == ["iommu=pt"]


def test_verify_what_the_owner_names(hostdoctor):
    assert hostdoctor("fix", "--verify", "--root", AFTER, "--add", "iommu=pt").returncode == 0
    assert hostdoctor("fix", "--verify", "--root", AFTER, "--add", "pci=noaer").returncode == 1
    assert hostdoctor("fix", "--verify", "--root", AFTER, "--remove", "iommu=pt").returncode == 1


def test_verify_asks_for_the_firmware_too(hostdoctor, host):
    root = host(BEFORE)
    line = root / "proc/cmdline"
    line.write_text(f"{line.read_text().strip()} iommu=pt\n")
    for each in (root / "sys/kernel/iommu_groups").glob("*/type"):
        each.write_text("identity\n")
    done = hostdoctor("fix", "--verify", "--root", root)
    assert done.returncode == 1
    assert "MISS  firmware: MMIO High Base 56T -> 4T is still needed" in done.stdout
    assert "Not cured. hostdoctor fix --firmware tells where" in done.stdout
