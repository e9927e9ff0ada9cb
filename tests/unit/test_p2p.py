"""The conditions of P2P, each in both directions: facts A2, B2 to B6 and F2 of the kernel's and NVIDIA's sources."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from hostdoctor.facts.host import Cpu, KfdLink, Module
from hostdoctor.facts.unknown import ASLEEP, NEEDS_ROOT, NOT_CAPTURED, Unknown

GIB, TIB = 1 << 30, 1 << 40
LOW, HIGH = 4 * TIB, 56 * TIB


@pytest.fixture
def predict(build):
    """The predictions over a host, by (accessor, owner)."""

    def make(*parts, **facts):
        pairs = build.view(*parts, **facts).pairs
        return {(pair.accessor.address, pair.owner.address): pair for pair in pairs}

    return make


@pytest.fixture
def states(predict):
    """The states of both directions, in address order of the accessor."""

    def make(*parts, **facts):
        return [pair.state for pair in predict(*parts, **facts).values()]

    return make


def decisive(predictions):
    """The names of the decisive conditions; all must agree."""
    (name,) = {pair.decisive.name for pair in predictions.values()}
    return name


def vram(build, *addresses, **facts):
    return {address: build.gpu_facts(32 * GIB, **facts) for address in addresses or (build.FIRST, build.SECOND)}


# --- all hold ---------------------------------------------------------------------------------------------------------


def test_two_cards_in_order(build, predict):
    found = predict(build.two_navi_cards(), facts=vram(build))
    assert list(found) == [(build.FIRST, build.SECOND), (build.SECOND, build.FIRST)]
    for pair in found.values():
        assert (pair.state, pair.decisive) == ("holds", None)
        assert [condition.name for condition in pair.conditions] == [
            "driver",
            "p2p-kernel",
            "distance",
            "large-bar",
            "bar-reach",
        ]


def test_four_cards_make_twelve_pairs(build, predict):
    parts = build.two_navi_cards()
    for n in (0xA1, 0xC1):
        root = f"0000:{n - 1:02x}:01.1"
        parts = [*parts, build.root_port(root), build.navi_card(n, root, bar_at=5 * TIB + n * 64 * GIB)]
    assert len(predict(parts)) == 12


def test_the_first_that_fails_decides_even_behind_an_unknown_one(build, predict):
    found = predict(build.two_navi_cards(bar_at=HIGH), modules=NOT_CAPTURED, facts=vram(build))
    assert decisive(found) == "bar-reach"
    assert {pair.state for pair in found.values()} == {"fails"}


# --- condition 1: driver and build ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "state"), [("Y", "holds"), ("1", "holds"), ("N", "fails"), ("0", "fails"), (None, "fails")])
def test_pcie_p2p(build, states, value, state):
    assert states(build.two_navi_cards(), facts=vram(build), pcie_p2p=value) == [state, state]


def test_a_kernel_without_p2p_is_no_limit_by_design(build, predict):
    """Another kernel cures it (ruling K4)."""
    pair = next(iter(predict(build.two_navi_cards(), pcie_p2p=None).values()))
    assert (pair.decisive.name, pair.decisive.by_design) == ("p2p-kernel", False)
    assert pair.decisive.remedies == ("kernel-with-p2p",)


def test_the_old_driver_radeon_does_none_by_design(build, predict):
    parts = build.changed(build.two_navi_cards(), build.SECOND, driver="radeon")
    found = predict(parts, facts=vram(build))
    assert {(pair.decisive.name, pair.state, pair.decisive.by_design) for pair in found.values()} == {("driver", "fails", True)}


@pytest.mark.parametrize("driver", [None, Unknown("not permitted")])
def test_without_a_known_driver_it_cannot_be_told(build, predict, driver):
    found = predict(build.changed(build.two_navi_cards(), build.FIRST, driver=driver), facts=vram(build))
    assert {(pair.decisive.name, pair.state) for pair in found.values()} == {("driver", "unknown")}


def test_a_gpu_of_a_guest_is_in_no_pair(build, predict):
    assert predict(build.changed(build.two_navi_cards(), build.SECOND, driver="vfio-pci")) == {}


def test_an_integrated_gpu_is_in_no_pair(build, predict):
    apu = [build.root_port("0000:00:08.1", "1022:14dd"), build.gpu("0000:0a:00.0", "1002:164e", "0000:00:08.1")]
    assert len(predict(build.two_navi_cards(), apu)) == 2


# --- condition 2: XGMI to the processor -------------------------------------------------------------------------------


def test_an_owner_joined_to_the_processor_is_refused_one_way(build, predict):
    kfd = build.kfd((build.FIRST, build.SECOND), cpu_links=((build.SECOND, 11, 0),))
    found = predict(build.two_navi_cards(build.MI210), facts=vram(build), kfd=kfd)
    assert found[build.FIRST, build.SECOND].decisive.name == "processor-fabric"
    assert found[build.FIRST, build.SECOND].state == "fails"
    assert found[build.FIRST, build.SECOND].decisive.by_design
    assert found[build.SECOND, build.FIRST].state == "holds"


# --- condition 3: distance --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cpu", "state"),
    [
        (Cpu("AuthenticAMD", 0x17), "holds"),
        (Cpu("AuthenticAMD", 0x19), "holds"),
        (Cpu("AuthenticAMD", 0x1A), "holds"),
        (Cpu("AuthenticAMD", 0x15), "fails"),
        (Cpu("AuthenticAMD", 0x16), "fails"),
        (Cpu("HygonGenuine", 0x18), "fails"),
        (Cpu("AuthenticAMD", Unknown("not read")), "unknown"),
        (Cpu(), "unknown"),
    ],
)
def test_amds_processors_from_zen_on_need_no_list(build, states, cpu, state):
    assert states(build.two_navi_cards(), facts=vram(build), cpu=cpu) == [state, state]


def intel(build, host_bridge, same=False, kernel="6.12.1", **facts):
    """Two cards on an Intel host, each below a root port on a root bus of its own, or both on one."""
    ports = ("0000:40:01.0", "0000:40:02.0") if same else ("0000:40:01.0", "0000:80:01.0")
    bridges = [build.function(f"{bus}:00.0", host_bridge, 0x060000) for bus in ("0000:40", "0000:80")]
    return build.host(bridges, build.two_navi_cards(ports=ports), cpu=build.INTEL, kernel=kernel, facts=vram(build), **facts)


KERNELS = ["5.10.0-30-amd64", "6.1.0-25-amd64", "6.8.0-52-generic", "6.12.10", "7.3.4"]
ALWAYS, NEVER = ["holds"] * 5, ["fails"] * 5


@pytest.mark.parametrize(
    ("id_", "same", "verdicts"),
    [
        ("8086:2020", False, ALWAYS),  # Skylake-E
        ("8086:2030", False, ALWAYS),
        ("8086:2033", False, ALWAYS),
        ("8086:2f00", False, NEVER),  # Haswell-EP: below one host bridge only
        ("8086:2f00", True, ALWAYS),
        ("8086:3c00", True, ALWAYS),
        ("8086:6f00", False, NEVER),  # Broadwell-EP
        ("8086:6f00", True, NEVER),
        ("8086:0e00", True, NEVER),  # Ivy Bridge-EP
        ("8086:09a2", False, ["fails", "holds", "holds", "holds", "holds"]),  # Ice Lake-SP
        ("8086:0b25", False, ["fails", "fails", "fails", "fails", "holds"]),  # an accelerator first on the bus
        ("8086:4660", True, NEVER),  # Alder Lake, a desktop
        ("8086:4c43", True, NEVER),  # Rocket Lake: forcing it gave wrong data
        ("8086:a700", False, NEVER),
    ],
)
def test_intels_host_bridges_are_on_the_kernels_list_or_not(build, states, id_, same, verdicts):
    found = []
    for kernel in KERNELS:
        both = states(intel(build, id_, same, kernel))
        assert both[0] == both[1]
        found.append(both[0])
    assert found == verdicts


@pytest.mark.parametrize(("id_", "state"), [("8086:2030", "holds"), ("8086:6f00", "fails")])
def test_intels_host_bridge_tells_the_processors_vendor_too(build, states, id_, state):
    assert states(msgspec.structs.replace(intel(build, id_), cpu=Cpu())) == [state, state]


def test_a_root_bus_that_is_not_known_is_no_refusal(build, predict):
    bridges = [build.function(f"{bus}:00.0", "8086:6f00", 0x060000) for bus in ("0000:40", "0000:80")]
    found = predict(bridges, build.two_navi_cards(root=Unknown("not in this paste")), cpu=build.INTEL, facts=vram(build))
    assert {(pair.decisive.name, pair.state) for pair in found.values()} == {("distance", "unknown")}


def test_between_two_kernels_that_differ_nobody_knows(build, states):
    assert states(intel(build, "8086:0b25", kernel="6.15.3")) == ["unknown", "unknown"]
    assert states(intel(build, "8086:09a2", kernel="5.15.0-100-generic")) == ["unknown", "unknown"]
    assert states(intel(build, "8086:09a2", kernel=NOT_CAPTURED)) == ["unknown", "unknown"]


def test_one_host_bridge_that_is_not_listed_refuses_both_ways(build, predict):
    bridges = [build.function("0000:40:00.0", "8086:2030", 0x060000), build.function("0000:80:00.0", "8086:6f00", 0x060000)]
    found = predict(bridges, build.two_navi_cards(), cpu=build.INTEL, facts=vram(build))
    assert {(pair.state, pair.decisive.by_design) for pair in found.values()} == {("fails", True)}
    assert "0000:80:00.0 [8086:6f00]" in found[build.FIRST, build.SECOND].decisive.text


def test_a_host_bridge_that_is_not_in_the_evidence_is_no_refusal(build, predict):
    parts = [build.navi_card(0x41, NOT_CAPTURED), build.navi_card(0x81, NOT_CAPTURED)]
    found = predict(parts, cpu=build.INTEL, facts=vram(build))
    assert {(pair.decisive.name, pair.state) for pair in found.values()} == {("distance", "unknown")}


def test_bridges_that_are_cut_off_may_be_shared(build, states):
    """Below one switch the processor would not be asked: without its ports neither yes nor no can be said."""
    parts = [
        build.navi_card(0x11, "0000:02:00.0", root="0000:00"),
        build.navi_card(0x21, "0000:02:01.0", root="0000:00"),
        build.function("0000:00:00.0", "8086:4660", 0x060000),
    ]
    assert states(parts, cpu=build.INTEL, facts=vram(build, "0000:13:00.0", "0000:23:00.0")) == ["unknown", "unknown"]


def test_the_card_that_is_cut_off_is_named(build, predict):
    parts = [build.root_port("0000:40:01.1"), build.navi_card(0x41, "0000:40:01.1"), build.navi_card(0x81, "0000:80:01.1")]
    found = predict(parts, facts=vram(build))
    assert {pair.decisive.text for pair in found.values()} == {f"the ports above {build.SECOND} are not all in this evidence"}


UNDER_SWITCH = ("0000:13:00.0", "0000:23:00.0")


@pytest.fixture
def below_switch(build):
    """Two cards below one switch of a host whose root complex lets no peers through."""

    def make(change=None, **acs):
        parts = [build.function("0000:00:00.0", "8086:4660", 0x060000), build.below_one_switch(root_id="8086:460d", **acs)]
        parts = change(parts) if change else parts
        return build.host(parts, cpu=build.INTEL, facts=vram(build, *UNDER_SWITCH))

    return make


def test_below_one_switch_the_processor_is_not_asked(states, below_switch):
    assert states(below_switch()) == ["holds", "holds"]


@pytest.mark.parametrize("where", ["switch", "card's upper port", "card's lower port"])
def test_redirect_on_any_port_below_the_common_bridge_sends_them_up(build, predict, below_switch, where):
    acs = {
        "switch": {"acs": build.REDIRECT},
        "card's upper port": {"own_acs": (build.REDIRECT, None)},
        "card's lower port": {"own_acs": (None, build.REDIRECT)},
    }[where]
    found = predict(below_switch(**acs))
    pair = found[UNDER_SWITCH]
    assert (pair.state, pair.decisive.name, pair.decisive.by_design) == ("fails", "distance", False)
    assert pair.decisive.remedies == ("acs-clear-redirect",)
    assert "0000:01:00.0" in pair.decisive.text
    assert len(found) == 2


def test_source_validation_redirects_nothing(build, states, below_switch):
    assert states(below_switch(acs=build.VALIDATION_ONLY)) == ["holds", "holds"]


def test_redirect_on_zen_costs_speed_not_permission(build, states):
    assert states(build.below_one_switch(build.REDIRECT), facts=vram(build, *UNDER_SWITCH)) == ["holds", "holds"]


def test_redirect_where_the_processors_rule_is_not_known_is_no_refusal(build, states):
    parts = [build.function("0000:00:00.0", "8086:09a2", 0x060000), build.below_one_switch(build.REDIRECT, root_id="8086:347a")]
    facts = vram(build, *UNDER_SWITCH)
    assert states(parts, cpu=build.INTEL, kernel="5.15.0", facts=facts) == ["unknown", "unknown"]


ENDS_AND_COMMON_BRIDGE = [*UNDER_SWITCH, "0000:01:00.0"]


@pytest.mark.parametrize("where", ENDS_AND_COMMON_BRIDGE)
def test_redirect_on_the_common_bridge_or_a_gpu_itself_counts(build, predict, below_switch, where):
    """p2pdma.c asks each function for its redirect before it compares it with the other side."""
    config = build.ConfigFacts(acs=build.REDIRECT)
    found = predict(below_switch(change=lambda parts: build.changed(parts, where, config=config)))
    assert {(pair.state, pair.decisive.name) for pair in found.values()} == {("fails", "distance")}
    assert all(f"set on {where}," in pair.decisive.text for pair in found.values())


@pytest.mark.parametrize("why", [NEEDS_ROOT, ASLEEP])
@pytest.mark.parametrize("where", ["0000:02:01.0", *ENDS_AND_COMMON_BRIDGE])
def test_acs_that_was_not_read_on_the_way_leaves_it_open(build, predict, below_switch, where, why):
    found = predict(below_switch(change=lambda parts: build.changed(parts, where, config=why)))
    assert {pair.state for pair in found.values()} == {"unknown"}
    assert all(f"of {where}," in pair.decisive.text and why.reason in pair.decisive.text for pair in found.values())


def test_redirect_above_the_common_bridge_does_not_count(build, states, below_switch):
    root = build.root_port("0000:00:01.1", acs=build.REDIRECT)
    assert states(below_switch(change=lambda parts: build.changed(parts, root.address, config=root.config))) == ["holds"] * 2


# --- condition 4: large BAR -------------------------------------------------------------------------------------------


def test_a_small_bar_refuses_access_to_its_owner_alone(build, predict):
    facts = {build.FIRST: build.gpu_facts(32 * GIB, visible=256 << 20), build.SECOND: build.gpu_facts(32 * GIB)}
    small = {"bars": (build.bar(LOW, 256 << 20),), "config": build.resizable(0, 256 << 20, 256 << 20, 32 * GIB)}
    found = predict(build.changed(build.two_navi_cards(), build.FIRST, **small), facts=facts)
    into_small = found[build.SECOND, build.FIRST]
    assert (into_small.state, into_small.decisive.name) == ("fails", "large-bar")
    assert "256 of 32,768 MiB" in into_small.decisive.text
    assert into_small.decisive.remedies == ("firmware-resizable-bar",)
    assert found[build.FIRST, build.SECOND].state == "holds"


@pytest.mark.parametrize("offered", [(), (256 << 20,)])
def test_a_card_that_offers_no_larger_bar_is_refused_by_design(build, predict, offered):
    facts = vram(build, visible=256 << 20)
    config = build.resizable(0, 256 << 20, *offered)
    found = predict(build.two_navi_cards(bar_size=256 << 20, config=config), facts=facts)
    assert {(pair.decisive.name, pair.decisive.by_design) for pair in found.values()} == {("large-bar", True)}


@pytest.mark.parametrize("config", [NEEDS_ROOT, ASLEEP])
def test_what_a_card_offers_is_not_guessed(build, predict, config):
    found = predict(build.two_navi_cards(bar_size=256 << 20, config=config), facts=vram(build, visible=256 << 20))
    assert {(pair.decisive.name, pair.decisive.by_design) for pair in found.values()} == {("large-bar", False)}


def test_the_sizes_in_sysfs_tell_it_without_root(build, predict):
    facts = vram(build, visible=256 << 20, sizes={0: (256 << 20, 32 * GIB)})
    found = predict(build.two_navi_cards(bar_size=256 << 20, config=NEEDS_ROOT), facts=facts)
    assert {pair.decisive.remedies for pair in found.values()} == {("firmware-resizable-bar",)}


def test_half_the_drivers_word_is_none(build, states):
    facts = vram(build, visible=NOT_CAPTURED)
    assert states(build.two_navi_cards(), facts=facts) == ["holds", "holds"], "the product and its BAR tell"


def test_no_visible_memory_at_all_is_refused(build, states):
    facts = vram(build, visible=0)
    assert states(build.two_navi_cards(), facts=facts) == ["fails", "fails"]


@pytest.mark.parametrize(
    ("id_", "size", "state"),
    [
        ("1002:73a1", 32 * GIB, "holds"),
        ("1002:73a1", 256 << 20, "fails"),
        ("1002:66a1", 16 * GIB, "unknown"),  # 16 or 32 GiB of memory
        ("1002:ffff", 32 * GIB, "unknown"),
    ],
)
def test_without_the_drivers_word_the_product_tells(build, states, id_, size, state):
    assert states(build.two_navi_cards(id_, bar_size=size, dma_mask_bits=44)) == [state, state]


# --- condition 5: reach -----------------------------------------------------------------------------------------------

AMDGPU_KERNELS = {"6.1.0-25-amd64": False, "6.8.0-52-generic": False, "6.12.10": True, "7.3.4": True}


@pytest.mark.parametrize(
    ("kernel", "mode", "base"),
    list(itertools.product(AMDGPU_KERNELS, [None, "identity", "DMA", "DMA-FQ", "blocked"], [LOW, HIGH])),
)
def test_bars_kernels_and_domain_types(build, predict, kernel, mode, base):
    """Low BARs are reached in any mode; high ones through translation alone, and only by amdgpu from 6.12 on."""
    found = predict(build.two_navi_cards(bar_at=base, iommu_type=mode), kernel=kernel, facts=vram(build))
    maps = AMDGPU_KERNELS[kernel] and mode in ("DMA", "DMA-FQ")
    expected = "holds" if base == LOW or maps else "fails"
    assert [pair.state for pair in found.values()] == [expected, expected]
    if expected == "fails":
        assert decisive(found) == "bar-reach"
        assert found[build.FIRST, build.SECOND].decisive.remedies == ("firmware-mmio-below-dma-limit",)


def test_the_accessors_mask_counts(build, predict):
    """An MI210 (48 bits) reads a V620's BAR at 56 TiB; the V620 (44) does not read the MI210's."""
    parts = [
        build.root_port("0000:40:01.1"),
        build.navi_card(0x41, "0000:40:01.1", build.MI210, bar_at=HIGH, bar_size=64 * GIB),
        build.root_port("0000:80:01.1"),
        build.navi_card(0x81, "0000:80:01.1", build.V620, bar_at=HIGH + 64 * GIB),
    ]
    found = predict(parts)
    assert found[build.FIRST, build.SECOND].state == "holds"
    refused = found[build.SECOND, build.FIRST]
    assert (refused.state, refused.decisive.name) == ("fails", "bar-reach")
    assert "44 bits" in refused.decisive.text


def test_the_accessors_domain_counts(build, predict):
    parts = build.changed(build.two_navi_cards(bar_at=HIGH, iommu_type="identity"), build.FIRST, iommu_type="DMA-FQ")
    found = predict(parts, facts=vram(build))
    assert found[build.FIRST, build.SECOND].state == "holds"
    assert found[build.SECOND, build.FIRST].state == "fails"


@pytest.mark.parametrize(
    ("start", "state"), [(16 * TIB - 32 * GIB, "holds"), (16 * TIB - 16 * GIB, "fails"), (16 * TIB, "fails")]
)
def test_both_ends_of_the_bar_must_fit(build, predict, start, state):
    parts = build.changed(build.two_navi_cards(), build.SECOND, bars=(build.bar(start),))
    assert predict(parts, facts=vram(build))[build.FIRST, build.SECOND].state == state


@pytest.mark.parametrize(
    ("bits", "state"), [(44, "fails"), (47, "holds"), (48, "holds"), (32, "fails"), (NOT_CAPTURED, "fails")]
)
def test_the_drivers_mask_goes_before_the_table(build, states, bits, state):
    """32 is what the attribute reads before a driver has set its mask: then the generation tells."""
    assert states(build.two_navi_cards(bar_at=HIGH, dma_mask_bits=bits), facts=vram(build)) == [state, state]


@pytest.mark.parametrize(
    "facts",
    [
        {"bars": NOT_CAPTURED},
        {"bars": ()},
        {"bar_at": HIGH, "iommu_type": NOT_CAPTURED},
        {"id_": "1002:ffff"},
    ],
)
def test_missing_facts_leave_reach_open(build, predict, facts):
    found = predict(build.two_navi_cards(**facts), facts=vram(build))
    assert {(pair.decisive.name, pair.state) for pair in found.values()} == {("bar-reach", "unknown")}


def test_an_unknown_kernel_leaves_a_translated_far_bar_open(build, states):
    assert (
        states(build.two_navi_cards(bar_at=HIGH, iommu_type="DMA"), kernel=NOT_CAPTURED, facts=vram(build)) == ["unknown"] * 2
    )
    assert states(build.two_navi_cards(bar_at=HIGH), kernel=NOT_CAPTURED, facts=vram(build)) == ["fails"] * 2


# --- XGMI and KFD's own word ------------------------------------------------------------------------------------------


def test_one_hive_needs_nothing_else(build, predict):
    """Neither build nor BAR matters between GPUs that XGMI joins."""
    kfd = build.kfd((build.FIRST, build.SECOND), hives=(0xABC, 0xABC))
    found = predict(build.two_navi_cards(build.MI100, bar_at=HIGH), pcie_p2p=None, kfd=kfd)
    assert {pair.conditions[0].name for pair in found.values()} == {"xgmi"}
    assert {pair.state for pair in found.values()} == {"holds"}


@pytest.mark.parametrize("hives", [(0, 0), (1, 2), (1, 0), (0, 1)])
def test_different_hives_go_over_pcie(build, states, hives):
    kfd = build.kfd((build.FIRST, build.SECOND), hives=hives)
    assert states(build.two_navi_cards(build.MI100, bar_at=HIGH), kfd=kfd, facts=vram(build)) == ["fails", "fails"]


def test_a_hive_is_none_with_a_gpu_that_kfd_does_not_know(build, states):
    kfd = build.kfd((build.SECOND,), hives=(1,))
    assert states(build.two_navi_cards(build.MI100, bar_at=HIGH), kfd=kfd, facts=vram(build)) == ["fails", "fails"]


def test_kfd_agrees_or_not_for_each_direction(build, predict):
    kfd = build.kfd((build.FIRST, build.SECOND), ((build.FIRST, build.SECOND),))
    found = predict(build.two_navi_cards(), facts=vram(build), kfd=kfd)
    there, back = found[build.FIRST, build.SECOND], found[build.SECOND, build.FIRST]
    assert (there.driver_says, there.disagrees) == (True, False)
    assert (back.driver_says, back.disagrees) == (False, True)
    assert "p2p_links" in there.driver_evidence[0].source


def test_a_link_through_the_processor_is_no_link_between_gpus(build, predict):
    """KFD lists every GPU's way to each processor among the links of its own."""
    kfd = build.kfd((build.FIRST, build.SECOND), cpu_links=((build.FIRST, 2, 0), (build.SECOND, 2, 0)))
    found = predict(build.two_navi_cards(), facts=vram(build), kfd=kfd)
    assert {pair.driver_says for pair in found.values()} == {False}


def test_xgmi_among_the_ordinary_links_counts_as_the_drivers_yes(build, predict):
    kfd = build.kfd((build.FIRST, build.SECOND), hives=(7, 7))
    links = (KfdLink(1, 2, 11, 0, False, "io_links/1"), KfdLink(2, 1, 11, 0, False, "io_links/1"))
    found = predict(build.two_navi_cards(build.MI100), kfd=msgspec.structs.replace(kfd, links=links))
    assert {(pair.driver_says, pair.disagrees) for pair in found.values()} == {(True, False)}


@pytest.mark.parametrize("kfd", [NOT_CAPTURED, None, Unknown("the device cgroup hides a GPU")])
def test_kfd_that_cannot_be_read_says_nothing(build, predict, kfd):
    found = predict(build.two_navi_cards(), facts=vram(build), kfd=kfd)
    assert {(pair.driver_says, pair.disagrees) for pair in found.values()} == {(None, False)}


def test_kfd_that_does_not_know_one_of_the_two_says_nothing(build, predict):
    found = predict(build.two_navi_cards(), facts=vram(build), kfd=build.kfd((build.FIRST,)))
    assert {pair.driver_says for pair in found.values()} == {None}


def test_an_open_question_is_no_disagreement(build, predict):
    kfd = build.kfd((build.FIRST, build.SECOND))
    found = predict(build.two_navi_cards(), facts=vram(build), kfd=kfd, modules={"amdgpu": Module("amdgpu", {})})
    assert {(pair.state, pair.disagrees) for pair in found.values()} == {("unknown", False)}
    both = ((build.FIRST, build.SECOND), (build.SECOND, build.FIRST))
    kfd = build.kfd((build.FIRST, build.SECOND), both)
    found = predict(build.two_navi_cards(), facts=vram(build), kfd=kfd, modules={"amdgpu": Module("amdgpu", {})})
    assert {(pair.driver_says, pair.disagrees) for pair in found.values()} == {(True, False)}


# --- across vendors ---------------------------------------------------------------------------------------------------


def test_different_vendors_do_none_by_design(build, predict):
    found = predict(build.two_navi_cards()[:2], build.two_nvidia_gpus()[2:])
    assert {(pair.decisive.name, pair.state, pair.decisive.by_design) for pair in found.values()} == {
        ("same-vendor", "fails", True)
    }


def test_intel_gpus_have_no_rule_yet(build, states):
    assert states(build.two_nvidia_gpus("8086:e20b")) == ["unknown", "unknown"]


# --- NVIDIA -----------------------------------------------------------------------------------------------------------


def test_equal_professional_gpus(build, predict):
    found = predict(build.two_nvidia_gpus())
    assert {pair.state for pair in found.values()} == {"holds"}
    names = [condition.name for condition in next(iter(found.values())).conditions]
    assert names == ["same-chip", "policy", "driver", "root-complex", "iommu"]


@pytest.mark.parametrize(
    ("pair", "name", "state"),
    [
        (("10de:2231", "10de:2230"), None, "holds"),  # A5000 and A6000: both GA102
        (("10de:26b1", "10de:27b0"), "same-chip", "fails"),  # 6000 Ada and 4000 SFF Ada
        (("10de:2c33", "10de:28b0"), "same-chip", "fails"),
        (("10de:2204", "10de:2684"), "same-chip", "fails"),  # 3090 and 4090
        (("10de:2204", "10de:2230"), "policy", "fails"),  # one die, one of the two a GeForce
        (("10de:2684", "10de:2684"), "policy", "fails"),
        (("10de:2b85", "10de:2b85"), "policy", "fails"),
        (("10de:20c2", "10de:20c2"), "policy", "fails"),  # mining
        (("10de:1b06", "10de:1b06"), "policy", "unknown"),  # Pascal GeForce: nobody could say
        (("10de:ffff", "10de:ffff"), "policy", "unknown"),
        (("10de:ffff", "10de:2231"), "same-chip", "unknown"),
    ],
)
def test_chips_and_products(build, predict, pair, name, state):
    found = predict(build.two_nvidia_gpus(*pair))
    assert {each.state for each in found.values()} == {state}
    if name:
        assert decisive(found) == name
        assert {each.decisive.by_design for each in found.values()} == {state == "fails"}


@pytest.mark.parametrize("driver", ["nouveau", None, Unknown("not permitted")])
def test_another_driver_leaves_it_open(build, predict, driver):
    found = predict(build.changed(build.two_nvidia_gpus(), "0000:81:00.0", driver=driver))
    assert {(pair.decisive.name, pair.state) for pair in found.values()} == {("driver", "unknown")}


@pytest.mark.parametrize(
    ("root", "state"),
    [
        ("8086:3408", "fails"),
        ("8086:3c04", "fails"),
        ("8086:0e08", "fails"),
        ("8086:2f04", "fails"),
        ("8086:6f08", "fails"),
        ("8086:2030", "holds"),
        ("8086:347a", "holds"),
    ],
)
def test_old_intel_roots_are_not_crossed(build, predict, root, state):
    apart = predict(build.two_nvidia_gpus(port_id=root), cpu=build.INTEL)
    assert {pair.state for pair in apart.values()} == {state}
    if state == "fails":
        assert decisive(apart) == "root-complex"
        assert all(pair.decisive.by_design for pair in apart.values())
    together = predict(build.two_nvidia_gpus(port_id=root, ports=("0000:40:01.0", "0000:40:02.0")), cpu=build.INTEL)
    assert {pair.state for pair in together.values()} == {"holds"}


def test_root_ports_that_are_not_in_the_evidence_leave_it_open(build, predict):
    found = predict(build.two_nvidia_gpus()[1::2])
    assert {(pair.decisive.name, pair.state) for pair in found.values()} == {("root-complex", "unknown")}


@pytest.mark.parametrize(
    ("mode", "state"),
    [("identity", "holds"), (None, "holds"), ("DMA", "unknown"), ("DMA-FQ", "unknown"), (Unknown("not permitted"), "unknown")],
)
@pytest.mark.parametrize("at", ["0000:41:00.0", "0000:81:00.0"])
def test_a_translating_iommu_leaves_it_open_whichever_of_the_two_it_is(build, predict, mode, state, at):
    found = predict(build.changed(build.two_nvidia_gpus(), at, iommu_type=mode))
    assert {pair.state for pair in found.values()} == {state}
    if mode in ("DMA", "DMA-FQ"):
        assert {pair.decisive.remedies for pair in found.values()} == {("iommu-passthrough",)}
