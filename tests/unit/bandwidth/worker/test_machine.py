"""What a worker is told of the host by the kernel."""

from __future__ import annotations

import ctypes
import os

import pytest

from hostdoctor.bandwidth.machine import Machine

GPU = "0000:41:00.0"


@pytest.fixture
def sysfs(tmp_path):
    (tmp_path / "bus/pci/devices" / GPU).mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(("text", "node"), [("1\n", 1), ("-1\n", None), ("", None), ("x", None)])
def test_the_node_of_a_gpu(sysfs, text, node):
    (sysfs / "bus/pci/devices" / GPU / "numa_node").write_text(text)
    assert Machine(str(sysfs)).numa_node(GPU) == node
    assert Machine(str(sysfs)).numa_node("0000:99:00.0") is None


@pytest.mark.parametrize(("config", "answers"), [(b"\xde\x10\x04\x22", True), (b"\xff" * 64, False), (b"", False)])
def test_whether_a_gpu_answers(sysfs, config, answers):
    (sysfs / "bus/pci/devices" / GPU / "config").write_bytes(config)
    assert Machine(str(sysfs)).answers(GPU) is answers
    assert Machine(str(sysfs)).answers("0000:99:00.0") is False


def test_a_device_file(tmp_path):
    (tmp_path / "kfd").touch()
    assert not Machine(devices=str(tmp_path)).may_not_open("kfd")
    assert not Machine(devices=str(tmp_path)).may_not_open("nothing")


@pytest.fixture
def processors():
    before = os.sched_getaffinity(0)
    yield before
    os.sched_setaffinity(0, before)


def test_the_processors_of_a_node(sysfs, processors):
    folder = sysfs / "devices/system/node/node5000"
    folder.mkdir(parents=True)
    one = min(processors)
    (folder / "cpulist").write_text(f"{one},4999\n")
    assert Machine(str(sysfs)).stay_at(5000)  # past the last node that can be: its processors alone
    assert os.sched_getaffinity(0) == {one}


@pytest.mark.parametrize("text", ["", "4999\n", "nonsense"])
def test_a_node_whose_processors_this_process_has_not(sysfs, processors, text):
    (sysfs / "devices/system/node/node5000").mkdir(parents=True)
    (sysfs / "devices/system/node/node5000/cpulist").write_text(text)
    assert not Machine(str(sysfs)).stay_at(5000)
    assert os.sched_getaffinity(0) == processors


def test_the_node_of_memory():
    block = ctypes.create_string_buffer(b"x" * 4096)
    node = Machine().node_of(ctypes.addressof(block))
    assert node is None or os.path.isdir(f"/sys/devices/system/node/node{node}")
    assert Machine().node_of(0) is None
