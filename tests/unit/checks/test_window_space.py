"""window-space: whether the root bus has room for what lacks it."""

from __future__ import annotations

import pytest

from hostdoctor.facts.host import Cpu, MemoryMap
from hostdoctor.facts.pci import Bar, ConfigFacts
from hostdoctor.facts.unknown import NEEDS_ROOT, NOT_CAPTURED, Unknown

ID = "window-space"
PORT, GPU = "0000:40:01.1", "0000:41:00.0"
MIB, GIB = 1 << 20, 1 << 30
LOW = ("0000:40", 0xD0000000, 0xDFFFFFFF)  # 256 MiB
HIGH = ("0000:40", 0x4000000000, 0x4FFFFFFFFF)  # 64 GiB


@pytest.fixture
def with_card(build):
    def make(*apertures, size=256 * MIB, others=(), vram=32 * GIB, config=None, cpu=build.ZEN, **facts):
        config = config or build.resizable(0, size, 256 * MIB, 32 * GIB)
        gpu = build.gpu(GPU, build.W6800, PORT, bar_at=0xD0000000, bar_size=size, config=config, **facts)
        driver_says = {GPU: build.gpu_facts(vram)} if vram else {}
        return build.host(build.root_port(PORT), gpu, list(others), facts=driver_says, apertures=apertures, cpu=cpu)

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


# --- several functions, several windows -------------------------------------------------------------------------------


def four_cards(build, *apertures, vram=16 * GIB, cpu=None, **facts):
    """Four GPUs below root ports of one root bus, each with a BAR of 256 MiB that wants to hold all its memory."""
    parts, driver_says = [], {}
    for n in range(4):
        port, gpu = f"0000:40:{n + 1:02x}.1", f"0000:{0x41 + n:02x}:00.0"
        config = build.resizable(0, 256 * MIB, 256 * MIB, vram)
        at = 0xD0000000 + n * 256 * MIB
        parts += [build.root_port(port), build.gpu(gpu, build.W6800, port, bar_at=at, bar_size=256 * MIB, config=config)]
        driver_says[gpu] = build.gpu_facts(vram)
    return build.host(parts, facts=driver_says, apertures=apertures, cpu=cpu or build.ZEN, **facts)


FOUR = tuple(f"0000:{0x41 + n:02x}:00.0" for n in range(4))


def test_what_several_functions_lack_is_summed(build, verdict):
    found = verdict(ID, four_cards(build, LOW, ("0000:40", 0x1000000000, 0x19FFFFFFFF)))  # 40 GiB
    assert (found.outcome, found.subject) == ("failure", FOUR)
    assert "no space for the 64 GiB that 4 functions need" in found.title
    assert "40 GiB are left, 64 GiB are needed (16 GiB for 0000:41:00.0, " in found.explanation
    assert "2 of 4 fit" in found.explanation


def test_what_fits_together_is_in_order(build, verdict):
    found = verdict(ID, four_cards(build, LOW, HIGH))
    assert (found.outcome, found.subject) == ("ok", FOUR)
    assert "space for the 64 GiB that 4 functions lack" in found.title


def test_each_root_bus_is_judged_for_itself(build, judge):
    parts, facts = [], {}
    for root, bus in (("0000:40", 0x41), ("0000:80", 0x81)):
        gpu, config = f"0000:{bus:02x}:00.0", build.resizable(0, 256 * MIB, 32 * GIB)
        at = 0xD0000000 if bus == 0x41 else 0xE0000000
        parts += [
            build.root_port(f"{root}:01.1"),
            build.gpu(gpu, build.W6800, f"{root}:01.1", bar_at=at, bar_size=256 * MIB, config=config),
        ]
        facts[gpu] = build.gpu_facts(32 * GIB)
    found = judge(ID, build.host(parts, facts=facts, apertures=(HIGH, ("0000:80", 0xE0000000, 0xEFFFFFFF))))
    assert {(each.outcome, each.subject) for each in found} == {("ok", (GPU,)), ("failure", ("0000:81:00.0",))}


def test_the_window_with_most_free_space_counts(build, verdict, with_card):
    """Not the largest, which another card fills."""
    small = ("0000:40", 0x8000000000, 0x87FFFFFFFF)  # 32 GiB
    other = build.gpu("0000:42:00.0", build.A5000, PORT, bars=(build.bar(0x4000000000, 64 * GIB, 1),))
    found = verdict(ID, with_card(LOW, HIGH, small, others=[other]))
    assert found.outcome == "ok"
    assert "32 GiB in the window of root bus 0000:40 with most free space" in found.explanation


def test_several_windows_share_what_is_needed(build, verdict):
    two = (("0000:40", 0x1000000000, 0x17FFFFFFFF), ("0000:40", 0x2000000000, 0x27FFFFFFFF))  # 32 GiB each
    assert verdict(ID, four_cards(build, LOW, *two)).outcome == "ok"
    less = (two[0], ("0000:40", 0x2000000000, 0x23FFFFFFFF))
    found = verdict(ID, four_cards(build, *less))
    assert found.outcome == "failure"
    assert "16 GiB are free in its other windows" in found.explanation
    assert "3 of 4 fit" in found.explanation


def test_a_bar_needs_a_place_at_a_multiple_of_its_size(verdict, with_card):
    """48 GiB from 264 GiB on: 288 to 312 is all that is left from the one multiple of 32 GiB in it."""
    found = verdict(ID, with_card(("0000:40", 264 * GIB, 312 * GIB - 1)))
    assert found.outcome == "failure"
    assert "48 GiB are left, 32 GiB are needed. A BAR begins at a multiple of its size, and no such place" in found.explanation
    assert verdict(ID, with_card(("0000:40", 256 * GIB, 304 * GIB - 1))).outcome == "ok"


# --- below 4 GiB ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("is_64bit", "prefetchable", "outcome"),
    [(False, False, "failure"), (False, True, "failure"), (True, False, "failure"), (True, True, "ok")],
)
def test_what_must_lie_below_4_gib_counts_windows_there_only(build, verdict, is_64bit, prefetchable, outcome):
    missing = Bar(0, "mem", 0, 16 * MIB, is_64bit, prefetchable, False)
    gpu = build.gpu(GPU, build.A5000, PORT, bars=(missing, build.bar(0x4000000000, 32 * GIB, 1)))
    tiny = ("0000:40", 0xFE000000, 0xFE0FFFFF)
    found = verdict(ID, build.host(build.root_port(PORT), gpu, apertures=(tiny, HIGH)))
    assert found.outcome == outcome
    if outcome == "failure":
        assert "1 MiB in the window below 4 GiB" in found.explanation
        assert "must lie below 4 GiB" in found.explanation
        assert "larger BARs leave the space below 4 GiB" in found.next
    nothing = verdict(ID, build.host(build.root_port(PORT), gpu, apertures=(HIGH,)))
    assert ("has no window below 4 GiB" in nothing.explanation) is (outcome == "failure")
    assert verdict(ID, build.host(build.root_port(PORT), gpu, apertures=(LOW, HIGH))).outcome == "ok"


def test_a_64_bit_bar_on_the_root_bus_may_lie_anywhere(build, verdict):
    missing = Bar(0, "mem", 0, 16 * MIB, True, False, False)
    nic = build.function("0000:40:02.0", "15b3:1017", bars=(missing,))
    assert verdict(ID, build.host(nic, apertures=(HIGH,))).outcome == "ok"


# --- the processor's own limit ----------------------------------------------------------------------------------------


IVY_BRIDGE = Cpu("GenuineIntel", 6, 58, "Intel Core i7-3770", 36)


def test_more_than_the_processor_addresses_no_firmware_gives(build, verdict, text):
    found = verdict(ID, four_cards(build, LOW, vram=32 * GIB, cpu=IVY_BRIDGE))
    assert (found.outcome, found.subject, found.remedies) == ("failure", FOUR, ())
    assert "the 128 GiB that 4 functions need cannot fit on this processor, which addresses 64 GiB in all" in found.title
    assert "RAM" in found.explanation
    assert "128 GiB are needed (32 GiB for 0000:41:00.0" in found.explanation
    assert "Other large BARs" not in found.explanation
    assert "36 bits" in text(found)
    assert "firmware" not in found.next
    unseen = four_cards(build, vram=32 * GIB, cpu=IVY_BRIDGE, memory_map=MemoryMap(Unknown("addresses read as zero")))
    assert "cannot fit on this processor" in verdict(ID, unseen).title


def test_what_the_processor_can_address_the_firmware_can_give(build, verdict, with_card):
    """One BAR of 32 GiB has its place from 32 GiB on; beside another of that size it has none."""
    assert "Above 4G" in verdict(ID, with_card(LOW, cpu=IVY_BRIDGE)).next
    other = build.gpu("0000:42:00.0", build.A5000, PORT, bars=(build.bar(32 * GIB, 32 * GIB, 1),))
    found = verdict(ID, with_card(LOW, cpu=IVY_BRIDGE, others=[other]))
    assert "cannot fit on this processor" in found.title
    assert "32 GiB are needed (32 GiB for 0000:41:00.0). Other large BARs take 32 GiB." in found.explanation
    small = build.gpu("0000:42:00.0", build.A5000, PORT, bars=(build.bar(32 * GIB, GIB, 1),))
    assert "Above 4G" in verdict(ID, with_card(LOW, cpu=IVY_BRIDGE, others=[small])).next
    assert "Above 4G" in verdict(ID, four_cards(build, LOW, cpu=Cpu("GenuineIntel", 6, 85, "Xeon", 46))).next


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


def test_nothing_is_in_order_where_no_bar_was_seen(build, verdict):
    found = verdict(ID, build.host(build.function("0000:e1:00.0", "15b3:1017", bars=NOT_CAPTURED)))
    assert (found.outcome, found.subject) == ("unknown", ())
