"""pcie-atomics: whether they reach the root port of a GPU that needs them."""

from __future__ import annotations

import pytest

from hostdoctor.facts.pci import DOWNSTREAM_PORT, ROOT_PORT, UPSTREAM_PORT, ConfigFacts
from hostdoctor.facts.unknown import ASLEEP, NEEDS_ROOT, NOT_CAPTURED, Unknown

ID = "pcie-atomics"
PORT, GPU = "0000:40:01.1", "0000:53:00.0"
PCIE, NO_ATOMICS = 2, 0xC


@pytest.fixture
def parts(build):
    """A card below a switch; one of its ports can be changed."""

    def make(id_=build.V620, at=None, port_type=None, **express):
        found = [build.root_port(PORT), build.switch(0x41, PORT, ports=1), build.navi_card(0x51, "0000:42:00.0", id_)]
        if at is None:
            return found
        return build.changed(found, at, config=ConfigFacts(express=build.express(port_type, **express)))

    return make


def test_routed_all_the_way_is_in_order(build, verdict, parts, text):
    found = verdict(ID, build.host(parts()))
    assert (found.outcome, found.subject) == ("ok", (GPU,))
    assert PORT in text(found)


NOT_ROUTED = [
    (PORT, ROOT_PORT, {"atomic_64_completer": False}),
    (PORT, ROOT_PORT, {"atomic_32_completer": False}),
    ("0000:42:00.0", DOWNSTREAM_PORT, {"atomic_routing": False}),
    ("0000:41:00.0", UPSTREAM_PORT, {"atomic_routing": False}),
    ("0000:41:00.0", UPSTREAM_PORT, {"atomic_egress_blocked": True}),
    ("0000:51:00.0", UPSTREAM_PORT, {"atomic_egress_blocked": True}),
]


@pytest.mark.parametrize("not_routed", NOT_ROUTED)
def test_not_routed_and_required_is_a_warning(build, verdict, parts, text, not_routed):
    at, port_type, fault = not_routed
    found = verdict(ID, build.host(parts(build.POLARIS, at, port_type, **fault)))
    assert (found.outcome, found.subject) == ("warning", (GPU,))
    assert (found.confidence, found.remedies) == ("likely", ("move-card-to-cpu-slot",))
    assert at in text(found)
    assert "needs them" in found.title


@pytest.mark.parametrize("id_", ["1002:66a1", "1002:740f"])
def test_not_routed_and_not_required_is_a_fact(build, verdict, parts, id_):
    at, port_type, fault = NOT_ROUTED[0]
    found = verdict(ID, build.host(parts(id_, at, port_type, **fault)))
    assert (found.outcome, found.remedies) == ("info", ())
    assert "does not need them" in found.title


@pytest.mark.parametrize(("id_", "firmware", "outcome"), [
    ("1002:73a1", 91, "warning"),
    ("1002:73a1", 92, "info"),
    ("1002:731f", 144, "warning"),
    ("1002:731f", 145, "info"),
    ("1002:744c", 508, "warning"),
    ("1002:744c", 509, "unknown"),  # its firmware comes in two kinds
    ("1002:7551", 2089, "warning"),
    ("1002:7551", 2090, "info"),
])  # fmt: skip
def test_newer_gpus_leave_it_to_their_firmware(build, parts, id_, firmware, outcome):
    at, port_type, fault = NOT_ROUTED[2]
    described = build.host(parts(id_, at, port_type, **fault), kfd=build.kfd((GPU,), firmware=firmware))
    assert build.verdict(ID, described).outcome == outcome


@pytest.mark.parametrize("id_", ["1002:73a1", "1002:ffff"])
def test_not_routed_and_the_need_not_known_is_unknown(build, verdict, parts, id_):
    at, port_type, fault = NOT_ROUTED[0]
    found = verdict(ID, build.host(parts(id_, at, port_type, **fault)))
    assert (found.outcome, found.remedies) == ("unknown", ())
    assert "do not reach the root port" in found.title


@pytest.mark.parametrize(("flags", "outcome"), [(0, "ok"), (NO_ATOMICS, "warning"), (0x4, "warning"), (0x1, "ok")])
def test_without_root_kfd_tells(build, verdict, parts, flags, outcome):
    unread = build.changed(parts(build.POLARIS), PORT, config=NEEDS_ROOT)
    kfd = build.kfd((GPU,), cpu_links=((GPU, PCIE, flags),))
    assert verdict(ID, build.host(unread, kfd=kfd)).outcome == outcome


def test_of_kfds_links_only_the_gpus_own_to_a_processor_tells(build, judge):
    parts = build.changed(build.two_navi_cards(build.POLARIS), "0000:40:01.1", config=NEEDS_ROOT)
    parts = build.changed(parts, "0000:80:01.1", config=NEEDS_ROOT)
    to_processor = ((build.FIRST, PCIE, 0), (build.SECOND, PCIE, NO_ATOMICS))
    kfd = build.kfd((build.FIRST, build.SECOND), cpu_links=to_processor)
    between = (
        build.KfdLink(1, 2, PCIE, NO_ATOMICS, False, "io_links/1"),
        build.KfdLink(1, 0, PCIE, NO_ATOMICS, True, "p2p_links/0"),
    )
    found = judge(ID, build.host(parts, kfd=build.Kfd(kfd.nodes, (*between, *kfd.links))))
    assert {each.subject: each.outcome for each in found} == {(build.FIRST,): "ok", (build.SECOND,): "warning"}


@pytest.mark.parametrize("why", [NEEDS_ROOT, ASLEEP])
def test_an_unread_port_is_unknown(build, verdict, parts, why):
    found = verdict(ID, build.host(build.changed(parts(), PORT, config=why)))
    assert (found.outcome, found.help) == ("unknown", why.help)


def test_a_path_without_its_root_port_is_unknown(build, verdict):
    assert verdict(ID, build.host(build.navi_card(0x51, NOT_CAPTURED))).outcome == "unknown"
    assert verdict(ID, build.host(build.gpu(GPU, build.V620))).outcome == "unknown"


def test_not_judged_on_other_vendors_nor_in_a_guest(build, verdict):
    assert verdict(ID, build.host(build.two_nvidia_gpus())).outcome == "not-applicable"
    guest = build.host(build.gpu(GPU, build.V620), environment=build.GUEST)
    assert verdict(ID, guest).outcome == "not-applicable"


# --- by the kernel's log ----------------------------------------------------------------------------------------------


def test_kfd_refused_every_gpu_of_its_kind(build, verdict):
    log = build.log(build.event("kfd-atomics", details={"id": "1002:73a1"}, count=2))
    found = verdict("pcie-atomics", build.host(build.two_navi_cards(), log=log))
    assert (found.outcome, found.subject) == ("failure", (build.FIRST, build.SECOND))


def test_kfd_refused_one_of_two(build, judge):
    """The one that atomics do not reach, where that shows; else nobody is blamed."""
    log = build.log(build.event("kfd-atomics", details={"id": "1002:67df"}))
    blocked = build.root_port("0000:80:01.1", config=build.ConfigFacts(express=build.express(4, atomic_32_completer=False)))
    parts = [
        build.root_port("0000:40:01.1"),
        build.gpu("0000:41:00.0", build.POLARIS, "0000:40:01.1"),
        blocked,
        build.gpu("0000:81:00.0", build.POLARIS, "0000:80:01.1"),
    ]
    found = {each.subject: each.outcome for each in judge("pcie-atomics", build.host(parts, log=log))}
    assert found == {("0000:81:00.0",): "failure", ("0000:41:00.0",): "ok"}
    unread = build.changed(
        build.changed(parts, "0000:80:01.1", config=build.NOT_CAPTURED), "0000:40:01.1", config=build.NOT_CAPTURED
    )
    outcomes = {each.subject: each.outcome for each in judge("pcie-atomics", build.host(unread, log=log))}
    assert outcomes[("1002:67df",)] == "failure"


def test_an_lspci_too_old_to_show_them_is_no_verdict(build, verdict, parts):
    old = Unknown("this version of lspci does not show it", "run a newer lspci")
    unsaid = dict.fromkeys(("atomic_routing", "atomic_32_completer", "atomic_64_completer", "atomic_egress_blocked"), old)
    found = verdict(ID, build.host(parts(at="0000:42:00.0", port_type=DOWNSTREAM_PORT, **unsaid)))
    assert (found.outcome, found.help) == ("unknown", old.help)
