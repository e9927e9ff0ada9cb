"""Who uses the GPUs: by device files, by AMD's driver, by NVIDIA's library."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hostdoctor.bandwidth.occupied import users
from tests.standins import libraries
from tests.trees import Tree

GPU, OTHER = "0000:11:00.0", "0000:21:00.0"


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def process(tree, number, name, *files):
    tree.write(f"proc/{number}/comm", f"{name}\n").folder(f"proc/{number}/fd")
    for at, target in enumerate(files):
        (tree.root / f"proc/{number}/fd/{at}").symlink_to(target)


def test_only_device_files_of_these_gpus_count(tree):
    for number, gpu in ((128, GPU), (129, OTHER)):
        tree.folder(f"sys/devices/pci0000:00/{gpu}/drm/renderD{number}")
        tree.link(f"sys/devices/pci0000:00/{gpu}/drm/renderD{number}/device", f"sys/devices/pci0000:00/{gpu}")
        tree.link(f"sys/class/drm/renderD{number}", f"sys/devices/pci0000:00/{gpu}/drm/renderD{number}")
    process(tree, 10, "Xorg", "/dev/null", "/dev/dri/card1", "/dev/dri/renderD128")
    process(tree, 11, "firefox", "/dev/dri/renderD129")
    process(tree, 12, "python3", "/dev/nvidia0", "/dev/nvidiactl")
    process(tree, 13, "nvtop", "/dev/nvidiactl")
    found = users(str(tree.root), {GPU}, ask_nvml=False)
    assert [(user.number, user.name, user.what) for user in found] == [
        (10, "Xorg", "has /dev/dri/renderD128 open"),
        (12, "python3", "has /dev/nvidia0 open"),
    ]


def test_amds_driver_names_those_that_compute(tree):
    tree.folder("sys/class/kfd/kfd/proc/4242")
    process(tree, 4242, "ollama")
    (user,) = users(str(tree.root), {GPU}, ask_nvml=False)
    assert (user.number, user.name) == (4242, "ollama")


def test_nothing_readable_is_nobody(tmp_path):
    assert users(str(tmp_path), {GPU}, ask_nvml=False) == []


@pytest.mark.skipif(bool(libraries.why_no_compiler()), reason="there is no C compiler here")
@pytest.mark.parametrize(("lines", "expected"), [("process = 4242", "[4242]"), ("", "[]"), ("error = 999", "[]")])
def test_nvidias_library_names_those_that_compute(tmp_path, tree, lines, expected):
    libraries.compile_nvml(tmp_path / "library")
    (tmp_path / "scenario.ini").write_text(f"[gpu {GPU}]\n{lines}\n")
    question = "import sys; from hostdoctor.bandwidth.occupied import users"
    question += "; print([user.number for user in users(sys.argv[1], {sys.argv[2]}, ask_nvml=True)])"
    variables = {"LD_LIBRARY_PATH": str(tmp_path / "library"), "STANDIN_SCENARIO": str(tmp_path / "scenario.ini")}
    done = subprocess.run(
        [sys.executable, "-c", question, tree.root, GPU], env=variables, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == expected
