"""The host around its PCI functions: kernel, modules, processor, firmware, memory nodes, IOMMU units."""

from __future__ import annotations

from collections.abc import Mapping

from hostdoctor.evidence import Evidence, Unreadable
from hostdoctor.facts.host import Boot, Cpu, Firmware, Iommu, MemoryMap, Module, Numa
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.parsers.cmdline import parse_command_line
from hostdoctor.parsers.cpuinfo import parse_cpuinfo
from hostdoctor.parsers.iomem import parse_apertures, parse_memory_end
from hostdoctor.parsers.kernel_config import parse_kernel_config
from hostdoctor.parsers.kernel_release import parse_release
from hostdoctor.parsers.os_release import parse_os_release
from hostdoctor.parsers.sizes import parse_cpu_list
from hostdoctor.readers.text import attribute, folder_exists, integer, text_of, unknown_from

# Modules whose presence or parameters some check asks for.
MODULES = ("amdgpu", "nvidia", "nouveau", "radeon", "xe", "i915", "vfio_pci")

CONFIG_OPTIONS = frozenset({"CONFIG_HSA_AMD_P2P", "CONFIG_PCI_P2PDMA", "CONFIG_DMABUF_MOVE_NOTIFY", "CONFIG_HSA_AMD"})
PASTED_CONFIG = "boot/config"  # where attachments put one that does not say which kernel it is of
_OPTIONS_OF_A_WHOLE = 1000
_FEWEST_PARAMETERS = 20
_CONFIG_LIMIT = 4 << 20
_CPUINFO_LIMIT = 16 << 20

_DMI = ("sys_vendor", "product_name", "board_vendor", "board_name", "bios_vendor", "bios_version", "bios_date")


def read_boot(evidence: Evidence, with_config: bool) -> Boot:
    """The running kernel; its configuration only where a check will ask for it, since the file is large."""
    release = text_of(evidence, "proc/sys/kernel/osrelease")
    line = text_of(evidence, "proc/cmdline")
    parameters, init_arguments = ((), ()) if isinstance(line, Unknown) else parse_command_line(line)
    os_release = _os_release(evidence)
    config, source = _kernel_config(evidence, release) if with_config else (NOT_CAPTURED, "")
    return Boot(
        release=release,
        version=release if isinstance(release, Unknown) else parse_release(release),
        command_line=line,
        parameters=parameters,
        init_arguments=init_arguments,
        config=config,
        config_source=source,
        distribution=os_release.get("PRETTY_NAME") or NOT_CAPTURED,
        distribution_id=os_release.get("ID") or NOT_CAPTURED,
    )


def _os_release(evidence: Evidence) -> dict[str, str]:
    for path in ("etc/os-release", "usr/lib/os-release"):
        text = text_of(evidence, path)
        if not isinstance(text, Unknown):
            return parse_os_release(text)
    return {}


def _kernel_config(evidence: Evidence, release: str | Unknown) -> tuple[dict[str, str] | Unknown, str]:
    """The configuration of the running kernel: distributions install it beside the kernel, some build it in.

    Of a few lines that somebody picked, the options that are not among them are empty: they may be set or not.
    """
    paths = ["proc/config.gz", PASTED_CONFIG]
    if not isinstance(release, Unknown) and "/" not in release:
        paths = [f"boot/config-{release}", f"lib/modules/{release}/config", *paths]
    why = NOT_CAPTURED
    for path in paths:
        try:
            data = evidence.read(path, _CONFIG_LIMIT)
        except Unreadable as error:
            why = why if error.problem == "missing" else unknown_from(error)
            continue
        config = parse_kernel_config(data, CONFIG_OPTIONS)
        if data.count(b"CONFIG_") < _OPTIONS_OF_A_WHOLE and path == PASTED_CONFIG:
            config = {name: config.get(name, "") for name in CONFIG_OPTIONS} if config else {}
        return config, evidence.shown(path)
    return why, ""


def read_modules(evidence: Evidence) -> dict[str, Module] | Unknown:
    """The modules of interest that are loaded or built in."""
    if not folder_exists(evidence, "sys/module"):
        return NOT_CAPTURED
    found = {}
    for name in MODULES:
        if folder_exists(evidence, f"sys/module/{name}"):
            version = text_of(evidence, f"sys/module/{name}/version")
            parameters = _parameters(evidence, name)
            lists_all = evidence.kind != "attachments" or _is_whole(parameters)
            found[name] = Module(name, parameters, None if isinstance(version, Unknown) else version, lists_all)
    return found


def _is_whole(parameters: Mapping[str, str]) -> bool:
    """Whether a paste lists all parameters of amdgpu: not a few that somebody picked, nor the first ones alone.

    It has more in every kernel since 2016, and some behind pcie_p2p in their order.
    """
    return len(parameters) >= _FEWEST_PARAMETERS and max(parameters) > "pcie_p2p"


def _parameters(evidence: Evidence, module: str) -> dict[str, str]:
    """The parameters by name; one that may not be read has an empty value."""
    try:
        folder = evidence.directory(f"sys/module/{module}/parameters")
    except Unreadable:
        return {}
    try:
        names = folder.names()
        # Which exist tells how the driver was built; the value matters for one alone.
        values = dict.fromkeys(names, "")
        if "pcie_p2p" in values:
            text = attribute(folder, "pcie_p2p")
            values["pcie_p2p"] = "" if isinstance(text, Unknown) else text
        return values
    except Unreadable:
        return {}
    finally:
        folder.close()


def read_cpu(evidence: Evidence) -> Cpu:
    """The processor, from /proc/cpuinfo."""
    try:
        return parse_cpuinfo(evidence.read("proc/cpuinfo", _CPUINFO_LIMIT).decode("utf-8", "replace"))
    except Unreadable as error:
        why = unknown_from(error)
        return Cpu(why, why, why, why, why, why, why)


def read_firmware(evidence: Evidence) -> Firmware:
    """DMI strings; the files with serial numbers and UUIDs are never opened."""
    values = [text_of(evidence, f"sys/class/dmi/id/{name}") for name in (*_DMI, "chassis_type")]
    return Firmware(*values)


def read_memory_map(evidence: Evidence) -> MemoryMap:
    """The root buses' apertures and where memory ends, from /proc/iomem."""
    text = text_of(evidence, "proc/iomem")
    if isinstance(text, Unknown):
        return MemoryMap(text, text)
    return MemoryMap(parse_apertures(text), parse_memory_end(text))


def read_numa(evidence: Evidence) -> Numa:
    """Memory nodes that are online, and automatic balancing."""
    online = text_of(evidence, "sys/devices/system/node/online")
    return Numa(
        nodes=online if isinstance(online, Unknown) else parse_cpu_list(online),
        balancing=integer(text_of(evidence, "proc/sys/kernel/numa_balancing")),
    )


def read_iommu(evidence: Evidence) -> Iommu:
    """The remapping units in use.

    /sys/class/iommu is empty where the IOMMU is off, and absent in a kernel without one; in a tree its absence may also
    mean that nobody copied it, unless groups were copied and there are none.
    """
    try:
        return Iommu(tuple(evidence.names("sys/class/iommu")))
    except Unreadable as error:
        if error.problem == "missing" and evidence.whole:
            return Iommu(())
        return Iommu(unknown_from(error))
