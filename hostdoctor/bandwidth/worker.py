"""One step in a process of its own: `python -m hostdoctor.bandwidth.worker cuda|hip`.

It reads one Step as a line of JSON from standard input and writes lines of JSON to standard output, as `steps.py` says. What
the libraries print goes nowhere. It ends with status 0 where it gave a result, whatever that says.
"""

from __future__ import annotations

import os
import resource
import sys

import msgspec

from hostdoctor.bandwidth.api import Api, Fault
from hostdoctor.bandwidth.machine import Machine
from hostdoctor.bandwidth.one_step import measured
from hostdoctor.bandwidth.steps import Copying, Step, StepResult

USAGE = "usage: python -m hostdoctor.bandwidth.worker cuda|hip, with a step as a line of JSON on standard input"
_LINE_LIMIT = 1 << 16
_TEXT_LIMIT = 300


def main(arguments: list[str], machine: Machine | None = None) -> int:
    """Carry out the step on standard input; the exit status.

    Args:
        arguments: those of the command.
        machine: the host, where it is not this one.
    """
    try:
        step = msgspec.json.decode(sys.stdin.buffer.readline(_LINE_LIMIT), type=Step)
        if arguments not in (["cuda"], ["hip"]):
            raise msgspec.ValidationError("no such library")
    except msgspec.MsgspecError as error:
        print(f"{USAGE}: {error}", file=sys.stderr)  # noqa: T201
        return 2
    output = _shut_off()
    _write(output, _result(arguments[0], step, machine or Machine(), output))
    return 0


def _result(name: str, step: Step, machine: Machine, output: int) -> StepResult:
    try:
        return measured(step, _api(name, machine), machine, lambda on: _write(output, Copying(on)))
    except Fault as fault:
        return StepResult(step, error=str(fault), error_kind=fault.kind, error_code=fault.code)
    except Exception as error:  # whatever a binding comes up with must not cost the run
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return StepResult(step, error=f"measuring failed: {text}"[:_TEXT_LIMIT], error_kind="other")


def _api(name: str, machine: Machine) -> Api:
    # Imported here: each loads a library of its own into this process.
    if name == "cuda":
        from hostdoctor.bandwidth.cuda import Cuda  # noqa: PLC0415

        return Cuda(machine)
    from hostdoctor.bandwidth.hip import Hip  # noqa: PLC0415

    return Hip(machine)


def _shut_off() -> int:
    """Keep standard output for results alone; what it is now. Libraries write to it past Python."""
    output = os.dup(sys.stdout.fileno())
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return output


def _write(output: int, line: Copying | StepResult) -> None:
    data = msgspec.json.encode(line) + b"\n"
    while data:
        data = data[os.write(output, data) :]


if __name__ == "__main__":
    # No exit handlers: those of the libraries have been seen to crash after an error.
    os._exit(main(sys.argv[1:]))
