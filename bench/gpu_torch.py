"""What PyTorch measures of one copy: pinned memory, events, batches that are queued behind a copy that is not timed.

usage: python bench/gpu_torch.py to-gpu|from-gpu|inside NUMBER BYTES [NODE]

NUMBER is that of the GPU with CUDA_DEVICE_ORDER=PCI_BUS_ID in the environment.

Prints {"gbs": ...}, the median of seven batches. Needs nothing but PyTorch: it may run with another Python than hostdoctor.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import sys

import torch

BATCH_MS = 40.0
WARM_MS = 300.0
BATCHES = 7


def go_to(node: str) -> None:
    """Run on the processors of a memory node, so that memory comes from there."""
    processors: set[int] = set()
    with open(f"/sys/devices/system/node/node{node}/cpulist", encoding="ascii") as file:
        for item in file.read().strip().split(","):
            first, _, last = item.partition("-")
            processors.update(range(int(first), int(last or first) + 1))
    os.sched_setaffinity(0, os.sched_getaffinity(0) & processors)


def main(kind: str, number: str, size: str, node: str = "") -> None:
    if node:
        with contextlib.suppress(OSError):
            go_to(node)
    gpu = torch.device("cuda", int(number))
    torch.cuda.set_device(gpu)

    def on_gpu() -> torch.Tensor:
        return torch.ones(int(size), dtype=torch.uint8, device=gpu)

    def on_host() -> torch.Tensor:
        return torch.ones(int(size), dtype=torch.uint8).pin_memory()

    source = on_host() if kind == "to-gpu" else on_gpu()
    target = on_host() if kind == "from-gpu" else on_gpu()
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def batch_ms(copies: int) -> float:
        for _ in range(8):
            target.copy_(source, non_blocking=True)
        start.record()
        for _ in range(copies):
            target.copy_(source, non_blocking=True)
        stop.record()
        torch.cuda.synchronize()
        return start.elapsed_time(stop)

    copies, warm_ms = 1, 0.0
    while warm_ms < WARM_MS:
        took_ms = batch_ms(copies)
        warm_ms += took_ms
        copies = max(1, min(200, int(BATCH_MS * copies / took_ms)))
    gbs = [int(size) * copies / batch_ms(copies) / 1e6 for _ in range(BATCHES)]
    print(json.dumps({"gbs": statistics.median(gbs)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
