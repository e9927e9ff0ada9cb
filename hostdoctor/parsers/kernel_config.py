"""The kernel's build configuration: /boot/config-*, or /proc/config.gz (scripts/kconfig/confdata.c conf_write)."""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection
from functools import lru_cache

_MAX_BYTES = 16 << 20  # decompressed
_CHUNK = 1 << 16
_GZIP = b"\x1f\x8b"
_ANY = rb"CONFIG_[A-Za-z0-9_]{1,120}"


def parse_kernel_config(content: bytes, names: Collection[str] | None = None) -> dict[str, str]:
    """Reads options: "y", "m", "n" for what is not set, or a value without its quotes.

    Args:
        content: the file, plain or compressed with gzip; of a damaged one what stands before the damage is read.
        names: the options wanted, "CONFIG_PCI_P2PDMA"; all where it is left out.

    Returns:
        Option to value. An option that the file does not mention is not in it: it may depend on one that is not set.
    """
    text = _decompressed(content) if content.startswith(_GZIP) else content[:_MAX_BYTES]
    pattern = _pattern(None if names is None else frozenset(names))
    found: dict[str, str] = {}
    for name, value, unset in pattern.findall(text):
        if unset:
            found[unset.decode("ascii")] = "n"
        else:
            found[name.decode("ascii")] = _unquoted(value.rstrip().decode("utf-8", "replace"))
    return found


@lru_cache(maxsize=8)
def _pattern(names: frozenset[str] | None) -> re.Pattern[bytes]:
    wanted = _ANY
    if names is not None:
        wanted = b"|".join(re.escape(name.encode("utf-8", "replace")) for name in sorted(names)) or rb"(?!)"
    return re.compile(rb"^(?:(%b)=(.*)|# (%b) is not set)" % (wanted, wanted), re.MULTILINE)


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value.startswith('"') and value.endswith('"') else value


def _decompressed(content: bytes) -> bytes:
    """As much as can be decompressed, at most _MAX_BYTES."""
    stream = zlib.decompressobj(wbits=31)
    parts: list[bytes] = []
    room = _MAX_BYTES
    try:
        for start in range(0, len(content), _CHUNK):
            if room <= 0 or stream.eof:
                break
            part = stream.decompress(content[start : start + _CHUNK], room)
            parts.append(part)
            room -= len(part)
    except zlib.error:
        pass
    return b"".join(parts)
