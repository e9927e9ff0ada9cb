from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.uevent import Uevent, parse_uevent

TEXT = """DRIVER=amdgpu
PCI_CLASS=38000
PCI_ID=1002:73A1
PCI_SUBSYS_ID=1002:0E34
PCI_SLOT_NAME=0000:1d:00.0
MODALIAS=pci:v00001002d000073A1sv00001002sd00000E34bc03sc80i00
"""


@pytest.mark.parametrize("content", [TEXT, TEXT.encode()])
def test_identity_of_a_gpu(content):
    assert parse_uevent(content) == Uevent("amdgpu", 0x038000, 0x1002, 0x73A1, 0x1002, 0x0E34, "0000:1d:00.0")


def test_a_function_without_driver_on_a_device_tree_host():
    text = "OF_NAME=pci\nOF_COMPATIBLE_N=0\nPCI_CLASS=60400\nPCI_ID=14E4:2712\nPCI_SUBSYS_ID=0000:0000\n"
    assert parse_uevent(text) == Uevent(None, 0x060400, 0x14E4, 0x2712, 0, 0, "")


@pytest.mark.parametrize(
    "text",
    ["", "PCI_ID=", "PCI_ID=:", "PCI_ID=xyz:-1", "PCI_ID=12345:g", "PCI_CLASS=-1", "PCI_CLASS=1000000", "DRIVER="],
)
def test_what_is_garbled_is_left_out(text):
    assert parse_uevent(text) == Uevent()


def test_half_an_id_is_kept():
    assert parse_uevent("PCI_ID=1002:zz\nPCI_SLOT_NAME=0000:1d:00.0") == Uevent(vendor=0x1002, slot_name="0000:1d:00.0")


@given(st.binary() | st.text())
def test_anything_gives_a_result(content):
    assert isinstance(parse_uevent(content), Uevent)


IDS = st.integers(0, 0xFFFF)


@given(st.integers(0, 0xFFFFFF), IDS, IDS, IDS, IDS)
def test_round_trip(class_code, vendor, device, subsystem_vendor, subsystem_device):
    text = (
        f"PCI_CLASS={class_code:X}\nPCI_ID={vendor:04X}:{device:04X}\n"
        f"PCI_SUBSYS_ID={subsystem_vendor:04X}:{subsystem_device:04X}\nPCI_SLOT_NAME=10000:e1:00.0\n"
    )
    expected = Uevent(None, class_code, vendor, device, subsystem_vendor, subsystem_device, "10000:e1:00.0")
    assert parse_uevent(text) == expected
