"""What NVIDIA's driver tells of itself, merged into what sysfs tells."""

from __future__ import annotations

import pytest

from hostdoctor.evidence.files import FileEvidence
from hostdoctor.facts.unknown import Unknown
from hostdoctor.readers.host import read_host
from tests.trees import Tree

GPU = "0000:41:00.0"
INFORMATION = "Model: \t\t X\nGPU UUID: \t GPU-11111111-2222-3333-4444-555555555555\nDMA Size: \t 47 bits\n"


@pytest.fixture
def tree(tmp_path):
    tree = Tree(tmp_path / "host").common().folder("sys/module/nvidia")
    tree.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.127.05  Tue Oct\n")
    tree.write("proc/driver/nvidia/params", 'EnableResizableBar: 0\nRegistryDwords: "ForceP2P=0x11"\n')
    return tree.write(f"proc/driver/nvidia/gpus/{GPU}/information", INFORMATION)


def host_of(tree, driver="nvidia", **attributes):
    tree.function(GPU, id_="10DE:2231", class_code="30000", driver=driver, **attributes)
    with FileEvidence(str(tree.root)) as evidence:
        return read_host(evidence), [name for _, name, _ in evidence.reads]


def test_version_parameters_and_address_bits(tree):
    host, _ = host_of(tree)
    module = host.modules["nvidia"]
    assert module.version == "550.127.05"
    assert module.parameters == {"EnableResizableBar": "0", "RegistryDwords": "ForceP2P=0x11"}
    assert host.functions[GPU].dma_mask_bits == 47


def test_sysfs_comes_first(tree):
    tree.write("sys/module/nvidia/version", "550.1\n")
    host, names = host_of(tree, dma_mask_bits="40\n")
    assert host.modules["nvidia"].version == "550.1"
    assert host.functions[GPU].dma_mask_bits == 40
    assert not [name for name in names if "information" in name]


def test_the_uuid_is_not_kept(tree):
    assert "11111111" not in repr(host_of(tree)[0])


@pytest.mark.parametrize(("driver", "attributes"), [("nouveau", {}), ("nvidia", {"runtime_status": "suspended\n"})])
def test_another_driver_or_a_sleeping_gpu_is_not_asked(tree, driver, attributes):
    host, names = host_of(tree, driver, **attributes)
    assert isinstance(host.functions[GPU].dma_mask_bits, Unknown)
    assert not [name for name in names if "information" in name]


def test_a_driver_that_says_nothing(tree):
    for name in ("version", "params"):
        (tree.root / "proc/driver/nvidia" / name).unlink()
    assert host_of(tree)[0].modules["nvidia"].parameters == {}
