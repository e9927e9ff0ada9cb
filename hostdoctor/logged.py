"""What checks say of events in the kernel's log, everywhere the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hostdoctor import wording
from hostdoctor.facts.log import KernelLog, LogEvent
from hostdoctor.facts.pci import Function
from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import Evidence
from hostdoctor.names import class_name
from hostdoctor.topology import is_gpu_class
from hostdoctor.view import View

NO_LOG = Unknown("no kernel log in this evidence", "attach the output of dmesg")
NOT_FROM_BOOT = Unknown("the kernel log here does not begin with the boot", "attach the whole output of dmesg")
EARLIER = " That was in an earlier boot of this log."

# Drivers that speak for GPUs alone.
GPU_DRIVERS = frozenset({"nvidia", "amdgpu", "radeon", "nouveau", "i915", "xe"})
_INTEL_INTEGRATED = "0000:00:02.0"  # where Intel's processors have theirs; cards are never on bus 0
# Messages that only the driver of a GPU writes.
_OF_GPUS = ("xid", "nvidia-", "gpu-", "ring-", "ras-", "amdgpu-", "smu-")
_SHOWN_AT_MOST = 4
_HOUR_S, _DAY_S = 3600, 86_400


def evidence(events: Iterable[LogEvent]) -> tuple[Evidence, ...]:
    """The first message of each event, and how often it came."""
    return tuple(
        Evidence(event.source, event.text if event.count == 1 else f"{event.text} ({times(event)})")
        for event in list(events)[:_SHOWN_AT_MOST]
    )


def times(event: LogEvent) -> str:
    """How often, and over how long where the log has stamps: "once", "8 times in 0.1 s", "12 times in 3 hours"."""
    number = "once" if event.count == 1 else f"{event.count:,} times"
    span = event.span_s
    if event.count == 1 or span <= 0:
        return number
    if span >= 2 * _DAY_S:
        return f"{number} in {span / _DAY_S:.0f} days"
    return f"{number} in {span / _HOUR_S:.0f} hours" if span >= 2 * _HOUR_S else f"{number} in {span:.1f} s"


def function_at(view: View, address: str) -> Function | None:
    """The function at an address, where something else than the log knows it."""
    return view.topology.functions.get(address)


def is_gpu(view: View, address: str) -> bool:
    """Whether a function is a GPU that is no part of the processor: by what it is, or else by who speaks for it."""
    function = function_at(view, address)
    if function is not None and function.class_code:
        return function in view.gpus
    log = view.host.log
    if log is not None and address == _INTEL_INTEGRATED and log.drivers.get(address) in ("i915", "xe"):
        return False
    return log is not None and (
        log.drivers.get(address) in GPU_DRIVERS
        or any(event.kind.startswith(_OF_GPUS) or event.details.get("driver") in GPU_DRIVERS for event in log.about(address))
    )


def is_integrated(view: View, address: str) -> bool:
    """Whether a function is a GPU that is part of the processor."""
    function = function_at(view, address)
    if function is None or not function.class_code:
        log = view.host.log
        return address == _INTEL_INTEGRATED and log is not None and log.drivers.get(address) in ("i915", "xe")
    return is_gpu_class(function) and function not in view.gpus


def name(view: View, address: str) -> str:
    """What to call a function: "the GPU 0000:04:00.0", "the bridge 0000:00:1c.0", or its address alone."""
    function = function_at(view, address)
    if is_gpu(view, address):
        return f"the GPU {address}"
    if function is not None and function.class_code:
        return f"the {class_name(function.class_code)} {address}"
    log = view.host.log
    speaks = log.drivers.get(address, "") if log else ""
    return f"the port {address}" if speaks == "pcieport" else address


def gpus_driven_by(view: View, driver: str) -> list[str]:
    """The addresses of GPUs with this driver, by whatever tells."""
    log = view.host.log
    by_log = [address for address, name in log.drivers.items() if name == driver] if log else []
    by_facts = [gpu.address for gpu in view.gpus if gpu.driver == driver]
    return list(dict.fromkeys([*by_facts, *by_log]))


def owner(view: View, event: LogEvent, driver: str) -> str:
    """The GPU that a message is about: the one it names, else the only one this driver has."""
    if event.address:
        return event.address
    candidates = gpus_driven_by(view, driver)
    return candidates[0] if len(candidates) == 1 else ""


def subject(address: str) -> tuple[str, ...]:
    """The subject of a finding about a function that may not be known."""
    return (address,) if address else ()


def of_last_boot(log: KernelLog, *kinds: str) -> list[LogEvent]:
    """The events of some kinds in the last boot that the log tells of."""
    return [event for event in log.of(*kinds) if not event.boots_ago]


def by_address(events: Sequence[LogEvent]) -> dict[str, list[LogEvent]]:
    """Events by the function that they are about, the empty address included."""
    found: dict[str, list[LogEvent]] = {}
    for event in events:
        found.setdefault(event.address, []).append(event)
    return found


def listed(view: View, addresses: Iterable[str]) -> str:
    """Functions as a person would list them."""
    return wording.listed(name(view, address) for address in addresses)
