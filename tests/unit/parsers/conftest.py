"""A builder of config spaces, written from the specification's layouts and independent of the decoder's tables."""

from __future__ import annotations

import struct

import pytest


class ConfigSpace:
    """4 KiB of config space; capabilities are chained in the order in which they are added."""

    def __init__(self, vendor=0x1002, device=0x73A1, header_type=0, size=4096):
        self.data = bytearray(4096)
        self.size = size
        self.header_type = header_type & 0x7F
        struct.pack_into("<HHHH", self.data, 0, vendor, device, 0x0406, 0)
        self.data[0x08] = 0xC0
        self.data[0x0E] = header_type
        self._link = 0x14 if self.header_type == 2 else 0x34
        self._extended_link = None

    def put(self, offset, layout, *values):
        struct.pack_into("<" + layout, self.data, offset, *values)
        return self

    def bars(self, *registers):
        return self.put(0x10, f"{len(registers)}I", *registers)

    def buses(self, primary, secondary, subordinate):
        return self.put(0x18, "3B", primary, secondary, subordinate)

    def capability(self, number, position, body=b""):
        """Adds a standard capability whose body follows its id and pointer."""
        self.data[0x06] |= 0x10
        self.data[self._link] = position
        self.data[position] = number
        self.data[position + 2 : position + 2 + len(body)] = body
        self._link = position + 1
        return self

    def loop_back(self, position):
        self.data[self._link] = position
        return self

    def express(
        self,
        *,
        position=0x60,
        version=2,
        port_type=1,
        slot=0,
        mps_supported=1,
        mps=1,
        mrrs=2,
        max_speed=4,
        max_width=16,
        speed=4,
        width=16,
        target=4,
        aspm=0,
        training=0,
        devcap2=0,
        devctl2=0,
    ):
        body = bytearray(0x3A)
        struct.pack_into("<H", body, 0, version | port_type << 4 | slot << 8)
        struct.pack_into("<IHH", body, 2, mps_supported | 0x8000, mps << 5 | mrrs << 12 | 0x0810, 0)
        struct.pack_into("<IHH", body, 10, max_speed | max_width << 4, aspm | 0x40, speed | width << 4 | training << 11)
        struct.pack_into("<IH", body, 0x22, devcap2, devctl2)
        struct.pack_into("<IH", body, 0x2A, (2 << min(max_speed, 6)) - 2, target)
        return self.capability(0x10, position, bytes(body))

    def extended(self, number, position, body=b"", version=1, pointer=0):
        """Adds an extended capability whose body follows its header; the first has to stand at 0x100."""
        if self._extended_link is not None:
            self._point(self._extended_link, position)
        self.put(position, "I", number | version << 16 | pointer << 20)
        self.data[position + 4 : position + 4 + len(body)] = body
        self._extended_link = position
        return self

    def extended_loop_back(self, position):
        self._point(self._extended_link, position)
        return self

    def _point(self, where, target):
        header = struct.unpack_from("<I", self.data, where)[0]
        self.put(where, "I", header & 0xFFFFF | target << 20)

    def acs(self, position, capability, control):
        return self.extended(0x0D, position, struct.pack("<HH", capability, control))

    def aer(self, position, uncorrectable, correctable):
        return self.extended(0x01, position, struct.pack("<IIIIII", uncorrectable, 0, 0, correctable, 0, 0))

    def sriov(self, position, total, number):
        return self.extended(0x10, position, struct.pack("<IHHHHHH", 0, 0, 0, total, total, number, 0))

    def dpc(self, position, status):
        return self.extended(0x1D, position, struct.pack("<HHHH", 0x1000, 0, status, 0))

    def resizable_bars(self, position, *entries):
        """Adds entries of (BAR, current size as a power of two in MiB, bitmap of sizes with bit 0 for 1 MiB)."""
        body = b"".join(
            struct.pack(
                "<II",
                (bitmap & 0x0FFFFFFF) << 4,
                bar | (len(entries) << 5 if first else 0) | current << 8 | bitmap >> 28 << 16,
            )
            for first, (bar, current, bitmap) in zip([True] + [False] * 5, entries, strict=False)
        )
        return self.extended(0x15, position, body)

    def content(self):
        return bytes(self.data[: self.size])

    def read_at(self, offset, size):
        return self.content()[offset : offset + size]


@pytest.fixture(scope="session")
def config_space():
    """The builder itself."""
    return ConfigSpace
