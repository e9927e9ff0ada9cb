"""Recorded runs as cells of a table: what was measured of each way, by each tool.

Of two ends between which any data arrived wrong no figure is given, whichever way, tool or kind of copy it is of: how fast
wrong data are means nothing, and what the other copies carried need not have been right (docs/bandwidth.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from hostdoctor.facts.bandwidth import HOST, Run, Transfer, Verification, is_host
from hostdoctor.measured import least
from hostdoctor.report.model import MeasuredCell

_Key = tuple[str, str, bool, bool | None, bool]
_Data = Literal["right", "wrong", "not-compared"]
_NOT_TOLD = ("", "")


def measured_cells(runs: Sequence[Run]) -> tuple[MeasuredCell, ...]:
    """One cell for each way, kind of copy and tool; copies beside which others ran say nothing of the way and are left out."""
    by_tool: dict[str, list[Run]] = {}
    for run in runs:
        by_tool.setdefault(run.tool, []).append(run)
    wrong = {_ends(each.origin, each.target) for run in runs for each in run.verifications if each.right is False}
    found = (cell for tool, group in by_tool.items() for cell in _cells(tool, group))
    return tuple(shown for cell in found if (shown := _without_wrong(cell, wrong)))


def _ends(origin: str, target: str) -> frozenset[str]:
    """Two GPUs, one, or a GPU and host memory of any node; empty texts where the tool does not tell."""
    return frozenset(HOST if is_host(end) else end for end in (origin, target))


def _without_wrong(cell: MeasuredCell, wrong: Collection[frozenset[str]]) -> MeasuredCell | None:
    """The cell as it may be shown; None for a latency of which nothing is left."""
    ends = _ends(cell.origin, cell.target)
    # As check p2p-bandwidth has it: where a tool does not tell in which copy data were wrong, it may be any between GPUs.
    is_any = _ends(*_NOT_TOLD) in wrong and HOST not in ends
    if cell.data != "wrong" and ends not in wrong and not is_any:
        return cell
    if cell.latency_us is not None:
        return None
    return msgspec.structs.replace(cell, gbs=None, lowest_gbs=None, highest_gbs=None, withheld=True)


def _cells(tool: str, runs: Sequence[Run]) -> Iterator[MeasuredCell]:
    found: dict[_Key, list[Transfer]] = {}
    for transfer in (each for run in runs for each in run.transfers if not each.contended):
        is_latency = transfer.latency_us is not None
        key = (transfer.origin, transfer.target, transfer.both_ways, transfer.peer_access, is_latency)
        found.setdefault(key, []).append(transfer)
    data = _data_of(runs)
    for (origin, target, both_ways, peer_access, is_latency), transfers in found.items():
        rates = [each.gbs for each in transfers if each.gbs is not None]
        chosen = _slowest(transfers, is_latency)
        yield MeasuredCell(
            origin=origin,
            target=target,
            gbs=None if is_latency else chosen.gbs,
            lowest_gbs=min(rates) if len(rates) > 1 and not is_latency else None,
            highest_gbs=max(rates) if len(rates) > 1 and not is_latency else None,
            both_ways=both_ways,
            peer_access=peer_access,
            latency_us=chosen.latency_us,
            data=_data(data, origin, target, both_ways),
            tool=tool,
            source=chosen.source,
        )
    ways = {(origin, target) for origin, target, *_ in found}
    for each in (each for run in runs for each in run.verifications if each.origin):
        if (each.origin, each.target) not in ways:
            ways.add((each.origin, each.target))
            yield _without_rate(tool, each, _data(data, each.origin, each.target, both_ways=False))


def _without_rate(tool: str, tested: Verification, data: _Data) -> MeasuredCell:
    """Data were compared, and no rate was told."""
    return MeasuredCell(tested.origin, tested.target, None, None, None, False, None, None, data, tool, tested.source)


def _slowest(transfers: Sequence[Transfer], is_latency: bool) -> Transfer:
    """What stands for several measurements of one thing."""
    if is_latency:
        return max(transfers, key=lambda each: each.latency_us or 0.0)
    return least(each for each in transfers if each.gbs is not None) or transfers[0]


def _data_of(runs: Sequence[Run]) -> Mapping[tuple[str, str], _Data]:
    """By origin and target, wrong once is wrong; both empty where a tool does not tell which copy it speaks of."""
    found: dict[tuple[str, str], _Data] = {}
    for each in (each for run in runs for each in run.verifications if each.right is not None):
        ends = (each.origin, each.target)
        if found.get(ends) != "wrong":
            found[ends] = "right" if each.right else "wrong"
    return found


def _data(data: Mapping[tuple[str, str], _Data], origin: str, target: str, both_ways: bool) -> _Data:
    """Of both ways together both must be right; a test with the host's memory that names no node speaks of each.

    Where data were wrong and the tool does not tell in which copy, every copy that is not known to be right may be it.
    """
    ways = [(origin, target), (target, origin)] if both_ways else [(origin, target)]
    said = [data.get(way) or data.get(_without_nodes(way)) for way in ways]
    if "wrong" in said:
        return "wrong"
    if all(each == "right" for each in said):
        return "right"
    return "wrong" if data.get(_NOT_TOLD) == "wrong" else "not-compared"


def _without_nodes(way: tuple[str, str]) -> tuple[str, str]:
    first, second = ("host" if is_host(end) else end for end in way)
    return first, second
