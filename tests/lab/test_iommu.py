"""What hostdoctor says of the IOMMU is what the kernel did, whatever the command line asks for."""

from __future__ import annotations

import re

import pytest

from tests.lab.image import KERNELS

# Guest, remapping units, domain type of the GPUs.
MODES = [
    ("no-iommu", [], None),
    ("intel", ["dmar0"], "DMA-FQ"),
    ("intel-pt", ["dmar0"], "identity"),
    ("intel-strict", ["dmar0"], "DMA"),
    ("intel-off", [], None),
    ("intel-6.1", ["dmar0"], "DMA-FQ"),
    ("intel-newest", ["dmar0"], "DMA-FQ"),
    ("intel-pt-newest", ["dmar0"], "identity"),
    # QEMU says "virtual" in a capability bit, and AMD's driver then flushes strictly.
    ("amd", ["ivhd0"], "DMA"),
    ("amd-pt", ["ivhd0"], "identity"),
    ("amd-strict", ["ivhd0"], "DMA"),
    ("amd-off", [], None),
    ("amd-on", ["ivhd0"], "DMA"),
    ("amd-pt-6.1", ["ivhd0"], "identity"),
    ("amd-values-newest", ["ivhd0"], "DMA"),
]
VALUES = [f"{vendor}-values-{kernel}" for vendor in ("amd", "intel") for kernel in KERNELS]
NO_OPTION = "AMD-Vi: Unknown option - 'on'"


def each_mode(*names):
    marked = [
        pytest.param(*mode, marks=pytest.mark.lab(mode[0]), id=mode[0]) for mode in MODES if not names or mode[0] in names
    ]
    return pytest.mark.parametrize(("name", "units", "mode"), marked)


@each_mode()
def test_units_and_modes_are_the_kernels(guest, name, units, mode):
    kernel, host = guest.json("before"), guest.json("root")["host"]
    assert kernel["units"] == units
    assert host["iommu_units"] == units
    assert host["kernel"] == kernel["release"]
    assert len(host["gpus"]) == 2
    for gpu in host["gpus"]:
        assert gpu["iommu_type"] == guest.functions[gpu["address"]]["iommu_type"] == mode


@each_mode()
def test_the_verdict_follows_the_mode_in_force(guest, name, units, mode):
    found = guest.findings("iommu-mode")
    # Two cards that may do P2P with each other: passed through or off is in order, translated is what NVIDIA warns of.
    assert [finding["outcome"] for finding in found] == ["warning" if mode in ("DMA", "DMA-FQ") else "ok"] * 2
    assert all((mode or "IOMMU is off") in finding["title"] for finding in found)
    assert all(finding["remedies"] == (["iommu-passthrough"] if mode in ("DMA", "DMA-FQ") else []) for finding in found)


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.lab(name)) for name in VALUES])
def test_values_named_as_unknown_are_those_this_kernel_refuses(guest, name):
    log = guest.text("dmesg")
    refused = {f"amd_iommu={value}" for value in re.findall(r"AMD-Vi: Unknown option - '([^',]+)", log)}
    refused |= {f"intel_iommu={value}" for value in re.findall(r"DMAR: Unknown option - '([^',]+)", log)}
    refused |= {f"pci={value}" for value in re.findall(r"PCI: Unknown option `([^',]+)", log)}
    found = guest.findings("kernel-parameters")
    assert {each["subject"][0] for each in found if "no such value" in each["title"]} == refused
    assert len(refused) >= 2


@each_mode(*(name for name, _, _ in MODES if "values" not in name))
def test_an_option_the_kernel_does_not_know_is_named_and_no_other(guest, name, units, mode):
    refused = NO_OPTION in guest.text("dmesg")
    assert refused == (name == "amd-on")
    named = [finding for finding in guest.findings("kernel-parameters") if finding["subject"] == ["amd_iommu=on"]]
    assert [finding["outcome"] for finding in named] == (["info"] if refused else [])


@pytest.mark.lab("no-iommu")
def test_slips_and_foreign_options_are_those_the_kernel_passes_on(guest):
    found = {finding["subject"][0]: finding["outcome"] for finding in guest.findings("kernel-parameters")}
    assert "iommmu=pt" in guest.text("dmesg").partition("Unknown kernel command line parameters")[2].splitlines()[0]
    assert found["iommmu=pt"] == "warning"
    assert "intel_iommu=on" in found


@pytest.mark.lab("intel-off")
def test_the_kernel_may_log_an_iommu_that_is_off(guest):
    """dmesg alone would mislead: the default domain type is logged whether or not there is a unit in use."""
    assert "iommu: Default domain type: Translated" in guest.text("dmesg")
    assert [finding["outcome"] for finding in guest.findings("iommu-mode")] == ["ok", "ok"]
