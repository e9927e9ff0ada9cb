"""What the host shows of its 64-bit MMIO: where it lies, how it is divided, and what the BARs need of it."""

from __future__ import annotations

import msgspec

from hostdoctor import p2p
from hostdoctor.bars import may_be_high, missing_bars, vram_bar_of
from hostdoctor.facts.driver import Nvml
from hostdoctor.facts.host import Aperture
from hostdoctor.facts.pci import ATI, Bar, Function, GpuFacts
from hostdoctor.facts.unknown import Unknown, known
from hostdoctor.findings import Evidence
from hostdoctor.remedies.arithmetic import FOUR_GIB, Limits, common_granule, rounded_up
from hostdoctor.view import View

# Supermicro's help text for the granularity: up to 32 times the size in all. So many ranges are counted on where the host
# does not show how many there are.
_MOST_BUSES = 32
_ALL_BITS = 64


class Mmio(msgspec.Struct, frozen=True):
    """64-bit MMIO of a host; addresses and sizes in bytes.

    Attributes:
        ranges: the root buses' apertures above 4 GiB; Unknown where the memory map cannot be read.
        lowest: the lowest address in use; 0 where nothing lies above 4 GiB, or that is not known.
        lowest_seen: where that was seen.
        buses: root buses that get a range each.
        buses_counted: whether they were counted, or the most there can be is taken.
        granule: the size that all ranges have; None where they differ or are not known.
        needs: for each root bus what the BARs below it need; "" stands for an unknown root bus.
        has_large_bar: whether a driver tells of a memory BAR that has no place below 4 GiB, wherever it lies.
    """

    ranges: tuple[Aperture, ...] | Unknown
    lowest: int
    lowest_seen: Evidence | None
    buses: int
    buses_counted: bool
    granule: int | None
    needs: dict[str, int]
    has_large_bar: bool

    @property
    def is_above_4g(self) -> bool | None:
        """Whether the firmware put something above 4 GiB; None where that cannot be seen."""
        if self.lowest or self.has_large_bar:
            return True
        return None if isinstance(self.ranges, Unknown) else False

    @property
    def span_bytes(self) -> int:
        """From the lowest to the highest address of all ranges; what the BARs need where no ranges are known."""
        if isinstance(self.ranges, Unknown) or not self.ranges:
            return sum(self.needs.values())
        return max(each.end for each in self.ranges) + 1 - min(each.start for each in self.ranges)

    @property
    def neediest(self) -> tuple[str, int]:
        """The root bus whose BARs need most, and what they need."""
        return max(self.needs.items(), key=lambda each: each[1], default=("", 0))


def read_mmio(view: View) -> Mmio:
    """What the host shows."""
    apertures = view.host.memory_map.apertures
    ranges = apertures if isinstance(apertures, Unknown) else tuple(each for each in apertures if each.end >= FOUR_GIB)
    lowest, seen = _lowest(view, ranges)
    buses, counted = _buses(view, ranges)
    sizes = () if isinstance(ranges, Unknown) else tuple(each.size_bytes for each in ranges)
    return Mmio(ranges, lowest, seen, buses, counted, common_granule(sizes), _needs(view), _has_large_bar(view))


def _lowest(view: View, ranges: tuple[Aperture, ...] | Unknown) -> tuple[int, Evidence | None]:
    if not isinstance(ranges, Unknown) and ranges:
        first = min(ranges, key=lambda each: each.start)
        return max(first.start, FOUR_GIB), Evidence("/proc/iomem", f"{first.start:x}-{first.end:x} : PCI Bus {first.root}")
    high = [(bar.address, each) for each in view.topology.functions.values() for bar in _bars(each) if bar.address >= FOUR_GIB]
    if not high:
        return 0, None
    address, function = min(high, key=lambda each: each[0])
    return address, Evidence(function.source("resource"), f"BAR at {address:#x}")


def _has_large_bar(view: View) -> bool:
    nvml = view.host.nvml.gpus if isinstance(view.host.nvml, Nvml) else ()
    sizes = [each.bar1_bytes for each in nvml] + [each.visible_vram_bytes for each in view.host.gpu_facts.values()]
    return any(known(size, 0) >= FOUR_GIB for size in sizes)


def _bars(function: Function) -> tuple[Bar, ...]:
    if isinstance(function.bars, Unknown):
        return ()
    return tuple(bar for bar in function.bars if bar.kind == "mem" and bar.assigned)


def _buses(view: View, ranges: tuple[Aperture, ...] | Unknown) -> tuple[int, bool]:
    """How many root buses get a range: those that have one, else all that the kernel's own tree of devices shows."""
    if not isinstance(ranges, Unknown) and ranges:
        return len({each.root for each in ranges}), True
    roots = {known(each.root, "") for each in view.topology.functions.values()}
    whole = all(each.origin.startswith("/sys/") for each in view.topology.functions.values())
    return (len(roots), True) if roots and whole and "" not in roots else (_MOST_BUSES, False)


def _needs(view: View) -> dict[str, int]:
    """For each root bus the sum over its devices, each rounded up to a power of two, as BARs and windows are aligned.

    That is drivers/pci/setup-bus.c seen from afar: a bridge's window holds what lies below it, aligned to its largest BAR.
    """
    gpus = {gpu.address for gpu in view.gpus}
    devices: dict[tuple[str, str], int] = {}
    for function in view.topology.functions.values():
        if size := _high_bytes(view, function, function.address in gpus):
            key = (known(function.root, ""), function.address[:-2])
            devices[key] = devices.get(key, 0) + size
    needs: dict[str, int] = {}
    for (root, _), size in devices.items():
        needs[root] = needs.get(root, 0) + rounded_up(size)
    return needs


def _high_bytes(view: View, function: Function, is_gpu: bool) -> int:
    """What a function's BARs need above 4 GiB, those without an address and what a GPU's memory BAR should be included."""
    sizes = {bar.index: bar.size_bytes for bar in _bars(function) if _is_high(bar)}
    sizes.update({bar.index: bar.size_bytes for bar in missing_bars(function) if may_be_high(function, bar)})
    if is_gpu:
        memory = vram_bar_of(function, view.host.gpu_facts.get(function.address, GpuFacts()))
        if not isinstance(memory, Unknown) and memory.is_small:
            sizes[memory.index] = max(memory.size_bytes, min(memory.wanted_bytes, known(memory.largest_bytes, 0)))
    return sum(sizes.values())


def _is_high(bar: Bar) -> bool:
    return bar.address >= FOUR_GIB or (bar.is_64bit and bar.prefetchable)


class Reach(msgspec.Struct, frozen=True):
    """How far the GPUs that must reach each other address: bits, and where that was seen."""

    bits: int
    evidence: Evidence
    accessors: tuple[str, ...]


def reaches(view: View) -> list[Reach]:
    """The address widths of the GPUs to which a peer's BAR lies too high, the narrowest first."""
    found: dict[int, Reach] = {}
    for (accessor, _), condition in view.amd_reaches.items():
        if condition.state != "fails" and "beyond" not in condition.text:
            continue
        bits, evidence = p2p.mask_bits(view.topology.functions[accessor])
        if isinstance(bits, Unknown):
            continue
        before = found.get(bits)
        names = tuple(dict.fromkeys((*(before.accessors if before else ()), accessor)))
        found[bits] = Reach(bits, before.evidence if before else evidence, names)
    return [found[bits] for bits in sorted(found)]


def limits_of(view: View, bits: int | None = None) -> Limits:
    """What MMIO must stay within: the GPUs' bits where given, the processor's, memory, and what AMD processors reserve.

    Without `bits` the widths of AMD's GPUs count that now reach each other, so that no change takes that away.
    """
    if bits is None:
        masks = [known(p2p.mask_bits(gpu)[0], _ALL_BITS) for gpu in p2p.candidates(view, ATI)]
        bits = min(masks) if len(masks) > 1 else _ALL_BITS
    cpu, memory_end = view.host.cpu, view.host.memory_map.memory_end
    floor = FOUR_GIB if isinstance(memory_end, Unknown) else max(FOUR_GIB, memory_end + 1)
    holes = ((p2p.HT_HOLE_START, p2p.HT_HOLE_END),) if cpu.is_amd else ()
    return Limits(min(bits, known(cpu.physical_bits, _ALL_BITS)), floor, holes)
