"""link-speed: a slow link is a fault only where its GPU is at work."""

from __future__ import annotations

import msgspec
import pytest

from hostdoctor.facts.bandwidth import LoadedLink, Run
from hostdoctor.facts.pci import Power
from hostdoctor.facts.unknown import ASLEEP, NOT_CAPTURED, Unknown

ID = "link-speed"
PORT, GPU = "0000:40:01.1", "0000:43:00.0"


@pytest.fixture
def navi(build):
    def make(at, port_at=None, busy=NOT_CAPTURED):
        parts = [build.root_port(PORT, at=port_at or build.link()), build.navi_card(0x41, PORT, at=at)]
        return build.host(parts, facts={GPU: build.gpu_facts(32 * build.GIB, busy=busy)})

    return make


def test_full_speed_is_in_order(build, verdict, navi):
    found = verdict(ID, navi(build.link()))
    assert (found.outcome, found.title) == ("ok", "16 GT/s, all that card and slot can do")


def test_a_pcie_3_board_is_no_fault(build, verdict, navi):
    """The V620 on its PCIe 3.0 board: 8 GT/s is all that both ends can do, busy or not."""
    found = verdict(ID, navi(build.link(8.0, 16, 16.0, 16), build.link(8.0), busy=100))
    assert (found.outcome, found.subject) == ("ok", (GPU,))


@pytest.mark.parametrize("busy", [0, 3, 49])
def test_an_idle_gpu_is_unknown_not_failure(build, verdict, navi, text, busy):
    found = verdict(ID, navi(build.link(2.5, 16, 16.0, 16), busy=busy))
    assert found.outcome == "unknown"
    assert "the GPU is idle" in found.title
    assert "2.5 GT/s" in found.title
    assert "load the GPU" in found.help
    assert "gpu_busy_percent" in text(found)


def test_a_gpu_whose_work_is_not_known_is_unknown(build, verdict, navi):
    found = verdict(ID, navi(build.link(2.5, 16, 16.0, 16)))
    assert found.outcome == "unknown"
    assert "may be idle" in found.title


@pytest.mark.parametrize("busy", [50, 99])
def test_a_slow_link_under_load_is_a_failure_with_its_cost(build, verdict, navi, text, busy):
    found = verdict(ID, navi(build.link(8.0, 16, 16.0, 16), busy=busy))
    assert (found.outcome, found.confidence) == ("failure", "likely")
    assert "8 GT/s under load" in found.title
    assert "can do 16" in found.title
    assert (found.cost.have_gbs, found.cost.could_have_gbs) == (15.75, 31.51)
    assert f"{busy} %" in text(found)
    assert found.remedies == ("reseat-or-move-card", "firmware-slot-full-speed")


def test_a_sleeping_card_is_unknown(build, verdict):
    card = build.gpu("0000:41:00.0", build.W6800, PORT, at=ASLEEP, power=Power("suspended", "D3hot"))
    found = verdict(ID, build.host(build.root_port(PORT), card))
    assert found.outcome == "unknown"
    assert "asleep" in found.title


def test_unread_values_are_unknown(build, verdict, navi):
    assert "its file is missing" in verdict(ID, navi(build.link(Unknown("its file is missing")))).title
    assert verdict(ID, navi(build.link(16.0, 0))).outcome == "unknown", "a link that is down has no speed"
    assert verdict(ID, navi(build.link(), Unknown("timed out"))).outcome == "unknown"


def test_an_amd_gpu_without_its_port_is_unknown_although_it_reads_full(build, verdict):
    found = verdict(ID, build.host(build.gpu(GPU, build.V620, "0000:42:00.0")))
    assert found.outcome == "unknown"


@pytest.mark.parametrize(("speed", "outcome"), [(16.0, "ok"), (2.5, "unknown")])
def test_an_nvidia_card_without_its_port(build, verdict, speed, outcome):
    card = build.gpu("0000:41:00.0", build.A5000, NOT_CAPTURED, at=build.link(speed, 16, 16.0, 16))
    assert verdict(ID, build.host(card)).outcome == outcome


def test_not_judged_in_a_guest_nor_without_a_gpu(build, verdict):
    guest = build.host(build.gpu("0000:03:00.0", build.V620), environment=build.GUEST)
    assert verdict(ID, guest).outcome == "not-applicable"
    assert verdict(ID, build.host()).outcome == "not-applicable"


# --- seen while copies ran --------------------------------------------------------------------------------------------


def copied(described, speed, width=16, port="0000:41:00.0"):
    """The host with a run during which its card's link was looked at."""
    seen = LoadedLink(port, speed, width, "run.jsonl:9")
    return msgspec.structs.replace(described, runs=(Run("hip", "", "run.jsonl:1", links=(seen,)),))


def test_an_idle_link_that_came_up_under_load_is_in_order(build, verdict, navi):
    found = verdict(ID, copied(navi(build.link(2.5, 16, 16.0, 16)), 16.0))
    assert (found.outcome, found.title) == ("ok", "16 GT/s while the GPU copied, all that card and slot can do")


def test_a_link_that_stays_slow_under_load_is_a_failure_whatever_else_is_known(build, verdict, navi, text):
    found = verdict(ID, copied(navi(build.link(16.0, 16, 16.0, 16), busy=0), 2.5))
    assert found.outcome == "failure"
    assert "run.jsonl:9" in text(found)
    assert (found.cost.have_gbs, found.cost.could_have_gbs) == (4.0, 31.51)


def test_a_link_seen_under_load_whose_port_is_not_known_is_unknown(build, verdict):
    gpu = build.function(GPU, build.V620, 0x030000, parent=NOT_CAPTURED, driver="amdgpu", link=build.link(2.5))
    assert verdict(ID, copied(build.host(gpu), 2.5, port=GPU)).outcome == "unknown"
