"""Whole machines through all checks: those in order raise no alarm, and the sick ones name their cause."""

from __future__ import annotations

import pytest

from hostdoctor.diagnosis import diagnose
from hostdoctor.facts.pci import ConfigFacts, Power
from hostdoctor.facts.unknown import ASLEEP, NEEDS_ROOT, Unknown
from hostdoctor.registry import built_in

MIB, GIB, TIB = 1 << 20, 1 << 30, 1 << 40
UNSAID = Unknown("the firmware names no memory node for it")


def am5_desktop(build):
    """A Radeon RX 7900 XTX at rest beside the processor's own graphics."""
    card = build.navi_card(
        0x01, "0000:00:01.1", "1002:744c", at=build.link(2.5, 16, 16.0, 16), bar_at=0x7C00000000, iommu_type="DMA-FQ",
        numa_node=UNSAID,
    )  # fmt: skip
    apu = build.gpu("0000:0a:00.0", "1002:164e", "0000:00:08.1", bar_size=256 * MIB, iommu_type="DMA-FQ", numa_node=UNSAID)
    return build.host(
        build.root_port("0000:00:01.1", "1022:14db", at=build.link(2.5, 16, 32.0, 16)),
        card,
        build.root_port("0000:00:08.1", "1022:14dd"),
        apu,
        cpu=build.ZEN_4,
        facts={"0000:03:00.0": build.gpu_facts(24 * GIB - 16 * MIB, busy=0)},
        balancing=1,
    )


def laptop_asleep(build):
    """An NVIDIA GPU powered off, read without root."""
    gpu = build.gpu(
        "0000:01:00.0", "10de:2820", "0000:00:01.0", at=ASLEEP, config=ASLEEP, power=Power("suspended", "D3cold"),
        dma_mask_bits=ASLEEP, bar_size=8 * GIB,
    )  # fmt: skip
    root = build.root_port(
        "0000:00:01.0", "8086:a70d", at=build.link(2.5, 8, 16.0, 16), config=ConfigFacts(express=NEEDS_ROOT, acs=NEEDS_ROOT)
    )
    own = build.gpu("0000:00:02.0", "8086:a788", bar_size=256 * MIB, config=ConfigFacts(express=NEEDS_ROOT))
    return build.host(root, gpu, own, cpu=build.INTEL)


def two_geforce_4090(build):
    """Idle, translated, in slots of eight lanes: all by design."""
    slot = build.link(2.5, 8, 16.0, 8)
    parts = []
    for n, port in enumerate(("0000:00:01.1", "0000:00:01.2")):
        bars = (build.bar(0xE0000000 + n * 0x2000000, 16 * MIB, 0), build.bar((0x70 + n) << 32, 32 * GIB, 1))
        config = build.resizable(1, 32 * GIB, 256 * MIB, 32 * GIB)
        gpu = build.gpu(
            f"0000:0{n + 1}:00.0", build.RTX_4090, port, at=build.link(2.5, 8, 16.0, 16), bars=bars, config=config,
            iommu_type="DMA-FQ",
        )  # fmt: skip
        parts += [build.root_port(port, "1022:14db", at=slot), gpu]
    return build.host(parts, cpu=build.ZEN_4, balancing=1)


def blackwell_beside_ada(build):
    """RTX PRO 4000 Blackwell SFF and RTX 2000 Ada: unequal, so without P2P, and not at fault."""
    parts = build.two_nvidia_gpus(build.RTX_PRO_4000_SFF, build.RTX_2000_ADA, iommu_type="DMA-FQ")
    parts = build.changed(parts, "0000:41:00.0", link=build.link(2.5, 8, 32.0, 8), bars=(build.bar(4 * TIB, 32 * GIB, 1),))
    parts = build.changed(parts, "0000:81:00.0", link=build.link(2.5, 8, 16.0, 8), bars=(build.bar(5 * TIB, 16 * GIB, 1),))
    return build.host(parts)


def mi250x_node(build):
    """GPUs of one hive, on a kernel built without PCIe P2P, which they do not need."""
    gpus, parts = [], []
    for n in range(4):
        port, address = f"0000:{n * 2:02x}:01.1", f"0000:{n * 2 + 1:02x}:00.0"
        parts += [
            build.root_port(port),
            build.gpu(address, "1002:7408", port, class_code=0x038000, bar_at=(n + 1) * TIB, bar_size=64 * GIB),
        ]
        gpus.append(address)
    kfd = build.kfd(gpus, hives=(9,) * 4, cpu_links=[(each, 11, 0) for each in gpus])
    links = [*kfd.links, *(build.KfdLink(a, b, 11, 0, False, "io") for a in range(1, 5) for b in range(1, 5) if a != b)]
    kfd = build.Kfd(kfd.nodes, tuple(links))
    return build.host(parts, facts={each: build.gpu_facts(64 * GIB - 16 * MIB) for each in gpus}, kfd=kfd, pcie_p2p=None)


def h100_below_switches(build):
    """Pairs below PCIe switches, root ports with ACS on, firmware that sets source validation everywhere."""
    parts = []
    for n in range(2):
        root, bus = f"0000:{n * 8 + 1:x}0:01.0", n * 128 + 17
        parts += [
            build.root_port(root, "8086:352a", acs=build.REDIRECT, at=build.link(32.0)),
            build.switch(bus, root, id_="1000:c030", acs=build.VALIDATION_ONLY, at=build.link(32.0)),
        ]
        for m in range(2):
            bars = (
                build.bar((4 + n) * TIB + (m * 2 + 1) * 128 * GIB, 16 * MIB, 0),
                build.bar((4 + n) * TIB + m * 256 * GIB, 128 * GIB, 2),
            )
            port = f"0000:{bus + 1:02x}:{m:02x}.0"
            parts.append(
                build.gpu(f"0000:{bus + 2 + m:02x}:00.0", build.H100, port, at=build.link(32.0), bars=bars, class_code=0x030200)
            )
    parts = [
        build.changed([each], each.address, link=build.link(32.0)) if each.is_bridge else each for each in build._flat(parts)
    ]
    return build.host(parts, cpu=build.INTEL, nodes=(0, 1))


def gpus_given_to_guests(build):
    """Two cards behind a switch that keeps them apart, as the guests that have them need it."""
    parts = build.below_one_switch(build.REDIRECT, driver="vfio-pci", iommu_type="unmanaged")
    return build.host(parts, command_line="ro iommu=pt vfio-pci.ids=1002:73a1", pcie_p2p=None)


def screen_beside_compute(build):
    """A V620 at 4 TiB, and an old card for the screen that addresses 40 bits and that no compute can use."""
    screen = build.gpu(
        "0000:81:00.0", "1002:68f9", "0000:80:01.1", driver="radeon", dma_mask_bits=40, bar_at=0xD0000000, bar_size=256 * MIB,
        iommu_type="DMA-FQ", config=ConfigFacts(express=build.express(1)),
    )  # fmt: skip
    card = [build.root_port("0000:40:01.1"), build.navi_card(0x41, "0000:40:01.1", iommu_type="DMA-FQ")]
    facts = {build.FIRST: build.gpu_facts(30704 * MIB)}
    return build.host(card, build.root_port("0000:80:01.1"), screen, facts=facts, pcie_p2p=None)


def cpu_only_server(build):
    """A BMC's graphics and two sockets: nothing here is this tool's business."""
    bmc = build.function("0000:c1:00.0", "1a03:2000", 0x030000, bars=(), config=ConfigFacts())
    return build.host(bmc, nodes=(0, 1), balancing=1, command_line="ro intel_iommu=on iommu=pt", cpu=build.INTEL)


IN_ORDER = [
    am5_desktop,
    laptop_asleep,
    two_geforce_4090,
    blackwell_beside_ada,
    mi250x_node,
    h100_below_switches,
    gpus_given_to_guests,
    screen_beside_compute,
    cpu_only_server,
]


@pytest.mark.parametrize("machine", IN_ORDER, ids=lambda machine: machine.__name__)
def test_a_machine_in_order_raises_no_alarm(build, machine):
    found = diagnose(build.View(machine(build)), built_in())
    alarms = [(each.check, each.title) for each in found if each.outcome in ("failure", "warning")]
    assert not alarms
    assert not [each.title for each in found if "failed itself" in each.title]


def test_the_machines_have_the_gpus_they_tell_of(build):
    counts = [len(build.View(machine(build)).gpus) for machine in IN_ORDER]
    assert counts == [1, 1, 2, 2, 4, 4, 2, 2, 0]


# --- the case the tool was born from ----------------------------------------------------------------------------------


def four_v620(build, base, mode, kernel="6.8.0-52-generic"):
    """Four Radeon Pro V620 on a PCIe 3.0 board, each with the switch of its own."""
    parts, facts = [], {}
    for n in range(4):
        root, bus = f"0000:{n * 0x40 + 0x10:02x}:00.0", n * 0x40 + 0x11
        card = build.navi_card(bus, root, at=build.link(8.0, 16, 16.0, 16), bar_at=base + n * 64 * GIB, iommu_type=mode)
        parts += [build.root_port(root, "8086:2030", at=build.link(8.0)), card]
        facts[card[2].address] = build.gpu_facts(30704 * MIB, busy=0)
    line = "ro" if mode != "identity" else "ro iommu=pt"
    return build.host(parts, facts=facts, cpu=build.INTEL, kernel=kernel, command_line=line)


def alarms(build, host):
    found = diagnose(build.View(host), built_in())
    return {each.check: each for each in found if each.outcome in ("failure", "warning")}, found


def test_before_the_cure_the_cause_is_named_with_both_remedies(build):
    wrong, found = alarms(build, four_v620(build, 56 * TIB, "DMA-FQ"))
    assert set(wrong) == {"bar-reach", "p2p-pair"}
    assert "MMIO High Base 56T -> 4T" in wrong["bar-reach"].next
    mode = next(each for each in found if each.check == "iommu-mode")
    assert (mode.outcome, mode.remedies) == ("info", ("iommu-passthrough",))
    slot = next(each for each in found if each.check == "slot-limit")
    assert slot.outcome == "info"
    assert "8 GT/s x16" in slot.title


def test_after_the_cure_every_pair_is_to_be_expected(build):
    wrong, found = alarms(build, four_v620(build, 4 * TIB, "identity"))
    assert wrong == {}
    pairs = [each.outcome for each in found if each.check == "p2p-pair"]
    assert pairs == ["ok"] * 12


def test_half_the_cure_changes_what_is_asked_for(build):
    wrong, found = alarms(build, four_v620(build, 4 * TIB, "DMA-FQ"))
    assert wrong == {}
    modes = {(each.outcome, each.remedies) for each in found if each.check == "iommu-mode"}
    assert modes == {("info", ("iommu-passthrough",))}
    wrong, _ = alarms(build, four_v620(build, 56 * TIB, "identity"))
    assert set(wrong) == {"bar-reach", "p2p-pair"}


def test_on_a_newer_kernel_translation_carries_it_and_must_stay(build):
    wrong, found = alarms(build, four_v620(build, 56 * TIB, "DMA-FQ", "6.12.10"))
    assert wrong == {}
    offered = {remedy for each in found if each.check == "iommu-mode" for remedy in each.remedies}
    assert offered == {"iommu-translate-until-moved"}
