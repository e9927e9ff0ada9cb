"""Why AMD's tools found no driver to work with, as they say themselves in pastes.

A tool that may not open /dev/kfd speaks of the user's rights (checks/gpu_access.py). What else it is answered speaks of the
driver: opening reaches kfd_open only where the file's mode and a container's rules for devices let it pass.

Source: Linux drivers/gpu/drm/amd/amdkfd/kfd_chardev.c kfd_open; ROCm/rocminfo rocminfo.cc CheckInitialState.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from hostdoctor.facts.driver import Refusal
from hostdoctor.facts.pci import Function
from hostdoctor.facts.unknown import Unknown
from hostdoctor.findings import Evidence, Finding, Outcome, unjudged

if TYPE_CHECKING:
    from hostdoctor.view import View

_KFD = "/dev/kfd"
_CODE = re.compile(r"HSA_STATUS_\w{1,60}")
_LOG = "read the kernel log for lines of amdgpu and kfd: they say what failed"
_TWO_TALES = Unknown("a tool says that amdgpu is not loaded, and another that it drives GPUs", "run both again, as root")

# Outcome, title, explanation and next step, by what a tool was refused.
_TEXTS: dict[str, tuple[Outcome, str, str, str]] = {
    "module": (
        "failure",
        "AMD's tools find no amdgpu loaded",
        "Without its driver no program finds the GPU.",
        f"load amdgpu, or install it for this kernel; if it does not stay, {_LOG}",
    ),
    "missing": (
        "failure",
        f"there is no {_KFD}",
        "The driver amdgpu is loaded, but its compute part (KFD) offers nothing here: it has no GPU that it supports, the "
        "kernel was built without CONFIG_HSA_AMD, or this is a container that the file was not handed to.",
        f"in a container, start it with --device={_KFD} --device=/dev/dri; else {_LOG}",
    ),
    "driver": (
        "warning",
        "KFD refuses to be opened: {}",
        f"The user may open {_KFD}, and AMD's compute driver (KFD) itself refuses. It does so where it has taken no GPU: one "
        "that failed to start, or a generation that it does not support; and within limits of a container. Permissions have "
        "no part in it.",
        _LOG,
    ),
    "runtime": (
        "warning",
        "ROCm's runtime does not start: {}",
        f"It does not say why. It ends like this where the user may not open {_KFD}, and where the driver offers no GPU.",
        f"run rocminfo, ls -l {_KFD} and id, and {_LOG}",
    ),
}


class Told(msgspec.Struct, frozen=True):
    """A refusal that tells of the driver, and AMD's GPUs that it concerns, if any are known."""

    refusal: Refusal
    gpus: tuple[Function, ...]

    def finding(self, check: str) -> Finding:
        """What a tool of AMD's ran into when it looked for GPUs."""
        refusal = self.refusal
        subject = tuple(gpu.address for gpu in self.gpus) or (_KFD,)
        answer = f"opening {_KFD}: {refusal.answer}" if refusal.kind in ("missing", "driver") else refusal.answer
        evidence = (Evidence(refusal.source, answer), *(Evidence(*note) for note in refusal.notes))
        bound = [Evidence(gpu.source("driver"), "amdgpu") for gpu in self.gpus if gpu.driver == "amdgpu"]
        if refusal.kind == "module" and bound:
            return unjudged(check, subject, "driver", _TWO_TALES, (*evidence, *bound[:2]))
        outcome, title, why, step = _TEXTS[refusal.kind]
        code = _CODE.search(refusal.answer)
        title = title.format(code[0] if code and refusal.kind == "runtime" else refusal.answer)
        return Finding(check, outcome, subject, title, why, "likely", evidence, remedies=("load-driver",), next=step)


def of_driver(view: View) -> Told | None:
    """The attempt of a tool that tells of the driver; None where there is none, or where rights explain it."""
    refusals = view.host.refusals
    kinds = ("module", "driver") if view.host.environment.container else ("module", "missing", "driver")
    found = next((each for each in refusals if each.kind in kinds), None)
    if found is None and all(each.kind == "runtime" for each in refusals):
        found = next(iter(refusals), None)
    gpus = tuple(gpu for gpu in view.amd_gpus if gpu.driver in (None, "amdgpu") or isinstance(gpu.driver, Unknown))
    return Told(found, gpus) if found else None
