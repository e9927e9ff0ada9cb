"""Runs the checks over a host's facts."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence

import msgspec

from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import OUTCOMES, Check, Finding, Outcome, without_pci
from hostdoctor.registry import Broken
from hostdoctor.view import View

_ORDER = {outcome: place for place, outcome in enumerate(OUTCOMES)}


def selected(checks: Iterable[Check | Broken], only: Sequence[str] = (), skip: Sequence[str] = ()) -> list[Check | Broken]:
    """The checks whose id matches a pattern of `only` (or all, without any) and none of `skip`."""
    return [
        check
        for check in checks
        if (not only or any(fnmatch.fnmatchcase(check.id, pattern) for pattern in only))
        and not any(fnmatch.fnmatchcase(check.id, pattern) for pattern in skip)
    ]


def diagnose(view: View, checks: Iterable[Check | Broken]) -> list[Finding]:
    """Every finding, worst first, then in the checks' order; each check gives at least one."""
    found: list[Finding] = []
    for check in checks:
        found += _run(view, check)
    return sorted(found, key=lambda finding: _ORDER[finding.outcome])


def _run(view: View, check: Check | Broken) -> list[Finding]:
    if isinstance(check, Broken):
        title = f"the check {check.id} of {check.source} could not be loaded"
        return [Finding(check.id, "unknown", (), title, f"{check.reason}.", help="mend or remove it")]
    if check.bare_metal_only and view.host.environment.is_guest:
        return [Finding(check.id, "not-applicable", (), "not judged in a guest")]
    functions = view.host.functions
    blind: list[Finding] = []
    if check.needs_pci and isinstance(functions, Unknown):
        blind = [without_pci(check.id, functions)]
    if blind and view.host.log is None and not view.host.nvml_complaint:
        return blind
    try:
        found = [_checked(each) for each in check.judge(view)]
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plugin may even try to exit
        title = f"the check {check.id} failed itself: {type(error).__name__}: {error}"
        return [Finding(check.id, "unknown", (), title, help="report it with the evidence of this host")]
    if blind and all(finding.outcome in ("ok", "not-applicable") for finding in found):
        return blind  # a log or a complaint alone can tell of faults, but not that there are none
    return found or [Finding(check.id, "not-applicable", (), check.nothing)]


def _checked(finding: object) -> Finding:
    """What a check gave, if it is a finding that every report can hold; raises TypeError or ValidationError."""
    if not isinstance(finding, Finding):
        raise TypeError(f"it gave a {type(finding).__name__} where a Finding is expected")
    return msgspec.convert(msgspec.to_builtins(finding), Finding)


def summary(findings: Iterable[Finding]) -> dict[Outcome, int]:
    """How many findings of each outcome there are."""
    counts: dict[Outcome, int] = dict.fromkeys(OUTCOMES, 0)
    for finding in findings:
        counts[finding.outcome] += 1
    return counts


def exit_code(findings: Iterable[Finding], fail_on: str = "failure", strict: bool = False) -> int:
    """1 where a finding is as bad as `fail_on` or worse ("never": none is), or unknown under `strict`, else 0."""
    bad = failing(fail_on, strict)
    return int(any(finding.outcome in bad for finding in findings))


def failing(fail_on: str = "failure", strict: bool = False) -> tuple[Outcome, ...]:
    """The outcomes that make a scan end with 1."""
    if fail_on == "never":
        return ()
    worst = OUTCOMES[: _ORDER[_as_outcome(fail_on)] + 1]
    return (*worst, "unknown") if strict else worst


def _as_outcome(text: str) -> Outcome:
    return next(outcome for outcome in OUTCOMES if outcome == text)
