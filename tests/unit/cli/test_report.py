"""`hostdoctor report`, and what the other commands make of a report."""

from __future__ import annotations

import json
import re

import pytest

from hostdoctor.facts.block import find
from hostdoctor.facts.codec import encode
from tests.test_cases import CASES as ALL
from tests.test_cases import is_tree
from tests.unit.cli.conftest import CASES

UNJUDGED = {"empty-file", "garbage-binary"}
JUDGED = [case for case in ALL if case.name not in UNJUDGED]
BLOCK = re.compile(r"hostdoctor-facts/1 \d+ bytes.*end of hostdoctor-facts", re.DOTALL)


def arguments(case):
    attachments = case / "attachments"
    beside = ["--from", attachments] if is_tree(case) and attachments.is_dir() else []
    return ["--root" if is_tree(case) else "--from", case / "input", *beside]


def findings(done):
    report = json.loads(done.stdout)
    return [(each["check"], each["outcome"], each["subject"], each["title"]) for each in report["findings"]]


def one_line(done):
    return (done.returncode, done.stdout) == (3, "") and done.stderr.endswith("\n") and done.stderr.count("\n") == 1


@pytest.fixture
def report(hostdoctor, before, tmp_path):
    path = tmp_path / "report.md"
    done = hostdoctor("report", before, "-o", path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return path


# --- round trips -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", JUDGED, ids=lambda case: case.name)
def test_a_scan_of_the_report_finds_what_the_scan_found(hostdoctor, case, tmp_path):
    """As it is, and what is private taken out: then the same about the same subjects, with a placeholder here and there."""
    first = hostdoctor("scan", *arguments(case), "--format", "json")
    for format_, name in (("markdown", "report.md"), ("text", "report.txt"), ("html", "report.html")):
        for options, shown in ((["--no-redact"], 4), ([], 3)):
            made = hostdoctor("report", *arguments(case), "--format", format_, "-o", tmp_path / name, *options)
            assert (made.returncode, made.stderr) == (0, "")
            assert format_ != "markdown" or len((tmp_path / name).read_text(encoding="utf-8")) < 60_000
            again = hostdoctor("scan", tmp_path / name, "--format", "json")
            assert again.returncode == first.returncode
            assert [each[:shown] for each in findings(again)] == [each[:shown] for each in findings(first)]


def test_a_scan_of_a_report_says_where_its_facts_come_from(hostdoctor, report, before):
    said = json.loads(hostdoctor("scan", report, "--format", "json").stdout)
    first = json.loads(hostdoctor("scan", before, "--format", "json").stdout)
    evidence = said["evidence"]
    assert evidence["kind"] == "attachments"
    assert evidence["sources"] == [str(report)]
    assert evidence["report"] == {"source": "report.md", "kind": "root", "sources": [str(before)], "version": "0.1.0"}
    for key in ("files", "unread", "assumed"):
        assert evidence[key] == first["evidence"][key]
    assert said["host"] == first["host"]


def test_a_report_of_a_report_is_the_same(hostdoctor, report, tmp_path):
    again = tmp_path / "again.md"
    assert hostdoctor("report", report, "-o", again).returncode == 0
    first, second = report.read_text(encoding="utf-8"), again.read_text(encoding="utf-8")
    assert BLOCK.search(first)[0] == BLOCK.search(second)[0]
    assert "judging again what hostdoctor 0.1.0 read" in second


def test_a_report_pasted_from_a_mail_among_other_words(hostdoctor, report, before, tmp_path):
    quoted = "\r\n".join(f"> {line}" for line in report.read_text(encoding="utf-8").split("\n"))
    mail = tmp_path / "mail.txt"
    mail.write_text(f"Somebody wrote:\r\n{quoted}\r\nIs it the BIOS?\r\n", encoding="utf-8")
    assert findings(hostdoctor("scan", mail, "--format", "json")) == findings(hostdoctor("scan", before, "--format", "json"))


def test_what_is_attached_beside_a_report_is_judged_with_it(hostdoctor, before, tmp_path):
    report = tmp_path / "report.md"
    assert hostdoctor("report", before, "-o", report).returncode == 0
    log = tmp_path / "dmesg.txt"
    log.write_text(
        "[    0.000000] Linux version 6.8.0-52-generic (b@c) (gcc) #53 SMP\n"
        "[   99.000000] amdgpu 0000:1a:00.0: AMD-Vi: Event logged "
        "[IO_PAGE_FAULT domain=0x001a address=0x387000000000 flags=0x0020]\n",
        encoding="utf-8",
    )
    alone = {each[:2] for each in findings(hostdoctor("scan", report, "--format", "json"))}
    together = {each[:2] for each in findings(hostdoctor("scan", report, log, "--format", "json"))}
    beside_the_tree = {each[:2] for each in findings(hostdoctor("scan", "--root", before, log, "--format", "json"))}
    assert ("iommu-faults", "unknown") in alone
    assert ("iommu-faults", "failure") in together
    assert together == beside_the_tree


def test_a_guest_is_judged_as_hardware_where_that_is_asked_for(hostdoctor, tmp_path):
    report = tmp_path / "report.md"
    case = CASES / "vm-flat-bus"
    assert hostdoctor("report", *arguments(case), "-o", report).returncode == 0
    assume = "--assume-bare-metal"
    again, first = (
        hostdoctor("scan", *given, assume, "--format", "json") for given in ([report], arguments(case))
    )  # fmt: skip
    assert findings(again) == findings(first)
    assert findings(hostdoctor("scan", report, "--format", "json")) != findings(again)


def test_fix_and_topology_work_from_a_report(hostdoctor, report, before):
    fixed = hostdoctor("fix", report)
    assert fixed.returncode == 0
    assert "iommu=pt" in fixed.stdout
    guide = hostdoctor("fix", report, "--firmware")
    assert "MMIO High Base" in guide.stdout
    assert hostdoctor("topology", report, "--all").stdout == hostdoctor("topology", before, "--all").stdout


# --- what cannot be judged -------------------------------------------------------------------------------------------


def test_a_report_that_was_cut_is_refused_in_a_line(hostdoctor, report, tmp_path):
    text = report.read_text(encoding="utf-8")
    cut = tmp_path / "cut.md"
    cut.write_text(text[: text.index("hostdoctor-facts/1") + 500], encoding="utf-8")
    done = hostdoctor("scan", cut)
    assert one_line(done)
    assert "cut.md: its block of facts is cut off" in done.stderr


def test_a_report_that_was_altered_is_refused_in_a_line(hostdoctor, report, tmp_path):
    text = report.read_text(encoding="utf-8")
    at = text.index("hostdoctor-facts/1") + 300
    altered = tmp_path / "altered.md"
    altered.write_text(text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :], encoding="utf-8")
    done = hostdoctor("scan", altered)
    assert one_line(done)
    assert "altered.md: its block of facts was altered: the checksum differs" in done.stderr


def test_a_report_of_a_newer_version_is_refused_in_a_line(hostdoctor, report):
    report.write_text(report.read_text(encoding="utf-8").replace("hostdoctor-facts/1", "hostdoctor-facts/2"), encoding="utf-8")
    done = hostdoctor("scan", report)
    assert one_line(done)
    assert "its facts are of a newer hostdoctor (schema 2, this one reads up to 1)" in done.stderr


def test_two_hosts_are_not_mixed(hostdoctor, report, before, tmp_path):
    other = tmp_path / "other.md"
    other.write_bytes(report.read_bytes())
    two = hostdoctor("scan", report, other)
    assert one_line(two)
    assert "`hostdoctor diff` compares two" in two.stderr
    beside = hostdoctor("scan", "--root", before, report)
    assert one_line(beside)
    assert "one host at a time: report.md is a report with the facts of a host" in beside.stderr


# --- JSON reports ----------------------------------------------------------------------------------------------------


@pytest.fixture
def json_report(hostdoctor, before, tmp_path):
    path = tmp_path / "report.json"
    hostdoctor("scan", before, "--format", "json", "-o", path)
    return path


@pytest.mark.parametrize("command", ["scan", "fix", "topology"])
def test_a_json_report_is_named_and_what_to_do_with_it(hostdoctor, json_report, command):
    done = hostdoctor(command, json_report)
    assert one_line(done)
    assert "it is a JSON report of hostdoctor" in done.stderr
    assert "`hostdoctor report`" in done.stderr
    assert "`hostdoctor diff`" in done.stderr


def test_a_json_report_beside_outputs_does_no_harm(hostdoctor, json_report):
    input_ = CASES / "v620-bars-at-56t" / "input"
    done = hostdoctor("scan", input_, json_report, "--format", "json")
    assert findings(done) == findings(hostdoctor("scan", input_, "--format", "json"))
    assert [each["source"] for each in json.loads(done.stdout)["evidence"]["unread"]] == ["report.json"]


def test_a_report_of_a_capture_is_that_of_its_host(hostdoctor, before, tmp_path):
    capture, report = tmp_path / "host.capture", tmp_path / "report.md"
    assert hostdoctor("capture", capture, before).returncode == 0
    assert hostdoctor("report", capture, "-o", report).returncode == 0
    again = hostdoctor("scan", report, "--format", "json")
    assert findings(again) == findings(hostdoctor("scan", before, "--format", "json"))
    made = json.loads(again.stdout)["evidence"]["report"]
    assert (made["kind"], made["sources"]) == ("capture", [str(capture)])


def test_a_capture_of_a_report_carries_its_facts(hostdoctor, report, before, tmp_path):
    capture = tmp_path / "host.capture"
    assert hostdoctor("capture", capture, report).returncode == 0
    again = hostdoctor("scan", capture, "--format", "json")
    assert findings(again) == findings(hostdoctor("scan", before, "--format", "json"))


@pytest.mark.parametrize("format_", ["markdown", "text"])
def test_a_json_report_is_rendered_and_says_that_it_cannot_be_judged_again(hostdoctor, json_report, before, format_, tmp_path):
    made = hostdoctor("report", json_report, "--format", format_)
    direct = hostdoctor("report", before, "--format", format_)
    assert made.returncode == 0
    assert "cannot be judged again" in made.stdout
    shown = made.stdout.split("\n")
    assert shown[:40] == direct.stdout.split("\n")[:40]
    assert "hostdoctor-facts/1 left out: " in made.stdout
    path = tmp_path / "report.md"
    path.write_text(made.stdout, encoding="utf-8")
    refused = hostdoctor("scan", path)
    assert one_line(refused)
    assert "it is a report without the facts behind it" in refused.stderr


def test_a_json_report_becomes_json(hostdoctor, json_report):
    made = hostdoctor("report", json_report, "--format", "json")
    assert json.loads(made.stdout) == json.loads(json_report.read_text(encoding="utf-8"))


def test_a_json_report_of_before_that_lacks_keys_is_rendered(hostdoctor, json_report):
    report = json.loads(json_report.read_text(encoding="utf-8"))
    for key in ("topology", "measured"):
        del report["host"][key]
    del report["evidence"]["report"]
    report["evidence"]["not yet known"] = report["new"] = {"x": 1}
    json_report.write_text(json.dumps(report), encoding="utf-8")
    assert hostdoctor("report", json_report).stdout.startswith("# hostdoctor report\n")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema": 2}, "it is of a newer hostdoctor (schema 2, this one reads up to 1)"),
        ({"findings": [1]}, "it is no report of this schema: Expected `object`, got `int` - at `$.findings[0]`"),
        ({"host": None}, "it is no report of this schema"),
    ],
)
def test_a_json_report_that_is_not_understood_is_refused_in_a_line(hostdoctor, json_report, change, says):
    report = {**json.loads(json_report.read_text(encoding="utf-8")), **change}
    json_report.write_text(json.dumps(report), encoding="utf-8")
    done = hostdoctor("report", json_report)
    assert one_line(done)
    assert says in done.stderr


def test_a_json_report_that_was_cut_is_refused_in_a_line(hostdoctor, json_report):
    json_report.write_text(json_report.read_text(encoding="utf-8")[:-100], encoding="utf-8")
    assert one_line(hostdoctor("report", json_report))
    assert one_line(hostdoctor("scan", json_report))


def test_a_json_report_whose_keys_were_sorted_is_one(hostdoctor, json_report):
    report = json.loads(json_report.read_text(encoding="utf-8"))
    json_report.write_text(json.dumps(report, sort_keys=True), encoding="utf-8")
    assert one_line(hostdoctor("scan", json_report))
    assert hostdoctor("report", json_report).returncode == 0


# --- formats and files -----------------------------------------------------------------------------------------------


def test_scan_prints_markdown_without_the_block(hostdoctor, before, tmp_path):
    done = hostdoctor("scan", before, "--format", "markdown")
    assert done.returncode == 1
    assert done.stdout.startswith("# hostdoctor report\n")
    assert not BLOCK.search(done.stdout)
    reported = hostdoctor("report", before).stdout
    assert reported.startswith(done.stdout[: done.stdout.index("<!-- hostdoctor-facts")])
    path = tmp_path / "scan.md"
    path.write_text(done.stdout, encoding="utf-8")
    assert one_line(hostdoctor("scan", path))


def test_a_report_in_json_is_that_of_a_scan(hostdoctor, before):
    assert hostdoctor("report", before, "--format", "json").stdout == hostdoctor("scan", before, "--format", "json").stdout


def test_standard_input_and_output(process, before):
    done = process("report", before, "-o", "-")
    assert (done.returncode, done.stderr) == (0, "")
    again = process("scan", "-", shell=f'cat "{before}"/proc/cmdline | "$@"')
    assert "Traceback" not in again.stderr


def test_a_report_read_from_standard_input(process, report):
    done = process("scan", "-", "-q", shell=f'"$@" < "{report}"')
    assert done.returncode == 1
    assert done.stdout.startswith("failure: bar-reach")


def test_a_file_that_cannot_be_written_is_named(hostdoctor, before, tmp_path):
    done = hostdoctor("report", before, "-o", tmp_path / "none" / "report.md")
    assert one_line(done)
    assert "No such file or directory" in done.stderr


@pytest.mark.parametrize("name", sorted(UNJUDGED))
def test_where_nothing_can_be_read_there_is_no_report(hostdoctor, name, tmp_path):
    done = hostdoctor("report", CASES / name / "input", "-o", tmp_path / "report.md")
    assert one_line(done)
    assert not (tmp_path / "report.md").exists()


def test_a_measurement_beside_a_tree(hostdoctor, tmp_path):
    case = CASES / "seed-v620-after"
    run = next((case / "attachments").glob("*bandwidth*"))
    done = hostdoctor("report", "--root", case / "input", "--with-bandwidth", run)
    assert "rocm-bandwidth-test: one direction" in done.stdout


# --- what is private -------------------------------------------------------------------------------------------------

USER, HOST, DISK = "hildegard", "zugspitze", "c1a5d9e4-3b70-46f2-8e1d-95b0a7f6c283"
ACCESS = f"{USER} : {USER} video\n"


@pytest.fixture
def private(tmp_path):
    """A host whose name, user, disk and serial number stand in what was attached and in its path."""
    folder = tmp_path / f"home-of-{USER}" / "case"
    folder.mkdir(parents=True)
    (folder / "paste.txt").write_text(
        f"Linux {HOST} 6.8.0-52-generic #53-Ubuntu SMP x86_64 GNU/Linux\n"
        f"{USER}@{HOST}:~$ cat /proc/cmdline\n"
        f"BOOT_IMAGE=/vmlinuz-6.8.0-52-generic root=UUID={DISK} ro amd_iommu=on hostname={HOST}\n"
        f"{USER}@{HOST}:~$ dmesg\n"
        "[    0.000000] Linux version 6.8.0-52-generic (b@c) (gcc) #53 SMP\n"
        f"[    9.100000] NVRM: Xid (PCI:0000:43:00): 79, pid=123, name={USER}-job, GPU has fallen off the bus.\n"
        f"{USER}@{HOST}:~$ cat {folder}/x\n",
        encoding="utf-8",
    )
    return folder


def carried(text):
    return encode(find(text).record).decode()


@pytest.mark.parametrize("format_", ["markdown", "text", "html"])
def test_nothing_private_is_in_it_nor_in_its_facts(hostdoctor, private, format_):
    done = hostdoctor("report", private, "--format", format_)
    everything = (done.stdout + carried(done.stdout)).lower()
    for secret in (USER, HOST, DISK):
        assert secret not in everything
    assert "00000000-0000-4000-8000-000000000001" in everything
    assert "What is private was taken out" in done.stdout
    assert done.stderr == ""


def test_nothing_is_taken_out_where_that_is_asked_for(hostdoctor, private):
    done = hostdoctor("report", private, "--no-redact")
    assert DISK in done.stdout
    assert DISK in carried(done.stdout)
    assert "Nothing was taken out" in done.stdout


def test_what_was_taken_out_is_shown_to_its_owner_alone(hostdoctor, private):
    done = hostdoctor("report", private, "--show-redactions")
    assert f"uuid: 00000000-0000-4000-8000-000000000001 for {DISK}" in done.stderr
    assert DISK not in done.stdout


def test_a_json_report_is_redacted_too(hostdoctor, private, tmp_path):
    path = tmp_path / "report.json"
    hostdoctor("scan", private, "--format", "json", "-o", path)
    done = hostdoctor("report", path)
    assert DISK in path.read_text(encoding="utf-8")
    assert DISK not in done.stdout
    assert DISK in hostdoctor("report", path, "--no-redact").stdout


def test_redacting_a_redacted_report_changes_nothing(hostdoctor, private, tmp_path):
    path = tmp_path / "report.md"
    hostdoctor("report", private, "-o", path)
    again = hostdoctor("report", path).stdout
    assert BLOCK.search(again)[0] == BLOCK.search(path.read_text(encoding="utf-8"))[0]


LATER = (
    "\n\nLater I saw:\n\n[ 5012.234567] e1000e 0000:00:1f.6 eno1: NIC Link is Up 1000 Mbps Full Duplex, Flow Control: None\n"
)


@pytest.mark.parametrize("name", ["aer-receiver-errors-then-xid-79", "amd-vi-io-page-faults"])
def test_a_line_of_a_log_below_a_report_takes_nothing_from_it(hostdoctor, name, tmp_path):
    made = hostdoctor("report", CASES / name / "input")
    (tmp_path / "report.md").write_text(made.stdout, "utf-8")
    (tmp_path / "issue.txt").write_text(f"Hello\n\n{made.stdout}{LATER}", "utf-8")
    found = [hostdoctor("scan", tmp_path / file, "--format", "json") for file in ("report.md", "issue.txt")]
    loud = [[each for each in findings(done) if each[1] in ("failure", "warning")] for done in found]
    assert loud[0]
    assert loud[0] == loud[1]


def test_reports_of_two_hosts_in_one_text_are_told_apart(hostdoctor, before, tmp_path):
    reports = [hostdoctor("report", case).stdout for case in (before, CASES / "amd-vi-io-page-faults" / "input")]
    (tmp_path / "issue.txt").write_text("\n\nand mine:\n\n".join(reports), "utf-8")
    done = hostdoctor("scan", tmp_path / "issue.txt")
    assert one_line(done)
    assert "holds 2 that differ" in done.stderr
