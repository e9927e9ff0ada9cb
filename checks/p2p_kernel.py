"""Whether kernel and driver were built with P2P, and have it on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from hostdoctor.facts.pci import ATI
from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import Check, Cost, Finding, unjudged
from hostdoctor.p2p import candidates, p2p_switched_on, same_hive
from hostdoctor.view import View

ID = "p2p-kernel"

_NEXT = {
    "kernel-with-p2p": "boot a kernel whose amdgpu has CONFIG_HSA_AMD_P2P; no option of this one can bring it",
    "amdgpu-enable-pcie-p2p": "remove amdgpu.pcie_p2p=0 from the kernel command line or from /etc/modprobe.d",
}


def judge(view: View) -> Iterator[Finding]:
    """One finding for the host, where it has two or more discrete AMD GPUs."""
    gpus = candidates(view, ATI)
    if len(gpus) < 2:
        return
    condition = p2p_switched_on(view)
    if condition.state == "holds":
        yield Finding(ID, "ok", (), condition.text, evidence=condition.evidence)
    elif condition.state == "unknown":
        yield unjudged(ID, (), "P2P in kernel and driver", Unknown(condition.text), condition.evidence)
    elif all(same_hive(view.host.kfd, a, b) for a, b in combinations(gpus, 2)):
        title = "PCIe P2P is off, and the AMD GPUs do not need it: XGMI joins all of them"
        yield Finding(ID, "info", (), title, f"{condition.text}.", evidence=condition.evidence)
    else:
        yield Finding(
            ID,
            "failure",
            (),
            condition.text,
            "So no two AMD GPUs of this host can do PCIe P2P, whatever else is set: every copy between them goes "
            "through host memory. The IOMMU mode, ACS and BARs make no difference to that.",
            evidence=condition.evidence,
            cost=Cost("no direct copies between GPUs; tensor parallel needs them in every layer"),
            remedies=condition.remedies,
            next=next((_NEXT[remedy] for remedy in condition.remedies if remedy in _NEXT), ""),
        )


CHECK = Check(
    id=ID,
    subject="host",
    summary="Kernel and amdgpu were built with P2P, and it is switched on.",
    looks_at="amdgpu's parameter pcie_p2p, which exists only in a driver built with P2P, and the kernel's configuration.",
    why="Several distributions build their kernels without it; then nothing else can bring P2P.",
    decides="With two or more discrete AMD GPUs: a failure where amdgpu was built without P2P or has it switched off "
    "(info where XGMI joins all of them), ok where it is on, unknown where neither driver nor configuration can be seen.",
    sources=(
        "Linux drivers/gpu/drm/amd/amdgpu/amdgpu_drv.c: pcie_p2p lies within #ifdef CONFIG_HSA_AMD_P2P",
        "Linux drivers/gpu/drm/amd/amdkfd/Kconfig HSA_AMD_P2P",
    ),
    judge=judge,
    remedies=("kernel-with-p2p", "amdgpu-enable-pcie-p2p"),
    nothing="fewer than two discrete AMD GPUs",
)
