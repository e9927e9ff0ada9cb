"""For each ordered pair of GPUs: P2P is to be expected, or the first condition that fails."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from hostdoctor.facts.pci import ATI, NVIDIA
from hostdoctor.findings import Check, Confidence, Cost, Evidence, Finding, Outcome, unjudged
from hostdoctor.p2p import Condition, Prediction
from hostdoctor.topology import Card
from hostdoctor.view import View

ID = "p2p-pair"

_FABRICS = ("nvlink", "xgmi")
_SPLITTING = "Tensor parallel moves activations over this path in every layer, layer parallel only between stages."


def judge(view: View) -> Iterator[Finding]:
    """One finding for each ordered pair, accessor first."""
    if view.crowd is not None:
        yield unjudged(ID, (), "P2P between GPUs", view.crowd)
        return
    cards = {card.gpu.address: card for card in view.cards}
    for pair in view.pairs:
        yield _with_choice_of_nccl(view, _judge_pair(pair, cards))


def _with_choice_of_nccl(view: View, finding: Finding) -> Finding:
    """What a log of NCCL or RCCL shows it to have chosen instead of P2P: its own policy, whatever the driver allows."""
    words = [word for word in view.host.pair_words if (word.accessor, word.owner) == finding.subject]
    chosen = next((word for word in words if word.allowed is None and word.text.startswith(("NCCL: ", "RCCL: "))), None)
    if chosen is None:
        return finding
    told = f"{chosen.text.replace(': via ', ' went by ')}: its own choice by the distance it allows (NCCL_P2P_LEVEL) and its "
    explanation = f"{finding.explanation} {told}environment, which proves nothing about P2P.".strip()
    evidence = (*finding.evidence, Evidence(chosen.source, chosen.text))
    return msgspec.structs.replace(finding, explanation=explanation, evidence=evidence)


def _judge_pair(pair: Prediction, cards: dict[str, Card]) -> Finding:
    subject = (pair.accessor.address, pair.owner.address)
    if pair.disagrees:
        return _disagreement(pair, subject)
    decisive = pair.decisive
    if decisive is None and any(condition.name in _FABRICS for condition in pair.conditions):
        cards = {}  # the cards' PCIe links have no part in it
    if decisive is None:
        agrees = " and the driver says so too" if pair.driver_says else ""
        evidence = (*(each for condition in pair.conditions for each in condition.evidence), *pair.driver_evidence)
        return Finding(
            ID,
            "ok",
            subject,
            f"P2P is to be expected: every condition holds{agrees}",
            "Expected, not proven: only a copy whose data was compared proves it.",
            "certain" if pair.driver_says else "likely",
            evidence,
            _cost(subject, cards, works=True),
            ("measure-p2p",),
        )
    if decisive.state == "unknown" and pair.driver_says and pair.accessor.vendor == ATI:
        # KFD publishes the outcome of the very function whose conditions could not all be seen here, and HSA repeats it.
        how = "grants access" if pair.by_word else "publishes a link for the pair"
        sure: Confidence = "likely" if pair.by_word else "certain"
        title = f"P2P is to be expected: the driver {how}"
        explanation = f"Not every condition could be seen ({decisive.text}). Only a copy whose data was compared proves it."
        return Finding(
            ID,
            "ok",
            subject,
            title,
            explanation,
            sure,
            pair.driver_evidence,
            _cost(subject, cards, works=True),
            ("measure-p2p",),
        )
    if decisive.state == "unknown":
        title = f"P2P cannot be predicted: {decisive.text}"
        explanation, seen = _drivers_word(pair, decisive)
        evidence = tuple(dict.fromkeys((*decisive.evidence, *seen)))
        return Finding(ID, "unknown", subject, title, explanation, evidence=evidence, remedies=decisive.remedies)
    return _refused(pair, decisive, subject, cards)


def _drivers_word(pair: Prediction, decisive: Condition) -> tuple[str, tuple[Evidence, ...]]:
    """What the driver says of a pair about which something else is open; empty where it says nothing."""
    nvml = next((each for each in pair.conditions if each.name == "nvml" and each is not decisive), None)
    if nvml is not None:
        return f"{nvml.text}. That is its word, and no measurement.", nvml.evidence
    if pair.driver_says:
        return "The driver grants access. That is its word, and no measurement.", pair.driver_evidence
    return "", ()


def _refused(pair: Prediction, decisive: Condition, subject: tuple[str, str], cards: dict[str, Card]) -> Finding:
    holding = sum(condition.state == "holds" for condition in pair.conditions)
    agrees = pair.driver_says is False
    explanation = f"{holding} of {len(pair.conditions)} conditions hold, this one does not."
    if decisive.name == "access":
        return _not_granted(pair, decisive, subject, cards)
    if decisive.name == "nvml":
        explanation = f"That is NVML's word, which tells what the driver does; the other {holding} conditions hold."
        explanation += " The key is among the driver's RegistryDwords." if not decisive.by_design else ""
    elif agrees:
        explanation += " The driver's own verdict agrees."
    if decisive.by_design:
        explanation += " Nothing on this host is broken, and no setting of firmware or kernel changes it."
        if pair.accessor.vendor == NVIDIA and pair.driver_says is None:
            explanation += " An NVLink bridge, where one is fitted, does not depend on this and does not show here."
    return Finding(
        ID,
        "info" if decisive.by_design else "failure",
        subject,
        f"no P2P: {decisive.text}",
        explanation,
        "certain" if agrees or decisive.evidence else "likely",
        tuple(dict.fromkeys((*decisive.evidence, *pair.driver_evidence))),
        _cost(subject, cards, works=False),
        decisive.remedies,
    )


def _not_granted(pair: Prediction, decisive: Condition, subject: tuple[str, str], cards: dict[str, Card]) -> Finding:
    """All that is known is that a tool was told no: a fault or a design, which its output does not tell."""
    amd = pair.accessor.vendor == ATI
    explanation = "The tool was told that the accessor may not reach the owner's memory; it does not print why. "
    explanation += (
        "Possible are an amdgpu built without P2P, a BAR that is small or out of reach, and a host bridge that the kernel does "
        "not list."
        if amd
        else "Possible are the product's policy, the chipset, MIG, and a driver setting."
    )
    attach = (
        "attach lspci -vvv (as root), the kernel log from boot, /proc/cmdline and the kernel's configuration"
        if amd
        else "attach nvidia-smi topo -p2p r and lspci -vvv (as root)"
    )
    outcome: Outcome = "info" if decisive.by_design else "warning"
    return Finding(
        ID,
        outcome,
        subject,
        f"no P2P: {decisive.text}",
        explanation,
        "certain",
        decisive.evidence,
        _cost(subject, cards, works=False),
        decisive.remedies,
        attach,
    )


def _overridden(pair: Prediction, subject: tuple[str, str]) -> Finding:
    """NVML allows what the driver as NVIDIA ships it refuses: NCCL and others believe it, and it may be untrue."""
    refusal = pair.decisive.text if pair.decisive else ""
    return Finding(
        ID,
        "unknown",
        subject,
        f"{'the driver grants access' if pair.by_word else 'NVML reports P2P as allowed'}, although {refusal}",
        "Patched driver modules, and overrides among the driver's registry keys (ForceP2P), make it report this whether "
        "it works or not. Programs then copy that way; with wrong data, if it does not work.",
        evidence=tuple(dict.fromkeys((*(pair.decisive.evidence if pair.decisive else ()), *pair.driver_evidence))),
        remedies=("measure-p2p",),
        help="measure the pair: only a copy whose data was compared counts",
    )


def _disagreement(pair: Prediction, subject: tuple[str, str]) -> Finding:
    if pair.accessor.vendor == NVIDIA:
        return _overridden(pair, subject)
    ours = "every condition for P2P holds" if pair.state == "holds" else f"P2P fails ({pair.decisive and pair.decisive.text})"
    theirs = "publishes a P2P link" if pair.driver_says else "publishes none"
    if pair.by_word:
        theirs = "grants access" if pair.driver_says else "grants none"
    evidence: tuple[Evidence, ...] = (*(pair.decisive.evidence if pair.decisive else ()), *pair.driver_evidence)
    return Finding(
        ID,
        "unknown",
        subject,
        f"by the facts seen {ours}, but the driver {theirs}",
        "The driver's word counts more than this prediction, and one of the two is wrong: a condition not known here, or "
        "a fact that changed since the driver started.",
        evidence=evidence,
        help="measure the pair, and report this disagreement",
    )


def _cost(subject: tuple[str, str], cards: dict[str, Card], works: bool) -> Cost | None:
    """What the links of both cards could carry, and what that means for splitting a model."""
    rates = [
        rate
        for address in subject
        if address in cards
        for segment in cards[address].segments
        if isinstance(rate := segment.loaded_gbs, float)
    ]
    if not rates:
        return None if works else Cost(f"every copy is staged through host memory. {_SPLITTING}")
    raw = round(min(rates), 2)
    if works:
        return Cost(f"links of up to {raw:.1f} GB/s each way. {_SPLITTING}", could_have_gbs=raw)
    return Cost(
        f"copies are staged through host memory, over links of up to {raw:.1f} GB/s each way. {_SPLITTING}",
        could_have_gbs=raw,
    )


CHECK = Check(
    id=ID,
    subject="ordered pair",
    summary="Whether each GPU can reach each other GPU's memory, or the first condition that forbids it.",
    looks_at="For AMD: driver, build, PCI distance with ACS and host bridges, size and place of BARs, IOMMU mode, kernel "
    "version, XGMI hives, and KFD's own list of links. For NVIDIA: chips, product, driver, root complexes, IOMMU mode, and "
    "on the host itself NVML's P2P status for reading and writing, and NVLink. Of a recorded run what the tool was told of "
    "access.",
    why="Without P2P every copy between two GPUs passes host memory twice.",
    decides="Ok where all conditions hold (likely; certain where the driver's own verdict agrees). A failure where the "
    "first condition that fails can be changed; info where it fails by design (a product's policy, unequal chips, a host "
    "bridge the kernel does not list). A warning where a tool was told that there is no access and nothing tells why. Unknown "
    "where a fact is missing or the driver's own verdict differs.",
    sources=(
        "Linux drivers/gpu/drm/amd/amdgpu/amdgpu_device.c amdgpu_device_is_peer_accessible",
        "Linux drivers/pci/p2pdma.c pci_p2pdma_distance_many, cpu_supports_p2pdma, host_bridge_whitelist",
        "Linux drivers/gpu/drm/amd/amdkfd/kfd_topology.c p2p_links",
        "NVIDIA open-gpu-kernel-modules src/nvidia/src/kernel/platform/p2p/p2p_caps.c",
        "NVIDIA nvml.h nvmlDeviceGetP2PStatus, nvmlGpuP2PStatus_t",
    ),
    judge=judge,
    remedies=(
        "firmware-mmio-below-dma-limit",
        "firmware-resizable-bar",
        "kernel-with-p2p",
        "amdgpu-enable-pcie-p2p",
        "acs-clear-redirect",
        "iommu-passthrough",
        "load-driver",
        "measure-p2p",
        "check-power-and-seating",
        "firmware-above-4g-decoding",
        "attach-p2p-evidence",
    ),
    nothing="fewer than two discrete GPUs",
)
