"""Packs a record into a capture, in an order that is always the same."""

from __future__ import annotations

import calendar
import gzip
import io
import re
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from hostdoctor.evidence.attached import Attached
from hostdoctor.evidence.capture_format import (
    MANIFEST,
    WHEN,
    AccessSaid,
    AmdSmiSaid,
    AttachedTable,
    FailureRow,
    Listed,
    Manifest,
    NvmlSaid,
    Paths,
    member_of,
)
from hostdoctor.evidence.recording import Record
from hostdoctor.facts.answers import Answers
from hostdoctor.facts.unknown import Unknown

_UNSAFE = re.compile(r"[^\w.+-]+")
_NAME_LIMIT = 60
_LEVEL = 6


class Contents(msgspec.Struct, frozen=True):
    """All that goes into a capture.

    Attributes:
        manifest: what it is of.
        record: what was read of the host.
        attached: what was attached.
        texts: further members, whole: logs and outputs of commands.
    """

    manifest: Manifest
    record: Record
    attached: Attached = Attached((), ())
    texts: Mapping[str, bytes] = {}


def pack(contents: Contents) -> bytes:
    """The capture; its members are of the time at which it was made."""
    seconds = _seconds(contents.manifest.captured)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, data in _members(contents):
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(data), seconds, 0o644
            archive.addfile(member, io.BytesIO(data))
    return gzip.compress(buffer.getvalue(), _LEVEL, mtime=seconds)


def _seconds(when: str) -> int:
    try:
        return max(0, calendar.timegm(time.strptime(when, WHEN)))
    except (ValueError, OverflowError):  # of a capture that was captured again, and is a stranger's
        return 0


def _members(contents: Contents) -> Iterator[tuple[str, bytes]]:
    record, attached = contents.record, contents.attached
    yield MANIFEST, _json(contents.manifest)
    yield "links.json", _json(dict(sorted(record.links.items())))
    yield "listings.json", _json(dict(sorted(record.listings.items())))
    yield "folders.json", _json(sorted(record.folders))
    yield "pieces.json", _json(dict(sorted(_pieces(record).items())))
    yield "errors.json", _json(_failures(record))
    texts = [(f"attachments/{number:04}-{_plain(each.name)}", each) for number, each in enumerate(attached.files, 1)]
    listed = tuple(Listed(_sound(each.name), _sound(each.path), member) for member, each in texts)
    unread = tuple((_sound(source), reason) for source, reason in attached.unread)
    yield "attachments.json", _json(AttachedTable(listed, unread))
    if record.answers is not None:
        for name, answer in _answers(record.answers).items():
            yield f"facts/{name}.json", _json(answer)
    for member, each in texts:
        yield member, each.text.encode("utf-8", "replace")
    yield from sorted(contents.texts.items())
    for path in sorted({*record.files, *record.pieces}):
        yield member_of(path), record.files[path] if path in record.files else joined(record.pieces[path])


def _json(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"


def _sound(text: str) -> str:
    """A name whose bytes that are no UTF-8, which JSON cannot hold, are question marks."""
    return text.encode("utf-8", "replace").decode()


def _plain(name: str) -> str:
    return _UNSAFE.sub("_", name.rpartition("/")[2].encode("ascii", "replace").decode())[-_NAME_LIMIT:].lstrip(".") or "text"


def _pieces(record: Record) -> dict[str, list[tuple[int, int, int]]]:
    return {
        path: sorted((offset, size, len(data)) for (offset, size), data in pieces.items())
        for path, pieces in record.pieces.items()
    }


def joined(pieces: Mapping[tuple[int, int], bytes]) -> bytes:
    """One file of the pieces, with zeros in the gaps."""
    data = bytearray(max((offset + len(piece) for (offset, _), piece in pieces.items()), default=0))
    for (offset, _), piece in pieces.items():
        data[offset : offset + len(piece)] = piece
    return bytes(data)


def _failures(record: Record) -> Sequence[FailureRow]:
    rows: dict[tuple[str, str, str], FailureRow] = {}
    for (verb, path), failure in sorted(record.failures.items(), key=lambda each: each[0]):
        key = (verb, failure.problem, failure.detail)
        paths: Paths = rows.setdefault(key, FailureRow(verb, failure.problem, failure.detail, [])).paths
        paths.append([path, failure.path] if failure.path else path)
    return [rows[key] for key in sorted(rows)]


def _answers(answers: Answers) -> dict[str, object]:
    nvml, amd_smi, access = answers.nvml, answers.amd_smi, answers.access
    return {
        "nvml": NvmlSaid(refusal=nvml) if isinstance(nvml, Unknown) else NvmlSaid(answer=nvml),
        "amd_smi": AmdSmiSaid(refusal=amd_smi) if isinstance(amd_smi, Unknown) else AmdSmiSaid(answer=amd_smi),
        "access": AccessSaid(refusal=access) if isinstance(access, Unknown) else AccessSaid(answer=access),
        "speeds": dict(answers.speeds),
    }
