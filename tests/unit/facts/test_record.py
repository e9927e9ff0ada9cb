"""Facts that a stranger made up, of the right types: what no reader of a host would say is refused, the rest can be judged."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostdoctor.diagnosis import diagnose, exit_code
from hostdoctor.facts.boot_files import BootFiles, Loader
from hostdoctor.facts.codec import Unintelligible, decode, encode
from hostdoctor.facts.record import Record, contradiction
from hostdoctor.registry import built_in
from hostdoctor.report import markdown, model, plain
from hostdoctor.report.tree import tree_lines
from hostdoctor.view import View
from tests.unit.facts.conftest import NAMES, UNJUDGED, record_of_case
from tests.unit.facts.test_codec import changed, places

CHECKS = list(built_in())
SOUND = record_of_case("lab-bars-at-56t")
GPU = next(iter(View(SOUND.host).gpus))


def with_function(**changes):
    function = msgspec.structs.replace(GPU, **changes)
    functions = {**SOUND.host.functions, GPU.address: function}
    return msgspec.structs.replace(SOUND, host=msgspec.structs.replace(SOUND.host, functions=functions))


def test_no_case_contradicts_itself(record):
    assert contradiction(record) == ""


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (with_function(address="0000:ff:00.0"), "no address"),
        (with_function(vendor=-1), "ids that it cannot have"),
        (with_function(device=1 << 16), "ids that it cannot have"),
        (with_function(class_code=1 << 24), "ids that it cannot have"),
        (with_function(parent=GPU.address), "below itself"),
    ],
)
def test_what_no_reader_would_say_is_refused(record, says):
    assert says in contradiction(record)


def test_an_address_of_no_shape_is_refused():
    functions = {"x": msgspec.structs.replace(GPU, address="x")}
    record = msgspec.structs.replace(SOUND, host=msgspec.structs.replace(SOUND.host, functions=functions))
    assert "no address" in contradiction(record)


def test_a_long_way_down_is_none_below_itself():
    addresses = [f"0000:{bus:02x}:00.0" for bus in range(256)]
    functions = {
        address: msgspec.structs.replace(GPU, address=address, parent=above)
        for address, above in zip(addresses, [None, *addresses], strict=False)
    }
    record = msgspec.structs.replace(SOUND, host=msgspec.structs.replace(SOUND.host, functions=functions))
    assert contradiction(record) == ""
    loop = functions | {addresses[0]: msgspec.structs.replace(GPU, address=addresses[0], parent=addresses[-1])}
    looped = msgspec.structs.replace(SOUND, host=msgspec.structs.replace(SOUND.host, functions=loop))
    assert "below itself" in contradiction(looped)


def test_an_unknown_boot_loader_is_refused():
    files = BootFiles(Loader("nobody's", ()))
    record = msgspec.structs.replace(SOUND, host=msgspec.structs.replace(SOUND.host, boot_files=files))
    assert "boot loader" in contradiction(record)


WORDS = st.sampled_from(["", "x", "0000:01:00.0", "GPU0", "-1", "\udc80", "a" * 3000, "::", ".", "host:1"])
NUMBERS = st.sampled_from([0, -1, 1, 255, 1 << 63, 1 << 127, -(1 << 100), 0.0, -1.5, 1e300, None, True, [], {"?": 0}])


@settings(max_examples=60, deadline=None)
@given(data=st.data(), name=st.sampled_from([each for each in NAMES if each not in UNJUDGED]))
def test_facts_that_are_taken_can_be_judged_and_reported(data, name):
    value = json.loads(encode(record_of_case(name)))
    leaves = list(places(value))
    for _ in range(data.draw(st.integers(1, 8))):
        where = data.draw(st.sampled_from(leaves))
        try:
            value = changed(value, where, data.draw(WORDS | NUMBERS))
        except (TypeError, KeyError, IndexError, AttributeError):
            continue
    try:
        record = decode(json.dumps(value).encode(), Record)
    except Unintelligible:
        return
    if contradiction(record):
        return
    view = View(record.host)
    findings = diagnose(view, CHECKS)
    sources = model.Sources(record.kind, record.sources, (), record.files)
    report = model.build(sources, view, findings, exit_code(findings))
    assert len(markdown.render(report)) <= markdown.LIMIT
    assert plain.render(report, "")
    assert list(tree_lines(view, everything=True))
