"""Error counters: of GPUs and the ports above them, of network cards and of NVMe drives.

The aer_dev_* files are the kernel's own (drivers/pci/pcie/aer.c) and need no root; they exist where the function has
Advanced Error Reporting. They are read while the function's folder is open anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hostdoctor.evidence import Directory, Evidence, Unreadable
from hostdoctor.facts.driver import ErrorCounters
from hostdoctor.facts.pci import ATI, INTEL, NVIDIA, Function
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown, known
from hostdoctor.parsers.counters import parse_aer_counters
from hostdoctor.readers.text import attribute, integer

KINDS = ("correctable", "nonfatal", "fatal")


class PortCounters:
    """Collects the counters of ports above GPUs and of adapters while read_functions passes them.

    Attributes:
        found: by address; a function without such files is not among them.
    """

    def __init__(self) -> None:
        self.found: dict[str, ErrorCounters] = {}
        self._done: set[str] = set()  # read, or not to be read

    def visit(self, folders: Sequence[Directory], function: Function) -> None:
        """Look at a function; `folders` are its own, which is the last, and those above it, all open."""
        if function.asleep:
            self._done.add(function.address)
        elif function.is_network_card or function.is_nvme:
            self._read(folders[-1], function.address)
        if is_gpu(function):
            for folder in folders[:-1]:
                address = folder.path.rpartition("/")[2]
                if address not in self._done and not address.startswith("pci"):  # a root bus, pci0000:17
                    self._read(folder, address)

    def _read(self, folder: Directory, address: str) -> None:
        self._done.add(address)
        counters = counters_of(folder, address)
        if counters is not None:
            self.found[address] = counters


def is_gpu(function: Function) -> bool:
    """Whether a driver of GPUs may serve files of this function."""
    return function.base_class in (0x03, 0x12) and function.vendor in (ATI, NVIDIA, INTEL)


def counters_of(folder: Directory, address: str, driver: str | Unknown | None = None) -> ErrorCounters | None:
    """The counters in a function's folder, or None where it has none; amdgpu's GPUs count replays too."""
    replays = integer(attribute(folder, "pcie_replay_count")) if driver == "amdgpu" else NOT_CAPTURED
    try:
        kinds = [parse_aer_counters(folder.read(f"aer_dev_{kind}").decode("ascii", "replace")) for kind in KINDS]
    except Unreadable:
        # No replays tell nothing of the other errors.
        return ErrorCounters(address, replays=replays) if known(replays, 0) else None
    return ErrorCounters(address, kinds[0], kinds[1], kinds[2], replays)


def read_counters(evidence: Evidence, functions: Iterable[Function]) -> dict[str, ErrorCounters]:
    """The counters of these functions as they are now; those that sleep, or have gone, are left out."""
    found = {}
    for function in functions:
        try:
            folder = evidence.directory(function.origin.lstrip("/"))
        except Unreadable:
            continue
        try:
            if attribute(folder, "power/runtime_status") in ("suspended", "suspending"):
                continue
            counters = counters_of(folder, function.address, function.driver)
        finally:
            folder.close()
        if counters is not None:
            found[function.address] = counters
    return found
