"""Looking changes nothing, agrees with lspci, and is useful without root too."""

from __future__ import annotations

import re

import pytest

from tests.lab.scenarios import NIC

LOOKED_AT = [
    pytest.param(name, marks=pytest.mark.lab(name)) for name in ("links", "two-sockets", "bars-high", "no-space", "acs")
]


@pytest.mark.parametrize("name", LOOKED_AT)
def test_looking_changes_no_function(guest, name):
    """Config space, power state, link and every other attribute are the same after scans by root and by a user."""
    assert guest.json("before") == guest.json("after")


@pytest.mark.lab("links")
def test_looking_wakes_nobody(guest):
    before, after = guest.json("asleep-before")["functions"], guest.json("asleep-after")["functions"]
    assert before[NIC]["power/runtime_status"] == after[NIC]["power/runtime_status"] == "suspended"
    assert before == after


def blocks(text):
    """What lspci says of each function."""
    found = {}
    for block in re.split(r"\n(?=\S)", text.strip()):
        address, _, rest = block.partition(" ")
        found[address] = rest
    return found


def number(pattern, text, convert=int):
    match = re.search(pattern, text)
    return convert(match[1]) if match else None


def size(text):
    """ "32G" or "64K"."""
    return int(text[:-1]) << {"K": 10, "M": 20, "G": 30, "T": 40}[text[-1]]


def said_by_lspci(block):
    memory = re.findall(r"Memory at ([0-9a-f]{8,}) .*\[size=(\w+)\]", block)
    acs = re.search(r"ACSCtl:.*ReqRedir([+-]) CmpltRedir([+-])", block)
    return {
        "width": number(r"LnkSta:.*Width x(\d+)", block),
        "speed": number(r"LnkSta:\s+Speed ([\d.]+)GT/s", block, float),
        "max_width": number(r"LnkCap:.*Width x(\d+)", block),
        "max_speed": number(r"LnkCap:.*Speed ([\d.]+)GT/s", block, float),
        "payload": number(r"MaxPayload (\d+) bytes, MaxReadReq", block),
        "read_request": number(r"MaxReadReq (\d+) bytes", block),
        "node": number(r"NUMA node: (\d+)", block),
        "group": number(r"IOMMU group: (\d+)", block, str),
        "driver": number(r"Kernel driver in use: (\S+)", block, str),
        "bars": sorted((int(start, 16), size(each)) for start, each in memory),
        "redirect": acs[1] + acs[2] if acs else None,
    }


def plain(value):
    """A fact, or None where hostdoctor says that it is unknown."""
    return None if isinstance(value, dict) else value


def said_by_us(function):
    config = function["config"]
    express, acs = config.get("express"), config.get("acs")
    given = {name: plain(value) for name, value in (express or {}).items()}
    bars = [bar for bar in function["bars"] if bar["kind"] == "mem" and bar["assigned"] and bar["index"] < 6]
    link = given if given.get("max_width") else {}
    return {
        "width": link.get("current_width"),
        "speed": link.get("current_speed_gts"),
        "max_width": link.get("max_width"),
        "max_speed": link.get("max_speed_gts"),
        "payload": given.get("max_payload_bytes"),
        "read_request": given.get("max_read_request_bytes"),
        "node": plain(function["numa_node"]),
        "group": function["iommu_group"],
        "driver": function["driver"],
        "bars": sorted((bar["address"], bar["size_bytes"]) for bar in bars),
        "redirect": "".join("+" if acs["control"] & bit else "-" for bit in (0x04, 0x08)) if acs else None,
    }


@pytest.mark.parametrize("name", LOOKED_AT)
def test_lspci_says_the_same(guest, name):
    lspci, facts = blocks(guest.text("lspci")), guest.json("facts")["functions"]
    assert set(lspci) == set(facts)
    differ = {}
    for address, block in lspci.items():
        theirs, ours = said_by_lspci(block), said_by_us(facts[address])
        differ.update({(address, key): (theirs[key], ours[key]) for key in theirs if theirs[key] != ours[key]})
    assert not differ


@pytest.mark.parametrize("name", LOOKED_AT)
def test_an_ordinary_user_learns_the_same_or_that_root_would_tell(guest, name):
    """What a user is told in place of root's verdict is "unknown", with what would help; never another verdict."""

    def verdicts(report):
        return {(each["check"], *each["subject"]): each for each in guest.json(report)["findings"]}

    root, user = verdicts("root"), verdicts("user")
    judged = [each for each in user.values() if each["outcome"] not in ("unknown", "not-applicable")]
    assert len(judged) >= len(root) // 2
    for key, each in user.items():
        if each["outcome"] == "unknown" and (key not in root or root[key]["outcome"] != "unknown"):
            assert "sudo" in each["help"], each
        elif each["outcome"] in ("failure", "warning"):
            assert root[key]["outcome"] == each["outcome"]
