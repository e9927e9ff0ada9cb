"""`hostdoctor capture FILE`."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from hostdoctor import wording
from hostdoctor.cli.evidence import Opened, fail, open_evidence, reading_options
from hostdoctor.cli.redaction import learn_names, redaction_options, show_replaced

if TYPE_CHECKING:
    from hostdoctor.evidence.capture_format import Manifest, Trouble
    from hostdoctor.evidence.packing import Contents
    from hostdoctor.facts.host import Host
    from hostdoctor.redaction import Redactor

_PROBE = "hostdoctor.probe=1"  # a parameter that no host has, so that everything a change needs is read


@click.command("capture", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", metavar="FILE", type=click.Path())
@reading_options
@click.option("--with-bandwidth", "measured", metavar="FILE", multiple=True, help="Also keep a recorded bandwidth run.")
@click.option("--logs", is_flag=True, help="Also keep this boot's kernel log.")
@click.option(
    "--tools/--no-tools",
    default=None,
    help="Keep what lspci and the GPUs' tools print, where installed (default for this host itself).",
)
@redaction_options
def command(  # noqa: PLR0913, PLR0917  one parameter an option
    file: str,
    paths: tuple[str, ...],
    root: str | None,
    attached: tuple[str, ...],
    deadline_s: float,
    measured: tuple[str, ...],
    logs: bool,
    tools: bool | None,
    redact: bool,
    show_redactions: bool,
) -> None:
    """Write the evidence of a host into one FILE that scan, fix and topology read like the host itself.

    Without PATH it is this host; PATH is as for scan. "-" writes to standard output. Nothing but FILE is written, and no
    sleeping device is woken. FILE is a gzipped tar, for its owner's eyes alone (mode 0600), and is replaced where it is an
    earlier capture. Names of hosts and users, addresses of networks, serial numbers and the like are replaced, so that it
    can be sent to others. Root captures more than others. Exit status: 0 written, 2 wrong usage, 3 nothing could be read
    or written, and then FILE is as it was.
    """
    _check_target(file)
    with open_evidence(root, (*paths, *attached), measured) as opened:
        is_live = opened.evidence.kind == "live"
        if not is_live and (logs or tools):
            option = "--logs" if logs else "--tools"
            raise click.UsageError(f"{option} is for this host itself; attach another host's outputs as PATH")
        redactor = _redactor(opened) if redact else None
        contents = gathered(opened, deadline_s, logs, is_live and tools is not False)
    data, manifest = _packed(contents, redactor)
    if file == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        _write(file, data)
    if redactor and show_redactions:
        show_replaced(redactor)
    _tell(file, data, manifest)


def _redactor(opened: Opened) -> Redactor:
    from hostdoctor.redaction import Redactor  # noqa: PLC0415  --help need not load it

    redactor = Redactor()
    learn_names(redactor, opened.evidence)
    return redactor


def _packed(contents: Contents, redactor: Redactor | None) -> tuple[bytes, Manifest]:
    from hostdoctor.evidence.packing import pack  # noqa: PLC0415

    if redactor:
        from hostdoctor.evidence.redacted import redact  # noqa: PLC0415

        contents = redact(contents, redactor)
    return pack(contents), contents.manifest


def _check_target(file: str) -> None:
    """End at once where FILE cannot be written, or is something that nobody would want replaced."""
    from hostdoctor.evidence.capture import HEAD_BYTES, looks_like_one  # noqa: PLC0415  --help need not load it

    if file == "-":
        if sys.stdout.isatty():
            raise click.UsageError("a terminal cannot show a capture: name a FILE, or send the output into a pipe")
        return
    folder = os.path.dirname(file) or "."
    try:
        status = os.lstat(file)
    except FileNotFoundError:
        if not os.path.isdir(folder):
            fail(f"{file}: there is no folder {folder}")
        if not os.access(folder, os.W_OK | os.X_OK):
            fail(f"{file}: no permission to write in {folder}")
        return
    except OSError as error:
        fail(f"{file}: {error.strerror}")
    if not stat.S_ISREG(status.st_mode):
        fail(f"{file}: it is there and no ordinary file; name another FILE")
    try:
        with open(file, "rb") as there:
            head = there.read(HEAD_BYTES)
    except OSError as error:
        fail(f"{file}: it is there and cannot be read: {error.strerror}")
    if head and not looks_like_one(head):
        fail(f"{file}: it is there and is no capture, so it is left alone; name another FILE")


def gathered(opened: Opened, deadline_s: float, logs: bool, tools: bool) -> Contents:
    """All that goes into a capture, before anything in it is redacted."""
    from hostdoctor.evidence.attached import Attached  # noqa: PLC0415  so that wrong usage is told at once
    from hostdoctor.evidence.capture_format import LOG, Trouble  # noqa: PLC0415
    from hostdoctor.evidence.packing import Contents  # noqa: PLC0415
    from hostdoctor.evidence.recording import Record  # noqa: PLC0415

    record = opened.record()
    host = _read(opened, deadline_s)
    texts: dict[str, bytes] = {}
    troubles = [Trouble(each.source, each.reason) for each in opened.sources().unread]
    for name, data, problem in (*(_logged(deadline_s) if logs else ()), *(_printed(host, deadline_s) if tools else ())):
        texts.update({name: data} if data else {})
        troubles += [Trouble("the kernel's log" if name == LOG else name, problem)] if problem else []
    manifest = _manifest(opened, host, tuple(troubles))
    return Contents(manifest, record or Record(), opened.attached or Attached((), ()), texts)


def _logged(deadline_s: float) -> Iterator[tuple[str, bytes, str]]:
    from hostdoctor.evidence.capture_format import LOG  # noqa: PLC0415
    from hostdoctor.evidence.host_tools import kernel_log  # noqa: PLC0415

    log = kernel_log(deadline_s)
    yield LOG, log.data, log.problem


def _printed(host: Host, deadline_s: float) -> Iterator[tuple[str, bytes, str]]:
    from hostdoctor.evidence.host_tools import outputs  # noqa: PLC0415
    from hostdoctor.facts.unknown import known  # noqa: PLC0415

    for name, output in outputs(known(host.functions, {}), deadline_s):
        yield f"commands/{name}.txt", output.data, output.problem


def _read(opened: Opened, deadline_s: float) -> Host:
    """Read everything that scan and topology read, then what fix reads for a change of any kind."""
    from hostdoctor.diagnosis import diagnose  # noqa: PLC0415
    from hostdoctor.readers.module_files import read_module_files  # noqa: PLC0415
    from hostdoctor.registry import built_in  # noqa: PLC0415
    from hostdoctor.remedies.patch import Request  # noqa: PLC0415
    from hostdoctor.remedies.plan import make_plan  # noqa: PLC0415
    from hostdoctor.view import View  # noqa: PLC0415

    host = opened.read(deadline_s, assume_bare_metal=False)
    view = View(host)
    findings = diagnose(view, list(built_in()))
    running = tuple(each.text for each in host.boot.parameters)
    for request in (Request((), ()), Request((_PROBE,), ()), Request((), running)):
        make_plan(view, findings, opened.boot_files(), request)
    read_module_files(opened.boot_files())
    return host


def _manifest(opened: Opened, host: Host, troubles: tuple[Trouble, ...]) -> Manifest:
    """What the capture is of; of a capture that is captured again, what that one is of."""
    from hostdoctor.evidence.capture_format import SCHEMA, WHEN, Manifest, Tool  # noqa: PLC0415

    if opened.capture:
        import msgspec  # noqa: PLC0415

        errors = dict.fromkeys((*opened.capture.manifest.errors, *troubles))
        return msgspec.structs.replace(opened.capture.manifest, tool=Tool(), errors=tuple(errors))
    return Manifest(
        SCHEMA,
        Tool(),
        origin=opened.evidence.kind,
        captured=time.strftime(WHEN, time.gmtime(time.time())),
        kernel=host.boot.release if isinstance(host.boot.release, str) else "",
        privileged=os.geteuid() == 0,
        sources=opened.sources().sources,
        errors=troubles,
    )


def _write(file: str, data: bytes) -> None:
    from hostdoctor import atomic  # noqa: PLC0415

    try:
        atomic.write(file, data)
    except OSError as error:
        fail(f"{file}: {error.strerror}; it is as it was")


def _tell(file: str, data: bytes, manifest: Manifest) -> None:
    """What was written, and what would make it fuller, where standard output is not the capture itself."""
    from hostdoctor.report.phrases import safe  # noqa: PLC0415

    of = {"live": "this host", "attachments": "what was attached; this host itself was not read"}
    named = "standard output" if file == "-" else file
    lines = [f"{named}: {_size(len(data))}, of {of.get(manifest.origin, wording.listed(manifest.sources))}"]
    if manifest.origin == "live" and not manifest.privileged:
        lines.append("Not as root: config space beyond 64 bytes and the memory map are not in it; with sudo they are.")
    lines += [f"Not in it: {each.source}: {each.reason}" for each in manifest.errors if manifest.privileged]
    lines += [f"To read it, here or elsewhere: hostdoctor scan {file}"] if file != "-" else []
    for line in lines:
        click.echo(safe(line), err=file == "-")


def _size(size: int) -> str:
    return f"{size / 1024:,.0f} KiB" if size < 1 << 20 else f"{size / (1 << 20):,.1f} MiB"
