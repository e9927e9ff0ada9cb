"""Writes a file whole or not at all: beside it first, then in its place."""

from __future__ import annotations

import contextlib
import os
import secrets


def write(path: str, data: bytes, mode: int = 0o600) -> None:
    """Replace a file, or make it; whatever happens, it is the old one or the new one.

    A link is replaced itself; nothing is written through it.

    Raises:
        OSError: it could not be written; then nothing is left behind.
    """
    folder, name = os.path.split(path)
    beside = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(4)}.part")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise
    _sync(folder or ".")


def _sync(folder: str) -> None:
    """Make the new name last; a file system that cannot do that has it anyway."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
