"""Error counters, from the files of the functions they are counted for and of no other."""

from __future__ import annotations

import pytest

from hostdoctor.evidence.files import FileEvidence
from hostdoctor.facts.driver import ErrorCounters
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.readers.errors import read_counters
from hostdoctor.readers.host import read_host
from tests.trees import Tree

NONE = "RxErr 0\nTOTAL_ERR 0\n"
QUIET = {"aer_dev_correctable": NONE, "aer_dev_nonfatal": NONE, "aer_dev_fatal": NONE}
PORT, GPU, NIC, DRIVE, OTHER = "0000:40:01.0", "0000:41:00.0", "0000:51:00.0", "0000:61:00.0", "0000:71:00.0"


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "host").common()


def host_of(tree):
    with FileEvidence(str(tree.root)) as evidence:
        return read_host(evidence), [name for _, name, _ in evidence.reads]


def card(tree, port=QUIET, gpu=QUIET, driver="amdgpu", **more):
    folder = tree.function(PORT, id_="1022:1483", class_code="60400", **port)
    return tree.function(GPU, folder, id_="1002:73A1", driver=driver, **gpu, **more)


def test_gpus_ports_above_them_network_cards_and_drives(tree):
    card(tree, port={**QUIET, "aer_dev_correctable": "RxErr 3\nBadTLP 0\nTOTAL_ERR_COR 3\n"})
    tree.function(NIC, id_="15B3:1021", class_code="20000", **{**QUIET, "aer_dev_fatal": "DLP 1\n"})
    tree.function(DRIVE, id_="144D:A808", class_code="10802", **{**QUIET, "aer_dev_nonfatal": "CmpltTO 2\n"})
    tree.function(OTHER, id_="8086:1234", class_code="C0330", **QUIET)
    tree.function("0000:72:00.0", id_="8086:2725", class_code="28000", **QUIET)  # Wi-Fi
    host, _ = host_of(tree)
    assert host.error_counters == {
        PORT: ErrorCounters(PORT, correctable={"RxErr": 3}),
        GPU: ErrorCounters(GPU),
        NIC: ErrorCounters(NIC, fatal={"DLP": 1}),
        DRIVE: ErrorCounters(DRIVE, nonfatal={"CmpltTO": 2}),
    }


def test_ports_above_no_gpu_are_not_read(tree):
    tree.function(PORT, id_="1022:1483", class_code="60400", **QUIET)
    _, names = host_of(tree)
    assert not [name for name in names if name.startswith("aer_")]


def test_a_port_above_several_gpus_is_read_once(tree):
    port = tree.function(PORT, id_="1022:1483", class_code="60400", **QUIET)
    for number in range(3):
        tree.function(f"0000:41:00.{number}", port, id_="1002:73A1", class_code="30000")
    _, names = host_of(tree)
    assert names.count("aer_dev_correctable") == 1


def test_replays_of_amdgpu(tree):
    card(tree, pcie_replay_count="7\n")
    assert host_of(tree)[0].error_counters[GPU].replays == 7


def test_replays_without_aer(tree):
    card(tree, gpu={}, pcie_replay_count="7\n")
    assert host_of(tree)[0].error_counters[GPU] == ErrorCounters(GPU, replays=7)


def test_other_drivers_have_no_replays(tree):
    card(tree, driver="nvidia", pcie_replay_count="7\n")
    assert host_of(tree)[0].error_counters[GPU].replays is NOT_CAPTURED


def test_one_missing_file_is_not_taken_for_none(tree):
    card(tree, gpu={**QUIET, "aer_dev_fatal": None})
    assert set(host_of(tree)[0].error_counters) == {PORT}


def test_sleeping_functions_are_left_alone(tree):
    port = tree.function(PORT, id_="1022:1483", class_code="60400", runtime_status="suspended\n", **QUIET)
    tree.function(GPU, port, id_="1002:73A1", driver="amdgpu", runtime_status="suspended\n", **QUIET)
    tree.function(NIC, id_="10EC:8168", class_code="20000", runtime_status="suspended\n", **QUIET)
    host, names = host_of(tree)
    assert isinstance(host.error_counters, Unknown)
    assert not [name for name in names if "aer_" in name]


def test_a_port_that_is_awake_above_a_gpu_that_sleeps_is_read(tree):
    port = tree.function(PORT, id_="1022:1483", class_code="60400", **QUIET)
    tree.function(GPU, port, id_="1002:73A1", driver="amdgpu", runtime_status="suspended\n", **QUIET)
    assert set(host_of(tree)[0].error_counters) == {PORT}


def test_no_such_files_anywhere_is_unknown(tree):
    card(tree, port={}, gpu={})
    assert isinstance(host_of(tree)[0].error_counters, Unknown)


def test_read_again(tree):
    folder = card(tree)
    with FileEvidence(str(tree.root)) as evidence:
        functions = list(read_host(evidence).functions.values())
        tree.write(f"{folder}/aer_dev_correctable", "RxErr 9\n")
        assert read_counters(evidence, functions)[GPU].correctable == {"RxErr": 9}
        tree.write(f"{folder}/power/runtime_status", "suspended\n")
        assert set(read_counters(evidence, functions)) == {PORT}
