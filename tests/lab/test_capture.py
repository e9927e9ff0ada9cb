"""What was captured in a guest is judged outside of it as the guest judged itself, and capturing wakes nobody."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile

import pytest

from tests.lab.guests import BARE
from tests.lab.scenarios import NIC

pytestmark = pytest.mark.lab("links")


def members(guest, name):
    with tarfile.open(fileobj=io.BytesIO(guest.files[f"{name}.tgz"])) as archive:
        return {each.name: archive.extractfile(each).read() for each in archive}


def judged(guest, name, folder, without=()):
    """The host and the findings that a capture gives here."""
    file = folder / f"{name}.tgz"
    kept = {member: data for member, data in members(guest, name).items() if member not in without}
    with tarfile.open(file, "w:gz") as archive:
        for member, data in kept.items():
            info = tarfile.TarInfo(member)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    command = [sys.executable, "-m", "hostdoctor", "scan", "--format", "json", BARE, file]
    return json.loads(subprocess.run(command, check=False, capture_output=True).stdout)


@pytest.mark.parametrize("name", ["root", "user", "asleep"])
def test_a_capture_of_a_guest_gives_the_guests_own_findings(guest, tmp_path, name):
    theirs, ours = guest.json(name), judged(guest, name, tmp_path, without=("logs/dmesg.txt",))
    assert ours["findings"] == theirs["findings"]
    assert ours["host"] == theirs["host"]
    assert ours["evidence"]["unread"] == theirs["evidence"]["unread"]


def test_with_the_log_more_is_judged(guest, tmp_path):
    report = judged(guest, "root", tmp_path)
    assert any(each.startswith("logs/dmesg.txt:1 kernel-log") for each in report["evidence"]["files"])
    assert {each["outcome"] for each in report["findings"] if each["check"] == "iommu-faults"} != {"unknown"}


def test_the_tools_of_the_guest_are_asked(guest):
    """Not about what sleeps: lspci would wake it."""
    found = members(guest, "root")["commands/lspci.txt"].decode()
    assert NIC.removeprefix("0000:") in found
    assert "Capabilities" in found
    asleep = members(guest, "asleep")
    assert NIC.removeprefix("0000:") not in {line.split(" ")[0] for line in asleep["commands/lspci.txt"].decode().splitlines()}


def test_capturing_wakes_nobody(guest):
    """The state before was taken before the scan and the capture, the state after behind both."""
    before, after = guest.json("asleep-before")["functions"], guest.json("asleep-after")["functions"]
    assert before[NIC]["power/runtime_status"] == after[NIC]["power/runtime_status"] == "suspended"
    assert before == after
