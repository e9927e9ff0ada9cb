"""What reports say of a host in words, the same in every format that people read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from hostdoctor import wording
from hostdoctor.facts.unknown import Unknown, known
from hostdoctor.findings import OUTCOMES, Evidence, Finding, Outcome
from hostdoctor.knowledge import load_kernel_changes, load_remedies
from hostdoctor.report.model import GpuReport, HostReport, Report

_NAMED_AT_MOST = 8  # checks that lack the same; of more the number is enough
_SUBJECTS_AT_MOST = 8
_TEXTS_AT_MOST = 4  # of one verdict, that differ with its subjects
_OF_PAIRS = ("p2p-pair", "p2p-bandwidth", "p2p-data", "bar-reach")
_DEVICES = "/sys/bus/pci/devices/"
GUESTS = ("virtual-machine", "wsl")

# What processors' names carry besides the name.
_NOISE = re.compile(r"\((?:R|TM|C)\)|\bCPU\b|\bProcessor\b|@.*|\b\d+-Core\b|\d+th Gen ")


def safe(text: str) -> str:
    """Text with control characters written out as escapes, so that it can do nothing to a terminal."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in text)


def processor(host: HostReport) -> str:
    """The processors in short, "2 × Intel Xeon Gold 6130", or nothing."""
    sockets = known(host.cpu_sockets, 1)
    cpu = _NOISE.sub("", known(host.cpu, "")).strip()
    return f"{sockets} × {cpu}" if cpu and sockets > 1 else cpu


def machine(host: HostReport) -> str:
    """Board, processors and kernel in a line; empty where none is known."""
    parts = [known(host.board, "") or known(host.system, ""), processor(host)]
    parts.append(f"Linux {host.kernel}" if isinstance(host.kernel, str) else "")
    return " · ".join(part for part in parts if part)


def iommu(host: HostReport) -> str:
    """What the IOMMU does to the GPUs, or what kind of guest this is; empty where it is not known."""
    if host.virtualisation == "virtual-machine":
        return f"virtual machine ({host.hypervisor})" if host.hypervisor else "virtual machine"
    if host.virtualisation == "wsl":
        return "WSL"
    modes = sorted({gpu.iommu_type for gpu in host.gpus if isinstance(gpu.iommu_type, str)})
    words = {"identity": "passed through (identity)", "DMA-FQ": "translated (DMA-FQ)", "DMA": "translated (DMA, strict)"}
    if modes:
        return "IOMMU on, GPUs " + ", ".join(words.get(mode, mode) for mode in modes)
    if isinstance(host.iommu_units, Unknown):
        return ""
    return "IOMMU on" if host.iommu_units else "IOMMU off"


def facts(report: Report) -> Iterator[tuple[str, str]]:
    """What a reader wants to know of the host, by its label; empty texts where something is not known."""
    host = report.host
    yield "system", known(host.system, "")
    board = known(host.board, "")
    yield "board", "" if board == host.system else board
    yield "firmware", known(host.bios, "")
    yield "processor", processor(host)
    yield "kernel", " · ".join(each for each in (known(host.kernel, ""), known(host.distribution, "")) if each)
    isolation = iommu(host)
    yield ("IOMMU", isolation.removeprefix("IOMMU ")) if isolation.startswith("IOMMU ") else ("machine", isolation)
    yield "container", host.container
    yield "drivers", _drivers(host)
    yield "memory nodes", "" if isinstance(host.numa_nodes, Unknown) else ", ".join(map(str, host.numa_nodes))
    yield "read from", _read_from(report)


def _drivers(host: HostReport) -> str:
    drivers = host.drivers
    named = {"NVIDIA": drivers.nvidia, "CUDA": drivers.cuda, "amdgpu": drivers.amdgpu, "AMD SMI": drivers.amd_smi}
    return ", ".join(f"{name} {version}" for name, version in named.items() if isinstance(version, str))


def _read_from(report: Report) -> str:
    evidence = report.evidence
    kind, sources, version = evidence.kind, evidence.sources, report.tool.version
    if evidence.report:
        kind, sources = evidence.report.kind, evidence.report.sources
        version = f"{version}, judging again what hostdoctor {evidence.report.version} read"
    what = {"live": "this host", "root": "the tree", "capture": "the capture", "attachments": "attachments:"}[kind]
    named = "" if kind == "live" else f" {wording.listed(sources)}"
    return f"{what}{named}, by hostdoctor {version}"


def memory(bytes_: int) -> str:
    """Graphics memory as people name it: "24 GiB" also where a little of it is reserved."""
    gib = bytes_ / wording.GIB
    return f"{gib:.0f} GiB" if gib >= 1 else f"{bytes_ // wording.MIB} MiB"


def slot(gpu: GpuReport) -> str:
    """The slot's link as it runs and what the card could do, in GT/s and lanes."""
    link = gpu.slot
    if gpu.asleep:
        return "asleep"
    if link is None:
        return "?"
    facts = (link.speed_gts, link.width, link.card_max_speed_gts, link.card_max_width)
    if all(isinstance(each, Unknown) for each in facts):
        return "?"
    now = wording.link(link.speed_gts, link.width).replace(" GT/s", "")
    slow = not isinstance(link.speed_gts, Unknown) and not isinstance(link.possible_speed_gts, Unknown)
    if slow and known(link.speed_gts, 0.0) < known(link.possible_speed_gts, 0.0):
        now += " (idle?)"
    return f"{now} / {wording.link(link.card_max_speed_gts, link.card_max_width)}".replace(" GT/s", "")


def groups(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Findings that say the same of several subjects, together, in their order.

    What they explain and cost, and what is to be done, may differ: `explanation` and `told_apart` say for whom it holds.
    """
    alike: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.check, finding.outcome, finding.title), []).append(finding)
    return list(alike.values())


def told_apart(group: Sequence[Finding], text_of: Callable[[Finding], str]) -> list[str]:
    """A text of a group, each once; where it differs with those for whom it holds."""
    by_text: dict[str, list[Finding]] = {}
    for finding in group:
        by_text.setdefault(text_of(finding), []).append(finding)
    if len(by_text) == 1:
        return [text for text in by_text if text]
    told = [f"for {subjects(part)}: {text}" if subjects(part) else text for text, part in by_text.items() if text]
    more = len(told) - _TEXTS_AT_MOST
    return told if more <= 0 else [*told[:_TEXTS_AT_MOST], f"and {more} more, which the JSON report lists"]


def costs(group: Sequence[Finding]) -> list[str]:
    """What it costs."""
    return told_apart(group, lambda finding: finding.cost.text if finding.cost else "")


def next_steps(group: Sequence[Finding]) -> list[str]:
    """What to do about it."""
    return told_apart(group, next_step)


def explanation(group: Sequence[Finding]) -> str:
    """What a group explains; where the others name other devices or figures, of whom this is told, unless it says so."""
    first = group[0]
    is_of_all = all(each.explanation == first.explanation for each in group)
    if is_of_all or not first.explanation or all(each in first.explanation for each in first.subject):
        return first.explanation
    whom = " to ".join(first.subject) if _is_pair(first) else wording.listed(first.subject, _SUBJECTS_AT_MOST)
    return f"For {whom}: {first.explanation}"


def _is_pair(finding: Finding) -> bool:
    """Whether its subject is an ordered pair, not two cards that share something or two parameters."""
    return len(finding.subject) == 2 and finding.check in _OF_PAIRS


def nothing_wrong(report: Report) -> str:
    """No more than was judged."""
    if not report.summary["ok"] and not report.summary["info"]:
        return "Nothing could be judged."
    summary, in_guest = report.summary, report.host.virtualisation in GUESTS
    if summary["unknown"] > summary["ok"] or (in_guest and summary["not-applicable"] > summary["ok"]):
        return "Nothing wrong found in what can be judged here."
    return "Nothing wrong found."


def subjects(group: Sequence[Finding]) -> str:
    """What findings that say the same are about; empty for the host."""
    found = [finding.subject for finding in group if finding.subject]
    if len(found) > 1 and all(map(_is_pair, group)):
        return f"{len(found)} ordered pairs of GPUs" if len(found) > 3 else "; ".join(map(" to ".join, found))
    return wording.listed(dict.fromkeys(each for subject in found for each in subject), _SUBJECTS_AT_MOST)


def evidence(seen: Evidence) -> str:
    """One thing that was seen: where, and what."""
    return f"{seen.source.removeprefix(_DEVICES)}  {seen.value}"


def next_step(finding: Finding) -> str:
    """What to do about it: in this host's values, else the title of its first remedy; empty where nothing is to be done."""
    if finding.next or finding.outcome not in ("failure", "warning"):
        return finding.next
    titles = load_remedies()
    return next((titles[each].title for each in finding.remedies if each in titles), "")


def has_patch_or_guide(report: Report) -> bool:
    """Whether a verdict names a kernel parameter or a setting of the firmware, on a host that can change them."""
    if report.host.virtualisation in GUESTS or report.host.container:
        return False
    loud = (each for each in report.findings if each.outcome in ("failure", "warning"))
    return any(each in load_kernel_changes() or each.startswith("firmware-") for finding in loud for each in finding.remedies)


def not_understood(report: Report) -> str:
    """One sentence about what of the attachments says nothing here."""
    first, *more = report.evidence.attached_unread
    others = f", and {wording.count(len(more), 'more place')} (-v lists them)" if more else ""
    return f"Not read: {first.source} ({first.reason}){others}."


def counts(report: Report) -> Iterator[str]:
    """Verdicts counted as they are shown: what holds for several GPUs alike counts once."""
    for outcome in OUTCOMES:
        number = len(groups(each for each in report.findings if each.outcome == outcome))
        if number and outcome != "not-applicable":
            yield f"{number} {plural(outcome, number)}"


def plural(outcome: Outcome, count: int) -> str:
    """The word for that many findings of an outcome."""
    return f"{outcome}s" if outcome in ("failure", "warning") and count != 1 else outcome


def not_judged(unknown: Sequence[Finding], report: Report) -> str:
    """One sentence: what could not be judged, and what would help."""
    by_help: dict[str, dict[str, None]] = {}
    for finding in unknown:
        by_help.setdefault(finding.help, {})[finding.check] = None
    parts = []
    for help_, checks in sorted(by_help.items(), key=lambda item: not item[0]):
        names = ", ".join(checks) if len(checks) <= _NAMED_AT_MOST else f"{len(checks)} checks"
        parts.append(f"{names} ({help_})" if help_ else names)
    more = "" if all(by_help) else "; -v says why"
    return f"Not judged: {'; '.join(parts)}{more}."
