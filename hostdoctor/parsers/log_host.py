"""What a kernel log tells of the whole host: its release, command line, firmware, processor and hypervisor.

Sources: Linux init/main.c, drivers/firmware/dmi_scan.c dmi_format_ids, arch/x86/kernel/smpboot.c, arch/x86/kernel/cpu/
hypervisor.c, arch/x86/kernel/paravirt.c, arch/arm64/kernel/setup.c, kernel/smp.c.
"""

from __future__ import annotations

import re

import msgspec

from hostdoctor.parsers.kernel_log import Log, Message

_RELEASE = re.compile(r"Linux version (?P<release>\d[\w.+~-]{1,100})")
_COMMAND_LINE = re.compile(r"(?:Kernel c|C)ommand line: (?P<line>.*)")
_DMI = re.compile(r"DMI: (?P<ids>.{1,300}?), BIOS (?P<version>.{1,100}?) (?P<date>\d\d/\d\d/\d{4})$")
_CPU = re.compile(
    r"(?:smpboot: )?CPU0: (?P<name>.{3,120}?) \(fam(?:ily)?: (?:0x)?(?P<family>[0-9a-f]{1,3}), "
    r"model: (?:0x)?(?P<model>[0-9a-f]{1,3}),"
)
_HYPERVISOR = re.compile(r"Hypervisor detected: (?P<name>.{2,60})")
_PARAVIRTUALISED = re.compile(r"Booting paravirtualized kernel on (?P<on>.{2,60})")
_NODES = re.compile(r"smp: Brought up (?P<nodes>\d{1,4}) nodes?, \d+ CPUs")

# The log writes vendor and product with a space between; these vendors' names have spaces themselves.
_VENDORS_WITH_SPACES = (
    "ASUSTeK COMPUTER INC.", "ASUSTeK Computer INC.", "Gigabyte Technology Co., Ltd.", "Micro-Star International Co., Ltd.",
    "Dell Inc.", "VMware, Inc.", "Microsoft Corporation", "innotek GmbH", "Amazon EC2", "Google Compute Engine",
    "Intel Corporation", "Hewlett Packard Enterprise", "Oracle Corporation", "Cisco Systems Inc", "Tyan Computer Corporation",
    "To Be Filled By O.E.M.", "System manufacturer", "Apple Inc.", "Wiwynn Corporation", "ASRock Rack", "Penguin Computing",
    "Quanta Cloud Technology Inc.", "Super Micro Computer", "Alibaba Cloud", "Tencent Cloud", "Parallels Software",
)  # fmt: skip
_CPU_VENDORS = (("AMD", "AuthenticAMD"), ("Intel", "GenuineIntel"), ("Hygon", "HygonGenuine"))


class Said(msgspec.Struct, frozen=True):
    """One thing that the log tells, and where."""

    value: str
    source: str


class LogHost(msgspec.Struct):
    """What the last boot of a log tells; None for what it does not."""

    release: Said | None = None
    command_line: Said | None = None
    system_vendor: Said | None = None
    product_name: Said | None = None
    board_name: Said | None = None
    bios_version: Said | None = None
    bios_date: Said | None = None
    cpu_name: Said | None = None
    cpu_vendor: Said | None = None
    cpu_family: Said | None = None  # hexadecimal
    cpu_model: Said | None = None  # hexadecimal
    hypervisor: Said | None = None
    runs_on: Said | None = None  # "bare hardware", "KVM"
    nodes: Said | None = None


def read_log_host(log: Log) -> LogHost:
    """What the last boot of a log tells of the host."""
    found = LogHost()
    for message in log.messages:
        reader = _READERS.get(message.text[:5])
        if reader is not None and message.boot == log.boots - 1:
            reader(found, message, log.where(message))
    return found


def _first(said: Said | None, value: str, source: str) -> Said:
    return said or Said(value.strip(), source)


def _release(found: LogHost, message: Message, source: str) -> None:
    if match := _RELEASE.match(message.text):
        found.release = _first(found.release, match["release"], source)


def _command_line(found: LogHost, message: Message, source: str) -> None:
    if match := _COMMAND_LINE.match(message.text):
        found.command_line = _first(found.command_line, match["line"], source)


def _dmi(found: LogHost, message: Message, source: str) -> None:
    match = _DMI.match(message.text)
    if match is None:
        return
    ids, _, board = match["ids"].partition("/")
    vendor = next((name for name in _VENDORS_WITH_SPACES if ids.startswith(f"{name} ")), ids.partition(" ")[0])
    found.system_vendor = _first(found.system_vendor, vendor, source)
    found.product_name = _first(found.product_name, ids[len(vendor) :], source)
    if board:
        found.board_name = _first(found.board_name, board, source)
    found.bios_version = _first(found.bios_version, match["version"], source)
    found.bios_date = _first(found.bios_date, match["date"], source)


def _cpu(found: LogHost, message: Message, source: str) -> None:
    if match := _CPU.match(message.text):
        name = match["name"]
        found.cpu_name = _first(found.cpu_name, name, source)
        found.cpu_family = _first(found.cpu_family, match["family"], source)
        found.cpu_model = _first(found.cpu_model, match["model"], source)
        vendor = next((vendor for word, vendor in _CPU_VENDORS if word in name), "")
        if vendor:
            found.cpu_vendor = _first(found.cpu_vendor, vendor, source)


def _hypervisor(found: LogHost, message: Message, source: str) -> None:
    if match := _HYPERVISOR.match(message.text):
        found.hypervisor = _first(found.hypervisor, match["name"], source)


def _paravirtualised(found: LogHost, message: Message, source: str) -> None:
    if match := _PARAVIRTUALISED.match(message.text):
        found.runs_on = _first(found.runs_on, match["on"], source)


def _nodes(found: LogHost, message: Message, source: str) -> None:
    if match := _NODES.match(message.text):
        found.nodes = _first(found.nodes, match["nodes"], source)


# By the first five letters of a message, so that a log of a million lines tries a pattern on few of them.
_READERS = {
    "Linux": _release,
    "Comma": _command_line,
    "Kerne": _command_line,
    "DMI: ": _dmi,
    "smpbo": _cpu,
    "CPU0:": _cpu,
    "Hyper": _hypervisor,
    "Booti": _paravirtualised,
    "smp: ": _nodes,
}
