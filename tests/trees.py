"""Builds folders that hold a host's /sys, /proc and /etc, copies them as archives leave them, reads them as nobody."""

from __future__ import annotations

import os
import shutil
import stat
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import hostdoctor

GIB = 1 << 30
NOBODY = 65534
ROOT_PORT, UPSTREAM, DOWNSTREAM, ENDPOINT = 4, 5, 6, 0
_FLAGS_MEMORY_64, _FLAGS_WINDOW = 0x14220C, 0x102201
_UNUSED = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"


def config_space(*, port_type=ENDPOINT, header_type=0, speed=4, width=16, max_speed=4, max_width=16, acs=None, size=4096):
    """Config space with a PCI Express capability and, where `acs` gives its control bits, ACS."""
    data = bytearray(4096)
    struct.pack_into("<HHHH", data, 0, 0x1002, 0x73A1, 0x0406, 0x0010)
    data[0x0E] = header_type
    data[0x34] = 0x60
    struct.pack_into("<BBHI", data, 0x60, 0x10, 0, 2 | port_type << 4, 0x8001)
    struct.pack_into("<IHH", data, 0x6C, max_speed | max_width << 4, 0x40, speed | width << 4)
    if acs is not None:
        struct.pack_into("<IHH", data, 0x100, 0x0D | 1 << 16, 0x5D, acs)
    return bytes(data[:size])


class Tree:
    """A host's files below a folder, built one by one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)

    def write(self, path: str, content: str | bytes = "") -> Tree:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape"))
        return self

    def link(self, path: str, target: str) -> Tree:
        """A relative link to a path of the tree."""
        link = self.root / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(self.root / target, link.parent))
        return self

    def folder(self, path: str) -> Tree:
        (self.root / path).mkdir(parents=True, exist_ok=True)
        return self

    def function(
        self,
        address: str,
        below: str = "",
        *,
        id_: str = "1002:73A1",
        class_code: str = "38000",
        subsystem: str = "1002:0E34",
        driver: str = "",
        bars: Sequence[tuple[int, int]] = (),
        windows: Sequence[tuple[int, int]] = (),
        config: bytes | None = None,
        group: str = "",
        **attributes: str | None,
    ) -> str:
        """A function and the link to it; returns its folder.

        Args:
            address: "0000:03:00.0".
            below: the folder of the bridge or root bus above it; a root bus of its own where empty.
            bars: start and size of memory BARs, from BAR 0 on.
            windows: start and size of a bridge's windows.
            attributes: content of further files; None leaves one of the usual files out.
        """
        root = f"sys/devices/pci{address[: address.rindex(':')]}"
        folder = f"{below or root}/{address}"
        vendor, device = id_.split(":")
        subvendor, subdevice = subsystem.split(":")
        bound = f"DRIVER={driver}\n" if driver else ""
        usual = {
            "uevent": f"{bound}PCI_CLASS={class_code}\nPCI_ID={id_}\nPCI_SUBSYS_ID={subsystem}\nPCI_SLOT_NAME={address}\n",
            "vendor": f"0x{vendor.lower()}\n",
            "device": f"0x{device.lower()}\n",
            "subsystem_vendor": f"0x{subvendor.lower()}\n",
            "subsystem_device": f"0x{subdevice.lower()}\n",
            "class": f"0x{int(class_code, 16):06x}\n",
            "resource": resource(bars, windows),
            "numa_node": "0\n",
            "power_state": "D0\n",
            **attributes,
        }
        for name, content in usual.items():
            if content is not None:
                self.write(f"{folder}/{name}", content)
        if "runtime_status" not in attributes:
            self.write(f"{folder}/power/runtime_status", "active\n")
        elif attributes["runtime_status"] is not None:
            (self.root / folder / "runtime_status").unlink()
            self.write(f"{folder}/power/runtime_status", attributes["runtime_status"])
        if config is not None:
            self.write(f"{folder}/config", config)
        if driver:
            self.folder(f"sys/bus/pci/drivers/{driver}").link(f"{folder}/driver", f"sys/bus/pci/drivers/{driver}")
        if group:
            self.folder(f"sys/kernel/iommu_groups/{group}").link(f"{folder}/iommu_group", f"sys/kernel/iommu_groups/{group}")
        self.link(f"sys/bus/pci/devices/{address}", folder)
        return folder

    def common(self) -> Tree:
        """What every host has besides its functions."""
        self.write("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro\n")
        self.write("proc/sys/kernel/osrelease", "6.8.0-52-generic\n")
        self.write("proc/cpuinfo", CPUINFO)
        self.write("etc/os-release", 'ID=debian\nPRETTY_NAME="Debian GNU/Linux 13 (trixie)"\n')
        return self

    def amd_cards(self, count: int) -> list[str]:
        """Cards with a switch of their own, each below a root port of its own; returns the GPUs' addresses."""
        found = []
        for number in range(count):
            bus = 4 * number
            root = f"sys/devices/pci0000:{bus:02x}"
            start = 0x3800_0000_0000 + number * 64 * GIB
            span = [(start, 33 * GIB)]
            port = self.function(
                f"0000:{bus:02x}:01.0", root, id_="8086:2030", class_code="60400", driver="pcieport", windows=span,
                config=config_space(port_type=ROOT_PORT, header_type=1, speed=3, width=8, max_speed=3),
                **link_attributes("8.0 GT/s PCIe", "8", "8.0 GT/s PCIe", "16"),
            )  # fmt: skip
            upper = self.function(
                f"0000:{bus + 1:02x}:00.0", port, id_="1002:1478", class_code="60400", driver="pcieport", windows=span,
                config=config_space(port_type=UPSTREAM, header_type=1, speed=3, width=8),
                **link_attributes("8.0 GT/s PCIe", "8", "16.0 GT/s PCIe", "16"),
            )  # fmt: skip
            lower = self.function(
                f"0000:{bus + 2:02x}:00.0", upper, id_="1002:1479", class_code="60400", driver="pcieport", windows=span,
                config=config_space(port_type=DOWNSTREAM, header_type=1),
                **link_attributes("16.0 GT/s PCIe", "16", "16.0 GT/s PCIe", "16"),
            )  # fmt: skip
            address = f"0000:{bus + 3:02x}:00.0"
            self.function(
                address, lower, driver="amdgpu", bars=[(start, 32 * GIB)], config=config_space(), group=str(number),
                dma_mask_bits="44\n", mem_info_vram_total=f"{30 * GIB}\n",
                **link_attributes("16.0 GT/s PCIe", "16", "16.0 GT/s PCIe", "16"),
            )  # fmt: skip
            self.write(f"sys/kernel/iommu_groups/{number}/type", "DMA-FQ\n")
            found.append(address)
        return found


CPUINFO = """\
processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
model name\t: Intel(R) Xeon(R) Gold 6130 CPU @ 2.10GHz
physical id\t: 0
flags\t\t: fpu vme de pse msr
address sizes\t: 46 bits physical, 48 bits virtual

"""


def link_attributes(speed: str, width: str, max_speed: str, max_width: str) -> dict[str, str]:
    return {
        "current_link_speed": f"{speed}\n",
        "current_link_width": f"{width}\n",
        "max_link_speed": f"{max_speed}\n",
        "max_link_width": f"{max_width}\n",
    }


def resource(bars: Sequence[tuple[int, int]], windows: Sequence[tuple[int, int]] = ()) -> str:
    """The `resource` file: 64-bit memory BARs from BAR 0 on, each taking two, and a bridge's windows."""
    lines = []
    for start, size in bars:
        lines += [f"0x{start:016x} 0x{start + size - 1:016x} 0x{_FLAGS_MEMORY_64:016x}\n", _UNUSED]
    lines += [_UNUSED] * (13 - len(lines))
    if windows:
        lines += [_UNUSED, _UNUSED]
        lines += [f"0x{start:016x} 0x{start + size - 1:016x} 0x{_FLAGS_WINDOW:016x}\n" for start, size in windows]
        lines += [_UNUSED] * (17 - len(lines))
    return "".join(lines)


def with_links_flattened(tree: Path, copy: Path) -> Path:
    """A copy in which each link is a small file with its target, as archives made without links leave it."""
    shutil.copytree(tree, copy, symlinks=True)
    for path in _links(copy):
        target = os.readlink(path)
        path.unlink()
        path.write_text(target)
    return copy


def with_links_followed(tree: Path, copy: Path) -> Path:
    """A copy in which each link is a copy of what it leads to.

    Links within that are left out, since they lead in circles, and so is what a driver, a group or a remapping unit lists
    as its own, which nothing reads.
    """
    shutil.copytree(tree, copy, symlinks=True)
    links = {path: path.resolve().relative_to(tree.resolve()) for path in _links(tree)}
    for path in links:
        (copy / path.relative_to(tree)).unlink()
    # What is added beside its place must not be added again with it.
    pristine = {target: _files(tree / target) for target in set(links.values())}
    for path, target in links.items():
        if {"drivers", "iommu_groups", "virtual"}.isdisjoint(path.relative_to(tree).parent.parts):
            for name in pristine[target]:
                place = copy / path.relative_to(tree) / name
                place.parent.mkdir(parents=True, exist_ok=True)
                os.link(copy / target / name, place)  # another name for the same file: there are thousands
    return copy


def _files(place: Path) -> list[str]:
    """The files of a folder, relative to it; of a file its own place alone. Links are left out."""
    if not place.is_dir():
        return ["."]
    found = [os.path.join(folder, name) for folder, _, names in os.walk(place) for name in names]
    return [os.path.relpath(path, place) for path in found if not os.path.islink(path)]


def _links(tree: Path) -> list[Path]:
    found = (Path(folder, name) for folder, folders, files in os.walk(tree) for name in folders + files)
    return [path for path in found if path.is_symlink()]


def as_nobody(work: Callable[[], bytes]) -> bytes:
    """What `work` gives when an ordinary user does it; whatever it imports must be imported already.

    Skips where an ordinary user cannot even reach this program, as in a checkout below root's own home.
    """
    if os.geteuid() != 0:
        return work()
    for folder in Path(hostdoctor.__file__).resolve().parents:
        if not folder.stat().st_mode & stat.S_IXOTH:
            pytest.skip(f"ordinary users may not enter {folder}")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(work())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        result = pipe.read()
    os.waitpid(child, 0)
    return result
