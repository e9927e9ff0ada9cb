"""Work done in a forked child, so that what hangs, crashes or prints there harms nobody here.

Nothing ends a process that is stuck in the kernel. So a child has a deadline; past it, it is killed, and one that does not
die at once is left behind.
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable

_CHUNK = 1 << 16
_LATE_PARTS = 64  # what a child may still have sent when its time is up, in chunks
_REAP_MS = 500
_GRACE_S = 1.0


class Forked:
    """A child at work, and the pipe through which it answers.

    Attributes:
        exit_code: once it has ended: its exit status, or the negative number of the signal that ended it.
    """

    def __init__(self, work: Callable[[int], object], deadline_s: float) -> None:
        """Start the child; raises OSError where there can be none.

        Args:
            work: what the child does; it gets the writing end of the pipe.
            deadline_s: how long it may take, from now on.
        """
        self._ends = time.monotonic() + deadline_s
        self._deadline_s = deadline_s
        self._over = False
        self._dead_by = 0.0
        self.exit_code: int | None = None
        self._pipe, writing = os.pipe()
        try:
            self._child = os.fork()
        except OSError:
            os.close(self._pipe)
            os.close(writing)
            raise
        if self._child == 0:
            self._run(work, writing)
        os.close(writing)

    def _run(self, work: Callable[[int], object], pipe: int) -> None:
        status = 1
        try:
            os.close(self._pipe)
            while pipe <= 2:  # the parent runs with an output closed, whose number the pipe has got
                pipe = os.dup(pipe)
            _shut_off(self._deadline_s + _GRACE_S)
            work(pipe)
            status = 0
        finally:
            # Nothing of the parent's may run twice: no exit handlers, no flushing of its output.
            os._exit(status)

    def collect(self, is_whole: Callable[[bytes], bool] = lambda data: False) -> tuple[bytes, bool]:
        """All that the child sent until its deadline, and whether it came to its end; then the child is gone.

        What lies in the pipe is taken even when time is up.

        Args:
            is_whole: whether the data are complete, so that the child's end need not be waited for.
        """
        try:
            data, ended = self._received(is_whole)
        except BaseException:
            self.abandon()
            raise
        self._end_child(ended)
        return data, ended

    def _received(self, is_whole: Callable[[bytes], bool], silence_s: float = math.inf) -> tuple[bytes, bool]:
        parts: list[bytes] = []
        poll = select.poll()
        poll.register(self._pipe, select.POLLIN)
        late = 0
        while late < _LATE_PARTS:
            left_s = self._ends - time.monotonic()
            late += left_s <= 0
            if poll.poll(max(0, math.ceil(min(left_s, silence_s) * 1000))):
                part = os.read(self._pipe, _CHUNK)
                parts.append(part)
                if not part or is_whole(b"".join(parts)):
                    return b"".join(parts), True
            else:
                break
        return b"".join(parts), False

    def abandon(self) -> None:
        """End the child without waiting for its answer; nothing where it has ended."""
        self._end_child(ended=False)

    def kill(self) -> None:
        """Kill the child, once; it must still be given up or its answer collected."""
        if not self._dead_by:
            # Not reaped yet, so the number is still the child's. What is not stuck in the kernel is gone at once.
            os.kill(self._child, signal.SIGKILL)
            self._dead_by = time.monotonic() + _REAP_MS / 1000

    def _end_child(self, ended: bool) -> None:
        """Reap the child; one that is stuck in the kernel is killed and left behind."""
        if self._over:
            return
        self._over = True
        os.close(self._pipe)
        if not ended or not self._wait(_REAP_MS):
            self.kill()
            self._wait(max(0, math.ceil(1000 * (self._dead_by - time.monotonic()))))
        with contextlib.suppress(ChildProcessError):
            number, status = os.waitpid(self._child, os.WNOHANG)
            if number:
                self.exit_code = os.waitstatus_to_exitcode(status)

    def _wait(self, milliseconds: int) -> bool:
        """Whether the child is dead within that time, or it cannot be told."""
        try:
            process = os.pidfd_open(self._child)
        except OSError:
            return True
        try:
            poll = select.poll()
            poll.register(process, select.POLLIN)
            return bool(poll.poll(milliseconds))
        finally:
            os.close(process)


def _shut_off(lifetime_s: float) -> None:
    """In the child: nothing it prints goes anywhere, its crash leaves no file, and it ends even if its parent is dead.

    The outputs are replaced below Python, for the sake of C libraries; besides, a child that hangs would keep them open.
    """
    if handler := sys.modules.get("faulthandler"):
        handler.disable()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, lifetime_s)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with contextlib.suppress(OSError):  # there is no /dev here
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nowhere, number)
