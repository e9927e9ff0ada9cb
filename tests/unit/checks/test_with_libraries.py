"""What the vendors' libraries add to verdicts: activity, the link and the memory by the driver, NVML's word on P2P."""

from __future__ import annotations

import pytest

from hostdoctor.facts.driver import AmdSmi, AmdSmiGpu, Nvml, NvmlGpu, NvmlPair
from hostdoctor.facts.unknown import Unknown

A, B = "0000:41:00.0", "0000:81:00.0"
FAILED = Unknown("NVML answers: Unknown Error (999)")


def nvml(*gpus, pairs=()):
    return Nvml("570.86.16", "12.570.86.16", 12080, gpus, tuple(pairs))


def amd_smi(*gpus):
    return AmdSmi("26.0.2", "/opt/rocm/share/amd_smi", gpus, ())


# --- link-speed -------------------------------------------------------------------------------------------------------


@pytest.fixture
def slow(build, verdict):
    """The verdict on a card whose link reads 2.5 GT/s of 16."""

    def make(speed=2.5, id_=build.A5000, busy=None, **libraries):
        card = build.gpu(A, id_, "0000:40:01.1", at=build.link(speed, 16, 16.0, 16))
        facts = {A: build.gpu_facts(32 << 30, busy=busy)} if busy is not None else {}
        return verdict("link-speed", build.host(build.root_port("0000:40:01.1"), card, facts=facts, **libraries))

    return make


@pytest.mark.parametrize("state", [0, 1, 2])
def test_a_slow_link_in_a_state_of_work_is_a_failure(slow, text, state):
    found = slow(nvml=nvml(NvmlGpu(A, performance_state=state, busy_percent=0, link_generation=1)))
    assert (found.outcome, found.confidence) == ("failure", "likely")
    assert "2.5 GT/s with the GPU at work" in found.title
    assert f"performance state P{state}" in found.explanation
    assert f"nvmlDeviceGetPerformanceState P{state}" in text(found)


@pytest.mark.parametrize("state", [3, 8, FAILED])
def test_a_slow_link_of_a_busy_gpu_is_a_failure_in_any_state(slow, state):
    found = slow(nvml=nvml(NvmlGpu(A, performance_state=state, busy_percent=50, link_generation=1)))
    assert found.outcome == "failure"
    assert "under load" in found.title
    assert "The GPU is 50 % busy" in found.explanation


@pytest.mark.parametrize(
    ("bits", "why"),
    [
        (0x20, "heat"),
        (0x40, "heat, by the hardware"),
        (0x80, "brake signal"),
        (0x84, "brake signal"),
        (0x8, "hardware slowdown"),
    ],
)
def test_a_gpu_that_heat_or_power_holds_down(slow, text, bits, why):
    found = slow(nvml=nvml(NvmlGpu(A, performance_state=0, busy_percent=90, link_generation=1, throttle_reasons=bits)))
    assert found.outcome == "unknown"
    assert f"the driver slows the GPU down ({why}" in found.title.replace("the power supply's ", "")
    assert f"nvmlDeviceGetCurrentClocksThrottleReasons {bits:#x}" in text(found)
    assert "cooling and power" in found.help


@pytest.mark.parametrize("bits", [0, 0x1, 0x2, 0x4, 0x10, 0x100, FAILED])
def test_limits_that_somebody_chose_excuse_no_link(slow, bits):
    found = slow(nvml=nvml(NvmlGpu(A, performance_state=0, busy_percent=90, link_generation=1, throttle_reasons=bits)))
    assert found.outcome == "failure"


@pytest.mark.parametrize(("state", "busy"), [(8, 0), (8, FAILED), (12, 49), (5, 10), (FAILED, 3)])
def test_a_gpu_at_rest_is_known_to_be(slow, state, busy):
    found = slow(nvml=nvml(NvmlGpu(A, performance_state=state, busy_percent=busy, link_generation=1)))
    assert found.outcome == "unknown"
    assert "the GPU is idle" in found.title
    assert ("performance state" in found.explanation) == isinstance(state, int)


@pytest.mark.parametrize(("state", "busy"), [(5, FAILED), (FAILED, FAILED)])
def test_a_gpu_of_which_nvml_tells_too_little(slow, state, busy):
    found = slow(nvml=nvml(NvmlGpu(A, performance_state=state, busy_percent=busy)))
    assert found.outcome == "unknown"
    assert "may be idle" in found.title
    assert "busy" not in found.explanation


@pytest.mark.parametrize("answer", [None, Unknown("timed out"), nvml(NvmlGpu(B, performance_state=0))])
def test_without_a_word_of_the_gpu_it_may_be_idle(slow, answer):
    assert "may be idle" in slow(nvml=answer).title


def test_a_link_that_came_up_when_nvml_asked_is_in_order(slow, text):
    """NVML takes a GPU out of its rest: then it is in P0, and the link is fast; sysfs was read before that."""
    found = slow(nvml=nvml(NvmlGpu(A, performance_state=0, busy_percent=0, link_generation=4)))
    assert found.outcome == "ok"
    assert "16 GT/s by NVML" in found.title
    assert "2.5 when the kernel was asked" in found.title
    assert "NVML, link speed 16 GT/s" in text(found)


def test_another_speed_by_the_driver_is_named(slow, text):
    found = slow(nvml=nvml(NvmlGpu(A, performance_state=0, link_generation=3)))
    assert found.outcome == "failure"
    assert "NVML, link speed 8 GT/s" in text(found)
    found = slow(speed=16.0, nvml=nvml(NvmlGpu(A, performance_state=0, link_generation=3)))
    assert found.outcome == "ok"
    assert "NVML, link speed 8 GT/s" in text(found)


def test_another_speed_of_a_gpu_at_rest_is_not(slow, text):
    """Between the two looks it may have gone to rest."""
    found = slow(speed=16.0, nvml=nvml(NvmlGpu(A, performance_state=8, link_generation=1)))
    assert (found.outcome, "NVML" in text(found)) == ("ok", False)


def test_a_generation_that_there_is_not(slow, text):
    found = slow(nvml=nvml(NvmlGpu(A, performance_state=0, link_generation=9)))
    assert (found.outcome, "link speed" in text(found)) == ("failure", False)


@pytest.mark.parametrize(("busy", "outcome"), [(96, "failure"), (3, "unknown"), (Unknown("n/a"), "unknown")])
def test_amd_smi_tells_the_load_where_sysfs_does_not(slow, build, text, busy, outcome):
    found = slow(id_=build.MI50, amd_smi=amd_smi(AmdSmiGpu(A, busy_percent=busy, link_speed_gts=2.5)))
    assert found.outcome == outcome
    assert ("amdsmi_get_gpu_activity" in text(found)) == isinstance(busy, int)


def test_sysfs_tells_the_load_before_amd_smi(slow, build):
    found = slow(id_=build.MI50, busy=0, amd_smi=amd_smi(AmdSmiGpu(A, busy_percent=100)))
    assert "the GPU is idle" in found.title


def test_a_cards_own_switch_hides_which_link_amd_smi_means(build, verdict, text):
    parts = [build.root_port("0000:40:01.1"), build.navi_card(0x41, "0000:40:01.1", at=build.link(2.5, 16, 16.0, 16))]
    libraries = amd_smi(AmdSmiGpu(build.FIRST, busy_percent=100, link_speed_gts=16.0, link_width=8))
    found = verdict("link-speed", build.host(parts, amd_smi=libraries))
    assert (found.outcome, "link speed" in text(found)) == ("failure", False)
    assert "link width" not in text(verdict("link-width", build.host(parts, amd_smi=libraries)))


# --- link-width -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("state", "shown"), [(0, True), (FAILED, True), (8, False)])
def test_another_width_by_the_driver_is_named(build, verdict, text, state, shown):
    libraries = nvml(NvmlGpu(A, performance_state=state, link_width=8))
    for width, outcome in ((16, "ok"), (4, "failure")):
        card = build.gpu(A, build.A5000, "0000:40:01.1", at=build.link(16.0, width, 16.0, 16))
        found = verdict("link-width", build.host(build.root_port("0000:40:01.1"), card, nvml=libraries))
        assert found.outcome == outcome
        assert ("NVML, link width x8" in text(found)) == shown


def test_the_same_width_by_the_driver_is_not(build, verdict, text):
    card = build.gpu(A, build.A5000, "0000:40:01.1")
    libraries = nvml(NvmlGpu(A, performance_state=0, link_width=16))
    assert "NVML" not in text(verdict("link-width", build.host(build.root_port("0000:40:01.1"), card, nvml=libraries)))


# --- bar-size ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("memory", "outcome"), [(24564 << 20, "ok"), (48 << 30, "warning")])
def test_nvml_tells_the_memory_behind_a_bar(build, verdict, text, memory, outcome):
    card = build.gpu(A, "10de:ffff", bar_size=32 << 30, config=build.resizable(1, 32 << 30, 32 << 30, 64 << 30))
    found = verdict("bar-size", build.host(card, nvml=nvml(NvmlGpu(A, memory_bytes=memory))))
    assert found.outcome == outcome
    assert f"NVML nvmlDeviceGetMemoryInfo {memory}" in text(found)


def test_amd_smi_tells_the_memory_behind_a_bar(build, verdict, text):
    card = build.gpu(A, "1002:ffff", bar_size=32 << 30)
    found = verdict("bar-size", build.host(card, amd_smi=amd_smi(AmdSmiGpu(A, memory_bytes=16 << 30))))
    assert found.outcome == "ok"
    assert "amdsmi_get_gpu_vram_info" in text(found)


def test_sysfs_tells_the_memory_first(build, verdict, text):
    card = build.gpu(A, "1002:ffff", bar_size=32 << 30)
    libraries = amd_smi(AmdSmiGpu(A, memory_bytes=64 << 30))
    found = verdict("bar-size", build.host(card, facts={A: build.gpu_facts(32 << 30)}, amd_smi=libraries))
    assert (found.outcome, "AMD SMI" in text(found)) == ("ok", False)


# --- p2p-pair ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def pairs(build, judge):
    """The findings on two NVIDIA GPUs by subject, with these P2P codes for A to B; B to A is allowed."""

    def make(read, write, *, id_=build.A5000, second=None, nvlink=5, back=(0, 0), **facts):
        told = [NvmlPair(A, B, read, write, nvlink), NvmlPair(B, A, *back, nvlink)]
        host = build.host(build.two_nvidia_gpus(id_, second, **facts), nvml=nvml(NvmlGpu(A), NvmlGpu(B), pairs=told))
        found = {each.subject: each for each in judge("p2p-pair", host)}
        return found[A, B], found[B, A]

    return make


def test_nvml_that_agrees_makes_it_certain(pairs, text):
    for found in pairs(0, 0):
        assert (found.outcome, found.confidence) == ("ok", "certain")
        assert "the driver says so too" in found.title
        assert "nvmlDeviceGetP2PStatus reads 0, writes 0" in text(found)
        assert found.cost.could_have_gbs == 31.51


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (1, "not supported by the chipset"),
        (2, "not supported by the GPU"),
        (3, "not supported by the topology"),
        (5, "P2P reads and writes not supported"),
        (9, "refused with the code 9"),
    ],
)
def test_what_nvml_refuses_fails_by_design_with_the_codes_meaning(pairs, text, code, says):
    found, back = pairs(code, code)
    assert (found.outcome, found.confidence, found.remedies) == ("info", "certain", ())
    assert says in found.title
    assert "NVML's word" in found.explanation
    assert f"reads {code}, writes {code}" in text(found)
    assert text(found).count("nvmlDeviceGetP2PStatus") == 1
    assert back.outcome == "ok", "each direction has its own verdict"


@pytest.mark.parametrize(
    ("read", "write", "says"),
    [
        (0, 5, "P2P writes not supported"),
        (1, 0, "P2P reads not supported by the chipset"),
        (1, 2, "P2P reads not supported by the chipset (CNS); writes not supported by the GPU (GNS)"),
        (FAILED, 1, "P2P writes not supported by the chipset"),
        (6, 1, "P2P writes not supported by the chipset"),
    ],
)
def test_one_of_the_two_is_enough(pairs, read, write, says):
    found = pairs(read, write)[0]
    assert found.outcome == "info"
    assert says in found.title


def test_a_registry_key_can_be_taken_away(pairs):
    found = pairs(4, 4)[0]
    assert found.outcome == "failure"
    assert "registry key" in found.title
    assert "RegistryDwords" in found.explanation
    assert pairs(4, 5)[0].outcome == "info"


def test_what_nvml_itself_does_not_know_is_unknown(pairs):
    found = pairs(6, 0)[0]
    assert found.outcome == "unknown"
    assert "does not know" in found.title


def test_half_a_verdict_is_none(pairs):
    found = pairs(FAILED, 0)[0]
    assert (found.outcome, found.confidence) == ("ok", "likely")


def test_a_refusal_by_the_tables_that_nvml_shares(build, pairs):
    found = pairs(5, 5, id_=build.RTX_4090)[0]
    assert (found.outcome, found.confidence) == ("info", "certain")
    assert "refuses PCIe P2P on GeForce RTX 4090" in found.title
    assert "own verdict agrees" in found.explanation
    assert "NVLink bridge" not in found.explanation, "NVML would have seen it"


@pytest.mark.parametrize("ids", [("10de:2684", None), ("10de:2c33", "10de:28b0")])
def test_a_patched_driver_is_believed_only_by_data(pairs, ids):
    found = pairs(0, 0, id_=ids[0], second=ids[1])[0]
    assert (found.outcome, found.remedies) == ("unknown", ("measure-p2p",))
    assert "NVML reports P2P as allowed, although" in found.title
    assert "Patched driver modules" in found.explanation
    assert "ForceP2P" in found.explanation
    assert "data was compared" in found.help


def test_nvml_settles_what_the_tables_do_not_know(build, pairs):
    found = pairs(0, 0, id_="10de:ffff")[0]
    assert (found.outcome, found.confidence) == ("ok", "certain")
    found = pairs(5, 5, id_="10de:ffff")[0]
    assert (found.outcome, "not supported" in found.title) == ("info", True)


def test_nvml_says_nothing_of_a_translating_iommu(pairs):
    found = pairs(0, 0, iommu_type="DMA-FQ")[0]
    assert (found.outcome, found.remedies) == ("unknown", ("iommu-passthrough",))


def test_nvlink_needs_no_pcie_p2p(build, pairs, text):
    found = pairs(0, 0, id_=build.RTX_3090, nvlink=0, iommu_type="DMA-FQ")[0]
    assert (found.outcome, found.confidence) == ("ok", "certain")
    assert found.cost is None, "the slots' links have no part in it"
    assert "reads 0, writes 0, NVLink 0" in text(found)


def test_nvlink_without_permission_is_no_p2p(build, pairs):
    assert pairs(5, 5, nvlink=0)[0].outcome == "info"


@pytest.mark.parametrize("answer", [None, Unknown("timed out"), nvml(NvmlGpu(A), NvmlGpu(B))])
def test_without_a_verdict_it_is_as_before(build, judge, answer):
    found = judge("p2p-pair", build.host(build.two_nvidia_gpus(), nvml=answer))
    assert [(each.outcome, each.confidence) for each in found] == [("ok", "likely")] * 2
