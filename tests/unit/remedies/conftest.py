"""GRUB itself as the judge of what is written for it."""

from __future__ import annotations

import os

import pytest

from tests.unit.remedies import rehearsal


@pytest.fixture
def grub(tmp_path):
    """What the kernel gets in the normal and in the recovery entry, from files below /etc/default."""
    if reason := rehearsal.why_not():
        if os.environ.get("CI"):
            pytest.fail(f"GRUB must be asked here: {reason}")
        pytest.skip(reason)

    def boot(files):
        folder = tmp_path / f"boot{len(list(tmp_path.iterdir()))}"
        config = rehearsal.make_config(folder, files)
        assert rehearsal.is_script(config)
        entries = [rehearsal.kernel_gets(folder / f"emu{number}", config, number) for number in (0, 2)]
        return [[each for each in entry if "vmlinuz" not in each and not each.startswith("root=")] for entry in entries]

    return boot
