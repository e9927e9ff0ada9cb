"""All facts of a host from one evidence."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import msgspec

from hostdoctor.evidence import Evidence
from hostdoctor.evidence.guarded import GuardedRead
from hostdoctor.evidence.protocol import Recorder
from hostdoctor.facts.boot_files import BootFiles
from hostdoctor.facts.driver import Access, AmdSmi, NetworkDevice, Nvml
from hostdoctor.facts.host import Boot, Host
from hostdoctor.facts.pci import ATI, Function
from hostdoctor.facts.unknown import ANOTHER_USER, NEEDS_ROOT, Unknown, known
from hostdoctor.readers.environment import read_environment
from hostdoctor.readers.errors import PortCounters, is_gpu
from hostdoctor.readers.gpu import DriverFacts, read_driver_facts
from hostdoctor.readers.network import ask_ethtool, read_network, speeds_of, with_asked_speeds
from hostdoctor.readers.pci import read_functions, with_attributes
from hostdoctor.readers.platform import (
    read_boot,
    read_cpu,
    read_firmware,
    read_iommu,
    read_memory_map,
    read_modules,
    read_numa,
)
from hostdoctor.readers.text import folder_exists

if TYPE_CHECKING:
    from hostdoctor.vendor import Asked, Vendors

_BOOT_FOLDERS = ("boot", "etc", "nix")
_NO_COUNTERS = Unknown("there are no AER counters in this evidence")


def read_host(
    evidence: Evidence, deadline_s: float = 10.0, assume_bare_metal: bool = False, vendors: Vendors | None = None
) -> Host:
    """Read everything the checks look at.

    Args:
        evidence: where from.
        deadline_s: how long the files that GPU drivers serve, and vendors' libraries, may take.
        assume_bare_metal: judge a guest as if its PCI tree were hardware.
        vendors: the libraries to ask; None stands for those of this machine where the evidence is live, else for none.
    """
    counters = PortCounters()
    functions = read_functions(evidence, counters.visit)
    gpus = [] if isinstance(functions, Unknown) else [found for found in functions.values() if is_gpu(found)]
    has_amd = any(gpu.vendor == ATI for gpu in gpus)

    def reader(source: Evidence) -> DriverFacts:
        facts = read_driver_facts(source, gpus, with_kfd=has_amd)
        return msgspec.structs.replace(facts, network=read_network(source))  # last: a network driver can hang as well

    with ExitStack() as stack:
        at_work = GuardedRead(evidence, reader, deadline_s) if gpus else None
        if at_work:
            stack.callback(at_work.abandon)
        asked = _asked(vendors, evidence, gpus, deadline_s)
        if asked:
            stack.callback(asked.abandon)
        host = _read_around(evidence, functions, has_amd, assume_bare_metal)
        driver = reader(at_work.answers()) if at_work else DriverFacts({}, {}, None)
        nvml, amd_smi = _answered(evidence, asked)
    access = _access(evidence) if gpus else host.access
    network = _network(evidence, driver, deadline_s)
    if isinstance(evidence, Recorder):
        from hostdoctor.facts.answers import Answers  # noqa: PLC0415  only who captures needs it

        evidence.note(Answers(nvml, amd_smi, access, speeds_of(network)))
    if isinstance(functions, Unknown):
        return host
    merged = {**functions, **driver.functions}
    merged.update({found.address: with_attributes(evidence, found) for found in _ports_above(merged, gpus)})
    return msgspec.structs.replace(
        host,
        functions=merged,
        gpu_facts=driver.gpu_facts,
        kfd=driver.kfd,
        nvml=nvml,
        amd_smi=amd_smi,
        modules=driver.nvidia.add_to(host.modules) if driver.nvidia else host.modules,
        error_counters={**counters.found, **driver.error_counters} or _NO_COUNTERS,
        access=access,
        network=network,
        privileged=not any(_was_refused(found) for found in merged.values()),
    )


def _asked(vendors: Vendors | None, evidence: Evidence, gpus: Sequence[Function], deadline_s: float) -> Asked | None:
    """The questions put to the vendors' libraries; none where there is no GPU, or only a tree of another host."""
    if not gpus or evidence.answers or (vendors is None and evidence.kind != "live"):
        return None
    from hostdoctor.vendor import Vendors  # noqa: PLC0415  most scans have no use for it

    return (vendors or Vendors()).ask(gpus, deadline_s)


def _answered(evidence: Evidence, asked: Asked | None) -> tuple[Nvml | Unknown | None, AmdSmi | Unknown | None]:
    """What the vendors' libraries say now, or said when the host was captured."""
    if evidence.answers:
        return evidence.answers.nvml, evidence.answers.amd_smi
    return asked.answers() if asked else (None, None)


def _access(evidence: Evidence) -> Access | Unknown:
    """The rights of whoever runs this, or captured it; a tree has no user."""
    if evidence.answers:
        return evidence.answers.access
    if evidence.kind != "live":
        return ANOTHER_USER
    from hostdoctor.readers.access import read_access  # noqa: PLC0415  a tree has no use for it

    return read_access(evidence)


def _network(evidence: Evidence, driver: DriverFacts, deadline_s: float) -> tuple[NetworkDevice, ...] | Unknown:
    """The network; this host's kernel can be asked where sysfs is silent, and may have been when it was captured."""
    if (given := evidence.answers) is not None:
        return with_asked_speeds(driver.network, lambda _: given.speeds)
    if evidence.kind != "live":
        return driver.network
    return with_asked_speeds(driver.network, lambda names: ask_ethtool(names, deadline_s))


def _read_boot_files(evidence: Evidence, boot: Boot, container: str) -> BootFiles:
    """How the host is configured to boot; a tree of sys and proc alone has nothing of it."""
    if not container and not any(folder_exists(evidence, folder) for folder in _BOOT_FOLDERS):
        return BootFiles()
    from hostdoctor.readers.boot_files import read_boot_files  # noqa: PLC0415  its parsers take a while to load

    return read_boot_files((evidence,), boot, container)


def _read_around(evidence: Evidence, functions: dict[str, Function] | Unknown, has_amd: bool, assume_bare_metal: bool) -> Host:
    """What is to be known besides what GPU drivers serve."""
    cpu, firmware = read_cpu(evidence), read_firmware(evidence)
    environment = read_environment(evidence, cpu, firmware, functions)
    boot = read_boot(evidence, with_config=has_amd or (isinstance(functions, Unknown) and not evidence.whole))
    return Host(
        environment=msgspec.structs.replace(environment, assumed_bare_metal=assume_bare_metal),
        functions=functions,
        lacking_functions=tuple(path.rpartition("/")[2] for _, path, problem in evidence.reads if problem == "dangling"),
        boot=boot,
        boot_files=_read_boot_files(evidence, boot, environment.container),
        modules=read_modules(evidence),
        iommu=read_iommu(evidence),
        cpu=cpu,
        firmware=firmware,
        memory_map=read_memory_map(evidence),
        numa=read_numa(evidence),
    )


def _ports_above(functions: dict[str, Function], gpus: list[Function]) -> list[Function]:
    """The bridges between GPUs and their root complex, each once."""
    found: dict[str, Function] = {}
    for gpu in gpus:
        parent = known(gpu.parent, None)
        while parent and parent in functions and parent not in found:
            found[parent] = functions[parent]
            parent = known(functions[parent].parent, None)
    return list(found.values())


def _was_refused(function: Function) -> bool:
    return function.express is NEEDS_ROOT or function.config is NEEDS_ROOT
