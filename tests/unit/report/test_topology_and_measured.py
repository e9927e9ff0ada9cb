"""What the JSON report tells of the tree and of measurements: enough to draw both, and nothing that is not known."""

from __future__ import annotations

import json

import msgspec
import pytest

from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.report import html, markdown, model, plain
from hostdoctor.view import View
from tests.unit import build
from tests.unit.build import FIRST, SECOND
from tests.unit.report import hosts

SOURCES = model.Sources("live", ("/",), (), ())


def report(*parts, **facts):
    return model.build(SOURCES, View(build.host(*parts, **facts)), (), 0)


def nodes(*parts, **facts):
    return {node.address: node for node in report(*parts, **facts).host.topology.nodes}


def limiting(*parts, **facts):
    return [address for address, node in nodes(*parts, **facts).items() if node.limits]


def cells(*transfers, **more):
    made = report(build.two_navi_cards(), runs=(build.run(*transfers, **more),))
    return {(cell.origin, cell.target, cell.both_ways, cell.peer_access): cell for cell in made.host.measured}


def cell(*transfers, **more):
    (only,) = cells(*transfers, **more).values()
    return only


# --- the tree ---------------------------------------------------------------------------------------------------------


def test_every_node_comes_after_the_one_above_it():
    found = nodes(build.below_one_switch())
    seen = set()
    for node in found.values():
        assert node.parent is None or node.parent in seen
        seen.add(node.address)
    assert [node.kind for node in found.values()] == [
        "host-bridge", "root-port", "switch", "switch", "card-switch", "card-switch", "gpu",
        "switch", "card-switch", "card-switch", "gpu",
    ]  # fmt: skip


def test_links_are_between_devices_not_between_the_ports_of_one():
    found = nodes(build.below_one_switch())
    assert [address for address, node in found.items() if node.link] == [
        "0000:01:00.0", "0000:11:00.0", "0000:13:00.0", "0000:21:00.0", "0000:23:00.0",
    ]  # fmt: skip
    link = found["0000:01:00.0"].link
    assert (link.speed_gts, link.width, link.possible_speed_gts, link.possible_width) == (16.0, 16, 16.0, 16)
    assert link.gbs == link.loaded_gbs == link.possible_gbs == pytest.approx(31.5, abs=0.1)


def test_the_slot_limits_a_card_that_could_use_more():
    slot = build.link(8.0, 8, 16.0, 16)
    assert limiting(build.two_navi_cards(at=slot)) == ["0000:41:00.0", "0000:81:00.0"]
    assert limiting(build.two_navi_cards()) == []


def test_an_idle_link_limits_nothing():
    assert limiting(build.two_navi_cards(at=build.link(2.5, 16, 16.0, 16))) == []


def test_a_narrow_uplink_limits_and_not_the_slots_below_it():
    assert limiting(build.below_one_switch(at=build.link(8.0, 8))) == ["0000:01:00.0"]


def test_of_links_as_narrow_the_nearest_limits():
    slot = build.link(8.0, 16, 16.0, 16)
    narrow = [build.root_port("0000:00:01.1"), build.switch(0x01, "0000:00:01.1", at=build.link(8.0, 16), ports=1)]
    port = build.changed(narrow, "0000:02:00.0", link=build.link(8.0, 16))
    assert limiting(port, build.gpu("0000:03:00.0", build.A5000, "0000:02:00.0", at=slot)) == ["0000:03:00.0"]


def test_nothing_is_said_to_limit_where_a_link_is_not_known():
    slot = build.link(NOT_CAPTURED, 8, 16.0, 16)
    port = build.root_port("0000:40:01.1", at=build.link(16.0, 16))
    assert limiting(port, build.navi_card(0x41, "0000:40:01.1", at=Unknown("needs root"))) == []
    assert limiting(port, build.navi_card(0x41, "0000:40:01.1", at=slot)) == ["0000:41:00.0"]  # its width alone tells it


def test_links_of_a_guest_are_emulated_and_limit_nothing():
    slot = build.link(8.0, 8, 16.0, 16)
    assert limiting(build.two_navi_cards(at=slot), environment=build.GUEST) == []


def test_adapters_beside_gpus_rdma_cards_and_drives_elsewhere():
    found = nodes(
        build.below_one_switch(),
        build.downstream_port("0000:02:02.0", "10b5:8796", below="0000:01:00.0"),
        build.function("0000:31:00.0", "8086:1521", parent="0000:02:02.0", link=build.link(5.0, 4)),
        build.root_port("0000:50:01.1"),
        build.rdma_card("0000:51:00.0", "0000:50:01.1", link=build.link()),
        build.root_port("0000:60:01.1"),
        build.function("0000:61:00.0", "8086:1521", parent="0000:60:01.1", link=build.link(5.0, 4)),
        build.root_port("0000:70:01.1"),
        build.nvme("0000:71:00.0", "0000:70:01.1", link=build.link(16.0, 4)),
        network=build.network(mlx5_0="0000:51:00.0"),
    )
    adapters = {address: (node.kind, node.name) for address, node in found.items() if node.kind in ("network", "nvme")}
    assert adapters == {
        "0000:31:00.0": ("network", ""),
        "0000:51:00.0": ("network", "mlx5_0"),
        "0000:71:00.0": ("nvme", ""),
    }
    assert found["0000:71:00.0"].link.width == 4


def test_a_crowd_of_drives_is_counted_not_drawn():
    drives = [
        (build.root_port(f"0000:{bus:02x}:01.0"), build.nvme(f"0000:{bus + 1:02x}:00.0", f"0000:{bus:02x}:01.0"))
        for bus in range(0x90, 0xE0, 2)
    ]
    topology = report(build.two_navi_cards(), drives, network=()).host.topology
    drawn = sum(node.kind == "nvme" for node in topology.nodes)
    assert drawn + topology.left_out == 40
    assert 0 < drawn < 40


def test_a_host_without_gpus_has_no_tree():
    assert report(build.root_port("0000:00:01.1"), build.nvme("0000:01:00.0", "0000:00:01.1")).host.topology.nodes == ()


def test_what_is_above_a_card_and_not_in_the_evidence_is_unknown():
    alone = build.gpu("0000:41:00.0", build.A5000, Unknown("the log does not tell"))
    (node,) = nodes(alone).values()
    assert node.parent == Unknown("the log does not tell")
    assert isinstance(node.link.width, Unknown)
    assert not node.limits


def test_ports_above_each_other_end():
    ports = [
        build.upstream_port("0000:01:00.0", below="0000:02:00.0"),
        build.downstream_port("0000:02:00.0", below="0000:01:00.0"),
    ]
    found = nodes(ports, build.gpu("0000:03:00.0", build.A5000, "0000:02:00.0"))
    assert set(found) == {"0000:01:00.0", "0000:02:00.0", "0000:03:00.0"}
    assert isinstance(found["0000:01:00.0"].parent, Unknown)


def test_it_is_in_the_json():
    text = model.to_json(report(build.two_navi_cards(), runs=(build.run(build.copy(FIRST, SECOND, 25.0)),)))
    host = json.loads(text)["host"]
    assert host["topology"]["nodes"][0] == {
        "address": "0000:40", "kind": "host-bridge", "parent": None, "name": "", "link": None, "limits": False, "numa_node": 0,
        "asleep": False,
    }  # fmt: skip
    assert host["measured"][0]["gbs"] == 25.0
    assert msgspec.json.decode(text, type=model.Report).host.topology.left_out == 0


# --- measurements -----------------------------------------------------------------------------------------------------


def test_of_several_measurements_the_slowest_and_how_far_apart_they_are():
    one = cell(build.copy(FIRST, SECOND, 25.0), build.copy(FIRST, SECOND, 24.0), build.copy(FIRST, SECOND, 26.0))
    assert (one.gbs, one.lowest_gbs, one.highest_gbs) == (24.0, 24.0, 26.0)
    single = cell(build.copy(FIRST, SECOND, 25.0))
    assert (single.gbs, single.lowest_gbs, single.highest_gbs) == (25.0, None, None)


def test_what_was_not_measured_is_not_zero():
    assert cell(build.copy(FIRST, SECOND, None)).gbs is None
    assert cell(build.copy(FIRST, SECOND, None), build.copy(FIRST, SECOND, 6.0)).gbs == 6.0


def test_kinds_of_copies_stay_apart():
    found = cells(
        build.copy(FIRST, SECOND, 25.0, peer_access=True),
        build.copy(FIRST, SECOND, 6.0, peer_access=False),
        build.copy(FIRST, SECOND, 48.0, both_ways=True, peer_access=True),
    )
    assert {key[2:]: each.gbs for key, each in found.items()} == {(False, True): 25.0, (False, False): 6.0, (True, True): 48.0}


def test_latencies_are_no_rates():
    one = cell(build.copy(FIRST, SECOND, None, latency_us=1.5), build.copy(FIRST, SECOND, None, latency_us=14.0))
    assert (one.gbs, one.latency_us) == (None, 14.0)


def test_copies_beside_which_others_ran_are_left_out():
    assert cells(build.copy(FIRST, SECOND, 25.0, contended=True)) == {}


@pytest.mark.parametrize(
    ("verified", "data"),
    [
        ((), "not-compared"),
        (((FIRST, SECOND, True),), "right"),
        (((FIRST, SECOND, True), (FIRST, SECOND, False)), "wrong"),
        (((SECOND, FIRST, False),), "not-compared"),
        (((FIRST, SECOND, None),), "not-compared"),
        ((("", "", False),), "wrong"),
        (((FIRST, SECOND, True), ("", "", False)), "right"),
    ],
)
def test_data(verified, data):
    assert cells(build.copy(FIRST, SECOND, 25.0), verified=verified)[FIRST, SECOND, False, None].data == data


def test_data_of_both_ways_together():
    both = build.copy(FIRST, SECOND, 48.0, both_ways=True)
    for verified, data in (
        (((FIRST, SECOND, True),), "not-compared"),
        (((FIRST, SECOND, True), (SECOND, FIRST, True)), "right"),
        (((FIRST, SECOND, True), (SECOND, FIRST, False)), "wrong"),
    ):
        assert cells(both, verified=verified)[FIRST, SECOND, True, None].data == data


def test_wrong_data_without_a_rate_are_told():
    found = cells(verified=((FIRST, SECOND, False),))
    assert found[FIRST, SECOND, False, None].data == "wrong"
    assert found[FIRST, SECOND, False, None].gbs is None


COPIES = {  # by their figures, which must stand nowhere
    "77.1": build.copy(FIRST, SECOND, 77.1),
    "66.2": build.copy(SECOND, FIRST, 66.2),
    "55.3": build.copy(FIRST, SECOND, 55.3, both_ways=True),
    "44.4": build.copy(FIRST, SECOND, 44.4, peer_access=False),
    "33.5": build.copy(SECOND, FIRST, None, latency_us=33.5),
}


@pytest.mark.parametrize("wrong", [(SECOND, FIRST), (FIRST, SECOND), ("", "")])
def test_no_figure_is_shown_anywhere_for_two_ends_whose_data_are_wrong(wrong):
    runs = (
        build.run(*COPIES.values(), verified=((FIRST, SECOND, True), (*wrong, False))),
        build.run(*COPIES.values(), build.copy("host:0", FIRST, 22.6), tool="nvbandwidth"),
    )
    report = hosts.report(build.host(build.two_navi_cards(), runs=runs))
    shown = {
        "html": html.render(report),
        "markdown": markdown.render(report),
        "text": plain.render(report, ""),
        "json": model.to_json(report).decode(),
    }
    for name, text in shown.items():
        assert not [figure for figure in COPIES if figure in text], name
        assert "22.6" in text, name
        assert "wrong" in text, name
        assert "withheld" in text, name


def test_host_copies_whose_data_are_wrong_are_withheld_on_every_node_and_way():
    copies = (build.copy("host:0", FIRST, 26.0), build.copy(FIRST, "host:1", 25.0), build.copy("host:0", SECOND, 24.0))
    found = cells(*copies, verified=(("host:0", FIRST, False),))
    assert [(each.gbs, each.withheld) for each in found.values()] == [(None, True), (None, True), (24.0, False)]


def test_data_of_the_hosts_memory_without_its_node():
    found = cells(build.copy("host:0", FIRST, 26.0), verified=(("host", FIRST, True),))
    assert found["host:0", FIRST, False, None].data == "right"
