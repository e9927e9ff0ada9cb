"""Network interfaces and RDMA devices, and the PCI functions they belong to.

The links of /sys/class/net and /sys/class/infiniband lead through the function's folder, so they name it. A network
driver can hold the lock that reading a speed waits for: whoever reads a live host does it in a guarded child.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from hostdoctor.evidence import Directory, Evidence, Unreadable
from hostdoctor.facts.driver import NetworkDevice
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.readers.text import attribute, integer, unknown_from

INTERFACES, RDMA = "sys/class/net", "sys/class/infiniband"

_ADDRESS = re.compile(r"\A[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]\Z")
_NO_SPEED = Unknown("the driver gives no speed")
_AT_MOST = 4096
_NO_SPEED_SET = 0xFFFFFFFF  # include/uapi/linux/ethtool.h SPEED_UNKNOWN, unsigned


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


def with_asked_speeds(
    network: tuple[NetworkDevice, ...] | Unknown, ask: Callable[[Sequence[str]], Mapping[str, int] | Unknown]
) -> tuple[NetworkDevice, ...] | Unknown:
    """The network with the speeds of RDMA cards that are up and whose driver gives none in sysfs, as `ask` tells them.

    On hosts without such cards nobody is asked.
    """
    if isinstance(network, Unknown):
        return network
    wanted = [each.name for each in network if each.rdma and each.up is True and isinstance(each.speed_mbits, Unknown)]
    speeds = ask(wanted) if wanted else {}
    if isinstance(speeds, Unknown):
        speeds = {}
    return tuple(
        msgspec.structs.replace(each, speed_mbits=speeds[each.name]) if each.name in speeds else each for each in network
    )


def speeds_of(network: tuple[NetworkDevice, ...] | Unknown) -> dict[str, int]:
    """The speeds that are known, by name."""
    if isinstance(network, Unknown):
        return {}
    return {each.name: each.speed_mbits for each in network if not isinstance(each.speed_mbits, Unknown)}


def ask_ethtool(names: Sequence[str], deadline_s: float) -> Mapping[str, int] | Unknown:
    """Speeds in Mbit/s by the kernel's ethtool netlink, asked in a child: a network driver can hang."""
    from hostdoctor.vendor import child  # noqa: PLC0415  most hosts have no RDMA cards

    question = child.ask("ethtool", lambda: _speeds(names), dict[str, int], deadline_s)
    answer = question.answer()
    return {} if answer is None else answer


def _speeds(names: Sequence[str]) -> dict[str, int] | Unknown:
    """To be run in a child: loading pyroute2 takes a tenth of a second."""
    try:
        from pyroute2.ethtool import Ethtool  # noqa: PLC0415
    except ImportError:
        return Unknown("the Python package pyroute2 is not installed")
    found = {}
    ethtool = Ethtool()
    for name in names:
        try:
            speed = ethtool.get_link_mode(name).speed
        except Exception:  # noqa: S112  it says why in many ways, and none of them is a fault of the host
            continue
        if isinstance(speed, int) and 0 < speed < _NO_SPEED_SET:
            found[name] = speed
    return found
