"""XML that is read without reaching beyond its text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.xml_tree import DEEPEST, parse_xml

TEXT = (
    '<?xml version="1.0" ?>\n<!DOCTYPE log SYSTEM "log.dtd">\n<log>\n <gpu id="a">\n  <pci><bus>01</bus></pci>\n </gpu>\n</log>'
)


def test_elements():
    log = parse_xml(TEXT).child("log")
    gpu = log.child("gpu")
    assert (gpu.attributes, gpu.line, gpu.at("pci/bus"), gpu.at("pci/none")) == ({"id": "a"}, 3, "01", "")
    assert [element.line for element in log.all("bus")] == [4]


@pytest.mark.parametrize(
    "declaration",
    [
        '<!ENTITY a "boom">',
        '<!ENTITY a SYSTEM "file:///etc/passwd">',
        '<!ENTITY % a "boom">',
        "<!ELEMENT log (#PCDATA)>",
        "",
    ],
)
def test_declarations_are_refused(declaration):
    text = f"<!DOCTYPE log [\n{declaration}\n]>\n<log><bus>&a;</bus></log>"
    assert parse_xml(text).children == []


def test_an_entity_nobody_declared_expands_to_nothing():
    assert "root:" not in parse_xml('<!DOCTYPE log SYSTEM "file:///etc/passwd">\n<log><bus>&a;1</bus></log>').at("log/bus")


def test_what_stands_before_a_cut_is_read():
    assert parse_xml(TEXT[: TEXT.index("</pci>")]).at("log/gpu/pci/bus") == "01"


def test_too_deep_is_cut():
    tree = parse_xml("<a>" * (DEEPEST + 50))
    assert sum(1 for _ in tree.all("a")) == DEEPEST


def test_another_encoding_in_the_prolog_does_not_matter():
    assert parse_xml('<?xml version="1.0" encoding="UTF-16"?><log><bus>é</bus></log>').at("log/bus") == "é"


@given(st.text(max_size=300), st.integers(0, len(TEXT)))
def test_any_text(text, at):
    parse_xml(text)
    parse_xml(TEXT[:at] + text)
