"""A file that blocks whoever reads it, as a sick GPU's attribute does: a small FUSE server.

It speaks the kernel's own protocol (include/uapi/linux/fuse.h) and serves one file, mounted over the one that is to hang.
Who reads waits in the kernel, where no signal reaches, until the connection is aborted.

As a script: `fuse.py FILE KIND` serves until its standard input ends, prints `ready` and then, for each read, the number of
the process that waits. When it ends, however it ends, the kernel aborts the connection.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import stat
import struct
import subprocess
import sys
from pathlib import Path

DEVICE = "/dev/fuse"
CONTROL = "/sys/fs/fuse/connections"
WAIT_S = 30.0  # for what takes milliseconds

_FORGET, _GETATTR, _OPEN, _READ, _RELEASE, _INIT, _INTERRUPT, _DESTROY, _BATCH_FORGET = 2, 3, 14, 15, 18, 26, 36, 38, 42
_UNANSWERED = (_FORGET, _BATCH_FORGET, _INTERRUPT)
_NOT_KNOWN = -38  # ENOSYS
_VERSION = (7, 31)
_ASYNC_READ = 1  # reads through the page cache are waited for where SIGKILL still gets through
_DIRECT_IO = 1  # reads go to the server without the page cache, and are waited for where nothing gets through
_LARGEST_WRITE = 4096
_REQUEST_BYTES = 1 << 16
_SIZE = 4096
_MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str | Path, kind: str, flags: int = 0, data: str = "") -> None:
    """mount(2)."""
    texts = (source, os.fspath(target), kind)
    if _libc.mount(*(text.encode() for text in texts), ctypes.c_ulong(flags), data.encode() or None):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fspath(target))


def unmount(target: str | Path) -> None:
    """Take a mount away at once, whoever uses it; nothing where there is none."""
    _libc.umount2(os.fspath(target).encode(), _MNT_DETACH)


class Hanging:
    """A file that hangs, for as long as the context lasts; one that a kill does not end unless `killable`.

    Args:
        file: what is mounted over; it must exist.
        work: an empty folder of its own.
    """

    def __init__(self, file: Path, work: Path, killable: bool = False) -> None:
        self.file = file
        self._work = work
        self._kind = "cached" if killable else "direct"

    def __enter__(self) -> Hanging:
        command = [sys.executable, __file__, self.file, self._kind]
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if (line := self.line()) != "ready":
            self._end()
            raise OSError(f"FUSE does not serve: {line}")
        self.connection = os.minor(os.stat(self.file).st_dev)
        return self

    def line(self) -> str:
        """The next line that the server prints; empty when it has ended."""
        assert self._server.stdout
        if not select.select([self._server.stdout], [], [], WAIT_S)[0]:
            raise TimeoutError("the FUSE server says nothing")
        data = b""
        while not data.endswith(b"\n") and (more := os.read(self._server.stdout.fileno(), 1)):
            data += more
        return data.decode().strip()

    def abort(self) -> None:
        """Tell the kernel that there will be no answer: who waits gets an error. Nothing where it has been told."""
        mounted = (Path(CONTROL) / str(self.connection)).exists()
        if not mounted:
            mount("fusectl", self._work, "fusectl")
        try:
            with contextlib.suppress(FileNotFoundError):
                (Path(CONTROL if mounted else self._work) / str(self.connection) / "abort").write_text("1")
        finally:
            if not mounted:
                unmount(self._work)

    def __exit__(self, *_: object) -> None:
        try:
            self.abort()
        finally:
            unmount(self.file)
            self._end()

    def _end(self) -> None:
        try:
            _, errors = self._server.communicate(timeout=WAIT_S)
        except subprocess.TimeoutExpired:
            self._server.kill()
            _, errors = self._server.communicate()
        sys.stderr.buffer.write(errors) if hasattr(sys.stderr, "buffer") else sys.stderr.write(errors.decode())


def serve(file: str, kind: str) -> None:
    """Mount and answer until the standard input ends or the connection does."""
    device = os.open(DEVICE, os.O_RDWR)
    data = f"fd={device},rootmode={stat.S_IFREG:o},user_id=0,group_id=0,allow_other"
    mount("hanging", file, "fuse", data=data)
    try:
        while True:
            readable, _, _ = select.select([device, 0], [], [])
            if 0 in readable or not _answer(device, kind):
                return
    finally:
        unmount(file)


def _answer(device: int, kind: str) -> bool:
    """Take one request; whether there may be more."""
    try:
        request = os.read(device, _REQUEST_BYTES)
    except OSError:  # aborted, or unmounted
        return False
    _, opcode, unique, node, _, _, process, _ = struct.unpack_from("=IIQQIIII", request)
    if opcode in _UNANSWERED:
        return True
    if opcode == _READ:
        _say(str(process))
        return True
    error, body = 0, b""
    if opcode == _INIT:
        body = struct.pack("=IIIIHHIIHHI28x", *_VERSION, 0, _ASYNC_READ, 16, 12, _LARGEST_WRITE, 1, 1, 0, 0)
    elif opcode == _GETATTR:
        times = (0,) * 6
        body = struct.pack("=QII", 60, 0, 0)
        body += struct.pack("=6Q10I", node, _SIZE, 8, *times[:3], *times[:3], stat.S_IFREG | 0o444, 1, 0, 0, 0, 4096, 0)
    elif opcode == _OPEN:
        body = struct.pack("=QII", 1, _DIRECT_IO if kind == "direct" else 0, 0)
    elif opcode not in (_RELEASE, _DESTROY):
        error = _NOT_KNOWN
    os.write(device, struct.pack("=IiQ", 16 + len(body), error, unique) + body)
    if opcode == _INIT:
        _say("ready")
    return opcode != _DESTROY


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    serve(*sys.argv[1:])
