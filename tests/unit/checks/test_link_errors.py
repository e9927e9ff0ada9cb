"""link-errors: what was counted since boot, and what while watching."""

from __future__ import annotations

import pytest

from hostdoctor.facts.driver import ErrorCounters
from hostdoctor.facts.unknown import ASLEEP, NOT_CAPTURED

ID = "link-errors"
PORT, GPU = "0000:40:01.1", "0000:41:00.0"


@pytest.fixture
def over(build):
    """The verdict over a GPU below a root port, from the counters given; those of the port are zero else."""

    def judged(*counted, before=(), seconds=10, **more):
        if before or more:
            looks = {GPU: [(16.0, 16), (16.0, 16)]}
            more = {"samples": build.samples(looks, before=before, after=counted, interval_s=seconds)}
        quiet = {PORT: ErrorCounters(PORT), GPU: ErrorCounters(GPU)}
        parts = build.root_port(PORT), build.gpu(GPU, build.A5000, PORT)
        return build.verdict(ID, build.host(*parts, error_counters={**quiet, **build.counters(*(before or counted))}, **more))

    return judged


def corrected(number, kind="RxErr", address=PORT):
    return ErrorCounters(address, correctable={kind: number})


def test_no_errors(over):
    found = over()
    assert (found.outcome, found.subject) == ("ok", ())
    assert found.title == "no errors counted since boot at 2 functions"


def test_no_errors_while_watching_either(over):
    found = over(ErrorCounters(PORT), before=(ErrorCounters(PORT),))
    assert found.title.endswith("nor in 10 s of watching")


@pytest.mark.parametrize("kind", ["nonfatal", "fatal"])
def test_uncorrectable_errors_are_a_failure(over, text, kind):
    found = over(ErrorCounters(PORT, **{kind: {"CmpltTO": 2}}))
    assert (found.outcome, found.subject, found.confidence) == ("failure", (PORT,), "certain")
    assert "CmpltTO 2" in found.title
    assert f"Below it: {GPU}" in found.explanation
    assert f"{PORT}/aer_dev_{kind} CmpltTO 2" in text(found)


def test_unsupported_requests_are_told_from_a_poor_link(over):
    found = over(ErrorCounters(GPU, nonfatal={"UnsupReq": 1}))
    assert (found.outcome, found.confidence, found.remedies) == ("failure", "likely", ())
    assert "driver or firmware" in found.explanation
    assert over(ErrorCounters(GPU, nonfatal={"UnsupReq": 1, "DLP": 1})).remedies


@pytest.mark.parametrize("number", [1, 50, 999])
def test_a_handful_since_boot_is_a_fact(over, number):
    found = over(corrected(number))
    assert (found.outcome, found.subject, found.remedies) == ("info", (PORT,), ())
    assert "--samples" in found.explanation


def test_thousands_since_boot_are_a_warning_that_is_not_sure(over):
    found = over(corrected(1000))
    assert (found.outcome, found.confidence, found.remedies) == ("warning", "possible", ("reseat-or-move-card",))
    assert "--samples 60" in found.next


@pytest.mark.parametrize("kind", ["NonFatalErr", "HeaderOF", "Advisory Non-Fatal"])
def test_advice_in_thousands_says_nothing_of_the_link(over, kind):
    assert over(corrected(5000, kind)).outcome == "info"


@pytest.mark.parametrize(("number", "outcome"), [(0, "ok"), (40, "info"), (1000, "warning")])
def test_replays(over, text, number, outcome):
    found = over(ErrorCounters(GPU, replays=number))
    assert found.outcome == outcome
    assert outcome == "ok" or f"{GPU}/pcie_replay_count {number:,}" in text(found)


@pytest.mark.parametrize(
    ("fresh", "seconds", "outcome"),
    [
        (1, 10, "info"),  # chance
        (2, 10, "warning"),
        (99, 10, "warning"),
        (100, 10, "failure"),
        (9, 0.5, "warning"),  # too few for a rate
        (10, 0.5, "failure"),
        (599, 60, "warning"),
        (600, 60, "failure"),
    ],
)
def test_what_comes_while_watching(over, fresh, seconds, outcome):
    found = over(corrected(20 + fresh), before=(corrected(20),), seconds=seconds)
    assert (found.outcome, found.subject) == (outcome, (PORT,))
    assert outcome == "info" or f"{fresh}" in found.title


def test_old_errors_are_no_storm(over):
    found = over(corrected(500), before=(corrected(500),))
    assert found.outcome == "info"
    assert "--samples" not in found.explanation


def test_the_count_after_watching_is_the_one_that_is_told(over):
    assert "21 corrected errors" in over(corrected(21), before=(corrected(20),)).title


@pytest.mark.parametrize("part", ["rdma_card", "nvme"])
def test_network_cards_and_drives_too(build, judge, part):
    parts = build.root_port(PORT), build.gpu(GPU, build.A5000, PORT), getattr(build, part)("0000:51:00.0")
    counted = build.counters(ErrorCounters(GPU), ErrorCounters("0000:51:00.0", fatal={"DLP": 1}))
    (found,) = judge(ID, build.host(*parts, error_counters=counted))
    assert (found.outcome, found.subject) == ("failure", ("0000:51:00.0",))


def test_each_function_for_itself(build, judge):
    counted = build.counters(corrected(3), corrected(4, address=GPU))
    found = judge(ID, build.host(build.root_port(PORT), build.gpu(GPU, build.A5000, PORT), error_counters=counted))
    assert {each.subject for each in found} == {(PORT,), (GPU,)}


def test_a_gpu_none_of_whose_ports_counts_is_unknown(build, judge):
    parts = build.two_nvidia_gpus()
    found = judge(ID, build.host(parts, error_counters=build.counters(ErrorCounters("0000:40:01.1"))))
    assert [(each.outcome, each.subject) for each in found] == [("unknown", ("0000:81:00.0",))]


def test_a_gpu_that_sleeps_without_counters_above_is_unknown(build, verdict):
    asleep = build.gpu(GPU, build.A5000, power=build.Power("suspended", "D3cold"))
    assert verdict(ID, build.host(asleep, error_counters={})).help == ASLEEP.help


def test_no_counters_at_all_are_unknown(build, verdict):
    found = verdict(ID, build.host(build.two_nvidia_gpus(), error_counters=NOT_CAPTURED))
    assert (found.outcome, len(found.subject)) == ("unknown", 2)


def test_not_judged_in_a_guest_nor_without_anything_to_count(build, verdict):
    assert verdict(ID, build.host(build.gpu(GPU, build.V620), environment=build.GUEST)).outcome == "not-applicable"
    assert verdict(ID, build.host()).outcome == "not-applicable"
    assert verdict(ID, build.host(error_counters=NOT_CAPTURED)).outcome == "not-applicable"


# --- by the kernel's log ----------------------------------------------------------------------------------------------


def logged(build, kind, count=1, **more):
    return build.log(build.event(kind, "0000:40:01.1", count=count, **more))


@pytest.mark.parametrize("kind", ["aer-fatal", "aer-nonfatal", "dpc"])
def test_uncorrectable_errors_in_the_log(build, verdict, kind):
    found = verdict("link-errors", build.host(build.two_navi_cards(), log=logged(build, kind)))
    assert (found.outcome, found.subject) == ("failure", ("0000:40:01.1",))
    assert build.FIRST in found.explanation
    earlier = verdict("link-errors", build.host(build.two_navi_cards(), log=logged(build, kind, boots_ago=1)))
    assert earlier.outcome == "warning"


def test_the_worse_of_counters_and_log_stands(build, verdict):
    cards = build.two_navi_cards()[:2]
    counted = build.ErrorCounters("0000:40:01.1", nonfatal={"CmpltTO": 3})
    described = build.host(cards, error_counters=build.counters(counted), log=logged(build, "aer-corrected", first_s=1.0))
    assert "CmpltTO 3" in verdict("link-errors", described).title
    few = build.ErrorCounters("0000:40:01.1", correctable={"RxErr": 40})
    storm = logged(build, "aer-corrected", 40, first_s=1.0, last_s=2.0)
    described = build.host(cards, error_counters=build.counters(few), log=storm)
    assert "storm" in verdict("link-errors", described).title


def test_what_the_kernel_held_back_is_a_storm(build, verdict):
    log = logged(build, "aer-corrected", 12, details={"suppressed": "yes"})
    assert verdict("link-errors", build.host(build.two_navi_cards(), log=log)).outcome == "failure"


def test_reports_count_where_the_errors_themselves_are_cut_away(build, verdict):
    log = logged(build, "aer-report-corrected", 9)
    assert verdict("link-errors", build.host(build.two_navi_cards(), log=log)).outcome == "warning"


def test_a_report_of_a_device_that_was_gone_before_it_was_asked(build, verdict):
    """The kernel then says that it cannot find the device, whatever errors another one has."""
    log = build.log(
        build.event("aer-corrected", "0000:04:00.0", details={"bits": "RxErr"}),
        build.event("aer-report-uncorrected", "0000:40:01.1", details={"severity": "Fatal"}),
    )
    found = {each.subject: each.outcome for each in build.judge("link-errors", build.host(log=log))}
    assert found["0000:40:01.1",] == "failure"
    assert found["0000:04:00.0",] == "info"


def test_corrected_errors_of_an_earlier_boot_are_over(build, verdict):
    log = logged(build, "aer-corrected", 90, first_s=1.0, last_s=2.0, boots_ago=1)
    assert verdict("link-errors", build.host(build.two_navi_cards(), log=log)).outcome == "ok"


def test_a_silent_log_proves_nothing_where_there_are_no_counters(build, verdict):
    described = build.host(build.two_navi_cards(), error_counters=build.NOT_CAPTURED)
    assert verdict("link-errors", described).outcome == "unknown"
