"""Each recorded host as lspci prints it: the text tells what the tree does, and nothing else."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from hostdoctor.evidence.files import FileEvidence
from hostdoctor.facts.host import Environment, Host
from hostdoctor.facts.unknown import ASLEEP, Unknown
from hostdoctor.parsers.paste import split
from hostdoctor.readers.attached import lspci
from hostdoctor.readers.host import read_host

LSPCI = shutil.which("lspci", path=os.environ.get("PATH", "") + ":/usr/bin:/usr/sbin:/sbin")
CASES = Path(__file__).resolve().parents[2] / "cases"
TREES = sorted({path.parents[5] for path in CASES.glob("*/input/sys/bus/pci/devices/*/config")})
TEXTS = sorted(
    path
    for path in [*CASES.glob("*/input/*lspci*"), *CASES.glob("*/attachments/lspci*")]
    if path.is_file() and 0 < path.stat().st_size < 60_000
)

# Where a text stands in for a tree: what lspci never prints, and what it leaves out where it means nothing.
NOT_PRINTED = {
    "address",
    "origin",
    "name",
    "stand_in_id",
    "iommu_type",
    "dma_mask_bits",
    "power",
    "is_virtual_function",
    "class_code",
}
NOT_PRINTED_OF_CONFIG = {"bar_registers", "header_type"}


@pytest.fixture(scope="module")
def seen():
    """What the tree of each host says."""
    found = {}

    def read(tree):
        if tree not in found:
            with FileEvidence(str(tree)) as evidence:
                found[tree] = read_host(evidence).functions
        return found[tree]

    return read


def printed(tree, *options):
    # Without -A, lspci silently shows this machine where it does not like the tree.
    command = [LSPCI, "-A", "linux-sysfs", "-O", f"sysfs.path={tree}/sys/bus/pci", "-D", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env={"LC_ALL": "C"})
    return told(done.stdout)


def told(*texts):
    parts = [part for number, text in enumerate(texts) for part in split(text, f"{number}.txt")]
    functions = lspci.apply(Host(environment=Environment("bare-metal"), functions=Unknown("none")), parts).functions
    return {} if isinstance(functions, Unknown) else functions


def differences(ours, theirs, path=""):
    """Where what the text tells is not what the other source says; what either does not know is no difference."""
    if isinstance(ours, Unknown) or isinstance(theirs, Unknown):
        return
    if isinstance(ours, msgspec.Struct) and type(ours) is type(theirs):
        left_out = NOT_PRINTED_OF_CONFIG if path == ".config" else NOT_PRINTED if not path else ()
        for name in ours.__struct_fields__:
            if name not in left_out:
                yield from differences(getattr(ours, name), getattr(theirs, name), f"{path}.{name}")
    elif path == ".bars":  # sysfs calls every ROM prefetchable, which lspci does not say, and has no BARs without an address
        placed = [bar for bar in ours if bar.kind != "rom" and bar.assigned]
        if placed != [bar for bar in theirs if bar.kind != "rom" and bar.index < 6 and bar.assigned]:
            yield path, ours, theirs
    elif ours != theirs:
        yield path, ours, theirs


def all_differences(ours, theirs):
    return [(address, *each) for address, function in ours.items() for each in differences(function, theirs[address])]


@pytest.mark.skipif(LSPCI is None, reason="lspci is not installed")
@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.parent.name)
def test_vvv_tells_what_the_tree_does(seen, tree):
    found, functions = printed(tree, "-vvv", "-nn"), seen(tree)
    assert found.keys() == functions.keys()
    integrated = {address for address, each in functions.items() if each.link and found[address].link is None}
    assert [each for each in all_differences(found, functions) if each[0] not in integrated] == []
    last = max(found)  # a text does not show that it ends where the last function does, unless that has a driver
    for address, function in functions.items():
        ours = found[address]
        if function.config is ASLEEP or address == last:
            continue
        for name in ("driver", "numa_node", "bars", "link", "express", "acs"):
            if not isinstance(getattr(function, name), Unknown):
                assert not isinstance(getattr(ours, name), Unknown), (address, name)


@pytest.mark.skipif(LSPCI is None, reason="lspci is not installed")
@pytest.mark.parametrize(
    "options",
    [("-vv",), ("-v",), ("-nnk",), ("-nnxxxx",), ("-nnxxx",), ("-nnx",), ("-mmnn",), ("-vmmnnk",), ("-tvnn",)],
    ids=" ".join,
)
@pytest.mark.parametrize("tree", TREES[::3], ids=lambda tree: tree.parent.name)
def test_other_amounts_tell_nothing_else(seen, tree, options):
    functions = seen(tree)
    for address, function in printed(tree, *options).items():
        for path, ours, theirs in differences(function, functions[address]):
            if path == ".bars" and options == ("-v",):  # it numbers none
                assert {bar.address for bar in ours if bar.kind != "rom"} == {bar.address for bar in theirs if bar.index < 6}
                continue
            is_silent = ours in (0, "", ()) or (ours is None and path.endswith("_bus"))
            assert is_silent or (path == ".link" and ours is None), (address, path, ours, theirs)


@pytest.mark.skipif(LSPCI is None, reason="lspci is not installed")
@pytest.mark.parametrize("tree", TREES[::2], ids=lambda tree: tree.parent.name)
def test_names_lead_to_the_ids_or_to_none(seen, tree):
    functions = seen(tree)
    for address, function in printed(tree).items():
        assert function.vendor in (0, functions[address].vendor)
        assert function.device in (0, functions[address].device)
        assert function.class_code >> 8 == functions[address].class_code >> 8


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: f"{path.parents[1].name}-{path.name}")
def test_a_cut_text_tells_nothing_else(text):
    whole_text = text.read_text(encoding="utf-8")
    whole, chance = told(whole_text), random.Random(text.name)
    for _ in range(6):
        size = chance.randrange(len(whole_text))
        for part in (whole_text[:size], whole_text[size:]):
            found = told(part)
            assert found.keys() <= whole.keys()
            assert [each for each in all_differences(found, whole) if is_claim(each)] == []


def is_claim(difference):
    """Whether it says something; a revision, windows or bus numbers that the text no longer has are just not told."""
    _, path, ours, _ = difference
    return ours not in (0, "", ()) and not (ours is None and path.endswith("_bus")) and path != ".windows"
