"""Runs among attachments: which GPUs they are, what a tool was told of access, and how they join what is known."""

from __future__ import annotations

import msgspec
import pytest

from hostdoctor.facts.host import Host
from hostdoctor.facts.unknown import Unknown
from hostdoctor.parsers.paste import split
from hostdoctor.readers.attached.bandwidth import apply

RBT = """\
          RocmBandwidthTest Version: 2.6.0

          Device: 0,  AMD EPYC 7302 16-Core Processor
          Device: 1,  AMD Radeon PRO V620,  GPU-000000001a2b0001,  43:0.0
          Device: 2,  AMD Radeon PRO V620,  GPU-XX,  83:0.0

          Inter-Device Access

          D/D       0         1         2         \n
          0         1         1         1         \n
          1         1         1         0         \n
          2         1         0         1         \n
          Unidirectional copy peak bandwidth GB/s

          D/D       0           1           2           \n
          0         N/A         27.962      27.958      \n
          1         28.617      611.204     N/A         \n
          2         28.620      N/A         604.771     \n
"""
SINGLE = """\
================    Unidirectional Benchmark Result    ================
================ Src Device Id: 1 Src Device Type: Gpu ================
================ Dst Device Id: 2 Dst Device Type: Gpu ================

Data Size      Avg Time(us)   Avg BW(GB/s)   Min Time(us)   Peak BW(GB/s)  \n
64 MB          10155.125      6.608          10155.120      6.608          \n
"""
TB = """\
Bytes Per Direction 67108864
Unidirectional copy peak bandwidth GB/s [Local read / Remote write] (GPU-Executor: GFX)
 SRC+EXE\\DST    CPU 00       GPU 00    GPU 01
  CPU 00  ->     30.10         6.87      6.86

  GPU 00  ->      6.70       420.00      6.61
  GPU 01  ->      6.70         6.60    421.00
"""
NVB = """\
nvbandwidth Version: v0.2

Device 0: NVIDIA GeForce RTX 4090
Device 1: NVIDIA GeForce RTX 4090

Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
          0         1
0     25.29     25.71
"""
KINDS = ("rocm-bandwidth-test", "transferbench", "nvbandwidth", "p2p-bandwidth-latency-test", "simple-p2p", "json")
UNKNOWN = Unknown("not in this evidence")


@pytest.fixture
def empty(build):
    return Host(build.Environment(UNKNOWN), UNKNOWN)


def attach(host, *texts):
    parts = [part for number, text in enumerate(texts) for part in split(text, f"{number}.txt") if part.kind in KINDS]
    return apply(host, parts)


def ends(host):
    return {(each.origin, each.target) for run in host.runs for each in run.transfers}


def test_gpus_that_only_the_tool_names(empty):
    host = attach(empty, RBT)
    gpu = host.functions["0000:43:00.0"]
    assert (gpu.vendor, gpu.device, gpu.driver, gpu.name) == (0x1002, 0, "amdgpu", "AMD Radeon PRO V620")
    assert isinstance(gpu.parent, Unknown)
    assert gpu.origin == "0.txt:4"
    assert list(host.functions) == ["0000:43:00.0", "0000:83:00.0"]


def test_what_a_tool_was_told_becomes_words(empty):
    words = {(word.accessor, word.owner): word.allowed for word in attach(empty, RBT).pair_words}
    assert words["0000:43:00.0", "0000:83:00.0"] is False


def test_functions_that_are_known_stay_what_they_are(build):
    host = build.host(build.two_navi_cards())
    assert attach(host, RBT).functions == {
        address: msgspec.structs.replace(each, name="AMD Radeon PRO V620") if address in (build.FIRST, build.SECOND) else each
        for address, each in host.functions.items()
    }


def test_an_address_without_domain_is_the_only_one_that_fits(build):
    host = build.host(build.gpu("0001:43:00.0", build.V620))
    assert ("0001:43:00.0", "host:0") in ends(attach(host, RBT))


def test_numbers_stay_numbers_where_nothing_tells_addresses(empty):
    host = attach(empty, NVB)
    assert list(host.functions) == ["GPU0", "GPU1"]
    assert host.functions["GPU0"].vendor == 0x10DE


def test_cuda_numbers_are_not_taken_for_the_order_of_addresses(build):
    host = build.host(build.two_nvidia_gpus())
    attached = attach(host, NVB)
    assert ("host", "GPU0") in ends(attached)
    assert set(attached.functions) == set(host.functions)


def test_a_single_gpu_is_the_only_one_there_is(build):
    host = build.host(build.gpu("0000:41:00.0", build.A5000))
    one = NVB.replace("Device 1: NVIDIA GeForce RTX 4090\n", "").replace("         1\n", "\n").replace("     25.71\n", "\n")
    assert ends(attach(host, one)) == {("host", "0000:41:00.0")}


def test_hip_numbers_are_those_of_kfd(build):
    host = build.host(build.two_navi_cards(), kfd=build.kfd((build.SECOND, build.FIRST)))
    found = {(each.origin, each.target): each.gbs for run in attach(host, TB).runs for each in run.transfers}
    assert found[build.SECOND, build.FIRST] == 6.61


def test_a_run_without_devices_uses_those_of_another_run(empty):
    host = attach(empty, RBT, SINGLE)
    assert ("0000:43:00.0", "0000:83:00.0") in ends(host)
    assert not any(end.startswith("Device") for pair in ends(host) for end in pair)


def test_a_run_without_devices_alone(empty):
    host = attach(empty, SINGLE)
    assert list(host.functions) == ["Device 1", "Device 2"]


def test_the_processor_gets_its_name(empty, build):
    assert attach(empty, RBT).cpu.name == "AMD EPYC 7302 16-Core Processor"
    assert attach(build.host(), RBT).cpu.name == "AMD EPYC 7302"


def test_what_is_no_run_leaves_the_host_alone(empty):
    assert attach(empty, '{\n  "gpu": 1\n}\n', "Supported arguments:\n") == empty
