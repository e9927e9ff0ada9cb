"""Whether data arrive between GPUs as they were sent, by tests that compare them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hostdoctor.facts.bandwidth import Verification, is_host
from hostdoctor.findings import Check, Evidence, Finding
from hostdoctor.view import View

ID = "p2p-data"

_NOT_PROVEN = "Copies by the tool were compared. Kernels that read and write peer memory, as NCCL's and RCCL's do, were not."


def judge(view: View) -> Iterator[Finding]:
    """One finding for each ordered pair that a run speaks of, and one for each GPU whose own or host copies were wrong."""
    verifications = view.measured.verifications
    found: dict[tuple[str, ...], list[Verification]] = {}
    for each in verifications:
        found.setdefault(_subject(each), []).append(each)
    pairs = {ends: found.pop(ends, []) for ends in dict.fromkeys((*view.measured.pairs, *(s for s in found if len(s) == 2)))}
    for ends, tests in pairs.items():
        yield _judge_pair((ends[0], ends[1]), tests)
    for subject, tests in found.items():
        if wrong := _first(tests, right=False):
            yield _wrong(subject, wrong)


def _subject(verification: Verification) -> tuple[str, ...]:
    """The pair; one GPU where the other end is the host or the GPU itself; nothing where the tool does not tell."""
    ends = [end for end in (verification.origin, verification.target) if end and not is_host(end)]
    return tuple(dict.fromkeys(ends))


def _first(tests: Sequence[Verification], *, right: bool) -> Verification | None:
    return next((each for each in tests if each.right is right), None)


def _judge_pair(ends: tuple[str, str], tests: Sequence[Verification]) -> Finding:
    if wrong := _first(tests, right=False):
        return _wrong(ends, wrong)
    if right := _first(tests, right=True):
        evidence = (_evidence(right),)
        return Finding(ID, "ok", ends, "data arrived as they were sent", _NOT_PROVEN, "certain", evidence)
    if tests:
        title = "data not judged: the test that compares them says N/A for this pair"
        return Finding(ID, "unknown", ends, title, evidence=(_evidence(tests[0]),), help="")
    title = "data not judged: no recorded run compared them for this pair"
    return Finding(ID, "unknown", ends, title, "Neither a granted access nor a rate tells that what arrives is right.")


def _wrong(subject: tuple[str, ...], wrong: Verification) -> Finding:
    what = "data arrive wrong between the two GPUs"
    if len(subject) == 1:
        where = "inside the GPU" if wrong.origin == wrong.target else "between the GPU and the host"
        what = f"data arrive wrong in copies {where}"
    elif not subject:
        what = "data arrived wrong; the tool does not tell in which copy"
    way = f" The copy went from {wrong.origin} to {wrong.target}." if wrong.origin else ""
    return Finding(
        ID,
        "failure",
        subject,
        what,
        "What arrived is not what was sent: programs that use this way compute with wrong numbers, without any error."
        f"{way} Usual causes are an IOMMU that translates peer addresses, a root complex that drops peer writes, and a driver "
        "that was patched to allow P2P.",
        "certain",
        (_evidence(wrong),),
        remedies=("distrust-p2p",),
        next="keep P2P off (NCCL_P2P_DISABLE=1) until the test passes; look for IOMMU faults in the kernel log",
    )


def _evidence(verification: Verification) -> Evidence:
    ends = f"{verification.origin} to {verification.target}: " if verification.origin else ""
    return Evidence(verification.source, f"{ends}{verification.text}")


CHECK = Check(
    id=ID,
    subject="ordered pair",
    summary="Data copied between GPUs arrive as they were sent.",
    looks_at="Runs that compare data: hostdoctor bandwidth, rocm-bandwidth-test -a -v, TransferBench, simpleP2P, and "
    "nvbandwidth where its command shows that it was not told to skip "
    "that. p2pBandwidthLatencyTest and rocm-bandwidth-test without -v compare none.",
    why="P2P that is allowed and fast can still deliver zeroes or stale bytes, and no program notices.",
    decides="A failure for any wrong byte; ok where the data of a pair were compared and right; unknown where a run copied "
    "between two GPUs and nothing compared the data.",
    sources=(
        "ROCm rocm_bandwidth_test rocm_bandwidth_test_report.cpp: Data Path Validation",
        "ROCm TransferBench: every Transfer is validated after its last iteration",
        "NVIDIA cuda-samples simpleP2P.cu; p2pBandwidthLatencyTest.cu compares nothing",
        "NVIDIA nvbandwidth memcpy.cpp: a pattern is compared unless -s is given",
    ),
    judge=judge,
    remedies=("distrust-p2p",),
    nothing="no recorded measurement between GPUs",
    bare_metal_only=False,
    needs_pci=False,
)
