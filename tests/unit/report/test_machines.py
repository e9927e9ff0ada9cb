"""JUnit, SARIF and Prometheus: each read back by a parser of its own, for ordinary hosts and for hostile names."""

from __future__ import annotations

import json
import math
import os
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from hostdoctor.diagnosis import failing
from hostdoctor.findings import Cost, Evidence, Finding
from hostdoctor.registry import built_in
from hostdoctor.report import junit, model, prometheus, sarif

jsonschema = pytest.importorskip("jsonschema")
metrics_parser = pytest.importorskip("prometheus_client.parser")

CASES = Path(__file__).parents[2] / "cases"
NAMES = ("seed-v620-before", "seed-v620-after", "seed-blackwell-ada", "sysfs-laptop-x8", "vm-flat-bus", "topo-two-sockets")
WHEN = 1_700_000_000.0

HOSTILE = Finding(
    "link-width",
    "failure",
    ('0000:43:00.0"} 9\n\\', "é\udcff"),
    "a title with <tags> & \x1b[31mcolour\x00 ]]> and {0} braces\ud800",
    explanation="multi\nline",
    evidence=(
        Evidence("/sys/bus/pci/devices/0000:43:00.0/current_link_width", "8"),
        Evidence("lspci.txt:120", "x8"),
        Evidence("nvmlDeviceGetPerformanceState", "P0"),
        Evidence("a name with blanks %.txt:7", ""),
    ),
    cost=Cost("7.9 GB/s each way instead of 15.8", 7.88, 15.75),
    remedies=("reseat-or-move-card",),
    next="reseat it",
)


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    from hostdoctor.cli.evidence import open_evidence  # noqa: PLC0415
    from hostdoctor.diagnosis import diagnose  # noqa: PLC0415
    from hostdoctor.view import View  # noqa: PLC0415

    found = {}
    for name in NAMES:
        with open_evidence(None, (str(CASES / name / "input"),)) as opened:
            view = View(opened.read(10.0, assume_bare_metal=False))
            found[name] = model.build(opened.sources(), view, diagnose(view, list(built_in())), 1)
    first = found["seed-v620-before"]
    gpu = msgspec.structs.replace(first.host.gpus[0], name='quote " and \\ and \n', address="0000:1a:00.0\n")
    found["hostile"] = msgspec.structs.replace(
        first, findings=(HOSTILE, HOSTILE, *first.findings), host=msgspec.structs.replace(first.host, gpus=(gpu,))
    )
    return found


@pytest.fixture(params=[*NAMES, "hostile"])
def report(request, reports):
    return reports[request.param]


# --- JUnit ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fail_on", "strict"), [("failure", False), ("warning", False), ("failure", True), ("never", False)])
def test_junit_has_a_case_for_each_finding(report, fail_on, strict):
    bad = failing(fail_on, strict)
    root = ET.fromstring(junit.render(report, bad, 1.25, WHEN))
    (suite,) = root
    assert (root.tag, suite.tag) == ("testsuites", "testsuite")
    cases = suite.findall("testcase")
    assert len(cases) == len(report.findings)
    for case, finding in zip(cases, report.findings, strict=True):
        assert case.get("classname") == f"hostdoctor.{finding.check}"
        kinds = [child.tag for child in case]
        if finding.outcome in bad:
            assert kinds == ["failure"]
            assert case[0].get("type") == finding.outcome
        elif finding.outcome in ("unknown", "not-applicable"):
            assert kinds == ["skipped"]
            assert case[0].get("message")
        else:
            assert kinds == ["system-out"]
            assert case[0].text.startswith(f"{finding.outcome}: ")
    numbers = {name: int(suite.get(name)) for name in ("tests", "failures", "errors", "skipped")}
    tags = Counter(child.tag for case in cases for child in case)
    assert numbers == {"tests": len(cases), "failures": tags["failure"], "errors": 0, "skipped": tags["skipped"]}
    assert {name: root.get(name) for name in numbers} == {name: str(value) for name, value in numbers.items()}
    assert (suite.get("timestamp"), suite.get("time")) == ("2023-11-14T22:13:20", "1.250")


def test_junit_tells_apart_cases_of_one_name(report):
    """A server keeps the history of a case by its name."""
    root = ET.fromstring(junit.render(report, ("failure",), 0.0, WHEN))
    names = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    assert len(set(names)) == len(names)
    assert all(name.strip() for each in names for name in each)


# What Jenkins' and Maven Surefire's schemas have of what is used here: the children of each element, in order, and attributes.
JUNIT = {
    "testsuites": (["testsuite"], {"name", "tests", "failures", "errors", "skipped", "time"}),
    "testsuite": (["properties", "testcase"], {"name", "tests", "failures", "errors", "skipped", "time", "timestamp"}),
    "properties": (["property"], set()),
    "property": ([], {"name", "value"}),
    "testcase": (["skipped", "failure", "system-out"], {"classname", "name", "time"}),
    "skipped": ([], {"message"}),
    "failure": ([], {"message", "type"}),
    "system-out": ([], set()),
}


def test_junit_is_of_the_shape_that_servers_read(report):
    for element in ET.fromstring(junit.render(report, ("failure",), 0.0, WHEN)).iter():
        children, attributes = JUNIT[element.tag]
        places = [children.index(child.tag) for child in element]
        assert places == sorted(places)
        assert set(element.attrib) == attributes


# --- SARIF ------------------------------------------------------------------------------------------------------------

TEXT = {"type": "string", "minLength": 1}
MESSAGE = {"type": "object", "properties": {"text": TEXT}, "required": ["text"], "additionalProperties": False}
PLACE = {
    "type": "object",
    "properties": {
        "artifactLocation": {
            "type": "object",
            "properties": {"uri": {"type": "string", "format": "uri-reference", "pattern": r"\A[!-~]+\Z"}},
            "required": ["uri"],
            "additionalProperties": False,
        },
        "region": {
            "type": "object",
            "properties": {"startLine": {"type": "integer", "minimum": 1}},
            "additionalProperties": False,
        },
    },
    "required": ["artifactLocation"],
    "additionalProperties": False,
}
LOCATION = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 0},
        "message": MESSAGE,
        "physicalLocation": PLACE,
        "logicalLocations": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {"fullyQualifiedName": TEXT, "kind": TEXT},
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
# What section 3 of the standard (SARIF 2.1.0, OASIS, 2020) says of the objects that are used here.
SARIF = {
    "type": "object",
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "tool": {
                        "type": "object",
                        "properties": {
                            "driver": {
                                "type": "object",
                                "properties": {
                                    "name": TEXT,
                                    "version": TEXT,
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {
                                            "type": "object",
                                            "properties": {
                                                "id": TEXT,
                                                "shortDescription": MESSAGE,
                                                "fullDescription": MESSAGE,
                                                "help": MESSAGE,
                                            },
                                            "required": ["id"],
                                            "additionalProperties": False,
                                        },
                                    },
                                },
                                "required": ["name"],
                                "additionalProperties": False,
                            }
                        },
                        "required": ["driver"],
                        "additionalProperties": False,
                    },
                    "invocations": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {
                                "executionSuccessful": {"type": "boolean"},
                                "exitCode": {"type": "integer"},
                                "endTimeUtc": {"pattern": r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z"},
                            },
                            "required": ["executionSuccessful"],
                            "additionalProperties": False,
                        },
                    },
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "properties": {"type": "object"},
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {
                                "ruleId": TEXT,
                                "ruleIndex": {"type": "integer", "minimum": 0},
                                "kind": {"enum": ["notApplicable", "pass", "fail", "review", "open", "informational"]},
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "rank": {"type": "number", "minimum": 0, "maximum": 100},
                                "message": MESSAGE,
                                "locations": {"type": "array", "items": LOCATION},
                                "relatedLocations": {"type": "array", "uniqueItems": True, "items": LOCATION},
                                "partialFingerprints": {"type": "object", "additionalProperties": TEXT},
                                "properties": {"type": "object"},
                            },
                            "required": ["message"],
                            "additionalProperties": False,
                            # 3.27.10: what has not failed has no level.
                            "if": {"properties": {"kind": {"not": {"const": "fail"}}}},
                            "then": {"properties": {"level": {"const": "none"}}},
                        },
                    },
                },
                "required": ["tool"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["version", "runs"],
    "additionalProperties": False,
}


def sarif_of(report):
    return json.loads(sarif.render(report, built_in(), WHEN))


def test_sarif_is_of_the_standards_shape(report):
    jsonschema.Draft202012Validator(SARIF).validate(sarif_of(report))


def test_sarif_has_a_result_for_each_finding(report):
    (run,) = sarif_of(report)["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    kinds = {"failure": "fail", "warning": "fail", "info": "informational", "unknown": "open", "ok": "pass"}
    for result, finding in zip(run["results"], report.findings, strict=True):
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == finding.check
        assert result["kind"] == kinds.get(finding.outcome, "notApplicable")
        assert len(result["partialFingerprints"]["hostdoctor/v1"]) == 64


def test_sarif_places_what_lies_in_a_file(reports):
    result = sarif_of(reports["hostile"])["runs"][0]["results"][0]
    places = [each["physicalLocation"] for each in result["relatedLocations"]]
    assert [place["artifactLocation"]["uri"] for place in places] == [
        "file:///sys/bus/pci/devices/0000%3A43%3A00.0/current_link_width",
        "lspci.txt",
        "a%20name%20with%20blanks%20%25.txt",
    ]
    assert [place.get("region") for place in places] == [None, {"startLine": 120}, {"startLine": 7}]
    assert result["locations"][0]["physicalLocation"] == places[0]
    assert "{{0}} braces" in result["message"]["text"]


def test_sarif_knows_the_same_trouble_again(reports):
    """Words may change from one version to the next; what is recognised does not."""
    report = reports["seed-v620-before"]
    other = msgspec.structs.replace(
        report, findings=tuple(msgspec.structs.replace(each, title="x", explanation="") for each in report.findings)
    )
    prints = [[each["partialFingerprints"] for each in sarif_of(one)["runs"][0]["results"]] for one in (report, other)]
    assert prints[0] == prints[1]


# --- Prometheus -------------------------------------------------------------------------------------------------------


def samples(data):
    """By metric and labels; a parser of Prometheus' own reads them."""
    text = data.decode()
    assert text.endswith("\n")
    found = {}
    for family in metrics_parser.text_string_to_metric_families(text):
        assert family.type == "gauge"
        assert family.documentation
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, key
            assert not math.isnan(sample.value)
            found[key] = sample.value
    return found


def test_metrics_count_the_findings(report):
    found = samples(prometheus.render(report, 0.5, WHEN))
    for outcome in ("failure", "warning", "info", "unknown", "ok", "not-applicable"):
        assert found["hostdoctor_findings", (("outcome", outcome),)] == report.summary.get(outcome, 0)
    assert found["hostdoctor_scan_timestamp_seconds", ()] == WHEN
    assert found["hostdoctor_scan_exit_status", ()] == report.exit
    told = {key[1] for key in found if key[0] == "hostdoctor_finding_info"}
    loud = [each for each in report.findings if each.outcome not in ("ok", "not-applicable")]
    assert len(told) == len({(each.check, each.subject, each.outcome) for each in loud})


LABELS = {
    "hostdoctor_build_info": ["version"],
    "hostdoctor_findings": ["outcome"],
    "hostdoctor_finding_info": ["check", "outcome", "subject"],
    "hostdoctor_gpu_info": ["driver", "gpu", "id", "name"],
    "hostdoctor_p2p_expected": ["accessor", "owner"],
}


def test_the_labels_of_a_metric_are_always_the_same(report):
    for name, labels in samples(prometheus.render(report, 0.5, WHEN)):
        usual = [] if name.startswith("hostdoctor_scan_") else ["gpu"]
        assert [label for label, _ in labels] == LABELS.get(name, usual), name


def test_every_metric_is_described():
    text = (Path(__file__).parents[3] / "docs/formats.md").read_text()
    rendered = prometheus.render(next(iter(_rich())), 0.5, WHEN).decode()
    names = {line.split()[2] for line in rendered.splitlines() if line.startswith("# TYPE")}
    assert len(names) > 15
    assert not [name for name in names if f"`{name}" not in text]


def _rich():
    from hostdoctor.cli.evidence import open_evidence  # noqa: PLC0415
    from hostdoctor.view import View  # noqa: PLC0415

    with open_evidence(str(CASES / "seed-v620-before" / "input"), ()) as opened:
        yield model.build(opened.sources(), View(opened.read(10.0, assume_bare_metal=False)), (), 0)


def test_metrics_of_a_known_host(reports):
    found = samples(prometheus.render(reports["seed-v620-before"], 0.5, WHEN))
    gpu = (("gpu", "0000:1a:00.0"),)
    assert found["hostdoctor_slot_speed_gts", gpu] == 8
    assert found["hostdoctor_slot_width_lanes", gpu] == 8
    assert found["hostdoctor_gpu_memory_bytes", gpu] == 32195477504
    assert found["hostdoctor_p2p_expected", (("accessor", "0000:1a:00.0"), ("owner", "0000:1d:00.0"))] == 0
    assert round(found["hostdoctor_gpu_to_root_bytes_per_second", gpu] / 1e9, 1) == 7.9


def test_what_is_not_known_has_no_sample(reports):
    """A gap, which an alert can look for, and never a zero."""
    found = samples(prometheus.render(reports["topo-two-sockets"], 0.5, WHEN))
    assert not [key for key in found if key[0].startswith("hostdoctor_slot_")]


def test_hostile_labels_stay_labels(reports):
    found = samples(prometheus.render(reports["hostile"], 0.5, WHEN))
    subjects = {dict(labels)["subject"] for name, labels in found if name == "hostdoctor_finding_info"}
    assert '0000:43:00.0"} 9\n\\ é?' in subjects


# --- by command -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format_", ["junit", "sarif", "prometheus"])
def test_the_command_writes_each(format_, tmp_path):
    from click.testing import CliRunner  # noqa: PLC0415

    from hostdoctor.cli.main import cli  # noqa: PLC0415

    file = tmp_path / "out"
    arguments = ["scan", "--root", str(CASES / "seed-v620-before" / "input"), "--format", format_, "-o", str(file)]
    done = CliRunner().invoke(cli, arguments)
    assert (done.exit_code, done.output) == (1, "")
    assert file.stat().st_size > 1000
    assert os.listdir(tmp_path) == ["out"]
