"""Functions, root buses and the memory of GPUs, from what kernel logs say of them.

A log tells of the time it was written, mostly the boot. What another source tells of a function stands, and where the
whole host was listed by one, functions that only the log names are left out: they may be gone since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from hostdoctor import knowledge
from hostdoctor.facts.host import Aperture, BootLink, Host, KernelVersion, MemoryMap
from hostdoctor.facts.pci import ATI, INTEL, NVIDIA, Bar, Function, GpuFacts, Link, RefusedSize, RefusedWindow, Window
from hostdoctor.facts.unknown import Unknown
from hostdoctor.parsers.kernel_log import Log
from hostdoctor.parsers.log_resources import LogResources, SaidBar, SaidFunction, SaidSize, read_resources
from hostdoctor.readers.attached.merge import with_functions

NOT_TOLD = Unknown("the kernel's log does not tell")
_PAST = Unknown("the kernel's log tells of the boot alone")
_NO_MEMORY_BAR = Unknown("the kernel's log does not tell of its memory BAR")
_UNLISTED = Unknown("the kernel's log here does not list what is above it")

_VENDORS = {"amdgpu": ATI, "radeon": ATI, "nvidia": NVIDIA, "nouveau": NVIDIA, "xe": INTEL, "i915": INTEL}
_MEMORY_BARS = {ATI: (0,), NVIDIA: (1, 2), INTEL: (2,)}
_PORTS_OF_A_CARD = 2  # of the switch that a card carries
_BRIDGE, _GPU = 0x060400, 0x030000
# Classes whose BARs the kernel leaves as they are: unclassified, host bridges, interrupt controllers (setup-bus.c).
_NEVER_ASSIGNED = (0x0000, 0x0600, 0x0800)
# Resources are worded in the new way from here on, and in stable series that took it over: the old way tells of less.
_NEW_WORDING = KernelVersion(6, 8)


def with_log_functions(host: Host, logs: Sequence[Log]) -> Host:
    """The host with what its logs say of functions."""
    for log in logs:
        host = _with_log(host, log, read_resources(log))
    return host


def _with_log(host: Host, log: Log, said: LogResources) -> Host:
    tree = _Tree(log, said)
    functions = list(_functions(host, tree))
    before = {} if isinstance(host.functions, Unknown) else host.functions
    host = with_functions(_with_sizes(host, functions), functions)
    after = {} if isinstance(host.functions, Unknown) else host.functions
    named = {address: each for address, each in said.functions.items() if address in after and _same(before, each)}
    return msgspec.structs.replace(
        host,
        gpu_facts=_gpu_facts(host, log, named, _unnamed_memory(host, log, said)),
        boot_links={**_with_cards(after, _boot_links(log, named)), **host.boot_links},
        memory_map=_memory_map(host, log, said),
        boot=msgspec.structs.replace(host.boot, older_than=_NEW_WORDING) if said.old_wording else host.boot,
    )


# --- functions --------------------------------------------------------------------------------------------------------


class _Tree:
    """Which bridge each bus hangs below."""

    def __init__(self, log: Log, said: LogResources) -> None:
        self.log, self.said = log, said
        self._bridges = {
            f"{address.split(':')[0]}:{each.secondary_bus:02x}": address
            for address, each in said.functions.items()
            if each.secondary_bus is not None
        }

    def parent(self, function: SaidFunction) -> str | Unknown | None:
        """The bridge above; None on a root bus. A port that is not listed itself may be any port: what is above it too."""
        bus = _bus(function.address)
        if bridge := self._bridges.get(bus):
            return bridge
        if not function.listed:
            return _UNLISTED
        return None if bus in self.said.roots or bus.endswith(":00") else _UNLISTED

    def root(self, function: SaidFunction) -> str | Unknown:
        """The root bus it lies below."""
        bus, seen = _bus(function.address), set[str]()
        while bus not in self.said.roots:
            bridge = self._bridges.get(bus)
            if bridge is None or bus in seen:
                return NOT_TOLD
            seen.add(bus)
            bus = _bus(bridge)
        return bus

    def where(self, line: int) -> str:
        """A line, for evidence."""
        return f"{self.log.source}:{line}"


def _bus(address: str) -> str:
    return address.rsplit(":", 1)[0]


def _functions(host: Host, tree: _Tree) -> Iterable[Function]:
    known = {} if isinstance(host.functions, Unknown) else host.functions
    complete = any(each.origin.startswith("/") or address.endswith(":00:00.0") for address, each in known.items())
    for said in tree.said.functions.values():
        old = known.get(said.address)
        if old is None and (complete or not _is_told(said)):
            continue
        if _same(known, said):
            new = _function(tree, said)
            # Who drove it then says nothing where nobody drives it now.
            yield msgspec.structs.replace(new, driver=NOT_TOLD) if old is not None and old.driver is None else new


def _same(known: Mapping[str, Function], said: SaidFunction) -> bool:
    """Whether the log means the function that is at this address now."""
    old = known.get(said.address)
    return old is None or not old.vendor or not said.vendor or (old.vendor, old.device) == (said.vendor, said.device)


def _is_told(said: SaidFunction) -> bool:
    """Whether the log says what a function is, or that it lacks something.

    A GPU that only its driver names counts if the driver resizes its BARs or told its id: one inside a processor is none
    to judge.
    """
    if said.listed or said.secondary_bus is not None:
        return True
    if any(not bar.assigned and bar.range.kind == "mem" and bar.index <= 5 for bar in said.bars):
        return True
    return _VENDORS.get(said.driver) == NVIDIA or (said.driver in _VENDORS and (said.discrete or said.device > 0))


def _function(tree: _Tree, said: SaidFunction) -> Function:
    vendor = said.vendor or _VENDORS.get(said.driver, 0)
    class_code = said.class_code or (_BRIDGE if said.is_bridge else _GPU if said.driver in _VENDORS else 0)
    root = tree.root(said)
    node = None if isinstance(root, Unknown) else tree.said.roots[root].node
    return Function(
        address=said.address,
        vendor=vendor,
        device=said.device,
        class_code=class_code,
        driver=NOT_TOLD if said.driver_failed or not said.driver else said.driver,
        parent=tree.parent(said),
        root=root,
        bars=_bars(tree, said, vendor, class_code),
        windows=tuple(Window(each.range.window_kind, each.range.start, each.range.end) for each in said.windows),
        refused_windows=tuple(
            RefusedWindow(each.range.window_kind, each.range.size_bytes, tree.where(each.line))
            for each in said.refused
            if each.range.kind == "mem"
        ),
        numa_node=NOT_TOLD if node is None else node,
        link=_link(said),
        config=NOT_TOLD,
        port_type=said.port_type,
        origin=tree.where(said.line),
    )


def _bars(tree: _Tree, said: SaidFunction, vendor: int, class_code: int) -> tuple[Bar, ...] | Unknown:
    bars = tuple(_bar(tree, each) for each in said.bars if each.assigned or _matters(each, said))
    if not bars:
        return NOT_TOLD
    wanted = _MEMORY_BARS.get(vendor, ()) if class_code >> 16 in (0x03, 0x12) else ()
    if wanted and all(bar.assigned and bar.index not in wanted for bar in bars):
        return _NO_MEMORY_BAR
    return bars


def _matters(bar: SaidBar, said: SaidFunction) -> bool:
    """Whether a BAR without an address is missed: not I/O, not the ROM, not one that the kernel never assigns."""
    never = said.listed and said.class_code >> 8 in _NEVER_ASSIGNED
    return bar.range.kind == "mem" and bar.index <= 5 and not never


def _bar(tree: _Tree, bar: SaidBar) -> Bar:
    return Bar(
        index=bar.index,
        kind="rom" if bar.index == 6 else bar.range.kind,
        address=bar.range.start if bar.assigned else 0,
        size_bytes=bar.range.size_bytes,
        is_64bit=bar.range.is_64bit,
        prefetchable=bar.range.prefetchable,
        assigned=bar.assigned,
        said_at=tree.where(bar.line),
    )


def _link(said: SaidFunction) -> Link | Unknown:
    """What the function is able to; how its link ran at the boot is in the host's boot_links."""
    if said.link is None:
        return NOT_TOLD
    return Link(_PAST, _PAST, said.link.best_speed_gts, said.link.best_width)


def _with_sizes(host: Host, new: Iterable[Function]) -> Host:
    """The host with the sizes of BARs whose lack of an address is known already, but not how large they are."""
    if isinstance(host.functions, Unknown):
        return host
    functions = dict(host.functions)
    for function in new:
        old = functions.get(function.address)
        if old is not None and not isinstance(old.bars, Unknown) and not isinstance(function.bars, Unknown):
            said = {bar.index: bar for bar in function.bars if bar.size_bytes}
            bars = tuple(_sized(bar, said.get(bar.index)) for bar in old.bars)
            functions[function.address] = msgspec.structs.replace(old, bars=bars)
    return msgspec.structs.replace(host, functions=functions)


def _sized(bar: Bar, said: Bar | None) -> Bar:
    """A BAR without an address with its size from the log, which says where it had one or that it found no space."""
    if bar.assigned or bar.size_bytes or said is None:
        return bar
    return msgspec.structs.replace(bar, size_bytes=said.size_bytes, said_at="" if said.assigned else said.said_at)


# --- the rest ---------------------------------------------------------------------------------------------------------


def _gpu_facts(host: Host, log: Log, named: Mapping[str, SaidFunction], unnamed: Mapping[str, GpuFacts]) -> dict[str, GpuFacts]:
    facts = dict(host.gpu_facts)
    for address, new in (*((address, _facts(log, said)) for address, said in named.items()), *unnamed.items()):
        if new == GpuFacts():
            continue
        old = facts.get(address, GpuFacts())
        tells = isinstance(old.vram_bytes, Unknown) and not isinstance(new.vram_bytes, Unknown)
        facts[address] = msgspec.structs.replace(
            old,
            vram_bytes=new.vram_bytes if tells else old.vram_bytes,
            visible_vram_bytes=new.visible_vram_bytes if tells else old.visible_vram_bytes,
            memory_source=new.memory_source if tells else old.memory_source,
            refused_sizes=old.refused_sizes or new.refused_sizes,
        )
    return facts


def _facts(log: Log, said: SaidFunction) -> GpuFacts:
    if said.vram_bytes is None:
        return GpuFacts(refused_sizes=_refused(log, said.refused_sizes))
    return GpuFacts(
        vram_bytes=said.vram_bytes,
        visible_vram_bytes=NOT_TOLD if said.bar_bytes is None else min(said.vram_bytes, said.bar_bytes),
        refused_sizes=_refused(log, said.refused_sizes),
        memory_source=f"{log.source}:{said.memory_line}",
    )


def _refused(log: Log, sizes: Iterable[SaidSize]) -> tuple[RefusedSize, ...]:
    return tuple(RefusedSize(each.index, each.size_bytes, f"{log.source}:{each.line}") for each in sizes)


def _unnamed_memory(host: Host, log: Log, said: LogResources) -> dict[str, GpuFacts]:
    """Amdgpu's lines that do not say which GPU they mean, where all say the same and there is one for each GPU."""
    functions = {} if isinstance(host.functions, Unknown) else host.functions
    gpus = [
        each.address
        for each in functions.values()
        if each.vendor == ATI and each.base_class in (0x03, 0x12) and each.driver != "vfio-pci" and not each.is_virtual_function
    ]
    sizes = {(each.vram_bytes, each.bar_bytes) for each in said.memories}
    integrated = any(knowledge.is_integrated(functions[address].id, "") for address in gpus)
    if len(sizes) != 1 or len(said.memories) != len(gpus) or integrated:
        return {}
    return {
        address: GpuFacts(
            vram_bytes=each.vram_bytes,
            visible_vram_bytes=min(each.vram_bytes, each.bar_bytes),
            memory_source=f"{log.source}:{each.line}",
        )
        for address, each in zip(gpus, said.memories, strict=True)
    }


def _boot_links(log: Log, named: Mapping[str, SaidFunction]) -> dict[str, BootLink]:
    return {
        address: BootLink(
            limited_by=link.at,
            speed_gts=link.speed_gts,
            width=link.width,
            gbs=link.gbs,
            capable_speed_gts=link.best_speed_gts,
            capable_width=link.best_width,
            capable_gbs=link.best_gbs,
            source=f"{log.source}:{link.line}",
        )
        for address, said in named.items()
        if (link := said.link) is not None
    }


def _with_cards(functions: Mapping[str, Function], links: dict[str, BootLink]) -> dict[str, BootLink]:
    """With what is said of a card's own switch said of its GPU too, of which an older log says nothing by itself."""
    found = dict(links)
    for address, function in functions.items():
        parent = function.parent
        for _ in range(_PORTS_OF_A_CARD):
            if address in found or not isinstance(parent, str) or parent not in functions:
                break
            port = functions[parent]
            if function.base_class not in (0x03, 0x12) or not knowledge.on_board_role(port.id):
                break
            if parent in links:
                found[address] = links[parent]
            parent = port.parent
    return found


def _memory_map(host: Host, log: Log, said: LogResources) -> MemoryMap:
    """What the firmware gave the root buses, where /proc/iomem does not tell it."""
    if not isinstance(host.memory_map.apertures, Unknown):
        return host.memory_map
    found = tuple(
        Aperture(root.bus, each.range.start, each.range.end, f"{log.source}:{each.line}")
        for root in said.roots.values()
        for each in root.apertures
    )
    return MemoryMap(found) if found else host.memory_map
