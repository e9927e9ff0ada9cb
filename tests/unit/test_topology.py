"""How functions hang together: cards, slots, what GPUs share, and what counts as a discrete GPU."""

from __future__ import annotations

import pytest

from hostdoctor.facts.pci import INTEGRATED_ENDPOINT, ConfigFacts
from hostdoctor.facts.unknown import NEEDS_ROOT, NOT_CAPTURED, Unknown
from hostdoctor.topology import Segment, Topology, gbs_of, link_of

ROOT = "0000:40:01.1"


@pytest.fixture
def topology(build):
    """The topology of a host with these parts."""

    def make(*parts):
        return Topology(build.host(*parts).functions)

    return make


@pytest.fixture
def card(topology):
    """The only card of a host with these parts."""

    def make(*parts):
        (only,) = topology(*parts).cards
        return only

    return make


def ends(segment):
    return segment.lower.address, segment.upper.address


def addresses(functions):
    return [function.address for function in functions]


# --- cards and their slots --------------------------------------------------------------------------------------------


def test_a_plain_card(build, card):
    found = card(build.root_port(ROOT), build.gpu("0000:41:00.0", build.A5000, ROOT))
    assert ends(found.slot) == ("0000:41:00.0", ROOT)
    assert (found.has_own_switch, found.uplinks, found.attachment) == (False, (), "processor")


ON_BOARD = [("1002:1478", "1002:1479"), ("1022:1470", "1022:1471"), ("8086:4fa0", "8086:4fa4"), ("8086:e2ff", "8086:e2f0")]


@pytest.mark.parametrize(("up", "down"), ON_BOARD)
@pytest.mark.parametrize("root", [False, True], ids=["without root", "as root"])
def test_a_card_with_its_own_switch_is_judged_at_its_edge(build, card, up, down, root):
    """Also without root, when port types are not known: ids alone tell the card's switch."""
    gpu = "8086:56a0" if up.startswith("8086") else build.V620
    config = {} if root else {"config": NEEDS_ROOT}
    found = card(
        build.root_port(ROOT, **config),
        build.upstream_port("0000:41:00.0", up, below=ROOT, **config),
        build.downstream_port("0000:42:01.0", down, below="0000:41:00.0", **config),
        build.gpu("0000:43:00.0", gpu, "0000:42:01.0"),
    )
    assert (found.gpu.address, found.top.address) == ("0000:43:00.0", "0000:41:00.0")
    assert ends(found.slot) == ("0000:41:00.0", ROOT)
    assert (found.has_own_switch, found.uplinks, found.attachment) == (True, (), "processor")


def test_an_mi210_whose_switch_shows_one_port(build, card):
    found = card(
        build.root_port(ROOT),
        build.upstream_port("0000:41:00.0", "1022:14c7", below=ROOT),
        build.gpu("0000:43:00.0", build.MI210, "0000:41:00.0"),
    )
    assert ends(found.slot) == ("0000:41:00.0", ROOT)


def test_an_mi210_whose_switch_shows_both_ports(build, card):
    found = card(
        build.root_port(ROOT),
        build.upstream_port("0000:41:00.0", "1022:14c7", below=ROOT),
        build.downstream_port("0000:42:00.0", "1022:14c7", below="0000:41:00.0"),
        build.gpu("0000:43:00.0", build.MI210, "0000:42:00.0"),
    )
    assert ends(found.slot) == ("0000:41:00.0", ROOT)


def test_between_the_ports_of_one_switch_there_is_no_link(build, card):
    """Also where a card's own lower port is known by its id and its upper one is not."""
    found = card(
        build.root_port(ROOT),
        build.upstream_port("0000:41:00.0", "1002:ffff", below=ROOT),
        build.downstream_port("0000:42:00.0", "1002:1479", below="0000:41:00.0"),
        build.gpu("0000:43:00.0", build.V620, "0000:42:00.0"),
    )
    assert ends(found.slot) == ("0000:41:00.0", ROOT)


def test_a_chipsets_switch_of_the_same_vendor_is_not_the_cards(build, card):
    """1022:43f5 above a card without a switch of its own is the chipset's (truths D5.4)."""
    found = card(
        build.root_port("0000:00:02.1", "1022:14db"),
        build.upstream_port("0000:01:00.0", "1022:43f4", below="0000:00:02.1"),
        build.downstream_port("0000:02:00.0", "1022:43f5", below="0000:01:00.0"),
        build.gpu("0000:03:00.0", build.MI50, "0000:02:00.0"),
    )
    assert ends(found.slot) == ("0000:03:00.0", "0000:02:00.0")
    assert [ends(uplink) for uplink in found.uplinks] == [("0000:01:00.0", "0000:00:02.1")]
    assert found.attachment == "chipset"


@pytest.mark.parametrize("root", [False, True], ids=["without root", "as root"])
def test_a_card_behind_an_external_switch(build, card, root):
    parts = [build.root_port(ROOT), build.switch(0x41, ROOT), build.navi_card(0x51, "0000:42:01.0")]
    if not root:
        for port in (ROOT, "0000:41:00.0", "0000:42:01.0", "0000:51:00.0", "0000:52:00.0"):
            parts = build.changed(parts, port, config=NEEDS_ROOT)
    found = card(parts)
    assert ends(found.slot) == ("0000:51:00.0", "0000:42:01.0")
    assert [ends(uplink) for uplink in found.uplinks] == [("0000:41:00.0", ROOT)]
    assert [ends(segment) for segment in found.segments] == [ends(found.slot), ends(found.uplinks[0])]
    assert found.attachment == "switch"


def test_a_card_behind_nested_switches(build, card):
    found = card(
        build.root_port(ROOT),
        build.switch(0x41, ROOT),
        build.switch(0x43, "0000:42:01.0"),
        build.navi_card(0x51, "0000:44:00.0"),
    )
    assert [ends(uplink) for uplink in found.uplinks] == [("0000:43:00.0", "0000:42:01.0"), ("0000:41:00.0", ROOT)]


@pytest.mark.parametrize(
    ("port", "id_", "attachment"),
    [
        ("0000:00:1a.0", "8086:ffff", "chipset"),
        ("0000:00:19.0", "8086:ffff", "processor"),
        ("0000:00:1c.0", "8086:ffff", "chipset"),
        ("0000:00:1d.0", "8086:7ab0", "chipset"),
        ("0000:00:01.0", "8086:460d", "processor"),
        ("0000:00:06.0", "8086:464d", "processor"),
        ("0000:16:1c.0", "8086:2030", "processor"),
        ("0000:00:1c.0", "1022:1483", "processor"),
    ],
)
def test_intels_chipset_has_the_upper_devices_of_the_first_bus(build, card, port, id_, attachment):
    assert card(build.root_port(port, id_), build.gpu("0000:03:00.0", build.A5000, port)).attachment == attachment


def test_a_vmd_domain_begins_anew(build, card):
    """Its root port has no function above, although the path in sysfs leads through the VMD endpoint."""
    found = card(
        build.function("0000:00:0e.0", "8086:467f", 0x010400),
        build.root_port("10000:e0:06.0", "8086:464d"),
        build.gpu("10000:e1:00.0", build.A5000, "10000:e0:06.0"),
    )
    assert ends(found.slot) == ("10000:e1:00.0", "10000:e0:06.0")
    assert (found.gpu.root, found.attachment) == ("10000:e0", "processor")


def test_a_gpu_on_a_root_bus_has_no_slot(build, card):
    found = card(build.gpu("0000:03:00.0", build.A5000))
    assert (found.slot, found.segments) == (None, ())
    assert "no port above" in found.slot_or_reason.reason


@pytest.mark.parametrize("parent", ["0000:42:00.0", NOT_CAPTURED])
def test_a_port_that_is_not_in_the_evidence(build, card, parent):
    found = card(build.gpu("0000:43:00.0", build.V620, parent))
    assert isinstance(found.slot, Unknown)
    assert isinstance(found.attachment, Unknown)


def test_a_switch_whose_top_is_cut_off_is_no_slot_of_the_processor(build, card):
    found = card(build.downstream_port("0000:42:00.0", below="0000:41:00.0"), build.navi_card(0x51, "0000:42:00.0"))
    assert isinstance(found.slot, Segment)
    assert isinstance(found.attachment, Unknown)


def test_a_chipset_port_that_is_seen_tells_even_if_its_top_is_cut_off(build, card):
    found = card(
        build.downstream_port("0000:02:00.0", "1022:43f5", below="0000:01:00.0"), build.navi_card(0x11, "0000:02:00.0")
    )
    assert found.attachment == "chipset"


# --- links ------------------------------------------------------------------------------------------------------------


def test_a_segment_can_do_what_both_ends_can(build):
    segment = Segment(
        build.gpu("0000:41:00.0", build.V620, at=build.link(2.5, 8, 16.0, 16)), build.root_port(ROOT, at=build.link(8.0, 8))
    )
    assert (segment.max_speed_gts, segment.max_width) == (8.0, 8)
    rates = [segment.current_gbs, segment.loaded_gbs, segment.possible_gbs]
    assert [round(rate, 2) for rate in rates] == [2.0, 7.88, 7.88]


@pytest.mark.parametrize(
    ("speed", "width", "rate"),
    [(2.5, 1, 0.25), (5.0, 16, 8.0), (8.0, 16, 15.75), (16.0, 16, 31.51), (32.0, 16, 63.01), (64.0, 16, 128.0), (8.0, 8, 7.88)],
)
def test_rates_are_the_kernels(speed, width, rate):
    assert round(gbs_of(speed, width), 2) == rate


def test_what_is_not_known_of_one_end_is_not_known_of_the_link(build):
    why = Unknown("timed out")
    for lower, upper in ((build.link(), why), (why, build.link()), (build.link(max_width=why), build.link())):
        segment = Segment(build.gpu("0000:41:00.0", build.V620, at=lower), build.root_port(ROOT, at=upper))
        assert isinstance(segment.max_width, Unknown)
        assert isinstance(segment.possible_gbs, Unknown)
    assert "3 GT/s" in gbs_of(3.0, 16).reason


def test_a_function_without_a_link_says_so(build):
    part = build.function("0000:00:14.0", "8086:7ae0", link=None)
    assert "no PCI Express link" in link_of(part).current_width.reason


# --- what two GPUs share ----------------------------------------------------------------------------------------------


def test_root_ports_of_their_own_share_no_bridge(build, topology):
    found = topology(build.two_navi_cards())
    first, second = found.gpus
    assert found.common_bridge(first, second) is None
    assert found.way_between(first, second) == []


def test_the_way_between_two_cards_has_both_and_the_common_bridge(build, topology):
    found = topology(build.below_one_switch())
    first, second = found.gpus
    assert found.common_bridge(first, second).address == "0000:01:00.0"
    assert addresses(found.way_between(first, second)) == [
        "0000:13:00.0",
        "0000:12:00.0",
        "0000:11:00.0",
        "0000:02:00.0",
        "0000:01:00.0",
        "0000:02:01.0",
        "0000:21:00.0",
        "0000:22:00.0",
        "0000:23:00.0",
    ]


def test_the_nearest_common_bridge_counts(build, topology):
    found = topology(
        build.root_port(ROOT),
        build.switch(0x41, ROOT),
        build.switch(0x43, "0000:42:00.0"),
        build.navi_card(0x51, "0000:44:00.0"),
        build.navi_card(0x61, "0000:44:01.0"),
        build.navi_card(0x71, "0000:42:01.0"),
    )
    a, b, c = found.gpus
    assert found.common_bridge(a, b).address == "0000:43:00.0"
    assert found.common_bridge(a, c).address == "0000:41:00.0"


def test_the_host_bridge_is_the_first_function_of_its_root_bus(build, topology):
    found = topology(
        build.two_navi_cards(),
        build.function("0000:40:00.0", "1022:1480", 0x060000),
        build.function("0000:40:00.2", "1022:1481", 0x080600),
    )
    first, second = found.gpus
    assert found.first_on_root(first).address == "0000:40:00.0"
    assert found.first_on_root(second).address == "0000:80:01.1"
    assert topology(build.gpu("0000:43:00.0", build.V620, "0000:42:00.0")).first_on_root(first) is None


# --- bad trees --------------------------------------------------------------------------------------------------------


def test_parents_in_a_loop_end(build, topology):
    found = topology(
        build.root_port("0000:01:00.0", below="0000:02:00.0"),
        build.root_port("0000:02:00.0", below="0000:01:00.0"),
        build.gpu("0000:03:00.0", build.V620, "0000:02:00.0"),
        build.gpu("0000:04:00.0", build.V620, "0000:01:00.0"),
    )
    first, second = found.gpus
    assert addresses(found.above(first)) == ["0000:02:00.0", "0000:01:00.0"]
    assert found.common_bridge(first, second) is not None
    assert not found.knows_way_up(first)
    assert len(found.cards) == 2


def test_a_function_that_is_its_own_parent_ends(build, topology):
    found = topology(build.gpu("0000:03:00.0", build.V620, "0000:03:00.0"))
    assert (len(found.cards), found.cards[0].uplinks) == (1, ())
    assert found.above(found.gpus[0]) == ()
    assert not found.knows_way_up(found.gpus[0])


def test_checks_survive_a_loop(build):
    loop = [
        build.root_port("0000:01:00.0", below="0000:02:00.0"),
        build.root_port("0000:02:00.0", below="0000:01:00.0"),
        build.gpu("0000:03:00.0", build.V620, "0000:02:00.0"),
        build.gpu("0000:04:00.0", build.V620, "0000:01:00.0"),
    ]
    for check in build.built_in():
        assert build.judge(check.id, build.host(loop))


# --- which GPUs are discrete ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id_", "class_code"),
    [
        ("1002:73a1", 0x030000),
        ("1002:740f", 0x120000),
        ("10de:2331", 0x030200),
        ("8086:56a0", 0x030000),
        ("1002:ffff", 0x038000),
    ],
)
def test_cards_are_discrete(build, topology, id_, class_code):
    found = topology(build.root_port(ROOT), build.gpu("0000:41:00.0", id_, ROOT, class_code=class_code))
    assert addresses(found.gpus) == ["0000:41:00.0"]
    assert found.integrated_gpus == ()


INTEGRATED = ConfigFacts(express=None)


def test_intels_integrated_gpu(build, topology):
    found = topology(build.gpu("0000:00:02.0", "8086:a780", config=INTEGRATED))
    assert found.gpus == ()
    assert addresses(found.integrated_gpus) == ["0000:00:02.0"]


@pytest.mark.parametrize("config", [NEEDS_ROOT, ConfigFacts(express=NEEDS_ROOT)])
def test_intels_integrated_gpu_without_root(build, topology, config):
    assert topology(build.gpu("0000:00:02.0", "8086:ffff", config=config)).gpus == ()


def test_intels_integrated_gpu_as_an_endpoint_of_the_root_complex(build, topology):
    config = ConfigFacts(express=build.express(INTEGRATED_ENDPOINT))
    assert topology(build.gpu("0000:00:02.0", "8086:ffff", config=config)).gpus == ()


def test_intels_neural_unit_is_part_of_the_processor(build, topology):
    assert topology(build.gpu("0000:00:0b.0", "8086:7d1d", class_code=0x120000, config=INTEGRATED)).gpus == ()


@pytest.mark.parametrize(
    ("address", "id_", "class_code"),
    [
        ("0000:00:02.0", "1002:73a1", 0x030000),  # another vendor's, where a guest may have it
        ("0000:00:05.0", "8086:56a0", 0x030000),
    ],
)
def test_a_place_on_the_root_bus_alone_makes_no_integrated_gpu(build, topology, address, id_, class_code):
    found = topology(build.gpu(address, id_, class_code=class_code, config=NEEDS_ROOT))
    assert addresses(found.gpus) == [address]


def test_an_endpoint_with_a_link_is_no_part_of_the_processor(build, topology):
    assert addresses(topology(build.gpu("0000:00:02.0", "8086:56a0")).gpus) == ["0000:00:02.0"]


def test_an_intel_accelerator_below_a_port_is_a_card(build, topology):
    gpu = build.gpu("0000:41:00.0", "8086:0bd5", ROOT, class_code=0x120000, config=NEEDS_ROOT)
    assert addresses(topology(build.root_port(ROOT), gpu).gpus) == ["0000:41:00.0"]


@pytest.mark.parametrize("id_", ["1002:164e", "1002:1638", "1002:15bf", "1002:1586", "1002:150e"])
def test_amds_integrated_gpus_by_id(build, topology, id_):
    port = build.root_port("0000:00:08.1", "1022:ffff")
    found = topology(port, build.gpu("0000:0a:00.0", id_, "0000:00:08.1"))
    assert found.gpus == ()
    assert addresses(found.integrated_gpus) == ["0000:0a:00.0"]


@pytest.mark.parametrize("bridge", ["1022:14dd", "1022:1635", "1022:14eb", "1022:150c"])
def test_a_gpu_below_an_internal_bridge_is_part_of_the_processor_whatever_its_id(build, topology, bridge):
    port = build.root_port("0000:00:08.1", bridge)
    assert topology(port, build.gpu("0000:0a:00.0", "1002:ffff", "0000:00:08.1")).gpus == ()


def test_mi300a_is_an_accelerator_all_the_same(build, topology):
    port = build.root_port("0000:00:01.1", "1022:14a7")
    found = topology(port, build.gpu("0000:01:00.0", "1002:74a0", "0000:00:01.1", class_code=0x120000))
    assert addresses(found.gpus) == ["0000:01:00.0"]


def test_a_second_display_head_is_no_second_gpu(build, topology):
    heads = [build.gpu(f"0000:41:00.{n}", "1002:6798", ROOT, class_code=c) for n, c in ((0, 0x030000), (1, 0x038000))]
    assert addresses(topology(build.root_port(ROOT), heads).gpus) == ["0000:41:00.0"]


def test_a_gpu_in_another_place_than_function_0_counts(build, topology):
    audio = build.function("0000:41:00.0", "1002:ab28", 0x040300, parent=ROOT)
    found = topology(build.root_port(ROOT), audio, build.gpu("0000:41:00.1", build.V620, ROOT))
    assert addresses(found.gpus) == ["0000:41:00.1"]


def test_virtual_functions_are_no_cards(build, topology):
    found = topology(
        build.root_port(ROOT),
        build.gpu("0000:43:00.0", build.V620, ROOT),
        build.gpu("0000:43:02.0", "1002:73ae", ROOT, is_virtual_function=True),
    )
    assert addresses(found.gpus) == ["0000:43:00.0"]


@pytest.mark.parametrize(
    ("id_", "class_code"),
    [
        ("1a03:2000", 0x030000),
        ("102b:0536", 0x030000),
        ("1234:1111", 0x030000),
        ("1002:ab28", 0x040300),
        ("10de:22ba", 0x040300),
    ],
)
def test_other_display_controllers_and_audio_are_no_gpus(build, topology, id_, class_code):
    found = topology(build.function("0000:c1:00.0", id_, class_code))
    assert (found.gpus, found.integrated_gpus) == ((), ())


def test_gpus_come_in_address_order(build, topology):
    found = topology(
        build.navi_card(0x81, NOT_CAPTURED), build.navi_card(0x41, NOT_CAPTURED), build.navi_card(0x05, NOT_CAPTURED)
    )
    assert addresses(found.gpus) == ["0000:07:00.0", "0000:43:00.0", "0000:83:00.0"]


def test_an_integrated_gpu_whose_place_is_not_known_is_still_one(build):
    config = ConfigFacts(express=build.express(INTEGRATED_ENDPOINT))
    gpu = build.gpu("0000:00:02.0", "8086:a780", NOT_CAPTURED, config=config)
    assert build.view(gpu).gpus == ()


def test_gpus_known_by_their_number_are_all_gpus(build):
    numbers = [build.function(f"GPU{number}", build.A5000, 0x030000, parent=NOT_CAPTURED) for number in range(3)]
    assert [gpu.address for gpu in Topology({each.address: each for each in numbers}).gpus] == ["GPU0", "GPU1", "GPU2"]
