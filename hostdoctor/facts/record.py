"""A host's facts with where they come from, as a report carries them."""

from __future__ import annotations

from typing import Literal

import msgspec

from hostdoctor.facts.host import Host


class Record(msgspec.Struct, frozen=True):
    """What a scan read.

    Attributes:
        host: the facts.
        kind: of the evidence.
        sources: what the user named.
        unread: what was there and could not be read, with the reason.
        files: what was read.
        assumed: what was taken for granted.
        version: of the program that read it.
    """

    host: Host
    kind: Literal["live", "root", "capture", "attachments"]
    sources: tuple[str, ...]
    unread: tuple[tuple[str, str], ...] = ()
    files: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    version: str = ""
