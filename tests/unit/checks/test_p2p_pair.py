"""p2p-pair: what is said of each ordered pair. Which condition holds when is in test_p2p.py."""

from __future__ import annotations

import msgspec
import pytest

from hostdoctor.facts.driver import PairWord
from hostdoctor.facts.unknown import NEEDS_ROOT, NOT_CAPTURED, Unknown

ID = "p2p-pair"
FAR = 56 << 40


@pytest.fixture
def healthy(build):
    def make(kfd=NOT_CAPTURED, **facts):
        vram = {address: build.gpu_facts(32 << 30) for address in (build.FIRST, build.SECOND)}
        return build.host(build.two_navi_cards(**facts), facts=vram, kfd=kfd)

    return make


def test_every_ordered_pair_has_a_finding_accessor_first(build, judge, healthy):
    found = judge(ID, healthy())
    assert [each.subject for each in found] == [(build.FIRST, build.SECOND), (build.SECOND, build.FIRST)]


def test_a_prediction_is_likely_and_no_proof(build, judge, healthy):
    found = judge(ID, healthy())[0]
    assert (found.outcome, found.confidence) == ("ok", "likely")
    assert "Expected, not proven" in found.explanation
    assert "data was compared" in found.explanation
    assert found.remedies == ("measure-p2p",)
    assert found.cost.could_have_gbs == 31.51
    assert "31.5 GB/s" in found.cost.text
    assert "Tensor parallel" in found.cost.text


def test_the_drivers_own_verdict_makes_it_certain(build, judge, healthy, text):
    both = ((build.FIRST, build.SECOND), (build.SECOND, build.FIRST))
    found = judge(ID, healthy(build.kfd((build.FIRST, build.SECOND), both)))
    assert [(each.outcome, each.confidence) for each in found] == [("ok", "certain")] * 2
    assert "the driver says so too" in found[0].title
    assert "p2p_links" in text(found[0])


def test_a_driver_that_disagrees_makes_it_unknown(build, judge, healthy):
    one = ((build.FIRST, build.SECOND),)
    found = {each.subject: each for each in judge(ID, healthy(build.kfd((build.FIRST, build.SECOND), one)))}
    assert found[build.FIRST, build.SECOND].outcome == "ok"
    other = found[build.SECOND, build.FIRST]
    assert other.outcome == "unknown"
    assert "but the driver publishes none" in other.title
    assert "measure" in other.help


def test_a_driver_that_does_what_was_thought_impossible(build, judge, healthy):
    both = ((build.FIRST, build.SECOND), (build.SECOND, build.FIRST))
    found = judge(ID, healthy(build.kfd((build.FIRST, build.SECOND), both), bar_at=FAR))
    assert [each.outcome for each in found] == ["unknown", "unknown"]
    assert "publishes a P2P link" in found[0].title


def test_what_can_be_changed_is_a_failure(build, judge, healthy):
    found = judge(ID, healthy(bar_at=FAR))
    assert [each.outcome for each in found] == ["failure", "failure"]
    assert "44 bits" in found[0].title
    assert found[0].remedies == ("firmware-mmio-below-dma-limit",)
    assert "4 of 5 conditions hold, this one does not" in found[0].explanation
    assert "staged through host memory" in found[0].cost.text
    assert "31.5 GB/s" in found[0].cost.text


def test_a_driver_that_agrees_with_a_refusal(build, judge, healthy):
    found = judge(ID, healthy(build.kfd((build.FIRST, build.SECOND)), bar_at=FAR))
    assert [(each.outcome, each.confidence) for each in found] == [("failure", "certain")] * 2
    assert "own verdict agrees" in found[0].explanation


def test_the_slowest_link_on_either_way_is_the_cost(build, judge):
    parts = build.changed(build.two_navi_cards(), "0000:81:00.0", link=build.link(8.0, 4, 16.0, 16))
    found = judge(ID, build.host(parts))
    assert {each.cost.could_have_gbs for each in found} == {7.88}


def test_a_refusal_without_known_links_still_says_what_it_means(build, judge):
    parts = [each for each in build.host(build.two_navi_cards(bar_at=FAR)).functions.values() if each.base_class == 3]
    found = judge(ID, build.host(parts))
    assert found[0].cost.could_have_gbs is None
    assert "staged through host memory" in found[0].cost.text


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        ("10de:2684", "10de:2684", "refuses PCIe P2P on GeForce RTX 4090"),
        ("10de:2c33", "10de:28b0", "GPUs of the same chip, and these are AD107 and GB203"),
    ],
)
def test_nvidia_limits_are_by_design(build, judge, first, second, says):
    found = judge(ID, build.host(build.two_nvidia_gpus(first, second)))
    assert [(each.outcome, each.remedies) for each in found] == [("info", ())] * 2
    assert says in found[0].title
    assert "Nothing on this host is broken" in found[0].explanation
    assert "NVLink" in found[0].explanation


def test_a_translated_nvidia_pair_is_unknown_with_the_remedy(build, judge):
    found = judge(ID, build.host(build.two_nvidia_gpus(iommu_type="DMA-FQ")))
    assert [(each.outcome, each.remedies) for each in found] == [("unknown", ("iommu-passthrough",))] * 2


def test_a_host_bridge_the_kernel_does_not_list_is_by_design(build, judge):
    ports = ("0000:00:01.0", "0000:00:06.0")
    cards = [
        build.function("0000:00:00.0", "8086:a700", 0x060000),
        build.root_port(ports[0], "8086:a70d"),
        build.navi_card(0x41, ports[0]),
        build.root_port(ports[1], "8086:a74d"),
        build.navi_card(0x81, ports[1]),
    ]
    found = judge(ID, build.host(cards, cpu=build.INTEL))
    assert [(each.outcome, each.remedies) for each in found] == [("info", ())] * 2
    assert "0000:00:00.0 [8086:a700]" in found[0].title
    assert "no setting of firmware or kernel changes it" in found[0].explanation


def test_different_vendors_are_by_design(build, judge):
    parts = [
        build.two_navi_cards()[:2],
        build.root_port("0000:a0:01.1"),
        build.gpu("0000:a1:00.0", build.A5000, "0000:a0:01.1"),
    ]
    assert [each.outcome for each in judge(ID, build.host(parts))] == ["info", "info"]


def test_missing_facts_are_unknown_and_say_which(build, judge):
    acs = build.changed(build.below_one_switch(root_id="8086:7ab0"), "0000:02:00.0", config=NEEDS_ROOT)
    found = judge(ID, build.host(acs, cpu=build.INTEL))
    assert [each.outcome for each in found] == ["unknown", "unknown"]
    assert "needs root" in found[0].title
    found = judge(ID, build.host(build.two_navi_cards(driver=Unknown("not permitted"))))
    assert [each.outcome for each in found] == ["unknown", "unknown"]


@pytest.mark.parametrize(("driver", "shown"), [(None, "none"), ("nouveau", "nouveau")])
def test_another_driver_is_unknown_and_shown(build, judge, text, driver, shown):
    found = judge(ID, build.host(build.two_nvidia_gpus(driver=driver)))
    assert [(each.outcome, each.remedies) for each in found] == [("unknown", ("load-driver",))] * 2
    assert f"/driver {shown}" in text(found[0])
    found = judge(ID, build.host(build.two_navi_cards(driver=driver and "radeonfb")))
    assert [each.outcome for each in found] == ["unknown", "unknown"]


def test_intel_gpus_have_no_rule_yet(build, judge):
    parts = [build.two_nvidia_gpus("8086:e20b")]
    assert [each.outcome for each in judge(ID, build.host(parts))] == ["unknown", "unknown"]


def test_not_judged_with_one_gpu_nor_in_a_guest(build, verdict):
    one = build.host(build.root_port("0000:40:01.1"), build.navi_card(0x41, "0000:40:01.1"))
    assert verdict(ID, one).outcome == "not-applicable"
    assert verdict(ID, build.host(build.two_navi_cards(), environment=build.GUEST)).outcome == "not-applicable"
    given_away = build.changed(build.two_navi_cards(), build.SECOND, driver="vfio-pci")
    assert verdict(ID, build.host(given_away)).outcome == "not-applicable"


def test_the_drivers_yes_stands_for_conditions_that_could_not_be_seen(build, judge):
    both = ((build.FIRST, build.SECOND), (build.SECOND, build.FIRST))
    found = judge(
        ID, build.host(build.two_navi_cards(), kfd=build.kfd((build.FIRST, build.SECOND), both), modules=NOT_CAPTURED)
    )
    assert [(each.outcome, each.confidence) for each in found] == [("ok", "certain")] * 2
    assert "the driver publishes a link" in found[0].title
    assert "Not every condition could be seen" in found[0].explanation


# --- what a tool was told ---------------------------------------------------------------------------------------------


def told(build, functions, allowed, text="access", link=""):
    """A host of which only a tool's output tells, and what it was told of access each way."""
    gpus = [each.address for each in functions]
    words = [PairWord(a, b, allowed, text, "rbt.txt:19", link) for a in gpus for b in gpus if a != b]
    return build.host(
        functions,
        cpu=build.Cpu(),
        modules=build.NOT_CAPTURED,
        kernel=build.NOT_CAPTURED,
        pair_words=tuple(words),
    )


def named(build, *names, vendor="1002"):
    return [
        build.function(
            f"0000:{number:02x}:00.0",
            f"{vendor}:0000",
            0x030000,
            parent=build.NOT_CAPTURED,
            driver="amdgpu" if vendor == "1002" else "nvidia",
            origin=f"rbt.txt:{number}",
            name=name,
        )
        for number, name in enumerate(names, 1)
    ]


def test_a_refusal_that_nothing_explains_is_a_warning(build, judge, text):
    found = judge("p2p-pair", told(build, named(build, "Radeon RX 7900 XT", "Radeon RX 7900 XT"), False))
    assert {each.outcome for each in found} == {"warning"}
    assert "attach lspci -vvv" in text(found[0])
    assert "rbt.txt:19" in text(found[0])


def test_a_refusal_that_the_facts_explain_is_theirs(build, judge):
    described = build.host(
        build.two_navi_cards(),
        pcie_p2p=None,
        pair_words=(PairWord(build.FIRST, build.SECOND, False, "access 0", "rbt.txt:19"),),
    )
    found = next(each for each in judge("p2p-pair", described) if each.subject == (build.FIRST, build.SECOND))
    assert found.outcome == "failure"
    assert "built without P2P" in found.title


def test_a_processor_that_cannot_reach_the_memory_tells_of_a_small_bar(build, judge):
    functions = named(build, "AMD Instinct MI50", "AMD Instinct MI50")
    described = told(build, functions, False)
    small = tuple(PairWord("host:0", each.address, False, "access 0", "rbt.txt:17") for each in functions)
    found = judge("p2p-pair", msgspec.structs.replace(described, pair_words=(*described.pair_words, *small)))
    assert {each.outcome for each in found} == {"failure"}
    assert "firmware-resizable-bar" in found[0].remedies


def test_a_grant_is_the_drivers_word_and_no_proof(build, judge, text):
    found = judge("p2p-pair", told(build, named(build, "AMD Radeon PRO V620", "AMD Radeon PRO V620"), True))
    assert {(each.outcome, each.confidence) for each in found} == {("ok", "likely")}
    assert "proves" in text(found[0])


def test_a_grant_to_nvidia_gpus_leaves_open_what_is_not_seen(build, judge):
    found = judge("p2p-pair", told(build, named(build, "NVIDIA RTX A6000", "NVIDIA RTX A6000", vendor="10de"), True))
    assert {each.outcome for each in found} == {"unknown"}


def test_refusals_of_nvidias_driver(build, judge, text):
    def outcome(*names):
        found = judge("p2p-pair", told(build, named(build, *names, vendor="10de"), False, "CANNOT access"))
        return {each.outcome for each in found}, text(found[0])

    outcomes, policy = outcome("NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 3090")
    assert outcomes == {"info"}
    assert "GeForce RTX 3090: a policy" in policy
    assert outcome("NVIDIA RTX A6000", "NVIDIA RTX A6000")[0] == {"warning"}
    assert outcome("GeForce GTX 1080 Ti", "GeForce GTX 1080 Ti")[0] == {"info"}
    outcomes, unequal = outcome("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 5090")
    assert outcomes == {"info"}
    assert "AD102 and GB202" in unequal


def test_a_grant_against_the_policy_is_believed_by_programs_only(build, judge, text):
    found = judge(
        "p2p-pair", told(build, named(build, "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090", vendor="10de"), True)
    )
    assert {each.outcome for each in found} == {"unknown"}
    assert "the driver grants access, although" in text(found[0])


def test_xgmi_that_a_tool_names_needs_no_pcie(build, judge):
    functions = named(build, "AMD Instinct MI100", "AMD Instinct MI100")
    found = judge("p2p-pair", told(build, functions, True, "access 1, link type XGMI", "XGMI"))
    assert {each.outcome for each in found} == {"ok"}


def test_tools_that_contradict_each_other_tell_nothing(build, judge):
    described = told(build, named(build, "AMD Radeon PRO V620", "AMD Radeon PRO V620"), True)
    other = tuple(msgspec.structs.replace(word, allowed=False) for word in described.pair_words)
    both = msgspec.structs.replace(described, pair_words=(*described.pair_words, *other))
    assert {each.outcome for each in judge("p2p-pair", both)} == {"unknown"}


def test_gpus_known_by_number_alone_are_judged_each(build, judge):
    gpus = [
        msgspec.structs.replace(each, address=f"GPU{n}")
        for n, each in enumerate(named(build, *["NVIDIA H100"] * 12, vendor="10de"))
    ]
    assert len(judge("p2p-pair", told(build, gpus, True))) == 132


def test_more_gpus_than_a_host_has_are_several_hosts(build, judge):
    """Whoever pastes the outputs of a whole cluster gets no pairs across it, and waits for none."""
    gpus = [build.gpu(f"{domain:04x}:01:00.0", build.V620, None) for domain in range(65)]
    for check in (ID, "bar-reach", "acs-redirect"):
        (found,) = judge(check, build.host(gpus))
        assert (found.outcome, found.subject) == ("unknown", ())
        assert "65 GPUs are more than one host has" in found.title
        assert "one host at a time" in found.help
    assert len(judge(ID, build.host(gpus[:64]))) == 64 * 63


def test_the_iommu_mode_of_more_gpus_than_a_host_has(build, judge):
    gpus = [build.gpu(f"{domain:04x}:01:00.0", build.V620, None, iommu_type="DMA-FQ") for domain in range(65)]
    found = judge("iommu-mode", build.host(gpus))
    assert {each.outcome for each in found} == {"unknown"}
