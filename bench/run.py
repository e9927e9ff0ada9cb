"""Measure an installed hostdoctor against lspci and click, as ratios in one run.

usage: python bench/run.py [--runs N] [--python PYTHON]

Builds a wheel from the tree, installs it into a fresh environment, makes trees of 32 to 10,000 functions of which always
8 are GPUs, and runs each pair of commands in turn, so that a machine that slows down slows both. Needs lspci; strace, if
there, counts child processes. Pastes of 3 MB are made from the cases of tests/cases, and what they cost is CPU time beyond
that of a paste of one line.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from pastes import pastes
from trees import build

REPOSITORY = Path(__file__).resolve().parent.parent
SIZES = (32, 128, 1024, 4096, 10_000)


class Timing:
    """Wall and CPU seconds and peak memory of a command, run by run."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.wall: list[float] = []
        self.cpu: list[float] = []
        self.memory_mib = 0.0

    def run(self) -> None:
        began = time.perf_counter()
        child = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        self.wall.append(time.perf_counter() - began)
        self.cpu.append(usage.ru_utime + usage.ru_stime)
        self.memory_mib = max(self.memory_mib, usage.ru_maxrss / 1024)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode not in (0, 1):
            raise SystemExit(f"{' '.join(self.command)} ended with {child.returncode}")

    @property
    def median_cpu_ms(self) -> float:
        return 1000 * statistics.median(self.cpu)

    @property
    def median_ms(self) -> float:
        return 1000 * statistics.median(self.wall)


def in_turn(runs: int, *commands: list[str]) -> list[Timing]:
    """Run the commands A B C A B C ..., after one round that does not count."""
    timings = [Timing(command) for command in commands]
    for number in range(runs + 1):
        for timing in timings:
            timing.run()
            if number == 0:
                timing.wall.clear()
                timing.cpu.clear()
    return timings


def install(python: str, folder: Path) -> Path:
    """A fresh environment with the wheel of this tree; returns its bin."""
    wheels = folder / "wheels"
    subprocess.run([python, "-m", "venv", folder / "venv"], check=True)
    pip = folder / "venv/bin/pip"
    subprocess.run([pip, "wheel", "-q", "--no-deps", "-w", wheels, REPOSITORY], check=True)
    subprocess.run([pip, "install", "-q", *wheels.glob("*.whl")], check=True)
    return folder / "venv/bin"


def children(command: list[str]) -> str:
    """How many processes a command forks and how many programs it executes."""
    if not shutil.which("strace"):
        return "not measured: strace is not installed"
    with tempfile.NamedTemporaryFile("r") as log:
        calls = "trace=execve,fork,vfork,clone,clone3"
        traced = ["strace", "-f", "-qq", "-e", calls, "-o", log.name, *command]
        subprocess.run(traced, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        lines = [line for line in log.read().splitlines() if "resumed" not in line]
    executed = sum(" execve(" in line for line in lines) - 1
    forked = sum(any(f" {call}(" in line for call in ("fork", "vfork", "clone", "clone3")) for line in lines)
    return f"{forked} forked, {executed} executed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    if not shutil.which("lspci"):
        raise SystemExit("lspci is not installed (pciutils)")
    with tempfile.TemporaryDirectory() as temporary:
        measure(options.runs, options.python, Path(temporary))


def measure(runs: int, python: str, folder: Path) -> None:
    binaries = install(python, folder)
    hostdoctor, interpreter = str(binaries / "hostdoctor"), str(binaries / "python")
    version = subprocess.run([interpreter, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    print(f"{version}, {os.cpu_count()} processors, median of {runs} runs in turn\n")
    start, *others = in_turn(runs, [interpreter, "-c", "import click"], [hostdoctor, "--version"], [hostdoctor, "--help"])
    print(f"import click {start.median_ms:6.1f} ms")
    for timing in others:
        ratio = timing.median_ms / start.median_ms
        print(f"hostdoctor {timing.command[1]:10} {timing.median_ms:6.1f} ms   {ratio:.2f} x, at most 2")
    print("\nfunctions    lspci -vvv   scan     scan / (lspci + click)   peak memory   a further function: lspci, scan")
    last: tuple[int, float, float] | None = None
    for size in SIZES:
        tree = folder / f"tree{size}"
        build(size, tree)
        lspci = ["lspci", "-A", "linux-sysfs", "-O", f"sysfs.path={tree}/sys/bus/pci", "-vvv"]
        scan = [hostdoctor, "scan", "--root", str(tree), "--format", "json"]
        theirs, click, ours = in_turn(max(3, runs * 128 // max(size, 128)), lspci, [interpreter, "-c", "import click"], scan)
        ratio = ours.median_ms / (theirs.median_ms + click.median_ms)
        slope = ""
        if last is not None:
            more = size - last[0]
            slope = f"{1000 * (theirs.median_ms - last[1]) / more:6.0f} us, {1000 * (ours.median_ms - last[2]) / more:6.0f} us"
        last = (size, theirs.median_ms, ours.median_ms)
        print(
            f"{size:9} {theirs.median_ms:10.1f} ms {ours.median_ms:8.1f} ms {ratio:12.2f} {ours.memory_mib:19.1f} MiB   {slope}"
        )
        if size == 128:
            counted = children(scan)
    print(f"\nchild processes of a scan with 8 GPUs: {counted}")
    measure_pastes(runs, hostdoctor, folder)


def measure_pastes(runs: int, hostdoctor: str, folder: Path) -> None:
    print("\npaste                      functions   CPU beyond that of one line   with twice as much")
    tiny, *made = pastes(REPOSITORY / "tests/cases", folder)
    for paste in made:
        commands = [[hostdoctor, "scan", str(path)] for path in (tiny.path, paste.path, paste.doubled)]
        one_line, whole, doubled = (timing.median_cpu_ms for timing in in_turn(runs, *commands))
        ratio = (doubled - one_line) / (whole - one_line)
        print(f"{paste.name:26} {paste.functions:9,} {whole - one_line:16.0f} ms {ratio:23.2f} x")


if __name__ == "__main__":
    main()
