"""The report as metrics, in the text format that Prometheus' node_exporter reads from its textfile folder.

Names and labels stay. What is not known has no sample: a gap, and never a zero. docs/formats.md lists them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import OUTCOMES
from hostdoctor.report.model import GpuReport, LinkReport, PairReport, Report

_GIGA = 1e9
_TOLD = ("failure", "warning", "info", "unknown")  # of the others there are only counts
_Labels = dict[str, str]
_Sample = tuple[_Labels, float]


class _Metric(msgspec.Struct, frozen=True):
    name: str
    help: str
    samples: list[_Sample]


def render(report: Report, seconds: float, when: float) -> bytes:
    """The whole file.

    Args:
        report: of one scan.
        seconds: how long the scan took.
        when: seconds since 1970 at its end.
    """
    lines: list[str] = []
    for metric in (
        *_scan(report, seconds, when),
        *_gpus(report.host.gpus),
        *_slots(report.host.gpus),
        *_pairs(report.host.pairs),
    ):
        name = f"hostdoctor_{metric.name}"
        lines += [f"# HELP {name} {_escaped(metric.help, quotes=False)}", f"# TYPE {name} gauge"]
        unique = {f"{name}{_labels(labels)}": value for labels, value in metric.samples}
        lines += [f"{series} {_number(value)}" for series, value in unique.items()]
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def _scan(report: Report, seconds: float, when: float) -> Iterator[_Metric]:
    yield _Metric("build_info", "The program that scanned.", [({"version": report.tool.version}, 1)])
    yield _Metric("scan_timestamp_seconds", "When the scan ended, in seconds since 1970.", [({}, round(when, 3))])
    yield _Metric("scan_duration_seconds", "How long the scan took.", [({}, round(seconds, 3))])
    yield _Metric("scan_exit_status", "The scan's exit status: 1 where it found what --fail-on names.", [({}, report.exit)])
    counts: list[_Sample] = [({"outcome": outcome}, float(report.summary.get(outcome, 0))) for outcome in OUTCOMES]
    yield _Metric("findings", "Findings by outcome.", counts)
    told = [
        ({"check": each.check, "subject": " ".join(each.subject), "outcome": each.outcome}, 1.0)
        for each in report.findings
        if each.outcome in _TOLD
    ]
    yield _Metric("finding_info", "One for each finding that is neither ok nor not-applicable.", told)


def _gpus(gpus: Iterable[GpuReport]) -> Iterator[_Metric]:
    listed = list(gpus)
    told = [
        ({"gpu": gpu.address, "id": gpu.id, "name": gpu.name, "driver": gpu.driver if isinstance(gpu.driver, str) else ""}, 1.0)
        for gpu in listed
    ]
    yield _Metric("gpu_info", "One for each discrete GPU.", told)
    yield _Metric("gpu_asleep", "Whether the GPU was asleep, and so partly unknown.", [_of(gpu, gpu.asleep) for gpu in listed])
    yield _gauge("gpu_memory_bytes", "The GPU's memory.", [(gpu, gpu.memory_bytes) for gpu in listed])
    yield _gauge("gpu_bar_bytes", "The BAR through which its memory is reached.", [(gpu, gpu.bar_bytes) for gpu in listed])
    yield _gauge("gpu_numa_node", "The memory node it sits at.", [(gpu, gpu.numa_node) for gpu in listed])
    told_bytes = [(gpu, _bytes(gpu.to_root_gbs)) for gpu in listed]
    yield _gauge("gpu_to_root_bytes_per_second", "What the narrowest link to the processor gives, one way.", told_bytes)


def _slots(gpus: Iterable[GpuReport]) -> Iterator[_Metric]:
    """The links between cards and the board."""
    slots = [(gpu, gpu.slot) for gpu in gpus if gpu.slot]
    rows: tuple[tuple[str, str, list[tuple[GpuReport, float | Unknown]]], ...] = (
        ("speed_gts", "Speed of the link in its slot now, in GT/s.", [(gpu, slot.speed_gts) for gpu, slot in slots]),
        ("possible_speed_gts", "What both of its ends can do.", [(gpu, slot.possible_speed_gts) for gpu, slot in slots]),
        ("width_lanes", "Lanes of the link in its slot now.", [(gpu, slot.width) for gpu, slot in slots]),
        ("possible_width_lanes", "What both of its ends can do.", [(gpu, slot.possible_width) for gpu, slot in slots]),
        ("loaded_bytes_per_second", "What the link gives under load, one way.", [(gpu, _loaded(slot)) for gpu, slot in slots]),
    )
    for name, about, values in rows:
        yield _gauge(f"slot_{name}", about, values)


def _pairs(pairs: Iterable[PairReport]) -> Iterator[_Metric]:
    judged = [pair for pair in pairs if pair.p2p != "unknown"]
    told = [({"accessor": pair.accessor, "owner": pair.owner}, float(pair.p2p == "holds")) for pair in judged]
    yield _Metric("p2p_expected", "Whether the accessor is expected to reach the owner's memory; not measured.", told)


def _loaded(slot: LinkReport) -> float | Unknown:
    return _bytes(slot.loaded_gbs)


def _bytes(gbs: float | Unknown) -> float | Unknown:
    return gbs if isinstance(gbs, Unknown) else round(gbs * _GIGA)


def _of(gpu: GpuReport, value: float) -> _Sample:
    return {"gpu": gpu.address}, float(value)


def _gauge(name: str, about: str, values: Iterable[tuple[GpuReport, float | Unknown]]) -> _Metric:
    return _Metric(name, about, [_of(gpu, value) for gpu, value in values if not isinstance(value, Unknown)])


def _labels(labels: _Labels) -> str:
    told = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{told}}}" if told else ""


def _escaped(text: str, quotes: bool = True) -> str:
    """As the exposition format has it: backslashes, line ends, and in labels quotes."""
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
