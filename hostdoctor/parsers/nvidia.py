"""What NVIDIA's driver shows below /proc/driver/nvidia (NVIDIA driver README, "The /proc file system interface")."""

from __future__ import annotations

import re

# "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.127.05  Tue ...", or "... Open Kernel Module for x86_64  580.105.08  ..."
_VERSION = re.compile(r"^NVRM version:.*?\s(\d{2,4}(?:\.\d{1,4}){1,3})\s", re.MULTILINE)
_BITS = re.compile(r"^DMA Size:[ \t]*(\d{1,2}) bits", re.MULTILINE)
_MAX_PARAMETERS = 256


def driver_version(text: str) -> str | None:
    """The version of the loaded module, "580.105.08", from `version`; None where it is not told."""
    match = _VERSION.search(f"{text[:4096]}\n")
    return match[1] if match else None


def driver_parameters(text: str) -> dict[str, str]:
    """The values in force, from `params`: "RegistryDwords" without its quotes and the like."""
    found = {}
    for line in text[: 1 << 16].split("\n")[:_MAX_PARAMETERS]:
        name, colon, value = line.partition(":")
        if colon and name.strip().isidentifier():
            value = value.strip()
            quoted = len(value) >= 2 and value[0] == value[-1] == '"'
            found[name.strip()] = value[1:-1] if quoted else value
    return found


def dma_bits(text: str) -> int | None:
    """The address bits of a GPU, from its `information`; nothing else of that file is looked at."""
    match = _BITS.search(text[:8192])
    return int(match[1]) if match and 0 < int(match[1]) <= 64 else None
