"""rocminfo, whole, cut and failing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.rocminfo import parse_rocminfo

GPU = """*******
Agent 2
*******
  Name:                    gfx90a
  Uuid:                    GPU-1
  Marketing Name:          AMD Instinct MI250X
  Vendor Name:             AMD
  Device Type:             GPU
  Chip ID:                 29704(0x7408)
  ASIC Revision:           1(0x1)
  Max Clock Freq. (MHz):   1700
  BDFID:                   10496
  Pool Info:
    Pool 1
      Size:                    67092480(0x3ffc000) KB
  ISA Info:
    ISA 1
      Name:                    amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-
"""
CPU = """*******
Agent 1
*******
  Name:                    AMD EPYC 7A53
  Device Type:             CPU
  Chip ID:                 0(0x0)
  BDFID:                   0
"""
OPENING = "ROCk module is loaded\nUnable to open /dev/kfd read-write: {}\n"


def parse(text):
    return parse_rocminfo(text.splitlines())


def test_agents():
    first, second = parse(CPU + GPU).agents
    assert (first.is_gpu, first.address) == (False, "")
    assert (second.is_gpu, second.address, second.chip_id) == (True, "29:00.0", 0x7408)
    assert second.name == "AMD Instinct MI250X"


def test_device_and_function_of_the_address():
    assert parse(GPU.replace("10496", str(0x43 << 8 | 0x1F << 3 | 5))).agents[0].address == "43:1f.5"
    assert parse(GPU.replace("10496", "99999")).agents[0].address == ""


def test_a_paste_that_begins_within_an_agent():
    (found,) = parse(GPU.partition("Agent 2\n*******\n")[2]).agents
    assert found.chip_id == 0x7408


def test_an_agent_that_is_cut_before_its_type_is_left_out():
    assert parse(GPU.partition("  Device Type")[0]).agents == ()


def test_an_integrated_one():
    assert parse(GPU.replace("  Pool Info:", "  Memory Properties:       APU\n  Pool Info:")).agents[0].integrated


def test_what_opening_answers():
    found = parse(OPENING.format("Permission denied") + "a is member of render group\n")
    assert (found.kfd.line, found.kfd.text) == (1, "Permission denied")
    assert found.member.text == "a is member of render group"
    assert parse(OPENING.format("Permission denied")).member is None


def test_modules_and_runtime():
    assert parse("ROCk module is NOT loaded, possibly no GPU devices").module.line == 0
    assert parse("ROCk module is NOT live, possibly no GPU devices").module
    assert parse("ROCk module version 6.8.5 is loaded").module is None
    assert parse("Call returned HSA_STATUS_ERROR_OUT_OF_RESOURCES: x").runtime
    assert parse("hsa_init Failed, possibly no supported GPU devices").runtime
    assert parse("WSL environment detected.").wsl


@given(st.text())
def test_any_text(text):
    parse(text)


@given(st.integers(0, len(CPU + GPU)))
def test_cut_anywhere(length):
    assert len(parse((CPU + GPU)[:length]).agents) <= 2
