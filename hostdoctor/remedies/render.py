"""A firmware guide as text, Markdown or a page to print.

Everything that comes from a host is untrusted: control characters are written out before a template sees them, HTML is
escaped by jinja2, and in Markdown every sign that could mean something is.
"""

from __future__ import annotations

import functools
import os
import re
import textwrap
from collections.abc import Sequence
from typing import Literal

import jinja2
import msgspec

import hostdoctor.templates
from hostdoctor.remedies.guide import FirmwareGuide
from hostdoctor.report.phrases import safe

Format = Literal["text", "markdown", "html"]

_FOLDER = os.path.dirname(hostdoctor.templates.__file__)
_TEMPLATES: dict[Format, str] = {"text": "firmware.txt.j2", "markdown": "firmware.md.j2", "html": "firmware.html.j2"}
_WIDTH = 80
_MOST_NAMED = 4  # findings of one check
# What means something anywhere in a line, and what does so where a line begins.
_MARKDOWN = re.compile(r"([\\`*_\[\]|~$])")
_MARKDOWN_FIRST = re.compile(r"^(\s*(?:[0-9]+(?=[.)])|))([.)#+=-])")
_MARKDOWN_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "&#64;", "://": ":&#47;&#47;", "www.": "www&#46;"}


class Plain(str):
    """Markdown that is written as it is."""

    __slots__ = ()


def render(guide: FirmwareGuide, format_: Format) -> str:
    """The guide in one of the formats, with a line end at its end."""
    return fill(format_, _TEMPLATES[format_], guide=guide).strip("\n") + "\n"


def fill(format_: Format, template: str, width: int = _WIDTH, **values: object) -> str:
    """A template of this package, filled with values of which nothing steers a terminal or means something as markup."""
    harmless = {name: _harmless(msgspec.to_builtins(value)) for name, value in values.items()}
    environment = _environment(format_)
    environment.filters["wrap"] = functools.partial(_wrap, width=width)
    return environment.get_template(template).render(**harmless)


def _environment(format_: Format) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=format_ == "html",  # noqa: S701  text and Markdown are no HTML
        finalize=_markdown if format_ == "markdown" else None,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(wrap=_wrap, sentence=_sentence, code=_code, fence=_fence, grouped=_grouped)
    return environment


def _harmless(value: object, key: str = "") -> object:
    """Plain values in which what could steer a terminal is written out; bodies of requests come from the tables alone."""
    if isinstance(value, str):
        return value if key == "body" else safe(value)
    if isinstance(value, dict):
        return {name: _harmless(each, name) for name, each in value.items()}
    return [_harmless(each) for each in value] if isinstance(value, list | tuple) else value


def _sentence(text: str) -> str:
    """The text with a capital at its beginning, the rest as it is."""
    return text[:1].upper() + text[1:]


def _grouped(because: Sequence[str]) -> str:
    """Findings by their check; of a check that has many only how many they are."""
    by_check: dict[str, list[str]] = {}
    for each in because:
        by_check.setdefault(each.partition(" ")[0], []).append(each)
    shown = (
        f"{check} ({len(found)} times)" if len(found) > _MOST_NAMED else ", ".join(found) for check, found in by_check.items()
    )
    return ", ".join(shown)


def _wrap(text: str, first: str = "", indent: int = 0, width: int = _WIDTH) -> str:
    """Text wrapped for a terminal; the first line begins with `first`, the others with blanks."""
    return textwrap.fill(
        text,
        width,
        initial_indent=first.ljust(indent),
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _markdown(value: object) -> object:
    """Text of which nothing is taken as Markdown or HTML."""
    if isinstance(value, Plain) or not isinstance(value, str):
        return value
    text = _MARKDOWN.sub(r"\\\1", value)
    for sign, entity in _MARKDOWN_ENTITIES.items():
        text = text.replace(sign, entity)
    return _MARKDOWN_FIRST.sub(r"\1\\\2", text)


def _code(text: str) -> Plain:
    """A span of code, whatever backticks are in it."""
    mark = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    return Plain(f"{mark} {text} {mark}" if "`" in text else f"{mark}{text}{mark}")


def _fence(text: str, language: str = "") -> Plain:
    """A block of code."""
    mark = "`" * max(3, max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    return Plain(f"{mark}{language}\n{text}\n{mark}")
