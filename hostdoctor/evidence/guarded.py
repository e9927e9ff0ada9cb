"""Reading what a driver serves, without being at its mercy.

A sick GPU can block a read for ever, and nothing ends a process that is stuck in the kernel. So such files are read by
one forked child. It runs the reader itself and sends each answer as it comes; the parent then runs the same reader over
those answers. A child that says nothing for half of the time that is left hangs: it is given up together with the device
that it hung on, and another child reads the rest. What no child reached before the deadline answers `timed-out`, and the
files that they hung on are named.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import msgspec

from hostdoctor.evidence.protocol import (
    ATTRIBUTE_LIMIT,
    FILE_LIMIT,
    Directory,
    Evidence,
    Opened,
    Problem,
    Read,
    Recorder,
    Unreadable,
)
from hostdoctor.forked import Forked

# What was read, or (as a dict) why it could not be.
_Answer = bytes | str | bool | list[str] | dict[str, str]

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[str, object]).decode
_BEGIN = "begin"
_CHILDREN = 4  # at most, one after another
_SILENCE_S = 1.0  # on a busy machine, one that is silent for less may just not have had its turn
_DEVICE_PARTS = 5  # of a path: sys/bus/pci/devices/ADDRESS, sys/class/kfd/kfd/topology, proc/driver/nvidia/gpus/ADDRESS


class _Error(msgspec.Struct, frozen=True):
    path: str
    problem: Problem
    detail: str


class _Knowledge:
    """What was answered so far, and the devices that are not asked any more, each with the reason."""

    def __init__(self) -> None:
        self.answers: dict[str, object] = {}
        self._given_up: dict[str, str] = {}

    def give_up(self, path: str, why: str) -> None:
        self._given_up[_device_of(path)] = why

    def why_given_up(self, path: str) -> str:
        """Empty for a device that may be asked."""
        return self._given_up.get(_device_of(path), "") if self._given_up else ""


def _device_of(path: str) -> str:
    return "/".join(path.split("/", _DEVICE_PARTS)[:_DEVICE_PARTS])


def _given(answer: object) -> _Answer:
    """An answer as it came from our own child; raises Unreadable where that is the answer."""
    if isinstance(answer, dict):
        error = msgspec.convert(answer, _Error)
        raise Unreadable(error.path, error.problem, error.detail)
    return answer  # type: ignore[return-value]


class _PathDirectory:
    """A folder of an evidence that is asked by whole paths."""

    __slots__ = ("_evidence", "path")

    def __init__(self, evidence: _Asked, path: str) -> None:
        self._evidence = evidence
        self.path = path

    def read(self, name: str, limit: int = ATTRIBUTE_LIMIT) -> bytes:
        return self._evidence.read(f"{self.path}/{name}", limit)

    def link(self, name: str) -> str:
        return self._evidence.link(f"{self.path}/{name}")

    def names(self, name: str = ".") -> list[str]:
        return self._evidence.names(self.path if name == "." else f"{self.path}/{name}")

    def open(self, name: str) -> Opened:
        return self._evidence.open(f"{self.path}/{name}")

    def folder(self, name: str) -> Directory:
        return self._evidence.folder(f"{self.path}/{name}")

    def close(self) -> None:
        """Nothing is held."""


class _PathOpened:
    __slots__ = ("_evidence", "_path")

    def __init__(self, evidence: _Asked, path: str) -> None:
        self._evidence = evidence
        self._path = path

    def read_at(self, offset: int, size: int) -> bytes:
        answer = self._evidence.ask(f"at {offset} {size} {self._path}", self._path)
        return answer if isinstance(answer, bytes) else b""

    def close(self) -> None:
        """Nothing is held."""


class _Asked:
    """An evidence all of whose answers pass through `ask`."""

    def __init__(self, evidence: Evidence) -> None:
        self.kind = evidence.kind
        self.whole = evidence.whole
        self.answers = evidence.answers
        self.sources = evidence.sources
        self.reads: list[Read] = []
        self._evidence = evidence

    def ask(self, question: str, path: str) -> _Answer:
        raise NotImplementedError

    def read(self, path: str, limit: int = FILE_LIMIT) -> bytes:
        answer = self.ask(f"read {limit} {path}", path)
        return answer if isinstance(answer, bytes) else b""

    def names(self, path: str) -> list[str]:
        answer = self.ask(f"names {path}", path)
        return answer if isinstance(answer, list) else []

    def link(self, path: str) -> str:
        return str(self.ask(f"link {path}", path))

    def open(self, path: str) -> Opened:
        self.ask(f"open {path}", path)
        return _PathOpened(self, path)

    def directory(self, path: str) -> Directory:
        self.ask(f"directory {path}", path)
        return _PathDirectory(self, path)

    def folder(self, path: str) -> Directory:
        """A folder that is not reached by a link."""
        self.ask(f"folder {path}", path)
        return _PathDirectory(self, path)

    def shown(self, path: str) -> str:
        return self._evidence.shown(path)


class _Teller(_Asked):
    """In the child: asks the real evidence and sends each answer to the parent."""

    def __init__(self, evidence: Evidence, known: _Knowledge, pipe: int) -> None:
        super().__init__(evidence)
        self._known = known
        self._pipe = pipe
        self._pending = b""
        self._opened: dict[str, Opened] = {}
        # Folders are kept open: walking to each file from the root would cost more than all the reading.
        self._folders: dict[str, Directory] = {}

    def ask(self, question: str, path: str) -> _Answer:
        if question in self._known.answers:
            return _given(self._known.answers[question])
        if why := self._known.why_given_up(path):
            raise Unreadable(path, "timed-out", why)
        self._send(_BEGIN, path)
        try:
            answer = self._real(question, path)
        except Unreadable as error:
            self._keep(question, {"path": error.path, "problem": error.problem, "detail": error.detail})
            raise
        self._keep(question, answer)
        return answer

    def _real(self, question: str, path: str) -> _Answer:
        verb, *words = question[: len(question) - len(path)].split()
        if verb == "at":
            if path not in self._opened:  # a child before this one opened it
                folder, name = self._nearest(path)
                self._opened[path] = folder.open(name)
            return self._opened[path].read_at(int(words[0]), int(words[1]))
        if verb == "names":
            return self._evidence.names(path)
        if verb == "directory":
            self._folders[path] = self._evidence.directory(path)
            return True
        folder, name = self._nearest(path)
        if verb == "folder":
            self._folders[path] = folder.folder(name)
            return True
        if verb == "open":
            self._opened[path] = folder.open(name)
            return True
        return folder.link(name) if verb == "link" else folder.read(name, int(words[0]))

    def _nearest(self, path: str) -> tuple[Directory, str]:
        """An open folder that the path begins with, and the rest of the path."""
        head, _, name = path.rpartition("/")
        while head and head not in self._folders:
            head, _, more = head.rpartition("/")
            name = f"{more}/{name}"
        if head:
            return self._folders[head], name
        folder, _, name = path.rpartition("/")
        self._folders[folder] = self._evidence.directory(folder)
        return self._folders[folder], name

    def _keep(self, question: str, answer: _Answer) -> None:
        """Hold an answer back until the next question, so that both leave in one write."""
        frame = _encode((question, answer))
        self._pending += len(frame).to_bytes(4, "little") + frame

    def _send(self, question: str, answer: _Answer) -> None:
        self._keep(question, answer)
        self.flush()

    def flush(self) -> None:
        while self._pending:
            self._pending = self._pending[os.write(self._pipe, self._pending) :]

    def finish(self) -> None:
        self._send(_BEGIN, "")


class _Told(_Asked):
    """In the parent: gives the answers that came from the children."""

    def __init__(self, evidence: Evidence, known: _Knowledge, problem: Problem, reason: str) -> None:
        super().__init__(evidence)
        self.reads = evidence.reads
        self._known = known
        self._problem: Problem = problem
        self._reason = reason

    def ask(self, question: str, path: str) -> _Answer:
        answer = self._known.answers.get(question)
        if answer is None:
            why = self._known.why_given_up(path)
            problem: Problem = "timed-out" if why else self._problem
            self.reads.append(("", path, problem))
            raise Unreadable(path, problem, why or self._reason)
        is_read = question.startswith(("read", "open"))
        try:
            given = _given(answer)
        except Unreadable as error:
            if is_read:
                self.reads.append(("", path, error.problem))
            raise
        if is_read:
            self.reads.append(("", path, None))
        return given


class GuardedRead(Forked):
    """A reader at work in a child process, and where that hangs, in further ones.

    Attributes:
        hung_on: once there are answers: the file that the child hung on or died at; empty if it came to its end.
        known: what this child and those before it answered.
        spare: how many children may still follow.
    """

    def __init__(
        self, evidence: Evidence, reader: Callable[[Evidence], object], deadline_s: float, after: GuardedRead | None = None
    ) -> None:
        """Start the child; `deadline_s` counts from now.

        Args:
            evidence: what the reader is to read.
            reader: may be run several times, in this process as well.
            deadline_s: how long all children together may take.
            after: the child that hung before.
        """
        self._evidence = evidence
        self._reader = reader
        self.known: _Knowledge = after.known if after else _Knowledge()
        self.spare: int = after.spare - 1 if after else _CHILDREN - 1
        self._successor: GuardedRead | None = None
        self.hung_on = ""
        super().__init__(self._tell, deadline_s)

    def _tell(self, pipe: int) -> None:
        teller = _Teller(self._evidence, self.known, pipe)
        try:
            self._reader(teller)
            teller.finish()
        finally:
            teller.flush()

    def answers(self) -> Evidence:
        """Wait for the children, at most until the deadline, and return an evidence that holds what they read."""
        told = self.told()
        return self._evidence.around(told) if isinstance(self._evidence, Recorder) else told

    def told(self) -> _Told:
        """The same, not recorded by whoever records."""
        silence_s = min(self._deadline_s, max(self._deadline_s / 2, _SILENCE_S)) if self.spare else self._deadline_s
        try:
            data, ended = self._received(lambda data: False, silence_s)
            self._take(data)
            why = f"reading /{self.hung_on} did not end within {silence_s:.2g} s"
            if self.hung_on and not ended:
                self.known.give_up(self.hung_on, why)
                self.kill()
                self._successor = self._succeeded()
            told = self._successor.told() if self._successor else None
        except BaseException:
            self.abandon()
            raise
        self._end_child(ended)  # only now: one that is stuck in the kernel is waited for
        if told:
            return told
        if not self.hung_on:
            return _Told(self._evidence, self.known, "timed-out", "not reached")
        if ended:
            why = f"the process that reads for us ended at /{self.hung_on}"
            return _Told(self._evidence, self.known, "failed", why)
        return _Told(self._evidence, self.known, "timed-out", why)

    def _take(self, data: bytes) -> None:
        at = 0
        while at + 4 <= len(data):
            size = int.from_bytes(data[at : at + 4], "little")
            if at + 4 + size > len(data):
                break
            question, answer = _decode(data[at + 4 : at + 4 + size])
            if question == _BEGIN:
                self.hung_on = str(answer)
            else:
                self.known.answers[question] = answer
            at += 4 + size

    def _succeeded(self) -> GuardedRead | None:
        """Another child that reads the rest; None where there can be none."""
        left_s = self._ends - time.monotonic()
        if left_s <= 0 or not self.spare:
            return None
        try:
            return GuardedRead(self._evidence, self._reader, left_s, after=self)
        except OSError:
            return None

    def abandon(self) -> None:
        """End the children without waiting for their answers; nothing where they have ended."""
        if self._successor:
            self._successor.abandon()
        super().abandon()
