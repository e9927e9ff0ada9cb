"""Functions from small trees of /sys."""

from __future__ import annotations

import os

import pytest

from hostdoctor.evidence.files import FileEvidence
from hostdoctor.evidence.provenance import summarise
from hostdoctor.facts.pci import ENDPOINT, ROOT_PORT, Link, Window
from hostdoctor.facts.unknown import ASLEEP, NEEDS_ROOT, NOT_CAPTURED, Unknown
from hostdoctor.readers.host import read_host
from hostdoctor.readers.pci import read_functions, with_attributes
from tests import trees
from tests.trees import GIB, Tree, config_space, with_links_flattened, with_links_followed


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "host")


def functions_of(tree):
    with FileEvidence(str(tree.root)) as evidence:
        return read_functions(evidence)


def reads_of(tree):
    """Every file that a whole scan reads of functions, by address and name."""
    with FileEvidence(str(tree.root)) as evidence:
        host = read_host(evidence)
        paths = [f"{folder}/{name}" if folder else name for folder, name, problem in evidence.reads if problem is None]
    return host, {tuple(path.split("/")[-2:]) for path in paths if "/0000:" in path}


def test_identity_driver_and_place_come_from_one_read(tree):
    port = tree.function("0000:17:00.0", id_="8086:2030", class_code="60400", driver="pcieport", subsystem="15D9:0969")
    tree.function("0000:18:00.0", port, id_="15B3:1017", class_code="20000", driver="mlx5_core", numa_node="1\n")
    found = functions_of(tree)
    assert list(found) == ["0000:17:00.0", "0000:18:00.0"]
    below = found["0000:18:00.0"]
    assert (below.id, below.class_code, below.driver) == ("15b3:1017", 0x020000, "mlx5_core")
    assert (below.subsystem_vendor, below.subsystem_device) == (0x1002, 0x0E34)
    assert (below.parent, below.root, below.numa_node) == ("0000:17:00.0", "0000:17", 1)
    assert below.origin == "/sys/bus/pci/devices/0000:18:00.0"
    assert (found["0000:17:00.0"].parent, found["0000:17:00.0"].root) == (None, "0000:17")


def test_a_function_without_driver_has_none(tree):
    tree.function("0000:00:1f.0", id_="8086:A305", class_code="60100")
    assert functions_of(tree)["0000:00:1f.0"].driver is None


def test_single_files_stand_in_for_a_missing_uevent(tree):
    tree.function("0000:01:00.0", id_="15B3:1017", class_code="20000", driver="mlx5_core", uevent=None)
    found = functions_of(tree)["0000:01:00.0"]
    assert (found.id, found.class_code, found.driver) == ("15b3:1017", 0x020000, "mlx5_core")
    assert (found.subsystem_vendor, found.subsystem_device) == (0x1002, 0x0E34)


@pytest.mark.parametrize("uevent", ["", "DRIVER=x\n", "PCI_ID=zz:zz\nPCI_CLASS=zz\n", "PCI_ID=15B3:1017\n", "\0\xff" * 3000])
def test_single_files_stand_in_for_a_garbled_uevent(tree, uevent):
    tree.function("0000:01:00.0", id_="15B3:1017", class_code="20000", uevent=uevent)
    found = functions_of(tree)["0000:01:00.0"]
    assert (found.id, found.class_code) == ("15b3:1017", 0x020000)
    assert isinstance(found.driver, Unknown), "nobody copied the link, or there is none"


def test_a_memory_node_that_is_unsaid_or_missing_is_unknown(tree):
    tree.function("0000:01:00.0", numa_node="-1\n", class_code="20000")
    tree.function("0000:02:00.0", numa_node=None, class_code="20000")
    tree.function("0000:03:00.0", numa_node="none", class_code="20000")
    nodes = [function.numa_node for function in functions_of(tree).values()]
    assert nodes[0] == Unknown("the firmware names no memory node for it")
    assert nodes[1] is NOT_CAPTURED
    assert isinstance(nodes[2], Unknown)


def test_a_domain_behind_vmd_begins_a_root_bus_of_its_own(tree):
    vmd = tree.function("0000:e2:00.5", id_="8086:201D", class_code="10400", driver="vmd")
    port = tree.function("10000:e0:02.0", f"{vmd}/pci10000:e0", id_="8086:347A", class_code="60400", driver="pcieport")
    tree.function("10000:e1:00.0", port, id_="144D:A80A", class_code="10802", driver="nvme")
    found = functions_of(tree)
    assert list(found) == ["0000:e2:00.5", "10000:e0:02.0", "10000:e1:00.0"]
    assert (found["10000:e0:02.0"].parent, found["10000:e0:02.0"].root) == (None, "10000:e0")
    assert (found["10000:e1:00.0"].parent, found["10000:e1:00.0"].root) == ("10000:e0:02.0", "10000:e0")


def test_a_host_bridge_may_lie_below_a_platform_device(tree):
    tree.function("0000:01:00.0", "sys/devices/platform/axi/1000110000.pcie/pci0000:00/0000:00:00.0", class_code="20000")
    found = functions_of(tree)["0000:01:00.0"]
    assert (found.parent, found.root) == ("0000:00:00.0", "0000:00")


def test_bars_and_windows(tree):
    tree.function("0000:00:01.0", class_code="60400", windows=[(0x10_0000_0000, GIB)])
    tree.function("0000:01:00.0", class_code="20000", bars=[(0x10_0000_0000, GIB), (0x10_4000_0000, 4096)])
    found = functions_of(tree)
    assert found["0000:00:01.0"].windows == (Window("prefetchable", 0x10_0000_0000, 0x10_3FFF_FFFF),)
    assert [(bar.index, bar.address, bar.size_bytes) for bar in found["0000:01:00.0"].bars] == [
        (0, 0x10_0000_0000, GIB),
        (2, 0x10_4000_0000, 4096),
    ]


def test_a_missing_resource_file_leaves_bars_unknown(tree):
    tree.function("0000:01:00.0", class_code="20000", resource=None)
    assert functions_of(tree)["0000:01:00.0"].bars is NOT_CAPTURED


def test_config_space_gives_port_type_link_and_acs(tree):
    config = config_space(port_type=ROOT_PORT, header_type=1, speed=3, width=8, acs=0x1D)
    tree.function("0000:00:01.0", class_code="60400", config=config)
    found = functions_of(tree)["0000:00:01.0"]
    assert found.express.port_type == ROOT_PORT
    assert found.link == Link(8.0, 8, 16.0, 16)
    assert found.acs.redirects


def test_the_sixty_four_bytes_of_ordinary_users_need_root(tree):
    tree.function("0000:01:00.0", class_code="20000", config=config_space(size=64))
    tree.function(
        "0000:02:00.0", config=config_space(size=64), **trees.link_attributes("16.0 GT/s PCIe", "16", "16.0 GT/s PCIe", "16")
    )
    found = functions_of(tree)["0000:01:00.0"]
    assert found.express is NEEDS_ROOT
    assert found.link is NEEDS_ROOT
    host, _ = reads_of(tree)
    assert not host.privileged
    assert host.functions["0000:02:00.0"].express is NEEDS_ROOT
    assert host.functions["0000:02:00.0"].link == Link(16.0, 16, 16.0, 16)


def test_what_sleeps_is_left_alone(tree):
    links = trees.link_attributes("2.5 GT/s PCIe", "16", "16.0 GT/s PCIe", "16")
    port = tree.function(
        "0000:00:01.0", class_code="60400", config=config_space(port_type=ROOT_PORT), runtime_status="suspended\n", **links
    )
    tree.function(
        "0000:01:00.0",
        port,
        driver="amdgpu",
        config=config_space(),
        runtime_status="suspended\n",
        power_state="D3cold\n",
        mem_info_vram_total="1\n",
        gpu_busy_percent="0\n",
        resource0_resize="1\n",
        dma_mask_bits="44\n",
        **links,
    )
    tree.function("0000:02:00.0", class_code="20000", config=config_space(), runtime_status="suspending\n")
    tree.function("0000:03:00.0", class_code="20000", config=config_space(), runtime_status=None, power_state="D3hot\n")
    tree.function("0000:04:00.0", class_code="20000", config=config_space(), runtime_status="active\n")
    host, reads = reads_of(tree)
    touching = {
        "config",
        "current_link_width",
        "current_link_speed",
        "mem_info_vram_total",
        "gpu_busy_percent",
        "resource0_resize",
    }
    assert {address for address, name in reads if name in touching} == {"0000:04:00.0"}
    for address in ("0000:00:01.0", "0000:01:00.0", "0000:02:00.0", "0000:03:00.0"):
        assert host.functions[address].asleep
        assert host.functions[address].config is ASLEEP
        assert host.functions[address].link is ASLEEP
    assert host.functions["0000:04:00.0"].express.port_type == ENDPOINT
    assert host.gpu_facts["0000:01:00.0"].vram_bytes is ASLEEP
    # What sysfs knows without asking the device is still read.
    assert host.functions["0000:01:00.0"].driver == "amdgpu"
    assert ("0000:01:00.0", "uevent") in reads


@pytest.mark.parametrize("status", ["active\n", "unsupported\n", "error\n", None])
def test_what_does_not_sleep_is_read(tree, status):
    tree.function("0000:01:00.0", class_code="20000", config=config_space(), runtime_status=status)
    assert functions_of(tree)["0000:01:00.0"].express.port_type == ENDPOINT


def test_virtual_functions_of_gpus_are_told_apart(tree):
    tree.function("0000:03:00.0", driver="amdgpu")
    virtual = tree.function("0000:03:02.0", driver="amdgpu")
    tree.link(f"{virtual}/physfn", "sys/devices/pci0000:03/0000:03:00.0")
    found = functions_of(tree)
    assert [function.is_virtual_function for function in found.values()] == [False, True]


def test_without_links_to_groups_their_lists_tell(tree):
    for address in ("0000:01:00.0", "0000:02:00.0"):
        tree.function(address, class_code="20000")
    tree.write("sys/kernel/iommu_groups/4/type", "DMA\n").write("sys/kernel/iommu_groups/4/devices/0000:01:00.0", "")
    found = functions_of(tree)
    assert [(each.iommu_group, each.iommu_type) for each in found.values()] == [("4", "DMA"), (None, None)]


@pytest.mark.parametrize(("units", "known"), [((), True), (("ivhd0",), False), (None, False)])
def test_without_links_and_lists_only_an_empty_list_of_units_tells(tree, units, known):
    tree.function("0000:01:00.0", class_code="20000")
    if units is not None:
        (tree.root / "sys/class/iommu").mkdir(parents=True)
        for unit in units:
            tree.write(f"sys/class/iommu/{unit}/uevent", "")
    found = functions_of(tree)["0000:01:00.0"]
    assert (found.iommu_group is None, found.iommu_type is None) == (known, known)


def test_a_mode_the_kernel_does_not_know_is_unknown(tree):
    tree.function("0000:01:00.0", class_code="20000", group="1")
    tree.write("sys/kernel/iommu_groups/1/type", "unknown\n")
    assert isinstance(functions_of(tree)["0000:01:00.0"].iommu_type, Unknown)


def test_groups_and_the_types_of_their_domains(tree):
    tree.function("0000:01:00.0", class_code="20000", group="1")
    tree.function("0000:02:00.0", class_code="20000", group="2")
    tree.function("0000:03:00.0", class_code="20000", group="7")
    tree.function("0000:04:00.0", class_code="20000")
    tree.write("sys/kernel/iommu_groups/1/type", "identity\n").write("sys/kernel/iommu_groups/2/type", "DMA-FQ\n")
    found = functions_of(tree)
    assert [function.iommu_group for function in found.values()] == ["1", "2", "7", None]
    assert [function.iommu_type for function in found.values()] == ["identity", "DMA-FQ", NOT_CAPTURED, None]


def test_a_group_that_climbs_is_not_followed(tree, tmp_path):
    (tmp_path / "type").write_text("outside")
    folder = tree.function("0000:01:00.0", class_code="20000")
    (tree.root / folder / "iommu_group").symlink_to("x/..")
    (tree.root / "sys/kernel").mkdir()
    (tree.root / "sys/kernel/iommu_groups").symlink_to("/")
    assert isinstance(functions_of(tree)["0000:01:00.0"].iommu_type, Unknown)


def test_flattened_links_give_the_same_functions(tree, tmp_path):
    tree.amd_cards(2)
    flattened = Tree(with_links_flattened(tree.root, tmp_path / "copy"))
    assert functions_of(flattened) == functions_of(tree)


def test_followed_links_leave_the_place_unknown(tree, tmp_path):
    gpu = tree.amd_cards(1)[0]
    found = functions_of(Tree(with_links_followed(tree.root, tmp_path / "copy")))
    assert list(found) == list(functions_of(tree))
    assert (found[gpu].id, found[gpu].parent, found[gpu].root) == ("1002:73a1", NOT_CAPTURED, NOT_CAPTURED)


def test_a_function_whose_folder_is_not_in_the_tree_is_told(tree):
    tree.function("0000:01:00.0", class_code="20000")
    (tree.root / "sys/bus/pci/devices/0000:02:00.0").symlink_to("../../../devices/pci0000:02/0000:02:00.0")
    with FileEvidence(str(tree.root)) as evidence:
        assert list(read_functions(evidence)) == ["0000:01:00.0"]
        assert summarise(evidence.reads)[1] == [("/sys/bus/pci/devices/*", "it is listed, but what it leads to is not there")]


@pytest.mark.parametrize(
    "name", ["0000:01:00.8", "0000:01:20.0", "0000:1:00.0", "01:00.0", "x", "0000:01:00.0\n", "0000:01:00.0 "]
)
def test_names_that_are_no_addresses_are_passed_over(tree, name):
    tree.function("0000:02:00.0", class_code="20000")
    (tree.root / "sys/bus/pci/devices" / name).symlink_to("../../../devices/pci0000:02/0000:02:00.0")
    assert list(functions_of(tree)) == ["0000:02:00.0"]


def test_without_functions_it_is_said_why(tree):
    assert functions_of(tree) is NOT_CAPTURED
    tree.folder("sys/bus/pci/devices")
    assert functions_of(tree) == Unknown("no PCI functions in this evidence")


def test_attributes_say_more_than_config_space(tree):
    tree.function(
        "0000:00:01.0",
        class_code="60400",
        config=config_space(size=64),
        **trees.link_attributes("Unknown", "8", "8.0 GT/s PCIe", "16"),
    )
    with FileEvidence(str(tree.root)) as evidence:
        port = with_attributes(evidence, read_functions(evidence)["0000:00:01.0"])
    assert (port.link.current_width, port.link.max_speed_gts, port.link.max_width) == (8, 8.0, 16)
    assert isinstance(port.link.current_speed_gts, Unknown)


def test_what_an_amd_driver_serves(tree):
    tree.function(
        "0000:01:00.0",
        driver="amdgpu",
        config=config_space(),
        dma_mask_bits="44\n",
        mem_info_vram_total=f"{30 * GIB}\n",
        mem_info_vis_vram_total=f"{GIB // 4}\n",
        gpu_busy_percent="7\n",
        pp_dpm_pcie="0: 2.5GT/s, x16\n",
        resource0_resize="000000000003f000\n",
    )
    host, _ = reads_of(tree)
    facts = host.gpu_facts["0000:01:00.0"]
    assert (facts.vram_bytes, facts.visible_vram_bytes, facts.busy_percent) == (30 * GIB, GIB // 4, 7)
    assert facts.link_levels == "0: 2.5GT/s, x16"
    assert set(facts.bar_sizes_bytes) == {0}
    assert host.functions["0000:01:00.0"].dma_mask_bits == 44


@pytest.mark.parametrize("text", ["", "many", "0x10", "9" * 30, "9" * 5000, "-" + "9" * 30, "1e3"])
def test_numbers_no_kernel_writes_are_unknown(tree, text):
    tree.function("0000:01:00.0", driver="amdgpu", config=config_space(), mem_info_vram_total=text)
    host, _ = reads_of(tree)
    assert isinstance(host.gpu_facts["0000:01:00.0"].vram_bytes, Unknown)


def test_kfd_is_asked_only_where_an_amd_gpu_is(tree):
    node = "sys/class/kfd/kfd/topology/nodes"
    tree.write(f"{node}/0/properties", "cpu_cores_count 16\nsimd_count 0\n")
    tree.write(f"{node}/1/properties", "simd_count 144\nlocation_id 256\ndomain 0\nvendor_id 4098\n")
    tree.write(f"{node}/1/io_links/0/properties", "type 2\nnode_from 1\nnode_to 0\nflags 1\n")
    tree.function("0000:01:00.0", id_="10DE:2230", class_code="30000", driver="nvidia")
    host, _ = reads_of(tree)
    assert host.kfd is None
    tree.function("0000:02:00.0", driver="amdgpu")
    host, _ = reads_of(tree)
    assert [kfd_node.number for kfd_node in host.kfd.nodes] == [0, 1]
    assert [(link.node_from, link.node_to, link.peer) for link in host.kfd.links] == [(1, 0, False)]
    os.remove(tree.root / node / "1/properties")
    assert isinstance(reads_of(tree)[0].kfd, Unknown)


def test_virtual_functions_of_network_cards_are_told_from_physical_ones(tree):
    physical = tree.function("0000:51:00.0", id_="15B3:1021", class_code="20000")
    virtual = tree.function("0000:51:00.2", id_="15B3:101E", class_code="20000")
    tree.link(f"{virtual}/physfn", physical)
    found = functions_of(tree)
    assert [each.is_virtual_function for each in found.values()] == [False, True]
