"""nvbandwidth: text and JSON, old and new, several hosts, waived tests, wrong data, and cut pastes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.nvbandwidth import parse
from hostdoctor.parsers.paste import Part, split

HEAD = """\
nvbandwidth Version: v0.8
Built from Git version: v0.8

CUDA Runtime Version: 13000
CUDA Driver Version: 13000
Driver Version: 580.95.05

Device 0: NVIDIA RTX A6000 (00000000:01:00)
Device 1: NVIDIA RTX A6000 (00000000:c1:00)

"""
TO_GPU = """\
Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     25.29     25.71

SUM host_to_device_memcpy_ce 51.00

"""
TO_HOST_BOTH = """\
Running device_to_host_bidirectional_memcpy_ce.
memcpy CE CPU(row) <-> GPU(column) bandwidth (GB/s)
           0         1
 0     18.00     18.10

SUM device_to_host_bidirectional_memcpy_ce 36.10

Waived:
"""
READ = """\
Running device_to_device_memcpy_read_ce.
memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0       N/A     26.34
 1     21.95      0.00

SUM device_to_device_memcpy_read_ce 48.29

"""
WRITE = """\
Running device_to_device_memcpy_write_ce.
memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)
           0         1
 0       N/A     24.00
 1     23.00       N/A

SUM device_to_device_memcpy_write_ce 47.00

"""
BOTH = """\
Running device_to_device_bidirectional_memcpy_write_ce.
memcpy CE GPU(row) <-> GPU(column) Write1 bandwidth (GB/s)
           0         1
 0       N/A     20.00
 1     20.00       N/A

memcpy CE GPU(row) <-> GPU(column) Total bandwidth (GB/s)
           0         1
 0       N/A     40.00
 1     40.00       N/A

SUM device_to_device_bidirectional_memcpy_write_ce_total 80.00

"""
REST = """\
Running multinode_device_to_device_memcpy_read_ce.
memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0       N/A    700.00
 1    700.00       N/A

Running device_local_copy.
memcpy local GPU(column) bandwidth (GB/s)
           0         1
 0    320.00    321.00

Running host_device_latency_sm.
memory latency SM CPU(row) <-> GPU(column) (ns)
           0         1
 0    768.24    770.00

Running all_to_host_memcpy_ce.
memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)
           0         1
 0     12.00     12.10
"""
TEXT = HEAD + TO_GPU + TO_HOST_BOTH + READ + WRITE + BOTH + REST
A, B = "0000:01:00.0", "0000:c1:00.0"
JSON = json.dumps(
    {
        "nvbandwidth": {
            "CUDA Runtime Version": 12040,
            "Driver Version": "550.54.15",
            "GPU Device list": ["0: NVIDIA H100 (00000000:1b:00): (node7)", "1: NVIDIA H100 (00000000:43:00): (node7)"],
            "version": "v0.8",
            "testcases": [
                {"name": "device_to_device_memcpy_read_ce", "status": "Running"},
                {
                    "name": "device_to_device_memcpy_read_ce",
                    "status": "Passed",
                    "bandwidth_description": "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
                    "bandwidth_matrix": [["N/A", "370.10"], ["371.20", "N/A"]],
                    "sum": 741.3,
                },
                {"name": "host_to_device_memcpy_sm", "status": "Waived"},
            ],
        }
    },
    indent=8,
)


def read(text, kind="nvbandwidth"):
    runs = [run for part in split(text, "nvb.txt") if part.kind == kind and (run := parse(part))]
    assert len(runs) == 1
    return runs[0]


def found(run, origin, target):
    return [each for each in run.transfers if (each.origin, each.target) == (origin, target)]


def test_devices_with_and_without_an_address():
    assert [device.subject for device in read(TEXT).devices] == [A, B]
    old = read("nvbandwidth Version: v0.2\n\nDevice 0: NVIDIA GeForce RTX 4090\nDevice 1: NVIDIA GeForce RTX 4090\n" + TO_GPU)
    assert next((device.subject, device.name) for device in old.devices) == ("GPU0", "NVIDIA GeForce RTX 4090")
    several = read("nvbandwidth Version: v0.8\nProcess 0 (node7): device 0: NVIDIA GB200 (00000008:01:00)\n")
    assert [(device.subject, device.name) for device in several.devices] == [("0008:01:00.0", "NVIDIA GB200")]


def test_host_copies_and_their_company():
    run = read(TEXT)
    (to_gpu,) = [each for each in found(run, "host", A) if each.latency_us is None and not each.contended]
    assert (to_gpu.gbs, to_gpu.engine, to_gpu.statistic) == (25.29, "copy-engine", "median")
    assert {each.contended for each in run.transfers if each.gbs in (18.0, 18.1, 12.0, 12.1)} == {True}


def test_arrows_say_which_way():
    run = read(TEXT)
    read_, written, *_ = found(run, A, B)
    assert (read_.gbs, read_.initiator) == (26.34, "target")
    assert (written.gbs, written.initiator) == (23.0, "origin")


def test_zero_is_a_pair_without_access():
    assert found(read(HEAD + READ), B, B)[0].gbs is None


def test_both_ways_only_the_total_is_a_sum():
    one, total = list(found(read(HEAD + BOTH), A, B))
    assert (one.gbs, one.both_ways, one.contended) == (20.0, False, True)
    assert (total.gbs, total.both_ways, total.contended) == (40.0, True, False)


def test_several_hosts_tell_nothing_of_this_one():
    assert not [each for each in read(TEXT).transfers if each.gbs == 700.0]


def test_latency_and_local_copies():
    run = read(TEXT)
    assert [each.latency_us for each in run.transfers if each.latency_us] == [pytest.approx(0.76824), pytest.approx(0.77)]
    assert found(run, A, A)[-1].gbs == 320.0


def test_a_table_named_by_its_sum_alone():
    table = TO_GPU[TO_GPU.index("memcpy") :]
    assert not read(HEAD + table).transfers[0].contended
    assert read(HEAD + table[: table.index("SUM")]).transfers[0].contended


@pytest.mark.parametrize(
    ("command", "compared"), [("./nvbandwidth", True), ("nvbandwidth -s -t 4", False), ("less nvb.log", False)]
)
def test_data_were_compared_where_the_command_does_not_say_otherwise(command, compared):
    run = read(f"user@node:~$ {command}\n{TEXT}")
    assert bool(run.verifications) is compared


def test_without_a_command_nothing_tells_that_data_were_compared():
    assert read(TEXT).verifications == ()


def test_wrong_data_stop_it():
    text = HEAD + "Running device_to_device_memcpy_read_ce.\nASSERT in expression h_errorFlag == 0 in memcpy.cpp:120\n"
    (test,) = read(text).verifications
    assert test.right is False
    assert "device_to_device_memcpy_read_ce" in test.text


def test_a_table_whose_numbers_are_cut_off():
    run = read(
        HEAD + "Running device_to_device_memcpy_read_ce.\nmemcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n      0     1\n"
    )
    assert run.cut
    assert not run.transfers


def test_json():
    run = read(JSON, "json")
    assert next((each.subject, each.name) for each in run.devices) == ("0000:1b:00.0", "NVIDIA H100")
    assert found(run, "0000:1b:00.0", "0000:43:00.0")[0].gbs == 370.1
    assert not run.cut


def test_json_that_the_paste_cuts():
    end = JSON.index("371.20")
    run = read(JSON[:end], "json")
    assert run.cut
    assert found(run, "0000:1b:00.0", "0000:43:00.0")[0].gbs == 370.1
    assert not found(run, "0000:43:00.0", "0000:1b:00.0")


@pytest.mark.parametrize("text", ['{"gpu": [1]}', '{"nvbandwidth": 3}', '{"nvbandwidth": {"testcases": 5}}', "[" * 5000])
def test_json_of_others_is_left_alone(text):
    assert not any(parse(part) for part in split(text, "x.json") if part.kind == "json")


@given(st.integers(0, len(TEXT)))
def test_cut_anywhere_it_is_read(end):
    for part in split(TEXT[:end], "nvb.txt"):
        parse(part)


@given(st.integers(0, len(JSON)))
def test_json_cut_anywhere_is_read(end):
    for part in split(JSON[:end], "nvb.json"):
        if part.kind == "json":
            parse(part)


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(max_size=8) | st.floats(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["nvbandwidth", "testcases", "name", "bandwidth_matrix", "bandwidth_description", "GPU Device list"]
                ),
                inner,
                max_size=3,
            )
        ),
    )
)
def test_any_json_is_read(value):
    parse(Part("json", "x.json", 1, tuple(json.dumps({"nvbandwidth": value}, indent=1).split("\n"))))


@given(st.text(max_size=200))
def test_any_text_is_read(text):
    parse(Part("nvbandwidth", "nvb.txt", 1, tuple(text.split("\n"))))
