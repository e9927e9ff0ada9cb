from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.kernel_log import read_log
from hostdoctor.parsers.log_host import read_log_host


def read(text):
    return read_log_host(read_log("dmesg.txt", list(enumerate(text.split("\n"), 1))))


@pytest.mark.parametrize(
    ("line", "vendor", "product", "board"),
    [
        ("DMI: Supermicro Super Server/X11SPL-F, BIOS 3.1 05/20/2019", "Supermicro", "Super Server", "X11SPL-F"),
        (
            "DMI: Micro-Star International Co., Ltd. MS-7D25/PRO Z690-A WIFI DDR4(MS-7D25), BIOS 1.E0 08/16/2024",
            "Micro-Star International Co., Ltd.", "MS-7D25", "PRO Z690-A WIFI DDR4(MS-7D25)",
        ),
        ("DMI: Dell Inc. PowerEdge R750xa/0XYZ12, BIOS 1.8.2 09/14/2022", "Dell Inc.", "PowerEdge R750xa", "0XYZ12"),
        ("DMI: QEMU Standard PC (Q35), BIOS rel-1.16.2-0 04/01/2014", "QEMU", "Standard PC (Q35)", None),
    ],
)  # fmt: skip
def test_firmware(line, vendor, product, board):
    found = read(line)
    assert (found.system_vendor.value, found.product_name.value) == (vendor, product)
    assert (found.board_name.value if found.board_name else None) == board


@pytest.mark.parametrize(
    ("line", "vendor", "family", "model"),
    [
        (
            "smpboot: CPU0: AMD EPYC 7302 16-Core Processor (family: 0x17, model: 0x31, stepping: 0x0)",
            "AuthenticAMD",
            "17",
            "31",
        ),
        (
            "smpboot: CPU0: 12th Gen Intel(R) Core(TM) i9-12900K (family: 0x6, model: 0x97, stepping: 0x2)",
            "GenuineIntel",
            "6",
            "97",
        ),
        (
            "smpboot: CPU0: Intel(R) Xeon(R) CPU E5-2670 0 @ 2.60GHz (fam: 06, model: 2d, stepping: 07)",
            "GenuineIntel",
            "06",
            "2d",
        ),
        ("smpboot: CPU0: QEMU Virtual CPU version 2.5+ (family: 0xf, model: 0x6b, stepping: 0x1)", None, "f", "6b"),
    ],
)
def test_processor(line, vendor, family, model):
    found = read(line)
    assert (found.cpu_vendor.value if found.cpu_vendor else None) == vendor
    assert (found.cpu_family.value, found.cpu_model.value) == (family, model)


def test_the_last_boot_counts_and_where_it_stands_is_kept():
    found = read(
        "[ 0.000000] Linux version 5.15.0-1 (x)\n[ 0.000000] Command line: old\n[ 90.000000] a\n"
        "[ 0.000000] Linux version 6.8.0-52-generic (y)\n[ 0.000000] Kernel command line: iommu=pt\n"
        "[ 1.000000] Hypervisor detected: KVM\n[ 1.000000] smp: Brought up 2 nodes, 64 CPUs"
    )
    assert (found.release.value, found.release.source) == ("6.8.0-52-generic", "dmesg.txt:4")
    assert (found.command_line.value, found.hypervisor.value, found.nodes.value) == ("iommu=pt", "KVM", "2")


@given(st.text(max_size=200))
def test_any_text_is_read(text):
    read(f"DMI: {text}\nsmpboot: CPU0: {text}\nLinux version {text}\n{text}")
