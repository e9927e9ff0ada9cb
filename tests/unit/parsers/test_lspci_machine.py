"""lspci -mm and -vmm: the forms made for programs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.facts.unknown import Unknown
from hostdoctor.parsers.lspci_machine import parse_machine, parse_record

NAMES = (
    '01:00.0 "VGA compatible controller" "NVIDIA Corporation" "GA102 [GeForce RTX 3090]" -ra1 -p00 '
    '"Gigabyte Technology Co., Ltd" "GA102 [GeForce RTX 3090]"'
)
BOTH = (
    '0000:01:00.0 "VGA compatible controller [0300]" "NVIDIA Corporation [10de]" "GA102 [GeForce RTX 3090] [2204]" -ra1 '
    '"Gigabyte Technology Co., Ltd [1458]" "Device [4043]"'
)
NUMBERS = '01:00.0 "0302" "10de" "20b5" -ra1 "10de" "1533"'
RECORD = """\
Slot:	01:00.0
Class:	VGA compatible controller [0300]
Vendor:	NVIDIA Corporation [10de]
Device:	GA102 [GeForce RTX 3090] [2204]
SVendor:	Gigabyte Technology Co., Ltd [1458]
SDevice:	Device [4043]
Rev:	a1
ProgIf:	00
Driver:	nvidia
Module:	nouveau
NUMANode:	1
IOMMUGroup:	14
"""


def test_names_alone():
    identity = parse_machine([NAMES])[0].identity
    assert (identity.vendor, identity.device, identity.class_code) == (0, 0, -1)
    assert identity.class_name == "VGA compatible controller"
    assert identity.text == "NVIDIA Corporation GA102 [GeForce RTX 3090]"


@pytest.mark.parametrize(("line", "code", "device"), [(BOTH, 0x030000, 0x2204), (NUMBERS, 0x030200, 0x20B5)])
def test_ids(line, code, device):
    identity = parse_machine([line])[0].identity
    assert (identity.vendor, identity.device, identity.class_code) == (0x10DE, device, code)
    assert identity.subsystem_device in (0x4043, 0x1533)


def test_a_device_without_a_name():
    assert (
        parse_machine(['01:00.0 "VGA compatible controller" "NVIDIA Corporation" "Device 2bb5" -ra1 "" ""'])[0].identity.device
        == 0x2BB5
    )


def test_a_record():
    entry = parse_record(RECORD.split("\n"))
    assert (entry.address, entry.identity.device, entry.identity.class_code) == ("01:00.0", 0x2204, 0x030000)
    assert (entry.driver, entry.numa_node, entry.iommu_group) == ("nvidia", 1, "14")
    assert isinstance(entry.link, Unknown)


def test_a_record_without_its_driver():
    without = [line for line in RECORD.split("\n") if not line.startswith("Driver")]
    assert parse_record(without).driver is None, "with -k modules would be named"
    assert isinstance(parse_record([line for line in without if not line.startswith("Module")]).driver, Unknown)


def test_nothing():
    assert parse_record([]) is None
    assert parse_machine(["", "01:00.0"]) == ()


@given(st.text(), st.integers(0, 200))
def test_any_text(text, size):
    parse_machine(text.split("\n"))
    parse_machine([BOTH[:size]])
    parse_record(text.split("\n"))
    parse_record(RECORD[:size].split("\n"))
