"""Hosts on which an easy answer is a wrong one: what all checks say of them together."""

from __future__ import annotations

import pytest

from hostdoctor.diagnosis import diagnose
from hostdoctor.facts.host import Module
from hostdoctor.facts.pci import GpuFacts
from hostdoctor.facts.unknown import Unknown
from hostdoctor.registry import built_in
from hostdoctor.view import View

FAR = 56 << 40
DEAD = "reads as all ones"


@pytest.fixture
def said(build):
    """(outcome, title) of each finding of a check over a host."""

    def run(check_id, host):
        found = diagnose(View(host), [check for check in built_in() if check.id == check_id])
        return [(each.outcome, each.title) for each in found]

    return run


@pytest.fixture
def far_translated(build):
    """Two V620 at 56 TiB below a translating IOMMU, with a kernel that is named."""

    def make(kernel="6.12.1-generic", **more):
        cards = build.two_navi_cards(bar_at=FAR, iommu_type="DMA-FQ")
        facts = {address: build.gpu_facts(32 << 30) for address in (build.FIRST, build.SECOND)}
        return build.host(cards, kernel=kernel, facts=facts, **more)

    return make


# --- a GPU that is gone -----------------------------------------------------------------------------------------------


def test_nothing_is_expected_of_a_gpu_that_no_longer_answers(build, said):
    parts = build.changed(build.two_navi_cards(), build.FIRST, config=build.lost_config(DEAD))
    host = build.host(parts)
    assert {outcome for outcome, _ in said("p2p-pair", host)} == {"failure"}
    assert f"{build.FIRST} no longer answers" in said("p2p-pair", host)[0][1]
    assert [outcome for outcome, _ in said("device-lost", host)] == ["failure"]
    assert said("pcie-atomics", host)[0] == ("unknown", "PCIe atomics not judged: the GPU no longer answers")


def test_a_header_type_7f_reads_as_a_sentence(build, said):
    parts = build.changed(build.two_navi_cards(), build.FIRST, config=build.lost_config("header type 7f"))
    assert said("device-lost", build.host(parts))[0][1].endswith("no longer answers: it shows header type 7f")


def test_functions_that_are_listed_and_not_there_are_told(build, said):
    host = build.host(build.two_navi_cards(), lacking_functions=("0000:c1:00.0",))
    found = said("device-lost", host)
    assert found == [("unknown", "0000:c1:00.0 is listed, but its folder is not in this evidence")]


# --- who remaps -------------------------------------------------------------------------------------------------------


def test_a_driver_from_outside_the_kernel_is_not_judged_by_its_version(far_translated, said):
    host = far_translated("6.8.0-52-generic", modules={"amdgpu": Module("amdgpu", {"pcie_p2p": "Y"}, "6.12.12")})
    assert {outcome for outcome, _ in said("bar-reach", host)} == {"unknown"}
    assert "amdgpu 6.12.12 is not the kernel's own" in said("bar-reach", host)[0][1]
    assert {outcome for outcome, _ in said("p2p-pair", host)} == {"unknown"}


def test_a_vendors_kernel_may_carry_a_newer_driver(far_translated, said):
    assert {outcome for outcome, _ in said("bar-reach", far_translated("5.14.0-570.12.1.el9_6.x86_64"))} == {"unknown"}
    assert {outcome for outcome, _ in said("bar-reach", far_translated("5.15.0-100-generic"))} == {"failure"}


def test_kfds_link_goes_before_our_arithmetic(build, far_translated, said):
    both = ((build.FIRST, build.SECOND), (build.SECOND, build.FIRST))
    host = far_translated("6.8.0-52-generic", kfd=build.kfd((build.FIRST, build.SECOND), both))
    assert {outcome for outcome, _ in said("bar-reach", host)} == {"unknown"}
    assert "the driver publishes a link" in said("bar-reach", host)[0][1]


def test_nouveaus_mask_is_not_the_gpus(build, said):
    cards = build.two_nvidia_gpus(driver="nouveau", dma_mask_bits=40, bar_at=4 << 40, iommu_type="DMA-FQ")
    host = build.host(cards)
    assert {outcome for outcome, _ in said("bar-reach", host)} == {"ok"}
    assert {outcome for outcome, _ in said("iommu-mode", host)} == {"ok"}


# --- iommu=pt acts on all ---------------------------------------------------------------------------------------------


def test_iommu_pt_is_offered_to_none_while_one_pair_needs_the_translation(build, far_translated, said):
    near = build.navi_card(0xC1, "0000:c0:01.1", build.MI210, bar_at=1 << 40, bar_size=64 << 30, iommu_type="DMA-FQ")
    cards = [*build.two_navi_cards(bar_at=FAR, iommu_type="DMA-FQ"), build.root_port("0000:c0:01.1"), near]
    found = diagnose(View(build.host(cards)), [check for check in built_in() if check.id == "iommu-mode"])
    assert {each.outcome for each in found} == {"info"}
    assert not any("add iommu=pt" in each.next or "iommu-passthrough" in each.remedies for each in found)


def test_nvidia_gpus_wait_for_amds_bars(build):
    amd = build.two_navi_cards(bar_at=FAR, iommu_type="DMA-FQ")
    nvidia = build.two_nvidia_gpus(ports=("0000:a0:01.1", "0000:c0:01.1"), iommu_type="DMA-FQ")
    found = diagnose(View(build.host(amd, nvidia)), [check for check in built_in() if check.id == "iommu-mode"])
    warned = [each for each in found if each.outcome == "warning"]
    assert len(warned) == 2
    assert all("iommu=pt would end their P2P" in each.next for each in warned)
    assert all(each.remedies == ("iommu-translate-until-moved",) for each in warned)


def test_a_hive_needs_no_translation(build, said):
    kfd = build.kfd((build.FIRST, build.SECOND), hives=(7, 7))
    host = build.host(build.two_navi_cards(build.MI100, bar_at=FAR, iommu_type="DMA-FQ"), kfd=kfd)
    assert said("iommu-mode", host) == [("ok", "DMA-FQ (translated); XGMI joins these GPUs, whatever the IOMMU does")] * 2


# --- where a BAR must not lie -----------------------------------------------------------------------------------------


def test_the_hypertransport_range_is_no_place_for_a_bar(build, said):
    host = build.host(build.two_navi_cards(bar_at=0xFD00000000))
    assert "HyperTransport" in said("bar-reach", host)[0][1]
    assert said("bar-reach", host)[0][0] == "unknown"
    assert {outcome for outcome, _ in said("bar-reach", build.host(build.two_navi_cards(bar_at=0x10000000000)))} == {"ok"}


def test_old_cards_on_amd_hosts_are_told_of_it(build):
    cards = build.two_navi_cards(build.POLARIS, bar_at=2 << 40, bar_size=8 << 30)
    found = diagnose(View(build.host(cards)), [check for check in built_in() if check.id == "bar-reach"])
    assert "0xfd00000000-0xffffffffff" in found[0].explanation


def test_only_the_gpus_that_cannot_reach_are_blamed(build):
    high = build.navi_card(0xC1, "0000:c0:01.1", build.V620, bar_at=4 << 40)
    cards = build.two_navi_cards(build.MI210, bar_at=FAR, bar_size=64 << 30)
    host = build.host([*cards, build.root_port("0000:c0:01.1"), high], kernel="6.8.0-1-generic")
    found = diagnose(View(host), [check for check in built_in() if check.id == "bar-reach"])
    worst = next(each for each in found if each.subject == (build.FIRST,))
    assert "the 44 bits 0000:c3:00.0 address" in worst.title
    assert "every copy between these GPUs" not in worst.explanation
    assert "by 0000:c3:00.0" in worst.cost.text


def test_a_memory_bar_without_address_forbids_p2p(build, said):
    host = build.host(build.two_navi_cards(bars=(build.missing_bar(),)))
    assert said("p2p-pair", host) == [("failure", "no P2P: the owner's memory BAR has no address")] * 2


# --- the driver's own choice ------------------------------------------------------------------------------------------


def test_a_level_that_the_driver_chose_is_no_fault(build, said):
    cards = build.two_navi_cards(at=build.link(2.5, 16, 16.0, 16))
    levels = "0: 2.5GT/s, x16 310Mhz *\n1: 16.0GT/s, x16 619Mhz"
    busy = {address: GpuFacts(busy_percent=99, link_levels=levels) for address in (build.FIRST, build.SECOND)}
    found = said("link-speed", build.host(cards, facts=busy))
    assert {outcome for outcome, _ in found} == {"unknown"}
    assert "the driver keeps a lower level" in found[0][1]
    none_higher = {address: GpuFacts(busy_percent=99, link_levels="0: 2.5GT/s, x16 310Mhz *") for address in busy}
    assert {outcome for outcome, _ in said("link-speed", build.host(cards, facts=none_higher))} == {"failure"}


def test_a_kernel_without_the_option_may_have_another_driver_loaded(build, said):
    config = {"CONFIG_PCI_P2PDMA": "y", "CONFIG_HSA_AMD_P2P": "n"}
    host = build.host(build.two_navi_cards(), modules=Unknown("not read"), kernel_config=config)
    assert [outcome for outcome, _ in said("p2p-kernel", host)] == ["unknown"]
    without = {**config, "CONFIG_PCI_P2PDMA": "n"}
    host = build.host(build.two_navi_cards(), modules=Unknown("not read"), kernel_config=without)
    assert [outcome for outcome, _ in said("p2p-kernel", host)] == ["failure"]
