"""What a driver serves is read in a child, which may hang, die or fail without harm to the rest."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from hostdoctor.evidence import Unreadable
from hostdoctor.evidence import guarded as guarded_module
from hostdoctor.evidence.files import FileDirectory, FileEvidence
from hostdoctor.evidence.guarded import GuardedRead
from hostdoctor.facts.unknown import Unknown
from hostdoctor.readers.gpu import read_driver_facts
from hostdoctor.readers.host import read_host
from hostdoctor.readers.pci import read_functions
from hostdoctor.topology import is_gpu_class
from tests.trees import Tree
from tests.unit.evidence.sick import SickEvidence

CASES = sorted(path.parent.parent for path in Path(__file__).parents[2].glob("cases/*/input/sys"))
REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "host").common()


def guarded(evidence, reader, deadline_s=30.0):
    return reader(GuardedRead(evidence, reader, deadline_s).answers())


def children():
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


@pytest.fixture(autouse=True)
def nothing_left():
    open_files, running = os.listdir("/proc/self/fd"), children()
    yield
    assert os.listdir("/proc/self/fd") == open_files
    assert children() == running


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_child_reads_what_direct_reading_reads(case):
    with FileEvidence(str(case / "input")) as evidence:
        functions = read_functions(evidence)
        gpus = [each for each in ({} if isinstance(functions, Unknown) else functions).values() if is_gpu_class(each)]
        direct = read_driver_facts(evidence, gpus, with_kfd=True)
        through_child = guarded(evidence, lambda source: read_driver_facts(source, gpus, with_kfd=True))
    assert through_child == direct


def everything(evidence):
    """Asks each kind of question, with and without an answer."""

    def read_at(folder, name, offset):
        with closing(folder.open(name)) as opened:
            return opened.read_at(offset, 3)

    def read_in(folder, below, name):
        with closing(folder.folder(below)) as opened:
            return opened.path, opened.read(name)

    answers = []
    with closing(evidence.directory("link/f")) as folder:
        for ask in (
            lambda: evidence.read("f/value"),
            lambda: evidence.read("f/value", 3),
            lambda: evidence.read("f/none"),
            lambda: evidence.names("f"),
            lambda: evidence.names("none"),
            lambda: evidence.link("link"),
            lambda: evidence.link("f/value"),
            lambda: evidence.directory("f/value"),
            lambda: folder.read("value"),
            lambda: folder.read("below/deep"),
            lambda: folder.link("link"),
            folder.names,
            lambda: folder.names("below"),
            lambda: read_in(folder, "below", "deep"),
            lambda: read_in(folder, "link", "deep"),
            lambda: read_at(folder, "value", 1),
            lambda: read_at(folder, "value", 100),
            lambda: read_at(folder, "none", 0),
            lambda: evidence.shown("f/value"),
            lambda: evidence.kind,
            lambda: evidence.sources,
        ):
            try:
                answers.append(ask())
            except Unreadable as error:
                answers.append((error.path, error.problem, error.detail))
    return answers


def test_every_kind_of_question_is_answered_alike(tree):
    tree.write("f/value", "content").write("f/below/deep", "1").write("f/line\nbreak", "").link("f/link", "f/below").link(
        "link", "."
    )
    with FileEvidence(str(tree.root)) as evidence:
        direct = everything(evidence)
        assert ("f/none", "missing", "") in direct
        evidence.reads.clear()
        assert guarded(evidence, everything) == direct
        reads = {(name if not folder else f"{folder}/{name}", problem) for folder, name, problem in evidence.reads}
    assert {("f/value", None), ("f/none", "missing"), ("link/f/below/deep", None), ("link/f/none", "missing")} <= reads


def test_answers_larger_than_a_pipe(tree):
    for number in range(40):
        tree.write(f"big/{number}", bytes([number]) * 100_000)

    def reader(evidence):
        return [evidence.read(f"big/{number}", 1 << 20) for number in range(40)]

    with FileEvidence(str(tree.root)) as evidence:
        assert guarded(evidence, reader) == [bytes([number]) * 100_000 for number in range(40)]


def test_names_that_are_no_text(tree):
    (tree.root / "odd").mkdir()
    (tree.root / "odd" / os.fsdecode(b"\xff")).symlink_to(os.fsdecode(b"\xfe"))

    def reader(evidence):
        return evidence.names("odd"), evidence.read("etc/os-release")

    with FileEvidence(str(tree.root)) as evidence:
        names, after = guarded(evidence, reader)
    assert names == ["\ufffd"]
    assert after.startswith(b"ID=debian")


def sick(tree, tmp_path):
    os.mkfifo(tmp_path / "never")
    return SickEvidence(str(tree.root), str(tmp_path / "never"))


def test_a_file_that_never_answers_costs_itself_and_what_comes_after_it_of_that_device(tree, tmp_path):
    first, second = tree.amd_cards(2)
    began = time.monotonic()
    with sick(tree, tmp_path) as evidence:
        host = read_host(evidence, deadline_s=2)
        unread = {(name, problem) for _, name, problem in evidence.reads if problem == "timed-out"}
    assert time.monotonic() - began < 20
    assert host.functions[first].link.current_width == 16
    assert host.gpu_facts[first].vram_bytes == 30 << 30
    busy = host.gpu_facts[first].busy_percent
    assert busy.reason.startswith(f"/sys/bus/pci/devices/{first}/gpu_busy_percent: reading it did not end in time")
    after = host.gpu_facts[first].link_levels
    assert f"reading /sys/bus/pci/devices/{first}/gpu_busy_percent did not end within 1 s" in after.reason
    assert host.functions[second].link.current_width == 16
    assert host.gpu_facts[second].vram_bytes == 30 << 30
    assert host.functions["0000:00:01.0"].link.current_width == 8
    assert host.boot.release == "6.8.0-52-generic"
    assert (f"sys/bus/pci/devices/{first}/gpu_busy_percent", "timed-out") in unread


def test_children_are_not_started_without_end(tree, tmp_path, monkeypatch):
    monkeypatch.setattr(guarded_module, "_CHILDREN", 2)
    cards = tree.amd_cards(3)
    with sick(tree, tmp_path) as evidence:
        host = read_host(evidence, deadline_s=4)
    read = [not isinstance(host.gpu_facts[card].vram_bytes, Unknown) for card in cards]
    assert read == [True, True, False]
    assert f"reading /sys/bus/pci/devices/{cards[1]}/gpu_busy_percent did not" in host.gpu_facts[cards[2]].vram_bytes.reason


@pytest.mark.parametrize("pieces", [0, 1])
def test_config_space_that_never_answers(tree, tmp_path, monkeypatch, pieces):
    """It is read in pieces, of which the first may still have come."""
    (card,) = tree.amd_cards(1)
    real, offsets = FileDirectory.open, []

    def slow(directory, name):
        opened = real(directory, name)
        read_at = opened.read_at

        class Slow:
            close = opened.close

            def read_at(self, offset, size):
                offsets.append(offset)
                if len(offsets) > pieces and card in directory.path:
                    os.open(tmp_path / "never", os.O_RDONLY)
                return read_at(offset, size)

        return Slow()

    os.mkfifo(tmp_path / "never")
    monkeypatch.setattr(FileDirectory, "open", slow)
    with FileEvidence(str(tree.root)) as evidence:
        functions = read_functions(evidence)
        offsets.clear()
        gpus = [functions[card]]
        facts = guarded(evidence, lambda source: read_driver_facts(source, gpus, with_kfd=False), deadline_s=1)
    config = facts.functions[card].config
    assert isinstance(config, Unknown)
    assert config.reason.startswith(f"/sys/bus/pci/devices/{card}/config: reading it did not end in time")


def test_a_child_that_fails_is_not_called_slow(tree):
    parent = os.getpid()

    def reader(evidence):
        before = evidence.read("etc/os-release")
        if os.getpid() != parent:
            raise RuntimeError("a fault of the reader")
        return before, evidence.read("proc/cmdline")

    with FileEvidence(str(tree.root)) as evidence, pytest.raises(Unreadable) as caught:
        guarded(evidence, reader)
    assert caught.value.problem == "failed"
    assert "did not end within" not in str(caught.value)
    assert evidence.reads[0] == ("", "etc/os-release", None)


def test_a_child_that_is_killed_loses_only_what_it_had_not_told(tree):
    parent = os.getpid()

    def reader(evidence):
        before = evidence.read("etc/os-release")
        if os.getpid() != parent:
            evidence.names("etc")
            os.kill(os.getpid(), signal.SIGKILL)
        return before

    def reader_on(evidence):
        reader(evidence)
        return evidence.read("proc/cmdline")

    with FileEvidence(str(tree.root)) as evidence:
        assert guarded(evidence, reader).startswith(b"ID=debian")
        with pytest.raises(Unreadable) as caught:
            guarded(evidence, reader_on)
    assert caught.value.problem == "failed"
    assert "/etc" in caught.value.detail


def test_nothing_is_left_of_many_readings(tree, tmp_path):
    def quick(evidence):
        return evidence.read("proc/cmdline")

    def hangs(evidence):
        return evidence.directory("proc").read("gpu_busy_percent")

    with sick(tree, tmp_path) as evidence:
        for _ in range(180):
            assert guarded(evidence, quick).startswith(b"BOOT_IMAGE")
        for _ in range(20):
            with pytest.raises(Unreadable):
                guarded(evidence, hangs, deadline_s=0.01)
        # Whatever is open or running now, `nothing_left` sees.


def test_answers_that_wait_in_the_pipe_count_although_time_is_up(tree):
    with FileEvidence(str(tree.root)) as evidence:
        reading = GuardedRead(evidence, lambda source: source.read("proc/cmdline"), 30.0)
        os.waitid(os.P_PID, int(children()[-1]), os.WEXITED | os.WNOWAIT)
        reading._ends = time.monotonic() - 1
        assert reading.answers().read("proc/cmdline").startswith(b"BOOT_IMAGE")


def test_a_reading_may_be_given_up(tree, tmp_path):
    with sick(tree, tmp_path) as evidence:
        reading = GuardedRead(evidence, lambda source: source.directory("proc").read("gpu_busy_percent"), 30.0)
        reading.abandon()
        reading.abandon()


def test_an_interrupt_leaves_no_child(tree, tmp_path):
    tree.amd_cards(1)
    os.mkfifo(tmp_path / "never")
    os.mkfifo(tmp_path / "told")
    command = [sys.executable, "-m", "tests.unit.evidence.sick", tree.root, tmp_path / "never", tmp_path / "told"]
    scan = subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE, start_new_session=True)
    child = os.pidfd_open(int((tmp_path / "told").read_text()))
    scan.send_signal(signal.SIGINT)
    _, errors = scan.communicate(timeout=30)
    assert scan.returncode == 130, errors
    ended, _, _ = select.select([child], [], [], 30)
    os.close(child)
    assert ended
