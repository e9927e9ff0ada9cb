"""What people attach: files and folders, standard input, and what lies in them."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from hostdoctor.evidence.archives import Limits, unpack
from hostdoctor.evidence.support import SOS_MARK, is_ballast

FILE_LIMIT = 128 << 20
TOTAL_LIMIT = 256 << 20
MOST_FILES = 20_000
_LINK = "it is a link, and links are not followed"
STANDARD_INPUT = "standard input"

_TEXT_LIMIT = 32 << 20  # what is longer is cut: no output that people paste comes near
_HEAD = 4096
# Control characters that no text is full of; a stray one is a terminal's, or there to do harm, and is taken out later.
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b")) + b"\x7f"
_BYTE_ORDER_MARKS = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


class Attachment(NamedTuple):
    """One text.

    Attributes:
        name: how people know it: the path below the folder that was named, or the file's own name.
        path: the path inside the folder or archive, which may end like a path on the host it came from; or empty.
        text: what stands in it.
    """

    name: str
    path: str
    text: str


class Attached(NamedTuple):
    """All texts that were attached, and what could not be read with the reason."""

    files: tuple[Attachment, ...]
    unread: tuple[tuple[str, str], ...]


def read_attachments(paths: Sequence[str], given: Mapping[str, bytes] | None = None) -> Attached:
    """Read files, folders with all that lies below them, archives, and standard input ("-").

    Links are not followed, except where one was named itself; pipes and devices are not opened, except standard input.

    Args:
        paths: where they lie.
        given: by path, what was read already.
    """
    files: list[Attachment] = []
    unread: list[tuple[str, str]] = []
    limits = Limits(TOTAL_LIMIT, MOST_FILES)
    for path in paths:
        limits.left_out = 0
        for name, inner, place in _found(path, limits):
            if limits.files_left <= 0:
                unread.append((path, f"it holds more than {MOST_FILES:,} files"))
                return Attached(tuple(files), tuple(unread))
            limits.files_left -= 1
            is_link = bool(inner) and os.path.islink(place) and os.path.exists(place)
            data = _LINK if is_link else _data(place, min(FILE_LIMIT, limits.bytes_left), given or {})
            if isinstance(data, str):
                unread.append((name, data))
                continue
            limits.bytes_left -= len(data)
            for found in unpack(name, inner, data, limits):
                text = _text(found.data[:_TEXT_LIMIT])
                problem = found.problem or ("it is no text" if text is None else "")
                if problem or len(found.data) > _TEXT_LIMIT:
                    unread.append((found.name, problem or f"what follows its first {_TEXT_LIMIT >> 20} MiB was left out"))
                if text:
                    files.append(Attachment(found.name, found.path, text))
        if limits.left_out:
            unread.append((path, f"{limits.left_out:,} of its files tell nothing of GPUs, PCI, the kernel or booting"))
    return Attached(tuple(files), tuple(unread))


def _text(data: bytes) -> str | None:
    """What the bytes say; None where they are no text."""
    for mark, encoding in _BYTE_ORDER_MARKS:  # what a Windows shell writes
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    head = data[:_HEAD]
    if len(head.translate(None, _CONTROLS)) * 20 < len(head) * 19:
        return None
    return data.decode("utf-8", "replace")


def _found(path: str, limits: Limits) -> Iterator[tuple[str, str, str]]:
    """Name, path inside, and where to open, of each file below a path, without a support folder's ballast."""
    if path == "-" or not os.path.isdir(path):
        yield STANDARD_INPUT if path == "-" else os.path.basename(path) or path, "", path
        return
    sosreports: tuple[str, ...] = ()
    for folder, folders, names in os.walk(path):
        folders.sort()
        if SOS_MARK in folders:
            sosreports += (folder,)
        in_sos = folder.startswith(sosreports)
        for name in sorted(names):
            whole = os.path.join(folder, name)
            inner = os.path.relpath(whole, path)
            if is_ballast(inner, in_sos):
                limits.left_out += 1
            elif not (in_sos and os.path.islink(whole)):  # those of a sosreport lead to what it holds anyway
                yield inner, inner, whole


def _data(path: str, limit: int, given: Mapping[str, bytes]) -> bytes | str:
    """The bytes of a file, or why there are none."""
    try:
        if path in given:
            data = given[path]
        elif path == "-":
            data = sys.stdin.buffer.read(limit + 1)
        else:
            if not stat.S_ISREG(os.stat(path).st_mode):
                return "it is no ordinary file"
            with open(path, "rb") as file:
                data = file.read(limit + 1)
    except OSError as error:
        return error.strerror or "reading it failed"
    return data if len(data) <= limit else f"it is larger than {limit >> 20} MiB"
