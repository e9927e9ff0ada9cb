from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.facts.host import KfdLink, KfdNode
from hostdoctor.parsers.kfd import kfd_link, kfd_node, parse_properties

V620 = """cpu_cores_count 0
simd_count 144
max_waves_per_simd 16
gfx_target_version 100300
vendor_id 4098
device_id 29601
location_id 7424
domain 0
hive_id 0
fw_version 122
capability 709075584
unique_id 0
"""
PROCESSOR = "cpu_cores_count 32\nsimd_count 0\nvendor_id 0\nlocation_id 0\ndomain 0\n"
LINK = "type 2\nversion_major 0\nnode_from 3\nnode_to 1\nweight 41\nmin_bandwidth 312\nflags 1\n"


def test_a_gpu():
    assert kfd_node(3, V620) == KfdNode(3, "0000:1d:00.0", 0, 100300, 122)


def test_a_processor_has_no_address():
    assert kfd_node(0, PROCESSOR) == KfdNode(0, None, 0, 0, 0)


def test_an_apu_is_a_gpu_too():
    assert kfd_node(0, V620.replace("cpu_cores_count 0", "cpu_cores_count 8")).address == "0000:1d:00.0"


@given(st.integers(0, 0xFFFFF), st.integers(0, 0xFF), st.integers(0, 0x1F), st.integers(0, 7))
def test_addresses(domain, bus, device, function):
    text = f"simd_count 1\nvendor_id 4098\nlocation_id {bus << 8 | device << 3 | function}\ndomain {domain}\n"
    assert kfd_node(1, text).address == f"{domain:04x}:{bus:02x}:{device:02x}.{function}"


@pytest.mark.parametrize("peer", [False, True])
def test_a_link(peer):
    assert kfd_link(LINK, peer, "io_links/0") == KfdLink(3, 1, 2, 1, peer, "io_links/0")


@pytest.mark.parametrize("line", ["type", "node_from", "node_to"])
def test_a_link_without_ends_or_type_is_none(line):
    text = "".join(kept for kept in LINK.splitlines(True) if not kept.startswith(f"{line} "))
    assert kfd_link(text, False, "") is None


@pytest.mark.parametrize("line", ["", "name", "name x", "name -1", "name 1 2", "name " + "9" * 5000, "name ²", " 1"])
def test_other_lines_are_left_out(line):
    assert parse_properties(f"{line}\nlast 18446744073709551615\n") == {"last": (1 << 64) - 1}


@given(st.text())
def test_any_text_gives_a_result(text):
    assert isinstance(kfd_node(0, text), KfdNode)
    assert isinstance(kfd_link(text, True, ""), KfdLink | None)


NAMES = st.from_regex(r"[a-z_0-9]{1,20}", fullmatch=True)


@given(st.dictionaries(NAMES, st.integers(0, (1 << 64) - 1)))
def test_properties_round_trip(properties):
    assert parse_properties("".join(f"{name} {value}\n" for name, value in properties.items())) == properties
