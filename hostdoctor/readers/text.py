"""Small helpers the readers share: a file's text, or why there is none."""

from __future__ import annotations

from hostdoctor.evidence import Directory, Evidence, Unreadable
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown

_NO_PERMISSION = "run with sudo"
_NO_NUMBER = Unknown("it does not read as a number")
_LARGEST = (1 << 63) - 1


def unknown_from(error: Unreadable) -> Unknown:
    """The fact that could not be learnt because of this error."""
    if error.problem == "missing":
        return NOT_CAPTURED
    return Unknown(f"/{error.path}: {error.reason}", _NO_PERMISSION if error.problem == "permission" else "")


def text_of(evidence: Evidence, path: str) -> str | Unknown:
    """A whole file as text, without the white space around it."""
    try:
        return evidence.read(path).decode("utf-8", "replace").strip()
    except Unreadable as error:
        return unknown_from(error)


def attribute(folder: Directory, name: str) -> str | Unknown:
    """An attribute of a sysfs folder as text, without the white space around it."""
    try:
        return folder.read(name).decode("utf-8", "replace").strip()
    except Unreadable as error:
        return unknown_from(error)


def integer(text: str | Unknown, base: int = 10) -> int | Unknown:
    """A whole number, or why there is none."""
    if isinstance(text, Unknown):
        return text
    try:
        number = int(text, base)
    except ValueError:
        return _NO_NUMBER
    return number if -_LARGEST <= number <= _LARGEST else _NO_NUMBER


def folder_exists(evidence: Evidence, path: str) -> bool:
    """Whether a folder is part of the evidence."""
    try:
        evidence.directory(path).close()
    except Unreadable:
        return False
    return True
