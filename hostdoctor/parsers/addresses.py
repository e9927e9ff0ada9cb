"""PCI addresses as tools write them."""

from __future__ import annotations


def address_of(text: str) -> str | None:
    """An address as tools write it, in ours: "43:00.0", "00000000:43:00.0" and "0000:43:00" are "0000:43:00.0".

    None where the text is no address. A domain of eight digits keeps what is more than four of them only where it has it.
    """
    head, _, function = text.strip().lower().partition(".")
    fields = head.split(":")
    if len(fields) == 2:
        fields.insert(0, "0000")
    if len(fields) != 3:
        return None
    try:
        domain, bus, device, number = (int(field, 16) for field in (*fields, function or "0"))
    except ValueError:
        return None
    if not (0 <= domain < 1 << 32 and 0 <= bus < 1 << 8 and 0 <= device < 1 << 5 and 0 <= number < 1 << 3):
        return None
    return f"{domain:04x}:{bus:02x}:{device:02x}.{number}"
