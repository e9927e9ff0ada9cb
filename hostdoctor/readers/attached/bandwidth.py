"""Recorded runs of bandwidth tools: their figures, what they say of access, and the GPUs that only they name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from hostdoctor.facts.bandwidth import Device, Run, is_host, renamed
from hostdoctor.facts.host import Cpu, Host, Kfd
from hostdoctor.facts.pci import ATI, NVIDIA, Function
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.parsers import nvbandwidth, p2p_bandwidth_latency_test, rocm_bandwidth_test, simple_p2p, transferbench
from hostdoctor.parsers.matrix import WIDEST
from hostdoctor.parsers.paste import Part
from hostdoctor.readers.attached.merge import with_functions
from hostdoctor.topology import Topology

_PARSERS: Mapping[str, Callable[[Part], Run | None]] = {
    "rocm-bandwidth-test": rocm_bandwidth_test.parse,
    "transferbench": transferbench.parse,
    "p2p-bandwidth-latency-test": p2p_bandwidth_latency_test.parse,
    "simple-p2p": simple_p2p.parse,
    "nvbandwidth": nvbandwidth.parse,
    "json": nvbandwidth.parse,
}
_OF_AMD = (rocm_bandwidth_test.TOOL, transferbench.TOOL, "hip")
_DISPLAY = 0x030000


def apply(host: Host, parts: Sequence[Part]) -> Host:
    """The host with these runs, and with the GPUs that nothing else told of."""
    runs = [run for part in parts if part.kind in _PARSERS and (run := _PARSERS[part.kind](part)) is not None]
    own = [part for part in parts if part.kind == "measuring-run"]
    if own:
        from hostdoctor.parsers import measuring_run  # noqa: PLC0415  few pastes hold such a file

        runs += [run for part in own for run in measuring_run.parse(part)]
    return with_runs(host, runs)


def with_runs(host: Host, runs: Sequence[Run]) -> Host:
    """The host with these runs, whose devices get the addresses that the host tells."""
    for run in _with_shared_devices(runs):
        host = _with_run(host, _with_unlisted(run))
    return host


def _with_run(host: Host, run: Run) -> Host:
    run = renamed(run, _known_places(host, run))
    host = with_functions(host, _functions(host, run))
    words = (*host.pair_words, *run.words)
    return msgspec.structs.replace(host, runs=(*host.runs, run), pair_words=words, cpu=_with_name(host.cpu, run))


def _with_name(cpu: Cpu, run: Run) -> Cpu:
    """The processor's name, where only the tool tells it."""
    named = next((device.name for device in run.devices if not device.is_gpu and device.name), "")
    return msgspec.structs.replace(cpu, name=named) if named and isinstance(cpu.name, Unknown) else cpu


def _with_shared_devices(runs: Sequence[Run]) -> Iterator[Run]:
    """The runs of rocm-bandwidth-test that list no devices, with those that another of its runs lists."""
    listing = next((run for run in runs if run.tool == rocm_bandwidth_test.TOOL and run.devices), None)
    for run in runs:
        if listing is None or run.tool != rocm_bandwidth_test.TOOL or run.devices:
            yield run
        else:
            names = {f"Device {device.number}": device.subject for device in listing.gpus}
            yield renamed(msgspec.structs.replace(run, devices=listing.devices), names)


def _with_unlisted(run: Run) -> Run:
    """A run with the GPUs that only its tables name, since the paste lacks the list of devices."""
    listed = {device.subject for device in run.devices}
    pairs = [(each.origin, each.target) for each in run.transfers] + [(each.origin, each.target) for each in run.verifications]
    pairs += [(each.accessor, each.owner) for each in run.words]
    ends = dict.fromkeys(end for pair in pairs for end in pair)
    found = [
        Device(end, int("".join(filter(str.isdecimal, end)) or 0), "", True, run.source)
        for end in ends
        if end and end not in listed and not is_host(end)
    ]
    return msgspec.structs.replace(run, devices=(*run.devices, *found)) if found else run


def _vendor(run: Run) -> int:
    """Whose GPUs a run speaks of; simpleP2P has been ported, so that a name of AMD's tells more than the tool."""
    amd = run.tool in _OF_AMD or any(device.name.startswith("AMD") for device in run.gpus)
    return ATI if amd else NVIDIA


def _known_places(host: Host, run: Run) -> dict[str, str]:
    """What the host calls the GPUs of a run: the subjects that have to be changed."""
    known = _known_gpus(host, _vendor(run))
    numbered = [device for device in run.gpus if ":" not in device.subject]
    names = {} if run.has_domains else _with_domains(run.gpus, known)
    return {**names, **_addresses_of_numbers(host, run, numbered, known)}


def _known_gpus(host: Host, vendor: int) -> list[Function]:
    """The discrete GPUs of one vendor whose addresses other evidence tells."""
    functions = {} if isinstance(host.functions, Unknown) else host.functions
    return [gpu for gpu in Topology(functions).gpus if gpu.vendor == vendor and ":" in gpu.address]


def _with_domains(devices: Sequence[Device], known: Sequence[Function]) -> dict[str, str]:
    """Addresses that were printed without a domain, where exactly one GPU is known by the rest of it."""
    found = {}
    for device in devices:
        fits = [gpu.address for gpu in known if gpu.address.partition(":")[2] == device.subject.partition(":")[2]]
        if len(fits) == 1 and fits[0] != device.subject:
            found[device.subject] = fits[0]
    return found


def _addresses_of_numbers(host: Host, run: Run, numbered: Sequence[Device], known: Sequence[Function]) -> dict[str, str]:
    """Addresses of GPUs that a tool only numbers.

    CUDA puts the fastest first unless it is told otherwise, so that its numbers tell no address where there are several.
    HIP numbers GPUs as KFD does, as long as none is hidden from it.
    """
    if len(numbered) == len(known) == 1:
        return {numbered[0].subject: known[0].address}
    if run.tool != transferbench.TOOL or not isinstance(host.kfd, Kfd):
        return {}
    nodes = sorted(host.kfd.nodes, key=lambda node: node.number)
    addresses = [node.address for node in nodes if node.address]
    if len(addresses) != len(numbered):
        return {}
    return {f"GPU{number}": address for number, address in enumerate(addresses)}


def _functions(host: Host, run: Run) -> Iterator[Function]:
    """The GPUs as functions: those with an address, and numbers where no GPU of that vendor is known otherwise.

    The tool ran, so the vendor's driver was loaded.
    """
    vendor = _vendor(run)
    has_addresses = bool(_known_gpus(host, vendor))
    for device in run.gpus[:WIDEST]:
        if ":" in device.subject or not has_addresses:
            yield Function(
                device.subject,
                vendor,
                0,
                _DISPLAY,
                driver="amdgpu" if vendor == ATI else "nvidia",
                parent=NOT_CAPTURED,
                origin=device.source,
                name=device.name,
            )
