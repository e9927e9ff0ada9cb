"""From findings to a firmware guide: which settings of this board to change, to what, and why that much.

Only what a finding names as its remedy is asked for, and only where the host does not show that it is so already. A guest
gets no guide: what it sees of firmware is its hypervisor's. Nor does a container: the firmware is its host's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from hostdoctor import p2p, wording
from hostdoctor.bars import may_be_high, missing_bars
from hostdoctor.facts.host import Environment
from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import Evidence, Finding
from hostdoctor.knowledge.firmware import load_firmware_settings
from hostdoctor.remedies import choices
from hostdoctor.remedies.board import identify
from hostdoctor.remedies.choices import Chosen, HostFacts, Wish, made, option_of
from hostdoctor.remedies.guide import NOT_VISIBLE, NOTHING, FirmwareGuide, GuideSetting, Role, Way
from hostdoctor.remedies.mmio import read_mmio
from hostdoctor.remedies.ways import ways_of
from hostdoctor.view import View

__all__ = ["NOTHING", "NOT_VISIBLE", "FirmwareGuide", "GuideSetting", "Way", "as_json", "firmware_guide"]

_MMIO, _ABOVE_4G, _REBAR = "firmware-mmio-below-dma-limit", "firmware-above-4g-decoding", "firmware-resizable-bar"
_ACS, _FULL_SPEED, _LOWER_SPEED = "acs-clear-redirect", "firmware-slot-full-speed", "firmware-slot-lower-speed"
_JUDGED = ("failure", "warning", "info")
_ORDER = ("above-4g", "mmio-base", "mmio-size", "resizable-bar", "iommu", "acs", "slot-speed")
_SERVERS_ONLY = ("mmio-base", "mmio-size")
_LARGE_BARS = ("above-4g", "mmio-base", "mmio-size", "resizable-bar")

_MOVED = (
    "The root bus has room for {}: the windows of the bridges above must be moved, which is for the kernel to do and needs no "
    "setting of the firmware."
)
_Made = GuideSetting | str  # an entry, or a note instead


def firmware_guide(view: View, findings: Iterable[Finding]) -> FirmwareGuide:
    """The guide for this host; one without settings says why there is nothing to change."""
    board, families = identify(view.host.firmware, view.host.cpu)
    if why := _not_its_own(view.host.environment):
        return FirmwareGuide(board, why, (), (), (), (), (), ())
    host = HostFacts(view, board, families, read_mmio(view))
    entries = list(_entries(host, list(findings)))
    settings = _in_order(each for each in entries if isinstance(each, GuideSetting))
    notes = tuple(dict.fromkeys(each for each in entries if isinstance(each, str)))
    if not settings:
        return FirmwareGuide(board, NOTHING, (), notes, (), (), (), ())
    return FirmwareGuide(
        board,
        "",
        settings,
        notes,
        before=_before(settings, board.enter),
        after=_after(settings),
        back=_BACK,
        ways=ways_of(families, settings),
    )


def as_json(guide: FirmwareGuide) -> list[dict[str, object]]:
    """The entries of `firmware` in the JSON of `hostdoctor fix`."""
    return [
        {
            "setting": each.setting,
            "now": each.now,
            "target": each.target,
            "path": each.path,
            "confidence": each.confidence,
            "role": each.role,
            "purpose": each.purpose,
            "because": list(each.because),
            "arithmetic": list(each.sums),
            "board": guide.board.name,
            "synonyms": list(each.synonyms),
        }
        for each in guide.settings
    ]


def _in_order(entries: Iterable[GuideSetting]) -> tuple[GuideSetting, ...]:
    """Each setting once, in the order to change them."""
    once: dict[str, GuideSetting] = {}
    for each in entries:
        once.setdefault(each.id, each)
    return tuple(sorted(once.values(), key=lambda each: _ORDER.index(each.id)))


def _not_its_own(environment: Environment) -> str:
    """Why the firmware that would have to change is another machine's; empty on bare metal."""
    if environment.is_guest:
        return f"{NOTHING}: this is a virtual machine, and the firmware it sees is its hypervisor's"
    if environment.container:
        return f"{NOTHING} from inside a container: run hostdoctor on the host itself"
    return ""


# --- which settings ---------------------------------------------------------------------------------------------------


def _naming(findings: Sequence[Finding], remedy: str) -> tuple[Finding, ...]:
    """The verdicts that name a remedy: what could not be judged proves no need."""
    return tuple(finding for finding in findings if remedy in finding.remedies and finding.outcome in _JUDGED)


def _decided(findings: Sequence[Finding], outcomes: tuple[str, ...]) -> dict[str, str]:
    """Functions for which window-space found that no firmware setting is needed or helps, with its title."""
    judged = (each for each in findings if each.check == "window-space" and each.outcome in outcomes)
    return {address: each.title for each in judged if _ABOVE_4G not in each.remedies for address in each.subject}


def _all_in(finding: Finding, decided: Mapping[str, str]) -> bool:
    return bool(finding.subject) and all(address in decided for address in finding.subject)


def _role(findings: Sequence[Finding]) -> Role:
    return "needed" if any(finding.outcome in ("failure", "warning") for finding in findings) else "optional"


def _entries(host: HostFacts, findings: Sequence[Finding]) -> Iterator[_Made]:
    """All that the findings ask for."""
    if asking := _naming(findings, _MMIO):
        yield from _mmio_base(host, asking)
    yield from _space(host, findings)
    if asking := _naming(findings, _ACS):
        yield from _acs(host, asking)
    if asking := _naming(findings, _FULL_SPEED):
        yield from _asked(host, Wish("slot-speed", "needed", asking), choices.slot_speed(host, asking, lower=False))
    elif asking := _naming(findings, _LOWER_SPEED):
        yield from _asked(host, Wish("slot-speed", "trial", asking), choices.slot_speed(host, asking, lower=True))


def _space(host: HostFacts, findings: Sequence[Finding]) -> Iterator[_Made]:
    """Space above 4 GiB and larger BARs, less what window-space found to need no setting, or to be helped by none."""
    high, rebar = _naming(findings, _ABOVE_4G), _naming(findings, _REBAR)
    hopeless, roomy = _decided(findings, ("failure", "warning")), _decided(findings, ("ok",))
    titles = (hopeless[each] for finding in (*high, *rebar) for each in finding.subject if each in hopeless)
    yield from (f"{title}: no setting of the firmware changes that." for title in dict.fromkeys(titles))
    unassigned = (finding for finding in high if finding.check != "bar-size")
    if moved := dict.fromkeys(each for finding in unassigned for each in finding.subject if each in roomy):
        yield _MOVED.format(wording.listed(moved))
    yield from _above_4g(host, tuple(each for each in high if not _all_in(each, {**hopeless, **roomy})))
    if asking := tuple(each for each in rebar if not _all_in(each, hopeless)):
        yield from _asked(host, Wish("resizable-bar", _role(asking), asking), choices.resizable_bar(host, asking))


def _asked(host: HostFacts, wish: Wish, chosen: Chosen) -> Iterator[_Made]:
    """The entry, or a note where the board has no such option."""
    if why := _not_here(host, wish.setting):
        yield why
    else:
        yield made(host, wish, chosen)


def _not_here(host: HostFacts, setting: str) -> str:
    """Why this board's setup has no such option; empty where it has, or that is not known.

    Desktop boards whose menus are not known are not sent to look for what only server boards have.
    """
    option, known_here = option_of(host, setting)
    title = load_firmware_settings()[setting].title
    if option.absent:
        return f"{title}: {option.note}"
    if setting in _SERVERS_ONLY and not known_here and host.board.kind == "client":
        return f"{title}: the setup of a desktop board has no option for it, unless a newer release brings one."
    return ""


def _above_4g(host: HostFacts, findings: tuple[Finding, ...]) -> Iterator[_Made]:
    """Above 4G Decoding where it is not on already; where it is, more of that space for what found none."""
    if not findings:
        return
    role = _role(findings)
    if not host.mmio.is_above_4g:
        yield from _asked(host, Wish("above-4g", role, findings), choices.above_4g(host))
        if not option_of(host, "above-4g")[0].absent:
            return
    lacking = tuple(finding for finding in findings if finding.check != "bar-size")
    lacking = tuple(finding for finding in lacking if not _below_4g_only(host.view, finding))
    if not lacking and any(finding.check != "bar-size" for finding in findings):
        yield "BARs of 32 bits must lie below 4 GiB, where no option of the firmware makes room: use fewer such devices."
    if lacking:
        yield from _asked(host, Wish("mmio-size", role, lacking), choices.mmio_size(host))


def _below_4g_only(view: View, finding: Finding) -> bool:
    """Whether all that a finding's functions lack must lie below 4 GiB, so that more space above it helps nothing."""
    functions = [view.topology.functions[each] for each in finding.subject if each in view.topology.functions]
    missing = [(function, bar) for function in functions for bar in missing_bars(function)]
    return bool(missing) and not any(may_be_high(function, bar) for function, bar in missing)


def _mmio_base(host: HostFacts, findings: tuple[Finding, ...]) -> Iterator[_Made]:
    """The base of 64-bit MMIO below what the GPUs address, or what to do where the board cannot move it."""
    _, known_here = option_of(host, "mmio-base")
    role = _role(findings)
    if why := _not_here(host, "mmio-base"):
        yield why
        yield from _translate_instead(host, findings)
        return
    base, granule, why_not = choices.mmio_base(host)
    if base is None:
        yield f"{why_not or 'no choice of this menu lies within reach'}."
        yield from _translate_instead(host, findings)
        return
    yield made(host, Wish("mmio-base", role, findings), base)
    if granule is not None and not _not_here(host, "mmio-size"):
        enough = host.mmio.granule is not None and host.mmio.granule >= host.mmio.neediest[1]
        yield made(host, Wish("mmio-size", "optional" if enough else role, findings), granule)
    if not known_here:
        yield from _translate_instead(host, findings)


def _translate_instead(host: HostFacts, findings: tuple[Finding, ...]) -> Iterator[_Made]:
    """A translating IOMMU brings BARs within reach of amdgpu, on kernels that can (p2p.REMAP_SINCE)."""
    remaps, units = p2p.driver_remaps(host.view), host.view.host.iommu.units
    since = f"Linux {p2p.REMAP_SINCE} or later"
    if remaps is False:
        yield f"Otherwise a translating IOMMU can bring the BARs within reach, but only under {since}."
    elif isinstance(units, Unknown) or units:
        yield f"Otherwise let the IOMMU translate for the GPUs (no iommu=pt), under {since}."
    else:
        seen = (Evidence("/sys/class/iommu", "no remapping unit"),)
        yield from _asked(host, Wish("iommu", "instead", findings), choices.switched(host, "iommu", "off", seen))


def _acs(host: HostFacts, findings: tuple[Finding, ...]) -> Iterator[_Made]:
    """The firmware's ACS bits stand only where no IOMMU is on: with one the kernel sets redirect (pci_enable_acs)."""
    units = host.view.host.iommu.units
    if isinstance(units, Unknown) or units:
        return
    seen = tuple(evidence for finding in findings for evidence in finding.evidence)[:4]
    yield from _asked(host, Wish("acs", "instead", findings), choices.switched(host, "acs", "on", seen))


# --- around the settings ----------------------------------------------------------------------------------------------

_BACK = (
    "Set the old values again; that is why they are noted first.",
    "If the host no longer starts: clear the CMOS (the board's manual names the jumper or button), or load defaults through "
    "the BMC. That resets every setting, so boot order and passwords must be set again.",
    "On boards with a second BIOS chip, start from that one.",
)


def _before(settings: Sequence[GuideSetting], enter: str) -> tuple[str, ...]:
    steps = [
        "Note the old values, or take a photograph of each page: boot order, storage mode and passwords too.",
        "Have a way to the console for the first start: a screen, or the BMC's remote console.",
    ]
    if any(each.id in _LARGE_BARS for each in settings):
        steps.append(
            "If the system starts by UEFI (the folder /sys/firmware/efi exists), switch CSM off in the same visit; if it "
            'starts by legacy boot, leave CSM alone: large BARs together with CSM can end at "no boot device".'
        )
        steps.append("Raise sizes before you add cards or switch Resizable BAR on: boards without room stop at power-on.")
    return (*steps, f"Enter the setup: {enter}." if enter else "Enter the setup: the key is shown at power-on.")


def _after(settings: Sequence[GuideSetting]) -> tuple[str, ...]:
    checks = dict.fromkeys(check for each in settings for check in each.checks)
    return (
        f"hostdoctor scan {' '.join(f'--check {check}' for check in checks)}: neither a failure nor a warning may be left.",
        *dict.fromkeys(each.look for each in settings),
    )
