"""Whether each GPU's memory BAR holds all of its memory."""

from __future__ import annotations

from collections.abc import Iterator

from hostdoctor import drivers, wording
from hostdoctor.bars import VramBar, vram_bar_of
from hostdoctor.facts.host import Host
from hostdoctor.facts.pci import Function
from hostdoctor.facts.unknown import ASLEEP, Unknown
from hostdoctor.findings import Check, Cost, Evidence, Finding, Outcome, unjudged
from hostdoctor.view import View

ID = "bar-size"


def judge(view: View) -> Iterator[Finding]:
    """One finding a GPU."""
    for gpu in view.gpus:
        bar = vram_bar_of(gpu, drivers.with_memory(view.host, gpu))
        if isinstance(bar, Unknown):
            yield unjudged(ID, (gpu.address,), "BAR size", bar)
        else:
            yield _judge_bar(view.host, gpu, bar)


def _judge_bar(host: Host, gpu: Function, bar: VramBar) -> Finding:
    subject = (gpu.address,)
    evidence: tuple[Evidence, ...] = (Evidence(gpu.source("resource"), f"BAR{bar.index} {wording.size(bar.size_bytes)}"),)
    if bar.exact:
        memory, source = drivers.memory_bytes(host, gpu)
        evidence += (Evidence(source, f"{memory}"),)
    if bar.is_small is False:
        return Finding(ID, "ok", subject, f"BAR{bar.index} holds all of the GPU's memory", evidence=evidence)
    if isinstance(bar.largest_bytes, Unknown):
        return _size_choice_unknown(gpu, bar, bar.largest_bytes, evidence)
    largest = bar.largest_bytes
    offered = (Evidence(gpu.source(f"resource{bar.index}_resize"), f"up to {wording.size(largest)}"),)
    if not largest:
        offered = (Evidence(gpu.source("config"), f"no other size for BAR{bar.index} (no Resizable BAR capability)"),)
    if bar.is_small is None:
        title = f"BAR{bar.index} of {wording.size(bar.size_bytes)} may hold all of the GPU's memory"
        why = "How much memory this board has is not known."
        return Finding(ID, "unknown", subject, title, why, evidence=(*evidence, *offered))
    if largest > bar.size_bytes:
        return _can_be_larger(gpu, bar, largest, (*evidence, *offered))
    return Finding(
        ID,
        "info",
        subject,
        f"BAR{bar.index} is {wording.size(bar.size_bytes)}, the largest the card offers, and smaller than its memory",
        "A limit of the card or of its own firmware (VBIOS): nothing on the host changes it.",
        evidence=(*evidence, *offered),
    )


def _size_choice_unknown(gpu: Function, bar: VramBar, why: Unknown, evidence: tuple[Evidence, ...]) -> Finding:
    memory = "" if isinstance(bar.vram_bytes, Unknown) else f", the GPU has {wording.size(bar.vram_bytes[0])} or so"
    title = f"BAR{bar.index} is {wording.size(bar.size_bytes)}{memory}; what sizes it can take is not known"
    # That it is small is a fact worth knowing; whether that can be changed stays open, and of a sleeping card it is found out.
    outcome: Outcome = "info" if bar.is_small and why != ASLEEP else "unknown"
    return Finding(ID, outcome, (gpu.address,), title, f"{why.reason}.", evidence=evidence, help=why.help)


def _can_be_larger(gpu: Function, bar: VramBar, largest: int, evidence: tuple[Evidence, ...]) -> Finding:
    return Finding(
        ID,
        "warning",
        (gpu.address,),
        f"BAR{bar.index} is {wording.size(bar.size_bytes)}, although the card offers up to {wording.size(largest)}",
        "Resizable BAR is not in force, so the host and other GPUs reach the GPU's memory through a small window; "
        "amdgpu allows no P2P to such a GPU.",
        evidence=evidence,
        cost=Cost("host access to GPU memory in pieces, and no P2P to it on AMD"),
        remedies=("firmware-resizable-bar", "firmware-above-4g-decoding"),
        next='in the firmware, switch on "Above 4G Decoding" and "Resizable BAR" (Re-Size BAR, Smart Access Memory)',
    )


CHECK = Check(
    id=ID,
    subject="GPU",
    summary="The memory BAR of each GPU is at least as large as its memory.",
    looks_at="The size of the memory BAR (0 on AMD, 1 on NVIDIA, 2 on Intel), the sizes the card offers, and the memory "
    "the driver reports or the product has.",
    why="amdgpu allows P2P only to a GPU all of whose memory shows in its BAR, and host access is faster that way.",
    decides="Ok where the BAR holds all memory (a 24 GiB card then has a BAR of 32 GiB: sizes are powers of two). A "
    "warning where it is smaller and the card offers more; info where it is the largest the card offers, or where only the "
    "sizes on offer are not known.",
    sources=(
        "Linux drivers/gpu/drm/amd/amdgpu/amdgpu_device.c amdgpu_device_resize_fb_bar, amdgpu_gmc.c",
        "PCI Express Base Specification 6.0, 7.8.6 Resizable BAR Extended Capability",
        "Linux Documentation/ABI/testing/sysfs-bus-pci resourceN_resize",
    ),
    judge=judge,
    remedies=("firmware-resizable-bar", "firmware-above-4g-decoding"),
)
