"""Who a function is, where a text gives names instead of ids."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from hostdoctor.facts.pci import DOWNSTREAM_PORT, UPSTREAM_PORT
from hostdoctor.knowledge import on_board_role, pci_names

_ROLES = {UPSTREAM_PORT: "upstream", DOWNSTREAM_PORT: "downstream"}
# Red Hat has two vendor ids: one for QEMU's own devices, one for what virtio drivers drive, on hardware too.
_RED_HAT_QEMU, _RED_HAT_VIRTIO = "1b36", "1af4"
_FIRST_VIRTIO = 0x1000
_LONGEST_NAME = 120


class Named(msgspec.Struct, frozen=True):
    """What a name tells.

    Attributes:
        vendor: its id, or 0.
        device: its id, or 0 where no table has the name or several devices have it.
        stand_in_id: see Function.stand_in_id.
        name: of the device.
    """

    vendor: int
    device: int
    stand_in_id: str
    name: str


@lru_cache(maxsize=4096)
def named(text: str, vendor: int, device: int, port_type: int | None) -> Named:
    """Ids for the names of vendor and device.

    Args:
        text: as lspci prints them, "NVIDIA Corporation GA102 [GeForce RTX 3090]".
        vendor: its id where that is known, else 0.
        device: likewise.
        port_type: of the Express capability where it is known: it tells the two ports of a switch apart.
    """
    vendors, name = pci_names.vendors_named(text)
    if len(vendors) > 1:
        is_qemu = "QEMU" in name or "QXL" in name or 0 < device < _FIRST_VIRTIO
        vendors = (_RED_HAT_QEMU if is_qemu else _RED_HAT_VIRTIO,)
    if vendor:
        vendors = (f"{vendor:04x}",)
    found = tuple(id_ for each in vendors for id_ in pci_names.ids_named(each, name))
    if len(found) > 1 and port_type in _ROLES:
        found = tuple(id_ for id_ in found if on_board_role(id_) in ("", _ROLES[port_type]))
    device = device or (int(found[0][5:], 16) if len(found) == 1 else 0)
    stand_in = found[0] if not device and len(found) > 1 and pci_names.tables_agree(found) else ""
    return Named(int(vendors[0], 16) if vendors else 0, device, stand_in, name.removeprefix("Device")[:_LONGEST_NAME].strip())
