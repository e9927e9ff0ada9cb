"""Copies between GPUs against what their way gives, and against what the run itself shows."""

from __future__ import annotations

import msgspec
import pytest

from hostdoctor.facts.bandwidth import Broken, LoadedLink
from hostdoctor.facts.driver import Nvml, NvmlPair, PairWord
from hostdoctor.facts.host import KfdLink
from hostdoctor.facts.log import KernelLog, LogEvent

A, B = "0000:43:00.0", "0000:83:00.0"
FOUR = ("0000:01:00.0", "0000:41:00.0", "0000:81:00.0", "0000:c1:00.0")


def outcomes(findings):
    return {finding.outcome for finding in findings}


def between(build, one_way, both_ways=None, *, host=None, at=None, facts=None, run=None, **more):
    """Two AMD cards below one root port each, and a run over them."""
    transfers = build.both_directions(A, B, one_way, both_ways, host)
    return build.host(build.two_navi_cards(at=at, **(facts or {})), runs=(build.run(*transfers, **(run or {})),), **more)


def unknown_links(build, *gpus, id_="1002:73a1"):
    driver = "amdgpu" if id_.startswith("1002") else "nvidia"
    return [build.function(gpu, id_, 0x030000, parent=build.NOT_CAPTURED, driver=driver) for gpu in gpus]


# --- against a known link ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one_way", "both_ways", "outcome"),
    [
        (25.0, 45.0, "ok"),  # direct over 16 GT/s x16
        (20.0, 40.0, "ok"),  # the least that a root complex forwards in order
        (17.0, 34.0, "warning"),
        (12.0, 20.0, "failure"),
        (21.0, 26.0, "warning"),  # one way like a direct copy, both ways like a staged one
        (None, 45.0, "ok"),
        (None, 20.0, "failure"),
        (25.0, None, "ok"),
    ],
)
def test_shares_of_a_link_of_16_gts_x16(build, judge, one_way, both_ways, outcome):
    ends = ((A, B), (B, A))
    transfers = [build.copy(*each, one_way) for each in ends if one_way]
    transfers += [build.copy(*each, both_ways, both_ways=True) for each in ends if both_ways]
    described = build.host(build.two_navi_cards(), runs=(build.run(*transfers),))
    assert outcomes(judge("p2p-bandwidth", described)) == {outcome}


@pytest.mark.parametrize(
    ("link", "rates", "outcome"),
    [
        ((8.0, 8), (6.6, 12.9), "ok"),
        ((8.0, 8), (3.1, 5.0), "failure"),
        ((8.0, 16), (13.0, 24.0), "ok"),
        ((16.0, 4), (6.6, 12.88), "ok"),
        ((16.0, 4), (6.34, 7.5), "warning"),
        ((32.0, 16), (53.0, 103.0), "ok"),
        ((32.0, 16), (37.0, 45.0), "warning"),
    ],
)
def test_each_link_has_its_own_rate(build, judge, link, rates, outcome):
    ports = [build.root_port(port, at=build.link(*link)) for port in ("0000:40:01.1", "0000:80:01.1")]
    cards = [
        build.navi_card(bus, port, at=build.link(*link, 32.0, 16))
        for bus, port in ((0x41, "0000:40:01.1"), (0x81, "0000:80:01.1"))
    ]
    run = build.run(*build.both_directions(A, B, *rates), cpus=("AMD EPYC 9354 32-Core Processor",))
    described = build.host(ports, cards, cpu=build.Cpu("AuthenticAMD", 0x19, 0x11, "AMD EPYC 9354"), runs=(run,))
    assert outcomes(judge("p2p-bandwidth", described)) == {outcome}


def test_the_slower_of_both_links_counts(build, judge):
    """One card on four lanes: 6.6 GB/s are all that the pair can do, and no fault of it."""
    described = build.host(
        build.root_port("0000:40:01.1"),
        build.navi_card(0x41, "0000:40:01.1"),
        build.root_port("0000:80:01.1", at=build.link(16.0, 4)),
        build.navi_card(0x81, "0000:80:01.1", at=build.link(16.0, 4, 16.0, 16)),
        runs=(build.run(*build.both_directions(A, B, 6.6, 12.9)),),
    )
    assert outcomes(judge("p2p-bandwidth", described)) == {"ok"}


def test_a_failure_says_what_it_costs_and_where_it_stands(build, judge, text):
    found = judge("p2p-bandwidth", between(build, 3.1, 5.0))[0]
    assert found.cost.have_gbs == 3.1
    assert found.cost.could_have_gbs == pytest.approx(18.9, abs=0.1)
    assert "3.1 GB/s" in found.title
    assert "run.txt:9" in text(found)
    assert "not direct" in found.title


def test_a_prediction_that_nothing_bears_out_is_named(build, judge, text):
    vram = {gpu: build.gpu_facts(32 << 30) for gpu in (A, B)}
    slow = judge("p2p-bandwidth", _predicted(build, vram, 3.1, 5.0))[0]
    assert "direct copies are to be expected" in text(slow)


def _predicted(build, vram, one_way, both_ways, **facts):
    run = build.run(*build.both_directions(A, B, one_way, both_ways))
    return build.host(build.two_navi_cards(dma_mask_bits=44, **facts), facts=vram, runs=(run,))


def test_a_good_rate_against_the_prediction_names_the_difference(build, judge, text):
    vram = {gpu: build.gpu_facts(32 << 30, visible=256 << 20) for gpu in (A, B)}
    found = judge("p2p-bandwidth", _predicted(build, vram, 25.0, 45.0))[0]
    assert found.outcome == "ok"
    assert "there should be no direct copies" in text(found)


# --- what explains it -------------------------------------------------------------------------------------------------


def test_acs_redirect_below_a_switch_explains_it(build, judge, text):
    a, b = "0000:13:00.0", "0000:23:00.0"
    run = build.run(*build.both_directions(a, b, 9.0, 14.0))
    found = judge("p2p-bandwidth", build.host(build.below_one_switch(acs=build.REDIRECT), runs=(run,)))[0]
    assert found.outcome == "failure"
    assert "ACS redirect on" in text(found)
    assert "0000:02:00.0" in text(found)
    assert "acs-clear-redirect" in found.remedies


def test_a_switch_gives_more_than_a_root_complex(build, judge):
    a, b = "0000:13:00.0", "0000:23:00.0"
    for one_way, outcome in ((27.5, "ok"), (20.0, "warning")):
        run = build.run(*build.both_directions(a, b, one_way, None))
        assert outcomes(judge("p2p-bandwidth", build.host(build.below_one_switch(), runs=(run,)))) == {outcome}


def test_the_uplink_of_a_common_switch_is_not_on_the_way(build, judge):
    a, b = "0000:13:00.0", "0000:23:00.0"
    run = build.run(*build.both_directions(a, b, 26.0, 50.0))
    described = build.host(build.below_one_switch(at=build.link(8.0, 4)), runs=(run,))
    assert outcomes(judge("p2p-bandwidth", described)) == {"ok"}


def test_the_iommu_and_its_faults_explain_it(build, judge, text):
    fault = LogEvent("iommu-fault", A, "DMAR: [DMA Write] Request device [43:00.0]", "dmesg.txt:7")
    described = between(build, 3.1, 5.0, facts={"iommu_type": "DMA-FQ"}, log=KernelLog((fault,), ("dmesg.txt",)))
    found = text(judge("p2p-bandwidth", described)[0])
    assert "translates" in found
    assert "dmesg.txt:7" in found


def test_a_narrow_uplink_explains_it(build, judge, text):
    a, b = "0000:13:00.0", "0000:93:00.0"
    described = build.host(
        build.root_port("0000:00:01.1"),
        build.switch(0x01, "0000:00:01.1", at=build.link(16.0, 4, 16.0, 16)),
        build.navi_card(0x11, "0000:02:00.0"),
        build.root_port("0000:80:01.1"),
        build.navi_card(0x91, "0000:80:01.1"),
        runs=(build.run(*build.both_directions(a, b, 3.0, 5.0)),),
    )
    found = judge("p2p-bandwidth", described)[0]
    assert "narrower than it could be" in text(found)
    assert "reseat-or-move-card" in found.remedies


# --- processors that forward less -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpu", "nodes", "rates_outcome"),
    [
        ("AMD EPYC 7261 8-Core Processor", (0, 0), ((7.0, 12.0), "ok")),
        ("Intel(R) Xeon(R) CPU E5-2690 v3 @ 2.60GHz", (0, 0), ((8.17, 14.97), "ok")),
        ("Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz", (0, 1), ((9.0, 17.0), "ok")),
        ("AMD EPYC 7302 16-Core Processor", (0, 0), ((7.0, 12.0), "failure")),
        ("Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz", (0, 1), ((2.0, 4.0), "failure")),
    ],
)
def test_some_forward_less_than_the_links_carry(build, judge, cpu, nodes, rates_outcome):
    rates, outcome = rates_outcome
    ports = ("0000:40:01.1", "0000:80:01.1")
    described = build.host(
        [build.root_port(port, at=build.link(8.0, 16)) for port in ports],
        build.navi_card(0x41, ports[0], at=build.link(8.0, 16), numa_node=nodes[0]),
        build.navi_card(0x81, ports[1], at=build.link(8.0, 16), numa_node=nodes[1]),
        cpu=build.Cpu("GenuineIntel" if "Intel" in cpu else "AuthenticAMD", 6, 85, cpu),
        runs=(build.run(*build.both_directions(A, B, *rates)),),
    )
    assert outcomes(judge("p2p-bandwidth", described)) == {outcome}


# --- the control arm --------------------------------------------------------------------------------------------------


def arms(build, direct, staged, both=None, both_staged=None, *, latency=None, gpus=(A, B)):
    """One pair with and without peer access."""
    found = []
    for ends in (gpus, gpus[::-1]):
        found += [build.copy(*ends, direct, peer_access=True), build.copy(*ends, staged, peer_access=False)]
        if both:
            found += [build.copy(*ends, both, both_ways=True, peer_access=True)]
            found += [build.copy(*ends, both_staged, both_ways=True, peer_access=False)]
        if latency:
            found += [build.copy(*ends, latency_us=latency, peer_access=True)]
    return build.run(*found, tool="p2pBandwidthLatencyTest", cpus=())


@pytest.mark.parametrize(
    ("rates", "outcome"),
    [
        ((9.9, 21.0), "failure"),
        ((18.0, 21.0), "warning"),
        ((20.8, 21.0, 41.0, 26.0), "info"),
        ((18.0, 21.0, 41.0, 26.0), "info"),  # a little slower one way, far faster both ways
        ((24.0, 21.0, 20.0, 26.0), "warning"),
    ],
)
def test_direct_copies_that_lose_to_staged_ones(build, judge, rates, outcome):
    described = build.host(unknown_links(build, A, B), runs=(arms(build, *rates),))
    assert outcomes(judge("p2p-bandwidth", described)) == {outcome}


def test_what_is_not_granted_is_no_finding(build, judge):
    found = judge(
        "p2p-bandwidth",
        build.host(
            unknown_links(build, A, B),
            runs=(
                build.run(build.copy(A, B, 5.7, peer_access=False), build.copy(B, A, 6.0, both_ways=True, peer_access=False)),
            ),
        ),
    )
    assert outcomes(found) == {"not-applicable"}


def test_two_signs_of_staging_without_a_link(build, judge):
    described = build.host(unknown_links(build, A, B), runs=(arms(build, 21.0, 21.0, 26.0, 26.0, latency=14.0),))
    assert outcomes(judge("p2p-bandwidth", described)) == {"warning"}


def test_one_sign_alone_is_only_said(build, judge):
    described = build.host(unknown_links(build, A, B), runs=(arms(build, 21.0, 21.0, 26.0, 26.0),))
    assert outcomes(judge("p2p-bandwidth", described)) == {"info"}


# --- without a link ---------------------------------------------------------------------------------------------------


def test_without_a_link_only_the_figure(build, judge, text):
    described = build.host(unknown_links(build, A, B), runs=(arms(build, 22.0, 20.0, 41.6, 25.8),))
    found = judge("p2p-bandwidth", described)
    assert outcomes(found) == {"info"}
    assert "1.6 times as fast as staged" in text(found[0])


@pytest.mark.parametrize(("one_way", "both_ways", "outcome"), [(6.6, 12.9, "ok"), (3.1, 5.0, "warning"), (1.0, 2.0, "failure")])
def test_host_copies_of_the_same_run_tell_what_the_link_gives(build, judge, one_way, both_ways, outcome):
    run = build.run(*build.both_directions(A, B, one_way, both_ways, host=6.7), cpus=("AMD EPYC 7401P 24-Core Processor",))
    found = judge("p2p-bandwidth", build.host(unknown_links(build, A, B), cpu=build.Cpu(), runs=(run,)))
    assert outcomes(found) == {outcome}


def mesh(build, rates, gpus=FOUR, **more):
    """Each pair of GPUs both ways together; `rates` is a function of the two numbers."""
    pairs = [(a, b) for a in range(len(gpus)) for b in range(len(gpus)) if a != b]
    return build.run(*(build.copy(gpus[a], gpus[b], rates(a, b), both_ways=True) for a, b in pairs), cpus=(), **more)


def test_a_gpu_far_slower_than_all_others(build, judge, text):
    run = mesh(build, lambda a, b: 3.9 if 3 in (a, b) else 50.0)
    found = judge("p2p-bandwidth", build.host(unknown_links(build, *FOUR), runs=(run,)))
    slow = {each.subject for each in found if each.outcome == "warning"}
    assert slow == {pair for each in FOUR[:3] for pair in ((each, FOUR[3]), (FOUR[3], each))}
    assert outcomes(found) == {"warning", "info"}
    assert "50.0 GB/s among themselves" in text(next(each for each in found if each.outcome == "warning"))


@pytest.mark.parametrize(
    "rates",
    [
        pytest.param(lambda a, b: 50.0 if a // 2 == b // 2 else 18.0, id="two sockets"),
        pytest.param(lambda a, b: 180.0 if a // 2 == b // 2 else 40.0, id="bridges between pairs"),
        pytest.param(lambda a, b: 14.0 if 3 in (a, b) else 50.0, id="one on the other socket"),
        pytest.param(lambda a, b: 24.0 if 3 in (a, b) else 360.0, id="one beside three that a fabric joins"),
        pytest.param(lambda a, b: 3.9, id="all alike"),
    ],
)
def test_groups_of_gpus_are_no_outliers(build, judge, rates):
    found = judge("p2p-bandwidth", build.host(unknown_links(build, *FOUR), runs=(mesh(build, rates),)))
    assert outcomes(found) == {"info"}


def test_unequal_gpus_are_no_outliers(build, judge):
    names = dict.fromkeys(FOUR, "NVIDIA RTX A6000") | {FOUR[3]: "NVIDIA RTX A2000"}
    run = mesh(build, lambda a, b: 3.9 if 3 in (a, b) else 50.0, names=names)
    assert outcomes(judge("p2p-bandwidth", build.host(unknown_links(build, *FOUR), runs=(run,)))) == {"info"}


def test_one_direction_much_slower(build, judge):
    def described(back, functions):
        run = build.run(build.copy(A, B, 26.0), build.copy(B, A, back), cpus=())
        return {each.subject: each.outcome for each in judge("p2p-bandwidth", build.host(functions, runs=(run,)))}

    assert described(12.0, unknown_links(build, A, B)) == {(A, B): "info", (B, A): "warning"}
    assert described(21.0, unknown_links(build, A, B)) == {(A, B): "info", (B, A): "info"}
    assert described(19.2, build.two_navi_cards()) == {(A, B): "ok", (B, A): "info"}
    assert described(3.0, build.two_navi_cards())[B, A] == "failure"


# --- fabrics ----------------------------------------------------------------------------------------------------------


def test_xgmi_is_not_held_against_pcie(build, judge):
    kfd = build.kfd((A, B), hives=(7, 7))
    for rate in (9.0, 300.0):
        assert outcomes(judge("p2p-bandwidth", between(build, rate, kfd=kfd))) == {"info"}


@pytest.mark.parametrize(("rate", "outcome"), [(48.0, "ok"), (30.0, "warning"), (10.0, "failure")])
def test_a_direct_xgmi_link_of_a_known_chip(build, judge, rate, outcome):
    kfd = build.kfd((A, B), hives=(7, 7))
    links = tuple(KfdLink(*ends, 11, 0, False, "io_links/0/properties") for ends in ((1, 2), (2, 1)))
    described = build.host(
        build.two_navi_cards("1002:74a1"),
        kfd=type(kfd)(kfd.nodes, links),
        runs=(build.run(*build.both_directions(A, B, rate, None)),),
    )
    assert outcomes(judge("p2p-bandwidth", described)) == {outcome}


def test_a_gpu_with_xgmi_that_nothing_tells_of_is_not_judged(build, judge):
    described = build.host(build.two_navi_cards("1002:74a1"), runs=(build.run(*build.both_directions(A, B, 14.0, 25.0)),))
    assert outcomes(judge("p2p-bandwidth", described)) == {"info"}


@pytest.mark.parametrize(("rate", "outcome"), [(276.0, "ok"), (150.0, "warning"), (40.0, "failure")])
def test_nvlinks_are_counted(build, judge, rate, outcome):
    a, b = "0000:41:00.0", "0000:81:00.0"
    words = tuple(PairWord(*ends, None, "NV12", "topo.txt:2", "NVLINK") for ends in ((a, b), (b, a)))
    described = build.host(
        build.two_nvidia_gpus("10de:20b2"), pair_words=words, runs=(build.run(*build.both_directions(a, b, rate, None)),)
    )
    assert outcomes(judge("p2p-bandwidth", described)) == {outcome}


def test_nvlinks_that_nobody_counted_are_not_judged(build, judge):
    a, b = "0000:41:00.0", "0000:81:00.0"
    unknown = build.NOT_CAPTURED
    pairs = tuple(NvmlPair(*ends, unknown, unknown, 0) for ends in ((a, b), (b, a)))
    nvml = Nvml(unknown, unknown, unknown, (), pairs)
    described = build.host(
        build.two_nvidia_gpus("10de:20b2"), nvml=nvml, runs=(build.run(*build.both_directions(a, b, 14.0, None)),)
    )
    assert outcomes(judge("p2p-bandwidth", described)) == {"info"}


def test_faster_than_the_link_is_a_fabric(build, judge):
    a, b = "0000:41:00.0", "0000:81:00.0"
    described = build.host(build.two_nvidia_gpus(), runs=(build.run(*build.both_directions(a, b, 101.0, None)),))
    assert outcomes(judge("p2p-bandwidth", described)) == {"info"}


# --- no rate ----------------------------------------------------------------------------------------------------------


def test_wrong_data_have_no_rate_in_either_direction(build, judge, text):
    described = between(build, 25.0, 45.0, run={"verified": ((A, B, False), (B, A, True))})
    found = judge("p2p-bandwidth", described)
    assert outcomes(found) == {"unknown"}
    assert not any("25" in text(each) or "45" in text(each) for each in found)


def test_not_available_is_not_zero(build, judge, text):
    described = build.host(build.two_navi_cards(), runs=(build.run(build.copy(A, B), build.copy(B, A)),))
    found = judge("p2p-bandwidth", described)
    assert outcomes(found) == {"unknown"}
    assert "N/A" in text(found[0])


def test_copies_beside_others_are_no_measure(build, judge):
    described = build.host(build.two_navi_cards(), runs=(build.run(build.copy(A, B, 3.0, contended=True)),))
    assert outcomes(judge("p2p-bandwidth", described)) == {"unknown"}


def test_a_guest_is_not_judged(build, verdict):
    assert verdict("p2p-bandwidth", between(build, 3.0, environment=build.GUEST)).outcome == "not-applicable"


@pytest.mark.parametrize("runs", [(), None])
def test_nothing_recorded_between_gpus_is_not_applicable(build, verdict, runs):
    runs = (build.run(build.copy("host:0", A, 26.0)),) if runs is None else runs
    assert verdict("p2p-bandwidth", build.host(build.two_navi_cards(), runs=runs)).outcome == "not-applicable"


# --- what host copies and latencies tell ------------------------------------------------------------------------------


def with_host_copies(build, gpus, one_way, to_gpu, from_gpu, **more):
    """Every pair one way, and each GPU's own copies to and from the host."""
    pairs = [(a, b) for a in gpus for b in gpus if a != b]
    found = [build.copy(a, b, one_way(a, b)) for a, b in pairs]
    found += [build.copy("host:0", gpu, to_gpu(gpu)) for gpu in gpus] + [
        build.copy(gpu, "host:0", from_gpu(gpu)) for gpu in gpus
    ]
    return build.run(*found, cpus=("AMD EPYC 7302 16-Core Processor",), **more)


def test_slow_host_copies_do_not_make_pcie_a_fabric(build, judge, text):
    run = with_host_copies(build, (A, B), lambda a, b: 22.5, lambda gpu: 3.1, lambda gpu: 26.4)
    found = judge("p2p-bandwidth", build.host(unknown_links(build, A, B), runs=(run,)))
    assert outcomes(found) == {"info"}
    assert "fabric" not in text(found[0])
    assert "not judged" in found[0].title


def test_more_than_pcie_carries_is_told_apart_from_the_rest(build, judge):
    rates = {frozenset(FOUR[:2]): 270.0, frozenset(FOUR[2:]): 270.0}
    pairs = [(a, b) for a in FOUR for b in FOUR if a != b]
    run = build.run(*(build.copy(a, b, rates.get(frozenset((a, b)), 20.0)) for a, b in pairs), cpus=())
    found = judge("p2p-bandwidth", build.host(unknown_links(build, *FOUR, id_="10de:20b5"), runs=(run,)))
    titles = {each.title for each in found}
    assert {each.partition(" ")[0] for each in titles} == {"270.0", "20.0"}
    assert any("more than PCIe carries" in each for each in titles)


def test_fabric_and_unknown_way_keep_their_own_figures(build, judge):
    rates = {frozenset(FOUR[:2]): 90.5}
    pairs = [(a, b) for a in FOUR for b in FOUR if a != b]
    run = build.run(*(build.copy(a, b, rates.get(frozenset((a, b)), 12.2)) for a, b in pairs))
    found = judge("p2p-bandwidth", build.host(unknown_links(build, *FOUR, id_="1002:740f"), runs=(run,)))
    assert {each.title.partition(",")[0].partition(";")[0] for each in found} == {"90.5 GB/s one way", "12.2 GB/s one way"}


def test_a_gpu_whose_host_copies_are_as_slow_is_named(build, judge):
    slow = FOUR[3]
    run = with_host_copies(
        build,
        FOUR,
        lambda a, b: 3.1 if slow in (a, b) else 24.0,
        lambda gpu: 3.2 if gpu == slow else 25.8,
        lambda gpu: 3.3 if gpu == slow else 26.2,
    )
    found = judge("p2p-bandwidth", build.host(unknown_links(build, *FOUR), runs=(run,)))
    warned = [each for each in found if each.outcome == "warning"]
    assert {slow in each.subject for each in warned} == {True}
    assert len(warned) == 6
    assert {each.outcome for each in found if slow not in each.subject} == {"ok"}


def test_slow_pairs_of_a_gpu_with_fast_host_copies_stay_a_failure(build, judge):
    slow = FOUR[3]
    run = with_host_copies(build, FOUR, lambda a, b: 3.0 if slow in (a, b) else 24.0, lambda gpu: 26.0, lambda gpu: 26.2)
    found = judge("p2p-bandwidth", build.host(unknown_links(build, *FOUR), runs=(run,)))
    assert {each.outcome for each in found if slow in each.subject} == {"failure"}


def test_a_lopsided_pair_is_not_just_a_little_slower_than_staged(build, judge):
    found = [build.copy(A, B, 26.0, peer_access=True), build.copy(B, A, 9.0, peer_access=True)]
    for ends in ((A, B), (B, A)):
        found += [build.copy(*ends, 12.0, peer_access=False)]
        found += [build.copy(*ends, 30.0, both_ways=True, peer_access=True)]
        found += [build.copy(*ends, 18.0, both_ways=True, peer_access=False)]
    described = build.host(unknown_links(build, A, B), runs=(build.run(*found, cpus=()),))
    by_pair = {each.subject: each for each in judge("p2p-bandwidth", described)}
    assert by_pair[B, A].outcome == "warning"
    assert "one direction" in by_pair[B, A].title


@pytest.mark.parametrize(("latency", "outcome"), [(1.6, "info"), (14.0, "info"), (49204.8, "warning")])
def test_small_copies_that_take_milliseconds(build, judge, latency, outcome):
    run = arms(build, 24.5, 20.1, 41.5, 25.0, latency=latency)
    assert outcomes(judge("p2p-bandwidth", build.host(unknown_links(build, A, B), runs=(run,)))) == {outcome}


def test_what_holds_direct_copies_up_is_named(build, judge, text):
    run = arms(build, 5.9, 9.8, 8.1, 15.0, gpus=("0000:13:00.0", "0000:23:00.0"))
    found = judge("p2p-bandwidth", build.host(build.below_one_switch(acs=build.REDIRECT), runs=(run,)))
    assert outcomes(found) == {"failure"}
    assert "ACS redirect on" in text(found[0])
    assert "acs-clear-redirect" in found[0].remedies


def test_arms_that_are_alike_prove_nothing_where_no_access_is_told(build, judge):
    """The end of p2pBandwidthLatencyTest on cards that the driver grants no access: both arms are staged."""
    found = []
    for ends in ((A, B), (B, A)):
        for granted in (None, False):
            found += [
                build.copy(*ends, 20.1, peer_access=granted),
                build.copy(*ends, 25.0, both_ways=True, peer_access=granted),
            ]
            found += [build.copy(*ends, latency_us=14.2, peer_access=granted)]
    run = build.run(*found, tool="p2pBandwidthLatencyTest", cpus=())
    told = judge("p2p-bandwidth", build.host(unknown_links(build, A, B, id_="10de:2684"), runs=(run,)))
    assert outcomes(told) == {"info"}
    assert "whether any is granted" in told[0].title


@pytest.mark.parametrize(("granted", "outcome"), [(None, "info"), (True, "failure")])
def test_staged_rates_over_known_links_where_no_access_is_told(build, judge, granted, outcome):
    gpus = ("0000:41:00.0", "0000:81:00.0")
    found = [build.copy(*ends, 6.1, both_ways=True, peer_access=granted) for ends in (gpus, gpus[::-1])]
    run = build.run(*found, tool="p2pBandwidthLatencyTest", cpus=())
    functions = build.two_nvidia_gpus("10de:2204", at=build.link(16.0, 16))
    assert outcomes(judge("p2p-bandwidth", build.host(functions, runs=(run,)))) == {outcome}


def test_a_cut_table_makes_no_gpu_an_outlier(build, judge):
    """Of the second GPU's row in the last table only the first cell is left."""
    pairs = [(a, b) for a in FOUR for b in FOUR if a != b]
    slow = {frozenset(FOUR[:2])}
    found = [build.copy(a, b, 1.9 if {a, b} in slow else 22.5) for a, b in pairs]
    found += [build.copy(FOUR[0], b, 2.5 if b == FOUR[1] else 42.0, both_ways=True) for b in FOUR[1:]]
    found += [build.copy(FOUR[1], FOUR[0], 2.5, both_ways=True)]
    told = judge("p2p-bandwidth", build.host(unknown_links(build, *FOUR), runs=(build.run(*found, cpus=()),)))
    assert {each.outcome for each in told if set(each.subject) not in slow} == {"info"}


# --- what hostdoctor bandwidth adds -----------------------------------------------------------------------------------


def with_run(described, **changes):
    """The host whose one run is changed."""
    (run,) = described.runs
    return msgspec.structs.replace(described, runs=(msgspec.structs.replace(run, **changes),))


def test_a_copy_that_did_not_end_is_a_failure_both_ways_and_gives_no_rate(build, judge, text):
    described = between(build, 25.0, 45.0, host=27.0)
    broken = Broken(A, B, "hip did not end within 60 s", "run.jsonl:9")
    found = judge("p2p-bandwidth", with_run(described, broken=(broken,)))
    assert outcomes(found) == {"failure"}
    assert len(found) == 2
    assert all("run.jsonl:9" in text(each) and "25.0" not in text(each) for each in found)


def test_copies_are_held_against_the_link_as_it_was_meanwhile(build, judge, text):
    """Its own fault is link-speed's; copies that fill what there was are in order."""
    described = between(build, 6.6, 12.9, host=6.9)
    assert outcomes(judge("p2p-bandwidth", described)) == {"failure"}
    links = tuple(LoadedLink(port, 8.0, 8, "run.jsonl:7") for port in ("0000:41:00.0", "0000:81:00.0"))
    found = judge("p2p-bandwidth", with_run(described, links=links))
    assert outcomes(found) == {"ok"}
    assert "8 GT/s x8" in text(found[0])
