"""The kernel, its modules, the processor, firmware, memory nodes and IOMMU units."""

from __future__ import annotations

import gzip
import os
import tempfile
from pathlib import Path

import pytest

from hostdoctor.evidence.files import FileEvidence
from hostdoctor.facts.host import KernelVersion
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.readers.host import read_host
from hostdoctor.readers.platform import read_boot, read_firmware, read_iommu, read_memory_map, read_modules, read_numa
from tests.trees import Tree, as_nobody

CONFIG = "# CONFIG_EXPERT is not set\nCONFIG_PCI_P2PDMA=y\nCONFIG_HSA_AMD=y\n# CONFIG_HSA_AMD_P2P is not set\n"
RELEASE = "6.8.0-52-generic"


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "host").common()


def ask(tree, reader, *arguments, kind="root", **options):
    with FileEvidence(str(tree.root), kind) as evidence:
        return reader(evidence, *arguments, **options)


def test_the_kernel_and_its_command_line(tree):
    tree.write("proc/cmdline", "root=/dev/sda1 iommu=pt -- single\n")
    boot = ask(tree, read_boot, with_config=False)
    assert (boot.release, boot.version) == (RELEASE, KernelVersion(6, 8))
    assert boot.command_line == "root=/dev/sda1 iommu=pt -- single"
    assert [(each.name, each.value) for each in boot.parameters] == [("root", "/dev/sda1"), ("iommu", "pt")]
    assert [each.name for each in boot.init_arguments] == ["single"]
    assert (boot.distribution, boot.distribution_id) == ("Debian GNU/Linux 13 (trixie)", "debian")
    assert boot.config is NOT_CAPTURED


def test_nothing_known_of_the_kernel(tmp_path):
    boot = ask(Tree(tmp_path / "empty"), read_boot, with_config=True)
    assert {boot.release, boot.version, boot.command_line, boot.config, boot.distribution} == {NOT_CAPTURED}


def test_os_release_from_usr_where_etc_has_none(tree):
    (tree.root / "etc/os-release").unlink()
    tree.write("usr/lib/os-release", "ID=arch\n")
    assert ask(tree, read_boot, with_config=False).distribution_id == "arch"


@pytest.mark.parametrize("path", [f"boot/config-{RELEASE}", f"lib/modules/{RELEASE}/config", "proc/config.gz"])
def test_the_configuration_of_the_kernel(tree, path):
    tree.write(path, gzip.compress(CONFIG.encode()) if path.endswith(".gz") else CONFIG)
    boot = ask(tree, read_boot, with_config=True)
    assert boot.config["CONFIG_PCI_P2PDMA"] == "y"
    assert boot.config["CONFIG_HSA_AMD_P2P"] == "n"
    assert boot.config_source == f"/{path}"
    assert "CONFIG_EXPERT" not in boot.config


def test_the_configuration_of_another_kernel_is_not_taken(tree):
    tree.write("boot/config-6.12.0", CONFIG)
    boot = ask(tree, read_boot, with_config=True)
    assert (boot.config, boot.config_source) == (NOT_CAPTURED, "")


@pytest.mark.parametrize("release", ["../../etc/passwd", "/etc/passwd", "6.8/../x", "6.8\0", "6" * 5000])
def test_a_release_is_no_path(tree, release):
    tree.write("proc/sys/kernel/osrelease", release).write("etc/passwd", CONFIG).write("boot/x", CONFIG)
    assert isinstance(ask(tree, read_boot, with_config=True).config, Unknown)


def test_a_configuration_that_may_not_be_read_is_not_called_missing():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        tree = Tree(Path(folder, "host")).common().write(f"boot/config-{RELEASE}", CONFIG)
        (tree.root / f"boot/config-{RELEASE}").chmod(0)

        def reason():
            return ask(tree, read_boot, with_config=True).config.reason.encode()

        found = as_nobody(reason)
    assert found == f"/boot/config-{RELEASE}: no permission to read it".encode()


def test_modules_with_and_without_pcie_p2p(tree):
    tree.write("sys/module/amdgpu/parameters/pcie_p2p", "Y\n").write("sys/module/amdgpu/parameters/runpm", "-1\n")
    tree.write("sys/module/nvidia/version", "580.105.08\n").folder("sys/module/radeon").folder("sys/module/loop")
    modules = ask(tree, read_modules)
    assert set(modules) == {"amdgpu", "nvidia", "radeon"}
    assert modules["amdgpu"].parameters == {"pcie_p2p": "Y", "runpm": ""}
    assert modules["amdgpu"].version is None
    assert (modules["nvidia"].version, modules["nvidia"].parameters) == ("580.105.08", {})
    (tree.root / "sys/module/amdgpu/parameters/pcie_p2p").unlink()
    assert ask(tree, read_modules)["amdgpu"].parameters == {"runpm": ""}


def test_modules_that_nobody_copied_are_unknown(tree):
    assert ask(tree, read_modules) is NOT_CAPTURED
    tree.folder("sys/module")
    assert ask(tree, read_modules) == {}


@pytest.mark.parametrize(("online", "nodes"), [("0\n", (0,)), ("0-1\n", (0, 1)), ("0,2-3\n", (0, 2, 3))])
def test_memory_nodes(tree, online, nodes):
    tree.write("sys/devices/system/node/online", online).write("proc/sys/kernel/numa_balancing", "1\n")
    numa = ask(tree, read_numa)
    assert (numa.nodes, numa.balancing) == (nodes, 1)


def test_memory_nodes_that_are_unknown(tree):
    numa = ask(tree, read_numa)
    assert (numa.nodes, numa.balancing) == (NOT_CAPTURED, NOT_CAPTURED)
    tree.write("sys/devices/system/node/online", "all\n")
    assert isinstance(ask(tree, read_numa).nodes, Unknown)


def test_remapping_units(tree):
    tree.folder("sys/class/iommu/dmar0").folder("sys/class/iommu/dmar1")
    assert ask(tree, read_iommu).units == ("dmar0", "dmar1")


def test_an_iommu_that_is_off(tree):
    tree.folder("sys/class/iommu")
    assert ask(tree, read_iommu).units == ()


def test_a_missing_class_tells_on_a_live_host_only(tree):
    assert ask(tree, read_iommu).units is NOT_CAPTURED
    assert ask(tree, read_iommu, kind="live").units == ()


def test_the_memory_map(tree):
    tree.write("proc/iomem", "00001000-0009ffff : System RAM\n100000000-1ffffffff : PCI Bus 0000:17\n")
    aperture = ask(tree, read_memory_map).apertures[0]
    assert (aperture.root, aperture.size_bytes) == ("0000:17", 4 << 30)
    assert ask(tree, read_memory_map).memory_end == 0x9FFFF
    (tree.root / "proc/iomem").unlink()
    assert ask(tree, read_memory_map).apertures is NOT_CAPTURED


def test_firmware_strings(tree):
    tree.write("sys/devices/virtual/dmi/id/board_name", "X11DPG-QT\n").link("sys/class/dmi/id", "sys/devices/virtual/dmi/id")
    firmware = ask(tree, read_firmware)
    assert (firmware.board_name, firmware.board_vendor) == ("X11DPG-QT", NOT_CAPTURED)


def test_serial_numbers_are_never_opened(tree):
    secret = ("product_serial", "product_uuid", "board_serial", "chassis_serial", "board_asset_tag", "chassis_asset_tag")
    for name in (*secret, "sys_vendor", "product_name", "board_name", "bios_version"):
        tree.write(f"sys/class/dmi/id/{name}", "SN-0123456789")
    tree.amd_cards(1)
    with FileEvidence(str(tree.root)) as evidence:
        read_host(evidence)
        tried = {path.rpartition("/")[2] for _, path, _ in evidence.reads}
    assert "board_name" in tried
    assert not tried & set(secret)
