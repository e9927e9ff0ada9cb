"""A check of one's own: hosts with several GPUs should name a serial console on the kernel command line.

A check is a pure function from facts to findings. It reads no file and prints nothing: all it may look at is the view,
whose facts are typed, and which are `Unknown` with a reason where they could not be learnt.
"""

from __future__ import annotations

from collections.abc import Iterator

from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import Check, Evidence, Finding, unjudged
from hostdoctor.view import View

ID = "serial-console"


def judge(view: View) -> Iterator[Finding]:
    """One finding for the host; none where it has fewer than two GPUs, which is reported as not applicable."""
    if len(view.gpus) < 2:
        return
    line = view.host.boot.command_line
    if isinstance(line, Unknown):
        # A missing fact is never a pass.
        yield unjudged(ID, (), "serial console", line)
        return
    evidence = (Evidence("/proc/cmdline", line),)
    consoles = [each.value for each in view.host.boot.parameters if each.name == "console" and each.value]
    if any(console.startswith("ttyS") for console in consoles):
        yield Finding(ID, "ok", (), "the kernel writes to a serial console", evidence=evidence)
    else:
        yield Finding(
            ID,
            "warning",
            ("console=",),
            "no serial console on the kernel command line",
            "When a GPU takes the host down, its last words are on the serial console and nowhere else.",
            evidence=evidence,
            next="add console=ttyS0,115200 to the kernel command line",
        )


CHECK = Check(
    id=ID,
    subject="host",
    summary="A host with several GPUs has a serial console.",
    looks_at="The parameter console= of the running kernel.",
    why="A host that hangs under load leaves nothing in its log files.",
    decides="A warning where no console=ttyS is given; unknown where the command line is not in the evidence.",
    sources=("Linux Documentation/admin-guide/serial-console.rst",),
    judge=judge,
    nothing="fewer than two discrete GPUs",
    bare_metal_only=False,
)
