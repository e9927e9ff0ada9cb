"""Each case judged before and after its input was redacted: the same findings, and redacting again changes nothing."""

from __future__ import annotations

import os

import pytest

from hostdoctor.cli.evidence import open_evidence
from hostdoctor.diagnosis import diagnose
from hostdoctor.redaction import Redactor
from hostdoctor.registry import built_in
from hostdoctor.view import View
from tests.test_cases import CASES, by_name, is_tree

CHECKS = list(built_in())
PARTS = ("input", "attachments")


def judged(case):
    """The findings; none where nothing in a case can be read."""
    attached = [str(case / part) for part in PARTS if (case / part).is_dir()]
    root = attached.pop(0) if is_tree(case) else None
    try:
        with open_evidence(root, attached) as opened:
            return list(diagnose(View(opened.read(10.0, False)), CHECKS))
    except SystemExit:
        return []


def redacted_copy(case, to):
    """Writes the case's files below another folder, redacted; gives the redactor."""
    redactor, files = Redactor(), []
    for part in PARTS:
        for folder, folders, names in os.walk(case / part):
            there = to / os.path.relpath(folder, case)
            there.mkdir(parents=True, exist_ok=True)
            for name in [*folders, *names]:
                path = os.path.join(folder, name)
                if os.path.islink(path):
                    (there / name).symlink_to(os.readlink(path))
                elif name in names:
                    with open(path, "rb") as file:
                        files.append((os.path.relpath(path, case), file.read()))
    for _, data in files:
        redactor.observe(data.decode("utf-8", "surrogateescape"))
    for path, data in files:
        changed = redactor.data(data, path)
        assert Redactor().data(changed, path) == changed
        (to / path).write_bytes(changed)
    return redactor


@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_findings_are_the_same_after_redaction(case, tmp_path, capsys):
    redactor = redacted_copy(case, tmp_path)
    before = {(each.check, each.outcome, tuple(redactor.value(each.subject))) for each in judged(case)}
    after = {(each.check, each.outcome, each.subject) for each in judged(tmp_path)}
    assert after == before
