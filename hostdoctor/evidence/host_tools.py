"""What else belongs in a capture of this host: the kernel's log, and what tools that are installed print of GPUs and PCI.

A tool wakes what it looks at, so none is run where it would look at a device that sleeps. Each runs in a child that is given
up at its deadline, with no input, a fixed environment, and programs taken from the system's own folders only.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from hostdoctor.facts.pci import ATI, NVIDIA, Function
from hostdoctor.forked import Forked

_FOLDERS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/rocm/bin"
_ENVIRONMENT = {"PATH": _FOLDERS, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent", "TERM": "dumb"}
_OUTPUT_LIMIT = 8 << 20
_LOG_LIMIT = 16 << 20
_ASLEEP = "a GPU is asleep, and it would be woken"
_AT_MOST = 64  # runs of lspci, where some function sleeps

_KMSG = "/dev/kmsg"
_RECORD_BYTES = 8192  # PRINTKRB of a record of the kernel's log is at most that (kernel/printk/printk.c)
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
_LOG_COMMANDS = (("journalctl", "-k", "-b", "--no-pager", "-o", "short-monotonic"), ("dmesg",))


class Output(msgspec.Struct, frozen=True):
    """What a tool printed, or why it printed nothing; what was cut has both."""

    data: bytes
    problem: str = ""


def run(command: Sequence[str], deadline_s: float) -> Output | None:
    """What a command prints on its standard output; None where it is not installed."""
    program = shutil.which(command[0], path=_FOLDERS)
    if program is None:
        return None

    def replace(pipe: int) -> None:
        os.dup2(pipe, 1)
        os.execve(program, list(command), _ENVIRONMENT)  # noqa: S606  a fixed list of arguments, and no shell

    try:
        child = Forked(replace, deadline_s)
    except OSError as error:
        return Output(b"", f"no process could be started: {error.strerror}")
    data, ended = child.collect(lambda found: len(found) > _OUTPUT_LIMIT)
    if len(data) > _OUTPUT_LIMIT:
        return Output(data[:_OUTPUT_LIMIT], f"it printed more than {_OUTPUT_LIMIT >> 20} MiB; the rest was left out")
    if not ended:
        return Output(data, f"it did not end within {deadline_s:.3g} s")
    return Output(data, f"it ended with status {child.exit_code}" if child.exit_code else "")


def outputs(functions: Mapping[str, Function], deadline_s: float) -> Iterator[tuple[str, Output]]:
    """The member's name and the output of each tool that is installed and would wake nobody."""
    for name, commands, why_not in _plan(functions):
        if why_not:
            if shutil.which(commands[0][0], path=_FOLDERS):
                yield name, Output(b"", why_not)
            continue
        found = [(command, output) for command in commands if (output := run(command, deadline_s)) is not None]
        if found:
            yield name, Output(_with_headings(found), next((output.problem for _, output in found if output.problem), ""))


def _with_headings(found: Sequence[tuple[Sequence[str], Output]]) -> bytes:
    if len(found) == 1:
        return found[0][1].data
    return b"".join(f"$ {' '.join(command)}\n".encode() + output.data for command, output in found)


def _plan(functions: Mapping[str, Function]) -> Iterator[tuple[str, Sequence[Sequence[str]], str]]:
    """Name, commands, and why they are not run."""
    yield "lspci", _lspci(functions), ""
    nvidia = [each for each in functions.values() if each.vendor == NVIDIA and each.driver == "nvidia"]
    amd = [each for each in functions.values() if each.vendor == ATI and each.driver == "amdgpu"]
    for gpus, tools in (
        (nvidia, {"nvidia-smi-q": ("nvidia-smi", "-q"), "nvidia-smi-topo": ("nvidia-smi", "topo", "-m")}),
        (
            amd,
            {
                "rocm-smi-topology": ("rocm-smi", "--showtopo"),
                "amd-smi-topology": ("amd-smi", "topology"),
                "amd-smi-static": ("amd-smi", "static"),
            },
        ),
    ):
        for name, command in tools.items() if gpus else ():
            yield name, [command], _ASLEEP if any(gpu.asleep for gpu in gpus) else ""


def _lspci(functions: Mapping[str, Function]) -> list[Sequence[str]]:
    """All at once; where some function sleeps, only GPUs that do not, and what is above them: lspci wakes what it shows."""
    if not any(function.asleep for function in functions.values()):
        return [("lspci", "-vvvnn")]
    shown: dict[str, None] = {}
    for function in functions.values():
        if function.base_class in (0x03, 0x12) and function.vendor in (ATI, NVIDIA):
            way = [function]
            while isinstance(way[-1].parent, str) and way[-1].parent in functions and len(way) < _AT_MOST:
                way.append(functions[way[-1].parent])
            shown.update(dict.fromkeys(each.address for each in reversed(way) if not each.asleep))
    return [("lspci", "-vvvnn", "-s", address) for address in list(shown)[:_AT_MOST]]


def kernel_log(deadline_s: float) -> Output:
    """This boot's kernel log, by the kernel's own device, else as the journal or dmesg may read it."""
    found = _kmsg()
    for command in _LOG_COMMANDS:
        if found.data:
            break
        printed = run(command, deadline_s)
        if printed is not None and printed.data and not printed.problem:
            return printed
    return found


def _kmsg() -> Output:
    """Every record that the kernel still holds, as dmesg prints them (Documentation/ABI/testing/dev-kmsg)."""
    lines: list[bytes] = []
    size = 0
    try:
        device = os.open(_KMSG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return Output(b"", f"{_KMSG}: {error.strerror}")
    try:
        while size < _LOG_LIMIT:
            try:
                record = os.read(device, _RECORD_BYTES)
            except BlockingIOError:  # that was the last one
                break
            except BrokenPipeError:  # overwritten while it was read; the next one follows
                continue
            if not record:
                break
            lines.append(_as_dmesg(record))
            size += len(lines[-1])
    except OSError as error:
        return Output(b"".join(lines), f"{_KMSG}: {error.strerror}")
    finally:
        os.close(device)
    return Output(b"".join(lines))


def _as_dmesg(record: bytes) -> bytes:
    """A record, "6,339,5140900,-;NET: Registered", as the line "[    5.140900] NET: Registered"."""
    head, _, message = record.partition(b";")
    fields = head.split(b",")
    micros = int(fields[2]) if len(fields) > 2 and fields[2].isdigit() else 0
    text = message.split(b"\n", 1)[0].decode("utf-8", "replace")
    text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text).replace("\n", " ")
    return f"[{micros // 1_000_000:5}.{micros % 1_000_000:06}] {text}\n".encode()
