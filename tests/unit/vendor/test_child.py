"""A probe in a child answers, or it is told why not; whatever becomes of it, nothing is left and nothing leaks."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from hostdoctor.facts.unknown import Unknown
from hostdoctor.forked import Forked
from hostdoctor.vendor.child import Child, Settled, ask


class Answer(msgspec.Struct):
    texts: tuple[str, ...]
    number: int | Unknown = 0


@pytest.fixture(autouse=True)
def nothing_left():
    open_files, running = os.listdir("/proc/self/fd"), children()
    yield
    assert os.listdir("/proc/self/fd") == open_files
    assert children() == running


def children():
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def asked(probe, deadline_s=60.0, type_=Answer):
    child = Child("the library", probe, type_, deadline_s)
    answer = child.answer()
    return answer, child.failed


def hang():
    while True:
        signal.pause()


def test_an_answer():
    answer = Answer(("a", "é"), Unknown("not told", "ask"))
    assert asked(lambda: answer) == (answer, False)


def test_an_answer_larger_than_a_pipe():
    answer, failed = asked(lambda: Answer(tuple("x" * 1000 for _ in range(1000))))
    assert (len(answer.texts), failed) == (1000, False)


def test_a_refusal_is_no_failure():
    assert asked(lambda: Unknown("no driver", "load it")) == (Unknown("no driver", "load it"), False)


def test_an_exception_is_told():
    def probe():
        raise KeyError("libamd_smi.so")

    assert asked(probe) == (Unknown("asking the library failed: KeyError: 'libamd_smi.so'"), True)


def test_an_endless_message_is_cut():
    def probe():
        raise ValueError("x" * 100_000)

    assert len(asked(probe)[0].reason) < 400


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGKILL, signal.SIGRTMIN + 1])
def test_a_crash_is_named(number):
    def probe():
        os.kill(os.getpid(), number)
        hang()

    answer, failed = asked(probe)
    assert failed
    assert "crashed" in answer.reason
    assert (signal.Signals(number).name if number < signal.SIGRTMIN else str(number)) in answer.reason


def test_an_end_without_an_answer():
    answer, failed = asked(lambda: os._exit(0))
    assert (answer.reason, failed) == ("the process that asks the library ended without an answer", True)


def test_time_that_runs_out():
    answer, failed = asked(hang, deadline_s=0.05)
    assert (answer.reason, failed) == ("timed out: the library did not answer within 0.05 s", True)


def test_a_child_that_ignores_every_signal_it_can():
    def probe():
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)
        hang()

    assert "timed out" in asked(probe, deadline_s=0.05)[0].reason


def test_several_at_work_at_the_same_time():
    running = len(children())
    questions = [ask(f"library {n}", hang, Answer, 0.2) for n in range(3)]
    assert len(children()) == running + 3
    for n, question in enumerate(questions):
        assert question.answer().reason == f"timed out: library {n} did not answer within 0.2 s"


@pytest.mark.parametrize("garbage", [b"\xff" * 20, b"\x05\0\0\0\x92\xa6answe", b"\x01\0\0\0\xc1", b"\2\0\0\0\x92\xa0\xa0"])
def test_garbage_is_no_answer(garbage):
    def send(pipe):
        os.write(pipe, garbage)

    child = Child("the library", lambda: None, Answer, 60.0)
    child.abandon()
    Forked.__init__(child, send, 60.0)
    assert isinstance(child.answer(), Unknown)
    assert child.failed


def test_an_answer_of_another_kind_is_none():
    answer, failed = asked(lambda: ["no", "struct"])
    assert (answer.reason, failed) == ("what the process that asks the library sent cannot be understood", True)


def test_what_a_child_prints_goes_nowhere():
    program = (
        "import ctypes, os, sys\nfrom hostdoctor.vendor.child import Child\n"
        "def probe():\n"
        "    print('python', flush=True)\n"
        "    print('python, aside', file=sys.stderr, flush=True)\n"
        "    os.write(1, b'descriptor 1')\n"
        "    os.write(2, b'descriptor 2')\n"
        "    library = ctypes.CDLL(None)\n"
        "    library.puts(b'C')\n"
        "    library.fflush(None)\n"
        "    return 'read ' + repr(sys.stdin.read())\n"
        "print(Child('x', probe, str, 60).answer())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], input="typed", capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("read ''\n", "")


def test_what_the_parent_has_not_flushed_comes_out_once():
    program = (
        "import sys\nfrom hostdoctor.vendor.child import Child\n"
        "sys.stdout.write('once')\n"
        "print(Child('x', lambda: 'answer', str, 60).answer())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "onceanswer\n"


def test_closed_outputs_do_no_harm(tmp_path):
    """Then the pipe gets the number of an output."""
    program = (
        "import os\nfor n in (0, 1, 2): os.close(n)\n"
        "from hostdoctor.vendor.child import Child\n"
        "answer = Child('x', lambda: 'answer', str, 60).answer()\n"
        f"open({str(tmp_path / 'answer')!r}, 'w').write(str(answer))\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert (tmp_path / "answer").read_text() == "answer"


def test_a_crash_leaves_no_core_file():
    assert asked(lambda: Answer((), resource.getrlimit(resource.RLIMIT_CORE)[0]))[0].number == 0


def test_a_child_ends_by_itself_where_its_parent_was_killed():
    """Its timer is set to just after its deadline."""
    answer, _ = asked(lambda: Answer((), round(signal.getitimer(signal.ITIMER_REAL)[0])), deadline_s=20)
    assert 15 <= answer.number <= 21


def test_where_no_process_can_be_started():
    """RLIMIT_NPROC does not bind root, so a process of an ordinary user tries it."""
    program = (
        "import os, resource\n"
        "from hostdoctor.vendor.child import ask\n"
        "if os.geteuid() == 0:\n    os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))\n"
        "print(ask('x', lambda: 'answer', str, 60).answer().reason)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("no process could be started to ask x: ")


def test_a_question_may_be_given_up():
    question = ask("x", hang, Answer, 60)
    question.abandon()
    question.abandon()
    Settled(None).abandon()
    assert Settled(None).answer() is None
