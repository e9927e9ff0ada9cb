"""The checks as a whole: each is described, has its authorities, and a test of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostdoctor import checks, knowledge
from hostdoctor.registry import built_in

CHECKS = list(built_in())
EACH = pytest.mark.parametrize("check", CHECKS, ids=[check.id for check in CHECKS])

IDS = {
    "environment", "link-width", "link-speed", "slot-limit", "path-bottleneck", "shared-uplink", "device-lost",
    "iommu-mode", "acs-redirect", "kernel-parameters", "bar-unassigned", "bar-size", "bar-reach", "window-space",
    "p2p-kernel", "p2p-pair", "numa-placement", "numa-balancing", "payload-size", "pcie-atomics", "link-stability",
    "link-errors", "gpu-driver", "gpu-access", "gpu-faults", "iommu-faults",
    "kernel-parameters-pending", "p2p-bandwidth", "p2p-data", "host-bandwidth",
}  # fmt: skip

# Those that judge what a guest has for itself, or tell that it is one.
IN_GUESTS_TOO = {"environment", "kernel-parameters", "gpu-faults", "p2p-data"}

# Most scans look once: that must not leave something unknown in each of them.
ONLY_WHEN_WATCHED = {"link-stability"}
# And most come without a recorded measurement.
ONLY_WHEN_MEASURED = {"p2p-bandwidth", "p2p-data", "host-bandwidth"}


def test_the_ids_are_those_people_script_against():
    assert sorted(check.id for check in CHECKS) == sorted(IDS)


@EACH
def test_each_is_described(check):
    for text in (check.summary, check.looks_at, check.why, check.decides):
        assert text.endswith("."), text
        assert len(text) > 20
    assert check.subject
    assert check.nothing
    assert check.sources


@EACH
def test_each_names_remedies_that_exist(check):
    assert set(check.remedies) <= set(knowledge.load_remedies())


@EACH
def test_only_what_a_guest_has_for_itself_is_judged_there(check):
    assert check.bare_metal_only == (check.id not in IN_GUESTS_TOO)


@EACH
def test_each_has_a_file_and_a_test_of_its_name(check):
    name = check.id.replace("-", "_")
    assert Path(checks.__file__).with_name(f"{name}.py").is_file()
    assert Path(__file__).with_name(f"test_{name}.py").is_file()
    assert check.judge.__module__ == f"hostdoctor.checks.{name}"


def test_no_file_goes_without_a_check():
    files = {path.stem for path in Path(checks.__file__).parent.glob("*.py")} - {"__init__"}
    assert files == {id_.replace("-", "_") for id_ in IDS}


# --- what any host must survive ---------------------------------------------------------------------------------------


@EACH
def test_an_empty_host_gives_one_finding(build, check):
    """Every check says something, and none of it is a fault."""
    (found,) = build.judge(check.id, build.host())
    assert found.outcome in ("ok", "not-applicable")


@EACH
def test_a_host_in_order_raises_no_alarm(build, check):
    vram = {address: build.gpu_facts(32 * build.GIB) for address in (build.FIRST, build.SECOND)}
    described = build.host(
        build.two_navi_cards(),
        facts=vram,
        apertures=(("0000:40", 1 << 40, 15 << 40), ("0000:80", 1 << 40, 15 << 40)),
        samples=build.steady(build.FIRST, build.SECOND),
        runs=(build.run_in_order(build.FIRST, build.SECOND),),
    )
    assert {found.outcome for found in build.judge(check.id, described)} <= {"ok"}


@EACH
def test_bare_identities_are_never_in_order(build, check):
    """GPUs of which nothing is known but where they are: a missing fact is unknown, never ok."""
    nothing = {"driver": build.NOT_CAPTURED, "power": build.Power()}
    described = build.host(
        build.function(build.FIRST, build.V620, 0x030000, parent="0000:42:00.0", **nothing),
        build.function(build.SECOND, build.V620, 0x030000, parent="0000:82:00.0", **nothing),
        kernel=build.NOT_CAPTURED,
        cpu=build.Cpu(),
        command_line=build.NOT_CAPTURED,
        environment=build.Environment(build.NOT_CAPTURED),
        modules=build.NOT_CAPTURED,
        nodes=build.NOT_CAPTURED,
        balancing=build.NOT_CAPTURED,
        units=build.NOT_CAPTURED,
        error_counters=build.NOT_CAPTURED,
        access=build.NOT_CAPTURED,
        network=build.NOT_CAPTURED,
        log=None,
    )
    expected = "not-applicable" if check.id in ONLY_WHEN_WATCHED | ONLY_WHEN_MEASURED else "unknown"
    assert {found.outcome for found in build.judge(check.id, described)} == {expected}


@EACH
def test_gpus_of_an_integrated_kind_are_judged_by_none(build, check):
    described = build.host(
        build.root_port("0000:00:08.1", "1022:14dd"),
        build.gpu("0000:0a:00.0", "1002:164e", "0000:00:08.1", iommu_type="DMA-FQ", numa_node=build.NOT_CAPTURED),
        build.gpu("0000:00:02.0", "8086:a780", config=build.ConfigFacts(), bar_size=256 << 20),
        nodes=(0, 1),
        balancing=1,
        pcie_p2p=None,
    )
    assert {found.outcome for found in build.judge(check.id, described)} <= {"ok", "not-applicable"}
