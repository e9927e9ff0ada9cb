"""Memory BARs that got no address."""

from __future__ import annotations

from collections.abc import Iterator

from hostdoctor import wording
from hostdoctor.bars import NOT_LISTED, MissingBar, missing_bars, unseen_everywhere, vram_bar
from hostdoctor.facts.pci import ConfigFacts, Function
from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import Check, Evidence, Finding, unjudged
from hostdoctor.view import View

ID = "bar-unassigned"


def judge(view: View) -> Iterator[Finding]:
    """One finding for each function with a BAR without an address, or one for all."""
    gpus = {gpu.address for gpu in view.gpus}
    wrong = False
    for function in view.topology.functions.values():
        missing = missing_bars(function)
        if missing:
            wrong = True
            yield _missing(function, missing, function.address in gpus)
    for gpu in view.gpus:
        # A BAR the kernel could not place shows in config space alone.
        why = gpu.bars if isinstance(gpu.bars, Unknown) else gpu.config if vram_bar(gpu) is None else None
        if isinstance(why, ConfigFacts) and not missing_bars(gpu) and not why.lost:
            why = NOT_LISTED
        if isinstance(why, Unknown):
            wrong = True
            yield unjudged(ID, (gpu.address,), "BARs", why)
    unseen = unseen_everywhere(view.topology.functions.values())
    if unseen and not wrong:
        yield unjudged(ID, (), "BARs", unseen)
    elif not wrong:
        yield Finding(ID, "ok", (), "every memory BAR that can be seen has an address")


def _missing(function: Function, missing: list[MissingBar], is_gpu: bool) -> Finding:
    name = f"{function.address} [{function.id}]" if function.vendor and function.device else function.address
    names = wording.listed(f"BAR{bar.index}{_size(bar)}" for bar in missing)
    evidence = tuple(
        Evidence(bar.said_at, f"BAR{bar.index}: no address")
        if bar.said_at
        else Evidence(function.source("resource"), f"{_line(function, bar)}no address, although BAR{bar.index} is a memory BAR")
        for bar in missing
    )
    return Finding(
        ID,
        "failure" if is_gpu else "warning",
        (function.address,),
        f"{names} of {name} {'has' if len(missing) == 1 else 'have'} no address",
        "The kernel found no space for it in the windows above, so "
        f"{'the driver cannot use the GPU' if is_gpu else 'the device may not work'} as it should.",
        evidence=evidence,
        remedies=("firmware-above-4g-decoding",),
        next='in the firmware, switch on "Above 4G Decoding" or enlarge the 64-bit MMIO window',
    )


def _line(function: Function, bar: MissingBar) -> str:
    """Where in the file `resource` it would stand."""
    return f"line {bar.index + 1}: " if function.is_from_sysfs else ""


def _size(bar: MissingBar) -> str:
    return f" ({wording.size(bar.size_bytes)})" if bar.size_bytes else ""


CHECK = Check(
    id=ID,
    subject="function",
    summary="Every memory BAR has an address.",
    looks_at="The kernel's resource list of every function, and for devices the BAR registers themselves: the kernel "
    "shows zeros for a BAR it could not place. In a kernel log the last word on each BAR: one that was assigned after it "
    "found no space has its place.",
    why="A GPU without its memory BAR does not start, and other devices lose functions.",
    decides="A failure for a GPU's memory BAR, a warning for other functions'. I/O windows and BARs of virtual functions "
    "stay silent: hosts in perfect order have them without space.",
    sources=(
        "Linux drivers/pci/setup-bus.c and setup-res.c: resources that cannot be placed are cleared",
        "PCI Local Bus Specification 3.0, 6.2.5.1 Address Maps",
    ),
    judge=judge,
    remedies=("firmware-above-4g-decoding",),
    nothing="no functions",
)
