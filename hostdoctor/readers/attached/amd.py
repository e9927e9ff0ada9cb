"""What AMD's tools tell in pastes: the GPUs, their memory and links, what joins two of them, and why a tool found none.

rocm-smi and amd-smi number GPUs in the order of their addresses (both enumerate through rocm_smi_lib, which sorts by
them); rocminfo gives addresses without their domain. A number without an address is a GPU all the same, "GPU0".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from hostdoctor.facts.driver import AmdSmi, AmdSmiGpu, ErrorCounters, PairWord, Refusal, RefusalKind
from hostdoctor.facts.host import Environment, Host
from hostdoctor.facts.pci import ATI, Function, GpuFacts
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown, known
from hostdoctor.parsers.amd_pairs import PairCell, allowed, link_type
from hostdoctor.parsers.amd_smi import AmdSmiOutput, AmdSmiRecord, parse_amd_smi, parse_amd_smi_json
from hostdoctor.parsers.paste import Part
from hostdoctor.parsers.rocm_smi import RocmSmi, RocmSmiGpu, parse_rocm_smi, parse_rocm_smi_json
from hostdoctor.parsers.rocminfo import Agent, Rocminfo, parse_rocminfo
from hostdoctor.readers.attached.merge import address_of, with_functions
from hostdoctor.topology import Topology

_DISPLAY = 0x038000  # none of these tools tells which class it is

_LONGEST_NAME = 80

# What the kernel answers to opening /dev/kfd (errno), as C libraries spell it.
_KINDS: dict[str, RefusalKind] = {
    "Permission denied": "permission",
    "Operation not permitted": "prohibited",
    "No such file or directory": "missing",
}

_Output = RocmSmi | AmdSmiOutput
_Numbered = RocmSmiGpu | AmdSmiRecord


def apply(host: Host, parts: Sequence[Part]) -> Host:
    """The host with what these parts tell."""
    infos = [(part, parse_rocminfo(part.lines)) for part in parts if part.kind == "rocminfo"]
    outputs = list(_outputs(parts))
    host = _in_environment(host, infos, outputs)
    host = with_functions(host, _agents(host, infos))
    places = _places(host, outputs)
    host = with_functions(host, _functions(outputs, places))
    host = _with_gpu_facts(host, outputs, places)
    words = _pair_words(outputs, places)
    refusals = (*host.refusals, *_refusals(infos, outputs))
    return msgspec.structs.replace(host, pair_words=(*host.pair_words, *words), refusals=refusals)


def _outputs(parts: Sequence[Part]) -> Iterator[tuple[Part, _Output]]:
    for part in parts:
        if part.kind == "rocm-smi":
            yield part, parse_rocm_smi(part.lines)
        elif part.kind == "amd-smi":
            yield part, parse_amd_smi(part.lines)
        elif part.kind == "json":
            data = _json(part)
            found = parse_rocm_smi_json(data) or parse_amd_smi_json(data)
            if found is not None:
                yield part, found


def _json(part: Part) -> object:
    try:
        return msgspec.json.decode(part.text)
    except (msgspec.DecodeError, RecursionError):
        return None


def _in_environment(host: Host, infos: Sequence[tuple[Part, Rocminfo]], outputs: Sequence[tuple[Part, _Output]]) -> Host:
    """The host with the kind of its machine, where a tool says it and nothing else does."""
    if not isinstance(host.environment.kind, Unknown):
        return host
    for part, info in infos:
        if info.wsl:
            return _as(host, "wsl", "Hyper-V (WSL)", (part.where(info.wsl.line), info.wsl.text))
    for part, output in outputs:
        if isinstance(output, AmdSmiOutput) and output.platform:
            kind = "virtual-machine" if "Guest" in output.platform else "bare-metal"
            return _as(host, kind, "", (part.where(output.platform_line), f"Platform: {output.platform}"))
    return host


def _as(host: Host, kind: str, hypervisor: str, evidence: tuple[str, str]) -> Host:
    old = host.environment
    new = Environment(kind, hypervisor, old.container, (*old.evidence, evidence), old.assumed_bare_metal)
    return msgspec.structs.replace(host, environment=new)


# --- which GPUs -------------------------------------------------------------------------------------------------------


def _agents(host: Host, infos: Sequence[tuple[Part, Rocminfo]]) -> Iterator[Function]:
    """The GPUs of rocminfo; below WSL they are not on the PCI bus of this machine."""
    for part, info in infos if host.environment.kind != "wsl" else ():
        gpus = [agent for agent in info.agents if agent.is_gpu and not agent.integrated]
        addresses = [_agent_address(host, agent) for agent in gpus]
        for agent, address in zip(gpus, addresses, strict=True):
            if address and not _is_partition(address, addresses):
                yield _function(address, agent.chip_id, part.where(agent.line), agent.name)


def _agent_address(host: Host, agent: Agent) -> str:
    """With the domain of the one function that has this bus, device and function; without any, domain 0."""
    address = address_of(agent.address) or ""
    functions = {} if isinstance(host.functions, Unknown) else host.functions
    if not address or address in functions:
        return address
    same = [each for each in functions if each.endswith(f":{agent.address}")]
    return same[0] if len(same) == 1 else address


def _is_partition(address: str, addresses: Sequence[str]) -> bool:
    """Partitions of one GPU bear its address with their number as function (kfd_topology.c location_id)."""
    head, dot, function = address.partition(".")
    return bool(dot) and function != "0" and f"{head}.0" in addresses


def _function(address: str, device: int, origin: str, name: str = "") -> Function:
    """A GPU that amdgpu serves; where it sits in the tree none of these tools tells."""
    return Function(
        address,
        ATI,
        device,
        _DISPLAY,
        driver="amdgpu",
        parent=NOT_CAPTURED,
        bars=NOT_CAPTURED,
        origin=origin,
        name=_plain(name),
    )


def _plain(name: str) -> str:
    """The product out of "Arcturus GL-XL [AMD Instinct MI100]"; empty for a name that a table cut ("...adeon PRO")."""
    product = name.partition("[")[2].partition("]")[0] or name
    return product if len(product) <= _LONGEST_NAME and not product.startswith("...") else ""


class _Places:
    """Which GPU a tool's number or address stands for."""

    def __init__(self, numbers: Mapping[int, str]) -> None:
        self._numbers = numbers

    def of(self, gpu: _Numbered) -> str:
        return (address_of(gpu.address) if gpu.address else None) or self._numbers.get(gpu.number, "")

    def of_label(self, label: str) -> str:
        return self._numbers.get(int(label[3:]), "") if label.startswith("GPU") else address_of(label) or ""


def _places(host: Host, outputs: Sequence[tuple[Part, _Output]]) -> _Places:
    """The address of each number: as a tool says, else by the order of the addresses that are known otherwise.

    Where neither tells, and the GPUs are known from elsewhere, a number stands for nothing; where none is known at all,
    the numbers are their names.
    """
    gpus = [gpu for _, output in outputs for gpu in output.gpus]
    numbers = sorted({gpu.number for gpu in gpus})
    told = {gpu.number: address for gpu in gpus if gpu.address and (address := address_of(gpu.address))}
    tables = {address for _, output in outputs for cell in output.cells if (address := address_of(cell.row))}
    if told.keys() >= set(numbers):
        return _Places(told)
    for addresses in (tables, *_known_gpus(host)):
        if len(addresses) == len(numbers) and numbers == list(range(len(numbers))):
            return _Places({**dict(enumerate(sorted(addresses))), **told})
    if told or tables or any(_known_gpus(host)):
        return _Places(told)
    return _Places({number: f"GPU{number}" for number in numbers})


def _known_gpus(host: Host) -> tuple[list[str], list[str]]:
    """AMD's GPUs with an address: the discrete ones, and these with the integrated ones, which the tools list too."""
    topology = Topology({} if isinstance(host.functions, Unknown) else host.functions)
    discrete = [gpu.address for gpu in topology.gpus if gpu.vendor == ATI and ":" in gpu.address]
    return discrete, [*discrete, *(gpu.address for gpu in topology.integrated_gpus if gpu.vendor == ATI)]


def _functions(outputs: Sequence[tuple[Part, _Output]], places: _Places) -> Iterator[Function]:
    addresses = [places.of(gpu) for _, output in outputs for gpu in output.gpus]
    for part, output in outputs:
        for gpu in output.gpus:
            address = places.of(gpu)
            if address and not _is_partition(address, addresses):
                yield _function(address, gpu.device, part.where(gpu.line), gpu.name)
        for cell in output.cells:
            if named := address_of(cell.row):
                yield _function(named, 0, part.where(cell.line))


# --- what is told of them ---------------------------------------------------------------------------------------------


def _with_gpu_facts(host: Host, outputs: Sequence[tuple[Part, _Output]], places: _Places) -> Host:
    facts, counters = dict(host.gpu_facts), dict(known(host.error_counters, {}))
    functions = {} if isinstance(host.functions, Unknown) else dict(host.functions)
    seen: dict[str, AmdSmiGpu] = {}
    version, source = "", ""
    for part, output in outputs:
        for gpu in output.gpus:
            address = places.of(gpu)
            if address not in functions:
                continue
            if isinstance(gpu, RocmSmiGpu):
                facts[address] = _memory(facts.get(address, GpuFacts()), gpu)
            else:
                seen[address] = _joined(seen.get(address), _smi_gpu(address, gpu))
                source = source or part.source
            if gpu.numa_affinity is not None and gpu.numa_affinity >= 0 and isinstance(functions[address].numa_node, Unknown):
                functions[address] = msgspec.structs.replace(functions[address], numa_node=gpu.numa_affinity)
            if gpu.replays and address not in counters:  # none tells nothing of other errors
                counters[address] = ErrorCounters(address, replays=gpu.replays)
        version = version or (output.version if isinstance(output, AmdSmiOutput) else "")
    host = msgspec.structs.replace(host, gpu_facts=facts)
    if functions:
        host = msgspec.structs.replace(host, functions=functions)
    if counters:
        host = msgspec.structs.replace(host, error_counters=counters)
    if seen and not isinstance(host.amd_smi, AmdSmi):
        host = msgspec.structs.replace(host, amd_smi=AmdSmi(version or NOT_CAPTURED, source, tuple(seen.values()), ()))
    return host


def _memory(facts: GpuFacts, gpu: RocmSmiGpu) -> GpuFacts:
    told = {"vram_bytes": gpu.vram_bytes, "visible_vram_bytes": gpu.visible_vram_bytes}
    new = {name: value for name, value in told.items() if value and isinstance(getattr(facts, name), Unknown)}
    return msgspec.structs.replace(facts, **new)


def _smi_gpu(address: str, gpu: AmdSmiRecord) -> AmdSmiGpu:
    """As AMD SMI's library gives it; how busy the GPU is belongs to the moment of asking and is left out."""
    return AmdSmiGpu(
        address,
        link_speed_gts=NOT_CAPTURED if gpu.link_speed_gts is None else gpu.link_speed_gts,
        link_width=gpu.link_width or NOT_CAPTURED,
        max_speed_gts=NOT_CAPTURED if gpu.max_speed_gts is None else gpu.max_speed_gts,
        max_width=gpu.max_width or NOT_CAPTURED,
        replay_count=NOT_CAPTURED if gpu.replays is None else gpu.replays,
        memory_bytes=gpu.memory_bytes or NOT_CAPTURED,
    )


def _joined(old: AmdSmiGpu | None, new: AmdSmiGpu) -> AmdSmiGpu:
    if old is None:
        return new
    changes = {name: getattr(new, name) for name in AmdSmiGpu.__struct_fields__ if isinstance(getattr(old, name), Unknown)}
    return msgspec.structs.replace(old, **changes)


def _pair_words(outputs: Sequence[tuple[Part, _Output]], places: _Places) -> list[PairWord]:
    """One word for each ordered pair that a table tells of: whether there is access, and what joins the two."""
    told: dict[tuple[str, str], dict[str, tuple[PairCell, Part]]] = {}
    for part, output in outputs:
        for cell in output.cells:
            ends = (places.of_label(cell.row), places.of_label(cell.column))
            if all(ends) and ends[0] != ends[1]:
                told.setdefault(ends, {}).setdefault(cell.what, (cell, part))
    return [word for ends, cells in told.items() if (word := _word(ends, cells))]


def _word(ends: tuple[str, str], cells: Mapping[str, tuple[PairCell, Part]]) -> PairWord | None:
    texts = {what: cell.text for what, (cell, _) in cells.items()}
    access, link = allowed(texts.get("access", "")), link_type(texts.get("link", ""))
    if access is None and not link:
        return None
    cell, part = cells["access"] if access is not None else cells["link"]
    shown = [texts["access"]] if access is not None else []
    shown += [f"{link}, {texts['hops']} hops" if texts.get("hops", "").isdecimal() else link] if link else []
    return PairWord(*ends, access, ", ".join(shown), part.where(cell.line), link)


# --- why a tool found none --------------------------------------------------------------------------------------------


def _kind_of(answer: str) -> RefusalKind | None:
    """What the kernel's answer to opening /dev/kfd speaks of; nothing where the paste ends within it."""
    if any(known.startswith(answer) and known != answer for known in _KINDS):
        return None
    return _KINDS.get(answer, "driver")


def _refusals(infos: Sequence[tuple[Part, Rocminfo]], outputs: Sequence[tuple[Part, _Output]]) -> Iterator[Refusal]:
    works = any(agent.is_gpu for _, info in infos for agent in info.agents)
    for part, info in infos:
        kind = _kind_of(info.kfd.text) if info.kfd else None
        if info.wsl or (works and kind not in ("permission", "prohibited")):
            continue  # another user's attempt, or another moment's: the driver serves GPUs
        if info.kfd and kind:
            member = info.member
            notes = ((part.where(member.line), member.text),) if member else ()
            kind = "module" if info.module and kind == "missing" else kind
            yield Refusal(kind, info.kfd.text, part.where(info.kfd.line), notes)
        elif info.module:
            yield Refusal("module", info.module.text, part.where(info.module.line))
        elif info.runtime:
            yield Refusal("runtime", info.runtime.text, part.where(info.runtime.line))
    for part, output in outputs:
        if output.no_driver is not None:
            yield Refusal("module", part.lines[output.no_driver].strip(), part.where(output.no_driver))
