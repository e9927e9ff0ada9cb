"""NVIDIA's library: what is asked, what becomes of each trouble. The library is a stand-in (tests/standins)."""

from __future__ import annotations

import pytest

A, B, C = "0000:41:00.0", "0000:81:00.0", "0001:c1:00.0"

HEALTHY = f"""
[gpu {A}]
[gpu {B}]
"""


@pytest.fixture
def nvml(driver, nvml_library):
    """NVML's answer about GPUs that the driver nvidia serves."""

    def ask(scenario, *gpus, **environment):
        gpus = gpus or (A, B)
        environment.setdefault("LD_LIBRARY_PATH", nvml_library)
        answers = driver("ask", *(f"nvidia@{gpu}" for gpu in gpus), scenario=scenario, **environment)
        assert answers["amd_smi"] is None
        assert (answers["left"], answers["loaded"]) == ([], [])
        return answers["nvml"]

    return ask


def reason(value):
    return value["unknown"]


def test_a_healthy_host(nvml):
    found = nvml(HEALTHY)
    assert (found["driver_version"], found["library_version"], found["cuda_version"]) == ("570.86.16", "12.570.86.16", 12080)
    assert found["gpus"][0] == {
        "address": A, "name": "NVIDIA RTX A5000", "lost": False,
        "link_generation": 4, "link_width": 16, "gpu_max_generation": 4, "max_generation": 4, "max_width": 16,
        "performance_state": 0, "busy_percent": 0, "throttle_reasons": 1, "replay_count": 0,
        "bar1_bytes": 24 << 30, "memory_bytes": 24 << 30, "ecc_enabled": True, "ecc_uncorrected": 0,
        "nvlinks_active": {"unknown": "NVML answers: Not Supported (3)"},
        "mig_enabled": {"unknown": "not in this evidence"}, "trouble": "", "origin": "",
    }  # fmt: skip
    assert [(pair["accessor"], pair["owner"]) for pair in found["pairs"]] == [(A, B), (B, A)]
    assert {(pair["read"], pair["write"], pair["nvlink"], pair["topology"]) for pair in found["pairs"]} == {(0, 0, 5, 30)}


def test_a_downgraded_busy_gpu_beside_an_idle_one(nvml):
    first, second = nvml(f"""
        [gpu {A}]
        link_generation = 1
        link_width = 8
        performance_state = 2
        busy_percent = 97
        replay_count = 1234
        ecc_uncorrected = 3
        throttle_reasons = 0x80
        bar1_bytes = 268435456
        nvlinks = 3 of 4
        [gpu {B}]
        link_generation = 1
        performance_state = 8
        ecc_enabled = 0
    """)["gpus"]  # fmt: skip
    assert (first["link_generation"], first["link_width"], first["performance_state"], first["busy_percent"]) == (1, 8, 2, 97)
    assert (first["replay_count"], first["ecc_uncorrected"], first["throttle_reasons"]) == (1234, 3, 0x80)
    assert (first["bar1_bytes"], first["nvlinks_active"]) == (256 << 20, 3)
    assert (second["link_generation"], second["performance_state"], second["ecc_enabled"]) == (1, 8, False)


def test_pairs_are_ordered_and_each_status_has_its_place(nvml):
    found = nvml(HEALTHY + f"[pair {A} {B}]\nread = 1\nwrite = 4\nnvlink = 6\ntopology = 50\n[pair {B} {A}]\nread = 2\n")
    codes = [(pair["read"], pair["write"], pair["nvlink"], pair["topology"]) for pair in found["pairs"]]
    assert codes == [(1, 4, 6, 50), (2, 0, 5, 30)]


def test_only_the_gpus_given_are_asked_about(nvml, driver):
    found = nvml(HEALTHY + f"[gpu {C}]\n", A, C)
    assert [gpu["address"] for gpu in found["gpus"]] == [A, C]
    assert not [call for call in driver.log if B in call]


def test_nothing_that_identifies_a_gpu_is_asked_for(nvml, driver):
    nvml(HEALTHY)
    called = {call.split()[0] for call in driver.log}
    assert "nvmlDeviceGetName" in called
    assert not [name for name in called if "UUID" in name or "Serial" in name or "Board" in name]


def test_one_error_costs_one_field(nvml):
    gpu = nvml(f"[gpu {A}]\nnvmlDeviceGetEccMode = error 3\nnvmlDeviceGetBAR1MemoryInfo = error 999\nlink_width = n/a\n", A)[
        "gpus"
    ][0]
    assert reason(gpu["ecc_enabled"]) == reason(gpu["link_width"]) == "NVML answers: Not Supported (3)"
    assert reason(gpu["bar1_bytes"]) == "NVML answers: Unknown Error (999)"
    assert (gpu["memory_bytes"], gpu["lost"]) == (24 << 30, False)


def test_a_state_that_nvml_does_not_know(nvml):
    gpu = nvml(f"[gpu {A}]\nperformance_state = 32\n", A)["gpus"][0]
    assert "does not know" in reason(gpu["performance_state"])


def test_no_permission_says_what_helps(nvml):
    gpu = nvml(f"[gpu {A}]\nnvmlDeviceGetMemoryInfo = error 4\n", A)["gpus"][0]
    assert gpu["memory_bytes"]["help"] == "run with sudo"


def test_a_gpu_that_nvml_does_not_find(nvml):
    found = nvml(HEALTHY, A, C)
    assert reason(found["gpus"][1]["name"]) == reason(found["gpus"][1]["link_width"]) == "NVML answers: Not Found (6)"
    assert found["pairs"] == []


def test_a_gpu_lost_from_the_start(nvml):
    found = nvml(HEALTHY + "nvmlDeviceGetHandleByPciBusId_v2 = error 15\n")
    assert [gpu["lost"] for gpu in found["gpus"]] == [False, True]
    assert "the GPU is lost" in reason(found["gpus"][1]["link_width"])


def test_a_gpu_lost_on_the_way_is_left_alone_from_then_on(nvml, driver):
    found = nvml(HEALTHY + "nvmlDeviceGetCurrPcieLinkWidth = error 15\n")
    lost = found["gpus"][1]
    assert (lost["lost"], lost["link_generation"]) == (True, 4)
    assert "the GPU is lost" in reason(lost["link_width"])
    assert "the GPU is lost" in reason(lost["nvlinks_active"])
    assert found["pairs"] == []
    asked = [call.split()[0] for call in driver.log if B in call]
    assert asked[-1] == "nvmlDeviceGetCurrPcieLinkWidth"


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (18, "different versions"),
        (9, "no NVIDIA driver loaded"),
        (4, "no permission"),
        (999, "Unknown Error (999)"),
        (77, "an error of the stand-in (77)"),
    ],
)
def test_an_init_that_fails(nvml, code, says):
    assert says in reason(nvml(f"[library]\nnvmlInitWithFlags = error {code}\n"))


def test_a_version_mismatch_says_what_helps(nvml):
    assert "reboot" in nvml("[library]\nnvmlInitWithFlags = error 18\n")["help"]


@pytest.mark.parametrize("way", ["hang", "stubborn"])
@pytest.mark.parametrize("where", ["[library]\nnvmlInitWithFlags", f"[gpu {A}]\nnvmlDeviceGetName"])
def test_a_library_that_hangs(nvml, way, where):
    found = nvml(f"{HEALTHY}{where} = {way}\n", DEADLINE="0.5")
    assert reason(found) == "timed out: NVML did not answer within 0.5 s"


@pytest.mark.parametrize(("way", "signal"), [("abort", "SIGABRT"), ("segv", "SIGSEGV")])
@pytest.mark.parametrize("where", ["[library]\nnvmlInitWithFlags", f"[gpu {B}]\nnvmlDeviceGetP2PStatus"])
def test_a_library_that_crashes(nvml, way, signal, where):
    found = nvml(f"{HEALTHY}{where} = {way}\n")
    assert reason(found) == f"NVML crashed: the process that asks it was ended by {signal}"


def test_a_library_that_prints(nvml):
    """The driver fixture holds that nothing but the answers comes out."""
    found = nvml(f"[library]\nnvmlInitWithFlags = print\n[gpu {A}]\nnvmlDeviceGetName = print\n", A)
    assert found["gpus"][0]["name"] == "NVIDIA RTX A5000"


def test_a_name_that_is_no_text(nvml):
    gpu = nvml(f"[gpu {A}]\nname = \udcff\udcfe\n".encode("utf-8", "surrogateescape"), A)["gpus"][0]
    assert "cannot be understood" in reason(gpu["name"])


def test_without_the_library(driver):
    """On a machine that has none."""
    found = driver("ask", f"nvidia@{A}", LD_LIBRARY_PATH="/nonexistent")["nvml"]
    assert reason(found) == "the driver's library libnvidia-ml.so.1 is not installed here"


def test_a_shadowed_binding(driver, tmp_path):
    (tmp_path / "pynvml.py").write_text("def nvmlInit():\n    raise SystemExit\n")
    found = driver("ask", f"nvidia@{A}", PYTHONPATH=tmp_path)["nvml"]
    assert "not NVIDIA's" in reason(found)
    assert "nvidia-ml-py" in found["help"]


def test_without_the_binding(driver, tmp_path):
    (tmp_path / "pynvml.py").write_text("raise ImportError('no such module')\n")
    found = driver("ask", f"nvidia@{A}", PYTHONPATH=tmp_path)["nvml"]
    assert reason(found) == "the Python package nvidia-ml-py is not installed"


def test_an_old_binding_without_a_function(driver, nvml_library, tmp_path):
    (tmp_path / "old.py").write_text(
        "import importlib.util, sys\n"
        "path = [each for each in sys.path if each != sys.path[0]]\n"
        "spec = importlib.machinery.PathFinder.find_spec('pynvml', [p for p in path if 'old-binding' not in p])\n"
        "spec.loader.exec_module(sys.modules['pynvml'])\n"
        "del sys.modules['pynvml'].nvmlDeviceGetCurrentClocksThrottleReasons\n"
    )
    folder = tmp_path / "old-binding"
    folder.mkdir()
    (tmp_path / "old.py").rename(folder / "pynvml.py")
    found = driver("ask", f"nvidia@{A}", scenario=HEALTHY, PYTHONPATH=folder, LD_LIBRARY_PATH=nvml_library)["nvml"]
    assert "has no nvmlDeviceGetCurrentClocksThrottleReasons" in reason(found["gpus"][0]["throttle_reasons"])
    assert found["gpus"][0]["link_width"] == 16


# --- who is asked -----------------------------------------------------------------------------------------------------


def test_a_sleeping_gpu_keeps_the_library_from_being_asked(driver, nvml_library):
    found = driver("ask", f"nvidia@{A}", f"nvidia@{B}@suspended", scenario=HEALTHY, LD_LIBRARY_PATH=nvml_library)
    assert "asleep" in reason(found["nvml"])
    assert driver.log == []


@pytest.mark.parametrize("gpus", [[], [f"nouveau@{A}", f"vfio-pci@{B}", "amdgpu@0000:03:00.0"]])
def test_without_a_gpu_of_its_driver_it_is_not_asked(driver, nvml_library, gpus):
    found = driver("ask", *gpus, scenario=HEALTHY, LD_LIBRARY_PATH=nvml_library)
    assert (found["nvml"], found["loaded"], driver.log) == (None, [], [])
