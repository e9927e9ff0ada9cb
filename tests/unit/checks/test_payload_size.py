"""payload-size: what the ends of each link accept of each other."""

from __future__ import annotations

import pytest

from hostdoctor.facts.pci import ENDPOINT, ROOT_PORT, ConfigFacts
from hostdoctor.facts.unknown import ASLEEP, NEEDS_ROOT

ID = "payload-size"
PORT, GPU = "0000:40:01.1", "0000:41:00.0"


@pytest.fixture
def over(build):
    """The verdict over a GPU below a root port, each as (payload, read request)."""

    def judged(gpu, port=(256, 512)):
        return build.verdict(
            ID,
            build.host(
                build.root_port(PORT, config=ConfigFacts(express=build.express(ROOT_PORT, *port))),
                build.gpu(GPU, build.A5000, PORT, config=ConfigFacts(express=build.express(ENDPOINT, *gpu))),
            ),
        )

    return judged


def test_one_size_on_the_path_is_in_order(over):
    found = over((256, 512))
    assert (found.outcome, found.subject) == ("ok", (GPU,))
    assert "256 bytes" in found.title
    assert len(found.evidence) == 2


def test_a_device_that_sends_more_than_its_port_takes_is_a_warning(over, text):
    found = over((512, 512), port=(128, 512))
    assert (found.outcome, found.confidence, found.subject) == ("warning", "likely", (GPU,))
    assert found.explanation.startswith("What the device sends can be larger than its port accepts: ")
    assert found.remedies == ("payload-size-safe",)
    assert f"512 bytes at {GPU}, 128 at {PORT}" in found.title
    assert "pci=pcie_bus_safe" in found.next
    assert "MaxPayload 512" in text(found)


def test_a_port_that_may_send_more_than_the_device_takes_is_a_warning(over):
    assert over((128, 512)).outcome == "warning"


def test_a_device_that_asks_for_no_more_than_it_takes_is_in_order(over):
    """What the kernel's mode "performance" sets up on purpose."""
    found = over((256, 256), port=(512, 512))
    assert found.outcome == "ok"
    assert "differ" in found.title


def test_small_read_requests_are_a_fact(over):
    found = over((256, 128))
    assert (found.outcome, found.remedies) == ("info", ())
    assert "128 bytes" in found.title


def test_a_mismatch_weighs_more_than_small_requests(over):
    assert over((512, 128), port=(256, 512)).outcome == "warning"


def test_every_port_on_the_way_counts(build, verdict):
    parts = [build.root_port(PORT), build.switch(0x41, PORT), build.navi_card(0x51, "0000:42:00.0")]
    assert verdict(ID, build.host(parts)).outcome == "ok"
    small = ConfigFacts(express=build.express(ROOT_PORT, 128))
    found = verdict(ID, build.host(build.changed(parts, PORT, config=small)))
    assert found.outcome == "warning"
    assert PORT in found.title


@pytest.mark.parametrize("why", [NEEDS_ROOT, ASLEEP])
def test_an_unread_function_is_unknown(build, verdict, why):
    parts = [build.root_port(PORT, config=why), build.gpu(GPU, build.A5000, PORT)]
    found = verdict(ID, build.host(parts))
    assert (found.outcome, found.help) == ("unknown", why.help)


def test_a_path_that_is_cut_off_is_unknown(build, verdict):
    assert verdict(ID, build.host(build.gpu(GPU, build.A5000, "0000:40:01.1"))).outcome == "unknown"


def test_no_pci_express_is_unknown(build, verdict):
    gpu = build.gpu(GPU, build.A5000, config=ConfigFacts())
    assert verdict(ID, build.host(gpu)).outcome == "unknown"


def test_not_judged_in_a_guest_nor_without_a_gpu(build, verdict):
    guest = build.host(build.gpu(GPU, build.V620), environment=build.GUEST)
    assert verdict(ID, guest).outcome == "not-applicable"
    assert verdict(ID, build.host()).outcome == "not-applicable"


# --- network cards and drives -----------------------------------------------------------------------------------------

NIC_PORT, NIC = "0000:50:01.1", "0000:51:00.0"


@pytest.fixture
def beside(build, judge):
    """The findings over a network card or drive beside a GPU that is in order, without the GPU's own."""

    def judged(sizes=(256, 512), part="rdma_card", port=(256, 512), **facts):
        facts.setdefault("config", ConfigFacts(express=build.express(ENDPOINT, *sizes)))
        gpu = build.root_port(PORT), build.gpu(GPU, build.A5000, PORT)
        above = build.root_port(NIC_PORT, config=ConfigFacts(express=build.express(ROOT_PORT, *port)))
        found = judge(ID, build.host(*gpu, above, getattr(build, part)(NIC, NIC_PORT, **facts)))
        assert [each.outcome for each in found if each.subject == (GPU,)] == ["ok"]
        return [each for each in found if each.subject != (GPU,)]

    return judged


@pytest.mark.parametrize("part", ["rdma_card", "nvme"])
def test_a_card_or_drive_in_order(beside, part):
    (found,) = beside(part=part)
    assert (found.outcome, found.subject) == ("ok", ())


@pytest.mark.parametrize("part", ["rdma_card", "nvme"])
def test_a_card_or_drive_that_sends_more_than_its_port_takes(beside, part):
    (found,) = beside((512, 512), part, port=(128, 512))
    assert (found.outcome, found.subject, found.remedies) == ("warning", (NIC,), ("payload-size-safe",))


def test_small_requests_of_a_card_are_a_fact(beside):
    (found,) = beside((256, 128))
    assert (found.outcome, found.subject) == ("info", (NIC,))
    assert "Ethernet controller" in found.title


def test_an_unread_card_is_unknown_once_for_all(beside):
    (found,) = beside(config=NEEDS_ROOT)
    assert (found.outcome, found.subject, found.help) == ("unknown", (NIC,), "run with sudo")


def test_a_card_that_sleeps_is_left_alone(build, beside):
    assert beside(power=build.Power("suspended", "D3hot"), config=ASLEEP) == []


def test_virtual_functions_and_other_devices_are_left_alone(beside):
    assert beside((512, 512), port=(128, 512), is_virtual_function=True) == []
    assert beside((512, 512), port=(128, 512), class_code=0x028000) == []


def test_cards_alone_are_not_judged(build, verdict):
    assert verdict(ID, build.host(build.rdma_card(NIC))).outcome == "not-applicable"


# --- by the kernel's log ----------------------------------------------------------------------------------------------


def test_a_size_that_could_not_be_set(build, judge):
    log = build.log(build.event("payload-size", "0000:51:00.0", details={"size": "256"}))
    (found,) = judge("payload-size", build.host(functions=build.NOT_CAPTURED, log=log))
    assert (found.outcome, found.subject) == ("warning", ("0000:51:00.0",))
    assert "256 bytes" in found.title


def test_config_space_tells_what_became_of_it(build, judge):
    log = build.log(build.event("payload-size", "0000:51:00.0", details={"size": "256"}))
    described = build.host(build.two_navi_cards(), build.nvme("0000:51:00.0"), log=log)
    assert {each.outcome for each in judge("payload-size", described)} == {"ok"}
