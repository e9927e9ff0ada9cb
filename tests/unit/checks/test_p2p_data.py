"""Whether data arrived right, by tests that compare them."""

from __future__ import annotations

import pytest

A, B = "0000:43:00.0", "0000:83:00.0"


def measured(build, *transfers, **more):
    return build.host(build.two_navi_cards(), runs=(build.run(*transfers, **more),))


def by_pair(findings):
    return {finding.subject: finding.outcome for finding in findings}


def test_one_wrong_direction_is_a_failure_of_that_direction(build, judge, text):
    found = judge(
        "p2p-data", measured(build, build.copy(A, B, 6.6), build.copy(B, A, 6.6), verified=((A, B, False), (B, A, True)))
    )
    assert by_pair(found) == {(A, B): "failure", (B, A): "ok"}
    wrong = next(each for each in found if each.outcome == "failure")
    assert f"from {A} to {B}" in text(wrong)
    assert "run.txt:30" in text(wrong)
    assert wrong.remedies == ("distrust-p2p",)


def test_right_data_are_no_proof_for_kernels(build, judge, text):
    (found, _) = judge("p2p-data", measured(build, build.copy(A, B, 6.6), verified=((A, B, True), (B, A, True))))
    assert found.outcome == "ok"
    assert "were not" in text(found)


def test_one_wrong_test_of_several_counts(build, judge):
    described = build.host(
        build.two_navi_cards(),
        runs=(build.run(verified=((A, B, True),)), build.run(verified=((A, B, False),))),
    )
    assert by_pair(judge("p2p-data", described)) == {(A, B): "failure"}


@pytest.mark.parametrize("verified", [(), ((A, B, None),)])
def test_a_rate_alone_says_nothing_of_the_data(build, verdict, verified):
    assert verdict("p2p-data", measured(build, build.copy(A, B, 6.6), verified=verified)).outcome == "unknown"


@pytest.mark.parametrize(
    ("ends", "words"), [(("host:0", A), "the GPU and the host"), ((A, A), "inside the GPU"), (("", ""), "does not tell")]
)
def test_wrong_data_elsewhere(build, verdict, text, ends, words):
    found = verdict("p2p-data", measured(build, verified=((*ends, False),)))
    assert found.outcome == "failure"
    assert words in text(found)


def test_right_data_of_host_copies_are_not_of_this_check(build, verdict):
    assert verdict("p2p-data", measured(build, verified=(("host:0", A, True),))).outcome == "not-applicable"


def test_wrong_data_are_wrong_in_a_guest_too(build, verdict):
    described = build.host(build.two_navi_cards(), environment=build.GUEST, runs=(build.run(verified=((A, B, False),)),))
    assert verdict("p2p-data", described).outcome == "failure"


def test_nothing_recorded_is_not_applicable(build, verdict):
    assert verdict("p2p-data", build.host(build.two_navi_cards())).outcome == "not-applicable"
