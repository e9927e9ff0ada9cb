"""`hostdoctor rocm-bandwidth-test`: the tool as it is, its silent failures told, its figures judged."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.standins import programs

A, B = "0000:03:00.0", "0000:07:00.0"
# What hsa_init says where /dev/kfd may not be opened, with status 1.
NO_RUNTIME = (
    "HSA Error Found!  In file: /src/rocm_bandwidth_test.cpp;   At line: 496\n"
    "Error: HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate the necessary resources."
)


@pytest.fixture
def test(rig):
    """Runs it; only what lies in the rig's folders can be found."""

    def run(*arguments, **options):
        return rig.run("rocm-bandwidth-test", "--root", rig.tree.root, "--", *arguments, **options)

    rig.variables["PATH"] = f"{rig.prefix}/bin:/usr/bin:/bin"
    return run


def said(done):
    """What hostdoctor says beside the tool, without what it runs."""
    return [line for line in done.stderr.splitlines() if line.startswith("hostdoctor: ") and " runs " not in line]


def test_a_healthy_host_gets_the_tools_output_and_no_complaint(rig, test):
    rig.amd(2).tool("rocm-bandwidth-test")
    done = test()
    assert done.returncode == 0, done.stderr
    assert "Unidirectional copy peak bandwidth GB/s" in done.stdout
    assert "Bidirectional copy peak bandwidth GB/s" in done.stdout
    assert "Nothing wrong found in it." in done.stdout
    assert said(done) == []


def test_its_output_is_shown_as_it_is(rig, test):
    rig.amd(2).tool("rocm-bandwidth-test")
    alone = subprocess.run(
        [rig.prefix / "bin/rocm-bandwidth-test", "-a"], env=rig.environment(), capture_output=True, text=True, check=True
    )
    assert test("-a").stdout.startswith(alone.stdout.replace(str(rig.prefix / "bin") + "/", ""))


def test_wrong_data_keep_the_tools_status(rig, test):
    rig.amd(2).tool("rocm-bandwidth-test").scene(wrong=[f"{A} {B}"])
    done = test("-a", "-v")
    assert done.returncode == 18
    assert "data arrive wrong between the two GPUs" in done.stdout


def test_a_failure_that_the_tool_calls_success_is_1(rig, test):
    slow = {f"{A} {B}": 0.9, f"{B} {A}": 0.9}
    rig.amd(2).tool("rocm-bandwidth-test").scene(gbs=slow)
    done = test("-a")
    assert done.returncode == 1
    assert "FAILURE" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-v",), "data are compared with -a -v"),
        (("-a", "-m", "64"), "printed its help instead"),
        (("--version",), ""),
        (("-z",), "printed its help instead"),
    ],
)
def test_help_instead_of_a_measurement_is_no_success(rig, test, arguments, words):
    rig.amd(2).tool("rocm-bandwidth-test")
    done = test(*arguments)
    assert "Supported arguments:" in done.stdout
    assert done.returncode == 1
    (line,) = said(done)
    assert words in line


@pytest.mark.parametrize("arguments", [("-h",), ("-q",), ("-t",), ("-e",)])
def test_what_only_informs_is_a_success(rig, test, arguments):
    rig.amd(2).tool("rocm-bandwidth-test")
    done = test(*arguments)
    assert (done.returncode, said(done)) == (0, [])


def test_no_gpu_is_said(rig, test):
    rig.tool("rocm-bandwidth-test")
    done = test()
    assert "Invalid Request" in done.stdout
    assert done.returncode == 1
    assert "it sees no GPU" in said(done)[0]


def test_a_runtime_that_does_not_start_is_said_with_the_tools_status(rig, test):
    rig.amd(2).tool("rocm-bandwidth-test").scene(say=NO_RUNTIME, status=1)
    done = test("-a")
    assert done.returncode == 1
    (line,) = said(done)
    assert "HSA_STATUS_ERROR_OUT_OF_RESOURCES" in line
    assert "/dev/kfd" in line or "runtime did not start" in line


def test_no_access_is_said(rig, test):
    rig.amd(2).tool("rocm-bandwidth-test").scene(no_access=[f"{A} {B}"])
    done = test("-s", "1", "-d", "2")
    assert done.returncode == 1
    assert "the driver grants no access between the two devices" in said(done)[0]


def test_nothing_at_all_is_no_success(rig, test):
    rig.amd(2).tool("rocm-bandwidth-test").scene(say="")
    done = test("-a")
    assert done.returncode == 1
    assert "it printed nothing" in said(done)[0]


def test_a_tool_that_crashes_is_told_as_a_shell_does(rig, test):
    folder = rig.prefix / "bin"
    folder.mkdir(parents=True)
    program = folder / "rocm-bandwidth-test"
    program.write_text("#!/bin/sh\nkill -SEGV $$\n")
    program.chmod(0o755)
    assert test("-a").returncode == 139


def test_without_a_tool_it_says_what_to_install(rig, test):
    rig.variables["ROCM_PATH"] = ""
    done = test()
    assert done.returncode == 3
    assert "transferbench-dev" in done.stderr


def test_rocm_7_is_told_from_the_old_tool_by_its_plugin(rig, test):
    rig.amd(2)
    programs.install_rocm_7(rig.prefix)
    done = test()
    assert done.returncode == 0, done.stderr
    assert "(rocm-bandwidth-test 7.x)" in done.stderr
    assert "run tb p2p" in rig.calls[0]
    assert "hostdoctor on this output" in done.stdout
    assert "FAILURE" not in done.stdout
    assert "WARNING" not in done.stdout


def test_rocm_7_hides_its_failures_behind_status_0(rig, test):
    rig.amd(2)
    programs.install_rocm_7(rig.prefix)
    done = test("-t")
    assert done.returncode == 1
    assert "did not understand its command line" in said(done)[0]
    rig.scene(say="[CmdLine] -> Error: Plugin not found/registered properly: 'tb'")
    done = test("run", "tb", "p2p")
    assert done.returncode == 1
    assert "plugin 'tb' is not installed" in said(done)[0]


def test_what_follows_it_runs_in_its_place_and_is_named(rig, test):
    rig.amd(2).tool("TransferBench")
    done = test("-a")
    assert done.returncode == 0, done.stderr
    assert "has ended with ROCm 7.14" in done.stderr
    assert "P2P_MODE=1" in done.stderr
    assert rig.calls == ["TransferBench p2p 64M"]


def test_the_first_installation_counts(rig, test):
    """$ROCM_PATH before what lies on PATH."""
    rig.amd(2).tool("TransferBench")
    programs.install(rig.folder / "old", "rocm-bandwidth-test")
    rig.variables["PATH"] = f"{rig.folder}/old/bin:/usr/bin:/bin"
    test()
    assert rig.calls == ["TransferBench p2p 64M"]


def test_arguments_need_no_dashes_before_them(rig):
    rig.amd(2).tool("rocm-bandwidth-test")
    rig.variables["PATH"] = f"{rig.prefix}/bin:/usr/bin:/bin"
    done = rig.run("rocm-bandwidth-test", "-a", "-v")
    assert rig.calls == ["rocm-bandwidth-test -a -v"]
    assert "Data Path Validation" in done.stdout


def test_variables_that_change_its_output_do_not_reach_it(rig, test):
    rig.amd(2)
    folder = rig.prefix / "bin"
    folder.mkdir(parents=True)
    program = folder / "rocm-bandwidth-test"
    program.write_text('#!/bin/sh\necho "default=$ROCM_BW_DEFAULT_RUN iterations=$ROCM_BW_ITER_CNT"\n')
    program.chmod(0o755)
    rig.variables.update(ROCM_BW_DEFAULT_RUN="1", ROCM_BW_ITER_CNT="20")
    assert "default= iterations=20" in test("-A").stdout


def test_a_time_limit_ends_it_with_its_children(rig):
    rig.amd(2).tool("rocm-bandwidth-test").scene(park="-a", fifo=str(rig.fifo()), family=True)
    command = rig.command("rocm-bandwidth-test", "--timeout", 1, "--root", rig.tree.root, "--", "-a")
    with subprocess.Popen(command, env=rig.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        pipe = os.open(rig.fifo(), os.O_RDONLY)
        while os.read(pipe, 100):
            pass
        os.close(pipe)
        _, errors = run.communicate(timeout=60)
    assert run.returncode == 3
    assert "did not end within 1 s" in errors


# --- what it must not call a failure, and what it must -----------------------------------------------------------------

HEAD = "          RocmBandwidthTest Version: 2.6.0\n\n          Launch Command is: rocm-bandwidth-test -a\n\n"
DEVICES = (
    "          Device: 0,  AMD EPYC 7302 16-Core Processor\n"
    "          Device: 1,  AMD Radeon PRO V620,  GPU-000000001a2b0001,  03:0.0\n"
    "          Device: 2,  AMD Radeon PRO V620,  GPU-000000001a2b0002,  07:0.0\n"
)
HALF_A_TABLE = (
    "\n          Unidirectional copy peak bandwidth GB/s\n\n          D/D       0           1           2           \n\n"
    "          0         N/A         6.868       6.868       \n\n          1         6.868       846.479     6.6"
)


def test_a_tool_that_dies_within_a_table_did_not_measure_all(rig, test):
    rig.amd(2).tool("rocm-bandwidth-test").scene(say=HEAD + DEVICES + HALF_A_TABLE)
    done = test("-a")
    assert done.returncode == 1
    assert "a table of its output is not whole, so not all was measured (exit status 0)" in done.stderr
    assert "Nothing wrong found in it." not in done.stdout


def test_copies_too_small_to_be_judged_are_no_failure(rig, test):
    rig.amd(2).tool("rocm-bandwidth-test")
    done = test("-s", "1", "-d", "2", "-m", "16")
    assert done.returncode == 0, done.stderr
    assert said(done) == ["hostdoctor: nothing in this output can be judged here"]


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (("plugin", "--list"), "- tb   > Builtin: TransferBench   > Version: 1.0.0"),
        (("run", "tb", "smoketest"), "TransferBench v1.67.00\nAll tests passed"),
        (("run", "tb", "p2p_latency"), "Pingpong round-trip latency per lap (us), each pair run by itself\n"),
    ],
)
def test_what_measures_nothing_that_can_be_judged_is_no_failure(rig, test, arguments, output):
    rig.amd(2).scene(say=output)
    programs.install_rocm_7(rig.prefix)
    done = test(*arguments)
    assert done.returncode == 0, done.stderr
    assert "measured nothing" not in done.stderr


def test_tests_that_failed_behind_status_0(rig, test):
    rig.amd(2).scene(say="TransferBench v1.67.00\n[WARN] 3 Tests FAILED")
    programs.install_rocm_7(rig.prefix)
    done = test("run", "tb", "smoketest")
    assert done.returncode == 1
    assert "3 of its tests failed" in done.stderr


def test_a_table_that_was_asked_for_and_did_not_come_is_a_failure(rig, test):
    rig.amd(2).scene(say="TransferBench v1.67.00")
    programs.install_rocm_7(rig.prefix)
    done = test("run", "tb", "p2p")
    assert done.returncode == 1
    assert "it measured nothing (exit status 0)" in done.stderr
