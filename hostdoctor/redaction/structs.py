"""Facts and reports without their secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal, TypeVar, cast, get_args, get_origin

import msgspec

from hostdoctor.facts.boot_files import Parameter
from hostdoctor.parsers.cmdline import parse_command_line
from hostdoctor.redaction import Redactor

S = TypeVar("S", bound=msgspec.Struct)


def redacted(facts: S, redactor: Redactor) -> S:
    """A Struct whose texts, also those further down in it, have lost their secrets; words of a fixed list stay."""
    observe(facts, redactor)
    return _Rewriting(redactor).struct(facts)


def observe(facts: msgspec.Struct, redactor: Redactor) -> None:
    """Let it learn the names that the texts of a Struct tell."""
    for text in dict.fromkeys(_texts(facts)):
        redactor.observe(text)


class _Rewriting:
    """Goes through values; each text is rewritten once."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._done: dict[str, str] = {}

    def struct(self, struct: S) -> S:
        if isinstance(struct, Parameter):
            return cast(S, self._parameter(struct))
        fields = _fields(type(struct))
        changes = {name: new for name in fields if (new := self._value(old := getattr(struct, name))) is not old}
        return msgspec.structs.replace(struct, **changes) if changes else struct

    def _value(self, value: Any) -> Any:  # noqa: ANN401  as above
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, msgspec.Struct):
            return self.struct(value)
        if isinstance(value, tuple):
            changed = tuple(self._value(each) for each in value)
            return value if all(new is old for new, old in zip(changed, value, strict=True)) else changed
        if isinstance(value, Mapping):
            return {self._value(key): self._entry(key, each) for key, each in value.items()}
        return value

    def _entry(self, key: object, value: object) -> object:
        """The value of a key, which may be what tells that it is private: {"serial": "1320"}."""
        if isinstance(key, str) and isinstance(value, str):
            found = self._redactor.value({"": "", key: value})
            return list(found.values())[-1] if isinstance(found, dict) else value
        return self._value(value)

    def _text(self, text: str) -> str:
        found = self._done.get(text)
        if found is None:
            found = self._redactor.text(text)
            found = self._done[text] = text if found == text else found
        return found

    def _parameter(self, parameter: Parameter) -> Parameter:
        """A kernel parameter, whose name tells what its value is."""
        text = self._text(parameter.text)
        parsed = parse_command_line(text)[0] if text != parameter.text else ()
        if len(parsed) == 1:
            return msgspec.structs.replace(parsed[0], text=text)
        return parameter if text == parameter.text else Parameter(self._text(parameter.name), "", text)


@cache
def _fields(type_: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields that may hold texts of anybody's; those of a fixed list of words do not."""
    return tuple(field.name for field in msgspec.structs.fields(type_) if not _is_word(field.type))


def _is_word(type_: Any) -> bool:  # noqa: ANN401  what stands in an annotation
    return get_origin(type_) is Literal or any(_is_word(each) for each in get_args(type_) if get_origin(type_) is not tuple)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, msgspec.Struct):
        for name in _fields(type(value)):
            yield from _texts(getattr(value, name))
    elif isinstance(value, tuple):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _texts(key)
            yield from _texts(each)
