"""The report every renderer starts from; as JSON it is what people script against (schema 1).

Keys may be added; none is renamed or removed within a schema number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import msgspec

from hostdoctor import __version__, drivers, knowledge
from hostdoctor.bars import vram_bar, vram_bar_of
from hostdoctor.diagnosis import summary
from hostdoctor.evidence import Evidence
from hostdoctor.evidence.provenance import summarise
from hostdoctor.facts.driver import AmdSmi, Nvml
from hostdoctor.facts.host import Contradiction, Host
from hostdoctor.facts.pci import ATI, Function, GpuFacts
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown, known
from hostdoctor.findings import Finding, Outcome
from hostdoctor.p2p import Prediction
from hostdoctor.topology import Card, Segment, link_of, to_root_gbs
from hostdoctor.view import View

if TYPE_CHECKING:
    from hostdoctor.facts.record import Record
    from hostdoctor.readers.attached import Pasted

SCHEMA = 1


class Tool(msgspec.Struct, frozen=True):
    """Which program made the report."""

    name: str = "hostdoctor"
    version: str = __version__


class Unread(msgspec.Struct, frozen=True):
    """A source that is there and could not be read."""

    source: str
    reason: str


class ReportedFrom(msgspec.Struct, frozen=True):
    """The scan that made a report which carries its facts: `kind` and `sources` of its evidence, and the program's version."""

    source: str
    kind: Literal["live", "root", "capture", "attachments"]
    sources: tuple[str, ...]
    version: str


class Sources(msgspec.Struct, frozen=True):
    """Where the facts come from; `files` has one entry for many functions, with a star for the address.

    `report` is null unless a report of this program was judged again; `unread`, `files` and `assumed` are then those of the
    scan that made it, and of what was given beside it.
    """

    kind: Literal["live", "root", "capture", "attachments"]
    sources: tuple[str, ...]
    unread: tuple[Unread, ...]
    files: tuple[str, ...]
    contradictions: tuple[Contradiction, ...] = ()
    assumed: tuple[str, ...] = ()
    report: ReportedFrom | None = None

    @property
    def attached_unread(self) -> tuple[Unread, ...]:
        """What of the attachments was not understood: a host's own files are named by their whole paths there."""
        if self.kind == "attachments":
            return self.unread
        return tuple(each for each in self.unread if not each.source.startswith("/"))

    def of_capture(self, source: str, trouble: str) -> Sources:
        """The same, read from a capture, and what ails that."""
        others = tuple(each for each in self.sources if each != source)
        unread = (Unread(source, trouble), *self.unread) if trouble else self.unread
        return msgspec.structs.replace(self, kind="capture", sources=(source, *others), unread=unread)


class LinkReport(msgspec.Struct, frozen=True):
    """One link: speeds in GT/s, bandwidths in GB/s each way. "possible" is what both of its ends can do."""

    port: str
    speed_gts: float | Unknown
    width: int | Unknown
    possible_speed_gts: float | Unknown
    possible_width: int | Unknown
    card_max_speed_gts: float | Unknown
    card_max_width: int | Unknown
    loaded_gbs: float | Unknown


class GpuReport(msgspec.Struct, frozen=True):
    """One discrete GPU; `slot` is the link between its card and the board, not one inside the card."""

    address: str
    id: str
    name: str
    driver: str | Unknown | None
    memory_bytes: int | Unknown
    bar_bytes: int | Unknown
    numa_node: int | Unknown
    iommu_type: str | Unknown | None
    dma_mask_bits: int | Unknown
    attachment: str | Unknown
    asleep: bool
    slot: LinkReport | None
    to_root_gbs: float | Unknown
    bar_address: int | Unknown = NOT_CAPTURED  # of the BAR that `bar_bytes` speaks of


class PairReport(msgspec.Struct, frozen=True):
    """One ordered pair: what is predicted, the condition that decides, and the driver's own verdict where it has one."""

    accessor: str
    owner: str
    p2p: Literal["holds", "fails", "unknown"]
    condition: str | None
    reason: str
    driver_says: bool | None


NodeKind = Literal[
    "host-bridge", "root-port", "chipset-port", "switch", "card-switch", "bridge", "gpu", "network", "nvme"
]  # fmt: skip


class NodeLink(msgspec.Struct, frozen=True):
    """A link to the port above: now, under load (at the width it has now), and at most by both of its ends; GB/s each way."""

    speed_gts: float | Unknown
    width: int | Unknown
    gbs: float | Unknown
    loaded_gbs: float | Unknown
    possible_speed_gts: float | Unknown
    possible_width: int | Unknown
    possible_gbs: float | Unknown


class Node(msgspec.Struct, frozen=True):
    """One node of the drawing.

    Attributes:
        address: a function's, or of a host bridge its root bus, "0000:17".
        kind: a switch has a node for each port; its upstream port has a link, its downstream ports have none of their own.
            "card-switch" is a port of the switch that a card carries on board.
        parent: the address of the node above; null for a host bridge, unknown where the evidence lacks what is above.
        name: what it is called, or empty.
        link: to the parent; null where both are part of one device. Each of its values is unknown where it leads to ports that
            the evidence leaves out.
        limits: whether this link is the narrowest on some GPU's way to the root, and narrower than that card could use; where
            several are as narrow, it is the one nearest to the card.
        numa_node: the memory node; negative where the firmware names none.
        asleep: whether it was asleep, so that its link says little.
    """

    address: str
    kind: NodeKind
    parent: str | Unknown | None
    name: str
    link: NodeLink | None
    limits: bool
    numa_node: int | Unknown
    asleep: bool = False


class TopologyReport(msgspec.Struct, frozen=True):
    """What lies between the processors and the GPUs, and the network cards and drives that matter to them.

    Attributes:
        nodes: each one after the node above it.
        left_out: drives and RDMA network cards away from the GPUs that are left out because there are so many.
    """

    nodes: tuple[Node, ...] = ()
    left_out: int = 0


class MeasuredCell(msgspec.Struct, frozen=True):
    """What was measured of one way, by one tool; bandwidths in GB/s of 10^9 bytes.

    Attributes:
        origin: where the bytes come from: a GPU, or "host", with its memory node "host:1".
        target: where they go.
        gbs: the bandwidth, of several measurements the slowest; null where the tool gives none, which is not 0.
        lowest_gbs: of several measurements the lowest, with `highest_gbs`; both null where there is only one.
        both_ways: whether it is the sum of both directions at once.
        peer_access: whether the copy was asked to go directly; false where it was staged, null where the tool does not tell.
        latency_us: of a copy of a few bytes, where that is what was measured.
        data: whether what arrived is what was sent; "wrong" also where the tool tells of wrong data and not in which copy.
        tool: "nvbandwidth".
        source: where it stands, "rbt.txt:42".
        withheld: whether the figures are kept back, because data arrived wrong here or in another copy between the same two.
    """

    origin: str
    target: str
    gbs: float | None
    lowest_gbs: float | None
    highest_gbs: float | None
    both_ways: bool
    peer_access: bool | None
    latency_us: float | None
    data: Literal["right", "wrong", "not-compared"]
    tool: str
    source: str
    withheld: bool = False


class DriversReport(msgspec.Struct, frozen=True):
    """Versions of drivers and of the vendors' libraries; null where there is none, or none was asked."""

    nvidia: str | Unknown | None  # of the loaded driver
    nvml: str | Unknown | None
    cuda: str | Unknown | None  # the newest that the driver serves, "12.8"
    amdgpu: str | None  # of a driver that is not the kernel's own
    amd_smi: str | Unknown | None
    amd_smi_source: str | None  # the folder of its Python binding


class HostReport(msgspec.Struct, frozen=True):
    """The facts a reader needs."""

    kernel: str | Unknown
    cmdline: str | Unknown
    distribution: str | Unknown
    cpu: str | Unknown
    cpu_sockets: int | Unknown
    physical_address_bits: int | Unknown
    system: str | Unknown
    board: str | Unknown
    bios: str | Unknown
    virtualisation: str | Unknown
    hypervisor: str
    container: str
    iommu_units: tuple[str, ...] | Unknown
    numa_nodes: tuple[int, ...] | Unknown
    drivers: DriversReport
    functions: int
    gpus: tuple[GpuReport, ...]
    integrated_gpus: tuple[str, ...]
    pairs: tuple[PairReport, ...]
    topology: TopologyReport = TopologyReport()
    measured: tuple[MeasuredCell, ...] = ()


class Report(msgspec.Struct, frozen=True):
    """One scan."""

    tool: Tool
    evidence: Sources
    host: HostReport
    findings: tuple[Finding, ...]
    summary: dict[Outcome, int]
    exit: int
    schema: int = SCHEMA


def build(sources: Sources, view: View, findings: Iterable[Finding], exit_: int) -> Report:
    """The report of a scan."""
    listed = tuple(findings)
    sources = msgspec.structs.replace(sources, contradictions=view.host.contradictions)
    return Report(Tool(), sources, _host(view), listed, summary(listed), exit_)


def sources_of(evidence: Evidence, pasted: Pasted | None = None) -> Sources:
    """What was read and what was not: a host's files, what was attached beside them, or attachments alone."""
    if pasted is None:
        files, unread = summarise(evidence.reads)
        return Sources(evidence.kind, evidence.sources, tuple(Unread(*each) for each in unread), tuple(files))
    if pasted.carried:
        return _of_report(pasted)
    if evidence is pasted.evidence:
        refused = tuple(Unread(*each) for each in pasted.unread)
        return Sources(evidence.kind, evidence.sources, refused, tuple(pasted.read), assumed=pasted.assumed)
    files, unread = summarise(evidence.reads)
    refused = tuple(Unread(*each) for each in (*unread, *pasted.unread))
    named = (*evidence.sources, *pasted.evidence.sources)
    return Sources(evidence.kind, named, refused, (*files, *pasted.read), assumed=pasted.assumed)


def _of_report(pasted: Pasted) -> Sources:
    name, record = pasted.carried[0]
    return Sources(
        pasted.evidence.kind,
        pasted.evidence.sources,
        tuple(Unread(*each) for each in (*record.unread, *pasted.unread)),
        (*record.files, *pasted.read),
        assumed=tuple(dict.fromkeys((*record.assumed, *pasted.assumed))),
        report=ReportedFrom(name, record.kind, record.sources, record.version),
    )


def record_of(sources: Sources, host: Host) -> Record:
    """What a report of these facts carries, so that they can be judged again."""
    from hostdoctor.facts.record import Record  # noqa: PLC0415  a scan carries nothing

    made = sources.report or ReportedFrom("", sources.kind, sources.sources, __version__)
    return Record(
        host,
        made.kind,
        made.sources,
        tuple((each.source, each.reason) for each in sources.unread),
        sources.files,
        sources.assumed,
        made.version,
    )


def _host(view: View) -> HostReport:
    host = view.host
    boot, cpu, firmware = host.boot, host.cpu, host.firmware
    return HostReport(
        kernel=boot.release,
        cmdline=boot.command_line,
        distribution=boot.distribution,
        cpu=cpu.name,
        cpu_sockets=cpu.sockets,
        physical_address_bits=cpu.physical_bits,
        system=_joined(firmware.system_vendor, firmware.product_name),
        board=_joined(firmware.board_vendor, firmware.board_name),
        bios=_joined(firmware.bios_vendor, firmware.bios_version, firmware.bios_date),
        virtualisation=host.environment.kind,
        hypervisor=host.environment.hypervisor,
        container=host.environment.container,
        iommu_units=host.iommu.units,
        numa_nodes=host.numa.nodes,
        drivers=_drivers(host),
        functions=len(view.topology.functions),
        gpus=tuple(_gpu(view, card) for card in view.cards),
        integrated_gpus=tuple(gpu.address for gpu in view.topology.integrated_gpus),
        pairs=() if host.environment.is_guest else tuple(_pair(pair) for pair in view.pairs),
        topology=_topology(view),
        measured=_measured(view),
    )


def _topology(view: View) -> TopologyReport:
    if not view.cards:
        return TopologyReport()
    from hostdoctor.report.nodes import topology_report  # noqa: PLC0415  which imports the types above

    return topology_report(view)


def _measured(view: View) -> tuple[MeasuredCell, ...]:
    if not view.host.runs:
        return ()
    from hostdoctor.report.cells import measured_cells  # noqa: PLC0415  most scans have no recorded runs

    return measured_cells(view.host.runs)


def _drivers(host: Host) -> DriversReport:
    modules = {} if isinstance(host.modules, Unknown) else host.modules
    loaded = {name: module.version for name, module in modules.items()}
    nvml, amd_smi = host.nvml, host.amd_smi
    asked = nvml if isinstance(nvml, Nvml) else None
    cuda = asked.cuda_version if asked else None
    return DriversReport(
        nvidia=loaded.get("nvidia") or (asked.driver_version if asked else None),
        nvml=nvml.library_version if isinstance(nvml, Nvml) else nvml,
        cuda=f"{cuda // 1000}.{cuda % 1000 // 10}" if isinstance(cuda, int) else cuda,
        amdgpu=loaded.get("amdgpu"),
        amd_smi=amd_smi.library_version if isinstance(amd_smi, AmdSmi) else amd_smi,
        amd_smi_source=amd_smi.source if isinstance(amd_smi, AmdSmi) else None,
    )


def _joined(*parts: str | Unknown) -> str | Unknown:
    found = [part for part in parts if not isinstance(part, Unknown) and part]
    if found:
        return " ".join(dict.fromkeys(found))
    return next((part for part in parts if isinstance(part, Unknown)), Unknown("it is empty"))


def _gpu(view: View, card: Card) -> GpuReport:
    gpu = card.gpu
    facts = drivers.with_memory(view.host, gpu)
    bar = vram_bar_of(gpu, facts)
    return GpuReport(
        address=gpu.address,
        id=gpu.id,
        name=view.name(gpu),
        driver=gpu.driver,
        memory_bytes=_memory(gpu, facts),
        bar_bytes=bar if isinstance(bar, Unknown) else bar.size_bytes,
        numa_node=gpu.numa_node,
        iommu_type=gpu.iommu_type,
        dma_mask_bits=gpu.dma_mask_bits,
        attachment=card.attachment,
        asleep=gpu.asleep,
        slot=_link(card.slot) if isinstance(card.slot, Segment) else None,
        to_root_gbs=to_root_gbs(card),
        bar_address=_bar_address(gpu),
    )


def _bar_address(gpu: Function) -> int | Unknown:
    bar = vram_bar(gpu)
    if isinstance(bar, Unknown):
        return bar
    return bar.address if bar is not None and bar.assigned else Unknown("its memory BAR has no address")


def _memory(gpu: Function, facts: GpuFacts) -> int | Unknown:
    """What the driver says, else what the product has where all products of its id have the same."""
    if not isinstance(facts.vram_bytes, Unknown):
        return facts.vram_bytes
    nominal = knowledge.vram_range_bytes(gpu.id)
    return nominal[0] if nominal and nominal[0] == nominal[1] else facts.vram_bytes


def _link(segment: Segment) -> LinkReport:
    edge = link_of(segment.lower)
    return LinkReport(
        port=segment.upper.address,
        speed_gts=edge.current_speed_gts,
        width=edge.current_width,
        possible_speed_gts=segment.max_speed_gts,
        possible_width=segment.max_width,
        card_max_speed_gts=edge.max_speed_gts,
        card_max_width=edge.max_width,
        loaded_gbs=segment.loaded_gbs,
    )


def _pair(pair: Prediction) -> PairReport:
    decisive = pair.decisive
    return PairReport(
        accessor=pair.accessor.address,
        owner=pair.owner.address,
        p2p=_state(pair),
        condition=decisive.name if decisive else None,
        reason=decisive.text if decisive else "every condition holds",
        driver_says=pair.driver_says,
    )


def _state(pair: Prediction) -> Literal["holds", "fails", "unknown"]:
    """As check p2p-pair gives it: KFD's yes stands for conditions that could not be seen."""
    if pair.disagrees:
        return "unknown"
    return "holds" if pair.state == "unknown" and pair.driver_says and pair.accessor.vendor == ATI else pair.state


def to_json(report: Report) -> bytes:
    """The report as JSON, for people as much as for programs."""
    return printable(report)


def printable(report: msgspec.Struct) -> bytes:
    """Any report as JSON of which nothing can do anything to a terminal."""
    try:
        data = msgspec.json.encode(report)
    except UnicodeEncodeError:  # a lone surrogate, which some check found in a name
        import json  # noqa: PLC0415  costs time that no ordinary report needs

        data = json.dumps(msgspec.to_builtins(report), ensure_ascii=False).encode("utf-8", "replace")
    text = msgspec.json.format(data, indent=2).decode()
    if not text.replace("\n", "").isprintable():
        text = "".join(sign if sign.isprintable() or sign == "\n" else _escaped(sign) for sign in text)
    return text.encode() + b"\n"


def _escaped(sign: str) -> str:
    """A character as JSON escapes it: in UTF-16, so that some take two."""
    units = sign.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


class _Head(msgspec.Struct):
    schema: int = SCHEMA


def from_json(data: bytes) -> Report:
    """A report that `to_json` wrote, of this version or an older one; raises ValueError with the reason."""
    try:
        if (schema := msgspec.json.decode(data, type=_Head).schema) > SCHEMA:
            raise ValueError(f"it is of a newer hostdoctor (schema {schema}, this one reads up to {SCHEMA})")
        return msgspec.json.decode(data, type=Report)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(f"it is no report of this schema: {error}") from None


def json_schema() -> dict[str, object]:
    """The JSON Schema of a report, made from these types."""
    return msgspec.json.schema(Report)


def shown(value: str | Unknown) -> str:
    """A text fact, or nothing where it is not known."""
    return known(value, "")
