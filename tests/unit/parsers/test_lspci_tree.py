"""lspci -t and -tv: parents and root buses, and trees that lost lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.lspci_tree import parse_lspci_tree

TREE = r"""
-+-[0000:00]-+-00.0  Intel Corporation Sky Lake-E DMI3 Registers
 |           +-1c.0-[01]--+-00.0  Intel Corporation Ethernet Controller X550
 |           |            \-00.1  Intel Corporation Ethernet Controller X550
 |           +-1d.0-[03]--
 |           \-1f.0  Intel Corporation C621 Chipset LPC/eSPI Controller
 +-[0000:17]-+-00.0-[18-1a]----00.0-[19-1a]--+-00.0-[1a]----00.0  NVIDIA Corporation GA102 [GeForce RTX 3090]
 |           |                               \-01.0-[1b]----00.0  NVIDIA Corporation GA102 [GeForce RTX 3090]
 |           \-05.0  Intel Corporation Sky Lake-E VT-d
 \-[10000:e0]---06.0-[e1]----00.0  Samsung Electronics Co Ltd NVMe SSD Controller [144d:a80a]
""".strip("\n").split("\n")


def places(lines):
    return {place.address: place for place in parse_lspci_tree(lines)}


def test_parents_and_roots():
    found = places(TREE)
    assert {address: place.parent for address, place in found.items()} == {
        "0000:00:00.0": None, "0000:00:1c.0": None, "0000:01:00.0": "0000:00:1c.0", "0000:01:00.1": "0000:00:1c.0",
        "0000:00:1d.0": None, "0000:00:1f.0": None, "0000:17:00.0": None, "0000:18:00.0": "0000:17:00.0",
        "0000:19:00.0": "0000:18:00.0", "0000:1a:00.0": "0000:19:00.0", "0000:19:01.0": "0000:18:00.0",
        "0000:1b:00.0": "0000:19:01.0", "0000:17:05.0": None, "10000:e0:06.0": None, "10000:e1:00.0": "10000:e0:06.0",
    }  # fmt: skip
    assert found["0000:1b:00.0"].root == "0000:17"
    assert found["10000:e1:00.0"].root == "10000:e0"
    assert [address for address, place in found.items() if place.is_bridge] == [
        "0000:00:1c.0", "0000:00:1d.0", "0000:17:00.0", "0000:18:00.0", "0000:19:00.0", "0000:19:01.0", "10000:e0:06.0",
    ]  # fmt: skip
    assert found["0000:1a:00.0"].text == "NVIDIA Corporation GA102 [GeForce RTX 3090]"


def test_one_domain_and_no_names():
    found = places(
        [r"-[0000:00]-+-00.0", r"           +-01.0-[01]--+-00.0", r"           |            \-00.1", r"           \-1f.0"]
    )
    assert {address: place.parent for address, place in found.items()} == {
        "0000:00:00.0": None, "0000:00:01.0": None, "0000:01:00.0": "0000:00:01.0", "0000:01:00.1": "0000:00:01.0",
        "0000:00:1f.0": None,
    }  # fmt: skip


def test_an_indented_tree_is_the_same():
    assert places([f"    {line}" for line in TREE]) == places(TREE)


@pytest.mark.parametrize(
    "words", [("NVIDIA",), ("NVIDIA", "VT-d"), ("VT-d", "LPC"), ("X550", "NVIDIA"), ("05.0", "1f.0", "00.1")]
)
def test_picked_lines_put_nothing_on_a_wrong_bus(words):
    whole = places(TREE)
    for address, place in places([line for line in TREE if any(word in line for word in words)]).items():
        assert (place.parent, place.root) == (whole[address].parent, whole[address].root)


@given(st.integers(0, len(TREE)), st.integers(0, 120))
def test_a_tree_cut_anywhere_tells_nothing_else(size, columns):
    whole = places(TREE)
    for address, place in places([*TREE[:size], *(line[:columns] for line in TREE[size : size + 1])]).items():
        assert (place.parent, place.root) == (whole[address].parent, whole[address].root)


@given(st.lists(st.one_of(st.sampled_from(TREE), st.text(alphabet=r" |+-\[]:.0123456789abcdef", max_size=60))))
def test_any_lines(lines):
    parse_lspci_tree(lines)
