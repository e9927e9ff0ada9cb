"""Files of /etc/modprobe.d."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.modprobe import parse_modprobe


def told(text):
    return [(each.module, [option.text for option in each.options], each.line) for each in parse_modprobe(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("options amdgpu pcie_p2p=0\n", [("amdgpu", ["pcie_p2p=0"], 1)]),
        ("  options\tnvidia-uvm   a=1 b", [("nvidia_uvm", ["a=1", "b"], 1)]),
        ("# options amdgpu pcie_p2p=0\n\noptions amdgpu aspm=0 dpm=1\n", [("amdgpu", ["aspm=0", "dpm=1"], 3)]),
        (
            "options amdgpu \\\n  aspm=0 \\\n  dpm=1\noptions kvm x=1\n",
            [("amdgpu", ["aspm=0", "dpm=1"], 1), ("kvm", ["x=1"], 4)],
        ),
        ('options nvidia NVreg_RegistryDwords="A=1; B=2"\n', [("nvidia", ['NVreg_RegistryDwords="A=1; B=2"'], 1)]),
        ("blacklist nouveau\nalias a b\ninstall c /bin/true\noptions\noptions amdgpu\n", []),
        ("optionsamdgpu pcie_p2p=0\n", []),
    ],
)
def test_lines(text, expected):
    assert told(text) == expected


@given(st.text(alphabet='options amdgpu=\\\n"\t#x1-_.', max_size=200))
def test_any_text_is_read_and_stands_where_it_says(text):
    for each in parse_modprobe(text):
        assert text[each.start : each.start + len(each.text)] == each.text
        assert text.count("\n", 0, each.start) + 1 == each.line


def test_long_lines_take_linear_time():
    assert parse_modprobe("\\\n" * 400_000) == ()
    assert len(parse_modprobe("options a b=1\n" * 50_000)) == 50_000
