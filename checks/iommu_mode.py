"""The domain type in force for each GPU, and whether it suits the GPU."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from hostdoctor import knowledge, logged, p2p, wording
from hostdoctor.facts.log import LogEvent
from hostdoctor.facts.pci import ATI, NVIDIA, Function
from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import Check, Evidence, Finding, Outcome, unjudged
from hostdoctor.parameters import passthrough
from hostdoctor.view import View

ID = "iommu-mode"

_MEANING = {
    "identity": "passed through",
    "DMA": "translated, strict",
    "DMA-FQ": "translated",
    "blocked": "blocked",
    "unmanaged": "managed by a user of VFIO",
}


def judge(view: View) -> Iterator[Finding]:
    """One finding a GPU."""
    for gpu in view.gpus:
        finding = _judge_gpu(view, gpu)
        faults = _faults(view, gpu)
        yield _with_faults(view, gpu, finding, faults) if faults else finding


def _faults(view: View, gpu: Function) -> list[LogEvent]:
    """What the IOMMU blocked of it, which proves that it translates: what passes through is not looked at."""
    log = view.host.log
    if log is None or gpu.iommu_type == "identity":
        return []
    return [event for event in log.about(gpu.address, "iommu-fault") if not event.boots_ago]


def _with_faults(view: View, gpu: Function, finding: Finding, faults: list[LogEvent]) -> Finding:
    """The finding on a GPU whose accesses the IOMMU blocked; see iommu-faults for each of them."""
    evidence = (*finding.evidence, *logged.evidence(faults))
    peers = [other for other in view.gpus_of(gpu.vendor) if other is not gpu] if gpu in view.gpus_of(gpu.vendor) else []
    harmed = bool(peers) if gpu.vendor == NVIDIA else "iommu-passthrough" in finding.remedies
    if not harmed:
        title = "translated, and the IOMMU blocked accesses of this GPU: see iommu-faults"
        outcome: Outcome = "info" if finding.outcome == "ok" else finding.outcome
        return msgspec.structs.replace(finding, outcome=outcome, title=title, evidence=evidence)
    return Finding(
        ID,
        "failure",
        (gpu.address,),
        f"translated, and the IOMMU blocked {sum(event.count for event in faults):,} accesses of this GPU",
        "What it blocked is lost, so copies between GPUs fail or hold wrong data. Passed through, the GPUs' accesses are not "
        "translated.",
        "likely",
        evidence,
        remedies=("iommu-translate-until-moved",) if view.rests_on_translation else ("iommu-passthrough",),
        next=_next(view),
    )


def _judge_gpu(view: View, gpu: Function) -> Finding:
    subject, mode = (gpu.address,), gpu.iommu_type
    if isinstance(mode, Unknown):
        return _not_known(view, gpu, mode)
    if mode is None:
        return _without_group(view, gpu)
    evidence = (Evidence(gpu.source("iommu_group/type"), mode or "empty"),)
    if mode not in _MEANING:
        return unjudged(ID, subject, "IOMMU mode", Unknown("the kernel names no mode that this tool knows"), evidence)
    if mode not in p2p.TRANSLATED:
        return Finding(ID, "ok", subject, f"{mode} ({_MEANING[mode]})", evidence=evidence)
    if gpu.vendor == NVIDIA:
        return _translated_nvidia(view, gpu, mode, evidence)
    amd = p2p.candidates(view, ATI)
    if gpu in amd and len(amd) > 1:
        return _translated_amd(view, gpu, mode, evidence)
    return Finding(ID, "ok", subject, f"{mode} (translated), which is in no GPU's way here", evidence=evidence)


def _not_known(view: View, gpu: Function, why: Unknown) -> Finding:
    """The log's default is shown, but it is not what each GPU got (AMD's IOMMU passes some GPUs through all the same)."""
    log = view.host.log
    defaults = logged.of_last_boot(log, "iommu-default") if log else []
    help_ = why.help or "cat /sys/bus/pci/devices/*/iommu_group/type tells what each got" if defaults else why.help
    return unjudged(ID, (gpu.address,), "IOMMU mode", Unknown(why.reason, help_), logged.evidence(defaults))


def _without_group(view: View, gpu: Function) -> Finding:
    units = view.host.iommu.units
    if isinstance(units, Unknown):
        return unjudged(ID, (gpu.address,), "IOMMU mode", units)
    if units:
        title = "no IOMMU group, although the IOMMU is on: it does not cover this GPU"
        return Finding(ID, "ok", (gpu.address,), title, evidence=(Evidence("/sys/class/iommu", ", ".join(units)),))
    return Finding(ID, "ok", (gpu.address,), "the IOMMU is off", evidence=(Evidence("/sys/class/iommu", "empty"),))


def _translated_nvidia(view: View, gpu: Function, mode: str, evidence: tuple[Evidence, ...]) -> Finding:
    """Peers that may do P2P: another GPU of the same chip, both of a product the stock driver does not refuse."""
    subject = (gpu.address,)
    at_work = [other for other in view.nvidia_gpus if other.driver != "nouveau"]  # nouveau does no compute, so no copies
    others = [other for other in at_work if other is not gpu] if gpu in at_work else []
    answers = {other.address: _may_do_p2p(gpu, other) for other in others}
    peers = [other for other in others if answers[other.address]]
    if not peers and None in answers.values():
        title = f"{mode} (translated); whether these GPUs do PCIe P2P is not known, so whether that suits it is not judged"
        help_ = "nvidia-smi topo -p2p r tells what the driver allows"
        return Finding(ID, "unknown", subject, title, evidence=evidence, help=help_)
    if not peers:
        title = f"{mode} (translated); there is no PCIe P2P here for it to stand in the way of"
        return Finding(ID, "ok", subject, title, evidence=evidence)
    names = wording.listed(sorted({gpu.address, *(peer.address for peer in peers)}), 8)
    return Finding(
        ID,
        "warning",
        subject,
        f"{mode} (translated), which NVIDIA does not support for P2P on bare metal",
        f"Copies between {names} can be slow, hang or lose data while the IOMMU translates them; NVIDIA "
        "asks for iommu=pt. The stock open module is aware of the IOMMU, so it may work: only a copy whose data is "
        "compared tells.",
        "likely",
        evidence,
        remedies=("iommu-translate-until-moved",) if view.rests_on_translation else ("iommu-passthrough",),
        next=_next(view),
    )


def _next(view: View) -> str:
    """iommu=pt acts on every device, so it waits where AMD GPUs still need the translation."""
    if view.rests_on_translation:
        return "first move the AMD GPUs' BARs within reach (see bar-reach): iommu=pt would end their P2P now"
    return f"add {passthrough(view.host)} to the kernel command line"


def _may_do_p2p(gpu: Function, other: Function) -> bool | None:
    """Whether the stock driver does PCIe P2P between two GPUs; None where the tables do not say."""
    policies = {p2p.pcie_p2p_policy(gpu), p2p.pcie_p2p_policy(other)}
    same = p2p.same_nvidia_chip(gpu, other)
    if same is False or policies & {"refused", "none"}:
        return False
    return True if same and policies == {"allowed"} else None


def _translated_amd(view: View, gpu: Function, mode: str, evidence: tuple[Evidence, ...]) -> Finding:
    subject = (gpu.address,)
    if p2p.p2p_switched_on(view).state == "fails":
        title = f"{mode} (translated); the kernel or driver does no P2P here, so nothing depends on it yet"
        return Finding(ID, "ok", subject, title, evidence=evidence)
    if view.crowd is not None:
        return unjudged(ID, subject, "what P2P asks of the IOMMU is", view.crowd, evidence)
    reaches = [reach for pair, reach in view.amd_reaches.items() if gpu.address in pair]
    if not reaches:
        title = f"{mode} (translated); XGMI joins these GPUs, whatever the IOMMU does"
        return Finding(ID, "ok", subject, title, evidence=evidence)
    beyond = [each for each in reaches if "beyond" in each.text]
    if any(each.state == "unknown" for each in reaches):
        title = f"{mode} (translated); where the BARs lie is not known, so whether that suits P2P is not judged"
        return Finding(ID, "unknown", subject, title, evidence=evidence)
    if any(each.state == "holds" for each in beyond):
        return Finding(
            ID,
            "info",
            subject,
            f"{mode} (translated), and P2P depends on it: a BAR lies out of reach and only the IOMMU maps it",
            "Passing the GPUs through would end P2P here until the firmware places the BARs lower.",
            evidence=(*evidence, *beyond[0].evidence),
            remedies=("iommu-translate-until-moved",),
            next="leave the IOMMU as it is until the BARs lie within reach",
        )
    if beyond:
        return Finding(
            ID,
            "info",
            subject,
            f"{mode} (translated); iommu=pt is the second step",
            "It does not cure the BARs that lie out of reach, which nothing maps for every GPU here. Once they lie "
            "within reach, iommu=pt costs nothing, and RCCL and ROCm's installation notes ask for it.",
            evidence=evidence,
            remedies=("iommu-passthrough",),
            next=f"first move the BARs (see bar-reach), then add {passthrough(view.host)} to the kernel command line",
        )
    if view.rests_on_translation:
        title = f"{mode} (translated), and P2P of other GPUs here depends on it"
        explanation = "iommu=pt would cost this GPU nothing, but it acts on all, and ends P2P to BARs that only the IOMMU maps."
        return Finding(ID, "info", subject, title, explanation, evidence=evidence, remedies=("iommu-translate-until-moved",))
    return _translated_within_reach(view, gpu, mode, evidence)


def _translated_within_reach(view: View, gpu: Function, mode: str, evidence: tuple[Evidence, ...]) -> Finding:
    instinct = any(product.instinct for product in knowledge.gpus_by_id(gpu.id))
    return Finding(
        ID,
        "warning" if instinct else "info",
        (gpu.address,),
        f"{mode} (translated); {'AMD asks for iommu=pt on Instinct' if instinct else 'iommu=pt would cost nothing'}",
        "Every BAR is within every GPU's reach, so P2P does not need the translation, and RCCL and ROCm's installation "
        "notes ask for iommu=pt where several GPUs work together.",
        "likely" if instinct else "certain",
        evidence,
        remedies=("iommu-passthrough",),
        next=f"add {passthrough(view.host)} to the kernel command line",
    )


CHECK = Check(
    id=ID,
    subject="GPU",
    summary="The IOMMU mode each GPU really has, and whether it suits P2P.",
    looks_at="The type of each GPU's IOMMU group, the remapping units in use, the GPUs' BARs and address masks, the "
    "kernel version, and what the IOMMU blocked by the kernel's log.",
    why="A translating IOMMU can make peer copies slow or wrong on NVIDIA, and is the only way to P2P on AMD GPUs whose "
    "BARs lie out of reach; the kernel command line does not tell which mode a device got.",
    decides="By the group's type, GPU by GPU. A failure where the log shows that the IOMMU blocked accesses of one of several "
    "GPUs which iommu=pt would let pass. One GPU, or GPUs that do no PCIe P2P by design: ok. NVIDIA GPUs that may do "
    "P2P with each other, translated: warning. AMD GPUs, translated, every BAR within reach: info (Instinct: warning), "
    "iommu=pt is offered. A BAR out of reach on a kernel from 6.12 on: info, and iommu=pt is not offered, since the "
    "translation carries P2P; on an older kernel iommu=pt is the second step after the firmware change.",
    sources=(
        "Linux Documentation/ABI/testing/sysfs-kernel-iommu_groups: the type of a group",
        "Linux drivers/gpu/drm/amd/amdgpu/amdgpu_device.c amdgpu_device_check_iommu_remap (6.12 and later)",
        "NVIDIA, PCIe multi-GPU systems: peer copies with the IOMMU enabled are not supported on bare metal",
        "AMD, ROCm documentation, conceptual/iommu; RCCL src/init.cc asks for iommu=pt",
    ),
    judge=judge,
    remedies=("iommu-passthrough", "iommu-translate-until-moved"),
)
