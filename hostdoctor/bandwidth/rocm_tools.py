"""Where ROCm's bandwidth tools lie, and which of them a program is.

rocm-bandwidth-test calls itself 2.6.0 from ROCm 4 to 7.2; only what lies beside it tells the old single program from the
plugin framework of ROCm 7. From 7.14 on it is gone and TransferBench follows it. Nothing is run to find that out.

Source: github.com/ROCm/rocm_bandwidth_test, CMakeLists.txt of both lines and docs/reference/migration_guide.rst.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from glob import escape, glob
from typing import Literal

import msgspec

Kind = Literal["rbt-2", "rbt-7", "transferbench"]

_NAMES = ("rocm-bandwidth-test", "rocm_bandwidth_test")
_TRANSFERBENCH = "TransferBench"
_NUMBER = re.compile(r"\d+")


class Program(msgspec.Struct, frozen=True):
    """A program that was found.

    Attributes:
        kind: which of the three it is.
        path: as it was found.
        prefix: the ROCm installation it belongs to, "/opt/rocm-7.2.0".
    """

    kind: Kind
    path: str
    prefix: str

    @property
    def name(self) -> str:
        """What it is called, with the line of releases."""
        lines = {"rbt-2": "rocm-bandwidth-test 2.x", "rbt-7": "rocm-bandwidth-test 7.x", "transferbench": _TRANSFERBENCH}
        return lines[self.kind]

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The variables it needs: its own programs and libraries first, and nothing that changes what it prints."""
        found = {name: value for name, value in inherited.items() if name != "ROCM_BW_DEFAULT_RUN"}
        for name, folder in (("PATH", "bin"), ("LD_LIBRARY_PATH", "lib")):
            own = os.path.join(self.prefix, folder)
            if self.kind != "rbt-2" and os.path.isdir(own):
                found[name] = os.pathsep.join(filter(None, (own, found.get(name, ""))))
        return found


def find(environment: Mapping[str, str]) -> list[Program]:
    """The programs, in the order in which they are tried: of one folder, rocm-bandwidth-test before TransferBench."""
    found: dict[str, Program] = {}
    for folder in _folders(environment):
        for name in (*_NAMES, _TRANSFERBENCH):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                real = os.path.realpath(path)
                found.setdefault(real, _program(path, real, name))
    return list(found.values())


def _folders(environment: Mapping[str, str]) -> Iterator[str]:
    if root := environment.get("ROCM_PATH"):
        yield os.path.join(root, "bin")
    yield "/opt/rocm/bin"
    for pattern in ("/opt/rocm-*/bin", "/opt/rocm/core-*/bin", "/opt/rocm/extras-*/bin"):
        yield from sorted(glob(pattern), key=_version, reverse=True)
    yield from (each for each in environment.get("PATH", "").split(os.pathsep) if each)


def _version(path: str) -> list[int]:
    return [int(number) for number in _NUMBER.findall(path)]


def _program(path: str, real: str, name: str) -> Program:
    if name == _TRANSFERBENCH:
        return Program("transferbench", path, _prefix(real))
    prefixes = dict.fromkeys((_prefix(real), _prefix(path)))
    plugins = next((each for each in prefixes if _has_plugins(each)), None)
    return Program("rbt-2", path, _prefix(real)) if plugins is None else Program("rbt-7", path, plugins)


def _prefix(path: str) -> str:
    return os.path.dirname(os.path.dirname(path))


def _has_plugins(prefix: str) -> bool:
    return bool(glob(os.path.join(escape(prefix), "lib*/rocm_bandwidth_test/plugins/*.amdplug")))


_INFORMING = {"-h", "--help", "-q", "-e", "--version", "--builtin-help", "--pcie-info", "help", "presets", "envvars", "dryrun"}
# The presets of TransferBench whose output transferbench.parse understands.
_WITH_TABLES = {"p2p", "a2a", "cmdline"}
# What the old tool prints above every figure and every comparison (rocm_bandwidth_test_report.cpp).
_OLD_HEADINGS = ("GB/s", "Data Path Validation")


def informs(program: Program, arguments: Sequence[str]) -> bool:
    """Whether a call only tells something of the tool or the devices, and is to measure nothing."""
    if _INFORMING & set(arguments) or (program.kind == "transferbench" and not arguments):
        return True
    return program.kind == "rbt-7" and arguments[:1] == ["plugin"] and not {"-r", "--run", "-c", "--legacy"} & set(arguments)


def should_measure(program: Program, arguments: Sequence[str], output: str) -> bool:
    """Whether an output in which nothing is understood should have held figures: TransferBench has presets with others."""
    if program.kind == "rbt-2":
        return not any(heading in output for heading in _OLD_HEADINGS)
    return bool(_WITH_TABLES & set(arguments)) or (program.kind == "rbt-7" and "run" not in arguments and "-r" not in arguments)


class Complaint(msgspec.Struct, frozen=True):
    """What a tool's output means where it did not measure: one line, and what to do."""

    text: str
    next: str


_TESTS_FAILED = re.compile(r"\b(?P<number>[1-9]\d{0,5}) tests failed", re.IGNORECASE)
_HSA = re.compile(r"Error: (?P<code>HSA_STATUS_\w{1,60})")
_NO_PLUGIN = re.compile(r"Plugin not found/registered properly: '(?P<name>[\w-]{1,40})'")
_FATAL = re.compile(r"\[ERROR\]\s*(?P<text>\S.*)")
_OLD_CLI = re.compile(r"\[CmdLine\] -> Error: (?P<text>\S.*)")


def complaint(output: str, arguments: list[str], *, may_open_kfd: bool | None) -> Complaint | None:
    """What an output says of a failure that the exit status may hide; None where it tells of none.

    Args:
        output: all that the tool printed.
        arguments: those it was given.
        may_open_kfd: whether this user may open /dev/kfd; None where there is none.
    """
    if hsa := _HSA.search(output):
        return _no_runtime(hsa["code"], may_open_kfd)
    if "Invalid Request" in output:
        return Complaint('it sees no GPU (it says only "Invalid Request")', "see that amdgpu drives the GPUs: hostdoctor scan")
    if "cannot ACCESS Dst Memory" in output:
        return Complaint("the driver grants no access between the two devices", "hostdoctor scan says why (p2p-pair)")
    if plugin := _NO_PLUGIN.search(output):
        return Complaint(f"its plugin {plugin['name']!r} is not installed", "install the plugins of the same ROCm release")
    if "Supported arguments:" in output and not {"-h", "--help"} & set(arguments):
        return Complaint("it does not take these arguments and printed its help instead", _advice(arguments))
    if old := _OLD_CLI.search(output):
        return Complaint(f"it did not understand its command line: {old['text'][:120]}", "from ROCm 7 on it takes: run tb p2p")
    if fatal := _FATAL.search(output):
        return Complaint(fatal["text"].strip()[:200], "hostdoctor scan says what the driver grants")
    if tests := _TESTS_FAILED.search(output):
        return Complaint(f"{tests['number']} of its tests failed, whatever its exit status says", "see its output above")
    return None


def _no_runtime(code: str, may_open_kfd: bool | None) -> Complaint:
    if may_open_kfd is None:
        return Complaint(
            f"there is no /dev/kfd ({code})", "load the driver (modprobe amdgpu), or give the device to the container"
        )
    if not may_open_kfd:
        return Complaint(f"this user may not open /dev/kfd ({code})", "sudo usermod -aG render,video $USER, then log in again")
    return Complaint(f"the ROCm runtime did not start ({code})", "see the kernel log and hostdoctor scan")


def _advice(arguments: list[str]) -> str:
    if "-v" in arguments and not {"-a", "-s"} & set(arguments):
        return "data are compared with -a -v; -v alone does nothing"
    return "-a goes with -v, -c, -i; -A with none of -c -l -m -v; -s X -d Y with one of -l -m -v"
