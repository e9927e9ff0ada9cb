"""What is found of memory that differs from a pattern."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.bandwidth.patterns import Pattern

POISON = 0xA5


def memory(pattern):
    """Memory that holds a pattern, and its bytes to change."""
    block = (ctypes.c_ubyte * pattern.size_bytes)()
    pattern.write(ctypes.addressof(block))
    return ctypes.addressof(block), block


@pytest.mark.parametrize("size", [1, 64, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, (3 << 20) + 77])
def test_what_was_written_is_right(size):
    pattern = Pattern(size)
    address, block = memory(pattern)
    assert pattern.difference(address, POISON) is None
    block[size - 1] = 0x11 if block[size - 1] != 0x11 else 0x22  # neither what was there before, nor zero
    found = pattern.difference(address, POISON)
    assert (found.wrong_bytes, found.text) == (1, f"first at byte {size - 1} of {size}")


def test_no_two_patterns_are_alike():
    first, second = Pattern(4096), Pattern(4096)
    address, _block = memory(second)
    assert first.difference(address, POISON).kind == "other"


def test_no_part_of_a_pattern_is_like_another():
    pattern = Pattern(4 << 20)
    address, block = memory(pattern)
    parts = {bytes(block[at : at + 4096]) for at in range(0, 4 << 20, 4096)}
    assert len(parts) == 1024
    assert pattern.difference(address, POISON) is None


@pytest.mark.parametrize(("value", "kind"), [(POISON, "dropped"), (0, "zeroed"), (0x11, "other")])
def test_memory_that_holds_one_value(value, kind):
    pattern = Pattern((2 << 20) + 5)
    block = (ctypes.c_ubyte * pattern.size_bytes)()
    ctypes.memset(block, value, pattern.size_bytes)
    found = pattern.difference(ctypes.addressof(block), POISON)
    assert found.kind == kind
    assert found.wrong_bytes == pytest.approx(pattern.size_bytes * 255 / 256, rel=0.01)


@pytest.mark.parametrize(
    ("value", "words"),
    [(POISON, ", where the target holds what it held before"), (0, ", where the target holds zeroes"), (0x11, "")],
)
def test_a_page_that_did_not_arrive(value, words):
    pattern = Pattern(2 << 20)
    address, _block = memory(pattern)
    begin = (1 << 20) + 8192
    ctypes.memset(address + begin, value, 4096)
    found = pattern.difference(address, POISON)
    first = next(at for at in range(begin, begin + 64) if found.text.startswith(f"first at byte {at} of"))
    assert (found.kind, first - begin < 8) == ("partial", True)
    assert found.text == f"first at byte {first} of {2 << 20}{words}"
    assert 4000 < found.wrong_bytes <= 4096


@given(st.dictionaries(st.integers(0, 4999), st.integers(1, 255), min_size=1, max_size=30))
def test_each_changed_byte_is_counted(changes):
    pattern = Pattern(5000)
    address, block = memory(pattern)
    for at, change in changes.items():
        block[at] ^= change
    found = pattern.difference(address, POISON)
    assert (found.kind, found.wrong_bytes) == ("partial", len(changes))
    assert found.text.startswith(f"first at byte {min(changes)} of 5000")
