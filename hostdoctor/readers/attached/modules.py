"""That amdgpu lacks its parameter pcie_p2p, from a tool that was to show it and found no such file.

A driver built without P2P does not have it (amdgpu_drv.c), so that tells as much as its value would.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from hostdoctor.facts.host import Host, Module
from hostdoctor.facts.unknown import Unknown
from hostdoctor.parsers.paste import Part

_MISSING = re.compile(
    r"[a-z]+: (?:[a-z ]{1,40} )?['‘\"]?/sys/module/amdgpu/parameters/pcie_p2p['’\"]?: No such file or directory"
)


def apply(host: Host, parts: Sequence[Part]) -> Host:
    """The host with that said of amdgpu, where a GPU has it: of a module that is not loaded the whole folder is missing."""
    functions = {} if isinstance(host.functions, Unknown) else host.functions
    modules = {} if isinstance(host.modules, Unknown) else host.modules
    is_missing = any(_MISSING.match(line.strip()[:200]) for part in parts for line in part.lines)
    if not is_missing or not any(function.driver == "amdgpu" for function in functions.values()):
        return host
    amdgpu = msgspec.structs.replace(modules.get("amdgpu", Module("amdgpu", {})), missing=("pcie_p2p",))
    return msgspec.structs.replace(host, modules={**modules, "amdgpu": amdgpu})
