"""What kernel parameters are about: whether two lines ask for the same, and which differences between lines matter."""

from __future__ import annotations

from collections.abc import Iterable

from hostdoctor import knowledge
from hostdoctor.facts.boot_files import Parameter
from hostdoctor.facts.host import Cpu, Host
from hostdoctor.facts.unknown import Unknown

_OF_X86 = ("dmar", "ivhd")  # how units of Intel's and AMD's IOMMU are called in /sys/class/iommu
_WITHOUT_EFFECT = ("no-such-value", "no-such-option", "inert", "wrong-vendor")


def meanings(parameter: Parameter) -> frozenset[str]:
    """What a parameter asks for, in one spelling: each element of a list by itself, and one name for each setting."""
    table = knowledge.load_kernel_parameters()
    described = table.by_name.get(parameter.key)
    if described is None:
        return frozenset((parameter.key if parameter.value is None else f"{parameter.key}={parameter.value}",))
    found = [f"{parameter.key}={described.meaning(each)}" for each in described.elements(parameter.value or "")]
    ways = {
        token: f"{number}:{way}"
        for number, setting in enumerate(table.setting)
        for way, all_ in setting.ways.items()
        for token in all_
    }
    return frozenset(ways.get(each, each) for each in found) or frozenset((parameter.key,))


def all_meanings(parameters: Iterable[Parameter]) -> frozenset[str]:
    """What several parameters ask for together."""
    return frozenset().union(*map(meanings, parameters))


def is_of_boot_process(parameter: Parameter) -> bool:
    """Whether the boot process or an installer gives it, so that a difference says nothing."""
    groups = knowledge.load_kernel_parameters().boot_process
    return any(group.hold(parameter.key, parameter.text) for group in groups) or parameter.name.isdecimal()


def is_of_field(parameter: Parameter) -> bool:
    """Whether it is of this tool's field: IOMMU, PCI, GPU drivers, and memory and processors set aside."""
    table = knowledge.load_kernel_parameters()
    return any(group.hold(parameter.key, "") for group in table.of_field) or parameter.key in table.known_names


def does_nothing(parameter: Parameter, cpu: Cpu) -> bool:
    """Whether the rules say that all of it is without effect, whatever the kernel."""
    table = knowledge.load_kernel_parameters()
    vendor = "amd" if cpu.is_amd else "intel" if cpu.is_intel else ""
    rules = [
        rule
        for rule in table.rule
        if rule.parameter == parameter.key
        and rule.kind in _WITHOUT_EFFECT
        and not (rule.release_has or rule.release_lacks or rule.gpu_ids or rule.true_in or rule.cpu_family_min)
        and (not vendor or rule.cpu_vendor in ("", vendor))
    ]
    described = table.by_name.get(parameter.key)
    elements = described.elements(parameter.value or "") if described else (parameter.value or "",)
    return bool(rules) and all(any(rule.matches(element) for rule in rules) for element in elements)


def passthrough(host: Host) -> str:
    """What makes passthrough the default: iommu= is of x86 alone (arch/x86/kernel/pci-dma.c), elsewhere it does nothing."""
    units, release = host.iommu.units, host.boot.release
    if not isinstance(units, Unknown) and units and not any(unit.startswith(_OF_X86) for unit in units):
        return "iommu.passthrough=1"
    is_arm = not isinstance(release, Unknown) and release.endswith(("aarch64", "arm64"))
    return "iommu.passthrough=1" if is_arm else "iommu=pt"
