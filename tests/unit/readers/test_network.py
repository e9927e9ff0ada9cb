"""Network interfaces and RDMA devices, by the links that name their functions."""

from __future__ import annotations

import pytest

from hostdoctor.evidence.files import FileEvidence
from hostdoctor.facts.driver import NetworkDevice
from hostdoctor.facts.unknown import Unknown
from hostdoctor.readers.host import read_host
from hostdoctor.readers.network import ask_ethtool, read_network, with_asked_speeds
from tests.trees import Tree, with_links_flattened

NIC = "0000:51:00.0"


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "host").common()


def network_of(tree, kind="root"):
    with FileEvidence(str(tree.root), kind) as evidence:
        return read_network(evidence)


def interface(tree, name="eth0", address=NIC, below="", **files):
    folder = tree.function(address, id_="15B3:1021", class_code="20000", driver="mlx5_core")
    place = f"{folder}{below}/net/{name}"
    for file, content in {"operstate": "up\n", "speed": "200000\n", **files}.items():
        tree.write(f"{place}/{file}", content)
    tree.link(f"{place}/device", f"{folder}{below}").link(f"sys/class/net/{name}", place)
    return folder


def rdma(tree, folder, name="mlx5_0"):
    tree.folder(f"{folder}/infiniband/{name}").link(f"sys/class/infiniband/{name}", f"{folder}/infiniband/{name}")


@pytest.mark.parametrize("kind", ["root", "live"])
def test_an_interface_and_its_rdma_device(tree, kind):
    rdma(tree, interface(tree))
    tree.folder("sys/devices/virtual/net/lo").link("sys/class/net/lo", "sys/devices/virtual/net/lo")
    assert network_of(tree, kind) == (NetworkDevice("eth0", NIC, 200_000, True, ("mlx5_0",)),)


def test_a_device_between_function_and_interface(tree):
    interface(tree, below="/virtio3")
    assert [each.address for each in network_of(tree)] == [NIC]


def test_an_rdma_device_without_an_interface(tree):
    tree.folder("sys/class/net")
    rdma(tree, tree.function(NIC, id_="15B3:1021", class_code="20700"))
    assert network_of(tree) == (NetworkDevice("mlx5_0", NIC, rdma=("mlx5_0",)),)


@pytest.mark.parametrize(
    ("files", "up"),
    [({"operstate": "down\n"}, False), ({"speed": "-1\n"}, True), ({"speed": "fast\n"}, True), ({"speed": ""}, True)],
)
def test_speeds_that_are_none(tree, files, up):
    interface(tree, **files)
    (found,) = network_of(tree)
    assert isinstance(found.speed_mbits, Unknown)
    assert found.up is up


def test_links_that_became_small_files(tree, tmp_path):
    interface(tree)
    flat = Tree(with_links_flattened(tree.root, tmp_path / "flat"))
    assert network_of(flat) == network_of(tree)


def test_a_copy_with_folders_in_place_of_links_names_by_device(tmp_path):
    tree = Tree(tmp_path / "host").write("sys/class/net/eth0/operstate", "up\n").write("sys/class/net/eth0/speed", "1000\n")
    tree.folder(f"sys/devices/pci0000:51/{NIC}").link("sys/class/net/eth0/device", f"sys/devices/pci0000:51/{NIC}")
    assert network_of(tree) == (NetworkDevice("eth0", NIC, 1000, True),)


def test_no_network_in_the_evidence_is_unknown(tree):
    assert isinstance(network_of(tree), Unknown)


def test_read_only_where_there_are_gpus(tree):
    interface(tree)
    with FileEvidence(str(tree.root)) as evidence:
        assert isinstance(read_host(evidence).network, Unknown)
    tree.function("0000:41:00.0", driver="amdgpu")
    with FileEvidence(str(tree.root)) as evidence:
        assert [each.name for each in read_host(evidence).network] == ["eth0"]


SILENT = Unknown("the driver gives no speed")


@pytest.mark.parametrize(
    ("device", "asked"),
    [
        (NetworkDevice("eth0", NIC, SILENT, True, ("mlx5_0",)), True),
        (NetworkDevice("eth0", NIC, 100_000, True, ("mlx5_0",)), False),
        (NetworkDevice("eth0", NIC, SILENT, False, ("mlx5_0",)), False),
        (NetworkDevice("eth0", NIC, SILENT, True), False),
    ],
)
def test_the_kernel_is_asked_only_for_rdma_cards_whose_speed_is_not_known(device, asked):
    questions = []

    def ask(names):
        questions.append(names)
        return {"eth0": 400_000}

    (found,) = with_asked_speeds((device,), ask)
    assert questions == ([["eth0"]] if asked else [])
    assert found.speed_mbits == (400_000 if asked else device.speed_mbits)


def test_an_answer_that_is_none_changes_nothing():
    device = NetworkDevice("eth0", NIC, SILENT, True, ("mlx5_0",))
    assert with_asked_speeds((device,), lambda names: SILENT) == (device,)
    assert with_asked_speeds((device,), lambda names: {}) == (device,)
    assert with_asked_speeds(SILENT, lambda names: {"eth0": 1}) is SILENT


def test_interfaces_that_are_not_there_have_no_speed():
    answer = ask_ethtool(["no-such-interface", "lo"], 30.0)
    assert isinstance(answer, Unknown) or answer == {}
