"""Accesses that the IOMMU has blocked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hostdoctor import logged
from hostdoctor.facts.log import KernelLog, LogEvent
from hostdoctor.facts.pci import NVIDIA, Function
from hostdoctor.facts.unknown import Unknown, known
from hostdoctor.findings import Check, Evidence, Finding, unjudged
from hostdoctor.view import View

ID = "iommu-faults"

_FAULT, _OTHER, _STUCK = "iommu-fault", "iommu-other", "iommu-stuck"
# Interrupts that are not remapped are no memory accesses, and some boards' firmware causes a few.
_INTERRUPTS = "INTR-REMAP"
# One or two come with a reset or with the end of a driver; from here on somebody goes on asking.
_REPEATED = 3


def judge(view: View) -> Iterator[Finding]:
    """One finding for each function with faults, or one for all."""
    log = view.host.log
    if log is None:
        if view.gpus or isinstance(view.host.functions, Unknown):
            yield unjudged(ID, (), "IOMMU faults", logged.NO_LOG)
        return
    found, few = [], []
    for address, events in logged.by_address(log.of(_FAULT, _OTHER, _STUCK)).items():
        now = [event for event in events if not event.boots_ago] or events
        blocked = [event for event in now if event.kind == _FAULT or event.details.get("event", _INTERRUPTS) != _INTERRUPTS]
        if blocked and logged.is_gpu(view, address) and not _belongs_to_a_guest(view, address):
            found.append(_by_gpu(view, address, blocked))
        elif sum(event.count for event in now) >= _REPEATED:
            found.append(_by_other(view, address, now))
        else:
            few += now
    yield from found
    if not found:
        yield _quiet(log, few)


def _quiet(log: KernelLog, few: Sequence[LogEvent]) -> Finding:
    if few:
        who = ", ".join(dict.fromkeys(event.address or "a device that it does not name" for event in few))
        title = f"no GPU has faulted in the log; {who} did, and not again"
        return Finding(ID, "ok", (), title, evidence=logged.evidence(few))
    if not log.from_boot:
        return unjudged(ID, (), "IOMMU faults", logged.NOT_FROM_BOOT)
    return Finding(ID, "ok", (), "no IOMMU faults in the log since boot")


def _belongs_to_a_guest(view: View, address: str) -> bool:
    function = logged.function_at(view, address)
    driver = view.host.log.drivers.get(address) if view.host.log else ""
    return driver == "vfio-pci" or (function is not None and function.driver == "vfio-pci")


def _by_gpu(view: View, address: str, events: Sequence[LogEvent]) -> Finding:
    earlier = all(event.boots_ago for event in events)
    number = sum(event.count for event in events)
    peer = _peer_reached(view, address, events)
    where = f" The addresses lie in a BAR of {peer.address}: these are accesses of one GPU to the other." if peer else ""
    function = logged.function_at(view, address)
    is_nvidia = function.vendor == NVIDIA if function else "nvidia" in _speakers(view, address)
    several = is_nvidia and len(view.nvidia_gpus) > 1
    offered = several and not view.rests_on_translation
    return Finding(
        ID,
        "warning" if earlier else "failure",
        (address,),
        f"the IOMMU blocked accesses of the GPU {address}, {number:,} of them in the log",
        "The GPU used addresses that are not mapped for it, so the IOMMU translates here and what it wrote there is lost. "
        f"Copies fail or return wrong data although every table says that peers have access.{where}"
        f"{logged.EARLIER if earlier else ''}",
        "likely" if earlier else "certain",
        (*logged.evidence(events), *_addresses(events)),
        remedies=("iommu-passthrough",) if offered else (),
        next=_next(offered, is_nvidia),
    )


def _next(offered: bool, is_nvidia: bool) -> str:
    if offered:
        return "add iommu=pt to the kernel command line, as NVIDIA asks for where GPUs copy to each other on bare metal"
    if is_nvidia:
        return "update the driver; where several GPUs copy to each other on bare metal, NVIDIA asks for iommu=pt"
    return "see bar-reach: addresses cut short to what a GPU can reach fault like this; else update firmware and driver"


def _speakers(view: View, address: str) -> set[str]:
    log = view.host.log
    if log is None:
        return set()
    by_kind = {"nvidia" for event in log.about(address) if event.kind == "xid" or event.kind.startswith("nvidia-")}
    return by_kind | {log.drivers.get(address, "")} | {event.details.get("driver", "") for event in log.about(address)}


def _addresses(events: Sequence[LogEvent]) -> tuple[Evidence, ...]:
    return tuple(Evidence(event.source, f"addresses {event.details['iova']}") for event in events if "iova" in event.details)[
        :1
    ]


def _peer_reached(view: View, address: str, events: Sequence[LogEvent]) -> Function | None:
    """Another GPU in whose BAR a blocked address lies."""
    for event in events:
        for text in event.details.get("iova", "").split(", "):
            blocked = int(text, 16) if text else -1
            others = (gpu for gpu in view.gpus if gpu.address != address)
            if reached := next((gpu for gpu in others if _holds(gpu, blocked)), None):
                return reached
    return None


def _holds(gpu: Function, address: int) -> bool:
    return any(bar.assigned and bar.address <= address <= bar.end for bar in known(gpu.bars, ()))


def _by_other(view: View, address: str, events: Sequence[LogEvent]) -> Finding:
    name = logged.name(view, address) if address else "a device that the log does not name"
    if all(event.kind == _STUCK for event in events):
        title = "the IOMMU waits for a device that does not answer"
        explanation = "It could not complete its own commands: a device hangs or is gone, and others wait with it."
    else:
        number = sum(event.count for event in events)
        title = f"the IOMMU blocked {number:,} accesses of {name}"
        explanation = "The device, its driver or the firmware uses addresses that are not mapped for it. No GPU is concerned."
    return Finding(
        ID,
        "warning",
        logged.subject(address),
        title,
        explanation,
        "likely",
        logged.evidence(events),
        next="update the firmware of the board and of the device, and its driver",
    )


CHECK = Check(
    id=ID,
    subject="function",
    summary="The IOMMU has blocked no accesses, above all none of GPUs.",
    looks_at="Faults of the IOMMU in the kernel's log: AMD-Vi's IO_PAGE_FAULT and its other events, DMAR faults, events of "
    "Arm's SMMU.",
    why="What the IOMMU blocks is lost: a copy between GPUs can report success and hold other data.",
    decides="A failure for faults by a GPU, a warning where another device faults "
    f"{_REPEATED} times or more, or where they are of an earlier boot; ok where the log begins with the boot and has none; "
    "unknown without a log, or with one that begins later. GPUs that are handed to guests count as other devices.",
    sources=(
        "Linux drivers/iommu/amd/iommu.c iommu_print_event, amd_iommu_report_page_fault",
        "Linux drivers/iommu/intel/dmar.c dmar_fault_do_one",
        "Linux drivers/iommu/arm/arm-smmu-v3/arm-smmu-v3.c arm_smmu_print_event",
    ),
    judge=judge,
    remedies=("iommu-passthrough",),
    nothing="no discrete GPU here, and no kernel log",
    needs_pci=False,
)
