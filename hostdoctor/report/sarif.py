"""The report as SARIF 2.1.0 (OASIS Static Analysis Results Interchange Format), which code hosts and editors show.

docs/formats.md says which outcome becomes what; section numbers are those of the standard.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable, Sequence
from urllib.parse import quote

import msgspec

from hostdoctor.findings import Check, Evidence, Finding
from hostdoctor.registry import Broken
from hostdoctor.report.model import Report

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
# By outcome: kind (3.27.9) and level (3.27.10), which is "none" for every kind but "fail".
_KINDS = {
    "failure": ("fail", "error"),
    "warning": ("fail", "warning"),
    "info": ("informational", "none"),
    "unknown": ("open", "none"),
    "ok": ("pass", "none"),
    "not-applicable": ("notApplicable", "none"),
}
_IN_FILE = re.compile(r"(?P<file>.*[^/:\s][^:\s]*):(?P<line>[1-9]\d{0,8})\Z")
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]\Z")
_RANKS = {"certain": 100.0, "likely": 80.0, "possible": 50.0}  # 3.27.25: how much a result deserves attention

_Json = dict[str, object]


def render(report: Report, checks: Iterable[Check | Broken], when: float) -> bytes:
    """The whole file.

    Args:
        report: of one scan.
        checks: those that ran.
        when: seconds since 1970 at its end.
    """
    rules = {check.id: _rule(check) for check in checks}
    for finding in report.findings:
        rules.setdefault(finding.check, {"id": finding.check})
    numbers = {name: number for number, name in enumerate(rules)}
    run: _Json = {
        "tool": {
            "driver": {"name": report.tool.name, "version": report.tool.version, "rules": list(rules.values())},
        },
        "invocations": [
            {
                "executionSuccessful": True,
                "exitCode": report.exit,
                "endTimeUtc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(when)),
            }
        ],
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, numbers) for finding in report.findings],
        "properties": {"evidence": report.evidence.kind, "sources": list(report.evidence.sources)},
    }
    whole = _sound({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]})
    return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"


def _message(text: str) -> _Json:
    """A text, in which braces would stand for arguments (3.11.5)."""
    return {"text": text.replace("{", "{{").replace("}", "}}") or "-"}


def _rule(check: Check | Broken) -> _Json:
    """What a check is (3.49)."""
    if isinstance(check, Broken):
        return {"id": check.id, "shortDescription": _message(f"could not be loaded: {check.reason}")}
    return {
        "id": check.id,
        "shortDescription": _message(check.summary),
        "fullDescription": _message(check.why),
        "help": _message(f"{check.decides}\n\nhostdoctor explain {check.id}"),
    }


def _result(finding: Finding, numbers: dict[str, int]) -> _Json:
    """A finding (3.27)."""
    kind, level = _KINDS[finding.outcome]
    text = f"{finding.title}. {finding.explanation}" if finding.explanation else finding.title
    result: _Json = {
        "ruleId": finding.check,
        "ruleIndex": numbers[finding.check],
        "kind": kind,
        "level": level,
        "message": _message(f"{text} Next: {finding.next}" if finding.next else text),
        "locations": [_location(finding)],
        "partialFingerprints": {"hostdoctor/v1": _fingerprint(finding)},
        "properties": {
            "outcome": finding.outcome,
            "confidence": finding.confidence,
            "remedies": list(finding.remedies),
            "evidence": [f"{each.source}: {each.value}" for each in finding.evidence],
        },
    }
    related = [found for each in finding.evidence if (found := _related(each))]
    if related:
        result["relatedLocations"] = [{"id": number, **each} for number, each in enumerate(related)]
    if kind == "fail":
        result["rank"] = _RANKS[finding.confidence]
    return result


def _location(finding: Finding) -> _Json:
    """The devices, and the first file that shows it (3.28): code hosts show nothing that lies in no file."""
    names: Sequence[str] = finding.subject or ("host",)
    location: _Json = {"logicalLocations": [{"fullyQualifiedName": name, "kind": _kind_of(name)} for name in names]}
    physical = next((place for each in finding.evidence if (place := _physical(each.source))), None)
    if physical:
        location["physicalLocation"] = physical
    return location


def _kind_of(name: str) -> str:
    return "device" if _ADDRESS.match(name) else "host" if name == "host" else "setting"


def _related(evidence: Evidence) -> _Json | None:
    place = _physical(evidence.source)
    return {"physicalLocation": place, "message": _message(evidence.value)} if place else None


def _physical(source: str) -> _Json | None:
    """A file, and the line where it is known (3.29); None for what is none, as NVML's functions."""
    match = _IN_FILE.match(source)
    file = match["file"] if match and not _ADDRESS.match(source) else source
    if not match and not source.startswith("/"):
        return None
    uri = quote(file.encode("utf-8", "replace"), safe="/")
    place: _Json = {"artifactLocation": {"uri": f"file://{uri}" if file.startswith("/") else uri}}
    if match and file is not source:
        place["region"] = {"startLine": int(match["line"])}
    return place


def _fingerprint(finding: Finding) -> str:
    """The same for the same trouble in each scan (3.27.17): the check and its subject, and not its words."""
    told = "\n".join((finding.check, *finding.subject))
    return hashlib.sha256(told.encode("utf-8", "replace")).hexdigest()


def _sound(value: object) -> object:
    """Plain values without lone surrogates, for which JSON has no place, and without controls of terminals."""
    if isinstance(value, str):
        text = value.encode("utf-8", "replace").decode()
        return (
            text
            if text.replace("\n", "").isprintable()
            else "".join(sign if sign.isprintable() or sign == "\n" else "\ufffd" for sign in text)
        )
    if isinstance(value, dict):
        return {name: _sound(each) for name, each in value.items()}
    return [_sound(each) for each in value] if isinstance(value, list | tuple) else value
