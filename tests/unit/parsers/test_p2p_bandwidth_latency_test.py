"""p2pBandwidthLatencyTest: devices, access, both arms, latency, and what pastes leave of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.p2p_bandwidth_latency_test import parse
from hostdoctor.parsers.paste import Part, split

HEAD = """\
[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]
Device: 0, NVIDIA RTX A5000, pciBusID: 1, pciDeviceID: 0, pciDomainID:0
Device: 1, NVIDIA RTX A5000, pciBusID: c1, pciDeviceID: 0, pciDomainID:9
Device=0 CAN Access Peer Device=1
Device=1 CANNOT Access Peer Device=0

***NOTE: In case a device doesn't have P2P access to other one, it falls back to normal memcopy procedure.
So you can see lesser Bandwidth (GB/s) and unstable Latency (us) in those cases.

P2P Connectivity Matrix
     D\\D     0     1
     0\t     1     1
     1\t     0     1
"""
TABLES = """\
Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)
   D\\D     0      1
     0 673.40  12.10
     1  12.20 674.00
Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)
   D\\D     0      1
     0 673.50  24.30
     1  24.40 674.10
Bidirectional P2P=Disabled Bandwidth Matrix (GB/s)
   D\\D     0      1
     0 680.00  18.00
     1  18.10 681.00
Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)
   D\\D     0      1
     0 680.10  45.00
     1  45.10 681.10
P2P=Disabled Latency Matrix (us)
   GPU     0      1
     0   1.60  15.05
     1  13.83   1.63

   CPU     0      1
     0   2.51   6.87
     1   6.87   2.42
P2P=Enabled Latency (P2P Writes) Matrix (us)
   GPU     0      1
     0   1.60   1.30
     1   1.31   1.63

   CPU     0      1
     0   2.51   2.17
     1   2.17   2.42

NOTE: The CUDA Samples are not meant for performance measurements. Results may vary when GPU Boost is enabled.
"""
A, B = "0000:01:00.0", "0009:c1:00.0"


def read(text):
    runs = [run for part in split(text, "p2p.txt") if part.kind == "p2p-bandwidth-latency-test" and (run := parse(part))]
    assert len(runs) == 1
    return runs[0]


def found(run, origin, target):
    return [each for each in run.transfers if (each.origin, each.target) == (origin, target)]


def test_bus_and_domain_are_hexadecimal():
    assert [(device.subject, device.name) for device in read(HEAD).devices] == [
        (A, "NVIDIA RTX A5000"),
        (B, "NVIDIA RTX A5000"),
    ]


def test_access_is_read_once_for_each_ordered_pair():
    words = read(HEAD).words
    assert [(word.accessor, word.owner, word.allowed) for word in words] == [(A, B, True), (B, A, False)]


def test_the_arms_are_kept_apart():
    run = read(HEAD + TABLES)
    seen = [(each.gbs, each.both_ways, each.peer_access, each.latency_us) for each in found(run, A, B)]
    assert seen == [
        (12.1, False, False, None),
        (24.3, False, True, None),
        (18.0, True, False, None),
        (45.0, True, True, None),
        (None, False, False, 15.05),
        (None, False, True, 1.3),
    ]
    assert not run.cut


def test_what_is_not_granted_is_staged_in_both_arms():
    assert {each.peer_access for each in found(read(HEAD + TABLES), B, A)} == {False}


def test_without_the_list_nothing_tells_whether_a_copy_was_direct():
    run = read(TABLES)
    assert run.cut
    assert [each.peer_access for each in found(run, "GPU0", "GPU1")] == [False, None, False, None, False, None]


def test_reads_go_the_other_way():
    run = read(HEAD + TABLES.replace("P2P Writes", "P2P Reads"))
    (enabled,) = [each for each in found(run, B, A) if each.gbs == 24.3]
    assert enabled.initiator == "target"


def test_it_compares_no_data():
    assert read(HEAD + TABLES).verifications == ()


@pytest.mark.parametrize("text", ["nan", "-nan", "inf", "123456.78"])
def test_what_is_no_rate_is_not_measured(text):
    run = read(HEAD + TABLES.replace("45.00", text))
    assert [each.gbs for each in found(run, A, B) if each.both_ways and each.peer_access] == [None]


def test_wide_tables_that_were_wrapped():
    columns = list(range(16))
    rows = "".join(f"{row:>6}{''.join(f'{10 + row + column / 100:>7.2f}' for column in columns)}\n" for row in columns)
    head = f"   D\\D{''.join(f'{column:>6} ' for column in columns)}\n"
    whole = f"Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n{head}{rows}"
    wrapped = "".join(f"{line[:79]}\n{line[79:]}\n" if len(line) > 79 else f"{line}\n" for line in whole.split("\n"))
    assert [each.gbs for each in read(wrapped).transfers] == [each.gbs for each in read(whole).transfers]
    assert len(read(whole).transfers) == 256


EVERYTHING = HEAD + TABLES


@given(st.integers(0, len(EVERYTHING)), st.integers(0, len(EVERYTHING)))
def test_cut_anywhere_it_is_read(start, end):
    for part in split(EVERYTHING[start:end], "p2p.txt"):
        parse(part)


@given(st.lists(st.sampled_from([*EVERYTHING.splitlines(), "", "     0 673.40"]), max_size=40))
def test_lines_in_any_order_are_read(lines):
    parse(Part("p2p-bandwidth-latency-test", "p2p.txt", 1, tuple(lines)))


@given(st.text(max_size=200))
def test_any_text_is_read(text):
    parse(Part("p2p-bandwidth-latency-test", "p2p.txt", 1, tuple(text.split("\n"))))
