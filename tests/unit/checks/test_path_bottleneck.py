"""path-bottleneck: links above the slot."""

from __future__ import annotations

import pytest

from hostdoctor.facts.unknown import Unknown

ID = "path-bottleneck"
ROOT = "0000:00:01.1"


@pytest.fixture
def behind_switch(build):
    """A card behind a switch whose uplink is given, both ends or the lower alone."""

    def make(at, root_at=None, card_at=None):
        return build.host(
            build.root_port(ROOT, at=root_at or at),
            build.switch(0x01, ROOT, at=at),
            build.navi_card(0x11, "0000:02:00.0", at=card_at),
        )

    return make


def test_a_root_port_has_nothing_above(build, verdict):
    found = verdict(ID, build.host(build.root_port(ROOT), build.navi_card(0x11, ROOT)))
    assert found.outcome == "ok"
    assert f"{ROOT} is a root port" in found.title


def test_an_equal_uplink_is_in_order(build, verdict, behind_switch):
    assert verdict(ID, behind_switch(build.link())).outcome == "ok"


def test_a_wide_card_in_a_narrow_slot_needs_no_more_than_the_slot_gives(build, verdict, behind_switch):
    found = verdict(ID, behind_switch(build.link(16.0, 8), card_at=build.link(16.0, 8, 16.0, 16)))
    assert found.outcome == "ok"


def test_an_uplink_that_trained_below_its_ends_is_a_warning(build, verdict, behind_switch, text):
    found = verdict(ID, behind_switch(build.link(16.0, 1, 16.0, 16), build.link()))
    assert (found.outcome, found.subject) == ("warning", ("0000:13:00.0",))
    assert "16 GT/s x1," in found.title
    assert "16 GT/s x16" in found.title
    assert "0000:01:00.0" in text(found)
    assert ROOT in text(found)
    assert (found.cost.have_gbs, found.cost.could_have_gbs) == (1.97, 31.51)
    assert (found.confidence, found.remedies) == ("likely", ("reseat-or-move-card",))


def test_the_cost_is_what_the_card_loses_by_it(build, verdict, behind_switch):
    """A card with eight lanes gains no more than eight lanes from an uplink of sixteen."""
    found = verdict(ID, behind_switch(build.link(16.0, 1, 16.0, 16), build.link(), build.link(16.0, 8)))
    assert (found.cost.have_gbs, found.cost.could_have_gbs) == (1.97, 15.75)


def test_an_uplink_narrow_by_design_is_a_fact(build, verdict, behind_switch):
    found = verdict(ID, behind_switch(build.link(8.0, 4)))
    assert (found.outcome, found.remedies) == ("info", ())
    assert "8 GT/s x4" in found.title
    assert (found.cost.have_gbs, found.cost.could_have_gbs) == (3.94, 31.51)


@pytest.fixture
def behind_two_switches(build):
    def make(outer, outer_root, inner, inner_port):
        functions = [
            build.root_port(ROOT, at=outer_root),
            build.switch(0x01, ROOT, at=outer),
            build.switch(0x03, "0000:02:00.0", at=inner),
            build.navi_card(0x11, "0000:04:00.0"),
        ]
        return build.host(build.changed(functions, "0000:02:00.0", link=inner_port))

    return make


def test_a_fault_is_named_before_a_narrower_link_that_nobody_can_mend(build, verdict, behind_two_switches):
    by_design, faulty = build.link(16.0, 2), build.link(16.0, 4, 16.0, 16)
    found = verdict(ID, behind_two_switches(by_design, by_design, faulty, build.link()))
    assert found.outcome == "warning"
    assert "16 GT/s x4," in found.title


def test_of_two_faults_the_narrower_is_named(build, verdict, behind_two_switches):
    found = verdict(
        ID,
        behind_two_switches(build.link(16.0, 2, 16.0, 16), build.link(), build.link(16.0, 4, 16.0, 16), build.link()),
    )
    assert "16 GT/s x2," in found.title


def test_an_unread_uplink_is_unknown_but_hides_no_fault(build, verdict, behind_two_switches, behind_switch):
    assert verdict(ID, behind_switch(Unknown("timed out"))).outcome == "unknown"
    faulty = build.link(16.0, 4, 16.0, 16)
    found = verdict(ID, behind_two_switches(Unknown("timed out"), build.link(), faulty, build.link()))
    assert found.outcome == "warning"


def test_a_narrow_link_below_an_unread_one_is_unknown(build, verdict, behind_two_switches):
    narrow = build.link(16.0, 4)
    assert verdict(ID, behind_two_switches(Unknown("timed out"), build.link(), narrow, narrow)).outcome == "unknown"


def test_a_path_that_is_cut_off_is_unknown(build, verdict):
    """A switch's lower port must not pass for a root port where the switch's upper end is not in the evidence."""
    parts = [build.downstream_port("0000:02:00.0", below="0000:01:00.0"), build.navi_card(0x11, "0000:02:00.0")]
    found = verdict(ID, build.host(parts))
    assert found.outcome == "unknown"
    assert "not all in this evidence" in found.title


def test_an_unread_slot_is_unknown(build, verdict, behind_switch):
    assert verdict(ID, behind_switch(build.link(), card_at=Unknown("timed out"))).outcome == "unknown"
    assert verdict(ID, build.host(build.gpu("0000:03:00.0", build.V620))).outcome == "unknown"


def test_not_judged_in_a_guest_nor_without_a_gpu(build, verdict):
    guest = build.host(build.gpu("0000:03:00.0", build.V620), environment=build.GUEST)
    assert verdict(ID, guest).outcome == "not-applicable"
    assert verdict(ID, build.host()).outcome == "not-applicable"


@pytest.mark.parametrize(
    ("root_id", "box_id"),
    [("8086:9a23", "8086:15ef"), ("1022:14cd", "1b21:2461"), ("8086:15ea", "8086:15ef")],
)
def test_a_tunnel_has_no_rate_of_its_own(build, verdict, root_id, box_id):
    """Thunderbolt and USB4 ports say 2.5 GT/s x4, trained below what they can do or not, whatever the cable carries."""
    slow = build.link(2.5, 4, 8.0, 4)
    box = build.switch(0x01, ROOT, id_=box_id, at=slow)
    card = build.gpu("0000:11:00.0", build.RTX_4090, "0000:02:00.0", at=build.link(8.0, 4, 16.0, 16))
    found = verdict(ID, build.host(build.root_port(ROOT, root_id, at=slow), box, card))
    assert (found.outcome, found.subject) == ("unknown", ("0000:11:00.0",))
    assert "Thunderbolt or USB4" in found.title


def test_the_controller_of_thunderbolt_itself_hangs_on_a_wire(build, verdict):
    box = build.switch(0x01, ROOT, id_="8086:15ef", at=build.link(2.5, 4, 8.0, 4))
    card = build.gpu("0000:11:00.0", build.RTX_4090, "0000:02:00.0", at=build.link(8.0, 4, 16.0, 16))
    assert verdict(ID, build.host(build.root_port(ROOT, at=build.link()), box, card)).outcome == "warning"
