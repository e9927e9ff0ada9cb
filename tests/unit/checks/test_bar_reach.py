"""bar-reach: whether GPUs can address each other's BARs."""

from __future__ import annotations

import pytest

from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown

ID = "bar-reach"
FAR = 56 << 40


def outcomes(found):
    return [(each.outcome, each.subject) for each in found]


def test_bars_within_reach_are_in_order(build, judge):
    found = judge(ID, build.host(build.two_navi_cards()))
    assert outcomes(found) == [("ok", (build.FIRST,)), ("ok", (build.SECOND,))]
    assert "44 bits" in found[0].title


@pytest.mark.parametrize("mode", ["identity", None, "blocked"])
@pytest.mark.parametrize("kernel", ["6.1.0-25-amd64", "6.12.10"])
def test_bars_at_56_tib_are_the_failure_this_tool_was_born_from(build, judge, text, mode, kernel):
    found = judge(ID, build.host(build.two_navi_cards(bar_at=FAR, iommu_type=mode), kernel=kernel))
    assert outcomes(found) == [("failure", (build.FIRST,)), ("failure", (build.SECOND,))]
    shown = text(found[0])
    assert "56 TiB" in found[0].title
    assert "44 bits" in found[0].title
    assert "0x380000000000-0x3807ffffffff" in shown
    assert "46 address bits" in shown
    assert "MMIO High Base 56T -> 4T" in found[0].next
    assert "a base of 16T is already too high" in shown
    assert build.SECOND in found[0].explanation
    assert "tensor parallel" in found[0].cost.text
    assert found[0].remedies == ("firmware-mmio-below-dma-limit",)
    assert "iommu" not in " ".join(found[0].remedies)


@pytest.mark.parametrize(
    ("kernel", "outcome"), [("6.1.0", "failure"), ("6.8.0-52-generic", "failure"), ("6.12.10", "info"), ("7.3.1", "info")]
)
@pytest.mark.parametrize("mode", ["DMA", "DMA-FQ"])
def test_translation_carries_far_bars_from_6_12_on(build, judge, kernel, outcome, mode):
    found = judge(ID, build.host(build.two_navi_cards(bar_at=FAR, iommu_type=mode), kernel=kernel))
    assert {each.outcome for each in found} == {outcome}
    if outcome == "info":
        assert found[0].remedies == ("iommu-translate-until-moved", "firmware-mmio-below-dma-limit")
        assert "iommu=pt" in found[0].explanation
    else:
        assert "kernels from 6.12 on can" in found[0].explanation


@pytest.mark.parametrize(
    ("address", "outcome"), [((16 << 40) - (32 << 30), "ok"), (16 << 40, "failure"), (4 << 40, "ok"), (24 << 40, "failure")]
)
def test_the_limit_is_the_first_byte_of_16_tib(build, verdict, address, outcome):
    host = build.host(
        build.root_port("0000:40:01.1"),
        build.navi_card(0x41, "0000:40:01.1", bar_at=1 << 40, driver="amdgpu"),
        build.root_port("0000:80:01.1"),
        build.navi_card(0x81, "0000:80:01.1", bar_at=address),
    )
    found = {each.subject[0]: each.outcome for each in build.judge(ID, host)}
    assert found == {build.FIRST: "ok", build.SECOND: outcome}


def test_each_direction_has_its_own_mask(build, judge):
    """An MI210 addresses 48 bits and a V620 44: both BARs at 56 TiB, only the MI210's is out of its peer's reach."""
    host = build.host(
        build.root_port("0000:40:01.1"),
        build.navi_card(0x41, "0000:40:01.1", build.MI210, bar_at=FAR),
        build.root_port("0000:80:01.1"),
        build.navi_card(0x81, "0000:80:01.1", build.V620, bar_at=FAR + (64 << 30)),
    )
    found = {each.subject[0]: each for each in judge(ID, host)}
    assert found[build.FIRST].outcome == "failure"
    assert "only 44" in found[build.FIRST].explanation
    assert (found[build.SECOND].outcome, found[build.SECOND].title) == (
        "ok",
        "its BAR lies within the 48 bits its peers address",
    )


def test_of_several_masks_the_smallest_is_named(build, judge):
    parts = [
        part
        for n, (id_, base) in enumerate(((build.MI210, 56 << 40), (build.V620, 4 << 40), (build.POLARIS, 512 << 30)), 4)
        for part in (
            build.root_port(f"0000:{n}0:01.1"),
            build.navi_card(n * 16 + 1, f"0000:{n}0:01.1", id_, bar_at=base, bar_size=16 << 30),
        )
    ]
    found = {each.subject[0]: each for each in judge(ID, build.host(parts))}
    assert "only 40 on the bus" in found["0000:43:00.0"].explanation
    assert "only 40 on the bus" in found["0000:53:00.0"].explanation
    assert found["0000:63:00.0"].title == "its BAR lies within the 44 bits its peers address"


def test_old_cards_address_40_bits(build, judge):
    found = judge(ID, build.host(build.two_navi_cards(build.POLARIS, bar_size=256 << 20)))
    assert {each.outcome for each in found} == {"failure"}
    assert "40 bits" in found[0].title
    assert "-> 512G" in found[0].next
    assert "a base of 1T is already too high" in found[0].explanation


def test_the_drivers_mask_goes_before_the_table(build, judge):
    found = judge(ID, build.host(build.two_navi_cards(bar_at=FAR, dma_mask_bits=48)))
    assert {each.outcome for each in found} == {"ok"}
    found = judge(ID, build.host(build.two_navi_cards(bar_at=FAR, dma_mask_bits=32)))
    assert {each.outcome for each in found} == {"failure"}, "32 is what it reads before a driver is bound"


def test_a_hive_does_not_care_where_bars_lie(build, judge):
    kfd = build.kfd((build.FIRST, build.SECOND), hives=(7, 7))
    found = judge(ID, build.host(build.two_navi_cards(build.MI100, bar_at=FAR), kfd=kfd))
    assert {each.outcome for each in found} == {"ok"}
    assert "XGMI" in found[0].title
    other = build.kfd((build.FIRST, build.SECOND), hives=(7, 8))
    found = judge(ID, build.host(build.two_navi_cards(build.MI100, bar_at=FAR), kfd=other))
    assert {each.outcome for each in found} == {"failure"}


def test_nvidia_is_not_held_to_amds_44_bits(build, judge):
    found = judge(ID, build.host(build.two_nvidia_gpus(bar_at=FAR)))
    assert [each.outcome for each in found] == ["ok", "ok"]
    assert "47 bits" in found[0].title


def test_nvidia_beyond_its_bits_is_unknown_not_failure(build, judge):
    found = judge(ID, build.host(build.two_nvidia_gpus(bar_at=1 << 48)))
    assert [each.outcome for each in found] == ["unknown", "unknown"]


def test_unequal_nvidia_gpus_are_no_peers(build, verdict):
    host = build.host(build.two_nvidia_gpus(build.RTX_PRO_4000_SFF, build.RTX_2000_ADA, bar_at=FAR))
    assert verdict(ID, host).outcome == "not-applicable"


def test_nvidia_gpus_nobody_knows_may_be_peers(build, judge):
    found = judge(ID, build.host(build.two_nvidia_gpus("10de:fffe", "10de:ffff")))
    assert [each.outcome for each in found] == ["unknown", "unknown"]


def test_missing_facts_are_unknown(build, judge):
    cases = [
        build.host(build.two_navi_cards(bars=NOT_CAPTURED)),
        build.host(build.two_navi_cards(bars=(build.missing_bar(),))),
        build.host(build.two_navi_cards("1002:ffff")),
        build.host(build.two_navi_cards(bar_at=FAR, iommu_type=Unknown("not permitted"))),
        build.host(build.two_navi_cards(bar_at=FAR, iommu_type="DMA"), kernel=NOT_CAPTURED),
    ]
    for host in cases:
        assert [each.outcome for each in judge(ID, host)] == ["unknown", "unknown"]


def test_a_bar_that_no_table_explains_still_gives_a_verdict(build, judge):
    """An address that is no multiple of the size, as no hardware has it but a stranger's tree may."""
    found = judge(ID, build.host(build.two_navi_cards(bar_at=(16 << 40) - (1 << 30))))
    assert {each.outcome for each in found} == {"failure"}


def test_not_judged_with_one_gpu_nor_in_a_guest(build, verdict):
    one = build.host(build.root_port("0000:40:01.1"), build.navi_card(0x41, "0000:40:01.1", bar_at=FAR))
    assert verdict(ID, one).outcome == "not-applicable"
    guest = build.host(build.two_navi_cards(bar_at=FAR), environment=build.GUEST)
    assert verdict(ID, guest).outcome == "not-applicable"


def test_a_gpu_given_to_a_guest_is_no_peer(build, verdict):
    parts = build.changed(build.two_navi_cards(bar_at=FAR), build.SECOND, driver="vfio-pci")
    assert verdict(ID, build.host(parts)).outcome == "not-applicable"
