"""Every PCI function of the host, from sysfs.

A host can have thousands of functions, so each costs as few system calls as it can: its folder is opened relative to
its parent's, `uevent` gives identity and driver in one read, and config space is read along its capability chain. What
a GPU's driver serves is left to readers.gpu.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from functools import cached_property

import msgspec

from hostdoctor.evidence import Directory, Evidence, Unreadable
from hostdoctor.facts.pci import (
    ATI,
    INTEGRATED_ENDPOINT,
    INTEL,
    NVIDIA,
    Bar,
    ConfigFacts,
    Function,
    Link,
    Power,
    Window,
)
from hostdoctor.facts.unknown import ASLEEP, NOT_CAPTURED, Unknown, known
from hostdoctor.parsers.config_space import read_config
from hostdoctor.parsers.resource import parse_resource
from hostdoctor.parsers.sizes import link_speed, link_width
from hostdoctor.parsers.uevent import Uevent, parse_uevent
from hostdoctor.readers.text import attribute, integer, unknown_from

DEVICES = "sys/bus/pci/devices"

_ADDRESS = re.compile(r"\A[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]\Z")
_ROOT_BUS = re.compile(r"\Apci([0-9a-f]{4,8}:[0-9a-f]{2})\Z")
_NO_LINK_SEEN = Unknown("the links to IOMMU groups are not in this evidence")
_AWAKE = Power("active", "D0")
_UNSAID = Unknown("the firmware names no memory node for it")


def read_functions(
    evidence: Evidence, visit: Callable[[Sequence[Directory], Function], None] | None = None
) -> dict[str, Function] | Unknown:
    """Every function in address order, without what a GPU's driver serves.

    Returns Unknown where the evidence has no PCI functions at all.

    Args:
        evidence: where from.
        visit: called for each function while its folder, the last one given, and those above it are open.
    """
    try:
        paths = _function_paths(evidence)
    except Unreadable as error:
        return unknown_from(error)
    found: list[Function] = []
    stack: list[Directory] = []
    types = _GroupTypes(evidence)
    try:
        for path, address in sorted(paths):
            folder = _open_along(evidence, stack, path)
            if folder is not None:
                found.append(_read_function(evidence, folder, address, types))
                if visit is not None:
                    visit(stack, found[-1])
    finally:
        for folder in stack:
            folder.close()
        types.close()
    if types.has_links:  # so a function without a link has no group
        found = [_without_group(function) if function.iommu_group is _NO_LINK_SEEN else function for function in found]
    found.sort(key=lambda function: function.address)
    return {function.address: function for function in found} or Unknown("no PCI functions in this evidence")


def _without_group(function: Function) -> Function:
    return msgspec.structs.replace(function, iommu_group=None, iommu_type=None)


def _function_paths(evidence: Evidence) -> list[tuple[str, str]]:
    """The folder below sys/devices of each function: the links of sys/bus/pci/devices say where."""
    paths = []
    devices = evidence.directory(DEVICES)
    try:
        for address in devices.names():
            if _ADDRESS.match(address):
                try:
                    target = devices.link(address)
                    path = posixpath.normpath(f"/{DEVICES}/{target}").lstrip("/")
                except Unreadable:
                    path = f"{DEVICES}/{address}"  # a copy that followed the links: the folder itself
                paths.append((path, address))
    finally:
        devices.close()
    return paths


def _open_along(evidence: Evidence, stack: list[Directory], path: str) -> Directory | None:
    """Open a function's folder, from its parent's if that is open; paths come sorted, so parents come first."""
    while stack and not path.startswith(f"{stack[-1].path}/"):
        stack.pop().close()
    try:
        if not stack:
            stack.append(evidence.directory(path.rpartition("/")[0]))
        top = stack[-1]
        folder = top.folder(path[len(top.path) + 1 :]) if "/" not in path[len(top.path) + 1 :] else None
        stack.append(folder or evidence.directory(path))
    except Unreadable as error:
        # On a live host it was unplugged meanwhile; a tree that names a function and lacks it is incomplete.
        lacking = error.problem == "missing" and not evidence.whole
        evidence.reads.append(("", path, "dangling" if lacking else error.problem))
        return None
    return stack[-1]


def _read_function(evidence: Evidence, folder: Directory, address: str, types: _GroupTypes) -> Function:
    identity, driver = _identity(folder)
    power = _power(folder)
    bars, windows = _resource(folder, identity.class_code >> 8 == 0x0604)
    group = types.group(folder, address)
    group_type = types.of(group)
    if isinstance(group_type, Unknown) and not evidence.whole:  # a copy that followed the link
        copied = attribute(folder, "iommu_group/type")
        group_type = group_type if isinstance(copied, Unknown) else copied
    parent, root = _place(folder.path)
    is_gpu = identity.class_code >> 16 in (0x03, 0x12) and identity.vendor in (ATI, NVIDIA, INTEL)
    config = NOT_CAPTURED if is_gpu else config_of(folder, power)
    return Function(
        address=address,
        vendor=identity.vendor,
        device=identity.device,
        class_code=identity.class_code,
        subsystem_vendor=identity.subsystem_vendor,
        subsystem_device=identity.subsystem_device,
        driver=driver,
        parent=parent,
        root=root,
        bars=bars,
        windows=windows,
        numa_node=_numa_node(folder),
        link=link_of_config(config),
        config=config,
        power=power,
        iommu_group=group,
        iommu_type=group_type,
        is_virtual_function=(is_gpu or identity.class_code >> 16 == 0x02) and _is_virtual(folder),
        origin=f"/{DEVICES}/{address}",
    )


def _identity(folder: Directory) -> tuple[Uevent, str | Unknown | None]:
    """Ids and class, and the driver: one read of `uevent`, or single files where an incomplete tree lacks it."""
    try:
        identity = parse_uevent(folder.read("uevent"))
    except Unreadable:
        identity = Uevent()
    if identity.vendor and identity.class_code:
        return identity, identity.driver
    driver: str | Unknown
    try:
        driver = folder.link("driver").rpartition("/")[2]
    except Unreadable as error:
        driver = unknown_from(error)  # it may have none, or nobody copied the link
    names = ("vendor", "device", "class", "subsystem_vendor", "subsystem_device")
    vendor, device, class_code, subvendor, subdevice = (known(integer(attribute(folder, name), 16), 0) for name in names)
    return Uevent(None, class_code, vendor, device, subvendor, subdevice), driver


def _power(folder: Directory) -> Power:
    """Runtime status first: what follows must not wake a sleeping device."""
    status = attribute(folder, "power/runtime_status")
    if status == "active":
        return _AWAKE
    return Power(status, attribute(folder, "power_state"))


def _resource(folder: Directory, is_bridge: bool) -> tuple[tuple[Bar, ...] | Unknown, tuple[Window, ...]]:
    try:
        return parse_resource(folder.read("resource").decode("ascii", "replace"), bridge=is_bridge)
    except Unreadable as error:
        return unknown_from(error), ()


def _is_virtual(folder: Directory) -> bool:
    try:
        return bool(folder.link("physfn"))
    except Unreadable:
        return False


def _numa_node(folder: Directory) -> int | Unknown:
    node = integer(attribute(folder, "numa_node"))
    return _UNSAID if node == -1 else node


def _place(path: str) -> tuple[str | Unknown | None, str | Unknown]:
    """The bridge above and the root bus, as the folder's path has them.

    A host bridge may itself lie below a function (an Intel VMD domain); its buses then start anew.
    """
    parts = path.split("/")[:-1]
    if not parts or parts[-1] == "devices":
        return NOT_CAPTURED, NOT_CAPTURED
    parent = parts[-1] if _ADDRESS.match(parts[-1]) else None
    for part in reversed(parts):
        if match := _ROOT_BUS.match(part):
            return parent, match[1]
    return parent, NOT_CAPTURED


def config_of(folder: Directory, power: Power) -> ConfigFacts | Unknown:
    """Config space, decoded; a sleeping function's is left alone, since reading it can wake the device."""
    if power.asleep:
        return ASLEEP
    try:
        opened = folder.open("config")
    except Unreadable as error:
        return unknown_from(error)
    try:
        return read_config(opened.read_at)
    except Unreadable as error:  # it did not answer in time
        return unknown_from(error)
    finally:
        opened.close()


def link_of_config(config: ConfigFacts | Unknown) -> Link | Unknown | None:
    """The link as config space tells it; None where there is none (conventional PCI, inside the root complex)."""
    if isinstance(config, Unknown):
        return config
    express = config.express
    if express is None or isinstance(express, Unknown):
        return express
    if express.port_type == INTEGRATED_ENDPOINT:
        return None
    return Link(express.current_speed_gts, express.current_width, express.max_speed_gts, express.max_width)


def link_of_attributes(folder: Directory) -> Link | Unknown | None:
    """The link as the kernel's attributes tell it, which need no root; reading them wakes a sleeping device.

    Source: drivers/pci/pci-sysfs.c current_link_speed_show and its neighbours.
    """
    width = attribute(folder, "current_link_width")
    if isinstance(width, Unknown):
        return width
    names = ("current_link_speed", "max_link_speed", "max_link_width")
    speed, max_speed, max_width = (attribute(folder, name) for name in names)
    return Link(
        speed if isinstance(speed, Unknown) else link_speed(speed),
        link_width(width),
        max_speed if isinstance(max_speed, Unknown) else link_speed(max_speed),
        max_width if isinstance(max_width, Unknown) else link_width(max_width),
    )


def with_attributes(evidence: Evidence, function: Function) -> Function:
    """The function with its link taken from the attributes, where these say more than config space did."""
    if function.asleep:
        return msgspec.structs.replace(function, link=ASLEEP)
    try:
        folder = evidence.directory(function.origin.lstrip("/"))
    except Unreadable:
        return function
    try:
        link = link_of_attributes(folder)
    finally:
        folder.close()
    return function if isinstance(link, Unknown) else msgspec.structs.replace(function, link=link)


class _GroupTypes:
    """The domain type of each IOMMU group, read once.

    Source: Documentation/ABI/testing/sysfs-kernel-iommu_groups.
    """

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self.has_links = False
        self._types: dict[str, str | Unknown] = {}
        self._groups: Directory | None
        try:
            self._groups = evidence.directory("sys/kernel/iommu_groups")
        except Unreadable:
            self._groups = None

    def group(self, folder: Directory, address: str) -> str | Unknown | None:
        """The group of a function; None for a function without one.

        On a live host a missing link tells that. A tree may lack its links, and then the groups' own lists tell, or an
        empty list of remapping units.
        """
        try:
            group = folder.link("iommu_group").rpartition("/")[2]
        except Unreadable as error:
            if error.problem != "missing":
                return unknown_from(error)
        else:
            self.has_links = True
            return group
        if self._evidence.whole:
            return None
        return self._members.get(address, self._without_link)

    @cached_property
    def _members(self) -> dict[str, str]:
        """The functions that the groups list."""
        found: dict[str, str] = {}
        try:
            groups = [] if self._groups is None else self._groups.names()
        except Unreadable:
            return found
        for group in groups:
            try:
                found.update(dict.fromkeys(self._evidence.names(f"sys/kernel/iommu_groups/{group}/devices"), group))
            except Unreadable:
                continue
        return found

    @cached_property
    def _without_link(self) -> Unknown | None:
        """What a function is that neither has a link nor stands in a list."""
        if self._members:
            return None
        try:
            return _NO_LINK_SEEN if self._evidence.names("sys/class/iommu") else None
        except Unreadable:
            return _NO_LINK_SEEN

    def of(self, group: str | Unknown | None) -> str | Unknown | None:
        """The type of a group; None for a function without one."""
        if group is None or isinstance(group, Unknown):
            return group
        if self._groups is None:
            return NOT_CAPTURED
        if group not in self._types:
            text = attribute(self._groups, f"{group}/type")
            self._types[group] = Unknown("the kernel gives it as unknown") if text == "unknown" else text
        return self._types[group]

    def close(self) -> None:
        """Let go of the folder."""
        if self._groups is not None:
            self._groups.close()
