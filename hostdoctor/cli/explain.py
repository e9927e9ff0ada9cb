"""`hostdoctor explain CHECK`."""

from __future__ import annotations

import difflib

import click

from hostdoctor.findings import Check
from hostdoctor.registry import Broken, load_checks
from hostdoctor.report.explain import explain_text


@click.command("explain", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("check_id", metavar="CHECK")
def command(check_id: str) -> None:
    """Say what a check looks at, why it matters, how it decides, its sources and its remedies."""
    checks: dict[str, Check | Broken] = {}
    for check in load_checks():
        checks.setdefault(check.id, check)  # a plugin that wants a name which is taken comes later
    found = checks.get(check_id)
    if found is None:
        near = difflib.get_close_matches(check_id, checks, n=1)
        hint = f"did you mean {near[0]}?" if near else "`hostdoctor checks` lists them"
        raise click.UsageError(f"there is no check {check_id!r}; {hint}")
    if isinstance(found, Broken):
        raise click.UsageError(f"{found.id} of {found.source} could not be loaded: {found.reason}")
    click.echo(explain_text(found), nl=False)
