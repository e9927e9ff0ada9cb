"""The block of text in which a report carries the facts it was made from, so that another scan can judge them again.

    hostdoctor-facts/1 6480 bytes sha256 9f86d081884c7d65
    /Td6WFoAAAFpIt42AgAhAQ4AAABn...
    end of hostdoctor-facts

Between the two lines is base64 without padding, of xz, of what `codec.encode` makes of a Record. Letters, digits, "+" and "/"
are what trackers and mail programs leave alone; whatever else they add (quoting, indentation, entities, tags, line ends) is no
letter of it. A checksum tells whether all of it arrived.
"""

from __future__ import annotations

import base64
import hashlib
import html
import lzma
import re
from collections.abc import Callable
from typing import NamedTuple

from hostdoctor.facts.codec import LIMIT, SCHEMA, Unintelligible, decode, encode
from hostdoctor.facts.record import Record, contradiction

MARK = "hostdoctor-facts/"
END = "end of hostdoctor-facts"

_LINE = 76  # letters; mail programs break longer ones
_MOST_MEMORY = 64 << 20  # of the decoder, whose window is as large as that of the encoder below
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9, "dict_size": 16 << 20, "lc": 4, "pb": 0}]  # the last two: it is text

_GAP = r"[\s>|*]{1,40}"  # a blank, or a line's end and what quotes the next line
_SUM = rf"(\d{{1,9}}){_GAP}bytes{_GAP}sha256{_GAP}([0-9a-f]{{16}})"
_HEAD = re.compile(rf"hostdoctor-facts/(\d{{1,6}}){_GAP}(?:{_SUM}|left{_GAP}out)")
_MARK_OF_FOLDED = re.compile(r"\(hostdoctor-facts/\d{1,6}\):.*")
_END = re.compile(END.replace(" ", _GAP))
_BEGIN = re.compile(r"^[ \t>|#*]{0,40}(?:<h1[^>\n]{0,100}>)?hostdoctor report\b", re.MULTILINE)
_IS_PAGE = re.compile(r"\s{0,100}(?:<!--.{0,1000}?-->\s{0,100})?<(?:!doctype html|html)\b", re.IGNORECASE | re.DOTALL)
# What closes the block's frame, and is no more a part of what stands around the report than the block.
_CLOSING = re.compile(r"(?:[ \t>|]{0,40}(?:```|~~~|</\w{1,20}>)?[ \t]{0,40}(?:\n|\Z)){0,20}")
_TAG = re.compile(r"<[^<>\n]{0,200}>")
_STRANGE = re.compile(r"[^A-Za-z0-9+/]+")
_ADDED = re.compile(r"^[\s>|]{0,40}[-+]", re.MULTILINE)  # by a diff


class Found(NamedTuple):
    """A block in a text.

    Attributes:
        record: what it holds; None where it cannot be understood.
        problem: why not, as a sentence about the file without its full stop.
        rest: the text without the report that carries it; its lines keep their numbers.
        others: what further blocks hold that is not the same, as of another host.
    """

    record: Record | None
    problem: str
    rest: str
    others: tuple[Record, ...] = ()


def written(record: Record) -> str:
    """The block of a record, without a line end at its end; raises Unintelligible where no reader would take it back."""
    data = encode(record)
    if decode(data, Record) != record:
        raise Unintelligible("some of the facts do not come back from it as they are")
    if odd := contradiction(record):
        raise Unintelligible(odd)
    packed = lzma.compress(data, lzma.FORMAT_XZ, lzma.CHECK_CRC32, filters=_FILTERS)
    letters = base64.b64encode(packed).decode("ascii").rstrip("=")
    lines = [letters[at : at + _LINE] for at in range(0, len(letters), _LINE)]
    return "\n".join([f"{MARK}{SCHEMA} {len(packed)} bytes sha256 {_digest(packed)}", *lines, END])


def left_out(why: str) -> str:
    """What stands in the place of a block that there is no room for."""
    return f"{MARK}{SCHEMA} left out: {why}"


def _digest(packed: bytes) -> str:
    return hashlib.sha256(packed).hexdigest()[:16]


def find(text: str) -> Found | None:
    """The block in a text; None where there is none. Of several copies the first whole one."""
    if MARK not in text:
        return None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    heads = list(_HEAD.finditer(text))
    if not heads:
        return _folded(text)
    pieces = _pieces(text, heads)
    understood = [_understood(text, piece) for piece in pieces]
    rest = _around(text, pieces)
    records: list[Record] = []
    for each in understood:
        if isinstance(each, Record) and each not in records:
            records.append(each)
    if records:
        return Found(records[0], "", rest, tuple(records[1:]))
    return Found(None, next(each for each in understood if isinstance(each, str)), rest)


def rewritten(text: str, change: Callable[[Record], Record]) -> str:
    """A text whose blocks hold other facts; one that is not understood, whose facts nobody can change, is left out."""
    heads = list(_HEAD.finditer(text)) if MARK in text else []
    kept, at = [], 0
    for piece in _pieces(text, heads) if heads else ():
        head, end = piece
        if head[2] is None:  # left out already
            continue
        record = _understood(text, piece)
        block = _changed(record, change) if isinstance(record, Record) else left_out(record)
        kept += [text[at : head.start()], block]
        at = end.end() if end else len(text)
    return "".join([*kept, text[at:]])


def _changed(record: Record, change: Callable[[Record], Record]) -> str:
    try:
        return written(change(record))
    except Unintelligible as error:
        return left_out(str(error))


def _folded(text: str) -> Found | None:
    """A copy of a rendered report in which the block was not unfolded: its quotes are not the outputs they look like."""
    begin = _BEGIN.search(text)
    mark = _MARK_OF_FOLDED.search(text, begin.end()) if begin else None
    if begin is None or mark is None:
        return None
    rest = text[: begin.start()] + "\n" * text.count("\n", begin.start(), mark.end()) + text[mark.end() :]
    return Found(
        None, "its block of facts was folded when it was copied: unfold it, or copy the text the page is made of", rest
    )


class _Piece(NamedTuple):
    """One block: its first line, and where its last line begins and ends; both None where there is none."""

    head: re.Match[str]
    end: re.Match[str] | None


def _pieces(text: str, heads: list[re.Match[str]]) -> list[_Piece]:
    bounds = [*(head.start() for head in heads[1:]), len(text)]
    return [_Piece(head, _END.search(text, head.end(), bound)) for head, bound in zip(heads, bounds, strict=True)]


def _understood(text: str, piece: _Piece) -> Record | str:
    schema, size, digest = piece.head.groups()
    if int(schema) > SCHEMA:
        return f"its facts are of a newer hostdoctor (schema {int(schema)}, this one reads up to {SCHEMA})"
    if size is None:
        return "it is a report without the facts behind it; attach what `hostdoctor capture` writes on that host"
    if piece.end is None:
        return "its block of facts is cut off"
    packed = _packed(text[piece.head.end() : piece.end.start()], int(size), digest)
    return "its block of facts was altered: the checksum differs" if packed is None else _unpacked(packed)


def _packed(body: str, size: int, digest: str) -> bytes | None:
    """The bytes that the letters stand for, if they are those that were written."""
    if "&" in body:
        body = html.unescape(body)
    if "<" in body:
        body = _TAG.sub("", body)
    for letters in (body, _ADDED.sub("", body)):
        kept = _STRANGE.sub("", letters)
        if len(kept) * 3 // 4 != size or len(kept) % 4 == 1:
            continue
        packed = base64.b64decode(kept + "=" * (-len(kept) % 4))
        if _digest(packed) == digest:
            return packed
    return None


def _unpacked(packed: bytes) -> Record | str:
    decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY)
    try:
        data = decoder.decompress(packed, LIMIT + 1)
    except lzma.LZMAError:
        data = b""
    if not decoder.eof and len(data) <= LIMIT:
        return "its block of facts cannot be unpacked"
    try:
        record = decode(data, Record)
        problem = contradiction(record)
    except Unintelligible as error:
        problem = str(error)
    return f"its block of facts cannot be understood: {problem}" if problem else record


def _around(text: str, pieces: list[_Piece]) -> str:
    """The text with empty lines where the reports stand."""
    if _IS_PAGE.match(text):
        return ""
    kept, at = [], 0
    for head, end in pieces:
        begin = _BEGIN.search(text, at, head.start())
        start = begin.start() if begin else at
        # A block that is cut off is followed by nothing; that a block was left out is said in one line.
        stop = end.end() if end else len(text) if head[2] else head.end()
        line_end = text.find("\n", stop)
        stop = len(text) if line_end < 0 else line_end + 1
        closing = _CLOSING.match(text, stop)
        stop = closing.end() if closing else stop
        kept += [text[at:start], "\n" * text.count("\n", start, stop)]
        at = stop
    return "".join([*kept, text[at:]])
