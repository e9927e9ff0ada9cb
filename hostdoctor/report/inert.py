"""Text as Markdown that renders as that text and does nothing else, on GitHub, on GitLab and by CommonMark.

What comes from evidence may hold markup, HTML, mentions (@user), references (#1, !1, a commit's hash, GH-1, JIRA-1) and
links. Trackers look for these in the rendered page, where no backslash helps, but not inside of code. So a word that is more
than a plain word becomes code, which suits addresses, parameters and paths anyway, and longer quotes are fenced.

Sources: CommonMark 0.31.2 (2.4, 4.5, 6.1); GitHub Flavored Markdown 4.10, 6.9; GitHub's "Autolinked references and URLs";
GitLab's "GitLab-specific references".
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from hostdoctor.report.phrases import safe

_ASCII_PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
_OPENING, _CLOSING = "(\"'“‘", ".,;:!?)%\"'”’…"
# Signs within a word that mean nothing to any tracker there; a percent sign before a number is a milestone to GitLab.
_HARMLESS = set(".,'/()+-’–·×°µ")
_REFERENCE = re.compile(
    r"//|www\.|(?<![A-Za-z0-9])(?:[0-9a-f]{7,40}|gh-\d+|[a-z][a-z0-9]{1,14}-\d+)(?![A-Za-z0-9])", re.IGNORECASE | re.ASCII
)
_NUMBERED = re.compile(r"\d{1,9}[.)]")
_BACKTICKS = re.compile(r"`+")


def inline(text: str, in_table: bool = False) -> str:
    """Text in one line, for a paragraph, a heading or an item of a list; with `in_table` for a cell of a table."""
    words = [_word(word, in_table) for word in safe(text).split(" ") if word]
    if words and _NUMBERED.fullmatch(words[0]):  # else a list would begin here
        words[0] = f"{words[0][:-1]}\\{words[0][-1]}"
    return " ".join(words)


def cell(text: str) -> str:
    """Text for a cell of a table."""
    return inline(text, in_table=True)


def code(text: str, in_table: bool = False) -> str:
    """Text as code within a line."""
    text = safe(text)
    if not text.strip():
        return text
    if in_table:  # renderers differ in what a backslash before an escaped bar means
        text = text.replace("\\|", "\\¦").replace("|", "\\|")
    ticks = "`" * (_longest_run(text) + 1)
    pad = " " if text[0] in "` " or text[-1] in "` " else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def fenced(lines: Iterable[str]) -> str:
    """Lines as a block of code."""
    body = "\n".join(safe(line) for line in lines)
    fence = "`" * max(3, _longest_run(body) + 1)
    return f"{fence}text\n{body}\n{fence}"


def _longest_run(text: str) -> int:
    return max(map(len, _BACKTICKS.findall(text)), default=0)


def _word(word: str, in_table: bool) -> str:
    core = word.lstrip(_OPENING)
    before = word[: len(word) - len(core)]
    core, after = _without_closing(core)
    if not any(sign.isalnum() or sign == "_" for sign in core):
        return "".join(f"\\{sign}" if sign in _ASCII_PUNCTUATION else sign for sign in word)
    if core[0].isalnum() and all(sign.isalnum() or sign in _HARMLESS for sign in core) and not _REFERENCE.search(core):
        return word
    return f"{before}{code(core, in_table)}{after}"


def _without_closing(core: str) -> tuple[str, str]:
    """A word and the punctuation at its end; a bracket that the word itself opens is its own."""
    end = len(core)
    while end and core[end - 1] in _CLOSING and not (core[end - 1] == ")" and "(" in core[:end]):
        end -= 1
    return core[:end], core[end:]
