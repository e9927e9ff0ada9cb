"""What can be changed while the host runs, and is lost at the next restart.

Only printed, with when not to do it, how to see that it worked, and how to make it last. Sources: Linux
include/uapi/linux/pci_regs.h (PCI_ACS_CTRL, PCI_EXP_LNKCTL, PCI_EXP_LNKCTL2), drivers/pci/pci.c pci_enable_acs,
Documentation/ABI/testing/sysfs-bus-pci (resourceN_resize), Documentation/ABI/testing/sysfs-kernel-iommu_groups,
Documentation/admin-guide/sysctl/kernel.rst (numa_balancing).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from hostdoctor import wording
from hostdoctor.bars import VramBar, vram_bar_of
from hostdoctor.drivers import with_memory
from hostdoctor.facts.pci import INTEL, Function
from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import Finding
from hostdoctor.parameters import passthrough
from hostdoctor.topology import Card, Segment
from hostdoctor.view import View

# Root ports of Intel's 100 and 200 series chipsets have their ACS control register elsewhere (drivers/pci/quirks.c
# pci_quirk_intel_spt_pch_acs_match); what setpci writes by the capability's layout does harm there.
_ACS_ELSEWHERE = (
    *range(0xA110, 0xA120), *range(0xA167, 0xA16B), *range(0xA290, 0xA2A0), *range(0xA2E7, 0xA2EF),
)  # fmt: skip
_GTS_CODES = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}


class RuntimeStep(msgspec.Struct, frozen=True):
    """One change.

    Attributes:
        title: what it does.
        because: the findings it is for.
        not_if: when it must not be done, each as a sentence.
        commands: lines for a root shell; those that begin with # say what to look at.
        check: how to see that it worked.
        lasting: how to make it last.
    """

    title: str
    because: tuple[str, ...]
    not_if: tuple[str, ...]
    commands: tuple[str, ...]
    check: str
    lasting: str


def runtime_steps(view: View, findings: Sequence[Finding]) -> tuple[RuntimeStep, ...]:
    """What these findings let one do at run time on this host; nothing in guests and containers."""
    environment = view.host.environment
    if environment.is_guest or environment.container:
        return ()
    return tuple(
        step
        for finding in findings
        if finding.outcome in ("failure", "warning") and finding.check in _STEPS
        for step in _STEPS[finding.check](view, finding)
    )


def _because(finding: Finding) -> tuple[str, ...]:
    return (" ".join((finding.check, *finding.subject)),)


def _functions(view: View, finding: Finding) -> list[Function]:
    return [view.topology.functions[address] for address in finding.subject if address in view.topology.functions]


# --- ACS --------------------------------------------------------------------------------------------------------------


def _acs(view: View, finding: Finding) -> Iterator[RuntimeStep]:
    ports = _functions(view, finding)
    if view.uses_vfio or "acs-clear-redirect" not in finding.remedies:
        return
    usual = [each for each in ports if not (each.vendor == INTEL and each.device in _ACS_ELSEWHERE)]
    if not usual:
        return
    commands = []
    for port in usual:
        commands += [
            f"lspci -n -s {port.address}    # must say {port.id}, else stop",
            f"setpci -s {port.address} ECAP_ACS+6.w",
            f"setpci -s {port.address} ECAP_ACS+6.w=0000:002c",
            f"setpci -s {port.address} ECAP_ACS+6.w    # bits 04, 08 and 20 must be 0: some switches ignore the write",
        ]
    yield RuntimeStep(
        "Clear ACS redirect (request, completion, egress control) on the ports between the GPUs",
        _because(finding),
        (
            "Not while a guest uses any device below these ports, and not with untrusted devices there: the IOMMU groups "
            "still claim an isolation that is then gone.",
            "Under Secure Boot the kernel refuses such writes (lockdown); then only the kernel parameter helps.",
        ),
        tuple(commands),
        "ReqRedir-, CmpltRedir- and EgressCtrl- in lspci -vvv; hostdoctor scan --check acs-redirect",
        "pci=disable_acs_redir= or pci=config_acs= on the kernel command line, see hostdoctor fix. Resets, hot-plug and resume "
        "set the bits again.",
    )


# --- links ------------------------------------------------------------------------------------------------------------


def _retrain(view: View, finding: Finding) -> Iterator[RuntimeStep]:
    card = next((each for each in view.cards if each.gpu.address in finding.subject), None)
    if card is None or not isinstance(card.slot, Segment) or finding.outcome != "failure":
        return
    speed = card.slot.max_speed_gts
    code = None if isinstance(speed, Unknown) else _GTS_CODES.get(speed)
    if code is None:
        return
    yield RuntimeStep(
        f"Train the link below {card.slot.upper.address} again at up to {speed:g} GT/s",
        _because(finding),
        (
            f"Only with no driver bound to {_bound(card)}, and nothing else below the port in use: the link goes down for a "
            "moment.",
            "A link that trains low again has a fault that no command mends: riser, contact, slot or firmware.",
        ),
        (
            f"setpci -s {card.slot.lower.address} CAP_EXP+30.w={code:04x}:000f",
            f"setpci -s {card.slot.upper.address} CAP_EXP+30.w={code:04x}:000f",
            f"setpci -s {card.slot.upper.address} CAP_EXP+10.w=0020:0020",
            f"setpci -s {card.slot.upper.address} CAP_EXP+12.w    # bits 3:0 speed ({code} is {speed:g} GT/s), bits 9:4 width",
        ),
        "hostdoctor scan --check 'link-*' with the GPU at work",
        "nothing should: a link trains at its best by itself at power-on, and one that does not wants to be looked at",
    )


def _bound(card: Card) -> str:
    return card.gpu.address if not card.has_own_switch else f"{card.gpu.address} and its other functions"


# --- BARs -------------------------------------------------------------------------------------------------------------


def _resize(view: View, finding: Finding) -> Iterator[RuntimeStep]:
    for gpu in _functions(view, finding):
        facts = with_memory(view.host, gpu)
        bar = vram_bar_of(gpu, facts)
        if isinstance(bar, Unknown) or isinstance(bar.largest_bytes, Unknown) or bar.largest_bytes <= bar.size_bytes:
            continue
        yield _resize_step(finding, gpu, bar, _wanted_size(bar))


def _wanted_size(bar: VramBar) -> int:
    largest = bar.size_bytes if isinstance(bar.largest_bytes, Unknown) else bar.largest_bytes
    return min(largest, bar.wanted_bytes) if bar.wanted_bytes > bar.size_bytes else largest


def _resize_step(finding: Finding, gpu: Function, bar: VramBar, size: int) -> RuntimeStep:
    folder = f"/sys/bus/pci/devices/{gpu.address}"
    driver = gpu.driver if isinstance(gpu.driver, str) else "DRIVER"
    bit = (size >> 20).bit_length() - 1
    return RuntimeStep(
        f"Make BAR {bar.index} of {gpu.address} {wording.size(size)} large",
        _because(finding),
        (
            "Not on the GPU that shows the console: it goes dark.",
            "Where the bridge above has no room it answers ENOSPC, and the BAR can be left without an address until a restart.",
        ),
        (
            f"cat {folder}/resource{bar.index}_resize    # bit {bit} must be set: {wording.size(size)}",
            f"echo {gpu.address} > /sys/bus/pci/drivers/{driver}/unbind",
            f"echo {bit} > {folder}/resource{bar.index}_resize",
            f"echo {gpu.address} > /sys/bus/pci/drivers/{driver}/bind",
        ),
        "hostdoctor scan --check bar-size",
        "Resizable BAR and Above 4G Decoding in the firmware; see hostdoctor fix --firmware",
    )


# --- the rest ---------------------------------------------------------------------------------------------------------


def _group_type(view: View, finding: Finding) -> Iterator[RuntimeStep]:
    if "iommu-passthrough" not in finding.remedies:
        return
    for gpu in _functions(view, finding):
        if not isinstance(gpu.iommu_group, str):
            continue
        group = f"/sys/kernel/iommu_groups/{gpu.iommu_group}"
        yield RuntimeStep(
            f"Put the IOMMU group of {gpu.address} into passthrough (identity)",
            _because(finding),
            (
                "Only with no driver bound to any device of the group, else the kernel answers EBUSY.",
                "Not while a guest uses a device of the group.",
            ),
            (
                f"ls {group}/devices    # each of these must be without a driver",
                f"echo identity > {group}/type",
                f"cat {group}/type",
            ),
            "hostdoctor scan --check iommu-mode",
            f"{passthrough(view.host)} on the kernel command line, see hostdoctor fix",
        )


def _numa_balancing(_view: View, finding: Finding) -> Iterator[RuntimeStep]:
    yield RuntimeStep(
        "Switch automatic NUMA balancing off",
        _because(finding),
        ("Programs that rely on it to move their memory to their processors become slower.",),
        ("sysctl -w kernel.numa_balancing=0",),
        "hostdoctor scan --check numa-balancing",
        "echo 'kernel.numa_balancing = 0' > /etc/sysctl.d/90-hostdoctor.conf",
    )


_STEPS: Mapping[str, Callable[[View, Finding], Iterator[RuntimeStep]]] = {
    "acs-redirect": _acs,
    "link-speed": _retrain,
    "bar-size": _resize,
    "iommu-mode": _group_type,
    "numa-balancing": _numa_balancing,
}
