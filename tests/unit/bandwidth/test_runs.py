"""What a run survives: being killed, tools that hang, faults in the kernel's log, and what it refuses to begin."""

from __future__ import annotations

import json
import os
import pty
import signal
import stat
import subprocess

import pytest

from hostdoctor.bandwidth.journal import Writer, read

A, B, C = "0000:03:00.0", "0000:07:00.0", "0000:0b:00.0"
TOOL = ("--tool", "rocm-bandwidth-test")
HEADER = (
    '{"record":"run","version":"0.1.0","at":"2026-11-29T10:00:00Z","steps":2}',
    '{"record":"tool","name":"rocm-bandwidth-test","version":"2.6.0","path":"","vendor":"amd",'
    '"devices":[{"subject":"0000:03:00.0","name":"AMD Radeon PRO V620"}]}',
    '{"record":"planned","tool":"rocm-bandwidth-test","step":{"kind":"to-gpu","origin":"host:0","target":"0000:03:00.0"}}',
    '{"record":"planned","tool":"rocm-bandwidth-test","step":{"kind":"from-gpu","origin":"0000:03:00.0","target":"host:0"}}',
)
FAULT = (
    "4,900,8000000,-;amdgpu 0000:07:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x000d address=0x38a0000000 flags=0x0020]"
)
# One call of the tool in each step of a run over two GPUs, in order, and what the step is called.
STEPS = (
    ("-s 0 -d 1 -m", "to-gpu"),
    ("-s 0 -d 2 -m", "to-gpu"),
    ("-s 1 -d 0 -m", "from-gpu"),
    ("-s 2 -d 0 -m", "from-gpu"),
    ("-s 1 -d 1 -m", "inside"),
    ("-s 2 -d 2 -m", "inside"),
    ("-s 1 -d 2 -m", "pair"),
    ("-s 2 -d 1 -m", "pair"),
    ("-b 1,2", "pair"),
)


def parked(rig, call, *arguments, **said):
    """A run whose tool has come to a call and stays there, and the pipe that it holds open as long as it lives."""
    rig.scene(park=call, fifo=str(rig.fifo()), **said)
    run = rig.started(*TOOL, *arguments)
    pipe = os.open(rig.fifo(), os.O_RDONLY)  # opens when the tool does
    assert os.read(pipe, 5) == b"here\n"
    return run, pipe


def all_gone(pipe):
    """Wait until nobody holds the pipe any more, as where the tool and its children are dead."""
    while os.read(pipe, 100):
        pass
    os.close(pipe)
    return True


def journal(rig):
    return read(rig.results.read_text().splitlines())


def test_a_run_killed_at_any_step_goes_on(rig):
    """Killed at each step: the file is whole, names the step, and in the end nothing is missing or done twice."""
    rig.amd(2).tool("rocm-bandwidth-test")
    arguments = ["--results", rig.results]
    for number, (call, kind) in enumerate(STEPS):
        run, pipe = parked(rig, call, *arguments)
        run.kill()
        run.communicate(timeout=60)
        assert all_gone(pipe)
        found = journal(rig)
        (died_on,) = found.died_on
        assert died_on.step.kind == kind
        assert len(found.done) == number
        assert found.ended == ""
        arguments = ["--resume", rig.results, "--retry"]
    rig.scene()
    done = rig.measure("--resume", rig.results, "--retry", *TOOL)
    assert done.returncode == 0, done.stderr
    found = journal(rig)
    assert (len(found.done), found.died_on, found.ended) == (len(STEPS), (), "complete")
    results = [record["result"]["step"] for record in rig.records() if record["record"] == "done"]
    assert len(results) == len(STEPS)


def test_what_a_run_died_on_is_named_and_not_tried_again(rig):
    rig.amd(3).tool("rocm-bandwidth-test")
    run, pipe = parked(rig, "-s 1 -d 2 -m", "--results", rig.results)
    run.kill()
    run.communicate(timeout=60)
    assert all_gone(pipe)
    scan = rig.run("scan", rig.results)
    assert scan.returncode == 1
    assert "did not come to its end" in scan.stdout
    before = len(rig.calls)
    rig.scene()
    done = rig.measure("--resume", rig.results, "--format", "json")
    assert done.returncode == 1
    plan = " ".join(done.stderr.split())
    assert f"The run died on: {A} to {B}, direct, begun at" in plan
    assert "not tried again without --retry" in plan
    calls = rig.calls[before:]
    assert not [call for call in calls if "-s 1 -d 2" in call or "-s 2 -d 1" in call or "-b 1,2" in call]
    assert [call for call in calls if "-s 1 -d 3" in call]
    states = {(m["origin"], m["target"], m["both_ways"]): m["state"] for m in json.loads(done.stdout)["measurements"]}
    assert states[A, B, False] == "broken"
    assert states[B, A, False] == "not-taken"
    assert states[A, C, False] == "measured"
    again = rig.measure("--resume", rig.results, "--retry")
    assert again.returncode == 0, again.stdout


def test_a_line_that_a_crash_cut_is_passed_over(rig):
    rig.amd(2).tool("rocm-bandwidth-test")
    assert rig.measure(*TOOL).returncode == 0
    whole = rig.results.read_bytes()
    lines = whole.splitlines(keepends=True)
    last_done = max(n for n, line in enumerate(lines) if b'"done"' in line)
    rig.results.write_bytes(b"".join(lines[:last_done]) + lines[last_done][:50])
    done = rig.measure("--resume", rig.results, "--retry")
    assert done.returncode == 0, done.stderr
    assert journal(rig).ended == "complete"
    assert rig.run("scan", rig.results).returncode == 0


def test_a_tool_that_hangs_ends_at_its_deadline_with_its_children(rig):
    rig.amd(2).tool("rocm-bandwidth-test")
    run, pipe = parked(rig, "-s 1 -d 2 -m", "--results", rig.results, "--step-deadline", "2", family=True)
    assert all_gone(pipe)
    output, errors = run.communicate(timeout=60)
    assert run.returncode == 1, errors
    assert "BROKEN" in output
    found = journal(rig)
    (hung,) = [done.result for _, done in found.done.values() if done.result.error_kind == "timeout"]
    assert (hung.step.origin, hung.step.target) == (A, B)
    left_out = [done.result for _, done in found.done.values() if done.result.error.startswith("not tried")]
    assert {result.step.both_ways for result in left_out} == {True, False}
    assert found.ended == "complete"


def test_a_gpu_whose_own_copies_break_is_left_out_of_its_pairs_too(rig):
    rig.amd(3).tool("rocm-bandwidth-test").scene(die="-s 0 -d 1 -m")
    assert rig.measure(*TOOL).returncode == 1
    assert all(done.result.error for _, done in journal(rig).done.values() if A in done.result.step.gpus)
    timed = [call for call in rig.calls if "-m" in call]
    assert [call for call in timed if "-s 1" in call or "-d 1" in call or "1," in call] == timed[:1]
    assert [call for call in timed if "-s 2 -d 3" in call]


def test_a_plan_that_a_full_disk_cut_is_not_gone_on_with(rig):
    rig.amd(1).tool("rocm-bandwidth-test")
    whole = "".join(f"{line}\n" for line in HEADER)
    for size in range(len(whole) - 1):
        rig.results.write_text(whole[:size])
        found = journal(rig)
        assert found.began is None or found.lacks_steps
    done = rig.measure("--resume", rig.results)
    assert done.returncode == 3
    assert "a part of its plan is missing" in done.stderr


def test_what_a_later_version_wrote_is_not_judged(rig):
    """Its records may have other names: that none of the known ones ends a step does not mean that it never ended."""
    begun = '{"record":"begun","at":"2026-11-29T10:00:00Z",' + HEADER[2].partition(",")[2]
    rig.amd(1).results.write_text("\n".join((*HEADER, begun, "")))
    assert "did not come to its end" in rig.run("scan", "--root", rig.tree.root, rig.results).stdout
    rig.results.write_text(rig.results.read_text().replace('"steps":2', '"steps":2,"format":9'))
    done = rig.run("scan", "--root", rig.tree.root, rig.results)
    assert "did not come to its end" not in done.stdout
    assert "a newer hostdoctor wrote it" in rig.measure("--resume", rig.results).stderr


def test_a_run_of_another_host_is_not_gone_on_with(rig):
    rig.amd(1).tool("rocm-bandwidth-test")
    other = "\n".join(HEADER).replace("0000:03:00.0", "0000:43:00.0")
    for text, words in (
        (other, "does not see 0000:43:00.0 any more"),
        ("\n".join(HEADER).replace("V620", "W6800"), "was 'AMD Radeon PRO W6800' then and is 'AMD Radeon PRO V620' now"),
    ):
        rig.results.write_text(text)
        done = rig.measure("--resume", rig.results)
        assert done.returncode == 3
        assert words in done.stderr


def test_a_gpu_that_the_tool_does_not_see_is_named(rig):
    rig.amd(2).tool("rocm-bandwidth-test").scene(gpus=[[A, rig.names]])
    done = rig.run("bandwidth", "--root", rig.tree.root, "--dry-run", *TOOL)
    assert f"NOT measured: {B}, which none of these tools sees" in done.stderr


def test_a_report_that_cannot_be_written_is_told_before_anything_is_measured(rig):
    rig.amd(1).tool("rocm-bandwidth-test")
    done = rig.measure(*TOOL, "-o", "/nowhere/report.json")
    assert (done.returncode, rig.calls) == (3, [])
    assert "/nowhere/report.json: there is no such folder" in done.stderr


def test_an_interrupt_ends_the_tool_and_leaves_a_valid_file(rig):
    rig.amd(2).tool("rocm-bandwidth-test")
    run, pipe = parked(rig, "-s 1 -d 2 -m", "--results", rig.results, family=True)
    run.send_signal(signal.SIGINT)
    assert all_gone(pipe)
    output, errors = run.communicate(timeout=60)
    assert run.returncode == 130
    assert (output, f"--resume {rig.results}" in errors) == ("", True)
    found = journal(rig)
    assert found.ended == "interrupted"
    assert len(found.done) == 6
    rig.scene()
    done = rig.measure("--resume", rig.results, "--retry")
    assert done.returncode == 0, done.stderr


def test_terminating_it_is_like_an_interrupt(rig):
    rig.amd(1).tool("rocm-bandwidth-test")
    run, pipe = parked(rig, "-s 1 -d 0 -m", "--results", rig.results)
    run.terminate()
    assert all_gone(pipe)
    run.communicate(timeout=60)
    assert (run.returncode, journal(rig).ended) == (130, "interrupted")


def test_the_first_fault_in_the_kernel_log_stops_the_run(rig):
    rig.amd(3).tool("rocm-bandwidth-test").scene(kmsg=["-s 1 -d 2 -m", str(rig.kmsg), FAULT])
    done = rig.measure(*TOOL)
    assert done.returncode == 1
    assert "IO_PAGE_FAULT" in done.stdout
    assert "the kernel logged a fault" in done.stdout
    assert journal(rig).ended == "fault"
    assert not [call for call in rig.calls if "-s 2 -d 1" in call]


def test_a_report_of_the_port_alone_stops_the_run_too(rig):
    """The kernel limits the rate of the lines that say what the error was."""
    port = FAULT.partition(";")[0] + ";pcieport 0000:04:01.0: AER: Uncorrectable (Non-Fatal) error message received from " + B
    rig.amd(2).tool("rocm-bandwidth-test").scene(kmsg=["-s 1 -d 2 -m", str(rig.kmsg), port])
    assert rig.measure(*TOOL).returncode == 1
    assert journal(rig).ended == "fault"


def test_old_messages_and_those_of_other_devices_stop_nothing(rig):
    rig.amd(2).tool("rocm-bandwidth-test")
    with rig.kmsg.open("a") as log:
        log.write(f"{FAULT}\n")
    other = FAULT.replace("0000:07:00.0", "0000:e1:00.0")
    rig.scene(kmsg=["-s 1 -d 2 -m", str(rig.kmsg), other])
    done = rig.measure(*TOOL)
    assert done.returncode == 0, done.stdout
    assert journal(rig).ended == "complete"
    assert [(fault.address, fault.stops) for fault in journal(rig).faults] == [("0000:e1:00.0", False)]


def test_a_log_that_cannot_be_read_is_told_in_the_plan(rig):
    rig.amd(1).tool("rocm-bandwidth-test")
    rig.kmsg.unlink()
    done = rig.measure(*TOOL)
    assert "the kernel log cannot be watched for faults" in done.stderr
    assert done.returncode == 0


def test_each_beginning_is_on_disk_before_the_step_and_each_result_before_the_next(rig):
    rig.amd(1).tool("rocm-bandwidth-test")
    assert rig.measure(*TOOL).returncode == 0
    kinds = [record["record"] for record in rig.records()]
    assert kinds == ["run", "tool", *["planned"] * 3, *["begun", "done"] * 3, "ended"]


# --- what is not begun ------------------------------------------------------------------------------------------------


def test_without_anybody_to_ask_nothing_is_measured(rig):
    rig.amd(2).tool("rocm-bandwidth-test")
    done = rig.run("bandwidth", "--root", rig.tree.root)
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert rig.calls == []


def test_a_dry_run_shows_the_plan_and_copies_nothing(rig):
    rig.amd(2).tool("rocm-bandwidth-test")
    done = rig.run("bandwidth", "--root", rig.tree.root, "--dry-run", *TOOL)
    assert done.returncode == 0
    assert "9 steps" in done.stderr
    assert "at the very most" in done.stderr
    assert A in done.stderr
    assert rig.calls == ["rocm-bandwidth-test -t"]


@pytest.mark.parametrize(("answer", "status"), [(b"y\n", 0), (b"n\n", 3)])
def test_on_a_terminal_it_asks(rig, answer, status):
    rig.amd(1).tool("rocm-bandwidth-test")
    terminal, theirs = pty.openpty()
    command = rig.command("bandwidth", "--root", rig.tree.root, *TOOL, "--results", rig.results)
    with subprocess.Popen(command, env=rig.environment(), stdin=theirs, stderr=theirs, stdout=subprocess.DEVNULL) as run:
        os.close(theirs)
        shown = b""
        while b"Measure now?" not in shown:
            shown += os.read(terminal, 4096)
        os.write(terminal, answer)
        while True:
            try:
                part = os.read(terminal, 4096)
            except OSError:  # nobody writes to it any more
                break
            shown += part
    os.close(terminal)
    assert run.returncode == status, shown
    assert (b"3/3" in shown) == (status == 0)
    assert rig.results.exists() == (status == 0)


def test_a_guest_is_not_measured_unless_told_to(rig):
    rig.amd(1).tool("rocm-bandwidth-test")
    path = rig.tree.root / "proc/cpuinfo"
    path.write_text(path.read_text().replace("pse msr", "pse msr hypervisor"))
    rig.tree.write("sys/class/dmi/id/sys_vendor", "QEMU\n")
    done = rig.measure(*TOOL)
    assert done.returncode == 3
    assert "--assume-bare-metal" in done.stderr
    assert rig.measure(*TOOL, "--assume-bare-metal").returncode == 0


def test_other_programs_on_the_gpus_are_named(rig):
    rig.amd(1).tool("rocm-bandwidth-test")
    rig.tree.write("proc/4242/comm", "ollama\n").folder("proc/4242/fd")
    (rig.tree.root / "proc/4242/fd/7").symlink_to("/dev/kfd")
    done = rig.measure(*TOOL)
    assert done.returncode == 3
    assert "ollama (4242, has /dev/kfd open)" in done.stderr
    assert rig.calls == []
    assert rig.measure(*TOOL, "--force").returncode == 0


def test_what_holds_device_files_without_using_them_is_no_company(rig):
    rig.nvidia(1).tool("nvbandwidth")
    rig.tree.write("proc/77/comm", "nvidia-persiste\n").folder("proc/77/fd")
    (rig.tree.root / "proc/77/fd/3").symlink_to("/dev/nvidia0")
    assert rig.measure("--tool", "nvbandwidth").returncode == 0


def test_the_files_of_another_host_are_not_measured(rig):
    rig.amd(1).tool("rocm-bandwidth-test")
    rig.tree.write("proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555\n")
    done = rig.measure(*TOOL)
    assert done.returncode == 3
    assert "not the files of this host" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--tool", "nvbandwidth"), "there is no NVIDIA GPU here"),
        (("--tool", "TransferBench"), "it is not installed"),
        (("--gpu", "0000:99:00.0"), "there is no discrete GPU at 0000:99:00.0"),
        (("--resume", "/nowhere"), "/nowhere: No such file or directory"),
        (("--results", "/dev/null/x"), "Not a directory"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(rig, arguments, words):
    rig.amd(1).tool("rocm-bandwidth-test")
    done = rig.run("bandwidth", "--root", rig.tree.root, "--yes", *arguments)
    assert done.returncode == 3
    assert words in done.stderr.splitlines()[-1]
    assert "fault of its own" not in done.stderr


def test_a_results_file_is_never_overwritten(rig):
    rig.amd(1).tool("rocm-bandwidth-test")
    rig.results.write_text("mine\n")
    done = rig.measure(*TOOL)
    assert (done.returncode, rig.results.read_text()) == (3, "mine\n")


def test_without_a_name_the_file_lies_below_the_state_folder(rig):
    rig.amd(1).tool("rocm-bandwidth-test")
    rig.variables["XDG_STATE_HOME"] = str(rig.folder / "state")
    done = rig.run("bandwidth", "--root", rig.tree.root, "--yes", *TOOL)
    assert done.returncode == 0
    (path,) = (rig.folder / "state/hostdoctor").iterdir()
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert str(path) in done.stdout
    assert rig.run("scan", path).returncode == 0


def test_a_host_takes_one_run_at_a_time_and_a_file_one_writer(rig):
    rig.amd(1).tool("rocm-bandwidth-test")
    run, pipe = parked(rig, "-s 1 -d 0 -m", "--results", rig.results)
    rig.scene()
    done = rig.measure("--results", rig.folder / "other.jsonl", "--force")
    with pytest.raises(BlockingIOError, match="another run writes to it"):
        Writer(str(rig.results))
    run.terminate()
    assert all_gone(pipe)
    run.communicate(timeout=60)
    assert done.returncode == 3
    assert "another run measures on this host now" in done.stderr


# --- within a scan ----------------------------------------------------------------------------------------------------


def test_scan_measures_and_judges_it_with_the_rest(rig):
    rig.amd(2).tool("rocm-bandwidth-test").scene(gbs={f"{A} {B}": 0.5, f"{B} {A}": 0.5})
    rig.variables["XDG_STATE_HOME"] = str(rig.folder)
    done = rig.run("scan", "--root", rig.tree.root, "--measure", "--yes", "--format", "json")
    assert done.returncode == 1, done.stderr
    checks = {each["check"] for each in json.loads(done.stdout)["findings"] if each["outcome"] == "failure"}
    assert {"p2p-bandwidth", "bar-reach"} <= checks
    assert "Measures with rocm-bandwidth-test" in done.stderr
    assert "not with hip: " in done.stderr


def test_scan_does_not_measure_without_anybody_to_ask(rig):
    rig.amd(2).tool("rocm-bandwidth-test")
    assert rig.run("scan", "--root", rig.tree.root, "--measure").returncode == 2
    assert rig.calls == []


def test_scan_wakes_with_whatever_copies(rig):
    rig.amd(2).tool("rocm-bandwidth-test")
    done = rig.run("scan", "--root", rig.tree.root, "--wake", "--check", "link-speed", "-v")
    assert done.returncode == 0, done.stderr
    assert "8 GT/s while the GPU copied" in done.stdout
    assert not [call for call in rig.calls if "-s 1 -d 2" in call]  # from the host alone
