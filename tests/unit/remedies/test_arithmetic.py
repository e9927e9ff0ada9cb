"""Where 64-bit MMIO fits: what is chosen always lies above memory and below what the GPUs address."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.remedies.arithmetic import (
    FOUR_GIB,
    REFERENCE_BASES,
    Limits,
    Menu,
    choice_bytes,
    common_granule,
    current_choice,
    menu_size,
    place,
    reference_base,
    rounded_up,
)

GIB, TIB = 1 << 30, 1 << 40
X11 = Menu(("56T", "40T", "24T", "16T", "4T", "2T", "1T"), ("1G", "4G", "16G", "64G", "256G", "1024G"), ("4T", "1024G"))
X10 = Menu(("56T", "40T", "24T", "16T", "12T", "4T", "2T", "1T"), ("128G", "256G", "512G"), ("4T", "256G"))
DELL = Menu(("56TB", "12TB", "512GB"))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("56T", 56 * TIB), ("12TB", 12 * TIB), ("512 GB", 512 * GIB), ("1024G", TIB), (" 4 TiB ", 4 * TIB), ("64G", 64 * GIB),
        ("40bit (1 TB)", TIB), ("44bit", 16 * TIB), ("Auto", None), ("", None), ("64 Bit", 1 << 64), ("4T or more", None),
        ("x" * 10_000, None), ("9" * 10_000 + "T", None), ("-4T", None),
    ],
)  # fmt: skip
def test_choices_are_read_as_menus_write_them(text, size):
    assert choice_bytes(text) == size


@pytest.mark.parametrize("text", [each for each in REFERENCE_BASES if each != "1024G"])
def test_sizes_are_written_as_they_are_read(text):
    assert menu_size(choice_bytes(text)) == text


@pytest.mark.parametrize(("bits", "base"), [(36, "256G"), (40, "512G"), (44, "4T"), (47, "56T"), (48, "56T"), (52, "56T")])
def test_a_base_for_boards_whose_choices_are_not_known(bits, base):
    assert reference_base(bits) == base


def test_the_founding_host():
    """Eight stacks with room for 1 TiB each end at 12 TiB; 16T begins where 44 bits end."""
    found = place(X11, 8, 128 * GIB, Limits(44, 0x2080000000))
    assert (found.base, found.granule, found.end_bytes) == ("4T", "1024G", 12 * TIB)
    assert not Limits(44).hold(16 * TIB, GIB)


@pytest.mark.parametrize(
    ("menu", "buses", "need", "limits", "found"),
    [
        (X11, 32, 128 * GIB, Limits(44), ("4T", "256G")),  # 32 x 1024G would end at 36T
        (X11, 8, 512 * GIB, Limits(44), ("4T", "1024G")),
        (X11, 16, 512 * GIB, Limits(44), None),
        (X11, 8, 64 * GIB, Limits(44, 5 * TIB), None),  # memory ends above 4T, and 16T is too high
        (X11, 2, 64 * GIB, Limits(40), None),
        (X11, 4, 64 * GIB, Limits(46), ("4T", "1024G")),
        (X10, 2, 64 * GIB, Limits(44), ("4T", "256G")),
        (X10, 2, 512 * GIB, Limits(44), ("4T", "512G")),
        (X10, 2, 64 * GIB, Limits(44, 5 * TIB), ("12T", "256G")),
        (DELL, 1, 2 * TIB, Limits(44), ("12TB", "")),
        (DELL, 1, 8 * TIB, Limits(44), ("512GB", "")),
        (DELL, 1, 8 * TIB, Limits(44, 600 * GIB), None),
        (DELL, 1, 500 * GIB, Limits(40, holes=((0xFD00000000, 0xFFFFFFFFFF),)), ("512GB", "")),
        (DELL, 1, 501 * GIB, Limits(40, holes=((0xFD00000000, 0xFFFFFFFFFF),)), None),
        (Menu(()), 1, GIB, Limits(44), None),
        (Menu(("Auto", "Manual")), 1, GIB, Limits(44), None),
    ],
)
def test_placements(menu, buses, need, limits, found):
    placed = place(menu, buses, need, limits)
    assert (None if placed is None else (placed.base, placed.granule)) == found


SIZES = st.integers(0, 19).map(lambda power: f"{1 << power}G") | st.integers(1, 64).map(lambda number: f"{number}T")
MENUS = st.builds(
    Menu,
    st.lists(SIZES | st.sampled_from((*REFERENCE_BASES, "Auto", "")), max_size=10),
    st.lists(SIZES, max_size=6),
    st.lists(SIZES, max_size=3),
)
HOLES = st.lists(st.tuples(st.integers(0, 1 << 46), st.integers(0, 1 << 40)).map(lambda each: (each[0], sum(each))), max_size=2)
LIMITS = st.builds(Limits, st.integers(30, 52), st.integers(0, 1 << 45), HOLES.map(tuple))


@given(menu=MENUS, buses=st.integers(1, 40), need=st.integers(1, 1 << 43), limits=LIMITS)
def test_what_is_chosen_always_fits(menu, buses, need, limits):
    placed = place(menu, buses, need, limits)
    if placed is None:
        return
    first, last = placed.base_bytes, placed.end_bytes - 1
    assert placed.base in menu.bases
    assert first >= FOUR_GIB
    assert limits.floor_bytes <= first
    assert last < 1 << limits.bits
    assert not any(first <= end and last >= start for start, end in limits.holes)
    if menu.granules:
        assert placed.granule in menu.granules
        assert choice_bytes(placed.granule) >= need
        assert placed.total_bytes == buses * choice_bytes(placed.granule)
    else:
        assert placed.total_bytes == need


@given(menu=MENUS, buses=st.integers(1, 40), need=st.integers(1, 1 << 43), limits=LIMITS)
def test_nothing_is_given_up_that_would_fit(menu, buses, need, limits):
    granules = [choice_bytes(each) for each in menu.granules] or [need]
    count = buses if menu.granules else 1
    bases = [size for each in menu.bases if (size := choice_bytes(each)) is not None]
    fitting = any(limits.hold(base, granule * count) for base in bases for granule in granules if granule >= need)
    assert (place(menu, buses, need, limits) is not None) == fitting


@given(st.text(max_size=60))
def test_any_text_is_a_size_or_none(text):
    size = choice_bytes(text)
    assert size is None or size >= 0


def test_todays_base_is_the_highest_choice_at_or_below():
    assert current_choice(56 * TIB, X11.bases) == "56T"
    assert current_choice(56 * TIB + 5 * GIB, X11.bases) == "56T"
    assert current_choice(15 * TIB, X11.bases) == "4T"
    assert current_choice(5 * GIB, X11.bases) == ""
    assert current_choice(56 * TIB, ("Auto",)) == ""


@given(st.integers(1, 1 << 50))
def test_rounding_up_gives_the_next_power_of_two(size):
    rounded = rounded_up(size)
    assert rounded & (rounded - 1) == 0
    assert size <= rounded < 2 * size


def test_granularity_shows_where_all_ranges_have_one_power_of_two():
    assert common_granule([256 * GIB] * 8) == 256 * GIB
    assert common_granule([256 * GIB, 512 * GIB]) is None
    assert common_granule([96 * GIB] * 2) is None
    assert common_granule([]) is None
    assert rounded_up(0) == 0
