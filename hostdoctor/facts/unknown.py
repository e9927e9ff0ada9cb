"""A fact that could not be learnt, and why."""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")


class Unknown(msgspec.Struct, frozen=True, omit_defaults=True, rename={"reason": "unknown"}):
    """Stands in the place of a value; in JSON an object with the reason under "unknown".

    Attributes:
        reason: why it is not known, as the end of a sentence ("needs root", "not in this capture").
        help: what would make it known ("run with sudo"), or empty.
    """

    reason: str
    help: str = ""


NEEDS_ROOT = Unknown("config space beyond 64 bytes needs root", "run with sudo")
NOT_CAPTURED = Unknown("not in this evidence")
ANOTHER_USER = Unknown("another host's user is not here")
ASLEEP = Unknown("the device is asleep, and reading would wake it", "use the GPU, then scan again")


def known(value: T | Unknown, default: T) -> T:
    """The value, or the default where it is unknown."""
    return default if isinstance(value, Unknown) else value
