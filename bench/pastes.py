"""Large pastes, made from the texts of tests/cases: what many functions, or many hosts after each other, would print."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

SIZE_BYTES = 3_000_000

_HEADER = re.compile(r"^(?:[0-9a-f]{4}:)?(?=[0-9a-f]{2}:[01][0-9a-f]\.[0-7] )", re.MULTILINE)
_DISPLAY = re.compile(r"\S+ (?:VGA compatible|3D|Display) controller")
_STAMP = re.compile(r"^\[ *\d+\.\d+\]", re.MULTILINE)
_TINY = "01:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1)\n"


class Paste(NamedTuple):
    """A file, one with twice as much of the same, and how many functions lspci shows in the first."""

    name: str
    path: Path
    doubled: Path
    functions: int = 0


def pastes(cases: Path, folder: Path) -> list[Paste]:
    """A paste of one line, and the large ones."""
    v620 = (cases / "seed-v620-before/attachments/lspci-vvv.txt").read_text()
    mixed = (cases / "seed-blackwell-ada/attachments/lspci-vvv.txt").read_text()
    log = (cases / "pro-vii-translated-by-default/input/dmesg.txt").read_text()
    return [
        _written(folder, "one line", [_TINY], [_TINY]),
        _written(folder, "lspci -vvv, 4 GPUs", *([v620, *_listings(_without_gpus(v620), n)] for n in (1, 2))),
        _written(folder, "lspci -vvv, hosts of 4", *(_listings(v620, n) for n in (1, 2))),
        _written(folder, "lspci -vvv, hosts of 2", *(_listings(mixed, n) for n in (1, 2))),
        _written(folder, "dmesg", *(_logs(log, n) for n in (1, 2))),
    ]


def _written(folder: Path, name: str, once: list[str], twice: list[str]) -> Paste:
    text = "\n".join(once)
    path, doubled = (folder / f"{name.replace(' ', '-')}-{n}.txt" for n in (1, 2))
    path.write_text(text)
    doubled.write_text("\n".join(twice))
    return Paste(name, path, doubled, len(_HEADER.findall(text)))


def _without_gpus(listing: str) -> str:
    functions = re.split(r"\n(?=\S)", listing)
    return "\n".join(each for each in functions if not _DISPLAY.match(each))


def _listings(listing: str, times: int) -> list[str]:
    """The functions again and again, each time in another PCI domain, until they fill the size so many times."""
    copies = -(-SIZE_BYTES * times // len(listing))
    return [_HEADER.sub(f"{domain:04x}:", listing) for domain in range(1, copies + 1)]


def _logs(log: str, times: int) -> list[str]:
    """The messages again and again, later and later."""
    copies = -(-SIZE_BYTES * times // len(log))
    return [_STAMP.sub(f"[{copy * 100:>5}.000000]", log) for copy in range(copies)]
