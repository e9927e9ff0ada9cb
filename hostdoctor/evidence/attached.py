"""What people attach: files and folders, standard input, and what lies in them."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

FILE_LIMIT = 64 << 20
TOTAL_LIMIT = 256 << 20
MOST_FILES = 20_000
STANDARD_INPUT = "standard input"


class Attachment(NamedTuple):
    """One file's bytes.

    Attributes:
        name: how people know it: the path below the folder that was named, or the file's own name.
        path: the path inside the folder or archive, which may end like a path on the host it came from; or empty.
        data: its bytes.
    """

    name: str
    path: str
    data: bytes


class Attached(NamedTuple):
    """All that was attached, and what could not be read with the reason."""

    files: tuple[Attachment, ...]
    unread: tuple[tuple[str, str], ...]


def read_attachments(paths: Sequence[str]) -> Attached:
    """Read files, folders with all that lies below them, and standard input ("-").

    Links are not followed, except where one was named itself; pipes and devices are not opened, except standard input.
    """
    files: list[Attachment] = []
    unread: list[tuple[str, str]] = []
    left = TOTAL_LIMIT
    for path in paths:
        for name, inner, found in _found(path):
            if len(files) >= MOST_FILES:
                unread.append((path, f"it holds more than {MOST_FILES:,} files"))
                return Attached(tuple(files), tuple(unread))
            data = _data(found, min(FILE_LIMIT, left))
            if isinstance(data, str):
                unread.append((name, data))
                continue
            left -= len(data)
            files.append(Attachment(name, inner, data))
    return Attached(tuple(files), tuple(unread))


def _found(path: str) -> Iterator[tuple[str, str, str]]:
    """Name, path inside, and where to open, of each file below a path."""
    if path == "-" or not os.path.isdir(path):
        yield STANDARD_INPUT if path == "-" else os.path.basename(path) or path, "", path
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            whole = os.path.join(folder, name)
            inner = os.path.relpath(whole, path)
            yield inner, inner, whole


def _data(path: str, limit: int) -> bytes | str:
    """The bytes of a file, or why there are none."""
    try:
        if path == "-":
            data = sys.stdin.buffer.read(limit + 1)
        else:
            if not stat.S_ISREG(os.stat(path).st_mode):
                return "it is no ordinary file"
            with open(path, "rb") as file:
                data = file.read(limit + 1)
    except OSError as error:
        return error.strerror or "reading it failed"
    return data if len(data) <= limit else f"it is larger than {limit >> 20} MiB"
