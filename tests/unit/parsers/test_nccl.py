"""Logs of NCCL and RCCL."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.nccl import address_of_bus_id, parse_log

LOG = """\
node1:3301:3301 [0] NCCL INFO Bootstrap : Using eno1:10.0.0.5<0>
NCCL version 2.20.5+cuda12.4
node1:3301:3320 [0] NCCL INFO comm 0x55a0c9f0a2b0 rank 0 nranks 2 cudaDev 0 nvmlDev 3 busId 17000 commId 0x6f1e - Init START
node1:3301:3321 [1] NCCL INFO ncclCommInitRank comm 0x55a0c9f1 rank 1 nranks 2 cudaDev 1 nvmlDev 4 busId ca000 commId 0x6f
node1:3301:3321 [1] NCCL INFO NCCL_P2P_LEVEL set by environment to SYS
node1:3301:3320 [0] NCCL INFO Channel 00/0 : 0[3] -> 1[4] via P2P/CUMEM
node1:3301:3320 [0] NCCL INFO Channel 01/0 : 0[3] -> 1[4] via P2P/CUMEM
node1:3301:3321 [1] NCCL INFO Channel 00/0 : 1[4] -> 0[3] [send] via NET/IB/0/GDRDMA
node1:3301:3321 [1] NCCL INFO P2P is disabled between connected GPUs 3 and 4."""


def parse(text):
    return parse_log(text.split("\n"))


def test_a_log():
    found = parse(LOG)
    assert (found.version, found.is_rccl) == ("2.20.5+cuda12.4", False)
    assert [(rank.rank, rank.cuda_device, rank.nvml_device, rank.bus_id) for rank in found.ranks] == [
        (0, 0, 3, "17000"),
        (1, 1, 4, "ca000"),
    ]
    assert [(hop.sender, hop.receiver, hop.via, hop.line) for hop in found.hops] == [
        (0, 1, "P2P/CUMEM", 5),
        (1, 0, "NET/IB/0/GDRDMA", 7),
    ]
    assert found.disabled == ((3, 4, False, 8),)
    assert found.settings == {"NCCL_P2P_LEVEL": ("SYS", 4)}


def test_an_older_channel_names_bus_ids():
    (hop,) = parse("a:1:2 [1] NCCL INFO Channel 00 : 0[17000] -> 1[65000] via direct shared memory").hops
    assert (hop.sender_mark, hop.receiver_mark, hop.via) == ("17000", "65000", "direct shared memory")


def test_rccl():
    found = parse(
        "RCCL version 2.18.3+hip6.0 HEAD:2f6d59e\n"
        "g:1:1 [0] /src/init.cc:2000 NCCL WARN NUMA auto balancing enabled!\n"
        "g:1:2 [0] NCCL INFO Channel 00/0 : 0[c3000] -> 1[83000] via P2P/IPC comm 0x2b9d4d0 nRanks 02"
    )
    assert (found.is_rccl, found.numa_balancing, found.hops[0].via) == (True, 1, "P2P/IPC")


def test_what_other_tools_put_before_a_line():
    text = "(RayWorkerWrapper pid=5120) box:5120:5120 [1] NCCL INFO Channel 00 : 0[17000] -> 1[65000] via P2P/IPC"
    assert len(parse(text).hops) == 1


def test_only_the_first_host():
    assert len(parse(f"{LOG}\n" + LOG.replace("node1", "node2").replace("17000", "18000")).ranks) == 2


def test_nvlink_that_is_disabled():
    (found,) = parse("a:1:1 [0] NCCL WARN P2P is disabled between NVLINK connected GPUs 1 and 0. This should not be").disabled
    assert found[:3] == (1, 0, True)


@pytest.mark.parametrize(
    ("bus_id", "address"),
    [
        ("17000", "0000:17:00.0"),
        ("7000", "0000:07:00.0"),
        ("901d0", "0000:90:1d.0"),
        ("50", "0000:00:05.0"),
        ("100001000", "1000:01:00.0"),
        ("fffff", None),
        ("fffffffffffff", None),
    ],
)
def test_bus_ids(bus_id, address):
    assert address_of_bus_id(bus_id) == address


@given(st.text(max_size=300), st.integers(0, len(LOG)))
def test_any_text(text, at):
    parse(text)
    parse(LOG[:at] + text)
