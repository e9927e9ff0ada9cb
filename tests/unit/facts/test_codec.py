"""Facts as bytes: they come back as they were, and nothing that a stranger makes up comes back as facts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostdoctor.facts import codec
from hostdoctor.facts.bandwidth import Run
from hostdoctor.facts.codec import Unintelligible, decode, encode
from hostdoctor.facts.driver import ErrorCounters
from hostdoctor.facts.host import Environment, Host
from hostdoctor.facts.pci import ConfigFacts, Function
from hostdoctor.facts.record import Record
from hostdoctor.facts.unknown import ASLEEP, NEEDS_ROOT, NOT_CAPTURED, Unknown
from tests.unit import build
from tests.unit.facts.conftest import NAMES, UNJUDGED, record_of_case

BARE = Environment("bare-metal")
TEXT = st.text(max_size=8)


class Everything(msgspec.Struct, frozen=True):
    """One field of every kind that facts have."""

    number: int
    may_lack: int | None = None
    may_be_unknown: str | Unknown = NOT_CAPTURED
    may_be_anything: float | Unknown | None = None
    table: Mapping[str, tuple[int, ...]] | Unknown = NOT_CAPTURED
    by_number: Mapping[int, str] = {}
    pairs: tuple[tuple[str, bool], ...] = ()
    word: Literal["a", "b", ""] = ""
    reasons: tuple[Unknown, ...] = ()
    inner: ErrorCounters | Unknown | None = None


UNKNOWN = st.builds(Unknown, TEXT, TEXT)
EVERYTHING = st.builds(
    Everything,
    number=st.integers(-(2**100), 2**100),
    may_lack=st.none() | st.integers(0, 3),
    may_be_unknown=TEXT | UNKNOWN,
    may_be_anything=st.floats(allow_nan=False, allow_infinity=False) | UNKNOWN | st.none(),
    table=st.dictionaries(TEXT, st.lists(st.integers(0, 2**64)).map(tuple)) | UNKNOWN,
    by_number=st.dictionaries(st.integers(0, 9), TEXT),
    pairs=st.lists(st.tuples(TEXT, st.booleans())).map(tuple),
    word=st.sampled_from(["a", "b", ""]),
    reasons=st.lists(UNKNOWN, max_size=3).map(tuple),
    inner=st.none() | UNKNOWN | st.builds(ErrorCounters, TEXT, st.dictionaries(TEXT, st.integers(0, 9))),
)


def test_every_case_comes_back_as_it_was(record):
    assert decode(encode(record), Record) == record


@given(EVERYTHING)
def test_every_value_comes_back_as_it_was(value):
    assert decode(encode(value), Everything) == value


def test_nothing_known_is_not_nothing():
    """None says that there is none, an Unknown that nobody knows: neither may turn into the other."""
    for value in (None, NOT_CAPTURED, Unknown("why", "what helps")):
        assert decode(encode(Everything(1, may_be_anything=value)), Everything).may_be_anything == value
    for express in (None, NEEDS_ROOT):
        function = Function("0000:01:00.0", 0x1002, 0x73A1, 0x030000, config=ConfigFacts(express=express))
        assert decode(encode(Host(BARE, {"0000:01:00.0": function})), Host).functions["0000:01:00.0"].express == express


def test_reasons_that_readers_give_are_the_same_objects_again():
    for reason in (NOT_CAPTURED, NEEDS_ROOT, ASLEEP):
        assert decode(encode(Everything(1, table=reason, may_be_unknown="")), Everything).table is reason


def test_a_key_like_the_mark_of_an_unknown_is_a_key():
    value = Everything(1, table={"?": (0,), "unknown": ()})
    assert decode(encode(value), Everything) == value


def test_names_with_bytes_that_are_no_utf_8_come_back():
    assert decode(encode(Everything(1, may_be_unknown="a\udc80b")), Everything).may_be_unknown == "a\udc80b"


def test_what_has_its_default_is_left_out():
    assert json.loads(encode(Everything(7))) == [[], {"number": 7}]


def test_false_is_written_where_the_default_is_none():
    class May(msgspec.Struct, frozen=True):
        right: bool | None = None
        number: int = 0

    assert decode(encode(May(right=False)), May).right is False


def test_the_order_of_functions_stays():
    host = build.host(build.root_port("0000:40:01.1"), build.navi_card(0x41, below="0000:40:01.1"))
    assert list(decode(encode(host), Host).functions) == list(host.functions)


def test_facts_of_a_later_version_are_left_out():
    later = json.dumps([[], {"number": 1, "new_field": {"x": [1]}}]).encode()
    assert decode(later, Everything) == Everything(1)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_not_written(value):
    with pytest.raises(Unintelligible, match="not finite"):
        encode(Everything(1, may_be_anything=value))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"{}", "does not hold facts"),
        (b"[[], 1]", "1 stands where Everything is expected"),
        (b"[[], {}]", "Everything lacks number"),
        (b'[[], {"number": true}]', "True stands where int is expected"),
        (b'[[], {"number": "1"}]', "'1' stands where int is expected"),
        (b'[[], {"number": 1.5}]', "1.5 stands where int is expected"),
        (b'[[], {"number": null}]', "None stands where int is expected"),
        (b'[[], {"number": %d}]' % (1 << 200), "larger than any"),
        (b'[[], {"number": 1, "may_be_anything": NaN}]', "NaN is no number"),
        (b'[[], {"number": 1, "may_be_anything": 1e999}]', "not finite"),
        (b'[[], {"number": 1, "may_be_unknown": {"?": 0}}]', "reason of what is unknown is missing"),
        (b'[[["a"]], {"number": 1, "may_be_unknown": {"?": -1}}]', "reason of what is unknown is missing"),
        (b'[[["a"]], {"number": 1, "may_be_unknown": {"?": true}}]', "reason of what is unknown is missing"),
        (b'[[[1]], {"number": 1}]', "is no text"),
        (b'[5, {"number": 1}]', "reasons of what is unknown are missing"),
        (b'[[["a"]], {"number": {"?": 0}}]', "a dict stands where int is expected"),
        (b'[[], {"number": 1, "table": [["a"]]}]', "1 values stand where 2 are expected"),
        (b'[[], {"number": 1, "table": [[["a"], [1]]]}]', "a list stands where str is expected"),
        (b'[[], {"number": 1, "pairs": "ab"}]', "'ab' stands where a list is expected"),
        (b'[[], {"number": 1, "word": "c"}]', "'c' is none of 'a', 'b', ''"),
        (b'[[], {"number": 1, "word": []}]', "a list is none of"),
        (b'[[], {"number": 1, "reasons": [null]}]', "only an Unknown can"),
        (b"[" * 100_000, "no JSON"),
    ],
)
def test_what_is_not_understood_is_said_in_a_line(data, says):
    with pytest.raises(Unintelligible) as caught:
        decode(data, Everything)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_what_is_too_large_is_not_even_parsed(monkeypatch):
    monkeypatch.setattr(codec, "LIMIT", 100)
    with pytest.raises(Unintelligible, match="larger than"):
        decode(b"[" + b" " * 100, Everything)
    with pytest.raises(Unintelligible, match="larger than"):
        encode(Everything(1, may_be_unknown="x" * 100))


KEYS = st.sampled_from(["?", *Host.__struct_fields__])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["?", *Host.__struct_fields__]), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(JSON)
def test_any_json_is_a_host_or_refused(value):
    try:
        found = decode(json.dumps(value).encode(), Host)
    except Unintelligible:
        return
    assert isinstance(found, Host)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_without_any_other_error(data):
    with pytest.raises(Unintelligible):
        decode(data, Host)


def places(value, path=()):
    """Where a value stands in JSON, every one."""
    yield path
    if isinstance(value, list | dict):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))


def changed(value, path, new):
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


@settings(max_examples=150)
@given(data=st.data(), name=st.sampled_from([each for each in NAMES if each not in UNJUDGED]))
def test_a_host_with_any_value_put_in_any_place_is_a_host_or_refused(data, name):
    """And what is taken can be written again, and is the same then."""
    value = json.loads(encode(record_of_case(name).host))
    where = data.draw(st.sampled_from(list(places(value))))
    other = data.draw(JSON)
    try:
        found = decode(json.dumps(changed(value, where, other)).encode(), Host)
    except Unintelligible:
        return
    assert decode(encode(found), Host) == found


def test_all_kinds_of_facts_have_a_codec():
    for type_ in (Record, Host, Run):
        assert codec._codec(type_)
