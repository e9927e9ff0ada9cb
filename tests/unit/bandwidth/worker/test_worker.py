"""Workers over stand-ins for libcuda.so.1 and libamdhip64.so, with the real bindings (tests/standins/copies.h).

These prove the wiring and the judgement: that the libraries are called as they must be, that what arrives wrong is seen and
told for what it is, and that every trouble becomes a result. They prove nothing about real GPUs, drivers or links.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess

import pytest

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
A, B = "0000:41:00.0", "0000:c1:00.0"
# Slow, so that few copies fill the time that is measured.
TWO = f"[gpu {A}]\n[gpu {B}]\n[gpu]\nto_gpu_gbs = 1.25\nfrom_gpu_gbs = 1.25\ninside_gbs = 4\n"
TWO += "[pair]\ndirect_gbs = 0.66\nstaged_gbs = 0.31\n"
SIZE = 1 << 20
TO_GPU = {"kind": "to-gpu", "origin": "host:0", "target": A, "size_bytes": SIZE}
FROM_GPU = {"kind": "from-gpu", "origin": A, "target": "host:0", "size_bytes": SIZE}
INSIDE = {"kind": "inside", "origin": A, "target": A, "size_bytes": SIZE}
DIRECT = {"kind": "pair", "origin": A, "target": B, "size_bytes": SIZE}
STAGED = {**DIRECT, "peer_access": False}


def about(gbs):
    """The samples of a stand-in are all alike; each copy has a latency beside its bandwidth."""
    return pytest.approx([gbs] * 7, rel=0.1)


def test_the_gpus_by_their_addresses(worker):
    found = worker({"kind": "devices"}, f"[gpu {B}]\nname = Something Else\nmemory_bytes = 17179869184\n[gpu {A}]\n")
    assert [(gpu["subject"], gpu["number"]) for gpu in found["devices"]] == [(B, 0), (A, 1)]
    assert (found["devices"][0]["name"], found["devices"][0]["memory_bytes"]) == ("Something Else", 16 << 30)
    assert found["library"] == {"cuda": "CUDA driver 12.8", "hip": "HIP 6.2.41133"}[worker.name]
    assert (found["error"], found["devices"][0]["numa_node"]) == ("", None)


def test_a_gpu_is_placed_where_the_kernel_says(worker, tmp_path):
    (tmp_path / "bus/pci/devices" / A).mkdir(parents=True)
    (tmp_path / "bus/pci/devices" / A / "numa_node").write_text("1\n")
    first, second = worker({"kind": "devices"}, TWO, machine=(tmp_path,))["devices"]
    assert (first["numa_node"], second["numa_node"]) == (1, None)


@pytest.mark.parametrize(
    ("step", "gbs"), [(TO_GPU, 0.62), (FROM_GPU, 1.29), (INSIDE, 25), (DIRECT, 0.51), (STAGED, None)], ids=lambda each: None
)
def test_healthy_copies(worker, step, gbs):
    speeds = "to_gpu_gbs = 0.62\nfrom_gpu_gbs = 1.29\ninside_gbs = 25\n"
    scenario = f"[gpu {A}]\n{speeds}[gpu {B}]\n{speeds}[pair {A} {B}]\ndirect_gbs = 0.51\nstaged_gbs = 0.24\n"
    found = worker(step, scenario)
    # HIP copies directly whatever was granted: there the control is a copy to the host, and then one from it.
    gbs = gbs or {"cuda": 0.24, "hip": 1 / (1 / 1.29 + 1 / 0.62)}[worker.name]
    assert found["samples_gbs"] == about(gbs)
    assert (found["data"], found["error"], found["size_bytes"]) == ("right", "", SIZE)
    assert worker.copying == [True, False]


def test_all_that_was_taken_is_given_back(worker):
    worker({**STAGED, "both_ways": True, "latency": True}, TWO)
    assert len(worker.calls("cuMemAlloc_v2")) == len(worker.calls("cuMemFree_v2")) == 4
    assert len(worker.calls("cuMemHostAlloc")) == len(worker.calls("cuMemFreeHost")) > 0
    assert len(worker.calls("cuStreamCreate")) == len(worker.calls("cuStreamDestroy_v2")) > 0
    assert len(worker.calls("cuEventCreate")) == len(worker.calls("cuEventDestroy_v2")) > 0


def test_one_direction_is_slower(worker):
    scenario = TWO + f"[pair {A} {B}]\ndirect_gbs = 0.66\n[pair {B} {A}]\ndirect_gbs = 0.11\n"
    assert worker(DIRECT, scenario)["samples_gbs"] == about(0.66)
    assert worker({**DIRECT, "origin": B, "target": A}, scenario)["samples_gbs"] == about(0.11)


def test_both_ways_is_the_sum_while_both_copy(worker):
    assert worker({**DIRECT, "both_ways": True}, TWO)["samples_gbs"] == about(1.32)
    slower = TWO + f"[pair {B} {A}]\ndirect_gbs = 0.33\n"
    assert worker({**DIRECT, "both_ways": True}, slower)["samples_gbs"] == about(0.66)
    assert worker({**TO_GPU, "both_ways": True}, TWO)["samples_gbs"] == about(2.5)


def test_the_gpu_named_runs_the_copy(worker):
    worker({**DIRECT, "latency": True}, TWO)
    assert set(worker.calls("cuMemcpyPeerAsync")) == {A}
    assert worker({**DIRECT, "accessor": B}, TWO)["data"] == "right"
    assert set(worker.calls("cuMemcpyPeerAsync")) == {B}
    assert "takes no part" in worker({**DIRECT, "accessor": "0000:99:00.0"}, TWO)["error"]


def test_latency_is_of_a_small_copy(worker):
    scenario = TWO + f"[pair {A} {B}]\ndirect_us = 2.2\nstaged_us = 14\n"
    assert worker({**DIRECT, "latency": True}, scenario)["latency_us"] == pytest.approx(2.2, rel=0.02)
    assert worker(DIRECT, scenario)["latency_us"] is None


def test_a_clock_that_stands_still_gives_no_figure(worker):
    found = worker(DIRECT, f"[pair]\ndirect_gbs = 1e12\ndirect_us = 0\n{TWO}")
    assert (found["samples_gbs"], found["error_kind"], worker.copying) == ([], "other", [True, False])
    assert found["error"].endswith("which cannot be timed")


def test_the_memory_node_is_told(worker):
    if not os.path.exists("/sys/devices/system/node/node0/cpulist"):
        pytest.skip("this kernel knows no memory nodes")
    assert worker(TO_GPU, TWO)["host_node"] == 0
    assert worker({**FROM_GPU, "target": "host:77"}, TWO)["host_node"] in (0, None)


# The data

WAYS = [("dropped", "dropped"), ("zeroed", "zeroed"), ("partial", "partial"), ("stale", "other")]


@pytest.mark.parametrize(
    ("way", "kind"), [("dropped", "dropped"), ("zeroed", "zeroed"), ("partial", "partial"), ("stale", "other")]
)
@pytest.mark.parametrize("step", [DIRECT, INSIDE, TO_GPU], ids=["pair", "inside", "to-gpu"])
def test_wrong_data_are_told_and_nothing_is_timed(worker, step, way, kind):
    key = {"pair": "direct_data", "inside": "inside_data", "to-gpu": "to_gpu_data"}[step["kind"]]
    section = f"[pair {A} {B}]" if step is DIRECT else f"[gpu {A}]"
    found = worker(step, f"{section}\n{key} = {way}\n{TWO}")
    assert (found["data"], found["wrong_kind"], found["samples_gbs"], found["error"]) == ("wrong", kind, [], "")
    assert worker.copying == []
    begin = SIZE // 2 if way == "partial" else 0
    assert found["wrong_bytes"] == pytest.approx((SIZE - begin) * 255 / 256, rel=0.01)
    # A random byte is like the one sent, or like the poison, once in 256 times.
    assert found["wrong_text"].startswith("first at byte ")
    assert begin <= int(found["wrong_text"].split()[3]) < begin + 16


def test_data_of_the_way_back_to_the_host(worker):
    for way, kind in WAYS:
        assert worker(FROM_GPU, f"[gpu]\nfrom_gpu_data = {way}\n{TWO}")["wrong_kind"] == kind


def test_one_wrong_bit_is_found_and_counted(worker):
    found = worker({**DIRECT, "size_bytes": 3 * SIZE + 5}, f"{TWO}[pair]\ndirect_data = flipped\n")
    assert (found["data"], found["wrong_kind"], found["wrong_bytes"]) == ("wrong", "partial", 1)
    assert found["wrong_text"] == f"first at byte {SIZE + 1} of {3 * SIZE + 5}"


def test_each_direction_is_compared(worker):
    scenario = TWO + f"[pair {B} {A}]\ndirect_data = zeroed\n"
    assert worker(DIRECT, scenario)["data"] == "right"
    found = worker({**DIRECT, "both_ways": True}, scenario)
    assert (found["data"], found["wrong_kind"]) == ("wrong", "zeroed")
    assert found["wrong_text"].startswith(f"{B} to {A}: first at byte ")


def test_data_that_go_wrong_only_while_copies_are_timed(worker):
    found = worker(DIRECT, f"[library]\nright_copies = 50\n{TWO}[pair]\ndirect_data = dropped\n")
    assert (found["data"], found["samples_gbs"], worker.copying) == ("wrong", [], [True, False])
    assert found["wrong_text"].startswith("in the timed copies, first at byte ")


def test_the_control_is_right_where_direct_copies_are_not(worker):
    scenario = f"{TWO}[pair]\ndirect_data = zeroed\n"
    assert (worker(DIRECT, scenario)["data"], worker(STAGED, scenario)["data"]) == ("wrong", "right")


def test_what_is_wrong_towards_the_host_is_not_blamed_on_a_pair(worker):
    found = worker(DIRECT, f"[gpu {B}]\nfrom_gpu_data = dropped\n[gpu {A}]\n")
    assert (found["data"], found["error_kind"]) == ("not-compared", "other")
    assert f"nothing that {B} sends arrives in host memory" in found["error"]
    found = worker(DIRECT, f"[gpu {A}]\nto_gpu_data = flipped\n[gpu {B}]\n")
    assert (found["data"], found["error_kind"]) == ("not-compared", "other")
    assert f"between host memory and {A}" in found["error"]


def test_data_are_not_compared_where_that_is_not_wanted(worker):
    found = worker({**DIRECT, "verify": False}, f"{TWO}[pair]\ndirect_data = zeroed\n")
    assert (found["data"], found["samples_gbs"]) == ("not-compared", about(0.66))


# Trouble


def test_no_peer_access(worker):
    scenario = f"{TWO}[pair]\ncan_access = 0\n"
    found = worker(DIRECT, scenario)
    assert (found["error_kind"], found["samples_gbs"], found["data"]) == ("forbidden", [], "not-compared")
    assert found["error"] == f"the driver says that {A} cannot access the memory of {B}"
    assert worker.calls("cuCtxEnablePeerAccess") == []
    staged = worker(STAGED, scenario)
    assert (staged["error"], staged["data"], len(staged["samples_gbs"])) == ("", "right", 7)


def test_access_in_the_direction_of_the_copy_is_what_counts(worker):
    scenario = f"{TWO}[pair {B} {A}]\ncan_access = 0\n"
    assert worker(DIRECT, scenario)["data"] == "right"
    assert worker({**DIRECT, "both_ways": True}, scenario)["error_kind"] == "forbidden"
    assert worker({**DIRECT, "accessor": B}, scenario)["error_kind"] == "forbidden"


def test_access_that_is_promised_and_then_refused(worker):
    found = worker(DIRECT, f"{TWO}[pair]\ngrants = 217\n")
    assert found["error_kind"] == "forbidden"
    assert found["error_code"] in ("CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "hipErrorPeerAccessUnsupported")
    assert found["error"].startswith("the driver grants no peer access for this pair (")


def test_little_memory_makes_smaller_copies(worker):
    found = worker({**INSIDE, "size_bytes": 16 << 20}, f"[gpu {A}]\nfree_bytes = {9 << 20}\n")
    assert (found["data"], found["size_bytes"], found["error"]) == ("right", 4 << 20, "")
    assert found["step"]["size_bytes"] == 16 << 20


def test_no_memory_at_all(worker):
    found = worker({**INSIDE, "size_bytes": 16 << 20}, f"[gpu {A}]\nfree_bytes = 4096\n")
    assert (found["error_kind"], found["data"], found["samples_gbs"]) == ("out-of-memory", "not-compared", [])
    assert found["error"].startswith("there is not enough memory (")


@pytest.mark.parametrize("code", [214, 700, 702, 719])
def test_an_error_that_stays(worker, misbehaving, code):
    found = worker(DIRECT, TWO.replace("]\n", "]\n" + misbehaving("cuStreamSynchronize", f"error {code} after 12")))
    assert (found["error_kind"], found["samples_gbs"]) == ("sticky", [])
    assert found["error_code"]
    assert "\n" not in found["error"]
    assert worker.calls("cuMemFree_v2") == []  # nothing more is asked of a GPU in that state


def test_a_gpu_that_falls_off_the_bus(worker, misbehaving, tmp_path):
    (tmp_path / "bus/pci/devices" / A).mkdir(parents=True)
    config = tmp_path / "bus/pci/devices" / A / "config"
    config.write_bytes(b"\xde\x10\x00\x22")
    scenario = TWO.replace("]\n", "]\n" + misbehaving("cuStreamSynchronize", "error 719 after 9"))
    assert worker(INSIDE, scenario, machine=(tmp_path,))["error_kind"] == "sticky"
    found = worker(INSIDE, scenario, machine=(tmp_path,), STANDIN_LOSES=config)
    assert (found["error_kind"], found["samples_gbs"]) == ("lost", [])
    assert found["error"].startswith(f"{A} does not answer on the bus any more: the GPU failed while it worked (")


def test_a_gpu_that_the_library_loses(worker, misbehaving):
    found = worker(INSIDE, TWO.replace("]\n", "]\n" + misbehaving("cuStreamSynchronize", "error 100 after 9")))
    assert (found["error_kind"], found["samples_gbs"]) == ("lost", [])
    assert "does not find the GPU any more" in found["error"]


def test_no_gpu(worker):
    found = worker({"kind": "devices"}, "")
    assert (found["error_kind"], found["devices"]) == ("no-device", [])
    assert found["error"].startswith("the library sees no GPU that it can use (")


def test_a_gpu_that_the_library_does_not_see(worker):
    hidden = "CUDA_VISIBLE_DEVICES" if worker.name == "cuda" else "HIP_VISIBLE_DEVICES"
    found = worker(TO_GPU, f"[gpu {B}]\n", **{hidden: "1"})
    assert found["error_kind"] == "no-device"
    assert found["error"] == f"{A} is not among the GPUs that the library sees: {B}; {hidden} is set to '1' here"


def test_an_error_that_the_binding_does_not_know(worker, misbehaving):
    found = worker(INSIDE, TWO.replace("]\n", "]\n" + misbehaving("cuMemAlloc_v2", "error 12345")))
    assert (found["error_kind"], found["samples_gbs"]) == ("other", [])
    assert "12345" in found["error"]


def test_the_library_cannot_start(worker, misbehaving):
    found = worker(TO_GPU, f"[library]\n{misbehaving('cuInit', 'error 999')}{TWO}")
    assert (found["error_kind"], found["step"]["target"]) == ("other", A)
    assert "the library gives no reason" in found["error"]


def test_no_permission(worker, misbehaving, tmp_path):
    name = {"cuda": "nvidiactl", "hip": "kfd"}[worker.name]
    scenario = f"[library]\n{misbehaving('cuInit', 'error 100')}{TWO}"
    assert worker(TO_GPU, scenario, machine=("/sys", tmp_path))["error_kind"] == "no-device"
    (tmp_path / name).touch(mode=0)
    found = worker(TO_GPU, scenario, machine=("/sys", tmp_path), before=obey_modes)
    assert found["error_kind"] == "permission"
    assert f"this user may not open {tmp_path}/{name}" in found["error"]


def obey_modes():
    """What root may open, too, depends on the mode of the file."""
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


def test_what_the_library_prints_goes_nowhere(worker, misbehaving):
    found = worker({"kind": "devices"}, f"[library]\n{misbehaving('cuDeviceGetCount', 'print')}{TWO}")
    assert len(found["devices"]) == 2


def test_without_the_library(worker):
    found = worker({"kind": "devices"}, TWO, LD_LIBRARY_PATH="", ROCM_PATH="/nonexistent")
    assert (found["error_kind"], found["devices"]) == ("no-library", [])
    assert "is not installed here" in found["error"]


def test_a_worker_that_hangs_can_be_killed_and_gives_no_result(worker, misbehaving, tmp_path):
    os.mkfifo(tmp_path / "live")
    scenario = TWO.replace("]\n", "]\n" + misbehaving("cuStreamSynchronize", "hang"))
    environment = worker.environment(scenario, STANDIN_LOG=tmp_path / "live")
    step = json.dumps(INSIDE).encode()
    with (
        open(tmp_path / "live", "r+b", buffering=0) as log,
        subprocess.Popen(worker.command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as child,
    ):
        child.stdin.write(step)
        child.stdin.close()
        said = b""
        while b"StreamSynchronize" not in said:
            said += log.read(100)
        child.kill()
        assert child.stdout.read() == b""


def test_what_is_no_step_is_refused(worker):
    done = subprocess.run(worker.command(), input='{"kind": "dance"}', capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: python -m hostdoctor.bandwidth.worker cuda|hip")
    assert "Invalid enum value 'dance'" in done.stderr


# What only one of them has


def test_the_parts_of_a_copy_that_is_staged_here_overlap(hip):
    found = hip({**STAGED, "size_bytes": 16 << 20}, TWO)
    assert min(found["samples_gbs"]) > 0.9  # of 1.25 each way; one after the other they would give 0.63
    assert found["data"] == "right"
    assert hip.calls("cuMemcpyPeerAsync") == []
    assert hip({**STAGED, "size_bytes": 9 * SIZE + 7}, f"[gpu {B}]\nto_gpu_data = flipped\n{TWO}")["data"] == "wrong"


def test_the_kernel_module_of_another_version(cuda):
    found = cuda({"kind": "devices"}, f"[library]\ncuInit = error 803\n{TWO}")
    assert found["error_code"] == "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"
    assert found["error"].startswith("the driver's library and its kernel module are of different versions: a reboot")


def test_a_driver_without_a_function(cuda):
    found = cuda(DIRECT, f"[library]\nmissing = cuMemcpyPeerAsync\n{TWO}")
    assert found["error_kind"] == "other"
    assert "CUDA driver 12.8) is too old for the installed cuda-bindings: it has no cuMemcpyPeerAsync" in found["error"]


def test_a_gpu_that_another_process_has_alone(cuda):
    found = cuda(INSIDE, f"[gpu]\ncuDevicePrimaryCtxRetain = error 46\n{TWO}")
    assert (found["error_kind"], found["error_code"]) == ("busy", "CUDA_ERROR_DEVICE_UNAVAILABLE")


def test_a_package_in_the_place_of_the_binding(cuda, tmp_path):
    (tmp_path / "hip_python_interop-7.2.2.dist-info").mkdir()
    (tmp_path / "hip_python_interop-7.2.2.dist-info/METADATA").write_text("Name: hip-python-interop\nVersion: 7.2.2\n")
    found = cuda({"kind": "devices"}, TWO, PYTHONPATH=tmp_path)
    assert found["error_kind"] == "no-library"
    assert "uninstall it, and install cuda-bindings again" in found["error"]
