"""TransferBench: the presets p2p and a2a, single Transfers and the list of links, as text and as CSV."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.paste import Part, split
from hostdoctor.parsers.transferbench import parse

P2P = """\
TransferBench v1.52
===============================================================
[Common]                              (Suppress by setting HIDE_ENV=1)
ALWAYS_VALIDATE      =            0 : Validating after all iterations

Bytes Per Direction 67108864
Unidirectional copy peak bandwidth GB/s [Local read / Remote write] (GPU-Executor: DMA)
 SRC+EXE\\DST    CPU 00       GPU 00    GPU 01
  CPU 00  ->     30.10         6.87      6.86

  GPU 00  ->      6.70       420.00      6.61
  GPU 01  ->      6.71         6.60    421.00
                           CPU->CPU  CPU->GPU  GPU->CPU  GPU->GPU
Averages (During UniDir):       N/A      6.87      6.70      6.60

Bidirectional copy peak bandwidth GB/s [Local read / Remote write] (GPU-Executor: DMA)
     SRC\\DST    CPU 00       GPU 00    GPU 01
  CPU 00  ->       N/A         6.50      6.51
  CPU 00 <-        N/A         6.52      6.53
  CPU 00 <->       N/A        13.02     13.04

  GPU 00  ->      6.70          N/A      6.61
  GPU 00 <-       6.70          N/A      6.62
  GPU 00 <->     13.40          N/A     13.23

  GPU 01  ->      6.70         6.62       N/A
  GPU 01 <-       6.70         6.61       N/A
  GPU 01 <->     13.40        13.23       N/A
                           CPU->CPU  CPU->GPU  GPU->CPU  GPU->GPU
Averages (During  BiDir):       N/A      6.50      6.50      6.50
"""
A2A = """\
Summary: [67108864 bytes per Transfer] [GFX:8] [1 Read(s) 1 Write(s)]
===========================================================================
SRC\\DST  GPU 00     GPU 01     GPU 02       STotal      Actual
GPU 00    N/A        30.120     31.500       61.620     60.240
GPU 01    30.110     N/A        31.400       61.510     60.220
GPU 02    31.480     31.390     N/A          62.870     62.780
RTotal    61.590     61.510     62.900      186.000
"""
TRANSFERS = """\
Test 1:
 Executor: GPU 00 |   26.123 GB/s |    2.569 ms |     67108864 bytes | 26.200 GB/s (sum)
     Transfer 00  |   26.123 GB/s |    2.569 ms |     67108864 bytes | G0 -> D000:001 -> G1
 Aggregate (CPU)  |   20.001 GB/s |    3.355 ms |     67108864 bytes | Overhead: 0.786 ms
Test 2:
     Transfer 00  |   13.100 GB/s |    5.120 ms |     67108864 bytes | C0 -> G000:008 -> G0
     Transfer 01  |   12.900 GB/s |    5.200 ms |     67108864 bytes | G0 -> G000:008 -> C0
"""
LINKS = """\
TransferBench v1.60.00
        | GPU 00 | GPU 01 | PCIe Bus ID  | #CUs | NUMA | #DMA | #XCC | NIC
--------+--------+--------+--------------+------+------+------+------+-----
 GPU 00 |  N/A   | XGMI-1 | 0000:0c:00.0 | 304  |    0 |   16 |    8 |  -1
 GPU 01 | PCIE-2 |  N/A   | 0000:22:00.0 | 304  |    0 |   16 |    8 |  -1
"""


def read(text):
    runs = [run for part in split(text, "tb.txt") if part.kind == "transferbench" and (run := parse(part))]
    assert len(runs) == 1
    return runs[0]


def found(run, origin, target):
    return [each for each in run.transfers if (each.origin, each.target) == (origin, target)]


def test_one_way_both_ways_and_company():
    one, contended, both, other = found(read(P2P), "GPU0", "GPU1")
    assert (one.gbs, one.both_ways, one.contended, one.engine, one.initiator) == (6.61, False, False, "copy-engine", "origin")
    assert (contended.gbs, contended.contended) == (6.61, True)
    assert (other.gbs, other.contended) == (6.61, True)  # the row <- of GPU 01
    assert (both.gbs, both.both_ways, both.contended) == (13.23, True, False)


def test_what_processor_threads_copy_is_no_copy_engine():
    run = read(P2P)
    assert found(run, "host:0", "GPU0")[0].engine == "kernel"
    assert found(run, "GPU0", "host:0")[0].engine == "copy-engine"
    assert not found(run, "host:0", "host:0")


def test_a_remote_read_is_run_by_the_target():
    text = P2P.replace("Local read / Remote write", "Remote read / Local write").replace("SRC+EXE\\DST", "SRC\\EXE+DST")
    one = found(read(text), "GPU0", "GPU1")[0]
    assert one.initiator == "target"


def test_csv_says_the_same():
    lines = [line.replace("->    ", "->,", 1).replace("   ", ",") for line in P2P.splitlines()]
    assert [each.gbs for each in read("\n".join(lines)).transfers] == [each.gbs for each in read(P2P).transfers]


def test_rocm_7_prints_no_banner():
    run = read(P2P[P2P.index("Bytes Per") :])
    assert len(run.transfers) == len(read(P2P).transfers)
    assert not run.verifications


def test_data_are_compared_where_the_settings_say_so():
    tests = read(P2P).verifications
    assert {each.right for each in tests} == {True}
    assert ("GPU0", "GPU1") in {(each.origin, each.target) for each in tests}


def test_a_mismatch_is_wrong_data_somewhere():
    text = "TransferBench v1.60\n[ERROR] Transfer 0: Unexpected mismatch at index 12 of destination 0: expected 1.0, got 0.0\n"
    (test,) = read(text).verifications
    assert (test.right, test.origin) == (False, "")


def test_all_to_all_is_company():
    run = read(A2A)
    assert {each.contended for each in run.transfers} == {True}
    assert found(run, "GPU0", "GPU1")[0].gbs == 30.12
    assert found(run, "GPU0", "GPU0")[0].gbs is None
    assert len(run.gpus) == 3


def test_single_transfers_count_and_simultaneous_ones_are_company():
    run = read(TRANSFERS)
    alone, down, up = run.transfers
    assert (alone.origin, alone.target, alone.gbs, alone.contended) == ("GPU0", "GPU1", 26.123, False)
    assert (alone.initiator, alone.engine) == ("origin", "copy-engine")
    assert (down.origin, down.target, down.contended) == ("host:0", "GPU0", True)
    assert (up.origin, up.target) == ("GPU0", "host:0")


def test_the_list_of_links_gives_addresses():
    run = read(LINKS + P2P[P2P.index("Bytes Per") :])
    assert found(run, "0000:0c:00.0", "0000:22:00.0")[0].gbs == 6.61
    assert [(word.accessor, word.link) for word in run.words] == [("0000:0c:00.0", "XGMI"), ("0000:22:00.0", "PCIE")]


def test_a_cut_table_is_cut():
    text = P2P[: P2P.index("GPU 01 <->")]
    assert read(text).cut
    assert not read(P2P).cut


EVERYTHING = LINKS + P2P + A2A + TRANSFERS


@given(st.integers(0, len(EVERYTHING)))
def test_cut_anywhere_it_is_read(end):
    for part in split(EVERYTHING[:end], "tb.txt"):
        parse(part)


@given(st.lists(st.sampled_from([*EVERYTHING.splitlines(), "", "GPU 00 <-> 1 2 3 4 5 6", "SRC\\DST"]), max_size=40))
def test_lines_in_any_order_are_read(lines):
    parse(Part("transferbench", "tb.txt", 1, tuple(lines)))


@given(st.text(max_size=200))
def test_any_text_is_read(text):
    parse(Part("transferbench", "tb.txt", 1, tuple(text.split("\n"))))
