"""Options and errors that the commands which read a host share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import click

from hostdoctor.evidence import Unreadable
from hostdoctor.evidence.files import FileEvidence

F = TypeVar("F", bound=Callable[..., Any])

# Where hardware evidence begins: a folder with neither is no host.
_PARTS = ("sys", "proc")
_SHORTEST_S, _LONGEST_S = 0.1, 86_400.0


def fail(message: str) -> NoReturn:
    """End with one line on standard error and the code for "could not be done"."""
    from hostdoctor.report.text import safe  # noqa: PLC0415  rich costs time that only this way out needs

    click.echo(f"hostdoctor: {safe(message)}", err=True)
    sys.exit(3)


def _deadline(_context: click.Context, _option: click.Parameter, value: float) -> float:
    if not _SHORTEST_S <= value <= _LONGEST_S:  # what is no number compares false
        raise click.BadParameter(f"{value:g} is not between {_SHORTEST_S:g} and {_LONGEST_S:g} seconds")
    return value


def evidence_options(command: F) -> F:
    """PATH, --root and the options of reading."""
    for option in reversed(
        (
            click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path()),
            click.option("--root", metavar="DIR", help="Folder that holds another host's sys, proc, etc and boot."),
            click.option(
                "--deadline",
                "deadline_s",
                type=float,
                callback=_deadline,
                default=10.0,
                show_default=True,
                metavar="S",
                help="Seconds that files served by GPU drivers may take.",
            ),
            click.option("--assume-bare-metal", is_flag=True, help="Judge a guest as if what it sees were hardware."),
        )
    ):
        command = option(command)
    return command


def open_evidence(root: str | None, paths: Sequence[str]) -> FileEvidence:
    """This host, or the tree that was named; ends the program where there is nothing to read."""
    named = [root] if root is not None else []
    for path in paths:
        if not _is_tree(path):
            fail(f"{path}: {_why_no_tree(path)}")
        named.append(path)
    if len(named) > 1:
        fail("one tree at a time: " + ", ".join(named))
    if not named:
        return FileEvidence("/", "live")
    if not _is_tree(named[0]):
        fail(f"{named[0]}: {_why_no_tree(named[0])}")
    try:
        return FileEvidence(named[0], "root")
    except Unreadable as error:
        fail(f"{named[0]}: {error.reason}")


def _is_tree(path: str) -> bool:
    return any(os.path.isdir(os.path.join(path, part)) for part in _PARTS)


def _why_no_tree(path: str) -> str:
    if not os.path.lexists(path):
        return "there is no such folder"
    if not os.path.isdir(path):
        return "not a folder; what can be read here is a folder with another host's sys or proc"
    if not os.access(path, os.R_OK | os.X_OK):
        return "no permission to read it"
    return "neither sys nor proc in it, so there is no host to judge"
