"""Functions, windows and memory from kernel logs: what the checks make of whole logs, and of logs beside other sources."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from hostdoctor.boot_links import boot_link, slot_at_boot
from hostdoctor.evidence.attached import Attached, Attachment
from hostdoctor.facts.host import Aperture, KernelVersion, MemoryMap
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.parsers.kernel_log import read_logs
from hostdoctor.parsers.paste import split
from hostdoctor.readers.attached import Pasted, read_attached
from hostdoctor.readers.attached.log_functions import with_log_functions
from hostdoctor.view import View

LOGS = Path(__file__).with_name("kernel_logs")
GIB, MIB = 1 << 30, 1 << 20
WRONG = ("failure", "warning")
HEALTHY = (
    "arm64-altra-68",
    "asus-x299-54-2080ti",
    "dell-r740-515-second-pass",
    "grep-bar",
    "hotplug-nvme-612",
    "journal-two-boots",
    "supermicro-415-healthy-vega20",
    "tail-of-ring-buffer",
)


def host_of(text, name="dmesg.txt"):
    pasted = Pasted(Attached((Attachment(name, "", text),), ()), (name,))
    return read_attached(pasted, None, 10.0, False)


def host_of_log(name):
    return host_of((LOGS / f"{name}.txt").read_text(), f"{name}.txt")


def beside(host, text):
    """A described host with what a log adds."""
    return with_log_functions(host, read_logs([part for part in split(text, "dmesg.txt") if part.kind == "kernel-log"]))


@pytest.fixture
def findings(judge):
    def make(host, *checks):
        return [(each.check, each.outcome, each.subject) for check in checks for each in judge(check, host)]

    return make


@pytest.fixture(scope="session")
def judge(build):
    return build.judge


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_boots_are_silent(findings, name):
    checks = ("bar-unassigned", "bar-size", "bar-reach", "window-space", "link-speed", "link-width", "slot-limit")
    host = host_of_log(name)
    assert not [each for each in findings(host, *checks, "payload-size", "path-bottleneck", "p2p-pair") if each[1] in WRONG]


@pytest.mark.parametrize(
    ("name", "gpu", "bridges"),
    [
        ("dell-precision-68-missing", "0000:65:00.0", ("0000:64:00.0",)),
        ("rhel7-k80", "0000:84:00.0", ("0000:80:02.0", "0000:82:00.0", "0000:83:08.0")),
        ("firmware-garbage-8gpus", "0000:06:00.0", ()),
    ],
)
def test_a_gpu_without_its_memory_bar(findings, name, gpu, bridges):
    host = host_of_log(name)
    assert ("bar-unassigned", "failure", (gpu,)) in findings(host, "bar-unassigned")
    assert findings(host, "window-space") == [("window-space", "failure", (*bridges, gpu))]


@pytest.mark.parametrize(
    ("name", "gpu", "bridges"),
    [
        ("rpi-polaris", "0001:01:00.0", ("0001:00:00.0",)),
        ("usb4-r9700-618", "0000:97:00.0", ()),
        ("arc-xe-no-rebar", "0000:03:00.0", ()),
    ],
)
def test_a_bar_that_its_driver_could_not_enlarge(findings, name, gpu, bridges):
    host = host_of_log(name)
    assert findings(host, "bar-size") == [("bar-size", "warning", (gpu,))]
    assert findings(host, "window-space") == [("window-space", "failure", (*bridges, gpu))]
    assert findings(host, "bar-unassigned") == [("bar-unassigned", "ok", ())]


def test_the_arithmetic_names_the_bridge(judge, build):
    [finding] = judge("window-space", host_of_log("dell-precision-68-missing"))
    told = build.text(finding)
    assert "96 GiB at the bridge 0000:64:00.0" in told
    assert "32 GiB in the window of root bus 0000:64" in told
    assert "dell-precision-68-missing.txt:5" in told
    assert "dell-precision-68-missing.txt:19" in told


def test_evidence_says_where_in_the_log(judge):
    [finding] = judge("bar-unassigned", host_of_log("dell-precision-68-missing"))
    places = [each.source for each in finding.evidence]
    assert places == ["dell-precision-68-missing.txt:29", "dell-precision-68-missing.txt:23"]


def test_only_the_drivers_complaint(judge):
    [finding] = judge("bar-unassigned", host_of_log("nvrm-only"))
    assert (finding.outcome, finding.subject) == ("failure", ("0000:0b:00.0",))
    assert "[" not in finding.title


def test_bars_at_56_tib_by_the_log_alone(judge):
    found = judge("bar-reach", host_of_log("two-radeons-56t-by-log-alone"))
    assert [(each.outcome, each.subject, each.confidence) for each in found] == [
        ("failure", ("0000:1a:00.0",), "likely"),
        ("failure", ("0000:1d:00.0",), "likely"),
    ]


def test_the_way_up():
    functions = host_of_log("supermicro-415-healthy-vega20").functions
    gpu = functions["0000:42:00.0"]
    way = [gpu.address]
    while functions[way[-1]].parent:
        way.append(functions[way[-1]].parent)
    assert way == [f"0000:{each}" for each in ("42:00.0", "41:00.0", "40:00.0", "3c:08.0", "3b:00.0", "3a:00.0")]
    assert (gpu.root, gpu.numa_node, gpu.driver) == ("0000:3a", 0, "amdgpu")
    assert gpu.origin.startswith("supermicro-415-healthy-vega20.txt:")


def test_a_port_that_the_log_does_not_list_hides_what_is_above_it():
    functions = host_of(
        "pci 0000:23:00.0: [1002:1478] type 01 class 0x060400 PCIe Switch Upstream Port\n"
        "pci 0000:20:01.1: PCI bridge to [bus 23-25]\n"
    ).functions
    assert functions["0000:23:00.0"].parent == "0000:20:01.1"
    assert isinstance(functions["0000:20:01.1"].parent, Unknown)
    assert functions["0000:20:01.1"].is_bridge


def test_what_a_fragment_does_not_say_is_not_made_up():
    gpu = host_of("pci 0000:41:00.0: [10de:2684] type 00 class 0x030000\n").functions["0000:41:00.0"]
    for name in ("driver", "parent", "root", "bars", "link", "config", "iommu_type", "numa_node"):
        assert isinstance(getattr(gpu, name), Unknown), name


def test_a_gpu_inside_a_processor_is_not_taken_from_its_drivers_lines():
    text = "amdgpu 0000:0c:00.0: amdgpu: VRAM: 512M 0x000000F400000000 - 0x000000F41FFFFFFF (512M used)\n"
    assert isinstance(host_of(text).functions, Unknown)
    text += "amdgpu 0000:03:00.0: BAR 2: releasing [mem 0xd0000000-0xd01fffff 64bit pref]\n"
    assert list(host_of(text).functions) == ["0000:03:00.0"]


def test_amdgpus_word_on_memory(judge):
    text = (
        "pci 0000:0c:00.0: [1002:73bf] type 00 class 0x030000\n"
        "amdgpu 0000:0c:00.0: amdgpu: VRAM: 16368M 0x0000008000000000 - 0x00000083FEFFFFFF (16368M used)\n"
        "[drm] Detected VRAM RAM=16368M, BAR=16384M\n"
    )
    host = host_of(text)
    facts = host.gpu_facts["0000:0c:00.0"]
    assert facts.vram_bytes == facts.visible_vram_bytes == 16368 * MIB
    assert facts.memory_source == "dmesg.txt:3"
    assert [each.outcome for each in judge("bar-size", host)] == ["ok"]
    small = host_of(text.replace("BAR=16384M", "BAR=256M"))
    assert {each.outcome for each in judge("bar-size", small)} <= {"unknown", "info"}, "what sizes it offers is not known"
    assert small.gpu_facts["0000:0c:00.0"].visible_vram_bytes == 256 * MIB


def test_amdgpu_has_the_last_word_on_its_bar(judge):
    """A log of picked lines may lack those by which the kernel enlarged it."""
    text = (
        "pci 0000:0c:00.0: [1002:73bf] type 00 class 0x030000\n"
        "pci 0000:0c:00.0: BAR 0 [mem 0xd0000000-0xdfffffff 64bit pref]\n"
        "amdgpu 0000:0c:00.0: amdgpu: VRAM: 16368M 0x0000008000000000 - 0x00000083FEFFFFFF (16368M used)\n"
        "[drm] Detected VRAM RAM=16368M, BAR=16384M\n"
    )
    assert [each.outcome for each in judge("bar-size", host_of(text))] == ["ok"]
    (small,) = judge("bar-size", host_of(text.replace("BAR=16384M", "BAR=256M")))
    assert "256 MiB" in small.title


def test_no_window_above_4_gib_for_a_radeons_memory(judge, build):
    text = (
        "PCI host bridge to bus 0000:00\n"
        "pci_bus 0000:00: root bus resource [mem 0xc0000000-0xfec2ffff window]\n"
        "pci 0000:00:03.1: [1022:1453] type 01 class 0x060400\n"
        "pci 0000:00:03.1: PCI bridge to [bus 0c]\n"
        "pci 0000:0c:00.0: [1002:67df] type 00 class 0x030000\n"
        "pci 0000:0c:00.0: reg 0x10: [mem 0xe0000000-0xefffffff 64bit pref]\n"
        "amdgpu 0000:0c:00.0: VRAM: 8192M 0x000000F400000000 - 0x000000F5FFFFFFFF (8192M used)\n"
        "[drm] Detected VRAM RAM=8192M, BAR=256M\n"
    )
    [finding] = judge("bar-size", host_of(text))
    assert (finding.outcome, finding.confidence) == ("warning", "likely")
    assert "256 MiB" in finding.title
    assert "dmesg.txt:2" in build.text(finding)
    above = text.replace(
        "pci 0000:00:03.1: PCI", "pci_bus 0000:00: root bus resource [mem 0x4000000000-0x7fffffffff]\npci 0000:00:03.1: PCI"
    )
    assert [each.outcome for each in judge("bar-size", host_of(above))] == ["info"]


def test_memory_lines_without_a_name_count_where_each_gpu_has_one(build):
    host = build.host(build.navi_card(0x03, below=None), build.navi_card(0x43, below=None))
    line = "[drm] Detected VRAM RAM=30704M, BAR=32768M\n"
    gpus = [address for address, each in host.functions.items() if each.base_class == 3]
    bare = msgspec.structs.replace(host, gpu_facts={})
    assert set(beside(bare, line * 2).gpu_facts) == set(gpus)
    assert not beside(bare, line).gpu_facts
    assert not beside(bare, line + line.replace("30704", "16368")).gpu_facts


# --- beside other sources ---------------------------------------------------------------------------------------------


@pytest.fixture
def one_gpu(build):
    def make(**facts):
        port = build.root_port("0000:64:00.0", "8086:2030")
        return build.host(port, build.gpu("0000:65:00.0", "10de:2230", "0000:64:00.0", **facts))

    return make


def test_the_present_stands_against_the_boot(one_gpu):
    host = one_gpu()
    log = (LOGS / "dell-precision-68-missing.txt").read_text()
    after = beside(host, log)
    assert after.functions["0000:65:00.0"].bars == host.functions["0000:65:00.0"].bars
    assert not after.contradictions


def test_functions_of_the_log_alone_are_left_out_where_the_host_was_listed(one_gpu):
    host = one_gpu()
    assert set(beside(host, (LOGS / "rhel7-k80.txt").read_text()).functions) == set(host.functions)


def test_another_device_at_the_same_address_is_another_configuration(one_gpu):
    host = one_gpu(bars=NOT_CAPTURED)
    after = beside(host, (LOGS / "dell-precision-68-missing.txt").read_text().replace("10de:2230", "10de:1eb8"))
    assert after.functions["0000:65:00.0"] == host.functions["0000:65:00.0"]
    assert not after.boot_links


def test_the_log_tells_how_large_a_missing_bar_is(one_gpu, build, judge):
    missing = build.missing_bar(1)
    host = one_gpu(bars=(build.bar(0xD8000000, 16 * MIB, 0), missing))
    after = beside(host, (LOGS / "dell-precision-68-missing.txt").read_text())
    bar = next(bar for bar in after.functions["0000:65:00.0"].bars if bar.index == 1)
    assert (bar.assigned, bar.size_bytes) == (False, 64 * GIB)
    [finding] = judge("bar-unassigned", after)
    assert "64 GiB" in finding.title


def test_a_bar_that_had_its_place_at_the_boot_was_not_refused(one_gpu, build, judge):
    gpu = "pci 0000:65:00.0: "
    log = f"{gpu}[10de:2230] type 00 class 0x030000\n{gpu}BAR 1 [mem 0x6000000000-0x67ffffffff 64bit pref]\n"
    host = beside(one_gpu(bars=(build.missing_bar(1),)), log)
    (missing,) = judge("bar-unassigned", host)
    assert "BAR1 (32 GiB)" in missing.title
    assert "dmesg.txt" not in str(missing.evidence)
    assert not [each for each in judge("window-space", host) if each.outcome in WRONG]


def test_apertures_of_iomem_stand(one_gpu):
    host = msgspec.structs.replace(one_gpu(), memory_map=MemoryMap((Aperture("0000:64", 0xC6000000, 0xDFFFFFFF),)))
    assert beside(host, (LOGS / "rhel7-k80.txt").read_text()).memory_map == host.memory_map


def test_a_driver_of_the_past_is_no_driver_now(one_gpu):
    host = one_gpu(driver=None)
    after = beside(host, "nvidia 0000:65:00.0: enabling device (0000 -> 0003)\n")
    assert after.functions["0000:65:00.0"].driver is None


# --- links ------------------------------------------------------------------------------------------------------------

SLOW = (
    "pci 0000:65:00.0: 32.000 Gb/s available PCIe bandwidth, limited by 2.5 GT/s PCIe x16 link at 0000:64:00.0 "
    "(capable of 252.048 Gb/s with 16.0 GT/s PCIe x16 link)\n"
)


def test_a_link_that_was_slow_at_the_boot_too(build, judge):
    slow = build.link(2.5, 16, 16.0, 16)
    host = build.host(build.root_port("0000:64:00.0", at=slow), build.gpu("0000:65:00.0", "10de:2230", "0000:64:00.0", at=slow))
    [now] = judge("link-speed", host)
    [both] = judge("link-speed", beside(host, SLOW))
    assert (now.outcome, both.outcome, both.confidence) == ("unknown", "warning", "possible")
    assert "dmesg.txt:1" in build.text(both)


def test_a_link_that_was_as_fast_as_it_can_be_at_the_boot_is_idle_now(build, judge):
    slow = build.link(2.5, 16, 16.0, 16)
    host = build.host(build.root_port("0000:64:00.0", at=slow), build.gpu("0000:65:00.0", "10de:2230", "0000:64:00.0", at=slow))
    fast = SLOW.replace("2.5 GT/s PCIe x16", "16.0 GT/s PCIe x8")
    elsewhere = SLOW.replace("at 0000:64:00.0", "at 0000:60:00.0")
    assert [each.outcome for each in judge("link-speed", beside(host, fast))] == ["unknown"]
    assert [each.outcome for each in judge("link-speed", beside(host, elsewhere))] == ["unknown"]


def test_a_line_of_the_boot_alone_is_no_verdict_on_the_slot(build, judge):
    text = f"pci 0000:65:00.0: [10de:2230] type 00 class 0x030000\npci 0000:64:00.0: PCI bridge to [bus 65]\n{SLOW}"
    host = host_of(text)
    assert host.boot_links["0000:65:00.0"].gbs == pytest.approx(4.0)
    [slot] = judge("slot-limit", host)
    assert slot.outcome == "unknown"
    assert "2.5 GT/s x16" in slot.title
    for check in ("link-speed", "link-width", "path-bottleneck"):
        assert {each.outcome for each in judge(check, host)} == {"unknown"}


def test_what_is_said_of_a_cards_own_switch_is_said_of_its_gpu():
    host = host_of(
        "pci 0000:03:00.0: [1002:1478] type 01 class 0x060400 PCIe Switch Upstream Port\n"
        "pci 0000:03:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at 0000:00:01.1 (capable of "
        "252.048 Gb/s with 16.0 GT/s PCIe x16 link)\n"
        "pci 0000:00:01.1: PCI bridge to [bus 03-05]\n"
        "pci 0000:04:00.0: [1002:1479] type 01 class 0x060400 PCIe Switch Downstream Port\n"
        "pci 0000:03:00.0: PCI bridge to [bus 04-05]\n"
        "pci 0000:05:00.0: [1002:73a1] type 00 class 0x038000 PCIe Endpoint\n"
        "pci 0000:04:00.0: PCI bridge to [bus 05]\n"
    )
    assert set(host.boot_links) == {"0000:03:00.0", "0000:05:00.0"}
    link = host.boot_links["0000:05:00.0"]
    assert (link.limited_by, link.speed_gts, link.width, link.gbs) == ("0000:00:01.1", 8.0, 8, pytest.approx(7.876))
    assert (link.capable_gbs, link.source) == (pytest.approx(31.506), "dmesg.txt:2")
    [card] = View(host).cards
    assert boot_link(host, card) == slot_at_boot(host, card) == link


def test_bandwidth_notices_of_others_are_not_the_gpus():
    host = host_of(
        "pci 0000:07:00.0: [1022:7901] type 00 class 0x010601\n"
        "pci 0000:07:00.0: 63.012 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x4 link at 0000:00:01.2 (capable of "
        "252.048 Gb/s with 16.0 GT/s PCIe x16 link)\n"
        "pci 0000:0d:00.0: [1002:731f] type 00 class 0x030000\n"
    )
    assert set(host.boot_links) == {"0000:07:00.0"}


# --- reach ------------------------------------------------------------------------------------------------------------

MOVED = (
    "[    4.611807] [drm] initializing kernel modesetting (VEGA10 0x1002:0x687F 0x1002:0x0B36 0xC1).\n"
    "[    4.612952] amdgpu 0000:1b:00.0: BAR 0: releasing [mem 0xa0000000-0xafffffff 64bit pref]\n"
    "[    4.612986] amdgpu 0000:1b:00.0: BAR 0: assigned [mem 0x382000000000-0x3821ffffffff 64bit pref]\n"
)
SECOND = "[    5.180240] amdgpu 0000:68:00.0: BAR 0: releasing [mem 0xc0000000-0xcfffffff 64bit pref]\n"


def test_a_peer_named_only_by_its_driver(judge, build):
    host = host_of(MOVED + SECOND)
    assert host.boot.older_than == KernelVersion(6, 8)
    found = {each.subject: each for each in judge("bar-reach", host)}
    finding = found["0000:1b:00.0",]
    assert (finding.outcome, finding.confidence) == ("warning", "likely")
    assert "44" in finding.title
    assert "A kernel before 6.8 cannot" in build.text(finding)


def test_a_gpu_alone_reaches_nobody(judge):
    [finding] = judge("bar-reach", host_of(MOVED))
    assert (finding.outcome, finding.subject) == ("info", ("0000:1b:00.0",))


def test_kernels_that_may_map_it_are_not_judged(judge):
    version = "[    0.000000] Linux version 6.12.9-amd64 (debian)\n"
    new = MOVED.replace("BAR 0: releasing [mem 0xa0000000-0xafffffff 64bit pref]", "enabling device (0006 -> 0007)").replace(
        "BAR 0: assigned [mem 0x382000000000-0x3821ffffffff 64bit pref]",
        "BAR 0 [mem 0x382000000000-0x3821ffffffff 64bit pref]: assigned",
    )
    second = SECOND.replace(
        "BAR 0: releasing [mem 0xc0000000-0xcfffffff 64bit pref]", "BAR 0 [mem 0xc0000000-0xcfffffff 64bit pref]: releasing"
    )
    assert {each.outcome for each in judge("bar-reach", host_of(version + new + second))} == {"unknown"}
