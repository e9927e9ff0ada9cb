"""Files that lie in memory, read as a folder's are."""

from __future__ import annotations

import pytest

from hostdoctor.evidence import Unreadable
from hostdoctor.evidence.memory import MemoryEvidence


@pytest.fixture
def evidence():
    files = {"proc/cmdline": b"quiet\n", "etc/default/grub.d/a.cfg": b"A", "etc/default/grub": b"B"}
    return MemoryEvidence(files, ("paste.txt",), {"proc/cmdline": "paste.txt:3"})


def test_files_and_folders(evidence):
    assert evidence.read("proc/cmdline") == b"quiet\n"
    assert evidence.names("etc/default") == ["grub", "grub.d"]
    folder = evidence.directory("etc")
    assert folder.read("default/grub") == b"B"
    assert folder.folder("default").names("grub.d") == ["a.cfg"]
    assert folder.open("default/grub").read_at(0, 10) == b"B"
    assert (evidence.shown("proc/cmdline"), evidence.shown("etc/default/grub")) == ("paste.txt:3", "/etc/default/grub")


@pytest.mark.parametrize(
    ("ask", "problem"),
    [
        (lambda each: each.read("proc/none"), "missing"),
        (lambda each: each.read("proc"), "not-a-file"),
        (lambda each: each.read("proc/cmdline", 3), "too-large"),
        (lambda each: each.names("none"), "missing"),
        (lambda each: each.directory("proc/cmdline"), "missing"),
        (lambda each: each.link("proc/cmdline"), "not-a-file"),
        (lambda each: each.directory("proc").link("none"), "missing"),
    ],
)
def test_what_is_not_there(evidence, ask, problem):
    with pytest.raises(Unreadable) as raised:
        ask(evidence)
    assert raised.value.problem == problem
