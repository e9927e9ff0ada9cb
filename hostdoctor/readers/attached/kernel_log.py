"""To be written."""

from __future__ import annotations

from collections.abc import Sequence

from hostdoctor.facts.host import Host
from hostdoctor.parsers.paste import Part


def apply(host: Host, parts: Sequence[Part]) -> Host:
    """The host with what these parts tell."""
    return host
