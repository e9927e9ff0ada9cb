from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.facts.unknown import Unknown
from hostdoctor.parsers.sizes import bar_sizes, link_speed, link_width, parse_cpu_list, parse_resize_bitmap

MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("000000000000ff00\n", tuple((256 * MIB) << n for n in range(8))),
        ("00000000000001fe\n", tuple((2 * MIB) << n for n in range(8))),
        ("0000000000000001", (MIB,)),
        ("0000080000000000", (1 << 63,)),
        ("0000000000000000", ()),
        ("", ()),
        ("-1", ()),
        ("no size", ()),
        ("f" * 30, ()),
    ],
)
def test_resize_bitmaps(text, expected):
    assert parse_resize_bitmap(text) == expected


@given(st.sets(st.integers(0, 43)))
def test_resize_bitmaps_round_trip(bits):
    assert parse_resize_bitmap(f"{sum(1 << bit for bit in bits):016x}\n") == tuple(MIB << bit for bit in sorted(bits))


def test_bits_beyond_the_specification_are_no_sizes():
    assert bar_sizes(1 << 44 | 1) == (MIB,)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("16.0 GT/s PCIe\n", 16.0),
        ("2.5 GT/s PCIe\n", 2.5),
        ("2.5 GT/s\n", 2.5),
        ("8 GT/s\n", 8.0),
        ("32.0 GT/s PCIe", 32.0),
        ("64.0 GT/s PCIe", 64.0),
    ],
)
def test_link_speeds(text, expected):
    assert link_speed(text) == expected


@pytest.mark.parametrize(
    "text",
    ["Unknown\n", "Unknown speed\n", "", "0 GT/s", "0.0 GT/s PCIe", "1e3 GT/s", "1.2.3 GT/s", "٣ GT/s", ". GT/s"],
)
def test_a_link_speed_that_is_not_known(text):
    assert isinstance(link_speed(text), Unknown)


@pytest.mark.parametrize(("text", "expected"), [("16\n", 16), ("8", 8), ("0\n", 0), ("32\n", 32)])
def test_link_widths(text, expected):
    assert link_width(text) == expected


@pytest.mark.parametrize("text", ["255\n", "", "x16", "-1", "63", "²", "9" * 60])
def test_a_link_width_that_is_not_known(text):
    assert isinstance(link_width(text), Unknown)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0-1,4\n", (0, 1, 4)), ("0\n", (0,)), ("\n", ()), ("0-3", (0, 1, 2, 3)), ("64,0-1", (0, 1, 64))],
)
def test_cpu_lists(text, expected):
    assert parse_cpu_list(text) == expected


@pytest.mark.parametrize(
    "text", ["a", "1-", "-1", "3-1", "0-99999999", "70000", "²", "0x1", "1--2", ",".join(["0-65535"] * 100_000)]
)
def test_what_is_no_cpu_list(text):
    assert isinstance(parse_cpu_list(text), Unknown)


@given(st.sets(st.integers(0, 65_535)))
def test_cpu_lists_round_trip(numbers):
    assert parse_cpu_list(",".join(map(str, sorted(numbers)))) == tuple(sorted(numbers))


@given(st.text() | st.from_regex(r"[0-9]{0,3}\.?[0-9]{0,3} GT/s", fullmatch=True))
def test_any_text_gives_a_result(text):
    assert isinstance(link_speed(text), float | Unknown)
    assert isinstance(link_width(text), int | Unknown)
    assert isinstance(parse_cpu_list(text), tuple | Unknown)
    assert isinstance(parse_resize_bitmap(text), tuple)
