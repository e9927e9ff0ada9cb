"""lspci as people paste it: every amount of -v, every age, with and without root, whole, cut and picked."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.facts.pci import Acs, Aer, Bar, Dpc, Express, Link, ResizableBar, Sriov, Window
from hostdoctor.facts.unknown import NEEDS_ROOT, Unknown
from hostdoctor.parsers.lspci import parse_lspci
from hostdoctor.parsers.lspci_registers import BRIEF, CUT, OLD, PICKED, PLAIN

TEXTS = Path(__file__).parent / "texts"
GIB, MIB = 1 << 30, 1 << 20

PORT = (TEXTS / "lspci-port.txt").read_text(encoding="utf-8")
GPU = (TEXTS / "lspci-gpu.txt").read_text(encoding="utf-8")
AFTER = (
    "04:00.0 Non-Volatile memory controller: Samsung Electronics Co Ltd NVMe SSD Controller SM981 (prog-if 02 [NVM Express])\n"
)


def entries(text):
    return {each.address: each for each in parse_lspci(text.rstrip("\n").split("\n")).entries}


def only(text, address="03:00.0"):
    """The entry of a text that goes on behind it."""
    return entries(f"{text}\n{AFTER}")[address]


def test_a_port_with_everything():
    port = only(PORT, "00:01.0")
    config = port.config
    assert config.express == Express(
        4, True, 512, 256, 128, 32.0, 16, 16.0, 8, 32.0, 3, True, False, True, True, True, False, False
    )
    assert port.link == Link(16.0, 8, 32.0, 16)
    assert config.acs == Acs(0x1F, 0x15)
    assert config.aer == Aer(1 << 14 | 1 << 20, 1 | 1 << 13)
    assert config.dpc == Dpc(True, 1)
    assert (config.sriov, config.resizable_bars) == (None, ())
    assert (config.secondary_bus, config.subordinate_bus, config.header_type, config.revision) == (1, 3, 1, 2)
    assert port.windows == (Window("mem", 0x83000000, 0x842FFFFF), Window("prefetchable", 0x6000000000, 0x65FFFFFFFF))
    assert (port.numa_node, port.iommu_group, port.driver, port.port_type) == (1, "2", "pcieport", 4)
    assert port.bars == ()


def test_a_gpu_with_everything():
    gpu = only(GPU)
    assert gpu.bars == (
        Bar(0, "mem", 0x6000000000, 32 * GIB, True, True, True),
        Bar(2, "mem", 0x6800000000, 256 * MIB, True, True, True),
        Bar(4, "io", 0xE000, 256, False, False, True),
        Bar(5, "mem", 0x83000000, MIB, False, False, True),
        Bar(6, "rom", 0x83100000, 128 << 10, False, False, True),
    ), "and none of the virtual functions' BARs"
    sizes = tuple(MIB << n for n in range(8, 16))
    assert gpu.config.resizable_bars == (
        ResizableBar(0, 32 * GIB, sizes),
        ResizableBar(2, 256 * MIB, (2 * MIB, 4 * MIB, 256 * MIB)),
    )
    assert gpu.config.sriov == Sriov(12, 4)
    assert gpu.virtual_functions == (8, 1, 4)
    assert gpu.config.acs is None, "it has none: all lines are there"
    assert gpu.link == Link(2.5, 16, 16.0, 16)
    assert (gpu.driver, gpu.power, gpu.port_type) == ("amdgpu", "D0", 1)
    assert gpu.identity.class_name == "VGA compatible controller"
    assert gpu.identity.text == "Advanced Micro Devices, Inc. [AMD/ATI] Navi 21 [Radeon Pro V620]"


# --- who it is --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "ids", "code", "text"),
    [
        ("01:00.0 0300: 10de:2204 (rev a1)", (0x10DE, 0x2204), 0x030000, ""),
        ("0000:01:00.0 0302: 10de:20b5 (rev a1)", (0x10DE, 0x20B5), 0x030200, ""),
        (
            "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102 [GeForce RTX 3090] [10de:2204] (rev a1)",
            (0x10DE, 0x2204), 0x030000, "NVIDIA Corporation GA102 [GeForce RTX 3090]",
        ),
        ("01:00.0 3D controller [0302]: NVIDIA Corporation Device [10de:2bb5] (rev a1)", (0x10DE, 0x2BB5), 0x030200, None),
        ("01:00.0 VGA compatible controller: NVIDIA Corporation Device 2bb5 (rev a1)", (0, 0x2BB5), -1, "NVIDIA Corporation"),
        ("00:02.0 VGA compatible controller: Device 1234:1111 (rev 02)", (0x1234, 0x1111), -1, ""),
        ("00:01.0 Unassigned class [ffff]: Red Hat, Inc. Virtio 1.0 console (rev 01)", (0, 0), 0xFFFF00, None),
        ("01:00.0 Class 0300: 10de:0611 (rev a2)", (0x10DE, 0x0611), 0x030000, ""),
        ("00:1f.2 SATA controller [0106]: Intel Corporation X [8086:2922] (rev 02) (prog-if 01 [AHCI 1.0])",
         (0x8086, 0x2922), 0x010601, None),
    ],
)  # fmt: skip
def test_headers(header, ids, code, text):
    identity = parse_lspci([header]).entries[0].identity
    assert (identity.vendor, identity.device) == ids
    assert identity.class_code == code
    assert text is None or identity.text == text


@pytest.mark.parametrize("address", ["01:00.0", "0000:01:00.0", "10000:e1:00.0", "00000000:01:00.0"])
def test_addresses(address):
    assert (
        parse_lspci([f"{address} 3D controller: NVIDIA Corporation GA100 [A100 PCIe 80GB] (rev a1)"]).entries[0].address
        == address
    )


def test_subsystem_ids_where_they_are_shown():
    text = "01:00.0 0300: 10de:2204 (rev a1)\n\tSubsystem: 10de:1454\n" + AFTER
    assert entries(text)["01:00.0"].identity.subsystem_device == 0x1454
    text = (
        "01:00.0 VGA compatible controller [0300]: X [10de:2204]\n\tSubsystem: NVIDIA Corporation Device [10de:1454]\n" + AFTER
    )
    assert entries(text)["01:00.0"].identity.subsystem_vendor == 0x10DE


# --- ages and amounts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "speed", "width"),
    [
        ("Speed 2.5GT/s, Width x16, TrErr- Train- SlotClk+ DLActive- BWMgmt- ABWMgmt-", 2.5, 16),  # to 3.5
        ("Speed 8GT/s (ok), Width x8 (downgraded)", 8.0, 8),
        ("Speed 16GT/s (overdriven), Width x16 (overdriven)", 16.0, 16),
        ("Speed 64GT/s, Width x4 (strange)", 64.0, 4),
        ("Speed unknown, Width x0", None, 0),
        ("Speed unknown (downgraded), Width x0 (downgraded)", None, 0),
        ("Speed 8GT/s, Width x1", 8.0, 1),
    ],
)
def test_link_status_of_all_ages(status, speed, width):
    text = re.sub(r"LnkSta:\tSpeed.*", f"LnkSta:\t{status}", GPU)
    link = only(text).link
    assert link.current_width == width
    assert isinstance(link.current_speed_gts, Unknown) if speed is None else link.current_speed_gts == speed


@pytest.mark.parametrize(
    ("line", "window"),
    [
        ("Memory behind bridge: fb000000-fc0fffff", Window("mem", 0xFB000000, 0xFC0FFFFF)),
        ("Memory behind bridge: fb000000-fc0fffff [size=17M]", Window("mem", 0xFB000000, 0xFC0FFFFF)),
        ("I/O behind bridge: 3000-3fff [size=4K] [16-bit]", Window("io", 0x3000, 0x3FFF)),
        (
            "Prefetchable memory behind bridge: 00000060000-0000007ffff [size=128K] [32-bit]",
            Window("prefetchable", 0x60000, 0x7FFFF),
        ),
        ("Memory behind bridge: fff00000-000fffff [disabled]", None),
        ("I/O behind bridge: None", None),
        ("Prefetchable memory behind bridge: [disabled] [64-bit]", None),
        ("I/O behind bridge: 0000f000-00000fff", None),
    ],
)
def test_windows_of_all_ages(line, window):
    text = re.sub(r"\t(?:I/O|Memory|Prefetchable memory) behind bridge.*\n", "", PORT).replace(
        "\tSecondary", f"\t{line}\n\tSecondary"
    )
    assert only(text, "00:01.0").windows == ((window,) if window else ())


@pytest.mark.parametrize(
    ("region", "expected"),
    [
        ("Region 0: Memory at <unassigned> (64-bit, prefetchable) [disabled] [size=32G]", (0, 32 * GIB, False)),
        ("Region 0: Memory at <ignored> (64-bit, prefetchable)", (0, 0, False)),
        ("[virtual] Region 0: Memory at 6000000000 (64-bit, prefetchable) [size=32G]", (0x6000000000, 32 * GIB, True)),
        ("Region 0: [virtual] Memory at 6000000000 (64-bit, prefetchable) [size=32G]", (0x6000000000, 32 * GIB, True)),
        ("Region 0: Memory at 6000000000 (64-bit, prefetchable) [disabled] [size=32G]", (0x6000000000, 32 * GIB, True)),
    ],
)
def test_bars_with_and_without_an_address(region, expected):
    bar = only(GPU.replace("Region 0: Memory at 6000000000 (64-bit, prefetchable) [size=32G]", region)).bars[0]
    assert (bar.index, bar.address, bar.size_bytes, bar.assigned) == (0, *expected)


def test_an_assigned_bar_without_a_size_is_no_bar_of_zero_bytes():
    assert isinstance(only(GPU.replace(" [size=32G]", "")).bars, Unknown)


def test_v_numbers_no_bars_and_shows_no_registers():
    text = """\
1b:00.0 VGA compatible controller: NVIDIA Corporation AD102 [GeForce RTX 4090] (rev a1) (prog-if 00 [VGA controller])
    Subsystem: NVIDIA Corporation Device 1761
    Flags: bus master, fast devsel, latency 0, IRQ 298, NUMA node 1, IOMMU group 14
    Memory at 9c000000 (32-bit, non-prefetchable) [size=16M]
    Memory at 10ff80000000 (64-bit, prefetchable) [size=256M]
    Memory at 10ff90000000 (64-bit, prefetchable) [size=32M]
    I/O ports at 3000 [size=128]
    Expansion ROM at 9d000000 [disabled] [size=512K]
    Capabilities: [60] Power Management version 3
    Capabilities: [78] Express Legacy Endpoint, MSI 00
    Capabilities: [100] Virtual Channel
    Capabilities: [bb0] Physical Resizable BAR
    Kernel driver in use: nvidia

"""
    gpu = only(text, "1b:00.0")
    assert [(bar.index, bar.size_bytes) for bar in gpu.bars] == [
        (0, 16 * MIB),
        (1, 256 * MIB),
        (3, 32 * MIB),
        (5, 128),
        (6, 512 << 10),
    ]
    assert gpu.link == gpu.config.express == gpu.config.resizable_bars == BRIEF
    assert gpu.config.acs is None, "its heading would be there"
    assert (gpu.numa_node, gpu.iommu_group, gpu.port_type) == (1, "14", 1)


def test_plain_lspci_knows_nothing_but_names():
    gpu = only("03:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 80GB] (rev a1)")
    assert gpu.config == gpu.link == gpu.bars == PLAIN
    assert isinstance(gpu.driver, Unknown), "without -k nobody knows"


def test_k_tells_who_has_no_driver():
    text = "03:00.0 3D controller: NVIDIA Corporation GA100\n\tKernel modules: nouveau\n"
    assert only(text).driver is None
    text = "02:00.0 Ethernet controller: Intel Corporation I210\n\tKernel driver in use: igb\n"
    text += "03:00.0 3D controller: NVIDIA Corporation GA100\n"
    assert only(text).driver is None, "others have theirs shown"


def test_without_root_nothing_is_absent():
    text = re.sub(r"\tCapabilities: .*\n(?:\t\t.*\n)*", "", GPU).replace(
        "\tKernel driver", "\tCapabilities: <access denied>\n\tKernel driver"
    )
    gpu = only(text)
    config = gpu.config
    assert gpu.is_denied
    assert all(
        each is NEEDS_ROOT for each in (gpu.link, config.express, config.acs, config.aer, config.resizable_bars, config.dpc)
    )
    assert gpu.bars[0].size_bytes == 32 * GIB, "which needs no root"


def test_conventional_pci_has_no_link():
    text = "01:00.0 VGA compatible controller: X\n\tControl: I/O- Mem+ BusMaster-\n\tStatus: Cap- 66MHz-\n"
    text += "\tRegion 0: Memory at fd000000 (32-bit, non-prefetchable) [size=16M]\n"
    card = only(text, "01:00.0")
    assert card.link is None
    assert card.config.express is None
    assert card.config.acs is None


def test_integrated_endpoints_have_no_link():
    text = PORT.replace("Root Port (Slot+)", "Root Complex Integrated Endpoint")
    text = re.sub(r"\t\tLnk(?:Cap|Ctl|Sta|Ctl2):.*\n(?:\t\t\t.*\n)*", "", text)
    port = only(text, "00:01.0")
    assert port.link is None
    assert port.config.express.max_width == 0


def test_old_lspci_shows_no_atomics():
    text = re.sub(r"\t\t\t AtomicOps.*\n", "", PORT)
    assert only(text, "00:01.0").config.express.atomic_routing is OLD
    text = text.replace("Express (v2)", "Express (v1)")
    assert only(text, "00:01.0").config.express.atomic_routing is False, "version 1 has none"


def test_old_lspci_does_not_decode_resizable_bars():
    text = re.sub(r"Physical Resizable BAR\n\t\tBAR 0.*\n\t\tBAR 2.*", "Resizable BAR <?>", GPU)
    assert only(text).config.resizable_bars is OLD


def test_virtual_resizable_bars_are_not_the_functions():
    text = GPU.replace("Physical Resizable BAR", "Virtual Resizable BAR")
    assert only(text).config.resizable_bars == ()


def test_no_extended_capability_anywhere_may_mean_that_they_cannot_be_reached():
    text = re.sub(r"\tCapabilities: \[[0-9a-f]{3} v1\].*\n(?:\t\t.*\n)*", "", PORT)
    assert isinstance(only(text, "00:01.0").config.acs, Unknown)


# --- functions that are gone ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("03:00.0 VGA compatible controller: X (rev ff) (prog-if ff)\n\t!!! Unknown header type 7f\n", "header type 7f"),
        ("03:00.0 VGA compatible controller: X (rev c3)\n\t!!! Unknown header type 7f\n\tInterrupt: pin ?\n", "header type 7f"),
        ("03:00.0 VGA compatible controller: X (rev ff)\n", "reads as all ones"),
        ("03:00.0 VGA compatible controller: X\n00: ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff\n"
         + "".join(f"{n}0: {' '.join(['ff'] * 16)}\n" for n in (1, 2, 3)), "reads as all ones"),
    ],
)  # fmt: skip
def test_functions_that_are_gone(text, lost):
    gpu = only(text)
    assert gpu.config.lost == lost
    assert isinstance(gpu.config.acs, Unknown)
    assert isinstance(gpu.link, Unknown)


# --- cut, picked, wrapped ---------------------------------------------------------------------------------------------


def test_the_last_function_of_a_cut_text_lacks_nothing_for_sure():
    cut = GPU[: GPU.index("\tCapabilities: [200 v1]")]
    gpu = entries(PORT + "\n" + cut)["03:00.0"]
    assert gpu.link == Link(2.5, 16, 16.0, 16)
    assert gpu.config.acs is CUT
    assert gpu.config.resizable_bars is CUT
    assert gpu.driver is CUT


def test_the_last_function_of_a_whole_text_ends_with_its_driver():
    assert entries(GPU)["03:00.0"].config.acs is None
    assert entries(GPU.replace("\tKernel modules: amdgpu\n", ""))["03:00.0"].config.acs is None
    assert entries(GPU[:-30])["03:00.0"].config.acs is CUT, "amdg"


@pytest.mark.parametrize("mark", ["--", "...", "[...]", "[snip]", "…", "<snip>", "(truncated)", "[57 lines omitted]"])
def test_a_mark_says_that_lines_are_missing(mark):
    text = GPU[: GPU.index("\tCapabilities: [200 v1]")] + f"{mark}\n" + GPU[GPU.index("\tKernel driver") :]
    assert only(text).config.resizable_bars is CUT


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_width_cut_in_the_middle_is_no_width(lanes):
    text = GPU[: GPU.index("\tCapabilities: [64]")] + f"\t\tLnkSta:\tSpeed 8GT/s, Width x{lanes}"
    assert isinstance(entries(text)["03:00.0"].link.current_width, Unknown)


def test_bars_of_a_function_cut_among_them_are_not_known():
    assert entries(GPU[: GPU.index("\tRegion 4")])["03:00.0"].bars is CUT
    assert entries(GPU[: GPU.index("\tCapabilities: [64]")])["03:00.0"].bars[0].size_bytes == 32 * GIB


def test_a_bar_that_only_its_resizable_bar_capability_names_has_no_address():
    """Newer lspci prints no "<unassigned>" for what the kernel has no resource for."""
    found = only(re.sub(r"\tRegion 0.*\n", "", GPU)).bars
    assert [bar for bar in found if not bar.assigned] == [Bar(0, "mem", 0, 32 * GIB, True, True, False)]
    assert [bar.index for bar in found if bar.assigned] == [2, 4, 5, 6]
    assert [bar.index for bar in only(re.sub(r"\t(?:Region|Expansion).*\n", "", GPU)).bars] == [0, 2]
    picked = re.sub(r"\t(?:Region 0|Control).*\n", "", GPU)
    assert all(bar.assigned for bar in only(picked).bars), "somebody may have picked the other lines"


PICKED_LINES = """\
00:01.0 PCI bridge: Intel Corporation X
	Bus: primary=00, secondary=01, subordinate=01, sec-latency=0
		LnkSta:	Speed 16GT/s, Width x16
		ACSCtl:	SrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd- EgressCtrl- DirectTrans-
01:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090]
		LnkSta:	Speed 2.5GT/s (downgraded), Width x16
"""


def test_picked_lines_tell_what_they_show():
    port, gpu = (only(PICKED_LINES, address) for address in ("00:01.0", "01:00.0"))
    assert port.config.acs == Acs(0, 0)
    assert gpu.config.acs is None, "ACSCtl was picked, and it has no such line"
    assert gpu.config.aer is PICKED, "nobody picked these"
    assert gpu.config.express is PICKED
    assert gpu.link == Link(2.5, 16, PICKED, PICKED)
    assert isinstance(gpu.driver, Unknown)
    assert gpu.bars is PICKED


def test_a_function_whose_header_is_missing_adds_nothing_to_the_one_above():
    headless = GPU[GPU.index("\tControl") :].replace("[size=32G]", "[size=16K]").replace("amdgpu", "snd_hda_intel")
    entry = only(f"{PORT[: PORT.index(chr(10) + chr(9) + 'Capabilities: [80]')]}\n{headless}", "00:01.0")
    assert isinstance(entry.driver, Unknown)
    assert entry.bars == ()
    assert entry.config.acs is CUT


def test_lines_that_stand_below_no_header():
    lines = [
        "\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-",
        "",
        "  ACSCtl: SrcVa",
    ]
    listing = parse_lspci(lines)
    assert listing.entries == ()
    assert listing.loose_acs == ((0, Acs(0x1D, 0x1D)),)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\t", "        "),
        lambda text: text.replace("\t", "  "),
        lambda text: "".join(f"    {line}" for line in text.splitlines(keepends=True)),
        lambda text: "".join(f"{line.strip()}\n" for line in text.splitlines()),
        lambda text: text.replace("\n", "\n\n"),
        lambda text: text.replace("\n\t\t\tECRC", " ECRC"),
        lambda text: text.replace(", Width x", ",\n Width x"),
        lambda text: text.replace(" CmpltRedir", "\nCmpltRedir"),
        lambda text: text.replace(" 4GB 8GB", "\n4GB 8GB"),
    ],
    ids=[
        "tabs to eight",
        "tabs to two",
        "indented",
        "flat",
        "doubled",
        "unwrapped",
        "width wrapped",
        "ACS wrapped",
        "sizes wrapped",
    ],
)
def test_what_a_paste_does_to_blanks_changes_nothing(change):
    whole = parse_lspci(f"{PORT}\n{GPU}".split("\n")).entries
    changed = parse_lspci(change(f"{PORT}\n{GPU}").split("\n")).entries
    for ours, theirs in zip(changed, whole, strict=True):
        assert (ours.config, ours.link, ours.bars, ours.driver) == (theirs.config, theirs.link, theirs.bars, theirs.driver)


# --- hex dumps --------------------------------------------------------------------------------------------------------


def dump(space):
    rows = [space[start : start + 16] for start in range(0, len(space), 16)]
    return "".join(f"{16 * n:02x}: {row.hex(' ')}\n" for n, row in enumerate(rows))


def test_a_hex_dump_is_the_authority(config_space):
    space = config_space(vendor=0x1002, device=0x73A1).express(speed=3, width=8).acs(0x100, 0x5D, 0x1D).content()
    gpu = only(f"03:00.0 0300: 1002:0000\n{dump(space)}\n")
    assert (gpu.link.current_speed_gts, gpu.link.current_width) == (8.0, 8)
    assert gpu.config.acs == Acs(0x5D, 0x1D)
    assert gpu.identity.device == 0x73A1
    both = only(GPU.replace("\tKernel driver", dump(space) + "\tKernel driver"))
    assert both.link.current_width == 8
    assert both.bars[0].size_bytes == 32 * GIB, "a dump has no sizes"


def test_short_dumps_leave_the_text_its_say(config_space):
    space = config_space().express(speed=3, width=8).content()
    assert only(GPU.replace("\tKernel driver", dump(space[:64]) + "\tKernel driver")).link == Link(2.5, 16, 16.0, 16)
    assert isinstance(only(f"03:00.0 0300: 1002:73a1\n{dump(space[:64])}\n").link, Unknown)
    assert isinstance(only(f"03:00.0 0300: 1002:73a1\n{dump(space[:256])}\n").config.acs, Unknown)


# --- anything at all --------------------------------------------------------------------------------------------------

PIECES = sorted(set(f"{PORT}\n{GPU}\n{PICKED_LINES}".split("\n")) | {"--", "00: ff ff ff ff ff ff ff ff", "\t!!! X", ":"})


@given(st.text())
def test_any_text(text):
    parse_lspci(text.split("\n"))


@given(st.lists(st.sampled_from(PIECES), max_size=40), st.integers(0, 60))
def test_any_lines_cut_anywhere(lines, size):
    parse_lspci([*lines[:-1], *(line[:size] for line in lines[-1:])])


@given(st.integers(0, len(PORT) + len(GPU)))
def test_what_a_cut_text_tells_is_what_the_whole_text_tells(size):
    whole = entries(f"{PORT}\n{GPU}")
    for address, part in entries(f"{PORT}\n{GPU}"[:size]).items():
        agree(part, whole[address])


def agree(part, whole):
    """Whatever is known, absence included, is so in the whole text."""
    for name in ("driver", "link", "bars", "numa_node", "iommu_group", "port_type"):
        ours = getattr(part, name)
        if name == "link" and isinstance(ours, Link):
            assert all(isinstance(a, Unknown) or a == b for a, b in zip(ours_of(ours), ours_of(whole.link), strict=True))
        elif not isinstance(ours, Unknown) and not (name == "port_type" and ours is None):
            assert ours == getattr(whole, name), name
    if not isinstance(part.config, Unknown):
        for name in ("express", "acs", "aer", "resizable_bars", "sriov", "dpc"):
            ours, theirs = getattr(part.config, name), getattr(whole.config, name)
            if isinstance(ours, Express):
                assert all(isinstance(a, Unknown) or a == b for a, b in zip(ours_of(ours), ours_of(theirs), strict=True))
            else:
                assert isinstance(ours, Unknown) or ours == theirs, name


def ours_of(struct):
    return [getattr(struct, name) for name in struct.__struct_fields__]
