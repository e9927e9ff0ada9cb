"""`scan --samples`: watches, keeps to its limits, and ends when it is told to."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys

import pytest


def scan(hostdoctor, tree, *options):
    done = hostdoctor("scan", "--root", tree, "--format", "json", "--fail-on", "never", *options)
    assert done.returncode == 0
    return json.loads(done.stdout)


def test_watching_a_tree_finds_it_steady(hostdoctor, before):
    watched = scan(hostdoctor, before, "--samples", "3", "--interval", "0.01")
    once = scan(hostdoctor, before)

    def others(report):
        return [each for each in report["findings"] if each["check"] not in ("link-stability", "link-errors")]

    assert others(watched) == others(once)
    assert watched["evidence"] == once["evidence"]


def test_nothing_is_said_of_the_progress_in_a_pipe(hostdoctor, before):
    done = hostdoctor("scan", "--root", before, "--samples", "2", "--interval", "0.01", "-q")
    assert done.stderr == ""


def test_on_a_terminal_there_is_a_bar(before):
    terminal, theirs = pty.openpty()
    command = [sys.executable, "-m", "hostdoctor", "scan", "--root", str(before), "--samples", "2", "--interval", "0.01", "-q"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, stdin=subprocess.DEVNULL) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(terminal, 4096)
            except OSError:  # nobody writes to it any more
                break
            if not part:
                break
            shown += part
    os.close(terminal)
    assert process.returncode == 1
    assert b"Watching" in shown
    assert b"100%" in shown


@pytest.mark.parametrize(
    "options",
    [
        ("--samples", "0"),
        ("--samples", "10001"),
        ("--samples", "x"),
        ("--interval", "0"),
        ("--interval", "nan"),
        ("--interval", "inf"),
        ("--interval", "-1"),
        ("--interval", "3601"),
    ],
)
def test_other_numbers_are_wrong_usage(hostdoctor, before, options):
    done = hostdoctor("scan", "--root", before, *options)
    assert done.returncode == 2
    assert options[0] in done.stderr


def test_an_interrupt_ends_the_watch_with_130(before):
    """Interrupted as soon as the first look is drawn: the wait after it would be an hour."""
    terminal, theirs = pty.openpty()
    command = [sys.executable, "-m", "hostdoctor", "scan", "--root", str(before), "--samples", "9", "--interval", "3600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, stdin=subprocess.DEVNULL) as process:
        os.close(theirs)
        shown = b""
        while b"11%" not in shown:
            shown += os.read(terminal, 4096)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    os.close(terminal)
    assert (process.returncode, output) == (130, b"")
