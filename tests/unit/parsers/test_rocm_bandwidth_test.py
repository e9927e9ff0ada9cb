"""rocm-bandwidth-test: all of its forms, old and new, whole and cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.paste import Part, split
from hostdoctor.parsers.rocm_bandwidth_test import parse

HEAD = """\
........
          RocmBandwidthTest Version: 2.6.0

          Launch Command is: /opt/rocm/bin/rocm-bandwidth-test -a


          Device: 0,  AMD EPYC 7302 16-Core Processor
          Device: 1,  AMD Radeon PRO V620,  GPU-000000001a2b0001,  03:0.0
          Device: 2,  AMD Radeon PRO V620,  GPU-XX,  43:0.0

"""
ACCESS = """\
          Inter-Device Access

          D/D       0         1         2         \n
          0         1         0         1         \n
          1         1         1         0         \n
          2         1         1         1         \n
"""
ONE_WAY = """\
          Unidirectional copy peak bandwidth GB/s

          D/D       0           1           2           \n
          0         N/A         6.868       6.791       \n
          1         6.635       846.479     N/A         \n
          2         6.616       6.608       394.332     \n
"""
BOTH_WAYS = """\
          Bdirectional copy peak bandwidth GB/s

          D/D       0           1           2           \n
          0         N/A         12.488000   12.480000   \n
          1         12.488000   N/A         4.921000    \n
          2         12.480000   4.921000    N/A         \n
"""
TOPOLOGY = """\
          RocmBandwidthTest Version: 2.2.0

          Device Index:                             0
            Device Type:                            CPU
              Allocatable Memory Size (KB):         131857736

          Device Index:                             1
            Device Type:                            GPU
            Device Name:                            AMD Instinct MI100
            Device  BDF:                            1b:0.0
            Device UUID:                            GPU-000000001a2b0001

          Device Index:                             2
            Device Type:                            GPU
            Device  BDF:                            c1:0.0

          Inter-Device Access

          D/D       0         1         2         \n
          0         1         1         1         \n
          1         1         1         1         \n
          2         1         1         1         \n
          Inter-Device Link Type: P = PCIe, X = xGMI, N/A = Not Applicable

          D/D       0         1         2         \n
          0         N/A       P         P         \n
          1         P         N/A       X         \n
          2         P         X         N/A       \n
"""
SINGLE = """\
          RocmBandwidthTest Version: 2.6.0

          Launch Command is: ./rocm-bandwidth-test -s 1 -d 2 -m 64,256


================    Unidirectional Benchmark Result    ================
================ Src Device Id: 1 Src Device Type: Gpu ================
================ Dst Device Id: 2 Dst Device Type: Gpu ================

Data Size      Avg Time(us)   Avg BW(GB/s)   Min Time(us)   Peak BW(GB/s)  \n
16 Bytes       2.505          0.006          2.500          0.006          \n
1 MB           161.145        6.000          161.140        6.510          \n
64 MB          10155.125      6.608          10155.120      6.608          \n
256 MB         40613.005      6.610          40613.000      6.612          \n
"""
VALIDATION = """\
          Data Path Validation

          D/D       0           1           2           \n
          0         N/A         PASS        PASS        \n
          1         PASS        PASS        FAIL        \n
          2         PASS        N/A         PASS        \n
"""
A, B = "0000:03:00.0", "0000:43:00.0"


def read(text):
    runs = [run for part in split(text, "rbt.txt") if part.kind == "rocm-bandwidth-test" and (run := parse(part))]
    assert len(runs) == 1
    return runs[0]


def rate(run, origin, target, **wanted):
    """The only transfer with these ends."""
    (found,) = [
        each
        for each in run.transfers
        if (each.origin, each.target) == (origin, target)
        and all(getattr(each, name) == value for name, value in wanted.items())
    ]
    return found.gbs


def test_devices_get_addresses_and_memory_nodes():
    run = read(HEAD + ONE_WAY)
    assert [(device.subject, device.is_gpu) for device in run.devices] == [("host:0", False), (A, True), (B, True)]
    assert run.devices[0].name == "AMD EPYC 7302 16-Core Processor"
    assert run.devices[1].name == "AMD Radeon PRO V620"
    assert run.version == "2.6.0"
    assert not run.has_domains


def test_two_gpus_that_print_the_same_address_have_none():
    """They lie in different PCI domains, which it does not print: their figures must not become those of one."""
    run = read((HEAD + ONE_WAY).replace("43:0.0", "03:0.0"))
    assert [device.subject for device in run.gpus] == ["Device 1", "Device 2"]
    assert {(each.origin, each.target) for each in run.transfers} >= {("Device 1", "Device 2"), ("Device 2", "Device 1")}


def test_rows_are_sources_and_not_available_is_no_rate():
    run = read(HEAD + ACCESS + ONE_WAY)
    assert rate(run, "host:0", A) == 6.868
    assert rate(run, A, "host:0") == 6.635
    assert rate(run, A, B) is None
    assert rate(run, B, A) == 6.608
    assert not any(each.origin == each.target == "host:0" for each in run.transfers)


def test_access_is_who_may_reach_whose_memory():
    words = {(word.accessor, word.owner): word.allowed for word in read(HEAD + ACCESS).words}
    assert words == {("host:0", A): False, ("host:0", B): True, (A, B): False, (B, A): True}


def test_the_misspelt_heading_and_six_decimals_of_2_0():
    run = read(HEAD + ACCESS.replace("Inter-", "") + BOTH_WAYS)
    assert rate(run, A, B, both_ways=True) == 4.921
    assert not run.cut


def test_the_list_of_t_gives_devices_and_links():
    run = read(TOPOLOGY)
    assert [device.subject for device in run.gpus] == ["0000:1b:00.0", "0000:c1:00.0"]
    links = {(word.accessor, word.owner): word.link for word in run.words}
    assert links["0000:1b:00.0", "0000:c1:00.0"] == "XGMI"
    assert links["host:0", "0000:1b:00.0"] == "PCIE"
    assert not run.transfers


def test_a_single_run_counts_its_largest_copy_and_its_small_one():
    run = read(SINGLE)
    small, large = run.transfers
    assert (large.origin, large.target, large.gbs, large.size_bytes) == ("Device 1", "Device 2", 6.612, 256 << 20)
    assert (small.latency_us, small.gbs) == (2.505, None)


def test_both_ways_of_a_single_run():
    (transfer, *_) = read(SINGLE.replace("Unidirectional", "Bidirectional")).transfers
    assert transfer.both_ways


def test_validation_says_right_wrong_or_nothing():
    tests = {(each.origin, each.target): each.right for each in read(HEAD + VALIDATION).verifications}
    assert tests[A, B] is False
    assert tests[B, A] is None
    assert tests["host:0", A] is True


def test_evidence_says_where_it_stands():
    run = read(HEAD + ONE_WAY)
    (found,) = [each for each in run.transfers if (each.origin, each.target) == (B, A)]
    assert (HEAD + ONE_WAY).splitlines()[int(found.source.removeprefix("rbt.txt:")) - 1].split()[0] == "2"


def test_a_head_alone_is_a_cut_run():
    run = read(HEAD)
    assert run.cut
    assert len(run.gpus) == 2
    assert not run.transfers


def test_without_the_list_of_devices_the_diagonal_tells_which_are_gpus():
    run = read(ONE_WAY)
    assert [(device.subject, device.is_gpu) for device in run.devices] == [
        ("host:0", False),
        ("Device 1", True),
        ("Device 2", True),
    ]
    assert rate(run, "Device 2", "Device 1") == 6.608


@pytest.mark.parametrize("text", ["Supported arguments:\n\t -h    Prints the help screen\n", "  Invalid Request\n"])
def test_help_and_refusals_are_no_runs(text):
    assert not any(part.kind == "rocm-bandwidth-test" and parse(part) for part in split(text, "rbt.txt"))


EVERYTHING = HEAD + ACCESS + ONE_WAY + BOTH_WAYS + VALIDATION + SINGLE + TOPOLOGY


@given(st.integers(0, len(EVERYTHING)))
def test_cut_anywhere_it_is_read(end):
    for part in split(EVERYTHING[:end], "rbt.txt"):
        run = parse(part)
        assert run is None or all(each.gbs is None or each.gbs >= 0 for each in run.transfers)


@given(st.lists(st.sampled_from([*EVERYTHING.splitlines(), "", "D/D 0 1 9999", "Device: 7,  x,  zz:0.0"]), max_size=40))
def test_lines_in_any_order_are_read(lines):
    parse(Part("rocm-bandwidth-test", "rbt.txt", 1, tuple(lines)))


@given(st.text(max_size=200))
def test_any_text_is_read(text):
    parse(Part("rocm-bandwidth-test", "rbt.txt", 1, tuple(text.split("\n"))))


def test_a_list_that_begins_late_makes_no_gpu_of_the_processor():
    """Device 0 is a processor, as its cell in the table of copies tells, and the access of an unknown is not told."""
    rows = ["N/A   13.1  13.1", "13.2  400.1 N/A", "13.2  N/A   400.2"]
    table = "          D/D       0     1     2     \n\n"
    table += "".join(f"          {n}         {row}\n\n" for n, row in enumerate(rows))
    text = HEAD.partition("Device: 0,")[2].partition("\n")[2] + ACCESS
    text += "\n          Unidirectional copy peak bandwidth GB/s\n\n" + table
    (part,) = (each for each in split(text, "rbt.txt") if each.kind == "rocm-bandwidth-test")
    run = parse(part)
    assert run is not None
    assert {device.subject: device.is_gpu for device in run.devices}["host:0"] is False
    assert not any("Device 0" in (word.accessor, word.owner) for word in run.words)
    assert not any("Device 0" in (each.origin, each.target) for each in run.transfers)
