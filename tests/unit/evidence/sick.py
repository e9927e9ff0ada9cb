"""A tree in which one attribute never answers, as a sick GPU's does; run as a script, a reading to interrupt."""

from __future__ import annotations

import os
import sys

from hostdoctor.evidence.files import FileDirectory, FileEvidence
from hostdoctor.evidence.protocol import ATTRIBUTE_LIMIT

BLOCKS = "gpu_busy_percent"


class SickDirectory(FileDirectory):
    """A folder whose file waits for ever."""

    def read(self, name, limit=ATTRIBUTE_LIMIT):
        if name == BLOCKS:
            self._evidence.wait()
        return super().read(name, limit)


class SickEvidence(FileEvidence):
    """Tells who waits through `told`, if that is given, then opens a pipe that nobody writes to."""

    def __init__(self, root, never, told=None):
        super().__init__(root)
        self._never = never
        self._told = told

    def wait(self):
        if self._told:
            with open(self._told, "w") as pipe:
                pipe.write(str(os.getpid()))
        os.open(self._never, os.O_RDONLY)
        raise AssertionError("the pipe has a writer")

    def directory(self, path):
        return SickDirectory(self, self.open_folder(path), path)


if __name__ == "__main__":
    from hostdoctor.readers.host import read_host

    try:
        with SickEvidence(*sys.argv[1:]) as evidence:
            read_host(evidence, deadline_s=60)
    except KeyboardInterrupt:
        sys.exit(130)
