"""The distribution, from /etc/os-release (os-release(5): shell-compatible assignments, without expansion)."""

from __future__ import annotations

import re

_MAX_TEXT = 1 << 16  # characters
_ASSIGNMENT = re.compile(r"^[ \t]*([A-Za-z_][A-Za-z0-9_]{0,63})=(.*)$", re.MULTILINE)
_PIECE = re.compile(r"""'([^']*)'?|"((?:[^"\\]|\\.)*)"?|\\(.)|([^\s'"\\]+)""")
_ESCAPE = re.compile(r'\\(["$`\\])')


def parse_os_release(text: str) -> dict[str, str]:
    """Reads NAME=value lines as a shell would, but expands nothing: "$HOME" stays as it stands.

    Later lines win over earlier ones; lines that are no assignment are left out.
    """
    return {match.group(1): _unquoted(match.group(2)) for match in _ASSIGNMENT.finditer(text[:_MAX_TEXT])}


def _unquoted(value: str) -> str:
    """The value up to the first blank outside of quotes; a quote that is not closed runs to the end."""
    pieces: list[str] = []
    position = 0
    while match := _PIECE.match(value, position):
        single, double, escaped, plain = match.groups()
        pieces.append(_ESCAPE.sub(r"\1", double) if double is not None else single or escaped or plain or "")
        position = match.end()
    return "".join(pieces)
