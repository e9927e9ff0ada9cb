"""window-space: whether the root bus has room for what lacks it."""

from __future__ import annotations

import pytest

from hostdoctor.facts.pci import ConfigFacts
from hostdoctor.facts.unknown import NEEDS_ROOT, Unknown

ID = "window-space"
PORT, GPU = "0000:40:01.1", "0000:41:00.0"
MIB, GIB = 1 << 20, 1 << 30
LOW = ("0000:40", 0xD0000000, 0xDFFFFFFF)  # 256 MiB
HIGH = ("0000:40", 0x4000000000, 0x4FFFFFFFFF)  # 64 GiB


@pytest.fixture
def with_card(build):
    def make(*apertures, size=256 * MIB, others=(), vram=32 * GIB, config=None, **facts):
        config = config or build.resizable(0, size, 256 * MIB, 32 * GIB)
        gpu = build.gpu(GPU, build.W6800, PORT, bar_at=0xD0000000, bar_size=size, config=config, **facts)
        driver_says = {GPU: build.gpu_facts(vram)} if vram else {}
        return build.host(build.root_port(PORT), gpu, list(others), facts=driver_says, apertures=apertures)

    return make


def test_nothing_lacks_space(verdict, with_card):
    found = verdict(ID, with_card(LOW, HIGH, size=32 * GIB))
    assert (found.outcome, found.subject) == ("ok", ())


def test_a_small_bar_without_room_to_grow_is_a_failure_with_the_arithmetic(verdict, with_card, text):
    found = verdict(ID, with_card(LOW))
    assert (found.outcome, found.subject) == ("failure", (GPU,))
    assert "root bus 0000:40 has no space for the 32 GiB" in found.title
    assert "256 MiB are left, 32 GiB are needed" in found.explanation
    assert "no window above 4 GiB" in found.explanation
    assert "d0000000-dfffffff" in text(found)
    assert "Above 4G Decoding" in found.next
    assert found.remedies == ("firmware-above-4g-decoding",)


def test_what_others_take_is_not_free(build, verdict, with_card):
    other = build.gpu("0000:42:00.0", build.A5000, PORT, bars=(build.bar(0x4000000000, 48 * GIB, 1),))
    found = verdict(ID, with_card(LOW, HIGH, others=[other]))
    assert found.outcome == "failure"
    assert "48 GiB: 16 GiB are left, 32 GiB are needed" in found.explanation
    assert "no window above" not in found.explanation


@pytest.mark.parametrize("address", [0x3000000000, 0x5000000000, 0xD0000000])
def test_what_lies_in_another_window_takes_nothing(build, verdict, with_card, address):
    other = build.gpu("0000:42:00.0", build.A5000, PORT, bars=(build.bar(address, 48 * GIB, 1),))
    assert verdict(ID, with_card(LOW, HIGH, others=[other])).outcome == "ok"


@pytest.mark.parametrize("address", [0x4000000000, 0x4FFFFFFFFF])
def test_a_bar_at_either_end_of_the_window_takes_of_it(build, verdict, with_card, address):
    other = build.gpu("0000:42:00.0", build.A5000, PORT, bars=(build.bar(address, 48 * GIB, 1),))
    assert verdict(ID, with_card(LOW, HIGH, others=[other])).outcome == "failure"


@pytest.mark.parametrize(("taken", "outcome"), [(48 * GIB, "ok"), (48 * GIB + 1, "failure")])
@pytest.mark.parametrize("card", [(16 * GIB, 32 * GIB), (32 * GIB, 16 * GIB)])
def test_needed_is_what_the_memory_fills_and_the_card_offers(build, with_card, taken, outcome, card):
    """16 GiB either way, which fit to the byte into what is left of 64."""
    other = build.gpu("0000:42:00.0", build.A5000, PORT, bars=(build.bar(0x4000000000, taken, 1),))
    vram, offered = card
    config = build.resizable(0, 256 * MIB, 256 * MIB, offered)
    assert build.verdict(ID, with_card(HIGH, others=[other], vram=vram, config=config)).outcome == outcome


def test_more_taken_than_there_is_leaves_nothing(build, verdict, with_card):
    other = build.gpu("0000:42:00.0", build.A5000, PORT, bars=(build.bar(0x4000000000, 96 * GIB, 1),))
    assert ": 0 bytes are left" in verdict(ID, with_card(HIGH, others=[other])).explanation


@pytest.mark.parametrize(("start", "said"), [(1 << 32, False), ((1 << 32) - MIB, True)])
def test_a_window_from_4_gib_on_is_above_it(verdict, with_card, start, said):
    found = verdict(ID, with_card(("0000:40", start, start + GIB - 1)))
    assert ("no window above 4 GiB" in found.explanation) is said


def test_room_that_is_there_can_be_used(verdict, with_card):
    found = verdict(ID, with_card(LOW, HIGH))
    assert found.outcome == "ok"
    assert "has space for the 32 GiB" in found.title


def test_a_gpus_bar_without_an_address_counts_by_its_size(build, verdict, with_card):
    found = verdict(ID, with_card(LOW, bars=(build.missing_bar(0, 32 * GIB),)))
    assert found.outcome == "failure"


def test_another_functions_need_is_a_warning(build, verdict):
    nic = build.function("0000:41:00.0", "15b3:1017", parent=PORT, bars=(build.missing_bar(0, 512 * MIB),))
    found = verdict(ID, build.host(build.root_port(PORT), nic, apertures=(LOW,)))
    assert (found.outcome, found.subject) == ("warning", ("0000:41:00.0",))


def test_a_need_whose_size_cannot_be_seen_is_unknown(build, verdict, with_card):
    found = verdict(ID, with_card(LOW, bars=(build.missing_bar(0),), config=ConfigFacts()))
    assert (found.outcome, found.subject) == ("unknown", (GPU,))
    assert "without an address" in found.title
    assert not found.help


def test_a_size_that_root_would_see_is_told_so(verdict, with_card, build):
    config = ConfigFacts(resizable_bars=NEEDS_ROOT)
    assert verdict(ID, with_card(LOW, bars=(build.missing_bar(0),), config=config)).help == NEEDS_ROOT.help
    assert verdict(ID, with_card(LOW, bars=(build.missing_bar(0),), config=NEEDS_ROOT)).help == NEEDS_ROOT.help


def test_unread_facts_are_unknown(build, verdict, with_card):
    assert verdict(ID, with_card(bars=Unknown("timed out"))).outcome == "unknown"
    assert verdict(ID, with_card(LOW, config=NEEDS_ROOT)).help == NEEDS_ROOT.help
    assert verdict(ID, with_card(("0000:80", 0, 1 << 40))).outcome == "unknown", "the map lacks this root bus"
    refused = build.host(
        build.root_port(PORT),
        build.gpu(GPU, build.W6800, PORT, bar_size=256 * MIB, config=build.resizable(0, 256 * MIB, 32 * GIB)),
        facts={GPU: build.gpu_facts(32 * GIB)},
        apertures=Unknown("addresses read as zero", "run with sudo"),
    )
    assert (verdict(ID, refused).outcome, verdict(ID, refused).help) == ("unknown", "run with sudo")


def test_a_card_that_offers_no_more_needs_no_more(build, verdict, with_card):
    assert verdict(ID, with_card(LOW, config=build.resizable(0, 256 * MIB, 256 * MIB))).outcome == "ok"


@pytest.mark.parametrize("id_", ["1002:66a1", "10de:ffff"])
def test_a_product_whose_memory_is_not_known_accuses_no_root_bus(build, verdict, id_):
    index = 0 if id_.startswith("1002") else 1
    gpu = build.gpu(GPU, id_, PORT, bar_size=16 * GIB, config=build.resizable(index, 16 * GIB, 16 * GIB, 32 * GIB))
    assert verdict(ID, build.host(build.root_port(PORT), gpu, apertures=(LOW, HIGH))).outcome == "unknown"


def test_not_judged_in_a_guest(build, verdict):
    guest = build.host(build.gpu(GPU, build.V620, bars=(build.missing_bar(0, 32 * GIB),)), environment=build.GUEST)
    assert verdict(ID, guest).outcome == "not-applicable"
