"""link-width: lanes between slot and card."""

from __future__ import annotations

import pytest

from hostdoctor.facts.host import Firmware
from hostdoctor.facts.pci import Power
from hostdoctor.facts.unknown import ASLEEP, NEEDS_ROOT, NOT_CAPTURED, Unknown

ID = "link-width"
PORT = "0000:40:01.1"


@pytest.fixture
def navi(build):
    """A host with one card that has a switch of its own, its slot link given."""

    def make(at, port_at=None, **facts):
        return build.host(build.root_port(PORT, at=port_at or build.link()), build.navi_card(0x41, PORT, at=at, **facts))

    return make


def test_all_lanes_are_in_order(build, verdict, navi):
    found = verdict(ID, navi(build.link()))
    assert (found.outcome, found.subject) == ("ok", ("0000:43:00.0",))
    assert "x16" in found.title


def test_lost_lanes_are_a_failure_on_the_card_although_its_gpu_reads_full(build, verdict, navi, text):
    found = verdict(ID, navi(build.link(16.0, 1, 16.0, 16)))
    assert (found.outcome, found.confidence) == ("failure", "certain")
    assert found.subject == ("0000:43:00.0",)
    assert "x1," in found.title
    assert "x16" in found.title
    assert "0000:41:00.0" in found.explanation, "the link judged is that of the card's own switch"
    assert "0000:41:00.0/current_link_width 1" in text(found)
    assert (found.cost.have_gbs, found.cost.could_have_gbs) == (1.97, 31.51)
    assert found.remedies == ("reseat-or-move-card",)


def test_a_slower_speed_at_rest_changes_neither_verdict_nor_cost(build, verdict, navi):
    found = verdict(ID, navi(build.link(2.5, 8, 16.0, 16)))
    assert found.outcome == "failure"
    assert (found.cost.have_gbs, found.cost.could_have_gbs) == (15.75, 31.51)


def test_a_slot_with_fewer_lanes_is_no_fault_of_the_link(build, verdict, navi):
    found = verdict(ID, navi(build.link(16.0, 4, 16.0, 16), build.link(16.0, 4, 16.0, 4)))
    assert (found.outcome, found.title) == ("ok", "x4, all that card and slot can do")


def test_an_x8_card_whose_register_says_x16_is_in_order(build, verdict):
    port = build.root_port(PORT, at=build.link())
    card = build.gpu("0000:41:00.0", build.RTX_2000_ADA, PORT, at=build.link(16.0, 8, 16.0, 16))
    assert verdict(ID, build.host(port, card)).outcome == "ok"


def test_an_x8_card_that_trained_x4_is_a_failure_measured_by_its_wiring(build, verdict):
    card = build.gpu("0000:41:00.0", build.RTX_2000_ADA, PORT, at=build.link(16.0, 4, 16.0, 16))
    found = verdict(ID, build.host(build.root_port(PORT), card))
    assert found.outcome == "failure"
    assert "x8" in found.title
    assert found.cost.could_have_gbs == 15.75


def test_without_root_the_attributes_suffice(build, verdict):
    """Config space that needs root leaves port types unknown; the slot is found all the same."""
    parts = [build.root_port(PORT, config=NEEDS_ROOT), build.navi_card(0x41, PORT, at=build.link(8.0, 8, 16.0, 16))]
    parts = build.changed(parts, "0000:41:00.0", config=NEEDS_ROOT)
    found = verdict(ID, build.host(build.changed(parts, "0000:42:00.0", config=NEEDS_ROOT)))
    assert found.outcome == "failure"
    assert "x8" in found.title


@pytest.mark.parametrize("why", [NOT_CAPTURED, NEEDS_ROOT, Unknown("timed out after 10 s")])
def test_an_unread_link_is_unknown_with_its_reason(verdict, navi, why):
    found = verdict(ID, navi(why))
    assert (found.outcome, found.help) == ("unknown", why.help)
    assert why.reason in found.title


def test_a_sleeping_card_is_unknown(build, verdict):
    card = build.gpu("0000:41:00.0", build.W6800, PORT, at=ASLEEP, power=Power("suspended", "D3hot"), config=ASLEEP)
    found = verdict(ID, build.host(build.root_port(PORT), card))
    assert found.outcome == "unknown"
    assert "asleep" in found.title


def test_an_unread_port_is_unknown(verdict, navi):
    found = verdict(ID, navi(None, Unknown("its file is missing")))
    assert found.outcome == "unknown"
    assert "its file is missing" in found.title


def test_a_link_that_is_down_is_unknown(build, verdict, navi):
    found = verdict(ID, navi(build.link(16.0, 0, 16.0, 16)))
    assert found.outcome == "unknown"
    assert "down" in found.title


def test_a_card_whose_port_is_not_in_the_evidence_is_unknown_even_with_all_lanes_inside(build, verdict):
    """A GPU behind a switch of its own always reads full, so that proves nothing about the slot."""
    found = verdict(ID, build.host(build.gpu("0000:43:00.0", build.V620, "0000:42:00.0")))
    assert found.outcome == "unknown"
    assert "not in this evidence" in found.title


@pytest.mark.parametrize(("width", "outcome"), [(16, "ok"), (8, "unknown")])
def test_an_nvidia_card_without_its_port_is_in_order_only_with_all_its_lanes(build, verdict, width, outcome):
    card = build.gpu("0000:41:00.0", build.A5000, NOT_CAPTURED, at=build.link(16.0, width, 16.0, 16))
    assert verdict(ID, build.host(card)).outcome == outcome


def test_a_gpu_on_a_root_bus_has_no_slot_to_judge(build, verdict):
    assert verdict(ID, build.host(build.gpu("0000:03:00.0", build.V620))).outcome == "unknown"


def test_not_judged_in_a_guest_nor_without_a_gpu(build, verdict):
    guest = build.host(build.gpu("0000:03:00.0", build.V620), environment=build.GUEST)
    assert verdict(ID, guest).outcome == "not-applicable"
    assert verdict(ID, build.host(build.root_port(PORT))).outcome == "not-applicable"
    assert verdict(ID, build.host(functions=Unknown("no PCI functions"))).outcome == "unknown"


def test_a_soldered_chip_with_fewer_lanes_is_no_fault(build, verdict):
    parts = [
        build.root_port("0000:00:01.0"),
        build.gpu("0000:01:00.0", "10de:2520", "0000:00:01.0", at=build.link(16, 8, 16, 16)),
    ]
    laptop = verdict(ID, build.host(parts, firmware=Firmware(chassis_type="10")))
    assert (laptop.outcome, laptop.remedies) == ("info", ())
    assert "x8" in laptop.title
    assert verdict(ID, build.host(parts, firmware=Firmware(chassis_type="3"))).outcome == "failure"


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("GA104M [GeForce RTX 3080 Mobile / Max-Q 8GB/16GB]", "info"),
        ("TU106GLM [Quadro RTX 3000 Mobile / Max-Q]", "info"),
        ("AD107M [GeForce RTX 4060 Max-Q / Mobile]", "info"),
        ("GB203M / GN22-X9 [GeForce RTX 5080 Max-Q / Mobile]", "info"),
        ("GA102 [GeForce RTX 3090]", "failure"),
        ("GM200GL [Tesla M40]", "failure"),
        ("Navi 23 [Radeon RX 6600/6600 XT/6600M]", "failure"),
        ("", "failure"),
    ],
)
def test_a_text_names_the_chips_of_portable_computers(build, verdict, name, outcome):
    card = build.gpu("0000:01:00.0", "10de:249c", PORT, at=build.link(8.0, 8, 16.0, 16), name=name)
    host = build.host(build.root_port(PORT), card, firmware=Firmware())
    assert verdict(ID, host).outcome == outcome
    desktop = build.host(build.root_port(PORT), card, firmware=Firmware(chassis_type="3"))
    assert verdict(ID, desktop).outcome == "failure"


@pytest.mark.parametrize(("id_", "outcome"), [("1022:14a1", "unknown"), ("10b5:8796", "ok"), ("1022:43f5", "ok")])
def test_a_switch_of_amd_that_no_table_has_may_be_the_cards_own(build, verdict, id_, outcome):
    """Then its GPU's link says nothing of the slot, and the one above is no bottleneck but the slot's."""
    narrow = build.link(16.0, 8, 16.0, 16)
    switch = build.switch(0x01, PORT, id_=id_, at=narrow)
    host = build.host(build.root_port(PORT, at=narrow), switch, build.gpu("0000:11:00.0", "1002:66a1", "0000:02:00.0"))
    assert verdict(ID, host).outcome == outcome
    assert verdict("path-bottleneck", host).outcome == ("unknown" if outcome == "unknown" else "warning")
