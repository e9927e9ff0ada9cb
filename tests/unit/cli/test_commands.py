"""The commands as people and scripts call them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from hostdoctor import __version__
from hostdoctor.registry import built_in
from hostdoctor.report.model import json_schema
from tests.trees import Tree, as_nobody, config_space

jsonschema = pytest.importorskip("jsonschema")

CASES = Path(__file__).parents[2] / "cases"
TREES = [path for path in sorted(CASES.glob("*/input")) if (path / "sys").is_dir() or (path / "proc").is_dir()]
COMMANDS = ("scan", "capture", "report", "diff", "topology", "checks", "explain")
ORDER = ("failure", "warning", "info")


def one_line(text):
    return text.endswith("\n") and text.count("\n") == 1


# --- help and wrong usage --------------------------------------------------------------------------------------------


def test_the_version(process):
    done = process("--version")
    assert (done.returncode, done.stdout) == (0, f"hostdoctor, version {__version__}\n")


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_of_all(hostdoctor, flag):
    done = hostdoctor(flag)
    assert (done.returncode, done.stderr) == (0, "")
    for command in COMMANDS:
        assert f"\n  {command} " in done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each(hostdoctor, command):
    done = hostdoctor(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: ")
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nope"], "No such command 'nope'"),
        (["scan", "--nope"], "No such option"),
        (["scan", "--format", "xml"], "'xml' is not one of"),
        (["scan", "--fail-on", "unknown"], "'unknown' is not one of"),
        (["scan", "--check", "nope-*"], "no check matches 'nope-*'"),
        (["scan", "--check", "link-*", "--skip", "*"], "no check is left to run"),
        (["scan", "--deadline", "0"], "0 is not between 0.1 and 86400 seconds"),
        (["scan", "--deadline", "-5"], "-5 is not between"),
        (["scan", "--deadline", "soon"], "'soon' is not a valid float"),
        (["scan", "--deadline", "inf"], "inf is not between"),
        (["scan", "--deadline", "nan"], "nan is not between"),
        (["scan", "--deadline", "1e300"], "1e+300 is not between"),
        (["explain", "link-widht"], "did you mean link-width?"),
        (["explain", "zzz"], "`hostdoctor checks` lists them"),
        (["explain"], "Missing argument"),
        (["topology", "--everything"], "No such option"),
    ],
)
def test_wrong_usage(hostdoctor, arguments, says):
    done = hostdoctor(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr


def test_wrong_usage_of_the_real_command(process):
    done = process("scan", "--deadline", "nan")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: ")
    assert done.stderr.endswith("nan is not between 0.1 and 86400 seconds\n")
    assert "Traceback" not in done.stderr


# --- what cannot be done ---------------------------------------------------------------------------------------------


ESCAPE = "esc\x1b[2Jape\nline"


@pytest.mark.parametrize("command", ["scan", "topology"])
@pytest.mark.parametrize(
    "case",
    [
        ([], "missing", "there is no such file or folder"),
        ([], "file", "file:1: nothing known begins like this: 'text'. Attach what lspci -vvv, dmesg"),
        ([], "pipe", "pipe: it is no ordinary file"),
        ([], "dangling", "dangling: No such file or directory"),
        ([], "empty", "there is nothing in it"),
        ([], ESCAPE, "esc\\x1b[2Jape\\nline: there is no such file or folder"),
        (["--from"], "missing", "there is no such file or folder"),
        (["--root"], "missing", "there is no such folder"),
        (["--root"], "file", "not a folder"),
        (["--root"], "pipe", "not a folder"),
        (["--root"], "dangling", "not a folder"),
        (["--root"], "empty", "neither sys nor proc in it"),
        (["--root"], ESCAPE, "esc\\x1b[2Jape\\nline: there is no such folder"),
    ],
)
def test_what_cannot_be_read(hostdoctor, tmp_path, command, case):
    way, name, says = case
    (tmp_path / "file").write_text("text")
    (tmp_path / "empty").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to("nowhere")
    done = hostdoctor(command, *way, tmp_path / name)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("hostdoctor: ")
    assert says in done.stderr
    assert one_line(done.stderr)


def test_a_tree_that_may_not_be_read(hostdoctor):
    def scan(path):
        done = hostdoctor("scan", "--format", "json", "--root", path)
        return f"{done.returncode} {done.stderr}".encode()

    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        tree = Tree(Path(folder, "host")).common()
        tree.root.chmod(0)
        scan(f"{folder}/nothing")  # imports what an ordinary user may not be allowed to
        found = as_nobody(lambda: scan(str(tree.root)))
        tree.root.chmod(0o755)
    assert found.decode() == f"3 hostdoctor: {tree.root}: no permission to read it\n"


def test_what_cannot_be_read_by_the_real_command(process, tmp_path):
    done = process("scan", tmp_path / "none")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"hostdoctor: {tmp_path}/none: there is no such file or folder\n"


def test_one_tree_at_a_time(hostdoctor, before, seed):
    for arguments in ([before, seed], ["--root", before, seed]):
        done = hostdoctor("scan", *arguments)
        assert (done.returncode, done.stdout) == (3, "")
        assert "one host at a time" in done.stderr
        assert one_line(done.stderr)


@pytest.mark.parametrize("output", ["none/report", ".", "/dev/full"])
def test_a_report_that_cannot_be_written(hostdoctor, before, tmp_path, output):
    done = hostdoctor("scan", "--root", before, "-o", tmp_path / output)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("hostdoctor: ")
    assert one_line(done.stderr)


@pytest.mark.parametrize(
    "command", [["scan", "--format", "json"], ["scan"], ["topology"], ["checks"], ["explain", "link-width"], ["--help"]]
)
def test_an_output_that_takes_nothing(process, before, command):
    tree = ["--root", before] if command[0] in ("scan", "topology") else []
    full = process(*command, *tree, shell='"$@" >/dev/full')
    assert full.returncode == 3
    assert full.stderr == "hostdoctor: output: No space left on device\n"
    for closed in ('"$@" >&-', '"$@" >&- 2>&- <&-'):
        done = process(*command, *tree, shell=closed)
        assert done.returncode == (1 if command[0] == "scan" else 0)
        assert done.stderr == ""


@pytest.mark.parametrize("command", [["scan", "--format", "json"], ["scan", "-v"], ["topology", "--all"]])
def test_a_reader_who_has_seen_enough(process, before, command):
    done = process(*command, "--root", before, shell='"$@" | head -c1; exit ${PIPESTATUS[0]}')
    assert (len(done.stdout), done.stderr) == (1, "")
    assert done.returncode in (0, 1)


INTERRUPTED = """
import os, signal, sys
from hostdoctor.cli.main import main
signal.signal(signal.SIGPROF, lambda *_: os.kill(os.getpid(), signal.SIGINT))
signal.setitimer(signal.ITIMER_PROF, 0.02)
main()
"""


def test_an_interrupt_ends_it_with_130(tmp_path):
    tree = Tree(tmp_path / "host").common()
    for bus in range(100):
        tree.function(f"0000:{bus:02x}:00.0", class_code="20000", config=config_space())
    command = [sys.executable, "-c", INTERRUPTED, "scan", "--root", tree.root, "--format", "json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (130, "")
    assert "Traceback" not in done.stderr


DROPPED = """
import weakref
from hostdoctor.cli import main as entry
class Passing: pass
def callback(*_): raise KeyboardInterrupt
def work(**_):
    passing = Passing()
    keep = weakref.ref(passing, callback)
    del passing
    print("went on")
entry.cli.main = work
entry.main()
"""


def test_an_interrupt_that_python_would_drop_ends_it_with_130_too():
    done = subprocess.run([sys.executable, "-c", DROPPED], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


# --- verdicts --------------------------------------------------------------------------------------------------------


def test_the_exit_code_follows_the_findings(hostdoctor, seed):
    for level in (*ORDER, "never"):
        done = hostdoctor("scan", "--format", "json", "--root", seed, "--fail-on", level)
        report = json.loads(done.stdout)
        counted = ORDER[: ORDER.index(level) + 1] if level in ORDER else ()
        expected = int(any(report["summary"][outcome] for outcome in counted))
        assert (done.returncode, report["exit"]) == (expected, expected), level


def test_a_host_in_order_and_one_that_is_not(process, before, tmp_path):
    tree = Tree(tmp_path / "host").common()
    tree.function("0000:00:1f.0", class_code="60100", config=config_space())
    assert process("scan", "--root", tree.root, "--fail-on", "warning").returncode == 0
    assert process("scan", "--root", before).returncode == 1
    assert process("scan", "--root", before, "--fail-on", "never").returncode == 0
    assert process("scan", "--root", before, "--fail-on", "never", "--strict").returncode == 0


def test_strict_counts_what_could_not_be_judged(hostdoctor, tmp_path):
    tree = Tree(tmp_path / "host").write("proc/sys/kernel/osrelease", "6.8.0\n")
    done = hostdoctor("scan", "--root", tree.root, "--format", "json")
    assert json.loads(done.stdout)["summary"]["unknown"] > 0
    assert done.returncode == 0
    assert hostdoctor("scan", "--root", tree.root, "--strict").returncode == 1


def test_checks_are_chosen_by_patterns(hostdoctor, before):
    def run(*arguments):
        findings = json.loads(hostdoctor("scan", "--root", before, "--format", "json", *arguments).stdout)["findings"]
        return {finding["check"] for finding in findings}

    every = {check.id for check in built_in()}
    assert run() == every
    links = {"link-width", "link-speed", "link-stability", "link-errors"}
    assert run("--check", "link-*", "--check", "bar-reach") == {*links, "bar-reach"}
    assert run("--skip", "link-*") == every - links
    assert run("--check", "link-*", "--skip", "*-speed") == links - {"link-speed"}


def test_a_guest_is_judged_as_hardware_on_demand(hostdoctor, tmp_path):
    tree = Tree(tmp_path / "host").common().write("sys/class/dmi/id/sys_vendor", "QEMU\n")
    tree.amd_cards(2)

    def outcomes(*options):
        report = json.loads(hostdoctor("scan", "--root", tree.root, "--format", "json", *options).stdout)
        return {finding["outcome"] for finding in report["findings"] if finding["check"] == "link-width"}

    assert outcomes() == {"not-applicable"}
    assert outcomes("--assume-bare-metal") == {"failure"}


# --- the report ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.parent.name)
def test_json_follows_its_schema(hostdoctor, tree):
    report = json.loads(hostdoctor("scan", "--format", "json", "--root", tree).stdout)
    jsonschema.validate(report, json_schema())
    assert report["schema"] == 1
    assert report["tool"] == {"name": "hostdoctor", "version": __version__}
    assert report["evidence"]["kind"] == "root"
    assert report["evidence"]["sources"] == [str(tree)]
    assert sum(report["summary"].values()) == len(report["findings"])
    for outcome, count in report["summary"].items():
        assert count == sum(finding["outcome"] == outcome for finding in report["findings"])


def test_the_schema_refuses_what_is_no_report(hostdoctor, before):
    report = json.loads(hostdoctor("scan", "--format", "json", "--root", before).stdout)
    report["findings"][0]["outcome"] = "awful"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(report, json_schema())


def test_this_host_can_be_scanned(process):
    done = process("scan", "--format", "json")
    assert done.returncode in (0, 1), done.stderr
    report = json.loads(done.stdout)
    jsonschema.validate(report, json_schema())
    assert report["evidence"]["kind"] == "live"
    assert report["host"]["kernel"] == os.uname().release
    assert process("scan").returncode == done.returncode


def test_a_report_in_a_file_is_the_report(hostdoctor, before, tmp_path):
    printed = hostdoctor("scan", "--format", "json", "--root", before)
    written = hostdoctor("scan", "--format", "json", "--root", before, "-o", tmp_path / "report")
    assert (written.returncode, written.stdout, written.stderr) == (1, "", "")
    assert (tmp_path / "report").read_text() == printed.stdout
    assert hostdoctor("scan", "--format", "json", "--root", before, "-o", "-").stdout == printed.stdout


def test_colour_is_for_terminals_unless_told_otherwise(hostdoctor, before, tmp_path):
    def coloured(*options, env=None):
        return "\x1b[" in hostdoctor("scan", "--root", before, *options, env=env).stdout

    assert not coloured()
    assert coloured("--color", "always")
    assert coloured("--color", "always", env={"NO_COLOR": "1"})
    assert not coloured("--color", "never")
    hostdoctor("scan", "--root", before, "-o", tmp_path / "plain")
    hostdoctor("scan", "--root", before, "-o", tmp_path / "coloured", "--color", "always")
    assert "\x1b" not in (tmp_path / "plain").read_text()
    assert "\x1b[" in (tmp_path / "coloured").read_text()


@pytest.mark.parametrize(
    ("options", "env", "coloured"),
    [([], {}, True), ([], {"NO_COLOR": "1"}, False), ([], {"NO_COLOR": ""}, True), (["--color", "never"], {}, False)],
)
def test_colour_on_a_terminal(before, options, env, coloured):
    master, terminal = os.openpty()
    command = [sys.executable, "-m", "hostdoctor", "scan", "--root", before, *options]
    variables = {**os.environ, "TERM": "xterm-256color", **env}
    if "NO_COLOR" not in env:
        variables.pop("NO_COLOR", None)
    running = subprocess.Popen(command, stdout=terminal, stderr=terminal, stdin=subprocess.DEVNULL, env=variables)
    os.close(terminal)
    shown = b""
    while part := _read_terminal(master):
        shown += part
    os.close(master)
    assert running.wait(timeout=60) == 1
    assert b"bar-reach" in shown
    assert (b"\x1b[" in shown) == coloured


def _read_terminal(master):
    try:
        return os.read(master, 1 << 16)
    except OSError:  # the other side is closed
        return b""


def test_quiet_shows_failures_and_warnings_a_line_each(hostdoctor, before):
    findings = json.loads(hostdoctor("scan", "--root", before, "--format", "json").stdout)["findings"]
    loud = {(each["outcome"], each["check"]) for each in findings if each["outcome"] in ("failure", "warning")}
    lines = hostdoctor("scan", "--root", before, "-q").stdout.splitlines()
    assert {tuple(line.replace(" [", ": [").split(": ", 2)[:2]) for line in lines} == loud


def test_quiet_of_a_host_in_order_is_silent(hostdoctor, tmp_path):
    tree = Tree(tmp_path / "host").common()
    tree.function("0000:00:1f.0", class_code="60100", config=config_space())
    done = hostdoctor("scan", "--root", tree.root, "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_verbose_shows_what_is_in_order_and_what_was_read(hostdoctor, before):
    plain = hostdoctor("scan", "--root", before).stdout
    verbose = hostdoctor("scan", "--root", before, "-v").stdout
    assert "link-width" not in plain
    assert "link-width" in verbose
    for path in ("/proc/cmdline", "/sys/bus/pci/devices/*/uevent", "/sys/kernel/iommu_groups/*/type"):
        assert f"  {path}\n" in verbose
        assert f"  {path}\n" not in plain


# --- other commands --------------------------------------------------------------------------------------------------


def test_the_list_of_checks(hostdoctor):
    rows = json.loads(hostdoctor("checks", "--format", "json").stdout)
    assert [row["id"] for row in rows] == [check.id for check in built_in()]
    assert all(row["summary"] and row["subject"] for row in rows)
    text = hostdoctor("checks").stdout
    for row in rows:
        assert f"{row['id']} " in text
        assert row["summary"] in text


def test_every_check_is_explained(hostdoctor):
    for check in built_in():
        done = hostdoctor("explain", check.id)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(f"{check.id}: {check.summary}\n")
        for text in (check.looks_at, check.why, check.decides, *check.sources):
            assert " ".join(text.split()) in " ".join(done.stdout.split()), check.id
        assert all(len(line) <= 80 for line in done.stdout.splitlines()[1:]), check.id


def test_topology_shows_gpus_and_what_is_above_them(hostdoctor, seed):
    report = json.loads(hostdoctor("scan", "--format", "json", "--root", seed).stdout)
    done = hostdoctor("topology", "--root", seed)
    assert (done.returncode, done.stderr) == (0, "")
    for gpu in report["host"]["gpus"]:
        line = next(line for line in done.stdout.splitlines() if gpu["address"] in line)
        assert gpu["id"] in line
        assert gpu["slot"]["port"] in done.stdout
    assert done.stdout.startswith("root bus ")
    assert hostdoctor("topology", seed).stdout == done.stdout


def test_topology_of_everything(hostdoctor, seed):
    report = json.loads(hostdoctor("scan", "--format", "json", "--root", seed).stdout)
    lines = hostdoctor("topology", "--all", "--root", seed).stdout.splitlines()
    assert sum(not line.startswith("root bus") for line in lines) == report["host"]["functions"]


def test_topology_of_a_host_without_gpus(hostdoctor, tmp_path):
    tree = Tree(tmp_path / "host").common()
    assert hostdoctor("topology", "--root", tree.root).stdout == "no PCI functions: not in this evidence\n"
    tree.function("0000:00:1f.0", class_code="60100")
    assert hostdoctor("topology", "--root", tree.root).stdout == "no discrete GPU here; --all shows every function\n"
    assert "0000:00:1f.0" in hostdoctor("topology", "--root", tree.root, "--all").stdout


def test_topology_of_this_host(hostdoctor):
    for options in ([], ["--all"]):
        done = hostdoctor("topology", *options)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout


def test_as_a_module_and_as_a_command(process):
    command = Path(sys.executable).with_name("hostdoctor")
    if not command.exists():
        pytest.skip("the command is not installed beside this interpreter")
    done = subprocess.run([command, "--version"], check=False, capture_output=True, text=True, timeout=60)
    assert done.stdout == process("--version").stdout


def test_a_pattern_that_leaves_out_nothing_is_a_mistake(hostdoctor, before):
    done = hostdoctor("scan", "--root", before, "--skip", "lnik-*")
    assert done.returncode == 2
    assert "no check matches 'lnik-*'" in done.stderr


def test_quiet_says_each_verdict_once(hostdoctor, before):
    lines = hostdoctor("scan", "--root", before, "-q").stdout.splitlines()
    assert [line.split(" [")[0].split(": ")[1] for line in lines] == ["bar-reach", "p2p-pair", "numa-balancing"]
    assert "[12 ordered pairs of GPUs]" in lines[1]


def test_a_fault_of_the_program_itself_is_told_in_one_line():
    program = (
        "import sys, hostdoctor.cli.main as main, hostdoctor.cli.checks as checks\n"
        "def broken(): raise RuntimeError('what\\never')\n"
        "checks.load_checks = broken\n"
        "sys.argv = ['hostdoctor', 'checks']\n"
        "main.main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert "a fault of its own: RuntimeError: what" in done.stderr
    shown = {**os.environ, "HOSTDOCTOR_TRACEBACK": "1"}
    again = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, env=shown)
    assert "Traceback" in again.stderr


# --- attachments -----------------------------------------------------------------------------------------------------

RBT = Path("tests/cases/rbt-staged-on-3.0-x8/input/rocm-bandwidth-test.txt")
DMESG = Path("tests/cases/rbt-staged-on-3.0-x8/input/dmesg.txt")


def scanned(hostdoctor, *arguments):
    done = hostdoctor("scan", "--format", "json", *arguments)
    return json.loads(done.stdout)


@pytest.fixture
def in_repository(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[3])


@pytest.mark.usefixtures("in_repository")
@pytest.mark.parametrize("arguments", [[RBT, DMESG], ["--from", RBT, "--from", DMESG], [RBT, "--with-bandwidth", DMESG]])
def test_attachments_are_one_host(hostdoctor, arguments):
    report = scanned(hostdoctor, *arguments)
    assert report["evidence"]["kind"] == "attachments"
    assert report["evidence"]["sources"] == [str(RBT), str(DMESG)]
    assert {"rocm-bandwidth-test.txt:2 rocm-bandwidth-test", "dmesg.txt:1 kernel-log"} <= set(report["evidence"]["files"])
    found = {(each["check"], each["outcome"]) for each in report["findings"] if each["subject"]}
    assert ("host-bandwidth", "ok") in found
    assert {outcome for check, outcome in found if check == "p2p-bandwidth"} & {"failure", "warning"}


@pytest.mark.usefixtures("in_repository")
def test_a_recorded_run_belongs_to_the_tree_it_is_given_with(hostdoctor):
    case = "tests/cases/seed-v620-after"
    run = f"{case}/attachments/rocm-bandwidth-test.txt"
    report = scanned(hostdoctor, "--root", f"{case}/input", "--with-bandwidth", run)
    assert report["evidence"]["kind"] == "root"
    assert ("p2p-bandwidth", "ok") in {(each["check"], each["outcome"]) for each in report["findings"]}


def test_a_recorded_run_alone_belongs_to_this_host(process):
    done = process("scan", "--format", "json", "--with-bandwidth", Path(__file__).parents[3] / RBT)
    assert json.loads(done.stdout)["evidence"]["kind"] == "live"


@pytest.mark.usefixtures("in_repository")
def test_standard_input(process):
    done = process("scan", "-", "--format", "json", shell=f'cat {DMESG} | "$@"')
    report = json.loads(done.stdout)
    assert report["evidence"]["sources"] == ["-"]
    assert report["evidence"]["files"] == ["standard input:1 kernel-log"]


def test_what_was_not_understood_is_told(hostdoctor, tmp_path):
    (tmp_path / "note.txt").write_text("my GPUs are slow\n\nroot=/dev/sda1 ro quiet\n")
    done = hostdoctor("scan", tmp_path / "note.txt")
    assert "Not read: note.txt:1 (nothing known begins like this: 'my GPUs are slow')." in done.stdout
    report = scanned(hostdoctor, tmp_path / "note.txt")
    assert [each["source"] for each in report["evidence"]["unread"]] == ["note.txt:1"]


def test_what_is_not_understood_beside_a_tree_is_named_too(hostdoctor, before):
    done = hostdoctor("scan", "--root", before, "--with-bandwidth", CASES / "garbage-binary" / "input")
    assert "Not read: dmesg.txt (it is no text)." in done.stdout


def test_a_measuring_run_of_a_later_version_is_named(hostdoctor, before, tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text('{"record":"run","version":"9","at":"2030-01-01T00:00:00Z","format":2}\n')
    why = "run.jsonl:1 (a later version of hostdoctor measured it: read it with that one)"
    assert f"Not read: {why}." in " ".join(hostdoctor("scan", "--root", before, path).stdout.split())
    alone = hostdoctor("scan", path)
    assert (alone.returncode, alone.stdout) == (3, "")
    assert "a later version of hostdoctor measured it" in alone.stderr


@pytest.mark.parametrize(("address", "assumed"), [("43:00.0", True), ("0000:43:00.0", False), ("10000:e1:00.0", False)])
def test_the_domain_that_is_assumed_is_told(hostdoctor, tmp_path, address, assumed):
    (tmp_path / "lspci.txt").write_text(
        f"{address} VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1)\n"
    )
    told = ["domain 0000 for the addresses that lspci.txt writes without one"] if assumed else []
    assert scanned(hostdoctor, tmp_path / "lspci.txt")["evidence"]["assumed"] == told
    assert ("(assumed: domain 0000" in hostdoctor("scan", "-v", tmp_path / "lspci.txt").stdout) == assumed
