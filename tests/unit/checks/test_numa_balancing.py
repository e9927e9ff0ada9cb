"""numa-balancing: automatic balancing where several nodes and GPUs meet."""

from __future__ import annotations

import pytest

from hostdoctor.facts.unknown import NOT_CAPTURED

ID = "numa-balancing"


@pytest.fixture
def over(build):
    def judged(nodes, balancing):
        return build.verdict(ID, build.host(build.two_navi_cards(), nodes=nodes, balancing=balancing))

    return judged


@pytest.mark.parametrize("balancing", [1, 3])
def test_on_with_several_nodes_is_a_warning(over, text, balancing):
    found = over((0, 1), balancing)
    assert (found.outcome, found.confidence, found.subject) == ("warning", "certain", ())
    assert found.remedies == ("numa-balancing-off",)
    assert "2 memory nodes" in found.title
    assert f"/proc/sys/kernel/numa_balancing {balancing}" in text(found)
    assert "sysctl kernel.numa_balancing=0" in found.next


@pytest.mark.parametrize("balancing", [0, 2])
def test_off_or_memory_tiering_alone_is_in_order(over, balancing):
    assert over((0, 1), balancing).outcome == "ok"


@pytest.mark.parametrize("balancing", [0, 1, NOT_CAPTURED])
def test_with_one_node_there_is_nothing_to_balance(over, balancing):
    assert over((0,), balancing).outcome == "ok"


@pytest.mark.parametrize(("nodes", "balancing"), [((0, 1), NOT_CAPTURED), (NOT_CAPTURED, 1), (NOT_CAPTURED, NOT_CAPTURED)])
def test_missing_facts_are_unknown(over, nodes, balancing):
    assert over(nodes, balancing).outcome == "unknown"


def test_off_is_in_order_whatever_the_nodes(over):
    assert over(NOT_CAPTURED, 0).outcome == "ok"


def test_not_judged_without_a_gpu_nor_in_a_guest(build, verdict):
    assert verdict(ID, build.host(nodes=(0, 1), balancing=1)).outcome == "not-applicable"
    guest = build.host(build.two_navi_cards(), nodes=(0, 1), balancing=1, environment=build.GUEST)
    assert verdict(ID, guest).outcome == "not-applicable"
