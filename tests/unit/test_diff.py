"""Two reports compared: each kind of change, and what is none."""

from __future__ import annotations

import json

import msgspec
import pytest

from hostdoctor.diff import compare
from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import Evidence, Finding
from hostdoctor.report import changes
from hostdoctor.report.model import (
    DriversReport,
    GpuReport,
    HostReport,
    LinkReport,
    MeasuredCell,
    PairReport,
    Report,
    Sources,
    Tool,
)

A, B, C = "0000:43:00.0", "0000:63:00.0", "0000:83:00.0"
GIB, TIB = 1 << 30, 1 << 40
replace = msgspec.structs.replace


def link(width=16, speed=16.0, most=16):
    return LinkReport("0000:40:01.1", speed, width, 16.0, most, 16.0, 16, 31.5)


def gpu(address, name="Radeon PRO V620", id_="1002:73a1", **facts):
    known = {
        "driver": "amdgpu", "memory_bytes": 32 * GIB, "bar_bytes": 32 * GIB, "numa_node": 0, "iommu_type": "identity",
        "dma_mask_bits": 44, "attachment": "processor", "asleep": False, "slot": link(), "to_root_gbs": 31.5,
        "bar_address": 4 * TIB,
    }  # fmt: skip
    return GpuReport(address, id_, name, **{**known, **facts})


def pair(accessor, owner, p2p="holds", reason="every condition holds"):
    return PairReport(accessor, owner, p2p, None if p2p == "holds" else "bar-reach", reason, None)


def cell(origin, target, gbs, lowest=None, highest=None, **more):
    known = {
        "both_ways": False,
        "peer_access": True,
        "latency_us": None,
        "data": "not-compared",
        "tool": "rbt",
        "source": "x:1",
    }
    return MeasuredCell(origin, target, gbs, lowest, highest, **{**known, **more})


def report(*findings, **facts):
    known = {
        "kernel": "6.8.0-52-generic", "cmdline": "root=/dev/sda1 ro quiet", "distribution": "Ubuntu 24.04", "cpu": "EPYC",
        "cpu_sockets": 1, "physical_address_bits": 48, "system": "S", "board": "H12SSL", "bios": "AMI 2.4", "hypervisor": "",
        "virtualisation": "bare-metal", "container": "", "iommu_units": ("ivhd0",), "numa_nodes": (0,), "functions": 59,
        "drivers": DriversReport(None, None, None, None, None, None), "gpus": (gpu(A), gpu(B)), "integrated_gpus": (),
        "pairs": (pair(A, B), pair(B, A)),
    }  # fmt: skip
    return Report(Tool(), Sources("root", ("x",), (), ()), HostReport(**{**known, **facts}), findings, {}, 0)


def finding(check="link-width", outcome="failure", subject=(A,), title="trained at x8", **more):
    return Finding(check, outcome, subject, title, **more)


def lines(before, after, verbose=False):
    return changes.as_text(compare(before, after), "a", "b", verbose).splitlines()


def told(before, after):
    """The lines of the changes, with the verdict of each."""
    found = compare(before, after)
    return [
        (each.verdict, changes.as_text(replace(found, changes=(each,)), "a", "b", True).splitlines()[3].strip())
        for each in found.changes
    ]


def test_the_same_report_twice():
    same = report(finding(), measured=(cell(A, B, 12.0),))
    found = compare(same, same)
    assert (found.changes, found.is_worse) == ((), False)
    assert lines(same, same) == ["a → b", "", "nothing changed"]


# --- findings -------------------------------------------------------------------------------------------------------------

FINE = finding(outcome="ok", title="x16, all it can do")


@pytest.mark.parametrize(
    ("before", "after", "verdict", "line"),
    [
        ([FINE], [finding()], "worse", "new failure: {}: trained at x8"),
        ([finding()], [FINE], "better", "cured: {}: trained at x8"),
        ([finding(outcome="warning")], [finding()], "worse", "worse, warning before and failure now: {}: trained at x8"),
        ([finding()], [finding(outcome="info")], "better", "better, failure before and info now: {}: trained at x8"),
        ([FINE], [finding(outcome="info")], "other", "new info: {}: trained at x8"),
        ([finding(outcome="info")], [FINE], "better", "no longer: {}: trained at x8"),
        ([finding()], [finding(outcome="unknown", title="?")], "other", "failure no longer judged: {}: trained at x8"),
        ([finding(outcome="unknown")], [FINE], "better", "judged now: {}: x16, all it can do"),
        ([finding(outcome="unknown")], [finding()], "other", "failure, not judged before: {}: trained at x8"),
        ([finding(outcome="unknown", subject=())], [finding()], "other", "failure, not judged before: {}: trained at x8"),
        ([finding()], [finding(title="trained at x4")], "other", "still failure: {}: trained at x8 → trained at x4"),
        (
            [finding("kernel-parameters", "warning", ("amd_iommu=on",), "no such option")],
            [finding("kernel-parameters", "ok", (), "all known")],
            "better",
            "cured: kernel-parameters [amd_iommu=on]: no such option",
        ),
    ],
)  # fmt: skip
def test_findings(before, after, verdict, line):
    assert told(report(*before), report(*after)) == [(verdict, line.format(f"link-width [{A}]"))]


def test_what_is_not_judged_is_no_change():
    assert told(report(FINE), report(finding(outcome="unknown"))) == []
    assert told(report(finding(outcome="not-applicable")), report(FINE)) == []
    assert told(report(finding(outcome="unknown", subject=())), report(FINE)) == []


def test_values_of_evidence_by_their_source_without_the_line():
    before = finding(evidence=(Evidence("dmesg.txt:12", "3 errors"), Evidence("/sys/x", "8")))
    after = finding(evidence=(Evidence("dmesg.txt:90", "31 errors"), Evidence("/sys/x", "8")))
    found = compare(report(before), report(after))
    assert found.changes[0].evidence == (("dmesg.txt:90", "3 errors", "31 errors"),)
    assert "    dmesg.txt:90: 3 errors → 31 errors" in lines(report(before), report(after))
    assert not found.is_worse


def test_a_check_that_ran_for_one_of_both_is_named_and_no_change():
    found = compare(report(FINE), report(FINE, finding("gpu-faults", title="Xid 79")))
    assert (found.changes, found.checks_once, found.is_worse) == ((), ("gpu-faults",), False)


def test_two_findings_of_one_subject():
    xid, reset = finding("gpu-faults", title="Xid 79"), finding("gpu-faults", title="reset")
    assert told(report(xid), report(reset, xid)) == [("worse", f"new failure: gpu-faults [{A}]: reset")]


# --- facts ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"kernel": "6.8.0"}, {"kernel": "6.11.0"}, ["kernel: 6.8.0 → 6.11.0"]),
        ({"bios": "AMI 2.4"}, {"bios": "AMI 2.7"}, ["BIOS: AMI 2.4 → AMI 2.7"]),
        ({"numa_nodes": (0,)}, {"numa_nodes": (0, 1)}, ["memory nodes: 0 → 0 and 1"]),
        ({"container": ""}, {"container": "docker"}, ["container: none → docker"]),
        ({"cmdline": "ro quiet"}, {"cmdline": "ro quiet iommu=pt"}, ["command line: + iommu=pt"]),
        ({"cmdline": "ro amd_iommu=on"}, {"cmdline": "ro"}, ["command line: - amd_iommu=on"]),
        ({"cmdline": "ro iommu=soft"}, {"cmdline": "iommu=pt ro"}, ["command line: iommu=soft → iommu=pt"]),
        ({"cmdline": "ro quiet"}, {"cmdline": "quiet ro"}, []),
        ({"cmdline": "a a"}, {"cmdline": "a"}, ["command line: - a"]),
        (
            {"drivers": DriversReport("570.86.10", None, "12.8", None, None, None)},
            {"drivers": DriversReport("580.95.05", None, "13.0", None, None, None)},
            ["NVIDIA driver: 570.86.10 → 580.95.05", "CUDA of the driver: 12.8 → 13.0"],
        ),
    ],
)  # fmt: skip
def test_facts_of_the_host(before, after, expected):
    assert told(report(**before), report(**after)) == [("other", line) for line in expected]


@pytest.mark.parametrize(
    ("before", "after", "verdict", "line"),
    [
        ({"slot": link(16)}, {"slot": link(8)}, "worse", f"link width of {A}: x16 → x8"),
        ({"slot": link(8)}, {"slot": link(16)}, "better", f"link width of {A}: x8 → x16"),
        ({"slot": link(speed=2.5)}, {"slot": link(speed=16.0)}, "other", f"link speed of {A}: 2.5 GT/s → 16 GT/s"),
        ({"slot": link(8, most=8)}, {"slot": link(8, most=16)}, "other", f"link at most of {A}: 16 GT/s x8 → 16 GT/s x16"),
        ({"bar_address": 56 * TIB}, {"bar_address": 4 * TIB}, "other", f"BARs of {A}: 56 TiB → 4 TiB"),
        ({"bar_address": 4 * TIB}, {"bar_address": 0x40800000000}, "other", f"BARs of {A}: 0x40000000000 → 0x40800000000"),
        ({"bar_bytes": 256 << 20}, {"bar_bytes": 32 * GIB}, "other", f"size of the BAR of {A}: 256 MiB → 32 GiB"),
        ({"iommu_type": "DMA-FQ"}, {"iommu_type": "identity"}, "other", f"IOMMU domain type of {A}: DMA-FQ → identity"),
        ({"driver": None}, {"driver": "amdgpu"}, "other", f"driver of {A}: none → amdgpu"),
    ],
)  # fmt: skip
def test_facts_of_a_gpu(before, after, verdict, line):
    old, new = (report(gpus=(gpu(A, **facts),), pairs=()) for facts in (before, after))
    assert told(old, new) == [(verdict, line)]


def test_what_one_report_does_not_tell_is_no_change():
    before = report(kernel=Unknown("not in this evidence"), gpus=(gpu(A, iommu_type=Unknown("needs root")), gpu(B)))
    found = compare(before, report())
    assert (found.changes, found.told_once) == ((), ("kernel", "IOMMU domain type"))
    assert lines(before, report())[-1] == "not compared, for only one of both tells it: kernel and IOMMU domain type"


# --- cards ----------------------------------------------------------------------------------------------------------------


def test_a_card_in_another_slot_is_the_same_card():
    before = report(finding(subject=(B,)), pairs=(pair(A, B, "fails", "too far"), pair(B, A)), measured=(cell(A, B, 12.0),))
    after = report(finding(subject=(C,)), gpus=(gpu(A), gpu(C)), pairs=(pair(A, C), pair(C, A)), measured=(cell(A, C, 6.0),))
    assert told(before, after) == [
        ("worse", f"bandwidth, direct, {A} → {C}: 12.0 GB/s → 6.0 GB/s"),
        ("better", f"P2P: 1 of 2 pairs ({A} → {C}): fails (too far) → holds"),
        ("other", f"GPU moved: {C}: Radeon PRO V620 at {B} → at {C}"),
    ]


def test_two_cards_that_changed_places():
    other = {"name": "RTX 4090", "id_": "10de:2684"}
    found = told(report(gpus=(gpu(A), gpu(B, **other)), pairs=()), report(gpus=(gpu(A, **other), gpu(B)), pairs=()))
    assert [line for _, line in found] == [
        f"GPU moved: {B}: Radeon PRO V620 at {A} → at {B}",
        f"GPU moved: {A}: RTX 4090 at {B} → at {A}",
    ]


def test_cards_that_are_gone_or_new():
    one, two = report(finding(), gpus=(gpu(B),), pairs=()), report(finding(subject=()), gpus=(gpu(A), gpu(B)), pairs=())
    assert ("worse", f"GPU gone: {A}: Radeon PRO V620") in told(two, one)
    assert ("other", f"GPU new: {A}: Radeon PRO V620") in told(one, two)
    gone = told(report(finding(), pairs=()), report(finding(outcome="ok", subject=(B,), title="x"), gpus=(gpu(B),), pairs=()))
    assert ("other", f"failure gone with the card: link-width [{A}]: trained at x8") in gone


def test_what_people_paste_need_not_tell_of_every_card():
    whole, paste = report(pairs=()), replace(report(gpus=(gpu(A),), pairs=()), evidence=Sources("attachments", ("x",), (), ()))
    for pair_ in ((whole, paste), (paste, whole)):
        found = compare(*pair_)
        assert (found.changes, found.told_once) == ((), (f"GPU {B}",))


def test_what_a_paste_does_not_tell_is_not_cured():
    pasted = Sources("attachments", ("x",), (), ())
    whole, paste = report(finding(subject=(B,)), FINE), replace(report(FINE), evidence=pasted)
    assert told(whole, paste) == [("other", f"failure no longer judged: link-width [{B}]: trained at x8")]
    assert told(whole, replace(paste, host=report(gpus=(gpu(A),), pairs=()).host)) == []


def test_a_card_known_by_its_number_alone_did_not_move():
    before = report(gpus=(gpu("GPU0"),), pairs=())
    assert told(before, report(gpus=(gpu(A),), pairs=())) == []


# --- pairs and bandwidth ------------------------------------------------------------------------------------------------------


def test_pairs():
    fails = report(pairs=(pair(A, B, "fails", "the BAR is too far"), pair(B, A, "fails", "the BAR is too far")))
    assert compare(report(), fails).is_worse
    assert lines(fails, report())[3] == f"  P2P: 2 of 2 pairs ({A} → {B}, {B} → {A}): fails (the BAR is too far) → holds"
    unknown = report(pairs=(pair(A, B, "unknown", "no kernel log"), pair(B, A)))
    assert not compare(report(), unknown).is_worse
    assert not compare(unknown, report(pairs=(pair(A, B, "fails", "x"), pair(B, A)))).is_worse


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (cell(A, B, 12.0), cell(A, B, 11.7), None),  # single figures differ by a little
        (cell(A, B, 12.0), cell(A, B, 10.0), "worse"),
        (cell(A, B, 10.0), cell(A, B, 12.0), "better"),
        (cell(A, B, 10.0, 10.0, 12.5), cell(A, B, 11.0, 11.0, 13.0), None),  # the spreads overlap
        (cell(A, B, 10.0, 10.0, 12.5), cell(A, B, 9.0, 9.0, 9.7), "worse"),
        (cell(A, B, 10.0, 10.0, 12.5), cell(A, B, 12.8, 12.8, 13.0), "better"),
        (
            cell(A, B, 6.51, 6.50, 6.52),
            cell(A, B, 6.48, 6.47, 6.49),
            None,
        ),  # each run repeats itself more closely than the other
        (cell(A, B, None), cell(A, B, 12.0), "better"),
        (cell(A, B, 12.0), cell(A, B, None), "worse"),
        (cell(A, B, None), cell(A, B, None), None),
        (cell(A, B, 12.0), cell(A, B, 12.0, data="wrong"), "worse"),
        (cell(A, B, 12.0, data="wrong"), cell(A, B, 6.0), "better"),
        (cell(A, B, 12.0), cell(A, B, 6.0, tool="TransferBench"), None),  # another tool measures otherwise
        (cell(A, B, 12.0, both_ways=True), cell(A, B, 6.0), None),
        (cell(A, B, 5.0, peer_access=False), cell(A, B, 12.0, peer_access=True), "better"),
    ],
)
def test_bandwidth(before, after, verdict):
    found = compare(report(measured=(before,)), report(measured=(after,)))
    assert [each.verdict for each in found.changes] == ([verdict] if verdict else [])


def test_several_runs_of_one_tool_are_one_spread():
    before = report(measured=(cell(A, B, 10.0), cell(A, B, 12.0)))
    assert not compare(before, report(measured=(cell(A, B, 10.5),))).changes


# --- how it is told ---------------------------------------------------------------------------------------------------------


def test_json_of_a_difference():
    found = compare(report(finding()), report(FINE, cmdline="ro"))
    told_as = json.loads(changes.as_json(found, "a", "b"))
    assert told_as["schema"] == 1
    assert (told_as["before"], told_as["after"], told_as["exit"]) == ("a", "b", 0)
    assert told_as["summary"] == {"worse": 0, "better": 1, "other": 2}
    assert told_as["changes"][0] == {
        "kind": "finding", "verdict": "better", "what": "cured", "subject": [A], "before": "trained at x8",
        "after": "x16, all it can do", "check": "link-width", "evidence": [], "text": f"cured: link-width [{A}]: trained at x8",
    }  # fmt: skip


def test_nothing_in_a_report_reaches_the_terminal_or_is_markup():
    evil = finding(title="\x1b[31m<script>`x` [a](b)\u202e")
    before, after = report(FINE), report(evil)
    text = "\n".join(lines(before, after))
    assert text.replace("\n", "").isprintable()
    page = changes.as_markdown(compare(before, after), "a`b", "c", False)
    assert "- ``new failure: link-width [0000:43:00.0]: \\x1b[31m<script>`x` [a](b)\\u202e``" in page.splitlines()
    assert b"\x1b" not in changes.as_json(compare(before, after), "a", "b")
