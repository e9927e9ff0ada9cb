"""Every host among the cases that GRUB starts: a patch or a reason, and nothing left to do once it is applied."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hostdoctor.facts.unknown import Unknown
from hostdoctor.loaders import LOADERS
from hostdoctor.remedies.patch import Refused
from tests.unit.remedies.grub_host import GrubHost

CASES = Path(__file__).parents[2] / "cases"
TREES = sorted(path.parents[1] for path in CASES.glob("*/input/proc/cmdline"))
PATHS = ("etc", "boot", "proc/cmdline", "sys/firmware/efi", "usr")


class Copy(GrubHost):
    """A copy of what matters to boot loaders in a case's tree."""

    def __init__(self, root, tree):
        self.root = root
        for path in PATHS:
            source = tree / path
            if source.is_dir():
                shutil.copytree(source, root / path, symlinks=True)
            elif source.exists():
                self.write(path, source.read_bytes())


@pytest.mark.parametrize("tree", TREES, ids=lambda path: path.parent.name)
def test_hosts_of_the_cases(tmp_path, tree):
    host = Copy(tmp_path / "host", tree)
    _, boot, running = host.facts
    if isinstance(boot.loader, Unknown) or not LOADERS[boot.loader.name].grub_files:
        return
    taken = next((each for each in running.split() if each.startswith(("amd_iommu", "quiet", "splash"))), "nosuch=1")
    add, remove = ["iommu=pt", "pci=realloc=off"], [taken]
    try:
        patch = host.patch(add, remove)
    except Refused:
        return
    assert set(add) <= set(patch.result.split())
    assert taken not in patch.result.split()
    assert patch.show
    assert patch.once_without
    assert patch.files or patch.commands
    assert patch.revert or not patch.files
    host.apply(patch)
    again = host.patch(add, remove)
    assert again.files == ()
    assert again.result == patch.result
