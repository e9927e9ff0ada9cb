"""shared-uplink: GPUs behind one link to the processor."""

from __future__ import annotations

from hostdoctor.facts.unknown import NEEDS_ROOT, NOT_CAPTURED, Unknown

ID = "shared-uplink"
ROOT = "0000:00:01.1"


def chipset(build, cards=2):
    """AMD's 600 series: an upstream port, and one downstream port for each card."""
    parts = [
        build.root_port("0000:00:02.1", "1022:14db"),
        build.upstream_port("0000:01:00.0", "1022:43f4", below="0000:00:02.1"),
    ]
    for n in range(cards):
        port = f"0000:02:{n:02x}.0"
        parts += [build.downstream_port(port, "1022:43f5", below="0000:01:00.0"), build.navi_card(0x11 + n * 16, port)]
    return parts


def test_slots_of_their_own_are_in_order(build, verdict):
    found = verdict(ID, build.host(build.two_navi_cards()))
    assert (found.outcome, found.subject) == ("ok", (build.FIRST, build.SECOND))


def test_a_shared_switch_is_a_fact_with_its_uplink(build, verdict):
    found = verdict(ID, build.host(build.below_one_switch(at=build.link(8.0, 16))))
    assert (found.outcome, found.subject) == ("info", ("0000:13:00.0", "0000:23:00.0"))
    assert "2 GPUs share one uplink of 8 GT/s x16" in found.title
    assert "0000:01:00.0" in found.explanation
    assert found.cost.have_gbs == 15.75
    assert "15.8 GB/s" in found.cost.text


GPUS = ("0000:13:00.0", "0000:23:00.0")
STAY = "copies between these GPUs stay below it"


def of_v620(build):
    return {gpu: build.gpu_facts(32 << 30) for gpu in GPUS}


def test_copies_between_gpus_stay_below_a_switch_that_passes_them(build, verdict):
    assert STAY in verdict(ID, build.host(build.below_one_switch(), facts=of_v620(build))).explanation
    agrees = build.kfd(GPUS, [GPUS, GPUS[::-1]])
    assert STAY in verdict(ID, build.host(build.below_one_switch(), facts=of_v620(build), kfd=agrees)).explanation


def test_nothing_is_said_of_copies_that_may_not_stay_below(build, verdict):
    """ACS sends them up, or was not read; no P2P, or not known; the driver says no for one direction."""
    facts = of_v620(build)
    unread = build.changed(build.below_one_switch(), "0000:02:01.0", config=NEEDS_ROOT)
    one_way = build.kfd(GPUS, [GPUS])
    geforce = [
        build.root_port(ROOT),
        build.switch(0x01, ROOT),
        build.gpu("0000:13:00.0", build.RTX_3090, "0000:02:00.0"),
        build.gpu("0000:23:00.0", build.RTX_3090, "0000:02:01.0"),
    ]
    for host in (
        build.host(build.below_one_switch(build.REDIRECT), facts=facts),
        build.host(unread, facts=facts),
        build.host(unread, facts=facts, kfd=build.kfd(GPUS, [GPUS, GPUS[::-1]])),
        build.host(build.below_one_switch(), facts=facts, pcie_p2p=None),
        build.host(build.below_one_switch(id_="1002:ffff")),
        build.host(build.below_one_switch(), facts=facts, kfd=one_way),
        build.host(build.below_one_switch(driver="vfio-pci")),
        build.host(geforce),
    ):
        found = verdict(ID, host)
        assert (found.outcome, found.subject) == ("info", GPUS)
        assert "copies to and from host memory share its uplink." in found.explanation


def test_a_function_that_is_its_own_parent_shares_with_nobody(build, judge):
    strange = build.gpu("0000:03:00.0", build.V620, "0000:03:00.0")
    found = judge(ID, build.host(build.root_port(ROOT), build.navi_card(0x41, ROOT), strange))
    assert [(each.outcome, each.subject) for each in found] == [("unknown", ("0000:03:00.0",))]


def test_an_uplink_whose_best_is_not_known_is_told_as_it_runs(build, verdict):
    found = verdict(ID, build.host(build.below_one_switch(at=build.link(8.0, 16, Unknown("timed out")))))
    assert "8 GT/s x16" in found.title
    assert found.cost is None


def test_a_shared_chipset_is_a_warning(build, verdict, text):
    found = verdict(ID, build.host(chipset(build), build.root_port(ROOT), build.navi_card(0x41, ROOT)))
    assert (found.outcome, found.subject) == ("warning", ("0000:13:00.0", "0000:23:00.0"))
    assert "chipset" in found.title
    assert "1022:43f5" in text(found)
    assert found.remedies == ("move-card-to-cpu-slot",)


def test_intel_root_ports_of_the_chipset_share_its_uplink(build, verdict):
    parts = [
        build.root_port("0000:00:1c.0", "8086:7ab8"),
        build.gpu("0000:01:00.0", build.A5000, "0000:00:1c.0"),
        build.root_port("0000:00:1d.0", "8086:7ab0"),
        build.gpu("0000:02:00.0", build.A5000, "0000:00:1d.0"),
    ]
    assert verdict(ID, build.host(parts, cpu=build.INTEL)).outcome == "warning"


def test_one_card_on_the_chipset_shares_with_no_gpu(build, verdict):
    found = verdict(ID, build.host(chipset(build, 1), build.root_port(ROOT), build.navi_card(0x41, ROOT)))
    assert found.outcome == "ok"


def test_of_nested_switches_the_narrowest_common_link_counts(build, verdict):
    parts = [
        build.root_port(ROOT, at=build.link(8.0, 4)),
        build.switch(0x01, ROOT, ports=1, at=build.link(8.0, 4)),
        build.switch(0x03, "0000:02:00.0"),
        build.navi_card(0x11, "0000:04:00.0"),
        build.navi_card(0x21, "0000:04:01.0"),
    ]
    found = verdict(ID, build.host(parts))
    assert "8 GT/s x4" in found.title
    assert found.cost.have_gbs == 3.94


def test_groups_of_different_size_are_told_apart(build, judge):
    """Two cards below an inner switch, a third beside it below the outer one."""
    parts = [
        build.root_port(ROOT),
        build.switch(0x01, ROOT),
        build.switch(0x03, "0000:02:00.0"),
        build.navi_card(0x11, "0000:04:00.0"),
        build.navi_card(0x21, "0000:04:01.0"),
        build.navi_card(0x31, "0000:02:01.0"),
    ]
    found = judge(ID, build.host(parts))
    assert sorted(len(each.subject) for each in found) == [2, 3]
    assert {each.outcome for each in found} == {"info"}


def test_a_card_whose_ports_are_cut_off_is_unknown_and_hides_no_other(build, judge):
    lone = build.gpu("0000:d3:00.0", build.V620, NOT_CAPTURED)
    found = judge(ID, build.host(chipset(build), lone))
    assert [(each.outcome, each.subject) for each in found] == [
        ("warning", ("0000:13:00.0", "0000:23:00.0")),
        ("unknown", ("0000:d3:00.0",)),
    ]


def test_it_is_never_in_order_with_a_card_that_is_cut_off(build, judge):
    lone = build.navi_card(0xD1, "0000:d0:00.0")
    found = judge(ID, build.host(build.two_navi_cards(), lone))
    assert [each.outcome for each in found] == ["unknown"]
    assert "not all in this evidence" in found[0].title


def test_not_judged_with_one_gpu_nor_in_a_guest(build, verdict):
    assert verdict(ID, build.host(build.root_port(ROOT), build.navi_card(0x41, ROOT))).outcome == "not-applicable"
    guest = build.host(build.two_navi_cards(), environment=build.GUEST)
    assert verdict(ID, guest).outcome == "not-applicable"
