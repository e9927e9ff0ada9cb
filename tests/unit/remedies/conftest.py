"""Hosts that need something of their firmware, the guide for a host, and GRUB itself as the judge of what is written for it."""

from __future__ import annotations

import os

import pytest

from hostdoctor.diagnosis import diagnose
from hostdoctor.facts.host import Firmware
from hostdoctor.registry import built_in
from hostdoctor.remedies.firmware import firmware_guide
from hostdoctor.view import View
from tests.unit.remedies import rehearsal

GIB, TIB = 1 << 30, 1 << 40
EIGHT_BUSES = ("00", "17", "3a", "40", "80", "85", "ae", "d7")


def apertures(base, granule, buses=EIGHT_BUSES):
    """A range above 4 GiB for each root bus, one after the other, and one below for the first."""
    high = [(f"0000:{bus}", base + n * granule, base + (n + 1) * granule - 1) for n, bus in enumerate(buses)]
    return (("0000:00", 0x90000000, 0x9D7FFFFF), *high)


@pytest.fixture(scope="session")
def dmi():
    """DMI strings: vendor and name of the board, then the system's."""

    def make(board_vendor="", board="", system="", product="", chassis="1", version="3.8a"):  # noqa: PLR0917  as DMI has them
        return Firmware(system, product, board_vendor, board, "AMI", version, "10/28/2022", chassis)

    return make


@pytest.fixture(scope="session")
def far(build, dmi):
    """Two cards of 44 bits with their BARs at 56 TiB, by default on the board this was first seen on."""

    def make(base=56 * TIB, granule=256 * GIB, cards=(), seen=True, **facts):
        facts.setdefault("cpu", build.INTEL)
        facts.setdefault("kernel", "6.8.0-52-generic")
        facts.setdefault(
            "firmware", Firmware("Supermicro", "SYS-7049GP-TRT", "Supermicro", "X11DPG-QT", "AMI", "3.8a", "", "1")
        )
        if seen:
            facts.setdefault("apertures", apertures(base, granule))
        return build.host(*(cards or build.two_navi_cards(bar_at=base + 3 * granule)), **facts)

    return make


@pytest.fixture(scope="session")
def small(build):
    """A card whose memory BAR is smaller than it can be; nothing lies above 4 GiB."""

    def make(bar_at=0xE0000000, size=256 << 20, **facts):
        config = build.resizable(0, size, size, 32 * GIB)
        facts_of_card = {"bar_size": size, "config": config}
        cards = [
            build.root_port("0000:40:01.1"),
            build.navi_card(0x41, "0000:40:01.1", bar_at=bar_at, **facts_of_card),
            build.root_port("0000:80:01.1"),
            build.navi_card(0x81, "0000:80:01.1", bar_at=bar_at + size, **facts_of_card),
        ]
        facts.setdefault("facts", {each: build.gpu_facts(32 * GIB, size) for each in (build.FIRST, build.SECOND)})
        facts.setdefault("apertures", (("0000:40", 0xE0000000, 0xEFFFFFFF), ("0000:80", 0xF0000000, 0xFBFFFFFF)))
        return build.host(*cards, **facts)

    return make


@pytest.fixture(scope="session")
def lacking(build):
    """A GPU whose memory BAR of 32 GiB found no space in the range of 16 GiB that its root bus has above 4 GiB."""

    def make(start=6 * TIB, size=16 * GIB, **facts):
        card = build.gpu("0000:41:00.0", build.V620, "0000:40:01.1", bars=(build.missing_bar(0, 32 * GIB),))
        facts.setdefault("apertures", (("0000:40", start, start + size - 1),))
        return build.host(build.root_port("0000:40:01.1"), card, **facts)

    return make


@pytest.fixture(scope="session")
def guide_of():
    """The guide for a host, with all checks run over it."""

    def make(host):
        view = View(host)
        return firmware_guide(view, diagnose(view, built_in()))

    return make


@pytest.fixture
def grub(tmp_path):
    """What the kernel gets in the normal and in the recovery entry, from files below /etc/default."""
    if reason := rehearsal.why_not():
        if os.environ.get("CI"):
            pytest.fail(f"GRUB must be asked here: {reason}")
        pytest.skip(reason)

    def boot(files):
        folder = tmp_path / f"boot{len(list(tmp_path.iterdir()))}"
        config = rehearsal.make_config(folder, files)
        assert rehearsal.is_script(config)
        entries = [rehearsal.kernel_gets(folder / f"emu{number}", config, number) for number in (0, 2)]
        return [[each for each in entry if "vmlinuz" not in each and not each.startswith("root=")] for entry in entries]

    return boot
