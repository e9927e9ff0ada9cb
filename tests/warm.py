"""Runs `hostdoctor` in a process of its own that need not import it first, which takes longer than most commands.

A process that has imported everything is forked: what runs is the command from its entry point to its exit, with
arguments, environment and standard streams of its own. What is tested of starting and ending processes uses real ones.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import BinaryIO, NoReturn

_MODULES = ("bandwidth", "scan", "rocm_bandwidth_test", "measure")


@cache
def _import_all() -> None:
    for name in _MODULES:
        import_module(f"hostdoctor.cli.{name}")
    import_module("hostdoctor.registry").load_checks()
    import_module("hostdoctor.report.markdown")
    import_module("hostdoctor.report.html")


def run(arguments: Sequence[str], environment: Mapping[str, str], timeout_s: float = 120.0) -> subprocess.CompletedProcess[str]:
    """What comes of a command whose standard input is empty."""
    _import_all()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            _be(arguments, environment, output, errors)
        status = _waited_for(child, timeout_s)
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
    return subprocess.CompletedProcess(list(arguments), status, *texts)


def _waited_for(child: int, timeout_s: float) -> int:
    """The exit status, or the negative number of the signal that ended it."""
    watched = os.pidfd_open(child)
    try:
        if not select.select([watched], [], [], timeout_s)[0]:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(watched)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _be(arguments: Sequence[str], environment: Mapping[str, str], output: BinaryIO, errors: BinaryIO) -> NoReturn:
    """In the child: be the command."""
    with contextlib.suppress(BaseException):  # nothing of the test must go on here
        gc.disable()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(errors.fileno(), 2)
        sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
        sys.argv = ["hostdoctor", *arguments]
        os.environ.clear()
        os.environ.update(environment)
        import_module("hostdoctor.cli.main").main()
    os._exit(99)
