"""Bridge windows and root bus apertures too small for what lies below them."""

from __future__ import annotations

from collections.abc import Iterator

from hostdoctor import wording
from hostdoctor.bars import missing_bars, vram_bar_of
from hostdoctor.facts.host import Aperture
from hostdoctor.facts.pci import Function, GpuFacts
from hostdoctor.facts.unknown import Unknown, known
from hostdoctor.findings import Check, Evidence, Finding, unjudged
from hostdoctor.view import View

ID = "window-space"

_FOUR_GIB = 1 << 32


def judge(view: View) -> Iterator[Finding]:
    """One finding for each function that lacks space for a BAR, or one for all."""
    gpus = {gpu.address for gpu in view.gpus}
    lacking = False
    for function in view.topology.functions.values():
        is_gpu = function.address in gpus
        need = _need(view, function, is_gpu)
        if isinstance(need, Unknown):
            lacking = True
            yield unjudged(ID, (function.address,), f"space for {function.address}", need)
        elif need:
            lacking = True
            yield _judge_need(view, function, need, is_gpu)
    if not lacking:
        yield Finding(ID, "ok", (), "what lies below each bridge has its space")


def _need(view: View, function: Function, is_gpu: bool) -> int | Unknown:
    """Bytes of memory space that a function wants and has not; 0 where it lacks nothing."""
    missing = missing_bars(function)
    if missing:
        size = sum(bar.size_bytes for bar in missing)
        return size or Unknown("it has a BAR without an address, and how large that is cannot be seen", _help(function))
    if not is_gpu:
        return 0
    bar = vram_bar_of(function, view.host.gpu_facts.get(function.address, GpuFacts()))
    if isinstance(bar, Unknown):
        return bar
    if bar.is_small is False:
        return 0
    if isinstance(bar.largest_bytes, Unknown):
        return bar.largest_bytes
    if bar.largest_bytes <= bar.size_bytes:
        return 0
    if bar.is_small is None or isinstance(bar.vram_bytes, Unknown):
        return Unknown("how much memory the GPU has is not known")
    return min(bar.wanted_bytes, bar.largest_bytes)


def _help(function: Function) -> str:
    """What would show the size of a BAR: the Resizable BAR capability, where it was not read."""
    config = function.config
    if isinstance(config, Unknown):
        return config.help
    return config.resizable_bars.help if isinstance(config.resizable_bars, Unknown) else ""


def _judge_need(view: View, function: Function, need: int, is_gpu: bool) -> Finding:
    apertures = view.host.memory_map.apertures
    subject = (function.address,)
    what = f"space of {wording.size(need)} for {function.address}"
    if isinstance(apertures, Unknown):
        return unjudged(ID, subject, what, apertures)
    own = [aperture for aperture in apertures if aperture.root == known(function.root, "")]
    if not own:
        return unjudged(ID, subject, what, Unknown("the memory map does not name its root bus"))
    largest = max(own, key=lambda aperture: aperture.size_bytes)
    used = _used(view, function, largest)
    evidence = tuple(Evidence("/proc/iomem", _range(aperture)) for aperture in own)
    sum_text = (
        f"{wording.size(largest.size_bytes)} in the largest window of root bus {largest.root}, of which other BARs take "
        f"{wording.size(used)}: {wording.size(max(0, largest.size_bytes - used))} are left, {wording.size(need)} are needed"
    )
    if largest.size_bytes - used >= need:
        title = f"the root bus has space for the {wording.size(need)} that {function.address} lacks"
        return Finding(ID, "ok", subject, title, f"{sum_text}. So the bridges' windows can be moved.", evidence=evidence)
    high = any(aperture.start >= _FOUR_GIB for aperture in own)
    why = "" if high else " The firmware gave this root bus no window above 4 GiB at all."
    return Finding(
        ID,
        "failure" if is_gpu else "warning",
        subject,
        f"root bus {largest.root} has no space for the {wording.size(need)} that {function.address} needs",
        f"{sum_text}.{why}",
        evidence=evidence,
        remedies=("firmware-above-4g-decoding",),
        next='in the firmware, switch on "Above 4G Decoding" or enlarge the 64-bit MMIO window',
    )


def _used(view: View, function: Function, aperture: Aperture) -> int:
    """Bytes of an aperture that the BARs of other functions take."""
    return sum(
        bar.size_bytes
        for other in view.topology.functions.values()
        if other is not function and not isinstance(other.bars, Unknown)
        for bar in other.bars
        if bar.assigned and bar.kind != "io" and aperture.start <= bar.address <= aperture.end
    )


def _range(aperture: Aperture) -> str:
    return f"{aperture.start:x}-{aperture.end:x} PCI Bus {aperture.root} ({wording.size(aperture.size_bytes)})"


CHECK = Check(
    id=ID,
    subject="function",
    summary="The windows above each function are large enough for its BARs.",
    looks_at="BARs without an address, GPUs whose memory BAR is smaller than it could be, the windows of their root bus, "
    "and what other BARs take of them.",
    why="It tells whether a missing or small BAR can be cured by moving windows, or only by the firmware giving more.",
    decides="For each BAR that lacks space: a failure for a GPU (a warning for others) where the root bus's largest window "
    "less what others take is smaller than the need, with the arithmetic; ok where it would fit; unknown where the memory "
    "map cannot be read.",
    sources=(
        "Linux drivers/pci/setup-bus.c: a bridge's window must hold what lies below it",
        "Linux drivers/gpu/drm/amd/amdgpu/amdgpu_device.c amdgpu_device_resize_fb_bar: needs a root bus window above 4 GiB",
    ),
    judge=judge,
    remedies=("firmware-above-4g-decoding",),
    nothing="no functions",
)
