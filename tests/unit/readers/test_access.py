"""What the calling user may do with device files, asked of the kernel and without opening them."""

from __future__ import annotations

import os
import resource
import tempfile
from pathlib import Path

import msgspec
import pytest

from hostdoctor.evidence.files import FileEvidence
from hostdoctor.facts.driver import Access
from hostdoctor.facts.unknown import Unknown
from hostdoctor.readers.access import read_access
from hostdoctor.readers.host import read_host
from tests.trees import NOBODY, Tree, as_nobody

PATHS = ("/dev/kfd", "/dev/dri/renderD128", "/dev/dri/renderD129", "/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl")


@pytest.fixture
def tree():
    """A host's /dev made of ordinary files, where nobody can look into it."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        tree = Tree(Path(folder, "host"))
        for path in (*PATHS, "/dev/dri/card0", "/dev/nvidia-modeset", "/dev/nvidia-caps/nvidia-cap1", "/dev/null"):
            tree.write(path.lstrip("/"))
        (tree.root / "dev/dri/by-path").mkdir()
        tree.write("etc/group", "root:x:0:\nrender:x:105:alice\nnogroup:x:65534:\nbroken\nodd:x:y:\n")
        yield tree


def ask(tree, kind="live"):
    with FileEvidence(str(tree.root), kind) as evidence:
        return read_access(evidence)


def test_the_files_that_compute_needs(tree):
    access = ask(tree)
    assert sorted(node.path for node in access.nodes) == sorted(PATHS)
    assert all(node.readable and node.writable for node in access.nodes)
    assert (access.user, os.getegid() in access.groups) == (os.geteuid(), True)


def test_nothing_is_opened(tree):
    os.mkfifo(tree.root / "dev/nvidia1")  # opening it would wait for ever
    assert "/dev/nvidia1" in {node.path for node in ask(tree).nodes}


def test_another_users_rights(tree):
    for path, mode in (("kfd", 0o660), ("dri/renderD128", 0o666), ("dri/renderD129", 0o644)):
        os.chmod(tree.root / "dev" / path, mode)
    found = msgspec.json.decode(as_nobody(lambda: msgspec.json.encode(ask(tree))), type=Access)
    rights = {node.path: (node.readable, node.writable) for node in found.nodes}
    if os.geteuid() == 0:
        assert found.user == NOBODY
        assert rights["/dev/kfd"] == (False, False)
        assert rights["/dev/dri/renderD129"] == (True, False)
    assert rights["/dev/dri/renderD128"] == (True, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
def test_groups_are_named_from_the_file(tree):
    os.chown(tree.root / "dev/kfd", 0, 105)
    access = ask(tree)
    kfd = next(node for node in access.nodes if node.path == "/dev/kfd")
    assert access.group_names[kfd.group] == "render"
    assert set(access.group_names) <= {node.group for node in access.nodes}


def test_memlock_is_the_soft_limit(tree):
    soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    try:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, hard))
        assert ask(tree).memlock_bytes == 65536
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (soft, hard))
    expected = None if soft == resource.RLIM_INFINITY else soft
    assert ask(tree).memlock_bytes == expected


def test_a_host_without_devices(tmp_path):
    assert ask(Tree(tmp_path / "host")).nodes == ()


def test_in_a_tree_there_is_no_user(tree):
    assert ask(tree, "root") == Unknown("another host's user is not here")


def test_asked_only_where_there_are_gpus(tree):
    tree.common().folder("sys/bus/pci/devices")
    with FileEvidence(str(tree.root), "live") as evidence:
        assert isinstance(read_host(evidence).access, Unknown)
    tree.function("0000:41:00.0", driver="amdgpu")
    with FileEvidence(str(tree.root), "live") as evidence:
        host = read_host(evidence)
        assert len(host.access.nodes) == len(PATHS)
        assert not [name for _, name, _ in evidence.reads if name.startswith("dev/")]
