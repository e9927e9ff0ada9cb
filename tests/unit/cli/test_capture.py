"""`hostdoctor capture FILE`, and what reads it: the same findings as from the host itself, and nothing but FILE is written."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import pytest

from hostdoctor import atomic
from hostdoctor.facts import block
from hostdoctor.redaction import Redactor
from tests.trees import Tree, as_nobody, config_space

CASES = Path(__file__).parents[2] / "cases"
TREES = [path.parent for path in sorted(CASES.glob("*/input")) if (path / "sys").is_dir() or (path / "proc").is_dir()]
ATTACHED = ["lspci-without-root", "aer-storm-on-root-port", "truncated-bug-report-gz", "rbt-no-peer-access"]
ATTACHED += ["topo-two-sockets", "proxmox-zfs-consistent"]


def by_name(case):
    return case.name


def arguments(case):
    """A case's evidence, as it is given to any command."""
    beside = case / "attachments"
    return ["--root", case / "input", *([beside] if beside.is_dir() else [])]


def members(file):
    with tarfile.open(file) as archive:
        return {each.name: archive.extractfile(each).read() for each in archive}


def judged(done):
    """What a report says of the host."""
    assert done.returncode in (0, 1), done.stderr
    report = json.loads(done.stdout)
    return {name: report[name] for name in ("host", "findings", "summary", "exit")}


def outcome(done):
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def capture(hostdoctor, tmp_path):
    """Captures and returns the file."""

    def run(*given, name="host.tgz", redact=False):
        file = tmp_path / name
        done = hostdoctor("capture", file, *([] if redact else ["--no-redact"]), *given)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return file

    return run


# --- the same from a capture as from the host -------------------------------------------------------------------------


@pytest.mark.parametrize("case", TREES, ids=by_name)
def test_a_captured_tree_is_judged_as_the_tree(hostdoctor, capture, case):
    given = arguments(case)
    file = capture(*given)
    found, expected = (hostdoctor("scan", "--format", "json", *each) for each in ([file], given))
    assert judged(found) == judged(expected)
    evidence = json.loads(found.stdout)["evidence"]
    assert (evidence["kind"], evidence["sources"]) == ("capture", [str(file)])
    assert evidence["unread"] == json.loads(expected.stdout)["evidence"]["unread"]
    assert evidence["files"] == json.loads(expected.stdout)["evidence"]["files"]


CHANGES = (
    (),
    ("--firmware",),
    ("--runtime",),
    ("--ansible",),
    ("--verify",),
    ("--add", "iommu=pt"),
    ("--add", "amdgpu.pcie_p2p=1", "--remove", "quiet"),
    ("--remove", "ro", "--remove", "amd_iommu=on", "--format", "json"),
)


@pytest.mark.parametrize("case", TREES, ids=by_name)
def test_the_cure_is_the_same(hostdoctor, capture, case):
    given = arguments(case)
    file = capture(*given)
    for options in CHANGES:
        found, expected = (hostdoctor("fix", *each, *options) for each in ([file], given))
        assert outcome(found) == outcome(expected), options


@pytest.mark.parametrize("case", TREES[:3] + TREES[-3:], ids=by_name)
def test_the_topology_is_the_same(hostdoctor, capture, case):
    given = arguments(case)
    assert hostdoctor("topology", "--all", capture(*given)).stdout == hostdoctor("topology", "--all", *given).stdout


@pytest.mark.parametrize("name", ATTACHED)
def test_attachments_are_kept_and_judged_alike(hostdoctor, capture, name):
    given = ["--root", CASES / name / "input"] if CASES / name in TREES else [CASES / name / "input"]
    file = capture(*given)
    found, expected = (hostdoctor("scan", "--format", "json", *each) for each in ([file], given))
    assert judged(found) == judged(expected)
    assert json.loads(found.stdout)["evidence"]["kind"] == "capture"


def test_what_is_attached_to_a_capture_belongs_to_its_host(hostdoctor, capture, tmp_path):
    case = CASES / "seed-v620-before"
    file = capture("--root", case / "input")
    found = hostdoctor("scan", "--format", "json", file, case / "attachments")
    assert judged(found) == judged(hostdoctor("scan", "--format", "json", *arguments(case)))


def test_a_recorded_measurement_is_kept(hostdoctor, capture):
    case = CASES / "seed-v620-after"
    measured = case / "attachments/rocm-bandwidth-test.txt"
    given = ["--root", case / "input", "--with-bandwidth", measured]
    assert judged(hostdoctor("scan", "--format", "json", capture(*given))) == judged(
        hostdoctor("scan", "--format", "json", *given)
    )


def test_this_host_itself(hostdoctor, capture):
    file = capture()
    found, expected = (hostdoctor("scan", "--format", "json", *each) for each in ([file], []))
    ours, theirs = judged(found), judged(expected)
    assert ours["findings"] == theirs["findings"]
    assert ours["host"] == theirs["host"]
    manifest = json.loads(members(file)["manifest.json"])
    assert (manifest["schema"], manifest["origin"], manifest["privileged"]) == (1, "live", os.geteuid() == 0)
    assert manifest["kernel"] == os.uname().release
    assert hostdoctor("fix", file).stdout.splitlines()[1:] == hostdoctor("fix").stdout.splitlines()[1:]


def test_a_capture_can_be_captured_again(hostdoctor, capture):
    """So that somebody can pass on one with something left out, or attach something to it for good."""
    file = capture("--root", CASES / "seed-blackwell-ada" / "input")
    again = capture(file, name="again.tgz")
    before, after = members(file), members(again)
    for each in (before, after):
        del each["manifest.json"]
    assert after == before
    scans = [hostdoctor("scan", "--format", "json", each) for each in (file, again)]
    assert judged(scans[0]) == judged(scans[1])


def test_other_ways_to_name_it(hostdoctor, process, capture):
    file = capture("--root", CASES / "sysfs-laptop-x8" / "input")
    expected = judged(hostdoctor("scan", "--format", "json", file))
    for given in (["--from", file], ["--root", file]):
        assert judged(hostdoctor("scan", "--format", "json", *given)) == expected
    assert judged(process("scan", "--format", "json", "-", shell=f'"$@" < "{file}"')) == expected
    piped = process("capture", "-", "--root", CASES / "sysfs-laptop-x8" / "input", shell='"$@" | "$1" -m hostdoctor scan -')
    assert piped.returncode in (0, 1)
    assert "read from standard input" in piped.stdout


# --- redacted ---------------------------------------------------------------------------------------------------------

PLACEHOLDER = re.compile(
    r"redacted-[a-z]+-\d+(?:@example\.invalid)?|02(?:[:-]00){4}[:-]\d\d|00000000-?0000-?4000-?8000-?\d{12}|0001-\d{4}"
    r"|192\.0\.2\.\d+|2001:db8::\d+|0+1-0\d"
)


def without_numbers(report, redactor=None):
    """What a report says, with every placeholder alike."""
    told = {name: report[name] for name in ("host", "findings", "summary", "exit")}
    return PLACEHOLDER.sub("X", json.dumps(redactor.value(told) if redactor else told))


@pytest.mark.parametrize("case", TREES, ids=by_name)
def test_a_redacted_capture_is_judged_alike(hostdoctor, capture, case):
    given = arguments(case)
    file = capture(*given, redact=True)
    assert json.loads(members(file)["manifest.json"])["redacted"] is True
    found, expected = (json.loads(hostdoctor("scan", "--format", "json", *each).stdout) for each in ([file], given))
    assert without_numbers(found) == without_numbers(expected, Redactor())
    fixes = [PLACEHOLDER.sub("X", hostdoctor("fix", *each).stdout) for each in ([file], given)]
    assert fixes[0] == PLACEHOLDER.sub("X", Redactor().text(fixes[1]))


@pytest.mark.parametrize("format_", ["markdown", "html", "text"])
def test_a_report_that_is_captured_loses_what_its_facts_hold(hostdoctor, capture, tmp_path, format_):
    tree = Tree(tmp_path / "host").common()
    tree.amd_cards(2)
    tree.write("proc/cmdline", "ro nfsroot=filer9q:/srv rd.luks.name=7c1b2e58-93ad-4f06-8e21-5d90c3ab17f4=orchidvault\n")
    report = tmp_path / "report"
    hostdoctor("report", "--no-redact", "--root", tree.root, "--format", format_, "-o", report)
    file = capture(report, redact=True)
    text = next(data for name, data in members(file).items() if name.startswith("attachments/")).decode()
    facts = block.find(text)
    assert facts is not None
    assert facts.record is not None
    assert "redacted-disk-1" in repr(facts.record)
    assert not [secret for secret in ("orchidvault", "7c1b2e58", "filer9q") if secret in repr(facts.record) + text]
    outcomes = [
        [
            (each["check"], each["outcome"])
            for each in json.loads(hostdoctor("scan", "--format", "json", given).stdout)["findings"]
        ]
        for given in (file, report)
    ]
    assert outcomes[0] == outcomes[1]


def test_names_and_numbers_do_not_leave_the_host(hostdoctor, tmp_path):
    tree = Tree(tmp_path / "host").common()
    tree.amd_cards(1)
    uuid = "3f1b2a4c-5d6e-4f70-8a91-b2c3d4e5f607"
    line = f"BOOT_IMAGE=/vmlinuz root=UUID={uuid} ro ip=10.11.12.13 quiet\n"
    tree.write("proc/cmdline", line).write("etc/hostname", "quokka77\n")
    tree.write("etc/default/grub", f"# by zaphod on quokka77\n{line}")
    tree.write("etc/passwd", "zaphod:x:1000:1000:Zaphod B,,,:/home/zaphod:/bin/sh\n")
    tree.write("etc/modprobe.d/quokka77.conf", "options amdgpu pcie_p2p=1\n")
    tree.write("boot/loader/entries/3f1b2a4c5d6e4f708a91b2c3d4e5f607-6.8.conf", f"linux /vmlinuz\noptions {line}")
    (tmp_path / "dmesg.txt").write_text(f"[    0.000000] Linux version 6.8.0 (zaphod@quokka77)\n[    0.1] Command line: {line}")
    file = tmp_path / "out.tgz"
    done = hostdoctor("capture", file, "--root", tree.root, tmp_path / "dmesg.txt", "--show-redactions")
    assert done.returncode == 0
    assert f" for {uuid}" in done.stderr
    everything = b"\n".join(name.encode() + b"\n" + data for name, data in members(file).items()).lower()
    for secret in ("quokka77", "zaphod", uuid, uuid.replace("-", ""), "10.11.12.13"):
        assert secret.encode() not in everything, secret
    plain = hostdoctor("capture", tmp_path / "plain.tgz", "--no-redact", "--root", tree.root)
    assert plain.returncode == 0
    assert uuid.encode() in members(tmp_path / "plain.tgz")["files/proc/cmdline"]


# --- what is in it ----------------------------------------------------------------------------------------------------


def test_files_lie_under_their_own_paths(capture):
    case = CASES / "seed-v620-before" / "input"
    found = members(capture("--root", case))
    assert next(iter(found)) == "manifest.json"
    assert found["files/proc/cmdline"] == (case / "proc/cmdline").read_bytes()
    assert found["files/etc/default/grub"] == (case / "etc/default/grub").read_bytes()
    manifest = json.loads(found["manifest.json"])
    assert manifest["tool"]["name"] == "hostdoctor"
    assert (manifest["origin"], manifest["sources"]) == ("root", [str(case)])


def test_the_same_tree_gives_the_same_bytes(capture, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.0)
    given = ["--root", CASES / "lab-errors-counted" / "input"]
    assert capture(*given).read_bytes() == capture(*given, name="other.tgz").read_bytes()


def test_only_what_somebody_asked_for_is_read(capture, tmp_path):
    """No whole config space: some devices break when all of it is read."""
    tree = Tree(tmp_path / "host").common()
    (address,) = tree.amd_cards(1)
    tree.write(f"sys/bus/pci/devices/{address}/resource0", b"registers")
    found = members(capture("--root", tree.root))
    assert not [name for name in found if name.endswith(("resource0", "/rom", "etc/group"))]
    pieces = json.loads(found["pieces.json"])[f"sys/bus/pci/devices/{address}/config"]
    assert sum(given for _, _, given in pieces) < 1024


def test_a_sleeping_gpu_is_left_asleep(hostdoctor, capture, tmp_path):
    """Neither its config space nor what its driver serves is read."""
    tree = Tree(tmp_path / "host").common()
    for address in tree.amd_cards(2):
        folder = (tree.root / "sys/bus/pci/devices" / address).resolve()
        (folder / "power/runtime_status").write_text("suspended\n")
    file = capture("--root", tree.root)
    read = {name.rpartition("/")[2] for name in members(file) if f"/{address}/" in name}
    assert read == {"runtime_status", "power_state", "uevent", "resource", "numa_node"}
    assert f"sys/bus/pci/devices/{address}/config" not in members(file)["pieces.json"].decode()
    assert judged(hostdoctor("scan", "--format", "json", file)) == judged(
        hostdoctor("scan", "--format", "json", "--root", tree.root)
    )


def test_what_could_not_be_read_is_told(tmp_path):
    """As an ordinary user sees it: nobody may read the boot loader's file."""
    from hostdoctor.cli import capture as command  # noqa: PLC0415
    from hostdoctor.cli.evidence import open_evidence  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        tree = Tree(Path(folder, "host")).common()
        tree.function("0000:03:00.0", driver="amdgpu", config=config_space())
        tree.write("boot/grub/grub.cfg", "menuentry 'x' {\n}\n").root.joinpath("boot/grub/grub.cfg").chmod(0)

        def work():
            with open_evidence(str(tree.root), ()) as opened:
                return command._packed(command.gathered(opened, 10.0, logs=False, tools=False), None)[0]

        work()  # so that all is imported
        data = as_nobody(work)
    file = tmp_path / "x.tgz"
    file.write_bytes(data)
    manifest = json.loads(members(file)["manifest.json"])
    assert manifest["errors"] == [{"source": "/boot/grub/grub.cfg", "reason": "no permission to read it"}]
    assert manifest["privileged"] is (os.geteuid() == 0 and not data)


@pytest.mark.skipif(shutil.which("lspci") is None, reason="not installed: lspci")
@pytest.mark.parametrize("options", [[], ["--no-tools"]])
def test_what_tools_print_is_kept_unless_told_otherwise(capture, options):
    with tarfile.open(capture(*options)) as archive:
        assert ("commands/lspci.txt" in archive.getnames()) == (not options)


@pytest.mark.parametrize("option", ["--logs", "--tools"])
def test_logs_and_tools_are_of_this_host(hostdoctor, tmp_path, option):
    done = hostdoctor("capture", tmp_path / "x", option, "--root", CASES / "sysfs-laptop-x8" / "input")
    assert done.returncode == 2
    assert "this host itself" in done.stderr
    assert not (tmp_path / "x").exists()


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="the kernel's log may not be read here")
def test_the_kernels_log_is_judged(hostdoctor, capture):
    """Like an attached one. (It says whether this kernel was started before it was captured.)"""
    file = capture("--logs")
    log = members(file)["logs/dmesg.txt"].decode()
    assert all(line.startswith("[") for line in log.splitlines())
    report = json.loads(hostdoctor("scan", "--format", "json", file).stdout)
    assert any(each.startswith("logs/dmesg.txt:1 kernel-log") for each in report["evidence"]["files"])


# --- writing it -------------------------------------------------------------------------------------------------------

LAPTOP = CASES / "sysfs-laptop-x8" / "input"


def left(folder):
    return sorted(path.name for path in folder.iterdir())


def test_its_owner_alone_may_read_it(capture, tmp_path):
    old = os.umask(0)
    try:
        file = capture("--root", LAPTOP)
    finally:
        os.umask(old)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert left(tmp_path) == ["host.tgz"]


def test_an_earlier_capture_is_replaced_and_its_mode_mended(capture):
    first = capture("--root", LAPTOP)
    first.chmod(0o644)
    before = first.stat().st_ino
    assert stat.S_IMODE(capture("--root", LAPTOP).stat().st_mode) == 0o600
    assert first.stat().st_ino != before


@pytest.mark.parametrize("content", ["lspci -vvv\n", "\x1f\x8b\x08 no capture"])
def test_a_file_that_is_something_else_is_left_alone(hostdoctor, tmp_path, content):
    """Who forgets FILE and names an attachment first loses nothing."""
    file = tmp_path / "dmesg.txt"
    file.write_text(content)
    done = hostdoctor("capture", file, LAPTOP)
    assert done.returncode == 3
    assert "is no capture" in done.stderr
    assert file.read_text() == content


def test_an_empty_file_is_filled(hostdoctor, tmp_path):
    """mktemp makes one."""
    file = tmp_path / "x"
    file.touch()
    assert hostdoctor("capture", file, "--root", LAPTOP).returncode == 0
    assert file.stat().st_size > 1000


def test_what_is_no_file_is_left_alone(hostdoctor, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "link", "pipe", "nowhere/x"):
        done = hostdoctor("capture", tmp_path / name, "--root", LAPTOP)
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr.count("\n") == 1
        assert str(tmp_path / name) in done.stderr
    assert left(tmp_path) == ["folder", "link", "pipe"]
    assert not (tmp_path / "target").exists()


def test_a_folder_that_may_not_be_written(hostdoctor):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o555)
        hostdoctor("capture", f"{folder}/none/x")  # so that all is imported
        code, said = json.loads(as_nobody(lambda: json.dumps(outcome(hostdoctor("capture", f"{folder}/x"))[::2]).encode()))
        assert (code, os.listdir(folder)) == (3, []), said
    assert "no permission to write" in said


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    file = tmp_path / "x"
    file.write_bytes(b"old")

    def full(descriptor, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            atomic.write(str(file), b"new")
    assert (file.read_bytes(), left(tmp_path)) == (b"old", ["x"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_nobody_takes_what_is_written_to_standard_output(process):
    done = process("capture", "-", "--root", LAPTOP, shell='"$@" > /dev/full')
    assert done.returncode == 3
    assert "No space left" in done.stderr


def test_a_killed_one_leaves_what_was_there(tmp_path):
    """Killed when all is written and not yet in its place."""
    file = tmp_path / "host.tgz"
    file.write_bytes(b"old")
    program = "import os, signal; from hostdoctor import atomic\n"
    program += f"os.fsync = lambda number: os.kill(os.getpid(), signal.SIGKILL)\natomic.write({str(file)!r}, b'new')\n"
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    assert file.read_bytes() == b"old"


def test_the_tree_is_left_as_it_was(hostdoctor, tmp_path):
    before = sorted((str(path), path.lstat().st_mtime_ns) for path in LAPTOP.rglob("*"))
    hostdoctor("capture", tmp_path / "x", "--root", LAPTOP)
    assert sorted((str(path), path.lstat().st_mtime_ns) for path in LAPTOP.rglob("*")) == before


def test_nothing_is_written_where_nothing_could_be_read(hostdoctor, tmp_path):
    (tmp_path / "host" / "sys").mkdir(parents=True)
    done = hostdoctor("capture", tmp_path / "x", "--root", tmp_path / "host")
    assert (done.returncode, (tmp_path / "x").exists()) == (3, False)


# --- captures that are not whole, and others that pretend -------------------------------------------------------------


def repacked(file, change):
    """The capture with other members."""
    found = change(members(file))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in found.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    file.write_bytes(gzip.compress(out.getvalue()))
    return file


def replaced(**contents):
    return lambda found: {**found, **{f"{name}.json": data for name, data in contents.items()}}


def test_a_capture_that_is_cut_is_read_as_far_as_it_goes(hostdoctor, capture):
    """What is lost is unknown: nothing is called fine, or wrong, for want of it."""
    given = ["--root", CASES / "seed-v620-before" / "input"]
    file = capture(*given)
    whole = hostdoctor("scan", "--format", "json", *given)
    verdicts = {(each["check"], *each["subject"]): each for each in json.loads(whole.stdout)["findings"]}
    data = file.read_bytes()
    read = 0
    for part in range(1, 20):
        file.write_bytes(data[: len(data) * part // 20])
        done = hostdoctor("scan", "--format", "json", file)
        assert done.returncode in (0, 1, 3)
        assert done.stderr.count("\n") == 1
        assert "cut" in done.stderr or "damaged" in done.stderr
        if done.returncode == 3:
            continue
        read += 1
        report = json.loads(done.stdout)
        assert report["evidence"]["unread"][0]["source"] == str(file)
        for each in report["findings"]:
            if each["outcome"] in ("failure", "warning"):
                key = (each["check"], *each["subject"])
                assert verdicts[key]["outcome"] == each["outcome"], each
    assert read > 3


def test_lists_that_were_not_captured_leave_their_facts_unknown(hostdoctor, capture, tmp_path):
    """Each list for itself: nothing but its own facts is lost."""
    tree = Tree(tmp_path / "host").common()
    tree.amd_cards(2)
    tree.folder("sys/kernel/iommu_groups/5/devices")
    file = capture("--root", tree.root)
    with tarfile.open(file) as archive:
        listings = json.load(archive.extractfile("listings.json"))
    whole = file.read_bytes()
    for lost in listings:
        file.write_bytes(whole)
        kept = {path: names for path, names in listings.items() if path != lost}
        done = hostdoctor("scan", "-q", repacked(file, replaced(listings=json.dumps(kept).encode())))
        assert done.stderr == "", lost


@pytest.mark.parametrize(
    ("contents", "says"),
    [
        ({"manifest": b'{"schema": 2, "tool": {"name": "hostdoctor", "version": "9.9"}}'}, "schema 2, made by hostdoctor 9.9"),
        ({"manifest": b'{"schema": 1, "tool": {"name": "hostdoctor"}, "origin": 5}'}, "manifest.json in it is damaged"),
        ({"links": b"[1]"}, "links.json in it is damaged"),
        ({"errors": b"[" * 100_000}, "errors.json in it is damaged"),
        ({"listings": b'{"a": ["\xff"]}'}, "listings.json in it is damaged"),
        ({"pieces": b'{"a": [["x", 1, 1]]}'}, "pieces.json in it is damaged"),
        ({"errors": b'[["read", "unheard of", "", []]]'}, "errors.json in it is damaged"),
        ({"folders": b'["' + b"x" * (33 << 20) + b'"]'}, "folders.json in it is larger than any"),
    ],
)
def test_one_line_says_what_ails_it(hostdoctor, capture, contents, says):
    file = repacked(capture("--root", LAPTOP), replaced(**contents))
    done = hostdoctor("scan", file)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


def test_another_programs_archive_is_an_attachment(hostdoctor, capture):
    """One with a manifest of its own, too."""
    log = (CASES / "aer-storm-on-root-port" / "input").iterdir()
    text = next(path for path in log).read_bytes()
    file = repacked(capture("--root", LAPTOP), lambda found: {"manifest.json": b'{"tool": "x"}', "dmesg.txt": text})
    report = json.loads(hostdoctor("scan", "--format", "json", file).stdout)
    assert report["evidence"]["kind"] == "attachments"


def test_paths_lead_nowhere(hostdoctor, capture, tmp_path):
    """They are keys: what climbs out, or is a link or a device, is not followed and not written."""
    secret = tmp_path / "secret"
    secret.write_text("root=UUID=1234-5678")
    file = capture("--root", LAPTOP)
    links = {"sys/bus/pci/devices/0000:01:00.0": f"../../../../../../../{secret}", "proc/cmdline": str(secret)}

    def change(found):
        del found["files/proc/cmdline"]
        extra = {f"../{secret.name}": b"x", str(tmp_path / "absolute"): b"x", "files/../../out": b"x"}
        return {**found, "links.json": json.dumps(links).encode(), **extra}

    before = left(tmp_path)
    done = hostdoctor("scan", "--format", "json", repacked(file, change))
    assert done.returncode in (0, 1, 3)
    assert "1234-5678" not in done.stdout
    assert left(tmp_path) == before


def test_a_bomb_is_not_unpacked(hostdoctor, capture, tmp_path):
    head = io.BytesIO()
    with tarfile.open(fileobj=head, mode="w") as archive:
        info = tarfile.TarInfo("manifest.json")
        content = b'{"schema": 1, "tool": {"name": "hostdoctor"}, "origin": "live", "captured": ""}'
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    file = tmp_path / "bomb.tgz"
    with gzip.open(file, "wb", compresslevel=9) as packed:
        packed.write(head.getvalue()[:1024])
        for _ in range(300):
            packed.write(bytes(1 << 20))
    done = hostdoctor("scan", file)
    assert done.returncode == 3
    assert "larger than" in done.stderr


def test_two_hosts_at_a_time_are_refused(hostdoctor, capture):
    first, second = capture("--root", LAPTOP), capture("--root", LAPTOP, name="two.tgz")
    for given in ([first, second], ["--root", LAPTOP, first]):
        done = hostdoctor("scan", *given)
        assert (done.returncode, "one host at a time" in done.stderr) == (3, True)
