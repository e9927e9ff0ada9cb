from __future__ import annotations

import pytest

GPU = "0000:41:00.0"


def xid(build, code, address=GPU, **more):
    return build.event("xid", address, f"NVRM: Xid (PCI:0000:41:00): {code}, pid=1", details={"code": str(code)}, **more)


def on(build, *events, **more):
    return build.host(build.two_nvidia_gpus(), log=build.log(*events, **more))


@pytest.mark.parametrize("code", [48, 62, 64, 74, 79, 94, 95, 119, 120, 140])
def test_xids_of_hardware_are_a_failure(build, verdict, text, code):
    found = verdict("gpu-faults", on(build, xid(build, code)))
    assert (found.outcome, found.subject) == ("failure", (GPU,))
    assert f"Xid {code}" in text(found)


@pytest.mark.parametrize("code", [61, 63, 92, 93])
def test_what_the_gpu_repaired_is_a_warning(build, verdict, code):
    assert verdict("gpu-faults", on(build, xid(build, code))).outcome == "warning"


@pytest.mark.parametrize("code", [13, 31, 43, 45, 68, 69, 999])
def test_what_a_program_causes_counts_where_it_repeats_itself(build, verdict, code):
    once = verdict("gpu-faults", on(build, xid(build, code, count=12, first_s=5.0, last_s=6.0)))
    assert once.outcome == "ok"
    assert f"Xid {code}" in once.title
    often = verdict("gpu-faults", on(build, xid(build, code, count=12, first_s=5.0, last_s=6000.0, bursts=4)))
    assert often.outcome == ("ok" if code == 45 else "warning")


def test_a_log_without_stamps_needs_many_lines(build, verdict):
    assert verdict("gpu-faults", on(build, xid(build, 31, count=8))).outcome == "ok"
    assert verdict("gpu-faults", on(build, xid(build, 31, count=80))).outcome == "warning"


def test_the_recovery_that_the_driver_asks_for(build, judge):
    text = "NVRM: Xid: 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    needed = build.event("xid", "", text, details={"code": "154"})
    (found,) = judge("gpu-faults", on(build, xid(build, 79), needed))
    assert (found.outcome, found.subject) == ("failure", (GPU,))
    over = build.event("xid", GPU, text.replace("0x2 (Node Reboot Required)", "0x0 (None)"), details={"code": "154"})
    assert {each.outcome for each in judge("gpu-faults", on(build, over))} == {"ok"}


@pytest.mark.parametrize("kind", ["gpu-reset", "gpu-reset-failed", "lost", "wedged", "ras-uncorrectable", "ras-threshold"])
def test_what_breaks_an_amd_gpu(build, verdict, kind):
    host = build.host(build.two_navi_cards(), log=build.log(build.event(kind, build.FIRST, first_s=3.0)))
    found = verdict("gpu-faults", host)
    assert (found.outcome, found.subject) == ("failure", (build.FIRST,))


@pytest.mark.parametrize("kind", ["ring-timeout", "ring-reset", "gpu-page-fault", "gpu-hang", "ras-corrected", "smu-timeout"])
def test_what_passes(build, verdict, kind):
    event = build.event(kind, build.FIRST, count=40, first_s=3.0, last_s=4.0)
    assert verdict("gpu-faults", build.host(build.two_navi_cards(), log=build.log(event))).outcome == "ok"
    again = build.event(kind, build.FIRST, count=40, first_s=3.0, last_s=4000.0, bursts=3)
    assert verdict("gpu-faults", build.host(build.two_navi_cards(), log=build.log(again))).outcome == "warning"


def test_a_message_without_address_goes_to_the_only_gpu_of_its_driver(build, verdict):
    event = build.event("gpu-reset", details={"driver": "amdgpu"})
    one = build.host(build.root_port("0000:40:01.1"), build.navi_card(0x41, "0000:40:01.1"), log=build.log(event))
    assert verdict("gpu-faults", one).subject == (build.FIRST,)
    assert verdict("gpu-faults", build.host(build.two_navi_cards(), log=build.log(event))).subject == ()


def test_a_gpu_that_only_the_log_knows(build, verdict):
    host = build.host(functions=build.NOT_CAPTURED, log=build.log(xid(build, 79, "0000:04:00.0"), from_boot=False))
    assert (verdict("gpu-faults", host).outcome, verdict("gpu-faults", host).subject) == ("failure", ("0000:04:00.0",))


def test_switches_of_nvlink(build, judge):
    fatal, other = (
        build.event("sxid", f"0000:c{n}:00.0", details={"code": "12028", "severity": severity})
        for n, severity in ((1, "Fatal"), (2, "Non-fatal"))
    )
    assert [(each.outcome, each.subject) for each in judge("gpu-faults", on(build, fatal, other))] == [
        ("failure", ("0000:c1:00.0",))
    ]


def test_an_earlier_boot_is_a_warning_and_no_failure(build, verdict):
    found = verdict("gpu-faults", on(build, xid(build, 79, boots_ago=1)))
    assert found.outcome == "warning"
    assert "before the last restart" in found.title


def test_gpus_of_the_processor_are_left_alone(build, verdict):
    igpu = build.gpu("0000:00:02.0", "8086:a780", config=build.ConfigFacts(), bar_size=256 << 20)
    host = build.host(igpu, log=build.log(build.event("gpu-hang", "0000:00:02.0", count=99, first_s=1.0, bursts=9)))
    assert verdict("gpu-faults", host).outcome == "ok"


def test_a_network_card_that_is_lost_is_no_gpu(build, verdict):
    host = build.host(build.rdma_card("0000:51:00.0"), log=build.log(build.event("lost", "0000:51:00.0")))
    assert verdict("gpu-faults", host).outcome == "ok"


def test_judged_in_guests_too(build, verdict):
    host = build.host(build.two_nvidia_gpus(), log=build.log(xid(build, 79)), environment=build.GUEST)
    assert verdict("gpu-faults", host).outcome == "failure"


def test_silence(build, verdict):
    assert verdict("gpu-faults", build.host(build.two_nvidia_gpus())).outcome == "ok"
    cut = verdict("gpu-faults", build.host(build.two_nvidia_gpus(), log=build.log(from_boot=False)))
    assert cut.outcome == "unknown"
    none = verdict("gpu-faults", build.host(build.two_nvidia_gpus(), log=None))
    assert (none.outcome, none.help) == ("unknown", "attach the output of dmesg")
    assert verdict("gpu-faults", build.host(log=None)).outcome == "not-applicable"
