"""Where real firmware and a real kernel put BARs, and what becomes of those that fit nowhere."""

from __future__ import annotations

import re

import pytest

from tests.lab.machine import GIB, TIB
from tests.lab.scenarios import GPU, ROOMY, TIGHT

CARDS = ["0000:03:00.0", "0000:06:00.0"]


def bar0(guest, address):
    start, end, _ = (int(word, 16) for word in guest.functions[address]["resource"].splitlines()[0].split())
    return start, end


def outcomes(guest, check, report="root"):
    return {tuple(finding["subject"]): finding["outcome"] for finding in guest.findings(check, report)}


@pytest.mark.lab("bars-high")
def test_bars_beyond_44_bits_are_the_fault_without_any_driver(guest):
    assert all(bar0(guest, card)[0] >= 16 * TIB for card in CARDS)
    # Without a driver the kernel's mask is 32 bits for every device: the generation decides.
    assert {guest.functions[card]["dma_mask_bits"] for card in CARDS} == {"32"}
    found = guest.findings("bar-reach")
    assert [(each["outcome"], each["subject"]) for each in found] == [("failure", [card]) for card in CARDS]
    for each, card in zip(found, CARDS, strict=True):
        assert f"{bar0(guest, card)[0]:#x}-{bar0(guest, card)[1]:#x}" in each["explanation"]
        assert "56 TiB" in each["title"]
        assert "56T -> 4T" in each["next"]


@pytest.mark.lab("bars-high-mapped")
def test_from_kernel_6_12_on_a_translating_iommu_maps_them(guest):
    assert outcomes(guest, "bar-reach") == {(card,): "info" for card in CARDS}


@pytest.mark.lab("bars-high-6.1")
def test_before_kernel_6_12_it_does_not(guest):
    assert {guest.functions[card]["iommu_type"] for card in CARDS} == {"DMA"}
    assert outcomes(guest, "bar-reach") == {(card,): "failure" for card in CARDS}


@pytest.mark.lab("bars-low")
def test_the_firmware_setting_cures_it(guest):
    assert all(0 < bar0(guest, card)[1] < 16 * TIB for card in CARDS)
    assert outcomes(guest, "bar-reach") == {(card,): "ok" for card in CARDS}


@pytest.mark.lab("no-space")
def test_a_bar_without_space_is_found_although_the_kernel_lists_nothing(guest):
    log = guest.text("dmesg")
    without = sorted(set(re.findall(r"pci (\S+): BAR 0 \[mem size 0x800000000 64bit pref\]: can't assign; no space", log)))
    assert without
    assert all(bar0(guest, card) == (0, 0) for card in without)
    found = guest.findings("bar-unassigned")
    assert [(each["outcome"], each["subject"]) for each in found] == [("failure", [card]) for card in without]
    assert all("BAR0 (32 GiB)" in each["title"] for each in found)


@pytest.mark.lab("no-space")
def test_a_processor_with_too_few_address_bits_is_named(guest):
    (found,) = guest.findings("window-space")
    assert found["outcome"] == "failure"
    assert "36 address bits make 64 GiB" in found["explanation"]


@pytest.mark.lab("small-aperture")
def test_the_arithmetic_of_the_aperture_is_the_kernels(guest):
    """The firmware's 32 GiB begin at 4 GiB: by their size one BAR of 32 GiB fits, by their alignment none does."""
    without = set(
        re.findall(r"pci (\S+): BAR 0 \[mem size 0x800000000 64bit pref\]: can't assign; no space", guest.text("dmesg"))
    )
    assert len(without) == 2
    ranges = re.findall(r"^(\w+)-(\w+) : PCI Bus 0000:00", guest.text("iomem"), re.MULTILINE)
    largest = max(int(end, 16) - int(start, 16) + 1 for start, end in ranges)
    (found,) = guest.findings("window-space")
    assert (found["outcome"], set(found["subject"])) == ("failure", without)
    assert f"{largest // GIB} GiB in the window" in found["explanation"]
    assert "64 GiB are needed" in found["explanation"]
    assert "0 of 2 fit" in found["explanation"]


@pytest.mark.lab("no-space")
def test_io_windows_without_space_stay_silent(guest):
    silent = set(re.findall(r"pci (\S+): bridge window \[io  size \S+\]: can't assign; no space", guest.text("dmesg")))
    assert silent
    alarms = [each for each in guest.json("root")["findings"] if each["outcome"] in ("failure", "warning")]
    assert not [each for each in alarms if silent & set(each["subject"])]


@pytest.mark.lab("hotplug")
def test_a_card_that_is_plugged_in_later_is_judged_by_its_window(guest):
    before, after = guest.json("root")["host"]["gpus"], guest.json("plugged-root")["host"]["gpus"]
    assert [gpu["address"] for gpu in before] == [GPU]
    assert [gpu["address"] for gpu in after] == [GPU, ROOMY, TIGHT]
    plugged = guest.json("plugged")["functions"]
    assert plugged[ROOMY]["resource"].splitlines()[1] != plugged[TIGHT]["resource"].splitlines()[1]
    assert outcomes(guest, "bar-unassigned", "plugged-root") == {(TIGHT,): "failure"}


@pytest.mark.lab("hotplug")
def test_a_card_that_reads_as_all_ones_is_lost(guest):
    assert outcomes(guest, "device-lost", "plugged-root") == {(): "ok"}
    assert outcomes(guest, "device-lost", "lost") == {(GPU,): "failure"}


@pytest.mark.lab("hotplug")
def test_a_card_may_be_removed_while_it_is_looked_at(guest):
    runs = guest.json("removed")
    assert len(runs) == 3
    for run in runs:
        assert run["status"] in (0, 1)
        assert "Traceback" not in run["errors"]
        assert run["report"]["findings"]
    assert ROOMY not in guest.json("removed-after")["functions"]
