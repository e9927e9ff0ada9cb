"""Network interfaces and RDMA devices, and the PCI functions they belong to.

The links of /sys/class/net and /sys/class/infiniband lead through the function's folder, so they name it. A network
driver can hold the lock that reading a speed waits for: whoever reads a live host does it in a guarded child.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from hostdoctor.evidence import Directory, Evidence, Unreadable
from hostdoctor.facts.driver import NetworkDevice
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.readers.text import attribute, integer, unknown_from

INTERFACES, RDMA = "sys/class/net", "sys/class/infiniband"

_ADDRESS = re.compile(r"\A[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]\Z")
_NO_SPEED = Unknown("the driver gives no speed")
_AT_MOST = 4096


def read_network(evidence: Evidence) -> tuple[NetworkDevice, ...] | Unknown:
    """Every interface with a PCI function, and RDMA devices without one, in the order of their names."""
    try:
        places = _places(evidence, INTERFACES)
    except Unreadable as error:
        return unknown_from(error)
    try:
        rdma = _places(evidence, RDMA)
    except Unreadable:
        rdma = {}
    found = [_interface(evidence, name, address, rdma) for name, address in places.items()]
    named = {each.address for each in found}
    found += [NetworkDevice(name, address, rdma=(name,)) for name, address in rdma.items() if address not in named]
    return tuple(found)


def _places(evidence: Evidence, path: str) -> dict[str, str]:
    """The functions of the devices in a class; devices without one are left out."""
    folder = evidence.directory(path)
    try:
        found = {name: _function_of(folder, name) for name in folder.names()[:_AT_MOST]}
    finally:
        folder.close()
    return {name: address for name, address in found.items() if address}


def _function_of(folder: Directory, name: str) -> str:
    """The last function on the way to a device: its class link leads there, and so does its `device`."""
    for link in (name, f"{name}/device"):
        try:
            parts = folder.link(link).split("/")
        except Unreadable:
            continue
        address = next((part for part in reversed(parts) if _ADDRESS.match(part)), "")
        if address:
            return address
    return ""


def _interface(evidence: Evidence, name: str, address: str, rdma: Mapping[str, str]) -> NetworkDevice:
    device = NetworkDevice(name, address, rdma=tuple(each for each, place in rdma.items() if place == address))
    try:
        folder = evidence.directory(f"{INTERFACES}/{name}")
    except Unreadable as error:
        why = unknown_from(error)
        return msgspec.structs.replace(device, speed_mbits=why, up=why)
    try:
        state = attribute(folder, "operstate")
        up = state if isinstance(state, Unknown) else state == "up"
        # A link that is down has no speed.
        speed = integer(attribute(folder, "speed")) if up is True else NOT_CAPTURED
    finally:
        folder.close()
    if not isinstance(speed, Unknown) and speed <= 0:
        speed = _NO_SPEED
    return msgspec.structs.replace(device, speed_mbits=speed, up=up)
