from __future__ import annotations

import msgspec
import pytest

from hostdoctor.diagnosis import diagnose, exit_code
from hostdoctor.evidence.files import FileEvidence
from hostdoctor.readers.host import read_host
from hostdoctor.registry import built_in
from hostdoctor.report import model
from hostdoctor.report.tree import tree_lines
from hostdoctor.view import View


class Scanned(msgspec.Struct):
    report: model.Report
    tree: list[str]


@pytest.fixture(scope="session")
def scan():
    """Reads and judges a tree, once."""
    done = {}

    def run(root):
        if root not in done:
            with FileEvidence(str(root)) as evidence:
                view = View(read_host(evidence))
                findings = diagnose(view, built_in())
                report = model.build(model.sources_of(evidence), view, findings, exit_code(findings))
            done[root] = Scanned(report, list(tree_lines(view, everything=True)))
        return done[root]

    return run
