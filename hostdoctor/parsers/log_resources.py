"""What a kernel log says of PCI functions: their ids, BARs, windows, buses, links, and the memory of GPUs.

Kernels before 6.8 write "BAR 1: assigned [mem ...]", later ones and stable series that took the change over write
"BAR 1 [mem ...]: assigned"; both are read alike. Of several statements about one thing the last counts: a BAR that found
no space and was assigned afterwards has its place.

Sources: Linux drivers/pci/probe.c (pci_setup_device, pci_read_bridge_windows, pci_register_host_bridge),
setup-res.c (pci_assign_resource, pci_claim_resource, pci_release_resource, pci_enable_resources), setup-bus.c, pci.c
(__pcie_print_link_status, pci_resource_name), lib/vsprintf.c (resource_string); amdgpu_device.c amdgpu_device_resize_fb_bar,
amdgpu_object.c, amdgpu_gmc.c; kfd_device.c; xe_vram.c, intel_region_lmem.c; NVIDIA open-gpu-kernel-modules
kernel-open/nvidia/nv-pci.c (nv_resize_pcie_bars, nv_pci_probe).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from hostdoctor.parsers.kernel_log import Log, Message

MIB = 1 << 20
_ROM = 6
_LAST_BAR = 5
_FIRST_WINDOW = 13  # in the numbering of kernels with SR-IOV; without it windows begin at 7, as the BARs of VFs do with it
_WITHOUT_SRIOV = 7

# struct pci_dev's type as pci_type_str names it.
_PORT_TYPES = {
    "PCIe Endpoint": 0,
    "PCIe Legacy Endpoint": 1,
    "PCIe Root Port": 4,
    "PCIe Switch Upstream Port": 5,
    "PCIe Switch Downstream Port": 6,
    "PCIe to PCI/PCI-X bridge": 7,
    "PCI/PCI-X to PCIe bridge": 8,
    "PCIe Root Complex Integrated Endpoint": 9,
    "PCIe Root Complex Event Collector": 10,
}

_ADDRESS = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_ROOT = r"(?P<root>[0-9a-f]{4,8}:[0-9a-f]{2})"
_HEX = r"0x[0-9a-f]{1,16}"
_RANGE = rf"\[(?P<kind>mem|io) +(?:size (?P<size>{_HEX})|(?P<start>{_HEX})(?:-(?P<end>{_HEX}))?)(?P<flags>[a-z0-9 ]{{0,60}})\]"
_BUSES = r"\[bus (?P<first>[0-9a-f]{2})(?:-(?P<last>[0-9a-f]{2}))?\]"

_SPEAKER = re.compile(rf"(?P<driver>[\w.-]{{1,40}}) (?P<address>{_ADDRESS}): ?(?P<said>.*)")
_IDS = re.compile(
    r"\[(?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})\] type (?P<type>[0-9a-f]{1,2}) class (?P<class>0x[0-9a-f]{4,6})"
    r"(?: (?P<port>[\w/ -]{1,60}))?"
)
_REGISTER = re.compile(rf"reg (?:0x)?(?P<register>[0-9a-f]{{2,3}}): {_RANGE}$")
_OLD = re.compile(rf"BAR (?P<index>\d{{1,2}}): (?P<verb>[a-z' ]{{1,40}}?) ?{_RANGE}")
_OLD_SIZED = re.compile(
    r"BAR (?P<index>\d{1,2}): can't assign (?P<kind>mem|io)(?P<flags>(?: pref)?) \(size (?P<size>0x[0-9a-f]{1,16})\)"
)
_OLD_CLAIM = re.compile(rf"can't (?P<verb>claim|enable device:) BAR (?P<index>\d{{1,2}}):? {_RANGE}")
_NEW = re.compile(rf"(?P<name>VF BAR|BAR|ROM|bridge window)(?: (?P<index>\d{{1,2}}))? {_RANGE}(?:: (?P<verb>.{{1,200}}))?$")
_RELEASED = re.compile(rf"resource (?P<index>\d{{1,2}}) {_RANGE} released")
_BRIDGE = re.compile(rf"PCI bridge to {_BUSES}")
_LINK = re.compile(
    r"(?P<gbs>\d{1,6}\.\d{1,3}) Gb/s available PCIe bandwidth"
    r"(?:, limited by (?P<speed>[\d.]{1,6}) GT/s(?: PCIe)? x(?P<width>\d{1,2}) "
    rf"link at (?P<at>{_ADDRESS}))? \((?:capable of (?P<capable>\d{{1,6}}\.\d{{1,3}}) Gb/s with )?"
    r"(?P<best_speed>[\d.]{1,6}) GT/s(?: PCIe)? x(?P<best_width>\d{1,2}) link\)"
)
_HOST_BRIDGE = re.compile(rf"(?:\S{{1,60}} \S{{1,60}}: )?PCI host bridge to bus {_ROOT}")
_ROOT_RESOURCE = re.compile(rf"pci_bus {_ROOT}: (?:root bus resource|resource \d{{1,3}}) (?:{_RANGE}|{_BUSES})")
_NODE = re.compile(rf"pci_bus {_ROOT}: on NUMA node (?P<node>\d{{1,4}})$")

_PROBE_FAILED = re.compile(
    rf"(?:[\w-]{{1,40}}: probe of (?P<of>{_ADDRESS})|[\w-]{{1,40}} (?P<by>{_ADDRESS}): probe with driver \S{{1,40}}) failed"
)

_MODESETTING = re.compile(
    r"initializing kernel modesetting \((?P<chip>[\w -]{1,40}?) 0x(?P<vendor>[0-9A-Fa-f]{4}):0x(?P<device>[0-9A-Fa-f]{4})"
)
_KFD_ADDED = re.compile(r"kfd kfd: (?:amdgpu: )?added device (?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})")
_VRAM = re.compile(r"VRAM: (?P<mib>\d{1,9})M 0x")
_DETECTED = re.compile(r"Detected VRAM RAM=(?P<mib>\d{1,9})M, BAR=(?P<bar>\d{1,9})M")
_LARGE_BAR_REFUSED = "Not enough PCI address space for a large BAR"
_INTEL_REFUSED = re.compile(r"Failed to resize BAR(?P<index>\d) to (?P<mib>\d{1,9})M \(-ENOSPC\)")
_INTEL_REDUCED = re.compile(r"Using a reduced BAR size of (?P<mib>\d{1,9})MiB")
_NVIDIA_BAR = re.compile(
    r"NVRM: BAR(?P<index>\d) is (?P<mib>\d{1,9})M @ (?P<start>0x[0-9a-f]{1,16}) \(PCI:(?P<address>[0-9a-f:.]{6,20})\)"
)
_NVIDIA_REFUSED = "NVRM: No address space to allocate resized BAR1"
_NVIDIA_LOST = "NVRM: FATAL: Failed to re-allocate BAR1"

_GPU_DRIVERS = ("amdgpu", "radeon", "nvidia", "nouveau", "i915", "xe")
_NOBODY = ("pci", "pci_bus", "vgaarb", "iommu")

State = Literal["placed", "missing", "unplaced", "released"]


class Range(msgspec.Struct, frozen=True):
    """A range as the kernel prints it; without an address it has a size only.

    Attributes:
        kind: "mem" or "io".
        start: its first address; 0 without one.
        size_bytes: how large it is.
        is_64bit: flagged 64bit.
        prefetchable: flagged pref.
    """

    kind: str
    start: int
    size_bytes: int
    is_64bit: bool = False
    prefetchable: bool = False

    @property
    def end(self) -> int:
        """The last address, inclusive."""
        return self.start + self.size_bytes - 1

    @property
    def window_kind(self) -> str:
        """As facts name windows: io, mem or prefetchable."""
        return "prefetchable" if self.prefetchable else self.kind


class SaidBar(msgspec.Struct, frozen=True):
    """The last word on a BAR: where it lies, or that it found no place."""

    index: int
    range: Range
    assigned: bool
    line: int


class SaidWindow(msgspec.Struct, frozen=True):
    """A range of a root bus, or a window of a bridge: open, or refused, which the kernel found no space for."""

    range: Range
    line: int


class SaidSize(msgspec.Struct, frozen=True):
    """A size that a driver wanted to give a BAR, and found no space for; 0 where the log does not tell it."""

    index: int
    size_bytes: int
    line: int


class SaidLink(msgspec.Struct, frozen=True):
    """The bandwidth from a function to the root complex as the kernel found it.

    Attributes:
        at: the port whose link is the narrowest; empty where the function can use all it is able to.
        speed_gts, width, gbs: that link; `gbs` in GB/s (10^9) after coding.
        best_speed_gts, best_width, best_gbs: what the function itself is able to.
    """

    at: str
    speed_gts: float
    width: int
    gbs: float
    best_speed_gts: float
    best_width: int
    best_gbs: float
    line: int


class SaidFunction(msgspec.Struct, frozen=True):
    """What the log says of one function.

    Attributes:
        address: with its domain.
        vendor, device, class_code: 0 where the log does not list it; `listed` tells.
        port_type: the device/port type, in later kernels' words; None otherwise.
        is_bridge: a PCI-to-PCI bridge, by its header or by what else is said of it.
        driver: the last driver that spoke of it, or empty; driver_failed: its probe failed, and it said nothing since.
        bars: those with a last word.
        windows: those that are open, refused: those the kernel found no space for.
        secondary_bus: the bus below it; None where it is not told.
        refused_sizes: sizes that its driver wanted to give BARs.
        vram_bytes, bar_bytes: the memory its driver found, and how large it saw the memory BAR; None where not told.
        discrete: a driver resized its BARs, which none does for a GPU inside a processor.
        line: the line that lists it, or the first one about it.
    """

    address: str
    line: int
    listed: bool = False
    vendor: int = 0
    device: int = 0
    class_code: int = 0
    port_type: int | None = None
    is_bridge: bool = False
    driver: str = ""
    driver_failed: bool = False
    bars: tuple[SaidBar, ...] = ()
    windows: tuple[SaidWindow, ...] = ()
    refused: tuple[SaidWindow, ...] = ()
    secondary_bus: int | None = None
    refused_sizes: tuple[SaidSize, ...] = ()
    link: SaidLink | None = None
    vram_bytes: int | None = None
    bar_bytes: int | None = None
    memory_line: int = 0
    discrete: bool = False


class SaidRoot(msgspec.Struct, frozen=True):
    """A root bus.

    Attributes:
        bus: "0000:17".
        apertures: memory the firmware gave it, in the order of the log.
        node: its memory node, or None.
        line: the first line about it.
    """

    bus: str
    line: int
    apertures: tuple[SaidWindow, ...] = ()
    node: int | None = None


class DetectedMemory(msgspec.Struct, frozen=True):
    """Amdgpu's line about a GPU's memory where nothing tells which GPU it means."""

    vram_bytes: int
    bar_bytes: int
    line: int


class LogResources(msgspec.Struct, frozen=True):
    """All of it.

    Attributes:
        functions: by address, in the order of the log.
        roots: by bus.
        memories: amdgpu's lines about memory of GPUs that the log does not name.
        old_wording: whether resources are worded as kernels before 6.8 do.
    """

    functions: Mapping[str, SaidFunction] = {}
    roots: Mapping[str, SaidRoot] = {}
    memories: tuple[DetectedMemory, ...] = ()
    old_wording: bool = False


def read_resources(log: Log) -> LogResources:
    """What the last boot in a log says of functions; linear in its length, and never raises."""
    reader = _Reader()
    for message in log.messages:
        if message.boot == log.boots - 1:
            reader.take(message)
    return reader.told()


# --- the state while a log is read ------------------------------------------------------------------------------------


class _Bar:
    """A BAR from its first word to its last."""

    def __init__(self) -> None:
        self.place: Range | None = None  # the last one it had
        self.wanted: Range | None = None  # what it has no address for
        self.state: State = "released"
        self.given_up = False  # by a driver, to resize
        self.line = 0

    def placed(self, at: Range, line: int) -> None:
        self.place, self.wanted, self.state, self.line = at, None, "placed", line

    def unplaced(self, wanted: Range, line: int) -> None:
        self.wanted, self.state, self.line = wanted, "unplaced", line

    def released(self, by_driver: bool) -> None:
        self.given_up |= by_driver
        if self.state == "placed":
            self.state = "released"

    def refused(self, wanted: Range, line: int) -> bool:
        """Takes a "no space"; tells whether a driver only wanted it larger, so that it keeps the place it had."""
        if self.place is not None and self.state != "missing" and wanted.size_bytes > self.place.size_bytes:
            self.state = "placed"
            return True
        if self.wanted is not None and self.wanted.is_64bit:  # old kernels do not repeat it
            wanted = msgspec.structs.replace(wanted, is_64bit=True)
        self.wanted, self.state, self.line = wanted, "missing", line
        return False

    def said(self, index: int, settled_line: int) -> SaidBar | None:
        """Its last word; one that never got an address has none unless the kernel was done with assigning."""
        if self.state == "placed" and self.place is not None:
            return SaidBar(index, self.place, True, self.line)
        missing = self.state == "missing" or (self.state == "unplaced" and settled_line > self.line)
        return SaidBar(index, self.wanted, False, self.line) if missing and self.wanted is not None else None


class _Function:
    """A function while the log is read."""

    def __init__(self, address: str, line: int) -> None:
        self.address, self.line = address, line
        self.ids: tuple[int, int, int] | None = None
        self.port_type: int | None = None
        self.is_bridge = self.discrete = self.enumerated = False
        self.driver = ""
        self.driver_failed = False
        self.bars: dict[int, _Bar] = {}
        self.windows: dict[str, SaidWindow] = {}
        self.refused: dict[str, SaidWindow] = {}
        self.secondary_bus: int | None = None
        self.refused_sizes: dict[int, SaidSize] = {}
        self.link: SaidLink | None = None
        self.vram_bytes: int | None = None
        self.bar_bytes: int | None = None
        self.memory_line = 0

    def listed(self, match: re.Match[str], line: int) -> None:
        """It is enumerated, at the boot or after it was plugged in: what was said before is void."""
        class_code = int(match["class"], 16)
        if len(match["type"]) == 1:  # kernels before 3.3 leave the programming interface out
            class_code <<= 8
        self.ids = (int(match["vendor"], 16), int(match["device"], 16), class_code)
        self.line, self.enumerated, self.is_bridge = line, True, int(match["type"], 16) == 1
        self.port_type = _PORT_TYPES.get((match["port"] or "").strip())
        self.bars, self.windows, self.refused = {}, {}, {}

    def bar(self, index: int) -> _Bar:
        return self.bars.setdefault(index, _Bar())

    def restored(self, place: Range) -> None:
        """A BAR has its place again after a resize that failed; the kernel then places smaller ones, if it does not say so.

        What finds no space even so is told after this.
        """
        for bar in self.bars.values():
            if bar.state == "missing" and bar.given_up and bar.place and bar.place.size_bytes < place.size_bytes:
                bar.state = "released"

    def want_larger(self, index: int, size_bytes: int, line: int) -> None:
        old = self.refused_sizes.get(index)
        if old is None or size_bytes > old.size_bytes:
            self.refused_sizes[index] = SaidSize(index, size_bytes, line)

    def told(self, settled_line: int) -> SaidFunction:
        vendor, device, class_code = self.ids or (0, 0, 0)
        bars = [bar.said(index, settled_line) for index, bar in sorted(self.bars.items())]
        return SaidFunction(
            address=self.address,
            line=self.line,
            listed=self.enumerated,
            vendor=vendor,
            device=device,
            class_code=class_code,
            port_type=self.port_type,
            is_bridge=self.is_bridge,
            driver=self.driver,
            driver_failed=self.driver_failed,
            bars=tuple(bar for bar in bars if bar is not None),
            windows=tuple(self.windows.values()),
            refused=tuple(self.refused.values()),
            secondary_bus=self.secondary_bus,
            refused_sizes=tuple(self.refused_sizes.values()),
            link=self.link,
            vram_bytes=self.vram_bytes,
            bar_bytes=self.bar_bytes,
            memory_line=self.memory_line,
            discrete=self.discrete,
        )


class _Root:
    """A root bus while the log is read."""

    def __init__(self, bus: str, line: int) -> None:
        self.bus, self.line = bus, line
        self.apertures: dict[tuple[int, int], SaidWindow] = {}
        self.node: int | None = None

    def told(self) -> SaidRoot:
        return SaidRoot(self.bus, self.line, tuple(self.apertures.values()), self.node)


class _Reader:
    """Takes messages in their order."""

    def __init__(self) -> None:
        self.functions: dict[str, _Function] = {}
        self.roots: dict[str, _Root] = {}
        self.nodes: dict[str, int] = {}
        self.old_wording = False
        self.settled_line = 0  # where the kernel last listed what it had assigned
        self.gpus = _Gpus(self.function)

    def function(self, address: str, line: int) -> _Function:
        return self.functions.setdefault(address, _Function(address, line))

    def take(self, message: Message) -> None:
        text, line = message.text, message.line
        speaker = _SPEAKER.match(text)
        if speaker:
            self._of_function(speaker, line)
        elif "bus " in text:
            self._of_bus(text, line)
        self.gpus.take(text, line, speaker)
        if speaker and speaker["driver"] not in _NOBODY:
            self._bound(speaker["address"], True)
        if "failed" in text and (match := _PROBE_FAILED.match(text)):
            self._bound(match["of"] or match["by"], False)

    def _bound(self, address: str, is_so: bool) -> None:
        if (function := self.functions.get(address)) is not None:
            function.driver_failed = not is_so

    def told(self) -> LogResources:
        roots = {bus: root.told() for bus, root in self.roots.items()}
        return LogResources(
            {address: function.told(self.settled_line) for address, function in self.functions.items()},
            {bus: msgspec.structs.replace(root, node=self.nodes.get(bus)) for bus, root in roots.items()},
            tuple(self.gpus.memories),
            self.old_wording,
        )

    def _of_bus(self, text: str, line: int) -> None:
        """Root buses: "PCI host bridge to bus 0000:17" and what they have."""
        if match := _HOST_BRIDGE.match(text):
            self.roots.setdefault(match["root"], _Root(match["root"], line))
        elif match := _NODE.match(text):
            self.nodes[match["root"]] = int(match["node"])
        elif match := _ROOT_RESOURCE.match(text):
            if ": resource " in text:
                self.settled_line = line
                return
            root = self.roots.setdefault(match["root"], _Root(match["root"], line))
            found = _range(match) if match["kind"] == "mem" else None
            # From address 0 on means that the firmware named no ranges, and the kernel takes all there is.
            if found is not None and found.start > 0 and found.size_bytes > 1:
                root.apertures[found.start, found.end] = SaidWindow(found, line)

    def _of_function(self, speaker: re.Match[str], line: int) -> None:
        said = speaker["said"].strip()
        driver, address = speaker["driver"], speaker["address"]
        known = self.functions.get(address)
        if driver not in _NOBODY and known is not None:
            known.driver = driver
        for pattern, use in _STATEMENTS:
            if match := pattern.match(said):
                function = known or self.function(address, line)
                if driver not in _NOBODY:
                    function.driver = driver
                function.is_bridge = function.is_bridge or driver == "pcieport"
                self.old_wording |= pattern in (_OLD, _OLD_SIZED, _OLD_CLAIM, _REGISTER)
                use(function, match, line)
                return


# --- what lines about a function mean ---------------------------------------------------------------------------------


def _range(match: re.Match[str]) -> Range:
    """The range a match names; one that begins at 0 has no address yet."""
    kind, flags = match["kind"], match["flags"] or ""
    is_64bit, prefetchable = "64bit" in flags, "pref" in flags
    if size := match["size"]:
        return Range(kind, 0, int(size, 16), is_64bit, prefetchable)
    start = int(match["start"], 16)
    end = int(match["end"], 16) if match["end"] else start
    return Range(kind, start, max(0, end - start + 1), is_64bit, prefetchable)


def _ids(function: _Function, match: re.Match[str], line: int) -> None:
    function.listed(match, line)


def _register(function: _Function, match: re.Match[str], line: int) -> None:
    """Kernels before 6.8: "reg 0x14" is BAR 1; registers from 0x40 on belong to virtual functions."""
    register = int(match["register"], 16)
    if 0x10 <= register <= 0x24 and register % 4 == 0:
        _read(function, (register - 0x10) // 4, _range(match), line)
    elif register in (0x30, 0x38):
        _read(function, _ROM, _range(match), line)


def _read(function: _Function, index: int, found: Range, line: int) -> None:
    """What a BAR's register held when the function was enumerated."""
    if found.start:
        function.bar(index).placed(found, line)
    elif found.size_bytes:
        function.bar(index).unplaced(found, line)


def _old(function: _Function, match: re.Match[str], line: int) -> None:
    index, found, verb = int(match["index"]), _range(match), match["verb"].strip()
    if index <= _ROM:
        _bar_word(function, index, found, verb, line)
    elif index >= _FIRST_WINDOW or (function.is_bridge and index >= _WITHOUT_SRIOV):
        _window_word(function, found, verb, line)


def _old_sized(function: _Function, match: re.Match[str], line: int) -> None:
    index = int(match["index"])
    found = Range(match["kind"], 0, int(match["size"], 16), prefetchable="pref" in match["flags"])
    if index <= _ROM:
        _bar_word(function, index, found, "no space for", line)
    elif index >= _FIRST_WINDOW or (function.is_bridge and index >= _WITHOUT_SRIOV):
        _window_word(function, found, "no space for", line)


def _old_claim(function: _Function, match: re.Match[str], line: int) -> None:
    index = int(match["index"])
    if index <= _ROM:
        verb = "can't claim" if match["verb"] == "claim" else "not assigned"
        _bar_word(function, index, _range(match), verb, line)


def _new(function: _Function, match: re.Match[str], line: int) -> None:
    name, found, verb = match["name"], _range(match), match["verb"] or ""
    if name == "bridge window":
        _window_word(function, found, verb or "assigned", line)
    elif name == "ROM" or (name == "BAR" and match["index"]):
        index = _ROM if name == "ROM" else int(match["index"])
        if not verb:
            _read(function, index, found, line)
        elif index <= _ROM:
            _bar_word(function, index, found, verb, line)


def _bar_word(function: _Function, index: int, found: Range, verb: str, line: int) -> None:
    bar = function.bar(index)
    if verb in ("assigned", "set to", "old value restored") or verb.startswith("reassigned"):
        if found.start:
            bar.placed(found, line)
            function.restored(found)
    elif verb.startswith(_NO_SPACE):
        if bar.refused(found, line):
            function.want_larger(index, found.size_bytes, line)
            function.discrete = True
    elif verb.startswith("can't claim"):
        bar.unplaced(found, line)
    elif verb == "releasing":
        by_driver = function.driver in _GPU_DRIVERS
        function.discrete |= by_driver
        if bar.state == "released" and bar.place is None and found.start:
            bar.placed(found, line)
        bar.released(by_driver)


_NO_SPACE = ("no space for", "can't assign", "can't allocate", "failed to assign", "not assigned", "not claimed")


def _window_word(function: _Function, found: Range, verb: str, line: int) -> None:
    function.is_bridge = True
    kind = found.window_kind
    if verb in ("assigned", "set to", "old value restored") or verb.startswith("reassigned"):
        if found.start and found.size_bytes:
            function.windows[kind] = SaidWindow(found, line)
            old = function.refused.get(kind)
            if old is not None and old.range.size_bytes <= found.size_bytes:
                del function.refused[kind]
    elif verb.startswith(_NO_SPACE):
        function.windows.pop(kind, None)
        function.refused[kind] = SaidWindow(found, line)
    elif verb in ("releasing", "released"):
        function.windows.pop(kind, None)


def _window_released(function: _Function, match: re.Match[str], line: int) -> None:
    if int(match["index"]) >= _WITHOUT_SRIOV:
        _window_word(function, _range(match), "released", line)


def _bridge(function: _Function, match: re.Match[str], line: int) -> None:
    """The bus below; a bridge that firmware left without a valid one is told again once it has one."""
    function.is_bridge = True
    first = int(match["first"], 16)
    own = int(function.address.split(":")[1], 16)
    if first > own:
        function.secondary_bus = first


def _link(function: _Function, match: re.Match[str], line: int) -> None:
    best_speed, best_width = float(match["best_speed"]), int(match["best_width"])
    gbs = float(match["gbs"]) / 8
    function.link = SaidLink(
        at=match["at"] or "",
        speed_gts=float(match["speed"]) if match["speed"] else best_speed,
        width=int(match["width"]) if match["width"] else best_width,
        gbs=gbs,
        best_speed_gts=best_speed,
        best_width=best_width,
        best_gbs=float(match["capable"]) / 8 if match["capable"] else gbs,
        line=line,
    )


_STATEMENTS: tuple[tuple[re.Pattern[str], Callable[[_Function, re.Match[str], int], None]], ...] = (
    (_IDS, _ids),
    (_NEW, _new),
    (_OLD, _old),
    (_OLD_SIZED, _old_sized),
    (_OLD_CLAIM, _old_claim),
    (_REGISTER, _register),
    (_RELEASED, _window_released),
    (_BRIDGE, _bridge),
    (_LINK, _link),
)


# --- what GPU drivers say ---------------------------------------------------------------------------------------------


class _Gpus:
    """Lines of GPU drivers, many of which do not say which GPU they mean: then it is the one last spoken of.

    amdgpu and nvidia set up one GPU after the other, so that holds; only the ids come before the GPU's address does.
    """

    def __init__(self, function: Callable[[str, int], _Function]) -> None:
        self._function = function
        self._last: dict[str, _Function] = {}
        self._ids: tuple[int, int] | None = None
        self._memory_told = False  # of the GPU last spoken of
        self.memories: list[DetectedMemory] = []

    def take(self, text: str, line: int, speaker: re.Match[str] | None) -> None:
        driver = speaker["driver"] if speaker else ""
        said = text
        if speaker and driver in _GPU_DRIVERS:
            said = speaker["said"].strip()
            self._spoken_of(driver, self._function(speaker["address"], line))
        elif speaker:
            return
        if driver in ("amdgpu", "") and ("VRAM" in said or "modesetting" in said or "large BAR" in said):
            self._amdgpu(said, line, addressed=bool(speaker))
        elif said.startswith("kfd kfd") and (match := _KFD_ADDED.match(said)):
            self._name(self._last.get("amdgpu"), match)
        elif said.startswith("NVRM: "):
            self._nvidia(said, line)
        elif driver in ("i915", "xe"):
            self._intel(self._last[driver], said, line)

    def _spoken_of(self, driver: str, function: _Function) -> None:
        function.driver = driver
        self._last[driver] = function
        if driver == "amdgpu":
            self._memory_told = False
            if self._ids is not None and function.ids is None:
                function.ids = (*self._ids, 0)
            self._ids = None

    def _name(self, function: _Function | None, match: re.Match[str]) -> None:
        if function is not None and function.ids is None:
            function.ids = (int(match["vendor"], 16), int(match["device"], 16), 0)

    def _amdgpu(self, said: str, line: int, addressed: bool) -> None:
        function = self._last.get("amdgpu")
        if match := _MODESETTING.search(said):
            self._modesetting(match, function if addressed else None)
        elif match := _DETECTED.search(said):
            self._detected(function, int(match["mib"]) * MIB, int(match["bar"]) * MIB, line)
        elif function is not None and (match := _VRAM.search(said)):
            function.vram_bytes, function.memory_line = int(match["mib"]) * MIB, line
        elif function is not None and _LARGE_BAR_REFUSED in said:
            function.discrete = True
            function.want_larger(0, 0, line)

    def _modesetting(self, match: re.Match[str], function: _Function | None) -> None:
        if function is not None:
            self._name(function, match)
        else:
            self._ids = (int(match["vendor"], 16), int(match["device"], 16))

    def _detected(self, function: _Function | None, vram: int, bar: int, line: int) -> None:
        if function is None or self._memory_told or (function.vram_bytes or vram) != vram:
            self.memories.append(DetectedMemory(vram, bar, line))
            return
        self._memory_told = True
        function.vram_bytes, function.bar_bytes, function.memory_line = vram, bar, line
        refused = function.refused_sizes.get(0)
        if refused is not None and not refused.size_bytes and vram:
            function.refused_sizes[0] = SaidSize(0, 1 << (vram - 1).bit_length(), refused.line)

    def _nvidia(self, said: str, line: int) -> None:
        function = self._last.get("nvidia")
        if match := _NVIDIA_BAR.match(said):
            self._invalid(match, line)
        elif function is not None and said.startswith(_NVIDIA_REFUSED):
            function.want_larger(1, 0, line)
        elif function is not None and said.startswith(_NVIDIA_LOST):
            bar = function.bar(1)
            bar.unplaced(bar.place or Range("mem", 0, 0, True, True), line)
            bar.state = "missing"

    def _invalid(self, match: re.Match[str], line: int) -> None:
        """A BAR the driver will not work with; one without a place is all that is known to be missing."""
        address = match["address"]
        if address.count(":") == 1:
            address = f"0000:{address}"
        if not re.fullmatch(_ADDRESS, address):
            return
        function = self._function(address, line)
        self._spoken_of("nvidia", function)
        if not int(match["start"], 16):
            bar = function.bar(int(match["index"]))
            size = int(match["mib"]) * MIB or (bar.wanted.size_bytes if bar.wanted else 0)
            bar.unplaced(Range("mem", 0, size, True, True), line)
            bar.state = "missing"

    @staticmethod
    def _intel(function: _Function, said: str, line: int) -> None:
        if match := _INTEL_REFUSED.search(said):
            function.want_larger(int(match["index"]), int(match["mib"]) * MIB, line)
            function.discrete = True
        elif match := _INTEL_REDUCED.search(said):
            function.want_larger(2, 0, line)
            function.discrete = True
