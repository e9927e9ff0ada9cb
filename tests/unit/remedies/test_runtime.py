"""What can be changed while the host runs."""

from __future__ import annotations

import pytest

from hostdoctor.diagnosis import diagnose
from hostdoctor.facts.pci import Bar
from hostdoctor.registry import built_in
from hostdoctor.remedies.runtime import runtime_steps
from hostdoctor.view import View

CHECKS = list(built_in())


@pytest.fixture
def steps(build):
    """The steps for a host."""

    def make(*parts, **facts):
        view = View(build.host(*parts, **facts))
        return runtime_steps(view, diagnose(view, CHECKS))

    return make


def test_a_host_in_order_has_none(steps, build):
    assert steps(build.two_navi_cards()) == ()


def test_redirect_by_setpci_with_a_look_before_and_after(steps, build):
    (step,) = steps(build.below_one_switch(acs=build.REDIRECT))
    lines = [line.split("    #")[0] for line in step.commands]
    assert lines[:4] == [
        "lspci -n -s 0000:02:00.0",
        "setpci -s 0000:02:00.0 ECAP_ACS+6.w",
        "setpci -s 0000:02:00.0 ECAP_ACS+6.w=0000:002c",
        "setpci -s 0000:02:00.0 ECAP_ACS+6.w",
    ]
    assert any("guest" in why for why in step.not_if)
    assert "disable_acs_redir" in step.lasting


def test_no_setpci_where_guests_have_devices(steps, build):
    nic = build.function("0000:05:00.0", "15b3:1021", driver="vfio-pci")
    assert steps(build.below_one_switch(acs=build.REDIRECT), nic) == ()


def test_groups_that_translate(steps, build):
    found = steps(build.two_nvidia_gpus(iommu_type="DMA-FQ", iommu_group="12"))
    assert {step.commands[1] for step in found} == {"echo identity > /sys/kernel/iommu_groups/12/type"}
    assert all("iommu=pt" in step.lasting for step in found)


def test_a_bar_that_can_be_larger(steps, build):
    small = (Bar(0, "mem", 0xE0000000, 256 << 20, True, True, True),)
    config = build.resizable(0, 256 << 20, 256 << 20, 32 * build.GIB)
    cards = build.changed(build.two_navi_cards(), build.FIRST, bars=small, config=config)
    facts = {build.FIRST: build.gpu_facts(32 * build.GIB, 256 << 20), build.SECOND: build.gpu_facts(32 * build.GIB)}
    (step,) = [each for each in steps(cards, facts=facts) if "BAR" in each.title]
    folder = f"/sys/bus/pci/devices/{build.FIRST}"
    assert [line.split("    #")[0] for line in step.commands] == [
        f"cat {folder}/resource0_resize",
        f"echo {build.FIRST} > /sys/bus/pci/drivers/amdgpu/unbind",
        f"echo 15 > {folder}/resource0_resize",
        f"echo {build.FIRST} > /sys/bus/pci/drivers/amdgpu/bind",
    ]


def test_a_link_that_is_slow_under_load(steps, build):
    cards = build.two_navi_cards(at=build.link(8.0, 16, 16.0, 16))
    facts = {address: build.gpu_facts(32 * build.GIB, busy=97) for address in (build.FIRST, build.SECOND)}
    found = [each for each in steps(cards, facts=facts) if "link" in each.title]
    assert len(found) == 2
    assert "setpci -s 0000:40:01.1 CAP_EXP+10.w=0020:0020" in found[0].commands
    assert found[0].commands[0] == "setpci -s 0000:41:00.0 CAP_EXP+30.w=0004:000f"


def test_numa_balancing(steps, build):
    (step,) = steps(build.two_navi_cards(), nodes=(0, 1), balancing=1)
    assert step.commands == ("sysctl -w kernel.numa_balancing=0",)
    assert "/etc/sysctl.d" in step.lasting
