"""p2p-pair: what is said of each ordered pair. Which condition holds when is in test_p2p.py."""

from __future__ import annotations

import pytest

from hostdoctor.facts.unknown import NEEDS_ROOT, NOT_CAPTURED, Unknown

ID = "p2p-pair"
FAR = 56 << 40


@pytest.fixture
def healthy(build):
    def make(kfd=NOT_CAPTURED, **facts):
        vram = {address: build.gpu_facts(32 << 30) for address in (build.FIRST, build.SECOND)}
        return build.host(build.two_navi_cards(**facts), facts=vram, kfd=kfd)

    return make


def test_every_ordered_pair_has_a_finding_accessor_first(build, judge, healthy):
    found = judge(ID, healthy())
    assert [each.subject for each in found] == [(build.FIRST, build.SECOND), (build.SECOND, build.FIRST)]


def test_a_prediction_is_likely_and_no_proof(build, judge, healthy):
    found = judge(ID, healthy())[0]
    assert (found.outcome, found.confidence) == ("ok", "likely")
    assert "Expected, not proven" in found.explanation
    assert "data was compared" in found.explanation
    assert found.remedies == ("measure-p2p",)
    assert found.cost.could_have_gbs == 31.51
    assert "31.5 GB/s" in found.cost.text
    assert "Tensor parallel" in found.cost.text


def test_the_drivers_own_verdict_makes_it_certain(build, judge, healthy, text):
    both = ((build.FIRST, build.SECOND), (build.SECOND, build.FIRST))
    found = judge(ID, healthy(build.kfd((build.FIRST, build.SECOND), both)))
    assert [(each.outcome, each.confidence) for each in found] == [("ok", "certain")] * 2
    assert "the driver says so too" in found[0].title
    assert "p2p_links" in text(found[0])


def test_a_driver_that_disagrees_makes_it_unknown(build, judge, healthy):
    one = ((build.FIRST, build.SECOND),)
    found = {each.subject: each for each in judge(ID, healthy(build.kfd((build.FIRST, build.SECOND), one)))}
    assert found[build.FIRST, build.SECOND].outcome == "ok"
    other = found[build.SECOND, build.FIRST]
    assert other.outcome == "unknown"
    assert "but the driver publishes none" in other.title
    assert "measure" in other.help


def test_a_driver_that_does_what_was_thought_impossible(build, judge, healthy):
    both = ((build.FIRST, build.SECOND), (build.SECOND, build.FIRST))
    found = judge(ID, healthy(build.kfd((build.FIRST, build.SECOND), both), bar_at=FAR))
    assert [each.outcome for each in found] == ["unknown", "unknown"]
    assert "publishes a P2P link" in found[0].title


def test_what_can_be_changed_is_a_failure(build, judge, healthy):
    found = judge(ID, healthy(bar_at=FAR))
    assert [each.outcome for each in found] == ["failure", "failure"]
    assert "44 bits" in found[0].title
    assert found[0].remedies == ("firmware-mmio-below-dma-limit",)
    assert "4 of 5 conditions hold, this one does not" in found[0].explanation
    assert "staged through host memory" in found[0].cost.text
    assert "31.5 GB/s" in found[0].cost.text


def test_a_driver_that_agrees_with_a_refusal(build, judge, healthy):
    found = judge(ID, healthy(build.kfd((build.FIRST, build.SECOND)), bar_at=FAR))
    assert [(each.outcome, each.confidence) for each in found] == [("failure", "certain")] * 2
    assert "own verdict agrees" in found[0].explanation


def test_the_slowest_link_on_either_way_is_the_cost(build, judge):
    parts = build.changed(build.two_navi_cards(), "0000:81:00.0", link=build.link(8.0, 4, 16.0, 16))
    found = judge(ID, build.host(parts))
    assert {each.cost.could_have_gbs for each in found} == {7.88}


def test_a_refusal_without_known_links_still_says_what_it_means(build, judge):
    parts = [each for each in build.host(build.two_navi_cards(bar_at=FAR)).functions.values() if each.base_class == 3]
    found = judge(ID, build.host(parts))
    assert found[0].cost.could_have_gbs is None
    assert "staged through host memory" in found[0].cost.text


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        ("10de:2684", "10de:2684", "refuses PCIe P2P on GeForce RTX 4090"),
        ("10de:2c33", "10de:28b0", "GPUs of the same chip, and these are AD107 and GB203"),
    ],
)
def test_nvidia_limits_are_by_design(build, judge, first, second, says):
    found = judge(ID, build.host(build.two_nvidia_gpus(first, second)))
    assert [(each.outcome, each.remedies) for each in found] == [("info", ())] * 2
    assert says in found[0].title
    assert "Nothing on this host is broken" in found[0].explanation
    assert "NVLink" in found[0].explanation


def test_a_translated_nvidia_pair_is_unknown_with_the_remedy(build, judge):
    found = judge(ID, build.host(build.two_nvidia_gpus(iommu_type="DMA-FQ")))
    assert [(each.outcome, each.remedies) for each in found] == [("unknown", ("iommu-passthrough",))] * 2


def test_a_host_bridge_the_kernel_does_not_list_is_by_design(build, judge):
    ports = ("0000:00:01.0", "0000:00:06.0")
    cards = [
        build.function("0000:00:00.0", "8086:a700", 0x060000),
        build.root_port(ports[0], "8086:a70d"),
        build.navi_card(0x41, ports[0]),
        build.root_port(ports[1], "8086:a74d"),
        build.navi_card(0x81, ports[1]),
    ]
    found = judge(ID, build.host(cards, cpu=build.INTEL))
    assert [(each.outcome, each.remedies) for each in found] == [("info", ())] * 2
    assert "0000:00:00.0 [8086:a700]" in found[0].title
    assert "no setting of firmware or kernel changes it" in found[0].explanation


def test_different_vendors_are_by_design(build, judge):
    parts = [
        build.two_navi_cards()[:2],
        build.root_port("0000:a0:01.1"),
        build.gpu("0000:a1:00.0", build.A5000, "0000:a0:01.1"),
    ]
    assert [each.outcome for each in judge(ID, build.host(parts))] == ["info", "info"]


def test_missing_facts_are_unknown_and_say_which(build, judge):
    acs = build.changed(build.below_one_switch(root_id="8086:7ab0"), "0000:02:00.0", config=NEEDS_ROOT)
    found = judge(ID, build.host(acs, cpu=build.INTEL))
    assert [each.outcome for each in found] == ["unknown", "unknown"]
    assert "needs root" in found[0].title
    found = judge(ID, build.host(build.two_navi_cards(driver=Unknown("not permitted"))))
    assert [each.outcome for each in found] == ["unknown", "unknown"]


@pytest.mark.parametrize(("driver", "shown"), [(None, "none"), ("nouveau", "nouveau")])
def test_another_driver_is_unknown_and_shown(build, judge, text, driver, shown):
    found = judge(ID, build.host(build.two_nvidia_gpus(driver=driver)))
    assert [(each.outcome, each.remedies) for each in found] == [("unknown", ("load-driver",))] * 2
    assert f"/driver {shown}" in text(found[0])
    found = judge(ID, build.host(build.two_navi_cards(driver=driver and "radeonfb")))
    assert [each.outcome for each in found] == ["unknown", "unknown"]


def test_intel_gpus_have_no_rule_yet(build, judge):
    parts = [build.two_nvidia_gpus("8086:e20b")]
    assert [each.outcome for each in judge(ID, build.host(parts))] == ["unknown", "unknown"]


def test_not_judged_with_one_gpu_nor_in_a_guest(build, verdict):
    one = build.host(build.root_port("0000:40:01.1"), build.navi_card(0x41, "0000:40:01.1"))
    assert verdict(ID, one).outcome == "not-applicable"
    assert verdict(ID, build.host(build.two_navi_cards(), environment=build.GUEST)).outcome == "not-applicable"
    given_away = build.changed(build.two_navi_cards(), build.SECOND, driver="vfio-pci")
    assert verdict(ID, build.host(given_away)).outcome == "not-applicable"


def test_the_drivers_yes_stands_for_conditions_that_could_not_be_seen(build, judge):
    both = ((build.FIRST, build.SECOND), (build.SECOND, build.FIRST))
    found = judge(
        ID, build.host(build.two_navi_cards(), kfd=build.kfd((build.FIRST, build.SECOND), both), modules=NOT_CAPTURED)
    )
    assert [(each.outcome, each.confidence) for each in found] == [("ok", "certain")] * 2
    assert "the driver publishes a link" in found[0].title
    assert "Not every condition could be seen" in found[0].explanation
