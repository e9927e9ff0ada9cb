from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.facts.host import Aperture
from hostdoctor.facts.unknown import Unknown
from hostdoctor.parsers.iomem import EMPTY, HIDDEN, parse_apertures, parse_memory_end

SERVER = """00000000-00000fff : Reserved
00001000-0009ffff : System RAM
000a0000-000bffff : PCI Bus 0000:00
000f0000-000fffff : System ROM
80000000-8fffffff : PCI ECAM 0000 [bus 00-ff]
90000000-9d7fffff : PCI Bus 0000:00
  90000000-90000fff : 0000:00:05.4
  90200000-902fffff : PCI Bus 0000:01
    90200000-9027ffff : 0000:01:00.0
  91000000-920fffff : PCI Bus 0000:04
    91000000-920fffff : PCI Bus 0000:05
      91000000-91ffffff : 0000:05:00.0
9d800000-aaffffff : PCI Bus 0000:17
  9d800000-9dafffff : PCI Bus 0000:18
100000000-107fffffff : System RAM
380000000000-383fffffffff : PCI Bus 0000:00
384000000000-387fffffffff : PCI Bus 0000:17
  387000000000-3878001fffff : PCI Bus 0000:1b
    387000000000-3878001fffff : PCI Bus 0000:1c
"""


def test_ranges_of_the_root_buses():
    assert parse_apertures(SERVER) == (
        Aperture("0000:00", 0xA0000, 0xBFFFF),
        Aperture("0000:00", 0x90000000, 0x9D7FFFFF),
        Aperture("0000:17", 0x9D800000, 0xAAFFFFFF),
        Aperture("0000:00", 0x380000000000, 0x383FFFFFFFFF),
        Aperture("0000:17", 0x384000000000, 0x387FFFFFFFFF),
    )


def test_a_root_bus_within_a_reserved_range():
    text = "80000000-dfffffff : Reserved\n  80000000-bfffffff : PCI Bus 10000:e1\n"
    text += "    80000000-8fffffff : PCI Bus 10000:e2\n"
    assert parse_apertures(text) == (Aperture("10000:e1", 0x80000000, 0xBFFFFFFF),)


def test_a_device_tree_names_no_root_bus():
    text = "1b00000000-1bfffffffb : pcie@1000110000\n  1b00000000-1b5fffffff : PCI Bus 0001:01\n"
    assert parse_apertures(text) == ()


def test_an_ordinary_user_sees_no_addresses():
    text = "\n".join(line.replace(line.split(" : ")[0].strip(), "00000000-00000000") for line in SERVER.splitlines())
    assert parse_apertures(text) == HIDDEN
    assert HIDDEN.help == "run with sudo"


@pytest.mark.parametrize("text", ["", "garbage", "00000000-00000fff"])
def test_a_file_without_ranges(text):
    assert parse_apertures(text) == EMPTY


def test_depth_has_an_end():
    text = "".join(f"{'  ' * depth}10-1f : PCI Bus 0000:00\n" for depth in range(2000))
    assert parse_apertures(text) == (Aperture("0000:00", 0x10, 0x1F),)


@given(st.text() | st.text(alphabet="0a- :PCIBus\n", max_size=200))
def test_any_text_gives_a_result(text):
    assert isinstance(parse_apertures(text), tuple | Unknown)


TREES = st.recursive(st.just([]), lambda children: st.lists(children, max_size=3), max_leaves=12)


def lines(children, depth):
    for bus, below in enumerate(children):
        yield f"{'  ' * depth}{16 + bus:08x}-{32 + bus:08x} : PCI Bus 000{depth}:{bus:02x}\n"
        yield from lines(below, depth + 1)


@given(TREES)
def test_only_the_outermost_buses_count(tree):
    expected = tuple(Aperture(f"0000:{bus:02x}", 16 + bus, 32 + bus) for bus in range(len(tree)))
    assert parse_apertures("".join(lines(tree, 0))) == (expected or EMPTY)


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("00001000-0009ffff : System RAM\n100000000-207fffffff : System RAM\nfed00000-fed003ff : HPET 0\n", 0x207FFFFFFF),
        ("00001000-0009ffff : System RAM\n100000000-1ffffffff : Persistent Memory\n", 0x1FFFFFFFF),
        ("00001000-0009ffff : System RAM\n380000000000-383fffffffff : PCI Bus 0000:00\n", 0x9FFFF),
        ("00000000-00000000 : System RAM\n00000000-00000000 : PCI Bus 0000:00\n", HIDDEN),
        ("fed00000-fed003ff : HPET 0\n", EMPTY),
        ("", EMPTY),
    ],
)
def test_where_memory_ends(text, end):
    assert parse_memory_end(text) == end


@given(st.text())
def test_any_text_has_an_end_of_memory_or_a_reason(text):
    assert isinstance(parse_memory_end(text), int | Unknown)
