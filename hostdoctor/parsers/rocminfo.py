"""Output of rocminfo: the agents of the HSA runtime, or why there are none.

Source: ROCm/rocminfo rocminfo.cc, CheckInitialState and DisplayAgentInfo. A tool that finds the driver loaded opens
/dev/kfd for reading and writing, and prints the answer of the kernel where that fails.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

_FIELD = re.compile(r"\s{1,4}([A-Z][\w ./()-]{1,38}?):\s+(\S.*)")
_NUMBER = re.compile(r"(\d{1,10})\b")
_HEX = re.compile(r"\d{1,10}\(0x([0-9a-fA-F]{1,8})\)")
_AGENT = re.compile(r"Agent \d{1,4}\s*\Z")
_KFD = "Unable to open /dev/kfd read-write:"
_MEMBER = re.compile(r"\S{1,64} is (not )?(?:a )?member of \"?[\w-]{1,64}\"? group")


class Agent(msgspec.Struct, frozen=True):
    """One agent; the address is bus, device and function, without the domain, which rocminfo does not tell."""

    line: int
    is_gpu: bool
    name: str = ""
    chip_id: int = 0
    address: str = ""
    integrated: bool = False


class Said(msgspec.Struct, frozen=True):
    """A line that tells of the driver, and where it stands."""

    line: int
    text: str


class Rocminfo(msgspec.Struct, frozen=True):
    """What one run of rocminfo tells.

    Attributes:
        agents: in order.
        module: the line about the module where it says that there is none or that it does not run.
        kfd: the kernel's answer to opening /dev/kfd, "Permission denied", where that failed.
        member: what it says of the user's groups after that.
        runtime: the line that says that the HSA runtime did not start.
        wsl: the line that says that this is WSL.
    """

    agents: tuple[Agent, ...] = ()
    module: Said | None = None
    kfd: Said | None = None
    member: Said | None = None
    runtime: Said | None = None
    wsl: Said | None = None


def parse_rocminfo(lines: Sequence[str]) -> Rocminfo:
    """Reads one output, also a cut one."""
    agents: list[Agent] = []
    said: dict[str, Said] = {}
    fields: dict[str, str] = {}
    started = -1
    for number, line in enumerate(lines):
        if _AGENT.match(line):
            agents += _agent(started, fields)
            fields, started = {}, number
        elif field := _FIELD.match(line[:200]):
            if started < 0 and field[1] == "Name":  # the paste begins within the list
                started = number
            if started >= 0:
                fields.setdefault(field[1], field[2].rstrip())
        elif about := _about(line):
            said.setdefault(about, Said(number, line.strip()))
    agents += _agent(started, fields)
    kfd = said.get("kfd")
    return Rocminfo(
        tuple(agents),
        said.get("module"),
        Said(kfd.line, kfd.text[len(_KFD) :].strip()) if kfd else None,
        said.get("member"),
        said.get("runtime"),
        said.get("wsl"),
    )


def _about(line: str) -> str:
    """What a line tells of besides agents; empty for most."""
    if line.startswith(("ROCk module is NOT", "ROCk module is not")):
        return "module"
    if line.startswith(_KFD):
        return "kfd"
    if "HSA_STATUS_ERROR" in line or line.startswith("hsa_init Failed"):
        return "runtime"
    if line.startswith("WSL environment detected"):
        return "wsl"
    return "member" if _MEMBER.match(line) else ""


def _agent(line: int, fields: dict[str, str]) -> list[Agent]:
    if line < 0 or "Device Type" not in fields:
        return []
    chip = _HEX.match(fields.get("Chip ID", ""))
    where = _NUMBER.match(fields.get("BDFID", ""))
    location = int(where[1]) if where else 0
    return [
        Agent(
            line,
            fields["Device Type"] == "GPU",
            fields.get("Marketing Name", fields.get("Name", "")),
            int(chip[1], 16) & 0xFFFF if chip else 0,
            _address(location) if 0 < location < 1 << 16 else "",
            "APU" in fields.get("Memory Properties", "").split(),
        )
    ]


def _address(location: int) -> str:
    """Bus in bits 15:8, device in 7:3, function in 2:0 (KFD's location_id)."""
    return f"{location >> 8:02x}:{location >> 3 & 0x1F:02x}.{location & 0x7}"
