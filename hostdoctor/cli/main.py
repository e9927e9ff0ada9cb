"""The entry point: finds the command without importing the others."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

import click

from hostdoctor import __version__

# Name -> module and the line the overview shows, so that `--help` imports none of them.
_COMMANDS = {
    "scan": ("hostdoctor.cli.scan", "Inspect a host, judge it, and print what is wrong."),
    "fix": ("hostdoctor.cli.fix", "Print what cures the findings: a kernel command line patch, a firmware guide."),
    "report": ("hostdoctor.cli.report", "Write a report to attach to a bug tracker, redacted."),
    "capture": ("hostdoctor.cli.capture", "Write the evidence of a host into one file that the others read."),
    "diff": ("hostdoctor.cli.diff", "Show what changed between two captures, reports or hosts."),
    "bandwidth": ("hostdoctor.cli.bandwidth", "Measure copies between GPUs and memory, compare the data, and judge them."),
    "rocm-bandwidth-test": (
        "hostdoctor.cli.rocm_bandwidth_test",
        "Run ROCm's own bandwidth test, tell its silent failures, and judge what it measures.",
    ),
    "topology": ("hostdoctor.cli.topology", "Show the tree of host bridges, switches, links and GPUs."),
    "checks": ("hostdoctor.cli.checks", "List the checks."),
    "explain": ("hostdoctor.cli.explain", "Say what a check looks at, why, and how it decides."),
}


class _LazyGroup(click.Group):
    """A group that knows its commands by name and loads the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(_COMMANDS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in _COMMANDS.items()])


@click.command(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hostdoctor")
def cli() -> None:
    """Say what keeps the GPUs of a Linux host from talking to each other as fast as they could.

    `hostdoctor scan` inspects this host and changes nothing.
    """


def main() -> NoReturn:
    """Run the command line: Ctrl-C ends it with 130, a closed pipe without a word, a full disk with one line."""
    # A command ends before its garbage could matter, and collecting it would cost a tenth of a scan.
    gc.disable()
    sys.unraisablehook = _end_if_interrupted
    _replace_closed_streams()
    try:
        code = cli.main(standalone_mode=False)
        status = code if isinstance(code, int) else 0
    except SystemExit as done:
        status = done.code if isinstance(done.code, int) else int(done.code is not None)
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        status = 130
    except BrokenPipeError:  # whoever read the output has seen enough
        status = 1
    except OSError as error:
        click.echo(f"hostdoctor: {error.filename or 'output'}: {error.strerror}", err=True)
        status = 3
    except Exception as error:
        if os.environ.get("HOSTDOCTOR_TRACEBACK"):
            raise
        told = f"{type(error).__name__}: {error}".splitlines()[0]
        click.echo(f"hostdoctor: a fault of its own: {told} (HOSTDOCTOR_TRACEBACK=1 shows where; please report it)", err=True)
        status = 3
    _leave(status)


def _replace_closed_streams() -> None:
    """Give a process that was started without standard streams some that lead nowhere, before files take their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  it stays open to the end


def _end_if_interrupted(lost: sys.UnraisableHookArgs) -> None:
    """Obey a Ctrl-C that arrived where Python drops exceptions, such as in the callbacks of its own import locks."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        _leave(130)
    sys.__unraisablehook__(lost)


def _leave(status: int) -> NoReturn:
    """End at once: taking the interpreter down in good order costs a tenth of a scan, and nothing here needs it."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # nobody reads it, or it has been told already that there is no space
            stream.flush()
    os._exit(status)
