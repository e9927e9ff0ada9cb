from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.facts.pci import Bar, Window
from hostdoctor.parsers.resource import parse_resource

NOTHING = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
V620 = (
    "0x0000387000000000 0x00003877ffffffff 0x000000000014220c\n"
    + NOTHING
    + "0x0000387800000000 0x00003878001fffff 0x000000000014220c\n"
    + NOTHING * 2
    + "0x000000009db00000 0x000000009dbfffff 0x0000000000040200\n"
    + "0x000000009dc00000 0x000000009dc1ffff 0x0000000000046200\n"
    + NOTHING * 6
)
WINDOWS = (
    "0x0000000000003000 0x0000000000003fff 0x0000000000000101\n"
    "0x000000009db00000 0x000000009ddfffff 0x0000000000000200\n"
    "0x0000387000000000 0x00003878001fffff 0x0000000000102201\n" + NOTHING
)
OPEN = (
    Window("io", 0x3000, 0x3FFF),
    Window("mem", 0x9DB00000, 0x9DDFFFFF),
    Window("prefetchable", 0x387000000000, 0x3878001FFFFF),
)


def line(start, end, flags):
    return f"0x{start:016x} 0x{end:016x} 0x{flags:016x}\n"


def test_bars_of_a_gpu():
    bars, windows = parse_resource(V620)
    assert bars == (
        Bar(0, "mem", 0x387000000000, 32 << 30, True, True, True),
        Bar(2, "mem", 0x387800000000, 2 << 20, True, True, True),
        Bar(5, "mem", 0x9DB00000, 1 << 20, False, False, True),
        Bar(6, "rom", 0x9DC00000, 128 << 10, False, True, True),
    )
    assert windows == ()


def test_io_and_virtual_function_bars():
    text = line(0x3000, 0x30FF, 0x40101) + NOTHING * 6 + line(0x9A000000, 0x9A0FFFFF, 0x14220C) + NOTHING * 5
    bars, _ = parse_resource(text)
    assert [(bar.index, bar.kind, bar.is_virtual_function_bar) for bar in bars] == [(0, "io", False), (7, "mem", True)]


@pytest.mark.parametrize("before", [13, 7])
def test_windows_of_a_bridge_with_and_without_sriov_support(before):
    assert parse_resource(NOTHING * before + WINDOWS, bridge=True) == ((), OPEN)


def test_windows_only_where_asked_for():
    assert parse_resource(NOTHING * 13 + WINDOWS) == ((), ())


def test_the_two_kinds_of_window_of_a_cardbus_bridge():
    text = NOTHING * 13 + line(0x4000, 0x40FF, 0x100) * 2 + line(0x80000000, 0x83FFFFFF, 0x2200)
    text += line(0x84000000, 0x87FFFFFF, 0x200)
    assert [window.kind for window in parse_resource(text, bridge=True)[1]] == ["io", "io", "prefetchable", "mem"]


def test_closed_windows_are_left_out():
    text = NOTHING * 13 + line(0, 0xFFF, 0x30000100) + line(0x1000, 0x1FFF, 0x10000200) + line(0, 0xFFFFF, 0x20000200)
    assert parse_resource(text + NOTHING, bridge=True) == ((), ())


@pytest.mark.parametrize("flags", [0x2014220C, 0x14220C])
def test_a_bar_without_an_address_keeps_its_size(flags):
    bars, _ = parse_resource(line(0, (256 << 20) - 1, flags))
    assert bars == (Bar(0, "mem", 0, 256 << 20, True, True, False),)


def test_an_unset_address_is_no_address():
    bars, _ = parse_resource(line(0x1000000, 0x1FFFFFF, 0x20000200))
    assert [(bar.address, bar.size_bytes, bar.assigned) for bar in bars] == [(0, 16 << 20, False)]


def test_a_bar_whose_size_is_not_known():
    bars, _ = parse_resource(line(0, 0, 0x20000200))
    assert [(bar.size_bytes, bar.assigned) for bar in bars] == [(0, False)]


@pytest.mark.parametrize(
    "text",
    [
        line(0, 0, 0x200),
        line(0x1000, 0x1FFF, 0),
        line(0x2000, 0x1FFF, 0x200),
        "0x1000 0x1fff\n",
        "0x1000 0x1fff 0x200 0x1\n",
        "0x10000000000000000 0x1ffffffffffffffff 0x200\n",
        "a BAR\n",
        "",
    ],
)
def test_what_is_no_resource_is_left_out(text):
    assert parse_resource(text, bridge=True) == ((), ())


@given(st.text(), st.booleans())
def test_any_text_gives_a_result(text, bridge):
    bars, windows = parse_resource(text, bridge)
    assert len(bars) + len(windows) <= 17


NUMBERS = st.integers(0, 1 << 66) | st.sampled_from([0, 0x200, 0x100, 0x2200, 0x20000200])


@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=20), st.booleans())
def test_any_numbers_give_sizes_that_are_true(lines, bridge):
    bars, windows = parse_resource("".join(line(*numbers) for numbers in lines), bridge)
    assert all(0 <= bar.size_bytes <= 1 << 64 and bar.end < 1 << 65 for bar in bars)
    assert all(0 <= window.start <= window.end < 1 << 64 for window in windows)


@given(st.integers(1, 1 << 60), st.integers(1, 1 << 60), st.booleans(), st.booleans())
def test_round_trip(start, size, wide, prefetchable):
    flags = 0x200 | (0x100000 if wide else 0) | (0x2000 if prefetchable else 0)
    bars, _ = parse_resource(NOTHING + line(start, start + size - 1, flags))
    assert bars == (Bar(1, "mem", start, size, wide, prefetchable, True),)
