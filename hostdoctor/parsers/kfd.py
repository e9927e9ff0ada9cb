"""Properties files below /sys/class/kfd/kfd/topology (drivers/gpu/drm/amd/amdkfd/kfd_topology.c)."""

from __future__ import annotations

from hostdoctor.facts.host import KfdLink, KfdNode

_MAX_TEXT = 1 << 16  # characters
_MAX_DIGITS = 20  # of 64 bits


def parse_properties(text: str) -> dict[str, int]:
    """Reads lines "name value" with decimal numbers; other lines are left out."""
    properties: dict[str, int] = {}
    for line in text[:_MAX_TEXT].split("\n"):
        name, _, value = line.strip().partition(" ")
        if name and len(value) <= _MAX_DIGITS and value.isdecimal() and value.isascii():
            properties[name] = int(value)
    return properties


def kfd_node(number: int, text: str) -> KfdNode:
    """A node of the topology.

    Args:
        number: the name of its folder below nodes/.
        text: its properties file; location_id is the bus in bits 15:8, device and function below.

    Returns:
        The node, with an address where it is a GPU. The nodes of a GPU that is partitioned have the number of their
        partition in the function's bits of location_id, so that only the first bears the function's real address.
    """
    properties = parse_properties(text)
    is_gpu = properties.get("simd_count", 0) > 0 and properties.get("vendor_id", 0) != 0
    return KfdNode(
        number=number,
        address=_address(properties.get("domain", 0), properties.get("location_id", 0)) if is_gpu else None,
        hive_id=properties.get("hive_id", 0),
        gfx_target=properties.get("gfx_target_version", 0),
        firmware_version=properties.get("fw_version", 0),
    )


def _address(domain: int, location: int) -> str:
    return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 0x7}"


def kfd_link(text: str, peer: bool, source: str) -> KfdLink | None:
    """A link of the topology.

    Args:
        text: its properties file.
        peer: whether it stands below p2p_links rather than io_links.
        source: where it was read.

    Returns:
        The link; None where the file does not say from where to where it goes, or of which type it is.
    """
    properties = parse_properties(text)
    try:
        return KfdLink(
            node_from=properties["node_from"],
            node_to=properties["node_to"],
            type=properties["type"],
            flags=properties.get("flags", 0),
            peer=peer,
            source=source,
        )
    except KeyError:
        return None
