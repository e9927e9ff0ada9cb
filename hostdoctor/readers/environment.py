"""Bare metal, virtual machine, WSL or container.

A guest sees PCI links, bridge windows and an IOMMU that its hypervisor invents, so this decides what may be judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from hostdoctor import knowledge
from hostdoctor.evidence import Evidence, Unreadable
from hostdoctor.facts.host import Cpu, Environment, Firmware
from hostdoctor.facts.pci import ENDPOINT, INTEL, LEGACY_ENDPOINT, Express, Function
from hostdoctor.facts.unknown import Unknown
from hostdoctor.readers.text import text_of
from hostdoctor.topology import is_gpu_class

# DMI strings of hypervisors (systemd src/basic/virt.c detect_vm_dmi_vendor lists the same).
_DMI_VENDORS = {
    "KVM": "KVM",
    "OpenStack": "KVM",
    "KubeVirt": "KVM",
    "QEMU": "QEMU",
    "VMware": "VMware",
    "VMW": "VMware",
    "innotek GmbH": "VirtualBox",
    "VirtualBox": "VirtualBox",
    "Oracle Corporation VirtualBox": "VirtualBox",
    "Xen": "Xen",
    "Bochs": "Bochs",
    "Parallels": "Parallels",
    "BHYVE": "bhyve",
    "Hyper-V": "Hyper-V",
    "Apple Virtualization": "Apple Virtualization",
    "Google Compute Engine": "Google Compute Engine",
    "cloud-hypervisor": "cloud-hypervisor",
    "Cloud Hypervisor": "cloud-hypervisor",
    "Firecracker": "Firecracker",
}
_EC2 = "Amazon EC2"  # guests, and bare metal whose product name ends in .metal
# PCI vendors that only hypervisors have (pci.ids): QEMU's bridges and devices, VMware, Bochs VGA, Hyper-V, VirtualBox.
_VIRTUAL_VENDORS = {0x1B36: "QEMU", 0x15AD: "VMware", 0x1234: "QEMU", 0x1414: "Hyper-V", 0x80EE: "VirtualBox"}
# Host bridges that no board of today has: QEMU's is of 1996, cloud-hypervisor's (pci/src/device.rs) was never built.
_VIRTUAL_DEVICES = {"8086:1237": "QEMU", "8086:0d57": "cloud-hypervisor"}
_QEMU_SUBSYSTEM = (0x1AF4, 0x1100)  # docs/specs/pci-ids.rst: what QEMU gives the devices it emulates
_NETWORK = 0x02
_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}$")
_CONTAINER_FILES = {".dockerenv": "docker", "run/.containerenv": "podman"}


def read_environment(
    evidence: Evidence, cpu: Cpu, firmware: Firmware, functions: Mapping[str, Function] | Unknown
) -> Environment:
    """What kind of machine the evidence comes from."""
    container = _container(evidence)
    if wsl := _wsl(evidence):
        return Environment("wsl", "Hyper-V (WSL)", container, (wsl,))
    if dom0 := _xen_dom0(evidence):
        return Environment("bare-metal", "", container, (dom0,))
    signs = [*signs_of_guest(firmware, functions, cpu.hypervisor_flag is False)]
    if cpu.hypervisor_flag is True:
        signs.append(("/proc/cpuinfo", "flags: hypervisor"))
    if signs:
        hypervisor = next((name for name in (_name(sign) for sign in signs) if name), "")
        return Environment("virtual-machine", hypervisor, container, tuple(signs))
    if isinstance(cpu.hypervisor_flag, Unknown):
        dmi = "" if isinstance(firmware.system_vendor, Unknown) else f"; DMI names {firmware.system_vendor}"
        why = Unknown(f"the processor's flags, which would tell, are not in this evidence{dmi}")
        return Environment(why, "", container)
    return Environment("bare-metal", "", container, (("/proc/cpuinfo", "no hypervisor flag"),))


def _name(sign: tuple[str, str]) -> str:
    source, value = sign
    if value == _EC2:
        return value
    if source.startswith("/sys/class/dmi"):
        return next((name for text, name in _DMI_VENDORS.items() if value.startswith(text)), "")
    if _ID.match(value):
        return _VIRTUAL_DEVICES.get(value) or _VIRTUAL_VENDORS.get(int(value[:4], 16), "")
    return ""


def signs_of_guest(
    firmware: Firmware, functions: Mapping[str, Function] | Unknown, flag_is_absent: bool
) -> list[tuple[str, str]]:
    """Signs beside the processor's flag; Microsoft also makes network functions for bare metal (MANA)."""
    signs = []
    for attribute, text in (("sys_vendor", firmware.system_vendor), ("product_name", firmware.product_name)):
        if not isinstance(text, Unknown) and text.startswith(tuple(_DMI_VENDORS)):
            signs.append((f"/sys/class/dmi/id/{attribute}", text))
    if firmware.system_vendor == "Microsoft Corporation" and firmware.product_name == "Virtual Machine":
        signs.append(("/sys/class/dmi/id/product_name", "Hyper-V Virtual Machine"))
    if firmware.system_vendor == _EC2 and ".metal" not in str(firmware.product_name):
        signs.append(("/sys/class/dmi/id/sys_vendor", _EC2))
    return signs if isinstance(functions, Unknown) else [*signs, *_signs_of_functions(functions, flag_is_absent)]


def _signs_of_functions(functions: Mapping[str, Function], flag_is_absent: bool) -> Iterator[tuple[str, str]]:
    """The first function of each kind that tells a guest, with its ids or with what is odd about it."""
    found: dict[str, tuple[str, str]] = {}
    for each in functions.values():
        if each.id in _VIRTUAL_DEVICES or (
            each.vendor in _VIRTUAL_VENDORS and not (flag_is_absent and each.base_class == _NETWORK)
        ):
            found.setdefault("device", (each.origin, each.id))
        elif flag_is_absent:
            continue
        elif (each.subsystem_vendor, each.subsystem_device) == _QEMU_SUBSYSTEM:
            found.setdefault("subsystem", (each.origin, "subsystem 1af4:1100, which QEMU gives what it emulates"))
        elif _is_card_without_port(each, functions):
            found.setdefault("place", (each.origin, "a card's GPU beside host bridges, with no port above it"))
    yield from found.values()


def _is_card_without_port(function: Function, functions: Mapping[str, Function]) -> bool:
    """A PCI Express card hangs on a port, as its bus's device 0; only a hypervisor puts its function elsewhere."""
    if not is_gpu_class(function) or knowledge.is_integrated(function.id) or function.is_virtual_function:
        return False
    # Bus 0 is a root bus, also where the evidence does not tell what is above a function. Virtual functions have other
    # device numbers too, beside the physical one.
    bus, _, place = function.address.rpartition(":")
    if isinstance(function.parent, str) or not bus:  # it has a port, or no address is known
        return False
    is_on_root_bus = function.parent is None or bus.endswith(":00")
    if not is_on_root_bus and (place.startswith("00.") or f"{bus}:00.0" in functions):
        return False
    if function.vendor == INTEL:
        return knowledge.is_intel_discrete(function.id)
    express = function.express
    is_endpoint = isinstance(express, Express) and express.port_type in (ENDPOINT, LEGACY_ENDPOINT)
    return is_endpoint or bool(knowledge.gpus_by_id(function.id))


def _wsl(evidence: Evidence) -> tuple[str, str] | None:
    for path in ("proc/sys/kernel/osrelease", "proc/version"):
        text = text_of(evidence, path)
        if not isinstance(text, Unknown) and "microsoft" in text.lower() and "wsl" in text.lower():
            return evidence.shown(path), text
    return None


def _xen_dom0(evidence: Evidence) -> tuple[str, str] | None:
    """The control domain of Xen owns the hardware, although its processor shows the hypervisor flag."""
    text = text_of(evidence, "proc/xen/capabilities")
    return ("/proc/xen/capabilities", text) if not isinstance(text, Unknown) and "control_d" in text else None


def _container(evidence: Evidence) -> str:
    text = text_of(evidence, "run/systemd/container")
    if not isinstance(text, Unknown) and text:
        return text.splitlines()[0][:40]
    for path, name in _CONTAINER_FILES.items():
        try:
            evidence.read(path)
        except Unreadable:
            continue
        return name
    cgroup = text_of(evidence, "proc/1/cgroup")
    if not isinstance(cgroup, Unknown):
        for word in ("kubepods", "docker", "lxc", "libpod"):
            if word in cgroup:
                return "Kubernetes" if word == "kubepods" else word
    return ""
