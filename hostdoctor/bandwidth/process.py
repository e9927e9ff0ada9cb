"""Runs a program in a process group of its own, with a deadline past which the whole group is ended.

What a broken path between two GPUs does to a program cannot be foreseen: it may hang, print without end, leave children
behind or sit in the kernel where no signal reaches it. None of that may hold the caller up.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

_OUTPUT_LIMIT = 4 << 20  # what a tool prints beyond that is read and dropped
_ERRORS_LIMIT = 64 << 10
_LINE_LIMIT = 1 << 20  # what has no end of line is handed on in such parts
_CHUNK = 1 << 16
_MOST_IN_PIPE = 1 << 20  # fs.pipe-max-size of an unprivileged process (man 7 pipe)
_REAP_S = 2.0
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of linux/prctl.h
_LIBC = ctypes.CDLL(None, use_errno=True)


class Ended(msgspec.Struct, frozen=True):
    """How a program ended.

    Attributes:
        status: its exit status, the negative number of the signal that ended it, or None where it could not be reaped.
        output: what it wrote to standard output.
        errors: the same of standard error.
        timed_out: whether it was ended at its deadline.
        stuck: whether it does not even die: it sits in the kernel.
    """

    status: int | None
    output: str
    errors: str
    timed_out: bool = False
    stuck: bool = False

    @property
    def last_words(self) -> str:
        """The last line that says something, of errors before output; one line of at most 300 characters."""
        for text in (self.errors, self.output):
            lines = [line.strip() for line in text.splitlines() if line.strip()]
            if lines:
                return lines[-1][:300]
        return ""


class Means(msgspec.Struct, frozen=True):
    """What is done while a program runs.

    Attributes:
        deadline_s: how long it may take.
        on_line: gets each line of its output, as it comes, with its end.
        on_piece: gets its output as it comes, in pieces of any size.
        on_error: likewise its errors.
        tick: called every `every_s` seconds; what it raises ends the program.
        every_s: None for never.
    """

    deadline_s: float
    on_line: Callable[[str], object] = lambda line: None
    on_piece: Callable[[bytes], object] = lambda piece: None
    on_error: Callable[[bytes], object] = lambda piece: None
    tick: Callable[[], object] = lambda: None
    every_s: float | None = None


def run(command: Sequence[str], means: Means, *, environment: Mapping[str, str] | None = None, given: str = "") -> Ended:
    """Run a program to its end or its deadline; raises OSError where it cannot be started.

    Args:
        command: the program and its arguments.
        means: deadline, and what happens meanwhile.
        environment: its variables; this process's own where None.
        given: what it reads from standard input.
    """
    with subprocess.Popen(  # noqa: S603  the program is the user's own choice, or this one
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment) if environment is not None else None,
        start_new_session=True,
        preexec_fn=_die_with_parent,  # noqa: PLW1509  there are no threads here
    ) as process:
        running = _Running(process, means)
        try:
            running.give(given)
            running.follow()
        finally:
            running.end()
        return running.ended()


def _die_with_parent() -> None:
    """In the child: where this program is killed, what it measures with must not go on behind its back."""
    _LIBC.prctl(_DIE_WITH_PARENT, signal.SIGKILL)


class _Running:
    """A program that is at work."""

    def __init__(self, process: subprocess.Popen[bytes], means: Means) -> None:
        self._process, self._means = process, means
        self._ends = time.monotonic() + means.deadline_s
        self._output, self._errors, self._rest = bytearray(), bytearray(), bytearray()
        self._timed_out = self._stuck = False

    def give(self, text: str) -> None:
        """Write to its standard input, and close that; a program that reads none of it may be gone already."""
        assert self._process.stdin is not None  # noqa: S101  it was asked for
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(text.encode())
            self._process.stdin.flush()
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def follow(self) -> None:
        """Read what it prints until it ends or is out of time."""
        poll, open_ = select.poll(), set[int]()
        assert self._process.stdout is not None and self._process.stderr is not None  # noqa: S101,PT018
        streams = {self._process.stdout.fileno(): self._output, self._process.stderr.fileno(): self._errors}
        for number in streams:
            os.set_blocking(number, False)
            poll.register(number, select.POLLIN)
            open_.add(number)
        process = os.pidfd_open(self._process.pid)
        poll.register(process, select.POLLIN)
        try:
            while open_:
                ready = [number for number, _ in poll.poll(self._wait_ms())]
                for number in ready:
                    if number in open_ and not self._read(number, streams[number]):
                        poll.unregister(number)
                        open_.discard(number)
                if process in ready:
                    # It has ended; a child of its own may keep the pipes open for ever, so only what lies in them is taken.
                    for number in open_:
                        self._drain(number, streams[number])
                    break
                self._means.tick()
                if time.monotonic() >= self._ends:
                    self._timed_out = True
                    return
            self._await(process)
        finally:
            os.close(process)

    def _drain(self, number: int, kept: bytearray) -> None:
        """Take what lies in a pipe, and no more than a pipe can hold: a child that was left behind may write for ever."""
        for _ in range(_MOST_IN_PIPE // _CHUNK):
            if not self._read(number, kept):
                return

    def _await(self, process: int) -> None:
        """Wait for the end of a program that has closed its outputs."""
        poll = select.poll()
        poll.register(process, select.POLLIN)
        while not poll.poll(self._wait_ms()):
            self._means.tick()
            if time.monotonic() >= self._ends:
                self._timed_out = True
                return

    def _wait_ms(self) -> int:
        left_s = max(0.0, self._ends - time.monotonic())
        return 1 + int(1000 * (left_s if self._means.every_s is None else min(left_s, self._means.every_s)))

    def _read(self, number: int, kept: bytearray) -> bool | None:
        """Take what lies in a pipe; False at its end, None where nothing lies in it now."""
        try:
            data = os.read(number, _CHUNK)
        except BlockingIOError:
            return None
        limit = _OUTPUT_LIMIT if kept is self._output else _ERRORS_LIMIT
        kept += data[: max(0, limit - len(kept))]
        if kept is self._output:
            self._means.on_piece(data)
            self._tell(data)
        else:
            self._means.on_error(data)
        return bool(data)

    def _tell(self, data: bytes) -> None:
        """Hand on whole lines, and what has no end in parts."""
        first, end, others = data.partition(b"\n")
        self._rest += first
        if not end:
            if len(self._rest) > _LINE_LIMIT:
                self._hand_on_rest("")
            return
        self._hand_on_rest("\n")
        *lines, rest = others.split(b"\n")
        for line in lines:
            self._means.on_line(line.decode("utf-8", "replace") + "\n")
        self._rest += rest

    def _hand_on_rest(self, end: str) -> None:
        rest, self._rest = bytes(self._rest), bytearray()
        self._means.on_line(rest.decode("utf-8", "replace") + end)

    def end(self) -> None:
        """End whatever is left of its group, and reap it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        try:
            self._process.wait(_REAP_S)
        except subprocess.TimeoutExpired:
            self._stuck = True
            self._abandon()
        if self._rest:
            self._hand_on_rest("")

    def _abandon(self) -> None:
        """Leave behind what does not die, so that nothing waits for it."""
        self._process.returncode = -signal.SIGKILL

    def ended(self) -> Ended:
        """What came of it."""
        return Ended(
            None if self._stuck else self._process.returncode,
            self._output.decode("utf-8", "replace"),
            self._errors.decode("utf-8", "replace"),
            self._timed_out,
            self._stuck,
        )
