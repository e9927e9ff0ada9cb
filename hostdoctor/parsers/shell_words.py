"""Splits shell text into words and operators, as dash and bash do (POSIX.1-2017, Shell Command Language, 2.2 to 2.6).

Only what both shells read alike is split; anything else raises `NotStatic`, because a guess would be worse than no answer.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Literal

import msgspec

# Longest first, so that && is not read as two &.
OPERATORS = ("<<-", "&&", "||", ";;", "<<", ">>", "<&", ">&", "<>", ">|", "&", "|", ";", "(", ")", "<", ">")
_OPERATOR_SIGNS = frozenset("&|;()<>")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN = re.compile(r"[^ \t\n&|;()<>'\"\\$`]+")
_PLAIN_IN_QUOTES = re.compile(r"[^\"\\$`]+")
_PLAIN_IN_BRACES = re.compile(r"[^}{\"'\\$`\n]+")
_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_CASE_OR_COMMENT = re.compile(r"[\s;(|&`](?:case|esac|#)|<<")
_DEEPEST = 20
_FAILS = frozenset(("a quote that is not closed", "a backquote that is not closed", "a bracket that is not closed"))


class NotStatic(Exception):
    """Text whose meaning cannot be told without running it.

    Attributes:
        line: the number of its line, from 1.
        why: what stands there.
        fails: whether no shell gets past it, so that whoever reads the file fails there too.
    """

    def __init__(self, line: int, why: str, fails: bool = False) -> None:
        super().__init__(line, why)
        self.line = line
        self.why = why
        self.fails = fails


class Piece(msgspec.Struct, frozen=True):
    """A part of a word.

    Attributes:
        kind: text as it stands; a variable's value; or an expansion whose result only running it would tell.
        text: the text, the variable's name, or what kind of expansion it is.
        quoted: whether it stands in quotes, or behind a backslash.
        operator: of "${V:-x}": ":-", "-", ":+" or "+".
        alternative: of "${V:-x}": x.
        at: where it begins in the text, without its quotes.
        end: where it ends there, without them.
    """

    kind: Literal["text", "variable", "unknown"]
    text: str
    quoted: bool
    operator: str = ""
    alternative: tuple[Piece, ...] = ()
    at: int = 0
    end: int = 0


class Token(msgspec.Struct, frozen=True):
    """A word with its pieces, an operator, a line end, or the end of the text; `at` is where it begins in the text."""

    kind: Literal["word", "operator", "newline", "end"]
    text: str
    line: int
    pieces: tuple[Piece, ...] = ()
    at: int = 0

    @property
    def literal(self) -> str:
        """The word as it stands where nothing in it is quoted or expanded, else empty: only such a word can be a keyword."""
        if len(self.pieces) != 1 or self.pieces[0].kind != "text" or self.pieces[0].quoted:
            return ""
        return self.pieces[0].text


def tokens(text: str) -> Iterator[Token]:
    """The tokens, ending with one of kind "end"; raises NotStatic at what cannot be split."""
    return _Scanner(text).tokens()


class _Scanner:
    """Walks over the text once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._line_ends = [match.start() for match in re.finditer("\n", text)]

    def tokens(self) -> Iterator[Token]:
        """See the function of this name."""
        text = self._text
        while True:
            if blanks := _BLANKS.match(text, self._at):
                self._at = blanks.end()
            line = self._line()
            sign = text[self._at : self._at + 1]
            if not sign:
                yield Token("end", "", line)
                return
            if sign == "\n":
                self._at += 1
                yield Token("newline", sign, line)
            elif sign == "#":
                end = text.find("\n", self._at)
                self._at = len(text) if end < 0 else end
            elif sign in _OPERATOR_SIGNS:
                operator = next(each for each in OPERATORS if text.startswith(each, self._at))
                self._at += len(operator)
                yield Token("operator", operator, line)
            else:
                start = self._at
                pieces = self._word()
                yield Token("word", text[start : self._at], line, pieces, start)

    def _line(self, at: int = -1) -> int:
        return bisect_right(self._line_ends, (self._at if at < 0 else at) - 1) + 1

    def _refuse(self, why: str, at: int = -1) -> NotStatic:
        return NotStatic(self._line(at), why, why in _FAILS)

    def _word(self) -> tuple[Piece, ...]:
        pieces: list[Piece] = []
        text = self._text
        while self._at < len(text):
            sign = text[self._at]
            if sign in " \t\n" or sign in _OPERATOR_SIGNS:
                break
            if sign == "'":
                end = text.find("'", self._at + 1)
                if end < 0:
                    raise self._refuse("a quote that is not closed")
                pieces.append(Piece("text", text[self._at + 1 : end], True, at=self._at + 1, end=end))
                self._at = end + 1
            elif sign == '"':
                pieces += self._in_quotes()
            elif sign == "\\":
                pieces += self._escaped()
            elif sign in "$`":
                pieces.append(self._placed(quoted=False))
            elif plain := _PLAIN.match(text, self._at):
                pieces.append(Piece("text", plain.group(), False, at=self._at, end=plain.end()))
                self._at = plain.end()
        return tuple(pieces)

    def _escaped(self) -> list[Piece]:
        """A backslash outside of quotes: it takes the next character as it is, and a line end away."""
        following = self._text[self._at + 1 : self._at + 2]
        if not following:
            raise self._refuse("a backslash at the end")
        self._at += 2
        return [] if following == "\n" else [Piece("text", following, True, at=self._at - 2, end=self._at)]

    def _in_quotes(self) -> list[Piece]:
        start = self._at
        self._at += 1
        pieces = [Piece("text", "", True, at=self._at, end=self._at)]
        text = self._text
        while self._at < len(text):
            sign = text[self._at]
            if sign == '"':
                self._at += 1
                return pieces
            if sign == "\\":
                following = text[self._at + 1 : self._at + 2]
                self._at += 2
                kept = following if following and following in '$`"\\' else "" if following == "\n" else sign + following
                pieces.append(Piece("text", kept, True, at=self._at - 2, end=self._at))
            elif sign in "$`":
                pieces.append(self._placed(quoted=True))
            elif plain := _PLAIN_IN_QUOTES.match(text, self._at):
                pieces.append(Piece("text", plain.group(), True, at=self._at, end=plain.end()))
                self._at = plain.end()
        raise self._refuse("a quote that is not closed", start)

    def _placed(self, quoted: bool) -> Piece:
        """An expansion, with its place."""
        start = self._at
        return msgspec.structs.replace(self._expansion(quoted), at=start, end=self._at)

    def _expansion(self, quoted: bool) -> Piece:
        """What begins with a dollar sign or a backquote."""
        text, start = self._text, self._at
        if text[start] == "`":
            return self._backquoted(quoted)
        following = text[start + 1 : start + 2]
        if name := _NAME.match(text, start + 1):
            self._at = name.end()
            return Piece("variable", name.group(), quoted)
        if following == "{":
            return self._braced(quoted)
        if following == "(":
            return self._command(quoted)
        if following and following in "0123456789@*#?-$!":
            self._at += 2
            return Piece("unknown", f"${following}", quoted)
        if following and following in "'\"" and not quoted:
            raise self._refuse(f"${following}, which dash and bash read differently")
        self._at += 1
        return Piece("text", "$", quoted)

    def _backquoted(self, quoted: bool) -> Piece:
        start = self._at
        end = self._text.find("`", start + 1)
        while end > 0 and self._backslashes_before(end, start) % 2:
            end = self._text.find("`", end + 1)
        if end < 0:
            raise self._refuse("a backquote that is not closed")
        self._refuse_difficult(start + 1, end)
        self._at = end + 1
        return Piece("unknown", "the output of a command", quoted)

    def _backslashes_before(self, at: int, start: int) -> int:
        first = at
        while first > start and self._text[first - 1] == "\\":
            first -= 1
        return at - first

    def _refuse_difficult(self, start: int, end: int) -> None:
        """Commands in which a bracket or a quote need not be what it seems."""
        if _CASE_OR_COMMENT.search(self._text, start - 1, end):
            raise self._refuse("a command that cannot be told from its surroundings", start)

    def _command(self, quoted: bool) -> Piece:
        """A command in brackets, skipped; arithmetic, which may set variables, is not read."""
        start = self._at
        if self._text.startswith("$((", start):
            raise self._refuse("arithmetic")
        self._enter()
        self._at += 2
        open_ = 1
        while self._at < len(self._text):
            sign = self._text[self._at]
            if sign in "()":
                open_ += 1 if sign == "(" else -1
                self._at += 1
                if not open_:
                    self._depth -= 1
                    self._refuse_difficult(start + 2, self._at - 1)
                    return Piece("unknown", "the output of a command", quoted)
            elif sign == '"':
                self._in_quotes()
            elif sign == "'":
                end = self._text.find("'", self._at + 1)
                if end < 0:
                    break
                self._at = end + 1
            elif sign in "$`":
                self._expansion(quoted=False)
            else:
                self._at += 2 if sign == "\\" else 1
        raise self._refuse("a bracket that is not closed", start)

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._refuse("expansions in one another, deeper than anybody writes")

    def _braced(self, quoted: bool) -> Piece:
        """A variable in braces, with what stands for it where it is unset or empty."""
        text, start = self._text, self._at
        name = _NAME.match(text, start + 2)
        at = name.end() if name else start + 2
        if name and text[at : at + 1] == "}":
            self._at = at + 1
            return Piece("variable", name.group(), quoted)
        operator = next((each for each in (":-", ":+", "-", "+") if name and text.startswith(each, at)), "")
        if name and operator:
            self._at = at + len(operator)
            return Piece("variable", name.group(), quoted, operator, self._alternative(start, quoted))
        plain = _PLAIN_IN_BRACES.match(text, at)
        end = plain.end() if plain else at
        assigns = text.startswith((":=", "=", ":?", "?"), at)
        if text[end : end + 1] != "}" or assigns or end == start + 2:
            raise self._refuse("an expansion in braces that is not read")
        self._at = end + 1
        return Piece("unknown", f"${{{name.group() if name else ''}...}}", quoted)

    def _alternative(self, start: int, quoted: bool) -> tuple[Piece, ...]:
        """The word behind the operator; with quotes or backslashes in it, shells differ."""
        self._enter()
        pieces: list[Piece] = []
        text = self._text
        while self._at < len(text):
            if text[self._at] == "}":
                self._at += 1
                self._depth -= 1
                return tuple(pieces)
            if plain := _PLAIN_IN_BRACES.match(text, self._at):
                pieces.append(Piece("text", plain.group(), quoted))
                self._at = plain.end()
            elif text[self._at] in "$`":
                pieces.append(self._expansion(quoted))
            else:
                break
        raise self._refuse("an expansion in braces that is not read", start)
