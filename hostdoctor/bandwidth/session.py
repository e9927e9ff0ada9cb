"""A measuring run from its preparation to its facts, for every command that measures."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from hostdoctor.bandwidth import journal
from hostdoctor.bandwidth.choice import Choice, choose
from hostdoctor.bandwidth.kernel_watch import KernelWatch
from hostdoctor.bandwidth.occupied import User, users
from hostdoctor.bandwidth.plan import Task, Wishes, tasks_of
from hostdoctor.bandwidth.running import Around, Progress, boot_id, header, left_to_do, measure
from hostdoctor.evidence import Evidence
from hostdoctor.evidence.files import FileEvidence
from hostdoctor.facts.host import Host
from hostdoctor.facts.pci import NVIDIA, Function
from hostdoctor.facts.unknown import Unknown
from hostdoctor.topology import Topology

_LIST_DEADLINE_S = 30.0
_MOST_FILE_BYTES = 64 << 20


class Refused(Exception):
    """Nothing can or should be measured here; its text is one line."""


class Place(msgspec.Struct, frozen=True):
    """The host that is measured: its root, its files and its facts."""

    root: str
    evidence: Evidence
    host: Host

    @property
    def topology(self) -> Topology:
        """How its functions hang together."""
        return Topology({} if isinstance(self.host.functions, Unknown) else self.host.functions)


class Allowed(msgspec.Struct, frozen=True):
    """What the user has said yes to."""

    force: bool = False  # other programs on the GPUs
    retry: bool = False  # a pair that a run died on


class Files(msgspec.Struct, frozen=True):
    """Where results go: into a new file, or, where it is named, into one of a run to go on with."""

    results: str
    resume: str = ""


class Session(msgspec.Struct):
    """A run that is ready to begin.

    Attributes:
        place: the host.
        choice: the tools, and those passed over.
        tasks: what is to be done, in order.
        left_out: what is not done again, since a run died on it.
        path: of the file that results go to.
        resumed: what it holds already; None where it is new.
        wishes: sizes, numbers and deadlines.
        watch: the kernel's log.
        unseen: the addresses of GPUs that were to be measured and that no tool sees.
    """

    place: Place
    choice: Choice
    tasks: list[Task]
    left_out: list[Task]
    path: str
    resumed: journal.Journal | None
    wishes: Wishes
    watch: KernelWatch
    unseen: list[str]

    def run(self, progress: Progress) -> journal.HowEnded:
        """Measure; raises OSError where the file cannot be written, KeyboardInterrupt where the user ends it."""
        around = Around(self.place.evidence, self.place.topology, self.watch, self.wishes.deadline_s, progress)
        with _alone(self.place), journal.Writer(self.path) as writer:
            if self.resumed is None:
                writer.write(*header(self.place.host, self.choice.chosen, self.tasks, boot_id(self.place.evidence)))
            return measure(self.tasks, writer, around)


@contextmanager
def _alone(place: Place) -> Iterator[None]:
    """Keep other runs, of whichever user, from measuring the same host meanwhile; raises Refused where one does.

    What locks is the folder of the host's PCI bus, which is the same for all, is always there, and may be opened by anybody.
    """
    try:
        folder = os.open(os.path.join(place.root, "sys/bus/pci"), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # without it there is no GPU either
        yield
        return
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused("another run measures on this host now, and each would spoil the other's figures") from None
        yield
    finally:
        os.close(folder)


def prepared(place: Place, tool: str, wishes: Wishes, allowed: Allowed, files: Files) -> Session:
    """A session; raises Refused.

    Args:
        place: the host.
        tool: one of choice.TOOLS, or "auto".
        wishes: sizes, numbers and deadlines.
        allowed: what the user has said yes to.
        files: for the results.
    """
    gpus = _gpus(place, wishes)
    if not allowed.force:
        _refuse_company(place, gpus)
    resumed = _read(files.resume) if files.resume else None
    names = [each.name for each in resumed.tools] if resumed else [tool]
    choice = Choice([], [])
    for name in names:
        found = choose(gpus, name, _LIST_DEADLINE_S, _others(place, gpus))
        choice.chosen += found.chosen
        choice.passed_over += found.passed_over
    if not choice.chosen:
        raise Refused(_why_none(choice))
    tasks, left_out = tasks_of(choice.chosen, wishes), list[Task]()
    if resumed:
        _refuse_changed(files.resume, resumed, choice)
        tasks, left_out = left_to_do(_planned(choice, resumed), resumed, retry=allowed.retry)
    watched = [device.subject for each in choice.chosen for device in each.devices]
    watch = KernelWatch(os.path.join(place.root, "dev/kmsg"), place.topology, watched)
    path = files.resume or files.results
    return Session(place, choice, tasks, left_out, path, resumed, wishes, watch, choice.unseen(gpus))


def choose_for(place: Place) -> Choice:
    """The tools that can copy on this host; raises Refused where there is none."""
    choice = choose(_gpus(place, Wishes()), "auto", _LIST_DEADLINE_S)
    if not choice.chosen:
        raise Refused(_why_none(choice))
    return choice


def _why_none(choice: Choice) -> str:
    reasons = "; ".join(f"{name}: {why}" for name, why in choice.passed_over)
    return f"nothing here can measure: {reasons}" if reasons else "there is no GPU of AMD or NVIDIA here to measure"


def _refuse_other_hosts(place: Place) -> None:
    """A folder may hold another host's files, whose links say nothing of copies that this one makes."""
    with FileEvidence("/", "live") as here:
        ours, theirs = boot_id(here), boot_id(place.evidence)
    if place.evidence.kind != "live" and (not theirs or ours != theirs):
        raise Refused(f"{place.root}: these are not the files of this host as it runs now, and nothing else can be measured")


def _gpus(place: Place, wishes: Wishes) -> Sequence[Function]:
    _refuse_other_hosts(place)
    if place.host.environment.is_guest:
        raise Refused(
            "this is a guest, whose PCI tree and IOMMU are the hypervisor's: measure on its host, or add --assume-bare-metal"
        )
    gpus = place.topology.gpus
    missing = [address for address in wishes.only if address not in {gpu.address for gpu in gpus}]
    if missing:
        raise Refused(f"there is no discrete GPU at {missing[0]}")
    chosen = [gpu for gpu in gpus if not wishes.only or gpu.address in wishes.only]
    if not chosen:
        raise Refused("there is no discrete GPU here to measure")
    return chosen


def _others(place: Place, gpus: Sequence[Function]) -> list[Function]:
    return [gpu for gpu in place.topology.gpus if gpu not in gpus]


def _refuse_changed(path: str, resumed: journal.Journal, choice: Choice) -> None:
    """A run is gone on with where it began: a GPU that is gone, or another in its place, makes its figures those of two."""
    here = {(each.adapter.name, device.subject): device for each in choice.chosen for device in each.devices}
    for tool in resumed.tools:
        for device in tool.devices:
            now = here.get((tool.name, device.subject))
            if now is None:
                reason = f"{tool.name} does not see {device.subject} any more: it is gone, or the run was another host's"
                raise Refused(f"{path}: {reason}; begin a new run")
            if now.name != device.name:
                reason = (
                    f"{device.subject} was {device.name!r} then and is {now.name!r} now, so that the run was another host's"
                )
                raise Refused(f"{path}: {reason}; begin a new run")


def _refuse_company(place: Place, gpus: Sequence[Function]) -> None:
    ask_nvml = place.root == "/" and any(gpu.vendor == NVIDIA and gpu.driver == "nvidia" for gpu in gpus)
    found = users(place.root, {gpu.address for gpu in gpus}, ask_nvml=ask_nvml)
    if found:
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        raise Refused(
            f"other programs use the GPUs: {', '.join(map(_named, found[:3]))}{more}; end them first, since they would spoil "
            "the figures and a fault would take them down, or add --force"
        )


def _named(user: User) -> str:
    return f"{user.name or 'a process'} ({user.number}, {user.what})"


def _planned(choice: Choice, resumed: journal.Journal) -> list[Task]:
    adapters = {each.adapter.name: each.adapter for each in choice.chosen}
    missing = [name for name, _ in resumed.planned if name not in adapters]
    if missing:
        reason = next((why for name, why in choice.passed_over if name == missing[0]), "it is gone")
        raise Refused(f"the run used {missing[0]}, which cannot be used now: {reason}")
    return [Task(adapters[name], step) for name, step in resumed.planned]


def _read(path: str) -> journal.Journal:
    found = read_file(path)
    if found.began is None or not found.planned:
        raise Refused(f"{path}: no measuring run begins in it")
    if found.is_newer:
        raise Refused(f"{path}: a newer hostdoctor wrote it")
    if found.lacks_steps:
        raise Refused(f"{path}: a part of its plan is missing, as where the disk was full: begin a new run")
    return found


def read_file(path: str) -> journal.Journal:
    """What a file tells; raises Refused where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return journal.read(file.read(_MOST_FILE_BYTES).split("\n"))
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None
