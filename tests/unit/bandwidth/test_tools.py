"""`hostdoctor bandwidth` with each of the vendors' tools: real processes, whose tools are stand-ins."""

from __future__ import annotations

import csv
import io
import json

import pytest

from tests.standins import programs

A, B, C = "0000:03:00.0", "0000:07:00.0", "0000:0b:00.0"
N1, N2 = "0000:11:00.0", "0000:21:00.0"


def findings(report, check, outcome):
    return [each for each in report["findings"] if (each["check"], each["outcome"]) == (check, outcome)]


def measured(report, **wanted):
    return [each for each in report["measurements"] if all(each[name] == value for name, value in wanted.items())]


def as_json(rig, *arguments):
    done = rig.measure("--format", "json", *arguments)
    return json.loads(done.stdout), done


@pytest.mark.parametrize("name", ["rocm-bandwidth-test", "TransferBench", "rocm-7"])
def test_amd_tools_measure_each_pair_by_itself(rig, name):
    rig.amd(2).scene(gbs={f"{A} {B}": 6.6, f"{B} {A}": 6.4})
    if name == "rocm-7":
        programs.install_rocm_7(rig.prefix)
    else:
        rig.tool(name)
    report, done = as_json(rig, "--tool", "rocm-bandwidth-test" if name == "rocm-7" else name)
    assert done.returncode == 0, done.stderr
    one_way = measured(report, kind="pair", both_ways=False)
    assert {(each["origin"], each["target"]): each["median_gbs"] for each in one_way} == {(A, B): 6.6, (B, A): 6.4}
    assert all(each["data"] == "right" and each["samples"] == 5 for each in one_way)
    assert [each["median_gbs"] for each in measured(report, both_ways=True)] == [13.0]
    assert measured(report, kind="to-gpu", target=A)[0]["median_gbs"] == 6.8
    assert findings(report, "p2p-data", "ok")
    assert findings(report, "host-bandwidth", "ok")
    assert len({(each["subject"][0], each["subject"][1]) for each in findings(report, "p2p-bandwidth", "ok")}) == 2


def test_nvbandwidth_sees_only_the_gpus_of_its_step(rig):
    rig.nvidia(3).tool("nvbandwidth").scene(gbs={f"{N1} {N2}": 12.9})
    report, done = as_json(rig, "--tool", "nvbandwidth")
    assert done.returncode == 0, done.stderr
    (pair,) = measured(report, kind="pair", both_ways=False, origin=N1, target=N2)
    assert (pair["median_gbs"], pair["data"]) == (12.9, "right")
    assert measured(report, kind="pair", peer_access=False) == []
    pairs = [call for call in rig.calls if "device_to_device" in call]
    assert {call.rsplit(" ", 1)[1] for call in pairs} == {"0,1", "1,0", "0,2", "2,0", "1,2", "2,1"}


def test_some_of_the_gpus_are_numbered_among_all_of_them(rig):
    rig.nvidia(3).tool("nvbandwidth")
    report, done = as_json(rig, "--tool", "nvbandwidth", "--gpu", N2)
    assert done.returncode == 0, done.stderr
    assert {each["state"] for each in report["measurements"]} == {"measured"}
    assert {call.rsplit(" ", 1)[1] for call in rig.calls} == {"1"}


def test_the_sample_measures_both_arms_and_proves_no_data(rig):
    rig.nvidia(2).tool("p2pBandwidthLatencyTest").scene(gbs={f"{N1} {N2}": 12.9, f"{N2} {N1}": 12.8})
    report, done = as_json(rig, "--tool", "p2pBandwidthLatencyTest")
    assert done.returncode == 0, done.stderr
    (direct,) = measured(report, origin=N1, target=N2, both_ways=False, peer_access=True)
    (staged,) = measured(report, origin=N1, target=N2, both_ways=False, peer_access=False)
    assert (direct["median_gbs"], direct["latency_us"], staged["median_gbs"]) == (12.9, 1.9, 3.1)
    assert findings(report, "p2p-data", "unknown")
    assert not findings(report, "p2p-data", "ok")
    assert len(rig.calls) == 1  # all of a pair at once


def test_pairs_without_access_are_no_fault(rig):
    rig.amd(2).tool("rocm-bandwidth-test").scene(no_access=[f"{A} {B}", f"{B} {A}"])
    done = rig.measure("--tool", "rocm-bandwidth-test")
    assert done.returncode == 0, done.stdout
    assert "none  the driver grants no peer access" in done.stdout
    assert "FAILURE" not in done.stdout


@pytest.mark.parametrize(
    ("name", "vendor", "pair"),
    [("rocm-bandwidth-test", "amd", (A, B)), ("TransferBench", "amd", (A, B)), ("nvbandwidth", "nvidia", (N1, N2))],
)
def test_no_format_shows_a_figure_of_wrong_data(rig, name, vendor, pair):
    """The figures of the pair are like no others, so that they would be found anywhere."""
    strange = {f"{pair[0]} {pair[1]}": 5.4321, f"{pair[1]} {pair[0]}": 4.3217}
    getattr(rig, vendor)(3).tool(name).scene(gbs=strange, wrong=[f"{pair[0]} {pair[1]}"])
    text = rig.measure("--tool", name, "-v")
    assert text.returncode == 1, text.stderr
    scan = rig.run("scan", "--root", rig.tree.root, "--with-bandwidth", rig.results, "-v", "--fail-on", "never")
    outputs = [text.stdout, scan.stdout]
    for format_ in ("json", "html", "markdown", "csv"):
        outputs.append(rig.measure("--resume", rig.results, "--format", format_).stdout)
    for output in outputs:
        for figure in ("5.4", "4.3", "9.75", "9.8"):
            assert figure not in output
    assert "WRONG" in text.stdout
    assert "data arrive wrong between the two GPUs" in scan.stdout
    rows = list(csv.DictReader(io.StringIO(outputs[-1])))
    wrong = [row for row in rows if {row["origin"], row["target"]} == set(pair) and row["kind"] == "pair"]
    assert wrong
    assert all(row["median_gbs"] == "" and row["state"] in ("wrong", "withheld") for row in wrong)


def test_a_slow_pair_is_marked_and_judged_as_from_a_paste(rig):
    rig.amd(3).tool("rocm-bandwidth-test").scene(gbs={f"{A} {B}": 0.9, f"{B} {A}": 0.9})
    done = rig.measure("--tool", "rocm-bandwidth-test")
    assert done.returncode == 1
    assert "0.9!" in done.stdout
    assert "6.8!" not in done.stdout
    assert "copies between the GPUs" in done.stdout


def test_eight_gpus_fit_a_terminal(rig):
    rig.nvidia(8).tool("p2pBandwidthLatencyTest")
    done = rig.measure("--tool", "p2pBandwidthLatencyTest")
    assert done.returncode == 0, done.stderr
    matrix = done.stdout.partition("direct, one way")[2].splitlines()[1:10]
    assert len(matrix) == 9
    assert all(len(line) <= 100 for line in matrix)
    assert matrix[8].split()[1:] == ["13.1"] * 7 + ["."]


def test_auto_takes_the_best_that_is_there_and_says_why_not_another(rig):
    rig.nvidia(2).tool("p2pBandwidthLatencyTest").tool("nvbandwidth")
    rig.variables["LD_LIBRARY_PATH"] = ""
    done = rig.measure()
    assert "Measures with nvbandwidth" in done.stderr
    assert "not with cuda: " in done.stderr


def test_links_are_read_while_copies_run(rig):
    rig.amd(2).tool("rocm-bandwidth-test")
    report, _ = as_json(rig, "--tool", "rocm-bandwidth-test")
    seen = {each["port"]: (each["speed_gts"], each["width"]) for each in report["links"]}
    assert seen["0000:01:00.0"] == (8.0, 8)  # of the card, not the one inside it
    assert [each["outcome"] for each in report["findings"] if each["check"] == "link-speed"] == ["ok", "ok"]


def test_a_link_slower_than_what_passed_over_it_was_not_looked_at_in_time(rig):
    rig.amd(1).tool("rocm-bandwidth-test")
    for path in rig.tree.root.rglob("current_link_speed"):
        path.write_text("2.5 GT/s PCIe\n")
    report, done = as_json(rig, "--tool", "rocm-bandwidth-test")
    assert not findings(report, "link-speed", "failure"), done.stdout


def test_a_link_that_stays_slow_under_load_is_a_failure(rig):
    rig.amd(1).tool("rocm-bandwidth-test").scene(gbs={f"host {A}": 1.7, f"{A} host": 1.7})
    for path in rig.tree.root.rglob("current_link_speed"):
        path.write_text("2.5 GT/s PCIe\n")
    report, done = as_json(rig, "--tool", "rocm-bandwidth-test")
    (found,) = findings(report, "link-speed", "failure")
    assert "2.5 GT/s while the GPU copies" in found["title"]
    assert done.returncode == 1


def test_a_node_without_memory_shifts_what_the_tool_counts(rig):
    """It counts agents in its tables, and pools of memory for -s and -d."""
    rig.amd(2).tool("rocm-bandwidth-test").scene(bare_node=True, gbs={f"{A} {B}": 6.6, f"{B} {A}": 6.4})
    report, done = as_json(rig, "--tool", "rocm-bandwidth-test")
    assert done.returncode == 0, done.stderr
    one_way = measured(report, kind="pair", both_ways=False)
    assert {(each["origin"], each["target"]): each["median_gbs"] for each in one_way} == {(A, B): 6.6, (B, A): 6.4}
    assert [each["median_gbs"] for each in measured(report, kind="to-gpu")] == [6.8, 6.8]


def test_wrong_data_one_way_leave_no_figure_of_the_other_way_either(rig):
    rig.amd(1).tool("rocm-bandwidth-test").scene(wrong=[f"host {A}"])
    report, done = as_json(rig, "--tool", "rocm-bandwidth-test")
    assert done.returncode == 1
    found = {each["kind"]: (each["state"], each["median_gbs"]) for each in report["measurements"]}
    assert found == {"to-gpu": ("wrong", None), "from-gpu": ("withheld", None), "inside": ("measured", 6.8)}


def test_rocm_bandwidth_test_prints_no_domain(rig):
    """A GPU of another domain is found by the rest of its address, where only one has that; else it is not guessed."""
    tree, function = rig.tree, {"driver": "amdgpu", "bars": [(0x3800_0000_0000, 32 << 30)]}
    rig.gpus = ["10000:43:00.0"]
    tree.function(rig.gpus[0], "sys/devices/pci10000:40", **function)
    rig.scene().tool("rocm-bandwidth-test")
    report, done = as_json(rig, "--tool", "rocm-bandwidth-test")
    assert done.returncode == 0, done.stderr
    assert {end for each in measured(report, kind="inside") for end in (each["origin"], each["target"])} == {"10000:43:00.0"}
    rig.gpus.append("10001:43:00.0")
    tree.function(rig.gpus[1], "sys/devices/pci10001:40", **function)
    rig.scene().results.unlink()
    done = rig.measure("--tool", "rocm-bandwidth-test")
    assert done.returncode == 3
    assert "it sees none of this host's GPUs" in done.stderr
