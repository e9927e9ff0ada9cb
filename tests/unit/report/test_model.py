"""The JSON report: its numbers, its unknowns, and what it says of where facts come from."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hostdoctor.report.model import to_json
from tests.trees import GIB, Tree, config_space

CASES = Path(__file__).parents[2] / "cases"


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "host").common()


def as_json(scan, root):
    return json.loads(to_json(scan(root).report))


def test_the_facts_of_a_host(scan):
    host = as_json(scan, CASES / "seed-v620-before" / "input")["host"]
    assert host["kernel"] == "6.8.0-52-generic"
    assert (host["cpu_sockets"], host["functions"], host["virtualisation"]) == (2, 59, "bare-metal")
    assert [gpu["address"] for gpu in host["gpus"]] == ["0000:1a:00.0", "0000:1d:00.0", "0000:88:00.0", "0000:8b:00.0"]
    first = host["gpus"][0]
    assert (first["id"], first["driver"], first["iommu_type"], first["dma_mask_bits"]) == ("1002:73a1", "amdgpu", "DMA-FQ", 44)
    assert first["slot"] == {
        "port": "0000:17:00.0",
        "speed_gts": 8.0,
        "width": 8,
        "possible_speed_gts": 8.0,
        "possible_width": 8,
        "card_max_speed_gts": 16.0,
        "card_max_width": 16,
        "loaded_gbs": pytest.approx(7.88, abs=0.01),
    }
    assert len(host["pairs"]) == 12
    assert {(pair["p2p"], pair["condition"]) for pair in host["pairs"]} == {("fails", "bar-reach")}


def test_what_is_not_known_is_told_with_its_reason(scan, tree):
    tree.function("0000:01:00.0", id_="10DE:FFFF", driver="nvidia", numa_node="-1\n")
    report = as_json(scan, tree.root)
    found = report["host"]["gpus"][0]
    assert found["numa_node"] == {"unknown": "the firmware names no memory node for it"}
    assert found["memory_bytes"] == {"unknown": "not in this evidence"}
    assert report["host"]["board"] == {"unknown": "not in this evidence"}


def test_what_is_there_and_could_not_be_read_is_listed(scan, tree):
    tree.write("proc/iomem", "x" * (2 << 20)).folder("sys/devices/system/node/online")
    evidence = as_json(scan, tree.root)["evidence"]
    assert evidence["unread"] == [
        {"source": "/proc/iomem", "reason": "it is larger than anything this file should hold"},
        {"source": "/sys/devices/system/node/online", "reason": "it is no ordinary file"},
    ]
    assert "/proc/cmdline" in evidence["files"]
    assert not any("iomem" in path for path in evidence["files"])


@pytest.mark.parametrize(
    ("address", "size"),
    [(0, 1 << 64), ((1 << 64) - 4096, 4096), (1 << 63, 1 << 63), (1, (1 << 64) - 1)],
)
def test_addresses_at_the_end_of_the_range(scan, tree, address, size):
    tree.function(
        "0000:01:00.0", driver="amdgpu", bars=[(address, size)], config=config_space(), mem_info_vram_total=f"{30 * GIB}"
    )
    assert as_json(scan, tree.root)["host"]["gpus"][0]["address"] == "0000:01:00.0"


@pytest.mark.parametrize("text", [str((1 << 63) - 1), str(1 << 64), "9" * 400, "-1", "nan", "1e400"])
def test_numbers_at_the_end_of_the_range(scan, tree, text):
    names = ("mem_info_vram_total", "mem_info_vis_vram_total", "gpu_busy_percent", "dma_mask_bits", "numa_node")
    tree.function("0000:01:00.0", driver="amdgpu", config=config_space(), **dict.fromkeys(names, text))
    tree.function("0000:02:00.0", driver="amdgpu", config=config_space(), **dict.fromkeys(names, text))
    tree.write("proc/sys/kernel/numa_balancing", text).write("sys/devices/system/node/online", text)
    assert len(as_json(scan, tree.root)["host"]["gpus"]) == 2


def test_functions_that_contain_themselves(scan, tree):
    """A hostile tree's paths may name two functions above each other."""
    inside = tree.function("0000:01:00.0", driver="amdgpu")
    below = tree.function("0000:02:00.0", inside, class_code="60400")
    (tree.root / "sys/bus/pci/devices/0000:01:00.0").unlink()
    tree.function("0000:01:00.0", below, driver="amdgpu", config=config_space())
    assert as_json(scan, tree.root)["host"]["functions"] == 2


def test_a_bridge_that_is_not_in_the_tree_hides_nothing(scan, tree):
    address = tree.amd_cards(1)[0]
    (tree.root / "sys/bus/pci/devices/0000:00:01.0").unlink()
    (tree.root / "sys/bus/pci/devices/0000:01:00.0").unlink()
    scanned = scan(tree.root)
    assert [line.split("0000:")[1][:7] for line in scanned.tree[1:]] == ["02:00.0", "03:00.0"]
    assert [gpu.address for gpu in scanned.report.host.gpus] == [address]


def test_functions_nested_deeper_than_any_host_has_them(scan, tree):
    links = tree.folder("sys/bus/pci/devices").root / "sys/bus/pci/devices"
    at = os.open(tree.folder("sys/devices/pci0000:00").root / "sys/devices/pci0000:00", os.O_RDONLY)
    target = "../../../devices/pci0000:00"
    for number in range(300):
        address = f"{number // 256:04x}:{number % 256:02x}:00.0"
        os.mkdir(address, dir_fd=at)  # step by step, for the whole path is longer than a system call takes
        above, at = at, os.open(address, os.O_RDONLY, dir_fd=at)
        os.close(above)
        uevent = os.open("uevent", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=at)
        os.write(uevent, b"PCI_CLASS=60400\nPCI_ID=8086:2030\n")
        os.close(uevent)
        target += f"/{address}"
        (links / address).symlink_to(target)
    os.close(at)
    scanned = scan(tree.root)
    assert as_json(scan, tree.root)["host"]["functions"] == 300
    assert len(scanned.tree) == 301
