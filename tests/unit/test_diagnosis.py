"""Running checks: order, counts, exit codes, and checks that fail."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from hostdoctor.diagnosis import diagnose, exit_code, selected, summary
from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import OUTCOMES, Check, Finding
from hostdoctor.registry import Broken, built_in


def check(id_, *outcomes, **changes):
    """A check that finds these outcomes."""

    def judge(view):
        for outcome in outcomes:
            yield Finding(id_, outcome, (), f"{id_} {outcome}")

    return Check(id_, "host", "s", "l", "w", "d", ("source",), judge, **changes)


@pytest.fixture
def view(build):
    return build.view()


# --- order ------------------------------------------------------------------------------------------------------------


def test_worst_first_then_in_the_checks_order(view):
    checks = [check("a", "ok", "info", "unknown"), check("b", "warning", "failure"), check("c", "failure", "not-applicable")]
    assert [(each.outcome, each.check) for each in diagnose(view, checks)] == [
        ("failure", "b"),
        ("failure", "c"),
        ("warning", "b"),
        ("info", "a"),
        ("unknown", "a"),
        ("ok", "a"),
        ("not-applicable", "c"),
    ]


def test_a_check_that_finds_nothing_says_so_in_its_own_words(view):
    (found,) = diagnose(view, [check("a", nothing="no such card")])
    assert (found.outcome, found.title, found.subject) == ("not-applicable", "no such card", ())


def test_the_same_host_gives_the_same_findings(build):
    described = build.host(build.two_navi_cards(bar_at=56 << 40))
    assert diagnose(build.View(described), built_in()) == diagnose(build.View(described), built_in())


def test_the_order_in_which_functions_are_found_does_not_matter(build):
    described = build.host(build.below_one_switch(build.REDIRECT), build.two_navi_cards(bar_at=56 << 40))
    turned = msgspec.structs.replace(described, functions=dict(reversed(described.functions.items())))
    first, second = (diagnose(build.View(host), built_in()) for host in (described, turned))
    assert {(each.check, each.outcome) for each in first} == {(each.check, each.outcome) for each in second}


# --- what keeps a check from running ----------------------------------------------------------------------------------


def test_a_guest_is_not_judged_as_hardware(build):
    guest = build.view(environment=build.GUEST)
    found = diagnose(guest, [check("a", "failure"), check("b", "failure", bare_metal_only=False)])
    assert [(each.check, each.outcome) for each in found] == [("b", "failure"), ("a", "not-applicable")]
    assert found[1].title == "not judged in a guest"


def test_unless_its_owner_asks_for_it(build):
    assumed = msgspec.structs.replace(build.GUEST, assumed_bare_metal=True)
    assert diagnose(build.view(environment=assumed), [check("a", "failure")])[0].outcome == "failure"


def test_a_machine_that_cannot_be_told_is_judged_as_bare_metal(build):
    unsure = build.Environment(Unknown("nothing says"))
    assert diagnose(build.view(environment=unsure), [check("a", "failure")])[0].outcome == "failure"


def test_without_pci_functions_the_reason_is_told(build):
    blind = build.view(functions=Unknown("no PCI functions in this evidence", "give a tree with sys/"))
    found = diagnose(blind, [check("a", "ok"), check("b", "ok", needs_pci=False)])
    assert [(each.check, each.outcome) for each in found] == [("a", "unknown"), ("b", "ok")]
    assert "no PCI functions in this evidence" in found[0].title
    assert found[0].help == "give a tree with sys/"


def test_a_check_that_raises_does_not_take_the_others_along(view):
    def judge(view):
        yield Finding("a", "failure", (), "said before it broke")
        raise ZeroDivisionError("a stranger's tree")

    broken = msgspec.structs.replace(check("a"), judge=judge)
    found = diagnose(view, [broken, check("b", "warning")])
    assert [(each.check, each.outcome) for each in found] == [("b", "warning"), ("a", "unknown")]
    assert "ZeroDivisionError: a stranger's tree" in found[1].title
    assert "report it" in found[1].help


@pytest.mark.parametrize(
    "given",
    [
        "text in the place of a finding",
        None,
        Finding("a", "catastrophe", (), "no such outcome"),
        Finding("a", "failure", ("0000:43:00.0", 3), "a subject that is no text"),
        Finding("a", "failure", (), 5),
    ],
)
def test_what_is_no_finding_is_told_and_reaches_no_report(view, given):
    wrong = msgspec.structs.replace(check("a"), judge=lambda view: [given])
    found = diagnose(view, [wrong, check("b", "ok")])
    assert [(each.check, each.outcome) for each in found] == [("a", "unknown"), ("b", "ok")]
    assert "failed itself" in found[0].title


def test_a_check_that_tries_to_exit_does_not(view):
    def judge(view):
        raise SystemExit(0)

    found = diagnose(view, [msgspec.structs.replace(check("a"), judge=judge), check("b", "failure")])
    assert [(each.check, each.outcome) for each in found] == [("b", "failure"), ("a", "unknown")]


def test_an_interrupt_ends_the_scan(view):
    def judge(view):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        diagnose(view, [msgspec.structs.replace(check("a"), judge=judge)])


def test_a_check_that_could_not_be_loaded_is_one_unknown_finding(view):
    (found,) = diagnose(view, [Broken("mine", "/etc/hostdoctor/checks.d/mine.py", "SyntaxError: invalid syntax")])
    assert (found.check, found.outcome) == ("mine", "unknown")
    assert "/etc/hostdoctor/checks.d/mine.py" in found.title
    assert "SyntaxError" in found.explanation


# --- which run --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("only", "skip", "ids"),
    [
        ((), (), ["link-width", "link-speed", "p2p-pair", "mine"]),
        (("link-*",), (), ["link-width", "link-speed"]),
        (("link-*", "mine"), ("*-speed",), ["link-width", "mine"]),
        ((), ("*",), []),
        (("LINK-*",), (), []),
    ],
)
def test_selection_by_pattern(only, skip, ids):
    checks = [check("link-width"), check("link-speed"), check("p2p-pair"), Broken("mine", "here", "why")]
    assert [each.id for each in selected(checks, only, skip)] == ids


# --- counts and exit codes --------------------------------------------------------------------------------------------


def findings(*outcomes):
    return [Finding("a", outcome, (), "t") for outcome in outcomes]


def test_every_outcome_is_counted_even_if_none_was_found():
    counts = summary(findings("failure", "ok", "ok"))
    assert list(counts) == list(OUTCOMES)
    assert counts == {"failure": 1, "warning": 0, "info": 0, "unknown": 0, "ok": 2, "not-applicable": 0}


FAILS = {"failure": {"failure"}, "warning": {"failure", "warning"}, "info": {"failure", "warning", "info"}, "never": set()}


@pytest.mark.parametrize(("fail_on", "strict", "outcome"), list(itertools.product(FAILS, (False, True), OUTCOMES)))
def test_exit_codes(fail_on, strict, outcome):
    expected = outcome in FAILS[fail_on] or (strict and fail_on != "never" and outcome == "unknown")
    assert exit_code(findings("ok", outcome), fail_on, strict) == int(expected)


def test_nothing_found_is_no_failure():
    assert exit_code([], "info", strict=True) == 0


def test_by_default_only_failures_count():
    assert exit_code(findings("warning", "info", "unknown")) == 0
    assert exit_code(findings("failure")) == 1
