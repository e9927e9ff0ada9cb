"""Which kernel parameters findings ask for."""

from __future__ import annotations

import msgspec
import pytest

from hostdoctor.diagnosis import diagnose
from hostdoctor.facts.host import Environment
from hostdoctor.registry import built_in
from hostdoctor.remedies.patch import Request, changed_line
from hostdoctor.remedies.runtime import runtime_steps
from hostdoctor.remedies.wanted import wanted
from hostdoctor.view import View

CHECKS = list(built_in())
LINE = "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro"


@pytest.fixture
def asked(build):
    """What is wanted of a host, as (added, removed) parameters."""

    def make(*parts, **facts):
        view = View(build.host(*parts, **facts))
        found = wanted(view, diagnose(view, CHECKS))
        return [each.parameter for each in found.add], [each.parameter for each in found.remove]

    return make


def nvidia(build, **facts):
    return build.two_nvidia_gpus(iommu_type="DMA-FQ", iommu_group="12", **facts)


def test_a_host_in_order_wants_nothing(asked, build):
    assert asked(build.two_navi_cards()) == ([], [])
    assert asked(build.two_nvidia_gpus()) == ([], [])


def test_passthrough_for_nvidia_pairs_that_are_translated(asked, build):
    assert asked(nvidia(build)) == (["iommu=pt"], [])


def test_each_change_says_why_and_how_to_see_it(build):
    view = View(build.host(nvidia(build)))
    (change,) = wanted(view, diagnose(view, CHECKS)).add
    assert change.because == ("iommu-mode 0000:41:00.0", "iommu-mode 0000:81:00.0")
    assert "memory" in change.risk
    assert "identity" in change.verify
    assert change.source


def test_no_passthrough_while_p2p_rests_on_translation(asked, build):
    """From 6.12 on translation carries P2P to BARs beyond reach; passthrough would end it (truth of amdgpu's remap)."""
    far = build.two_navi_cards(bar_at=56 * build.TIB, iommu_type="DMA-FQ")
    assert asked(far, kernel="6.12.1-generic") == ([], [])


def test_passthrough_is_the_second_step_where_translation_does_not_help(asked, build):
    far = build.two_navi_cards(bar_at=56 * build.TIB, iommu_type="DMA-FQ")
    assert asked(far, kernel="6.8.0-52-generic") == (["iommu=pt"], [])


@pytest.mark.parametrize("environment", ["guest", "container"])
def test_nothing_in_guests_and_containers(asked, build, environment):
    where = build.GUEST if environment == "guest" else Environment("bare-metal", "", "docker")
    assert asked(nvidia(build), environment=where) == ([], [])
    view = View(build.host(nvidia(build), environment=where, balancing=1, nodes=(0, 1)))
    assert runtime_steps(view, diagnose(view, CHECKS)) == ()


@pytest.mark.parametrize(
    ("line", "add", "remove"),
    [
        ("amd_iommu=on", [], ["amd_iommu=on"]),
        ("amd_iommu=pt", ["iommu=pt"], ["amd_iommu=pt"]),
        ("pci=noacs", [], ["pci=noacs"]),
        ("pci=noaer,noacs", ["pci=noaer"], ["pci=noaer,noacs"]),
        ("pci=noacs,noaer,nosuch", ["pci=noaer"], ["pci=noacs,noaer,nosuch"]),
        ("pci=noacs,noaer pci=noacs", ["pci=noaer"], ["pci=noacs,noaer", "pci=noacs"]),
        ("amd_iommu=pt,on", ["iommu=pt"], ["amd_iommu=pt,on"]),
    ],
)
def test_what_the_lint_finds_goes(asked, build, line, add, remove):
    assert asked(build.two_navi_cards(), command_line=f"{LINE} {line}") == (add, remove)


def test_what_is_for_another_processor_goes(asked, build):
    line = f"{LINE} amd_iommu=on quiet"
    assert asked(build.two_navi_cards(), command_line=line, cpu=build.INTEL)[1] == ["amd_iommu=on"]


@pytest.mark.parametrize(
    "line",
    ["iommu=nopt", "iommu=nopt,nopt", "iommu.passthrough=0", "iommu.passthrough=off", "iommu.passthrough=n"],
)
def test_what_says_the_contrary_goes_too(asked, build, line):
    assert asked(nvidia(build), command_line=f"{LINE} {line}") == (["iommu=pt"], [line])


def test_of_a_list_only_the_contrary_goes(asked, build):
    assert asked(nvidia(build), command_line=f"{LINE} iommu=panic,nopt") == (["iommu=panic", "iommu=pt"], ["iommu=panic,nopt"])


@pytest.mark.parametrize(
    "line", ["iommu=pt iommu=pt", "iommu=pt iommu.passthrough=1", "iommu=pt iommu=nopt", "pci=noaer pci=noaer"]
)
def test_which_of_several_is_meant_is_for_their_owner_to_say(asked, build, line):
    """Taking out all that a finding names would take the setting away altogether."""
    assert asked(build.two_navi_cards(), command_line=f"{LINE} {line}") == ([], [])


@pytest.mark.parametrize("line", ["iommu=pt iommu=nopt", "intel_iomu=on"])
def test_what_is_for_their_owner_to_say_is_named(build, line):
    view = View(build.host(build.two_navi_cards(), command_line=f"{LINE} {line}"))
    assert [each.check for each in wanted(view, diagnose(view, CHECKS)).uncurable] == ["kernel-parameters"]


def test_a_contradiction_that_the_change_ends_is_not_left_over(build):
    view = View(build.host(nvidia(build), command_line=f"{LINE} iommu=pt iommu=nopt"))
    found = wanted(view, diagnose(view, CHECKS))
    assert [each.parameter for each in found.remove] == ["iommu=nopt"]
    assert found.uncurable == ()


def test_redirect_is_cleared_on_exactly_its_ports(asked, build):
    host = build.below_one_switch(acs=build.REDIRECT)
    (option,), removed = asked(host, kernel="6.8.0-52-generic")
    assert option == "pci=disable_acs_redir=0000:02:00.0;0000:02:01.0"
    assert removed == []


def test_an_older_list_of_ports_is_merged(asked, build):
    host = build.below_one_switch(acs=build.REDIRECT)
    old = "pci=noaer,disable_acs_redir=0000:00:03.0"
    add, remove = asked(host, kernel="6.8.0-52-generic", command_line=f"{LINE} {old}")
    assert add == ["pci=noaer", "pci=disable_acs_redir=0000:00:03.0;0000:02:00.0;0000:02:01.0"]
    assert remove == [old]


def test_redirect_stays_where_guests_have_devices(asked, build):
    nic = build.function("0000:05:00.0", "15b3:1021", driver="vfio-pci")
    assert asked(build.below_one_switch(acs=build.REDIRECT), nic) == ([], [])


def test_what_is_only_worth_knowing_asks_for_nothing(build):
    view = View(build.host(build.below_one_switch(acs=build.REDIRECT), kernel="6.8.0-52-generic"))
    findings = [
        msgspec.structs.replace(each, outcome="info") if each.check == "acs-redirect" else each
        for each in diagnose(view, CHECKS)
    ]
    assert wanted(view, findings).is_empty


def test_p2p_that_was_switched_off(asked, build):
    add, remove = asked(build.two_navi_cards(), pcie_p2p="N", command_line=f"{LINE} amdgpu.pcie_p2p=0")
    assert add == ["amdgpu.pcie_p2p=1"]
    assert remove == ["amdgpu.pcie_p2p=0"]


def test_what_no_parameter_cures_is_named(build):
    view = View(build.host(build.two_navi_cards(), pcie_p2p=None))
    found = wanted(view, diagnose(view, CHECKS))
    assert found.is_empty
    assert "p2p-kernel" in {each.check for each in found.uncurable}


def test_folklore_is_never_asked_for(asked, build):
    for host in (nvidia(build), build.below_one_switch(acs=build.REDIRECT), build.two_navi_cards(bar_at=56 * build.TIB)):
        add, _ = asked(host, kernel="6.8.0-52-generic")
        assert not {"amd_iommu=on", "pci=noacs", "iommu=off", "pcie_acs_override=downstream"} & set(add)


@pytest.mark.parametrize(
    ("line", "add", "remove", "after"),
    [
        ("a b c", ["d"], ["b"], "a c d"),
        ("a -- init b", ["d"], ["b"], "a d -- init b"),
        ('a "x y" b', [], ["a"], '"x y" b'),
        ("a b a", [], ["a"], "b"),
        ("a d", ["d"], [], "a d"),
        ("", ["d"], [], "d"),
    ],
)
def test_a_changed_line_keeps_everything_else(line, add, remove, after):
    assert changed_line(line, Request(tuple(add), tuple(remove))) == after
