"""BARs: which have no address, and how much of a GPU's memory one holds."""

from __future__ import annotations

import pytest

from hostdoctor.bars import missing_bars, vram_bar, vram_bar_of
from hostdoctor.facts.pci import Bar, ConfigFacts, GpuFacts, ResizableBar
from hostdoctor.facts.unknown import NEEDS_ROOT, NOT_CAPTURED, Unknown

MIB, GIB = 1 << 20, 1 << 30
MEM32, MEM32_PREFETCHABLE, MEM64, MEM64_PREFETCHABLE, IO = 0x0, 0x8, 0x4, 0xC, 0x1


@pytest.fixture
def gpu(build):
    def make(id_="1002:73a1", **facts):
        return build.gpu("0000:43:00.0", id_, **facts)

    return make


# --- BARs without an address ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("registers", "indices"),
    [
        ((MEM64_PREFETCHABLE, 0, 0, 0, 0, 0), [0]),
        ((MEM64, 0, MEM64_PREFETCHABLE, 0, 0, 0), [0, 2]),
        ((MEM32_PREFETCHABLE, MEM32_PREFETCHABLE, 0, 0, 0, 0), [0, 1]),
        ((IO | 0x4, MEM32_PREFETCHABLE, 0, 0, 0, 0), [1]),  # an I/O address has no upper half
        ((MEM32, 0, 0, 0, 0, 0), []),  # reads as if it were not there
        ((IO, 0, 0, 0, 0, 0), []),
        ((0, 0, 0, 0, 0, IO | 0xC), []),
        # The upper half of an address may look like a register of its own.
        ((MEM64_PREFETCHABLE, 0x0000380C, 0, 0, 0, 0), [0]),
        ((), []),
    ],
)
def test_registers_show_what_the_kernel_lists_no_more(gpu, registers, indices):
    found = missing_bars(gpu(bars=(), config=ConfigFacts(bar_registers=registers)))
    assert [bar.index for bar in found] == indices


@pytest.mark.parametrize(
    ("class_code", "found"),
    [
        (0x010802, 1),
        (0x020000, 1),
        (0x030200, 1),
        (0x0C0330, 1),
        (0x120000, 1),
        (0x060400, 0),
        (0x088000, 0),
        (0x110100, 0),
    ],
)
def test_only_devices_are_asked_for_what_the_kernel_does_not_list(build, class_code, found):
    config = ConfigFacts(bar_registers=(MEM64_PREFETCHABLE, 0, 0, 0, 0, 0))
    assert len(missing_bars(build.function("0000:e1:00.0", "8086:ffff", class_code, bars=(), config=config))) == found


def test_what_the_kernel_lists_counts_for_any_function(build):
    assert missing_bars(build.function("0000:e1:00.0", "8086:ffff", 0x088000, bars=(build.missing_bar(0),)))


def test_it_is_told_what_kind_of_window_a_missing_bar_needs(gpu):
    config = ConfigFacts(bar_registers=(MEM64_PREFETCHABLE, 0, MEM64, 0, MEM32_PREFETCHABLE, 0))
    kinds = [(True, True), (True, False), (False, True)]
    assert [(bar.is_64bit, bar.prefetchable) for bar in missing_bars(gpu(bars=(), config=config))] == kinds
    listed = (Bar(0, "mem", 0, 16 * MIB, False, False, False), Bar(1, "mem", 0, GIB, True, True, False))
    assert [(bar.is_64bit, bar.prefetchable) for bar in missing_bars(gpu(bars=listed))] == [(False, False), (True, True)]


def test_a_bar_is_found_once(build, gpu):
    config = ConfigFacts(bar_registers=(MEM64_PREFETCHABLE, 0, 0, 0, 0, 0))
    assert [bar.index for bar in missing_bars(gpu(bars=(build.missing_bar(0),), config=config))] == [0]
    assert missing_bars(gpu(config=config)) == [], "what has an address is not missing, whatever the register says"


def test_the_size_comes_from_the_list_or_the_capability(build, gpu):
    config = ConfigFacts(resizable_bars=(ResizableBar(0, 16 * GIB, ()),))
    assert missing_bars(gpu(bars=(build.missing_bar(0, 32 * GIB),), config=config))[0].size_bytes == 32 * GIB
    assert missing_bars(gpu(bars=(build.missing_bar(0),), config=config))[0].size_bytes == 16 * GIB
    assert missing_bars(gpu(bars=(build.missing_bar(0),), config=NEEDS_ROOT))[0].size_bytes == 0
    unread = ConfigFacts(resizable_bars=NEEDS_ROOT)
    assert missing_bars(gpu(bars=(build.missing_bar(0),), config=unread))[0].size_bytes == 0


def test_bars_that_were_not_read_are_not_missing(gpu):
    assert missing_bars(gpu(bars=NOT_CAPTURED)) == []


# --- the BAR of the memory --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id_", "indices", "index"),
    [
        ("1002:73a1", (0, 2, 5), 0),
        ("10de:2231", (0, 1, 3), 1),
        ("10de:2331", (0, 2, 4), 2),  # its BAR0 has 64 bits
        ("8086:e20b", (0, 2), 2),
    ],
)
def test_each_vendor_has_its_number(build, gpu, id_, indices, index):
    assert vram_bar(gpu(id_, bars=tuple(build.bar(4 << 40, GIB, n) for n in indices))).index == index


def test_an_io_bar_is_no_memory(gpu):
    assert vram_bar(gpu("10de:2231", bars=(Bar(1, "io", 0xE000, 128, False, False, True),))) is None


def of(function, vram=NOT_CAPTURED, sizes=None):
    return vram_bar_of(function, GpuFacts(vram_bytes=vram, bar_sizes_bytes=sizes or {}))


@pytest.mark.parametrize(
    ("id_", "size", "vram", "small"),
    [
        ("1002:73a1", 32 * GIB, 30704 * MIB, False),
        ("1002:73a1", 32 * GIB, NOT_CAPTURED, False),
        ("1002:73a1", 256 * MIB, 30704 * MIB, True),
        ("1002:73a1", 256 * MIB, NOT_CAPTURED, True),
        ("1002:73a1", 16 * GIB, NOT_CAPTURED, True),
        ("1002:73a1", 30 * GIB, NOT_CAPTURED, None),  # boards show up to 8 % less than their nominal memory
        ("1002:66a1", 16 * GIB, NOT_CAPTURED, None),  # 16 or 32 GiB
        ("1002:66a1", 16 * GIB, 16368 * MIB, False),
        ("1002:66a1", 8 * GIB, NOT_CAPTURED, True),
        ("1002:ffff", 256 * MIB, NOT_CAPTURED, None),
        ("1002:ffff", 512 * MIB, NOT_CAPTURED, None),
        ("1002:ffff", 8 * GIB, NOT_CAPTURED, None),
        ("1002:ffff", 8 * GIB, 0, None),  # a driver that does not say
    ],
)
def test_small_is_what_certainly_holds_less_than_all(gpu, id_, size, vram, small):
    assert of(gpu(id_, bar_size=size), vram).is_small is small


@pytest.mark.parametrize(
    ("vram", "wanted"), [(30704 * MIB, 32 * GIB), (24 * GIB, 32 * GIB), (32 * GIB, 32 * GIB), (12 * GIB, 16 * GIB)]
)
def test_what_is_wanted_is_a_power_of_two(gpu, vram, wanted):
    assert of(gpu(), vram).wanted_bytes == wanted


def test_what_is_wanted_of_memory_nobody_knows_is_nothing(gpu):
    assert of(gpu("1002:ffff")).wanted_bytes == 0


def test_the_largest_offer(build, gpu):
    config = build.resizable(0, 256 * MIB, 256 * MIB, 32 * GIB)
    assert of(gpu(config=config)).largest_bytes == 32 * GIB
    assert of(gpu(config=config), sizes={0: (GIB, 16 * GIB)}).largest_bytes == 16 * GIB, "what sysfs says goes first"
    assert of(gpu(config=ConfigFacts())).largest_bytes == 0, "no choice"
    assert of(gpu(config=NEEDS_ROOT)).largest_bytes == NEEDS_ROOT
    assert of(gpu(config=ConfigFacts(resizable_bars=NEEDS_ROOT))).largest_bytes == NEEDS_ROOT


def test_without_an_address_there_is_nothing_to_measure(build, gpu):
    assert "no address" in of(gpu(bars=(build.missing_bar(),))).reason
    assert "not among those that are listed" in of(gpu(bars=())).reason
    assert of(gpu(bars=Unknown("timed out"))).reason == "timed out"


def test_a_card_that_offers_more_than_a_legacy_bar_has_the_memory_for_it(gpu):
    assert of(gpu("1002:ffff", bar_size=256 * MIB), sizes={0: (256 * MIB, 8 * GIB)}).is_small is True


@pytest.mark.parametrize("id_", ["1002:73bf", "10de:2504"])
def test_a_bar_too_small_for_memory_is_another_one(build, gpu, id_):
    """Where lspci -v numbers none and leaves one without an address out, the next one is counted in its place."""
    doorbells = build.bar(0xE0000000, 2 * MIB, 0 if id_.startswith("1002") else 1)
    assert vram_bar(gpu(id_, bars=(doorbells,))) is None
    assert "not among those that are listed" in of(gpu(id_, bars=(doorbells,))).reason
