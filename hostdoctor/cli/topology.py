"""`hostdoctor topology`."""

from __future__ import annotations

import click

from hostdoctor.cli.evidence import evidence_options, open_evidence
from hostdoctor.view import View


@click.command("topology", context_settings={"help_option_names": ["-h", "--help"]})
@evidence_options
@click.option("--all", "everything", is_flag=True, help="Every function, not only GPUs and what is above them.")
def command(  # noqa: PLR0913, PLR0917  one parameter an option
    paths: tuple[str, ...],
    root: str | None,
    attached: tuple[str, ...],
    deadline_s: float,
    assume_bare_metal: bool,
    everything: bool,
) -> None:
    """Show the tree of host bridges, switches, links and GPUs."""
    from hostdoctor.report.phrases import safe  # noqa: PLC0415  so that --help stays quick
    from hostdoctor.report.tree import tree_lines  # noqa: PLC0415

    with open_evidence(root, (*paths, *attached)) as opened:
        view = View(opened.read(deadline_s, assume_bare_metal))
    for line in tree_lines(view, everything):
        click.echo(safe(line))
