"""Whole outputs of bandwidth tools, healthy and sick, through parser, reader and checks: the healthy raise no alarm."""

from __future__ import annotations

import json

import msgspec
import pytest

from hostdoctor.facts.host import Host
from hostdoctor.facts.unknown import Unknown
from hostdoctor.parsers.paste import split
from hostdoctor.readers.attached import APPLIERS
from hostdoctor.readers.attached.bandwidth import apply

KINDS = next(kinds for name, kinds in APPLIERS if name == "bandwidth")
EPYC, XEON = "AMD EPYC 7763 64-Core Processor", "Intel(R) Xeon(R) Gold 6330 CPU @ 2.00GHz"
A, B = "0000:43:00.0", "0000:83:00.0"
NA = None


# --- outputs, as the tools print them ---------------------------------------------------------------------------------


def cells(values, width, decimals=3):
    return "".join(f"{'N/A' if value is None else f'{value:.{decimals}f}':<{width}}" for value in values)


def rbt(gpus, cpus, one_way=None, both_ways=None, *, access=None, validation=None, model="AMD Radeon PRO V620"):
    """rocm-bandwidth-test 2.6.0; the tables are functions of two device numbers, processors first."""
    count = len(cpus) + len(gpus)
    lines = ["..............", "          RocmBandwidthTest Version: 2.6.0", ""]
    lines += ["          Launch Command is: rocm-bandwidth-test (rocm_bandwidth -a + rocm_bandwidth -A)", "", ""]
    lines += [f"          Device: {n},  {name}" for n, name in enumerate(cpus)]
    lines += [f"          Device: {len(cpus) + n},  {model},  GPU-XX,  {bus}:0.0" for n, bus in enumerate(gpus)]

    def table(heading, value, width, decimals):
        lines.extend(
            ("", f"          {heading}", "", f"          D/D       {''.join(f'{n:<{width}}' for n in range(count))}", "")
        )
        for row in range(count):
            lines.extend((f"          {row:<10}{cells([value(row, column) for column in range(count)], width, decimals)}", ""))

    granted = access or (lambda a, b: 1)
    table("Inter-Device Access", granted, 10, 0)
    if one_way:
        table("Unidirectional copy peak bandwidth GB/s", one_way, 12, 3)
    if both_ways:
        table("Bidirectional copy peak bandwidth GB/s", both_ways, 12, 3)
    text = "\n".join(lines)
    if validation:
        rows = [[validation(row, column) for column in range(count)] for row in range(count)]
        text += "\n          Data Path Validation\n\n          D/D       " + "".join(f"{n:<12}" for n in range(count)) + "\n\n"
        text += "\n".join(f"          {n:<10}{''.join(f'{cell:<12}' for cell in row)}\n" for n, row in enumerate(rows))
    return text


def plain(cpus, host, between):
    """A table in which all host copies and all copies between GPUs are alike."""

    def value(a, b):
        if a < cpus and b < cpus:
            return NA
        if a == b:
            return 400.0
        return host if a < cpus or b < cpus else between

    return value


def p2p_test(buses, tables, granted=lambda a, b: True, name="NVIDIA RTX A6000"):
    """p2pBandwidthLatencyTest; `tables` are (heading, value of a cell)."""
    numbers = range(len(buses))
    lines = ["[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]"]
    lines += [f"Device: {n}, {name}, pciBusID: {bus}, pciDeviceID: 0, pciDomainID:0" for n, bus in enumerate(buses)]
    words = {True: "CAN", False: "CANNOT"}
    lines += [f"Device={a} {words[granted(a, b)]} Access Peer Device={b}" for a in numbers for b in numbers if a != b]
    lines += ["", "P2P Connectivity Matrix", f"     D\\D{''.join(f'{n:>6}' for n in numbers)}"]
    lines += [f"     {a}\t{''.join(f'{int(a == b or granted(a, b)):>6}' for b in numbers)}" for a in numbers]
    for heading, value in tables:
        corner = "   GPU" if "Latency" in heading else "   D\\D"
        lines += [heading, f"{corner}{''.join(f'{n:>6} ' for n in numbers)}"]
        lines += [f"{a:>6} {''.join(f'{value(a, b):>6.2f} ' for b in numbers)}" for a in numbers]
    return "\n".join(lines) + "\n"


def arms(direct, staged, both, both_staged, latency=1.4):
    def table(between, inside=780.0):
        return lambda a, b: inside if a == b else between

    return [
        ("Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)", table(staged)),
        ("Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)", table(direct)),
        ("Bidirectional P2P=Disabled Bandwidth Matrix (GB/s)", table(both_staged)),
        ("Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)", table(both)),
        ("P2P=Disabled Latency Matrix (us)", table(14.2, 1.6)),
        ("P2P=Enabled Latency (P2P Writes) Matrix (us)", table(latency, 1.6)),
    ]


def nvbandwidth(devices, tests):
    """nvbandwidth 0.8; `tests` are (name, description, rows of texts)."""
    text = "nvbandwidth Version: v0.8\nBuilt from Git version: v0.8\n\nDriver Version: 580.95.05\n\n"
    text += "".join(f"Device {n}: {name}\n" for n, name in enumerate(devices)) + "\n"
    for name, description, rows in tests:
        head = "".join(f"{n:>10}" for n in range(len(rows[0])))
        body = "".join(f" {n}{''.join(f'{cell:>10}' for cell in row)}\n" for n, row in enumerate(rows))
        text += f"Running {name}.\n{description}\n  {head}\n{body}\nSUM {name} 1.00\n\n"
    return text


TO_GPU = "memcpy {} CPU(row) -> GPU(column) bandwidth (GB/s)"
TO_HOST = "memcpy {} CPU(row) <- GPU(column) bandwidth (GB/s)"
BETWEEN = "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)"


# --- hosts ------------------------------------------------------------------------------------------------------------


def nothing_known(build):
    unknown = Unknown("not in this evidence")
    return Host(build.Environment(unknown), unknown)


def two_cards(build, first=(16.0, 16), second=(16.0, 16), **more):
    """Two AMD cards below one root port each."""
    ports = ("0000:40:01.1", "0000:80:01.1")
    return build.host(
        [build.root_port(port, at=build.link(*rate)) for port, rate in zip(ports, (first, second), strict=True)],
        build.navi_card(0x41, ports[0], at=build.link(*first, 16.0, 16)),
        build.navi_card(0x81, ports[1], at=build.link(*second, 16.0, 16)),
        cpu=build.Cpu("AuthenticAMD", 0x19, 1, EPYC),
        **more,
    )


def two_nvidia(build, id_, speed):
    return build.host(build.two_nvidia_gpus(id_, at=build.link(speed, 16)))


def judged(build, host, text):
    host = apply(host, [part for part in split(text, "run.txt") if part.kind in KINDS])
    checks = ("host-bandwidth", "p2p-bandwidth", "p2p-data", "p2p-pair")
    return {id_: build.judge(id_, msgspec.structs.replace(host)) for id_ in checks}


def loud(findings):
    return {(id_, each.outcome) for id_, found in findings.items() for each in found if each.outcome in ("failure", "warning")}


# --- healthy ----------------------------------------------------------------------------------------------------------


def eight_v100(a, b):
    """The mesh of a DGX-1: two NVLinks, one, or PCIe only; and inside a GPU."""
    if a == b:
        return 750.0
    return {0: 48.4, 1: 24.2, 2: 24.2}.get((a ^ b) % 5, 17.2)


V100 = ["6", "7", "a", "b", "85", "86", "89", "8a"]
HEALTHY = {
    "16 GT/s x16": (two_cards, rbt(["43", "83"], [EPYC], plain(1, 27.2, 24.8), plain(1, 48.0, 45.2))),
    "one card on four lanes": (
        lambda build: two_cards(build, second=(16.0, 4)),
        rbt(
            ["43", "83"],
            [EPYC],
            lambda a, b: NA if a == b == 0 else 400.0 if a == b else 27.0 if {a, b} == {0, 1} else 6.7,
            lambda a, b: NA if a == b else 12.9 if 2 in (a, b) else 48.0,
        ),
    ),
    "8 GT/s x16 of a first EPYC": (
        lambda build: msgspec.structs.replace(
            two_cards(build, (8.0, 16), (8.0, 16)), cpu=build.Cpu("AuthenticAMD", 0x17, 1, "AMD EPYC 7261 8-Core Processor")
        ),
        rbt(["43", "83"], ["AMD EPYC 7261 8-Core Processor"] * 4, plain(4, 13.4, 7.0), plain(4, 25.0, 12.0)),
    ),
    "two sockets, nothing known": (
        nothing_known,
        rbt(
            ["17", "31", "b1", "ca"],
            [XEON, XEON],
            lambda a, b: NA if max(a, b) < 2 else 400.0 if a == b else 22.0 if min(a, b) < 2 else 19.0,
            lambda a, b: NA if max(a, b) < 2 or a == b else 38.0 if min(a, b) < 2 else 36.0,
        ),
    ),
    "eight MI300X, XGMI mesh": (
        nothing_known,
        rbt(
            ["0c", "22", "38", "5c", "9f", "af", "bf", "df"],
            ["AMD EPYC 9654 96-Core Processor"] * 2,
            plain(2, 55.0, 47.6),
            plain(2, 70.0, 92.0),
            model="AMD Instinct MI300X",
        ),
    ),
    "MI250X dies of which some have no link": (
        nothing_known,
        rbt(
            ["29", "2c", "2f", "32"],
            ["AMD EPYC 7A53 64-Core Processor"],
            lambda a, b: (
                NA if a == b == 0 else 800.0 if a == b else 28.0 if 0 in (a, b) else 150.0 if a // 2 == b // 2 else 37.0
            ),
            model="AMD Instinct MI250X",
        ),
    ),
    "one GPU": (nothing_known, rbt(["43"], [EPYC], plain(1, 27.2, NA), plain(1, 48.0, NA))),
    "list of devices alone": (nothing_known, rbt(["43", "83"], [EPYC])),
    "NVLink of two A100, links known": (
        lambda build: two_nvidia(build, "10de:20b2", 16.0),
        p2p_test(["41", "81"], arms(270.0, 20.0, 510.0, 28.0, 2.1), name="NVIDIA A100-SXM4-80GB"),
    ),
    "two A6000, links known": (
        lambda build: two_nvidia(build, build.A6000, 16.0),
        p2p_test(["41", "81"], arms(26.3, 18.0, 50.6, 26.0)),
    ),
    "mesh of a DGX-1": (
        nothing_known,
        p2p_test(
            V100,
            [("Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)", eight_v100)],
            granted=lambda a, b: a == b or eight_v100(a, b) > 20,
            name="Tesla V100-SXM2-16GB",
        ),
    ),
    "H100, kernels read the host slower": (
        lambda build: two_nvidia(build, "10de:2330", 32.0),
        nvbandwidth(
            ["NVIDIA H100 80GB HBM3 (00000000:41:00)", "NVIDIA H100 80GB HBM3 (00000000:81:00)"],
            [
                ("host_to_device_memcpy_ce", TO_GPU.format("CE"), [["55.2", "55.3"]]),
                ("device_to_host_memcpy_ce", TO_HOST.format("CE"), [["55.6", "55.6"]]),
                ("host_to_device_memcpy_sm", TO_GPU.format("SM"), [["35.19", "35.25"]]),
                ("device_to_host_memcpy_sm", TO_HOST.format("SM"), [["52.77", "52.77"]]),
                (
                    "host_to_device_bidirectional_memcpy_ce",
                    "memcpy CE CPU(row) <-> GPU(column) bandwidth (GB/s)",
                    [["18.5", "18.6"]],
                ),
                ("all_to_host_memcpy_ce", TO_HOST.format("CE"), [["20.0", "20.1"]]),
                ("device_to_device_memcpy_read_ce", BETWEEN, [["N/A", "371.2"], ["371.1", "N/A"]]),
            ],
        ),
    ),
    "H100 as JSON": (
        nothing_known,
        json.dumps(
            {
                "nvbandwidth": {
                    "GPU Device list": ["0: NVIDIA H100 (00000000:41:00): (n1)", "1: NVIDIA H100 (00000000:81:00): (n1)"],
                    "testcases": [
                        {
                            "name": "device_to_device_memcpy_write_ce",
                            "bandwidth_description": "memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)",
                            "bandwidth_matrix": [["N/A", "365.1"], ["366.2", "N/A"]],
                        }
                    ],
                }
            },
            indent=2,
        ),
    ),
    "GB200 over NVLink-C2C": (
        nothing_known,
        nvbandwidth(
            ["NVIDIA GB200 (00000008:06:00)"],
            [
                ("host_to_device_memcpy_ce", TO_GPU.format("CE"), [["405.2"]]),
                ("device_to_host_memcpy_ce", TO_HOST.format("CE"), [["170.1"]]),
            ],
        ),
    ),
    "all copies at once": (
        two_cards,
        "Summary: [67108864 bytes per Transfer] [GFX:8] [1 Read(s) 1 Write(s)]\n"
        "===========================================================================\n"
        "SRC\\DST  GPU 00     GPU 01        STotal      Actual\n"
        "GPU 00    N/A        3.120         3.120       3.120\n"
        "GPU 01    3.110      N/A           3.110       3.110\n",
    ),
    "NaN and what no link carries": (
        lambda build: two_nvidia(build, build.A6000, 16.0),
        p2p_test(["41", "81"], arms(float("nan"), 18.0, 912345.67, 26.0)),
    ),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_the_healthy_raise_no_alarm(build, name):
    make, text = HEALTHY[name]
    assert loud(judged(build, make(build), text)) == set()


@pytest.mark.parametrize("name", HEALTHY)
def test_cut_anywhere_the_healthy_raise_no_alarm(build, name):
    """The paste ends after any of its lines, in the middle of one, or begins with any."""
    make, text = HEALTHY[name]
    host, lines = make(build), text.split("\n")
    step = max(1, len(lines) // 12)
    cuts = ["\n".join(lines[:end]) for end in range(1, len(lines), step)]
    cuts += ["\n".join(lines[start:]) for start in range(1, len(lines), step)]
    cuts += [text[:end] for end in range(len(text) // 7, len(text), max(1, len(text) // 11))]
    alarms = {(alarm, cut[-60:]) for cut in cuts for alarm in loud(judged(build, host, cut))}
    assert alarms == set()


def test_what_is_healthy_and_known_is_said_to_be(build):
    for name in ("16 GT/s x16", "one card on four lanes", "8 GT/s x16 of a first EPYC", "two A6000, links known"):
        make, text = HEALTHY[name]
        found = judged(build, make(build), text)
        assert {each.outcome for each in found["p2p-bandwidth"]} == {"ok"}, name
        if "A6000" not in name:
            assert {each.outcome for each in found["host-bandwidth"]} == {"ok"}, name


# --- sick -------------------------------------------------------------------------------------------------------------

SICK = {
    "staged over 8 GT/s x16": (
        lambda build: two_cards(build, (8.0, 16), (8.0, 16)),
        rbt(["43", "83"], [EPYC], plain(1, 13.2, 6.2), plain(1, 25.0, 8.4)),
        {("p2p-bandwidth", "failure")},
    ),
    "staged, known by host copies alone": (
        nothing_known,
        rbt(["43", "83"], [EPYC], plain(1, 27.2, 14.0), plain(1, 48.0, 19.0)),
        {("p2p-bandwidth", "warning")},
    ),
    "one direction across the sockets": (
        two_cards,
        rbt(
            ["43", "83"],
            [EPYC],
            lambda a, b: NA if a == b == 0 else 400.0 if a == b else 27.0 if 0 in (a, b) else 24.0 if a < b else 9.0,
        ),
        {("p2p-bandwidth", "failure")},
    ),
    "a link that does not come up": (
        two_cards,
        rbt(["43", "83"], [EPYC], lambda a, b: NA if a == b == 0 else 400.0 if a == b else 3.2 if 2 in (a, b) else 27.0),
        {("host-bandwidth", "failure"), ("p2p-bandwidth", "failure")},
    ),
    "peer access slower than none": (
        nothing_known,
        p2p_test(["1", "41"], arms(9.9, 21.0, 12.0, 26.0), name="NVIDIA GeForce RTX 4090"),
        {("p2p-bandwidth", "failure")},
    ),
    "data wrong, rate fine": (
        two_cards,
        rbt(
            ["43", "83"],
            [EPYC],
            plain(1, 27.2, 24.8),
            validation=lambda a, b: "N/A" if a == b == 0 else "FAIL" if {a, b} == {1, 2} else "PASS",
        ),
        {("p2p-data", "failure")},
    ),
    "a small BAR": (
        nothing_known,
        rbt(["43", "83"], [EPYC], plain(1, 13.75, NA), access=lambda a, b: int(b in {0, a}), model="AMD Instinct MI50"),
        {("p2p-pair", "failure")},
    ),
    "simpleP2P": (
        nothing_known,
        "[./simpleP2P] - Starting...\n"
        "> Peer access from NVIDIA GeForce RTX 4090 (GPU0) -> NVIDIA GeForce RTX 4090 (GPU1) : Yes\n"
        "> Peer access from NVIDIA GeForce RTX 4090 (GPU1) -> NVIDIA GeForce RTX 4090 (GPU0) : Yes\n"
        "cudaMemcpyPeer / cudaMemcpy between GPU0 and GPU1: 24.21GB/s\n"
        "Verification error @ element 0: val = nan, ref = 0.000000\nTest failed!\n",
        {("p2p-data", "failure")},
    ),
    "rocm-bandwidth-test that may not copy": (
        nothing_known,
        "...\n          RocmBandwidthTest Version: 2.6.0\nSrc Device: Index 1, Type: GPU\nDst Device: Index 2, Type: GPU\n"
        "Rocm Device hosting Src Memory cannot ACCESS Dst Memory\n\nSupported arguments:\n",
        {("p2p-pair", "warning")},
    ),
    "TransferBench that may not copy": (
        nothing_known,
        "TransferBench v1.67.0\n[ERROR] Unable to enable peer access from GPU devices 1 to 0\n",
        {("p2p-pair", "warning")},
    ),
}


@pytest.mark.parametrize("name", SICK)
def test_the_sick_are_found(build, name):
    make, text, expected = SICK[name]
    assert loud(judged(build, make(build), text)) == expected


def test_no_rate_is_told_where_data_are_wrong(build):
    for name in ("data wrong, rate fine", "simpleP2P"):
        make, text, _ = SICK[name]
        for each in judged(build, make(build), text)["p2p-bandwidth"]:
            assert each.outcome == "unknown"
            assert "24." not in build.text(each)


def test_who_may_not_copy_where_the_tool_names_no_address(build):
    for name, subject in (
        ("rocm-bandwidth-test that may not copy", ("Device 1", "Device 2")),
        ("TransferBench that may not copy", ("GPU0", "GPU1")),
    ):
        make, text, _ = SICK[name]
        found = judged(build, make(build), text)["p2p-pair"]
        assert [each.subject for each in found if each.outcome == "warning"] == [subject]


def test_simple_p2p_shows_the_figure_that_it_printed(build):
    text = SICK["simpleP2P"][1].replace(
        "Verification error @ element 0: val = nan, ref = 0.000000\nTest failed!", "Test passed"
    )
    (found,) = judged(build, nothing_known(build), text)["p2p-bandwidth"]
    assert "printed: 24.21 GiB/s" in build.text(found)
