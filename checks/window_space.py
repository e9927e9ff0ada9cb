"""Bridge windows and root bus apertures too small for what lies below them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from hostdoctor import wording
from hostdoctor.bars import may_be_high, missing_bars, unseen_everywhere, vram_bar_of
from hostdoctor.facts.host import Aperture
from hostdoctor.facts.pci import Function, GpuFacts, RefusedWindow
from hostdoctor.facts.unknown import Unknown, known
from hostdoctor.findings import Check, Evidence, Finding, Outcome, unjudged
from hostdoctor.view import View

ID = "window-space"

_FOUR_GIB = 1 << 32
_LARGE = 2 << 30  # what cannot lie below 4 GiB, where RAM and the registers of every host are too


class _Want(msgspec.Struct, frozen=True):
    """Memory space that a function lacks for one BAR.

    Attributes:
        index: that BAR.
        high: whether it may lie above 4 GiB.
        refused_at: where a log says that the kernel found no space for it; empty without one.
    """

    function: Function
    index: int
    size_bytes: int
    high: bool
    refused_at: str = ""


class _Window:
    """A range of a root bus with the sizes of the BARs in it, wherever in it they lie: they may be moved.

    A BAR begins at a multiple of its size. Sizes are powers of two, so a set of BARs fits if, for each size, those of that
    size and larger ones fill no more places of that size than the range has.
    """

    def __init__(self, start: int, end: int, taken: list[int]) -> None:
        self.start, self.end, self.taken = start, end, taken

    @property
    def size_bytes(self) -> int:
        return self.end - self.start + 1

    @property
    def free_bytes(self) -> int:
        return max(0, self.size_bytes - sum(self.taken))

    def has_room(self, *sizes: int) -> bool:
        """Whether BARs of these sizes fit beside those that are in it."""
        every = [(size & -size, size) for size in (*self.taken, *sizes) if size]
        return all(
            sum(size for alignment, size in every if alignment >= place) <= self._places(place) * place
            for place in {alignment for alignment, _ in every}
        )

    def _places(self, alignment: int) -> int:
        return max(0, (self.end + 1) // alignment - -(-self.start // alignment))


def judge(view: View) -> Iterator[Finding]:
    """One finding for all functions of a root bus that lack the same kind of space, or one for all."""
    gpus = {gpu.address for gpu in view.gpus}
    wants: list[_Want] = []
    unseen = False
    for function in view.topology.functions.values():
        found = _wants(view, function, function.address in gpus)
        if isinstance(found, Unknown):
            unseen = True
            yield unjudged(ID, (function.address,), f"space for {function.address}", found)
        else:
            wants += found
    nothing_seen = unseen_everywhere(view.topology.functions.values())
    if nothing_seen and not unseen:
        yield unjudged(ID, (), "space for BARs", nothing_seen)
    elif not wants and not unseen:
        yield Finding(ID, "ok", (), "what lies below each bridge has its space")
    for root in dict.fromkeys(known(want.function.root, "") for want in wants):
        yield from _judge_root(view, root, wants)


def _wants(view: View, function: Function, is_gpu: bool) -> list[_Want] | Unknown:
    """The memory space that a function lacks."""
    if missing := missing_bars(function):
        sized = [bar for bar in missing if bar.size_bytes]
        if not sized:
            return Unknown("it has a BAR without an address, and how large that is cannot be seen", _help(function))
        return [_Want(function, bar.index, bar.size_bytes, may_be_high(function, bar), bar.said_at) for bar in sized]
    if not is_gpu:
        return []
    bar = vram_bar_of(function, view.host.gpu_facts.get(function.address, GpuFacts()))
    if isinstance(bar, Unknown):
        return bar
    if bar.is_small is False:
        return []
    if isinstance(bar.largest_bytes, Unknown):
        return bar.largest_bytes
    if bar.largest_bytes <= bar.size_bytes:
        return []
    if bar.refused is not None:
        wanted = min(bar.wanted_bytes or bar.largest_bytes, bar.largest_bytes)
        return [_Want(function, bar.index, wanted, True, bar.refused.source)]
    if bar.is_small is None or isinstance(bar.vram_bytes, Unknown):
        return Unknown("how much memory the GPU has is not known")
    return [_Want(function, bar.index, min(bar.wanted_bytes, bar.largest_bytes), True)]


def _help(function: Function) -> str:
    """What would show the size of a BAR: the Resizable BAR capability, where it was not read."""
    config = function.config
    if isinstance(config, Unknown):
        return config.help
    return config.resizable_bars.help if isinstance(config.resizable_bars, Unknown) else ""


def _judge_root(view: View, root: str, wants: list[_Want]) -> Iterator[Finding]:
    """What one root bus has for its functions: first for those that must lie below 4 GiB, then for the others."""
    apertures = view.host.memory_map.apertures
    own = () if isinstance(apertures, Unknown) else tuple(each for each in apertures if each.root == root)
    windows = _windows(view, own, {(want.function.address, want.index) for want in wants})
    too_much = _beyond_processor(view, wants)
    for high in (False, True):
        group = [want for want in wants if known(want.function.root, "") == root and want.high is high]
        subject = tuple(dict.fromkeys(want.function.address for want in group))
        if not group:
            continue
        allowed = [each for each in windows if high or each.end < _FOUR_GIB]
        told = _arithmetic(root, group, allowed)
        fitting = _place(group, allowed)
        refused = any(want.refused_at for want in group)
        if refused and (not own or fitting == len(group)):
            yield _refused(view, group, f"{told}. " if own else "", own)
        elif own and fitting == len(group):
            total = wording.size(sum(want.size_bytes for want in group))
            title = f"the root bus has space for the {total} that {_who(subject, 'lacks', 'lack')}"
            explanation = f"{told}. So the bridges' windows can be moved."
            yield Finding(ID, "ok", subject, title, explanation, evidence=_evidence(own))
        elif high and too_much:
            yield _beyond(view, group, wants)
        elif not own:
            why = apertures if isinstance(apertures, Unknown) else Unknown("the memory map does not name its root bus")
            total = wording.size(sum(want.size_bytes for want in group))
            yield unjudged(ID, subject, f"space of {total} for {wording.listed(subject)}", why)
        else:
            notes = [f"{told}.", *_notes(group, fitting, allowed, own)]
            yield _no_space(view, root, group, " ".join(notes), own)


def _windows(view: View, apertures: tuple[Aperture, ...], growing: set[tuple[str, int]]) -> list[_Window]:
    """The windows of a root bus, cut at 4 GiB, each with what BARs take of it, less those that are to grow."""
    ranges = [
        (max(aperture.start, first), min(aperture.end, last))
        for aperture in apertures
        for first, last in ((0, _FOUR_GIB - 1), (_FOUR_GIB, aperture.end))
        if aperture.start <= last and aperture.end >= first
    ]
    bars = _assigned(view, growing)
    return [_Window(start, end, [size for address, size in bars if start <= address <= end]) for start, end in ranges]


def _assigned(view: View, growing: set[tuple[str, int]]) -> list[tuple[int, int]]:
    """Address and size of each BAR that has its place."""
    return [
        (bar.address, bar.size_bytes)
        for function in view.topology.functions.values()
        if not isinstance(function.bars, Unknown)
        for bar in function.bars
        if bar.assigned and bar.kind != "io" and (function.address, bar.index) not in growing
    ]


def _beyond_processor(view: View, wants: list[_Want]) -> bool:
    """Whether the large BARs of the host are more than the processor's address bits can hold, wherever they are put."""
    bits = view.host.cpu.physical_bits
    if isinstance(bits, Unknown):
        return False
    wanted = [want.size_bytes for want in wants if want.high and want.size_bytes >= _LARGE]
    return not _Window(_FOUR_GIB, (1 << bits) - 1, _large(view, wants)).has_room(*wanted)


def _large(view: View, wants: list[_Want]) -> list[int]:
    """The sizes of the BARs that have a place, are not to grow, and are too large for one below 4 GiB."""
    growing = {(want.function.address, want.index) for want in wants}
    return [size for _, size in _assigned(view, growing) if size >= _LARGE]


def _beyond(view: View, group: list[_Want], wants: list[_Want]) -> Finding:
    bits = known(view.host.cpu.physical_bits, 0)
    subject = tuple(dict.fromkeys(want.function.address for want in group))
    taken = sum(_large(view, wants))
    beside = f" Other large BARs take {wording.size(taken)}." if taken else ""
    total = wording.size(sum(want.size_bytes for want in group))
    limit = wording.size(1 << bits)
    return Finding(
        ID,
        _outcome(view, group),
        subject,
        f"the {total} that {_who(subject)} cannot fit on this processor, which addresses {limit} in all",
        f"Its {bits} address bits make {limit}, RAM and all below 4 GiB included, and a BAR begins at a multiple of its size. "
        f"{total} are needed ({_each(group)}).{beside} No setting of the firmware changes that.",
        evidence=(Evidence("/proc/cpuinfo", f"address sizes: {bits} bits physical"),),
        next="use fewer of these cards here, or a processor with more address bits",
    )


def _notes(group: list[_Want], fitting: int, windows: list[_Window], own: tuple[Aperture, ...]) -> Iterator[str]:
    """What the sums alone do not explain."""
    if len(group) > 1:
        yield f"A BAR begins at a multiple of its size, so {fitting} of {len(group)} fit."
    elif any(each.free_bytes >= group[0].size_bytes for each in windows):
        yield "A BAR begins at a multiple of its size, and no such place is left."
    if not group[0].high:
        yield "A BAR of 32 bits, or one behind a bridge that is not prefetchable, must lie below 4 GiB."
    elif not any(aperture.start >= _FOUR_GIB for aperture in own):
        yield "The firmware gave this root bus no window above 4 GiB at all."


def _refused(view: View, group: list[_Want], arithmetic: str, own: tuple[Aperture, ...]) -> Finding:
    """The kernel itself found no space, although its root bus may have some, or what that has is not known."""
    subject = tuple(dict.fromkeys(want.function.address for want in group))
    bridges = _refusing(view, group)
    total = wording.size(sum(want.size_bytes for want in group))
    above = "the bridges above it are in the way: their windows cannot grow, because others lie beside them"
    return Finding(
        ID,
        _outcome(view, group),
        (*dict.fromkeys(bridge.address for bridge, _ in bridges), *subject),
        f"the kernel found no space for the {total} that {_who(subject)}",
        f"{_about_bridges(bridges)}{arithmetic}{f'So {above}.' if own else 'What the root bus has is not in this evidence.'}",
        evidence=(*(Evidence(want.refused_at, "no space") for want in group if want.refused_at), *_window_evidence(bridges)),
        remedies=("firmware-above-4g-decoding",),
        next='in the firmware, switch on "Above 4G Decoding" or enlarge the 64-bit MMIO window'
        + ("; a card that was plugged in after the boot gets more where it is there from the start" if own else ""),
    )


def _refusing(view: View, group: list[_Want]) -> list[tuple[Function, RefusedWindow]]:
    """Bridges above that wanted a window for it and got none, the uppermost first."""
    found: dict[str, tuple[Function, RefusedWindow]] = {}
    for want in group:
        for bridge in reversed(view.topology.above(want.function)):
            for window in bridge.refused_windows:
                if window.size_bytes >= want.size_bytes:
                    found.setdefault(bridge.address, (bridge, window))
    return list(found.values())


def _about_bridges(bridges: list[tuple[Function, RefusedWindow]]) -> str:
    if not bridges:
        return ""
    top, window = bridges[0]
    return f"The kernel wanted a window of {wording.size(window.size_bytes)} at the bridge {top.address} and found no space. "


def _window_evidence(bridges: list[tuple[Function, RefusedWindow]]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(window.source, f"{bridge.address}: window of {wording.size(window.size_bytes)}: no space")
        for bridge, window in bridges
    )


def _no_space(view: View, root: str, group: list[_Want], explanation: str, own: tuple[Aperture, ...]) -> Finding:
    subject = tuple(dict.fromkeys(want.function.address for want in group))
    total = wording.size(sum(want.size_bytes for want in group))
    above = "or enlarge the 64-bit MMIO window"
    below = "so that larger BARs leave the space below 4 GiB, or enlarge that space"
    bridges = _refusing(view, group)
    return Finding(
        ID,
        _outcome(view, group),
        (*dict.fromkeys(bridge.address for bridge, _ in bridges), *subject),
        f"root bus {root} has no space for the {total} that {_who(subject)}",
        f"{_about_bridges(bridges)}{explanation}",
        evidence=(*_evidence(own), *_window_evidence(bridges)),
        remedies=("firmware-above-4g-decoding",),
        next=f'in the firmware, switch on "Above 4G Decoding"{" " + above if group[0].high else ", " + below}',
    )


def _evidence(own: tuple[Aperture, ...]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(each.source, f"{each.start:x}-{each.end:x} PCI Bus {each.root} ({wording.size(each.size_bytes)})")
        for each in own
    )


def _place(group: list[_Want], windows: list[_Window]) -> int:
    """Puts what fits into the windows, the largest first and each where most is free, and counts it."""
    count = 0
    for want in sorted(group, key=lambda each: -each.size_bytes):
        fitting = [each for each in windows if each.has_room(want.size_bytes)]
        if fitting:
            max(fitting, key=lambda each: each.free_bytes).taken.append(want.size_bytes)
            count += 1
    return count


def _arithmetic(root: str, group: list[_Want], windows: list[_Window]) -> str:
    total = sum(want.size_bytes for want in group)
    needed = f"{wording.size(total)} are needed" + (f" ({_each(group)})" if len(group) > 1 else "")
    below = "" if group[0].high else " below 4 GiB"
    if not windows:
        return f"Root bus {root} has no window{below}, {needed}"
    best = max(windows, key=lambda each: each.free_bytes)
    others = sum(each.free_bytes for each in windows) - best.free_bytes
    which = " with most free space" if len(windows) > 1 else ""
    return (
        f"{wording.size(best.size_bytes)} in the window{below} of root bus {root}{which}, of which other BARs "
        f"take {wording.size(sum(best.taken))}: {wording.size(best.free_bytes)} are left, {needed}"
        + (f"; {wording.size(others)} are free in its other windows" if others else "")
    )


def _each(group: list[_Want]) -> str:
    return wording.listed((f"{wording.size(want.size_bytes)} for {want.function.address}" for want in group), 8)


def _who(subject: tuple[str, ...], one: str = "needs", several: str = "need") -> str:
    return f"{subject[0]} {one}" if len(subject) == 1 else f"{len(subject)} functions {several}"


def _outcome(view: View, group: list[_Want]) -> Outcome:
    gpus = {gpu.address for gpu in view.gpus}
    return "failure" if any(want.function.address in gpus for want in group) else "warning"


CHECK = Check(
    id=ID,
    subject="functions",
    summary="The windows above each function are large enough for its BARs.",
    looks_at="BARs without an address, GPUs whose memory BAR is smaller than it could be, the windows of their root bus, "
    "what other BARs take of them, and how many address bits the processor has. In a kernel log also what the kernel wanted "
    "and found no space for.",
    why="It tells whether a missing or small BAR can be cured by moving windows, or only by the firmware giving more.",
    decides="For all BARs of a root bus that lack space together: a failure where a GPU is among them (else a warning) if "
    "they do not fit into its windows beside what others take, each at a multiple of its size, with the arithmetic, or the "
    "kernel's log says that it found no space for them; ok where they would fit; unknown where the memory map cannot be read. "
    "BARs of 32 bits, and those behind a bridge that are not prefetchable, count windows below 4 GiB only. Where the "
    "processor's address bits cannot hold them, no setting of the firmware is offered.",
    sources=(
        "Linux drivers/pci/setup-bus.c: a bridge's window must hold what lies below it, aligned to its size",
        "PCI-to-PCI Bridge Architecture Specification 1.2, 3.2.5: a bridge's memory window has 32 bits, the prefetchable 64",
        "Linux drivers/gpu/drm/amd/amdgpu/amdgpu_device.c amdgpu_device_resize_fb_bar: needs a root bus window above 4 GiB",
    ),
    judge=judge,
    remedies=("firmware-above-4g-decoding",),
    nothing="no functions",
)
