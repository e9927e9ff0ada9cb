"""The file of `hostdoctor bandwidth`: read whole, cut anywhere, and whatever else stands in it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.bandwidth.journal import Began, Begun, Device, Done, Ended, LinkSeen, Planned, Tool, read
from hostdoctor.bandwidth.steps import Step, StepResult
from hostdoctor.parsers.measuring_run import parse
from hostdoctor.parsers.paste import split

A, B = "0000:43:00.0", "0000:83:00.0"
AT = "2026-11-29T22:35:02Z"


def done(step, *samples, links=(), **more):
    return Done(AT, "hip", StepResult(step, samples, **more), 1.0, links)


def file(*records):
    return "".join(f"{msgspec.json.encode(record).decode()}\n" for record in records)


HOST = Step("to-gpu", "host:0", A, A)
STAGED, DIRECT = (Step("pair", A, B, A, direct) for direct in (False, True))
BACK, BOTH = Step("pair", B, A, B), Step("pair", A, B, A, both_ways=True)
STEPS = (HOST, STAGED, DIRECT, BACK, BOTH)
HEAD = (
    Began("0.1.0", AT),
    Tool("hip", "HIP 6.2", "/usr/bin/python3", "amd", (Device(A, "Pro V620", 0), Device(B, "Pro V620", 0))),
    *(Planned("hip", step) for step in STEPS),
)
LINK = LinkSeen("0000:41:00.0", 8.0, 8)
WHOLE = file(
    *HEAD,
    Begun(AT, "hip", HOST),
    done(HOST, 6.7, 6.9, 6.8, data="right", links=(LINK, LinkSeen("0000:40:01.0", 2.5, 16))),
    done(STAGED, 3.1, data="right"),
    done(DIRECT, 6.6, data="right", latency_us=1.5),
    done(BACK, error="the driver grants no peer access", error_kind="forbidden"),
    done(BOTH, 12.9, data="right", links=(LinkSeen("0000:81:00.0", 2.5, 8),)),
    Ended(AT, "complete"),
)


def run_of(text):
    (part,) = split(text, "run.jsonl")
    assert part.kind == "measuring-run"
    (run,) = parse(part)
    return run


def test_medians_words_and_links():
    run = run_of(WHOLE)
    found = {(t.origin, t.target, t.peer_access, t.both_ways): t.gbs for t in run.transfers if t.latency_us is None}
    assert found == {
        ("host:0", A, None, False): 6.8,
        (A, B, False, False): 3.1,
        (A, B, True, False): 6.6,
        (A, B, True, True): 12.9,
        (B, A, True, True): 12.9,
    }
    assert [t.latency_us for t in run.transfers if t.latency_us] == [1.5]
    assert {(word.accessor, word.owner): word.allowed for word in run.words} == {(A, B): True, (B, A): False}
    assert run.transfers[0].source == "run.jsonl:9"
    assert not run.cut


def test_a_link_counts_where_host_copies_can_have_passed_over_it():
    """An idle look (2.5 GT/s x8 carries 2 GB/s), and a look beside a pair of GPUs, tell nothing."""
    assert [(link.port, link.speed_gts) for link in run_of(WHOLE).links] == [("0000:41:00.0", 8.0)]


def test_that_the_control_arm_is_right_proves_nothing_of_direct_copies():
    right = {(v.origin, v.target) for v in run_of(WHOLE).verifications if v.right}
    assert right == {("host:0", A), (A, B), (B, A)}  # the last by both ways at once
    staged_alone = file(*HEAD, done(STAGED, 3.1, data="right"))
    assert run_of(staged_alone).verifications == ()


@pytest.mark.parametrize("wrong", [DIRECT, BACK, STAGED, BOTH])
def test_wrong_data_take_every_figure_of_the_pair_away(wrong):
    steps = {STAGED: 3.1, DIRECT: 6.6, BACK: 6.5, BOTH: 12.9}
    records = [done(step, rate, data="right", latency_us=1.5) for step, rate in steps.items() if step is not wrong]
    records.insert(1, done(wrong, data="wrong", wrong_kind="zeroed", wrong_bytes=4096))
    run = run_of(file(*HEAD, done(HOST, 6.8, data="right"), *records))
    assert [t.gbs for t in run.transfers if t.gbs is not None] == [6.8]
    assert not [t for t in run.transfers if t.latency_us is not None]
    (told,) = [v for v in run.verifications if v.right is False]
    assert "zeroes arrived; 4,096 of 67,108,864 bytes differ" in told.text


def test_what_was_really_copied_counts():
    """Less than was asked for, from the node that the memory lay on."""
    (found,) = run_of(file(*HEAD, done(HOST, 6.8, data="right", size_bytes=1 << 20, host_node=1))).transfers
    assert (found.origin, found.size_bytes) == ("host:1", 1 << 20)


def test_what_began_and_never_ended_is_broken():
    run = run_of(file(*HEAD, done(HOST, 6.8), Begun(AT, "hip", DIRECT)))
    (broken,) = run.broken
    assert (broken.origin, broken.target) == (A, B)
    assert AT in broken.text
    assert run.cut


@pytest.mark.parametrize(("kind", "count"), [("timeout", 1), ("lost", 1), ("sticky", 1), ("out-of-memory", 0), ("busy", 0)])
def test_only_harm_is_broken(kind, count):
    assert len(run_of(file(*HEAD, done(DIRECT, error="it failed", error_kind=kind))).broken) == count


def test_a_step_tried_again_counts_as_it_ended_last():
    again = file(*HEAD, done(DIRECT, error="late", error_kind="timeout"), Begun(AT, "hip", DIRECT), done(DIRECT, 6.6))
    assert run_of(again).broken == ()


@given(st.integers(0, len(WHOLE)))
def test_cut_anywhere(at):
    found = read(WHOLE[:at].split("\n"))
    assert len(found.done) <= len(STEPS)
    for part in split(WHOLE[:at], "run.jsonl"):
        if part.kind == "measuring-run":
            assert len(parse(part)) <= 1


@given(st.text(), st.sampled_from(WHOLE.splitlines()))
def test_any_text_beside_it(text, line):
    read([text, line, f'{{"record":"done",{text}', line[: len(line) // 2]])
