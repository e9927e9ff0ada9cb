"""The kernel's log: its events, functions, and what it tells of the host where nothing else does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from hostdoctor.facts.host import Boot, Cpu, Environment, Host, Numa
from hostdoctor.facts.log import KernelLog
from hostdoctor.facts.pci import Function
from hostdoctor.facts.unknown import Unknown
from hostdoctor.parsers.cmdline import parse_command_line
from hostdoctor.parsers.kernel_log import Log, read_logs
from hostdoctor.parsers.kernel_release import parse_release
from hostdoctor.parsers.log_events import Read, joined, read_events
from hostdoctor.parsers.log_host import LogHost, Said, read_log_host
from hostdoctor.parsers.paste import Part
from hostdoctor.readers.attached.log_functions import with_log_functions
from hostdoctor.readers.environment import signs_of_guest

S = TypeVar("S", bound=msgspec.Struct)

_GROUP = "iommu-group"
_BARE = "bare hardware"
# The control domain of Xen owns the hardware, and its kernel says that it detected Xen all the same.
_MAY_OWN_THE_HARDWARE = ("Xen PV", "Jailhouse", "ACRN")


def apply(host: Host, parts: Sequence[Part]) -> Host:
    """The host with the events of these logs beside those it has, and what they tell of kernel, firmware and processor."""
    logs = [log for log in read_logs(parts) if log.messages]
    if not logs:
        return host
    host = with_log_functions(host, logs)
    had = host.log if isinstance(host.log, KernelLog) else KernelLog()
    read = joined([Read(list(had.events), dict(had.drivers)), *(read_events(log) for log in logs)])
    groups = {event.address: event.details["group"] for event in read.events if event.kind == _GROUP}
    host = msgspec.structs.replace(
        host,
        functions=_with_groups(host, groups),
        log=KernelLog(
            tuple(event for event in read.events if event.kind != _GROUP),
            tuple(dict.fromkeys((*had.sources, *(log.source for log in logs)))),
            had.from_boot or any(log.from_boot for log in logs),
            had.lines + sum(len(log.messages) for log in logs),
            read.drivers,
        ),
    )
    for log in logs:
        host = _with_host(host, log, read_log_host(log))
    return host


def _with_groups(host: Host, groups: dict[str, str]) -> dict[str, Function] | Unknown:
    """The functions with the IOMMU groups that they were added to."""
    if isinstance(host.functions, Unknown):
        return host.functions
    return {
        address: msgspec.structs.replace(function, iommu_group=groups[address])
        if address in groups and isinstance(function.iommu_group, Unknown)
        else function
        for address, function in host.functions.items()
    }


def _filled(facts: S, **said: object) -> S:
    """Facts with what the log adds to those that are not known."""
    changes = {name: value for name, value in said.items() if value is not None and isinstance(getattr(facts, name), Unknown)}
    return msgspec.structs.replace(facts, **changes) if changes else facts


def _text(said: Said | None) -> str | None:
    return said.value if said else None


def _with_host(host: Host, log: Log, said: LogHost) -> Host:
    host = msgspec.structs.replace(
        host,
        boot=_boot(host.boot, said),
        cpu=_cpu(host.cpu, said),
        numa=_numa(host.numa, said),
        firmware=_filled(
            host.firmware,
            system_vendor=_text(said.system_vendor),
            product_name=_text(said.product_name),
            board_name=_text(said.board_name),
            bios_version=_text(said.bios_version),
            bios_date=_text(said.bios_date),
        ),
    )
    return msgspec.structs.replace(host, environment=_environment(host, log, said))


def _boot(boot: Boot, said: LogHost) -> Boot:
    if said.release:
        boot = _filled(boot, release=said.release.value, version=parse_release(said.release.value))
    if said.command_line and isinstance(boot.command_line, Unknown):
        parameters, arguments = parse_command_line(said.command_line.value)
        boot = msgspec.structs.replace(
            boot, command_line=said.command_line.value, parameters=parameters, init_arguments=arguments
        )
    return boot


def _cpu(cpu: Cpu, said: LogHost) -> Cpu:
    family, model = (int(each.value, 16) if each else None for each in (said.cpu_family, said.cpu_model))
    return _filled(cpu, vendor=_text(said.cpu_vendor), name=_text(said.cpu_name), family=family, model=model)


def _numa(numa: Numa, said: LogHost) -> Numa:
    return _filled(numa, nodes=tuple(range(int(said.nodes.value)))) if said.nodes else numa


def _environment(host: Host, log: Log, said: LogHost) -> Environment:
    """What kind of machine it is, where nothing else tells; a log without its beginning says nothing by its silence.

    A hypervisor that hides from its guest is still known by its firmware and its devices.
    """
    environment = host.environment
    if not isinstance(environment.kind, Unknown):
        return environment
    if said.release and "microsoft" in said.release.value.lower() and "wsl" in said.release.value.lower():
        return _of_kind(environment, "wsl", "Hyper-V (WSL)", said.release)
    if said.hypervisor:
        if said.hypervisor.value in _MAY_OWN_THE_HARDWARE:
            return environment
        return _of_kind(environment, "virtual-machine", said.hypervisor.value, said.hypervisor)
    hidden = signs_of_guest(host.firmware, host.functions, flag_is_absent=False)
    if log.from_boot and said.runs_on and said.runs_on.value == _BARE and not hidden:
        return _of_kind(environment, "bare-metal", "", said.runs_on)
    return environment


def _of_kind(environment: Environment, kind: str, hypervisor: str, said: Said) -> Environment:
    evidence = ((said.source, said.value),)
    return msgspec.structs.replace(environment, kind=kind, hypervisor=hypervisor, evidence=evidence)
