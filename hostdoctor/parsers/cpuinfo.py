"""The processor, from /proc/cpuinfo (arch/x86/kernel/cpu/proc.c show_cpuinfo)."""

from __future__ import annotations

import re

from hostdoctor.facts.host import Cpu
from hostdoctor.facts.unknown import Unknown

_MAX_TEXT = 1 << 20  # characters: a few hundred processors, which repeat each other
_FIELD = re.compile(r"^([^:\n\t]{1,40}?)[ \t]*:[ \t]*(.*)$", re.MULTILINE)
_SOCKET = re.compile(r"^physical id[ \t]*: ([0-9]{1,9})$", re.MULTILINE)
_PHYSICAL_BITS = re.compile(r"([0-9]{1,3}) bits physical")
_NUMBER = re.compile(r"[0-9]{1,9}\Z")


def parse_cpuinfo(text: str) -> Cpu:
    """Reads the first processor, and counts the sockets of all; what the file does not say is Unknown.

    Only x86 has these lines: on arm64 all is Unknown. `physical_bits` is what the processor can address, in bits.
    """
    text = text[:_MAX_TEXT]
    first = text.lstrip("\n").partition("\n\n")[0]
    fields = {key: value.strip() for key, value in _FIELD.findall(first)}
    sockets = set(_SOCKET.findall(text))
    bits = _PHYSICAL_BITS.match(fields.get("address sizes", ""))
    flags = fields.get("flags")
    return Cpu(
        vendor=fields.get("vendor_id") or _missing("vendor_id"),
        family=_number(fields, "cpu family"),
        model=_number(fields, "model"),
        name=fields.get("model name") or _missing("model name"),
        physical_bits=int(bits.group(1)) if bits else _missing("address sizes"),
        sockets=len(sockets) or _missing("physical id"),
        hypervisor_flag=_missing("flags") if flags is None else "hypervisor" in flags.split(),
    )


def _number(fields: dict[str, str], key: str) -> int | Unknown:
    value = fields.get(key, "")
    return int(value) if _NUMBER.match(value) else _missing(key)


def _missing(key: str) -> Unknown:
    return Unknown(f"/proc/cpuinfo gives no {key}")
