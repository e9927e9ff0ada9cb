"""A report as one page that needs nothing else: no network, no script, no font.

Everything from the evidence is untrusted: control characters are written out and markup is escaped by jinja2. A content
security policy in the page forbids scripts and whatever lies elsewhere, should any of that ever fail.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

import jinja2
import msgspec

import hostdoctor.templates
from hostdoctor import wording
from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import OUTCOMES, Cost, Evidence, Finding, Outcome
from hostdoctor.knowledge import load_remedies
from hostdoctor.report import drawing, phrases, tables
from hostdoctor.report.model import GpuReport, HostReport, LinkReport, Report
from hostdoctor.report.phrases import counts, has_patch_or_guide, nothing_wrong, safe

_EVIDENCE_AT_MOST = 40  # of one verdict
_UNFOLDED_AT_MOST = 16  # GPUs of a host whose drawing stands unfolded
_HEADLINES_AT_MOST = 8
_SOURCES_AT_MOST = 400
_GUESTS = ("virtual-machine", "wsl")
_WORDS: dict[Outcome, str] = {"not-applicable": "not applicable"}


class Fact(msgspec.Struct, frozen=True):
    """A fact of the host, as text."""

    name: str
    text: str
    is_code: bool = False
    known: bool = True


class Shown(msgspec.Struct, frozen=True):
    """One verdict as the page shows it: findings that say the same of several subjects."""

    number: int
    first: Finding
    outcome: str
    subjects: str
    explanation: str
    costs: tuple[str, ...]
    steps: tuple[str, ...]
    evidence: tuple[Evidence, ...]  # each once
    not_shown: int
    share: float | None  # of what it could have, where that is a bandwidth
    remedies: tuple[tuple[str, tuple[str, ...]], ...]


def render(report: Report, *, embedded: str = "", notes: Sequence[str] = ()) -> str:
    """The page.

    Args:
        report: what to show.
        embedded: text for programs, put into the page where no browser runs it.
        notes: sentences about the report itself, shown below the verdict.
    """
    environment = _environment()
    return environment.get_template("report.html.j2").render(
        report=report,
        host=report.host,
        headline=_headline(report),
        worst=_worst(report),
        counts=list(counts(report)),
        outcomes=[(outcome, _WORDS.get(outcome, outcome), _shown(report, outcome)) for outcome in OUTCOMES],
        headlines_at_most=_HEADLINES_AT_MOST,
        identity=_identity(report.host),
        panels=drawing.panels(report.host.topology, report.findings),
        unfolded=len(report.host.gpus) <= _UNFOLDED_AT_MOST,
        is_guest=report.host.virtualisation in _GUESTS,
        matrix=tables.matrix(report.host, report.findings),
        measurements=tables.measurements(report.host),
        limits=any(node.limits for node in report.host.topology.nodes),
        facts=[_fact(name, value) for name, value in _facts(report.host) if not isinstance(value, Unknown)],
        not_known=_not_known(report.host),
        gpus=[_gpu_row(gpu) for gpu in report.host.gpus],
        can_fix=has_patch_or_guide(report),
        sources_at_most=_SOURCES_AT_MOST,
        notes=notes,
        embedded=_inert(embedded),
    )


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(os.path.dirname(hostdoctor.templates.__file__)),
        autoescape=True,
        finalize=_harmless,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _harmless(value: object) -> object:
    """What a template writes, with control characters, reversals of direction and half surrogates written out."""
    return safe(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _inert(text: str) -> str:
    """Text that cannot end the element it stands in: signs of markup as JSON writes them, where they mean the same."""
    escaped = text.encode("utf-8", "replace").decode()
    for sign in "<>&\u2028\u2029":
        escaped = escaped.replace(sign, f"\\u{ord(sign):04x}")
    return escaped


# --- the verdict ------------------------------------------------------------------------------------------------------


def _worst(report: Report) -> Outcome:
    """What the page's colour and sign say: nothing is called in order that could not be judged."""
    if any(report.summary[each] for each in ("failure", "warning")):
        return "failure" if report.summary["failure"] else "warning"
    return "ok" if nothing_wrong(report) == "Nothing wrong found." else "unknown"


def _headline(report: Report) -> str:
    loud = [each for each in counts(report) if "failure" in each or "warning" in each]
    return " and ".join(loud) if loud else nothing_wrong(report).rstrip(".")


def _identity(host: HostReport) -> str:
    """The host in a line."""
    board = host.board if isinstance(host.board, str) else host.system
    kernel = f"Linux {host.kernel}" if isinstance(host.kernel, str) else ""
    gpus = wording.count(len(host.gpus), "GPU") if host.gpus else ""
    parts = [each for each in (board, host.cpu, kernel, gpus) if isinstance(each, str) and each]
    return " · ".join(parts) or "a host that says little of itself"


# --- findings ---------------------------------------------------------------------------------------------------------


def _shown(report: Report, outcome: Outcome) -> list[Shown]:
    found = phrases.groups(each for each in report.findings if each.outcome == outcome)
    return [_group(group, number) for number, group in enumerate(found, 1)]


def _group(group: Sequence[Finding], number: int) -> Shown:
    first = group[0]
    known_remedies = load_remedies()
    remedies = [known_remedies[each] for each in first.remedies if each in known_remedies]
    costs = phrases.costs(group)
    evidence = list(dict.fromkeys(each for finding in group for each in finding.evidence))
    return Shown(
        number=number,
        first=first,
        outcome=_WORDS.get(first.outcome, first.outcome),
        subjects=phrases.subjects(group),
        explanation=phrases.explanation(group),
        costs=tuple(costs),
        steps=tuple(phrases.told_apart(group, lambda finding: finding.next)),
        evidence=tuple(evidence[:_EVIDENCE_AT_MOST]),
        not_shown=len(evidence[_EVIDENCE_AT_MOST:]),
        share=_share(first.cost) if len(costs) == 1 else None,
        remedies=tuple((each.title, each.steps) for each in remedies),
    )


def _share(cost: Cost | None) -> float | None:
    if cost is None or cost.have_gbs is None or not cost.could_have_gbs or cost.have_gbs > cost.could_have_gbs:
        return None
    return cost.have_gbs / cost.could_have_gbs


# --- facts ------------------------------------------------------------------------------------------------------------


def _facts(host: HostReport) -> Iterator[tuple[str, object]]:
    """What there is to tell of the host, under its heading."""
    drivers = host.drivers
    bits = host.physical_address_bits
    for name, value in (
        ("System", host.system),
        ("Board", host.board),
        ("Firmware", host.bios),
        ("Processor", host.cpu),
        ("Sockets", host.cpu_sockets),
        ("Physical addresses", bits if isinstance(bits, Unknown) else f"{bits} bits"),
        ("Memory nodes", _listed(host.numa_nodes)),
        ("Distribution", host.distribution),
        ("Kernel", host.kernel),
        ("Command line", host.cmdline),
        ("Machine", _machine(host)),
        ("IOMMU units", _listed(host.iommu_units)),
        ("PCI functions", host.functions or None),
        ("Integrated GPUs", _listed(host.integrated_gpus) if host.integrated_gpus else None),
        ("NVIDIA driver", drivers.nvidia),
        ("CUDA at most", drivers.cuda),
        ("NVML", drivers.nvml),
        ("amdgpu outside the kernel", drivers.amdgpu),
        ("AMD SMI", drivers.amd_smi),
    ):
        if value is not None:
            yield name, value


def _not_known(host: HostReport) -> list[Fact]:
    """What is not known, together where the reason is the same."""
    reasons: dict[str, list[str]] = {}
    for name, value in _facts(host):
        if isinstance(value, Unknown):
            reasons.setdefault(value.reason, []).append(name if name.isupper() or name[:2].isupper() else name.lower())
    return [Fact(wording.listed(names, len(names)), reason) for reason, names in reasons.items()]


def _listed(values: Iterable[object] | Unknown) -> str | Unknown:
    return values if isinstance(values, Unknown) else ", ".join(map(str, values)) or "none"


def _machine(host: HostReport) -> str | Unknown:
    if isinstance(host.virtualisation, Unknown):
        return host.virtualisation
    hypervisor = f" ({host.hypervisor})" if host.hypervisor else ""
    container = f", in a container ({host.container})" if host.container else ""
    return f"{host.virtualisation.replace('-', ' ')}{hypervisor}{container}"


def _gpu_row(gpu: GpuReport) -> tuple[Fact, ...]:
    """A row of the table of GPUs, each cell under its heading."""
    slot = gpu.slot
    memory, rate, node = gpu.memory_bytes, gpu.to_root_gbs, gpu.numa_node
    at = (
        gpu.attachment
        if isinstance(gpu.attachment, Unknown)
        else {"switch": "a switch"}.get(gpu.attachment, f"the {gpu.attachment}")
    )
    cells: tuple[tuple[str, object], ...] = (
        ("GPU", gpu.address),
        ("Model", gpu.name),
        ("Memory", memory if isinstance(memory, Unknown) else wording.size(memory)),
        ("Driver", gpu.driver or "none"),
        ("Attached to", at),
        ("Slot now", "asleep" if gpu.asleep else _now(slot)),
        ("Slot can do", _can(slot)),
        ("To the root", rate if isinstance(rate, Unknown) else wording.gbs(rate)),
        ("Memory node", "none named" if isinstance(node, int) and node < 0 else node),
        ("IOMMU", gpu.iommu_type or "off"),
    )
    return tuple(_fact(name, value) for name, value in cells)


def _fact(name: str, value: object) -> Fact:
    """In a table what is not known is a question mark; the reason shows where one points at it."""
    return (
        Fact(name, value.reason, known=False) if isinstance(value, Unknown) else Fact(name, str(value), name == "Command line")
    )


def _now(slot: LinkReport | None) -> str | Unknown:
    if slot is None:
        return Unknown("there is no port above the card in this evidence")
    if isinstance(slot.speed_gts, Unknown) and isinstance(slot.width, Unknown):
        return slot.speed_gts
    return wording.link(slot.speed_gts, slot.width)


def _can(slot: LinkReport | None) -> str | Unknown:
    if slot is None:
        return Unknown("there is no port above the card in this evidence")
    if isinstance(slot.possible_speed_gts, Unknown) and isinstance(slot.possible_width, Unknown):
        return slot.possible_speed_gts
    return wording.link(slot.possible_speed_gts, slot.possible_width)
