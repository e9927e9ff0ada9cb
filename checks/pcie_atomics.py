"""Whether PCIe atomics reach each AMD GPU that needs them."""

from __future__ import annotations

from collections.abc import Iterator

from hostdoctor import knowledge, logged
from hostdoctor.facts.host import Kfd
from hostdoctor.facts.log import LogEvent
from hostdoctor.facts.pci import ATI, ROOT_PORT, UPSTREAM_PORT, Express, Function
from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import Check, Evidence, Finding, unjudged
from hostdoctor.topology import is_lost
from hostdoctor.view import View

ID = "pcie-atomics"

# Flags of a KFD link: no 32-bit and no 64-bit atomics over it (drivers/gpu/drm/amd/amdkfd/kfd_crat.h).
_NO_ATOMICS = 0x4 | 0x8


# Their firmware lifts the need only in its RS64 kind (kfd_device.c: gfx11).
_RS64_CHIPS = ("navi31", "navi32", "navi33")


def judge(view: View) -> Iterator[Finding]:
    """One finding for each AMD GPU."""
    refused = _refused(view)
    for event, gpus in refused:
        yield _refusal(event, gpus)
    judged = {gpu.address for _, gpus in refused for gpu in gpus}
    for gpu in view.gpus:
        if gpu.vendor == ATI and gpu.address not in judged:
            yield _judge_gpu(view, gpu)


def _refused(view: View) -> list[tuple[LogEvent, list[Function]]]:
    """Each kind of GPU that KFD refused for want of atomics, and which GPUs it means: the log gives their ids alone."""
    log = view.host.log
    found = []
    for event in logged.of_last_boot(log, "kfd-atomics") if log else ():
        ids = {_padded(id_) for id_ in event.details.get("id", "").split(", ")}
        alike = [gpu for gpu in view.gpus if gpu.id in ids]
        if event.count < len(alike):
            alike = [gpu for gpu in alike if not _works(_routed(view, gpu))]
        found.append((event, alike if event.count >= len(alike) else []))
    return found


def _padded(id_: str) -> str:
    """KFD writes ids without leading zeros."""
    return ":".join(part.rjust(4, "0") for part in id_.split(":"))


def _works(routed: tuple[bool, tuple[Evidence, ...]] | Unknown) -> bool:
    return not isinstance(routed, Unknown) and routed[0]


def _refusal(event: LogEvent, gpus: list[Function]) -> Finding:
    subject = tuple(gpu.address for gpu in gpus) or tuple(event.details.get("id", "").split(", "))
    return Finding(
        ID,
        "failure",
        subject,
        "AMD's compute driver refused the GPU: PCIe atomics do not reach it",
        "A port on the way to the processor does not route atomics, and this GPU or its firmware needs them, so nothing can "
        "compute on it.",
        evidence=logged.evidence([event]),
        remedies=("move-card-to-cpu-slot",),
        next="move the card to a slot wired to the processor, or update the GPU's firmware",
    )


def _judge_gpu(view: View, gpu: Function) -> Finding:
    subject = (gpu.address,)
    if is_lost(gpu):
        return unjudged(ID, subject, "PCIe atomics", Unknown("the GPU no longer answers"))
    routed = _routed(view, gpu)
    if isinstance(routed, Unknown):
        return unjudged(ID, subject, "PCIe atomics", routed)
    works, evidence = routed
    if works:
        return Finding(ID, "ok", subject, "PCIe atomics reach the GPU's root port", evidence=evidence)
    required = _required(view, gpu)
    if isinstance(required, Unknown):
        title = "PCIe atomics do not reach the root port, and whether this GPU needs them is not known"
        return Finding(ID, "unknown", subject, title, f"{required.reason}.", evidence=evidence)
    if not required:
        title = "PCIe atomics do not reach the root port, and this GPU does not need them"
        return Finding(ID, "info", subject, title, evidence=evidence)
    return Finding(
        ID,
        "warning",
        subject,
        "PCIe atomics do not reach the root port, and compute on this GPU needs them",
        "AMD's compute driver refuses such a GPU (the kernel log then says that PCI rejects atomics).",
        "likely",
        evidence,
        remedies=("move-card-to-cpu-slot",),
        next="move the card to a slot wired to the processor, or update the GPU's firmware",
    )


def _routed(view: View, gpu: Function) -> tuple[bool, tuple[Evidence, ...]] | Unknown:
    """Whether atomics reach the root port, as pci_enable_atomic_ops_to_root asks; else as KFD reports it."""
    ports = view.topology.above(gpu)
    expresses = [(port, port.express) for port in ports]
    unread = next((express for _, express in expresses if isinstance(express, Unknown)), None)
    by_kfd = _kfd_says(view.host.kfd, gpu)
    if unread is not None or not ports:
        return by_kfd or unread or Unknown("there is no root port above it")
    for port, express in expresses:
        fault = _fault(express) if isinstance(express, Express) else ""
        if isinstance(fault, Unknown):
            return by_kfd or fault
        if fault:
            return False, (Evidence(port.source("config"), fault),)
    last, express = expresses[-1]
    if not isinstance(express, Express) or express.port_type != ROOT_PORT:
        return by_kfd or Unknown("the root port above it is not in this evidence")
    return True, (Evidence(last.source("config"), "32-bit and 64-bit atomics completed"),)


def _fault(express: Express) -> str | Unknown:
    """What in a port keeps atomics from passing (drivers/pci/pci.c pci_enable_atomic_ops_to_root)."""
    if isinstance(express.atomic_routing, Unknown):
        return express.atomic_routing
    if express.port_type == ROOT_PORT:
        completes = express.atomic_32_completer and express.atomic_64_completer
        return "" if completes else "the root port completes no 32-bit or no 64-bit atomics"
    if not express.atomic_routing:
        return "the port does not route atomics"
    if express.port_type == UPSTREAM_PORT and express.atomic_egress_blocked:
        return "the port blocks atomics (AtomicOpBlocked)"
    return ""


def _kfd_says(kfd: Kfd | Unknown | None, gpu: Function) -> tuple[bool, tuple[Evidence, ...]] | None:
    if kfd is None or isinstance(kfd, Unknown):
        return None
    number = next((node.number for node in kfd.nodes if node.address == gpu.address), None)
    cpus = {node.number for node in kfd.nodes if node.address is None}
    for link in kfd.links:
        if link.node_from == number and link.node_to in cpus and not link.peer:
            return not link.flags & _NO_ATOMICS, (Evidence(link.source, f"flags {link.flags:#x}"),)
    return None


def _required(view: View, gpu: Function) -> bool | Unknown:
    """Whether KFD refuses the GPU without atomics (kfd_device.c), which newer GPUs leave to their firmware."""
    products = knowledge.gpus_by_id(gpu.id)
    if not products or not products[0].atomics_required:
        return Unknown("its generation is not in the tables")
    rule = products[0].atomics_required
    if rule in ("always", "never"):
        return rule == "always"
    kfd = view.host.kfd
    firmware = 0
    if kfd is not None and not isinstance(kfd, Unknown):
        firmware = next((node.firmware_version for node in kfd.nodes if node.address == gpu.address), 0)
    if not firmware:
        return Unknown("that depends on its firmware, whose version is not in this evidence")
    if firmware < products[0].atomics_min_firmware:
        return True
    if products[0].chip in _RS64_CHIPS:
        return Unknown(f"with firmware {firmware} that depends on which of its two kinds runs, which does not show here")
    return False


CHECK = Check(
    id=ID,
    subject="GPU",
    summary="PCIe atomics reach the root port from each AMD GPU that needs them.",
    looks_at="The atomics bits of every port above the GPU, or KFD's flags where these cannot be read; the GPU's generation "
    "and firmware; in the kernel's log, whether KFD refused it.",
    why="AMD's compute driver refuses GPUs of some generations and firmwares where atomics are not routed.",
    decides="A failure where the log says that KFD refused the GPU for it, a warning where its generation or firmware needs "
    "them and they are not routed, info where they are neither routed nor needed, ok where they are routed; unknown where "
    "they are not routed and its firmware is not known.",
    sources=(
        "Linux drivers/pci/pci.c pci_enable_atomic_ops_to_root",
        "Linux drivers/gpu/drm/amd/amdkfd/kfd_device.c: which generation and firmware needs atomics",
        "AMD, ROCm documentation, conceptual/pcie-atomics",
    ),
    judge=judge,
    remedies=("move-card-to-cpu-slot",),
    nothing="no discrete AMD GPU",
)
