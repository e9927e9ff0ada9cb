"""Whether the GPUs can address each other's BARs."""

from __future__ import annotations

from collections.abc import Iterator

from hostdoctor import p2p, wording
from hostdoctor.bars import vram_bar
from hostdoctor.facts.pci import ATI, NVIDIA, Bar, Function
from hostdoctor.facts.unknown import Unknown, known
from hostdoctor.findings import Check, Cost, Evidence, Finding, unjudged
from hostdoctor.view import View

ID = "bar-reach"


def judge(view: View) -> Iterator[Finding]:
    """One finding for each GPU that others might access."""
    if view.crowd is not None:
        yield unjudged(ID, (), "reach of BARs", view.crowd)
        return
    for owner in (*p2p.candidates(view, ATI), *p2p.candidates(view, NVIDIA)):
        peers = [gpu for gpu in p2p.candidates(view, owner.vendor) if gpu is not owner]
        if owner.vendor != ATI:
            peers = [peer for peer in peers if p2p.same_nvidia_chip(owner, peer) is not False]
        over_pcie = [peer for peer in peers if not p2p.same_hive(view.host.kfd, peer, owner)]
        if over_pcie:
            yield _judge_owner(view, owner, over_pcie)
        elif peers:
            yield Finding(ID, "ok", (owner.address,), "its peers reach it over XGMI, wherever its BAR lies")
        elif isinstance(owner.parent, Unknown) and (bits := _beyond_its_own_kind(owner)):
            yield _alone(owner, bits)


def _judge_owner(view: View, owner: Function, peers: list[Function]) -> Finding:
    known_reaches = view.amd_reaches
    reaches = [(peer, known_reaches.get((peer.address, owner.address)) or p2p.reach(view, peer, owner)) for peer in peers]
    if isinstance(bar := vram_bar(owner), Unknown) or bar is None or not bar.assigned:
        why = bar if isinstance(bar, Unknown) else Unknown("its memory BAR has no address")
        return unjudged(ID, (owner.address,), "reach of its BAR", why)
    failing = [(peer, reach) for peer, reach in reaches if reach.state == "fails"]
    linked = [peer for peer, _ in failing if p2p.kfd_verdict(view.host.kfd, peer, owner)[0]]
    if linked:
        why = Unknown(f"by its address it is beyond {linked[0].address}, but the driver publishes a link between them")
        return unjudged(ID, (owner.address,), "reach of its BAR", why, failing[0][1].evidence)
    if failing and owner.vendor == ATI:
        return _out_of_reach(view, owner, failing, len(failing) == len(peers))
    unnamed = [peer for peer, reach in reaches if reach.state == "unknown" and not peer.device]
    if unnamed and p2p.driver_remaps(view) is False and (bits := _beyond_its_own_kind(owner)):
        return _out_of_reach_of_its_kind(view, owner, unnamed, bits)
    unknown = next((reach for _, reach in reaches if reach.state == "unknown"), None)
    if unknown is not None or failing:
        text = unknown.text if unknown else failing[0][1].text
        evidence = unknown.evidence if unknown else failing[0][1].evidence
        return unjudged(ID, (owner.address,), "reach of its BAR", Unknown(text), evidence)
    mapped = [(peer, reach) for peer, reach in reaches if "beyond" in reach.text]
    if mapped:
        return _only_mapped(owner, mapped)
    bits = min(known(p2p.mask_bits(peer)[0], 64) for peer in peers)
    title = f"its BAR lies within the {bits} bits its peers address"
    return Finding(ID, "ok", (owner.address,), title, evidence=reaches[0][1].evidence)


def _beyond_its_own_kind(owner: Function) -> int:
    """The address bits of an AMD GPU's own kind where its BAR needs more of them; 0 where it does not, or nothing is known."""
    bar, (bits, _) = vram_bar(owner), p2p.mask_bits(owner)
    if owner.vendor != ATI or isinstance(bits, Unknown) or not isinstance(bar, Bar) or not bar.assigned:
        return 0
    return bits if bar.end >> bits else 0


def _where(owner: Function) -> Evidence:
    bar = vram_bar(owner)
    assert isinstance(bar, Bar)  # noqa: S101  only BARs with an address come here
    return Evidence(bar.said_at or owner.source("resource"), f"BAR{bar.index} {bar.address:#x}-{bar.end:#x}")


def _out_of_reach_of_its_kind(view: View, owner: Function, peers: list[Function], bits: int) -> Finding:
    """What is known of the peers is only that amdgpu drives them: most hosts have GPUs of one kind."""
    names = wording.listed((peer.address for peer in peers), 8)
    return Finding(
        ID,
        "warning",
        (owner.address,),
        f"its BAR lies at {_address(owner):#x}, beyond the {bits} bits that GPUs of its kind address",
        f"A GPU of the same kind puts only {bits} bits on the bus ({wording.size(1 << bits)}). What {names} can do is not in "
        f"this evidence; of the same kind, it cannot reach this GPU, and copies go through host memory.{_about_iommu(view)}",
        "likely",
        (_where(owner), p2p.mask_bits(owner)[1]),
        Cost(f"no direct copies from {names} to this GPU"),
        ("firmware-mmio-below-dma-limit",),
        f"in the firmware: place 64-bit MMIO so that all BARs end below {wording.size(1 << bits)}",
    )


def _alone(owner: Function, bits: int) -> Finding:
    return Finding(
        ID,
        "info",
        (owner.address,),
        f"its BAR lies at {_address(owner):#x}, beyond the {bits} bits that GPUs of its kind address",
        "No other GPU is in this evidence, so nothing is lost. A second one of its kind could not reach it directly.",
        evidence=(_where(owner), p2p.mask_bits(owner)[1]),
    )


def _only_mapped(owner: Function, mapped: list[tuple[Function, p2p.Condition]]) -> Finding:
    bits = min(known(p2p.mask_bits(peer)[0], 64) for peer, _ in mapped)
    names = wording.listed((peer.address for peer, _ in mapped), 8)
    return Finding(
        ID,
        "info",
        (owner.address,),
        f"its BAR lies beyond the {bits} bits its peers address, and only the IOMMU maps it",
        f"BAR of {owner.address} at {_address(owner):#x}; {names} put{'s' if len(mapped) == 1 else ''} {bits} bits on the bus "
        f"({wording.size(1 << bits)}). The translation carries P2P here, and P2P ends with it: no iommu=pt before the firmware "
        "has moved the BARs down.",
        evidence=tuple(dict.fromkeys(evidence for _, reach in mapped for evidence in reach.evidence)),
        remedies=("iommu-translate-until-moved", "firmware-mmio-below-dma-limit"),
    )


def _out_of_reach(view: View, owner: Function, failing: list[tuple[Function, p2p.Condition]], by_all: bool) -> Finding:
    bar = vram_bar(owner)
    assert isinstance(bar, Bar)  # noqa: S101  a reach that fails has compared an address
    bits = min(known(p2p.mask_bits(peer)[0], 64) for peer, _ in failing)
    beyond = [_address(gpu) for gpu in p2p.candidates(view, owner.vendor) if _address(gpu) >> bits]
    lowest = min(beyond, default=bar.address)
    names = wording.listed((peer.address for peer, _ in failing), 8)
    from hostdoctor.remedies.arithmetic import menu_size, reference_base  # noqa: PLC0415  only who finds this pays for it

    base = reference_base(bits)
    who = "the GPUs" if by_all else names
    copies = "every copy between these GPUs goes" if by_all else f"copies that {names} should make go"
    between = "between these GPUs" if by_all else f"by {names} to or from it"
    return Finding(
        ID,
        "failure",
        (owner.address,),
        f"the firmware put the BARs at {wording.tebibytes(lowest)}, beyond the {bits} bits {who} address",
        f"BAR{bar.index} of {owner.address} lies at {bar.address:#x}-{bar.end:#x}, which needs {bar.end.bit_length()} address "
        f"bits; {names} put{'s' if len(failing) == 1 else ''} only {bits} on the bus ({wording.size(1 << bits)}). So P2P to it "
        f"is refused, and {copies} through host memory. 64-bit MMIO must begin at {base} or so, so that base and sizes of all "
        f"BARs end below {wording.size(1 << bits)}; a base of {menu_size(1 << bits)} is already too high."
        f"{_about_hole(view, bits)}{_about_iommu(view)}",
        "likely" if isinstance(view.host.modules, Unknown) else "certain",
        evidence=tuple(dict.fromkeys(evidence for _, reach in failing for evidence in reach.evidence)),
        cost=Cost(f"no direct copies {between}; tensor parallel needs them in every layer, layer parallel only between stages"),
        remedies=("firmware-mmio-below-dma-limit",),
        next=f"in the firmware: MMIO High Base {menu_size(lowest)} -> {base} (on boards without that setting, the one "
        "that places 64-bit MMIO)",
    )


def _about_hole(view: View, bits: int) -> str:
    """40-bit cards are squeezed against the range that AMD processors keep for HyperTransport."""
    if bits > 40 or not view.host.cpu.is_amd:
        return ""
    return f" It must also stay clear of {p2p.HT_HOLE_START:#x}-{p2p.HT_HOLE_END:#x}, where AMD processors map no DMA."


def _address(gpu: Function) -> int:
    bar = vram_bar(gpu)
    return bar.address if isinstance(bar, Bar) else 0


def _about_iommu(view: View) -> str:
    if p2p.driver_remaps(view) is not False:
        return ""
    version, limit = view.host.boot.version, view.host.boot.older_than
    name = f"A kernel before {limit}" if isinstance(version, Unknown) else f"Kernel {version}"
    return f" {name} cannot let the IOMMU map it instead; kernels from {p2p.REMAP_SINCE} on can."


CHECK = Check(
    id=ID,
    subject="GPU",
    summary="Every GPU's memory BAR lies where the other GPUs can address it.",
    looks_at="The address of each memory BAR, the DMA mask of every other GPU of the same vendor (dma_mask_bits, else by "
    "generation), the IOMMU mode and the kernel version.",
    why="AMD GPUs address 40, 44 or 48 bits by generation. Server firmware often places BARs at 56 TiB, which needs 46: "
    "then no GPU can reach another and every copy is staged through host memory.",
    decides="A failure where a BAR lies beyond a peer's mask and nothing maps it, a warning where the peer is named only by "
    "its driver and the BAR lies beyond what GPUs of the owner's kind address; info where the peer reaches it only through a "
    "translating IOMMU (kernel 6.12 and later), or where a log names no second GPU; ok within reach. Each direction has its "
    "own mask.",
    sources=(
        "Linux drivers/gpu/drm/amd/amdgpu/amdgpu_device.c amdgpu_device_is_peer_accessible",
        "Linux drivers/gpu/drm/amd/amdgpu/gmc_v*.c: DMA mask of each generation",
        "AMD, ROCm documentation, how-to/Bar-Memory",
        "NVIDIA open-gpu-kernel-modules, hwproject.h: physical address width of each generation",
    ),
    judge=judge,
    remedies=("firmware-mmio-below-dma-limit", "iommu-translate-until-moved"),
    nothing="no two GPUs here that could do P2P with each other",
)
