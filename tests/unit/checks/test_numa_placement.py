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


def test_functions_tell_that_there_are_several_nodes(build, verdict):
    """As lspci prints them, in a text without the host's own list of nodes."""
    parts = build.changed(build.two_navi_cards(), build.SECOND, numa_node=1)
    assert verdict(ID, build.host(parts, nodes=NOT_CAPTURED)).outcome == "info"
    assert verdict(ID, build.host(build.two_navi_cards(), nodes=NOT_CAPTURED)).outcome == "unknown"


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


# --- network cards and drives near the GPUs ---------------------------------------------------------------------------

NEAR, FAR = "0000:51:00.0", "0000:91:00.0"


def neighbours(build, judge, *parts, network=(), nodes=(0, 1), **gpus):
    found = judge(ID, build.host(build.two_navi_cards(**gpus), *parts, network=network, nodes=nodes))
    return [each for each in found if "nearer" in each.title]


def cards(build, first=0, second=1):
    return build.rdma_card(NEAR, numa_node=first), build.rdma_card(FAR, numa_node=second)


def test_the_nearest_rdma_card_of_each_gpu(build, judge):
    network = build.network(mlx5_0=NEAR, mlx5_1=FAR)
    parts = build.changed(build.two_navi_cards(), build.SECOND, numa_node=1)
    (found,) = [
        each for each in judge(ID, build.host(parts, cards(build), network=network, nodes=(0, 1))) if "nearer" in each.title
    ]
    assert (found.outcome, found.subject, found.remedies) == ("info", (build.FIRST, build.SECOND), ("numa-bind",))
    assert f"{build.FIRST}: mlx5_0 ({NEAR}), same node" in found.explanation
    assert f"{build.SECOND}: mlx5_1 ({FAR}), same node" in found.explanation


def test_a_card_below_the_same_switch_is_nearest(build, judge):
    parts = build.below_one_switch()
    nic = build.rdma_card("0000:31:00.0", "0000:02:01.0", numa_node=0)
    far = build.rdma_card(FAR, numa_node=0)
    network = build.network(mlx5_0="0000:31:00.0", mlx5_1=FAR)
    found = judge(ID, build.host(parts, nic, far, network=network))
    assert [each.outcome for each in found] == ["info", "ok"]
    assert "mlx5_0 (0000:31:00.0), below the same switch" in found[0].explanation


def test_drives_too(build, judge):
    drives = build.nvme(NEAR, numa_node=0), build.nvme(FAR, numa_node=1)
    (found,) = neighbours(build, judge, *drives)
    assert found.title == "some NVMe drives are nearer to a GPU than others"
    assert f"NVMe {NEAR}, same node" in found.explanation


def test_nothing_is_said_where_all_are_equally_near(build, judge):
    network = build.network(mlx5_0=NEAR, mlx5_1=FAR)
    assert not neighbours(build, judge, *cards(build, 0, 0), network=network)
    assert not neighbours(build, judge, *cards(build, 1, 1), network=network)
    assert not neighbours(build, judge, cards(build)[0], network=network)


def test_cards_without_rdma_or_of_which_nothing_is_known_are_left_out(build, judge):
    assert not neighbours(build, judge, *cards(build))
    assert not neighbours(build, judge, *cards(build), network=NOT_CAPTURED)
    network = build.network(mlx5_0=NEAR, mlx5_1=FAR)
    assert not neighbours(build, judge, *cards(build, NOT_CAPTURED, 0), network=network)
    assert not neighbours(build, judge, *cards(build), network=network, numa_node=NOT_CAPTURED)
