"""Diffs as real tools take them: new files, files that go, missing line ends at the end, signs that are no line ends."""

from __future__ import annotations

import pytest

from hostdoctor.remedies.patch import FileChange, Patch
from tests.unit.remedies.grub_host import GrubHost

TEXTS = [
    "a\nb\nc\n",
    "a\nb\nc",
    "a\r\nb\r\n",
    "x",
    "\n",
    "form\x0cfeed\x0bx\x1c\x85\u2028y\nb",
    "\udce9 \u00e4\n",
    "b\n" * 40 + "end",
]


@pytest.mark.parametrize("before", [*TEXTS, None])
@pytest.mark.parametrize("after", [*TEXTS, None])
def test_patch_and_git_take_every_diff(tmp_path, before, after):
    if before == after:
        return
    host = GrubHost(tmp_path / "host")
    if before is not None:
        host.write("etc/some/file", before)
    host.apply(Patch(files=(FileChange("/etc/some/file", before, after),)))


@pytest.mark.parametrize("name", ["my arch.conf", "trail ", 'a"b', "back\\slash", "tab\tname", "\u00e4.conf", 't\t"\\ x'])
@pytest.mark.parametrize(("before", "after"), [("a\n", "b\n"), (None, "b\n"), ("a\n", None)])
def test_names_of_files(tmp_path, name, before, after):
    host = GrubHost(tmp_path / "host")
    if before is not None:
        host.write(f"etc/{name}", before)
    host.apply(Patch(files=(FileChange(f"/etc/{name}", before, after),)))
