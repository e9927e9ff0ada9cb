"""p2p-kernel: whether kernel and amdgpu were built with P2P."""

from __future__ import annotations

import pytest

from hostdoctor.facts.host import Module
from hostdoctor.facts.unknown import NOT_CAPTURED

ID = "p2p-kernel"
BUILT = {"CONFIG_HSA_AMD_P2P": "y", "CONFIG_PCI_P2PDMA": "y"}
DEBIAN_12 = {"CONFIG_PCI_P2PDMA": "n", "CONFIG_HSA_AMD": "y"}
DEBIAN_7_3 = {"CONFIG_PCI_P2PDMA": "y", "CONFIG_HSA_AMD_P2P": "n", "CONFIG_HSA_AMD": "y"}


@pytest.fixture
def over(build):
    def judged(**facts):
        return build.verdict(ID, build.host(build.two_navi_cards(), **facts))

    return judged


@pytest.mark.parametrize("value", ["Y", "1"])
def test_switched_on(over, text, value):
    found = over(pcie_p2p=value)
    assert (found.outcome, found.subject) == ("ok", ())
    assert f"pcie_p2p {value}" in text(found)


@pytest.mark.parametrize("value", ["N", "0"])
def test_switched_off_can_be_switched_on(over, value):
    found = over(pcie_p2p=value)
    assert found.outcome == "failure"
    assert found.remedies == ("amdgpu-enable-pcie-p2p",)
    assert "amdgpu.pcie_p2p=0" in found.next
    assert "tensor parallel" in found.cost.text


@pytest.mark.parametrize("config", [NOT_CAPTURED, BUILT, DEBIAN_12])
def test_a_driver_without_the_parameter_was_built_without(over, text, config):
    """The parameter tells more than the kernel's configuration, which may not be that of the loaded module."""
    found = over(pcie_p2p=None, kernel_config=config)
    assert found.outcome == "failure"
    assert "no parameter pcie_p2p" in found.title
    assert found.remedies == ("kernel-with-p2p",)
    assert "no option of this one can bring it" in found.next
    assert "IOMMU mode, ACS and BARs make no difference" in found.explanation


@pytest.mark.parametrize(("config", "missing"), [(DEBIAN_12, "CONFIG_PCI_P2PDMA"), (DEBIAN_7_3, "CONFIG_HSA_AMD_P2P")])
def test_without_a_loaded_driver_the_configuration_decides(over, text, config, missing):
    found = over(modules={}, kernel_config=config)
    assert found.outcome == "failure"
    assert missing in found.title
    assert "/boot/config-6.12.1-generic" in text(found)
    assert found.remedies == ("kernel-with-p2p",)


@pytest.mark.parametrize(("hives", "outcome"), [((7, 7), "info"), ((7, 8), "failure"), ((0, 0), "failure")])
def test_gpus_that_xgmi_joins_do_not_need_it(build, verdict, hives, outcome):
    kfd = build.kfd((build.FIRST, build.SECOND), hives=hives)
    found = verdict(ID, build.host(build.two_navi_cards(build.MI210), pcie_p2p=None, kfd=kfd))
    assert (found.outcome, bool(found.remedies)) == (outcome, outcome == "failure")


def test_one_gpu_outside_the_hive_needs_it(build, verdict):
    third = [build.root_port("0000:a0:01.1"), build.navi_card(0xA1, "0000:a0:01.1", build.MI210)]
    kfd = build.kfd((build.FIRST, build.SECOND, "0000:a3:00.0"), hives=(7, 7, 8))
    parts = [build.two_navi_cards(build.MI210), third]
    assert verdict(ID, build.host(parts, pcie_p2p=None, kfd=kfd)).outcome == "failure"


def test_a_driver_known_to_be_on_needs_no_configuration(over):
    assert over(kernel_config=DEBIAN_12).outcome == "ok", "a driver built outside the kernel"


@pytest.mark.parametrize(
    "facts",
    [
        {"modules": NOT_CAPTURED},
        {"modules": {}},
        {"modules": {}, "kernel_config": BUILT},  # built, but is it on?
        {"modules": {}, "kernel_config": {}},  # an empty file
        {"modules": {"amdgpu": Module("amdgpu", {"pcie_p2p": ""})}},
        {"modules": {"amdgpu": Module("amdgpu", {"pcie_p2p": ""})}, "kernel_config": DEBIAN_12},
        {"modules": {"amdgpu": Module("amdgpu", {}, "6.12.12")}, "kernel_config": DEBIAN_12},  # AMD's own package
    ],
)
def test_what_cannot_be_seen_is_unknown(over, facts):
    found = over(**facts)
    assert (found.outcome, found.remedies) == ("unknown", ())


def test_not_judged_below_two_amd_gpus_nor_in_a_guest(build, verdict):
    card = [build.root_port("0000:40:01.1"), build.navi_card(0x41, "0000:40:01.1")]
    apu = [build.root_port("0000:00:08.1", "1022:14dd"), build.gpu("0000:0a:00.0", "1002:164e", "0000:00:08.1")]
    nvidia = build.gpu("0000:01:00.0", build.A5000)
    assert verdict(ID, build.host(card, apu, nvidia, pcie_p2p=None)).outcome == "not-applicable"
    guest = build.host(build.two_navi_cards(), pcie_p2p=None, environment=build.GUEST)
    assert verdict(ID, guest).outcome == "not-applicable"
