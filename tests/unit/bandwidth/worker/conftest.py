"""Runs workers over the stand-ins, each in a process of its own: a library is loaded once in a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.standins import libraries

REPOSITORY = Path(__file__).parents[4]
# What decides which libraries a process finds has to be there when it starts.
IMPORTED_WITH = {"LD_LIBRARY_PATH", "ROCM_PATH", "PYTHONPATH"}
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


@contextmanager
def started(name, library):
    """The process that workers are forked from."""
    variables = {**os.environ, **{key: str(value) for key, value in library.items()}}
    command = [sys.executable, "-m", "tests.standins.warm_workers", name]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=REPOSITORY, env=variables, **pipes) as process:
        yield process
        process.stdin.close()


@pytest.fixture(scope="module")
def cuda_workers(cuda_library):
    with started("cuda", cuda_library) as process:
        yield process


@pytest.fixture(scope="module")
def hip_workers(hip_library):
    with started("hip", hip_library) as process:
        yield process


class Worker:
    """Runs `python -m hostdoctor.bandwidth.worker`.

    Attributes:
        name: "cuda" or "hip".
        copying: the lines that came before the result.
    """

    def __init__(self, name: str, folder: Path, library: dict[str, Path], workers: subprocess.Popen[str]) -> None:
        self.name = name
        self._workers = workers
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
        environment = self.environment(scenario, **variables)
        is_cold = before is not None or IMPORTED_WITH & variables.keys()
        answer = (self._cold if is_cold else self._warm)(json.dumps(step), environment, machine, before)
        assert (answer.returncode, answer.stderr) == (0, "")
        *lines, result = map(json.loads, answer.stdout.splitlines())
        self.copying = [line["copying"] for line in lines]
        assert result["step"]["kind"] == step["kind"]
        return result

    def _cold(self, step, environment, machine, before):
        usual = {"input": step, "capture_output": True, "text": True, "cwd": REPOSITORY, "env": environment}
        return subprocess.run(self.command(*machine), check=False, preexec_fn=before, **usual)

    def _warm(self, step, environment, machine, _before):
        streams = [self._folder / name for name in ("input", "output", "errors")]
        for path, text in zip(streams, (step, "", ""), strict=True):
            path.write_text(text)
        asked = {"environment": environment, "streams": list(map(str, streams)), "machine": list(map(str, machine))}
        self._workers.stdin.write(json.dumps(asked) + "\n")
        self._workers.stdin.flush()
        status = int(self._workers.stdout.readline())
        return subprocess.CompletedProcess([], status, *(path.read_text() for path in streams[1:]))

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
def cuda(cuda_library, cuda_workers, tmp_path):
    return Worker("cuda", tmp_path, cuda_library, cuda_workers)


@pytest.fixture
def hip(hip_library, hip_workers, tmp_path):
    return Worker("hip", tmp_path, hip_library, hip_workers)


@pytest.fixture(params=["cuda", "hip"])
def worker(request):
    """A worker of either library."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def misbehaving(worker):
    """A line of a scenario: a function, by its name in CUDA, does that instead of answering."""
    return lambda function, way: f"{function if worker.name == 'cuda' else HIP_NAMES[function]} = {way}\n"
