"""`hostdoctor fix`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from hostdoctor.cli.evidence import Opened, evidence_options, fail, open_evidence
from hostdoctor.diagnosis import diagnose
from hostdoctor.registry import load_checks
from hostdoctor.view import View

if TYPE_CHECKING:
    from hostdoctor.findings import Finding
    from hostdoctor.remedies.patch import Request
    from hostdoctor.remedies.plan import Made, Plan

_REFUSED = 3
_WIDTH, _COMMENT = 80, "# "
_FORMATS = ("text", "json", "markdown", "html")


def _sound(_context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    from hostdoctor.remedies.quoting import is_sound  # noqa: PLC0415  --help need not load it

    for value in values:
        if not is_sound(value):
            raise click.BadParameter(f"{value!r} is no single kernel parameter", param=option)
    return values


@click.command("fix", context_settings={"help_option_names": ["-h", "--help"]})
@evidence_options
@click.option("--diff", "mode", flag_value="diff", default="diff", help="Print the patch for the boot loader (default).")
@click.option("--firmware", "mode", flag_value="firmware", help="Print the guide for this board's firmware setup.")
@click.option("--runtime", "mode", flag_value="runtime", help="Print what can be changed at once, until the next restart.")
@click.option("--ansible", "mode", flag_value="ansible", help="Print the patch as an Ansible playbook.")
@click.option("--verify", "mode", flag_value="verify", help="After the restart: did each parameter arrive, is it cured?")
@click.option("--add", multiple=True, metavar="PARAM", callback=_sound, help="Also add a kernel parameter; repeatable.")
@click.option("--remove", multiple=True, metavar="PARAM", callback=_sound, help="Also take one out; repeatable.")
@click.option("--format", "format_", type=click.Choice(_FORMATS), default="text", show_default=True)
@click.option("-o", "--output", metavar="FILE", type=click.Path(), help="Write to a file.")
def command(  # noqa: PLR0913, PLR0917  one parameter an option
    paths: tuple[str, ...],
    root: str | None,
    attached: tuple[str, ...],
    deadline_s: float,
    assume_bare_metal: bool,
    mode: str,
    add: tuple[str, ...],
    remove: tuple[str, ...],
    format_: str,
    output: str | None,
) -> None:
    """Print what cures the findings: a patch of the kernel command line, or a guide for the firmware.

    Nothing is changed. The patch fits the boot loader that the evidence shows, and says what to run, what the kernel will
    get, how to see that it worked, and how to take it back. Exit status: 0 also where nothing is to change, 1 with
    --verify and something not cured, 2 wrong usage, 3 no patch can be made (it says why), or nothing could be read.
    """
    if format_ in ("markdown", "html") and mode != "firmware":
        raise click.UsageError(f"--format {format_} is for --firmware")
    from hostdoctor.remedies.patch import Request  # noqa: PLC0415  so that wrong usage is told at once

    own = Request(add, remove)
    _refuse_contradiction(own)
    with open_evidence(root, (*paths, *attached)) as opened:
        view = View(opened.read(deadline_s, assume_bare_metal))
        findings = diagnose(view, load_checks())
        if mode == "verify":
            _finish(*_verified(view, findings, own, format_), output)
        made = _made(opened, view, findings, own)
    if format_ == "json":
        text = _json(made.plan)
    elif mode == "firmware":
        text = _firmware(view, findings, format_)
    else:
        text = {"diff": _patch, "runtime": _runtime, "ansible": _ansible}[mode](made)
    _finish(text, _REFUSED if made.plan.refused and mode in ("diff", "ansible") else 0, output)


def _refuse_contradiction(own: Request) -> None:
    if not own.add:
        return
    from hostdoctor.remedies.wanted import undo_each_other  # noqa: PLC0415  most calls add nothing

    if both := undo_each_other(own):
        raise click.UsageError(f"{both[0]} and {both[1]} undo each other")


def _made(opened: Opened, view: View, findings: Sequence[Finding], own: Request) -> Made:
    from hostdoctor.remedies.plan import make_plan  # noqa: PLC0415

    return make_plan(view, findings, opened.boot_files(), own)


def _verified(view: View, findings: Sequence[Finding], own: Request, format_: str) -> tuple[str, int]:
    import msgspec  # noqa: PLC0415

    from hostdoctor.facts.unknown import Unknown  # noqa: PLC0415
    from hostdoctor.remedies.render import fill  # noqa: PLC0415
    from hostdoctor.remedies.verified import nothing_to_verify, verify  # noqa: PLC0415

    nothing = nothing_to_verify(view, own)
    if isinstance(view.host.boot.command_line, Unknown) and not nothing:
        fail("the running kernel's command line is not in this evidence: add the output of cat /proc/cmdline")
    found = verify(view, findings, own)
    if format_ == "json":
        text = msgspec.json.format(msgspec.json.encode({"schema": 1, **msgspec.to_builtins(found)})).decode() + "\n"
    else:
        text = fill("text", "fix_verify.txt.j2", verified=found, cured=found.is_cured, nothing=nothing)
    return text, int(not found.is_cured)


def _json(plan: Plan) -> str:
    import msgspec  # noqa: PLC0415

    return msgspec.json.format(msgspec.json.encode(_encodable(msgspec.to_builtins(plan)))).decode() + "\n"


def _encodable(value: object) -> object:
    """Plain values in which bytes that are no UTF-8 are question marks, since JSON has no place for them."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {name: _encodable(each) for name, each in value.items()}
    return [_encodable(each) for each in value] if isinstance(value, list | tuple) else value


def _patch(made: Made) -> str:
    """A patch file: everything around the diff is a comment to `patch` and `git apply`."""
    from hostdoctor.remedies.render import fill  # noqa: PLC0415

    plan = made.plan
    width = _WIDTH - len(_COMMENT) if plan.diff else _WIDTH
    head, tail = (fill("text", f"fix_{name}.txt.j2", width, plan=plan).strip("\n") for name in ("head", "tail"))
    if not plan.diff:
        return "\n\n".join(part for part in (head, tail) if part) + "\n"
    return f"{_commented(head)}\n{plan.diff}\n{_commented(tail)}"


def _commented(text: str) -> str:
    return "".join(f"{_COMMENT}{line}".rstrip() + "\n" for line in text.split("\n"))


def _runtime(made: Made) -> str:
    from hostdoctor.remedies.render import fill  # noqa: PLC0415

    return fill("text", "fix_runtime.txt.j2", plan=made.plan).strip("\n") + "\n"


def _ansible(made: Made) -> str:
    from hostdoctor.remedies.ansible import playbook  # noqa: PLC0415
    from hostdoctor.remedies.patch import Refused  # noqa: PLC0415

    plan = made.plan
    if plan.refused:
        fail(f"no playbook: {plan.refused.reason}. {plan.refused.manual}")
    if plan.nothing:
        return f"# nothing to change on the kernel command line: {plan.nothing}\n"
    try:
        return playbook(plan, made.files)
    except Refused as refused:
        fail(f"no playbook: {refused.reason}. {refused.manual}")


def _firmware(view: View, findings: Sequence[Finding], format_: str) -> str:
    from hostdoctor.remedies.firmware import firmware_guide  # noqa: PLC0415
    from hostdoctor.remedies.render import render  # noqa: PLC0415

    guide = firmware_guide(view, findings)
    return render(guide, "markdown" if format_ == "markdown" else "html" if format_ == "html" else "text")


def _finish(text: str, status: int, output: str | None) -> None:
    data = text.encode("utf-8", "surrogateescape")  # a boot file's bytes that are no UTF-8 stay what they are
    if output is None or output == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        try:
            with open(output, "wb") as file:
                file.write(data)
        except OSError as error:
            fail(f"{output}: {error.strerror}")
    sys.exit(status)
