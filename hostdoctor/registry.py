"""Finds the checks: the built-in ones, those of installed packages, and a site's own.

Packages are found by their `entry_points.txt` files, since importlib.metadata costs more than a whole scan. A check that
cannot be loaded becomes a `Broken`, which a scan reports as one unknown finding.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

import msgspec

from hostdoctor.findings import Check

if TYPE_CHECKING:
    from types import ModuleType

ENTRY_POINT_GROUP = "hostdoctor.checks"
SITE_FOLDER = "/etc/hostdoctor/checks.d"

_ENTRY_POINTS_LIMIT = 1 << 20
_SECTION = re.compile(r"^\[\s*(.+?)\s*\]$")


class Broken(msgspec.Struct, frozen=True):
    """A check that could not be loaded: where it is from, and why."""

    id: str
    source: str
    reason: str


def built_in() -> Iterator[Check]:
    """The checks in hostdoctor/checks, one a file."""
    package = import_module("hostdoctor.checks")
    for name in sorted(os.listdir(os.path.dirname(package.__file__ or ""))):
        module, extension = os.path.splitext(name)
        if extension == ".py" and not module.startswith("_"):
            check: Check = import_module(f"hostdoctor.checks.{module}").CHECK
            yield check


def load_checks(site_folder: str = SITE_FOLDER) -> list[Check | Broken]:
    """Every check: built-in first, then packages' and the site's; a name that is taken already is broken."""
    found: list[Check | Broken] = list(built_in())
    taken = {check.id for check in found}
    for plugin in (*_from_packages(), *_from_site(site_folder)):
        if isinstance(plugin, Check) and plugin.id in taken:
            found.append(Broken(plugin.id, plugin.judge.__module__, "another check has this name already"))
        else:
            found.append(plugin)
            taken.add(plugin.id)
    return found


def _from_packages() -> Iterator[Check | Broken]:
    for name, target in sorted(set(_entry_points())):
        module, _, attribute = target.partition(":")
        try:
            found = getattr(import_module(module), attribute or "CHECK")
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            yield Broken(name, target, f"{type(error).__name__}: {error}")
            continue
        yield from _as_checks(found, name, target)


def _as_checks(found: object, name: str, source: str) -> Iterator[Check | Broken]:
    """A plugin offers one check, or several in a list or tuple."""
    for each in found if isinstance(found, (list, tuple)) else [found]:
        if isinstance(each, Check):
            yield each
        else:
            yield Broken(name, source, f"it offers a {type(each).__name__} where a Check is expected")


def _entry_points() -> Iterator[tuple[str, str]]:
    for folder in dict.fromkeys(sys.path):
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                yield from _parse_entry_points(os.path.join(folder, name, "entry_points.txt"))


def _parse_entry_points(path: str) -> Iterator[tuple[str, str]]:
    """Name and target of each entry of our group (the format of the packaging specifications, "Entry points")."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(_ENTRY_POINTS_LIMIT)
    except OSError:
        return
    if ENTRY_POINT_GROUP not in text:
        return
    section = ""
    for line in text.splitlines():
        stripped = line.strip()
        if match := _SECTION.match(stripped):
            section = match[1]
        elif section == ENTRY_POINT_GROUP and "=" in stripped and not stripped.startswith(("#", ";")):
            name, _, target = stripped.partition("=")
            yield name.strip(), target.split("[")[0].strip()


def _from_site(folder: str) -> Iterator[Check | Broken]:
    """Checks a site keeps for itself: Python files that only root can have written, when run as root."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".py"))
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        if why := _untrusted(folder) or _untrusted(path):
            yield Broken(name, path, why)
            continue
        try:
            module = _load_file(path, f"hostdoctor_site_{name[:-3]}")
            found = getattr(module, "CHECKS", None) or module.CHECK
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            yield Broken(name, path, f"{type(error).__name__}: {error}")
            continue
        yield from _as_checks(found, name, path)


def _untrusted(path: str) -> str:
    """Why a file or folder must not be run by root; empty where it may, and for ordinary users."""
    if os.geteuid() != 0:
        return ""
    status = os.stat(path)
    if status.st_uid != 0:
        return f"{path} does not belong to root"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"{path} can be written by others than root"
    return ""


def _load_file(path: str, name: str) -> ModuleType:
    from importlib.util import module_from_spec, spec_from_file_location  # noqa: PLC0415  costs time few scans need

    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
