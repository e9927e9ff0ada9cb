"""Installs the stand-in tools as the real ones lie: programs in a folder, a plugin beside those of ROCm 7."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "tools"

# A tool is started hundreds of times, and Python takes long to start. So where a folder `answers` lies beside the scene, a
# call that was answered before gets the same answer again, without Python.
SCRIPT = """\
#!/bin/sh
answers=${{STANDIN_SCENE%/*}}/answers
call="${{0##*/}} $*${{CUDA_VISIBLE_DEVICES:+ $CUDA_VISIBLE_DEVICES}}"
answer="$answers/$call"
[ -d "$answers" ] || exec {python} -SE {tool} "$@"
if [ -f "$answer" ]; then
  echo "$call" >>"${{STANDIN_SCENE%/*}}/calls"
else
  {python} -SE {tool} "$@" >"$answer.new"
  echo $? >"$answer.status"
  mv "$answer.new" "$answer"
fi
read -r status <"$answer.status"
cat "$answer"
exit "$status"
"""


def install(prefix: Path, name: str, source: str = "") -> Path:
    """Put a tool into the folder `bin` of an installation; the program.

    Args:
        prefix: of the installation.
        name: of the program.
        source: the stand-in, where it has another name.
    """
    folder, tools = prefix / "bin", prefix / "tools"
    for each in (folder, tools):
        each.mkdir(parents=True, exist_ok=True)
    shutil.copy(FOLDER / (source or name), tools / name)
    shutil.copy(FOLDER / "scene.py", tools / "scene.py")
    program = folder / name
    program.write_text(SCRIPT.format(python=sys.executable, tool=tools / name))
    program.chmod(0o755)
    return program


def install_rocm_7(prefix: Path) -> Path:
    """rocm_bandwidth_test of ROCm 7 with its plugin, under both of its names."""
    program = install(prefix, "rocm_bandwidth_test", "TransferBench")
    plugins = prefix / "lib/rocm_bandwidth_test/plugins"
    plugins.mkdir(parents=True)
    (plugins / "tb.amdplug").touch()
    (prefix / "bin/rocm-bandwidth-test").symlink_to("rocm_bandwidth_test")
    return program
