"""Whole scans of a tree, with stand-ins for the libraries of its GPUs: the verdicts, and that trouble stays where it is."""

from __future__ import annotations

import json
import os

import pytest

from hostdoctor.cli.evidence import open_evidence
from hostdoctor.diagnosis import diagnose
from hostdoctor.evidence.files import FileEvidence
from hostdoctor.readers.host import read_host
from hostdoctor.registry import built_in
from hostdoctor.report import model
from hostdoctor.view import View
from tests.trees import ENDPOINT, GIB, ROOT_PORT, Tree, config_space, link_attributes

A, B = "0000:41:00.0", "0000:81:00.0"
BOTH = f"[gpu {A}]\n[gpu {B}]\n"


def nvidia_cards(tree, id_="10DE:2231", speed="16.0 GT/s PCIe", status="active"):
    """Two cards below a root port each, at 0000:41:00.0 and 0000:81:00.0."""
    for number, bus in enumerate((0x40, 0x80)):
        port = tree.function(
            f"0000:{bus:02x}:01.1", id_="1022:1483", class_code="60400", driver="pcieport",
            config=config_space(port_type=ROOT_PORT, header_type=1),
            **link_attributes(speed, "16", "16.0 GT/s PCIe", "16"),
        )  # fmt: skip
        folder = tree.function(
            f"0000:{bus + 1:02x}:00.0", port, id_=id_, class_code="30000", driver="nvidia", group=str(number),
            bars=[(0x3800_0000_0000 + number * 64 * GIB, GIB), (0x3900_0000_0000 + number * 64 * GIB, 32 * GIB)],
            config=config_space(port_type=ENDPOINT),
            **link_attributes(speed, "16", "16.0 GT/s PCIe", "16"),
        )  # fmt: skip
        tree.write(f"{folder}/power/runtime_status", f"{status}\n")
        tree.write(f"sys/kernel/iommu_groups/{number}/type", "identity\n")
    return tree


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "host").common()


@pytest.fixture
def scan(driver, tree, nvml_library):
    """A report over the tree, with stand-ins for both libraries."""

    def run(scenario, **environment):
        return driver("scan", tree.root, scenario=scenario, **{"LD_LIBRARY_PATH": nvml_library, **environment})

    return run


def findings(report, check):
    return {tuple(each["subject"]): each for each in report["findings"] if each["check"] == check}


def test_a_healthy_pair(scan, tree):
    nvidia_cards(tree)
    report = scan(BOTH)
    pair = findings(report, "p2p-pair")[A, B]
    assert (pair["outcome"], pair["confidence"]) == ("ok", "certain")
    assert [each["driver_says"] for each in report["host"]["pairs"]] == [True, True]
    drivers = report["host"]["drivers"]
    assert (drivers["nvml"], drivers["cuda"]) == ("12.570.86.16", "12.8")
    assert (drivers["nvidia"], drivers["amd_smi"], drivers["amd_smi_source"]) == ("570.86.16", None, None)
    assert report["host"]["gpus"][0]["memory_bytes"] == 24 * GIB


def test_a_link_downgraded_at_work_beside_an_idle_one(scan, tree):
    nvidia_cards(tree, speed="2.5 GT/s PCIe")
    report = scan(f"""
        [gpu]
        link_generation = 1
        [gpu {A}]
        performance_state = 2
        busy_percent = 99
        [gpu {B}]
        performance_state = 8
    """)  # fmt: skip
    found = findings(report, "link-speed")
    assert (found[A,]["outcome"], found[B,]["outcome"]) == ("failure", "unknown")
    assert "99 % busy" in found[A,]["explanation"]
    assert "the GPU is idle" in found[B,]["title"]
    assert "P8" in found[B,]["explanation"]


def test_p2p_forbidden_by_code(scan, tree):
    nvidia_cards(tree)
    report = scan(BOTH + f"[pair {A} {B}]\nread = 1\nwrite = 1\n[pair {B} {A}]\nwrite = 4\n")
    found = findings(report, "p2p-pair")
    assert found[A, B]["outcome"] == "info"
    assert "not supported by the chipset" in found[A, B]["title"]
    assert found[B, A]["outcome"] == "failure"
    assert "registry key" in found[B, A]["title"]
    assert {each["condition"] for each in report["host"]["pairs"]} == {"nvml"}


def test_a_patched_driver_of_a_geforce(scan, tree):
    nvidia_cards(tree, "10DE:2684")
    report = scan(BOTH)
    assert {each["outcome"] for each in findings(report, "p2p-pair").values()} == {"unknown"}


@pytest.mark.parametrize(
    ("way", "says"),
    [
        ("error 18", "different versions"),
        ("hang", "timed out"),
        ("stubborn", "timed out"),
        ("abort", "SIGABRT"),
        ("segv", "SIGSEGV"),
    ],
)
def test_whatever_becomes_of_the_library_the_rest_of_the_scan_stands(scan, tree, way, says):
    nvidia_cards(tree)
    report = scan(f"{BOTH}[library]\nnvmlInitWithFlags = {way}\n", DEADLINE="1")
    assert says in report["host"]["drivers"]["nvml"]["unknown"]
    pair = findings(report, "p2p-pair")[A, B]
    assert (pair["outcome"], pair["confidence"]) == ("ok", "likely")
    assert findings(report, "link-width")[A,]["outcome"] == "ok"


def test_a_lost_gpu(scan, tree):
    nvidia_cards(tree)
    report = scan(f"{BOTH}nvmlDeviceGetHandleByPciBusId_v2 = error 15\n")
    pair = findings(report, "p2p-pair")[A, B]
    assert (pair["outcome"], pair["confidence"]) == ("failure", "certain")
    assert "has lost" in pair["title"]
    assert {each["outcome"] for each in findings(report, "device-lost").values()} >= {"failure"}


def test_a_sleeping_gpu_is_not_woken(scan, tree, driver):
    nvidia_cards(tree, status="suspended")
    report = scan(BOTH)
    assert "asleep" in report["host"]["drivers"]["nvml"]["unknown"]
    assert driver.log == []


def test_both_libraries_and_the_drivers_files_hang_together(scan, tree, rocm):
    """Each has the scan's deadline from its start; nothing is waited for twice."""
    nvidia_cards(tree)
    tree.amd_cards(1)
    hang = "[library]\nnvmlInitWithFlags = hang\namdsmi_init = stubborn\n"
    drivers = scan(hang, DEADLINE="1", AMD_SMI=rocm / "share/amd_smi", ROCM_PATH=rocm)["host"]["drivers"]
    assert "timed out" in drivers["nvml"]["unknown"]
    assert "timed out" in drivers["amd_smi"]["unknown"]


def test_amd_smi_tells_the_load(scan, tree, rocm):
    (gpu,) = tree.amd_cards(1)
    report = scan(f"[gpu {gpu}]\nbusy_percent = 90\n", AMD_SMI=rocm / "share/amd_smi", ROCM_PATH=rocm)
    drivers = report["host"]["drivers"]
    assert (drivers["amd_smi"], drivers["amd_smi_source"]) == ("26.0.2", str(rocm / "share/amd_smi"))
    assert (drivers["nvml"], drivers["nvidia"], drivers["cuda"]) == (None, None, None)


def test_on_the_host_itself_its_libraries_are_asked_without_being_told(driver, tree, nvml_library, rocm):
    nvidia_cards(tree)
    (gpu,) = tree.amd_cards(1)
    scenario = f"{BOTH}[gpu {gpu}]\n"
    drivers = driver("live", tree.root, scenario=scenario, LD_LIBRARY_PATH=nvml_library, ROCM_PATH=rocm)["host"]["drivers"]
    assert (drivers["nvml"], drivers["amd_smi"]) == ("12.570.86.16", "26.0.2")
    assert drivers["amd_smi_source"] == str(rocm / "share/amd_smi")


def test_the_libraries_of_this_machine_are_not_asked_about_another(tree, monkeypatch, tmp_path):
    """Of a tree, only its files tell; a binding that comes first in Python's path is not touched."""
    nvidia_cards(tree)
    (tmp_path / "pynvml.py").write_text(f"open({str(tmp_path / 'touched')!r}, 'w')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with FileEvidence(str(tree.root)) as evidence:
        host = read_host(evidence)
    assert (host.nvml, host.amd_smi) == (None, None)
    assert not os.path.exists(tmp_path / "touched")


@pytest.mark.parametrize("scenario", [BOTH, f"{BOTH}[library]\nnvmlInitWithFlags = error 18\n", f"[gpu {A}]\n"])
def test_what_the_libraries_said_is_captured(driver, tree, nvml_library, rocm, scenario):
    """Whoever reads the capture hears it again, without any library, in the same findings."""
    nvidia_cards(tree)
    (gpu,) = tree.amd_cards(1)
    tree.write("dev/nvidia0").write("dev/kfd")
    file = tree.root.parent / "host.tgz"
    expected = driver(
        "capture", tree.root, file, scenario=f"{scenario}[gpu {gpu}]\n", LD_LIBRARY_PATH=nvml_library, ROCM_PATH=rocm
    )
    assert expected["evidence"]["kind"] == "live"
    assert len(driver.log) > 2
    with open_evidence(None, (str(file),)) as opened:
        view = View(opened.read(10.0, assume_bare_metal=False))
        found = json.loads(model.to_json(model.build(opened.sources(), view, diagnose(view, list(built_in())), 0)))
    assert found["findings"] == expected["findings"]
    assert found["host"] == expected["host"]
    assert view.host.access.user == os.geteuid()
    assert {node.path for node in view.host.access.nodes} == {"/dev/kfd", "/dev/nvidia0"}
