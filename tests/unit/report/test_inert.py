"""Text as Markdown: it renders as that text, and a tracker finds nothing in it to obey."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from hostdoctor.report.inert import cell, code, fenced, inline
from hostdoctor.report.phrases import safe

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
# What GitHub and GitLab look for in the text of a rendered page, outside of code.
REFERENCE = re.compile(
    r"(?<!\w)[@#!$~%&^]\w|\w[#!@]\w|https?:|www\.|(?<!\w)(?:[0-9a-fA-F]{7,40}|[Gg][Hh]-\d+|[A-Z]{2,}-\d+)(?!\w)|:[a-z0-9_+-]*[a-z0-9][a-z0-9_+-]*:"
)
PLANTED = [
    "@octocat", "(@octocat)", "octocat@example.com", "#123", "owner/repo#1", "GH-12", "gh-12", "JIRA-123", "!45",
    "group/project!45", "$12", "~bug", '~"a label"', "%1", '%"a milestone"', "&7", "^alert#1", "[[wiki]]",
    "[issue:1]", "deadbeef", "DEADBEEF01", "v1.deadbee", "0123456", "https://evil.example/x", "www.evil.example",
    "ftp://evil.example", ":+1:", "10:100:00", "<b>bold</b>", "<script>alert(1)</script>", "</details>", "<details>",
    "<!--", "-->", "<img src=x onerror=y>", "&lt;", "&#64;octocat", "*bold*", "**", "_x_", "__init__", "~~x~~", "`",
    "```", "a`b``c", "`@octocat`", "\\", "\\`", "\\|", "|", "a|b", "| a | b |", "[x](y)", "![x](y)", "[x]: y",
    "1. one", "12) two", "- item", "+ item", "* item", "# heading", "heading #", "> quote", "===", "---", "    code",
    "\tcode", "~~~", "a\nb", "a\r\n# b", "\x1b[31m", "\u202eevil", "$$x$$", "$`x`$", "a\\", "{{x}}", "/close",
    "/label ~x", "term  \nterm", "&nbsp;", "\u00a0", "café", "«x»", "”",
]  # fmt: skip


def text_of(html):
    """The text of a rendered page without its code, and with it."""
    bare = re.sub(r"<code.*?</code>", "", html, flags=re.DOTALL)
    return re.sub(r"<[^>]+>", "", bare), re.sub(r"<[^>]+>", "", html)


def unescaped(text):
    for entity, sign in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&amp;", "&")):
        text = text.replace(entity, sign)
    return text


def tags(html):
    return set(re.findall(r"</?(\w+)", html))


def blanks_as_one(text):
    return re.sub(r" +", " ", text).strip()


def check_inline(text):
    html = MARKDOWN.render(f"**for** {inline(text)}\n")
    bare, whole = text_of(html)
    assert tags(html) <= {"p", "strong", "code"}
    assert blanks_as_one(unescaped(whole)) == blanks_as_one(f"for {safe(text)}")
    assert not REFERENCE.search(unescaped(bare)), bare


def check_alone(text):
    html = MARKDOWN.render(f"{inline(text)}\n")
    assert tags(html) <= {"p", "code"}
    assert blanks_as_one(unescaped(text_of(html)[1])) == blanks_as_one(safe(text))


def check_cell(text):
    html = MARKDOWN.render(f"| a | b |\n|---|---|\n| {cell(text)} | x |\n")
    assert tags(html) <= {"table", "thead", "tbody", "tr", "th", "td", "code"}
    assert html.count("<td>") == 2
    shown = re.search(r"<td>(.*?)</td>", html)[1]
    said = blanks_as_one(unescaped(re.sub(r"</?code>", "", shown)))
    assert said.replace("\\¦", "\\|") == blanks_as_one(safe(text)).replace("\\¦", "\\|")


def check_fence(lines):
    tokens = MARKDOWN.parse(fenced(lines))
    assert [token.type for token in tokens] == ["fence"]
    assert tokens[0].content == "\n".join(map(safe, lines)) + "\n"


@pytest.mark.parametrize("text", PLANTED)
@pytest.mark.parametrize("shape", ["{}", "the log says {} twice", "({})", '"{}".', "{}:", "x{}", "{} {}"])
def test_planted_markup_is_shown_and_does_nothing(text, shape):
    said = shape.replace("{}", text)
    check_inline(said)
    check_alone(said)
    check_cell(said)
    check_fence([said, "plain", said])


@given(st.text(max_size=40))
def test_any_text_is_shown_and_does_nothing(text):
    check_alone(text)
    check_inline(text)


@given(st.text(alphabet="`|\\ a@#<>-1.*_&:\n", max_size=25))
def test_any_mix_of_markup_is_shown_and_does_nothing(text):
    check_inline(text)
    check_alone(text)
    check_cell(text)
    check_fence([text])


@given(st.text(alphabet="`~ \na", max_size=30))
def test_a_quote_ends_where_it_ends(text):
    check_fence([text, text])


def test_plain_words_stay_plain():
    said = 'the slot gives at most 8 GT/s x8; the card\'s (1.5%) is "more", e.g. 31.5 GB/s each way – ok'
    assert inline(said) == said


def test_what_is_no_plain_word_becomes_code_without_its_punctuation():
    assert inline("see (/etc/default/grub), iommu=pt.") == "see (`/etc/default/grub`), `iommu=pt`."
    assert inline("BAR0 of 0000:1a:00.0: bad") == "BAR0 of `0000:1a:00.0`: bad"


def test_signs_alone_are_escaped():
    assert inline("56T -> 4T") == "56T \\-\\> 4T"


def test_code_holds_backticks():
    assert code("a`b") == "``a`b``"
    assert code("`a`") == "`` `a` ``"
