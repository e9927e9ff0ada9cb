from __future__ import annotations

import functools
from pathlib import Path

import pytest

from hostdoctor.cli.evidence import open_evidence
from hostdoctor.report.model import record_of

CASES = Path(__file__).parents[2] / "cases"
NAMES = sorted(path.parent.name for path in CASES.glob("*/expect.toml"))
UNJUDGED = {"empty-file", "garbage-binary"}  # these hold nothing


@functools.cache
def record_of_case(name):
    """What a report of a case carries."""
    given, beside = CASES / name / "input", CASES / name / "attachments"
    is_tree = any((given / part).is_dir() for part in ("sys", "proc"))
    texts = [str(beside)] if beside.is_dir() else []
    with open_evidence(str(given), texts) if is_tree else open_evidence(None, [str(given)]) as opened:
        host = opened.read(10.0, assume_bare_metal=False)
        return record_of(opened.sources(), host)


@pytest.fixture(params=[name for name in NAMES if name not in UNJUDGED])
def record(request):
    return record_of_case(request.param)
