"""Takes one fact after the other from a host: what was wrong never turns fine, and what was fine never turns wrong."""

from __future__ import annotations

import msgspec
import pytest

from hostdoctor.diagnosis import diagnose
from hostdoctor.facts.host import Boot, Cpu, Iommu, MemoryMap, Numa
from hostdoctor.facts.unknown import Unknown
from hostdoctor.registry import built_in

GONE = Unknown("taken away")
MIB, GIB, TIB = 1 << 20, 1 << 30, 1 << 40

OF_A_FUNCTION = ("driver", "parent", "root", "bars", "numa_node", "link", "config", "iommu_type", "dma_mask_bits")
OF_A_LINK = ("current_speed_gts", "current_width", "max_speed_gts", "max_width")
OF_CONFIG = ("express", "acs", "resizable_bars")
OF_THE_HOST = {
    "functions": GONE,
    "gpu_facts": {},
    "boot": Boot(GONE, GONE, GONE, config=GONE),
    "modules": GONE,
    "iommu": Iommu(GONE),
    "cpu": Cpu(GONE, GONE, GONE, GONE),
    "memory_map": MemoryMap(GONE),
    "numa": Numa(GONE, GONE),
    "kfd": GONE,
    "nvml": GONE,
    "access": GONE,
    "error_counters": GONE,
    "network": GONE,
    "samples": None,
}


def poorer(host):
    """The host without one of its facts, each in turn, and the name of what was taken."""
    for name, value in OF_THE_HOST.items():
        yield f"host {name}", msgspec.structs.replace(host, **{name: value})
    for address, function in host.functions.items():
        without = {other: each for other, each in host.functions.items() if other != address}
        yield address, msgspec.structs.replace(host, functions=without)
        changes = [(name, {name: GONE}) for name in OF_A_FUNCTION]
        if function.link is not None:
            changes += [(name, {"link": msgspec.structs.replace(function.link, **{name: GONE})}) for name in OF_A_LINK]
        changes += [(name, {"config": msgspec.structs.replace(function.config, **{name: GONE})}) for name in OF_CONFIG]
        for name, change in changes:
            changed = {**host.functions, address: msgspec.structs.replace(function, **change)}
            yield f"{address} {name}", msgspec.structs.replace(host, functions=changed)


def healthy(build):
    vram = {address: build.gpu_facts(30704 * MIB, busy=90) for address in (build.FIRST, build.SECOND)}
    return build.host(
        build.two_navi_cards(iommu_type="identity", dma_mask_bits=44, config=build.resizable(0, 32 * GIB, 32 * GIB)),
        facts=vram,
        nodes=(0, 1),
        apertures=(("0000:40", TIB, 15 * TIB), ("0000:80", TIB, 15 * TIB)),
        samples=build.steady(build.FIRST, build.SECOND),
        runs=(build.run_in_order(build.FIRST, build.SECOND),),
    )


def healthy_below_switch(build):
    vram = {address: build.gpu_facts(30704 * MIB, busy=90) for address in ("0000:13:00.0", "0000:23:00.0")}
    parts = build.below_one_switch(dma_mask_bits=44, config=build.resizable(0, 32 * GIB, 32 * GIB))
    apertures = (("0000:00", TIB, 15 * TIB),)
    return build.host(parts, facts=vram, apertures=apertures, samples=build.steady(*vram), runs=(build.run_in_order(*vram),))


def sick(build):
    """BARs at 56 TiB on a kernel that maps none, one of them small, lanes lost, a driver that was told not to."""
    facts = {
        build.FIRST: build.gpu_facts(32 * GIB, visible=256 * MIB, busy=90),
        build.SECOND: build.gpu_facts(32 * GIB, busy=90),
    }
    config = build.resizable(0, 256 * MIB, 256 * MIB, 32 * GIB)
    small = (build.bar(56 * TIB, 256 * MIB),)
    parts = build.two_navi_cards(bar_at=56 * TIB, iommu_type="DMA-FQ", at=build.link(8.0, 1, 16.0, 16))
    parts = build.changed(parts, build.FIRST, bars=small, config=config)
    aperture = ("0000:40", 56 * TIB, 56 * TIB + 16 * GIB - 1)
    line = "ro amd_iommu=pt iomu=pt"
    return build.host(
        parts, facts=facts, kernel="6.8.0-52-generic", pcie_p2p="N", nodes=(0, 1), balancing=1,
        apertures=(aperture,), command_line=line,
    )  # fmt: skip


def sick_below_switch(build):
    """Redirect on the switch's ports, an uplink short of lanes, unequal payload sizes, atomics not routed."""
    short = build.link(16.0, 1, 16.0, 16)
    parts = build.below_one_switch(build.REDIRECT, root_id="8086:347a", at=short, id_=build.POLARIS)
    express = build.express(6, payload=128, atomic_routing=False)
    config = build.ConfigFacts(express=express, acs=build.REDIRECT)
    return build.host(build.changed(parts, "0000:02:00.0", config=config), cpu=build.INTEL)


def lost_and_unassigned(build):
    return build.host(
        build.root_port("0000:40:01.1", config=build.ConfigFacts(lost="reads as all ones")),
        build.gpu("0000:41:00.0", build.A5000, "0000:40:01.1", bars=(build.missing_bar(1, 32 * GIB),)),
        apertures=(("0000:40", 0xD0000000, 0xDFFFFFFF),),
    )


def erring_and_unstable(build):
    """Errors counted at a port, a link that loses lanes, a GPU that no driver has taken, files its user may not open."""
    parts = build.changed(build.two_navi_cards(), build.SECOND, driver=None)
    port = build.ErrorCounters("0000:40:01.1", nonfatal={"CmpltTO": 3})
    watched = build.samples({build.FIRST: [(16.0, 16), (16.0, 8)], build.SECOND: [(16.0, 16)] * 2})
    return build.host(
        parts, error_counters=build.counters(port), samples=watched, access=build.access(1000, kfd=build.NO_RIGHTS)
    )


def staged_copies(build):
    """Copies between the GPUs far slower than their links, which host copies show to be in order."""
    run = build.run(*build.both_directions(build.FIRST, build.SECOND, 3.1, 5.0, host=27.0))
    return build.host(build.two_navi_cards(), runs=(run,))


def slow_and_wrong_copies(build):
    """Host copies far slower than the link, and data that arrive wrong between the GPUs."""
    copies = (build.copy("host:0", build.FIRST, 3.0), build.copy(build.FIRST, "host:0", 3.1))
    run = build.run(*copies, verified=((build.FIRST, build.SECOND, False),))
    return build.host(build.two_navi_cards(), runs=(run,))


def faults_in_the_log(build):
    """A log with a GPU that fell off the bus, one whose accesses the IOMMU blocked, and a port in a storm of errors."""
    events = (
        build.event("xid", build.FIRST, details={"code": "79"}, first_s=50.0),
        build.event("lost", build.FIRST, first_s=50.0),
        build.event("iommu-fault", build.SECOND, count=9, first_s=40.0),
        build.event("aer-corrected", "0000:40:01.1", count=50, first_s=10.0, last_s=11.0),
    )
    pasted = build.changed(build.two_navi_cards(), build.FIRST, origin="lspci.txt:12")
    return build.host(pasted, log=build.log(*events))


def translated_nvidia(build):
    return build.host(build.two_nvidia_gpus(iommu_type="DMA-FQ"))


def findings(build, host):
    return diagnose(build.View(host), built_in())


@pytest.mark.parametrize("machine", [healthy, healthy_below_switch], ids=lambda machine: machine.__name__)
def test_no_missing_fact_raises_an_alarm(build, machine):
    host = machine(build)
    assert {each.outcome for each in findings(build, host)} <= {"ok", "info"}, "the machine is in order"
    alarms = {
        (what, each.check, each.title)
        for what, less in poorer(host)
        for each in findings(build, less)
        if each.outcome in ("failure", "warning") or "failed itself" in each.title
    }
    assert not alarms


SICK = [
    sick, sick_below_switch, lost_and_unassigned, erring_and_unstable, faults_in_the_log, translated_nvidia, staged_copies,
    slow_and_wrong_copies,
]  # fmt: skip


@pytest.mark.parametrize("machine", SICK, ids=lambda machine: machine.__name__)
def test_no_missing_fact_turns_what_is_wrong_fine(build, machine):
    host = machine(build)
    wrong = {(each.check, each.subject) for each in findings(build, host) if each.outcome in ("failure", "warning")}
    assert wrong
    fine = set()
    for what, less in poorer(host):
        if " " not in what or what == "host functions":
            continue  # with a function less it is another host
        found = findings(build, less)
        fine |= {(what, *key) for key in wrong if ("ok", *key) in {(each.outcome, each.check, each.subject) for each in found}}
        fine |= {(what, check) for check, _ in wrong if {each.outcome for each in found if each.check == check} <= {"ok"}}
    assert not fine


def test_the_sick_machines_show_most_of_what_can_be_wrong(build):
    wrong = {
        each.check for machine in SICK for each in findings(build, machine(build)) if each.outcome in ("failure", "warning")
    }
    assert wrong >= {
        "link-width", "link-speed", "path-bottleneck", "device-lost", "iommu-mode", "acs-redirect", "kernel-parameters",
        "bar-unassigned", "bar-size", "bar-reach", "window-space", "p2p-kernel", "p2p-pair", "numa-balancing",
        "payload-size", "pcie-atomics", "link-errors", "link-stability", "gpu-driver", "gpu-access", "gpu-faults",
        "iommu-faults", "p2p-bandwidth", "p2p-data", "host-bandwidth",
    }  # fmt: skip
