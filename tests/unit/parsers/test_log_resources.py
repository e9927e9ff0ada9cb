"""What a kernel log says of functions, in the wording of kernels from 3.10 to 6.18."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.kernel_log import read_log
from hostdoctor.parsers.log_resources import read_resources

GIB, MIB = 1 << 30, 1 << 20
GPU, PORT = "0000:65:00.0", "0000:64:00.0"


def said(*lines):
    return read_resources(read_log("dmesg.txt", enumerate(lines, 1)))


def function(*lines, address=GPU):
    return said(*lines).functions[address]


def bars(*lines):
    return {bar.index: (bar.assigned, bar.range.start, bar.range.size_bytes, bar.line) for bar in function(*lines).bars}


@pytest.mark.parametrize(
    ("line", "ids", "port_type"),
    [
        ("pci 0000:65:00.0: [10de:2230] type 00 class 0x030000", (0x10DE, 0x2230, 0x030000), None),
        ("pci 0000:65:00.0: [10de:2230] type 00 class 0x030000 PCIe Legacy Endpoint", (0x10DE, 0x2230, 0x030000), 1),
        ("pci 0000:65:00.0: [1002:1478] type 01 class 0x060400 PCIe Switch Upstream Port", (0x1002, 0x1478, 0x060400), 5),
        ("pci 0000:65:00.0: [8086:a70d] type 01 class 0x060400 PCIe Root Port", (0x8086, 0xA70D, 0x060400), 4),
        ("pci 0000:65:00.0: [8086:7a60] type 00 class 0x0c0330 conventional PCI endpoint", (0x8086, 0x7A60, 0x0C0330), None),
        ("pci 0000:65:00.0: [10de:06d1] type 0 class 0x000302", (0x10DE, 0x06D1, 0x030200), None),  # before 3.3
    ],
)
def test_ids_class_and_port_type(line, ids, port_type):
    found = function(line)
    assert (found.vendor, found.device, found.class_code) == ids
    assert (found.port_type, found.listed) == (port_type, True)
    assert found.is_bridge is (ids[2] == 0x060400)


@pytest.mark.parametrize(
    "line",
    [
        "reg 14: [mem 0x4000000000-0x4fffffffff 64bit pref]",  # before 3.10
        "reg 0x14: [mem 0x4000000000-0x4fffffffff 64bit pref]",
        "BAR 1 [mem 0x4000000000-0x4fffffffff 64bit pref]",
        "BAR 1: assigned [mem 0x4000000000-0x4fffffffff 64bit pref]",
        "BAR 1 [mem 0x4000000000-0x4fffffffff 64bit pref]: assigned",
        "BAR 1 [mem 0x4000000000-0x4fffffffff 64bit pref]: old value restored",
    ],
)
def test_a_bar_with_an_address(line):
    [bar] = function(f"pci {GPU}: {line}").bars
    assert (bar.index, bar.assigned, bar.range.start, bar.range.size_bytes) == (1, True, 0x4000000000, 64 * GIB)
    assert bar.range.is_64bit
    assert bar.range.prefetchable


@pytest.mark.parametrize(
    "lines",
    [
        ("BAR 1: no space for [mem size 0x400000000 64bit pref]", "BAR 1: failed to assign [mem size 0x400000000 64bit pref]"),
        ("BAR 1: can't assign mem pref (size 0x400000000)",),
        ("BAR 1 [mem size 0x400000000 64bit pref]: can't assign; no space",),
        ("BAR 1 [mem size 0x400000000 64bit pref]: not assigned; can't enable device",),
        ("can't enable device: BAR 1 [mem size 0x400000000 64bit pref] not assigned",),
        ("can't enable device: BAR 1 [mem 0x00000000-0x3ffffffff 64bit pref] not claimed",),
    ],
)
def test_a_bar_without_a_place(lines):
    assert bars(*(f"pci {GPU}: {line}" for line in lines))[1][:3] == (False, 0, 16 * GIB)


def test_the_last_word_counts():
    refused = f"pci {GPU}: BAR 1: no space for [mem size 0x1000000000 64bit pref]"
    assigned = f"pci {GPU}: BAR 1: assigned [mem 0x382000000000-0x382fffffffff 64bit pref]"
    assert bars(refused, assigned)[1] == (True, 0x382000000000, 64 * GIB, 2)
    assert bars(assigned, refused)[1][0] is False


def test_a_bar_that_reads_as_zero_waits_for_its_address():
    waiting = f"pci {GPU}: reg 0x14: [mem 0x00000000-0x3ffffffff 64bit pref]"
    done = "pci_bus 0000:64: resource 5 [mem 0x382000000000-0x382fffffffff window]"
    assert bars(waiting) == {}
    assert bars(waiting, done)[1] == (False, 0, 16 * GIB, 1)
    assert bars(done, waiting) == {}


def test_releasing_is_no_failure():
    released = f"amdgpu {GPU}: BAR 0: releasing [mem 0xd0000000-0xdfffffff 64bit pref]"
    assert bars(released) == {}
    moved = f"amdgpu {GPU}: BAR 0: assigned [mem 0x382000000000-0x3821ffffffff 64bit pref]"
    assert bars(released, moved)[0][:3] == (True, 0x382000000000, 8 * GIB)


def test_a_resize_that_found_no_space_leaves_the_bar_where_it_was():
    found = function(
        f"pci {GPU}: BAR 1 [mem 0xf03b0000000-0xf03bfffffff 64bit pref]",
        f"nvidia {GPU}: BAR 1 [mem size 0x800000000 64bit pref]: can't assign; no space",
        f"nvidia {GPU}: BAR 1 [mem size 0x800000000 64bit pref]: failed to assign",
    )
    assert [(bar.assigned, bar.range.size_bytes) for bar in found.bars] == [(True, 256 * MIB)]
    assert [(each.index, each.size_bytes, each.line) for each in found.refused_sizes] == [(1, 32 * GIB, 2)]


def test_a_bar_lost_in_a_resize_is_missing():
    found = bars(
        f"pci {GPU}: BAR 0 [mem 0xd0000000-0xdfffffff 64bit pref]",
        f"amdgpu {GPU}: BAR 0 [mem 0xd0000000-0xdfffffff 64bit pref]: releasing",
        f"amdgpu {GPU}: BAR 0 [mem size 0x10000000 64bit pref]: can't assign; no space",
        f"amdgpu {GPU}: BAR 0 [mem size 0x10000000 64bit pref]: failed to assign",
    )
    assert found[0][:3] == (False, 0, 256 * MIB)


def test_firmwares_garbage_is_no_place():
    found = bars(
        f"pci {GPU}: reg 0x14: [mem 0xffffffe000000000-0xffffffffffffffff 64bit pref]",
        f"pci {GPU}: can't claim BAR 1 [mem 0xffffffe000000000-0xffffffffffffffff 64bit pref]: no compatible bridge window",
        f"pci {GPU}: BAR 1: no space for [mem size 0x2000000000 64bit pref]",
        f"pci {GPU}: BAR 1: trying firmware assignment [mem 0xffffffe000000000-0xffffffffffffffff 64bit pref]",
        f"pci {GPU}: BAR 1: [mem 0xffffffe000000000-0xffffffffffffffff 64bit pref] conflicts with PCI mem",
        f"pci {GPU}: BAR 1: failed to assign [mem size 0x2000000000 64bit pref]",
    )
    assert found[1][:3] == (False, 0, 128 * GIB)


def test_what_a_function_has_after_it_was_plugged_in_again_is_new():
    lines = (
        f"pci {GPU}: [1002:73bf] type 00 class 0x030000",
        f"pci {GPU}: reg 0x10: [mem 0xd0000000-0xdfffffff 64bit pref]",
        f"pci {GPU}: reg 0x18: [mem 0xe0000000-0xe01fffff 64bit pref]",
        f"pci {GPU}: [1002:73bf] type 00 class 0x030000",
        f"pci {GPU}: BAR 0: assigned [mem 0x8000000000-0x83ffffffff 64bit pref]",
    )
    assert set(bars(*lines)) == {0}


@pytest.mark.parametrize(
    "line",
    [
        "BAR 7: no space for [mem size 0x00400000]",  # of virtual functions
        "VF BAR 0 [mem size 0x00100000 64bit]: can't assign; no space",
        "VF BAR 0 [mem 0x00000000-0x000fffff 64bit]: contains BAR 0 for 32 VFs",
        "reg 0xbb8: [mem 0x00000000-0x0003ffff]",
        "BAR 1: assigned to efifb",
        "BAR 1: can't reserve [mem 0xd0000000-0xdfffffff 64bit pref]",
        "BAR 2: error updating (high 0x000038 != 0x000000)",
        "bridge window [mem 0x00100000-0x000fffff 64bit pref] to [bus 43-44] add_size 200000 add_align 100000",
        "disabling bridge window [mem 0x00000000-0xffffffffffffffff 64bit pref disabled] to [bus 04] (unused)",
    ],
)
def test_what_says_nothing_of_its_bars(line):
    functions = said(f"pci {GPU}: {line}").functions
    assert not functions or not any(not bar.assigned for bar in functions[GPU].bars)
    assert not functions or not functions[GPU].windows


def test_windows_of_a_bridge():
    found = function(
        f"pci {PORT}: [8086:2030] type 01 class 0x060400",
        f"pci {PORT}: PCI bridge to [bus 65-6a]",
        f"pci {PORT}:   bridge window [io  0x9000-0x9fff]",
        f"pci {PORT}:   bridge window [mem 0xd8000000-0xd90fffff]",
        f"pci {PORT}:   bridge window [mem 0x380000000000-0x38000fffffff 64bit pref]",
        f"pcieport {PORT}: BAR 15: releasing [mem 0x380000000000-0x38000fffffff 64bit pref]",
        f"pcieport {PORT}: BAR 15: assigned [mem 0x382000000000-0x3822ffffffff 64bit pref]",
        address=PORT,
    )
    assert found.secondary_bus == 0x65
    assert {each.range.window_kind: each.range.start for each in found.windows} == {
        "io": 0x9000,
        "mem": 0xD8000000,
        "prefetchable": 0x382000000000,
    }


def test_a_window_without_space_is_told_until_one_as_large_opens():
    refused = f"pci {PORT}: bridge window [mem size 0xc00000000 64bit pref]: can't assign; no space"
    small = f"pci {PORT}: bridge window [mem 0x83fe00000-0xbffffffff 64bit pref]: assigned"
    large = f"pci {PORT}: bridge window [mem 0x1000000000-0x1bffffffff 64bit pref]: assigned"
    assert [each.range.size_bytes for each in function(refused, address=PORT).refused] == [48 * GIB]
    assert function(refused, small, address=PORT).refused
    assert not function(refused, large, address=PORT).refused


def test_windows_are_numbered_from_7_where_the_kernel_has_no_virtual_functions():
    found = function(
        f"pci {PORT}: [14e4:2711] type 01 class 0x060400",
        f"pci {PORT}: BAR 9: assigned [mem 0xa040000000-0xa057ffffff 64bit pref]",
        f"pci {PORT}: BAR 8: no space for [mem size 0x00200000]",
        address=PORT,
    )
    assert [each.range.window_kind for each in found.windows] == ["prefetchable"]
    assert [each.range.window_kind for each in found.refused] == ["mem"]


def test_a_bridge_that_firmware_left_without_a_bus():
    lines = (
        f"pci {PORT}: PCI bridge to [bus 00]",
        f"pci {PORT}: bridge configuration invalid ([bus 00-00]), reconfiguring",
    )
    assert function(*lines, address=PORT).secondary_bus is None
    assert function(*lines, f"pci {PORT}: PCI bridge to [bus 65-bc]", address=PORT).secondary_bus == 0x65


def test_root_buses():
    roots = said(
        "acpi PNP0A08:02: ECAM at [mem 0x3bfff0000000-0x3bffffffffff] for [bus 00-ff]",
        "qcom-pcie 1c10000.pcie: PCI host bridge to bus 0004:00",
        "PCI host bridge to bus 0000:3a",
        "pci_bus 0000:3a: root bus resource [io  0x5000-0x6fff window]",
        "pci_bus 0000:3a: root bus resource [mem 0xb8800000-0xc5ffffff window]",
        "pci_bus 0000:3a: root bus resource [mem 0x4000000000-0x5fffffffff window]",
        "pci_bus 0000:3a: root bus resource [bus 3a-5c]",
        "pci_bus 0000:3a: on NUMA node 1",
        "pci_bus 0000:3b: resource 1 [mem 0xb8800000-0xb8ffffff]",
    ).roots
    assert list(roots) == ["0004:00", "0000:3a"]
    found = [(each.range.start, each.range.end, each.line) for each in roots["0000:3a"].apertures]
    assert found == [(0xB8800000, 0xC5FFFFFF, 5), (0x4000000000, 0x5FFFFFFFFF, 6)]
    assert roots["0000:3a"].node == 1


def test_a_root_bus_with_a_bus_address_and_one_that_is_all_there_is():
    roots = said(
        "pci_bus 0001:00: root bus resource [mem 0xa040000000-0xa07fffffff] (bus address [0x40000000-0x7fffffff])",
        "pci_bus 0000:00: root bus resource [mem 0x00000000-0xffffffffff]",
    ).roots
    assert [each.range.start for each in roots["0001:00"].apertures] == [0xA040000000]
    assert roots["0000:00"].apertures == ()


@pytest.mark.parametrize(
    ("text", "link"),
    [
        (
            "63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at 0000:64:00.0 (capable of 252.048 Gb/s "
            "with 16.0 GT/s PCIe x16 link)",
            (PORT, 8.0, 8, 7.876, 16.0, 16, 31.506),
        ),
        (  # before 5.6, and in Flit mode
            "32.000 Gb/s available PCIe bandwidth, limited by 2.5 GT/s x16 link at 0000:64:00.0 (capable of 126.016 Gb/s with "
            "8 GT/s x16 link), in Flit mode",
            (PORT, 2.5, 16, 4.0, 8.0, 16, 15.752),
        ),
        ("126.016 Gb/s available PCIe bandwidth (8.0 GT/s PCIe x16 link)", ("", 8.0, 16, 15.752, 8.0, 16, 15.752)),
    ],
)
def test_the_link_at_the_boot(text, link):
    found = function(f"pci {GPU}: {text}").link
    assert (found.at, found.speed_gts, found.width, found.gbs) == pytest.approx(link[:4])
    assert (found.best_speed_gts, found.best_width, found.best_gbs) == pytest.approx(link[4:])


def test_amdgpus_memory_belongs_to_the_gpu_last_spoken_of():
    found = said(
        "[drm] initializing kernel modesetting (VEGA10 0x1002:0x6863 0x1002:0x6B76 0x00).",
        "amdgpu 0000:0c:00.0: BAR 0: releasing [mem 0xc0000000-0xcfffffff 64bit pref]",
        "[drm] Not enough PCI address space for a large BAR.",
        "amdgpu 0000:0c:00.0: VRAM: 16368M 0x000000F400000000 - 0x000000F7FEFFFFFF (16368M used)",
        "[drm] Detected VRAM RAM=16368M, BAR=256M",
        "kfd kfd: amdgpu: added device 1002:6863",
        "amdgpu 0000:0f:00.0: amdgpu: [drm] Detected VRAM RAM=24560M, BAR=32768M",
        "kfd kfd: amdgpu: added device 1002:744c",
    ).functions
    first, second = found["0000:0c:00.0"], found["0000:0f:00.0"]
    assert (first.device, first.vram_bytes, first.bar_bytes) == (0x6863, 16368 * MIB, 256 * MIB)
    assert [(each.index, each.size_bytes) for each in first.refused_sizes] == [(0, 16 * GIB)]
    assert first.discrete
    assert (second.device, second.vram_bytes, second.bar_bytes) == (0x744C, 24560 * MIB, 32768 * MIB)
    assert not second.discrete


def test_memory_of_nobody():
    found = said("[drm] Detected VRAM RAM=24560M, BAR=32768M", "[drm] Detected VRAM RAM=24560M, BAR=32768M")
    assert [(each.vram_bytes, each.bar_bytes, each.line) for each in found.memories] == [
        (24560 * MIB, 32768 * MIB, 1),
        (24560 * MIB, 32768 * MIB, 2),
    ]
    # One line names a GPU, and the second line cannot be about the same.
    found = said(
        "amdgpu 0000:03:00.0: amdgpu: VRAM: 24560M 0x0000008000000000 - 0x00000085FEFFFFFF (24560M used)",
        "[drm] Detected VRAM RAM=24560M, BAR=32768M",
        "[drm] Detected VRAM RAM=24560M, BAR=32768M",
    )
    assert len(found.memories) == 1


def test_what_nvidias_driver_says_of_bar1():
    invalid = function("NVRM: BAR1 is 0M @ 0x0 (PCI:0000:65:00.0)")
    assert [(bar.index, bar.assigned, bar.range.size_bytes) for bar in invalid.bars] == [(1, False, 0)]
    assert invalid.driver == "nvidia"
    resized = function(
        f"pci {GPU}: BAR 1 [mem 0xf03b0000000-0xf03bfffffff 64bit pref]",
        f"nvidia {GPU}: BAR 1 [mem 0xf03b0000000-0xf03bfffffff 64bit pref]: releasing",
        "NVRM: No address space to allocate resized BAR1.",
        f"nvidia {GPU}: BAR 1 [mem 0xf03b0000000-0xf03bfffffff 64bit pref]: assigned",
    )
    assert [(bar.assigned, bar.range.size_bytes) for bar in resized.bars] == [(True, 256 * MIB)]
    assert [(each.index, each.size_bytes) for each in resized.refused_sizes] == [(1, 0)]
    lost = function(f"nvidia {GPU}: enabling device (0000 -> 0003)", "NVRM: FATAL: Failed to re-allocate BAR1.")
    assert [(bar.index, bar.assigned) for bar in lost.bars] == [(1, False)]


def test_intel_wanted_a_larger_bar():
    found = function(
        f"xe {GPU}: [drm] Failed to resize BAR2 to 16384M (-ENOSPC). Consider enabling 'Resizable BAR' support in your BIOS"
    )
    assert [(each.index, each.size_bytes) for each in found.refused_sizes] == [(2, 16 * GIB)]
    other = function(f"xe {GPU}: [drm] Failed to resize BAR2 to 16384M (-EINVAL)")
    assert not other.refused_sizes


@pytest.mark.parametrize(
    "failed",
    [f"nvidia {GPU}: probe with driver nvidia failed with error -22", f"nvidia: probe of {GPU} failed with error -1"],
)
def test_a_driver_whose_probe_failed(failed):
    spoke = f"nvidia {GPU}: enabling device (0000 -> 0003)"
    assert (function(spoke, failed).driver, function(spoke, failed).driver_failed) == ("nvidia", True)
    assert function(failed, spoke).driver_failed is False


def test_only_the_last_boot_counts():
    found = said(
        f"[    0.600000] pci {GPU}: BAR 1: no space for [mem size 0x400000000 64bit pref]",
        "[ 4000.100000] usb 1-1: new device",
        "[    0.000000] Linux version 6.8.0-60-generic",
        f"[    0.600000] pci {GPU}: BAR 1 [mem 0x4000000000-0x43ffffffff 64bit pref]",
    )
    assert [(bar.assigned, bar.line) for bar in found.functions[GPU].bars] == [(True, 4)]


@pytest.mark.parametrize(
    ("line", "old"),
    [
        ("BAR 1: assigned [mem 0x4000000000-0x43ffffffff 64bit pref]", True),
        ("reg 0x14: [mem 0x4000000000-0x43ffffffff 64bit pref]", True),
        ("BAR 1 [mem 0x4000000000-0x43ffffffff 64bit pref]: assigned", False),
        ("[10de:2230] type 00 class 0x030000", False),
    ],
)
def test_the_wording_tells_the_kernels_age(line, old):
    assert said(f"pci {GPU}: {line}").old_wording is old


SAMPLE = """pci 0000:64:00.0: PCI bridge to [bus 65]
pci 0000:65:00.0: [10de:2230] type 00 class 0x030000 PCIe Legacy Endpoint
pci 0000:65:00.0: BAR 1 [mem 0x00000000-0xfffffffff 64bit pref]
pci 0000:65:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at 0000:64:00.0 (capable of 252.048 Gb/s with 16.0 GT/s PCIe x16 link)
pci_bus 0000:64: root bus resource [mem 0x383000000000-0x3837ffffffff window]
NVRM: BAR1 is 0M @ 0x0 (PCI:0000:65:00.0)
amdgpu 0000:0c:00.0: VRAM: 16368M 0x000000F400000000 - 0x000000F7FEFFFFFF (16368M used)
"""  # noqa: E501  the kernel's own line


@given(st.integers(0, len(SAMPLE)), st.text(max_size=20))
def test_cut_or_damaged_anywhere(at, inserted):
    said(*(SAMPLE[:at] + inserted + SAMPLE[at:]).splitlines())
    said(*SAMPLE[:at].splitlines())


@given(st.lists(st.text(max_size=200), max_size=20))
def test_any_text(lines):
    said(*lines)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("pci", "amdgpu", "pcieport", "nvidia")),
            st.sampled_from(("BAR 1", "bridge window", "ROM", "VF BAR 0")),
            st.sampled_from(
                ("[mem size 0x10000000 64bit pref]", "[mem 0x0-0x0]", "[io  0x10-0x5]", "[mem 0xffffffffffffffff-0x0]")
            ),
            st.sampled_from(
                ("assigned", "releasing", "can't assign; no space", "failed to assign", "can't claim; no address", "")
            ),
        ),
        max_size=30,
    )
)
def test_words_in_any_order(words):
    for each in said(*(f"{who} {GPU}: {name} {range_}: {verb}" for who, name, range_, verb in words)).functions.values():
        assert all(bar.range.size_bytes >= 0 for bar in each.bars)
