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
from types import ModuleType

import msgspec

from hostdoctor.findings import Check

ENTRY_POINT_GROUP = "hostdoctor.checks"
SITE_FOLDER = "/etc/hostdoctor/checks.d"

_ENTRY_POINTS_LIMIT = 1 << 20
_ID = re.compile(r"\A[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_SECTION = re.compile(r"\[(.+)\]\Z")


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
            source = getattr(plugin.judge, "__module__", None) or "a plugin"
            found.append(Broken(plugin.id, source, "another check has this name already"))
        else:
            found.append(plugin)
            if isinstance(plugin, Check):
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
        if not isinstance(each, Check):
            yield Broken(name, source, f"it offers a {type(each).__name__} where a Check is expected")
        elif why := _malformed(each):
            yield Broken(name, source, why)
        else:
            yield each


def _malformed(check: Check) -> str:
    """What a plugin's check has of the wrong type, since nothing else looks; empty where all is well."""
    for field in ("id", "subject", "summary", "looks_at", "why", "decides", "nothing"):
        if not isinstance(getattr(check, field), str):
            return f"its {field} is no text"
    for field in ("sources", "remedies"):
        value = getattr(check, field)
        if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
            return f"its {field} are no list of texts"
    if not _ID.match(check.id):
        return f"its id {check.id[:40]!r} is not of small letters, digits and hyphens"
    return "" if callable(check.judge) else "its judge is no function"


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
            section = match[1].strip()
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
    try:
        status = os.stat(path)
    except OSError as error:
        return f"{path}: {error.strerror}"
    if status.st_uid != 0:
        return f"{path} does not belong to root"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"{path} can be written by others than root"
    return ""


def _load_file(path: str, name: str) -> ModuleType:
    """Run a file as a module: its source, so that no compiled copy beside it is written, or trusted."""
    module = ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module  # dataclasses look there for what their annotations name
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec")
    exec(code, module.__dict__)  # noqa: S102  that is what a site's checks are for
    return module
