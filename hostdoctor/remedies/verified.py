"""What came of a change after the restart: which parameters run, which do not, and what findings still ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from hostdoctor.findings import Finding
from hostdoctor.parameters import all_meanings, is_of_field
from hostdoctor.parsers.cmdline import parse_command_line
from hostdoctor.remedies.firmware import as_json, firmware_guide
from hostdoctor.remedies.kernel_line import undone_by
from hostdoctor.remedies.patch import Request
from hostdoctor.remedies.wanted import Change, Uncurable, wanted
from hostdoctor.view import View


class Verified(msgspec.Struct, frozen=True):
    """What came of a change.

    Attributes:
        arrived: parameters that were asked for and run.
        missing: those that do not, with where they stand; those that are to go and are still there.
        uncured: what findings still ask for: to add it.
        unwanted: what is to be taken out.
        in_vain: what runs, and does not cure what it is for.
        uncurable: findings that no parameter cures.
        firmware: settings of the firmware that failures and warnings still need, as in the plan.
    """

    arrived: tuple[str, ...]
    missing: tuple[str, ...]
    uncured: tuple[Change, ...]
    unwanted: tuple[Change, ...] = ()
    in_vain: tuple[Change, ...] = ()
    uncurable: tuple[Uncurable, ...] = ()
    firmware: tuple[Mapping[str, object], ...] = ()

    @property
    def is_cured(self) -> bool:
        """Whether everything arrived and did what it is for, and nothing is asked for any more."""
        return not (self.missing or self.uncured or self.unwanted or self.in_vain or self.firmware)


def verify(view: View, findings: Sequence[Finding], own: Request) -> Verified:
    """Whether what is configured, and what the owner names with --add and --remove, is in force, and what is still wanted."""
    boot = view.host.boot
    running, texts = all_meanings(boot.parameters), [parameter.text for parameter in boot.parameters]
    configured = view.host.boot_files.configured
    placed = configured.parameters if configured else ()
    asked = [(each.parameter.text, f" ({each.where})") for each in placed if is_of_field(each.parameter)]
    arrived: list[str] = []
    missing: list[str] = []
    for text, where in (*asked, *((each, "") for each in own.add)):
        if not _meanings(text) <= running:
            missing.append(f"{text}{where}: does not run")
        elif by := undone_by(texts, text):
            missing.append(f"{text}{where}: {by}, which comes later, undoes it")
        else:
            arrived.append(text)
    missing += [f"{text}: is still there" for text in own.remove if _meanings(text) & running]
    found = wanted(view, findings)
    return Verified(
        tuple(dict.fromkeys(arrived)),
        tuple(dict.fromkeys(missing)),
        found.add,
        found.remove,
        found.in_vain,
        found.uncurable,
        tuple(each for each in as_json(firmware_guide(view, findings)) if each["role"] == "needed"),
    )


def nothing_to_verify(view: View, own: Request) -> str:
    """Why there is nothing to verify here; empty where there is something."""
    environment = view.host.environment
    if own.add or own.remove or not (environment.is_guest or environment.container):
        return ""
    return "the kernel of a container is its host's" if environment.container else "the GPUs of a guest are its hypervisor's"


def _meanings(text: str) -> frozenset[str]:
    parameters, _ = parse_command_line(text)
    return all_meanings(parameters) if parameters else frozenset((text,))
