"""`hostdoctor checks`."""

from __future__ import annotations

import click
import msgspec

from hostdoctor.registry import Broken, load_checks
from hostdoctor.report.phrases import safe


@click.command("checks", context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(format_: str) -> None:
    """List the checks: what each judges, built-in ones and those of plugins."""
    checks = load_checks()
    if format_ == "json":
        rows = [
            {"id": check.id, "broken": check.reason}
            if isinstance(check, Broken)
            else {"id": check.id, "subject": check.subject, "summary": check.summary}
            for check in checks
        ]
        click.echo(msgspec.json.format(msgspec.json.encode(rows), indent=2).decode())
        return
    width = max(len(check.id) for check in checks)
    for check in checks:
        about = f"could not be loaded: {check.reason}" if isinstance(check, Broken) else check.summary
        click.echo(safe(f"{check.id:<{width}}  {about}"))
    click.echo("\nhostdoctor explain CHECK says what one looks at and how it decides.")
