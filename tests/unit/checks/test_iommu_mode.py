"""iommu-mode: whether the mode in force suits the GPUs."""

from __future__ import annotations

import pytest

from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown

ID = "iommu-mode"
TRANSLATED = ["DMA", "DMA-FQ"]


def facts_of(build):
    return {address: build.gpu_facts(32 * build.GIB) for address in (build.FIRST, build.SECOND)}


def outcomes(found):
    return [each.outcome for each in found]


# --- modes that need no thought ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("id_", ["1002:73a1", "10de:2231", "8086:e20b"])
def test_passed_through_is_in_order(build, judge, id_):
    parts = [build.root_port("0000:40:01.1"), build.gpu("0000:41:00.0", id_, "0000:40:01.1")]
    found = judge(ID, build.host(parts))
    assert [(each.outcome, each.title, each.remedies) for each in found] == [("ok", "identity (passed through)", ())]


def test_the_kernel_command_line_does_not_decide(build, judge):
    found = judge(ID, build.host(build.two_nvidia_gpus(iommu_type="DMA-FQ"), command_line="ro iommu=pt"))
    assert outcomes(found) == ["warning", "warning"]


def test_the_iommu_is_off(build, judge):
    found = judge(ID, build.host(build.two_nvidia_gpus(iommu_type=None), units=()))
    assert outcomes(found) == ["ok", "ok"]
    assert "the IOMMU is off" in found[0].title


def test_a_gpu_that_the_iommu_does_not_cover(build, judge):
    found = judge(ID, build.host(build.two_nvidia_gpus(iommu_type=None)))
    assert outcomes(found) == ["ok", "ok"]
    assert "no IOMMU group" in found[0].title


def test_no_group_and_no_list_of_units_is_unknown(build, judge):
    found = judge(ID, build.host(build.two_nvidia_gpus(iommu_type=None), units=NOT_CAPTURED))
    assert outcomes(found) == ["unknown", "unknown"]


@pytest.mark.parametrize("mode", [Unknown("not permitted"), "unknown", ""])
def test_an_unread_mode_is_unknown(build, judge, mode):
    assert outcomes(judge(ID, build.host(build.two_navi_cards(iommu_type=mode)))) == ["unknown", "unknown"]


# --- NVIDIA -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", TRANSLATED)
def test_equal_professional_nvidia_gpus_want_passthrough(build, judge, mode):
    found = judge(ID, build.host(build.two_nvidia_gpus(iommu_type=mode)))
    assert [(each.outcome, each.confidence, each.subject) for each in found] == [
        ("warning", "likely", ("0000:41:00.0",)),
        ("warning", "likely", ("0000:81:00.0",)),
    ]
    assert found[0].title.startswith(f"{mode} ")
    assert "0000:81:00.0" in found[0].explanation
    assert "iommu=pt" in found[0].next
    assert found[0].remedies == ("iommu-passthrough",)
    assert found[0].evidence[0].source.endswith("0000:41:00.0/iommu_group/type")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("10de:2684", "10de:2684"),  # GeForce: the stock driver refuses PCIe P2P
        ("10de:20c2", "10de:20c2"),  # mining
        ("10de:2c33", "10de:28b0"),  # unequal chips
        ("10de:2204", "10de:2230"),  # one die, one of the two a GeForce
    ],
)
def test_nvidia_gpus_without_p2p_by_design_have_nothing_in_their_way(build, judge, first, second):
    found = judge(ID, build.host(build.two_nvidia_gpus(first, second, iommu_type="DMA-FQ")))
    assert outcomes(found) == ["ok", "ok"]
    assert all(not each.remedies for each in found)


@pytest.mark.parametrize("id_", ["10de:1b06", "10de:ffff"])
def test_equal_nvidia_gpus_whose_p2p_nobody_knows_are_unknown(build, judge, id_):
    found = judge(ID, build.host(build.two_nvidia_gpus(id_, iommu_type="DMA-FQ")))
    assert outcomes(found) == ["unknown", "unknown"]
    assert "topo -p2p" in found[0].help
    assert not found[0].remedies


def test_an_unknown_chip_beside_a_geforce_does_no_p2p_whatever_it_is(build, judge):
    found = judge(ID, build.host(build.two_nvidia_gpus(build.RTX_4090, "10de:ffff", iommu_type="DMA-FQ")))
    assert outcomes(found) == ["ok", "ok"]


def test_a_gpu_given_to_a_guest_is_no_peer(build, judge):
    parts = build.changed(build.two_nvidia_gpus(iommu_type="DMA-FQ"), "0000:81:00.0", driver="vfio-pci", iommu_type="unmanaged")
    assert outcomes(judge(ID, build.host(parts))) == ["ok", "ok"]


# --- AMD --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", TRANSLATED)
def test_one_amd_gpu_needs_nothing(build, verdict, mode):
    parts = [build.root_port("0000:40:01.1"), build.navi_card(0x41, "0000:40:01.1", iommu_type=mode)]
    found = verdict(ID, build.host(parts))
    assert (found.outcome, found.remedies) == ("ok", ())


def test_an_integrated_gpu_is_no_second_one(build, verdict):
    apu = build.gpu("0000:0a:00.0", "1002:164e", "0000:00:08.1", iommu_type="DMA-FQ")
    parts = [build.root_port("0000:40:01.1"), build.navi_card(0x41, "0000:40:01.1", iommu_type="DMA-FQ")]
    found = verdict(ID, build.host(parts, build.root_port("0000:00:08.1", "1022:14dd"), apu))
    assert (found.outcome, found.subject) == ("ok", ("0000:43:00.0",))


@pytest.mark.parametrize(("id_", "outcome"), [("1002:73a1", "info"), ("1002:740f", "warning"), ("1002:66a1", "warning")])
@pytest.mark.parametrize("kernel", ["6.1.0-25-amd64", "6.8.0-52-generic", "6.12.10"])
def test_amd_gpus_within_reach_are_offered_passthrough(build, judge, id_, outcome, kernel):
    found = judge(ID, build.host(build.two_navi_cards(id_, iommu_type="DMA-FQ"), kernel=kernel))
    assert outcomes(found) == [outcome, outcome]
    assert found[0].remedies == ("iommu-passthrough",)
    assert "iommu=pt" in found[0].next
    assert ("Instinct" in found[0].title) == (outcome == "warning")
    assert found[0].confidence == ("likely" if outcome == "warning" else "certain")


def test_what_others_cannot_do_with_each_other_is_not_this_gpus_matter(build, judge):
    """The MI210 at 1 TiB reaches all and is reached by all; only the V620 does not reach the second MI210 at 56 TiB."""
    parts = [
        part
        for n, (id_, base) in enumerate(((build.MI210, 1 << 40), (build.MI210, 56 << 40), (build.V620, 4 << 40)), 4)
        for part in (
            build.root_port(f"0000:{n}0:01.1"),
            build.navi_card(n * 16 + 1, f"0000:{n}0:01.1", id_, bar_at=base, iommu_type="DMA-FQ"),
        )
    ]
    found = {each.subject[0]: each for each in judge(ID, build.host(parts, kernel="6.8.0-52-generic"))}
    assert "Instinct" in found["0000:43:00.0"].title
    assert "second step" in found["0000:53:00.0"].title
    assert "second step" in found["0000:63:00.0"].title


@pytest.mark.parametrize("kernel", ["6.12.10", "7.3.1"])
def test_amd_gpus_that_translation_alone_joins_are_never_offered_passthrough(build, judge, text, kernel):
    found = judge(ID, build.host(build.two_navi_cards(iommu_type="DMA-FQ", bar_at=56 * build.TIB), kernel=kernel))
    assert outcomes(found) == ["info", "info"]
    assert found[0].remedies == ("iommu-translate-until-moved",)
    assert "iommu=pt" not in found[0].next
    assert "P2P depends on it" in found[0].title
    assert "/resource BAR0 0x38" in text(found[0])


def test_passthrough_is_not_offered_where_translation_carries_one_direction(build, judge):
    """One GPU is passed through already, and the other reaches its far BAR only because it is translated itself."""
    parts = build.two_navi_cards(iommu_type="DMA-FQ", bar_at=56 * build.TIB)
    found = judge(ID, build.host(build.changed(parts, build.SECOND, iommu_type="identity"), kernel="6.12.10"))
    translated = next(each for each in found if each.subject == (build.FIRST,))
    assert translated.outcome == "info"
    assert translated.remedies == ("iommu-translate-until-moved",)


@pytest.mark.parametrize("kernel", ["6.1.0-25-amd64", "6.8.0-52-generic"])
def test_on_older_kernels_passthrough_is_the_second_step(build, judge, kernel):
    found = judge(ID, build.host(build.two_navi_cards(iommu_type="DMA-FQ", bar_at=56 * build.TIB), kernel=kernel))
    assert outcomes(found) == ["info", "info"]
    assert "second step" in found[0].title
    assert found[0].remedies == ("iommu-passthrough",)
    assert found[0].next.startswith("first move the BARs")


def test_unknown_bars_leave_the_advice_open(build, judge):
    parts = build.changed(build.two_navi_cards(iommu_type="DMA-FQ"), build.SECOND, bars=NOT_CAPTURED)
    found = judge(ID, build.host(parts))
    assert outcomes(found) == ["unknown", "unknown"]
    assert not found[0].remedies


def test_an_unknown_kernel_leaves_the_advice_open_where_it_matters(build, judge):
    far = build.host(build.two_navi_cards(iommu_type="DMA", bar_at=56 * build.TIB), kernel=NOT_CAPTURED)
    assert outcomes(judge(ID, far)) == ["unknown", "unknown"]
    near = build.host(build.two_navi_cards(iommu_type="DMA"), kernel=NOT_CAPTURED)
    assert outcomes(judge(ID, near)) == ["info", "info"]


def test_not_judged_in_a_guest_nor_without_a_gpu(build, verdict):
    assert verdict(ID, build.host(build.two_navi_cards(), environment=build.GUEST)).outcome == "not-applicable"
    assert verdict(ID, build.host()).outcome == "not-applicable"


def test_nothing_is_offered_where_the_kernel_does_no_p2p(build, judge):
    found = judge(ID, build.host(build.two_navi_cards(iommu_type="DMA-FQ"), facts=facts_of(build), pcie_p2p=None))
    assert [(each.outcome, each.remedies) for each in found] == [("ok", ()), ("ok", ())]
    assert "does no P2P here" in found[0].title


# --- by the kernel's log ----------------------------------------------------------------------------------------------


def faults(build, address):
    return build.log(build.event("iommu-fault", address, count=9), build.event("iommu-default", details={"type": "Translated"}))


@pytest.mark.parametrize("mode", ["DMA", "DMA-FQ", "unknown"])
def test_faults_of_one_of_several_nvidia_gpus_are_harm(build, judge, mode):
    mode = build.NOT_CAPTURED if mode == "unknown" else mode
    described = build.host(build.two_nvidia_gpus(build.RTX_4090, iommu_type=mode), log=faults(build, "0000:41:00.0"))
    found = {each.subject[0]: each for each in judge("iommu-mode", described)}
    assert found["0000:41:00.0"].outcome == "failure"
    assert found["0000:41:00.0"].remedies == ("iommu-passthrough",)
    assert found["0000:81:00.0"].outcome in ("ok", "unknown")


def test_faults_of_the_only_gpu_are_no_reason_for_passthrough(build, verdict):
    parts = [build.root_port("0000:40:01.1"), build.gpu("0000:41:00.0", build.A5000, "0000:40:01.1", iommu_type="DMA")]
    found = verdict("iommu-mode", build.host(parts, log=faults(build, "0000:41:00.0")))
    assert (found.outcome, found.remedies) == ("info", ())


def test_what_passes_through_cannot_fault(build, judge):
    described = build.host(build.two_nvidia_gpus(), log=faults(build, "0000:41:00.0"))
    assert {each.outcome for each in judge("iommu-mode", described)} == {"ok"}


def test_amd_gpus_that_need_the_translation_keep_it(build, judge):
    parts = build.two_navi_cards(bar_at=56 * build.TIB, iommu_type="DMA-FQ", dma_mask_bits=44)
    found = judge("iommu-mode", build.host(parts, log=faults(build, build.FIRST)))
    assert {each.outcome for each in found} == {"info"}
    assert not any("iommu-passthrough" in each.remedies for each in found)


def test_the_default_is_shown_and_decides_nothing(build, judge, text):
    described = build.host(
        build.two_navi_cards(iommu_type=build.NOT_CAPTURED),
        log=build.log(
            build.event("iommu-default", text="iommu: Default domain type: Passthrough", details={"type": "Passthrough"})
        ),
    )
    for found in judge("iommu-mode", described):
        assert found.outcome == "unknown"
        assert "Passthrough" in text(found)
