"""Loads each GPU for a moment, so that its links show what they come up to: copies from the host, which are safe."""

from __future__ import annotations

import msgspec

from hostdoctor.bandwidth.adapters import Means
from hostdoctor.bandwidth.choice import Chosen
from hostdoctor.bandwidth.links import LinkWatch, believed
from hostdoctor.bandwidth.session import Place
from hostdoctor.bandwidth.steps import FEWEST_REPEATS, Device, Step
from hostdoctor.facts.bandwidth import HOST, LoadedLink, Run, host_node

_DEADLINE_S = 30.0


class Woken(msgspec.Struct, frozen=True):
    """What waking showed: a run that holds links alone, and the GPUs that could not be woken with the reason."""

    runs: tuple[Run, ...]
    failed: tuple[tuple[str, str], ...]


def woken(place: Place, chosen: list[Chosen]) -> Woken:
    """Copy to each GPU in turn, and look at the links meanwhile."""
    runs: list[Run] = []
    failed: list[tuple[str, str]] = []
    for each in chosen:
        links: list[LoadedLink] = []
        for device in each.devices:
            watch = LinkWatch(place.evidence, place.topology, [device.subject])
            result = each.adapter.take(_step(device), Means(_DEADLINE_S, watch.look))
            source = f"sysfs, while {each.adapter.name} copied to {device.subject}"
            if result.error:
                failed.append((device.subject, result.error))
            else:
                links += [LoadedLink(seen.port, seen.speed_gts, seen.width, source) for seen in believed(watch.seen, result)]
        runs.append(Run(each.adapter.name, each.adapter.version, "copies that wake GPUs", links=tuple(links)))
    return Woken(tuple(runs), tuple(failed))


def _step(device: Device) -> Step:
    node = HOST if device.numa_node is None else host_node(device.numa_node)
    return Step("to-gpu", node, device.subject, device.subject, repeats=FEWEST_REPEATS, verify=False)
