"""The files that modprobe reads (modprobe.d(5)): of two of one name the first folder's counts, and they follow by name."""

from __future__ import annotations

from hostdoctor.facts.unknown import Unknown
from hostdoctor.parsers.modprobe import ModuleOptions, parse_modprobe
from hostdoctor.readers.boot_loader import Files

ADMINISTRATORS = "etc/modprobe.d"
_FOLDERS = (ADMINISTRATORS, "run/modprobe.d", "usr/local/lib/modprobe.d", "usr/lib/modprobe.d", "lib/modprobe.d")
_MOST_FILES = 500


class ModuleFile:
    """One file; the path has no leading slash."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.lines: tuple[ModuleOptions, ...] = parse_modprobe(text)

    @property
    def is_administrators(self) -> bool:
        """Whether it is theirs to change: packages own the files of the other folders."""
        return self.path.startswith(f"{ADMINISTRATORS}/")


def read_module_files(files: Files) -> tuple[list[ModuleFile], list[tuple[str, Unknown]]]:
    """The files in the order in which modprobe reads them, and those that could not be read, with the reason."""
    places: dict[str, str] = {}
    for folder in _FOLDERS:
        for name in files.names(folder):
            if name.endswith(".conf"):
                places.setdefault(name, f"{folder}/{name}")
    found, unread = [], []
    for name in sorted(places)[:_MOST_FILES]:
        data = files.data(places[name])
        if isinstance(data, Unknown):
            unread.append((places[name], data))
        else:
            found.append(ModuleFile(places[name], data.decode("utf-8", "surrogateescape")))
    return found, unread
