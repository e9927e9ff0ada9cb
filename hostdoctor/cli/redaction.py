"""Options of the commands whose output leaves the host, and the names of this host that it must not take along."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from hostdoctor.evidence import Evidence
    from hostdoctor.redaction import Redactor

F = TypeVar("F", bound=Callable[..., Any])

_NAME_FILES = ("etc/hostname", "proc/sys/kernel/hostname")
_FIRST_USER, _LAST_USER = 1000, 60_000  # useradd's UID_MIN and UID_MAX, login.defs(5)
_MOST_SOURCES = 3


def redaction_options(command: F) -> F:
    """--no-redact and --show-redactions, as parameters `redact` and `show_redactions`."""
    for option in reversed(
        (
            click.option(
                "--no-redact",
                "redact",
                is_flag=True,
                flag_value=False,
                default=True,
                help="Leave serial numbers, names, addresses and the like as they are.",
            ),
            click.option(
                "--show-redactions",
                is_flag=True,
                help="List on standard error what was replaced, the secrets with it.",
            ),
        )
    ):
        command = option(command)
    return command


def learn_names(redactor: Redactor, evidence: Evidence) -> None:
    """Teach it the names of a host and of its users; what is read for it is no evidence, and not counted as read."""
    before = len(evidence.reads)
    for path in _NAME_FILES:
        redactor.learn("host", _text(evidence, path))
    for line in _text(evidence, "etc/passwd").splitlines():
        name, _, rest = line.partition(":")
        fields = rest.split(":")
        if len(fields) > 3 and fields[1].isdecimal() and _FIRST_USER <= int(fields[1]) <= _LAST_USER:
            redactor.learn("user", name)
            redactor.learn("user", fields[3].partition(",")[0])
    for name in _names(evidence, "home"):
        redactor.learn("user", name)
    if evidence.kind == "live":
        redactor.learn("host", os.uname().nodename)
        for variable in ("SUDO_USER", "USER", "LOGNAME"):
            redactor.learn("user", os.environ.get(variable, ""))
    del evidence.reads[before:]


def _text(evidence: Evidence, path: str) -> str:
    from hostdoctor.evidence import Unreadable  # noqa: PLC0415  with the options alone, nothing is read

    try:
        return evidence.read(path).decode("utf-8", "replace")
    except Unreadable:
        return ""


def _names(evidence: Evidence, path: str) -> list[str]:
    from hostdoctor.evidence import Unreadable  # noqa: PLC0415  as above

    try:
        return evidence.names(path)
    except Unreadable:
        return []


def show_replaced(redactor: Redactor) -> None:
    """List on standard error what was replaced: kind, placeholder, how often, where, and the secret itself."""
    from hostdoctor.report.phrases import safe  # noqa: PLC0415  rich costs time that only this list needs

    for row in redactor.replaced:
        times = "once" if row.count == 1 else f"{row.count} times"
        more = len(row.sources) - _MOST_SOURCES
        where = ", ".join(row.sources[:_MOST_SOURCES]) + (f" and {more} more" if more > 0 else "")
        click.echo(safe(f"{row.kind}: {row.placeholder} for {row.secret}, {times}{' in ' if where else ''}{where}"), err=True)
    if not redactor.replaced:
        click.echo("nothing was replaced", err=True)
