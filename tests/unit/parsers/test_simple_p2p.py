"""simpleP2P: access, rate, and whether its data were right."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.paste import Part, split
from hostdoctor.parsers.simple_p2p import parse

PASSED = """\
[./simpleP2P] - Starting...
Checking for multiple GPUs...
CUDA-capable device count: 2

Checking GPU(s) for support of peer to peer memory access...
> Peer access from NVIDIA H100 PCIe (GPU0) -> NVIDIA H100 PCIe (GPU1) : Yes
> Peer access from NVIDIA H100 PCIe (GPU1) -> NVIDIA H100 PCIe (GPU0) : No
Enabling peer access between GPU0 and GPU1...
Allocating buffers (64MB on GPU0, GPU1 and CPU Host)...
Creating event handles...
cudaMemcpyPeer / cudaMemcpy between GPU0 and GPU1: 10.00GB/s
Preparing host buffer and memcpy to GPU0...
Run kernel on GPU1, taking source data from GPU0 and writing to GPU1...
Run kernel on GPU0, taking source data from GPU1 and writing to GPU0...
Copy data back to host from GPU0 and verify results...
Disabling peer access...
Shutting down...
Test passed
"""
ERRORS = "Verification error @ element 1: val = 0.000000, ref = 4.000000\n"
FAILED = PASSED.replace("Disabling", f"{ERRORS}Disabling").replace("Test passed", "Test failed!")


def read(text):
    runs = [run for part in split(text, "simple.txt") if part.kind == "simple-p2p" and (run := parse(part))]
    assert len(runs) == 1
    return runs[0]


def test_its_gigabytes_are_powers_of_two():
    (transfer,) = read(PASSED).transfers
    assert transfer.gbs == pytest.approx(10.73741824)
    assert (transfer.origin, transfer.target, transfer.peer_access) == ("GPU0", "GPU1", True)


def test_access_and_names():
    run = read(PASSED)
    assert [(word.accessor, word.owner, word.allowed) for word in run.words] == [
        ("GPU0", "GPU1", True),
        ("GPU1", "GPU0", False),
    ]
    assert [device.name for device in run.devices] == ["NVIDIA H100 PCIe"] * 2


def test_passed_proves_both_directions():
    assert [(each.origin, each.right) for each in read(PASSED).verifications] == [("GPU0", True), ("GPU1", True)]


def test_a_wrong_element_does_not_tell_the_direction():
    tests = read(FAILED).verifications
    assert [(each.origin, each.right) for each in tests] == [("GPU0", False), ("GPU1", False)]
    assert "element 1" in tests[0].text


def test_errors_count_where_the_end_is_cut_off():
    run = read(FAILED[: FAILED.index("Disabling")])
    assert run.cut
    assert {each.right for each in run.verifications} == {False}


def test_errors_alone_are_wrong_data_somewhere():
    (test,) = read(ERRORS).verifications
    assert (test.right, test.origin) == (False, "")


def test_a_waived_test_proves_nothing():
    text = "[simpleP2P] - Starting...\nTwo or more GPUs with Peer-to-Peer access capability are required.\nWaiving test.\n"
    (part,) = split(text, "simple.txt")
    assert parse(part) is None


def test_the_port_to_hip():
    text = (
        PASSED.replace("cuda", "hip")
        .replace("NVIDIA H100 PCIe", "AMD Instinct MI100")
        .replace("[./simpleP2P]", "[./simpleP2P_hip]")
    )
    assert read(text).devices[0].name == "AMD Instinct MI100"


@given(st.integers(0, len(FAILED)))
def test_cut_anywhere_it_is_read(end):
    for part in split(FAILED[:end], "simple.txt"):
        parse(part)


@given(st.lists(st.sampled_from([*FAILED.splitlines(), "Test passed", ""]), max_size=30))
def test_lines_in_any_order_are_read(lines):
    parse(Part("simple-p2p", "simple.txt", 1, tuple(lines)))


@given(st.text(max_size=200))
def test_any_text_is_read(text):
    parse(Part("simple-p2p", "simple.txt", 1, tuple(text.split("\n"))))
