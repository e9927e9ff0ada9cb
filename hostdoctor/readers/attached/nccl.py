"""What NCCL's and RCCL's logs tell: the GPUs at work, and which of them reach each other's memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from hostdoctor.facts.driver import Nvml, PairWord
from hostdoctor.facts.host import Host
from hostdoctor.facts.pci import ATI, NVIDIA, Function
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.parsers.nccl import Hop, NcclLog, address_of_bus_id, parse_log
from hostdoctor.parsers.paste import Part
from hostdoctor.readers.attached.merge import with_functions
from hostdoctor.readers.attached.nvidia import reason_of

_DISPLAY = 0x030000
_SHORTEST_BUS_ID = 4  # digits; a device's number has fewer
_INDIRECT = "indirect"  # over a third GPU


def apply(host: Host, parts: Sequence[Part]) -> Host:
    """The host with what these logs tell."""
    for source in dict.fromkeys(part.source for part in parts):
        of_file = [part for part in parts if part.source == source]
        lines = [line for part in of_file for line in part.lines]
        places = [part.where(number) for part in of_file for number in range(len(part.lines))]
        host = _with_log(host, parse_log(lines), places)
    return host


def _with_log(host: Host, log: NcclLog, places: Sequence[str]) -> Host:
    names = _Names(host, log)
    words = tuple(dict.fromkeys((*host.pair_words, *_words(log, names, places))))
    host = with_functions(host, _functions(log, places))
    numa = host.numa
    if log.numa_balancing is not None and isinstance(numa.balancing, Unknown):
        numa = msgspec.structs.replace(numa, balancing=1)
    if log.nvml_failure and not isinstance(host.nvml, Nvml) and not host.nvml_complaint:
        text, line = log.nvml_failure
        host = msgspec.structs.replace(host, nvml=reason_of(text), nvml_complaint=places[line])
    return msgspec.structs.replace(host, pair_words=words, numa=numa)


def _functions(log: NcclLog, places: Sequence[str]) -> Iterator[Function]:
    vendor, driver = (ATI, "amdgpu") if log.is_rccl else (NVIDIA, "nvidia")
    for rank in log.ranks:
        if address := address_of_bus_id(rank.bus_id):
            yield Function(address, vendor, 0, _DISPLAY, driver=driver, parent=NOT_CAPTURED, origin=places[rank.line])


class _Names:
    """The addresses of ranks and devices; a device's number where no line tells its address."""

    def __init__(self, host: Host, log: NcclLog) -> None:
        self._by_rank: dict[int, str | None] = {}
        self._by_device: dict[int, str] = {}
        for rank in log.ranks:
            address = address_of_bus_id(rank.bus_id)
            if address is None:
                continue
            # Several communicators number their ranks anew: what is ambiguous names nobody.
            known = self._by_rank.setdefault(rank.rank, address)
            self._by_rank[rank.rank] = address if known == address else None
            device = rank.cuda_device if rank.nvml_device is None else rank.nvml_device
            self._by_device.setdefault(device, address)
        if not self._by_device and isinstance(host.nvml, Nvml):
            self._by_device = dict(enumerate(gpu.address for gpu in host.nvml.gpus))

    def device(self, number: int) -> str:
        """The GPU that NVML numbers so."""
        return self._by_device.get(number, f"GPU{number}")

    def rank(self, rank: int, mark: str) -> str | None:
        """The GPU of a rank, by what stands in brackets after it where that is an address."""
        if len(mark) >= _SHORTEST_BUS_ID:
            return address_of_bus_id(mark)
        if address := self._by_rank.get(rank):
            return address
        return self.device(int(mark)) if mark.isdecimal() else None


def _words(log: NcclLog, names: _Names, places: Sequence[str]) -> Iterator[PairWord]:
    seen: set[tuple[str, str, str]] = set()
    for a, b, over_nvlink, line in log.disabled:
        text = f"P2P is disabled between {'NVLink ' if over_nvlink else ''}connected GPUs"
        link = "NVLINK" if over_nvlink else ""
        yield PairWord(names.device(a), names.device(b), False, f"NCCL: {text}", places[line], link)
    for hop in log.hops:
        word = _word(log, hop, names, places)
        if word and (key := (word.accessor, word.owner, word.text)) not in seen:
            seen.add(key)
            yield word


def _word(log: NcclLog, hop: Hop, names: _Names, places: Sequence[str]) -> PairWord | None:
    """What one channel says of its pair: in peer access the sender writes, unless the receiver reads."""
    sender, receiver = names.rank(hop.sender, hop.sender_mark), names.rank(hop.receiver, hop.receiver_mark)
    kind, _, rest = hop.via.partition("/")
    if sender is None or receiver is None or sender == receiver or kind not in ("P2P", "SHM", "direct shared memory"):
        return None
    accessor, owner = (receiver, sender) if rest.endswith("read") else (sender, receiver)
    library = "RCCL" if log.is_rccl else "NCCL"
    if kind == "P2P" and _INDIRECT not in rest:
        return PairWord(accessor, owner, True, f"{library}: via {hop.via}", places[hop.line])
    return PairWord(accessor, owner, None, f"{library}: via {hop.via}{_because(log)}", places[hop.line])


def _because(log: NcclLog) -> str:
    """The environment that keeps NCCL from P2P, where it does."""
    told = [f"{name}={log.settings[name][0]}" for name in ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL") if name in log.settings]
    return f" ({', '.join(told)})" if told else ""
