"""Whether each GPU's memory BAR holds all of its memory."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from hostdoctor import drivers, wording
from hostdoctor.bars import VramBar, driver_bar, vram_bar_of
from hostdoctor.facts.host import Host
from hostdoctor.facts.pci import ATI, Function, RefusedSize
from hostdoctor.facts.unknown import ASLEEP, NOT_CAPTURED, Unknown, known
from hostdoctor.findings import Check, Cost, Evidence, Finding, Outcome, unjudged
from hostdoctor.view import View

ID = "bar-size"

_RESIZES = "EnableResizableBar"  # as /proc/driver/nvidia/params names it
_NO_P2P = "; amdgpu allows no P2P to such a GPU"


def judge(view: View) -> Iterator[Finding]:
    """One finding a GPU."""
    for gpu in view.gpus:
        bar = vram_bar_of(gpu, drivers.with_memory(view.host, gpu))
        if not isinstance(bar, Unknown):
            yield _judge_bar(view.host, gpu, bar)
        elif isinstance(gpu.bars, Unknown) and (told := _told(view.host, gpu)):
            yield _judge_told(view, gpu, told)
        else:
            yield unjudged(ID, (gpu.address,), "BAR size", bar)


class _Told(msgspec.Struct, frozen=True):
    """BAR1 and memory of a GPU as NVIDIA's driver tells them, where PCI's own facts are missing."""

    bar: VramBar
    memory_bytes: int
    name: str
    source: str

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        sizes = f"BAR1 {wording.size(self.bar.size_bytes)}, memory {wording.size(self.memory_bytes)}"
        return (Evidence(self.source, sizes),)


def _told(host: Host, gpu: Function) -> _Told | None:
    nvidia = drivers.nvml_gpu(host, gpu)
    if nvidia is None or isinstance(nvidia.bar1_bytes, Unknown) or isinstance(nvidia.memory_bytes, Unknown):
        return None
    bar = driver_bar(nvidia.bar1_bytes, nvidia.memory_bytes)
    return _Told(bar, nvidia.memory_bytes, known(nvidia.name, ""), nvidia.origin or "NVML")


def _judge_told(view: View, gpu: Function, told: _Told) -> Finding:
    if told.bar.is_small is False:
        return Finding(ID, "ok", (gpu.address,), "BAR1 holds all of the GPU's memory", evidence=told.evidence)
    larger = [(other, each) for other, each in _of_its_kind(view, gpu, told) if each.bar.size_bytes > told.bar.size_bytes]
    if not larger:
        return _size_choice_unknown(gpu, told.bar, told.evidence)
    other, best = max(larger, key=lambda each: each[1].bar.size_bytes)
    return Finding(
        ID,
        "warning",
        (gpu.address,),
        f"BAR1 is {wording.size(told.bar.size_bytes)}, although {other.address}, of the same kind, has "
        f"{wording.size(best.bar.size_bytes)}",
        f"The GPU has {wording.size(told.memory_bytes)}, so host and other GPUs reach its memory through a small window. Its "
        "neighbour shows that the card can do more: most likely there was no room for a larger BAR at its place.",
        "likely",
        (*told.evidence, *best.evidence),
        Cost("host access to GPU memory in pieces"),
        ("firmware-resizable-bar", "firmware-above-4g-decoding"),
        next="look in the kernel log for the BAR that found no space, and give 64-bit MMIO more room in the firmware",
    )


def _of_its_kind(view: View, gpu: Function, told: _Told) -> Iterator[tuple[Function, _Told]]:
    """The other GPUs with as much memory and the same id, or the same name where ids are not known."""
    for other in view.gpus:
        each = _told(view.host, other) if other is not gpu and other.id == gpu.id else None
        if each and each.memory_bytes == told.memory_bytes and each.name == told.name:
            yield other, each


def _judge_bar(host: Host, gpu: Function, bar: VramBar) -> Finding:
    subject = (gpu.address,)
    evidence: tuple[Evidence, ...] = (Evidence(bar.source, f"BAR{bar.index} {wording.size(bar.size_bytes)}"),)
    if bar.exact:
        memory, source = drivers.memory_bytes(host, gpu)
        evidence += (Evidence(source, f"{memory}"),)
    if bar.is_small is False:
        return Finding(ID, "ok", subject, f"BAR{bar.index} holds all of the GPU's memory", evidence=evidence)
    if bar.refused is not None:
        return _found_no_space(gpu, bar, bar.refused, evidence)
    if isinstance(bar.largest_bytes, Unknown):
        if bar.is_small and gpu.vendor == ATI and (windows := _windows_below_4_gib(host, gpu)):
            return _no_window_above_4_gib(gpu, bar, (*evidence, *windows))
        return _size_choice_unknown(gpu, bar, evidence)
    largest = bar.largest_bytes
    offered = (Evidence(gpu.source(f"resource{bar.index}_resize"), f"up to {wording.size(largest)}"),)
    if not largest:
        offered = (Evidence(gpu.source("config"), f"no other size for BAR{bar.index} (no Resizable BAR capability)"),)
    if bar.is_small is None:
        title = f"BAR{bar.index} of {wording.size(bar.size_bytes)} may hold all of the GPU's memory"
        why = "How much memory this board has is not known."
        return Finding(ID, "unknown", subject, title, why, evidence=(*evidence, *offered))
    if largest > bar.size_bytes:
        return _can_be_larger(host, gpu, bar, largest, (*evidence, *offered))
    return Finding(
        ID,
        "info",
        subject,
        f"BAR{bar.index} is {wording.size(bar.size_bytes)}, the largest the card offers, and smaller than its memory",
        "A limit of the card or of its own firmware (VBIOS): nothing on the host changes it.",
        evidence=(*evidence, *offered),
    )


def _size_choice_unknown(gpu: Function, bar: VramBar, evidence: tuple[Evidence, ...]) -> Finding:
    why = bar.largest_bytes if isinstance(bar.largest_bytes, Unknown) else NOT_CAPTURED
    memory = "" if isinstance(bar.vram_bytes, Unknown) else f", the GPU has {wording.size(bar.vram_bytes[0])} or so"
    title = f"BAR{bar.index} is {wording.size(bar.size_bytes)}{memory}; what sizes it can take is not known"
    # That it is small is a fact worth knowing; whether that can be changed stays open, and of a sleeping card it is found out.
    outcome: Outcome = "info" if bar.is_small and why != ASLEEP else "unknown"
    return Finding(ID, outcome, (gpu.address,), title, f"{why.reason}.", evidence=evidence, help=why.help)


def _windows_below_4_gib(host: Host, gpu: Function) -> tuple[Evidence, ...]:
    """The windows of a GPU's root bus (of all, where that is not known) if they are known and none lies above 4 GiB."""
    apertures = known(host.memory_map.apertures, ())
    own = [each for each in apertures if isinstance(gpu.root, Unknown) or each.root == gpu.root]
    if any(each.end >> 32 for each in own):
        return ()
    return tuple(Evidence(each.source, f"{each.start:x}-{each.end:x} PCI Bus {each.root}") for each in own)


def _no_window_above_4_gib(gpu: Function, bar: VramBar, evidence: tuple[Evidence, ...]) -> Finding:
    return Finding(
        ID,
        "warning",
        (gpu.address,),
        f"BAR{bar.index} is {wording.size(bar.size_bytes)}, and there is no window above 4 GiB that a larger one could lie in",
        "Without such a window amdgpu does not try to enlarge the BAR. So the host and other GPUs reach the GPU's memory "
        f"through a small window{_NO_P2P}. What sizes the card offers is not in this evidence.",
        "likely",
        evidence,
        Cost("host access to GPU memory in pieces, and no P2P to it"),
        ("firmware-above-4g-decoding", "firmware-resizable-bar"),
        'in the firmware, switch on "Above 4G Decoding"',
    )


def _found_no_space(gpu: Function, bar: VramBar, refused: RefusedSize, evidence: tuple[Evidence, ...]) -> Finding:
    wanted = wording.size(refused.size_bytes) if refused.size_bytes else "more"
    memory = "" if isinstance(bar.vram_bytes, Unknown) else f", for {wording.size(bar.vram_bytes[1])} of memory"
    return Finding(
        ID,
        "warning",
        (gpu.address,),
        f"BAR{bar.index} is {wording.size(bar.size_bytes)}: its driver wanted {wanted} and found no space",
        f"The card offers {wanted}{memory}, but the windows above it have no room for that. So the host and other GPUs reach "
        f"the GPU's memory through a small window{_NO_P2P if gpu.vendor == ATI else ''}.",
        evidence=(*evidence, Evidence(refused.source, f"no space for {wanted}")),
        cost=Cost(f"host access to GPU memory in pieces{', and no P2P to it' if gpu.vendor == ATI else ''}"),
        remedies=("firmware-above-4g-decoding", "firmware-resizable-bar"),
        next='in the firmware, switch on "Above 4G Decoding" and "Resizable BAR", or enlarge the 64-bit MMIO window',
    )


def _can_be_larger(host: Host, gpu: Function, bar: VramBar, largest: int, evidence: tuple[Evidence, ...]) -> Finding:
    by_driver = ("nvidia-resizable-bar",) if gpu.driver == "nvidia" and drivers.nvidia_parameter(host, _RESIZES) == "0" else ()
    return Finding(
        ID,
        "warning",
        (gpu.address,),
        f"BAR{bar.index} is {wording.size(bar.size_bytes)}, although the card offers up to {wording.size(largest)}",
        "Resizable BAR is not in force, so the host and other GPUs reach the GPU's memory through a small "
        f"window{_NO_P2P if gpu.vendor == ATI else ''}.",
        evidence=evidence,
        cost=Cost(f"host access to GPU memory in pieces{', and no P2P to it' if gpu.vendor == ATI else ''}"),
        remedies=("firmware-resizable-bar", "firmware-above-4g-decoding", *by_driver),
        next='in the firmware, switch on "Above 4G Decoding" and "Resizable BAR" (Re-Size BAR, Smart Access Memory)',
    )


CHECK = Check(
    id=ID,
    subject="GPU",
    summary="The memory BAR of each GPU is at least as large as its memory.",
    looks_at="The size of the memory BAR (0 on AMD, 1 on NVIDIA, 2 on Intel), the sizes the card offers, and the memory "
    "the driver reports, in sysfs or in the kernel's log, or the product has; from nvidia-smi's output alone, BAR1 and memory "
    "of each GPU.",
    why="amdgpu allows P2P only to a GPU all of whose memory shows in its BAR, and host access is faster that way.",
    decides="Ok where the BAR holds all memory (a 24 GiB card then has a BAR of 32 GiB: sizes are powers of two). A "
    "warning where it is smaller and the card offers more, or another GPU of its kind here has more, or where the kernel's "
    "log says that the driver wanted to make it larger and found no space, or an AMD GPU's root bus has no window above "
    "4 GiB; info where it is the largest the card offers, or where only the sizes on offer are not known.",
    sources=(
        "Linux drivers/gpu/drm/amd/amdgpu/amdgpu_device.c amdgpu_device_resize_fb_bar, amdgpu_gmc.c",
        "PCI Express Base Specification 6.0, 7.8.6 Resizable BAR Extended Capability",
        "Linux Documentation/ABI/testing/sysfs-bus-pci resourceN_resize",
        "NVIDIA open-gpu-kernel-modules, kernel-open/nvidia/nv-reg.h NVreg_EnableResizableBar",
    ),
    judge=judge,
    remedies=("firmware-resizable-bar", "firmware-above-4g-decoding", "nvidia-resizable-bar"),
)
