"""Records guests as small trees in tests/cases, so that everyday tests read what real kernels wrote.

    python -m tests.lab.record [NAME...]     all, or the cases of these names

A case is written anew as a whole; with the same images the same bytes come out.
"""

from __future__ import annotations

import io
import shutil
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.lab.guests import Guest, Step, boot
from tests.lab.image import ROOT, Images, built
from tests.lab.machine import as_hardware
from tests.lab.scenarios import COUNT_ERRORS, GUESTS

CASES = ROOT / "tests/cases"
EXPECTATIONS = Path(__file__).resolve().parent / "expectations"
# The case's name and the guest it is.
RECORDED = {
    "lab-bars-at-56t": "bars-high-6.1",
    "lab-bars-moved-down": "bars-low",
    "lab-bar-without-space": "no-space",
    "lab-aperture-too-small": "small-aperture",
    "lab-acs-redirect-below-switch": "acs",
    "lab-links-by-design-and-not": "links",
    "lab-nvidia-translated": "intel",
    "lab-errors-counted": "errors",
}
# What is done in a guest before it is recorded.
_BEFORE: dict[str, tuple[Step, ...]] = {"lab-errors-counted": COUNT_ERRORS}


def record(name: str, images: Images) -> None:
    """Boot a case's guest and write the case."""
    guest = GUESTS[RECORDED[name]]
    steps = (*_BEFORE.get(name, ()), ("record",))
    recorded = Guest(as_hardware(guest.machine), guest.cmdline, guest.kernel, steps)
    with tempfile.TemporaryDirectory() as work:
        (empty := Path(work, "site")).mkdir()
        result = boot(recorded, images, empty, Path(work, "guest"))
    case = CASES / name
    shutil.rmtree(case, ignore_errors=True)
    _unpack(result.files["tree.tar"], case / "input")
    shutil.copy(EXPECTATIONS / f"{name}.toml", case / "expect.toml")
    sys.stdout.write(f"{name}: {result.seconds:.0f} s\n")


def _unpack(data: bytes, target: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            path = target / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            if member.issym():
                path.symlink_to(member.linkname)
            elif (content := tar.extractfile(member)) is not None:
                path.write_bytes(content.read())


def main(names: list[str]) -> None:
    """Record the cases named, or all."""
    images = built()
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(record, name, images) for name in names or RECORDED]:
            done.result()


if __name__ == "__main__":
    main(sys.argv[1:])
