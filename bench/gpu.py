"""Measure copies through CUDA as `hostdoctor` does, and beside them through PyTorch; bench/gpu.sh runs this.

usage: python bench/gpu.py [--torch PYTHON] [--size MIB] [--gpus N]
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

import msgspec

from hostdoctor.bandwidth.steps import Device, Step, StepResult
from hostdoctor.facts.pci import NVIDIA, Function, Power
from hostdoctor.facts.unknown import Unknown
from hostdoctor.vendor import Vendors

TOLERANCE = 0.05
STEP_S = 120
# PyTorch does not tell addresses in every version: so both number the GPUs alike.
ENVIRONMENT = {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
HEAD = f"{'GPU':<26} {'copy':<22}  MiB  {'lowest':>7} {'median':>8} {'highest':>8}  {'PyTorch':>7}  ratio       us  node  data"
NVML_FACTS = ("link_generation", "link_width", "max_generation", "max_width", "performance_state", "bar1_bytes", "replay_count")


def take(step: Step) -> StepResult:
    """A step, in a worker."""
    command = [sys.executable, "-m", "hostdoctor.bandwidth.worker", "cuda"]
    try:
        given = msgspec.json.encode(step)
        done = subprocess.run(command, env=ENVIRONMENT, input=given, capture_output=True, check=True, timeout=STEP_S)
    except subprocess.TimeoutExpired:
        return StepResult(step, error=f"not done within {STEP_S} s", error_kind="timeout")
    except subprocess.CalledProcessError as error:
        return StepResult(step, error=f"the worker ended with {error.returncode}", error_kind="died")
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=StepResult)


def steps_of(devices: list[Device], size_bytes: int) -> list[Step]:
    steps = []
    for device in devices:
        gpu = device.subject
        host = "host" if device.numa_node is None else f"host:{device.numa_node}"
        steps.append(Step("to-gpu", host, gpu, size_bytes=size_bytes, latency=True))
        steps.append(Step("from-gpu", gpu, host, size_bytes=size_bytes, latency=True))
        steps.append(Step("inside", gpu, gpu, size_bytes=size_bytes, latency=True))
    if len(devices) > 1:
        one, other = (device.subject for device in devices[:2])
        for peer_access in (False, True):
            for both_ways in (False, True):
                ends = Step("pair", one, other, size_bytes=size_bytes, peer_access=peer_access, both_ways=both_ways)
                steps.append(msgspec.structs.replace(ends, latency=True))
    return steps


def compared(python: str, step: Step, device: Device) -> float | None:
    """What PyTorch measures of the same copy, in GB/s; None where it cannot be compared."""
    if not python or step.kind == "pair":
        return None
    node = "" if device.numa_node is None else str(device.numa_node)
    command = [python, "bench/gpu_torch.py", step.kind, str(device.number), str(step.size_bytes), node]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=STEP_S)
    if done.returncode:
        print(f"PyTorch failed: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return float(json.loads(done.stdout.splitlines()[-1])["gbs"])


def row(step: Step, result: StepResult, torch_gbs: float | None) -> tuple[str, bool]:
    """A line of the table, and whether all is well."""
    way = " ".join(filter(None, step.key.replace(step.origin, "").replace(step.target, "").split()))
    begin = f"{' '.join(step.gpus):<26} {way:<22}"
    if result.error:
        expected = result.error_kind == "forbidden"
        return f"{begin} {result.error}", expected
    if result.data != "right":
        return f"{begin} data {result.data}: {result.wrong_kind}, {result.wrong_bytes} bytes, {result.wrong_text}", False
    samples = sorted(result.samples_gbs)
    median = statistics.median(samples)
    figures = f"{samples[0]:8.2f} {median:8.2f} {samples[-1]:8.2f}"
    ratio = None if torch_gbs is None else median / torch_gbs
    beside = f"{'-':>8} {'-':>6}" if ratio is None else f"{torch_gbs:8.2f} {ratio:6.3f}"
    latency = "-" if result.latency_us is None else f"{result.latency_us:.2f}"
    node = "-" if result.host_node is None else str(result.host_node)
    line = f"{begin} {result.size_bytes >> 20:4} {figures} {beside} {latency:>8} {node:>5}  {result.data}"
    return line, ratio is None or abs(ratio - 1) <= TOLERANCE


def say_what_nvml_tells(devices: list[Device]) -> bool:
    functions = [Function(each.subject, NVIDIA, 1, 0x030000, driver="nvidia", power=Power("active", "D0")) for each in devices]
    nvml, _ = Vendors(amd_smi=()).ask(functions, 30.0).answers()
    if nvml is None or isinstance(nvml, Unknown):
        print(f"\nNVML: {nvml.reason if nvml else 'not asked'}")
        return False
    print(f"\nNVML {nvml.library_version}, driver {nvml.driver_version}:")
    for gpu in nvml.gpus:
        facts = ", ".join(f"{name} {getattr(gpu, name)}" for name in NVML_FACTS)
        print(f"{gpu.address} {gpu.name}: {facts}")
    for pair in nvml.pairs:
        print(f"{pair.accessor} to {pair.owner}: read {pair.read}, write {pair.write}, topology {pair.topology}")
    return True


def versions(python: str) -> str:
    told = [f"Python {platform.python_version()}", f"cuda-bindings {importlib.metadata.version('cuda-bindings')}"]
    if python:
        command = [python, "-c", "import torch; print(torch.__version__)"]
        told.append(f"torch {subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()}")
    return ", ".join(told)


def main() -> int:
    parser = argparse.ArgumentParser(description="measure copies through CUDA, and beside them through PyTorch")
    parser.add_argument("--torch", default="", help="a Python that has PyTorch")
    parser.add_argument("--size", type=int, default=64, help="of each copy, in MiB (default: 64)")
    parser.add_argument("--gpus", type=int, default=4, help="at most so many (default: 4)")
    arguments = parser.parse_args()
    os.chdir(Path(__file__).resolve().parent.parent)
    seen = take(Step("devices"))
    devices = list(seen.devices[: arguments.gpus])
    if not devices:
        print(f"nothing to measure: {seen.error or 'no GPU'}", file=sys.stderr)
        return 2
    print(f"{len(seen.devices)} x {devices[0].name}, {seen.library}, Linux {platform.release()}, {versions(arguments.torch)}\n")
    print(HEAD)
    known = {device.subject: device for device in devices}
    all_well = True
    for step in steps_of(devices, arguments.size << 20):
        result = take(step)
        line, is_well = row(step, result, compared(arguments.torch, step, known[step.gpus[0]]))
        print(line, flush=True)
        all_well &= is_well
    all_well &= say_what_nvml_tells(devices)
    if not arguments.torch:
        print("\nNo Python here has PyTorch with CUDA: nothing to compare with.")
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main())
