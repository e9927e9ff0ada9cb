"""From the diagnosis to the cure on a system that starts from a disk as real ones do: firmware, boot loader, kernel.

hostdoctor finds GPUs whose DMA is translated, what it prints is applied and run, and after a restart the kernel shows whether
that helped; after another one, whether the way back leads back.
"""

from __future__ import annotations

import re

import pytest

from tests.lab import disk

LOADERS = {disk.GRUB: "grub-debian", disk.SYSTEMD_BOOT: "systemd-boot"}
PARAMETER = "iommu=pt"

pytestmark = pytest.mark.parametrize(
    "loader", [pytest.param(name, marks=pytest.mark.lab(f"cure-{name}"), id=name) for name in LOADERS]
)


def _modes(guest, start=""):
    """The domain type of each GPU, as the kernel has it."""
    functions = guest.json(f"{start}before")["functions"]
    return [each["iommu_type"] for each in functions.values() if each["class"] == "0x030000"]


def _outcomes(guest, start=""):
    return [finding["outcome"] for finding in guest.findings("iommu-mode", f"{start}root")]


def _words(text):
    """Text without the marks of a comment and without its line breaks."""
    return " ".join(line.lstrip("# ") for line in text.split("\n")).split()


def _holds(printed, command):
    return " ".join(_words(command)) in " ".join(_words(printed))


def test_the_fault_is_found(guest, loader):
    assert _modes(guest) == ["DMA-FQ"] * 2
    assert _outcomes(guest) == ["warning"] * 2
    assert guest.text("verify.status") == "1"


def test_the_patch_is_for_the_loader_that_started_the_kernel(guest, loader):
    plan = guest.json("plan")
    assert plan["loader"]["name"] == LOADERS[loader]
    assert plan["add"] == [PARAMETER]
    assert plan["remove"] == []
    assert guest.text("patch.status") == "0"
    printed = guest.text("patch")
    assert plan["diff"] in printed
    assert all(_holds(printed, command) for command in (*plan["commands"], plan["show"], *plan["revert"]))


def test_what_is_printed_can_be_done_as_printed(guest, loader):
    commands = [f"commands-{number}" for number, _ in enumerate(guest.json("plan")["commands"], 1)]
    assert [guest.text(f"{name}.status") for name in ("apply", *commands, "show-1")] == ["0"] * (2 + len(commands))
    assert "patching file" in guest.text("apply")
    assert not re.search("fuzz|offset", guest.text("apply"))
    assert PARAMETER in guest.text("show-1").split()


def test_after_the_restart_it_is_cured(guest, loader):
    assert guest.text("2/cmdline").split()[1:] == guest.json("plan")["result"].split()
    assert PARAMETER in guest.text("2/cmdline").split()
    assert _modes(guest, "2/") == ["identity"] * 2
    assert _outcomes(guest, "2/") == ["ok"] * 2
    assert guest.text("2/verify.status") == "0"


def test_the_way_back_leads_back(guest, loader):
    reverted = [f"2/revert-{number}.status" for number, _ in enumerate(guest.json("plan")["revert"], 1)]
    assert reverted
    assert [guest.text(name) for name in reverted] == ["0"] * len(reverted)
    assert guest.text("3/cmdline") == guest.text("cmdline")
    assert _modes(guest, "3/") == ["DMA-FQ"] * 2
    assert _outcomes(guest, "3/") == ["warning"] * 2
