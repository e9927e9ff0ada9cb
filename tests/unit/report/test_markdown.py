"""The Markdown report: it renders as it is meant, whatever the host is called, and stays within what a tracker takes."""

from __future__ import annotations

import itertools
import re

import msgspec
import pytest
from markdown_it import MarkdownIt

from hostdoctor.diagnosis import diagnose, exit_code, summary
from hostdoctor.facts.block import find, left_out, written
from hostdoctor.facts.driver import PairWord
from hostdoctor.facts.record import Record
from hostdoctor.findings import Cost, Evidence, Finding
from hostdoctor.registry import built_in
from hostdoctor.report import markdown, model, plain
from hostdoctor.view import View
from tests.unit.facts.conftest import NAMES, UNJUDGED, record_of_case
from tests.unit.report import hosts
from tests.unit.report.test_inert import PLANTED, REFERENCE, text_of, unescaped

MARKDOWN = MarkdownIt("commonmark").enable("table")
OURS = {"<details>", "</details>", "<code>", "</code>", "<summary>", "</summary>"}
CHECKS = list(built_in())
JUDGED = [name for name in NAMES if name not in UNJUDGED]
BIG = "seed-v620-before"


def report_of(record):
    view = View(record.host)
    findings = diagnose(view, CHECKS)
    sources = model.Sources(record.kind, record.sources, (), record.files, assumed=record.assumed)
    return model.build(sources, view, findings, exit_code(findings))


def check_rendering(text):
    """Every block is closed, every table row has as many cells as its head, and no HTML is there but our own."""
    tokens = MARKDOWN.parse(text)
    opened = []
    for token in tokens:
        if token.type == "tr_open":
            opened.append(0)
        elif token.type in ("th_open", "td_open"):
            opened[-1] += 1
        elif token.type == "table_close":
            assert len(set(opened)) == 1
            opened.clear()
        elif token.type == "fence":
            assert token.info in ("", "text")
        inner = [token.content] if token.type == "html_block" else []
        inner += [child.content for child in token.children or () if child.type == "html_inline"]
        for html in inner:
            without_comment = re.sub(r"^<!-- hostdoctor-facts/1 left out: [a-z ]+ -->$", "", html.strip())
            assert set(re.findall(r"<[^>]*>", without_comment)) <= OURS
            assert "<" not in re.sub(r"<[^>]*>", "", without_comment)
    blocks = [token for token in tokens if token.type == "html_block"]
    assert sum("<details>" in each.content for each in blocks) == sum("</details>" in each.content for each in blocks)
    assert text.count("\n") == text.rstrip("\n").count("\n") + 1
    return tokens


@pytest.mark.parametrize("name", JUDGED)
def test_every_case_renders_and_fits(name):
    record = record_of_case(name)
    text = markdown.render(report_of(record), written(record), ["A note."])
    assert len(text) < 40_000
    check_rendering(text)
    assert find(text).record == record
    assert not find(text).rest.strip()


def test_it_says_first_what_is_wrong():
    text = markdown.render(report_of(record_of_case(BIG)))
    lines = [line for line in text.split("\n") if line]
    assert lines[:3] == [
        "# hostdoctor report",
        "**2 failures · 1 warning · 3 info · 2 unknown · 24 ok**",
        "Supermicro X11DPG-QT · 2 × Intel Xeon Gold 6130 · Linux 6.8.0-52-generic · IOMMU on, GPUs translated (DMA-FQ)",
    ]
    heads = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert [head.split(":")[0] for head in heads] == ["FAILURE", "FAILURE", "WARNING", "Host", "Not judged"]


def test_it_shows_gpus_matrix_topology_and_the_kernel_line():
    text = markdown.render(report_of(record_of_case(BIG)))
    assert "| `0000:1a:00.0` | Radeon PRO V620 `[1002:73a1]` | 30 GiB | 8 x8 / 16 x16 | 7.9 GB/s |" in text
    assert "1a:00     -    no    no    no" in text
    assert "└─ 0000:1a:00.0  Radeon PRO V620  16 GT/s x16 of 16 GT/s x16" in text
    assert "BOOT_IMAGE=/vmlinuz-6.8.0-52-generic root=" in text


def test_it_shows_what_was_measured():
    text = markdown.render(report_of(record_of_case("rbt-healthy-on-3.0-x8")))
    assert "rocm-bandwidth-test: one direction, GB/s (row to column)" in text
    assert "   06:00     6.6     401     6.6     6.7     6.6" in text


def test_where_nothing_is_wrong_it_says_so():
    text = markdown.render(report_of(record_of_case("p2ptest-4090-healthy")))
    assert "\n\nNothing wrong found in what can be judged here.\n\n" in text


def test_a_report_without_facts_is_known_for_one():
    for embedded in (None, left_out("why")):
        text = markdown.render(report_of(record_of_case(BIG)), embedded)
        check_rendering(text)
        assert "without the facts" in find(text).problem
        assert not find(text).rest.strip()


# --- hostile text ----------------------------------------------------------------------------------------------------


def hostile(planted):
    """A report of which every text that evidence can fill holds something."""
    report = report_of(record_of_case(BIG))
    host = report.host
    gpu = msgspec.structs.replace(host.gpus[0], name=planted, address=planted, driver=planted, id=planted)
    pairs = tuple(msgspec.structs.replace(pair, reason=f"{planted} {at}") for at, pair in enumerate(host.pairs))
    nodes = tuple(msgspec.structs.replace(node, name=planted) for node in host.topology.nodes)
    cell = model.MeasuredCell(planted, "host", 1.0, None, None, False, None, None, "wrong", planted, planted)
    host = msgspec.structs.replace(
        host,
        kernel=planted, cmdline=planted, distribution=planted, cpu=planted, system=planted, board=planted, bios=planted,
        container=planted, gpus=(gpu, *host.gpus[1:]), pairs=pairs, topology=model.TopologyReport(nodes), measured=(cell,),
    )  # fmt: skip
    findings = tuple(
        Finding(
            "a-check", outcome, (planted,), f"{planted} says {planted}", planted, "likely",
            (Evidence(planted, planted), Evidence("dmesg:1", planted)), Cost(planted), (), planted, planted,
        )
        for outcome in ("failure", "warning", "info", "unknown", "ok")
    )  # fmt: skip
    evidence = model.Sources(
        "attachments", (planted,), (model.Unread(planted, planted),), (planted,), assumed=(planted,),
        contradictions=(model.Contradiction(planted, planted, ((planted, planted), (planted, planted))),),
    )  # fmt: skip
    return msgspec.structs.replace(report, host=host, findings=findings, evidence=evidence, summary=summary(findings))


@pytest.mark.parametrize("planted", PLANTED)
def test_hostile_text_does_nothing(planted):
    text = markdown.render(hostile(planted))
    tokens = check_rendering(text)
    kinds = {token.type for token in tokens}
    assert not kinds & {"blockquote_open", "ordered_list_open", "hr", "code_block", "lheading_open"}
    assert {token.tag for token in tokens if token.type == "heading_open"} <= {"h1", "h2", "h3"}
    assert not [each for token in tokens for each in token.children or () if each.type in ("link_open", "image", "em_open")]
    bare, whole = text_of(MARKDOWN.render(text.split("<!-- hostdoctor-facts")[0]))
    assert not REFERENCE.search(unescaped(bare))
    shown = unescaped(whole)
    assert shown.count("a-check") == 5
    assert all(sign.isprintable() or sign == "\n" for sign in shown)


@pytest.mark.parametrize("planted", PLANTED)
def test_hostile_text_does_nothing_as_plain_text(planted):
    text = plain.render(hostile(planted), "hostdoctor-facts/1 left out: no")
    assert all(sign.isprintable() or sign == "\n" for sign in text)


# --- too long --------------------------------------------------------------------------------------------------------


def crowded(findings, text):
    report = report_of(record_of_case(BIG))
    seen = (Evidence("/sys/x", text),) * 4
    listed = tuple(
        Finding(f"check-{at}", outcome, (f"0000:{at:02x}:00.0",), f"{at} {text}", text, evidence=seen)
        for outcome in ("failure", "warning", "info", "unknown", "ok")
        for at in range(findings)
    )
    pairs = tuple(
        model.PairReport(f"0000:{a:02x}:00.0", f"0000:{b:02x}:00.0", "fails", "x", f"{a} {text}", None)
        for a in range(64) for b in range(64) if a != b
    )  # fmt: skip
    gpus = tuple(msgspec.structs.replace(report.host.gpus[0], address=f"0000:{a:02x}:00.0", name=text) for a in range(64))
    host = msgspec.structs.replace(report.host, pairs=pairs, gpus=gpus, cmdline=text)
    evidence = msgspec.structs.replace(report.evidence, files=(text,) * 500)
    return msgspec.structs.replace(report, host=host, findings=listed, summary=summary(listed), evidence=evidence)


@pytest.mark.parametrize("findings", [1, 30, 300, 3000])
@pytest.mark.parametrize("text", ["short", "a long text, " * 100, "`" * 900, "@ " * 900])
def test_whatever_the_host_it_is_no_longer_than_trackers_take(findings, text):
    block = "hostdoctor-facts/1 99 bytes sha256 0123456789abcdef\n" + "A" * 50_000 + "\nend of hostdoctor-facts"
    made = markdown.render(crowded(findings, text), block)
    assert len(made) <= markdown.LIMIT
    check_rendering(made)
    assert "## FAILURE: `check-0`: 0" in made


def test_the_block_stays_where_less_of_the_rest_makes_room():
    record = record_of_case(BIG)
    report, block = report_of(record), written(record)
    whole = markdown.render(report, block)
    made = markdown.render(report, block, limit=len(whole) - 1)
    assert find(whole).record == find(made).record == record
    assert "Parts of this report are left out" in made


def test_where_the_block_has_no_room_what_to_attach_is_said():
    record = record_of_case(BIG)
    made = markdown.render(report_of(record), written(record) + "x" * markdown.LIMIT)
    assert len(made) <= markdown.LIMIT
    assert "please attach" in made
    assert "`hostdoctor capture FILE`" in made
    assert "without the facts" in find(made).problem
    assert "What was read" in made


def test_what_is_left_out_goes_in_its_order():
    report = report_of(record_of_case(BIG))
    previous = markdown.render(report)
    marks = [
        "link-width`: the slot's link runs",
        "<summary>What was read",
        "in order</summary>",
        "root port",
        "row reads column",
    ]
    lost = []
    while len(previous) > 7_000:
        made = markdown.render(report, limit=len(previous) - 1)
        assert len(made) < len(previous)
        assert "Parts of this report are left out" in made
        lost.append([mark for mark in marks if mark not in made])
        previous = made
    assert all(set(earlier) <= set(later) for earlier, later in itertools.pairwise(lost))


# --- plain text ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", JUDGED)
def test_plain_text_of_every_case_carries_its_facts(name):
    record = record_of_case(name)
    text = plain.render(report_of(record), written(record), ["A note."])
    assert text.startswith("hostdoctor report\n\n")
    assert "\nA note.\n" in text
    assert find(text).record == record
    assert not find(text).rest.strip()


def test_plain_text_shows_the_host():
    text = plain.render(report_of(record_of_case(BIG)), "hostdoctor-facts/1 left out: no")
    for line in (
        "  firmware      American Megatrends Inc. 3.8a 10/28/2022",
        "  │        └─ 0000:1a:00.0  Radeon PRO V620  16 GT/s x16 of 16 GT/s x16",
        "FAILURE  bar-reach: the firmware put the BARs at 56 TiB, beyond the 44 bits the",
    ):
        assert f"\n{line}\n" in text


def test_words_of_pairs_are_no_findings_of_their_own():
    """What a pasted tool says of pairs travels with the facts."""
    record = record_of_case("p2ptest-mixed-models")
    assert any(isinstance(word, PairWord) for word in find(written(record)).record.host.pair_words)


def test_the_facts_of_64_gpus_fit_beside_all_that_is_measured():
    host = hosts.sixty_four_gpus()
    record = Record(host, "live", ("/",))
    text = markdown.render(hosts.report(host), written(record))
    assert len(text) <= markdown.LIMIT
    assert find(text).record == record
    assert "P2P, accessor: owners" in text
    assert "host bridge" in text
