"""bench/gpu.py over the stand-ins for NVIDIA's libraries: that it runs through and says what it saw, nothing of speed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.standins import libraries

REPOSITORY = Path(__file__).parents[4]
A, B = "0000:41:00.0", "0000:c1:00.0"


@pytest.fixture
def bench(cuda, tmp_path):
    """Runs it: status and output."""
    nvml = libraries.compile_nvml(tmp_path / "nvml")

    def run(scenario, *arguments):
        environment = cuda.environment(scenario)
        environment |= {"LD_LIBRARY_PATH": f"{environment['LD_LIBRARY_PATH']}:{nvml}", "PYTHONPATH": str(REPOSITORY)}
        command = [sys.executable, "bench/gpu.py", "--size", "1", *arguments]
        done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    return run


def test_each_copy_has_a_line(bench):
    status, output = bench(f"[gpu {A}]\n[gpu {B}]\n[pair]\ncan_access = 0\n", "--gpus", "2")
    assert status == 0
    for way in ("to-gpu", "from-gpu", "inside"):
        assert sum(f" {way} " in line and line.endswith("right") for line in output.splitlines()) == 2
    assert f"{A} {B}  pair direct            the driver says that {A} cannot access the memory of {B}" in output
    assert f"{A} NVIDIA RTX A5000: link_generation 4, link_width 16" in output


def test_wrong_data_are_told_and_are_a_failure(bench):
    status, output = bench(f"[gpu {A}]\nfrom_gpu_data = zeroed\n")
    assert status == 1
    assert "from-gpu               data wrong: zeroed, " in output


def test_without_a_gpu_there_is_nothing_to_measure(bench):
    status, output = bench("")
    assert (status, output.startswith("nothing to measure: the library sees no GPU that it can use (")) == (2, True)
