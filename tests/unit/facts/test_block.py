"""The block in a report: what trackers and mail programs do to text does no harm, and damage is told."""

from __future__ import annotations

import base64
import html
import lzma
import re
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostdoctor.facts import block
from hostdoctor.facts.block import find, left_out, rewritten, written
from hostdoctor.facts.codec import SCHEMA, Unintelligible
from hostdoctor.facts.host import Environment, Host
from hostdoctor.facts.record import Record
from hostdoctor.facts.unknown import NOT_CAPTURED
from tests.unit.facts.conftest import record_of_case

RECORD = record_of_case("lab-bars-at-56t")
BLOCK = written(RECORD)
REPORT = f"# hostdoctor report\n\n1 failure\n\n<details><summary>facts</summary>\n\n```\n{BLOCK}\n```\n\n</details>\n"
ISSUE = f"My GPUs are slow.\n\n{REPORT}\nThank you!\n"


def test_every_case_comes_back_as_it_was(record):
    found = find(f"# hostdoctor report\n```\n{written(record)}\n```\n")
    assert (found.record, found.problem, found.rest.strip()) == (record, "", "")


def test_its_lines_are_short_and_plain():
    lines = BLOCK.split("\n")
    assert re.fullmatch(r"hostdoctor-facts/1 \d+ bytes sha256 [0-9a-f]{16}", lines[0])
    assert all(re.fullmatch(r"[A-Za-z0-9+/]{1,76}", line) for line in lines[1:-1])
    assert lines[-1] == "end of hostdoctor-facts"


def wrapped_mail(text, width):
    return "\n".join("\n".join(textwrap.wrap(line, width) or [""]) for line in text.split("\n"))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\r"),
        lambda text: textwrap.indent(text, "    "),
        lambda text: textwrap.indent(text, "\t"),
        lambda text: textwrap.indent(text, "> ", lambda _: True),
        lambda text: textwrap.indent(text, ">> ", lambda _: True).replace("\n", "\r\n"),
        lambda text: textwrap.indent(text, "| ", lambda _: True),
        lambda text: textwrap.indent(text, "+", lambda _: True),
        lambda text: textwrap.indent(text, "-", lambda _: True),
        lambda text: wrapped_mail(text, 72),
        lambda text: wrapped_mail(text, 40),
        lambda text: textwrap.indent(wrapped_mail(text, 50), "> ", lambda _: True),
        lambda text: text.replace("\n", "  \n"),
        lambda text: text.replace("\n", "\n\n"),
        lambda text: text.replace(" ", "\u00a0"),
        lambda text: "<pre>" + html.escape(text).replace("\n", "<br>\n") + "</pre>",
        lambda text: html.escape(textwrap.indent(text, "> ", lambda _: True)),
        lambda text: text.replace("```", "{code}"),
        lambda text: "\ufeff" + text,
        lambda text: text + text,
    ],
)
def test_what_trackers_and_mail_programs_do_does_no_harm(change):
    assert find(change(REPORT)).record == RECORD


def test_what_stands_around_the_report_keeps_its_lines():
    rest = find(ISSUE).rest.split("\n")
    assert rest[0] == "My GPUs are slow."
    assert rest.index("Thank you!") == ISSUE.split("\n").index("Thank you!")
    assert [line for line in rest if line] == ["My GPUs are slow.", "Thank you!"]


def test_a_report_whose_heading_is_gone_takes_all_before_it():
    assert find(ISSUE.replace("# hostdoctor report", "# host")).rest.strip() == "Thank you!"


def test_of_a_page_nothing_else_is_read():
    page = f"<!DOCTYPE html>\n<html><body><h1>hostdoctor report</h1><pre>{BLOCK}</pre></body></html>\n"
    found = find(page)
    assert (found.record, found.rest) == (RECORD, "")


def test_a_whole_copy_counts_where_another_is_cut():
    cut = REPORT[: len(REPORT) // 2]
    assert find(f"{cut}\n{REPORT}").record == RECORD
    assert find(f"{REPORT}\n{cut}").record == RECORD


def test_another_host_in_the_same_text_is_not_passed_over():
    other = record_of_case("sysfs-x1-of-x16")
    found = find(f"{REPORT}\nand mine:\n\n> {written(other)}\n\n{REPORT}")
    assert (found.record, found.others) == (RECORD, (other,))


def test_a_copy_of_the_page_with_the_block_folded_is_told_and_its_quotes_are_not_read():
    copy = (
        "Hello\n\nhostdoctor report\n\n$ cat /proc/cmdline\nquiet\n\nThe facts behind this report (hostdoctor-facts/1): "
        "hostdoctor scan on it judges them again\nThank you!\n"
    )
    found = find(copy)
    assert found.record is None
    assert "unfold it" in found.problem
    assert [line for line in found.rest.split("\n") if line] == ["Hello", "Thank you!"]
    assert found.rest.split("\n").index("Thank you!") == copy.split("\n").index("Thank you!")


@pytest.mark.parametrize("text", ["", "nothing", "see hostdoctor-facts/ of it", "hostdoctor-facts/1 12 bytes"])
def test_a_text_without_a_block_is_none_of_it(text):
    assert find(text) is None


def test_what_is_cut_off_is_said_to_be():
    for at in range(BLOCK.index("\n"), len(BLOCK) - 1, 97):
        assert find(BLOCK[:at]).problem == "its block of facts is cut off"


def test_what_was_altered_is_said_to_be():
    first = BLOCK.index("\n") + 1
    for at in range(first, len(BLOCK) - len(block.END) - 1, 97):
        if BLOCK[at] != "\n":
            other = BLOCK[:at] + ("A" if BLOCK[at] != "A" else "B") + BLOCK[at + 1 :]
            assert find(other).problem == "its block of facts was altered: the checksum differs"
    lines = BLOCK.split("\n")
    assert find("\n".join(lines[:3] + lines[4:])).problem == "its block of facts was altered: the checksum differs"


def test_a_newer_schema_is_named():
    newer = BLOCK.replace("hostdoctor-facts/1", "hostdoctor-facts/7")
    assert find(newer).problem == f"its facts are of a newer hostdoctor (schema 7, this one reads up to {SCHEMA})"


def test_a_report_without_room_for_the_block_says_what_to_attach():
    found = find(f"# hostdoctor report\n\n```\n{left_out('they are too large')}\n```\n\nThank you!\n")
    assert "hostdoctor capture" in found.problem
    assert found.rest.strip() == "Thank you!"


def test_bytes_that_are_no_record_are_refused():
    for inner in (b"no xz", b"\xfd7zXZ\x00"):
        assert "cannot be unpacked" in find(framed(inner)).problem
    assert "cannot be understood" in find(framed(packed(b"[[],{}]"))).problem


def test_a_bomb_is_refused_without_being_unpacked():
    assert "larger than" in find(framed(packed(b" " * (40 << 20)))).problem


def test_its_facts_are_changed_in_place():
    other = Record(RECORD.host, "root", ("x",))
    text = f"before\n{written(RECORD)}\nbetween\n{written(RECORD)}\nafter"
    changed = rewritten(text, lambda record: other if record == RECORD else record)
    assert changed == f"before\n{written(other)}\nbetween\n{written(other)}\nafter"
    assert rewritten("no block", lambda record: other) == "no block"
    assert rewritten(f"x\n{left_out('why')}\ny", lambda record: other) == f"x\n{left_out('why')}\ny"


def test_facts_that_cannot_be_read_are_not_passed_on_unchanged():
    whole = written(RECORD)
    cut, altered = whole[:-400], whole.replace("A", "B", 1)
    assert rewritten(f"before\n{cut}", lambda record: record) == f"before\n{left_out('its block of facts is cut off')}"
    assert "the checksum differs\nafter" in rewritten(f"{altered}\nafter", lambda record: record)


def framed(inner):
    letters = base64.b64encode(inner).decode().rstrip("=")
    return f"hostdoctor-facts/1 {len(inner)} bytes sha256 {block._digest(inner)}\n{letters}\nend of hostdoctor-facts\n"


def packed(data):
    return lzma.compress(data, lzma.FORMAT_XZ, lzma.CHECK_CRC32, filters=block._FILTERS)


def test_what_would_not_come_back_is_not_written():
    odd = Record(Host(Environment("bare-metal"), NOT_CAPTURED, privileged=1), "live", ())
    with pytest.raises(Unintelligible):
        written(odd)


@settings(max_examples=150)
@given(st.integers(0, len(REPORT)), st.integers(0, len(REPORT)), st.text(max_size=20))
def test_any_damage_gives_the_same_facts_or_none(start, stop, other):
    found = find(REPORT[:start] + other + REPORT[max(start, stop) :])
    assert found is None or found.record in (None, RECORD)
    assert found is None or bool(found.record) != bool(found.problem)
