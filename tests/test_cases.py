"""Hosts and pastes with what must and must not be said of them; tests/cases/README.md tells their format."""

from __future__ import annotations

import fnmatch
import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trees import with_links_flattened, with_links_followed

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# What the program can do so far, of: "scan" (trees alone), "judge" (attachments and what is judged from them too), "fix".
STAGES = ("scan", "judge", "fix")

# These need a log, a measurement or the boot files.
LATER_CHECKS = {"iommu-faults", "gpu-faults", "kernel-parameters-pending", "p2p-bandwidth", "p2p-data", "host-bandwidth"}

CASES = sorted(path.parent for path in Path(__file__).parent.glob("cases/*/expect.toml"))


def is_tree(case):
    return any((case / "input" / part).is_dir() for part in ("sys", "proc"))


TREES = [case for case in CASES if is_tree(case)]


def by_name(case):
    return case.name


def sources(case):
    """The arguments that name a case's evidence."""
    if "judge" not in STAGES:
        if not is_tree(case):
            pytest.skip("attachments are not read yet")
        return ["--root", str(case / "input")]
    if not is_tree(case):
        return ["--from", str(case / "input")]
    attachments = case / "attachments"
    return ["--root", str(case / "input"), *(["--from", str(attachments)] if attachments.is_dir() else [])]


def run(*arguments):
    command = [sys.executable, "-m", "hostdoctor", *arguments]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, errors="replace", timeout=60, stdin=subprocess.DEVNULL
    )
    assert "Traceback (most recent call last)" not in done.stderr
    return done


def scan(*arguments):
    """The exit code and the report, which is there unless the scan could not be done."""
    done = run("scan", "--format", "json", *arguments)
    assert done.returncode in (0, 1, 3), done.stderr
    return done.returncode, {"findings": []} if done.returncode == 3 else json.loads(done.stdout)


@functools.cache
def report_of_tree(case):
    return scan("--root", str(case / "input"))[1]


def matches(finding, wanted):
    return (
        fnmatch.fnmatchcase(finding["check"], wanted.get("check", "*"))
        and finding["outcome"] in wanted.get("outcome", [finding["outcome"]])
        and ("subject" not in wanted or any(wanted["subject"].lower() in each.lower() for each in finding["subject"]))
        and all(word.lower() in json.dumps(finding, ensure_ascii=False).lower() for word in wanted.get("says", []))
    )


def misses(expect, findings):
    """What is expected of a case and not met."""
    judged = {
        kind: [wanted for wanted in expect.get(kind, []) if "judge" in STAGES or wanted.get("check") not in LATER_CHECKS]
        for kind in ("must", "must_not")
    }
    for wanted in judged["must"]:
        if not any(matches(finding, wanted) for finding in findings):
            alike = [each for each in findings if fnmatch.fnmatchcase(each["check"], wanted.get("check", "*"))]
            yield f"must {wanted}, got {[(each['outcome'], each['subject'], each['title']) for each in alike[:3]]}"
    for wanted in judged["must_not"]:
        for finding in findings:
            if matches(finding, wanted):
                yield f"must not {wanted}, got {finding['outcome']} {finding['subject']} {finding['title']}"


def fix_misses(wanted, arguments):
    options = wanted.get("options", [])
    printed, planned = run("fix", *arguments, *options), run("fix", *arguments, *options, "--format", "json")
    everything = (printed.stdout + printed.stderr).lower()
    if printed.returncode not in (0, 3):
        yield f"exit {printed.returncode}: {printed.stderr}"
    yield from (f"fix lacks {word!r}" for word in wanted.get("contains", []) if word.lower() not in everything)
    added = everything
    if "--firmware" not in options:
        plan = {"diff": "", "add": [], "commands": []} if planned.returncode == 3 else json.loads(planned.stdout)
        lines = [line for line in plan["diff"].splitlines() if line.startswith("+") and not line.startswith("+++")]
        added = "\n".join([*plan["add"], *lines, *plan["commands"]]).lower()
    yield from (f"fix adds {word!r}" for word in wanted.get("lacks", []) if word.lower() in added)


def expectations(case):
    return tomllib.loads((case / "expect.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_case(case):
    expect, arguments = expectations(case), sources(case)
    code, report = scan(*arguments)
    found = list(misses(expect, report["findings"]))
    assert not found, "\n".join(found)
    assert code in (expect.get("exit", [0, 1]) if "judge" in STAGES else [0, 1])
    if "fix" in STAGES:
        found = [miss for wanted in expect.get("fix", []) for miss in fix_misses(wanted, arguments)]
        assert not found, "\n".join(found)


@pytest.mark.parametrize("case", TREES, ids=by_name)
def test_links_that_became_small_files_change_nothing(case, tmp_path):
    original = report_of_tree(case)
    _, flattened = scan("--root", str(with_links_flattened(case / "input", tmp_path / "copy")))
    assert flattened["host"] == original["host"]
    assert flattened["findings"] == original["findings"]


@pytest.mark.parametrize("case", TREES, ids=by_name)
def test_links_that_were_followed_raise_no_false_alarm(case, tmp_path):
    """Such a copy has lost what lies above what: less can be judged, and nothing else may be said."""
    original = report_of_tree(case)
    _, followed = scan("--root", str(with_links_followed(case / "input", tmp_path / "copy")))

    def alarms(report):
        return {(each["check"], *each["subject"]) for each in report["findings"] if each["outcome"] in ("failure", "warning")}

    def gpus(report):
        return {gpu["address"] for gpu in report["host"]["gpus"]}

    assert gpus(followed) >= gpus(original)
    assert alarms(followed) <= alarms(original)


FINDING = {
    "check": "bar-reach",
    "outcome": "failure",
    "subject": ["0000:43:00.0", "0000:46:00.0"],
    "title": "BAR at 56 TiB",
    "evidence": [{"source": "/sys/x", "value": "44"}],
}


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"check": "bar-*", "outcome": ["warning", "failure"], "subject": "46:00", "says": ["56 tib", "44"]},
    ],
)
def test_what_is_found_meets_what_must_be_and_breaks_what_must_not(wanted):
    assert not list(misses({"must": [wanted]}, [FINDING]))
    assert len(list(misses({"must_not": [wanted]}, [FINDING]))) == 1


@pytest.mark.parametrize(
    "wanted",
    [{"check": "link-*"}, {"outcome": ["ok"]}, {"subject": "88:00"}, {"says": ["44", "16 TiB"]}],
)
def test_what_is_not_found_is_missed(wanted):
    assert len(list(misses({"must": [wanted]}, [FINDING]))) == 1
    assert not list(misses({"must_not": [wanted]}, [FINDING]))


def test_there_are_cases_of_both_kinds():
    assert len(TREES) >= 13
    assert len(CASES) - len(TREES) >= 60
