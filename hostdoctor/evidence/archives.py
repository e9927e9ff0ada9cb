"""Compressed files and archives, unpacked in memory: nothing is ever written to disk, and everything has a limit.

What cannot be read to its end (a cut download, a damaged block) gives what came before, and says so.
"""

from __future__ import annotations

import bz2
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from hostdoctor.evidence.support import is_ballast

_CHUNK = 1 << 18
_TAR_MAGIC, _TAR_MAGIC_AT = b"ustar", 257
_DEEPEST = 4  # a .gz in a tar in a .zip in a .gz, and no more
_MOST_MEMORY = 128 << 20  # of a decoder for its window


class Limits:
    """What is left of the limits that one reading has in all."""

    def __init__(self, total_bytes: int, files: int) -> None:
        self.bytes_left = total_bytes
        self.files_left = files
        self.left_out = 0  # files that tell nothing here, by their paths


class Unpacked(NamedTuple):
    """One file, or why there is none: then `data` is empty and `problem` says why. A cut file has both."""

    name: str
    path: str
    data: bytes
    problem: str = ""


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int) -> bytes: ...


_ERRORS = (OSError, EOFError, ValueError, OverflowError, RecursionError, MemoryError, NotImplementedError)
_DAMAGED = (*_ERRORS, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, RuntimeError)


class _Gzip:
    """zlib's decoder in the manner of the others, which keep their input themselves."""

    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._decoder.decompress(self._decoder.unconsumed_tail + data, max_length)


def _zstd_pieces(data: bytes) -> Iterator[bytes]:
    """By Python's own library from 3.14 on, else by the package zstandard.

    Raises:
        ImportError: there is neither.
        EOFError: it is damaged.
    """
    file, damaged = _zstd_file(io.BytesIO(data))
    try:
        while piece := file.read(_CHUNK):
            yield piece
    except damaged:
        raise EOFError from None


def _zstd_file(packed: io.BytesIO) -> tuple[Any, type[Exception]]:
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415
    except ImportError:
        import zstandard  # noqa: PLC0415

        decoder = zstandard.ZstdDecompressor(max_window_size=_MOST_MEMORY)
        return decoder.stream_reader(packed, read_across_frames=True), zstandard.ZstdError
    return zstd.ZstdFile(packed), zstd.ZstdError


def _pieces(data: bytes, make: Callable[[], _Decoder]) -> Iterator[bytes]:
    """What is decompressed, piece by piece; several streams may follow each other in one file."""
    decoder, at = make(), 0
    while True:
        if decoder.eof:
            at -= len(decoder.unused_data)
            if not any(data.startswith(codec.magic, at) for codec in _CODECS):  # padding, or nothing
                return
            decoder = make()
        fresh = data[at : at + _CHUNK]
        at += len(fresh)
        piece = decoder.decompress(fresh, _CHUNK)
        if piece:
            yield piece
        elif not fresh and not decoder.eof:
            raise EOFError


class _Codec(NamedTuple):
    magic: bytes
    label: str
    pieces: Callable[[bytes], Iterator[bytes]]


_CODECS = (
    _Codec(b"\x1f\x8b\x08", "gzip", lambda data: _pieces(data, _Gzip)),
    _Codec(b"\xfd7zXZ\x00", "xz", lambda data: _pieces(data, lambda: lzma.LZMADecompressor(memlimit=_MOST_MEMORY))),
    _Codec(b"BZh", "bzip2", lambda data: _pieces(data, bz2.BZ2Decompressor)),
    _Codec(b"\x28\xb5\x2f\xfd", "zstd", _zstd_pieces),
)
_SUFFIXES = (".gz", ".xz", ".bz2", ".zst", ".tgz", ".txz")


def unpack(name: str, path: str, data: bytes, limits: Limits, depth: int = 0) -> Iterator[Unpacked]:
    """The files in what may be an archive or compressed; a plain file is itself.

    Args:
        name: how people know it.
        path: where it lies in the folder or archive around it, or empty.
        data: its bytes.
        limits: what may still be unpacked; it is used up.
        depth: how many archives are around it.
    """
    codec = next((each for each in _CODECS if data.startswith(each.magic)), None)
    is_archive = codec is not None or _is_tar(data) or data.startswith(b"PK\x03\x04")
    if is_archive and depth >= _DEEPEST:
        yield Unpacked(name, path, b"", "archives in archives, deeper than anybody packs them")
    elif codec is not None:
        inner, problem = _decompressed(data, codec, limits)
        if inner:
            for found in unpack(_without_suffix(name), _without_suffix(path), inner, limits, depth + 1):
                yield found._replace(problem=found.problem or problem)
        elif problem:
            yield Unpacked(name, path, b"", problem)
    elif _is_tar(data):
        yield from _members(name, _tar_members(data), limits, depth)
    elif is_archive:
        yield from _members(name, _zip_members(data), limits, depth)
    else:
        yield Unpacked(name, path, data)


def decompressed_gzip(data: bytes, limits: Limits) -> tuple[bytes, str]:
    """What is in a gzip file, as far as it can be read, and what stood in the way of the rest, or nothing."""
    return _decompressed(data, _CODECS[0], limits)


class TarFiles:
    """The ordinary files of a tar, in its order, as pairs of name and data; of two of one name the first counts.

    Attributes:
        trouble: once all were given: why there may be more, or empty.
    """

    def __init__(self, data: bytes, most: int) -> None:
        self._members = _tar_members(data)
        self._left = most
        self._seen: set[str] = set()
        self.trouble = ""

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        return self

    def __next__(self) -> tuple[str, bytes]:
        try:
            for member in self._members:
                self._left -= 1
                if self._left < 0:
                    self.trouble = "it holds more files than any capture"
                    break
                if member.in_memory == member.size and member.name not in self._seen:
                    self._seen.add(member.name)
                    return member.name, member.read()
        except _DAMAGED:
            self.trouble = "it is damaged or cut: what follows in it cannot be read"
        raise StopIteration


def _without_suffix(name: str) -> str:
    return next((name[: -len(suffix)] for suffix in _SUFFIXES if name.endswith(suffix)), name)


def _is_tar(data: bytes) -> bool:
    return data[_TAR_MAGIC_AT : _TAR_MAGIC_AT + len(_TAR_MAGIC)] == _TAR_MAGIC


def _decompressed(data: bytes, codec: _Codec, limits: Limits) -> tuple[bytes, str]:
    """As much as there is, and what stood in the way of the rest."""
    parts: list[bytes] = []
    problem = ""
    try:
        for piece in codec.pieces(data):
            if len(piece) > limits.bytes_left:
                problem = "unpacked it is larger than what is read of attachments"
                break
            limits.bytes_left -= len(piece)
            parts.append(piece)
    except ImportError:
        problem = "it is compressed with zstd, which needs the package zstandard (pip install 'hostdoctor[zstd]')"
    except _DAMAGED:
        problem = f"it is damaged or cut: {codec.label} cannot read it to its end"
    return b"".join(parts), problem


class _Member(NamedTuple):
    name: str
    read: Callable[[], bytes]
    size: int
    in_memory: int = 0  # bytes of it that were counted already


def _tar_members(data: bytes) -> Iterator[_Member]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        for member in archive:
            if member.isreg():

                def read(member: tarfile.TarInfo = member) -> bytes:
                    file = archive.extractfile(member)
                    return file.read() if file else b""

                # A sparse file says how large it is with its holes, which the archive does not hold.
                yield _Member(member.name, read, member.size, 0 if member.issparse() else member.size)
    if data[-tarfile.BLOCKSIZE :].strip(b"\0"):  # the mark of its end is missing
        raise tarfile.ReadError


def _zip_members(data: bytes) -> Iterator[_Member]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in archive.infolist():
            if not member.is_dir():

                def read(member: zipfile.ZipInfo = member) -> bytes:
                    with archive.open(member) as file:  # it says how large it is, which need not be true
                        return file.read(member.file_size + 1)[: member.file_size]

                yield _Member(member.filename, read, member.file_size)


def _members(name: str, members: Iterator[_Member], limits: Limits, depth: int) -> Iterator[Unpacked]:
    try:
        for member in members:
            if is_ballast(member.name):
                limits.left_out += 1
                continue
            if limits.files_left <= 0:
                yield Unpacked(name, "", b"", "it holds more files than are read of attachments")
                return
            limits.files_left -= 1
            if member.size > limits.bytes_left + member.in_memory:
                yield Unpacked(f"{name}/{member.name}", member.name, b"", "it is larger than what is read of attachments")
                continue
            data = member.read()
            limits.bytes_left -= len(data) - member.in_memory
            yield from unpack(f"{name}/{member.name}", member.name, data, limits, depth + 1)
    except _DAMAGED:
        yield Unpacked(name, "", b"", "the archive is damaged or cut: what follows in it cannot be read")
