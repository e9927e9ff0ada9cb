"""The kernel's version, from its release ("uname -r", /proc/sys/kernel/osrelease)."""

from __future__ import annotations

import re

from hostdoctor.facts.host import KernelVersion
from hostdoctor.facts.unknown import Unknown

_RELEASE = re.compile(r"\s*([0-9]{1,4})\.([0-9]{1,4})(?![0-9])")


def parse_release(text: str) -> KernelVersion | Unknown:
    """The upstream version: (6, 12) for "6.12.57+deb13-amd64"; Unknown where the text does not begin with one."""
    match = _RELEASE.match(text)
    if match is None:
        return Unknown(f"not a kernel release: {text[:40].strip()!r}")
    return KernelVersion(int(match.group(1)), int(match.group(2)))
