"""Every guest of the lab, by name: what is emulated, the kernel and its parameters, and what is done in it."""

from __future__ import annotations

from dataclasses import replace

from tests.lab import disk
from tests.lab.config_space import Bar, Link, Look, QemuMemory
from tests.lab.guests import BARE, LOOK, Guest, Running, Step
from tests.lab.image import KERNELS
from tests.lab.machine import (
    AMD_IOMMU,
    EPYC,
    GIB,
    INTEL_IOMMU,
    MIB,
    RTX_4090,
    RTX_A5000,
    V620,
    XEON,
    XEON_PORT,
    ZEN_PORT,
    Machine,
    Part,
    amd_card,
    downstream_port,
    gpu,
    nic,
    root_port,
    two_sockets,
    upstream_port,
)

_JUDGE: tuple[Step, ...] = (("state", "before"), ("scan", "root", BARE))

# --- IOMMU modes ------------------------------------------------------------------------------------------------------


def _pair(root_port_id: str) -> tuple[Part, ...]:
    """Two GPUs that may do P2P with each other, on root ports of their own."""
    ports = [root_port(f"rp{number}", 3 + number, id_=root_port_id) for number in (0, 1)]
    return (*ports, gpu("gpu0", "rp0", RTX_A5000), gpu("gpu1", "rp1", RTX_A5000))


NO_IOMMU = Machine(_pair(ZEN_PORT))
INTEL = Machine((INTEL_IOMMU, *_pair(XEON_PORT)), cpu=XEON)
AMD = Machine((AMD_IOMMU, *_pair(ZEN_PORT)), cpu=EPYC)

# Values of all kernels, made-up ones among them, less those that would keep a guest from starting.
_PCI_VALUES = (
    "realloc", "realloc=on", "use_crs", "nobar", "norom", "rom", "hpiosize=256", "hpmmiosize=2M", "hpmmioprefsize=2M",
    "hpmemsize=2M", "hpbussize=1", "use_e820", "no_e820", "config_acs=xx@0000:99:00.0", "pcie_bus_tune_off", "pcie_bus_safe",
    "pcie_bus_perf", "pcie_bus_peer2peer", "noari", "noats", "ecrc=off", "pcie_scan_all", "notph", "nodomains", "usepirqmask",
    "assign-busses", "routeirq", "skip_isa_align", "bfsort", "nobfsort", "cbiosize=256", "bogus", "nomsix",
)  # fmt: skip
_AMD_VALUES = (
    "on",
    "fullflush",
    "force_isolation",
    "force_enable",
    "irtcachedis",
    "nohugepages",
    "v2_pgsizes_only",
    "passthrough",
)
_INTEL_VALUES = (
    "on",
    "igfx_off",
    "forcedac",
    "sp_off",
    "sm_on",
    "tboot_noforce",
    "intgpu_off",
    "sm_off",
    "nobounce",
    "pt",
    "nostrict",
)
AMD_VALUES = f"amd_iommu={','.join(_AMD_VALUES)} pci={','.join(_PCI_VALUES)}"
INTEL_VALUES = f"intel_iommu={','.join(_INTEL_VALUES)}"


def _mode(machine: Machine, cmdline: str = "", kernel: str = "6.12") -> Guest:
    return Guest(machine, cmdline, kernel, _JUDGE)


IOMMU_GUESTS = {
    "no-iommu": _mode(NO_IOMMU, "iommu=pt iommmu=pt intel_iommu=on"),
    "intel": _mode(INTEL),
    "intel-pt": _mode(INTEL, "intel_iommu=on iommu=pt"),
    "intel-strict": _mode(INTEL, "iommu.strict=1"),
    "intel-off": _mode(INTEL, "iommu=off"),
    "intel-6.1": _mode(INTEL, kernel="6.1"),
    "intel-newest": _mode(INTEL, kernel="newest"),
    "intel-pt-newest": _mode(INTEL, "iommu=pt", "newest"),
    "amd": _mode(AMD),
    "amd-pt": _mode(AMD, "iommu=pt"),
    "amd-strict": _mode(AMD, "iommu.strict=1"),
    "amd-off": _mode(AMD, "iommu=off"),
    "amd-on": _mode(AMD, "amd_iommu=on"),
    "amd-pt-6.1": _mode(AMD, "iommu=pt", "6.1"),
    **{f"amd-values-{kernel}": _mode(AMD, AMD_VALUES, kernel) for kernel in KERNELS},
    **{f"intel-values-{kernel}": _mode(INTEL, INTEL_VALUES, kernel) for kernel in KERNELS},
}

# --- links ------------------------------------------------------------------------------------------------------------

_HALF = Link(8.0, 8, 16.0, 16)

LINKS = Machine(
    (
        root_port("rp0", 3, id_=XEON_PORT),
        *amd_card("trained", "rp0", slot=_HALF),
        root_port("rp1", 4, 8.0, 8, id_=XEON_PORT),
        *amd_card("narrow", "rp1", slot=_HALF),
        root_port("rp2", 5, id_=XEON_PORT),
        gpu("full", "rp2", RTX_4090),
        root_port("rp3", 6, id_=XEON_PORT),
        upstream_port("plx", "rp3", link=_HALF),
        downstream_port("plx0", "plx", 0),
        *amd_card("behind0", "plx0"),
        downstream_port("plx1", "plx", 1),
        *amd_card("behind1", "plx1"),
        root_port("rp4", 7, 8.0, 8, id_=XEON_PORT),
        upstream_port("pex", "rp4", link=_HALF),
        downstream_port("pex0", "pex", 0),
        gpu("below", "pex0", RTX_4090),
        root_port("rp5", 8, id_=XEON_PORT),
        nic("nic", "rp5"),
    ),
    cpu=XEON,
)
NIC = "0000:13:00.0"

TWO_SOCKETS = Machine(
    (
        two_sockets(0x40, 0x80),
        root_port("rp0", 1, bus="rc0"),
        gpu("gpu0", "rp0"),
        root_port("rp1", 2, bus="rc1"),
        gpu("gpu1", "rp1"),
    ),
    memory="2G",
    processors="4,sockets=2,cores=2,threads=1",
)

LINK_GUESTS = {
    "links": Guest(
        LINKS,
        steps=(
            *LOOK,
            ("scan", "guest"),
            ("capture", "root", "--no-redact", "--logs", "--tools"),
            ("capture", "user", "--no-redact"),
            ("allow_sleep", NIC),
            ("wait", "asleep", NIC),
            ("state", "asleep-before"),
            ("scan", "asleep", BARE),
            ("capture", "asleep", "--no-redact", "--tools"),
            ("state", "asleep-after"),
        ),
    ),
    "two-sockets": Guest(TWO_SOCKETS),
}

# --- BARs -------------------------------------------------------------------------------------------------------------

_CARDS = (root_port("rp0", 3), *amd_card("card0", "rp0"), root_port("rp1", 4), *amd_card("card1", "rp1"))
# The firmware places 64-bit BARs at 56 TiB, or, with the aperture its setting names, at 512 GiB.
HIGH = Machine(_CARDS, cpu=f"{EPYC},phys-bits=46", uefi=True)
LOW = replace(HIGH, extra=("-fw_cfg", "name=opt/ovmf/X-PciMmio64Mb,string=524288"))

# With 36 address bits there is room for one of these BARs, and not for the I/O windows of so many ports.
_RESIZABLE = Bar(32 * GIB, sizes=(256 * MIB, 8 * GIB))
NO_SPACE = Machine(
    (
        root_port("rp0", 3),
        gpu("gpu0", "rp0", V620, bars={0: _RESIZABLE, 2: Bar(2 * MIB)}),
        root_port("rp1", 4),
        gpu("gpu1", "rp1", V620, bars={0: _RESIZABLE, 2: Bar(2 * MIB)}),
        root_port("rp2", 5),
        upstream_port("plx", "rp2"),
        *(downstream_port(f"plx{number}", "plx", number) for number in range(16)),
    ),
    cpu=f"{EPYC},phys-bits=36",
)

# The firmware's aperture has room for one of these BARs, although the processor addresses far more.
SMALL_APERTURE = Machine(
    (
        root_port("rp0", 3),
        gpu("gpu0", "rp0", V620, bars={0: _RESIZABLE, 2: Bar(2 * MIB)}),
        root_port("rp1", 4),
        gpu("gpu1", "rp1", V620, bars={0: _RESIZABLE, 2: Bar(2 * MIB)}),
    ),
    cpu=f"{EPYC},phys-bits=46",
    uefi=True,
    extra=("-fw_cfg", "name=opt/ovmf/X-PciMmio64Mb,string=32768"),
)

HOTPLUG = Machine(
    (
        root_port("rp0", 3),
        gpu("gpu0", "rp0", RTX_A5000),
        root_port("rp1", 4, id_="", reserve="64G"),
        root_port("rp2", 5, id_=""),
    )
)
GPU, ROOMY, TIGHT = "0000:01:00.0", "0000:02:00.0", "0000:03:00.0"


def _plug(running: Running) -> None:
    """Put a GPU into each of the two empty ports, dressed before the guest can look at it."""
    running.monitor("stop")
    for name, bus in (("roomy", "rp1"), ("tight", "rp2")):
        running.monitor("device_add", driver="nvme", bus=bus, id=name, serial=f"serial-{name}")
    memory = QemuMemory(running.process.pid)
    for name in ("roomy", "tight"):
        memory.change(gpu(name, "", RTX_A5000).looks)
    memory.close()
    running.monitor("cont")


BAR_GUESTS = {
    "bars-high": Guest(HIGH),
    "bars-high-mapped": Guest(HIGH.with_parts(AMD_IOMMU), steps=_JUDGE),
    "bars-high-6.1": Guest(HIGH.with_parts(AMD_IOMMU), kernel="6.1", steps=_JUDGE),
    "bars-low": Guest(LOW.with_parts(AMD_IOMMU), "iommu=pt"),
    "no-space": Guest(NO_SPACE),
    "small-aperture": Guest(SMALL_APERTURE, steps=(*_JUDGE, ("keep", "/proc/iomem"))),
    "hotplug": Guest(
        HOTPLUG,
        steps=(
            *_JUDGE,
            ("say", "plug"),
            ("wait", "present", ROOMY),
            ("wait", "present", TIGHT),
            ("state", "plugged"),
            ("scan", "plugged-root", BARE),
            ("say", "drop"),
            ("wait", "lost", GPU),
            ("scan", "lost", BARE),
            ("remove_during_scan", "removed", ROOMY, BARE),
            ("state", "removed-after"),
        ),
        answers={"plug": _plug, "drop": lambda running: running.memory.drop("gpu0")},
    ),
}

# --- ACS and errors ---------------------------------------------------------------------------------------------------

SWITCH = Machine(
    (
        INTEL_IOMMU,
        root_port("rp0", 3, id_=XEON_PORT),
        upstream_port("plx", "rp0"),
        downstream_port("plx0", "plx", 0, acs=True),
        gpu("gpu0", "plx0", RTX_A5000),
        downstream_port("plx1", "plx", 1, acs=True),
        gpu("gpu1", "plx1", RTX_A5000),
    ),
    cpu=XEON,
)
PORTS = ("0000:02:00.0", "0000:02:01.0")
BELOW = ("0000:03:00.0", "0000:04:00.0")


def _train(running: Running, width: int) -> None:
    """Let the first GPU's link run with so many lanes from now on."""
    running.memory.change({"gpu0": Look(link=Link(16.0, width, 16.0, 16))})


_CORRECTABLE, _BAD_TLP, _TIMEOUT = "aer_dev_correctable", 6, 14
_OTHER = "0000:02:00.0"
_COUNT_CORRECTABLE: tuple[Step, ...] = (
    *(("inject", GPU, "correctable", _BAD_TLP),) * 3,
    ("counted", GPU, _CORRECTABLE, 3),
)
_COUNT_NONFATAL: tuple[Step, ...] = (
    ("inject", _OTHER, "uncorrectable", _TIMEOUT),
    ("counted", _OTHER, "aer_dev_nonfatal", 1),
)
COUNT_ERRORS = (*_COUNT_CORRECTABLE, *_COUNT_NONFATAL)

ERROR_GUESTS = {
    "acs": Guest(SWITCH, steps=(*LOOK, ("plug_driver", BELOW[0], "vfio-pci"), ("scan", "vfio", BARE))),
    "acs-cleared": Guest(SWITCH, f"pci=disable_acs_redir={';'.join(PORTS)}", steps=_JUDGE),
    "acs-configured": Guest(SWITCH, f"pci=config_acs={';'.join(f'xx000xx@{port}' for port in PORTS)}", steps=_JUDGE),
    "errors": Guest(
        Machine((root_port("rp0", 3), gpu("gpu0", "rp0", RTX_A5000), root_port("rp1", 4), gpu("gpu1", "rp1", RTX_A5000))),
        steps=(
            *_JUDGE,
            *_COUNT_CORRECTABLE,
            ("state", "correctable"),
            ("scan", "correctable-root", BARE),
            *_COUNT_NONFATAL,
            ("state", "nonfatal"),
            ("scan", "nonfatal-root", BARE),
            ("watch", "watched", GPU, BARE, "--samples", "24", "--interval", "0.2"),
        ),
        answers={"narrow": lambda running: _train(running, 8), "wide": lambda running: _train(running, 16)},
    ),
}

# --- diagnosis to cure ------------------------------------------------------------------------------------------------

# The same machine with room for its BARs.
_CURED = replace(INTEL, cpu=f"{XEON},phys-bits=46")
_LOOK_AGAIN: tuple[Step, ...] = (*_JUDGE, ("keep", "/proc/cmdline"), ("fix", "verify", BARE, "--verify"))
_CURE: tuple[Step, ...] = (
    *_LOOK_AGAIN,
    ("fix", "patch", BARE),
    ("fix", "plan.json", BARE, "--format", "json"),
    ("keep_plan", "patch", "plan.json"),
    ("apply",),
    ("follow", "commands"),
    ("follow", "show"),
)

CURE_GUESTS = {
    f"cure-{loader}": Guest(
        _CURED, steps=_CURE, boots=loader, restarts=((*_LOOK_AGAIN, ("follow", "revert")), (*_JUDGE, ("keep", "/proc/cmdline")))
    )
    for loader in (disk.GRUB, disk.SYSTEMD_BOOT)
}

GUESTS: dict[str, Guest] = {**IOMMU_GUESTS, **LINK_GUESTS, **BAR_GUESTS, **ERROR_GUESTS, **CURE_GUESTS}
