"""bar-size: whether a GPU's memory shows in its BAR."""

from __future__ import annotations

import pytest

from hostdoctor.facts.unknown import ASLEEP, NEEDS_ROOT, Unknown

ID = "bar-size"
PORT, GPU = "0000:40:01.1", "0000:41:00.0"
MIB, GIB = 1 << 20, 1 << 30


@pytest.fixture
def card(build):
    def make(id_, size, vram=None, offered=(), **facts):
        index = {"1002": 0, "10de": 1, "8086": 2}[id_[:4]]
        facts.setdefault("config", build.resizable(index, size, *offered))
        driver_says = {GPU: build.gpu_facts(vram)} if vram else {}
        return build.host(build.root_port(PORT), build.gpu(GPU, id_, PORT, bar_size=size, **facts), facts=driver_says)

    return make


@pytest.mark.parametrize(
    ("id_", "size", "vram"),
    [
        ("1002:73a1", 32 * GIB, 30704 * MIB),  # ECC takes its share
        ("1002:744c", 32 * GIB, 24 * GIB - 16 * MIB),  # sizes of BARs are powers of two
        ("1002:73df", 16 * GIB, 12 * GIB - 16 * MIB),
        ("10de:2231", 32 * GIB, None),
        ("10de:2331", 128 * GIB, None),
    ],
)
def test_a_bar_that_holds_all_memory_is_in_order(verdict, card, id_, size, vram):
    found = verdict(ID, card(id_, size, vram))
    assert (found.outcome, found.subject) == ("ok", (GPU,)), found.title


def test_on_h100_it_is_number_2(build, verdict):
    """Its BAR0 has 64 bits and takes two numbers."""
    bars = (build.bar(0x8042000000, 16 * MIB, 0), build.bar(0x84000000000, 128 * GIB, 2), build.bar(0x8040000000, 32 * MIB, 4))
    found = verdict(ID, build.host(build.root_port(PORT), build.gpu(GPU, build.H100, PORT, bars=bars)))
    assert (found.outcome, found.evidence[0].value) == ("ok", "BAR2 128 GiB")


def test_a_small_bar_that_can_grow_is_a_warning(verdict, card, text):
    found = verdict(ID, card("1002:73a1", 256 * MIB, 30704 * MIB, (256 * MIB, 32 * GIB)))
    assert (found.outcome, found.subject) == ("warning", (GPU,))
    assert "BAR0 is 256 MiB" in found.title
    assert "32 GiB" in found.title
    assert str(30704 * MIB) in text(found)
    assert "firmware-resizable-bar" in found.remedies
    assert "P2P" in found.cost.text


def test_the_sizes_of_sysfs_suffice_without_root(build, verdict):
    gpu = build.gpu(GPU, build.W6800, PORT, bar_size=256 * MIB, config=NEEDS_ROOT)
    facts = {GPU: build.gpu_facts(32 * GIB, sizes={0: (256 * MIB, 16 * GIB, 32 * GIB)})}
    found = verdict(ID, build.host(build.root_port(PORT), gpu, facts=facts))
    assert found.outcome == "warning"
    assert "up to 32 GiB" in found.title


@pytest.mark.parametrize("offered", [(), (64 * MIB, 256 * MIB)])
def test_a_card_that_offers_no_more_is_a_fact(verdict, card, offered):
    found = verdict(ID, card("10de:1b06", 256 * MIB, None, offered))
    assert (found.outcome, found.remedies) == ("info", ())
    assert "the largest the card offers" in found.title


def test_what_it_can_take_is_not_known_without_root(verdict, card):
    found = verdict(ID, card("1002:73a1", 256 * MIB, 32 * GIB, config=NEEDS_ROOT))
    assert (found.outcome, found.help) == ("info", NEEDS_ROOT.help), "that it is small is known"
    assert "256 MiB" in found.title


def test_a_product_with_two_sizes_is_not_accused(verdict, card):
    """An MI50 has 16 or 32 GiB: 16 GiB of BAR may be all of it, though the chip offers more."""
    found = verdict(ID, card("1002:66a1", 16 * GIB, None, (16 * GIB, 32 * GIB)))
    assert found.outcome == "unknown"
    assert verdict(ID, card("1002:66a1", 16 * GIB, 16368 * MIB, (16 * GIB, 32 * GIB))).outcome == "ok"
    assert verdict(ID, card("1002:66a1", 16 * GIB, 32752 * MIB, (16 * GIB, 32 * GIB))).outcome == "warning"
    assert verdict(ID, card("1002:66a1", 256 * MIB, None, (16 * GIB, 32 * GIB))).outcome == "warning"


@pytest.mark.parametrize(("size", "outcome"), [(8 * GIB, "unknown"), (256 * MIB, "warning")])
def test_a_product_nobody_knows_is_accused_only_of_the_old_256_mib(verdict, card, size, outcome):
    assert verdict(ID, card("10de:ffff", size, None, (256 * MIB, 16 * GIB))).outcome == outcome


def test_a_large_bar_of_a_product_nobody_knows_is_unknown(verdict, card):
    assert verdict(ID, card("8086:e20b", 16 * GIB)).outcome == "unknown"


def test_a_bar_without_an_address_is_unknown_here(build, verdict):
    gpu = build.gpu(GPU, build.V620, PORT, bars=(build.missing_bar(),))
    assert "no address" in verdict(ID, build.host(build.root_port(PORT), gpu)).title
    gpu = build.gpu(GPU, build.V620, PORT, bars=Unknown("timed out"))
    assert "timed out" in verdict(ID, build.host(build.root_port(PORT), gpu)).title


def test_a_sleeping_card_with_a_small_bar_is_unknown(verdict, card):
    assert verdict(ID, card("1002:73a1", 256 * MIB, None, config=ASLEEP)).outcome == "unknown"


def test_not_judged_in_a_guest_nor_without_a_gpu(build, verdict):
    guest = build.host(build.gpu(GPU, build.V620), environment=build.GUEST)
    assert verdict(ID, guest).outcome == "not-applicable"
    assert verdict(ID, build.host()).outcome == "not-applicable"
