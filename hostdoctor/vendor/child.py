"""One question to a library, put by a forked child."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import msgspec

from hostdoctor.facts.unknown import Unknown
from hostdoctor.forked import Forked

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_ANSWER, _REFUSAL, _FAILURE = "answer", "refusal", "failure"
_PREFIX = 4  # bytes that hold the length of the message
_TEXT_LIMIT = 300
_Message = tuple[str, msgspec.Raw]


class Question(Protocol[T_co]):
    """Something that was asked."""

    def answer(self) -> T_co | Unknown | None:
        """Wait for the answer, at most until the deadline; None where nobody was asked."""

    def abandon(self) -> None:
        """Give it up; nothing where it has been answered."""


class Settled(Generic[T]):
    """A question whose answer is known without asking."""

    def __init__(self, answer: T | Unknown | None) -> None:
        self._answer = answer

    def answer(self) -> T | Unknown | None:
        """What is known."""
        return self._answer

    def abandon(self) -> None:
        """Nothing is under way."""


class Child(Forked, Generic[T]):
    """A probe at work in a child.

    The child sends one message: the probe's answer, the reason that the probe gives for having none, or how it failed.

    Attributes:
        failed: once answered: whether the probe itself came to grief (an exception, a crash, no end), so that another
            copy of the library may do better.
    """

    def __init__(self, library: str, probe: Callable[[], T | Unknown], type_: type[T], deadline_s: float) -> None:
        """Start the child; raises OSError where there can be none.

        Args:
            library: what it is called, for reasons.
            probe: run in the child.
            type_: of the probe's answer.
            deadline_s: how long it may take, from now on.
        """
        self._library = library
        self._probe = probe
        self._type = type_
        self.failed = False
        super().__init__(self._send, deadline_s)

    def _send(self, pipe: int) -> None:
        message = msgspec.msgpack.encode(self._message())
        data = len(message).to_bytes(_PREFIX, "little") + message
        while data:
            data = data[os.write(pipe, data) :]

    def _message(self) -> tuple[str, object]:
        try:
            found = self._probe()
        except Exception as error:
            return _FAILURE, f"{type(error).__name__}: {error}"[:_TEXT_LIMIT]
        return (_REFUSAL if isinstance(found, Unknown) else _ANSWER), found

    def answer(self) -> T | Unknown:
        """What the probe found, or why it found nothing."""
        data, ended = self.collect(_is_whole)
        try:
            if _is_whole(data):
                return self._understood(data[_PREFIX:])
            reason = self._ended_early() if ended else self._too_late()
        except (msgspec.MsgspecError, UnicodeDecodeError):
            reason = f"what the process that asks {self._library} sent cannot be understood"
        self.failed = True
        return Unknown(reason)

    def _understood(self, message: bytes) -> T | Unknown:
        kind, content = msgspec.msgpack.decode(message, type=_Message)
        if kind == _ANSWER:
            return msgspec.msgpack.decode(content, type=self._type)
        if kind == _REFUSAL:
            return msgspec.msgpack.decode(content, type=Unknown)
        self.failed = True
        return Unknown(f"asking {self._library} failed: {msgspec.msgpack.decode(content, type=str)}")

    def _too_late(self) -> str:
        return f"timed out: {self._library} did not answer within {self._deadline_s:.3g} s"

    def _ended_early(self) -> str:
        code = self.exit_code
        if code is None or code >= 0:
            return f"the process that asks {self._library} ended without an answer"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"{self._library} crashed: the process that asks it was ended by {name}"


def _is_whole(data: bytes) -> bool:
    return len(data) >= _PREFIX and len(data) >= _PREFIX + int.from_bytes(data[:_PREFIX], "little")


def ask(library: str, probe: Callable[[], T | Unknown], type_: type[T], deadline_s: float) -> Question[T]:
    """Put a question, as Child does; where no process can be started, that is the answer."""
    try:
        return Child(library, probe, type_, deadline_s)
    except OSError as error:
        return Settled(Unknown(f"no process could be started to ask {library}: {error.strerror}"))
