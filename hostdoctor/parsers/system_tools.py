"""Outputs of uname, sysctl, lscpu and dmidecode, as the host's own files that say the same.

Sources: util-linux sys-utils/lscpu.c; dmidecode(8), whose headings are those of the SMBIOS specification; sysctl(8), whose
names are paths below /proc/sys with dots.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_UNAME = re.compile(r"Linux \S{1,64} (\d{1,2}\.\d{1,3}\.\S{1,64}) ")
_VERSION = re.compile(r"Linux version (\d{1,2}\.\d{1,3}\.\S{1,64})")
_PARAMETER = re.compile(r"\w{1,60}\Z")
_SYSCTL = re.compile(r"kernel\.([\w.]{1,60}) = (.{0,200})\Z")
_FIELD = re.compile(r"\s{0,12}([A-Za-z][\w ()-]{0,40}):(.*)")
_MOST_SOCKETS, _MOST_NODES = 64, 1024

# Of lscpu's fields, those that /proc/cpuinfo has, under its names.
_CPUINFO = {
    "Vendor ID": "vendor_id",
    "CPU family": "cpu family",
    "Model": "model",
    "Model name": "model name",
    "Address sizes": "address sizes",
    "Flags": "flags",
}
# Of dmidecode, the sections and fields that the kernel shows without their serial numbers.
_DMI = {
    ("BIOS Information", "Vendor"): "bios_vendor",
    ("BIOS Information", "Version"): "bios_version",
    ("BIOS Information", "Release Date"): "bios_date",
    ("System Information", "Manufacturer"): "sys_vendor",
    ("System Information", "Product Name"): "product_name",
    ("Base Board Information", "Manufacturer"): "board_vendor",
    ("Base Board Information", "Product Name"): "board_name",
}


def release_files(lines: Sequence[str]) -> dict[str, str]:
    """What `uname -a` or /proc/version tells."""
    for line in lines:
        if found := _UNAME.match(line) or _VERSION.match(line):
            return {"proc/sys/kernel/osrelease": found[1]}
    return {}


def sysctl_files(lines: Sequence[str]) -> dict[str, str]:
    """The files of the lines "kernel.numa_balancing = 0"."""
    return {f"proc/sys/kernel/{found[1].replace('.', '/')}": found[2] for line in lines if (found := _SYSCTL.match(line))}


def parameter_files(lines: Sequence[str]) -> dict[str, str]:
    """What `ls /sys/module/amdgpu/parameters` tells: that these files are there, not what is in them."""
    words = [word for line in lines for word in line.split()]
    names = words if all(_PARAMETER.match(word) for word in words) else []
    return {f"sys/module/amdgpu/parameters/{name}": "" for name in names}


def lscpu_files(lines: Sequence[str]) -> dict[str, str]:
    """A /proc/cpuinfo with a processor for each socket, and the memory nodes."""
    fields: dict[str, str] = {}
    for line in lines:
        if found := _FIELD.match(line[:20_000]):
            fields.setdefault(found[1], found[2].strip())
    if "Flags" not in fields and "Hypervisor vendor" in fields:
        fields["Flags"] = "hypervisor"
    kept = [f"{name}\t: {fields[told]}" for told, name in _CPUINFO.items() if told in fields]
    sockets = min(_number(fields.get("Socket(s)", "")), _MOST_SOCKETS)
    blocks = [
        "\n".join((f"processor\t: {n}", *kept, *([f"physical id\t: {n}"] if sockets else []))) for n in range(sockets or 1)
    ]
    nodes = min(_number(fields.get("NUMA node(s)", "")), _MOST_NODES)
    online = {"sys/devices/system/node/online": "0" if nodes == 1 else f"0-{nodes - 1}"} if nodes else {}
    return {"proc/cpuinfo": "\n\n".join(blocks), **online}


def _socket(number: int, sockets: int) -> list[str]:
    return [f"physical id\t: {number}"] if sockets else []


def _number(text: str) -> int:
    return int(text) if re.fullmatch(r"\d{1,6}", text) else 0


def dmidecode_files(lines: Sequence[str]) -> dict[str, str]:
    """The files of /sys/class/dmi/id; of several boards the first."""
    found: dict[str, str] = {}
    section = ""
    for line in lines:
        if line and not line[0].isspace():
            section = line.strip()
        elif (field := _FIELD.match(line[:300])) and (name := _DMI.get((section, field[1]))):
            found.setdefault(f"sys/class/dmi/id/{name}", field[2].strip())
    return found
