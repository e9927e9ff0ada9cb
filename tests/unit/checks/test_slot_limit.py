"""slot-limit: what the board cannot give."""

from __future__ import annotations

import pytest

from hostdoctor.facts.unknown import Unknown

ID = "slot-limit"
PORT = "0000:40:01.1"


@pytest.fixture
def navi(build):
    def make(port_at, at=None):
        return build.host(build.root_port(PORT, at=port_at), build.navi_card(0x41, PORT, at=at or build.link()))

    return make


def test_a_slot_that_gives_all_is_in_order(build, verdict, navi):
    found = verdict(ID, navi(build.link(32.0)))
    assert found.outcome == "ok"
    assert "16 GT/s x16" in found.title


def test_a_slower_board_is_a_fact_not_a_fault(build, verdict, navi):
    found = verdict(ID, navi(build.link(8.0)))
    assert (found.outcome, found.remedies, found.subject) == ("info", (), ("0000:43:00.0",))
    assert "8 GT/s x16" in found.title
    assert "16 GT/s x16" in found.title
    assert "nothing is broken" in found.explanation
    assert (found.cost.have_gbs, found.cost.could_have_gbs) == (15.75, pytest.approx(31.51, abs=0.01))


@pytest.mark.parametrize("lanes", [1, 4, 8])
def test_a_narrow_slot_is_a_fact(build, verdict, navi, lanes):
    found = verdict(ID, navi(build.link(16.0, lanes)))
    assert found.outcome == "info"
    assert f"16 GT/s x{lanes};" in found.title


def test_a_card_with_eight_wires_needs_no_more_than_eight_lanes(build, verdict):
    port = build.root_port(PORT, at=build.link(16.0, 8))
    card = build.gpu("0000:41:00.0", build.RTX_2000_ADA, PORT, at=build.link(16.0, 8, 16.0, 16))
    found = verdict(ID, build.host(port, card))
    assert found.outcome == "ok"
    assert "16 GT/s x8" in found.title


def test_unread_ends_are_unknown(build, verdict, navi):
    assert verdict(ID, navi(Unknown("its file is missing"))).outcome == "unknown"
    assert verdict(ID, navi(build.link(), Unknown("timed out"))).outcome == "unknown"
    assert verdict(ID, build.host(build.gpu("0000:43:00.0", build.V620, "0000:42:00.0"))).outcome == "unknown"


def test_not_judged_in_a_guest_nor_without_a_gpu(build, verdict):
    guest = build.host(build.gpu("0000:03:00.0", build.V620), environment=build.GUEST)
    assert verdict(ID, guest).outcome == "not-applicable"
    assert verdict(ID, build.host()).outcome == "not-applicable"
