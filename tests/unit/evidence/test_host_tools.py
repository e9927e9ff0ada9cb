"""Tools are run with a deadline, and never where they would wake somebody."""

from __future__ import annotations

import os

import pytest

from hostdoctor.evidence import host_tools
from hostdoctor.facts.pci import ATI, NVIDIA, Function, Power

GPU, PORT, SOUND = "0000:41:00.0", "0000:40:01.1", "0000:41:00.1"


def functions(gpu="active", sound="active", vendor=NVIDIA, driver="nvidia"):
    port = Function(PORT, 0x1022, 0x1483, 0x060400, driver="pcieport", parent=None, power=Power("active", "D0"))
    card = Function(GPU, vendor, 1, 0x030000, driver=driver, parent=PORT, power=Power(gpu, "D0"))
    other = Function(SOUND, vendor, 2, 0x040300, parent=PORT, power=Power(sound, "D3hot"))
    return {each.address: each for each in (port, card, other)}


def test_what_a_tool_prints():
    assert host_tools.run(["echo", "a b"], 10.0) == host_tools.Output(b"a b\n")
    assert host_tools.run(["no-such-tool-anywhere"], 10.0) is None


def test_a_tool_that_fails_or_hangs_is_named():
    assert host_tools.run(["false"], 10.0).problem == "it ended with status 1"
    assert host_tools.run(["sleep", "60"], 0.2).problem == "it did not end within 0.2 s"


def test_a_tool_that_prints_without_end_is_cut(monkeypatch):
    monkeypatch.setattr(host_tools, "_OUTPUT_LIMIT", 1 << 17)
    output = host_tools.run(["yes"], 30.0)
    assert len(output.data) == 1 << 17
    assert "more than" in output.problem


def test_a_tool_inherits_nothing(monkeypatch):
    """LD_PRELOAD and the like stay here; what it prints is English."""
    monkeypatch.setenv("HOSTDOCTOR_SECRET", "x")
    output = host_tools.run(["env"], 10.0).data.decode()
    assert "HOSTDOCTOR_SECRET" not in output
    assert "LC_ALL=C.UTF-8" in output


@pytest.mark.parametrize("asleep", ["suspended", "suspending"])
def test_no_sleeping_gpu_is_looked_at(asleep):
    plan = {name: (commands, why) for name, commands, why in host_tools._plan(functions(gpu=asleep))}
    assert [command[-1] for command in plan["lspci"][0]] == [PORT]
    assert all("woken" in why for name, (_, why) in plan.items() if name.startswith("nvidia"))


def test_where_something_else_sleeps_lspci_shows_gpus_and_what_is_above_them():
    plan = {name: commands for name, commands, _ in host_tools._plan(functions(sound="suspended"))}
    assert [command[-1] for command in plan["lspci"]] == [PORT, GPU]


def test_tools_of_the_vendors_that_are_there():
    plan = [name for name, _, _ in host_tools._plan(functions())]
    assert plan == ["lspci", "nvidia-smi-q", "nvidia-smi-topo"]
    plan = [name for name, _, _ in host_tools._plan(functions(vendor=ATI, driver="amdgpu"))]
    assert plan == ["lspci", "rocm-smi-topology", "amd-smi-topology", "amd-smi-static"]
    assert [name for name, _, _ in host_tools._plan(functions(driver="vfio-pci"))] == ["lspci"]


def test_a_record_of_the_kernels_log_is_a_line():
    assert host_tools._as_dmesg(b"6,339,5140900,-;NET: Registered\n SUBSYSTEM=pci\n") == b"[    5.140900] NET: Registered\n"
    assert host_tools._as_dmesg(b"4,1,0,-;a\\x09b\\x0ac \xff") == "[    0.000000] a\tb c \ufffd\n".encode()
    assert host_tools._as_dmesg(b"") == b"[    0.000000] \n"


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="the kernel's log may not be read here")
def test_the_log_of_this_kernel():
    log = host_tools.kernel_log(10.0)
    assert log.problem == ""
    assert log.data.startswith(b"[")
