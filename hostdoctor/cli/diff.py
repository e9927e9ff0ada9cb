"""`hostdoctor diff`."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

import click

from hostdoctor.cli.evidence import fail, open_evidence

if TYPE_CHECKING:
    from hostdoctor.report.model import Report

_NOW = "now"
_LIMIT = 64 << 20  # bytes of a JSON report
_HEAD = 64


@click.command("diff", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("before", metavar="A", type=click.Path())
@click.argument("after", metavar="[B]", default=_NOW, type=click.Path())
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="How to print.",
)
@click.option("-o", "--output", metavar="FILE", type=click.Path(), help="Write to a file.")
@click.option("-v", "--verbose", is_flag=True, help="List each copy and each fact, also where there are many.")
def command(before: str, after: str, format_: str, output: str | None, verbose: bool) -> None:
    """Show what changed from A to B: findings, facts, P2P and bandwidth.

    Each is a JSON report of `hostdoctor scan`, a capture, a folder with a host's sys or proc, or a file or folder with what
    people attach; "now", or no B, is this host, and "-" a JSON report on standard input. A GPU in another slot is known by
    its product.
    Exit status: 0 nothing got worse, 1 something did, 2 wrong usage, 3 one of the two could not be read.
    """
    from hostdoctor.diff import compare  # noqa: PLC0415  so that --help stays quick
    from hostdoctor.redaction.alike import comparable  # noqa: PLC0415  as above
    from hostdoctor.report import changes  # noqa: PLC0415

    labels = _label(before), _label(after)
    difference = compare(*comparable(_report(before), _report(after)))
    if format_ == "json":
        data = changes.as_json(difference, *labels)
    elif format_ == "markdown":
        data = changes.as_markdown(difference, *labels, verbose).encode("utf-8", "replace")
    else:
        data = changes.as_text(difference, *labels, verbose).encode("utf-8", "replace")
    _write(data, output)
    sys.exit(1 if difference.is_worse else 0)


def _label(path: str) -> str:
    return "this host" if path == _NOW else path


def _report(path: str) -> Report:
    """The report that a file is, or that a scan of what it names makes."""
    if path == "-":
        return _decoded(sys.stdin.buffer.read(_LIMIT + 1), "standard input")
    if path == _NOW:
        return _scanned(())
    if (data := _json_in(path)) is not None:
        return _decoded(data, path)
    return _scanned((path,))


def _json_in(path: str) -> bytes | None:
    """The bytes of a JSON report; None where the file is something else."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        with open(path, "rb") as file:
            head = file.read(_HEAD)
            if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"{":
                return None
            data = head + file.read(_LIMIT + 1 - _HEAD)
    except OSError as error:
        fail(f"{path}: {error.strerror}")
    return data if b'"findings"' in data and b'"schema"' in data else None


def _decoded(data: bytes, name: str) -> Report:
    import msgspec  # noqa: PLC0415  as above

    from hostdoctor.report.model import SCHEMA, Report  # noqa: PLC0415

    if len(data) > _LIMIT:
        fail(f"{name}: it is larger than {_LIMIT >> 20} MiB")
    try:
        report = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=Report)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        fail(f"{name}: no JSON report of hostdoctor scan: {str(error) or 'it is nested too deep'}")
    if report.schema != SCHEMA:
        fail(f"{name}: its schema is {report.schema}; this hostdoctor reads {SCHEMA}")
    return report


def _scanned(paths: tuple[str, ...]) -> Report:
    from hostdoctor.diagnosis import diagnose  # noqa: PLC0415  a JSON report needs no scan
    from hostdoctor.registry import load_checks  # noqa: PLC0415
    from hostdoctor.report.model import build  # noqa: PLC0415
    from hostdoctor.view import View  # noqa: PLC0415

    with open_evidence(None, paths) as opened:
        view = View(opened.read(deadline_s=10.0, assume_bare_metal=False))
        findings = diagnose(view, load_checks())
        if paths and not view.topology.functions and all(each.outcome in ("unknown", "not-applicable") for each in findings):
            fail(f"{paths[0]}: nothing in it could be judged")
        return build(opened.sources(), view, findings, 0)


def _write(data: bytes, output: str | None) -> None:
    if output is None or output == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        with open(output, "wb") as file:
            file.write(data)
    except OSError as error:
        fail(f"{output}: {error.strerror}")
