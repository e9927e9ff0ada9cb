"""Bare metal, guest or container: what can be judged here at all."""

from __future__ import annotations

from collections.abc import Iterator

from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import Check, Evidence, Finding
from hostdoctor.view import View

ID = "environment"

_GUEST = (
    "A guest sees PCI links, bridge windows and an IOMMU that its hypervisor makes up, so links, BARs, ACS and P2P are "
    "not judged here: scan the machine that carries this guest."
)


def judge(view: View) -> Iterator[Finding]:
    """One finding for the host."""
    environment = view.host.environment
    evidence = tuple(Evidence(source, value) for source, value in environment.evidence)
    kind = environment.kind
    if isinstance(kind, Unknown):
        title = "whether this is bare metal or a virtual machine cannot be told; it is judged as bare metal"
        yield Finding(ID, "unknown", (), title, f"{kind.reason}.", evidence=evidence)
    elif environment.assumed_bare_metal and kind != "bare-metal":
        title = f"a {_name(kind, environment.hypervisor)}, judged as bare metal because you asked for it"
        yield Finding(ID, "info", (), title, "What its hypervisor makes up can look like a fault.", evidence=evidence)
    elif kind == "wsl":
        title = "WSL: there are no PCI links, IOMMU or boot loader to judge"
        explanation = "The GPUs belong to Windows and are reached through /dev/dxg; nothing of their PCIe shows here."
        yield Finding(ID, "info", (), title, explanation, evidence=evidence)
    elif kind == "virtual-machine":
        title = f"a {_name(kind, environment.hypervisor)}: links, IOMMU, BARs and P2P are its host's"
        yield Finding(ID, "info", (), title, _GUEST, evidence=evidence, help="--assume-bare-metal judges what the guest sees")
    if environment.container:
        title = f"inside a container ({environment.container}): boot files and device nodes are the container's own"
        explanation = (
            "" if environment.is_guest else "PCI functions and the running kernel are the machine's own and are judged."
        )
        yield Finding(ID, "info", (), title, explanation)
    elif kind == "bare-metal":
        yield Finding(ID, "ok", (), "bare metal", evidence=evidence)


def _name(kind: str, hypervisor: str) -> str:
    if kind == "wsl":
        return "guest of WSL"
    return f"virtual machine ({hypervisor})" if hypervisor else "virtual machine"


CHECK = Check(
    id=ID,
    subject="host",
    summary="What kind of machine this is, and so what can be judged.",
    looks_at="The processor's hypervisor flag, DMI vendor and product, devices that only hypervisors have, the kernel's "
    "name (WSL), and the marks containers leave.",
    why="A guest's PCI topology is emulated: judged as hardware it would give one false alarm after the other.",
    decides="Ok on bare metal; info in a guest, WSL or container, with what is not judged; unknown where nothing tells.",
    sources=(
        "CPUID leaf 1, ECX bit 31 (hypervisor present), shown in /proc/cpuinfo",
        "systemd src/basic/virt.c: DMI strings of hypervisors and marks of containers",
    ),
    judge=judge,
    nothing="nothing to tell",
    bare_metal_only=False,
    needs_pci=False,
)
