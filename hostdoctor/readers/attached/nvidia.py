"""What nvidia-smi's outputs tell: GPUs with their links, memory and state, pairs, the driver, and complaints.

nvidia-smi prints what NVML answers, so its facts go where NVML's own would be. Outputs of one host can be of different
moments: what changes with the load is taken from one of them, never mixed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from hostdoctor.facts.driver import Nvml, NvmlGpu, NvmlPair
from hostdoctor.facts.host import Contradiction, Host, Module
from hostdoctor.facts.pci import NVIDIA, Function, Link
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown, known
from hostdoctor.parsers.nvidia_smi import (
    Output,
    Reading,
    hex_of,
    is_complaint,
    nvml_gpu,
    parse_list,
    parse_listing,
    parse_query,
    parse_table,
)
from hostdoctor.parsers.nvidia_smi_xml import parse_xml_listing
from hostdoctor.parsers.nvidia_topo import LEVELS, STATUS, Matrix, nvlinks_of, parse_matrices
from hostdoctor.parsers.paste import Part
from hostdoctor.readers.attached.merge import address_of, with_functions

_NOT_TOLD = Unknown("nvidia-smi's output does not tell it")
_DISPLAY = 0x030000
_GUEST_MODES = ("pass-through", "vgpu")
# What depends on the moment and is taken from one output only.
_OF_THE_MOMENT = ("link_generation", "link_width", "performance_state", "busy_percent", "throttle_reasons", "origin")
_NO_FAULT = re.compile(r"not supported|permission", re.IGNORECASE)
_P2P_COMMAND = re.compile(r"topo\s.{0,40}?(?:-p2p|--p2p_status)[ =]?([rwnap]{1,5})\b")
_P2P_NAME = re.compile(r"p2p[-_. ]?([rwnap]{1,2})(?![a-z])", re.IGNORECASE)
_CAPABILITIES = {"r": "read", "w": "write", "n": "nvlink", "a": "atomics"}


class _Found(msgspec.Struct, frozen=True):
    """An output with the part it stands in."""

    output: Output
    part: Part


def apply(host: Host, parts: Sequence[Part]) -> Host:
    """The host with what nvidia-smi's outputs tell of it."""
    found = [_Found(_parsed(part), part) for part in parts if part.kind != "nvidia-topo"]
    matrices = [(matrix, part) for part in parts if part.kind == "nvidia-topo" for matrix in parse_matrices(part.lines)]
    numbers = _numbers(host, found, max((len(matrix.gpus) for matrix, _ in matrices), default=0))
    gpus = _gpus(found, numbers)
    functions = [*_functions(found, numbers), *_functions_of_matrices(matrices, numbers), *_lost_functions(gpus)]
    host = with_functions(host, functions)
    host = _with_nodes(_with_environment(host, found), [matrix for matrix, _ in matrices])
    host = _with_contradictions(host, gpus)
    pairs = _pairs(matrices, numbers)
    complaint = next(_complaints(found), None)
    if gpus or pairs or any(each.output.driver_version for each in found):
        return _with_nvml(host, found, gpus, pairs)
    if complaint and not isinstance(host.nvml, Nvml):
        reason, where = complaint
        return msgspec.structs.replace(host, nvml=reason, nvml_complaint=where)
    return host


def _parsed(part: Part) -> Output:
    if part.kind == "nvidia-smi-xml":
        return parse_xml_listing(part.text)
    if part.kind == "nvidia-smi-q":
        return parse_listing(part.lines)
    if part.kind == "nvidia-list":
        return parse_list(part.lines)
    return parse_query(part.lines, part.command) if part.kind == "nvidia-query" else parse_table(part.lines)


# --- which GPU is meant -----------------------------------------------------------------------------------------------


def _numbers(host: Host, found: Sequence[_Found], columns: int) -> dict[str, str]:
    """The address of each "GPU0": as an output says, by the order of a whole listing, or by that of PCI addresses.

    NVML numbers GPUs by their PCI addresses, in ascending order (nvidia-smi(1), "-i"); that order is only relied on where
    as many GPUs are known as the matrix has.
    """
    said: dict[str, str] = {}
    for each in found:
        addresses = [address_of(reading.fields.get("bus_id", "")) for reading in each.output.gpus]
        whole = each.output.attached == len(addresses)
        for place, (reading, address) in enumerate(zip(each.output.gpus, addresses, strict=True)):
            index = reading.fields.get("index") or (str(place) if whole else "")
            if index and address:
                said.setdefault(f"GPU{index}", address)
    if said or isinstance(host.functions, Unknown):
        return said
    here = sorted(
        function.address
        for function in host.functions.values()
        if function.vendor == NVIDIA and function.base_class == 0x03 and function.driver not in ("vfio-pci", "nouveau")
    )
    return {f"GPU{place}": address for place, address in enumerate(here)} if len(here) == columns else {}


def _address(reading: Reading, numbers: Mapping[str, str]) -> str | None:
    if found := address_of(reading.fields.get("bus_id", "")):
        return found
    number = f"GPU{reading.fields['index']}" if "index" in reading.fields else None
    return numbers.get(number, number) if number else None


# --- GPUs -------------------------------------------------------------------------------------------------------------


def _gpus(found: Sequence[_Found], numbers: Mapping[str, str]) -> dict[str, NvmlGpu]:
    looks: dict[str, list[NvmlGpu]] = {}
    for each in found:
        for reading in each.output.gpus:
            if address := _address(reading, numbers):
                looks.setdefault(address, []).append(nvml_gpu(reading, address, each.part.where(reading.line)))
        for trouble in each.output.troubles:
            address = address_of(trouble.gpu) or numbers.get(trouble.gpu, trouble.gpu)
            if address and not _NO_FAULT.search(trouble.text):
                lost = "lost" in trouble.text.lower()
                text = f"nvidia-smi gets no answer about it: {trouble.text}"
                gpu = NvmlGpu(address, lost=lost, trouble=text, origin=each.part.where(trouble.line))
                looks.setdefault(address, []).append(gpu)
    return {address: _one_of(seen) for address, seen in sorted(looks.items())}


def _one_of(seen: Sequence[NvmlGpu]) -> NvmlGpu:
    """One GPU from all looks at it: the moment with the fastest link, and what does not change from any of them."""
    best = max(seen, key=lambda look: known(look.link_generation, 0))
    sick = next((look for look in seen if look.lost or look.trouble), best)
    changes: dict[str, object] = {"lost": any(look.lost for look in seen), "trouble": sick.trouble}
    for name in NvmlGpu.__struct_fields__:
        if isinstance(getattr(best, name), Unknown) and name not in _OF_THE_MOMENT:
            told = next((value for look in seen if not isinstance(value := getattr(look, name), Unknown)), None)
            changes.update({} if told is None else {name: told})
    if sick.lost or sick.trouble:
        changes["origin"] = sick.origin
    return msgspec.structs.replace(best, **changes)


def _functions(found: Sequence[_Found], numbers: Mapping[str, str]) -> Iterator[Function]:
    for each in found:
        for reading in each.output.gpus:
            if address := _address(reading, numbers):
                yield _function(reading, address, each.part.where(reading.line))


def _function(reading: Reading, address: str, origin: str) -> Function:
    fields = reading.fields
    device, subsystem = hex_of(fields.get("device_id", "")) or 0, hex_of(fields.get("subsystem_id", "")) or 0
    base, sub = hex_of(fields.get("base_class", "")), hex_of(fields.get("sub_class", ""))
    class_code = _DISPLAY if base is None or sub is None else (base & 0xFF) << 16 | (sub & 0xFF) << 8
    if device and device & 0xFFFF != NVIDIA:
        device = 0
    return msgspec.structs.replace(
        _bound(address, origin),
        device=device >> 16,
        class_code=class_code,
        subsystem_vendor=subsystem & 0xFFFF,
        subsystem_device=subsystem >> 16,
        name="" if is_complaint(fields.get("name", "")) else fields.get("name", "")[:80],
    )


def _bound(address: str, origin: str) -> Function:
    """A GPU that NVIDIA's driver serves, for only those does nvidia-smi know; of what is above it nothing is known."""
    return Function(address, NVIDIA, 0, _DISPLAY, driver="nvidia", parent=NOT_CAPTURED, origin=origin)


def _functions_of_matrices(matrices: Sequence[tuple[Matrix, Part]], numbers: Mapping[str, str]) -> Iterator[Function]:
    for matrix, part in matrices:
        for gpu, line in matrix.rows.items():
            node = matrix.numa_nodes.get(gpu, NOT_CAPTURED)
            yield msgspec.structs.replace(_bound(numbers.get(gpu, gpu), part.where(line)), numa_node=node)


def _lost_functions(gpus: Mapping[str, NvmlGpu]) -> Iterator[Function]:
    for address, gpu in gpus.items():
        if gpu.lost or gpu.trouble:
            yield _bound(address, gpu.origin)


def _with_contradictions(host: Host, gpus: Mapping[str, NvmlGpu]) -> Host:
    """The host with what lspci and nvidia-smi tell differently of a link: its width, which no load changes."""
    functions = {} if isinstance(host.functions, Unknown) else host.functions
    found = []
    for address, gpu in gpus.items():
        link = functions[address].link if address in functions else None
        width = link.current_width if isinstance(link, Link) else 0
        if isinstance(width, int) and isinstance(gpu.link_width, int) and 0 < width != gpu.link_width > 0:
            said = ((functions[address].origin, f"x{width}"), (gpu.origin, f"x{gpu.link_width}"))
            found.append(Contradiction(address, "link width", said))
    return msgspec.structs.replace(host, contradictions=(*host.contradictions, *found)) if found else host


# --- pairs ------------------------------------------------------------------------------------------------------------


def _pairs(matrices: Sequence[tuple[Matrix, Part]], numbers: Mapping[str, str]) -> tuple[NvmlPair, ...]:
    codes: dict[tuple[str, str], dict[str, int]] = {}
    origins: dict[tuple[str, str], str] = {}
    granted: set[tuple[str, str]] = set()  # those of which a matrix of grants has told
    for matrix, part in matrices:
        wanted = _capabilities(part) if matrix.is_p2p else ()
        for (row, column), cell in matrix.cells.items():
            pair = (numbers.get(row, row), numbers.get(column, column))
            told = codes.setdefault(pair, {})
            for name, code in _codes(cell, wanted).items():
                told.setdefault(name, code)
            if pair not in origins or (wanted and pair not in granted):
                origins[pair] = part.where(matrix.rows[row])
            granted.update([pair] if wanted else [])
    return tuple(
        NvmlPair(
            accessor,
            owner,
            read=told.get("read", _NOT_TOLD),
            write=told.get("write", _NOT_TOLD),
            nvlink=told.get("nvlink", _NOT_TOLD),
            topology=told.get("topology", _NOT_TOLD),
            atomics=told.get("atomics", _NOT_TOLD),
            origin=origins[accessor, owner],
        )
        for (accessor, owner), told in codes.items()
    )


def _codes(cell: str, capabilities: Sequence[str]) -> dict[str, int]:
    if cell in STATUS:
        return dict.fromkeys(capabilities, STATUS[cell])
    if nvlinks_of(cell):
        return {"nvlink": STATUS["OK"]}
    return {"topology": LEVELS[cell]} if cell in LEVELS else {}


def _capabilities(part: Part) -> tuple[str, ...]:
    """What a matrix of `topo -p2p` is about, by the command, else by the name people gave the file.

    Where neither tells, it counts as that of reads, which nearly everybody asks for; of writes nothing is known then.
    """
    letters = _P2P_COMMAND.search(part.command) or _P2P_NAME.search(part.source)
    return tuple(_CAPABILITIES[letter] for letter in letters[1].lower() if letter in _CAPABILITIES) if letters else ("read",)


# --- the driver -------------------------------------------------------------------------------------------------------


def _with_nvml(host: Host, found: Sequence[_Found], gpus: Mapping[str, NvmlGpu], pairs: tuple[NvmlPair, ...]) -> Host:
    if isinstance(host.nvml, Nvml):
        return host
    first = next((each for each in found if each.output.driver_version), None)
    version = first.output.driver_version if first else _NOT_TOLD
    cuda = next((each.output.cuda_version for each in found if each.output.cuda_version), "")
    origin = first.part.where() if first else next((gpu.origin for gpu in gpus.values()), "nvidia-smi")
    nvml = Nvml(version, _NOT_TOLD, _cuda_version(cuda), tuple(gpus.values()), pairs, origin)
    modules = host.modules
    if not isinstance(modules, Unknown) and (loaded := modules.get("nvidia")) and loaded.version is None and first:
        modules = {**modules, "nvidia": Module(loaded.name, loaded.parameters, first.output.driver_version)}
    return msgspec.structs.replace(host, nvml=nvml, modules=modules)


def _cuda_version(text: str) -> int | Unknown:
    major, _, minor = text.partition(".")
    if not (major.isdecimal() and minor.isdecimal() and len(text) < 8):
        return _NOT_TOLD
    return int(major) * 1000 + int(minor) * 10


def _complaints(found: Sequence[_Found]) -> Iterator[tuple[Unknown, str]]:
    """Complaints about the driver as a whole, as NVML's own library gives them (vendor.nvml), and where they stand."""
    for each in found:
        for trouble in each.output.troubles:
            if not trouble.gpu:
                yield reason_of(trouble.text), each.part.where(trouble.line)


def reason_of(text: str) -> Unknown:
    """A complaint about the driver as NVML's own library gives it, with the code that checks look for."""
    if "mismatch" in text.lower():
        return Unknown("the loaded NVIDIA driver and its libraries are of different versions (NVML 18)")
    if "communicate with the NVIDIA driver" in text or text.startswith("Driver Not Loaded"):
        return Unknown("nvidia-smi finds no NVIDIA driver loaded (NVML 9)")
    if text.startswith("No devices were found"):
        return Unknown("nvidia-smi finds no devices (NVML 6)")
    return Unknown(f"nvidia-smi says: {text.rstrip('.')}")


# --- the machine ------------------------------------------------------------------------------------------------------


def _with_nodes(host: Host, matrices: Sequence[Matrix]) -> Host:
    """Where the GPUs are known to sit at several memory nodes, the host has at least these."""
    for matrix in matrices:
        nodes = tuple(sorted(set(matrix.numa_nodes.values())))
        if len(nodes) > 1 and len(matrix.numa_nodes) == len(matrix.gpus) and isinstance(host.numa.nodes, Unknown):
            return msgspec.structs.replace(host, numa=msgspec.structs.replace(host.numa, nodes=nodes))
    return host


def _with_environment(host: Host, found: Sequence[_Found]) -> Host:
    """A driver that finds itself in a guest says so; "None" proves nothing, since a hypervisor can hide."""
    environment = host.environment
    if not isinstance(environment.kind, Unknown):
        return host
    for each in found:
        for reading in each.output.gpus:
            mode = reading.fields.get("virtualization", "")
            if mode.lower() in _GUEST_MODES:
                sign = (each.part.where(reading.line), f"Virtualization Mode: {mode}")
                guest = msgspec.structs.replace(environment, kind="virtual-machine", evidence=(*environment.evidence, sign))
                return msgspec.structs.replace(host, environment=guest)
    return host
