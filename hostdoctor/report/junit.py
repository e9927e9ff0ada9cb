"""The report as JUnit XML, in the shape that Maven Surefire writes and Jenkins and GitLab read: one test case a finding.

docs/formats.md says which outcome becomes what.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Collection, Iterator
from xml.etree.ElementTree import Element, SubElement, indent, tostring  # written, never read: nothing hostile is parsed

from hostdoctor.findings import Finding
from hostdoctor.report.model import Report

# XML 1.0 has no place for these, not even escaped (section 2.2).
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SKIPPED = ("unknown", "not-applicable")
_HOST = "host"


def render(report: Report, failing: Collection[str], seconds: float, when: float) -> bytes:
    """The whole file.

    Args:
        report: of one scan.
        failing: the outcomes that fail the scan, as --fail-on and --strict have them.
        seconds: how long the scan took.
        when: seconds since 1970 at its end.
    """
    findings = report.findings
    failures = sum(each.outcome in failing for each in findings)
    skipped = sum(each.outcome in _SKIPPED and each.outcome not in failing for each in findings)
    counts = {"tests": len(findings), "failures": failures, "errors": 0, "skipped": skipped}
    numbers = {name: str(value) for name, value in counts.items()}
    root = Element("testsuites", {"name": report.tool.name, **numbers, "time": f"{seconds:.3f}"})
    suite = SubElement(root, "testsuite", {"name": report.tool.name, **numbers, "time": f"{seconds:.3f}"})
    suite.set("timestamp", time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(when)))
    properties = SubElement(suite, "properties")
    for name, value in _properties(report):
        SubElement(properties, "property", {"name": name, "value": _sound(value)})
    names: Counter[tuple[str, str]] = Counter()
    for finding in findings:
        name = " ".join(finding.subject) or _HOST
        names[finding.check, name] += 1
        repeated = names[finding.check, name]
        _case(suite, finding, name if repeated == 1 else f"{name} ({repeated})", finding.outcome in failing)
    indent(root)
    data: bytes = tostring(root, encoding="utf-8", xml_declaration=True)
    return data + b"\n"


def _properties(report: Report) -> Iterator[tuple[str, str]]:
    yield "version", report.tool.version
    yield "evidence", f"{report.evidence.kind}: {', '.join(report.evidence.sources)}"
    yield "kernel", report.host.kernel if isinstance(report.host.kernel, str) else "unknown"
    yield "exit", str(report.exit)


def _case(suite: Element, finding: Finding, name: str, fails: bool) -> None:
    case = SubElement(suite, "testcase", {"classname": f"hostdoctor.{finding.check}", "name": _sound(name), "time": "0"})
    told = _sound(_text(finding))
    if fails:
        failure = SubElement(case, "failure", {"message": _sound(finding.title), "type": finding.outcome})
        failure.text = told
    elif finding.outcome in _SKIPPED:
        SubElement(case, "skipped", {"message": _sound(finding.title)})
    else:
        SubElement(case, "system-out").text = told


def _text(finding: Finding) -> str:
    """All that a finding says, a line each."""
    lines = [f"{finding.outcome}: {finding.title}", finding.explanation]
    lines += [f"seen: {each.source}  {each.value}" for each in finding.evidence]
    lines.append(f"costs: {finding.cost.text}" if finding.cost else "")
    lines.append(f"next: {finding.next}" if finding.next else "")
    lines.append(f"remedies: {', '.join(finding.remedies)}" if finding.remedies else "")
    return "\n".join(line for line in lines if line)


def _sound(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
