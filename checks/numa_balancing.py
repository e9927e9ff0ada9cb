"""Automatic NUMA balancing on a host with several memory nodes."""

from __future__ import annotations

from collections.abc import Iterator

from hostdoctor import wording
from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import Check, Cost, Evidence, Finding, unjudged
from hostdoctor.view import View

ID = "numa-balancing"

_FILE = "/proc/sys/kernel/numa_balancing"
_BALANCING = 1  # bit 1 is memory tiering (Documentation/admin-guide/sysctl/kernel.rst)


def judge(view: View) -> Iterator[Finding]:
    """One finding for the host."""
    if not view.gpus:
        return
    numa = view.host.numa
    if not isinstance(numa.nodes, Unknown) and len(numa.nodes) < 2:
        yield Finding(ID, "ok", (), "one memory node: there is nothing to balance")
    elif isinstance(numa.balancing, Unknown):
        yield unjudged(ID, (), "NUMA balancing", numa.balancing)
    elif not numa.balancing & _BALANCING:
        yield Finding(ID, "ok", (), "automatic NUMA balancing is off", evidence=(Evidence(_FILE, str(numa.balancing)),))
    elif isinstance(numa.nodes, Unknown):
        yield unjudged(ID, (), "NUMA balancing", numa.nodes)
    else:
        yield Finding(
            ID,
            "warning",
            (),
            f"automatic NUMA balancing is on, with {len(numa.nodes)} memory nodes",
            "The kernel unmaps memory from time to time to see which processor uses it; GPU work stalls on that. AMD's "
            "guides ask to switch it off, and RCCL warns of it.",
            "certain",
            (
                Evidence(_FILE, str(numa.balancing)),
                Evidence("/sys/devices/system/node/online", wording.listed((str(node) for node in numa.nodes), 9)),
            ),
            Cost("stalls and uneven timing of host copies and collectives"),
            ("numa-balancing-off",),
            "sysctl kernel.numa_balancing=0 (lasting: the same line in a file below /etc/sysctl.d)",
        )


CHECK = Check(
    id=ID,
    subject="host",
    summary="Automatic NUMA balancing is off where several memory nodes and GPUs meet.",
    looks_at="kernel.numa_balancing and the memory nodes that are online.",
    why="Its page faults interrupt GPU work and make bandwidth uneven.",
    decides="A warning where it is on, there are several nodes, and the host has a discrete GPU. Ok with one node, where "
    "it does nothing.",
    sources=(
        "Linux Documentation/admin-guide/sysctl/kernel.rst numa_balancing",
        "AMD, ROCm documentation, system optimization for MI300X; RCCL src/init.cc",
    ),
    judge=judge,
    remedies=("numa-balancing-off",),
    needs_pci=True,
)
