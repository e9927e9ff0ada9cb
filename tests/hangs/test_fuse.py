"""A GPU's file that never answers, on a real file system whose reads block in the kernel."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.hangs.fuse import DEVICE, WAIT_S, Hanging, mount, unmount

pytestmark = pytest.mark.hang

REPOSITORY = Path(__file__).parents[2]
CASE = REPOSITORY / "tests/cases/seed-v620-after/input"
GPUS = ("0000:1a:00.0", "0000:1d:00.0", "0000:88:00.0", "0000:8b:00.0")
DEADLINE_S = 4.0

# What they say of a GPU depends on other GPUs' driver files, so that only the outcome stays.
LOOKS_AT_PEERS = ("bar-reach",)


def why_not(folder):
    """Why nothing can be mounted here; empty if it can."""
    if os.geteuid() != 0:
        return "mounting needs root"
    if not Path(DEVICE).exists():
        return f"there is no {DEVICE}"
    try:
        mount("none", folder, "tmpfs")
    except OSError as error:
        return f"nothing may be mounted: {error.strerror}"
    unmount(folder)
    return ""


@pytest.fixture
def hang(tmp_path):
    """Makes a file hang, as Hanging does, until the test is over."""
    work = tmp_path / "work"
    work.mkdir()
    if reason := why_not(work):
        pytest.skip(reason)
    opened = []

    def start(file, killable=False):
        hanging = Hanging(file, work, killable)
        try:
            opened.append(hanging.__enter__())
        except OSError as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(str(error))
        return hanging

    yield start
    for hanging in reversed(opened):
        hanging.__exit__()
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


@pytest.fixture
def tree(tmp_path):
    return Path(shutil.copytree(CASE, tmp_path / "host", symlinks=True))


@pytest.fixture
def healthy():
    """The report of a scan without a hang, and how many seconds one with a hang may take: the deadline and one more.

    Besides, three times what this scan took: it starts Python too, and the machine may be busier the next moment.
    """
    report, took_s = scan(CASE)
    return report, 3 * took_s + DEADLINE_S + 1


def scan(tree):
    """What the command reports, and how many seconds it took."""
    command = [sys.executable, "-m", "hostdoctor", "scan", "--root", tree, "--format", "json", "--deadline", f"{DEADLINE_S:g}"]
    began = time.monotonic()
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=False, timeout=WAIT_S)
    took_s = time.monotonic() - began
    assert done.stderr == b""
    assert done.returncode in (0, 1)
    return json.loads(done.stdout), took_s


def file_of(tree, gpu, name):
    return (tree / "sys/bus/pci/devices" / gpu / name).resolve(strict=True)


def said_of_others(report, gpu):
    """Findings about other GPUs alone; without what is said of the GPU, where a check compares GPUs."""
    found = {}
    for finding in report["findings"]:
        if finding["subject"] and gpu not in finding["subject"]:
            of_peers = finding["check"] in LOOKS_AT_PEERS
            found[(finding["check"], *finding["subject"])] = finding["outcome"] if of_peers else finding
    return found


def assert_rest_stands(report, healthy, gpu, name):
    assert said_of_others(report, gpu) == said_of_others(healthy, gpu)
    named = f"/sys/bus/pci/devices/{gpu}/{name}"
    unjudged = [finding for finding in report["findings"] if finding["outcome"] == "unknown" and gpu in finding["subject"]]
    assert any(named in json.dumps(finding) for finding in unjudged)
    assert {"source": f"/sys/bus/pci/devices/*/{name}", "reason": "reading it did not end in time"} in report["evidence"][
        "unread"
    ]


def state(process):
    """One letter of proc(5); empty for a process that is gone."""
    try:
        return Path("/proc", process, "stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def open_pidfd(process):
    """None for a process that is gone."""
    try:
        return os.pidfd_open(int(process))
    except ProcessLookupError:
        return None


def assert_ends(pidfd):
    if pidfd is not None:
        assert select.select([pidfd], [], [], WAIT_S)[0], "a reader is left"
        os.close(pidfd)


@pytest.mark.parametrize("gpu", [GPUS[0], GPUS[-1]])
@pytest.mark.parametrize("name", ["mem_info_vram_total", "config", "current_link_width"])
def test_a_reader_that_nothing_ends(hang, tree, healthy, gpu, name):
    hanging = hang(file_of(tree, gpu, name))
    report, took_s = scan(tree)
    expected, at_most_s = healthy
    assert took_s < at_most_s
    assert_rest_stands(report, expected, gpu, name)
    reader = hanging.line()
    assert state(reader) == "D", "it waits in the kernel, killed already"
    left = open_pidfd(reader)
    hanging.abort()
    assert_ends(left)


def test_a_reader_that_a_kill_ends(hang, tree, healthy):
    gpu, name = GPUS[1], "mem_info_vram_total"
    hanging = hang(file_of(tree, gpu, name), killable=True)
    report, took_s = scan(tree)
    expected, at_most_s = healthy
    assert took_s < at_most_s
    assert_rest_stands(report, expected, gpu, name)
    assert state(hanging.line()) == ""


def test_two_sick_gpus(hang, tree, healthy):
    sick, name = (GPUS[0], GPUS[2]), "current_link_width"
    hangings = [hang(file_of(tree, gpu, name)) for gpu in sick]
    report, took_s = scan(tree)
    expected, at_most_s = healthy
    assert took_s < at_most_s
    for gpu in sick:
        unjudged = [finding for finding in report["findings"] if gpu in finding["subject"] and finding["outcome"] == "unknown"]
        assert any(f"/sys/bus/pci/devices/{gpu}/{name}" in json.dumps(finding) for finding in unjudged)
    pair = {GPUS[1], GPUS[3]}
    told = [(finding["check"], finding["subject"], finding["outcome"]) for finding in report["findings"]]
    for wanted in expected["findings"]:
        if set(wanted["subject"]) == pair:  # how sure it is may differ: KFD comes last, and time may be up by then
            assert (wanted["check"], wanted["subject"], wanted["outcome"]) in told
    readers = [open_pidfd(hanging.line()) for hanging in hangings]
    for hanging in hangings:
        hanging.abort()
    for reader in readers:
        assert_ends(reader)


def test_a_scan_that_is_interrupted_meanwhile(hang, tree):
    hanging = hang(file_of(tree, GPUS[0], "mem_info_vram_total"))
    command = [sys.executable, "-m", "hostdoctor", "scan", "--root", tree, "--deadline", "600"]
    scanning = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    reader = open_pidfd(hanging.line())
    scanning.send_signal(2)
    _, errors = scanning.communicate(timeout=WAIT_S)
    assert scanning.returncode == 130, errors
    hanging.abort()
    assert_ends(reader)
