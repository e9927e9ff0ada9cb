"""Programs that misbehave: none of them holds the caller up, and none survives it."""

from __future__ import annotations

import os
import sys

import pytest

from hostdoctor.bandwidth.process import Means, run


def shell(script, deadline_s=60.0, **means):
    return run(["/bin/sh", "-c", script], Means(deadline_s, **means))


def test_a_child_that_keeps_the_outputs_open_is_not_waited_for_and_ended(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    reading = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    ended = shell(f"sleep 3600 3> {tmp_path}/fifo & echo done")
    assert (ended.status, ended.output, ended.timed_out) == (0, "done\n", False)
    os.set_blocking(reading, True)
    assert os.read(reading, 1) == b""  # nobody holds it any more
    os.close(reading)


def test_output_without_end_stays_within_bounds():
    seen = []
    ended = shell("while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done", 1.0, on_line=seen.append)
    assert ended.timed_out
    assert len(ended.output) <= 4 << 20
    assert set(seen[:-1]) == {seen[0]}


def test_a_child_that_was_left_behind_and_writes_for_ever_is_not_read_to_its_end():
    ended = shell("setsid yes & echo first; kill -0 $!; exit 3")
    assert (ended.status, ended.timed_out) == (3, False)
    assert len(ended.output) <= 4 << 20


def test_a_line_without_end_is_handed_on_in_parts():
    seen = []
    shell("head -c 20000000 /dev/zero", on_line=lambda line: seen.append(len(line)))
    assert sum(seen) == 20_000_000
    assert max(seen) < 2 << 20


def test_lines_come_as_they_are_printed_also_the_last_without_its_end():
    seen = []
    shell("printf 'one\\ntwo\\nthree'", on_line=seen.append)
    assert seen == ["one\n", "two\n", "three"]


def test_what_is_given_is_read_and_a_program_that_reads_nothing_does_no_harm():
    given = "x" * 100_000
    assert run(["/usr/bin/wc", "-c"], Means(60.0), given=given).output.strip() == "100000"
    assert run(["/bin/true"], Means(60.0), given=given).status == 0


def test_the_number_of_the_signal_and_the_last_words():
    ended = shell("echo first; echo 'it broke' >&2; kill -ABRT $$")
    assert (ended.status, ended.last_words) == (-6, "it broke")


def test_what_a_tick_raises_ends_the_program():
    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shell("sleep 3600", tick=stop, every_s=0.01)


def test_what_cannot_be_started_is_an_error():
    with pytest.raises(OSError, match="No such file"):
        run(["/nowhere/tool"], Means(1.0))


def test_outputs_closed_early_are_no_end():
    ended = run([sys.executable, "-c", "import os; os.close(1); os.close(2); os._exit(3)"], Means(60.0))
    assert ended.status == 3
