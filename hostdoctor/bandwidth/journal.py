"""The file that a measuring run writes as it goes: a line of JSON for everything that begins and ends.

A copy between two GPUs can hang or reset the whole host. So the beginning of each step is on disk before it begins, and its
result before the next one: what a crash leaves behind tells how far the run came and which pair it died on. Lines that
cannot be understood, such as a last one that a crash cut, are passed over.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from typing import Literal

import msgspec

from hostdoctor.bandwidth.steps import Device, Step, StepResult

FORMAT = 1
HowEnded = Literal["complete", "interrupted", "fault", "hung"]


class Began(msgspec.Struct, frozen=True, tag="run", tag_field="record"):
    """The run's first line; `format` tells later versions how to read the rest, `steps` whether the plan is whole."""

    version: str
    at: str
    boot_id: str = ""
    kernel: str = ""
    format: int = FORMAT
    steps: int = 0


class Tool(msgspec.Struct, frozen=True, tag="tool", tag_field="record"):
    """What measures, and the GPUs that it is to measure."""

    name: str
    version: str
    path: str
    vendor: str  # "amd" or "nvidia"
    devices: tuple[Device, ...]


class Planned(msgspec.Struct, frozen=True, tag="planned", tag_field="record"):
    """A step that the run is to take."""

    tool: str
    step: Step


class Begun(msgspec.Struct, frozen=True, tag="begun", tag_field="record"):
    """A step begins."""

    at: str
    tool: str
    step: Step


class LinkSeen(msgspec.Struct, frozen=True):
    """The best that a link was seen at while copies ran; `port` is the function at its lower end."""

    port: str
    speed_gts: float
    width: int


class Done(msgspec.Struct, frozen=True, tag="done", tag_field="record"):
    """A step has ended, well or not."""

    at: str
    tool: str
    result: StepResult
    seconds: float = 0.0
    links: tuple[LinkSeen, ...] = ()


class Fault(msgspec.Struct, frozen=True, tag="fault", tag_field="record"):
    """The kernel logged a fault while the run was on; `stops` where that ended it."""

    at: str
    kind: str
    address: str
    text: str
    during: str  # the step's key
    stops: bool


class Ended(msgspec.Struct, frozen=True, tag="ended", tag_field="record"):
    """The run ends in good order, however far it came."""

    at: str
    how: HowEnded


Record = Began | Tool | Planned | Begun | Done | Fault | Ended


class Journal(msgspec.Struct, frozen=True):
    """What such a file tells.

    Attributes:
        began: its first line.
        tools: in order.
        planned: tool and step, in order.
        done: by tool and the step's key, the last of each, with the number of its line.
        begun: likewise.
        faults: what the kernel logged.
        ended: how it ended last; empty where it did not, since it was killed or the host went down.
    """

    began: Began | None = None
    tools: tuple[Tool, ...] = ()
    planned: tuple[tuple[str, Step], ...] = ()
    done: dict[tuple[str, str], tuple[int, Done]] = {}
    begun: dict[tuple[str, str], Begun] = {}
    faults: tuple[Fault, ...] = ()
    ended: HowEnded | Literal[""] = ""

    @property
    def is_newer(self) -> bool:
        """Whether a later version wrote the file, with records that are not known here: what seems missing may be there."""
        return self.began is not None and self.began.format > FORMAT

    @property
    def lacks_steps(self) -> bool:
        """Whether the file lacks a part of the plan, as where its writing was cut: what is left is not the run."""
        return self.began is not None and len(self.planned) < self.began.steps

    @property
    def died_on(self) -> tuple[Begun, ...]:
        """The steps that began and never ended."""
        return tuple(begun for key, begun in self.begun.items() if key not in self.done)


def read(lines: Iterable[str], first_line: int = 1) -> Journal:
    """What the lines tell; those that are no records are passed over.

    Args:
        lines: in order.
        first_line: the number of the first one.
    """
    began: Began | None = None
    tools: dict[str, Tool] = {}
    planned: dict[tuple[str, str], Step] = {}
    done: dict[tuple[str, str], tuple[int, Done]] = {}
    begun: dict[tuple[str, str], Begun] = {}
    faults: list[Fault] = []
    ended: HowEnded | Literal[""] = ""
    for number, record in _records(lines, first_line):
        if isinstance(record, Began):
            began = began or record
        elif isinstance(record, Tool):
            tools.setdefault(record.name, record)
        elif isinstance(record, Planned):
            planned.setdefault((record.tool, record.step.key), record.step)
        elif isinstance(record, Begun):
            begun[record.tool, record.step.key] = record
            done.pop((record.tool, record.step.key), None)
            ended = ""
        elif isinstance(record, Done):
            done[record.tool, record.result.step.key] = (number, record)
        elif isinstance(record, Fault):
            faults.append(record)
        else:
            ended = record.how
    steps = tuple((tool, step) for (tool, _), step in planned.items())
    return Journal(began, tuple(tools.values()), steps, done, begun, tuple(faults), ended)


def _records(lines: Iterable[str], first_line: int) -> Iterator[tuple[int, Record]]:
    decoder = msgspec.json.Decoder(Record)
    for number, line in enumerate(lines, first_line):
        if line.lstrip()[:1] != "{":
            continue
        with contextlib.suppress(msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
            yield number, decoder.decode(line.encode())


def now() -> str:
    """This moment, as people and programs read it: "2026-11-29T22:35:02Z"."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Writer:
    """Appends records; each is on disk when `write` returns. A context manager that lets go of the file."""

    def __init__(self, path: str) -> None:
        """Open or create the file; raises OSError, also where another run writes to it."""
        self.path = path
        folder = os.path.dirname(path) or "."
        self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            self._claim()
            size = os.fstat(self._file).st_size
            if size and os.pread(self._file, 1, size - 1) != b"\n":
                os.write(self._file, b"\n")  # a crash cut the last line: what is written now must not become part of it
            self._sync(folder)
        except OSError:
            os.close(self._file)
            raise

    def _claim(self) -> None:
        """Have the file alone."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BlockingIOError(error.errno, "another run writes to it", self.path) from None

    def write(self, *records: Record) -> None:
        """Append records."""
        data = b"".join(msgspec.json.encode(record) + b"\n" for record in records)
        while data:
            data = data[os.write(self._file, data) :]
        os.fsync(self._file)

    def _sync(self, folder: str) -> None:
        """Have the file's name on disk too."""
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)


def default_path() -> str:
    """A new name below the user's state folder (XDG Base Directory Specification), which is made where it is missing."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):  # the specification says to ignore what is not
        state = os.path.expanduser("~/.local/state")
    folder = os.path.join(state, "hostdoctor")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return os.path.join(folder, f"bandwidth-{stamp}-{os.getpid()}.jsonl")
