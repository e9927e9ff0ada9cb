"""The page as text: valid, alone, and true to the report."""

from __future__ import annotations

import itertools
import json
import re
from html.parser import HTMLParser

import msgspec
import pytest

from hostdoctor.findings import Cost, Evidence, Finding
from hostdoctor.report import html, markdown, model, phrases, plain
from tests.unit import build
from tests.unit.build import FIRST, SECOND
from tests.unit.report.hosts import HOSTS, MARKUP, report

VOID = {"meta", "br", "img", "link", "input", "hr"}
# Elements of SVG that are closed where they are opened.
ALONE = {"path", "rect", "circle"}
LOADS = ("src", "srcset", "data", "action", "background", "poster", "formaction", "ping", "xlink:href")


class Checker(HTMLParser):
    """Whether every element is closed in order, ids are unique, and nothing is loaded from anywhere."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.refers, self.wrong, self.tags, self.text = [], [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        names = [name for name, _ in attrs]
        if len(names) != len(set(names)):
            self.wrong.append(f"{tag} has an attribute twice")
        for name, value in attrs:
            self._attribute(tag, name, value or "")
        if tag not in VOID and tag not in ALONE:
            self.open.append(tag)

    def _attribute(self, tag, name, value):
        if name == "id":
            self.ids.append(value)
        if name in ("aria-labelledby", "aria-describedby"):
            self.refers += value.split()
        if name == "href":
            (self.refers if value.startswith("#") else self.wrong).append(value.removeprefix("#"))
        if name in LOADS or name.startswith("on"):
            self.wrong.append(f"{tag} {name}={value}")
        if name == "style" and not re.fullmatch(r"(--v|width):[\d.]+%?", value):
            self.wrong.append(f"{tag} style={value}")

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in ALONE and tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> closes nothing")

    def handle_data(self, data):
        self.text.append(data)


def checked(text):
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert checker.wrong == []
    assert checker.open == []
    assert len(checker.ids) == len(set(checker.ids))
    assert set(checker.refers) <= set(checker.ids)
    return checker


def words(text):
    return " ".join(" ".join(checked(text).text).split())


@pytest.fixture(scope="module")
def page():
    made = {}

    def render(name):
        if name not in made:
            made[name] = html.render(report(HOSTS[name]()))
        return made[name]

    return render


@pytest.mark.parametrize("name", HOSTS)
def test_valid_and_alone(page, name):
    text = page(name)
    checker = checked(text)
    assert "img" not in checker.tags
    assert "script" not in checker.tags
    assert "link" not in checker.tags
    styles = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert not any("url(" in style or "@import" in style or "//" in style for style in styles)
    assert text.encode().decode("utf-8") == text


@pytest.mark.parametrize("name", HOSTS)
def test_headings_go_down_step_by_step(page, name):
    levels = [int(tag[1]) for tag in checked(page(name)).tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_the_verdict_comes_first(page):
    parts = ("<h1>", 'id="findings"', 'id="topology"', 'id="p2p"', 'id="bandwidth"', 'id="host"', 'id="sources"')
    places = [page("measured").index(part) for part in parts]
    assert places == sorted(places)


def test_nothing_wrong_and_nothing_judged():
    assert "<h1>" in html.render(report(HOSTS["one_gpu"]()))
    assert "Nothing wrong found" in words(html.render(report(HOSTS["one_gpu"]())))
    nothing = model.build(model.Sources("live", ("/",), (), ()), build.View(HOSTS["no_gpu"]()), (), 0)
    text = html.render(nothing)
    assert "Nothing could be judged" in words(text)
    assert 'class="verdict unknown"' in text


def test_all_of_a_finding():
    finding = Finding(
        "link-width", "failure", ("0000:43:00.0",), "the link runs x8", "Lanes are missing.", "likely",
        (Evidence("/sys/bus/pci/devices/0000:43:00.0/current_link_width", "8"),),
        Cost("15.8 GB/s each way instead of 31.5", 15.8, 31.5), ("reseat-or-move-card",), "power off and reseat the card",
    )  # fmt: skip
    made = msgspec.structs.replace(report(HOSTS["one_gpu"]()), findings=(finding,))
    text = words(html.render(made))
    for part in (
        "the link runs x8", "Lanes are missing.", "likely", "0000:43:00.0/current_link_width 8", "15.8 GB/s each way instead",
        "power off and reseat the card", "Reseat the card, or try another slot", "Clean the contacts",
    ):  # fmt: skip
        assert part in text


def test_measured_figures_as_they_are(page):
    text = page("measured")
    cells = dict(re.findall(r'title="([^"]*)">([^<]*(?: <small>[^<]*</small>)?)</td>', text))
    assert cells["0000:43:00.0 to 0000:83:00.0, run.txt:9"].startswith(("25.1 <small>to 26.4", "48.5", "9.5", "1.7"))
    assert cells["0000:43:00.0 to host:0, run.txt:9"] == "N/A"
    wrong = "host:0 to 0000:83:00.0, run.txt:9: the data that arrived are wrong"
    assert cells[wrong] == "wrong <small>data</small>"
    withheld = "0000:83:00.0 to host:0, run.txt:9: data arrived wrong in another copy between these two, so no rate is given"
    assert cells[withheld] == "withheld"
    for figure in ("13.4", "13.37", "12.6"):
        assert figure not in text
    assert "Wrong data: no rate is shown for 1 of" in words(text)


def test_direct_and_staged_copies_stand_apart(page):
    text = words(page("measured"))
    assert "p2pBandwidthLatencyTest: both directions at once, added up, asked to go directly, GB/s" in text
    assert "p2pBandwidthLatencyTest: both directions at once, added up, staged through the host, GB/s" in text
    assert "latency of small copies, µs" in text


def test_every_reason_why_p2p_fails_is_said_once():
    made = report(build.host(build.two_navi_cards(bar_at=40 << 40), kernel="6.8"))
    text = words(html.render(made))
    reason = made.host.pairs[0].reason
    assert f"a fails: {reason}" in text
    assert "no a" in text


def test_no_by_design_is_not_shown_as_a_fault():
    made = report(build.host(build.two_nvidia_gpus(build.RTX_4090)))
    text = html.render(made)
    assert {pair.p2p for pair in made.host.pairs} == {"fails"}
    assert text.count('<td class="by-design"') == 2
    assert '<td class="no"' not in text


def test_a_guest_is_told_that_its_links_are_emulated(page):
    assert "made up by the hypervisor" in page("guest")
    assert "limits the card" not in page("guest")


def test_what_is_not_known_is_said_so(page):
    assert "not known" in words(page("nothing_above"))
    assert "Not known: system, board, firmware" in words(page("one_gpu"))


def test_what_was_not_read_and_notes():
    text = words(html.render(report(HOSTS["one_gpu"]()), notes=("Names were replaced.",)))
    assert "Names were replaced." in text
    assert "Not read (1) /sys/x : no permission" in text


@pytest.mark.parametrize("embedded", ['{"a": "</script><!-- <script>"}', '["\\u2028\u2028", "é", "\\\\u003c"]', "{}"])
def test_what_is_embedded_comes_out_again(embedded):
    text = html.render(report(HOSTS["one_gpu"]()), embedded=embedded)
    (found,) = re.findall(r'<script type="application/json" id="hostdoctor">(.*?)</script>', text, re.DOTALL)
    assert json.loads(found) == json.loads(embedded)
    assert "<" not in found
    checked(text)


def test_markup_and_control_characters_are_written_out(page):
    text = page("hostile")
    assert MARKUP[:20] not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "{{7*7}}" in text
    assert "49" not in re.findall(r"\\u202e(.{4})", text)
    assert "<script>window.ran=1</script>" in words(text)


def test_thousands_of_findings_do_not_make_a_page_of_megabytes():
    evidence = tuple(Evidence(f"dmesg.txt:{number}", "x" * 60) for number in range(4000))
    finding = Finding("link-errors", "failure", (), "a storm", evidence=evidence)
    text = html.render(msgspec.structs.replace(report(HOSTS["one_gpu"]()), findings=(finding,)))
    assert len(text) < 100_000
    assert "and 3,960 more" in text


def test_a_pair_whose_data_are_wrong_is_not_green():
    run = build.run(build.copy(FIRST, SECOND, 25.0), verified=((FIRST, SECOND, False),))
    text = html.render(report(build.host(build.two_navi_cards(), runs=(run,))))
    matrix = text[text.index('id="p2p"') : text.index('id="bandwidth"')]
    assert matrix.count('class="wrong"') == 2
    assert 'class="yes"' not in matrix


def test_what_holds_for_one_of_several_is_told_of_that_one():
    """Two cards, each on too few lanes below a port of its own: neither port may seem to be that of both."""
    made = report(build.host(build.two_navi_cards(at=build.link(16.0, 8, 16.0, 16))))
    for text in (html.render(made), markdown.render(made).replace("`", ""), plain.render(made, "")):
        assert "For 0000:43:00.0: Link training left lanes out" in re.sub(r"\s+", " ", text)


def test_costs_that_differ_stand_apart():
    def finding(subject, rate):
        return Finding("link-width", "failure", (subject,), "the link runs x8", cost=Cost(f"{rate} GB/s", rate, 63.0))

    made = msgspec.structs.replace(report(HOSTS["one_gpu"]()), findings=(finding(FIRST, 15.8), finding(SECOND, 31.5)))
    for text in (html.render(made), markdown.render(made), plain.render(made, "")):
        told = re.sub(r"\s+", " ", text.replace("`", ""))
        assert f"for {FIRST}: 15.8 GB/s" in told
        assert f"for {SECOND}: 31.5 GB/s" in told


def test_two_cards_that_share_something_are_no_ordered_pair():
    found = [Finding("shared-uplink", "info", (f"{n}:1", f"{n}:2"), "2 GPUs share one uplink") for n in range(5)]
    assert "ordered" not in phrases.subjects(found)
    assert " to " not in phrases.subjects(found[:2])


def test_only_a_failure_is_red():
    def matrix(outcome):
        made = report(build.host(build.two_navi_cards(bar_at=40 << 40), kernel="6.8"))
        found = tuple(Finding("p2p-pair", outcome, (pair.accessor, pair.owner), "no P2P") for pair in made.host.pairs)
        text = html.render(msgspec.structs.replace(made, findings=found))
        return text[text.index('id="p2p"') : text.index('id="host"')]

    for outcome, kind in (("failure", "no"), ("warning", "suspect"), ("info", "by-design")):
        assert matrix(outcome).count(f'<td class="{kind}"') == 2
