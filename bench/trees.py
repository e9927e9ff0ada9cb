"""Trees of N PCI functions, of which always 8 are GPUs, for measuring how a scan grows.

usage: python bench/trees.py N FOLDER
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

GPUS = 8
PER_GPU = 4  # root port, the card's own switch with two ports, the GPU


def capability(kind: int, max_speed: int, width: int) -> bytes:
    """A PCI Express capability of version 2 without id and next pointer."""
    link = max_speed | width << 4
    return struct.pack("<HIHHIHHIHHIHHIHHIHH", 2 | kind << 4, 0x8001, 0x2830, 0, link, 0, link, *(0,) * 6, 0x11F, 0x40, 0,
                       (1 << max_speed + 1) - 2, max_speed, 0)  # fmt: skip


def config(ids: tuple[int, int], class_code: int, kind: int, buses: tuple[int, int, int] | None) -> bytes:
    """4 KiB of config space: header, power management, MSI, PCI Express, AER, ACS."""
    space = bytearray(4096)
    struct.pack_into("<HHHH", space, 0, *ids, 0x0406, 0x10)
    struct.pack_into("<IBBB", space, 8, 0x01 | class_code << 8, 16, 0, int(buses is not None))
    if buses:
        struct.pack_into("<BBB", space, 0x18, *buses)
    space[0x34] = 0x40
    struct.pack_into("<BBHH", space, 0x40, 0x01, 0x50, 3, 8)
    struct.pack_into("<BBHIIH", space, 0x50, 0x05, 0x70, 0x80, 0xFEE00000, 0, 0x4021)
    struct.pack_into("<BB", space, 0x70, 0x10, 0)
    body = capability(kind, 4, 16)
    space[0x72 : 0x72 + len(body)] = body
    struct.pack_into("<I6I", space, 0x100, 0x0001 | 2 << 16 | 0x150 << 20, 0, 0, 0x62030, 0, 0x2000, 0xA0)
    struct.pack_into("<IHH", space, 0x150, 0x000D | 1 << 16, 0x1F, 0)
    return bytes(space)


def resource_line(start: int, end: int, flags: int) -> str:
    return f"0x{start:016x} 0x{end:016x} 0x{flags:016x}"


class Tree:
    """A root folder that is being filled."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.count = 0
        for folder in ("sys/bus/pci/devices", "sys/bus/pci/drivers", "sys/kernel/iommu_groups", "proc"):
            (root / folder).mkdir(parents=True, exist_ok=True)

    def write(self, path: str, text: str | bytes) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())

    def link(self, path: str, target: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(os.path.relpath(self.root / target, file.parent))

    def function(  # noqa: PLR0913, PLR0917  a function has many sides
        self, parent: str, address: str, ids: tuple[int, int], class_code: int, kind: int,
                 below: tuple[int, int, int] | None = None, driver: str = "pcieport", bar: int = 0) -> str:  # fmt: skip
        """Write one function and return its folder."""
        path = f"{parent}/{address}"
        lines = [resource_line(0, 0, 0)] * (17 if below else 13)
        if bar:
            base = 0x40000000000 + self.count * bar
            lines[0] = resource_line(base, base + bar - 1, 0x14220C)
        files = {
            "uevent": f"DRIVER={driver}\nPCI_CLASS={class_code:X}\nPCI_ID={ids[0]:04X}:{ids[1]:04X}\n"
            f"PCI_SUBSYS_ID=1849:0001\nPCI_SLOT_NAME={address}\n",
            "vendor": f"0x{ids[0]:04x}\n", "device": f"0x{ids[1]:04x}\n", "class": f"0x{class_code:06x}\n",
            "revision": "0x01\n", "subsystem_vendor": "0x1849\n", "subsystem_device": "0x0001\n", "irq": "24\n",
            "resource": "\n".join(lines) + "\n", "numa_node": "0\n", "dma_mask_bits": "44\n", "enable": "1\n",
            "power/runtime_status": "active\n", "power_state": "D0\n", "power/control": "on\n",
            "current_link_speed": "16.0 GT/s PCIe\n", "current_link_width": "16\n",
            "max_link_speed": "16.0 GT/s PCIe\n", "max_link_width": "16\n",
        }  # fmt: skip
        if driver == "amdgpu":
            files |= {"mem_info_vram_total": f"{32 << 30}\n", "mem_info_vis_vram_total": f"{32 << 30}\n",
                      "gpu_busy_percent": "0\n", "pp_dpm_pcie": "0: 16.0GT/s, x16 *\n"}  # fmt: skip
        for name, text in files.items():
            self.write(f"{path}/{name}", text)
        self.write(f"{path}/config", config(ids, class_code, kind, below))
        self.link(f"sys/bus/pci/devices/{address}", path)
        self.write(f"sys/kernel/iommu_groups/{self.count}/type", "DMA-FQ\n")
        self.link(f"{path}/iommu_group", f"sys/kernel/iommu_groups/{self.count}")
        self.link(f"{path}/driver", f"sys/bus/pci/drivers/{driver}")
        self.count += 1
        return path


def build(functions: int, root: Path) -> None:
    """Write a tree of that many functions."""
    tree = Tree(root)
    for number in range(GPUS):
        bus = 0x10 * number
        host = f"sys/devices/pci0000:{bus:02x}"
        port = tree.function(host, f"0000:{bus:02x}:01.0", (0x1022, 0x1483), 0x060400, 4, (bus, bus + 1, bus + 3))
        up = tree.function(port, f"0000:{bus + 1:02x}:00.0", (0x1002, 0x1478), 0x060400, 5, (bus + 1, bus + 2, bus + 3))
        down = tree.function(up, f"0000:{bus + 2:02x}:00.0", (0x1002, 0x1479), 0x060400, 6, (bus + 2, bus + 3, bus + 3))
        tree.function(down, f"0000:{bus + 3:02x}:00.0", (0x1002, 0x73A1), 0x038000, 1, driver="amdgpu", bar=32 << 30)
    domain = 1
    while tree.count < functions:  # the rest: drives behind root ports, 8 root buses of 16 to a domain
        for bus in range(0, 256, 32):
            for device in range(16):
                if tree.count >= functions:
                    break
                second = bus + 1 + device
                host = f"sys/devices/pci{domain:04x}:{bus:02x}"
                address = f"{domain:04x}:{bus:02x}:{device:02x}.0"
                port = tree.function(host, address, (0x8086, 0x2030), 0x060400, 4, (bus, second, second))
                if tree.count < functions:
                    address = f"{domain:04x}:{second:02x}:00.0"
                    tree.function(port, address, (0x144D, 0xA808), 0x010802, 0, driver="nvme", bar=16384)
        domain += 1
    kernel = "6.8.0-52-generic"
    cpu = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC 7763\n"
    tree.write("proc/cpuinfo", cpu + "flags\t\t: fpu\naddress sizes\t: 48 bits physical, 48 bits virtual\n\n")
    tree.write("proc/cmdline", f"BOOT_IMAGE=/vmlinuz-{kernel} root=/dev/sda1 ro quiet\n")
    tree.write("proc/sys/kernel/osrelease", f"{kernel}\n")
    tree.write("sys/module/amdgpu/parameters/pcie_p2p", "Y\n")


if __name__ == "__main__":
    build(int(sys.argv[1]), Path(sys.argv[2]))
