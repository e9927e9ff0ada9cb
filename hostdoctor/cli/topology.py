"""`hostdoctor topology`."""

from __future__ import annotations

import click

from hostdoctor.cli.evidence import evidence_options, open_evidence, write
from hostdoctor.view import View


@click.command("topology", context_settings={"help_option_names": ["-h", "--help"]})
@evidence_options
@click.option("--all", "everything", is_flag=True, help="Every function, not only GPUs and what is above them.")
@click.option("--format", "format_", type=click.Choice(["text", "svg"]), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", type=click.Path(), help="Write to a file.")
def command(  # noqa: PLR0913, PLR0917  one parameter an option
    paths: tuple[str, ...],
    root: str | None,
    attached: tuple[str, ...],
    deadline_s: float,
    assume_bare_metal: bool,
    everything: bool,
    format_: str,
    output: str | None,
) -> None:
    """Show the tree of host bridges, switches, links and GPUs.

    As SVG it is a drawing, which browsers show, with the network cards and drives that matter to the GPUs. Exit status:
    0 shown, 2 wrong usage, 3 nothing could be read.
    """
    if everything and format_ == "svg":
        raise click.UsageError("--all is for text: a drawing shows GPUs and what matters to them")
    with open_evidence(root, (*paths, *attached)) as opened:
        view = View(opened.read(deadline_s, assume_bare_metal))
    write((_svg(view) if format_ == "svg" else _text(view, everything)).encode("utf-8", "replace"), output)


def _text(view: View, everything: bool) -> str:
    from hostdoctor.report.phrases import safe  # noqa: PLC0415  so that --help stays quick
    from hostdoctor.report.tree import tree_lines  # noqa: PLC0415

    return "".join(f"{safe(line)}\n" for line in tree_lines(view, everything))


def _svg(view: View) -> str:
    from hostdoctor.report.drawing import whole_svg  # noqa: PLC0415
    from hostdoctor.report.nodes import topology_report  # noqa: PLC0415

    return whole_svg(topology_report(view))
