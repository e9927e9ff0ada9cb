"""Archives in the format of an initramfs (cpio "newc"), which the kernel unpacks one after the other.

Source: Linux Documentation/driver-api/early-userspace/buffer-format.rst.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

_END = "TRAILER!!!"


class Entry(NamedTuple):
    """A file, folder or link by its path in the guest; a link's data is its target."""

    path: str
    mode: int
    data: bytes = b""


def file(path: str, data: bytes | str, *, executable: bool = False) -> Entry:
    """An ordinary file that everybody may read."""
    content = data.encode() if isinstance(data, str) else data
    return Entry(path, stat.S_IFREG | (0o755 if executable else 0o644), content)


def folder(path: str) -> Entry:
    """A folder that everybody may enter."""
    return Entry(path, stat.S_IFDIR | 0o755)


def tree(root: Path, prefix: str = "") -> Iterator[Entry]:
    """Everything below a folder, in a fixed order; device nodes are left out, since the kernel makes its own."""
    for parent, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(folders + files):
            path = Path(parent, name)
            mode = path.lstat().st_mode
            inside = prefix + path.relative_to(root).as_posix()
            if stat.S_ISLNK(mode):
                yield Entry(inside, mode, os.fsencode(path.readlink()))
            elif stat.S_ISDIR(mode):
                yield Entry(inside, mode)
            elif stat.S_ISREG(mode):
                yield Entry(inside, mode, path.read_bytes())


def write(out: BinaryIO, entries: Iterable[Entry]) -> None:
    """Write one whole archive; several may follow each other in one file."""
    for number, entry in enumerate(entries, 1):
        _write_entry(out, number, entry)
    _write_entry(out, 0, Entry(_END, 0))


def _write_entry(out: BinaryIO, number: int, entry: Entry) -> None:
    name = entry.path.encode() + b"\0"
    fields = (number, entry.mode, 0, 0, 1, 0, len(entry.data), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + name
    out.write(_padded(head))
    out.write(_padded(entry.data))


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
