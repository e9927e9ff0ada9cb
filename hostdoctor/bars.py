"""What BARs want: which are without an address, and how large the memory BAR of a GPU is, can be and should be.

Sources: Linux drivers/pci/setup-bus.c, which clears the resource of a BAR it could not place, so that sysfs shows zeros
for it; PCI Local Bus Specification 3.0, 6.2.5.1, for the bits that show such a BAR all the same.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from hostdoctor import knowledge
from hostdoctor.facts.pci import ATI, NVIDIA, Bar, ConfigFacts, Function, GpuFacts, RefusedSize
from hostdoctor.facts.unknown import Unknown

_MEM_64BIT, _PREFETCHABLE, _IO = 0x4, 0x8, 0x1
_LEGACY_BYTES = 256 << 20
# The least that a resizable memory BAR of a GPU offers, and what GPUs before them have at least: lspci -v numbers no BARs,
# and what it lists first of an AMD GPU whose memory BAR has no address is the one for doorbells.
_SMALLEST_BYTES = 64 << 20

# Classes of devices with a driver that needs its BARs. Parts of processors (0x08, 0x11 and others) are left out: some
# hold registers where BARs should be, and the kernel ignores these on purpose (drivers/pci/quirks.c non_compliant_bars).
_DEVICE_CLASSES = (0x01, 0x02, 0x03, 0x0C, 0x12)


NOT_LISTED = Unknown(
    "its memory BAR is not among those that are listed",
    "attach the output of sudo lspci -vvv and dmesg: one without an address is left out in some places",
)


class MissingBar(msgspec.Struct, frozen=True):
    """A memory BAR without an address; the size is 0 where it is not known, `said_at` empty where no log tells of it."""

    index: int
    size_bytes: int
    is_64bit: bool
    prefetchable: bool
    said_at: str = ""


def missing_bars(function: Function) -> list[MissingBar]:
    """The memory BARs of a function that have no address: not I/O, not the ROM, not those of virtual functions."""
    if isinstance(function.bars, Unknown):
        return []
    found = [
        MissingBar(
            bar.index, bar.size_bytes or _resizable_size(function, bar.index), bar.is_64bit, bar.prefetchable, bar.said_at
        )
        for bar in function.bars
        if bar.kind == "mem" and not bar.assigned and bar.index < 6
    ]
    listed = {bar.index for bar in function.bars}
    config = function.config
    if isinstance(config, Unknown) or config.lost or function.base_class not in _DEVICE_CLASSES:
        return found
    return found + [bar for bar in _hidden(function, config) if bar.index not in listed]


def unseen_everywhere(functions: Iterable[Function]) -> Unknown | None:
    """Why nothing can be said of any function's BARs; None where some function's are known, or there is no function."""
    reasons = [function.bars for function in functions]
    return (
        reasons[0]
        if reasons and isinstance(reasons[0], Unknown) and all(isinstance(each, Unknown) for each in reasons)
        else None
    )


def may_be_high(function: Function, bar: MissingBar) -> bool:
    """Whether a BAR may lie above 4 GiB: with 64 bits, and behind a bridge only a prefetchable one."""
    return bar.is_64bit and (bar.prefetchable or not isinstance(function.parent, str))


def _hidden(function: Function, config: ConfigFacts) -> list[MissingBar]:
    """BARs whose register shows their type, although the kernel lists nothing for them.

    A 32-bit BAR that is not prefetchable reads as zero without an address, as if it were not there: it cannot be told.
    """
    found, skip = [], False
    for index, register in enumerate(config.bar_registers):
        if skip:
            skip = False
            continue
        is_64bit = not register & _IO and bool(register & _MEM_64BIT)
        skip = is_64bit
        if not register & _IO and register & (_MEM_64BIT | _PREFETCHABLE):
            size = _resizable_size(function, index)
            found.append(MissingBar(index, size, is_64bit, bool(register & _PREFETCHABLE)))
    return found


def _resizable_size(function: Function, index: int) -> int:
    """The size a resizable BAR is set to, which config space keeps even where it has no address."""
    config = function.config
    if isinstance(config, Unknown) or isinstance(config.resizable_bars, Unknown):
        return 0
    return next((entry.size_bytes for entry in config.resizable_bars if entry.bar_index == index), 0)


def vram_bar(gpu: Function) -> Bar | Unknown | None:
    """The BAR through which the host and peers reach a GPU's memory: 0 for AMD, 1 for NVIDIA, 2 for Intel.

    NVIDIA's BAR1 is number 2 where its BAR0 has 64 bits and so takes two numbers, as on H100.
    """
    if isinstance(gpu.bars, Unknown):
        return gpu.bars
    indices = {ATI: (0,), NVIDIA: (1, 2)}.get(gpu.vendor, (2,))
    bars = (bar for bar in gpu.bars if bar.index in indices and bar.kind == "mem")
    return next((bar for bar in bars if not bar.assigned or bar.size_bytes >= _SMALLEST_BYTES), None)


class VramBar(msgspec.Struct, frozen=True):
    """The BAR through which a GPU's memory is reached.

    Attributes:
        index: its number.
        size_bytes: as it is; 0 without an address.
        largest_bytes: the largest size the card offers; 0 where it offers no choice, Unknown where that was not seen.
        vram_bytes: the memory behind it, (least, most) of what the product may have, or Unknown.
        exact: whether the driver itself told the memory size.
        source: where its size stands.
        refused: a larger size that the driver wanted to give it and found no space for.
    """

    index: int
    size_bytes: int
    largest_bytes: int | Unknown
    vram_bytes: tuple[int, int] | Unknown
    exact: bool
    source: str = ""
    refused: RefusedSize | None = None

    @property
    def wanted_bytes(self) -> int:
        """The smallest power of two that holds all the memory; 0 where the memory is not known."""
        return 0 if isinstance(self.vram_bytes, Unknown) else 1 << (self.vram_bytes[1] - 1).bit_length()

    @property
    def is_small(self) -> bool | None:
        """Whether it holds less than all the memory; None where the memory is not known well enough.

        A card that offers more than the 256 MiB of the time before resizable BARs has the memory for it.
        """
        if isinstance(self.vram_bytes, Unknown):
            offers_more = not isinstance(self.largest_bytes, Unknown) and self.largest_bytes > self.size_bytes
            return True if self.refused or (offers_more and self.size_bytes <= _LEGACY_BYTES) else None
        least, most = self.vram_bytes
        if self.size_bytes >= most:
            return False
        if self.refused is not None:
            return True
        # Nominal sizes: boards show up to 8 % less (knowledge.vram_range_bytes).
        return True if self.exact or self.size_bytes < least * 9 // 10 else None


def vram_bar_of(gpu: Function, facts: GpuFacts) -> VramBar | Unknown:
    """The memory BAR of a GPU with all that is known of it."""
    bar = vram_bar(gpu)
    if isinstance(bar, Unknown):
        return _by_visible_memory(gpu, facts) or bar
    if bar is None and not missing_bars(gpu):
        return NOT_LISTED
    if bar is None or not bar.assigned:
        return Unknown("its memory BAR has no address")
    if bar.said_at and (told := _by_visible_memory(gpu, facts)) and told.size_bytes > bar.size_bytes:
        return told  # the driver has the last word in a log: it enlarged the BAR
    exact = not isinstance(facts.vram_bytes, Unknown) and facts.vram_bytes > 0
    vram: tuple[int, int] | Unknown
    if not isinstance(facts.vram_bytes, Unknown) and exact:
        vram = (facts.vram_bytes, facts.vram_bytes)
    else:
        vram = knowledge.vram_range_bytes(gpu.id) or Unknown(f"how much memory {gpu.id} has is not in the tables")
    refused = _refused(facts, bar.index, bar.size_bytes)
    source = bar.said_at or gpu.source("resource")
    return VramBar(bar.index, bar.size_bytes, _largest(gpu, facts, bar.index, refused), vram, exact, source, refused)


def _by_visible_memory(gpu: Function, facts: GpuFacts) -> VramBar | None:
    """AMD's memory BAR where an attachment has only the driver's word on how much memory shows in it."""
    vram, visible = facts.vram_bytes, facts.visible_vram_bytes
    if gpu.vendor != ATI or not facts.memory_source or isinstance(vram, Unknown) or isinstance(visible, Unknown):
        return None
    if not vram or not visible:
        return None
    refused = _refused(facts, 0, visible)
    return VramBar(0, visible, _largest(gpu, facts, 0, refused), (vram, vram), True, facts.memory_source, refused)


def _refused(facts: GpuFacts, index: int, size_bytes: int) -> RefusedSize | None:
    """What its driver found no space for, unless the BAR has that size by now."""
    refused = next((each for each in facts.refused_sizes if each.bar_index == index), None)
    if refused is None:
        return None
    vram = 0 if isinstance(facts.vram_bytes, Unknown) else facts.vram_bytes
    return refused if size_bytes < (refused.size_bytes or vram or size_bytes + 1) else None


def driver_bar(size_bytes: int, memory_bytes: int, index: int = 1) -> VramBar:
    """The memory BAR as only the driver tells it: its size and the memory, without the sizes the card offers."""
    unseen = Unknown("which sizes the card offers is not in this evidence", "sudo lspci -vvv shows them")
    return VramBar(index, size_bytes, unseen, (memory_bytes, memory_bytes), exact=True)


def _largest(gpu: Function, facts: GpuFacts, index: int, refused: RefusedSize | None) -> int | Unknown:
    if sizes := facts.bar_sizes_bytes.get(index):
        return max(sizes)
    config = gpu.config
    if refused is not None and refused.size_bytes and isinstance(config, Unknown):
        return refused.size_bytes
    if isinstance(config, Unknown):
        return config
    if isinstance(config.resizable_bars, Unknown):
        return config.resizable_bars
    offered = next((entry.sizes_bytes for entry in config.resizable_bars if entry.bar_index == index), ())
    return max(offered) if offered else 0
