from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.kernel_config import parse_kernel_config

TEXT = b"""#
# Automatically generated file; DO NOT EDIT.
# Linux/x86 6.8.12 Kernel Configuration
#
CONFIG_CC_VERSION_TEXT="x86_64-linux-gnu-gcc-13 (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0"
# CONFIG_IKCONFIG is not set
CONFIG_PCI=y
CONFIG_PCI_P2PDMA=y
# CONFIG_PCI_STUB is not set
CONFIG_DRM_AMDGPU=m
CONFIG_NODES_SHIFT=10
CONFIG_CMDLINE=""
# end of it
"""
ALL = {
    "CONFIG_CC_VERSION_TEXT": "x86_64-linux-gnu-gcc-13 (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0",
    "CONFIG_IKCONFIG": "n",
    "CONFIG_PCI": "y",
    "CONFIG_PCI_P2PDMA": "y",
    "CONFIG_PCI_STUB": "n",
    "CONFIG_DRM_AMDGPU": "m",
    "CONFIG_NODES_SHIFT": "10",
    "CONFIG_CMDLINE": "",
}


@pytest.mark.parametrize("content", [TEXT, gzip.compress(TEXT)])
def test_all_options(content):
    assert parse_kernel_config(content) == ALL


def test_only_the_options_wanted():
    names = {"CONFIG_PCI", "CONFIG_PCI_STUB", "CONFIG_HSA_AMD_P2P"}
    assert parse_kernel_config(TEXT, names) == {"CONFIG_PCI": "y", "CONFIG_PCI_STUB": "n"}
    assert parse_kernel_config(TEXT, ()) == {}


def test_a_name_that_is_not_one_is_taken_as_it_stands():
    assert parse_kernel_config(TEXT, {"CONFIG_.*"}) == {}


def test_what_stands_before_damage_is_read():
    text = b"".join(b"CONFIG_A%d=%d\n" % (n, n * 7919 % 10_007) for n in range(50_000))
    packed = gzip.compress(text)
    found = parse_kernel_config(packed[: len(packed) // 2])
    assert 0 < len(found) < 50_000
    assert found["CONFIG_A10"] == str(10 * 7919 % 10_007)


def test_garbage_after_the_signature():
    assert parse_kernel_config(b"\x1f\x8b" + bytes(100)) == {}


def test_a_decompression_bomb_is_cut_short():
    stream = zlib.compressobj(9, wbits=31)
    bomb = stream.compress(b"CONFIG_A=y\n") + stream.compress(bytes(64 << 20)) + stream.compress(b"\nCONFIG_B=y\n")
    assert parse_kernel_config(bomb + stream.flush()) == {"CONFIG_A": "y"}


@given(st.binary(), st.none() | st.sets(st.text(max_size=5), max_size=3))
def test_any_bytes_give_a_result(content, names):
    assert isinstance(parse_kernel_config(content, names), dict)
    assert isinstance(parse_kernel_config(b"\x1f\x8b\x08\x00" + content, names), dict)


OPTIONS = st.dictionaries(st.from_regex(r"CONFIG_[A-Z0-9_]{1,20}", fullmatch=True), st.sampled_from("ymn"))


@given(OPTIONS, st.booleans())
def test_round_trip(options, packed):
    text = "".join(f"# {k} is not set\n" if v == "n" else f"{k}={v}\n" for k, v in options.items()).encode()
    content = gzip.compress(text) if packed else text
    assert parse_kernel_config(content) == options
    wanted = set(list(options)[::2])
    assert parse_kernel_config(content, wanted) == {name: options[name] for name in wanted}
