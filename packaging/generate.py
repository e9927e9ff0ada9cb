"""Makes the files that follow from the program itself: `make docs` runs it.

The man page and the shell completions come from the click commands, docs/checks.md and the table in the README from the
checks, the example in the README from a scan, docs/report.schema.json from the types of the report. With `--check` nothing
is written, and the exit status is 1 where a file is out of date.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from hostdoctor import __version__
from hostdoctor.cli.main import cli
from hostdoctor.findings import Check
from hostdoctor.registry import built_in
from hostdoctor.report.explain import explain_markdown
from hostdoctor.report.model import json_schema

ROOT = Path(__file__).resolve().parent.parent
NAME = "hostdoctor"
DATE = "2026-11-29"  # of the man page; set it with each release
SHELLS = ("bash", "zsh", "fish")
EXAMPLE = "tests/cases/seed-v620-before/input"
CUT = "[...]"

_EXIT_STATUS = (
    ("0", "Nothing found at or above what --fail-on names (by default: failure)."),
    ("1", "Something was found; the report says what."),
    ("2", "Wrong usage."),
    ("3", "The scan could not be done: no evidence could be read."),
    ("130", "Interrupted."),
)
_ENVIRONMENT = (("NO_COLOR", "Set and not empty: no colour, also on a terminal."),)
_FILES = (
    ("/etc/hostdoctor/checks.d/*.py", "Checks of this site. Run as root, only files that root alone can write are loaded."),
)
_EXAMPLES = (
    ("sudo hostdoctor scan", "Judge this host. Without root, config space beyond 64 bytes is not readable and is named so."),
    ("hostdoctor scan --root /mnt/other", "Judge another host by a folder that holds its sys, proc, etc and boot."),
    ("hostdoctor scan --format json --check 'link-*'", "Only the checks of links, as JSON."),
)


def outputs() -> dict[Path, str]:
    """Every generated file, by its path, as it should be now."""
    checks = list(built_in())
    made = {
        ROOT / "docs/checks.md": explain_markdown(checks),
        ROOT / "docs/report.schema.json": json.dumps(json_schema(), indent=2, sort_keys=True) + "\n",
        ROOT / "packaging/man/hostdoctor.1": man_page(),
        ROOT / "README.md": readme((ROOT / "README.md").read_text("utf-8"), checks),
    }
    made.update({ROOT / f"packaging/completions/{NAME}.{shell}": completion(shell) for shell in SHELLS})
    return made


def readme(written: str, checks: list[Check]) -> str:
    """The README with the example and the table of checks as they are now, each between its two marks."""
    rows = "".join(f"| [`{check.id}`](docs/checks.md#{check.id}) | {check.summary} |\n" for check in checks)
    table = f"| check | passes when, or shows |\n|---|---|\n{rows}"
    return _between(_between(written, "example", f"```\n{example()}```\n"), "checks", table)


def _between(text: str, name: str, made: str) -> str:
    begin, end = f"<!-- {name}: made by `make docs` -->\n", f"<!-- end of {name} -->\n"
    before, found, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not found or not ended:
        raise LookupError(f"README.md lacks the marks of {name}")
    return f"{before}{begin}{made}{end}{after}"


def example() -> str:
    """What a scan of the example says: the host, its GPUs, the first finding, the P2P matrix and the count."""
    command = [sys.executable, "-m", NAME, "scan", "--root", EXAMPLE, "--fail-on", "never"]
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, encoding="utf-8")
    text = re.sub(r"(· (?:judged\s+in\s+)?)[\d.]+(?=\s+s\n)", r"\g<1>0.05", done.stdout, count=1)
    blocks = text.strip("\n").split("\n\n")
    first = next(number for number, block in enumerate(blocks) if block.startswith("FAILURE"))
    matrix = re.search(r"^  P2P, row reads column.*?(?=\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    parts = [*blocks[: first + 1], CUT, matrix[0] if matrix else "", CUT, blocks[-1]]
    return "\n\n".join(part for part in parts if part) + "\n"


def completion(shell: str) -> str:
    """Click's own completion script for a shell, with the version of click that made it."""
    kind = get_completion_class(shell)
    if kind is None:
        raise LookupError(f"click knows no completion for {shell}")
    made = kind(cli, {}, NAME, f"_{NAME.upper()}_COMPLETE")
    # Not source(): for bash that looks at the bash installed here.
    return f"{(made.source_template % made.source_vars()).strip()}\n\n# Made by packaging/generate.py with {click_version()}.\n"


def click_version() -> str:
    """The click that runs here, as completion scripts name it."""
    return f"click {version('click')}"


def man_page() -> str:
    """One man page (man(7)) of all commands with their options."""
    context = click.Context(cli, info_name=NAME, **cli.context_settings)
    lines = [
        f'.\\" Made by packaging/generate.py from the commands of {NAME}.',
        f'.TH {NAME.upper()} 1 "{DATE}" "{NAME} {__version__}" "User Commands"',
        ".SH NAME",
        f"{NAME} \\- say what keeps the GPUs of a Linux host from talking to each other",
        ".SH SYNOPSIS",
        *_synopses(context),
        ".SH DESCRIPTION",
        *_paragraphs(cli.help),
        ".SH OPTIONS",
        *_options(cli, context),
        ".SH COMMANDS",
    ]
    for command, inner in _commands(context):
        lines += [f".SS {_escaped(_path(inner))}", *_paragraphs(command.help), *_options(command, inner)]
    for heading, entries in (
        ("EXIT STATUS", _EXIT_STATUS),
        ("ENVIRONMENT", _ENVIRONMENT),
        ("FILES", _FILES),
        ("EXAMPLES", _EXAMPLES),
    ):
        lines.append(f".SH {heading}")
        for term, text in entries:
            lines += _entry(term, text)
    lines += [".SH SEE ALSO", ".BR lspci (8),", ".BR dmesg (1)"]
    return "\n".join(lines) + "\n"


def _commands(context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    group = context.command
    if not isinstance(group, click.Group):
        return
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        inner = click.Context(command, parent=context, info_name=name, **command.context_settings)
        yield command, inner
        yield from _commands(inner)


def _path(context: click.Context) -> str:
    """The command's name as it is typed, without the arguments of the commands above it."""
    names = []
    step: click.Context | None = context
    while step is not None:
        names.append(step.info_name or "")
        step = step.parent
    return " ".join(reversed(names))


def _synopses(context: click.Context) -> Iterator[str]:
    for number, (command, inner) in enumerate(_commands(context)):
        if number:
            yield ".br"
        yield f".B {_escaped(_path(inner))}"
        yield _line(" ".join(command.collect_usage_pieces(inner)))


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and (record[1] or isinstance(parameter, click.Option)):
            yield from _entry(*record)


def _entry(term: str, text: str) -> list[str]:
    return [".TP", f".B {_escaped(term)}", *(_lines(text) or ["\\&"])]


def _paragraphs(text: str | None) -> Iterator[str]:
    """Help text as click reads it: paragraphs, kept as they are after a line with only a backspace."""
    shown = inspect.cleandoc(text or "").partition("\f")[0].strip()
    for number, paragraph in enumerate(shown.split("\n\n")):
        if number:
            yield ".PP"
        kept = paragraph.startswith("\b\n")
        if kept:
            yield ".nf"
        yield from map(_line, paragraph.removeprefix("\b\n").splitlines()) if kept else _lines(paragraph)
        if kept:
            yield ".fi"


def _lines(text: str) -> list[str]:
    """Running text in short lines."""
    return [_line(line) for line in textwrap.wrap(text, 72, break_on_hyphens=False)]


def _line(text: str) -> str:
    """A line of text: one that begins with a dot or an apostrophe would be a request."""
    escaped = _escaped(text.strip())
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _escaped(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-")


def main() -> int:
    """Write what has changed, or with --check only name it."""
    check_only = sys.argv[1:] == ["--check"]
    stale = [(path, text) for path, text in outputs().items() if not path.exists() or path.read_text("utf-8") != text]
    for path, text in stale:
        print(f"{'out of date' if check_only else 'written'}: {path.relative_to(ROOT)}")
        if not check_only:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    return int(check_only and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
