"""`hostdoctor report`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import click

from hostdoctor.cli.evidence import Opened, evidence_options, fail, open_evidence, write
from hostdoctor.cli.redaction import learn_names, redaction_options, show_replaced

if TYPE_CHECKING:
    from hostdoctor.redaction import Redactor
    from hostdoctor.report.model import Report

_OBSERVED = 64 << 10  # characters of each file; the names of host and user stand in all lines of a log, and in each prompt
_FORMATS = ("markdown", "text", "html", "json")
_FROM_JSON = (
    "Made from a JSON report, which holds verdicts and not the facts behind them: this report cannot be judged again. "
    "`hostdoctor report` or `hostdoctor capture` on the host itself makes one that can."
)


class _Made(NamedTuple):
    """A report, the block of its facts or the line that stands in its place, and sentences about how it was made."""

    report: Report
    embedded: str
    notes: list[str]


@click.command("report", context_settings={"help_option_names": ["-h", "--help"]})
@evidence_options
@click.option("--with-bandwidth", "measured", metavar="FILE", multiple=True, help="Also judge a recorded bandwidth run.")
@click.option("--format", "format_", type=click.Choice(_FORMATS), default="markdown", show_default=True)
@click.option("-o", "--output", metavar="FILE", type=click.Path(), help="Write to a file.")
@redaction_options
def command(  # noqa: PLR0913, PLR0917  one parameter an option
    paths: tuple[str, ...],
    root: str | None,
    attached: tuple[str, ...],
    deadline_s: float,
    assume_bare_metal: bool,
    measured: tuple[str, ...],
    format_: str,
    output: str | None,
    redact: bool,
    show_redactions: bool,
) -> None:
    """Write a report to attach to a bug tracker, with what is private taken out.

    It is about this host, a tree, or what PATH holds, as with `hostdoctor scan`; PATH may also be a JSON report of a scan.
    At its end stand the facts in a block of text, so that `hostdoctor scan REPORT` judges them again elsewhere; Markdown
    stays below what a tracker takes. Exit status: 0 written, 2 wrong usage, 3 nothing could be read.
    """
    from hostdoctor.redaction import Redactor  # noqa: PLC0415  so that --help and wrong usage are quick

    redactor = Redactor()
    with open_evidence(root, (*paths, *attached), measured) as opened:
        rewriter = redactor if redact else None
        made = _of_json(opened, rewriter) or _of_facts(opened, deadline_s, assume_bare_metal, rewriter)
    made.notes.append(_about_redaction(redactor) if redact else "Nothing was taken out of this report (--no-redact).")
    write(_renderer(format_)(made).encode("utf-8", "replace"), output)
    if show_redactions:
        show_replaced(redactor)


def _about_redaction(redactor: Redactor) -> str:
    kinds = Counter(row.kind for row in redactor.replaced)
    if not kinds:
        return "Nothing private was found in it that had to be taken out."
    listed = ", ".join(f"{number} × {kind}" for kind, number in kinds.items())
    return f"What is private was taken out, and placeholders stand in its place: {listed}."


def _of_json(opened: Opened, redactor: Redactor | None) -> _Made | None:
    """A JSON report as it is; None where there is something to judge."""
    pasted = opened.pasted
    if pasted is None or not pasted.json_reports or pasted.parts or pasted.carried or opened.has_files:
        return None
    from hostdoctor.facts.block import left_out  # noqa: PLC0415  as above
    from hostdoctor.report.model import from_json  # noqa: PLC0415

    file, *others = pasted.json_reports
    if others:
        fail(f"one report at a time: {', '.join(each.name for each in pasted.json_reports)}; `hostdoctor diff` compares two")
    try:
        report = from_json(file.text.encode("utf-8", "replace"))
    except ValueError as error:
        fail(f"{file.name}: {error}")
    if redactor:
        from hostdoctor.redaction.structs import redacted  # noqa: PLC0415  as above

        report = redacted(report, redactor)
    return _Made(report, left_out("it was made from verdicts alone"), [_FROM_JSON])


def _of_facts(opened: Opened, deadline_s: float, assume_bare_metal: bool, redactor: Redactor | None) -> _Made:
    from hostdoctor.diagnosis import diagnose, exit_code  # noqa: PLC0415  as above
    from hostdoctor.facts.block import left_out, written  # noqa: PLC0415
    from hostdoctor.facts.codec import Unintelligible  # noqa: PLC0415
    from hostdoctor.registry import load_checks  # noqa: PLC0415
    from hostdoctor.report import model  # noqa: PLC0415
    from hostdoctor.view import View  # noqa: PLC0415

    host, sources = opened.read(deadline_s, assume_bare_metal), opened.sources()
    if redactor:
        from hostdoctor.redaction.structs import redacted  # noqa: PLC0415  as above

        _learn(redactor, opened)
        # Before anything is judged, so that the same names stand in the verdicts and in the facts behind them.
        host, sources = redacted(host, redactor), redacted(sources, redactor)
    view = View(host)
    findings = diagnose(view, load_checks())
    report = model.build(sources, view, findings, exit_code(findings))
    try:
        return _Made(report, written(model.record_of(sources, host)), [])
    except Unintelligible as error:
        return _Made(report, left_out(str(error)), [f"The facts behind this report could not be written into it: {error}."])


def _learn(redactor: Redactor, opened: Opened) -> None:
    """Teach it the names in what was read, also where no fact holds them."""
    learn_names(redactor, opened.evidence)
    for file in opened.attached.files if opened.attached else ():
        redactor.observe(file.text[:_OBSERVED])


def _renderer(format_: str) -> Callable[[_Made], str]:
    return {"markdown": _markdown, "text": _text, "html": _html, "json": _json}[format_]


def _markdown(made: _Made) -> str:
    from hostdoctor.report import markdown  # noqa: PLC0415

    return markdown.render(made.report, made.embedded, made.notes)


def _text(made: _Made) -> str:
    from hostdoctor.report import plain  # noqa: PLC0415

    return plain.render(made.report, made.embedded, made.notes)


def _html(made: _Made) -> str:
    from hostdoctor.report import html  # noqa: PLC0415

    return html.render(made.report, embedded=made.embedded, notes=made.notes)


def _json(made: _Made) -> str:
    from hostdoctor.report import model  # noqa: PLC0415

    return model.to_json(made.report).decode()
