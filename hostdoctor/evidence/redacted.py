"""Takes what is private out of all that goes into a capture, so that it is judged as before.

Paths, targets of links and names in folders are redacted part by part, each by itself: so the name that a folder lists and
the path that is made of it stay the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from hostdoctor.evidence.attached import Attached, Attachment
from hostdoctor.evidence.capture_format import Trouble
from hostdoctor.evidence.packing import Contents, joined
from hostdoctor.evidence.recording import Failure, Record
from hostdoctor.facts import block
from hostdoctor.facts.answers import Answers
from hostdoctor.redaction import Redactor, structs

S = TypeVar("S", bound=msgspec.Struct)


class _Paths:
    """Redacts paths; each part is worked out once."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._parts: dict[str, str] = {}

    def path(self, path: str) -> str:
        """A path, or the target of a link."""
        return "/".join(map(self.part, path.split("/")))

    def part(self, part: str) -> str:
        """A name in a folder."""
        if part not in self._parts:
            self._parts[part] = self._redactor.text(part)
        return self._parts[part]


def redact(contents: Contents, redactor: Redactor) -> Contents:
    """The same without what is private; all of it is looked at for names before the first is replaced."""
    for data in (*contents.record.files.values(), *contents.texts.values()):
        redactor.observe(data.decode("utf-8", "replace"))
    for each in contents.attached.files:
        redactor.observe(each.text)
        if (report := block.find(each.text)) and report.record:
            structs.observe(report.record, redactor)
    paths = _Paths(redactor)
    manifest = contents.manifest
    return Contents(
        msgspec.structs.replace(
            manifest,
            redacted=True,
            sources=tuple(map(paths.path, manifest.sources)),
            errors=tuple(Trouble(paths.path(each.source), redactor.text(each.reason)) for each in manifest.errors),
        ),
        _record(contents.record, redactor, paths),
        _attached(contents.attached, redactor, paths),
        {name: redactor.data(data, name) for name, data in contents.texts.items()},
    )


def _attached(attached: Attached, redactor: Redactor, paths: _Paths) -> Attached:
    files = tuple(
        Attachment(paths.path(each.name), paths.path(each.path), redactor.text(_without_facts(each.text, redactor), each.path))
        for each in attached.files
    )
    return Attached(files, tuple((paths.path(source), redactor.text(reason)) for source, reason in attached.unread))


def _without_facts(text: str, redactor: Redactor) -> str:
    """A text whose facts, where it is a report that carries them, are redacted as what stands around them is."""
    return block.rewritten(text, lambda record: structs.redacted(record, redactor))


def _record(record: Record, redactor: Redactor, paths: _Paths) -> Record:
    found = Record()
    found.files = {paths.path(path): redactor.data(data, path) for path, data in record.files.items()}
    found.pieces = {paths.path(path): _pieces(pieces, redactor, path) for path, pieces in record.pieces.items()}
    found.links = {paths.path(path): paths.path(target) for path, target in record.links.items()}
    found.listings = {paths.path(path): sorted(map(paths.part, names)) for path, names in record.listings.items()}
    found.folders = set(map(paths.path, record.folders))
    found.failures = {
        (verb, paths.path(path)): Failure(each.problem, redactor.text(each.detail), paths.path(each.path))
        for (verb, path), each in record.failures.items()
    }
    found.answers = record.answers and _answers(record.answers, redactor)
    return found


def _pieces(pieces: Mapping[tuple[int, int], bytes], redactor: Redactor, path: str) -> dict[tuple[int, int], bytes]:
    data = redactor.data(joined(pieces), path)
    return {(offset, size): data[offset : offset + len(piece)] for (offset, size), piece in pieces.items()}


def _answers(answers: Answers, redactor: Redactor) -> Answers:
    return Answers(
        nvml=answers.nvml and _struct(answers.nvml, redactor),
        amd_smi=answers.amd_smi and _struct(answers.amd_smi, redactor),
        access=_struct(answers.access, redactor),
        speeds={redactor.text(name): speed for name, speed in answers.speeds.items()},
    )


def _struct(value: S, redactor: Redactor) -> S:
    """Facts of any type, which stay of that type."""
    return msgspec.convert(redactor.value(msgspec.to_builtins(value)), type(value))
