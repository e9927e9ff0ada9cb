"""A card's way to the processor as the kernel found it at the boot, before drivers saved power.

Source: Linux drivers/pci/pci.c __pcie_print_link_status and pcie_bandwidth_available: the kernel asks the function and every
bridge above it how its link runs at that moment, and names the narrowest. It says so for endpoints and for the upstream ports
of switches, where that is less than what the function itself is able to.
"""

from __future__ import annotations

from hostdoctor.facts.host import BootLink, Host
from hostdoctor.topology import Card


def boot_link(host: Host, card: Card) -> BootLink | None:
    """What a kernel log says of a card's bandwidth at the boot; None where it says nothing.

    Of a card with its own switch what it says of the switch counts: the GPU's own link lies inside the card.
    """
    said = (host.boot_links.get(address) for address in (card.top.address, card.gpu.address))
    return next((link for link in said if link is not None), None)


def slot_at_boot(host: Host, card: Card) -> BootLink | None:
    """The same where the narrowest link is that between card and slot; None where it lies further up, or is not known."""
    link = boot_link(host, card)
    port = card.top.parent
    return link if link is not None and isinstance(port, str) and link.limited_by == port else None
