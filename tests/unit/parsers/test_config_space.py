from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.facts.pci import Acs, Aer, ConfigFacts, Dpc, Express, ResizableBar, Sriov
from hostdoctor.facts.unknown import NEEDS_ROOT, Unknown
from hostdoctor.parsers import config_space as decoder
from hostdoctor.parsers.config_space import read_config

MIB = 1 << 20
# Config space of a Radeon Pro V620 behind its own switch, as far as it is not zero.
V620 = {
    0x000: "0210a173060410 00c0008003100000000c000000703800000c000000783800000000000000 00b09d0000000002 10340e",
    0x030: "0000c09d48000000000000000b010000",
    0x048: "09500800000000000164 03f6080000000000000000000000",
    0x064: "10a01200a18f000030290000040d400040000411",
    0x088: "9f091300400000001e00800104001e00",
    0x0A0: "050081000000e0fe0000000021",
    0x100: "0b00011501000101",
    0x150: "0100022000000000000000003020060000000000 00200000a0",
    0x200: "1500012400f00f00400f0000e01f000042010000",
    0x240: "04000127",
    0x270: "1900012a",
    0x2A0: "0d00012d",
    0x2D0: "1b00013206100000",
    0x320: "18000141460846080000",
}


def reader(data):
    return lambda offset, size: data[offset : offset + size]


def v620(size=4096):
    data = bytearray(4096)
    for offset, digits in V620.items():
        part = bytes.fromhex(digits)
        data[offset : offset + len(part)] = part
    return bytes(data[:size])


def test_a_radeon_pro_v620_is_decoded():
    facts = read_config(reader(v620()))
    assert facts == ConfigFacts(
        express=Express(
            port_type=1,
            slot_implemented=False,
            max_payload_supported_bytes=256,
            max_payload_bytes=256,
            max_read_request_bytes=512,
            max_speed_gts=16.0,
            max_width=16,
            current_speed_gts=16.0,
            current_width=16,
            target_speed_gts=16.0,
            aspm_control=0,
            link_training=False,
            atomic_routing=False,
            atomic_32_completer=True,
            atomic_64_completer=True,
            atomic_128_completer=False,
            atomic_requester_enabled=True,
            atomic_egress_blocked=False,
        ),
        acs=Acs(0, 0),
        aer=Aer(0, 0),
        resizable_bars=(
            ResizableBar(0, 32768 * MIB, tuple(MIB << n for n in range(8, 16))),
            ResizableBar(2, 2 * MIB, tuple(MIB << n for n in range(1, 9))),
        ),
        bar_registers=(0x0C, 0x3870, 0x0C, 0x3878, 0, 0x9DB00000),
        header_type=0,
        revision=0xC0,
    )


def test_little_is_read():
    calls = []

    def read_at(offset, size):
        calls.append((offset, size))
        return v620()[offset : offset + size]

    read_config(read_at)
    assert sum(size for _, size in calls) < 180
    assert max(size for _, size in calls) == 64


def test_an_ordinary_user_learns_that_root_is_needed():
    facts = read_config(reader(v620(64)))
    unknown = (facts.express, facts.acs, facts.aer, facts.resizable_bars, facts.sriov, facts.dpc)
    assert unknown == (NEEDS_ROOT,) * 6
    assert facts.bar_registers == (0x0C, 0x3870, 0x0C, 0x3878, 0, 0x9DB00000)
    assert (facts.header_type, facts.revision) == (0, 0xC0)


def test_a_function_without_capabilities_needs_no_root(config_space):
    space = config_space(size=64)
    assert read_config(space.read_at).express is None
    assert read_config(space.read_at).acs is None


def test_the_status_register_says_whether_there_is_a_chain(config_space):
    space = config_space().express()
    space.data[0x06] &= ~0x10
    assert read_config(space.read_at).express is None


def test_conventional_pci_has_no_extended_capabilities(config_space):
    facts = read_config(config_space(size=256).capability(0x01, 0x40).capability(0x05, 0x50).read_at)
    assert (facts.express, facts.acs, facts.aer, facts.sriov, facts.dpc) == (None,) * 5
    assert facts.resizable_bars == ()


@pytest.mark.parametrize("cut", ["file ends", "all ones"])
def test_pci_express_without_readable_extended_space(config_space, cut):
    space = config_space(size=256 if cut == "file ends" else 4096).express()
    if cut == "all ones":
        space.put(0x100, "I", 0xFFFFFFFF)
    facts = read_config(space.read_at)
    assert isinstance(facts.express, Express)
    assert facts.acs == Unknown("extended config space is not readable")
    assert facts.resizable_bars == facts.sriov == facts.dpc == facts.aer == facts.acs


def test_an_empty_extended_space_means_no_such_capability(config_space):
    facts = read_config(config_space().express().read_at)
    assert (facts.acs, facts.aer, facts.sriov, facts.dpc, facts.resizable_bars) == (None, None, None, None, ())


@pytest.mark.parametrize("size", range(64))
def test_without_a_whole_header_nothing_is_known(size):
    assert read_config(reader(v620(size))) == decoder.NOT_READABLE


@pytest.mark.parametrize("size", [65, 0x66, 0x67, 0x70, 0x8D, 0x94, 0x95])
def test_config_space_cut_within_the_standard_capabilities(size):
    facts = read_config(reader(v620(size)))
    assert facts.express == facts.acs == facts.resizable_bars == decoder.TRUNCATED


def test_config_space_cut_between_extended_capabilities():
    facts = read_config(reader(v620(0x240)))
    assert facts.aer == Aer(0, 0)
    assert len(facts.resizable_bars) == 2
    assert facts.acs == facts.sriov == facts.dpc == decoder.TRUNCATED


@pytest.mark.parametrize("size", [0x204, 0x20B, 0x20C, 0x213])
def test_resizable_bars_cut_in_the_middle(size):
    assert read_config(reader(v620(size))).resizable_bars == decoder.TRUNCATED


def test_a_function_that_reads_as_all_ones_is_lost():
    facts = read_config(reader(b"\xff" * 4096))
    assert facts.lost == "reads as all ones"
    assert facts.express == facts.acs == decoder.ALL_ONES


def test_a_virtual_function_has_no_vendor_id_and_is_not_lost(config_space):
    facts = read_config(config_space(vendor=0xFFFF, device=0xFFFF).express().read_at)
    assert facts.lost == ""
    assert facts.express.current_width == 16


@pytest.mark.parametrize("byte", [0x7F, 0xFF])
def test_header_type_7f_is_lost(config_space, byte):
    facts = read_config(config_space(header_type=byte).read_at)
    assert facts.lost == "header type 7f"
    assert facts.header_type == 0x7F
    assert facts.bar_registers == ()
    assert isinstance(facts.express, Unknown)


def test_a_function_lost_during_the_walk():
    def read_at(offset, size):
        return v620()[offset : offset + size] if offset < 0x48 else b"\xff" * size

    facts = read_config(read_at)
    assert facts.express == facts.acs == decoder.ALL_ONES


def test_a_bridge(config_space):
    space = config_space(header_type=0x81).bars(0x9DD00000, 0x38780000).buses(0x1B, 0x1C, 0x1D).express(port_type=5)
    facts = read_config(space.read_at)
    assert facts.bar_registers == (0x9DD00000, 0x38780000)
    assert (facts.secondary_bus, facts.subordinate_bus, facts.header_type) == (0x1C, 0x1D, 1)
    assert facts.express.port_type == 5


def test_a_cardbus_bridge_has_its_pointer_elsewhere(config_space):
    facts = read_config(config_space(header_type=2).express().read_at)
    assert facts.express.max_width == 16
    assert facts.bar_registers == ()
    assert facts.secondary_bus is None


@pytest.mark.parametrize(
    ("code", "speed"), [(1, 2.5), (2, 5.0), (3, 8.0), (4, 16.0), (5, 32.0), (6, 64.0)] + [(n, None) for n in (0, 7, 15)]
)
def test_speed_codes(config_space, code, speed):
    express = read_config(config_space().express(max_speed=code, speed=code, target=code).read_at).express
    expected = Unknown(f"reserved speed code {code}") if speed is None else speed
    assert (express.max_speed_gts, express.current_speed_gts, express.target_speed_gts) == (expected,) * 3


def test_a_version_1_capability_ends_before_the_second_registers(config_space):
    space = config_space().express(version=1, position=0xD8, devcap2=0, devctl2=0)
    space.put(0xD8 + 0x24, "I", 0xFFFFFFFF)
    express = read_config(space.read_at).express
    assert (express.max_speed_gts, express.current_width) == (16.0, 16)
    assert express.target_speed_gts == decoder.NO_TARGET_SPEED
    assert (express.atomic_routing, express.atomic_32_completer, express.atomic_64_completer) == (False,) * 3


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("port_type", [9, 10])
def test_functions_of_the_root_complex_have_no_link(config_space, version, port_type):
    space = config_space().express(version=version, port_type=port_type, devcap2=0x80)
    express = read_config(space.read_at).express
    assert express.max_speed_gts == express.current_speed_gts == express.target_speed_gts == decoder.NO_LINK
    assert (express.max_width, express.current_width) == (0, 0)
    assert express.max_payload_bytes == 256
    assert express.atomic_32_completer == (version == 2)


def test_rows_name_the_fields_of_their_types_in_order():
    for rows, struct_type in (
        (decoder._EXPRESS, Express),
        (decoder._AER, Aer),
        (decoder._ACS, Acs),
        (decoder._SRIOV, Sriov),
        (decoder._DPC, Dpc),
    ):
        assert tuple(row[0] for row in rows) == struct_type.__struct_fields__


def test_extended_capabilities(config_space):
    space = (
        config_space()
        .express(port_type=4, slot=1, aspm=3, training=1, devcap2=0x40 | 0x200, devctl2=0xC0)
        .extended(0x0B, 0x100, bytes(12))
        .aer(0x150, 0x00100020, 0x00001040)
        .acs(0x1B0, 0x5F, 0x1D)
        .sriov(0x200, 16, 4)
        .dpc(0x260, 0x0005)
    )
    facts = read_config(space.read_at)
    assert facts.aer == Aer(0x00100020, 0x00001040)
    assert facts.acs == Acs(0x5F, 0x1D)
    assert facts.acs.redirects
    assert facts.sriov == Sriov(16, 4)
    assert facts.dpc == Dpc(True, 2)
    express = facts.express
    assert (express.slot_implemented, express.aspm_control, express.link_training) == (True, 3, True)
    assert (express.atomic_routing, express.atomic_128_completer, express.atomic_64_completer) == (True, True, False)
    assert (express.atomic_requester_enabled, express.atomic_egress_blocked) == (True, True)


def test_sizes_of_a_resizable_bar_above_128_tib(config_space):
    space = config_space().express().resizable_bars(0x100, (0, 43, 1 << 43 | 1 << 28 | 1 << 27 | 1))
    assert read_config(space.read_at).resizable_bars == (ResizableBar(0, 1 << 63, (MIB, 1 << 47, 1 << 48, 1 << 63)),)


@pytest.mark.parametrize("count", range(1, 7))
def test_resizable_bars_up_to_six(config_space, count):
    space = config_space().express().resizable_bars(0x100, *((bar, bar, 0x3F) for bar in range(count)))
    sizes = tuple(MIB << n for n in range(6))
    assert read_config(space.read_at).resizable_bars == tuple(ResizableBar(bar, MIB << bar, sizes) for bar in range(count))


def test_the_kernels_quirk_for_too_few_sizes(config_space):
    space = config_space(device=0x731F).express().resizable_bars(0x100, (0, 8, 0x700))
    assert read_config(space.read_at).resizable_bars[0].sizes_bytes == tuple(MIB << n for n in range(8, 14))


def test_the_first_of_two_equal_capabilities_counts(config_space):
    space = config_space().express().acs(0x100, 1, 1).acs(0x140, 2, 2)
    assert read_config(space.read_at).acs == Acs(1, 1)


@pytest.mark.parametrize("target", [0x40, 0x50, 0x60])
def test_a_looping_standard_chain_ends(config_space, target):
    space = config_space().capability(0x01, 0x40).capability(0x05, 0x50).capability(0x11, 0x60).loop_back(target)
    assert read_config(space.read_at).express is None


@pytest.mark.parametrize("target", [0x100, 0x140, 0x04, 0xFC])
def test_a_looping_extended_chain_ends(config_space, target):
    space = config_space().express().acs(0x100, 1, 1).extended(0x03, 0x140).extended_loop_back(target)
    facts = read_config(space.read_at)
    assert (facts.acs, facts.aer) == (Acs(1, 1), None)


def test_pointers_are_masked_to_dwords(config_space):
    space = config_space().capability(0x01, 0x40).express(position=0x50)
    space.data[0x34] |= 0x3
    space.data[0x41] |= 0x2
    assert read_config(space.read_at).express.max_width == 16


STANDARD = st.permutations(range(0x40, 0x100, 0x40)).flatmap(
    lambda places: st.lists(st.sampled_from([0x01, 0x03, 0x05, 0x09, 0x0D, 0x11, 0x14]), max_size=2).map(
        lambda ids: list(zip(ids, places, strict=False))
    )
)
EXTENDED = st.permutations(range(0x140, 0x1000, 0x40)).flatmap(
    lambda places: st.permutations(["acs", "aer", "sriov", "dpc", "rebar", 0x03, 0x0E, 0x19, 0x25]).flatmap(
        lambda kinds: st.integers(0, len(kinds)).map(lambda n: list(zip(kinds[:n], places, strict=False)))
    )
)


def add(space, kind, place, numbers):
    """Adds a capability, and gives its name and what should be read of it."""
    low, high = numbers & 0xFFFF, numbers >> 16
    if kind == "acs":
        return space.acs(place, low, high) and ("acs", Acs(low, high))
    if kind == "aer":
        return space.aer(place, numbers, numbers ^ 0xFFFF) and ("aer", Aer(numbers, numbers ^ 0xFFFF))
    if kind == "sriov":
        return space.sriov(place, low, high) and ("sriov", Sriov(low, high))
    if kind == "dpc":
        return space.dpc(place, low) and ("dpc", Dpc(bool(low & 1), low >> 1 & 3))
    if kind == "rebar":
        space.resizable_bars(place, (low % 6, 8, high))
        sizes = tuple(MIB << n for n in range(16) if high >> n & 1)
        return "resizable_bars", (ResizableBar(low % 6, 256 * MIB, sizes),)
    return space.extended(kind, place) and ("", None)


@given(st.data())
def test_random_chains_are_read_back(config_space, data):
    space = config_space()
    standard = data.draw(STANDARD)
    for number, place in standard:
        space.capability(number, place)
    taken = {place for _, place in standard}
    free = sorted({0x40, 0x80, 0xC0} - taken)
    width = data.draw(st.integers(0, 63))
    space.express(position=free[0], width=width)
    space.extended(0x0B, 0x100)
    expected = {}
    for kind, place in data.draw(EXTENDED):
        name, value = add(space, kind, place, data.draw(st.integers(0, 0xFFFFFFFF)))
        expected[name] = value
    if data.draw(st.booleans()):
        space.extended_loop_back(0x100)
    facts = read_config(space.read_at)
    assert facts.express.current_width == width
    for name, absent in (("acs", None), ("aer", None), ("sriov", None), ("dpc", None), ("resizable_bars", ())):
        assert getattr(facts, name) == expected.get(name, absent)


@given(st.binary(max_size=600), st.integers(0, 4096))
def test_arbitrary_bytes_give_facts(noise, size):
    data = (noise + v620()[len(noise) :])[:size]
    assert isinstance(read_config(reader(data)), ConfigFacts if size >= 64 else Unknown)


@given(st.lists(st.integers(0, 0xFFFFFFFF), min_size=1024, max_size=1024), st.booleans())
def test_arbitrary_chains_end(words, express):
    data = bytearray(struct.pack("<1024I", *words))
    data[0x00:0x10] = v620()[:0x10]
    if express:
        data[0x34] = 0x48
        data[0x48:0x4C] = b"\x10\x00\x12\x00"
    positions = []

    def read_at(offset, size):
        positions.append(offset)
        return bytes(data[offset : offset + size])

    assert isinstance(read_config(read_at), ConfigFacts)
    assert len(positions) < 2 * 1024
