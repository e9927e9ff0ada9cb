"""A host to measure: its files, its tools, and what happens when they copy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import warm
from tests.standins import programs
from tests.trees import ROOT_PORT, Tree, config_space, link_attributes

GIB = 1 << 30


class Rig:
    """A host and its tools; everything runs in processes of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prefix = folder / "rocm"
        self.tree = Tree(folder / "host").common()
        self.tree.write("proc/sys/kernel/random/boot_id", Path("/proc/sys/kernel/random/boot_id").read_text())
        self.tree.write("dev/kmsg", "6,1,1,-;Linux version 6.8.0-52-generic\n")
        self.kmsg = self.tree.root / "dev/kmsg"
        self.results = folder / "results.jsonl"
        self.gpus: list[str] = []
        self.names = "AMD Radeon PRO V620"
        self.variables = {"ROCM_PATH": str(self.prefix), "PATH": f"{self.prefix}/bin:{os.environ['PATH']}"}
        self.scene()

    def amd(self, count: int) -> Rig:
        """AMD cards below root ports of their own, each at 8 GT/s x8."""
        self.gpus = self.tree.amd_cards(count)
        return self.scene()

    def nvidia(self, count: int) -> Rig:
        """NVIDIA cards below root ports of their own, each at 16 GT/s x8."""
        self.names = "NVIDIA GeForce RTX 4090"
        for number in range(count):
            bus = 0x10 * (number + 1)
            window = [(0x3800_0000_0000 + number * 64 * GIB, 33 * GIB)]
            at = {"class_code": "60400", "driver": "pcieport", "windows": window}
            speed = link_attributes("16.0 GT/s PCIe", "8", "16.0 GT/s PCIe", "16")
            config = config_space(port_type=ROOT_PORT, header_type=1, speed=4, width=8)
            root = f"sys/devices/pci0000:{bus:02x}"
            port = self.tree.function(f"0000:{bus:02x}:01.0", root, id_="1022:1483", config=config, **at, **speed)
            gpu = f"0000:{bus + 1:02x}:00.0"
            kind = {"id_": "10DE:2684", "class_code": "30000", "driver": "nvidia", "bars": [(window[0][0], 32 * GIB)]}
            self.tree.function(gpu, port, config=config_space(speed=4, width=8), **kind, **speed)
            self.gpus.append(gpu)
        return self.scene()

    def scene(self, **said) -> Rig:
        """What is there, and what happens."""
        usual = 13.1 if self.names.startswith("NVIDIA") else 6.8
        said = {"usual": usual, "gpus": [[gpu, self.names] for gpu in self.gpus], "calls": str(self.folder / "calls"), **said}
        (self.folder / "scene.json").write_text(json.dumps(said))
        answers = self.folder / "answers"
        shutil.rmtree(answers, ignore_errors=True)
        if not {"park", "die", "kmsg", "say"} & said.keys():
            answers.mkdir()
        return self

    def tool(self, name: str, source: str = "") -> Rig:
        programs.install(self.prefix, name, source)
        return self

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def environment(self) -> dict[str, str]:
        found = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "FORCE_COLOR")}
        return {**found, "STANDIN_SCENE": str(self.folder / "scene.json"), "HOME": str(self.folder), **self.variables}

    def command(self, *arguments: object) -> list[str]:
        return [sys.executable, "-m", "hostdoctor", *map(str, arguments)]

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        return warm.run([str(each) for each in arguments], self.environment())

    def measure(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """`hostdoctor bandwidth` on this host, quickly."""
        usual = ["bandwidth", "--root", self.tree.root, "--yes", "--repeats", 5]
        where = [] if "--resume" in arguments else ["--results", self.results]
        return self.run(*usual, *where, *arguments)

    def started(self, *arguments: object) -> subprocess.Popen[str]:
        """The same, not waited for."""
        usual = ["bandwidth", "--root", self.tree.root, "--yes", "--repeats", 5]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, "text": True}
        return subprocess.Popen(self.command(*usual, *arguments), env=self.environment(), **pipes)

    def records(self) -> list[dict]:
        """The lines of the results file."""
        return [json.loads(line) for line in self.results.read_text().splitlines()]

    def fifo(self) -> Path:
        path = self.folder / "fifo"
        if not path.exists():
            os.mkfifo(path)
        return path


@pytest.fixture
def rig(tmp_path):
    return Rig(tmp_path)
