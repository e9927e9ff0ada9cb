"""Puts questions to the stand-ins, each in a process of its own: a library is loaded once in a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.standins import libraries

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory):
    """A folder with a stand-in for NVIDIA's library."""
    if why := libraries.why_no_compiler():
        pytest.skip(why)
    return libraries.compile_nvml(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def rocm(tmp_path_factory):
    """A folder with a stand-in for an installation of ROCm."""
    if why := libraries.why_no_amd_smi():
        pytest.skip(why)
    return libraries.compile_rocm(tmp_path_factory.mktemp("rocm") / "rocm")


class Driver:
    """Runs tests.standins.drive.

    Attributes:
        log: the calls the libraries got, each with the GPU it was about ("nvmlDeviceGetName 0000:41:00.0").
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "calls"

    def __call__(self, *arguments, scenario="", **environment):
        """What it answers; nothing else may come out of it."""
        (self._folder / "scenario").write_bytes(scenario if isinstance(scenario, bytes) else scenario.encode())
        self._log.unlink(missing_ok=True)
        made = {"STANDIN_SCENARIO": self._folder / "scenario", "STANDIN_LOG": self._log, "AMD_SMI": "", **environment}
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
        done = subprocess.run(
            [sys.executable, "-m", "tests.standins.drive", *map(str, arguments)],
            cwd=REPOSITORY,
            env={**kept, **{name: str(value) for name, value in made.items()}},
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return json.loads(done.stdout)

    @property
    def log(self):
        return self._log.read_text().splitlines() if self._log.exists() else []


@pytest.fixture
def driver(tmp_path):
    return Driver(tmp_path)
