"""What is asked on the host itself, because no file of it tells."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hostdoctor.facts.driver import Access, AmdSmi, Nvml
from hostdoctor.facts.unknown import Unknown


class Answers(msgspec.Struct, frozen=True):
    """What was answered on one host at one time.

    Attributes:
        nvml: NVIDIA's library; None where it was not asked.
        amd_smi: AMD's.
        access: the rights of whoever asked.
        speeds: of network interfaces, in Mbit/s.
    """

    nvml: Nvml | Unknown | None
    amd_smi: AmdSmi | Unknown | None
    access: Access | Unknown
    speeds: Mapping[str, int] = {}
