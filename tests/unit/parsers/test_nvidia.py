from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.nvidia import dma_bits, driver_parameters, driver_version

VERSIONS = [
    ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.127.05  Tue Oct  8 2024\nGCC version:  gcc 14.2.1\n", "550.127.05"),
    ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.105.08  Release Build  (root)\nGCC 14.2.0\n", "580.105.08"),
    ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02\n", "470.256.02"),
    ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  590.44  Mon\n", "590.44"),
]  # fmt: skip

INFORMATION = """Model: \t\t NVIDIA RTX 2000 Ada Generation
IRQ:   \t\t 38
GPU UUID: \t GPU-00000000-0000-4000-8000-000000000002
Bus Type: \t PCIe
DMA Size: \t 47 bits
DMA Mask: \t 0x7fffffffffff
"""


@pytest.mark.parametrize(("text", "version"), VERSIONS)
def test_the_module_tells_its_version(text, version):
    assert driver_version(text) == version


@pytest.mark.parametrize("text", ["", "NVRM version: unknown\n", "GCC version:  gcc version 14.2.0 \n"])
def test_no_version_is_none(text):
    assert driver_version(text) is None


def test_parameters_lose_their_quotes():
    text = 'ResmanDebugLevel: 4294967295\nRegistryDwords: "ForceP2P=0x11;RMPcieP2PType=1"\nTemporaryFilePath: ""\n'
    assert driver_parameters(text) == {
        "ResmanDebugLevel": "4294967295",
        "RegistryDwords": "ForceP2P=0x11;RMPcieP2PType=1",
        "TemporaryFilePath": "",
    }


def test_address_bits():
    assert dma_bits(INFORMATION) == 47
    assert dma_bits(INFORMATION.replace("47 bits", "0 bits")) is None
    assert dma_bits(INFORMATION.replace("47 bits", "99 bits")) is None
    assert dma_bits("") is None


@given(st.text())
def test_any_text_gives_a_result(text):
    assert isinstance(driver_version(text), str | None)
    assert isinstance(dma_bits(text), int | None)
    assert all(isinstance(value, str) for value in driver_parameters(text).values())
