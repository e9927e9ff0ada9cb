"""Host copies against the card's link."""

from __future__ import annotations

import msgspec
import pytest

from hostdoctor.facts.bandwidth import Broken

A, B = "0000:43:00.0", "0000:83:00.0"


def host_copies(build, to_gpu, from_gpu, gpu=A, node="host:0", **more):
    return (build.copy(node, gpu, to_gpu, **more), build.copy(gpu, node, from_gpu, **more))


def measured(build, *transfers, at=None, **more):
    return build.host(build.two_navi_cards(at=at), runs=(build.run(*transfers, **more),))


def test_a_node_that_may_be_the_far_one_makes_no_failure(build, verdict):
    """Two sockets, a firmware that tells no node of the GPU, and copies of one node alone."""
    far = measured(build, *host_copies(build, 28.5, 11.3))
    function = msgspec.structs.replace(far.functions[A], numa_node=-1)
    far = msgspec.structs.replace(far, functions={**far.functions, A: function})
    two = msgspec.structs.replace(far, cpu=msgspec.structs.replace(far.cpu, sockets=2))
    one = msgspec.structs.replace(far, cpu=msgspec.structs.replace(far.cpu, sockets=1))
    assert verdict("host-bandwidth", one).outcome == "failure"
    found = verdict("host-bandwidth", two)
    assert found.outcome == "warning"
    assert "Which node is near is not known here" in found.explanation


# A link of 16 GT/s x16 carries 31.5 GB/s each way; 23.6 are in order, below 18.9 something is wrong.
@pytest.mark.parametrize(
    ("to_gpu", "from_gpu", "outcome"),
    [(26.0, 27.0, "ok"), (23.7, 26.0, "ok"), (23.5, 26.0, "warning"), (26.0, 19.0, "warning"), (12.0, 12.5, "failure")],
)
def test_shares_of_the_link(build, verdict, to_gpu, from_gpu, outcome):
    assert verdict("host-bandwidth", measured(build, *host_copies(build, to_gpu, from_gpu))).outcome == outcome


@pytest.mark.parametrize(("speed", "width", "rate"), [(8.0, 8, 6.8), (8.0, 16, 13.0), (16.0, 4, 6.6), (32.0, 16, 55.0)])
def test_each_link_has_its_own_rate(build, verdict, speed, width, rate):
    at = build.link(speed, width, 32.0, 16)
    port = build.link(speed, width, speed, width)
    described = build.host(
        build.root_port("0000:40:01.1", at=port),
        build.navi_card(0x41, "0000:40:01.1", at=at),
        runs=(build.run(*host_copies(build, rate, rate)),),
    )
    assert verdict("host-bandwidth", described).outcome == "ok"


def test_a_slow_card_among_others_says_what_it_costs(build, judge, text):
    transfers = (*host_copies(build, 26.0, 27.0), *host_copies(build, 3.0, 3.1, gpu=B))
    found = {each.subject: each for each in judge("host-bandwidth", measured(build, *transfers))}
    assert found[A,].outcome == "ok"
    slow = found[B,]
    assert slow.outcome == "failure"
    assert (slow.cost.have_gbs, slow.cost.could_have_gbs) == (3.0, pytest.approx(23.63, abs=0.01))
    assert "run.txt:9" in text(slow)
    assert "3.0 to 3.1 GB/s" in slow.title


def test_without_a_link_only_the_figure(build, verdict):
    described = build.host(
        build.function(A, build.V620, 0x030000, parent=build.NOT_CAPTURED, driver="amdgpu"),
        runs=(build.run(*host_copies(build, 6.0, 6.1)),),
    )
    found = verdict("host-bandwidth", described)
    assert found.outcome == "info"
    assert "6.0 to 6.1 GB/s" in found.title


def test_a_direction_at_less_than_half_needs_no_link(build, verdict):
    described = build.host(
        build.function(A, build.V620, 0x030000, parent=build.NOT_CAPTURED, driver="amdgpu"),
        runs=(build.run(*host_copies(build, 28.5, 11.3)),),
    )
    assert verdict("host-bandwidth", described).outcome == "warning"


def test_a_device_nobody_knows_gets_its_figure(build, verdict):
    described = build.host(runs=(build.run(*host_copies(build, 25.3, 26.8, gpu="GPU0", node="host")),))
    found = verdict("host-bandwidth", described)
    assert (found.outcome, found.subject) == ("info", ("GPU0",))


def test_more_than_pcie_carries_is_another_link(build, verdict):
    found = verdict("host-bandwidth", measured(build, *host_copies(build, 402.7, 296.9)))
    assert found.outcome == "info"
    assert "more than PCIe" in found.title


def test_the_near_node_counts_and_a_far_one_is_no_fault(build, verdict, text):
    near = host_copies(build, 26.0, 27.0)
    assert verdict("host-bandwidth", measured(build, *near, *host_copies(build, 20.0, 19.0, node="host:1"))).outcome == "ok"
    found = verdict("host-bandwidth", measured(build, *near, *host_copies(build, 26.0, 11.3, node="host:1")))
    assert found.outcome == "info"
    assert "11.3" in text(found)


@pytest.mark.parametrize("more", [{"contended": True}, {"both_ways": True}])
def test_copies_beside_others_are_no_measure(build, verdict, more):
    assert verdict("host-bandwidth", measured(build, *host_copies(build, 12.0, 12.0, **more))).outcome == "unknown"


def test_kernels_are_never_too_slow(build, verdict):
    assert verdict("host-bandwidth", measured(build, *host_copies(build, 17.0, 26.0, engine="kernel"))).outcome == "info"
    assert verdict("host-bandwidth", measured(build, *host_copies(build, 26.0, 26.0, engine="kernel"))).outcome == "ok"


def test_what_was_not_measured_is_not_slow(build, verdict):
    assert verdict("host-bandwidth", measured(build, build.copy("host:0", A))).outcome == "unknown"


def test_no_rate_of_wrong_data(build, verdict, text):
    found = verdict("host-bandwidth", measured(build, *host_copies(build, 26.0, 27.0), verified=(("host:0", A, False),)))
    assert found.outcome == "unknown"
    assert "26" not in text(found)


def test_a_chipset_slot_is_not_judged(build, verdict):
    described = build.host(
        build.root_port("0000:00:1c.0", "8086:a110", at=build.link(16.0, 4)),
        build.gpu(A, build.A5000, "0000:00:1c.0", at=build.link(16.0, 4, 16.0, 16)),
        runs=(build.run(*host_copies(build, 3.0, 3.0)),),
    )
    assert verdict("host-bandwidth", described).outcome == "info"


def test_a_guest_is_not_judged(build, verdict):
    described = build.host(build.two_navi_cards(), environment=build.GUEST, runs=(build.run(*host_copies(build, 3.0, 3.0)),))
    assert verdict("host-bandwidth", described).outcome == "not-applicable"


def test_nothing_recorded_is_not_applicable(build, verdict):
    assert verdict("host-bandwidth", build.host(build.two_navi_cards())).outcome == "not-applicable"


def test_a_copy_that_did_not_end_is_a_failure(build, judge):
    described = measured(build, *host_copies(build, 26.0, 27.0), *host_copies(build, 26.0, 27.0, gpu=B))
    (run,) = described.runs
    broken = (Broken("host:0", A, "it began and never ended", "run.jsonl:9"),)
    described = msgspec.structs.replace(described, runs=(msgspec.structs.replace(run, broken=broken),))
    found = {each.subject: each.outcome for each in judge("host-bandwidth", described)}
    assert found == {(A,): "failure", (B,): "ok"}
