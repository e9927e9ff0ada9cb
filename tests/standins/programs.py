"""Installs the stand-in tools as the real ones lie: programs in a folder, a plugin beside those of ROCm 7."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "tools"


def install(prefix: Path, name: str, source: str = "") -> Path:
    """Put a tool into the folder `bin` of an installation; the program.

    Args:
        prefix: of the installation.
        name: of the program.
        source: the stand-in, where it has another name.
    """
    folder = prefix / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    # Without the packages of whoever runs the tests: a tool is started hundreds of times.
    program.write_text(f"#!{sys.executable} -SE\n{(FOLDER / (source or name)).read_text()}")
    program.chmod(0o755)
    shutil.copy(FOLDER / "scene.py", folder / "scene.py")
    return program


def install_rocm_7(prefix: Path) -> Path:
    """rocm_bandwidth_test of ROCm 7 with its plugin, under both of its names."""
    program = install(prefix, "rocm_bandwidth_test", "TransferBench")
    plugins = prefix / "lib/rocm_bandwidth_test/plugins"
    plugins.mkdir(parents=True)
    (plugins / "tb.amdplug").touch()
    (prefix / "bin/rocm-bandwidth-test").symlink_to("rocm_bandwidth_test")
    return program
