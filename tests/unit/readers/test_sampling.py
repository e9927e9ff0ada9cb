"""Watching links: how often and when, what is seen, and how it ends."""

from __future__ import annotations

import os

import pytest

from hostdoctor.evidence.files import FileEvidence
from hostdoctor.facts.unknown import ASLEEP, Unknown
from hostdoctor.readers.host import read_host
from hostdoctor.readers.sampling import KernelUevents, Means, NoUevents, Plan, uevents_of, watched
from tests.trees import Tree, config_space, link_attributes
from tests.unit.evidence.sick import SickEvidence

QUIET = dict.fromkeys(("aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal"), "RxErr 0\n")
FULL = ("16.0 GT/s PCIe", "16", "16.0 GT/s PCIe", "16")


class StoppedClock:
    """Time that passes only by waiting; `at_work` is called with each wait, and `slow` is what each look takes."""

    def __init__(self, at_work=lambda number: None, slow=0.0):
        self.time, self.waits, self.at_work, self.slow = 100.0, [], at_work, slow

    def now(self):
        self.time += self.slow
        return self.time

    def sleep(self, seconds):
        self.waits.append(seconds)
        self.at_work(len(self.waits))
        self.time += seconds


class Told:
    """Uevents that are known beforehand, a list for each look."""

    def __init__(self, *batches):
        self.batches = list(batches)

    def drain(self):
        return self.batches.pop(0) if self.batches else []


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "host").common()


def card(tree, **attributes):
    """A GPU below a root port; returns its folder."""
    port = tree.function(
        "0000:40:01.0", id_="1022:1483", class_code="60400", config=config_space(port_type=4, header_type=1), **QUIET,
        **link_attributes(*FULL),
    )  # fmt: skip
    usual = {"gpu_busy_percent": "0\n", **link_attributes(*FULL), **QUIET}
    return tree.function(
        "0000:41:00.0", port, id_="1002:66A1", driver="amdgpu", config=config_space(), **{**usual, **attributes}
    )


def watch(tree, samples=3, interval_s=0.5, clock=None, **means):
    clock = clock or StoppedClock()
    with FileEvidence(str(tree.root)) as evidence:
        host = read_host(evidence)
        before = list(evidence.reads)
        seen = watched(evidence, host, Plan(samples, interval_s), Means(clock=clock, **means))
        assert len(evidence.reads) < len(before) + 40, "each look notes the same files again"
        return seen.samples


def test_as_many_looks_as_were_asked_for_at_their_times(tree):
    card(tree)
    clock, ticks = StoppedClock(), []
    samples = watch(tree, clock=clock, tick=lambda: ticks.append(1))
    assert [(each.address, each.seconds) for each in samples.links] == [("0000:41:00.0", at) for at in (0.0, 0.5, 1.0)]
    assert {(each.speed_gts, each.width, each.busy_percent) for each in samples.links} == {(16.0, 16, 0)}
    assert (clock.waits, len(ticks), samples.interval_s) == ([0.5, 0.5], 3, 0.5)


def test_a_slow_look_shortens_the_wait_after_it(tree):
    card(tree)
    clock = StoppedClock(slow=0.1)
    watch(tree, clock=clock)
    assert all(wait < 0.5 for wait in clock.waits)
    assert sum(clock.waits) < 1.0


def test_looks_that_take_too_long_end_the_watch(tree):
    card(tree)
    samples = watch(tree, samples=100, clock=StoppedClock(slow=20.0))
    assert 0 < len(samples.links) < 5


def test_what_changes_meanwhile_is_seen(tree):
    folder = card(tree)
    port = folder.rpartition("/")[0]

    def at_work(number):
        if number == 1:
            tree.write(f"{folder}/current_link_speed", "2.5 GT/s PCIe\n").write(f"{folder}/gpu_busy_percent", "97\n")
            tree.write(f"{port}/aer_dev_correctable", "RxErr 5\n")
        else:
            tree.write(f"{folder}/current_link_width", "8\n")

    samples = watch(tree, clock=StoppedClock(at_work))
    assert [(each.speed_gts, each.width, each.busy_percent) for each in samples.links] == [
        (16.0, 16, 0), (2.5, 16, 97), (2.5, 8, 97),
    ]  # fmt: skip
    assert samples.counters_before["0000:40:01.0"].correctable == {}
    assert samples.counters_after["0000:40:01.0"].correctable == {"RxErr": 5}
    assert samples.counters_after["0000:41:00.0"].correctable == {}


def test_a_cards_own_switch_has_the_slot_link(tree):
    tree.amd_cards(1)
    (first, *_) = watch(tree).links
    assert (first.address, first.speed_gts, first.width) == ("0000:03:00.0", 8.0, 8)


def test_a_gpu_that_falls_asleep_is_left_asleep(tree):
    folder = card(tree)
    clock = StoppedClock(lambda number: tree.write(f"{folder}/power/runtime_status", "suspended\n"))
    links = watch(tree, clock=clock).links
    assert [each.speed_gts for each in links] == [16.0, ASLEEP, ASLEEP]


def test_a_gpu_that_goes_away_is_unknown_from_then_on(tree):
    folder = card(tree)
    clock = StoppedClock(
        lambda number: os.path.exists(tree.root / folder) and os.rename(tree.root / folder, tree.root / "gone")
    )
    links = watch(tree, clock=clock).links
    assert [isinstance(each.width, Unknown) for each in links] == [False, True, True]


def test_a_gpu_that_hangs_ends_the_watch(tree, tmp_path):
    card(tree)
    os.mkfifo(tmp_path / "never")
    with FileEvidence(str(tree.root)) as evidence:
        host = read_host(evidence)
    with SickEvidence(str(tree.root), str(tmp_path / "never")) as evidence:
        samples = watched(evidence, host, Plan(50, 1.0, deadline_s=0.2), Means(clock=StoppedClock())).samples
    (look,) = samples.links
    assert (look.speed_gts, look.width) == (16.0, 16)
    assert "did not end within" in look.busy_percent.reason


def test_uevents_are_kept_with_a_limit(tree):
    card(tree)
    assert watch(tree, uevents=Told([], ["remove 0000:41:00.0"], ["add 0000:41:00.0"])).uevents == (
        "remove 0000:41:00.0",
        "add 0000:41:00.0",
    )
    assert len(watch(tree, uevents=Told(["change 0000:41:00.0"] * 5000)).uevents) == 1000


def test_an_interrupt_comes_through_and_leaves_no_child(tree):
    card(tree)

    def interrupted(number):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch(tree, clock=StoppedClock(interrupted))


def test_without_a_gpu_or_in_a_guest_there_is_nothing_to_watch(tree):
    assert watch(tree.folder("sys/bus/pci/devices")) is None
    card(tree)
    tree.write("sys/class/dmi/id/sys_vendor", "QEMU\n")
    assert watch(tree) is None


def test_only_this_host_has_uevents(tree):
    with FileEvidence(str(tree.root)) as evidence:
        assert isinstance(uevents_of(evidence), NoUevents)
    assert list(NoUevents().drain()) == []


def test_the_kernel_is_listened_to_where_that_is_possible():
    with FileEvidence("/", "live") as evidence:
        source = uevents_of(evidence)
    assert isinstance(source, (KernelUevents, NoUevents))
    assert all(isinstance(each, str) for each in source.drain())
