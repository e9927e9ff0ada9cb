"""The file that `hostdoctor bandwidth` writes: a line of JSON for everything that begins and ends."""

from __future__ import annotations

from collections.abc import Sequence

from hostdoctor.bandwidth.journal import read
from hostdoctor.bandwidth.recorded import runs_of
from hostdoctor.facts.bandwidth import Run
from hostdoctor.parsers.paste import Part


def is_of_later_version(part: Part) -> bool:
    """Whether a later version wrote it, whose records may mean something else."""
    return read(part.lines, part.first_line).is_newer


def parse(part: Part) -> Sequence[Run]:
    """One run for each tool that measured; none where the file's beginning is missing, or a later version wrote it."""
    found = read(part.lines, part.first_line)
    return [] if found.is_newer else runs_of(found, part.source)
