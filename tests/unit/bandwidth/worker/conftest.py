"""Runs workers over the stand-ins, each in a process of its own: a library is loaded once in a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.standins import libraries

REPOSITORY = Path(__file__).parents[4]
RUN = "import sys; from hostdoctor.bandwidth import machine, worker; here = machine.Machine(*sys.argv[2:])\n"
RUN += "sys.exit(worker.main(sys.argv[1:2], here))"


@pytest.fixture(scope="session")
def cuda_library(tmp_path_factory):
    """The environment in which CUDA's driver is a stand-in."""
    if why := libraries.why_no_cuda():
        pytest.skip(why)
    return {"LD_LIBRARY_PATH": libraries.compile_cuda(tmp_path_factory.mktemp("cuda"))}


@pytest.fixture(scope="session")
def hip_library(tmp_path_factory):
    """The environment in which HIP's runtime is a stand-in."""
    if why := libraries.why_no_hip():
        pytest.skip(why)
    return {"ROCM_PATH": libraries.compile_hip(tmp_path_factory.mktemp("rocm"))}


class Worker:
    """Runs `python -m hostdoctor.bandwidth.worker`.

    Attributes:
        name: "cuda" or "hip".
        copying: the lines that came before the result.
    """

    def __init__(self, name: str, folder: Path, library: dict[str, Path]) -> None:
        self.name = name
        self.copying: list[bool] = []
        self._folder = folder
        self._log = folder / "calls"
        self._library = library

    def environment(self, scenario, **variables):
        (self._folder / "scenario").write_text(scenario)
        self._log.unlink(missing_ok=True)
        made = {"STANDIN_SCENARIO": self._folder / "scenario", "STANDIN_LOG": self._log, **self._library, **variables}
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        return {**kept, **{name: str(value) for name, value in made.items()}}

    def command(self, sysfs=None, devices="/dev"):
        plain = [sys.executable, "-m", "hostdoctor.bandwidth.worker", self.name]
        return plain if sysfs is None else [sys.executable, "-c", RUN, self.name, str(sysfs), str(devices)]

    def __call__(self, step, scenario, *, machine=(), before=None, **variables):
        """The result as JSON; nothing else may come out of it."""
        done = subprocess.run(
            self.command(*machine),
            cwd=REPOSITORY,
            env=self.environment(scenario, **variables),
            check=False,
            input=json.dumps(step),
            capture_output=True,
            text=True,
            preexec_fn=before,
        )
        assert (done.returncode, done.stderr) == (0, "")
        *lines, result = map(json.loads, done.stdout.splitlines())
        self.copying = [line["copying"] for line in lines]
        assert result["step"]["kind"] == step["kind"]
        return result

    def calls(self, function):
        """How often a function was called, on whichever GPU; its name in CUDA, which HIP's resembles."""
        named = {"cuda": function, "hip": HIP_NAMES[function]}[self.name]
        return [line.partition(" ")[2] for line in self._log.read_text().splitlines() if line.split(" ")[0] == named]


HIP_NAMES = {
    "cuInit": "hipInit",
    "cuDeviceGetCount": "hipGetDeviceCount",
    "cuCtxEnablePeerAccess": "hipDeviceEnablePeerAccess",
    "cuMemAlloc_v2": "hipMalloc",
    "cuMemFree_v2": "hipFree",
    "cuMemHostAlloc": "hipHostMalloc",
    "cuMemFreeHost": "hipHostFree",
    "cuMemcpyPeerAsync": "hipMemcpyPeerAsync",
    "cuStreamCreate": "hipStreamCreateWithFlags",
    "cuStreamDestroy_v2": "hipStreamDestroy",
    "cuStreamSynchronize": "hipStreamSynchronize",
    "cuEventCreate": "hipEventCreate",
    "cuEventDestroy_v2": "hipEventDestroy",
}


@pytest.fixture
def cuda(cuda_library, tmp_path):
    return Worker("cuda", tmp_path, cuda_library)


@pytest.fixture
def hip(hip_library, tmp_path):
    return Worker("hip", tmp_path, hip_library)


@pytest.fixture(params=["cuda", "hip"])
def worker(request):
    """A worker of either library."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def misbehaving(worker):
    """A line of a scenario: a function, by its name in CUDA, does that instead of answering."""
    return lambda function, way: f"{function if worker.name == 'cuda' else HIP_NAMES[function]} = {way}\n"
