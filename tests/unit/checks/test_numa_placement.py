"""numa-placement: at which memory nodes the GPUs sit."""

from __future__ import annotations

from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown

ID = "numa-placement"
UNSAID = Unknown("the firmware names no memory node for it")


def test_one_node(build, verdict):
    found = verdict(ID, build.host(build.two_navi_cards()))
    assert (found.outcome, found.subject) == ("ok", (build.FIRST, build.SECOND))


def test_all_at_one_node(build, verdict, text):
    found = verdict(ID, build.host(build.two_navi_cards(numa_node=1), nodes=(0, 1)))
    assert found.outcome == "ok"
    assert "node 1" in found.title


def test_spread_over_nodes_is_a_fact(build, verdict):
    parts = build.changed(build.two_navi_cards(), build.SECOND, numa_node=1)
    found = verdict(ID, build.host(parts, nodes=(0, 1)))
    assert (found.outcome, found.subject) == ("info", (build.FIRST, build.SECOND))
    assert f"node 0: {build.FIRST}; node 1: {build.SECOND}" in found.explanation
    assert "tensor parallel" in found.cost.text
    assert found.remedies == ("numa-bind",)


def test_firmware_that_does_not_say_is_a_fact_about_those_gpus(build, verdict, text):
    parts = build.changed(build.two_navi_cards(), build.SECOND, numa_node=UNSAID)
    found = verdict(ID, build.host(parts, nodes=(0, 1)))
    assert (found.outcome, found.subject) == ("info", (build.SECOND,))
    assert found.title == "the firmware does not say at which of 2 memory nodes the GPU sits"
    assert f"{build.SECOND}/numa_node -1" in text(found)


def test_several_gpus_without_a_node_are_counted(build, verdict):
    found = verdict(ID, build.host(build.two_navi_cards(numa_node=UNSAID), nodes=(0, 1)))
    assert found.title.endswith("2 GPUs sit")


def test_one_node_needs_no_word_of_the_firmware(build, verdict):
    assert verdict(ID, build.host(build.two_navi_cards(numa_node=UNSAID))).outcome == "ok"


def test_missing_facts_are_unknown_and_no_fault_of_the_firmware(build, verdict):
    found = verdict(ID, build.host(build.two_navi_cards(numa_node=NOT_CAPTURED), nodes=(0, 1)))
    assert found.outcome == "unknown"
    assert "firmware" not in found.title
    assert verdict(ID, build.host(build.two_navi_cards(), nodes=NOT_CAPTURED)).outcome == "unknown"


def test_not_judged_without_a_gpu_nor_in_a_guest(build, verdict):
    assert verdict(ID, build.host(nodes=(0, 1))).outcome == "not-applicable"
    guest = build.host(build.two_navi_cards(), nodes=(0, 1), environment=build.GUEST)
    assert verdict(ID, guest).outcome == "not-applicable"
