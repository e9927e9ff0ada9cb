"""Lines of any kind after a change: nothing else moves, and a second change does nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.cmdline import parse_command_line
from hostdoctor.remedies.kernel_line import edited, joined
from hostdoctor.remedies.patch import FileChange, Refused, Request, diff

TOKENS = st.sampled_from(
    (
        "iommu=pt",
        "iommu=nopt",
        "quiet",
        "pci=noaer,realloc",
        "pci=realloc",
        "console=tty0",
        "intel-iommu=on",
        'x="a b"',
        "--",
        "a=ü",
    )
)
BLANKS = st.sampled_from((" ", "  ", "\t", " \t "))
LINES = st.lists(st.tuples(TOKENS, BLANKS), max_size=8).map(lambda parts: "".join(token + blank for token, blank in parts))
REQUESTS = st.builds(
    lambda add, remove: Request(tuple(each for each in add if each not in remove), tuple(remove)),
    st.lists(TOKENS.filter(lambda token: token != "--"), max_size=3, unique=True),
    st.lists(TOKENS.filter(lambda token: token != "--"), max_size=3, unique=True),
)


@given(st.lists(LINES, min_size=1, max_size=3), REQUESTS)
def test_a_change_changes_what_was_asked_for(lines, request_):
    if {"iommu=pt", "iommu=nopt"} <= set(request_.add):
        with pytest.raises(Refused, match="undo each other"):
            edited(lines, request_)
        return
    after = edited(lines, request_)
    (old, old_init), (new, new_init) = parse_command_line(joined(lines)), parse_command_line(joined(after))
    gone = {(each.key, each.value) for token in request_.remove for each in parse_command_line(token)[0]}
    kept = [each.text for each in old if (each.key, each.value) not in gone]
    texts = [each.text for each in new]
    assert texts[: len(kept)] == kept
    assert set(texts[len(kept) :]) <= set(request_.add)
    assert new_init == old_init
    assert edited(after, request_) == after
    assert len(after) == len(lines)


@given(st.text(max_size=60), REQUESTS)
def test_any_text(line, request_):
    line = line.encode("utf-8", "replace").decode()
    try:
        after = edited([line], request_)
    except Refused:
        return
    assert edited(after, request_) == after


@given(st.binary(max_size=60), REQUESTS)
def test_any_bytes(data, request_):
    line = data.decode("utf-8", "surrogateescape")
    try:
        (after,) = edited([line], request_)
    except Refused:
        return
    if not request_.remove:
        assert after.encode("utf-8", "surrogateescape").startswith(data.rstrip(b" \t\n\v\f\r")) or "--" in line


def test_lines_end_at_lf_alone_in_a_diff():
    text = "a\x0cb\x85c\u2028d\r\ne\n"
    shown = diff([FileChange("/etc/x", text, text + "f\n")])
    assert shown.count("\n") == 4 + 3
    assert " a\x0cb\x85c\u2028d\r\n" in shown
