"""ACS redirect on the way between two GPUs over a common bridge."""

from __future__ import annotations

from collections.abc import Iterator

from hostdoctor import wording
from hostdoctor.facts.host import KernelVersion
from hostdoctor.facts.pci import Acs, Function
from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import Check, Cost, Evidence, Finding, unjudged
from hostdoctor.view import View

ID = "acs-redirect"

_BITS = {
    "ReqRedir": Acs.REQUEST_REDIRECT,
    "CmpltRedir": Acs.COMPLETION_REDIRECT,
    "EgressCtrl": Acs.EGRESS_CONTROL,
}
_CONFIG_ACS_SINCE = KernelVersion(6, 12)


def judge(view: View) -> Iterator[Finding]:
    """One finding for each common bridge of GPUs, or one for all."""
    gpus = view.gpus
    if len(gpus) < 2:
        return
    ways: dict[str, dict[str, Function]] = {}
    members: dict[str, dict[str, Function]] = {}
    incomplete: dict[str, Function] = {}
    for number, a in enumerate(gpus):
        for b in gpus[number + 1 :]:
            common = view.topology.common_bridge(a, b)
            if common is None:
                incomplete.update((gpu.address, gpu) for gpu in (a, b) if not view.topology.knows_way_up(gpu))
            else:
                way = view.topology.way_between(a, b)
                ways.setdefault(common.address, {}).update((each.address, each) for each in way)
                members.setdefault(common.address, {}).update(((a.address, a), (b.address, b)))
    if incomplete:
        why = Unknown("the ports above the card are not all in this evidence")
        yield unjudged(ID, tuple(incomplete), "ACS on the way between GPUs", why)
    elif not ways:
        title = "no two GPUs share a bridge, so ACS redirect decides nothing between them"
        yield Finding(ID, "ok", tuple(gpu.address for gpu in gpus), title)
    for address in sorted(ways):
        yield _judge_bridge(view, address, list(ways[address].values()), list(members[address]))


def _judge_bridge(view: View, common: str, way: list[Function], gpus: list[str]) -> Finding:
    redirecting = [(each, each.acs) for each in way if isinstance(each.acs, Acs) and each.acs.redirects]
    if redirecting:
        return _redirected(view, common, redirecting, gpus)
    unread = [(each.address, each.acs) for each in way if isinstance(each.acs, Unknown)]
    if unread:
        return unjudged(ID, tuple(address for address, _ in unread), f"ACS on the way over {common}", unread[0][1])
    title = f"nothing on the way between the GPUs below {common} redirects peer requests"
    evidence = tuple(Evidence(each.source("config"), _acs_text(each.acs)) for each in way)
    return Finding(ID, "ok", tuple(each.address for each in way if each.is_bridge), title, evidence=evidence)


def _acs_text(acs: Acs | Unknown | None) -> str:
    if not isinstance(acs, Acs):
        return "no ACS capability"
    return "ACSCtl: " + " ".join(f"{name}{'+' if acs.control & bit else '-'}" for name, bit in _BITS.items())


def _redirected(view: View, common: str, ports: list[tuple[Function, Acs]], gpus: list[str]) -> Finding:
    addresses = [port.address for port, _ in ports]
    evidence = tuple(Evidence(port.source("config"), _acs_text(acs)) for port, acs in ports)
    explanation = (
        f"{wording.listed(gpus, 8)} share the bridge {common}, but these ports send requests between them up to the root "
        "complex instead of switching them, so P2P is slower there, or not allowed at all."
    )
    cost = Cost("copies between these GPUs pass the switch's uplink twice instead of staying in the switch")
    if view.uses_vfio:
        explanation += " Guests use devices of this host, and the redirect keeps them apart: clearing it merges groups."
        return Finding(ID, "info", tuple(addresses), _title(ports), explanation, evidence=evidence, cost=cost)
    option = f"pci=disable_acs_redir={';'.join(addresses)}"
    version = view.host.boot.version
    newer = "" if isinstance(version, Unknown) or version < _CONFIG_ACS_SINCE else " (or pci=config_acs=)"
    return Finding(
        ID,
        "warning",
        tuple(addresses),
        _title(ports),
        explanation,
        evidence=evidence,
        cost=cost,
        remedies=("acs-clear-redirect",),
        next=f"add {option}{newer} to the kernel command line, unless devices are to be handed to guests",
    )


def _title(ports: list[tuple[Function, Acs]]) -> str:
    return f"ACS redirect is set on {wording.count(len(ports), 'port')} between GPUs below a common bridge"


CHECK = Check(
    id=ID,
    subject="bridges",
    summary="Nothing between two GPUs below a common bridge redirects their requests to the root complex.",
    looks_at="The ACS control register of everything from each GPU up to the bridge they share: the GPUs themselves, the "
    "ports of their cards' own switches, the ports above, and that bridge.",
    why="A switch can pass copies between its GPUs without the processor; with ACS redirect set it may not.",
    decides="A warning where request redirect, completion redirect or egress control is set on any of them (info where "
    "vfio-pci is in use, since guests need it). Source validation alone redirects nothing, nor does a function without "
    "ACS. GPUs without a common bridge: ok, ACS decides nothing between them.",
    sources=(
        "Linux drivers/pci/p2pdma.c pci_bridge_has_acs_redir, calc_map_type_and_dist",
        "PCI Express Base Specification 6.0, 7.7.11.3 ACS Control Register",
        "Linux Documentation/admin-guide/kernel-parameters.txt pci=disable_acs_redir=",
    ),
    judge=judge,
    remedies=("acs-clear-redirect",),
    nothing="fewer than two discrete GPUs",
)
