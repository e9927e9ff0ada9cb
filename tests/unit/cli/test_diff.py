"""`hostdoctor diff` as people call it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trees import Tree

CASES = Path(__file__).parents[2] / "cases"
BEFORE, AFTER = CASES / "seed-v620-before", CASES / "seed-v620-after"


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """The JSON reports of the host before and after it was cured."""
    made = []
    for case in (BEFORE, AFTER):
        path = tmp_path_factory.mktemp("reports") / f"{case.name}.json"
        options = ["--root", case / "input", "--from", case / "attachments", "--format", "json", "-o", path]
        done = subprocess.run([sys.executable, "-m", "hostdoctor", "scan", *map(str, options)], check=False)
        assert done.returncode in (0, 1)
        made.append(path)
    return made


def changed(path, to, change):
    report = json.loads(Path(path).read_text())
    change(report)
    to.write_text(json.dumps(report))
    return to


def test_the_story_of_the_cure(hostdoctor, reports):
    done = hostdoctor("diff", *reports)
    assert (done.returncode, done.stderr) == (0, "")
    too_far = "the owner's BAR lies beyond the 44 bits the accessor addresses, and nothing maps it within reach"
    cards = "0000:1a:00.0, 0000:1d:00.0, 0000:88:00.0 and 0000:8b:00.0"
    told = [line.strip() for line in done.stdout.splitlines()]
    for line in (
        f"cured: bar-reach [{cards}]: the firmware put the BARs at 56 TiB, beyond the 44 bits the GPUs address",
        f"cured: p2p-pair [12 pairs]: no P2P: {too_far}",
        f"P2P: 12 of 12 pairs: fails ({too_far}) → holds",
        "bandwidth, direct, 12 copies between GPUs: no figure → 6.4 to 6.6 GB/s",
        "command line: + iommu=pt",
        f"IOMMU domain type of {cards}: DMA-FQ → identity",
        "BARs of 0000:1a:00.0 and 0000:1d:00.0: 56 TiB → 5 TiB",
        "nothing got worse",
    ):
        assert line in told
    assert "Worse" not in told


def test_the_way_back_is_worse(hostdoctor, reports):
    done = hostdoctor("diff", *reversed(reports), "--format", "json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["exit"]) == (1, 1)
    worse = {(change["kind"], change["what"]) for change in told["changes"] if change["verdict"] == "worse"}
    bandwidths = {("bandwidth", "bandwidth, direct"), ("bandwidth", "bandwidth, both ways, direct")}
    assert worse == {("finding", "new failure"), ("pair", "P2P")} | bandwidths
    assert told["before"] == str(reports[1])


@pytest.mark.parametrize("path", [BEFORE / "input", CASES / "rbt-no-peer-access" / "input", "report"])
def test_the_same_twice(hostdoctor, reports, path):
    path = reports[0] if path == "report" else path
    done = hostdoctor("diff", path, path)
    assert (done.returncode, done.stdout.splitlines()[1:]) == (0, ["", "nothing changed"])


def test_a_tree_against_a_report_of_it(hostdoctor, reports):
    done = hostdoctor("diff", BEFORE / "input", reports[0], "--format", "json")
    assert done.returncode == 0
    facts = [change["text"] for change in json.loads(done.stdout)["changes"] if change["kind"] in ("fact", "pair", "gpu")]
    assert facts == []


def test_captures(hostdoctor, reports, tmp_path):
    for case, name in ((BEFORE, "a"), (AFTER, "b")):
        assert hostdoctor("capture", tmp_path / name, "--root", case / "input", "--from", case / "attachments").returncode == 0
    done = hostdoctor("diff", tmp_path / "a", tmp_path / "b")
    assert done.returncode == 0
    assert done.stdout.splitlines()[1:] == hostdoctor("diff", *reports).stdout.splitlines()[1:]


def test_a_placeholder_is_no_change_against_the_secret_or_another_number(hostdoctor, tmp_path):
    """Two outputs number what they replace each for itself, and this host is not redacted at all."""
    line = (
        "root=UUID=7c1b2e58-93ad-4f06-8e21-5d90c3ab17f4 ro nfsroot=filer9:/srv nameserver=10.20.30.40 systemd.hostname=quark17"
    )
    tree = Tree(tmp_path / "host").common().write("proc/cmdline", f"{line}\n")
    tree.amd_cards(2)
    whole, redacted, elsewhere = (tmp_path / name for name in ("whole.json", "redacted.json", "elsewhere.json"))
    hostdoctor("scan", "--root", tree.root, "--format", "json", "-o", whole)
    hostdoctor("report", "--root", tree.root, "--format", "json", "-o", redacted)
    assert "redacted-host-1" in redacted.read_text()
    elsewhere.write_text(
        redacted.read_text().replace("redacted-host-1", "redacted-host-7").replace("8000-000000000001", "8000-000000000004")
    )
    for pair in ((whole, redacted), (redacted, whole), (redacted, elsewhere), (tree.root, elsewhere)):
        done = hostdoctor("diff", *pair)
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "nothing changed")
    tree.write("proc/cmdline", f"{line} iommu=pt\n")
    assert "  command line: + iommu=pt" in hostdoctor("diff", redacted, tree.root).stdout.splitlines()


def test_names_that_are_no_utf_8(hostdoctor, tmp_path):
    folder = tmp_path / "pasted"
    folder.mkdir()
    (folder / "x\udcff.txt").write_bytes((CASES / "seed-v620-after/attachments/lspci-vvv.txt").read_bytes())
    redacted = tmp_path / "redacted.json"
    hostdoctor("report", "--root", AFTER / "input", "--format", "json", "-o", redacted)
    for pair in ((folder, folder), (folder, redacted)):
        done = hostdoctor("diff", *pair)
        assert (done.returncode, done.stderr) == (0, "")


def test_what_changed_in_a_report_that_is_not_redacted_is_told_as_it_is(hostdoctor, tmp_path):
    made = []
    for number, name in enumerate(("7c1b2e58-93ad-4f06-8e21-5d90c3ab17f4", "9c1b2e58-93ad-4f06-8e21-5d90c3ab17f4")):
        tree = Tree(tmp_path / f"{number}").common().write("proc/cmdline", f"root=UUID={name} ro\n")
        made.append(tree.root)
    assert "root=UUID=7c1b2e58-93ad-4f06-8e21-5d90c3ab17f4 → root=UUID=9c1b2e58" in hostdoctor("diff", *made).stdout


def test_against_this_host(hostdoctor, reports):
    done = hostdoctor("diff", reports[0])
    assert done.stdout.splitlines()[0] == f"{reports[0]} → this host"
    assert done.returncode in (0, 1)


def test_markdown_into_a_file(hostdoctor, reports, tmp_path):
    done = hostdoctor("diff", *reports, "--format", "markdown", "-o", tmp_path / "diff.md")
    assert (done.returncode, done.stdout) == (0, "")
    page = (tmp_path / "diff.md").read_text()
    assert page.startswith(f"# `{reports[0]}` → `{reports[1]}`\n")
    assert "\n- `command line: + iommu=pt`\n" in page


def test_a_report_without_later_keys(hostdoctor, reports, tmp_path):
    def older(report):
        del report["host"]["topology"], report["host"]["measured"]
        for gpu in report["host"]["gpus"]:
            del gpu["bar_address"]

    done = hostdoctor("diff", changed(reports[0], tmp_path / "old.json", older), reports[1])
    assert done.returncode == 0
    assert "cured: bar-reach" in done.stdout
    assert "not compared, for only one of both tells it: BARs" in done.stdout


def test_a_report_with_later_keys(hostdoctor, reports, tmp_path):
    def newer(report):
        report["new"] = {"a": 1}
        report["host"]["gpus"][0]["new"] = [1]
        report["findings"][0]["new"] = None

    done = hostdoctor("diff", reports[0], changed(reports[0], tmp_path / "new.json", newer))
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "nothing changed")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"schema": 1, "findings": 3}', "no JSON report of hostdoctor scan: "),
        ('{"schema": 1, "findings": [', "no JSON report of hostdoctor scan: "),
        ('{"schema": 1, "findings": ' + "[" * 100_000, "no JSON report of hostdoctor scan: "),
        ('{"a": 1}', "nothing in it could be judged"),
        ("", "there is nothing in it"),
    ],
)
def test_what_is_no_report(hostdoctor, reports, tmp_path, content, says):
    (tmp_path / "x.json").write_text(content)
    done = hostdoctor("diff", tmp_path / "x.json", reports[0])
    assert (done.returncode, done.stdout) == (3, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_another_schema(hostdoctor, reports, tmp_path):
    path = changed(reports[0], tmp_path / "x.json", lambda report: report.update(schema=7))
    done = hostdoctor("diff", path, reports[0])
    assert (done.returncode, done.stderr) == (3, f"hostdoctor: {path}: its schema is 7; this hostdoctor reads 1\n")


@pytest.mark.parametrize("arguments", [["nowhere", "now"], ["now", "nowhere"]])
def test_what_is_not_there(hostdoctor, arguments):
    done = hostdoctor("diff", *arguments)
    assert done.returncode == 3
    assert "nowhere" in done.stderr


def test_from_standard_input(process, reports):
    done = process("diff", "-", reports[1], shell=f'"$@" < {reports[0]}')
    assert done.returncode == 0
    assert "cured: bar-reach" in done.stdout
