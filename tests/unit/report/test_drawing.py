"""The drawing: every GPU is in it, what is drawn is true, and it is well-formed XML whatever names devices have."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from hostdoctor.findings import Finding
from hostdoctor.report import drawing
from hostdoctor.report.devices import described, device_trees, link_words
from hostdoctor.report.model import TopologyReport
from tests.unit import build
from tests.unit.report.hosts import HOSTS, MARKUP, report


def topology(*parts, **facts):
    return report(build.host(*parts, **facts)).host.topology


def lines(*parts, **facts):
    return [line for root in device_trees(topology(*parts, **facts)) for line in described(root)]


@pytest.mark.parametrize("name", HOSTS)
def test_well_formed_and_complete(name):
    made = report(HOSTS[name]())
    svg = drawing.whole_svg(made.host.topology)
    root = ElementTree.fromstring(svg)
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    for gpu in made.host.gpus:
        assert any(text and gpu.address in text for text in texts)
    assert "script" not in {each.tag.split("}")[1] for each in root.iter()}
    assert not re.search(r"""(href|url\(|src)=?["']?(https?:|//)""", svg)


def test_a_card_with_its_own_switch_is_one_box():
    assert lines(build.two_navi_cards(at=build.link(8.0, 8, 16.0, 16))) == [
        "Host bridge 0000:40, memory node 0",
        "  Radeon PRO V620, 0000:43:00.0, own switch, root port 0000:40:01.1, 8 of 16 GT/s x8 of x16 · 15.8 GB/s, "
        "limits the card",
        "Host bridge 0000:80, memory node 0",
        "  Radeon PRO V620, 0000:83:00.0, own switch, root port 0000:80:01.1, 8 of 16 GT/s x8 of x16 · 15.8 GB/s, "
        "limits the card",
    ]


def test_a_switch_is_one_box_with_its_cards_below():
    assert [line.split(",")[0] for line in lines(build.below_one_switch())] == [
        "Host bridge 0000:00", "  PLX PEX 87xx (8 GT/s)", "    Radeon PRO V620", "    Radeon PRO V620",
    ]  # fmt: skip


def test_two_gpus_on_one_card():
    card = [
        build.root_port("0000:40:01.1"),
        build.upstream_port("0000:41:00.0", "1002:1478", below="0000:40:01.1"),
        *(build.downstream_port(f"0000:42:0{n}.0", "1002:1479", below="0000:41:00.0") for n in (0, 1)),
        *(build.gpu(f"0000:4{3 + n}:00.0", build.MI210, f"0000:42:0{n}.0") for n in (0, 1)),
    ]
    assert "2 × Radeon Instinct MI210" in lines(card)[1]
    assert len(lines(card)) == 2


def test_drives_alike_are_one_box():
    drives = [build.nvme(f"0000:0{2 + n}:00.0", f"0000:00:0{2 + n}.0", link=build.link(16.0, 4)) for n in range(4)]
    ports = [build.root_port(f"0000:00:0{n}.0") for n in range(1, 6)]
    found = lines(ports, build.gpu("0000:01:00.0", build.A5000, "0000:00:01.0"), drives)
    assert [line.strip().split(",")[0] for line in found] == ["Host bridge 0000:00", "RTX A5000", "4 NVMe drives"]


def test_what_is_above_and_not_known_is_drawn_as_that():
    found = [line for root in device_trees(report(HOSTS["nothing_above"]()).host.topology) for line in described(root)]
    assert found[0].startswith("What is above is not known, the kernel's log here does not list")
    assert found[1:] == ["  RTX A5000, 0000:41:00.0", "  RTX A5000, 0000:81:00.0"]


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (build.link(16.0, 16), "16 GT/s x16 · 31.5 GB/s"),
        (build.link(2.5, 16, 16.0, 16), "2.5 of 16 GT/s x16 · 31.5 GB/s"),
        (build.link(16.0, 0, 16.0, 16), "link down"),
        (build.Unknown("needs root"), "link not known"),
        (build.link(build.Unknown("?"), 8, 16.0, 16), "? GT/s x8 of x16 · 15.8 GB/s"),
    ],
)
def test_links_in_words(at, text):
    made = topology(build.root_port("0000:40:01.1"), build.gpu("0000:41:00.0", build.A5000, "0000:40:01.1", at=at))
    assert link_words(made.nodes[-1].link) == text


def test_what_limits_is_marked_in_words_and_by_shape():
    (panel, _) = drawing.panels(topology(build.two_navi_cards(at=build.link(8.0, 8, 16.0, 16))))
    assert "limits the card" in panel.svg
    assert 'class="link limits short"' in panel.svg
    assert 'class="mark short"' in panel.svg
    (panel, _) = drawing.panels(topology(build.two_navi_cards()))
    assert "limits" not in panel.svg


def test_a_limit_by_design_is_not_shown_as_a_fault():
    (panel, _) = drawing.panels(
        topology(build.two_navi_cards(at=build.link(8.0, 8, 16.0, 16)), build.root_port("0000:40:01.1", at=build.link(8.0, 8)))
    )
    assert "limits the card by design" in panel.svg
    assert "short" not in panel.svg


@pytest.mark.parametrize(
    ("at", "words"),
    [
        (build.link(8.0, 16), "limits what is below by design"),
        (build.link(8.0, 16, 16.0, 16), "limits what is below"),  # a switch's uplink does not save power by itself
        (build.link(16.0, 4, 16.0, 16), "limits what is below"),
    ],
)
def test_uplinks_that_limit(at, words):
    (line,) = [line for line in lines(build.below_one_switch(at=at)) if "limits" in line]
    assert line.endswith(words)


def test_faulty_gpus_are_marked_and_pairs_do_not_mark_both():
    made = topology(build.two_navi_cards())
    findings = [
        Finding("bar-size", "warning", (build.FIRST,), ""),
        Finding("link-width", "failure", (build.FIRST,), ""),
        Finding("p2p-pair", "failure", (build.FIRST, build.SECOND), ""),
    ]
    first, second = drawing.panels(made, findings)
    assert ">failure<" in first.svg
    assert ">warning<" not in first.svg
    assert "badge" not in second.svg


def test_an_empty_drawing_says_so():
    assert "no discrete GPU here" in drawing.whole_svg(TopologyReport())


def test_names_are_escaped_and_cut_where_they_do_not_fit():
    svg = drawing.whole_svg(report(HOSTS["hostile"]()).host.topology)
    assert MARKUP[:10] not in svg
    assert "…" in svg
