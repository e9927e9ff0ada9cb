"""The whole way with copies of our own, over the stand-in of AMD's runtime."""

from __future__ import annotations

import json

import pytest

from tests.standins import libraries

A, B, C = "0000:03:00.0", "0000:07:00.0", "0000:0b:00.0"

pytestmark = pytest.mark.skipif(bool(libraries.why_no_hip()), reason=libraries.why_no_hip() or "there is one")


@pytest.fixture(scope="session")
def runtime(tmp_path_factory):
    return libraries.compile_hip(tmp_path_factory.mktemp("rocm"))


@pytest.fixture
def hip(rig, runtime):
    """Has the runtime copy between the rig's GPUs; pairs are (direct GB/s, further lines)."""

    def scenario(pairs=None):
        lines = [f"[gpu {gpu}]\nto_gpu_gbs = 6.8\nfrom_gpu_gbs = 6.7\ninside_gbs = 5\n" for gpu in rig.gpus]
        for a in rig.gpus:
            for b in rig.gpus:
                gbs, more = (pairs or {}).get((a, b), (6.6, ""))
                text = f"[pair {a} {b}]\ndirect_gbs = {gbs}\nstaged_gbs = 3.1\ndirect_us = 1.5\nstaged_us = 14\n{more}\n"
                lines.append(text if a != b else "")
        (rig.folder / "scenario.ini").write_text("".join(lines))
        return rig

    rig.variables.update(
        ROCM_PATH=str(runtime), LD_LIBRARY_PATH=str(runtime / "lib"), STANDIN_SCENARIO=str(rig.folder / "scenario.ini")
    )
    return scenario


def test_both_arms_are_measured_and_compared(rig, hip):
    rig.amd(2)
    hip()
    done = rig.measure("--tool", "hip", "--size", 1, "--format", "json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    pairs = [each for each in report["measurements"] if each["kind"] == "pair"]
    assert len(pairs) == 6
    assert all((each["state"], each["data"]) == ("measured", "right") for each in pairs)
    rates = {(each["peer_access"], each["both_ways"]): each["median_gbs"] for each in pairs}
    assert rates[True, False] > 1.5 * rates[False, False]
    assert all(each["samples"] >= 5 and each["low_gbs"] <= each["median_gbs"] <= each["high_gbs"] for each in pairs)
    outcomes = {(each["check"], each["outcome"]) for each in report["findings"]}
    assert outcomes == {(check, "ok") for check in ("host-bandwidth", "link-speed", "p2p-bandwidth", "p2p-data")}


def test_dropped_data_are_found_and_give_no_figure(rig, hip):
    rig.amd(2)
    hip({(A, B): (6.6, "direct_data = dropped")})
    done = rig.measure("--tool", "hip", "--size", 1, "--format", "json")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    pairs = [each for each in report["measurements"] if each["kind"] == "pair"]
    assert all(each["median_gbs"] is None and each["latency_us"] is None for each in pairs)
    assert any("the target holds what it held before" in each["text"] for each in pairs)
    failures = {each["check"] for each in report["findings"] if each["outcome"] == "failure"}
    assert failures == {"p2p-data"}


def test_scan_wakes_gpus_to_judge_their_links(rig, hip):
    rig.amd(2)
    hip()
    asleep = rig.run("scan", "--root", rig.tree.root, "--check", "link-speed", "-v")
    done = rig.run("scan", "--root", rig.tree.root, "--wake", "--check", "link-speed", "-v")
    assert "while the GPU copied" not in asleep.stdout
    assert "8 GT/s while the GPU copied, all that card and slot can do" in done.stdout
    assert done.returncode == 0


def test_scan_wakes_nothing_where_nothing_can_copy(rig):
    rig.amd(1)
    rig.variables.update(ROCM_PATH="/nowhere", LD_LIBRARY_PATH="")
    done = rig.run("scan", "--root", rig.tree.root, "--wake")
    assert done.returncode == 3
    assert "no GPU can be woken: nothing here can measure: hip: " in done.stderr


def test_scan_measures_nothing_that_is_not_this_host(rig):
    rig.amd(1).tree.write("proc/sys/kernel/random/boot_id", "0\n")
    for arguments in (("--root", rig.tree.root), (rig.folder / "scene.json",)):
        for option in ("--wake", "--measure"):
            done = rig.run("scan", *arguments, option, "--yes")
            assert done.returncode == 3
