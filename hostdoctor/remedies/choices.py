"""What to choose for each setting on one host, with today's value and the arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from hostdoctor import wording
from hostdoctor.facts.host import Aperture
from hostdoctor.facts.unknown import Unknown, known
from hostdoctor.findings import Confidence, Evidence, Finding
from hostdoctor.knowledge import load_sources
from hostdoctor.knowledge.firmware import Family, Option, load_firmware_options, load_firmware_settings
from hostdoctor.remedies import arithmetic
from hostdoctor.remedies.arithmetic import GIB, Limits, Menu, Placement, choice_bytes, menu_size
from hostdoctor.remedies.board import Board
from hostdoctor.remedies.guide import NOT_VISIBLE, GuideSetting, Role
from hostdoctor.remedies.mmio import Mmio, limits_of, reaches
from hostdoctor.view import View

_PURPOSES = {
    "needed": "needed",
    "optional": "nothing is broken without it today",
    "mmio-size optional": "best changed together with the base",
    "trial": "a trial, to find the cause",
    "iommu instead": "where the BARs cannot be moved",
    "acs instead": "instead of the kernel parameter",
}
_CONFIDENCES: tuple[Confidence, ...] = ("possible", "likely", "certain")


class Wish(msgspec.Struct, frozen=True):
    """A setting that findings ask for."""

    setting: str
    role: Role
    findings: tuple[Finding, ...]


class HostFacts(msgspec.Struct, frozen=True):
    """What the choices depend on."""

    view: View
    board: Board
    families: tuple[Family, ...]
    mmio: Mmio


class Chosen(msgspec.Struct, frozen=True):
    """What a setting is now and what it must become; `value` is the menu's own choice, or empty."""

    now: str
    target: str
    value: str = ""
    sums: tuple[str, ...] = ()
    now_seen: tuple[Evidence, ...] = ()


def option_of(host: HostFacts, setting: str) -> tuple[Option, bool]:
    """The option of the board's own menu, or what the setting is called in general; and whether it is the board's own."""
    options = load_firmware_options()
    for family in host.families:
        if found := options.get((family.id, setting)):
            return found, True
    plain = load_firmware_settings()[setting]
    general = Option("", plain.id, plain.name, plain.means, plain.path, plain.confidence, plain.source, target=plain.target)
    return general, False


def made(host: HostFacts, wish: Wish, chosen: Chosen) -> GuideSetting:
    """The entry of the guide."""
    option, known_here = option_of(host, wish.setting)
    plain = load_firmware_settings()[wish.setting]
    return GuideSetting(
        id=wish.setting,
        setting=option.name,
        role=wish.role,
        purpose=_PURPOSES.get(f"{wish.setting} {wish.role}") or _PURPOSES[wish.role],
        path=option.path or plain.path,
        seen=_seen(host, option, known_here),
        known_here=known_here,
        synonyms=tuple(each for each in plain.synonyms if each != option.name),
        now=chosen.now,
        now_seen=chosen.now_seen,
        target=chosen.target,
        value=chosen.value,
        sums=chosen.sums,
        why=wish.findings[0].title,
        because=because(wish.findings),
        affects=plain.affects,
        checks=plain.checks,
        look=plain.look,
        note=option.note,
        attribute=option.attribute,
        group=option.group,
        confidence=_confidence(host, option, known_here),
        sources=tuple(load_sources()[key].title for key in option.source),
    )


def because(findings: Iterable[Finding]) -> tuple[str, ...]:
    """The findings by their checks: "bar-reach 0000:43:00.0 and 0000:83:00.0"."""
    subjects: dict[str, list[str]] = {}
    for finding in findings:
        pair = finding.check.startswith("p2p-") and len(finding.subject) == 2
        subjects.setdefault(finding.check, []).extend([" to ".join(finding.subject)] if pair else finding.subject)
    return tuple(f"{check} {wording.listed(dict.fromkeys(names))}" for check, names in subjects.items())


def _seen(host: HostFacts, option: Option, known_here: bool) -> str:
    if not known_here:
        return "no such option is known of this board: look for one of the names"
    where = f"as seen on {option.seen}" if option.seen else f"as reported for {_family(host, option).title}"
    return f"{where}; menus move between releases"


def _family(host: HostFacts, option: Option) -> Family:
    return next(family for family in host.families if family.id == option.family)


def _confidence(host: HostFacts, option: Option, known_here: bool) -> Confidence:
    """No surer than the option is known, and no surer than the board is one of its family."""
    if not known_here:
        return "possible"
    family = _family(host, option)
    exact = family.vendor and host.board.confidence == "certain"
    return min(option.confidence, "certain" if exact else family.confidence, key=_CONFIDENCES.index)


# --- base and size of 64-bit MMIO -------------------------------------------------------------------------------------


def mmio_base(host: HostFacts) -> tuple[Chosen | None, Chosen | None, str]:
    """Base and granularity below what the GPUs address, or why no choice does it.

    Returns:
        The base, the granularity where it must change too, and empty; or two times None, and the reason.
    """
    option, _ = option_of(host, "mmio-base")
    reach = next(iter(reaches(host.view)), None)
    if reach is None:
        return None, None, "how far the GPUs address is not known"
    limits = limits_of(host.view, reach.bits)
    if option.means == "limit":
        return _limit(option, limits, host), None, ""
    granules, need, buses = _ranges(host)
    bases = option.choices or arithmetic.REFERENCE_BASES
    prefer = (*option.prefer, arithmetic.reference_base(reach.bits), *_granules_to_keep(host))
    placed = arithmetic.place(Menu(bases, granules, prefer), buses, need, limits)
    if placed is None:
        return None, None, _no_room(option, granules, need, buses, limits)
    now, seen = _base_now(host, bases)
    cpu = Evidence("/proc/cpuinfo", f"address sizes: {limits.bits} bits physical")
    sums = _base_sums(host, placed, limits, reach.evidence if limits.bits == reach.bits else cpu)
    return Chosen(now, placed.base, placed.base, sums, seen), _granule(host, placed, limits), ""


def _size_option(host: HostFacts) -> Option:
    return option_of(host, "mmio-size")[0]


def _ranges(host: HostFacts) -> tuple[tuple[str, ...], int, int]:
    """Choices for the size of each root bus, what the neediest one needs, and how many there are.

    Where the menu has no such choices, the firmware takes as much as it takes today.
    """
    option = _size_option(host)
    if option.means == "per-bus" and option.choices and not option.absent:
        return option.choices, host.mmio.neediest[1], host.mmio.buses
    return (), -(-max(host.mmio.span_bytes, 1) // GIB) * GIB, 1


def _granules_to_keep(host: HostFacts) -> tuple[str, ...]:
    """Sizes to choose before others: those known to work, today's, and what the maker sets. None is made smaller unasked."""
    option, today = _size_option(host), host.mmio.granule
    same = (each for each in option.choices if today is not None and choice_bytes(each) == today)
    return (*option.prefer, *same, *((option.default,) if option.default else ()))


def _base_now(host: HostFacts, bases: Sequence[str]) -> tuple[str, tuple[Evidence, ...]]:
    """Today's base: the ranges begin at it; of BARs alone it is the highest choice at or below the lowest."""
    lowest, seen = host.mmio.lowest, host.mmio.lowest_seen
    if not lowest or seen is None:
        return NOT_VISIBLE, ()
    choice = arithmetic.current_choice(lowest, bases)
    from_bars = isinstance(host.mmio.ranges, Unknown)
    return choice if choice and (from_bars or choice_bytes(choice) == lowest) else _exact(lowest), (seen,)


def _exact(bytes_: int) -> str:
    """An address or size as menus write it where it is a whole number of their units, else in full."""
    if bytes_ % GIB:
        return f"{bytes_:#x}"
    return menu_size(bytes_) if bytes_ % arithmetic.TIB == 0 else f"{bytes_ // GIB}G"


def _base_sums(host: HostFacts, placed: Placement, limits: Limits, mask: Evidence) -> tuple[str, ...]:
    each = f"{placed.buses} root bus{'' if placed.buses == 1 else 'es'} x {placed.granule}"
    if not placed.granule:
        each = f"{_exact(placed.total_bytes)} for all ranges as they are today"
    elif not host.mmio.buses_counted:
        each += " (the most there can be: how many there are is not visible)"
    top, end = _exact(limits.end_bytes), _exact(placed.end_bytes)
    lines = [
        f"{placed.base} + {each} = {end}: the last address, {placed.end_bytes - 1:#x}, lies below {top} = 2^{limits.bits}, "
        f"which is what {limits.bits} address bits reach ({mask.source}: {mask.value}).",
        f"{top} is not low enough: its first address, {limits.end_bytes:#x}, already needs {limits.bits + 1} bits.",
    ]
    if placed.granule and choice_bytes(placed.granule) == host.mmio.granule:
        lines.append(f"{_size_option(host).name} stays at {placed.granule}.")
    memory_end = host.view.host.memory_map.memory_end
    if isinstance(memory_end, Unknown):
        lines.append(f"Memory must end below {placed.base}; where it ends is not visible here ({memory_end.reason}).")
    else:
        lines.append(f"Memory ends at {memory_end:#x}, below {placed.base}.")
    for first, last in limits.holes:
        lines.append(f"{first:#x}-{last:#x}, where AMD processors map no DMA, is kept clear of.")
    return tuple(lines)


def _no_room(option: Option, granules: Sequence[str], need: int, buses: int, limits: Limits) -> str:
    sized = [each for each in granules if (choice_bytes(each) or 0) >= need]
    each = f"{buses} x {sized[0]} (what the BARs need at least)" if sized else _exact(need)
    choices = wording.listed(option.choices or arithmetic.REFERENCE_BASES, 12)
    return (
        f"{option.name}: no choice ({choices}) leaves room for {each} between the end of memory and "
        f"{_exact(limits.end_bytes)} = 2^{limits.bits}"
    )


def _granule(host: HostFacts, placed: Placement, limits: Limits) -> Chosen | None:
    """The granularity that goes with a base; None where the firmware has none, or it stays as it is."""
    today = host.mmio.granule
    if not placed.granule or (today is not None and choice_bytes(placed.granule) == today):
        return None
    root, need = host.mmio.neediest
    where = f"root bus {root}" if root else "the root bus"
    sums = [f"The BARs below {where} need {_exact(need)}, as much as any: {placed.granule} holds them."]
    if today is not None and today >= need and limits.hold(placed.base_bytes, today * placed.buses):
        end = _exact(placed.base_bytes + today * placed.buses)
        sums.append(
            f"{_exact(today)}, as today, would do for the cards as they are ({placed.base} + {placed.buses} x "
            f"{_exact(today)} = {end}); {placed.granule} leaves room for more and is known to work with {placed.base}."
        )
    now, seen = _granule_now(host)
    return Chosen(now, placed.granule, placed.granule, tuple(sums), seen)


def _granule_now(host: HostFacts) -> tuple[str, tuple[Evidence, ...]]:
    """What the ranges suggest: all of one size, a power of two."""
    ranges, granule = host.mmio.ranges, host.mmio.granule
    if isinstance(ranges, Unknown) or not ranges:
        return NOT_VISIBLE, ()
    if granule is None:
        sizes = sorted({each.size_bytes for each in ranges})
        text = f"ranges of {wording.size(sizes[0])} to {wording.size(sizes[-1])}"
        return NOT_VISIBLE, (Evidence("/proc/iomem", text),)
    what = "range" if len(ranges) == 1 else "ranges"
    return _exact(granule), (Evidence("/proc/iomem", f"{len(ranges)} {what} of {wording.size(granule)}"),)


def _limit(option: Option, limits: Limits, host: HostFacts) -> Chosen | None:
    """An option that sets where MMIO ends: the preferred choice, else the highest at or below the limit that leaves room."""
    need = sum(host.mmio.needs.values())
    sized = [(size, text) for text in option.choices if (size := choice_bytes(text)) and size <= limits.end_bytes]
    roomy = [(size, text) for size, text in sized if _usable_end(size, limits) - limits.floor_bytes >= need]
    if not roomy:
        return None
    value = next((text for _, text in roomy if text in option.prefer), max(roomy)[1])
    end, top = choice_bytes(value) or 0, limits.end_bytes
    sums = (
        f"{value}: 64-bit MMIO then ends at {end:#x}; {limits.bits} address bits reach to 2^{limits.bits} = {_exact(top)}.",
        f"The BARs need {_exact(need)} in all, which must fit between the end of memory and there.",
    )
    return Chosen(NOT_VISIBLE, value, value, sums)


def _usable_end(end: int, limits: Limits) -> int:
    """Where MMIO that must end there can end, what the processor reserves just below left out."""
    return next((first for first, last in limits.holes if first < end <= last + 1), end)


def mmio_size(host: HostFacts) -> Chosen:
    """A size that holds what lies below each root bus."""
    option, mmio = _size_option(host), host.mmio
    if mmio.is_above_4g:
        chosen = _size(host, option)
        name = option_of(host, "above-4g")[0].name
        return msgspec.structs.replace(chosen, sums=(*chosen.sums, f"{name} is on already: there are addresses above 4 GiB."))
    return _size(host, option)


def _size(host: HostFacts, option: Option) -> Chosen:
    mmio = host.mmio
    root, need = mmio.neediest
    now, seen = _granule_now(host)
    if option.means == "switch":
        return Chosen(NOT_VISIBLE, option.target, option.target)
    if option.means == "size":
        return _whole_size(host, option)
    where = f"root bus {root}" if root else "the neediest root bus"
    sums = [f"The BARs below {where} need {_exact(need)}" + (f"; its range has {now} today." if seen and mmio.granule else ".")]
    larger = [each for each in option.choices if (choice_bytes(each) or 0) > (mmio.granule or 0)]
    bases = (_base_now(host, option_of(host, "mmio-base")[0].choices)[0],)
    limits = limits_of(host.view)
    menu = Menu(bases, larger, _granules_to_keep(host))
    placed = arithmetic.place(menu, mmio.buses, max(need, 1), limits) if larger else None
    if placed is not None:
        sums.append(f"{placed.base} + {placed.buses} x {placed.granule} = {_exact(placed.end_bytes)}, below 2^{limits.bits}.")
        return Chosen(now, placed.granule, placed.granule, tuple(sums), seen)
    sums.append("Base and all sizes together must stay below what processor and GPUs address.")
    return Chosen(now, f"{_exact(arithmetic.rounded_up(need))} or more for each root bus", "", tuple(sums), seen)


def _whole_size(host: HostFacts, option: Option) -> Chosen:
    """One size for the whole host."""
    total = sum(host.mmio.needs.values())
    sums = [f"All BARs that may lie above 4 GiB need {_exact(total)} together."]
    sized = sorted((size, text) for text in option.choices if (size := choice_bytes(text)))
    enough = [text for size, text in sized if size >= max(total, choice_bytes(option.default) or 0)]
    value = next((text for text in enough if text in option.prefer), next(iter(enough), sized[-1][1] if sized else ""))
    if sized and sized[-1][0] < total:
        sums.append(f"{value} is the most this menu offers: use fewer of these cards here.")
    seen = () if isinstance(host.mmio.ranges, Unknown) else tuple(_range(each) for each in host.mmio.ranges)
    return Chosen(NOT_VISIBLE, value or f"{_exact(arithmetic.rounded_up(total))} or more", value, tuple(sums), seen)


def _range(each: Aperture) -> Evidence:
    return Evidence("/proc/iomem", f"{each.start:x}-{each.end:x} : PCI Bus {each.root} ({wording.size(each.size_bytes)})")


# --- switches ---------------------------------------------------------------------------------------------------------


def above_4g(host: HostFacts) -> Chosen:
    """Above 4G Decoding, on a host that shows nothing above 4 GiB."""
    option, _ = option_of(host, "above-4g")
    if host.mmio.is_above_4g is False:
        seen = Evidence("/proc/iomem", "no root bus has a range above 4 GiB")
        return Chosen("off, or without effect", option.target, option.target, now_seen=(seen,))
    return Chosen(NOT_VISIBLE, option.target, option.target)


def resizable_bar(host: HostFacts, findings: Sequence[Finding]) -> Chosen:
    """Resizable BAR, on a host whose BARs are smaller than they could be."""
    option, _ = option_of(host, "resizable-bar")
    seen = tuple(finding.evidence[0] for finding in findings if finding.evidence)
    need = sum(host.mmio.needs.values())
    sums = (f"With all memory showing, the BARs above 4 GiB need {_exact(need)} together.",) if need else ()
    return Chosen("not in force", option.target, option.target, sums, tuple(dict.fromkeys(seen)))


def switched(host: HostFacts, setting: str, now: str, seen: tuple[Evidence, ...] = ()) -> Chosen:
    """A switch whose state today is known from elsewhere."""
    option, _ = option_of(host, setting)
    return Chosen(now, option.target, option.target, now_seen=seen)


def slot_speed(host: HostFacts, findings: Sequence[Finding], lower: bool) -> Chosen:
    """The speed of a slot: all it can do, or one generation less than it runs at."""
    option, _ = option_of(host, "slot-speed")
    port = _port(host.view, findings)
    if port is None:
        return Chosen(NOT_VISIBLE, "one generation lower" if lower else option.target, "" if lower else option.target)
    address, target_gts, current_gts = port
    source = Evidence(f"{address} (LnkCtl2, target link speed)", f"{target_gts:g} GT/s") if target_gts else None
    now = _generation(target_gts) if target_gts else NOT_VISIBLE
    wanted = _generation(current_gts, -1) if lower and current_gts else "one generation lower" if lower else option.target
    value = next((each for each in option.choices if each.replace(" ", "") == wanted), "")
    return Chosen(now, value or wanted, "" if lower else option.target, now_seen=(source,) if source else ())


_SPEEDS_GTS = (2.5, 5.0, 8.0, 16.0, 32.0, 64.0)


def _generation(speed_gts: float, less: int = 0) -> str:
    """Of 8 GT/s "Gen3"."""
    number = _SPEEDS_GTS.index(speed_gts) + 1 if speed_gts in _SPEEDS_GTS else 0
    return f"Gen{max(1, number + less)}" if number else f"{speed_gts:g} GT/s"


def _port(view: View, findings: Sequence[Finding]) -> tuple[str, float, float] | None:
    """The port above the first slot that findings speak of: its address, target speed and speed, 0 where unknown."""
    subjects = {address for finding in findings for address in finding.subject}
    for card in view.cards:
        slot = card.slot_or_reason
        if isinstance(slot, Unknown) or not subjects & {card.gpu.address, card.top.address, slot.upper.address}:
            continue
        express = slot.upper.express
        if isinstance(express, Unknown) or express is None:
            return None
        return slot.upper.origin, known(express.target_speed_gts, 0.0), known(express.current_speed_gts, 0.0)
    return None
