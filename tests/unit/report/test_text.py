"""The report on a terminal: narrow enough, nothing twice, and nothing in it that a terminal would obey."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from rich.cells import cell_len

from hostdoctor.report import text
from hostdoctor.report.model import to_json
from tests.trees import Tree, config_space

CASES = Path(__file__).parents[2] / "cases"
TREES = [path for path in sorted(CASES.glob("*/input")) if (path / "sys").is_dir() or (path / "proc").is_dir()]


def by_name(tree):
    return tree.parent.name


def render(scanned, **style):
    return text.render(scanned.report, text.Style(**style), 0.05)


def too_wide(shown, width=80):
    return [line for line in shown.splitlines() if cell_len(line) > width]


@pytest.fixture(scope="session")
def many(tmp_path_factory):
    """A host with as many cards as wanted."""
    made = {}

    def make(count):
        if count not in made:
            tree = Tree(tmp_path_factory.mktemp("host") / f"{count}").common()
            tree.amd_cards(count)
            made[count] = tree.root
        return made[count]

    return make


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("tree", TREES, ids=by_name)
def test_no_line_is_wider_than_it_may_be(scan, tree, width):
    assert not too_wide(render(scan(tree), width=width), width)


@pytest.mark.parametrize("count", [1, 8, 16, 32])
def test_many_gpus_are_not_wider(scan, many, count):
    scanned = scan(many(count))
    shown = render(scanned)
    assert len(scanned.report.host.gpus) == count
    assert len(scanned.report.host.pairs) == count * (count - 1)
    assert not too_wide(shown)
    for gpu in scanned.report.host.gpus:
        assert gpu.address in shown


@pytest.mark.parametrize("tree", TREES, ids=by_name)
def test_colour_changes_nothing_else(scan, tree):
    coloured = render(scan(tree), color=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == render(scan(tree))


def sentences(shown):
    """What is said, without the lines' breaks."""
    return [each.strip() for each in re.split(r"(?<=[.;])\s", " ".join(shown.split())) if len(each.split()) > 3]


@pytest.mark.parametrize("tree", TREES, ids=by_name)
def test_nothing_is_said_twice(scan, tree):
    shown = render(scan(tree))
    assert not [each for each, times in Counter(sentences(shown)).items() if times > 1]
    # Whom a finding is for, that others are alike, and what a slow link costs may be so of several findings.
    lines = [line.strip() for line in shown.splitlines() if len(line.split()) > 3]
    lines = [line for line in lines if not line.startswith(("for ", "(and alike", "costs "))]
    assert not [each for each, times in Counter(lines).items() if times > 1]


def test_a_model_cut_short_shows_it(scan):
    shown = render(scan(CASES / "seed-blackwell-ada/input"))
    cut, _ = re.findall(r"0000:0[14]:00\.0 +(RTX .*?) +\d+ GiB", shown)
    assert re.fullmatch(r"RTX PRO 4000 B[a-z]*…", cut)
    wide = render(scan(CASES / "seed-blackwell-ada/input"), width=100)
    assert "RTX PRO 4000 Blackwell SFF " in wide
    assert "…" not in wide


def test_pairs_refer_to_the_step_that_stands_above(scan):
    pairs = render(scan(CASES / "seed-v620-before/input")).split("FAILURE  p2p-pair", 1)[1].split("\n\n", 1)[0]
    assert pairs.endswith("\n  next     as for bar-reach")


def test_pairs_without_p2p_by_design_have_no_next_step(scan):
    shown = render(scan(CASES / "seed-blackwell-ada/input"))
    assert "no P2P" in shown
    assert "  next " not in shown


@pytest.mark.parametrize("tree", TREES, ids=by_name)
def test_every_failure_and_warning_is_told(scan, tree):
    scanned = scan(tree)
    shown, quiet = render(scanned), render(scanned, quiet=True)
    loud = [each for each in scanned.report.findings if each.outcome in ("failure", "warning")]
    for finding in loud:
        assert f"{finding.outcome.upper()}  " in shown
        assert finding.check in shown
        assert f"{finding.outcome}: {finding.check}" in quiet
    assert ("Nothing wrong found" in shown) == (not loud)
    assert len(quiet.splitlines()) <= len(loud)


# --- what a stranger's device may say --------------------------------------------------------------------------------

HOSTILE = "\x1b]0;title\x07\x1b[2J\r\0\x08\x9b31m\u202eevil\u2066\u200b\ufeff\u2028<script>alert(1)</script>[red]&amp;\x7f"


@pytest.fixture(scope="session")
def hostile(tmp_path_factory):
    """Every text that is shown anywhere is hostile, once in a host without a fault in its P2P and once with."""
    tree = Tree(tmp_path_factory.mktemp("hostile") / "host").common()
    tree.amd_cards(2)
    first, second = sorted((tree.root / "sys/bus/pci/devices").iterdir())[-1], "0000:03:00.0"
    for address in (first.name, second):
        folder = (tree.root / "sys/bus/pci/devices" / address).resolve()
        identity = (folder / "uevent").read_text().replace("amdgpu", f"amdgpu{HOSTILE}")
        (folder / "uevent").write_text(identity)
        for name in (
            "numa_node",
            "current_link_speed",
            "max_link_width",
            "dma_mask_bits",
            "mem_info_vram_total",
            "pp_dpm_pcie",
        ):
            (folder / name).write_text(f"1{HOSTILE}")
    for number in range(2):
        tree.write(f"sys/kernel/iommu_groups/{number}/type", f"DMA{HOSTILE}\n")
    dangling = tree.root / "sys/bus/pci/devices/0000:3f:00.0"
    dangling.symlink_to("../../../devices/pci0000:3f/\x1b[2J\u202e/0000:3f:00.0")
    tree.function("0000:40:00.0", class_code="20000", driver="e\x1b[2J\u202e", group="9", config=config_space())
    for name in ("sys_vendor", "product_name", "board_vendor", "board_name", "bios_vendor", "bios_version", "bios_date"):
        tree.write(f"sys/class/dmi/id/{name}", f"name{HOSTILE}")
    tree.write(
        "proc/cmdline",
        f"quiet amd_iommu=on iommu={HOSTILE} pci=\x1b[2Jnoats\u202e amdgpu.{HOSTILE}=1 intel_iommu=\x1b]0;x\x07\n",
    )
    tree.write("proc/sys/kernel/osrelease", f"6.8.0{HOSTILE}")
    tree.write("proc/cpuinfo", f"vendor_id\t: GenuineIntel{HOSTILE}\nmodel name\t: CPU{HOSTILE}\nflags\t: fpu\n")
    tree.write("proc/sys/kernel/numa_balancing", f"1{HOSTILE}").write("sys/devices/system/node/online", f"0{HOSTILE}")
    tree.write("etc/os-release", f'ID=x{HOSTILE}\nPRETTY_NAME="name{HOSTILE}"\n')
    tree.write("run/systemd/container", f"c{HOSTILE}\n").write("proc/xen/capabilities", f"control_d{HOSTILE}")
    tree.write("sys/module/amdgpu/parameters/pcie_p2p", f"N{HOSTILE}").write("sys/module/nvidia/version", HOSTILE)
    (tree.root / "sys/class/iommu").mkdir()
    (tree.root / "sys/class/iommu/dmar\x1b[2J\u202e").mkdir()
    node = "sys/class/kfd/kfd/topology/nodes"
    for number in range(3):
        tree.write(f"{node}/{number}/properties", f"simd_count 1{HOSTILE}\nlocation_id 768\nvendor_id 4098\nname {HOSTILE}\n")
        tree.write(f"{node}/{number}/p2p_links/\x1b[2J/properties", f"type 2\nnode_from {number}\nnode_to 1\nname {HOSTILE}\n")
    return tree.root


def obeyed(shown):
    """What a terminal would act upon, or not show as it stands."""
    return {sign for sign in shown if not sign.isprintable() and sign != "\n"}


@pytest.mark.parametrize("style", [{}, {"verbose": True}, {"quiet": True}], ids=["plain", "verbose", "quiet"])
def test_hostile_names_reach_no_terminal(scan, hostile, style):
    shown = render(scan(hostile), **style)
    assert obeyed(shown) == set()
    if not style.get("quiet"):
        assert r"\x1b" in shown
        assert not too_wide(shown) or style.get("verbose")


def test_colour_is_the_only_escape(scan, hostile):
    coloured = render(scan(hostile), color=True, verbose=True)
    assert obeyed(re.sub(r"\x1b\[[0-9;]*m", "", coloured)) == set()
    assert "[red]" in coloured


def test_hostile_names_reach_no_terminal_as_json(scan, hostile):
    data = to_json(scan(hostile).report).decode()
    assert obeyed(data) == set()
    assert "\u202eevil" in json.loads(data)["host"]["cmdline"]


def test_hostile_names_reach_no_terminal_as_a_tree(scan, hostile):
    assert obeyed("\n".join(map(text.safe, scan(hostile).tree))) == set()


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("plain ünïcode ×", "plain ünïcode ×"),
        ("\x1b[2J", r"\x1b[2J"),
        ("a\rb\nc\td", r"a\rb\nc\td"),
        ("\0\x07\x7f\x9b", r"\x00\x07\x7f\x9b"),
        ("\u202e\u200b\u2028\ufeff", r"\u202e\u200b\u2028\ufeff"),
        ("\U000e0001", r"\U000e0001"),
        ("\udcff", r"\udcff"),
        ("", ""),
    ],
)
def test_what_could_act_on_a_terminal_is_written_out(given, shown):
    assert text.safe(given) == shown


def test_who_can_mend_it_is_told_how(scan):
    shown = " ".join(render(scan(CASES / "seed-v620-before" / "input")).split())
    assert "To mend: hostdoctor fix, given the same, tells" in shown
    for case in ("seed-v620-after", "blackwell-ada"):
        (tree,) = (path for path in TREES if path.parent.name.endswith(case))
        assert "hostdoctor fix" not in render(scan(tree))
