"""gpu-driver: which driver each GPU has, and whether it works."""

from __future__ import annotations

import pytest

from hostdoctor.facts.driver import Nvml, NvmlGpu
from hostdoctor.facts.unknown import ASLEEP, NOT_CAPTURED, Unknown

ID = "gpu-driver"
GPU, OTHER = "0000:41:00.0", "0000:81:00.0"
OLD_CARD = "10de:128b"  # GT 710: not in the tables
MISMATCH = Unknown("the loaded NVIDIA driver and its libraries are of different versions (NVML 18)", "reboot")
NOT_LOADED = Unknown("NVML finds no NVIDIA driver loaded (9)")


def nvidia_host(build, first=None, second="nvidia", nvml=None, version="580.105.08", **more):
    """Two RTX A5000 with these drivers."""
    parts = build.changed(build.two_nvidia_gpus(), GPU, driver=first)
    parts = build.changed(parts, OTHER, driver=second)
    modules = {"nvidia": build.Module("nvidia", {}, version)}
    return build.host(parts, modules=modules, nvml=nvml, **more)


def of_first(judge, described):
    return next(found for found in judge(ID, described) if found.subject == (GPU,))


# --- no driver --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("id_", "wanted"), [("1002:73a1", "amdgpu"), ("10de:2231", "nvidia"), ("8086:56a0", "xe or i915")])
def test_no_driver_is_a_failure(build, verdict, text, id_, wanted):
    found = verdict(ID, build.host(build.root_port("0000:40:01.1"), build.gpu(GPU, id_, "0000:40:01.1", driver=None)))
    assert (found.outcome, found.subject, found.remedies) == ("failure", (GPU,), ("load-driver",))
    assert wanted in found.next
    assert f"{GPU}/driver there is none" in text(found)


def test_a_loaded_module_that_left_the_gpu_out_is_named(build, judge):
    assert "The module nvidia is loaded" in of_first(judge, nvidia_host(build)).explanation


@pytest.mark.parametrize("option", ["vfio-pci.ids=10DE:2231,10de:1aef", "vfio_pci.ids=10de:2231", "pci-stub.ids=10de:2231"])
def test_none_of_those_kept_for_guests_is_a_fact(build, judge, option):
    assert of_first(judge, nvidia_host(build, command_line=f"ro {option}")).outcome == "info"


def test_kept_for_guests_is_another_kind(build, judge):
    assert of_first(judge, nvidia_host(build, command_line="ro vfio-pci.ids=10de:2684")).outcome == "failure"


def test_an_unread_driver_is_unknown(build, judge):
    assert of_first(judge, nvidia_host(build, NOT_CAPTURED)).outcome == "unknown"


# --- other drivers ----------------------------------------------------------------------------------------------------


def test_a_desktop_with_nouveau_is_no_alarm(build, judge):
    outcomes = {each.outcome for each in judge(ID, nvidia_host(build, "nouveau", "nouveau"))}
    assert outcomes == {"info"}


def test_nouveau_beside_a_gpu_that_computes_is_a_warning(build, judge, text):
    found = of_first(judge, nvidia_host(build, "nouveau"))
    assert (found.outcome, found.remedies) == ("warning", ("load-driver",))
    assert OTHER in found.explanation
    assert f"{GPU}/driver nouveau" in text(found)


def test_an_old_card_for_the_screen_beside_it_is_no_alarm(build, judge):
    parts = build.changed(build.two_nvidia_gpus(OLD_CARD, build.A5000), GPU, driver="nouveau")
    assert of_first(judge, build.host(parts)).outcome == "info"


def test_a_card_for_the_screen_beside_another_vendors_is_no_alarm(build, judge):
    port, screen = "0000:20:01.1", "0000:21:00.0"
    card = build.gpu(screen, build.A5000, port, driver="nouveau", bar_at=8 * build.TIB)
    found = judge(ID, build.host(build.root_port(port), card, build.two_navi_cards()))
    assert {each.outcome for each in found if each.subject == (screen,)} == {"info"}


@pytest.mark.parametrize(("id_", "class_code", "outcome"), [
    ("10de:2331", 0x030200, "warning"),  # H100
    ("10de:2331", 0x030000, "info"),
    ("10de:2820", 0x030200, "info"),  # a laptop's
])  # fmt: skip
def test_a_card_without_outputs_is_for_computing(build, verdict, id_, class_code, outcome):
    port = build.root_port("0000:40:01.1")
    found = verdict(ID, build.host(port, build.gpu(GPU, id_, "0000:40:01.1", driver="nouveau", class_code=class_code)))
    assert found.outcome == outcome


def test_radeon_lights_a_screen(build, verdict):
    found = verdict(
        ID, build.host(build.root_port("0000:40:01.1"), build.gpu(GPU, "1002:6818", "0000:40:01.1", driver="radeon"))
    )
    assert (found.outcome, found.remedies) == ("info", ())
    assert "amdgpu" in found.title


# --- guests -----------------------------------------------------------------------------------------------------------


def test_gpus_for_guests_are_a_fact(build, judge):
    assert {each.outcome for each in judge(ID, nvidia_host(build, "vfio-pci", "vfio-pci"))} == {"info"}


def test_one_for_guests_among_its_like_may_be_left_over(build, judge):
    found = of_first(judge, nvidia_host(build, "vfio-pci"))
    assert (found.outcome, found.confidence) == ("warning", "possible")
    assert OTHER in found.explanation
    assert "unbind it" in found.next


def test_one_that_the_command_line_keeps_is_on_purpose(build, judge):
    assert of_first(judge, nvidia_host(build, "vfio-pci", command_line="ro vfio-pci.ids=10de:2231")).outcome == "info"


def test_one_for_guests_is_a_fact_where_the_command_line_is_not_seen(build, judge):
    assert of_first(judge, nvidia_host(build, "vfio-pci", command_line=NOT_CAPTURED)).outcome == "info"


def test_one_for_guests_beside_others_is_on_purpose(build, judge):
    parts = build.changed(build.two_nvidia_gpus(build.RTX_4090, build.A5000), GPU, driver="vfio-pci")
    assert of_first(judge, build.host(parts)).outcome == "info"


# --- nvidia -----------------------------------------------------------------------------------------------------------


def nvml(driver="580.105.08", **gpu):
    return Nvml(driver, "13.580.105.08", 13000, (NvmlGpu(GPU, **gpu), NvmlGpu(OTHER)), ())


@pytest.mark.parametrize("answer", [None, nvml(), nvml(NOT_CAPTURED), Unknown("the driver's library is not installed here")])
def test_nvidia_in_order(build, judge, answer):
    found = of_first(judge, nvidia_host(build, "nvidia", nvml=answer))
    assert (found.outcome, found.title) == ("ok", "nvidia 580.105.08 drives it")


def test_nvidia_of_which_no_version_is_known(build, verdict):
    port = build.root_port("0000:40:01.1")
    found = verdict(ID, build.host(port, build.gpu(GPU, build.A5000, "0000:40:01.1"), modules=NOT_CAPTURED))
    assert (found.outcome, found.title) == ("ok", "nvidia drives it")


def test_libraries_of_another_version_are_a_failure(build, judge, text):
    found = of_first(judge, nvidia_host(build, "nvidia", nvml=MISMATCH))
    assert (found.outcome, found.remedies) == ("failure", ("load-driver",))
    assert "restart" in found.next
    assert "/proc/driver/nvidia/version 580.105.08" in text(found)


def test_versions_are_compared_where_both_are_known(build, judge):
    found = of_first(judge, nvidia_host(build, "nvidia", nvml=nvml("580.126.01")))
    assert found.outcome == "failure"
    assert "580.105.08" in found.explanation
    assert "580.126.01" in found.explanation


def test_a_lost_gpu_is_a_failure_of_that_gpu(build, judge):
    outcomes = {each.subject[0]: each.outcome for each in judge(ID, nvidia_host(build, "nvidia", nvml=nvml(lost=True)))}
    assert outcomes == {GPU: "failure", OTHER: "ok"}


def test_a_driver_that_does_not_work_is_a_failure(build, judge):
    found = of_first(judge, nvidia_host(build, "nvidia", nvml=NOT_LOADED))
    assert found.outcome == "failure"
    assert "NVRM" in found.next


def test_without_device_files_it_says_nothing(build, judge):
    """NVML answers alike in a container that was given none."""
    without = nvidia_host(build, "nvidia", nvml=NOT_LOADED, access=build.access(nvidiactl=None))
    assert of_first(judge, without).outcome == "unknown"
    container = build.Environment("bare-metal", container="docker")
    assert of_first(judge, nvidia_host(build, "nvidia", nvml=NOT_LOADED, environment=container)).outcome == "unknown"


@pytest.mark.parametrize(
    "why", ["timed out: NVML did not answer within 10 s", "NVML crashed: the process was ended by SIGSEGV"]
)
def test_a_library_that_hangs_or_crashes_is_unknown(build, judge, why):
    assert of_first(judge, nvidia_host(build, "nvidia", nvml=Unknown(why))).outcome == "unknown"


# --- amdgpu -----------------------------------------------------------------------------------------------------------


def amd_host(build, vram=32 << 30, in_kfd=True, id_="1002:73a1", **more):
    kfd = build.kfd((build.SECOND, build.FIRST) if in_kfd else (build.SECOND,))
    facts = {build.FIRST: build.gpu_facts(vram)}
    return build.host(build.two_navi_cards(id_), facts=facts, **{"kfd": kfd, **more})


def first_amd(build, judge, described):
    return next(found for found in judge(ID, described) if found.subject == (build.FIRST,))


def test_amdgpu_in_order(build, judge):
    assert first_amd(build, judge, amd_host(build)).outcome == "ok"
    assert first_amd(build, judge, amd_host(build, NOT_CAPTURED)).outcome == "ok"
    assert first_amd(build, judge, amd_host(build, kfd=NOT_CAPTURED)).outcome == "ok"


def test_amdgpu_that_brought_nothing_up_is_a_failure(build, judge):
    found = first_amd(build, judge, amd_host(build, NOT_CAPTURED, in_kfd=False))
    assert (found.outcome, found.confidence) == ("failure", "likely")
    assert "amdgpu" in found.next


@pytest.mark.parametrize(("id_", "outcome"), [("1002:73a1", "warning"), ("1002:6818", "info")])
def test_a_gpu_that_kfd_leaves_out(build, judge, id_, outcome):
    """One of the tables ought to compute; what is older may have no compute at all."""
    found = first_amd(build, judge, amd_host(build, in_kfd=False, id_=id_))
    assert found.outcome == outcome
    assert "KFD" in found.title


def test_a_gpu_that_sleeps_is_not_called_dead(build, judge):
    found = first_amd(build, judge, amd_host(build, ASLEEP, in_kfd=False))
    assert found.outcome != "failure"


def test_a_driver_that_hangs_is_unknown(build, judge):
    hangs = Unknown("reading /sys/x/mem_info_vram_total did not end within 10 s")
    assert first_amd(build, judge, amd_host(build, hangs)).outcome == "unknown"


def test_intels_drivers(build, verdict):
    for driver in ("xe", "i915"):
        port = build.root_port("0000:40:01.1")
        assert verdict(ID, build.host(port, build.gpu(GPU, "8086:56a0", "0000:40:01.1", driver=driver))).outcome == "ok"


def test_not_judged_without_a_gpu_nor_in_a_guest(build, verdict):
    assert verdict(ID, build.host()).outcome == "not-applicable"
    guest = build.host(build.gpu(GPU, build.V620, driver=None), environment=build.GUEST)
    assert verdict(ID, guest).outcome == "not-applicable"


# --- by the kernel's log ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["nvidia-init", "nvidia-bar"])
def test_a_start_that_failed(build, judge, kind):
    log = build.log(build.event(kind, "0000:41:00.0"))
    found = {each.subject: each.outcome for each in judge("gpu-driver", build.host(build.two_nvidia_gpus(), log=log))}
    assert found == {("0000:41:00.0",): "failure", ("0000:81:00.0",): "ok"}


def test_a_mismatch_concerns_every_gpu_of_the_driver(build, judge):
    event = build.event("nvidia-mismatch", details={"client": "535.183.01", "module": "535.171.04"})
    found = judge("gpu-driver", build.host(build.two_nvidia_gpus(), log=build.log(event)))
    assert [each.outcome for each in found] == ["failure", "failure"]
    assert "535.183.01" in found[0].explanation


def test_a_driver_that_answers_now_has_got_over_it(build, judge):
    event = build.event("amdgpu-init", build.FIRST)
    works = build.kfd((build.FIRST, build.SECOND))
    found = judge("gpu-driver", build.host(build.two_navi_cards(), kfd=works, log=build.log(event)))
    assert {each.outcome for each in found} == {"ok"}


def test_an_old_card_for_the_screen_is_no_loss(build, judge):
    event = build.event("nvidia-unsupported", "0000:41:00.0")
    log = build.log(event, drivers={"0000:81:00.0": "nvidia"})
    parts = build.changed(build.two_nvidia_gpus(), "0000:41:00.0", driver=build.NOT_CAPTURED)
    found = {each.subject[0]: each.outcome for each in judge("gpu-driver", build.host(parts, log=log))}
    assert found["0000:41:00.0"] == "info"
    alone = build.host(functions=build.NOT_CAPTURED, log=build.log(event))
    assert [each.outcome for each in judge("gpu-driver", alone)] == ["failure"]


@pytest.mark.parametrize(("holder", "outcomes"), [("nouveau", {"warning", "ok"}), ("vfio", {"ok"})])
def test_another_driver_holds_it(build, judge, holder, outcomes):
    log = build.log(build.event("nvidia-held", "0000:41:00.0", details={"holder": holder}))
    assert {each.outcome for each in judge("gpu-driver", build.host(build.two_nvidia_gpus(), log=log))} == outcomes


def test_kfd_does_not_know_the_generation(build, verdict):
    event = build.event("kfd-unsupported", details={"chip": "PITCAIRN"})
    old = build.gpu("0000:26:00.0", "1002:6811", driver=build.NOT_CAPTURED)
    found = verdict("gpu-driver", build.host(old, log=build.log(event)))
    assert (found.outcome, found.subject) == ("info", ("0000:26:00.0",))
    assert "PITCAIRN" in found.title


def test_kfd_failed_at_one_kind_of_gpu(build, judge):
    event = build.event("kfd-failed", details={"id": "1002:73a1"})
    found = judge("gpu-driver", build.host(build.two_navi_cards(), log=build.log(event)))
    assert [each.outcome for each in found] == ["failure", "failure"]
