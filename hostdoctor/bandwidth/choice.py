"""Which of the tools at hand measures, and why not another."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec

from hostdoctor.bandwidth import rocm_tools
from hostdoctor.bandwidth.adapters import Adapter, Found, Vendor
from hostdoctor.bandwidth.adapters.in_process import InProcess
from hostdoctor.bandwidth.adapters.nvidia_tools import NvBandwidth, P2pTest, find_nvbandwidth, find_p2p_test
from hostdoctor.bandwidth.adapters.rocm_bandwidth_test import RocmBandwidthTest
from hostdoctor.bandwidth.adapters.transferbench import TransferBench
from hostdoctor.bandwidth.steps import Device
from hostdoctor.facts.pci import ATI, NVIDIA, Function
from hostdoctor.facts.unknown import Unknown
from hostdoctor.names import device_name

# What --tool takes, best first: what compares data in both arms, what compares them in one, what compares none.
TOOLS = ("hip", "TransferBench", "rocm-bandwidth-test", "cuda", "nvbandwidth", "p2pBandwidthLatencyTest")
_OF: dict[str, tuple[Vendor, int]] = {
    "hip": ("amd", ATI),
    "TransferBench": ("amd", ATI),
    "rocm-bandwidth-test": ("amd", ATI),
    "cuda": ("nvidia", NVIDIA),
    "nvbandwidth": ("nvidia", NVIDIA),
    "p2pBandwidthLatencyTest": ("nvidia", NVIDIA),
}


class Chosen(msgspec.Struct):
    """A tool and the GPUs it is to measure."""

    adapter: Adapter
    devices: tuple[Device, ...]


class Choice(msgspec.Struct):
    """What was chosen, and what was passed over: a name and the reason, each a line."""

    chosen: list[Chosen]
    passed_over: list[tuple[str, str]]

    def unseen(self, gpus: Sequence[Function]) -> list[str]:
        """The addresses of those that no tool measures."""
        seen = {device.subject for each in self.chosen for device in each.devices}
        return [gpu.address for gpu in gpus if gpu.vendor in (ATI, NVIDIA) and gpu.address not in seen]


def choose(gpus: Sequence[Function], tool: str, deadline_s: float, beside: Sequence[Function] = ()) -> Choice:
    """For each vendor with a GPU here the first tool that sees any of them.

    Args:
        gpus: the discrete GPUs that are to be measured.
        tool: one of TOOLS, or "auto".
        deadline_s: how long a tool may take to list what it sees.
        beside: the host's other discrete GPUs, which tools count although they are not to be measured.
    """
    choice = Choice([], [])
    for name in TOOLS if tool == "auto" else (tool,):
        vendor, number = _OF[name]
        ours = [gpu for gpu in gpus if gpu.vendor == number and gpu.driver != "vfio-pci"]
        if not ours:
            if tool != "auto":
                choice.passed_over.append((name, f"there is no {'AMD' if vendor == 'amd' else 'NVIDIA'} GPU here"))
            continue
        if any(each.adapter.vendor == vendor for each in choice.chosen):
            continue
        _try(choice, name, ours, deadline_s, beside)
    return choice


def _try(choice: Choice, name: str, gpus: Sequence[Function], deadline_s: float, beside: Sequence[Function]) -> None:
    candidates = list(_candidates(name, (*gpus, *beside)))
    if not candidates:
        choice.passed_over.append((name, "it is not installed"))
    for make in candidates:
        adapter = make()
        found = adapter.devices(deadline_s)
        devices = _wanted(found, gpus)
        if devices:
            choice.chosen.append(Chosen(adapter, devices))
            return
        choice.passed_over.append((adapter.name, found.why_not or "it sees none of this host's GPUs"))


def _candidates(name: str, gpus: Sequence[Function]) -> Iterator[Callable[[], Adapter]]:
    if name == "hip":
        yield lambda: InProcess("hip")
    elif name == "cuda":
        yield lambda: InProcess("cuda")
    elif name in ("TransferBench", "rocm-bandwidth-test"):
        for program in rocm_tools.find(os.environ):
            if name == "TransferBench" and program.kind == "transferbench":
                yield partial(TransferBench, program)
            elif name == "rocm-bandwidth-test" and program.kind == "rbt-2":
                addresses = [gpu.address for gpu in gpus if gpu.vendor == ATI]
                yield partial(RocmBandwidthTest, program, addresses)
            elif name == "rocm-bandwidth-test" and program.kind == "rbt-7":
                yield partial(TransferBench, program)
    elif name == "nvbandwidth" and (path := find_nvbandwidth()):
        yield lambda: NvBandwidth(path, _driven(gpus))
    elif name == "p2pBandwidthLatencyTest" and (test := find_p2p_test()):
        yield lambda: P2pTest(test, _driven(gpus))


def _driven(gpus: Sequence[Function]) -> list[Device]:
    ours = [gpu for gpu in gpus if gpu.vendor == NVIDIA and gpu.driver == "nvidia"]
    return [Device(gpu.address, device_name(gpu).split(" / ")[0], _node(gpu)) for gpu in ours]


def _wanted(found: Found, gpus: Sequence[Function]) -> tuple[Device, ...]:
    """The tool's devices that are this host's discrete GPUs, with their memory nodes."""
    functions = {gpu.address: gpu for gpu in gpus}
    return tuple(
        msgspec.structs.replace(each, numa_node=_node(functions[each.subject]))
        for each in sorted(found.devices, key=lambda each: each.subject)
        if each.subject in functions
    )


def _node(gpu: Function) -> int | None:
    return None if isinstance(gpu.numa_node, Unknown) or gpu.numa_node < 0 else gpu.numa_node
