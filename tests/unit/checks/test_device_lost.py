"""device-lost: functions that no longer answer."""

from __future__ import annotations

import pytest

from hostdoctor.facts.pci import ConfigFacts, Power
from hostdoctor.facts.unknown import ASLEEP, NOT_CAPTURED, Unknown

ID = "device-lost"
PORT, GPU = "0000:40:01.1", "0000:41:00.0"
ALL_ONES, HEADER_7F = "reads as all ones", "has header type 7f"


@pytest.fixture
def with_gpu(build):
    def make(**facts):
        return build.host(build.root_port(PORT), build.gpu(GPU, build.A5000, PORT, **facts))

    return make


def test_functions_that_answer_are_in_order(verdict, with_gpu):
    found = verdict(ID, with_gpu())
    assert (found.outcome, found.subject) == ("ok", ())


@pytest.mark.parametrize("lost", [ALL_ONES, HEADER_7F])
def test_an_awake_gpu_that_reads_as_gone_is_a_failure(verdict, with_gpu, text, lost):
    found = verdict(ID, with_gpu(config=ConfigFacts(lost=lost)))
    assert (found.outcome, found.subject, found.confidence) == ("failure", (GPU,), "certain")
    assert lost in found.title
    assert "power/runtime_status active" in text(found)
    assert found.remedies == ("check-power-and-seating",)


def test_a_lost_port_names_the_gpu_below_it(build, judge):
    host = build.host(build.root_port(PORT, config=ConfigFacts(lost=ALL_ONES)), build.gpu(GPU, build.A5000, PORT))
    found = judge(ID, host)
    assert [each.outcome for each in found] == ["failure"]
    assert GPU in found[0].explanation


def test_any_function_counts(build, verdict):
    drive = build.function(
        "0000:02:00.0", "144d:a808", 0x010802, config=ConfigFacts(lost=ALL_ONES), power=Power("active", "D0")
    )
    found = verdict(ID, build.host(drive))
    assert (found.outcome, found.subject) == ("failure", ("0000:02:00.0",))


@pytest.mark.parametrize("state", [NOT_CAPTURED, "unknown"])
def test_it_may_be_powered_off(verdict, with_gpu, state):
    """Powered off (D3cold) and lost read alike: without a power state there is no verdict."""
    found = verdict(ID, with_gpu(config=ConfigFacts(lost=ALL_ONES), power=Power(NOT_CAPTURED, state)))
    assert found.outcome == "unknown"
    assert "D3cold" in found.title
    assert found.help


@pytest.mark.parametrize("power", [Power(NOT_CAPTURED, "D0"), Power("active"), Power("unsupported", "unknown")])
def test_one_sign_of_being_awake_is_enough(verdict, with_gpu, power):
    assert verdict(ID, with_gpu(config=ConfigFacts(lost=ALL_ONES), power=power)).outcome == "failure"


def test_a_sleeping_gpu_is_left_alone_and_counted(verdict, with_gpu):
    found = verdict(ID, with_gpu(config=ASLEEP, power=Power("suspended", "D3cold")))
    assert found.outcome == "ok"
    assert "1 sleeping function left alone" in found.title


def test_a_gpu_that_did_not_answer_in_time_does_not_read_as_fine(verdict, with_gpu):
    found = verdict(ID, with_gpu(config=Unknown("timed out after 10 s")))
    assert (found.outcome, found.subject) == ("unknown", (GPU,))
    assert "timed out" in found.title


def test_a_port_that_was_not_read_does_not_read_as_fine(build, verdict):
    """Functions left out for one reason are one finding."""
    parts = build.two_nvidia_gpus()
    for port in ("0000:40:01.1", "0000:80:01.1"):
        parts = build.changed(parts, port, config=NOT_CAPTURED)
    found = verdict(ID, build.host(parts))
    assert (found.outcome, found.subject) == ("unknown", ("0000:40:01.1", "0000:80:01.1"))


def test_nothing_asked_is_unknown(build, verdict):
    assert verdict(ID, build.host(build.function("0000:02:00.0", "144d:a808"))).outcome == "unknown"
    sleeping = build.function("0000:02:00.0", "144d:a808", config=ASLEEP, power=Power("suspended", "D3hot"))
    assert "asleep" in verdict(ID, build.host(sleeping)).title


def test_not_judged_in_a_guest_nor_without_functions(build, verdict, with_gpu):
    guest = build.host(build.gpu(GPU, build.A5000), environment=build.GUEST)
    assert verdict(ID, guest).outcome == "not-applicable"
    assert verdict(ID, build.host(functions=Unknown("no PCI functions"))).outcome == "unknown"


# --- by the kernel's log ----------------------------------------------------------------------------------------------


def pasted(build):
    return build.changed(build.two_nvidia_gpus(), "0000:41:00.0", origin="lspci.txt:4", config=build.NOT_CAPTURED)


@pytest.mark.parametrize(("kind", "details"), [("lost", {}), ("inaccessible", {}), ("xid", {"code": "79"})])
def test_the_log_says_that_a_gpu_is_gone(build, judge, kind, details):
    log = build.log(build.event(kind, "0000:41:00.0", details=details))
    (found,) = judge("device-lost", build.host(pasted(build), log=log))
    assert (found.outcome, found.subject) == ("failure", ("0000:41:00.0",))


@pytest.mark.parametrize("more", [{"back": True}, {"boots_ago": 1}])
def test_it_came_back(build, judge, more):
    log = build.log(build.event("lost", "0000:41:00.0", **more), drivers={"0000:41:00.0": "nvidia"})
    assert not any(found.outcome == "failure" for found in judge("device-lost", build.host(pasted(build), log=log)))


def test_a_function_that_answered_is_not_lost_whatever_the_log_says(build, verdict):
    log = build.log(build.event("lost", "0000:41:00.0"))
    assert verdict("device-lost", build.host(build.two_nvidia_gpus(), log=log)).outcome == "ok"


def test_drives_and_docks_that_do_not_come_back_are_no_alarm(build, verdict):
    log = build.log(build.event("inaccessible", "0000:51:00.0", details={"driver": "nvme"}))
    assert verdict("device-lost", build.host(build.nvme("0000:52:00.0"), log=log)).outcome == "ok"


def test_errors_on_the_way_are_named(build, judge):
    log = build.log(build.event("lost", "0000:41:00.0"), build.event("aer-fatal", "0000:40:01.1"))
    (found,) = judge("device-lost", build.host(pasted(build), log=log))
    assert "0000:40:01.1 reported errors" in found.explanation


def test_a_log_without_functions(build, verdict):
    nothing = build.host(functions=build.NOT_CAPTURED, log=build.log())
    assert verdict("device-lost", nothing).outcome == "unknown"
