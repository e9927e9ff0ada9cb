"""link-stability: what links do while they are watched."""

from __future__ import annotations

import msgspec
import pytest

from hostdoctor.facts.driver import ErrorCounters, LinkSample, Samples
from hostdoctor.facts.unknown import ASLEEP, NOT_CAPTURED, Unknown

ID = "link-stability"
PORT, GPU, EDGE = "0000:40:01.1", "0000:43:00.0", "0000:41:00.0"
BEST, SLOW = (16.0, 16, 90), (2.5, 16, 90)


@pytest.fixture
def over(build):
    """The verdict over a card with its own switch, from its looks."""

    def judged(*looks, **more):
        described = build.host(build.root_port(PORT), build.navi_card(0x41, PORT), samples=build.samples({GPU: looks}, **more))
        return build.verdict(ID, described)

    return judged


def test_a_link_that_stays_as_it_is(over):
    found = over(BEST, BEST, BEST)
    assert (found.outcome, found.subject) == ("ok", (GPU,))
    assert found.title == "16 GT/s x16 in 3 looks over 2 s"


def test_lanes_that_go_are_a_failure(over, text):
    found = over(BEST, (16.0, 8, 90), BEST)
    assert (found.outcome, found.confidence, found.remedies) == ("failure", "likely", ("reseat-or-move-card",))
    assert "x16, x8" in found.title
    assert f"{EDGE}/current_link_width 16 GT/s x8 at 1 s, GPU 90 % busy" in text(found)
    assert (found.cost.have_gbs, found.cost.could_have_gbs) == (15.75, 31.51)


def test_a_link_that_goes_down_is_a_failure(over):
    assert over(BEST, (16.0, 0, 0)).outcome == "failure"


def test_lanes_that_go_with_the_speed_of_an_idle_gpu_may_be_power_saving(over):
    found = over((16.0, 16, 90), (2.5, 8, 0), (16.0, 16, 90))
    assert (found.outcome, found.confidence) == ("failure", "possible")
    assert over((16.0, 16), (2.5, 8), (2.5, 16)).confidence == "likely"


def test_a_speed_that_falls_under_load_is_a_failure(over, text):
    found = over(BEST, BEST, (8.0, 16, 95))
    assert (found.outcome, found.subject) == ("failure", (GPU,))
    assert "from 16 to 8 GT/s" in found.title
    assert "95 % busy" in found.explanation
    assert "8 GT/s x16 at 2 s" in text(found)


@pytest.mark.parametrize(
    "looks",
    [
        ((16.0, 16, 90), (2.5, 16, 0)),  # the work is done
        ((2.5, 16, 0), (2.5, 16, 90), (16.0, 16, 90)),  # it begins
        ((16.0, 16, 90), (2.5, 16, 49)),
        ((16.0, 16, 49), (2.5, 16, 90)),
        ((16.0, 16), (2.5, 16)),  # nothing says whether it works
    ],
)
def test_a_speed_that_follows_activity_is_a_fact(over, looks):
    found = over(*looks)
    assert (found.outcome, found.remedies) == ("info", ())
    assert "between 2.5 and 16 GT/s" in found.title


def test_many_changes_with_errors_are_a_warning(over):
    looks = ((16.0, 16), (8.0, 16), (16.0, 16), (8.0, 16))
    before, after = ErrorCounters(PORT), ErrorCounters(PORT, correctable={"RxErr": 7})
    found = over(*looks, before=(before,), after=(after,))
    assert (found.outcome, found.confidence) == ("warning", "likely")
    assert "3 times, with 7 corrected errors" in found.title
    assert over(*looks[:3], before=(before,), after=(after,)).outcome == "info", "down and up is what idling does"
    assert over(*looks, before=(before,), after=(before,)).outcome == "info", "a desktop does that all day"
    advice = ErrorCounters(PORT, correctable={"NonFatalErr": 7})
    assert over(*looks, before=(before,), after=(advice,)).outcome == "info"


def test_replays_count_as_errors(over):
    looks = ((16.0, 16), (8.0, 16), (16.0, 16), (8.0, 16))
    before, after = ErrorCounters(GPU, replays=3), ErrorCounters(GPU, replays=5)
    assert over(*looks, before=(before,), after=(after,)).outcome == "warning"


@pytest.mark.parametrize("address", [GPU, EDGE, PORT])
def test_a_card_that_is_removed_is_a_failure(over, address):
    found = over(BEST, uevents=(f"remove {address}",))
    assert (found.outcome, found.confidence) == ("failure", "likely")
    assert address in found.title


def test_other_uevents_say_nothing(over):
    assert over(BEST, BEST, uevents=("remove 0000:99:00.0", f"change {GPU}", f"bind {GPU}")).outcome == "ok"


def test_lanes_weigh_more_than_speed(over):
    assert "width" in over(BEST, (8.0, 16, 90), (16.0, 8, 90)).title


def test_seen_once_is_unknown(over):
    found = over(BEST)
    assert (found.outcome, found.help) == ("unknown", "hostdoctor scan --samples 10")
    assert over().outcome == "unknown"


def test_asleep_or_unread_is_unknown(over):
    found = over((ASLEEP, ASLEEP), (ASLEEP, ASLEEP))
    assert (found.outcome, found.help) == ("unknown", ASLEEP.help)
    gone = Unknown("taken away")
    assert "taken away" in over(BEST, (gone, gone)).title


def test_what_was_not_read_in_between_is_left_out(over):
    assert over(BEST, (ASLEEP, ASLEEP), BEST).outcome == "ok"


def test_each_card_by_its_own_looks(build, judge):
    looks = {build.FIRST: [(16.0, 16)] * 2, build.SECOND: [(16.0, 16), (16.0, 4)]}
    found = judge(ID, build.host(build.two_navi_cards(), samples=build.samples(looks)))
    assert {each.subject[0]: each.outcome for each in found} == {build.FIRST: "ok", build.SECOND: "failure"}


def test_a_scan_that_looks_once_is_not_cluttered(build, verdict):
    found = verdict(ID, build.host(build.two_navi_cards()))
    assert found.outcome == "not-applicable"
    assert "--samples" in found.title


def test_not_judged_without_a_gpu_nor_in_a_guest(build, verdict):
    watched = Samples(1.0, (LinkSample(GPU, 0.0, 16.0, 16),))
    found = verdict(ID, build.host(samples=watched))
    assert (found.outcome, found.title) == ("not-applicable", "no discrete GPU here")
    guest = build.host(build.gpu(GPU, build.V620), samples=watched, environment=build.GUEST)
    assert verdict(ID, guest).outcome == "not-applicable"


# --- by the kernel's log ----------------------------------------------------------------------------------------------


def test_a_link_above_a_gpu_that_came_and_went(build, verdict):
    down, up = (build.event(kind, "0000:40:01.1", first_s=5.0) for kind in ("link-down", "link-up"))
    found = verdict("link-stability", build.host(build.two_navi_cards(), log=build.log(down, up)))
    assert (found.outcome, found.subject) == ("warning", (build.FIRST,))
    assert verdict("link-stability", build.host(build.two_navi_cards(), log=build.log(down))).outcome == "not-applicable"


def test_a_link_that_went_down_for_good(build, verdict):
    """Where the GPU is known by the log alone; one that is listed is there again."""
    log = build.log(build.event("link-down", "0000:40:01.1", first_s=5.0))
    port = build.root_port("0000:40:01.1")
    told = msgspec.structs.replace(
        build.gpu("0000:41:00.0", build.A5000, port.address), config=NOT_CAPTURED, origin="dmesg.txt:9"
    )
    found = verdict("link-stability", build.host(port, told, log=log))
    assert (found.outcome, found.subject, found.confidence) == ("warning", ("0000:41:00.0",), "likely")
    assert "nothing of its coming up again" in found.title
    listed = msgspec.structs.replace(told, config=build.gpu("0000:41:00.0", build.A5000, port.address).config)
    assert verdict("link-stability", build.host(port, listed, log=log)).outcome == "not-applicable"


def test_other_ports_count_where_they_flap(build, verdict):
    def log(count, last_s):
        return build.log(
            *(build.event(kind, "0000:00:01.0", count=count, first_s=5.0, last_s=last_s) for kind in ("link-down", "link-up"))
        )

    assert verdict("link-stability", build.host(log=log(3, 90.0))).outcome == "warning"
    assert verdict("link-stability", build.host(log=log(3, 90_000.0))).outcome == "not-applicable"
    assert verdict("link-stability", build.host(log=log(1, 5.0))).outcome == "not-applicable"


@pytest.mark.parametrize("kind", ["link-retrained", "link-training-failed"])
def test_a_link_that_does_not_train(build, verdict, kind):
    found = verdict("link-stability", build.host(build.two_navi_cards(), log=build.log(build.event(kind, "0000:40:01.1"))))
    assert (found.outcome, found.subject) == ("warning", (build.FIRST,))
    elsewhere = build.log(build.event(kind, "0000:00:01.0"))
    assert verdict("link-stability", build.host(build.two_navi_cards(), log=elsewhere)).outcome == "not-applicable"
