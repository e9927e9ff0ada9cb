"""Asks the libraries of this process's environment, which a test has made stand-ins of, and prints the answers as JSON.

usage: python -m tests.standins.drive ask GPU...        GPU is an address, with a driver: nvidia@0000:41:00.0
       python -m tests.standins.drive scan TREE          a report over a tree, as `hostdoctor scan` makes it
       python -m tests.standins.drive live TREE          the same as if the tree were this host, with what is usual
       python -m tests.standins.drive capture TREE FILE  the same, and FILE captured

In the environment: DEADLINE, seconds; AMD_SMI, the folders to take its binding from (usual: those of the host).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from hostdoctor.cli.capture import gathered
from hostdoctor.cli.evidence import Opened
from hostdoctor.diagnosis import diagnose
from hostdoctor.evidence.files import FileEvidence
from hostdoctor.evidence.packing import pack
from hostdoctor.facts.pci import ATI, NVIDIA, Function, Power
from hostdoctor.readers.host import read_host
from hostdoctor.registry import built_in
from hostdoctor.report import model
from hostdoctor.vendor import Vendors
from hostdoctor.view import View


def main(command: str, *arguments: str) -> None:
    deadline_s = float(os.environ.get("DEADLINE", "60"))
    folders = os.environ.get("AMD_SMI", "usual")
    vendors = Vendors(amd_smi=None if folders == "usual" else tuple(filter(None, folders.split(os.pathsep))))
    if command in ("scan", "live"):
        with FileEvidence(arguments[0], "live" if command == "live" else "root") as evidence:
            view = View(read_host(evidence, deadline_s, vendors=None if command == "live" else vendors))
            report = model.build(model.sources_of(evidence), view, diagnose(view, list(built_in())), 0)
        sys.stdout.buffer.write(model.to_json(report))
        return
    if command == "capture":
        capture(arguments[0], arguments[1], deadline_s)
        return
    asked = vendors.ask([gpu(text) for text in arguments], deadline_s)
    nvml, amd_smi = asked.answers()
    left = children()
    loaded = sorted({"pynvml", "amdsmi"} & set(sys.modules))
    answers = {"nvml": nvml, "amd_smi": amd_smi, "left": left, "loaded": loaded}
    sys.stdout.buffer.write(msgspec.json.encode(answers))


def capture(tree: str, file: str, deadline_s: float) -> None:
    """Capture a tree as if it were this host, and print the report of the same reading."""
    with Opened(FileEvidence(tree, "live"), ()) as opened:
        contents = gathered(opened, deadline_s, logs=False, tools=False)
        Path(file).write_bytes(pack(contents))
    main("live", tree)


def gpu(text: str) -> Function:
    """nvidia@0000:41:00.0, or nvidia@0000:41:00.0@suspended."""
    driver, address, *status = text.split("@")
    power = Power(status[0] if status else "active", "D0")
    return Function(address, NVIDIA if driver == "nvidia" else ATI, 1, 0x030000, driver=driver, power=power)


def children() -> list[str]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return file.read().split()


if __name__ == "__main__":
    main(*sys.argv[1:])
