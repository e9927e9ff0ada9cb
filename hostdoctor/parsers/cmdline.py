"""The kernel command line, split as the kernel splits it (lib/cmdline.c next_arg, kernel/params.c parse_args)."""

from __future__ import annotations

import re

from hostdoctor.facts.boot_files import Parameter

# A token ends at a space outside of quotes; a quote that is never closed runs to the end. The kernel's isspace counts
# byte a0 too (lib/ctype.c).
_SPACE = " \t\n\v\f\r\xa0"
_TOKEN = re.compile(f'(?:[^{_SPACE}"]|"[^"]*"?)+')
_MAX_TEXT = 1 << 16  # characters; COMMAND_LINE_SIZE is 2,048 on x86 and arm64, 4,096 at most elsewhere


def parse_command_line(text: str) -> tuple[tuple[Parameter, ...], tuple[Parameter, ...]]:
    """Splits the line into what is for the kernel and what is for init.

    Args:
        text: the content of /proc/cmdline, or a line configured for a later boot.

    Returns:
        The kernel's parameters and, after a bare "--", init's arguments.
    """
    line = text[:_MAX_TEXT].partition("\0")[0]
    if not line.isascii():
        # The kernel sees bytes: 0xa0 within a character of several bytes splits it.
        line = line.encode("utf-8", "surrogatepass").decode("latin-1")
    parameters = tuple(_parameter(match.group()) for match in _TOKEN.finditer(line))
    for index, parameter in enumerate(parameters):
        if parameter.name == "--" and parameter.value is None:
            return parameters[:index], parameters[index + 1 :]
    return parameters, ()


def token_spans(line: str) -> list[tuple[int, int]]:
    """Where each token of a line begins and ends; the line is bytes, each as the character of its number (latin-1)."""
    return [match.span() for match in _TOKEN.finditer(line)]


def _parameter(token: str) -> Parameter:
    """Splits one token at its first = that is not its first character, and takes the quotes off as next_arg does."""
    quoted = token.startswith('"')
    body = token[1:] if quoted else token
    ends_quoted = body.endswith('"')
    equals = body.find("=", 1)
    if equals < 0:
        return _made(body[:-1] if quoted and ends_quoted else body, None, token)
    value = body[equals + 1 :]
    if value.startswith('"'):
        value = value[1:-1] if ends_quoted else value[1:]
    elif quoted and ends_quoted:
        value = value[:-1]
    return _made(body[:equals], value, token)


def _made(name: str, value: str | None, token: str) -> Parameter:
    if token.isascii():
        return Parameter(name, value, token)
    return Parameter(_decoded(name), None if value is None else _decoded(value), _decoded(token))


def _decoded(text: str) -> str:
    return text.encode("latin-1").decode("utf-8", "replace")


def elements(value: str) -> tuple[str, ...]:
    """The options in the value of pci=, iommu= and their like, which commas separate (drivers/pci/pci.c pci_setup).

    A list within one option has semicolons: "disable_acs_redir=0000:00:03.0;0000:40:03.0" is one element.
    """
    return tuple(element for element in value.split(",") if element)
