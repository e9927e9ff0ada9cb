"""AMD's library: which copy of the binding is taken, what is asked, what becomes of each trouble."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from hostdoctor.vendor import amdsmi
from tests.standins import libraries

A, B, C = "0000:03:00.0", "0000:43:00.0", "0001:c3:00.0"

HEALTHY = f"""
[gpu {A}]
[gpu {B}]
"""


@pytest.fixture
def amd_smi(driver, rocm):
    """AMD SMI's answer about GPUs that amdgpu serves, of the copies in these folders."""

    def ask(scenario, *gpus, folders=(rocm / "share/amd_smi",), **environment):
        gpus = gpus or (A, B)
        environment.setdefault("ROCM_PATH", rocm)
        environment.setdefault("AMD_SMI", os.pathsep.join(map(str, folders)))
        answers = driver("ask", *(f"amdgpu@{gpu}" for gpu in gpus), scenario=scenario, **environment)
        assert answers["nvml"] is None
        assert (answers["left"], answers["loaded"]) == ([], [])
        return answers["amd_smi"]

    return ask


@pytest.fixture
def binding(tmp_path):
    """Makes a folder with a binding of that text; returns the folder."""

    def make(name, text):
        package = tmp_path / name / "amdsmi"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(text)
        return tmp_path / name

    return make


def reason(value):
    return value["unknown"]


# --- what is asked ----------------------------------------------------------------------------------------------------


def test_a_healthy_host(amd_smi, rocm):
    found = amd_smi(HEALTHY)
    assert (found["library_version"], found["source"]) == ("26.0.2", str(rocm / "share/amd_smi"))
    assert found["gpus"][0] == {
        "address": A, "link_speed_gts": 16.0, "link_width": 16, "max_speed_gts": 16.0, "max_width": 16,
        "replay_count": 0, "busy_percent": 0, "memory_bytes": 30704 << 20,
    }  # fmt: skip
    assert found["pairs"] == [
        {"accessor": A, "owner": B, "accessible": True, "link_type": "PCIE"},
        {"accessor": B, "owner": A, "accessible": True, "link_type": "PCIE"},
    ]


def test_downgraded_busy_and_replaying(amd_smi):
    first, second = amd_smi(f"""
        [gpu {A}]
        width = 8
        speed = 2500
        replays = 77
        busy_percent = 96
        [gpu {B}]
        replays_of_sysfs = 5
        busy_percent = 0xffff
        speed = 7
    """)["gpus"]  # fmt: skip
    assert (first["link_width"], first["link_speed_gts"], first["replay_count"], first["busy_percent"]) == (8, 2.5, 77, 96)
    assert second["replay_count"] == 5
    assert reason(second["busy_percent"]) == "AMD SMI gives no value for it"
    assert reason(second["link_speed_gts"]) == "AMD SMI gives 7, which is no speed of PCI Express"


def test_pairs_are_ordered(amd_smi):
    found = amd_smi(HEALTHY + f"[pair {A} {B}]\naccessible = 0\nlink_type = 2\n[pair {B} {A}]\nlink_type = 4\n")
    first, second = found["pairs"]
    assert (first["accessible"], first["link_type"]) == (False, "XGMI")
    assert (second["accessible"], reason(second["link_type"])) == (True, "AMD SMI gives the link type 4")


def test_only_the_gpus_given_are_asked_about(amd_smi, driver):
    found = amd_smi(HEALTHY + f"[gpu {C}]\n", A, C)
    assert [gpu["address"] for gpu in found["gpus"]] == [A, C]
    assert [call for call in driver.log if B in call] == [f"amdsmi_get_gpu_device_bdf {B}"]
    assert not [call for call in driver.log if "uuid" in call or "serial" in call or "asic" in call or "board" in call]


def test_one_error_costs_one_field(amd_smi):
    gpu = amd_smi(HEALTHY + "amdsmi_get_pcie_info = error 2\namdsmi_get_gpu_vram_info = error 40\n")["gpus"][1]
    assert reason(gpu["link_width"]) == reason(gpu["max_width"]) == "AMD SMI answers: Feature not supported (2)"
    assert reason(gpu["memory_bytes"]) == "AMD SMI answers: No data was found for given input (40)"
    assert (gpu["busy_percent"], gpu["replay_count"]) == (0, 0)


def test_a_gpu_that_cannot_say_where_it_is(amd_smi):
    found = amd_smi(HEALTHY + "amdsmi_get_gpu_device_bdf = error 49\n")
    assert [gpu["address"] for gpu in found["gpus"]] == [A]


# --- trouble ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("code", "says"), [(34, "no amdgpu driver loaded"), (10, "Permission Denied (10)")])
def test_an_init_that_fails_is_final(amd_smi, binding, rocm, code, says):
    """Another copy would be told the same."""
    other = binding("other", "import os; os.abort()")
    found = amd_smi(f"[library]\namdsmi_init = error {code}\n", folders=(rocm / "share/amd_smi", other))
    assert says in reason(found)


@pytest.mark.parametrize("way", ["hang", "stubborn"])
@pytest.mark.parametrize("where", ["[library]\namdsmi_init", f"[gpu {A}]\namdsmi_get_gpu_vram_info"])
def test_a_library_that_hangs(amd_smi, way, where):
    found = amd_smi(f"{HEALTHY}{where} = {way}\n", DEADLINE="1")
    assert reason(found).startswith("timed out: AMD SMI of ")


@pytest.mark.parametrize(("way", "signal"), [("abort", "SIGABRT"), ("segv", "SIGSEGV")])
@pytest.mark.parametrize("where", ["[library]\namdsmi_init", f"[gpu {A}]\namdsmi_get_gpu_vram_info"])
def test_a_library_that_crashes(amd_smi, way, signal, where):
    assert signal in reason(amd_smi(f"{HEALTHY}{where} = {way}\n"))


def test_a_library_that_prints(amd_smi):
    """The driver fixture holds that nothing but the answers comes out."""
    assert amd_smi(HEALTHY + f"[library]\namdsmi_init = print\n[gpu {A}]\namdsmi_get_gpu_vram_info = print\n")["gpus"]


# --- copies of the binding --------------------------------------------------------------------------------------------


def test_the_next_copy_is_asked_where_one_does_not_fit(amd_smi, binding, rocm):
    broken = (
        binding("symbol", "print('noise')\nraise AttributeError('undefined symbol: amdsmi_set_gpu_clk_range')"),
        binding("library", "print('noise', flush=True)\n{}['libamd_smi.so']"),
        binding("import", "import nothing_of_that_name"),
        binding("file", "raise OSError('cannot open shared object file')"),
        binding("syntax", "def"),
        binding("exit", "raise SystemExit(3)"),
        binding("crash", "import os; os.abort()"),
        binding("empty", ""),
    )
    found = amd_smi(HEALTHY, folders=(*broken, rocm / "share/amd_smi"))
    assert found["source"] == str(rocm / "share/amd_smi")
    assert len(found["gpus"]) == 2


def test_where_no_copy_fits_each_says_why(driver, binding):
    first = binding("symbol", "raise AttributeError('undefined symbol: amdsmi_x')")
    second = binding("crash", "import os; os.abort()")
    found = driver("ask", f"amdgpu@{A}", AMD_SMI=f"{first}:{second}")["amd_smi"]
    assert f"asking AMD SMI of {first} failed: AttributeError: undefined symbol: amdsmi_x" in reason(found)
    assert f"AMD SMI of {second} crashed" in reason(found)


def test_a_copy_that_hangs_leaves_no_time_for_another(driver, binding):
    first, second = binding("hangs", "import signal\nsignal.pause()"), binding("other", "raise OSError")
    found = driver("ask", f"amdgpu@{A}", AMD_SMI=f"{first}:{second}", DEADLINE="0.5")["amd_smi"]
    assert reason(found) == f"timed out: AMD SMI of {first} did not answer within 0.5 s"


def test_the_binding_without_its_library(driver, tmp_path):
    """What an installed wheel does on a host without ROCm: it prints, then raises KeyError."""
    if why := libraries.why_no_amd_smi():
        pytest.skip(why)
    folder = libraries.binding_folder().parent
    found = driver("ask", f"amdgpu@{A}", AMD_SMI=folder, ROCM_PATH=tmp_path, LD_LIBRARY_PATH=tmp_path)["amd_smi"]
    assert "KeyError: 'libamd_smi.so'" in reason(found)


def test_the_binding_of_rocm_6_0(driver, binding):
    folder = binding("rocm60", (libraries.FOLDER / "amdsmi_6_0.py").read_text())
    found = driver("ask", f"amdgpu@{A}", f"amdgpu@{B}", AMD_SMI=folder)["amd_smi"]
    assert found["library_version"] == "23.4.0.0"
    gpu = found["gpus"][0]
    assert (gpu["link_width"], gpu["link_speed_gts"], gpu["max_width"]) == (8, 8.0, 16)
    assert reason(gpu["max_speed_gts"]) == "AMD SMI gives N/A, which is no speed of PCI Express"
    assert reason(gpu["replay_count"]) == "AMD SMI answers: 23 (23)"
    assert reason(gpu["busy_percent"]) == "AMD SMI gives no value for it"
    assert gpu["memory_bytes"] == 30704 << 20
    pair = found["pairs"][0]
    assert pair["link_type"] == "XGMI"
    assert "AmdSmiParameterException" in reason(pair["accessible"])


def test_a_host_without_a_copy(driver):
    assert reason(driver("ask", f"amdgpu@{A}", AMD_SMI="/nonexistent")["amd_smi"]).startswith("asking AMD SMI of /nonexistent")


# --- where copies are looked for --------------------------------------------------------------------------------------


@pytest.fixture
def only_here(monkeypatch, tmp_path):
    """No copies but those of this test: none in Python's own path."""
    monkeypatch.delenv("ROCM_HOME", raising=False)
    monkeypatch.setenv("ROCM_PATH", str(tmp_path / "rocm"))
    monkeypatch.setattr("sys.path", ["", str(tmp_path / "site")])
    return tmp_path


def copy_in(folder):
    (folder / "amdsmi").mkdir(parents=True)
    return str(folder)


def here(folders, root):
    return [folder for folder in folders if folder.startswith(str(root))]


def test_the_hosts_copy_comes_before_the_package(only_here):
    package = copy_in(only_here / "site")
    sdk = copy_in(only_here / "site/_rocm_sdk_core/share/amd_smi")
    own = copy_in(only_here / "rocm/share/amd_smi")
    assert here(amdsmi.usual_folders(), only_here) == [own, sdk, package]


def test_a_copy_reached_by_two_ways_counts_once(only_here, monkeypatch):
    own = copy_in(only_here / "rocm-7.0.2/share/amd_smi")
    (only_here / "rocm").symlink_to("rocm-7.0.2")
    monkeypatch.setenv("ROCM_HOME", str(only_here / "rocm-7.0.2"))
    assert here(amdsmi.usual_folders(), only_here) == [own]


def test_none_at_all(only_here):
    assert here(amdsmi.usual_folders(), only_here) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root must not run what others can write")
def test_root_runs_no_copy_that_others_can_write(only_here):
    copy_in(only_here / "rocm/share/amd_smi")
    os.chmod(only_here / "rocm/share/amd_smi/amdsmi", 0o777)
    assert here(amdsmi.usual_folders(), only_here) == []
    os.chmod(only_here / "rocm/share/amd_smi/amdsmi", 0o755)
    os.chown(only_here / "rocm/share/amd_smi", 65534, 65534)
    assert here(amdsmi.usual_folders(), only_here) == []
    shutil.rmtree(only_here / "rocm")


def test_newer_versions_first(tmp_path):
    for name in ("rocm-6.9.1", "rocm-6.10.0", "rocm-7.0.2", "other"):
        (tmp_path / name).mkdir()
    found = [Path(folder).name for folder in amdsmi._newest_first(str(tmp_path), "rocm-")]
    assert found == ["rocm-7.0.2", "rocm-6.10.0", "rocm-6.9.1"]
    assert amdsmi._newest_first(str(tmp_path / "none"), "rocm-") == []


# --- who is asked -----------------------------------------------------------------------------------------------------


def test_a_sleeping_gpu_keeps_the_library_from_being_asked(driver, binding):
    folder = binding("copy", "import os; os.abort()")
    found = driver("ask", f"amdgpu@{A}", f"amdgpu@{B}@suspended", AMD_SMI=folder)
    assert "asleep" in reason(found["amd_smi"])


@pytest.mark.parametrize("gpus", [[], [f"radeon@{A}", f"vfio-pci@{B}", "nvidia@0000:41:00.0@suspended"]])
def test_without_a_gpu_of_its_driver_it_is_not_asked(driver, binding, gpus):
    folder = binding("copy", "import os; os.abort()")
    assert driver("ask", *gpus, AMD_SMI=folder)["amd_smi"] is None
