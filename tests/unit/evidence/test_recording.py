"""What was recorded answers as what it was recorded of, in every way of asking; what nobody asked is unknown."""

from __future__ import annotations

import os
import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.cli.capture import gathered
from hostdoctor.cli.evidence import Opened
from hostdoctor.evidence.capture import BadCapture, Capture, NoCapture
from hostdoctor.evidence.capture_format import FILES, SCHEMA, Manifest, Tool, member_of, path_of
from hostdoctor.evidence.files import FileEvidence
from hostdoctor.evidence.packing import Contents, pack
from hostdoctor.evidence.protocol import Unreadable
from hostdoctor.evidence.recording import RecordingEvidence
from hostdoctor.facts.unknown import NOT_CAPTURED
from hostdoctor.readers.boot_loader import Files
from hostdoctor.readers.host import read_host
from hostdoctor.readers.text import text_of
from tests.trees import Tree
from tests.unit.evidence.sick import SickEvidence

MANIFEST = Manifest(SCHEMA, Tool(), "root", "2024-01-31T12:00:00Z")


@pytest.fixture
def tree(tmp_path):
    tree = Tree(tmp_path / "host").common()
    tree.write("etc/weird \n%41é/x", "1").write("sys/a/b/c", "c").write("sys/a/b/config", bytes(range(256)))
    tree.link("sys/l", "sys/a/b").link("etc/nowhere", "etc/none")
    (tree.root / "etc/up").symlink_to("../../../../outside")
    return tree


def captured(recording):
    return Capture(pack(Contents(MANIFEST, recording.record)), "x.tgz").evidence


def answer(question):
    try:
        found = question()
    except Unreadable as error:
        return error.path, error.problem, error.detail
    return found if isinstance(found, bytes | str | list) else found.path


def questions(evidence):
    """Every way of asking, in the order of a table."""
    paths = (
        "sys/a/b/c",
        "sys/l/c",
        "sys/l",
        "sys/a",
        "etc/weird \n%41é/x",
        "etc/nowhere",
        "etc/up",
        "none/x",
        "",
        "../x",
        "a\0b",
    )
    for path in paths:
        for ask in (evidence.read, evidence.names, evidence.link, evidence.directory):
            yield lambda ask=ask, path=path: ask(path)
        yield lambda path=path: evidence.read(path, 0)
    for path in ("sys/a", "sys/l"):
        folder = evidence.directory(path)
        for name in ("b", "b/c", "c", "config", "..", "."):
            for ask in (folder.read, folder.names, folder.link, folder.folder):
                yield lambda ask=ask, name=name: ask(name)
    opened = evidence.directory("sys/a/b").open("config")
    for offset, size in ((0, 64), (10, 4), (250, 100), (300, 4)):
        yield lambda offset=offset, size=size: opened.read_at(offset, size)
    yield lambda: evidence.directory("sys/a/b").open("none")


def test_every_question_is_answered_alike(tree):
    with FileEvidence(str(tree.root)) as evidence:
        recording = RecordingEvidence(evidence)
        expected = [answer(question) for question in questions(recording)]
    again = captured(recording)
    found = [answer(question) for question in questions(again)]
    assert found == expected


def test_what_nobody_asked_is_unknown_and_not_absent(tree):
    with FileEvidence(str(tree.root)) as evidence:
        recording = RecordingEvidence(evidence)
        recording.read("proc/cmdline")
        opened = recording.directory("sys/a/b").open("config")
        opened.read_at(0, 64)
    again = captured(recording)
    for path in ("etc/os-release", "none"):
        with pytest.raises(Unreadable) as raised:
            again.read(path)
        assert raised.value.problem == "unrecorded"
        told = text_of(again, path)
        assert told is not NOT_CAPTURED
        assert told.reason.endswith("it is not in this capture")
        assert Files([again]).data(path) is not NOT_CAPTURED
    with pytest.raises(Unreadable) as raised:
        again.directory("sys/a/b").open("config").read_at(64, 4)
    assert raised.value.problem == "unrecorded"


def test_a_file_that_never_answered_is_said_to_have_done_so(tree, tmp_path):
    """Whoever reads the capture does not wait for it."""
    os.mkfifo(tmp_path / "never")
    tree.amd_cards(2)
    evidence = SickEvidence(str(tree.root), str(tmp_path / "never"))
    for address in ("0000:03:00.0", "0000:07:00.0"):
        tree.write(f"sys/bus/pci/devices/{address}/gpu_busy_percent", "0\n")
    with evidence:
        recording = RecordingEvidence(evidence)
        expected = read_host(recording, deadline_s=1.0)
    again = captured(recording)
    found = read_host(again, deadline_s=60.0)
    assert found == expected
    assert "did not end" in found.gpu_facts["0000:03:00.0"].busy_percent.reason
    assert ("timed-out" in {problem for _, _, problem in again.reads}) is True


def test_only_root_is_told_groups_of_users(tree):
    """The file that names groups tells who is in them, and is not kept."""
    tree.write("etc/group", "render:x:104:zaphod\n")
    with FileEvidence(str(tree.root)) as evidence:
        recording = RecordingEvidence(evidence)
        recording.read("etc/group")
    assert "etc/group" not in recording.record.files


def test_fewer_bytes_than_somebody_else_takes(tree):
    with FileEvidence(str(tree.root)) as evidence:
        recording = RecordingEvidence(evidence)
        recording.read("sys/a/b/config", 1000)
        with pytest.raises(Unreadable):
            recording.read("sys/a/b/config", 100)
    again = captured(recording)
    assert len(again.read("sys/a/b/config", 1000)) == 256
    with pytest.raises(Unreadable) as raised:
        again.read("sys/a/b/config", 100)
    assert (raised.value.problem, raised.value.detail) == ("too-large", "over 100 bytes")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_path_is_a_member_that_stays_in_its_folder(path):
    member = member_of(path)
    assert path_of(member) == path
    assert posixpath.normpath(f"/x/{member}").startswith("/x/files")
    assert member.startswith(FILES)
    assert member.isprintable()


@given(st.binary(max_size=300))
def test_anything_else_is_no_capture(data):
    with pytest.raises((NoCapture, BadCapture)):
        Capture(data, "x")


@given(st.integers(0, 1 << 14), st.binary(max_size=8))
def test_a_damaged_capture_raises_nothing_else(at, noise):
    data = _whole()
    damaged = data[: at % len(data)] + noise + data[at % len(data) + len(noise) :]
    try:
        evidence = Capture(damaged, "x").evidence
    except (NoCapture, BadCapture):
        return
    answer(lambda: evidence.read("proc/cmdline"))


_DATA: list[bytes] = []


def _whole():
    if not _DATA:
        from tests.test_cases import TREES  # noqa: PLC0415

        with Opened(FileEvidence(str(TREES[0] / "input")), ()) as opened:
            _DATA.append(pack(gathered(opened, 10.0, logs=False, tools=False)))
    return _DATA[0]
