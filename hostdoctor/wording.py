"""How quantities are written, everywhere the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hostdoctor.facts.unknown import Unknown

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40


def size(bytes_: int) -> str:
    """A size in the largest unit that leaves no fraction: "32 GiB", "30,704 MiB", "128 bytes"."""
    for unit, name in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if bytes_ >= unit and bytes_ % unit == 0:
            return f"{bytes_ // unit:,} {name}"
    return f"{bytes_:,} bytes"


def tebibytes(address: int) -> str:
    """An address in TiB, rounded down: "56 TiB"; below one TiB in GiB."""
    return f"{address // TIB} TiB" if address >= TIB else f"{address // GIB} GiB"


def link(speed_gts: float | Unknown, width: int | Unknown) -> str:
    """A link: "8 GT/s x8"; what is unknown is a question mark."""
    speed = "? GT/s" if isinstance(speed_gts, Unknown) else f"{speed_gts:g} GT/s"
    return f"{speed} x{'?' if isinstance(width, Unknown) else width}"


def gbs(bandwidth: float) -> str:
    """A bandwidth: "7.9 GB/s"."""
    return f"{bandwidth:.1f} GB/s"


def listed(names: Iterable[str], most: int = 4) -> str:
    """Names as a person would list them: "a, b and c", "a, b, c and 5 more"."""
    all_names: Sequence[str] = list(names)
    if len(all_names) > most:
        return f"{', '.join(all_names[: most - 1])} and {len(all_names) - most + 1} more"
    return " and ".join([", ".join(all_names[:-1]), all_names[-1]] if len(all_names) > 1 else all_names)


def count(number: int, word: str) -> str:
    """A number with its word: "1 GPU", "4 GPUs"."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
