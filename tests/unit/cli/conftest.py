from __future__ import annotations

import os
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest
from click.testing import CliRunner

from hostdoctor.cli.main import cli

CASES = Path(__file__).parents[2] / "cases"
# Before click 8.2 both outputs were one unless told otherwise.
APART = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
COLOURS = dict.fromkeys(("NO_COLOR", "FORCE_COLOR", "COLUMNS"))


@pytest.fixture
def hostdoctor():
    """Runs a command within this process, without colour variables of whoever runs the tests."""

    def run(*arguments, env=None):
        done = CliRunner(env={**COLOURS, **(env or {})}, **APART).invoke(cli, list(map(str, arguments)))
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)

    return run


@pytest.fixture
def process():
    """Runs the real command in a process of its own, or a line of shell in which it is "$@"."""

    def run(*arguments, shell='"$@"'):
        command = ["bash", "-c", shell, "bash", sys.executable, "-m", "hostdoctor", *map(str, arguments)]
        variables = {name: value for name, value in os.environ.items() if name not in COLOURS}
        return subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, env=variables
        )

    return run


@pytest.fixture
def before(tmp_path):
    """Four GPUs, with a failure, warnings and more; by a path that no report redacts, wherever this checkout lies."""
    link = tmp_path / "seed-v620-before"
    link.symlink_to(CASES / "seed-v620-before" / "input")
    return link


@pytest.fixture(params=["seed-v620-before", "seed-v620-after", "seed-blackwell-ada"])
def seed(request):
    return CASES / request.param / "input"
