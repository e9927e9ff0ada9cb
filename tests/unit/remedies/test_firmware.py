"""What a guide asks for: only what findings need, for this board, with values that fit."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.diagnosis import diagnose
from hostdoctor.facts.driver import ErrorCounters, Nvml, NvmlGpu
from hostdoctor.facts.host import Cpu, Environment, MemoryMap
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.registry import built_in
from hostdoctor.remedies.arithmetic import choice_bytes
from hostdoctor.remedies.firmware import NOT_VISIBLE, NOTHING, as_json, firmware_guide
from hostdoctor.view import View

GIB, TIB = 1 << 30, 1 << 40


def named(guide):
    return {each.id: (each.setting, each.now, each.target) for each in guide.settings}


def entry(guide, id_):
    return next(each for each in guide.settings if each.id == id_)


# --- the host this was first seen on ----------------------------------------------------------------------------------


def test_bars_at_56_tib_ask_for_a_lower_base(far, guide_of):
    guide = guide_of(far())
    assert named(guide) == {
        "mmio-base": ("MMIO High Base", "56T", "4T"),
        "mmio-size": ("MMIO High Granularity Size", "256G", "1024G"),
    }
    base = entry(guide, "mmio-base")
    assert base.path == "Advanced > PCIe/PCI/PnP Configuration"
    assert base.confidence == "certain"
    assert "BIOS 2.0 of X11DPG-QT" in base.seen
    assert "4T + 8 root buses x 1024G = 12T" in base.sums[0]
    assert "16T = 2^44" in base.sums[0]
    assert "0x100000000000, already needs 45 bits" in base.sums[1]
    assert base.because[0].startswith("bar-reach 0000:43:00.0")
    assert base.now_seen[0].value == "380000000000-383fffffffff : PCI Bus 0000:00"
    assert "256G, as today, would do" in " ".join(entry(guide, "mmio-size").sums)
    assert not guide.nothing


def test_once_done_there_is_nothing_to_change(far, guide_of):
    guide = guide_of(far(base=4 * TIB, granule=TIB))
    assert guide.nothing == NOTHING
    assert (guide.settings, guide.ways, as_json(guide)) == ((), (), [])


def test_the_entries_in_json(far, guide_of):
    first = as_json(guide_of(far()))[0]
    assert {key: first[key] for key in ("setting", "now", "target", "path", "confidence")} == {
        "setting": "MMIO High Base",
        "now": "56T",
        "target": "4T",
        "path": "Advanced > PCIe/PCI/PnP Configuration",
        "confidence": "certain",
    }
    assert first["role"] == "needed"
    json.dumps(first)


def test_the_same_without_the_menu(far, guide_of):
    sum_, redfish = guide_of(far()).ways
    assert sum_.commands[0] == "sum -c GetCurrentBiosCfg --file bios.xml"
    assert '# in bios.xml, at "MMIO High Base": selectedOption="4T"' in sum_.commands
    assert json.loads(redfish.body) == {"Attributes": {"<MMIO High Base>": "4T", "<MMIO High Granularity Size>": "1024G"}}
    assert "@Redfish.Settings" in redfish.note


# --- only what is needed, and only on a machine of one's own ----------------------------------------------------------


def test_a_guest_gets_no_guide(far, guide_of, build):
    guide = guide_of(far(environment=build.GUEST))
    assert "virtual machine" in guide.nothing
    assert not guide.settings


def test_a_container_is_told_where_to_look(far, guide_of):
    guide = guide_of(far(environment=Environment("bare-metal", container="docker")))
    assert "on the host itself" in guide.nothing
    assert not guide.settings


def test_hosts_in_order_need_nothing(build, guide_of):
    for host in (
        build.host(build.two_navi_cards()),
        build.host(build.two_nvidia_gpus(bar_at=56 * TIB, bar_size=32 * GIB)),
        build.host(build.below_one_switch()),
        build.host(),
    ):
        guide = guide_of(host)
        assert (guide.nothing, guide.settings, guide.notes) == (NOTHING, (), ())


def test_what_could_not_be_judged_proves_no_need(build, guide_of):
    """A BAR in the range of HyperTransport: unknown, although a remedy is named."""
    host = build.host(build.two_navi_cards(bar_at=0xFD00000000))
    assert guide_of(host).nothing == NOTHING


def test_what_translation_carries_is_optional(far, build, guide_of):
    cards = build.two_navi_cards(bar_at=56 * TIB, iommu_type="DMA-FQ")
    guide = guide_of(far(cards=cards, kernel="6.12.10"))
    assert {each.role for each in guide.settings} == {"optional"}
    assert entry(guide, "mmio-base").target == "4T"


# --- base and size ----------------------------------------------------------------------------------------------------


def test_without_the_memory_map_the_bars_tell_the_base(far, guide_of):
    """An ordinary user sees no addresses in /proc/iomem: buses are counted by the kernel's own tree."""
    host = far(seen=False, apertures=Unknown("addresses in /proc/iomem are hidden from ordinary users", "run with sudo"))
    guide = guide_of(host)
    assert named(guide)["mmio-base"] == ("MMIO High Base", "56T", "4T")
    assert named(guide)["mmio-size"] == ("MMIO High Granularity Size", NOT_VISIBLE, "1024G")
    assert "4T + 2 root buses x 1024G" in entry(guide, "mmio-base").sums[0]


def test_where_buses_cannot_be_counted_the_most_are_taken(far, build, guide_of):
    functions = build.host(build.two_navi_cards(bar_at=56 * TIB)).functions.values()
    cards = [build.changed([each], each.address, origin="lspci.txt:1") for each in functions]
    guide = guide_of(far(cards=cards, seen=False))
    assert named(guide)["mmio-base"][2] == "4T"
    assert named(guide)["mmio-size"][2] == "256G"
    assert "32 root buses x 256G (the most there can be" in entry(guide, "mmio-base").sums[0]


def test_memory_above_the_choices_leaves_none(far, guide_of):
    host = far()
    full = MemoryMap(host.memory_map.apertures, 6 * TIB - 1)
    guide = guide_of(far(memory_map=full))
    assert guide.nothing == NOTHING
    assert "no choice (56T, 40T" in guide.notes[0]
    assert "16T = 2^44" in guide.notes[0]


def test_memory_is_named_where_it_is_known(far, guide_of):
    host = far()
    guide = guide_of(far(memory_map=MemoryMap(host.memory_map.apertures, 0x207FFFFFFF)))
    assert "Memory ends at 0x207fffffff, below 4T." in entry(guide, "mmio-base").sums


def test_the_processors_own_bits_count_too(far, build, guide_of):
    cpu = Cpu("GenuineIntel", 6, 85, "Intel Xeon", physical_bits=42)
    base = entry(guide_of(far(cpu=cpu)), "mmio-base")
    assert base.target == "2T"
    assert "address sizes: 42 bits physical" in base.sums[0]


def test_other_boards_have_other_choices(far, dmi, guide_of):
    cases = {
        ("Dell Inc.", "0DPRKF", "Dell Inc.", "PowerEdge R740"): ("Memory Mapped I/O Base", "56TB", "12TB"),
        ("Supermicro", "X10DRG-Q", "Supermicro", "x"): ("MMIOHBase", "56T", "4T"),
        ("HUANANZHI", "X99-F8", "INTEL", "X99"): ("MMIOHBase", "56T", "4T"),
        ("Inspur", "x", "Inspur", "NF5280M6"): ("MMIO High Base", "56T", "4T"),
        ("Cisco Systems Inc", "x", "Cisco Systems Inc", "UCSC-C240-M5"): ("MMIO High Base", "56T", "4T"),
        ("Intel Corporation", "M50CYP2SB1U", "x", "x"): ("MMIO High Base", "56T", "4T"),
    }
    for strings, wanted in cases.items():
        assert named(guide_of(far(firmware=dmi(*strings))))["mmio-base"] == wanted


def test_an_unknown_board_gets_the_generic_guide(far, dmi, guide_of):
    guide = guide_of(far(firmware=dmi("Nobody", "NB-1", "Nobody", "NB-1")))
    base = entry(guide, "mmio-base")
    assert (guide.board.family, base.confidence, base.known_here) == ("", "possible", False)
    assert (base.now, base.target) == ("56T", "4T")
    assert "MMIOH Base" in base.synonyms
    assert guide.ways == ()


def test_a_desktop_board_is_sent_to_no_servers_menu(far, dmi, guide_of):
    cpu = Cpu("GenuineIntel", 6, 63, "Intel(R) Core(TM) i7-6900K")
    guide = guide_of(far(firmware=dmi("Nobody", "NB-1", chassis="3"), cpu=cpu))
    assert guide.nothing == NOTHING
    assert "desktop board has no option" in guide.notes[0]


def test_a_laptop_is_sent_to_no_servers_menu(far, small, lacking, dmi, guide_of):
    for host in (far, small, lacking):
        guide = guide_of(host(firmware=dmi("LENOVO", "20XX", "LENOVO", "ThinkPad", chassis="10"), cpu=Cpu(name="Intel Xeon W")))
        assert {each.id for each in guide.settings} <= {"above-4g", "resizable-bar"}
        assert "MMIO High" not in str(guide)
        assert guide.ways == ()


def test_a_desktop_without_room_is_told_so(lacking, dmi, guide_of):
    guide = guide_of(lacking(firmware=dmi("Nobody", "NB-1", chassis="3"), cpu=Cpu(name="AMD Ryzen 9 7950X")))
    assert guide.nothing == NOTHING
    assert "desktop board has no option" in guide.notes[0]


def test_where_the_base_cannot_move_the_iommu_is_named(far, dmi, build, guide_of):
    asus = dmi("ASUSTeK COMPUTER INC.", "Z10PE-D8 WS", "ASUSTeK COMPUTER INC.", "Z10PE-D8 WS")
    old = guide_of(far(firmware=asus))
    assert "hidden" in old.notes[0]
    assert "only under Linux 6.12" in old.notes[1]
    on = guide_of(far(firmware=asus, kernel="6.12.10"))
    assert "let the IOMMU translate" in on.notes[1]
    off = guide_of(far(firmware=asus, kernel="6.12.10", units=()))
    assert [(each.id, each.role, each.now, each.target) for each in off.settings] == [("iommu", "instead", "off", "Enabled")]


def test_amd_desktops_have_a_limit_instead_of_a_base(far, dmi, guide_of):
    cpu = Cpu("AuthenticAMD", 0x19, 0x61, "AMD Ryzen 9 7950X", physical_bits=48)
    guide = guide_of(far(firmware=dmi("ASUSTeK COMPUTER INC.", "PRIME X670-P", chassis="3"), cpu=cpu))
    assert named(guide)["mmio-base"] == ("Above 4GB MMIO Limit", NOT_VISIBLE, "40bit (1 TB)")
    ranges = far().memory_map.apertures
    board = dmi("ASUSTeK COMPUTER INC.", "PRIME X670-P", chassis="3")
    full = guide_of(far(firmware=board, cpu=cpu, memory_map=MemoryMap(ranges, 1000 * GIB)))
    assert named(full)["mmio-base"][2] == "44bit"


BASES = st.sampled_from((16, 20, 24, 32, 40, 56))
GRANULES = st.sampled_from((64 * GIB, 128 * GIB, 256 * GIB, 512 * GIB, TIB))
BOARDS = st.sampled_from(
    (
        ("Supermicro", "X11DPG-QT", "Supermicro", "x"),
        ("Supermicro", "X10DRG-Q", "Supermicro", "x"),
        ("Supermicro", "X12DPG", "Supermicro", "x"),
        ("Dell Inc.", "x", "Dell Inc.", "PowerEdge R740"),
        ("Nobody", "x", "Nobody", "x"),
    )
)


FAR_HOSTS = st.fixed_dictionaries(
    {
        "base": BASES,
        "granule": GRANULES,
        "strings": BOARDS,
        "memory_end": st.integers(4 * GIB, 12 * TIB),
        "vendor": st.sampled_from(("GenuineIntel", "AuthenticAMD")),
        "bar_size": st.sampled_from((8 * GIB, 16 * GIB, 32 * GIB)),
    }
)


@given(shape=FAR_HOSTS)
def test_what_is_asked_for_always_lies_within_reach(shape, far, dmi, build, guide_of):
    base, granule = shape["base"] * TIB, shape["granule"]
    facts = {
        "cards": build.two_navi_cards(bar_at=base + 3 * granule, bar_size=shape["bar_size"]),
        "firmware": dmi(*shape["strings"]),
        "cpu": Cpu(shape["vendor"], 6, 85, "x", physical_bits=48),
    }
    ranges = far(base, granule, **facts).memory_map.apertures
    guide = guide_of(far(base, granule, memory_map=MemoryMap(ranges, shape["memory_end"]), **facts))
    made = {each.id: each for each in guide.settings}
    if "mmio-base" not in made:
        assert guide.notes
        return
    first = choice_bytes(made["mmio-base"].target)
    end = first + 8 * (choice_bytes(made["mmio-size"].target) if "mmio-size" in made else granule)
    assert shape["memory_end"] < first
    assert end <= 1 << 44
    assert shape["vendor"] != "AuthenticAMD" or first > 0xFFFFFFFFFF or end <= 0xFD00000000


# --- space and Resizable BAR ------------------------------------------------------------------------------------------


def test_resizable_bar_needs_above_4g_first(small, dmi, guide_of):
    guide = guide_of(small(firmware=dmi("Supermicro", "H12SSL-i", "Supermicro", "x")))
    assert [each.id for each in guide.settings] == ["above-4g", "resizable-bar"]
    assert [each.setting for each in guide.settings] == ["Above 4G Decoding", "Re-Size BAR Support"]
    assert entry(guide, "above-4g").now == "off, or without effect"
    assert entry(guide, "resizable-bar").now == "not in force"
    assert "CSM" in " ".join(guide.before)


def test_above_4g_is_not_asked_for_where_it_is_on(small, guide_of):
    host = small(bar_at=6 * TIB, apertures=(("0000:40", 6 * TIB, 7 * TIB - 1), ("0000:80", 7 * TIB, 8 * TIB - 1)))
    assert [each.id for each in guide_of(host).settings] == ["resizable-bar"]


def test_where_nothing_shows_whether_it_is_on_it_is_asked_for(small, guide_of):
    host = small(apertures=Unknown("not in this evidence"))
    assert entry(guide_of(host), "above-4g").now == NOT_VISIBLE


def test_a_board_without_the_option_says_what_helps(small, dmi, guide_of):
    ranges = (("0000:40", 6 * TIB, 8 * TIB - 1), ("0000:80", 8 * TIB, 9 * TIB - 1))
    board = dmi("Supermicro", "H11SSL-i", "Supermicro", "x")
    guide = guide_of(small(bar_at=6 * TIB, apertures=ranges, firmware=board))
    assert guide.nothing == NOTHING
    assert "resourceN_resize" in guide.notes[0]


def test_too_small_a_range_asks_for_a_larger_one(lacking, dmi, guide_of, build):
    host = lacking(start=4 * TIB, firmware=dmi("Supermicro", "X11DPi-N", "Supermicro", "x"), cpu=build.INTEL)
    guide = guide_of(host)
    assert named(guide) == {"mmio-size": ("MMIO High Granularity Size", "16G", "1024G")}
    assert "The BARs below root bus 0000:40 need 32G" in entry(guide, "mmio-size").sums[0]
    assert "Above 4G Decoding is on already" in entry(guide, "mmio-size").sums[-1]


@pytest.mark.parametrize(
    ("strings", "wanted"),
    [
        (("HPE", "x", "HPE", "ProLiant DL380 Gen10"), ("PCI Resource Padding", "High")),
        (("GIGABYTE", "MZ22-G20", "GIGABYTE", "x"), ("Prefetchable MMIO Above 4G Size", "32G or more")),
        (("HUANANZHI", "X79-8D", "x", "x"), ("MMIOH Size", "128G")),
        (("Nobody", "NB-1", "x", "x"), ("MMIO High Size", "32G or more for each root bus")),
    ],
)
def test_sizes_as_each_board_asks_for_them(lacking, dmi, guide_of, strings, wanted):
    made = named(guide_of(lacking(firmware=dmi(*strings), cpu=Cpu("GenuineIntel", 6, 85, "x"))))
    assert (made["mmio-size"][0], made["mmio-size"][2]) == wanted


def test_room_on_the_root_bus_needs_no_setting(lacking, guide_of):
    guide = guide_of(lacking(size=64 * GIB))
    assert guide.nothing == NOTHING
    assert "The root bus has room for 0000:41:00.0" in guide.notes[0]


def test_what_no_processor_can_hold_needs_no_setting(lacking, guide_of):
    guide = guide_of(lacking(start=16 * GIB, cpu=Cpu("GenuineIntel", 6, 62, "Intel Xeon", physical_bits=35)))
    assert guide.nothing == NOTHING
    assert "no setting of the firmware changes that" in guide.notes[0]


# --- ACS, link speed --------------------------------------------------------------------------------------------------


def test_acs_is_the_kernels_with_an_iommu_and_the_firmwares_without(build, dmi, guide_of):
    switch = build.below_one_switch(acs=build.REDIRECT)
    epyc = {"firmware": dmi("Supermicro", "H12SSL-i", "Supermicro", "x"), "cpu": Cpu("AuthenticAMD", 0x19, 1, "AMD EPYC 7543")}
    assert guide_of(build.host(switch, **epyc)).nothing == NOTHING
    off = guide_of(build.host(build.below_one_switch(acs=build.REDIRECT, iommu_type=None), units=(), **epyc))
    assert [(each.setting, each.role, each.target) for each in off.settings] == [("ACS Enable", "instead", "Disable")]
    assert off.ways == ()


def test_a_slot_set_to_a_lower_generation(build, dmi, guide_of):
    port = build.root_port("0000:40:01.1", at=build.link(8.0, 16, 16.0, 16), config=None)
    express = build.express(4, target_speed_gts=8.0, current_speed_gts=8.0)
    port = build.changed([port], port.address, config=type(port.config)(express=express))[0]
    host = build.host(
        port,
        build.gpu("0000:41:00.0", build.A5000, port.address, at=build.link(8.0, 16, 16.0, 16)),
        facts={"0000:41:00.0": build.gpu_facts(busy=90)},
        firmware=dmi("Supermicro", "X12DPG-QT6", "Supermicro", "x"),
    )
    speed = entry(guide_of(host), "slot-speed")
    assert (speed.setting, speed.role, speed.now, speed.target) == ("Link Speed", "needed", "Gen3", "Auto")


def test_a_storm_of_errors_is_a_reason_to_try_a_lower_one(build, dmi, guide_of):
    card = build.navi_card(0x41, "0000:40:01.1")
    up = "0000:41:00.0"
    before = build.counters(*(errors_at(up, 0),)).values()
    after = build.counters(*(errors_at(up, 500),)).values()
    watched = build.samples({"0000:43:00.0": [(16.0, 16)] * 3}, before=before, after=after)
    host = build.host(
        build.root_port("0000:40:01.1"),
        card,
        samples=watched,
        error_counters=dict(build.host(build.root_port("0000:40:01.1"), card).error_counters, **{up: errors_at(up, 500)}),
        firmware=dmi("Supermicro", "X12DPG-QT6", "Supermicro", "x"),
    )
    speed = entry(guide_of(host), "slot-speed")
    assert (speed.role, speed.target) == ("trial", "Gen 3")
    assert speed.value == ""


def errors_at(address, errors):
    return ErrorCounters(address, correctable={"BadTLP": errors} if errors else {})


# --- other tools ------------------------------------------------------------------------------------------------------


def test_dell_by_racadm_and_redfish(far, dmi, guide_of):
    racadm, redfish = guide_of(far(firmware=dmi("Dell Inc.", "0DPRKF", "Dell Inc.", "PowerEdge R740"))).ways
    assert racadm.commands == (
        "racadm get BIOS.IntegratedDevices.MemoryMappedIOH",
        "racadm set BIOS.IntegratedDevices.MemoryMappedIOH 12TB",
        "racadm jobqueue create BIOS.Setup.1-1 -r pwrcycle -s TIME_NOW",
    )
    assert json.loads(redfish.body) == {
        "@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"},
        "Attributes": {"MemoryMappedIOH": "12TB"},
    }


def test_hpe_by_ilorest(lacking, dmi, guide_of):
    ilorest, redfish = guide_of(lacking(firmware=dmi("HPE", "x", "HPE", "ProLiant DL380 Gen10"))).ways
    assert "ilorest get PciResourcePadding" in ilorest.commands
    assert "ilorest set PciResourcePadding=High" in ilorest.commands
    assert json.loads(redfish.body) == {"Attributes": {"PciResourcePadding": "High"}}


def test_lenovo_by_onecli(small, dmi, guide_of):
    onecli, redfish = guide_of(small(firmware=dmi("Lenovo", "x", "Lenovo", "ThinkSystem SR650"))).ways
    assert "onecli config set DevicesandIOPorts.PCI64BitResourceAllocation Enabled" in onecli.commands
    assert json.loads(redfish.body)["Attributes"] == {"DevicesandIOPorts_PCI64BitResourceAllocation": "Enabled"}


def test_a_large_bar_that_only_a_driver_tells_of_shows_above_4g(build):
    """nvidia-smi alone: five of six cards have 32 GiB, so Above 4G Decoding is on, and the sixth needs something else."""
    first, second = "0000:41:00.0", "0000:81:00.0"
    cards = build.two_nvidia_gpus(bars=NOT_CAPTURED, config=NOT_CAPTURED)
    told = [
        NvmlGpu(first, bar1_bytes=256 << 20, memory_bytes=24 * GIB),
        NvmlGpu(second, bar1_bytes=32 * GIB, memory_bytes=24 * GIB),
    ]

    def guide(*gpus):
        view = View(build.host(cards, nvml=Nvml("570.86", "12.570", 12080, gpus, ())))
        return firmware_guide(view, diagnose(view, list(built_in())))

    assert "above-4g" not in named(guide(*told))
