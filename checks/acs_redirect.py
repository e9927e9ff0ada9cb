"""ACS redirect on the way between two GPUs over a common bridge."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from hostdoctor import wording
from hostdoctor.facts.pci import Acs, Function
from hostdoctor.facts.unknown import NEEDS_ROOT, Unknown
from hostdoctor.findings import Check, Cost, Evidence, Finding, unjudged, without_pci
from hostdoctor.p2p import Prediction
from hostdoctor.view import View

ID = "acs-redirect"

_BITS = {
    "ReqRedir": Acs.REQUEST_REDIRECT,
    "CmpltRedir": Acs.COMPLETION_REDIRECT,
    "EgressCtrl": Acs.EGRESS_CONTROL,
}


class _Pair(msgspec.Struct, frozen=True):
    """Two GPUs below a common bridge: the way between them, and why P2P is ruled out whatever ACS does, or nothing."""

    gpus: tuple[Function, Function]
    way: Sequence[Function]
    ruled_out: str

    @property
    def redirecting(self) -> list[Function]:
        return [each for each in self.way if isinstance(each.acs, Acs) and each.acs.redirects]

    @property
    def unread(self) -> list[tuple[str, Unknown]]:
        return [(each.address, each.acs) for each in self.way if isinstance(each.acs, Unknown)]


def judge(view: View) -> Iterator[Finding]:
    """One finding for each common bridge of GPUs, or one for all; one for lines that name no port."""
    if view.host.loose_acs:
        yield _judge_loose(view.host.loose_acs)
    elif isinstance(view.host.functions, Unknown):
        yield without_pci(ID, view.host.functions)
    if view.crowd is not None:
        yield unjudged(ID, (), "ACS on the way between GPUs", view.crowd)
    elif len(view.gpus) > 1:
        yield from _judge_pairs(view)


def _judge_pairs(view: View) -> Iterator[Finding]:
    gpus = view.gpus
    pairs: dict[str, list[_Pair]] = {}
    incomplete: dict[str, Function] = {}
    for a, b in itertools.combinations(gpus, 2):
        common = view.topology.common_bridge(a, b)
        if common is None:
            incomplete.update((gpu.address, gpu) for gpu in (a, b) if not view.topology.knows_way_up(gpu))
        else:
            pair = _Pair((a, b), view.topology.way_between(a, b), _ruled_out(view, a, b))
            pairs.setdefault(common.address, []).append(pair)
    if incomplete:
        why = Unknown("the ports above the card are not all in this evidence")
        yield unjudged(ID, tuple(incomplete), "ACS on the way between GPUs", why)
    elif not pairs and (denied := [port for port in _tops(view) if port.express == NEEDS_ROOT and not port.is_from_sysfs]):
        yield unjudged(ID, tuple(port.address for port in denied), "ACS on the way between GPUs", NEEDS_ROOT)
    elif not pairs:
        title = "no two GPUs share a bridge, so ACS redirect decides nothing between them"
        yield Finding(ID, "ok", tuple(gpu.address for gpu in gpus), title)
    for address in sorted(pairs):
        yield _judge_bridge(view, address, pairs[address])


def _tops(view: View) -> list[Function]:
    """The uppermost bridge above each GPU: a text without its capabilities does not tell whether it is a root port."""
    return _unique(view.topology.above(gpu)[-1:] for gpu in view.gpus)


def _judge_loose(lines: tuple[tuple[str, Acs], ...]) -> Finding:
    """What a bare "grep ACSCtl" shows: the bits of every port, and not which port has them."""
    redirecting = [(where, acs) for where, acs in lines if acs.redirects]
    evidence = tuple(Evidence(where, _acs_text(acs)) for where, acs in (redirecting or lines)[:8])
    if not redirecting and len(lines) > 1:
        title = f"no port redirects peer requests: none of {len(lines):,} ACSCtl lines has a redirect bit"
        return Finding(ID, "ok", (), title, evidence=evidence)
    title = (
        f"{len(redirecting):,} of {wording.count(len(lines), 'ACSCtl line')} redirect peer requests; of which ports is not told"
    )
    why = "Redirect matters on the way between two GPUs below a common bridge only, and these lines name no device."
    return Finding(ID, "unknown", (), title, why, evidence=evidence, help="attach the whole output of sudo lspci -vvv")


def _ruled_out(view: View, a: Function, b: Function) -> str:
    """Why two GPUs do no PCIe P2P in either direction, ACS and IOMMU aside; empty where they could, or nobody knows."""
    both = (view.pair_of.get(ends) for ends in ((a.address, b.address), (b.address, a.address)))
    reasons = [_never(each) for each in both if each is not None]
    return reasons[0] if reasons and all(reasons) else ""


def _never(prediction: Prediction) -> str:
    for condition in prediction.conditions:
        if condition.name == "xgmi":
            return condition.text
        for_good = condition.by_design or condition.name == "p2p-kernel"
        if condition.state == "fails" and for_good and condition.name not in ("distance", "iommu"):
            return "" if prediction.driver_says else condition.text
    return ""


def _judge_bridge(view: View, common: str, pairs: list[_Pair]) -> Finding:
    for some, told in (
        ([pair for pair in pairs if not pair.ruled_out], _redirected),
        ([pair for pair in pairs if pair.ruled_out], _harmless),
    ):
        if redirected := [pair for pair in some if pair.redirecting]:
            return told(view, common, redirected)
        if unread := dict(each for pair in some for each in pair.unread):
            return unjudged(ID, tuple(unread), f"ACS on the way over {common}", next(iter(unread.values())))
    way = _unique(pair.way for pair in pairs)
    title = f"nothing on the way between the GPUs below {common} redirects peer requests"
    evidence = tuple(Evidence(each.source("config"), _acs_text(each.acs)) for each in way)
    return Finding(ID, "ok", tuple(each.address for each in way if each.is_bridge), title, evidence=evidence)


def _unique(groups: Iterable[Iterable[Function]]) -> list[Function]:
    return list({each.address: each for group in groups for each in group}.values())


def _acs_text(acs: Acs | Unknown | None) -> str:
    if not isinstance(acs, Acs):
        return "no ACS capability"
    return "ACSCtl: " + " ".join(f"{name}{'+' if acs.control & bit else '-'}" for name, bit in _BITS.items())


def _harmless(_view: View, common: str, pairs: list[_Pair]) -> Finding:
    redirecting = _unique(pair.redirecting for pair in pairs)
    gpus = [gpu.address for gpu in _unique(pair.gpus for pair in pairs)]
    reasons = "; ".join(dict.fromkeys(pair.ruled_out for pair in pairs))
    return Finding(
        ID,
        "info",
        tuple(each.address for each in redirecting),
        f"{_set_on(redirecting)} between GPUs that do no P2P over PCIe",
        f"{wording.listed(gpus, 8)} share the bridge {common}. There is no P2P between these GPUs, so the redirect costs "
        f"nothing today. {reasons[0].upper()}{reasons[1:]}.",
        evidence=tuple(Evidence(each.source("config"), _acs_text(each.acs)) for each in redirecting),
    )


def _redirected(view: View, common: str, pairs: list[_Pair]) -> Finding:
    redirecting = _unique(pair.redirecting for pair in pairs)
    gpus = [gpu.address for gpu in _unique(pair.gpus for pair in pairs)]
    addresses = tuple(each.address for each in redirecting)
    title = f"{_set_on(redirecting)} between GPUs below a common bridge"
    evidence = tuple(Evidence(each.source("config"), _acs_text(each.acs)) for each in redirecting)
    explanation = (
        f"{wording.listed(gpus, 8)} share the bridge {common}, but requests between them are sent up to the root "
        "complex instead of being switched there, so P2P is slower, or not allowed at all."
    )
    cost = Cost("copies between these GPUs pass the switch's uplink twice instead of staying in the switch")
    from hostdoctor.acs import given  # noqa: PLC0415  only who finds this pays for it

    if view.uses_vfio:
        explanation += " Guests use devices of this host, and the redirect keeps them apart: clearing it merges groups."
        return Finding(ID, "info", addresses, title, explanation, evidence=evidence, cost=cost)
    return Finding(
        ID,
        "warning",
        addresses,
        title,
        explanation,
        evidence=(*evidence, *(Evidence("/proc/cmdline", text) for text in given(view))),
        cost=cost,
        remedies=("acs-clear-redirect",),
        next=_advice(view, redirecting),
    )


def _advice(view: View, redirecting: list[Function]) -> str:
    """What to put on the command line."""
    from hostdoctor.acs import clearing, knows_config_acs  # noqa: PLC0415

    option, guests = clearing(view, redirecting), "unless devices are to be handed to guests"
    if not option.replaces:
        newer = " (or pci=config_acs=)" if knows_config_acs(view) else ""
        return f"add pci={option.text}{newer} to the kernel command line, {guests}"
    if option.changes_nothing:
        return (
            f"look in the kernel log for what it says of ACS: {option.replaces[0]} on the command line should have cleared the "
            "redirect"
        )
    return (
        f"under pci= on the kernel command line, put {option.text} in the place of {' and '.join(option.replaces)} (the "
        f"kernel keeps the last such list only), {guests}"
    )


def _set_on(redirecting: list[Function]) -> str:
    word = "port" if all(each.is_bridge for each in redirecting) else "function"
    return f"ACS redirect is set on {wording.count(len(redirecting), word)}"


CHECK = Check(
    id=ID,
    subject="bridges",
    summary="Nothing between two GPUs below a common bridge redirects their requests to the root complex.",
    looks_at="The ACS control register of everything from each GPU up to the bridge they share: the GPUs themselves, the "
    "ports of their cards' own switches, the ports above, and that bridge. The command line, for lists it has already.",
    why="A switch can pass copies between its GPUs without the processor; with ACS redirect set it may not.",
    decides="A warning where request redirect, completion redirect or egress control is set on any of them; info where "
    "vfio-pci is in use, since guests need it, and where these GPUs do no P2P over PCIe anyway (different vendors or "
    "NVIDIA chips, a product's policy, a kernel without P2P, one XGMI hive). Source validation alone redirects nothing, "
    "nor does a function without ACS. GPUs without a common bridge: ok, ACS decides nothing between them. Lines that name no "
    "port: ok where none redirects, else unknown.",
    sources=(
        "Linux drivers/pci/p2pdma.c pci_bridge_has_acs_redir, calc_map_type_and_dist",
        "PCI Express Base Specification 6.0, 7.7.11.3 ACS Control Register",
        "Linux Documentation/admin-guide/kernel-parameters.txt pci=disable_acs_redir=, pci=config_acs=",
    ),
    judge=judge,
    remedies=("acs-clear-redirect",),
    nothing="fewer than two discrete GPUs",
    needs_pci=False,
)
