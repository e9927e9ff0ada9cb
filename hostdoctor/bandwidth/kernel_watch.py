"""Watches the kernel's log while copies run, and tells faults from everything else.

Source: Linux Documentation/ABI/testing/dev-kmsg: each read gives one record, EPIPE tells that some were overwritten.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence

import msgspec

from hostdoctor.facts.log import LogEvent
from hostdoctor.parsers.kernel_log import read_log
from hostdoctor.parsers.log_events import read_events
from hostdoctor.topology import Topology

_RECORD = 8192  # larger than any record
_MOST_RECORDS = 2000  # taken at a time, so that a storm does not hold the run up
# After these nothing may be copied further: the device is gone or going, or a copy went where it must not.
_STOPS = frozenset(
    {
        "iommu-fault",
        "iommu-stuck",
        "xid",
        "sxid",
        "aer-nonfatal",
        "aer-fatal",
        "aer-not-recovered",
        "aer-report-uncorrected",  # what it reports follows, unless the kernel limits its rate
        "dpc",
        "gpu-hang",
        "gpu-page-fault",
        "gpu-reset",
        "gpu-reset-failed",
        "inaccessible",
        "lost",
        "link-down",
        "link-training-failed",
        "ras-uncorrectable",
        "ring-reset",
        "ring-timeout",
        "slot-emptied",
        "smu-timeout",
        "wedged",
    }
)
# Worth a word, but what is corrected harms no copy.
_NOTED = frozenset({"aer-corrected", "ras-corrected", "iommu-other", "link-retrained"})


class Fault(msgspec.Struct, frozen=True):
    """Something that the kernel logged.

    Attributes:
        event: what it is.
        stops: whether nothing should be copied any more: it is about the GPUs that copy, or names no device.
    """

    event: LogEvent
    stops: bool


class KernelWatch:
    """The kernel's log from now on. A context manager that lets go of it.

    Attributes:
        why_not: why it cannot be read; empty where it can.
    """

    def __init__(self, path: str, topology: Topology, gpus: Iterable[str]) -> None:
        """Begin at the end of the log.

        Args:
            path: "/dev/kmsg".
            topology: of the host.
            gpus: those that copy.
        """
        self._path = path
        self._concerned = _neighbours(topology, gpus)
        self._file: int | None = None
        self._rest = b""
        self.why_not = ""
        try:
            self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._file, 0, os.SEEK_END)
        except OSError as error:
            self.why_not = _reason(error)
            self.__exit__()

    def faults(self) -> list[Fault]:
        """What was logged since it was asked last."""
        lines = self._lines()
        if not lines:
            return []
        events = read_events(read_log(self._path, enumerate(lines, 1))).events
        return [
            Fault(event, event.kind in _STOPS and self._concerns(event)) for event in events if event.kind in _STOPS | _NOTED
        ]

    def _concerns(self, event: LogEvent) -> bool:
        return not event.address or event.address.rpartition(".")[0] in self._concerned

    def _lines(self) -> Sequence[str]:
        data = bytearray(self._rest)
        for _ in range(_MOST_RECORDS if self._file is not None else 0):
            assert self._file is not None  # noqa: S101  the range is empty without it
            try:
                record = os.read(self._file, _RECORD)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.EPIPE:  # some were overwritten before they were read
                    continue
                self.why_not = _reason(error)
                self.__exit__()
                break
            if not record:
                break
            data += record
        whole, end, rest = bytes(data).rpartition(b"\n")
        self._rest = rest[-_RECORD:]
        lines = (whole + end).decode("utf-8", "replace").splitlines()
        return [line for line in lines if line[:1] != " "]  # " DEVICE=+pci:0000:43:00.0", which belongs to the record above

    def __enter__(self) -> KernelWatch:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _neighbours(topology: Topology, gpus: Iterable[str]) -> set[str]:
    """The cards that copy and the ports above them, without the function's number: a card's faults may name any."""
    found = set[str]()
    for address in gpus:
        gpu = topology.functions.get(address)
        above = topology.above(gpu) if gpu else ()
        found.update(each.rpartition(".")[0] for each in (address, *(port.address for port in above)))
    return found


def _reason(error: OSError) -> str:
    if error.errno in (errno.EPERM, errno.EACCES):
        return "no permission (run as root, or sysctl kernel.dmesg_restrict=0)"
    return error.strerror or "reading it failed"
