from __future__ import annotations

import pytest

from hostdoctor.evidence.provenance import pattern, summarise


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("proc/cmdline", "/proc/cmdline"),
        ("sys/bus/pci/devices/0000:1a:00.0/config", "/sys/bus/pci/devices/*/config"),
        ("sys/devices/pci0000:17/0000:17:00.0/0000:18:00.0/uevent", "/sys/bus/pci/devices/*/uevent"),
        ("sys/devices/pci10000:e0/10000:e0:01.0/power/runtime_status", "/sys/bus/pci/devices/*/power/runtime_status"),
        ("sys/devices/platform/soc/d0.pcie/pci0001:00/0001:00:00.0/class", "/sys/bus/pci/devices/*/class"),
        ("sys/kernel/iommu_groups/24/type", "/sys/kernel/iommu_groups/*/type"),
        (
            "sys/class/kfd/kfd/topology/nodes/3/io_links/0/properties",
            "/sys/class/kfd/kfd/topology/nodes/*/io_links/*/properties",
        ),
        ("sys/devices/system/node/online", "/sys/devices/system/node/online"),
        ("proc/1/cgroup", "/proc/*/cgroup"),
    ],
)
def test_addresses_and_numbers_become_stars(path, shown):
    assert pattern(path) == shown


def test_each_pattern_is_told_once():
    reads = [
        ("sys/devices/pci0000:00/0000:00:01.0", "uevent", None),
        ("sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0", "uevent", None),
        ("sys/bus/pci/devices/0000:02:00.0", "uevent", None),
        ("", "sys/bus/pci/devices/0000:03:00.0/uevent", None),
        ("sys/kernel/iommu_groups", "7/type", None),
        ("", "sys/kernel/iommu_groups/8/type", None),
        ("", "proc/cmdline", None),
    ]
    files, unread = summarise(reads)
    assert files == ["/proc/cmdline", "/sys/bus/pci/devices/*/uevent", "/sys/kernel/iommu_groups/*/type"]
    assert unread == []


def test_what_is_there_and_was_not_read_is_told_with_its_reason():
    reads = [
        ("", "proc/iomem", "permission"),
        ("", "boot/config-6.8", "missing"),
        ("sys/bus/pci/devices/0000:03:00.0", "config", "timed-out"),
        ("sys/bus/pci/devices/0000:04:00.0", "config", "timed-out"),
        ("sys/bus/pci/devices/0000:05:00.0", "config", None),
    ]
    files, unread = summarise(reads)
    assert files == ["/sys/bus/pci/devices/*/config"]
    assert unread == [
        ("/proc/iomem", "no permission to read it"),
        ("/sys/bus/pci/devices/*/config", "reading it did not end in time"),
    ]
