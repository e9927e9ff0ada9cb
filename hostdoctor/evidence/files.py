"""Evidence that lies in a file system: this host's own files, or a folder that holds another host's.

Every path is walked one component at a time from an open descriptor of the root, and no component is opened through a
symbolic link: links are read and followed by us, inside the root. So a hostile folder cannot make us read outside it.
Only ordinary files are opened; pipes, sockets and devices never are.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import Literal

from hostdoctor.evidence.protocol import ATTRIBUTE_LIMIT, FILE_LIMIT, Opened, Problem, Read, Unreadable

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

# As many links as the kernel follows in one path before it answers ELOOP (include/linux/namei.h MAXSYMLINKS).
_MAX_LINKS = 40
_MAX_NAMES = 200_000

# What is left of a symbolic link in an archive made without them: a small file with nothing but its relative target.
_FLATTENED_LINK = re.compile(rb"\A(?:\.\./)*[\w.:+@,-]+(?:/[\w.:+@,-]+)*\Z")
_FLATTENED_LIMIT = 4096

_PROBLEMS: dict[int, Problem] = {
    errno.ENOENT: "missing",
    errno.ENOTDIR: "missing",
    errno.EACCES: "permission",
    errno.EPERM: "permission",
    errno.ELOOP: "not-a-file",
    errno.ENXIO: "not-a-file",
    errno.EISDIR: "not-a-file",
    errno.EFBIG: "too-large",
}


def _unreadable(path: str, error: OSError) -> Unreadable:
    problem = _PROBLEMS.get(error.errno or 0, "failed")
    return Unreadable(path, problem, "" if problem != "failed" else os.strerror(error.errno or errno.EIO))


def _open_file(name: str, folder: int, path: str, trusted: bool) -> int:
    try:
        # The kernel's own file systems hold nothing but ordinary files; anywhere else a pipe or a device may wait.
        if not trusted and not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise Unreadable(path, "not-a-file")
        return os.open(name, _FILE, dir_fd=folder)
    except OSError as error:
        raise _unreadable(path, error) from None
    except ValueError:  # a NUL in it, which no name has
        raise Unreadable(path, "missing") from None


def _read_file(name: str, folder: int, path: str, limit: int, trusted: bool) -> bytes:
    descriptor = _open_file(name, folder, path, trusted)
    try:
        data = os.read(descriptor, limit + 1)
        # An attribute of sysfs comes whole, whatever it is copied to; other files can come in pieces.
        if not path.startswith("sys/"):
            while data and len(data) <= limit and (more := os.read(descriptor, limit + 1 - len(data))):
                data += more
    except OSError as error:
        raise _unreadable(path, error) from None
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise Unreadable(path, "too-large", f"over {limit} bytes")
    return data


class _OpenedFile:
    """An ordinary file, read by offset."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read_at(self, offset: int, size: int) -> bytes:
        """See Opened."""
        try:
            return os.pread(self._descriptor, size, offset)
        except OSError:
            return b""

    def close(self) -> None:
        """See Opened."""
        os.close(self._descriptor)


class FileDirectory:
    """An open folder; close it when done."""

    __slots__ = ("_evidence", "_trusted", "descriptor", "path")

    def __init__(self, evidence: FileEvidence, descriptor: int, path: str) -> None:
        self._evidence = evidence
        self._trusted = evidence.trusts(path)
        self.descriptor = descriptor
        self.path = path

    def read(self, name: str, limit: int = ATTRIBUTE_LIMIT) -> bytes:
        """See Directory."""
        try:
            if self._trusted or "/" not in name:
                data = _read_file(name, self.descriptor, f"{self.path}/{name}", limit, self._trusted)
            else:
                data = self._read_below(name, limit)
        except Unreadable as error:
            self._evidence.reads.append((self.path, name, error.problem))
            raise
        self._evidence.reads.append((self.path, name, None))
        return data

    def _read_below(self, name: str, limit: int) -> bytes:
        """A file in a folder below this one, neither of which may be a link."""
        head, _, tail = name.partition("/")
        below = self.folder(head)
        try:
            if "/" in tail:
                return below.read(tail, limit)
            return _read_file(tail, below.descriptor, f"{below.path}/{tail}", limit, trusted=False)
        finally:
            below.close()

    def link(self, name: str) -> str:
        """See Directory."""
        if not self._trusted and "/" in name:
            head, _, tail = name.partition("/")
            with self.folder(head) as below:
                return below.link(tail)
        try:
            return _as_text(os.readlink(name, dir_fd=self.descriptor))
        except OSError as error:
            if error.errno == errno.EINVAL:
                return self._evidence.flattened_link(self.descriptor, name, f"{self.path}/{name}")
            raise _unreadable(f"{self.path}/{name}", error) from None
        except ValueError:
            raise Unreadable(f"{self.path}/{name}", "missing") from None

    def names(self, name: str = ".") -> list[str]:
        """See Directory."""
        return self._evidence.names(self.path if name == "." else f"{self.path}/{name}")

    def open(self, name: str) -> Opened:
        """See Directory."""
        if not self._trusted and "/" in name:
            head, _, tail = name.partition("/")
            with self.folder(head) as below:
                return below.open(tail)
        try:
            descriptor = _open_file(name, self.descriptor, f"{self.path}/{name}", self._trusted)
        except Unreadable as error:
            self._evidence.reads.append((self.path, name, error.problem))
            raise
        self._evidence.reads.append((self.path, name, None))
        return _OpenedFile(descriptor)

    def folder(self, name: str) -> FileDirectory:
        """See Directory."""
        path = f"{self.path}/{name}"
        if not self._trusted and (name == ".." or "/" in name):
            raise Unreadable(path, "outside")
        try:
            return FileDirectory(self._evidence, os.open(name, _DIRECTORY, dir_fd=self.descriptor), path)
        except OSError as error:
            raise _unreadable(path, error) from None
        except ValueError:
            raise Unreadable(path, "missing") from None

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self.descriptor)

    def __enter__(self) -> FileDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FileEvidence:
    """A root folder: "/" for this host, any other for a tree that holds another host's files."""

    def __init__(self, root: str, kind: Literal["live", "root"] = "root") -> None:
        """Open the root.

        Raises:
            Unreadable: the folder does not exist, or may not be read.
        """
        self.kind: Literal["live", "root"] = kind
        self.sources: tuple[str, ...] = (_as_text(root),)
        self.reads: list[Read] = []
        try:
            self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise _unreadable(root.strip("/"), error) from None

    def close(self) -> None:
        """Let go of the root."""
        os.close(self._root)

    def __enter__(self) -> FileEvidence:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def whole(self) -> bool:
        """See Evidence."""
        return self.kind == "live"

    @property
    def answers(self) -> None:
        """See Evidence."""

    def trusts(self, path: str) -> bool:
        """Whether a path lies in a file system that the running kernel itself fills."""
        return self.kind == "live" and path.startswith(("sys/", "proc/"))

    def shown(self, path: str) -> str:
        """See Evidence: as the described host would name it, so that evidence reads the same from anywhere."""
        return f"/{path}"

    def read(self, path: str, limit: int = FILE_LIMIT) -> bytes:
        """See Evidence."""
        try:
            data = self._read(path, limit)
            if self.kind != "live" and data.startswith(b"../") and _FLATTENED_LINK.match(data):
                data = self._read(f"{path.rpartition('/')[0]}/{data.decode('ascii', 'replace')}", limit)
        except Unreadable as error:
            self.reads.append(("", path, error.problem))
            raise
        self.reads.append(("", path, None))
        return data

    def _read(self, path: str, limit: int) -> bytes:
        folder, name = self._walk(path)
        try:
            return _read_file(name, folder, path, limit, self.trusts(path))
        finally:
            os.close(folder)

    def names(self, path: str) -> list[str]:
        """See Evidence."""
        folder = self.open_folder(path)
        try:
            names = os.listdir(folder)
        except OSError as error:
            raise _unreadable(path, error) from None
        finally:
            os.close(folder)
        if len(names) > _MAX_NAMES:
            raise Unreadable(path, "too-large", f"over {_MAX_NAMES} entries")
        if not "".join(names).isascii():
            names = [_as_text(name) for name in names]
        names.sort()
        return names

    def link(self, path: str) -> str:
        """See Evidence."""
        head, _, tail = path.rpartition("/")
        with self.directory(head) as folder:
            return folder.link(tail)

    def directory(self, path: str) -> FileDirectory:
        """See Evidence."""
        return FileDirectory(self, self.open_folder(path), path)

    def flattened_link(self, folder: int, name: str, path: str) -> str:
        """The target of a link that an archive has turned into a small file with its text.

        Only in a tree: the running kernel's own links are links.
        """
        if self.kind == "live":
            raise Unreadable(path, "not-a-file")
        text = _read_file(name, folder, path, _FLATTENED_LIMIT, trusted=False)
        if b"/" not in text or not _FLATTENED_LINK.match(text):
            raise Unreadable(path, "not-a-file")
        return text.decode("ascii", "replace")

    def open_folder(self, path: str) -> int:
        """A descriptor of a folder, its links followed inside the root; the caller closes it."""
        folder, _ = self._walk(f"{path}/.")
        return folder

    def _walk(self, path: str) -> tuple[int, str]:
        """Follow a path inside the root to the folder that holds its last component; the caller closes that folder.

        A link that climbs above the root stays at the root, as it would in a chroot. A path that ends in "/." walks
        into its last folder.
        """
        opened = [os.dup(self._root)]
        todo = _parts(path)[::-1] or ["."]
        links = 0
        try:
            while True:
                name = todo.pop()
                target = None if name in (".", "..") else self._link_target(opened[-1], name)
                if target is None and not todo:
                    return opened.pop(), name
                if target is None:
                    target = self._enter(opened, name, path)
                if target is None:
                    continue
                links += 1
                if links > _MAX_LINKS:
                    raise Unreadable(path, "not-a-file", "too many links")
                if target.startswith("/"):
                    _close_above(opened, 1)
                todo += _parts(target)[::-1] or ["."]
        finally:
            _close_above(opened, 0)

    def _link_target(self, folder: int, name: str) -> str | None:
        try:
            return os.readlink(name, dir_fd=folder)
        except (OSError, ValueError):
            return None  # no link, or nothing there: opening it tells

    def _enter(self, opened: list[int], name: str, path: str) -> str | None:
        """Step into a folder; the text of the link, where an archive left a small file in the link's place."""
        if name == "..":
            _close_above(opened, max(1, len(opened) - 1))
        elif name != ".":
            try:
                opened.append(os.open(name, _DIRECTORY, dir_fd=opened[-1]))
            except OSError as error:
                if error.errno == errno.ENOTDIR and self.kind != "live":
                    return self.flattened_link(opened[-1], name, path)
                raise _unreadable(path, error) from None
            except ValueError:
                raise Unreadable(path, "missing") from None
        return None


def _as_text(name: str) -> str:
    """A name without the lone surrogates that stand for bytes which are no UTF-8, and which no report can hold."""
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "replace")


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _close_above(opened: list[int], keep: int) -> None:
    while len(opened) > keep:
        os.close(opened.pop())
