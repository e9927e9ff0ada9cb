"""Scan one tree again and again in one process, and print what grows.

usage: python bench/soak.py [--scans N] [--functions N]

The report must be the same bytes each time; open files, children and memory must not grow.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import resource
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))
from trees import build

from hostdoctor.diagnosis import diagnose, exit_code
from hostdoctor.evidence.files import FileEvidence
from hostdoctor.readers.host import read_host
from hostdoctor.registry import load_checks
from hostdoctor.report import model
from hostdoctor.view import View

WARM_UP = 5


def scan(root: str) -> bytes:
    """What `hostdoctor scan --format json` does, in this process."""
    with FileEvidence(root) as evidence:
        view = View(read_host(evidence, deadline_s=600))
        findings = diagnose(view, load_checks())
        return model.to_json(
            model.build(model.sources_of(evidence), view, findings, exit_code(findings, "failure", strict=False))
        )


def children() -> list[str]:
    """The processes below this one, those included that ended and were not waited for."""
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


class Soak:
    """What is open, at work and held after each scan of many."""

    def __init__(self, root: str) -> None:
        self._root = root
        self.digests: set[bytes] = set()
        self.descriptors: set[int] = set()
        self.children = 0
        self.resident: list[int] = []
        self.traced: list[int] = []

    def run(self, scans: int) -> None:
        """Scan that often; memory is noted after each scan, once everything that can be collected is."""
        for _ in range(scans):
            self.digests.add(hashlib.sha256(scan(self._root)).digest())
            gc.collect()
            self.descriptors.add(len(os.listdir("/proc/self/fd")))
            self.children = max(self.children, len(children()))
            self.resident.append(resident_bytes())
            if tracemalloc.is_tracing():
                self.traced.append(tracemalloc.get_traced_memory()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scans", type=int, default=1000)
    parser.add_argument("--functions", type=int, default=1024)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        build(options.functions, Path(folder))
        Soak(folder).run(WARM_UP)
        soak = Soak(folder)
        began = time.perf_counter()
        soak.run(options.scans)
        each_ms = 1000 * (time.perf_counter() - began) / options.scans
    print(f"{options.scans} scans of {options.functions} functions, {each_ms:.0f} ms each")
    print(f"reports         {len(soak.digests)} different")
    print(f"open files      {min(soak.descriptors)} to {max(soak.descriptors)}")
    print(f"children left   {soak.children}")
    tenths = [soak.resident[(len(soak.resident) - 1) * tenth // 10] / 2**20 for tenth in range(11)]
    print("resident MiB    " + " ".join(f"{size:.1f}" for size in tenths) + "   from the first scan to the last")


if __name__ == "__main__":
    main()
