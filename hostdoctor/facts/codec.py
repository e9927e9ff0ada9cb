"""Facts as bytes and back, for a report that can be judged again elsewhere.

The bytes are JSON: a Struct is an object without the fields that have their default, a tuple and a mapping are arrays (of
pairs), and an Unknown is `{"?": n}`, the number of its reason in a table that stands once beside the facts. The types of the
Structs say what is expected, so that nothing else comes out of bytes that a stranger made.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, Union, get_args, get_origin

import msgspec

from hostdoctor.facts.unknown import ANOTHER_USER, ASLEEP, NEEDS_ROOT, NOT_CAPTURED, Unknown

# Raised by one when bytes of before can no longer be understood; fields that are only added have defaults and need none.
SCHEMA = 1

LIMIT = 16 << 20  # bytes of JSON; 10,000 functions take a third of it
_MOST_BITS = 128  # no address, size or counter has more
_UNKNOWN = "?"
# Code may ask for these by identity, as it finds them where facts are read.
_CONSTANTS = {each: each for each in (ANOTHER_USER, ASLEEP, NEEDS_ROOT, NOT_CAPTURED)}

S = TypeVar("S", bound=msgspec.Struct)
Value: TypeAlias = Any  # whatever a field of a Struct may hold; its codec knows
Json: TypeAlias = Any


class Unintelligible(Exception):
    """Facts that cannot be written or understood; its text says why, as the end of a sentence."""


def encode(facts: msgspec.Struct) -> bytes:
    """A Struct of facts as bytes; raises Unintelligible for values that no reader would take."""
    reasons: dict[Unknown, int] = {}
    packed = _codec(type(facts)).pack(facts, reasons)
    table = [[each.reason, each.help] if each.help else [each.reason] for each in reasons]
    try:
        text = json.dumps([table, packed], separators=(",", ":"), allow_nan=False)
    except ValueError:  # a number that is none
        raise Unintelligible("a number among the facts is not finite") from None
    if len(text) > LIMIT:
        raise Unintelligible(f"the facts are larger than {LIMIT >> 20} MiB")
    return text.encode("ascii")


def decode(data: bytes, type_: type[S]) -> S:
    """The Struct that bytes hold; raises Unintelligible for anything else."""
    if len(data) > LIMIT:
        raise Unintelligible(f"the facts are larger than {LIMIT >> 20} MiB")
    try:
        read = json.loads(data, parse_constant=_no_number)
    except (ValueError, RecursionError, MemoryError):
        raise Unintelligible("it is no JSON") from None
    if not isinstance(read, list) or len(read) != 2:
        raise Unintelligible("it does not hold facts")
    found: S = _codec(type_).unpack(read[1], _reasons(read[0]))
    return found


def _no_number(text: str) -> float:
    raise Unintelligible(f"{text} is no number")


def _reasons(table: object) -> list[Unknown]:
    if not isinstance(table, list):
        raise Unintelligible("the reasons of what is unknown are missing")
    found = []
    for row in table:
        if not isinstance(row, list) or len(row) not in (1, 2) or not all(isinstance(each, str) for each in row):
            raise Unintelligible("a reason of what is unknown is no text")
        each = Unknown(*row)
        found.append(_CONSTANTS.get(each, each))
    return found


class _Codec(Protocol):
    def pack(self, value: Value, reasons: dict[Unknown, int]) -> Json:
        """What JSON can hold of a value."""

    def unpack(self, data: Json, reasons: list[Unknown]) -> Value:
        """The value; raises Unintelligible."""


class _Plain:
    """Text, truth values and numbers."""

    def __init__(self, type_: type) -> None:
        self._type = type_

    def pack(self, value: Value, _reasons: dict[Unknown, int]) -> Json:
        return value

    def unpack(self, data: Json, _reasons: list[Unknown]) -> Value:
        if self._type is float and type(data) is int and data.bit_length() <= _MOST_BITS:
            return float(data)
        if type(data) is not self._type:
            raise Unintelligible(f"{_shown(data)} stands where {self._type.__name__} is expected")
        if isinstance(data, float) and not math.isfinite(data):
            raise Unintelligible("a number is not finite")
        if isinstance(data, int) and data.bit_length() > _MOST_BITS:
            raise Unintelligible("a number is larger than any that hardware has")
        return data


class _Words:
    """One of some words."""

    def __init__(self, words: tuple[Any, ...]) -> None:
        self._words = words

    def pack(self, value: Value, _reasons: dict[Unknown, int]) -> Json:
        return value

    def unpack(self, data: Json, _reasons: list[Unknown]) -> Value:
        if not isinstance(data, str) or data not in self._words:
            raise Unintelligible(f"{_shown(data)} is none of {', '.join(map(repr, self._words))}")
        return data


class _Row:
    """A tuple of any length of one kind."""

    def __init__(self, item: _Codec) -> None:
        self._item = item

    def pack(self, value: Value, reasons: dict[Unknown, int]) -> Json:
        return [self._item.pack(each, reasons) for each in value]

    def unpack(self, data: Json, reasons: list[Unknown]) -> Value:
        return tuple(self._item.unpack(each, reasons) for each in _list(data))


class _Fixed:
    """A tuple whose places have types of their own."""

    def __init__(self, items: list[_Codec]) -> None:
        self._items = items

    def pack(self, value: Value, reasons: dict[Unknown, int]) -> Json:
        return [item.pack(each, reasons) for item, each in zip(self._items, value, strict=True)]

    def unpack(self, data: Json, reasons: list[Unknown]) -> Value:
        if len(_list(data)) != len(self._items):
            raise Unintelligible(f"{len(data)} values stand where {len(self._items)} are expected")
        return tuple(item.unpack(each, reasons) for item, each in zip(self._items, data, strict=True))


class _Table:
    """A mapping, in its order."""

    def __init__(self, key: _Codec, value: _Codec) -> None:
        self._pair = _Fixed([key, value])

    def pack(self, value: Value, reasons: dict[Unknown, int]) -> Json:
        return [self._pair.pack(each, reasons) for each in value.items()]

    def unpack(self, data: Json, reasons: list[Unknown]) -> Value:
        return dict(self._pair.unpack(each, reasons) for each in _list(data))


class _Record:
    """A Struct. What it has beyond the known fields is of a later version, and left out."""

    def __init__(self, type_: type[msgspec.Struct]) -> None:
        self._type = type_
        self._fields = [(field, _codec(field.type)) for field in msgspec.structs.fields(type_)]

    def pack(self, value: Value, reasons: dict[Unknown, int]) -> Json:
        packed = {}
        for field, codec in self._fields:
            found = getattr(value, field.name)
            if not _is_default(found, field):
                packed[field.name] = codec.pack(found, reasons)
        return packed

    def unpack(self, data: Json, reasons: list[Unknown]) -> Value:
        if not isinstance(data, dict):
            raise Unintelligible(f"{_shown(data)} stands where {self._type.__name__} is expected")
        given = {field.name: codec.unpack(data[field.name], reasons) for field, codec in self._fields if field.name in data}
        try:
            return self._type(**given)
        except TypeError:
            lacking = [field.name for field, _ in self._fields if field.required and field.name not in given]
            raise Unintelligible(f"{self._type.__name__} lacks {', '.join(lacking)}") from None


class _Perhaps:
    """A value that may be unknown, or nothing."""

    def __init__(self, inner: _Codec, may_lack: bool, may_be_unknown: bool) -> None:
        self._inner = inner
        self._may_lack = may_lack
        self._may_be_unknown = may_be_unknown

    def pack(self, value: Value, reasons: dict[Unknown, int]) -> Json:
        if value is None:
            return None
        if isinstance(value, Unknown):
            return {_UNKNOWN: reasons.setdefault(value, len(reasons))}
        return self._inner.pack(value, reasons)

    def unpack(self, data: Json, reasons: list[Unknown]) -> Value:
        if data is None and self._may_lack:
            return None
        if self._may_be_unknown and isinstance(data, dict) and _UNKNOWN in data:
            number = data[_UNKNOWN]
            if type(number) is not int or not 0 <= number < len(reasons):
                raise Unintelligible("the reason of what is unknown is missing")
            return reasons[number]
        return self._inner.unpack(data, reasons)


def _is_default(value: object, field: msgspec.structs.FieldInfo) -> bool:
    if field.required:
        return False
    default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return type(value) is type(default) and value == default


def _list(data: object) -> list[Json]:
    if not isinstance(data, list):
        raise Unintelligible(f"{_shown(data)} stands where a list is expected")
    return data


def _shown(data: object) -> str:
    text = repr(data) if isinstance(data, str | int | float | None) else f"a {type(data).__name__}"
    return text if len(text) <= 40 else f"{text[:40]}..."


@cache
def _codec(type_: Value) -> _Codec:
    origin: Value = get_origin(type_)
    arguments = get_args(type_)
    if origin in (Union, types.UnionType):
        return _union(arguments)
    if origin is Literal:
        return _Words(arguments)
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return _Row(_codec(arguments[0]))
        return _Fixed([_codec(each) for each in arguments])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _Table(*map(_codec, arguments))
    if type_ is Unknown:  # nothing else stands beside it, in a list of what is unknown
        return _Perhaps(_Nothing(), may_lack=False, may_be_unknown=True)
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return _Record(type_)
    if type_ in (str, int, float, bool):
        return _Plain(type_)
    raise TypeError(f"facts have no values of the type {type_}")


class _Nothing:
    """No value at all."""

    def pack(self, value: Value, _reasons: dict[Unknown, int]) -> Json:
        raise Unintelligible(f"{_shown(value)} stands where only an Unknown can")

    def unpack(self, data: Json, _reasons: list[Unknown]) -> Value:
        raise Unintelligible(f"{_shown(data)} stands where only an Unknown can")


def _union(members: tuple[Any, ...]) -> _Codec:
    """Of a type, Unknown and None; no fact may be of two types of its own."""
    inner = [each for each in members if each not in (Unknown, types.NoneType)]
    if len(inner) != 1:
        raise TypeError(f"facts have no values of the types {inner}")
    return _Perhaps(_codec(inner[0]), types.NoneType in members, Unknown in members)
