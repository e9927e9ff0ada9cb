"""The matrices of `hostdoctor bandwidth`: as wide as a terminal, with nothing in them that could harm one."""

from __future__ import annotations

import json

import pytest

from hostdoctor.bandwidth.journal import Journal, Tool
from hostdoctor.bandwidth.recorded import Cell
from hostdoctor.bandwidth.steps import Device, Step
from hostdoctor.findings import Finding
from hostdoctor.report.bandwidth import Outcome, to_csv, to_json, to_text
from hostdoctor.report.text import Style


def outcome(count, *, name="Radeon PRO V620", findings=(), **changed):
    gpus = [f"0000:{number:02x}:00.0" for number in range(1, count + 1)]
    steps = [Step("to-gpu", "host:0", gpu, gpu) for gpu in gpus]
    steps += [Step("pair", a, b, a) for a in gpus for b in gpus if a != b]
    cells = [Cell("hip", step, 6.6, 6.5, 6.7, 7, None, "right", "measured", "", "run:1", **changed) for step in steps]
    tool = Tool("hip", "HIP 6.2", "/usr/bin/python3", "amd", tuple(Device(gpu, name, 0) for gpu in gpus))
    journal = Journal(None, (tool,), tuple(("hip", step) for step in steps), ended="complete")
    return Outcome(journal, cells, (), findings, "run.jsonl", 0, None)


@pytest.mark.parametrize("count", [1, 2, 8, 11, 16, 24])
def test_a_terminal_of_100_columns_is_wide_enough(count):
    text = to_text(outcome(count), Style(width=100))
    assert max(map(len, text.splitlines())) <= 100
    assert text.count("6.6") == count + count * (count - 1)


def test_cells_of_bad_verdicts_are_marked_and_the_marks_explained():
    bad = ("0000:01:00.0", "0000:02:00.0")
    findings = [Finding("p2p-bandwidth", "failure", bad, "slow"), Finding("p2p-bandwidth", "warning", bad[::-1], "slow")]
    text = to_text(outcome(2, findings=findings), Style())
    assert "6.6!" in text
    assert "6.6~" in text
    assert "a failure, see below" in text
    assert "slower than it should be" in text


def test_names_do_nothing_to_a_terminal():
    evil = "V620\x1b[31m\nresults: /etc/passwd"
    found = outcome(2, name=evil)
    for output in (to_text(found, Style()), to_json(found).decode(), to_csv(found).decode()):
        assert "\x1b" not in output
    assert evil in json.loads(to_json(found))["tools"][0]["devices"][0]["name"]


def test_the_json_is_schema_1_with_a_line_for_each_step():
    found = json.loads(to_json(outcome(2)))
    assert (found["schema"], found["tool"]["name"], found["exit"], found["ended"]) == (1, "hostdoctor", 0, "complete")
    assert len(found["measurements"]) == len(to_csv(outcome(2)).splitlines()) - 1 == 4
