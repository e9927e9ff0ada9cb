"""Changes /etc/default/grub where it stands, and nothing else in it: no line moves, no quote changes, no byte is recoded.

A parameter is added at the end of the variable's last assignment, in the quotes that stand there, and taken out wherever its
letters stand. The caller proves each result by following the file again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from hostdoctor.parsers.grub_cfg import RawWord, raw_words
from hostdoctor.parsers.shell_words import Piece, Token, tokens
from hostdoctor.remedies.grub_line import meaning
from hostdoctor.remedies.quoting import for_grub, in_double_quotes

BEGIN, END = "# >>> hostdoctor >>>", "# <<< hostdoctor <<<"
_EXPANSION = "\ue000"  # stands for what the shell puts in


class Letter(msgspec.Struct, frozen=True):
    """One character of a value, and where it comes from."""

    sign: str
    at: int
    end: int


def assignment_at(text: str, variable: str, line: int) -> Token | None:
    """The last word on a line that assigns a variable."""
    heads = (f"{variable}=", f"{variable}+=")
    found = [token for token in tokens(text) if token.kind == "word" and token.line == line and token.text.startswith(heads)]
    return found[-1] if found else None


def is_plain(token: Token) -> bool:
    """Whether an assignment's value is made of text and plain variables alone, so that its end is a place for more."""
    return all(piece.kind == "text" or (piece.kind == "variable" and not piece.operator) for piece in token.pieces)


def is_in_block(text: str, token: Token) -> bool:
    """Whether an assignment is the one that stands between hostdoctor's marks."""
    return text[: token.at].endswith(f"{BEGIN}\n")


def words_in(token: Token) -> list[str]:
    """The parameters that an assignment itself gives, beside what the shell puts in."""
    words = raw_words("".join(letter.sign for letter in _letters(token))) or []
    return [_text(word) for word in words if _EXPANSION not in word.text]


def _text(word: RawWord) -> str:
    """As the kernel gets it."""
    return f'"{word.word}"' if " " in word.word else word.word


def with_added(text: str, token: Token, value: str, parameters: Sequence[str]) -> str:
    """The text with parameters at the end of an assignment, which gives the variable `value` today."""
    escaped = " ".join(map(for_grub, parameters))
    gap = "" if not value or value[-1] in " \t" else " "
    end = token.at + len(token.text)
    quote = text[end - 1] if token.pieces[-1].end == end - 1 else ""
    if quote == "'" and "'" not in escaped:
        return f"{text[: end - 1]}{gap}{escaped}{text[end - 1 :]}"
    if quote == '"':
        return f"{text[: end - 1]}{gap}{in_double_quotes(escaped)}{text[end - 1 :]}"
    return f'{text[:end]}"{gap}{in_double_quotes(escaped)}"{text[end:]}'


def with_block(text: str, variable: str, parameters: Sequence[str]) -> str:
    """The text with an assignment of our own behind everything, between marks."""
    gap = "" if not text or text.endswith("\n") else "\n"
    escaped = in_double_quotes(" ".join(map(for_grub, parameters)))
    return f'{text}{gap}{BEGIN}\n{variable}="${{{variable}:+${variable} }}{escaped}"\n{END}\n'


def without(text: str, token: Token, gone: Collection[tuple[str, str | None]]) -> str:
    """The text with these parameters taken out of an assignment, each with the blanks on one side of it."""
    letters = _letters(token)
    words = raw_words("".join(letter.sign for letter in letters)) or []
    cut: set[int] = set()
    for number, word in enumerate(words):
        if meaning(_text(word)) not in gone:
            continue
        if number + 1 < len(words):
            cut.update(range(word.start, words[number + 1].start))
        else:
            before = next((words[each].end for each in range(number - 1, -1, -1) if words[each].start not in cut), 0)
            cut.update(range(before, word.end))
    changed = text
    for place in sorted(cut, reverse=True):
        changed = changed[: letters[place].at] + changed[letters[place].end :]
    return _without_empty_block(changed)


def _without_empty_block(text: str) -> str:
    start = text.find(f"{BEGIN}\n")
    end = text.find(f"{END}\n", start)
    if start < 0 or end < 0:
        return text
    variable, _, value = text[start + len(BEGIN) + 1 : end].partition("=")
    if value != f'"${{{variable}:+${variable} }}"\n':
        return text
    return text[:start] + text[end + len(END) + 1 :]


def _letters(token: Token) -> list[Letter]:
    """The characters of the value that an assignment gives."""
    found = [letter for piece in token.pieces for letter in _of_piece(piece)]
    return found[token.text.index("=") + 1 :]


def _of_piece(piece: Piece) -> list[Letter]:
    if piece.kind != "text":
        # What "${V:+$V }" ends with is a blank or nothing at all.
        ends = piece.alternative[-1].text[-1:] if piece.alternative and piece.alternative[-1].kind == "text" else ""
        blank = [Letter(" ", piece.end, piece.end)] if ends == " " else []
        return [Letter(_EXPANSION, piece.at, piece.end), *blank]
    if len(piece.text) == piece.end - piece.at:
        return [Letter(sign, piece.at + number, piece.at + number + 1) for number, sign in enumerate(piece.text)]
    return [Letter(sign, piece.at, piece.end) for sign in piece.text]  # behind a backslash
