"""What nvidia-smi prints as text: its table, the long listing (`-q`), query CSV (`--query-gpu=... --format=csv`), the list
of GPUs (`-L`), and the state of NVLinks (`nvlink -s`).

All forms, and the XML of `-q -x` (parsers.nvidia_smi_xml), give readings of the same fields, whose values are the texts that
stand there. Sources: nvidia-smi(1) of drivers 340 to 580, "GPU ATTRIBUTES" and `--help-query-gpu`; nvml.h.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from hostdoctor.facts.driver import NvmlGpu
from hostdoctor.facts.unknown import Unknown

MOST_GPUS = 64
_LONGEST_VALUE = 200


class Reading(msgspec.Struct, frozen=True):
    """What one output says of one GPU.

    Attributes:
        line: where it begins in the output, from 0.
        fields: by the names in the tables below.
    """

    line: int
    fields: Mapping[str, str]


class Trouble(msgspec.Struct, frozen=True):
    """A complaint in place of an answer.

    Attributes:
        line: where it stands, from 0.
        text: what is wrong, "GPU is lost", "Driver/library version mismatch".
        gpu: the GPU it is about, as it is written there ("0000:01:00.0", "GPU2"), or empty for all.
    """

    line: int
    text: str
    gpu: str = ""


class Output(msgspec.Struct, frozen=True):
    """One output; versions are empty where they are not told."""

    gpus: tuple[Reading, ...] = ()
    driver_version: str = ""
    cuda_version: str = ""
    attached: int | None = None
    troubles: tuple[Trouble, ...] = ()


# --- the long listing -------------------------------------------------------------------------------------------------

# Paths of headings, in lower case since they changed it over time.
_LISTED = {
    "product name": "name",
    "pci/bus id": "bus_id",
    "pci/device id": "device_id",
    "pci/sub system id": "subsystem_id",
    "pci/base classcode": "base_class",
    "pci/sub classcode": "sub_class",
    "pci/gpu link info/pcie generation/max": "max_generation",
    "pci/gpu link info/pcie generation/current": "generation",
    "pci/gpu link info/pcie generation/device max": "gpu_max_generation",
    "pci/gpu link info/link width/max": "max_width",
    "pci/gpu link info/link width/current": "width",
    "pci/replays since reset": "replays",
    "performance state": "state",
    "utilization/gpu": "busy",
    "fb memory usage/total": "memory",
    "bar1 memory usage/total": "bar1",
    "ecc mode/current": "ecc",
    "mig mode/current": "mig",
    "gpu virtualization mode/virtualization mode": "virtualization",
    "gpu reset status/reset required": "reset_required",
    "gpu recovery action": "recovery_action",
    "remapped rows/pending": "remapping_pending",
    "remapped rows/remapping failure occurred": "remapping_failed",
}  # fmt: skip
_ECC_UNCORRECTED = re.compile(r"ecc errors/volatile/(?:[sd]ram uncorrectable(?: parity| sec-ded)?|double bit/total)")
_REASONS_HEADING = ("clocks throttle reasons/", "clocks event reasons/")
# Bits of nvmlClocksThrottleReasons (nvml.h), by the words of the listing.
REASON_BITS = {
    "idle": 0x1,
    "gpu idle": 0x1,
    "applications clocks setting": 0x2,
    "sw power cap": 0x4,
    "hw slowdown": 0x8,
    "sync boost": 0x10,
    "sw thermal slowdown": 0x20,
    "hw thermal slowdown": 0x40,
    "hw power brake": 0x80,
    "hw power brake slowdown": 0x80,
    "display clock setting": 0x100,
    "display clocks setting": 0x100,
}
_HEADER = {"driver version": "driver_version", "cuda version": "cuda_version", "attached gpus": "attached"}
_GPU = re.compile(r"GPU ((?:[0-9A-Fa-f]{4}|[0-9A-Fa-f]{8}):[0-9A-Fa-f]{2}:[01][0-9A-Fa-f]\.[0-7])\s*$")


def parse_listing(lines: Sequence[str]) -> Output:
    """The output of `nvidia-smi -q`, whole, of some sections (`-d`), or cut."""
    header: dict[str, str] = {}
    gpus: list[tuple[int, dict[str, str]]] = []
    open_: list[tuple[int, str]] = []  # the headings above a line, with their indents
    for number, line in enumerate(lines):
        if found := _GPU.match(line):
            gpus.append((number, {"bus_id": found[1]}))
            open_.clear()
            continue
        name, colon, value = line.partition(" : ")
        name = name.strip().lower()
        if not name:
            continue
        indent = len(line) - len(line.lstrip())
        while open_ and open_[-1][0] >= indent:
            open_.pop()
        if not colon:
            open_.append((indent, name))
        elif gpus:
            _take("/".join((*(heading for _, heading in open_), name)), value.strip()[:_LONGEST_VALUE], gpus[-1][1])
        elif name in _HEADER:
            header[_HEADER[name]] = value.strip()
    attached = header.get("attached", "")
    return Output(
        tuple(Reading(number, fields) for number, fields in gpus[:MOST_GPUS]),
        header.get("driver_version", ""),
        header.get("cuda_version", ""),
        int(attached) if attached.isdecimal() and len(attached) < 5 else None,
        tuple(troubles(lines)),
    )


def _take(path: str, value: str, fields: dict[str, str]) -> None:
    if path in _LISTED:
        fields.setdefault(_LISTED[path], value)
    elif path.startswith(_REASONS_HEADING):
        take_reason(path.partition("/")[2], value, fields)
    elif _ECC_UNCORRECTED.fullmatch(path):
        take_uncorrected(value, fields)


def take_reason(name: str, value: str, fields: dict[str, str]) -> None:
    """Add one reason for lower clocks, "sw power cap" that is "Active", to those of a reading."""
    if value in ("Active", "Not Active"):
        bit = REASON_BITS.get(name, 0) if value == "Active" else 0
        fields["reasons"] = hex(int(fields.get("reasons", "0"), 16) | bit)


def take_uncorrected(value: str, fields: dict[str, str]) -> None:
    """Add one counter of errors that ECC could not correct."""
    if value.isdecimal() and len(value) < 16:
        fields["uncorrected"] = str(int(fields.get("uncorrected", "0")) + int(value))


# --- the table --------------------------------------------------------------------------------------------------------

_BUS_ID = re.compile(r"((?:[0-9A-Fa-f]{4}|[0-9A-Fa-f]{8}):[0-9A-Fa-f]{2}:[01][0-9A-Fa-f]\.[0-7])\s")
_DRIVER = re.compile(r"Driver Version: ?(\d{2,4}(?:\.\d{1,4}){1,3})")
_CUDA = re.compile(r"CUDA Version: ?(\d{1,3}\.\d{1,3})")
_ERROR = "ERR!"


def parse_table(lines: Sequence[str]) -> Output:
    """The output of plain `nvidia-smi`: each GPU has two or three lines of three cells."""
    gpus: list[Reading] = []
    driver = cuda = ""
    for number, line in enumerate(lines):
        if not line.startswith("|"):
            continue
        if not driver and (found := _DRIVER.search(line)):
            driver = found[1]
            cuda = match[1] if (match := _CUDA.search(line)) else cuda
        cells = _cells(line)
        if len(cells) == 3 and (found := _BUS_ID.match(f"{cells[1]} ")):
            below = _cells(lines[number + 1]) if number + 1 < len(lines) else []
            gpus.append(Reading(number, _row(cells, found[1], below)))
    return Output(tuple(gpus[:MOST_GPUS]), driver, cuda, None, tuple(troubles(lines)))


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []


def _row(cells: list[str], bus_id: str, below: list[str]) -> dict[str, str]:
    """The fields of a GPU from the cells of its first two lines."""
    fields = {"bus_id": bus_id}
    index, _, rest = cells[0].partition(" ")
    if index.isdecimal():
        fields["index"] = index
        name, _, persistence = rest.strip().rpartition(" ")
        name = name.strip()
        if persistence in ("On", "Off", "N/A") and name and not name.endswith("..."):
            fields["name"] = name
    if len(below) != 3:
        return fields
    shown = below[0].split()  # fan, temperature, state, power
    if len(shown) >= 3:
        fields["state"] = next((word for word in shown[1:3] if re.fullmatch(r"P\d{1,2}", word)), shown[2])
    used, slash, total = below[1].partition("/")
    if slash and used.strip().endswith("MiB"):
        fields["memory"] = total.strip()
    if match := re.match(r"(\d{1,3})%", below[2]):
        fields["busy"] = match[1]
    broken = sum(word == _ERROR for cell in (*cells, *below) for word in cell.split())
    if broken >= 3:  # one or two, as of a fan or of the power, say nothing of the GPU itself
        fields["trouble"] = f"nvidia-smi shows {_ERROR} in place of {broken} of its values"
    return fields


# --- the list of GPUs, and their NVLinks ------------------------------------------------------------------------------

_LISTED_GPU = re.compile(r"GPU (?P<index>\d{1,2}): (?P<name>\S.{0,80}?) \(UUID: GPU-")
_NVLINK = re.compile(r"\s+Link (?P<number>\d{1,2}): (?:(?P<rate>\d{1,3}(?:\.\d{1,3})?) GB/s|<?inactive>?)", re.IGNORECASE)


def parse_list(lines: Sequence[str]) -> Output:
    """The output of `nvidia-smi -L`, and of `nvidia-smi nvlink -s`, which lists the links below each GPU."""
    gpus: list[Reading] = []
    for number, line in enumerate(lines):
        if found := _LISTED_GPU.match(line):
            gpus.append(Reading(number, {"index": found["index"], "name": found["name"]}))
        elif gpus and (link := _NVLINK.match(line)):
            fields = dict(gpus[-1].fields)
            fields["nvlinks"] = str(int(fields.get("nvlinks", "0")) + bool(link["rate"]))
            gpus[-1] = Reading(gpus[-1].line, fields)
        elif gpus and line.lstrip().startswith("MIG ") and "(UUID: MIG-" in line:
            gpus[-1] = Reading(gpus[-1].line, {**gpus[-1].fields, "mig": "Enabled"})
    return Output(tuple(gpus[:MOST_GPUS]), troubles=tuple(troubles(lines)))


# --- query CSV --------------------------------------------------------------------------------------------------------

_QUERIED = {
    "index": "index",
    "name": "name",
    "gpu_name": "name",
    "pci.bus_id": "bus_id",
    "gpu_bus_id": "bus_id",
    "pci.device_id": "device_id",
    "pci.sub_device_id": "subsystem_id",
    "pcie.link.gen.current": "generation",
    "pcie.link.gen.max": "max_generation",
    "pcie.link.gen.gpumax": "gpu_max_generation",
    "pcie.link.width.current": "width",
    "pcie.link.width.max": "max_width",
    "pstate": "state",
    "utilization.gpu": "busy",
    "memory.total": "memory",
    "driver_version": "driver_version",
    "ecc.mode.current": "ecc",
    "mig.mode.current": "mig",
    "ecc.errors.uncorrected.volatile.total": "uncorrected",
    "clocks_throttle_reasons.active": "reasons",
    "clocks_event_reasons.active": "reasons",
    "reset_status.reset_required": "reset_required",
    "gpu_recovery_action": "recovery_action",
}  # fmt: skip
_UNIT = re.compile(r" \[[\w/%]{1,12}\]$")
_QUERY = re.compile(r"--query-gpu[= ]([\w.,]{1,2000})")
_SELECTS_OR_REPEATS = re.compile(r"(?:^|\s)(?:-i|--id|-l|-lms|--loop|--loop-ms)\b")
_COLUMN = re.compile(r"[a-z][\w.]{0,80}")
_ANY_BUS_ID = re.compile(r"(?:[0-9A-Fa-f]{8}):[0-9A-Fa-f]{2}:[01][0-9A-Fa-f]\.0")


def parse_query(lines: Sequence[str], command: str = "") -> Output:
    """The output of `nvidia-smi --query-gpu=... --format=csv`; of a GPU seen repeatedly, the look with the fastest link.

    Without a header the command tells what the columns are; where it is not known, only what is unmistakable is taken: a
    bus id and a name that begins with NVIDIA. Rows that name no GPU are counted only where the command shows that each is
    another GPU.
    """
    names = found[1].split(",") if (found := _QUERY.search(command)) else []
    countable = bool(names) and not _SELECTS_OR_REPEATS.search(command)
    by_gpu: dict[str, Reading] = {}
    driver = ""
    row = 0
    for number, line in enumerate(lines):
        values = [value.strip() for value in line[:4096].split(",")]
        if header := _header(values):
            names = header
            continue
        fields = _named(names, values) if names else _unmistakable(values)
        driver = fields.pop("driver_version", "") or driver
        if not fields or len(by_gpu) >= MOST_GPUS:
            continue
        if "bus_id" not in fields and "index" not in fields:
            if not countable:
                continue
            fields["index"] = str(row)
        row += 1
        key = fields.get("bus_id") or fields["index"]
        if key not in by_gpu or _generation(fields) > _generation(by_gpu[key].fields):
            by_gpu[key] = Reading(number, fields)
    return Output(tuple(by_gpu.values()), driver, "", None, tuple(troubles(lines)))


def _header(values: Sequence[str]) -> list[str]:
    """The names of the columns, where a line is made of nothing else."""
    names = [_UNIT.sub("", value) for value in values]
    known = sum(name in _QUERIED for name in names)
    return names if known and all(_COLUMN.fullmatch(name) for name in names) else []


def _named(names: Sequence[str], values: Sequence[str]) -> dict[str, str]:
    if len(values) != len(names):
        return {}
    fields = {_QUERIED[name]: value for name, value in zip(names, values, strict=True) if name in _QUERIED}
    if "bus_id" in fields and not _ANY_BUS_ID.fullmatch(fields["bus_id"]):
        return {}
    return fields if fields.get("index", "0").isdecimal() and len(fields.get("index", "0")) < 4 else {}


def _unmistakable(values: Sequence[str]) -> dict[str, str]:
    fields = {}
    for value in values:
        if _ANY_BUS_ID.fullmatch(value):
            fields["bus_id"] = value
        elif value.startswith("NVIDIA "):
            fields["name"] = value
    return fields if "bus_id" in fields else {}


def _generation(fields: Mapping[str, str]) -> int:
    found = number_of(fields.get("generation", ""))
    return 0 if isinstance(found, Unknown) else found


# --- complaints -------------------------------------------------------------------------------------------------------

_COMPLAINTS = (
    re.compile(r"(?:Failed|Unable) to initialize NVML: (?P<text>\S.{0,120})"),
    re.compile(r"(?P<text>NVIDIA-SMI has failed because .{0,120})"),
    re.compile(r"(?P<text>NVIDIA-SMI couldn't find .{0,120})"),
    re.compile(r"(?P<text>No devices were found)\s*$"),
    re.compile(
        r"Unable to determine the device handle for (?:gpu|GPU) ?(?:(?P<number>\d{1,3}): )?"
        r"(?:(?P<address>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[01][0-9A-Fa-f]\.[0-7]): )?(?P<text>\S.{0,120})"
    ),
)


def troubles(lines: Sequence[str]) -> Iterator[Trouble]:
    """The complaints among some lines."""
    for number, line in enumerate(lines):
        if line[:1] not in ("F", "U", "N"):
            continue
        for pattern in _COMPLAINTS:
            if found := pattern.match(line):
                groups = found.groupdict()
                gpu = groups.get("address") or (f"GPU{groups['number']}" if groups.get("number") else "")
                yield Trouble(number, found["text"].strip(), gpu)
                break


# --- values -----------------------------------------------------------------------------------------------------------

_NUMBER = re.compile(r"(\d{1,15})")
_LOST = re.compile(r"\[?GPU is lost", re.IGNORECASE)
_NEEDS_RESET = re.compile(r"\[?GPU requires reset|requires reset", re.IGNORECASE)
_MIB = 1 << 20
_SOUND_ACTIONS = ("none", "n/a")  # a cut one is no other


def number_of(text: str) -> int | Unknown:
    """The number that a value begins with, of "16x", "24564 MiB", "P8" or "[N/A]"."""
    found = _NUMBER.match(text.strip().lstrip("P"))
    if found is None:
        return Unknown(f"nvidia-smi says {text.strip('[] ')[:40]!r}" if text.strip("[] ") else "nvidia-smi does not tell it")
    return int(found[1])


def hex_of(text: str) -> int | None:
    """The value of "0x268410DE" or "268410DE"."""
    digits = text.strip().removeprefix("0x").removeprefix("0X")
    return int(digits, 16) if re.fullmatch(r"[0-9A-Fa-f]{1,8}", digits) else None


def nvml_gpu(reading: Reading, address: str, origin: str) -> NvmlGpu:
    """A reading as NVML's facts, which it is made from.

    Args:
        reading: the fields.
        address: of the GPU.
        origin: where the reading stands.
    """
    fields = reading.fields
    return NvmlGpu(
        address,
        name=fields["name"] if fields.get("name") else Unknown("nvidia-smi does not tell it"),
        link_generation=_number(fields, "generation"),
        link_width=_number(fields, "width"),
        gpu_max_generation=_number(fields, "gpu_max_generation"),
        max_generation=_number(fields, "max_generation"),
        max_width=_number(fields, "max_width"),
        performance_state=_number(fields, "state"),
        busy_percent=_number(fields, "busy"),
        throttle_reasons=_hexadecimal(fields, "reasons"),
        replay_count=_number(fields, "replays"),
        bar1_bytes=_mebibytes(fields, "bar1"),
        memory_bytes=_mebibytes(fields, "memory"),
        ecc_enabled=_switch(fields, "ecc"),
        ecc_uncorrected=_number(fields, "uncorrected"),
        mig_enabled=_switch(fields, "mig"),
        nvlinks_active=_number(fields, "nvlinks"),
        lost=any(_LOST.match(value) for value in fields.values()),
        trouble=_trouble(fields),
        origin=origin,
    )


def _number(fields: Mapping[str, str], name: str) -> int | Unknown:
    return number_of(fields.get(name, ""))


def _mebibytes(fields: Mapping[str, str], name: str) -> int | Unknown:
    found = _number(fields, name)
    return found if isinstance(found, Unknown) else found * _MIB or Unknown("nvidia-smi says 0 MiB")


def _hexadecimal(fields: Mapping[str, str], name: str) -> int | Unknown:
    found = hex_of(fields[name]) if fields.get(name, "").startswith("0x") else None
    return Unknown("nvidia-smi does not tell it") if found is None else found


def _switch(fields: Mapping[str, str], name: str) -> bool | Unknown:
    value = fields.get(name, "")
    return value == "Enabled" if value in ("Enabled", "Disabled") else Unknown("nvidia-smi does not tell it")


def is_complaint(value: str) -> bool:
    """Whether a text stands in place of a value that NVML did not give."""
    return bool(_LOST.match(value) or _NEEDS_RESET.match(value)) or value.strip("[]") == "Unknown Error"


def _trouble(fields: Mapping[str, str]) -> str:
    """What is wrong with a GPU by the values that stand in place of others; empty where nothing is."""
    if any(_NEEDS_RESET.match(value) for value in fields.values()) or fields.get("reset_required") == "Yes":
        return "the GPU requires a reset"
    if fields.get("remapping_failed") == "Yes":
        return "memory that ECC found bad could not be replaced: row remapping has failed"
    if fields.get("remapping_pending") == "Yes":
        return "memory that ECC found bad waits to be replaced, which a reset of the GPU does"
    action = fields.get("recovery_action", "")
    if not any(sound.startswith(action.lower()) for sound in _SOUND_ACTIONS):
        return f"the driver asks for a recovery action: {action[:40]}"
    if sum(value.strip("[]") == "Unknown Error" for value in fields.values()) >= 2:  # one field may just lack support
        return "it answers with Unknown Error"
    return fields.get("trouble", "")
