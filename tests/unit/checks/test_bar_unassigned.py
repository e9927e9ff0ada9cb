"""bar-unassigned: memory BARs without an address."""

from __future__ import annotations

import pytest

from hostdoctor.facts.pci import Bar, ConfigFacts, ResizableBar
from hostdoctor.facts.unknown import ASLEEP, NOT_CAPTURED, Unknown

ID = "bar-unassigned"
PORT, GPU = "0000:40:01.1", "0000:41:00.0"
_64BIT_PREFETCHABLE = 0xC


@pytest.fixture
def with_gpu(build):
    def make(**facts):
        return build.host(build.root_port(PORT), build.gpu(GPU, build.W6800, PORT, **facts))

    return make


def test_every_bar_with_an_address_is_in_order(verdict, with_gpu):
    assert (verdict(ID, with_gpu()).outcome, verdict(ID, with_gpu()).subject) == ("ok", ())


def test_a_gpus_missing_bar_is_a_failure(build, verdict, with_gpu, text):
    found = verdict(ID, with_gpu(bars=(build.missing_bar(0, 32 * build.GIB), build.bar(0xE0000000, 2 * build.MIB, 2))))
    assert (found.outcome, found.subject) == ("failure", (GPU,))
    assert f"BAR0 (32 GiB) of {GPU} [1002:73a3] has no address" in found.title
    assert "line 1" in text(found)
    assert "Above 4G Decoding" in found.next
    assert found.remedies == ("firmware-above-4g-decoding",)


def test_a_bar_that_shows_in_config_space_alone_is_found(build, verdict, with_gpu):
    """The kernel clears the resource of a BAR it cannot place, and sysfs shows zeros."""
    config = ConfigFacts(
        bar_registers=(_64BIT_PREFETCHABLE, 0, 0xE000000C, 0, 0, 0),
        resizable_bars=(ResizableBar(0, 16 * build.GIB, (16 * build.GIB,)),),
    )
    found = verdict(ID, with_gpu(bars=(build.bar(0xE0000000, 2 * build.MIB, 2),), config=config))
    assert found.outcome == "failure"
    assert "BAR0 (16 GiB)" in found.title


def test_several_missing_bars_are_one_finding(build, verdict, with_gpu):
    found = verdict(ID, with_gpu(bars=(build.missing_bar(0), build.missing_bar(2))))
    assert f"BAR0 and BAR2 of {GPU} [1002:73a3] have no address" in found.title
    assert len(found.evidence) == 2


def test_another_functions_missing_bar_is_a_warning(build, judge, with_gpu):
    nic = build.function("0000:e1:00.0", "15b3:1017", bars=(build.missing_bar(0, 32 * build.MIB),))
    host = with_gpu()
    found = judge(ID, build.host(list(host.functions.values()), nic))
    assert [(each.outcome, each.subject) for each in found] == [("warning", ("0000:e1:00.0",))]


def test_io_rom_and_virtual_function_bars_are_silent(build, verdict):
    silent = (
        Bar(4, "io", 0, 256, False, False, False),
        Bar(6, "rom", 0, 128 * build.KIB, False, False, False),
        Bar(7, "mem", 0, 16 * build.GIB, True, True, False),
    )
    assert verdict(ID, build.host(build.function("0000:e1:00.0", "15b3:1017", bars=silent))).outcome == "ok"


def test_parts_of_the_processor_hold_other_registers_there(build, verdict):
    config = ConfigFacts(bar_registers=(_64BIT_PREFETCHABLE, 0, 0, 0, 0, 0))
    part = build.function("0000:80:05.0", "8086:09a2", 0x088000, bars=(), config=config)
    assert verdict(ID, build.host(part)).outcome == "ok"


def test_a_function_that_is_lost_has_no_bars_to_judge(build, verdict):
    config = ConfigFacts(bar_registers=(0xFFFFFFFF,) * 6, lost="reads as all ones")
    assert verdict(ID, build.host(build.function("0000:e1:00.0", "15b3:1017", bars=(), config=config))).outcome == "ok"


def test_a_gpus_unread_bars_are_unknown(verdict, with_gpu):
    found = verdict(ID, with_gpu(bars=Unknown("timed out")))
    assert (found.outcome, found.subject) == ("unknown", (GPU,))
    assert "timed out" in found.title


@pytest.mark.parametrize("why", [ASLEEP, NOT_CAPTURED])
def test_a_gpu_without_its_memory_bar_is_not_in_order_where_config_space_was_not_read(verdict, with_gpu, why):
    found = verdict(ID, with_gpu(bars=(), config=why))
    assert (found.outcome, found.subject) == ("unknown", (GPU,))


def test_a_gpu_without_its_memory_bar_is_not_in_order_where_nothing_names_it(build, verdict, with_gpu):
    found = verdict(ID, with_gpu(bars=(build.bar(0xE0000000, 2 * build.MIB, 2),), config=ConfigFacts()))
    assert (found.outcome, found.subject) == ("unknown", (GPU,))
    assert "not among those that are listed" in found.title


def test_nothing_is_in_order_where_no_bar_was_seen(build, verdict):
    found = verdict(ID, build.host(build.function("0000:e1:00.0", "15b3:1017", bars=NOT_CAPTURED)))
    assert (found.outcome, found.subject) == ("unknown", ())


def test_a_text_has_no_lines_of_a_resource_file(build, verdict, with_gpu, text):
    found = verdict(ID, with_gpu(bars=(build.missing_bar(0),), origin="lspci.txt:120"))
    assert "line 1" not in text(found)


def test_not_judged_in_a_guest(build, verdict):
    guest = build.host(build.gpu(GPU, build.V620, bars=(build.missing_bar(),)), environment=build.GUEST)
    assert verdict(ID, guest).outcome == "not-applicable"
