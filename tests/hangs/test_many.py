"""Scans side by side and one after another: they say the same, and nothing is left of them."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY / "bench"))  # which is no package
import soak as soaking  # noqa: E402
from trees import build  # noqa: E402

SIDE_BY_SIDE = 8
IN_A_ROW = 50
WARM_UP = 5
WAIT_S = 300


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    root = tmp_path_factory.mktemp("tree1024")
    build(1024, root)
    return str(root)


def test_scans_side_by_side(tmp_path):
    build(128, tmp_path)
    command = [sys.executable, "-m", "hostdoctor", "scan", "--root", tmp_path, "--format", "json", "--deadline", "600"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    scans = [subprocess.Popen(command, cwd=REPOSITORY, **pipes) for _ in range(SIDE_BY_SIDE)]
    told = {(*scan.communicate(timeout=WAIT_S), scan.returncode) for scan in scans}
    assert len(told) == 1
    ((report, errors, status),) = told
    assert (errors, status in {0, 1}) == (b"", True)
    assert json.loads(report)["host"]["functions"] == 128
    assert b"end in time" not in report


def test_scans_in_a_row(tree):
    soaking.Soak(tree).run(WARM_UP)
    before = soaking.children()
    soak = soaking.Soak(tree)
    soak.run(IN_A_ROW)
    assert len(soak.digests) == 1
    assert len(soak.descriptors) == 1
    assert soak.children == len(before)
    # One function's facts are over a kilobyte, so a scan that kept its host would show as a mebibyte a scan.
    assert soak.resident[-1] - soak.resident[0] < 8 << 20


def test_scans_keep_no_objects(tree):
    gc.collect()
    tracemalloc.start()
    try:
        soak = soaking.Soak(tree)
        soak.run(3 + WARM_UP)
    finally:
        tracemalloc.stop()
    assert soak.traced[-1] - soak.traced[2] < 64 << 10
