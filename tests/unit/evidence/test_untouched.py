"""A scan changes nothing: not one name, byte, mode or date of the tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest

from hostdoctor.diagnosis import diagnose
from hostdoctor.evidence.files import FileEvidence
from hostdoctor.readers.host import read_host
from hostdoctor.registry import built_in
from hostdoctor.view import View
from tests.trees import as_nobody

CASE = Path(__file__).parents[2] / "cases" / "sysfs-laptop-x8" / "input"


def listing(folder):
    found = {}
    for where, folders, files in os.walk(folder):
        for name in [*folders, *files, "."]:
            path = Path(where, name)
            status = path.lstat()
            content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
            found[str(path)] = (content, status.st_mode, status.st_uid, status.st_mtime_ns, status.st_ctime_ns, status.st_nlink)
    return found


def scan(tree, *prefix, cwd=None):
    command = [*prefix, sys.executable, "-m", "hostdoctor", "scan", "--root", str(tree), "--format", "json"]
    return subprocess.run(command, check=False, capture_output=True, timeout=60, cwd=cwd)


def test_a_scan_leaves_the_tree_as_it_was(tmp_path):
    tree = Path(shutil.copytree(CASE, tmp_path / "tree", symlinks=True))
    before = listing(tree)
    done = scan(tree, cwd=tree)
    assert done.returncode in (0, 1)
    assert listing(tree) == before


def findings(tree):
    with FileEvidence(str(tree)) as evidence:
        return msgspec.json.encode(diagnose(View(read_host(evidence)), built_in()))


def test_a_tree_that_nobody_can_write_is_judged_alike():
    expected = findings(CASE)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        tree = Path(shutil.copytree(CASE, Path(folder, "tree"), symlinks=True))
        folders = [Path(where) for where, _, _ in os.walk(tree)]
        for each in folders:
            each.chmod(0o555)
        found = as_nobody(lambda: findings(tree))
        for each in folders:
            each.chmod(0o755)
    assert found == expected


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
def test_a_tree_mounted_read_only_is_judged_alike(tmp_path):
    (tmp_path / "tree").mkdir()
    script = f'mount --bind "{CASE}" "{tmp_path}/tree" && mount -o remount,bind,ro "{tmp_path}/tree" && exec "$@"'
    if subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", "true"], check=False, capture_output=True).returncode:
        pytest.skip("no mounts in this container")
    done = scan(tmp_path / "tree", "unshare", "-m", "sh", "-c", script, "sh")
    expected = scan(CASE)
    assert done.returncode == expected.returncode, done.stderr
    assert done.stdout.replace(f"{tmp_path}/tree".encode(), str(CASE).encode()) == expected.stdout
