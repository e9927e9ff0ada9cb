"""What a run's file tells, in the terms of everybody else: figures to be shown, and facts to be judged.

Of two ends between which data arrived wrong no figure of any kind leaves this module: how fast wrong data are means nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from statistics import median

import msgspec

from hostdoctor.bandwidth.journal import Done, Journal, Tool
from hostdoctor.bandwidth.links import believed
from hostdoctor.bandwidth.running import BREAKS
from hostdoctor.bandwidth.steps import Step, StepResult
from hostdoctor.facts.bandwidth import HOST, Broken, Device, LoadedLink, Run, Transfer, Verification, host_node
from hostdoctor.facts.driver import PairWord

_WRONG = {
    "dropped": "the copy never arrived: the target holds what it held before",
    "zeroed": "zeroes arrived",
    "partial": "part of it arrived wrong",
}


class Cell(msgspec.Struct, frozen=True):
    """What came of one step, as it may be shown.

    Attributes:
        tool: what measured.
        step: what was asked.
        gbs: the median of the samples; None where there are none, or the data of these two ends were wrong.
        low_gbs, high_gbs: their spread, where there are several.
        samples: how many.
        latency_us: of a copy of a few bytes.
        data: "right", "wrong" or "not-compared".
        state: "measured", "wrong", "withheld" (other data of the same two ends were wrong), "forbidden", "broken", "failed"
            or "not-taken".
        text: why there is no figure.
        source: where it stands.
    """

    tool: str
    step: Step
    gbs: float | None = None
    low_gbs: float | None = None
    high_gbs: float | None = None
    samples: int = 0
    latency_us: float | None = None
    data: str = "not-compared"
    state: str = "not-taken"
    text: str = ""
    source: str = ""


def cells(journal: Journal, name: str) -> list[Cell]:
    """Every planned step; `name` is the file's, for sources."""
    wrong = {_ends(done.result.step) for _, done in journal.done.values() if done.result.data == "wrong"}
    found = []
    for tool, step in journal.planned:
        line_done = journal.done.get((tool, step.key))
        if line_done is not None:
            found.append(_cell(tool, *line_done, name, wrong))
        elif begun := journal.begun.get((tool, step.key)):
            text = f"it began at {begun.at} and never ended: the run was killed, or the host went down"
            found.append(Cell(tool, step, state="broken", text=text, source=name))
        else:
            found.append(Cell(tool, step, text="not taken"))
    return found


def _ends(step: Step) -> frozenset[str]:
    """Two GPUs, or a GPU and host memory of any node, or a GPU and itself."""
    return frozenset(step.gpus) if step.kind == "pair" else frozenset((*step.gpus, "itself" if step.kind == "inside" else HOST))


def _cell(tool: str, line: int, done: Done, name: str, wrong: Collection[frozenset[str]]) -> Cell:
    result, source = done.result, f"{name}:{line}"
    cell = Cell(tool, _as_done(result), data=result.data, source=source)
    replace = msgspec.structs.replace
    if result.data == "wrong":
        return replace(cell, state="wrong", text=wrong_text(result))
    if _ends(result.step) in wrong:
        return replace(cell, state="withheld", text="data arrived wrong between the same two, so no figure is given")
    if result.error:
        kinds = {"forbidden": "forbidden"} | dict.fromkeys(BREAKS, "broken")
        return replace(cell, state=kinds.get(result.error_kind, "failed"), text=result.error)
    samples = result.samples_gbs
    if not samples:
        return replace(cell, state="failed", text="nothing was timed")
    spread = (min(samples), max(samples)) if len(samples) > 1 else (None, None)
    return replace(
        cell,
        gbs=median(samples),
        low_gbs=spread[0],
        high_gbs=spread[1],
        samples=len(samples),
        latency_us=result.latency_us,
        state="measured",
    )


def _as_done(result: StepResult) -> Step:
    """The step as it was taken: with smaller copies where memory was short, and from the memory node that there was."""
    step = result.step
    if result.size_bytes:
        step = msgspec.structs.replace(step, size_bytes=result.size_bytes)
    if result.host_node is not None and step.kind in ("to-gpu", "from-gpu"):
        end = "origin" if step.kind == "to-gpu" else "target"
        step = msgspec.structs.replace(step, **{end: host_node(result.host_node)})
    return step


def wrong_text(result: StepResult) -> str:
    """How the data were wrong, in words."""
    parts = [_WRONG.get(result.wrong_kind, "what arrived is not what was sent")]
    if result.wrong_bytes:
        parts.append(f"{result.wrong_bytes:,} of {result.size_bytes or result.step.size_bytes:,} bytes differ")
    if result.wrong_text:
        parts.append(result.wrong_text)
    return "; ".join(parts)


def runs_of(journal: Journal, name: str) -> list[Run]:
    """The facts, one run a tool."""
    shown = cells(journal, name)
    return [_run(tool, [cell for cell in shown if cell.tool == tool.name], journal, name) for tool in journal.tools]


def _run(tool: Tool, shown: list[Cell], journal: Journal, name: str) -> Run:
    taken = [cell for cell in shown if cell.state != "not-taken"]
    return Run(
        tool.name,
        tool.version,
        f"{name}:1",
        tuple(Device(each.subject, number, each.name, True, f"{name}:1") for number, each in enumerate(tool.devices)),
        tuple(transfer for cell in taken for transfer in _transfers(cell)),
        tuple(each for cell in taken for each in _verifications(cell)),
        tuple(_words(taken)),
        cut=len(taken) < len(shown) or journal.lacks_steps,
        links=_links(tool, journal, name),
        broken=tuple(Broken(*_pair(cell.step), cell.text, cell.source) for cell in taken if cell.state == "broken"),
    )


def _pair(step: Step) -> tuple[str, str]:
    return step.origin, step.target


def _transfers(cell: Cell) -> Iterator[Transfer]:
    """The figure; of both ways together the same for either order."""
    step = cell.step
    if step.kind == "pair" and not step.peer_access and cell.gbs is None:
        return  # the control arm of a pair alone makes no pair that was measured
    found = Transfer(
        *_pair(step),
        cell.gbs,
        both_ways=step.both_ways,
        peer_access=step.peer_access if step.kind == "pair" else None,
        initiator="target" if step.accessor == step.target != step.origin and step.kind == "pair" else "",
        engine="copy-engine",
        statistic="median",
        size_bytes=step.size_bytes,
        source=cell.source,
    )
    if cell.state == "forbidden":
        return
    yield found
    replace = msgspec.structs.replace
    if step.both_ways:
        yield replace(found, origin=step.target, target=step.origin)
    if cell.latency_us is not None and cell.gbs is not None:
        yield replace(found, gbs=None, latency_us=cell.latency_us, size_bytes=None)


def _verifications(cell: Cell) -> Iterator[Verification]:
    """What a comparison showed; that the control arm was right says nothing of direct copies."""
    step = cell.step
    if cell.data == "wrong":
        arm = " (without peer access)" if step.kind == "pair" and not step.peer_access else ""
        yield Verification(*_pair(step), False, f"{cell.text}{arm}", cell.source)
    elif cell.data == "right" and (step.kind != "pair" or step.peer_access) and step.kind != "inside":
        compared = f"{cell.tool} compared {step.size_bytes:,} bytes"
        yield Verification(*_pair(step), True, compared, cell.source)
        if step.both_ways:
            yield Verification(step.target, step.origin, True, compared, cell.source)


def _words(taken: list[Cell]) -> Iterator[PairWord]:
    for cell in taken:
        step = cell.step
        if step.kind == "pair" and step.peer_access and not step.both_ways and cell.state in ("forbidden", "measured"):
            allowed = cell.state == "measured"
            text = "peer access enabled" if allowed else cell.text
            yield PairWord(step.accessor or step.origin, _other(step), allowed, text, cell.source)


def _other(step: Step) -> str:
    return step.target if (step.accessor or step.origin) == step.origin else step.origin


def _links(tool: Tool, journal: Journal, name: str) -> tuple[LoadedLink, ...]:
    """The best that each link was seen at."""
    best: dict[str, LoadedLink] = {}
    for line, done in journal.done.values():
        for seen in believed(done.links, done.result) if done.tool == tool.name else ():
            known = best.get(seen.port)
            if known is None or seen.speed_gts * seen.width > known.speed_gts * known.width:
                best[seen.port] = LoadedLink(seen.port, seen.speed_gts, seen.width, f"{name}:{line}")
    return tuple(best.values())
