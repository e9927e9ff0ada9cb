"""Links, switches and sockets, as a real kernel shows them."""

from __future__ import annotations

import re

import pytest

TRAINED, NARROW, FULL, BEHIND_0, BEHIND_1, BELOW = (
    "0000:03:00.0", "0000:06:00.0", "0000:07:00.0", "0000:0c:00.0", "0000:0f:00.0", "0000:12:00.0",
)  # fmt: skip
CARDS = (TRAINED, NARROW, FULL, BEHIND_0, BEHIND_1, BELOW)


def outcomes(guest, check, report="root"):
    return {finding["subject"][0]: finding["outcome"] for finding in guest.findings(check, report)}


@pytest.mark.lab("links")
def test_lanes_left_out_are_a_failure_at_the_slot_alone(guest):
    found = outcomes(guest, "link-width")
    assert found == {card: "failure" if card == TRAINED else "ok" for card in CARDS}
    # The GPU's own link, inside the card, reads full all the same.
    assert guest.functions[TRAINED]["current_link_width"] == "16"


@pytest.mark.lab("links")
def test_a_slot_of_eight_lanes_is_no_fault(guest):
    assert outcomes(guest, "slot-limit") == {card: "info" if card == NARROW else "ok" for card in CARDS}


@pytest.mark.lab("links")
def test_a_slow_link_of_a_card_that_may_be_idle_is_not_judged(guest):
    assert outcomes(guest, "link-speed") == {card: "unknown" if card == TRAINED else "ok" for card in CARDS}


@pytest.mark.lab("links")
def test_an_upper_hop_is_a_fault_only_where_both_of_its_ends_can_do_more(guest):
    found = outcomes(guest, "path-bottleneck")
    assert found == {TRAINED: "ok", NARROW: "ok", FULL: "ok", BEHIND_0: "warning", BEHIND_1: "warning", BELOW: "info"}


@pytest.mark.lab("links")
def test_a_shared_uplink_names_those_that_share_it(guest):
    (found,) = guest.findings("shared-uplink")
    assert (found["outcome"], found["subject"]) == ("info", [BEHIND_0, BEHIND_1])


@pytest.mark.lab("links")
def test_the_kernel_names_the_same_bottlenecks(guest):
    """The kernel's own sum for each function, "limited by 8.0 GT/s PCIe x8 link at 0000:00:03.0"."""
    said = dict(
        re.findall(r"pci (\S+): [\d.]+ Gb/s available PCIe bandwidth, limited by .* link at (\S+)", guest.text("dmesg"))
    )
    gpus = {gpu["address"]: gpu for gpu in guest.json("root")["host"]["gpus"]}
    assert set(gpus) == set(CARDS)
    # It speaks of the first function that is limited: the upper end of a card's switch, where the card has one.
    assert {"0000:01:00.0", "0000:04:00.0", "0000:08:00.0", "0000:10:00.0"} <= set(said)
    # Ours is what an idle link comes up to, so a slow speed alone does not count.
    rates = {address: gpu["to_root_gbs"] for address, gpu in gpus.items()}
    quarter, half, full = 7.876, 15.753, 31.506
    assert rates == {TRAINED: half, NARROW: quarter, FULL: full, BEHIND_0: half, BEHIND_1: half, BELOW: quarter}


@pytest.mark.lab("links")
def test_slots_and_links_are_those_of_the_attributes(guest):
    for gpu in guest.json("root")["host"]["gpus"]:
        port = guest.functions[gpu["slot"]["port"]]
        assert port["current_link_speed"] == f"{gpu['slot']['speed_gts']:.1f} GT/s PCIe"
        assert port["current_link_width"] == str(gpu["slot"]["width"])


@pytest.mark.lab("links")
def test_a_guest_is_a_guest_unless_told_otherwise(guest):
    (found,) = guest.findings("environment", "guest")
    assert found["outcome"] == "info"
    assert "QEMU" in found["title"]
    judged = {
        each["outcome"] for each in guest.json("guest")["findings"] if each["check"].startswith(("link-", "path-", "bar-"))
    }
    assert judged == {"not-applicable"}


@pytest.mark.lab("two-sockets")
def test_two_sockets(guest):
    gpus = guest.json("root")["host"]["gpus"]
    assert [gpu["numa_node"] for gpu in gpus] == [0, 1]
    assert [guest.functions[gpu["address"]]["numa_node"] for gpu in gpus] == ["0", "1"]
    assert guest.json("root")["host"]["numa_nodes"] == [0, 1]
    (found,) = guest.findings("numa-placement")
    assert found["outcome"] == "info"
    assert found["subject"] == [gpu["address"] for gpu in gpus]
