"""The facts of a host from what people attach: parts of pastes and files, whose texts say where they stand.

Each module here has one function `apply`, from a host and all parts to the host with what its formats tell. They run in
the order of authority: what an earlier one learnt stands, and a later one that says otherwise is named a contradiction.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from typing import TypeVar

import msgspec

from hostdoctor import wording
from hostdoctor.evidence.attached import Attached
from hostdoctor.evidence.memory import MemoryEvidence
from hostdoctor.evidence.protocol import Evidence
from hostdoctor.facts.host import Host
from hostdoctor.facts.unknown import Unknown
from hostdoctor.parsers.paste import Part, split
from hostdoctor.readers.attached.folders import named, of_this_boot, placed, unfolded
from hostdoctor.readers.attached.mount import mount
from hostdoctor.readers.attached.reports import take_out
from hostdoctor.readers.boot_files import read_boot_files
from hostdoctor.readers.environment import read_environment
from hostdoctor.readers.host import read_host

_NO_FUNCTIONS = Unknown("nothing that was attached lists them", "attach the output of sudo lspci -vvv")

# A function's address without its domain, as lspci writes it at the beginning of a line and others behind a comma or blank.
_SHORT_ADDRESS = re.compile(r"(?:^|[ ,])[0-9a-f]{2}:[01]?[0-9a-f]\.[0-7](?![0-9a-f])")
_MAY_LACK_DOMAIN = ("lspci", "lspci-machine", "lspci-records", "rocm-bandwidth-test")
_LINES_WITH_ADDRESSES = 40

_LATER = "a later version of hostdoctor measured it: read it with that one"
_MOST_UNREAD = 12  # parts that nothing recognised, named one by one

S = TypeVar("S", bound=msgspec.Struct)

# The module and the kinds of parts that it reads; one whose parts are not at hand is not imported.
APPLIERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("lspci", ("lspci", "lspci-fields", "lspci-tree", "lspci-machine", "lspci-records", "sysfs-listing")),
    ("topology_xml", ("topology-xml", "hwloc-xml")),
    ("nvidia", ("nvidia-smi", "nvidia-smi-q", "nvidia-smi-xml", "nvidia-topo", "nvidia-query", "nvidia-list")),
    ("amd", ("rocminfo", "rocm-smi", "amd-smi", "json")),
    ("modules", ("complaint",)),
    ("user_rights", ("device-files", "file-acls", "user-ids", "user-groups", "memlock")),
    ("kernel_log", ("kernel-log",)),
    ("nccl", ("nccl-log",)),
    (
        "bandwidth",
        (
            "rocm-bandwidth-test",
            "transferbench",
            "p2p-bandwidth-latency-test",
            "simple-p2p",
            "nvbandwidth",
            "measuring-run",
            "json",
        ),
    ),
)


class Pasted:
    """Attachments, taken apart.

    Attributes:
        parts: every output that was recognised.
        evidence: the host's own files among them.
        read: where each output stands and what it is.
        unread: what could not be read, or no format took, with the reason.
        assumed: what was taken for granted because no attachment tells it.
        carried: the facts of reports of this program.
        json_reports: reports as JSON, which hold verdicts alone.
        refused: reports whose facts are not at hand, those in JSON included, with the reason.
        has_own_files: whether there are files of the host that lie where they lay on it.
    """

    def __init__(self, attached: Attached, sources: tuple[str, ...]) -> None:
        reports = take_out(attached.files)
        self.carried, self.json_reports, self.refused = reports.carried, reports.json, reports.refused
        own, texts = placed(unfolded(reports.texts))
        found = [named(part) for file in texts for part in split(file.text, file.name)]
        known = [part for part in of_this_boot(found) if part.kind]
        later = [part for part in known if part.kind == "measuring-run" and _is_of_later_version(part)]
        self.parts = [part for part in known if part not in later]
        self.evidence: MemoryEvidence = mount(self.parts, sources, own)
        self.read = [f"{part.where()} {part.kind.removeprefix('file:')}" for part in self.parts]
        self.has_own_files = bool(own)
        strange = [part for part in found if not part.kind and _says_something(part)]
        self.unread = [*attached.unread, *reports.refused, *((part.where(), _LATER) for part in later), *_unread(strange)]
        self.assumed = _assumed(self.parts)


def _is_of_later_version(part: Part) -> bool:
    from hostdoctor.parsers.measuring_run import is_of_later_version  # noqa: PLC0415  few pastes hold such a file

    return is_of_later_version(part)


def _assumed(parts: Sequence[Part]) -> tuple[str, ...]:
    """That addresses without a domain are of the first one, where there are such."""
    short = dict.fromkeys(part.source for part in parts if part.kind in _MAY_LACK_DOMAIN and _lacks_domain(part))
    return (f"domain 0000 for the addresses that {wording.listed(short)} writes without one",) if short else ()


def _lacks_domain(part: Part) -> bool:
    return any(_SHORT_ADDRESS.search(line) for line in part.lines[:_LINES_WITH_ADDRESSES])


def _says_something(part: Part) -> bool:
    """Whether there is more than lines of a frame, "+-----+"."""
    return any(letter.isalnum() for line in part.lines for letter in line)


def _unread(parts: Sequence[Part]) -> list[tuple[str, str]]:
    """What no format took; a support folder has much of that, so only the first are named."""
    shown = [(part.where(), f"nothing known begins like this: {_first_line(part)!r}") for part in parts[:_MOST_UNREAD]]
    more = parts[_MOST_UNREAD:]
    if more:
        files = len({part.source for part in more})
        shown.append((more[0].source, f"nothing known begins like it, nor like {len(more):,} more pieces in {files:,} files"))
    return shown


def _first_line(part: Part) -> str:
    return next((line.strip() for line in part.lines if line.strip()), "")[:60]


def read_attached(pasted: Pasted, tree: Evidence | None, deadline_s: float, assume_bare_metal: bool) -> Host:
    """The host that attachments tell of, together with its tree or a report of it where that was given, which comes first."""
    if pasted.carried:
        return _of_report(pasted, deadline_s, assume_bare_metal)
    host = read_host(tree or pasted.evidence, deadline_s, assume_bare_metal)
    if tree is not None:
        host = _completed(host, read_host(pasted.evidence, deadline_s, assume_bare_metal))
    host = apply_parts(host, pasted.parts)
    # Again, since the files may lie in both, and a log may have told the running line.
    evidences = (pasted.evidence,) if tree is None else (tree, pasted.evidence)
    files = read_boot_files(evidences, host.boot, host.environment.container)
    host = msgspec.structs.replace(host, boot_files=files)
    if isinstance(host.functions, Unknown):
        host = msgspec.structs.replace(host, functions=_NO_FUNCTIONS)
    environment = read_environment(tree or pasted.evidence, host.cpu, host.firmware, host.functions)
    assumed = msgspec.structs.replace(environment, assumed_bare_metal=assume_bare_metal)
    return msgspec.structs.replace(host, environment=assumed) if isinstance(host.environment.kind, Unknown) else host


def _of_report(pasted: Pasted, deadline_s: float, assume_bare_metal: bool) -> Host:
    """The facts that a report carries, with what else was attached."""
    host = pasted.carried[0].record.host
    if pasted.parts or pasted.has_own_files:
        host = apply_parts(_completed(host, read_host(pasted.evidence, deadline_s, assume_bare_metal)), pasted.parts)
    if host.boot_files.is_empty:
        files = read_boot_files((pasted.evidence,), host.boot, host.environment.container)
        host = msgspec.structs.replace(host, boot_files=files)
    if not assume_bare_metal:
        return host
    return msgspec.structs.replace(host, environment=msgspec.structs.replace(host.environment, assumed_bare_metal=True))


def _completed(host: Host, other: Host) -> Host:
    """A host with what another reading adds to its parts."""
    names = ("boot", "cpu", "firmware", "memory_map", "numa", "iommu")
    return msgspec.structs.replace(host, **{name: _filled(getattr(host, name), getattr(other, name)) for name in names})


def _filled(ours: S, theirs: S) -> S:
    """A part with what the other knows of it; that there is nothing is known too."""
    pairs = {name: (getattr(ours, name), getattr(theirs, name)) for name in ours.__struct_fields__}
    changes = {
        name: other
        for name, (own, other) in pairs.items()
        if isinstance(own, Unknown) or (own in ("", ()) and not isinstance(other, Unknown))
    }
    return msgspec.structs.replace(ours, **changes)


def apply_parts(host: Host, parts: Sequence[Part]) -> Host:
    """The host with everything that the parts tell of it."""
    kinds = {part.kind for part in parts}
    for module, wanted in APPLIERS:
        if kinds.intersection(wanted):
            chosen = [part for part in parts if part.kind in wanted]
            applied: Host = import_module(f"{__name__}.{module}").apply(host, chosen)
            host = applied
    return host
