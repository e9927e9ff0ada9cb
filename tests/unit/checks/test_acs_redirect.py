"""acs-redirect: ports that send requests between GPUs up instead of across."""

from __future__ import annotations

import msgspec
import pytest

from hostdoctor.facts.pci import Acs, Power
from hostdoctor.facts.unknown import ASLEEP, NEEDS_ROOT, NOT_CAPTURED, Unknown

ID = "acs-redirect"
DOWN = ("0000:02:00.0", "0000:02:01.0")


def test_no_redirect_is_in_order_and_shows_the_bits(build, verdict, text):
    found = verdict(ID, build.host(build.below_one_switch()))
    assert found.outcome == "ok"
    assert "0000:01:00.0" in found.title
    assert "ReqRedir- CmpltRedir- EgressCtrl-" in text(found)
    assert "no ACS capability" in text(found), "the cards' own ports are part of the way"
    assert "0000:13:00.0" in text(found), "and so are the GPUs"
    assert "0000:13:00.0" not in found.subject, "but it is about bridges"


def test_source_validation_alone_is_in_order(build, verdict):
    assert verdict(ID, build.host(build.below_one_switch(build.VALIDATION_ONLY))).outcome == "ok"


@pytest.mark.parametrize(
    ("bit", "shown"),
    [(Acs.REQUEST_REDIRECT, "ReqRedir+"), (Acs.COMPLETION_REDIRECT, "CmpltRedir+"), (Acs.EGRESS_CONTROL, "EgressCtrl+")],
)
def test_each_redirect_bit_is_a_warning(build, verdict, text, bit, shown):
    found = verdict(ID, build.host(build.below_one_switch(Acs(0x7F, bit))))
    assert found.outcome == "warning"
    assert found.subject == DOWN
    assert shown in text(found)


def test_the_remedy_names_exactly_the_redirecting_ports_with_semicolons(build, verdict):
    found = verdict(ID, build.host(build.below_one_switch(build.REDIRECT), kernel="6.8.0-52-generic"))
    assert found.remedies == ("acs-clear-redirect",)
    assert "pci=disable_acs_redir=0000:02:00.0;0000:02:01.0 to the kernel command line" in found.next
    assert "config_acs" not in found.next, "6.8 does not know it"
    assert "0000:13:00.0 and 0000:23:00.0" in found.explanation
    assert "uplink" in found.cost.text


def test_newer_kernels_may_use_config_acs(build, verdict):
    assert "pci=config_acs=" in verdict(ID, build.host(build.below_one_switch(build.REDIRECT), kernel="6.12.1")).next


BOTH = "0000:02:00.0;0000:02:01.0"


@pytest.mark.parametrize(
    ("line", "advised"),
    [
        ("pci=realloc=off,disable_acs_redir=0000:aa:00.0", f"disable_acs_redir=0000:aa:00.0;{BOTH} in"),
        ("pci=disable_acs_redir=aa:00.0 pci=disable_acs_redir=02:01.0", "disable_acs_redir=aa:00.0;02:01.0;0000:02:00.0 in"),
        ("pci=disable_acs_redir=02:00.0 pci=noaer", "disable_acs_redir=02:00.0;0000:02:01.0 in"),
        ("pci=disable_acs_redir=pci:10b5:0;0000:aa:00.0 pci=disable_acs_redir=bb:1.0",
         "disable_acs_redir=pci:10b5:0;0000:aa:00.0;bb:1.0 in"),
        ("pci=disable_acs_redir=pci:10b5:8797;pci:8086:8796;pci:10b5;rubbish",
         f"disable_acs_redir=pci:10b5:8797;pci:8086:8796;pci:10b5;rubbish;{BOTH} in"),
        ("pci=config_acs=x0xx@0000:aa:00.0",
         "config_acs=0x00xx@0000:02:00.0;0x00xx@0000:02:01.0;x0xx@0000:aa:00.0 in"),
        ("pci=config_acs=1111111@02:00.0;11@pci:0:0", "config_acs=1010011@02:00.0;0x0011@0000:02:01.0;11@pci:0:0 in"),
        ("pci=config_acs=x0xx@0000:aa:00.0,disable_acs_redir=0000:bb:00.0", "config_acs=0x00xx@0000:02:00.0;"),
    ],
)  # fmt: skip
def test_one_list_takes_the_place_of_those_given(build, verdict, text, line, advised):
    """Of several lists the kernel keeps the last only; config_acs= is applied after disable_acs_redir=."""
    found = verdict(ID, build.host(build.below_one_switch(build.REDIRECT), command_line=f"ro {line}"))
    assert found.next.startswith(f"under pci= on the kernel command line, put {advised}")
    assert "add pci=" not in found.next
    assert "/proc/cmdline" in text(found)


def test_a_list_the_kernel_does_not_know_is_left_alone(build, verdict):
    line = "ro pci=config_acs=x0xx@0000:aa:00.0"
    found = verdict(ID, build.host(build.below_one_switch(build.REDIRECT), command_line=line, kernel="6.1.0-25-amd64"))
    assert f"add pci=disable_acs_redir={BOTH} to" in found.next


@pytest.mark.parametrize("option", [f"disable_acs_redir={BOTH}", "config_acs=0x00xx@0000:02:00.0;0x00xx@0000:02:01.0"])
def test_a_list_that_names_all_and_clears_nothing_is_not_advised_again(build, verdict, option):
    found = verdict(ID, build.host(build.below_one_switch(build.REDIRECT), command_line=f"ro pci={option}"))
    assert "look in the kernel log" in found.next
    assert option in found.next


def test_a_port_on_the_card_itself_counts(build, verdict):
    """Two cards under one switch can be kept apart by their own downstream ports alone."""
    found = verdict(ID, build.host(build.below_one_switch(own_acs=(None, build.REDIRECT))))
    assert found.outcome == "warning"
    assert found.subject == ("0000:12:00.0", "0000:22:00.0")
    assert "disable_acs_redir=0000:12:00.0;0000:22:00.0 " in found.next


@pytest.mark.parametrize("where", ["0000:01:00.0", "0000:13:00.0", "0000:23:00.0"])
def test_the_common_bridge_and_the_gpus_themselves_count(build, verdict, where):
    parts = build.changed(build.below_one_switch(), where, config=build.ConfigFacts(acs=build.REDIRECT))
    found = verdict(ID, build.host(parts))
    assert (found.outcome, found.subject) == ("warning", (where,))
    assert f"disable_acs_redir={where} " in found.next


def test_ports_above_the_common_bridge_do_not_count(build, verdict):
    parts = build.below_one_switch()
    root = build.root_port("0000:00:01.1", acs=build.REDIRECT)
    assert verdict(ID, build.host(build.changed(parts, root.address, config=root.config))).outcome == "ok"


def test_cards_below_root_ports_of_their_own_have_nothing_to_clear(build, verdict):
    parts = build.two_navi_cards(acs=(None, build.REDIRECT))
    found = verdict(ID, build.host(parts))
    assert (found.outcome, found.remedies) == ("ok", ())
    assert "decides nothing" in found.title


def test_where_guests_use_devices_it_is_a_fact_only(build, verdict):
    nic = build.function("0000:e1:00.0", "15b3:1017", driver="vfio-pci")
    found = verdict(ID, build.host(build.below_one_switch(build.REDIRECT), nic))
    assert (found.outcome, found.remedies, found.next) == ("info", (), "")
    assert "Guests" in found.explanation


def nvidia_below_one_switch(build, *ids, acs=None):
    """NVIDIA cards at 0000:03:00.0, 0000:04:00.0 ... below one switch (0000:01:00.0)."""
    switch = build.switch(0x01, "0000:00:01.1", ports=len(ids), acs=acs or build.REDIRECT)
    cards = [build.gpu(f"0000:{3 + n:02x}:00.0", id_, f"0000:02:{n:02x}.0") for n, id_ in enumerate(ids)]
    return [build.root_port("0000:00:01.1"), switch, cards]


def two_vendors_below_one_switch(build):
    return build.changed(nvidia_below_one_switch(build, "10de:2231", "10de:2231"), "0000:03:00.0", vendor=0x1002, device=0x66A1)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        (two_vendors_below_one_switch, "different vendors"),
        (lambda build: nvidia_below_one_switch(build, build.A5000, build.RTX_2000_ADA), "AD107 and GA102"),
        (lambda build: nvidia_below_one_switch(build, build.RTX_3090, build.RTX_3090), "policy of the product"),
    ],
    ids=["two vendors", "unequal chips", "GeForce"],
)
def test_gpus_that_never_do_p2p_lose_nothing_by_it(build, verdict, parts, why):
    found = verdict(ID, build.host(parts(build)))
    assert (found.outcome, found.subject) == ("info", DOWN)
    assert (found.remedies, found.cost, found.next) == ((), None, "")
    assert "no P2P between these GPUs, so the redirect costs nothing today. N" in found.explanation
    assert why in found.explanation


@pytest.mark.parametrize("pcie_p2p", [None, "N"])
def test_a_kernel_without_p2p_loses_nothing_by_it(build, verdict, pcie_p2p):
    found = verdict(ID, build.host(build.below_one_switch(build.REDIRECT), pcie_p2p=pcie_p2p))
    assert (found.outcome, found.remedies, found.cost) == ("info", (), None)


def test_gpus_of_one_hive_need_no_pcie(build, verdict):
    kfd = build.kfd(["0000:13:00.0", "0000:23:00.0"], hives=(7, 7))
    found = verdict(ID, build.host(build.below_one_switch(build.REDIRECT, id_=build.MI210), kfd=kfd))
    assert (found.outcome, found.remedies) == ("info", ())
    assert "XGMI" in found.explanation


def test_what_can_be_mended_otherwise_keeps_the_warning(build, verdict):
    """A small BAR, an unlisted host bridge that ACS alone makes matter, a translating IOMMU, a product nobody knows."""
    small = build.below_one_switch(build.REDIRECT, bar_size=256 << 20, config=build.resizable(0, 256 << 20, 32 << 30))
    assert verdict(ID, build.host(small)).outcome == "warning"
    unlisted = [
        build.function("0000:00:00.0", "8086:4660", 0x060000),
        build.below_one_switch(build.REDIRECT, root_id="8086:460d"),
    ]
    assert verdict(ID, build.host(unlisted, cpu=build.INTEL)).outcome == "warning"
    translated = nvidia_below_one_switch(build, build.A5000, build.A5000)
    translated = build.changed(translated, "0000:03:00.0", iommu_type="DMA-FQ")
    assert verdict(ID, build.host(translated)).outcome == "warning"
    assert verdict(ID, build.host(nvidia_below_one_switch(build, "10de:ffff", "10de:ffff"))).outcome == "warning"


def test_only_ways_between_gpus_that_can_do_p2p_are_to_be_cleared(build, verdict):
    third = build.gpu("0000:31:00.0", build.A5000, "0000:02:02.0")
    parts = [build.root_port("0000:00:01.1"), build.switch(0x01, "0000:00:01.1", ports=3, acs=build.REDIRECT), third]
    cards = [build.navi_card(0x11, "0000:02:00.0"), build.navi_card(0x21, "0000:02:01.0")]
    found = verdict(ID, build.host(parts, cards))
    assert (found.outcome, found.subject) == ("warning", DOWN)
    cleared = build.changed(
        build.changed([*parts, *cards], DOWN[0], config=build.ConfigFacts(acs=build.NO_REDIRECT)),
        DOWN[1],
        config=build.ConfigFacts(acs=build.NO_REDIRECT),
    )
    found = verdict(ID, build.host(cleared))
    assert (found.outcome, found.subject) == ("info", ("0000:02:02.0",))


def test_two_groups_of_gpus_give_two_findings(build, judge):
    second = [
        build.root_port("0000:80:01.1"),
        build.switch(0x81, "0000:80:01.1"),
        build.navi_card(0x91, "0000:82:00.0"),
        build.navi_card(0xA1, "0000:82:01.0"),
    ]
    found = judge(ID, build.host(build.below_one_switch(build.REDIRECT), second))
    assert [(each.outcome, each.subject[0]) for each in found] == [("warning", DOWN[0]), ("ok", "0000:92:00.0")]


@pytest.mark.parametrize("why", [NEEDS_ROOT, NOT_CAPTURED, ASLEEP])
@pytest.mark.parametrize("where", [DOWN[1], "0000:01:00.0", "0000:13:00.0"])
def test_what_was_not_read_on_the_way_is_unknown(build, verdict, where, why):
    parts = build.changed(build.below_one_switch(), where, config=why)
    found = verdict(ID, build.host(parts))
    assert (found.outcome, found.help, found.subject) == ("unknown", why.help, (where,))


def test_a_redirect_that_is_seen_is_not_hidden_by_one_unread(build, verdict):
    parts = build.changed(build.below_one_switch(build.REDIRECT), DOWN[1], config=ASLEEP, power=Power("suspended"))
    found = verdict(ID, build.host(parts))
    assert (found.outcome, found.subject) == ("warning", DOWN[:1])


def test_gpus_whose_bridges_are_cut_off_are_unknown(build, judge):
    """They may share a switch that is not in the evidence."""
    parts = [build.navi_card(0x11, "0000:02:00.0"), build.navi_card(0x21, "0000:02:01.0")]
    found = judge(ID, build.host(parts))
    assert [(each.outcome, each.subject) for each in found] == [("unknown", ("0000:13:00.0", "0000:23:00.0"))]


def test_a_bridge_that_is_seen_decides_even_if_what_lies_above_is_cut_off(build, verdict):
    parts = [each for each in build.host(build.below_one_switch()).functions.values() if each.address != "0000:00:01.1"]
    assert verdict(ID, build.host(parts)).outcome == "ok"


def test_not_judged_with_one_gpu_nor_in_a_guest(build, verdict):
    one = build.host(build.root_port("0000:40:01.1"), build.navi_card(0x41, "0000:40:01.1"))
    assert verdict(ID, one).outcome == "not-applicable"
    guest = build.host(build.below_one_switch(build.REDIRECT), environment=build.GUEST)
    assert verdict(ID, guest).outcome == "not-applicable"


def lines(*controls):
    return tuple((f"acs.txt:{n}", Acs(0x7F, control)) for n, control in enumerate(controls, 1))


def test_lines_that_name_no_port_are_in_order_where_none_redirects(build, verdict):
    host = msgspec.structs.replace(build.host(), functions=Unknown("none"), loose_acs=lines(0, Acs.SOURCE_VALIDATION, 0))
    found = verdict(ID, host)
    assert found.outcome == "ok"
    assert "none of 3" in found.title


@pytest.mark.parametrize("controls", [(0, Acs.REQUEST_REDIRECT), (Acs.COMPLETION_REDIRECT,), (0,)])
def test_lines_that_name_no_port_leave_a_redirect_open(build, verdict, text, controls):
    found = verdict(ID, msgspec.structs.replace(build.host(), functions=Unknown("none"), loose_acs=lines(*controls)))
    assert (found.outcome, found.subject) == ("unknown", ())
    assert f"acs.txt:{len(controls)}" in text(found)


def test_a_text_without_capabilities_does_not_tell_root_ports(build, verdict):
    parts = build.two_nvidia_gpus()
    assert verdict(ID, build.host(parts)).outcome == "ok", "no common bridge"
    ports = ("0000:40:01.1", "0000:80:01.1")
    for port in ports:
        parts = build.changed(parts, port, config=NEEDS_ROOT, origin="lspci.txt:7")
    found = verdict(ID, build.host(parts))
    assert (found.outcome, found.subject, found.help) == ("unknown", ports, NEEDS_ROOT.help)
