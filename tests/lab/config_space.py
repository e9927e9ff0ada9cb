"""Config space of emulated functions, made to look like other devices before (or while) the guest runs.

QEMU has no option for ids, classes, links or BARs of most of its devices, but what a guest reads of config space comes
straight from a block of QEMU's memory, and which bits it may write from a second one. Both are found by the device's id
and edited from outside. Register layouts: PCI Express Base Specification 6.0, chapter 7.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

SPEEDS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5}

_EXPRESS = 0x10
_LINK_CAP, _LINK_STATUS, _LINK_CAP_2, _LINK_CONTROL_2 = 0x0C, 0x12, 0x2C, 0x30
_AER, _ACS, _RESIZABLE = 0x01, 0x0D, 0x15
_EXTENDED, _SIZE = 0x100, 0x1000
_MEM_64, _PREFETCHABLE, _IO = 0x4, 0x8, 0x1


@dataclass(frozen=True)
class Link:
    """A link end: what runs and what it could do; a port's running speed follows the device below by itself."""

    speed: float
    width: int
    max_speed: float
    max_width: int


@dataclass(frozen=True)
class Bar:
    """A base address register; `sizes` are those a resizable one offers besides its own."""

    size: int
    is_64bit: bool = True
    prefetchable: bool = True
    io: bool = False
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Look:
    """What a function shall look like; what is not given stays as QEMU made it."""

    id: str = ""
    subsystem: str = ""
    class_code: int | None = None
    link: Link | None = None
    bars: Mapping[int, Bar] | None = None
    acs: bool = False  # an ACS capability whose control bits can be written
    aer: bool = False
    raw: Mapping[int, bytes] = field(default_factory=dict)


class ConfigSpace:
    """The bytes of one function: their values, which bits the guest may write, and which it clears by writing ones."""

    def __init__(self, values: bytes, writable: bytes, clearable: bytes) -> None:
        self.values, self.writable, self.clearable = bytearray(values), bytearray(writable), bytearray(clearable)

    def apply(self, look: Look) -> None:
        """Make it look as wanted."""
        if look.id:
            struct.pack_into("<HH", self.values, 0x00, *_id(look.id))
        if look.subsystem:
            struct.pack_into("<HH", self.values, 0x2C, *_id(look.subsystem))
        if look.class_code is not None:
            self.values[0x09:0x0C] = look.class_code.to_bytes(3, "little")
        if look.link is not None:
            self._set_link(look.link)
        self._set_target_speed()
        if look.bars is not None:
            self._set_bars(look.bars)
        self._extend(look)
        for offset, data in look.raw.items():
            self.values[offset : offset + len(data)] = data

    def _capability(self, wanted: int) -> int:
        at, seen = self.values[0x34], set[int]()
        while at and at not in seen:
            if self.values[at] == wanted:
                return at
            seen.add(at)
            at = self.values[at + 1]
        raise LookupError(f"the device has no capability {wanted:#x}")

    def _set_link(self, link: Link) -> None:
        at = self._capability(_EXPRESS)
        best = SPEEDS[link.max_speed]
        (capability,) = struct.unpack_from("<I", self.values, at + _LINK_CAP)
        struct.pack_into("<I", self.values, at + _LINK_CAP, capability & ~0x3FF | best | link.max_width << 4)
        struct.pack_into("<I", self.values, at + _LINK_CAP_2, sum(1 << speed for speed in range(1, best + 1)))
        (status,) = struct.unpack_from("<H", self.values, at + _LINK_STATUS)
        running = SPEEDS[link.speed] | link.width << 4
        struct.pack_into("<H", self.values, at + _LINK_STATUS, status & ~0x3FF | running)

    def _set_target_speed(self) -> None:
        """The best speed as the one to train for, which hardware has after a reset and QEMU leaves at 0."""
        at = self._capability(_EXPRESS)
        best = self.values[at + _LINK_CAP] & 0xF
        self.values[at + _LINK_CONTROL_2] = self.values[at + _LINK_CONTROL_2] & 0xF0 | best

    def _set_bars(self, bars: Mapping[int, Bar]) -> None:
        self.values[0x10:0x28] = self.writable[0x10:0x28] = bytes(24)
        for index, bar in bars.items():
            at, mask = 0x10 + 4 * index, -bar.size & (0xFFFFFFFF_FFFFFFFF if bar.is_64bit else 0xFFFFFFFF)
            kind = _IO if bar.io else (_MEM_64 if bar.is_64bit else 0) | (_PREFETCHABLE if bar.prefetchable else 0)
            struct.pack_into("<I", self.values, at, kind)
            struct.pack_into("<Q" if bar.is_64bit else "<I", self.writable, at, mask)

    def _extend(self, look: Look) -> None:
        if look.aer and self._extended(_AER) is None:
            at = self._add_extended(_AER, 2, 0x48)
            struct.pack_into("<I", self.values, at + 0x0C, 0x00462030)  # severity, as after a reset
            struct.pack_into("<I", self.values, at + 0x14, 0x00002000)  # correctable mask, likewise
            for offset in (0x08, 0x0C, 0x14):
                struct.pack_into("<I", self.writable, at + offset, 0xFFFFFFFF)
            for offset in (0x04, 0x10):
                struct.pack_into("<I", self.clearable, at + offset, 0xFFFFFFFF)
        if look.acs and self._extended(_ACS) is None:
            at = self._add_extended(_ACS, 1, 8)
            struct.pack_into("<H", self.values, at + 4, 0x001F)
            struct.pack_into("<H", self.writable, at + 6, 0x001F)
        resizable = {index: bar for index, bar in (look.bars or {}).items() if bar.sizes}
        if resizable:
            self._add_resizable(resizable)

    def _add_resizable(self, bars: Mapping[int, Bar]) -> None:
        at = self._add_extended(_RESIZABLE, 1, 4 + 8 * len(bars))
        for number, (index, bar) in enumerate(bars.items()):
            offered = sum(1 << _step(size) + 4 for size in {bar.size, *bar.sizes})
            control = index | (len(bars) << 5 if number == 0 else 0) | _step(bar.size) << 8
            struct.pack_into("<II", self.values, at + 4 + 8 * number, offered, control)

    def _chain(self) -> Iterator[int]:
        at = _EXTENDED
        while at:
            (head,) = struct.unpack_from("<I", self.values, at)
            if not head:
                return
            yield at
            at = head >> 20

    def _extended(self, wanted: int) -> int | None:
        return next((at for at in self._chain() if struct.unpack_from("<H", self.values, at)[0] == wanted), None)

    def _add_extended(self, kind: int, version: int, size: int) -> int:
        """Add an extended capability in free room behind the others."""
        chain = list(self._chain())
        at = next(at for at in range(0x200, 0x1000, 0x80) if not any(self.values[at : at + size])) if chain else _EXTENDED
        struct.pack_into("<I", self.values, at, kind | version << 16)
        self.writable[at : at + size] = bytes(size)
        if chain:
            (head,) = struct.unpack_from("<I", self.values, chain[-1])
            struct.pack_into("<I", self.values, chain[-1], head & 0xFFFFF | at << 20)
        return at


def _id(text: str) -> tuple[int, int]:
    vendor, device = (int(part, 16) for part in text.split(":"))
    return vendor, device


def _step(size: int) -> int:
    """A BAR size as the Resizable BAR capability counts: 0 is 1 MiB."""
    return size.bit_length() - 21


# --- in QEMU's memory -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Blocks:
    """Where the 4 KiB of a PCI Express function lie in QEMU's memory."""

    values: int
    writable: int
    clearable: int


class QemuMemory:
    """The heap of a QEMU process. Devices are made while it starts, so it is opened once that is done."""

    def __init__(self, process: int) -> None:
        self._memory: BinaryIO = open(f"/proc/{process}/mem", "r+b", buffering=0)  # noqa: SIM115  kept until close()
        self._heap = [(start, self._read(start, end - start)) for start, end in _heap_of(process)]

    def close(self) -> None:
        """Let go of the process."""
        self._memory.close()

    def change(self, looks: Mapping[str, Look]) -> None:
        """Make devices, by their id, look as wanted."""
        for name, look in looks.items():
            blocks = self._find(name)
            space = self._load(blocks)
            space.apply(look)
            self._store(blocks, space)

    def drop(self, name: str) -> None:
        """Let every byte of a device read as ones, as of one that fell off the bus."""
        blocks = self._find(name)
        self._write(blocks.values, b"\xff" * _SIZE)

    def _load(self, blocks: _Blocks) -> ConfigSpace:
        return ConfigSpace(*(self._read(at, _SIZE) for at in (blocks.values, blocks.writable, blocks.clearable)))

    def _store(self, blocks: _Blocks, space: ConfigSpace) -> None:
        self._write(blocks.values, space.values)
        self._write(blocks.writable, space.writable)
        self._write(blocks.clearable, space.clearable)

    def _read(self, at: int, size: int) -> bytes:
        self._memory.seek(at)
        return self._memory.read(size)

    def _write(self, at: int, data: bytes | bytearray) -> None:
        self._memory.seek(at)
        self._memory.write(data)

    def _find(self, name: str) -> _Blocks:
        """The blocks of the device with an id.

        A PCIDevice holds a pointer to its id and, not far behind, five pointers in a row: values, the bits that a
        migration compares, writable bits, bits cleared by ones, used bits. Then comes its number on the bus.
        """
        found: dict[int, set[_Blocks]] = {}
        for text in self._occurrences(name.encode() + b"\0", 16):
            for pointer in self._occurrences(struct.pack("<Q", text), 8):
                for distance, blocks in self._blocks_behind(pointer):
                    found.setdefault(distance, set()).add(blocks)
        # What lies further behind is another device, which happens to follow.
        nearest = found[min(found)] if found else set()
        if len(nearest) != 1:
            raise LookupError(f"{len(nearest)} devices with the id {name} in QEMU's memory")
        return nearest.pop()

    def _occurrences(self, pattern: bytes, alignment: int) -> Iterator[int]:
        for start, data in self._heap:
            at = data.find(pattern)
            while at >= 0:
                if (start + at) % alignment == 0:
                    yield start + at
                at = data.find(pattern, at + 1)

    def _cached(self, at: int, size: int) -> bytes:
        for start, data in self._heap:
            if start <= at and at + size <= start + len(data):
                return data[at - start : at - start + size]
        return b""

    def _blocks_behind(self, pointer: int) -> Iterator[tuple[int, _Blocks]]:
        device = self._cached(pointer, 1024)
        for offset in range(8, len(device) - 44, 8):
            pointers = struct.unpack_from("<5Q", device, offset)
            (number,) = struct.unpack_from("<i", device, offset + 40)
            if -1 <= number < 256 and self._are_blocks(pointers):
                yield offset, _Blocks(pointers[0], pointers[2], pointers[3])

    def _are_blocks(self, pointers: Sequence[int]) -> bool:
        if len(set(pointers)) != 5 or not all(pointer and pointer % 8 == 0 for pointer in pointers):
            return False
        values, compared = self._cached(pointers[0], 64), self._cached(pointers[1], 4)
        return compared == b"\xff" * 4 and values[:2] not in (b"", b"\0\0", b"\xff\xff")


def _heap_of(process: int) -> list[tuple[int, int]]:
    with open(f"/proc/{process}/maps", encoding="ascii", errors="replace") as maps:
        matches = (re.match(r"([0-9a-f]+)-([0-9a-f]+) rw\S* .*\[heap\]", line) for line in maps)
        return [(int(match[1], 16), int(match[2], 16)) for match in matches if match]
