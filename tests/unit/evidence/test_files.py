"""A tree is a stranger's: nothing outside of it is read, nothing waits, nothing is changed."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import tempfile
from pathlib import Path

import pytest

from hostdoctor.evidence import Unreadable
from hostdoctor.evidence.files import FileEvidence
from tests.trees import Tree

SECRET = b"outside"


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_bytes(SECRET)
    return folder


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "host")


@pytest.fixture
def evidence(tree):
    with FileEvidence(str(tree.root)) as opened:
        yield opened


def problem(call, *arguments):
    with pytest.raises(Unreadable) as caught:
        call(*arguments)
    return caught.value.problem


@contextlib.contextmanager
def ordinary_user():
    """Root may read everything: so be nobody for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


# --- inside the root -------------------------------------------------------------------------------------------------


def test_a_file_is_read_by_its_path_on_the_described_host(tree, evidence):
    tree.write("proc/cmdline", "quiet\n")
    assert evidence.read("proc/cmdline") == b"quiet\n"
    assert evidence.read("proc/../proc/./cmdline") == b"quiet\n"
    assert evidence.shown("proc/cmdline") == "/proc/cmdline"


@pytest.mark.parametrize("target", ["../real/value", "/real/value", "../../../../real/value", "./../link2/value"])
def test_links_are_followed_as_in_a_root_of_their_own(tree, evidence, target):
    tree.write("real/value", "inside").link("link2", "real").folder("sys")
    (tree.root / "sys/link").symlink_to(target)
    assert evidence.read("sys/link") == b"inside"


def test_the_tree_itself_may_be_given_by_a_link(tmp_path, tree):
    tree.write("proc/cmdline", "quiet")
    (tmp_path / "link").symlink_to(tree.root)
    with FileEvidence(str(tmp_path / "link")) as evidence:
        assert evidence.read("proc/cmdline") == b"quiet"


@pytest.mark.parametrize(
    "link",
    [
        "{outside}/secret",
        "{up}{outside}/secret",
        "../../outside/secret",
        "../../../../../../../../etc/passwd",
        "/etc/passwd",
        "/proc/self/environ",
        "/proc/self/root/etc/passwd",
        "/dev/zero",
    ],
)
def test_a_link_out_of_the_tree_leads_nowhere(tree, evidence, outside, link):
    tree.folder("sys")
    (tree.root / "sys/link").symlink_to(link.format(outside=outside, up="../" * 30))
    assert problem(evidence.read, "sys/link") == "missing"


@pytest.mark.parametrize("target", ["../../outside", "/../../outside", "{outside}"])
def test_a_link_in_the_middle_of_a_path_leads_nowhere(tree, evidence, outside, target):
    tree.folder("sys")
    (tree.root / "sys/middle").symlink_to(target.format(outside=outside))
    assert problem(evidence.read, "sys/middle/secret") == "missing"
    assert problem(evidence.names, "sys/middle") == "missing"
    assert problem(evidence.directory, "sys/middle") == "missing"


def test_climbing_above_the_root_stays_at_the_root(tree, evidence, outside):
    tree.write("value", "inside")
    assert evidence.read("../../../value") == b"inside"
    assert problem(evidence.read, "../outside/secret") == "missing"
    assert evidence.names("..") == ["value"]


@pytest.mark.parametrize("name", ["a", "b", "self", "in/a/b/c"])
def test_links_in_a_circle_end(tree, evidence, name):
    tree.folder("in")
    (tree.root / "a").symlink_to("b")
    (tree.root / "b").symlink_to("a")
    (tree.root / "self").symlink_to("self")
    (tree.root / "in/a").symlink_to("../in/a/..")
    assert problem(evidence.read, name) == "not-a-file"
    assert problem(evidence.directory, name) == "not-a-file"


def test_a_chain_of_links_as_long_as_the_kernel_follows(tree, evidence):
    tree.write("0", "end")
    for number in range(1, 42):
        tree.link(str(number), str(number - 1))
    assert evidence.read("40") == b"end"
    assert problem(evidence.read, "41") == "not-a-file"


# --- names below a folder --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("link", ["../outside", "/", ".."])
def test_names_below_a_folder_follow_no_link(tree, evidence, outside, link):
    tree.folder("sys/f").write("secret", "inside")
    (tree.root / "sys/f/link").symlink_to(link)
    with evidence.directory("sys/f") as folder:
        for call in (folder.read, folder.open, folder.link):
            assert problem(call, "link/secret") in ("missing", "not-a-file")
        assert problem(folder.read, "link") == "not-a-file"
        assert problem(folder.open, "link") == "not-a-file"
        assert problem(folder.folder, "link") in ("missing", "not-a-file")


def test_names_below_a_folder_do_not_climb(tree, tmp_path, evidence):
    (tmp_path / "type").write_text("outside")
    (tree.root / "top").symlink_to("/")
    with evidence.directory("top") as folder:
        for call, name in (
            (folder.read, "../type"),
            (folder.open, "../type"),
            (folder.link, "../type"),
            (folder.folder, ".."),
            (folder.folder, "../host"),
            (folder.read, "a/../../type"),
        ):
            assert problem(call, name) in ("outside", "missing")


def test_names_below_a_folder_are_read(tree, evidence):
    tree.write("f/power/runtime_status", "active").write("f/a/b/c", "deep").link("f/a/link", "f/power")
    with evidence.directory("f") as folder:
        assert folder.read("power/runtime_status") == b"active"
        assert folder.read("a/b/c") == b"deep"
        assert folder.link("a/link") == "../power"
        opened = folder.open("a/b/c")
        assert opened.read_at(1, 2) == b"ee"
        assert opened.read_at(3, 100) == b"p"
        assert opened.read_at(4, 1) == b""
        opened.close()
        with folder.folder("a") as below:
            assert below.names() == ["b", "link"]
            assert below.path == "f/a"
        assert folder.names("a") == ["b", "link"]


# --- what is no file -------------------------------------------------------------------------------------------------


def put_fifo(path):
    os.mkfifo(path)


def put_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))


def put_device(path):
    if os.geteuid() != 0:
        pytest.skip("only root can make device nodes")
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero never ends
    except PermissionError:
        pytest.skip("no device nodes in this container")


@pytest.mark.parametrize("put", [put_fifo, put_socket, put_device, os.mkdir])
def test_what_is_no_ordinary_file_is_never_opened(tree, evidence, monkeypatch, put):
    tree.folder("proc")
    monkeypatch.chdir(tree.root)
    put(tree.root / "proc/cmdline")
    assert problem(evidence.read, "proc/cmdline") == "not-a-file"
    with evidence.directory("proc") as folder:
        assert problem(folder.read, "cmdline") == "not-a-file"
        assert problem(folder.open, "cmdline") == "not-a-file"


def test_a_pipe_in_place_of_a_folder(tree, evidence):
    os.mkfifo(tree.root / "sys")
    assert problem(evidence.names, "sys") == "not-a-file"
    assert problem(evidence.read, "sys/x") == "not-a-file"


def test_a_file_in_place_of_a_folder(tree, evidence):
    tree.write("sys", "text")
    assert problem(evidence.names, "sys") == "not-a-file"
    assert problem(evidence.link, "sys/x") == "not-a-file"


def test_what_is_not_there(evidence):
    for call in (evidence.read, evidence.names, evidence.link, evidence.directory):
        assert problem(call, "sys/nothing") == "missing"


@pytest.mark.parametrize("path", ["a\0b", "\0", "x/\0/y", "n" * 300, "x/" * 3000, "\udcff", "\u202e", ""])
def test_names_that_no_file_has(evidence, path):
    with evidence.directory(".") as folder:
        for call in (evidence.read, evidence.link, folder.read, folder.link, folder.open, folder.folder):
            assert problem(call, path) in ("missing", "failed", "not-a-file", "outside")


@pytest.mark.parametrize("given", ["missing", "file", "fifo"])
def test_a_root_that_is_no_folder(tmp_path, given):
    (tmp_path / "file").write_text("text")
    os.mkfifo(tmp_path / "fifo")
    assert problem(FileEvidence, str(tmp_path / given)) == "missing"


def test_what_may_not_be_read():
    # Not in tmp_path, where ordinary users cannot come at all.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        tree = Tree(Path(folder, "host"))
        tree.write("proc/iomem", "x").write("closed/file", "x").write("proc/open", "x")
        (tree.root / "proc/iomem").chmod(0)
        (tree.root / "closed").chmod(0)
        with ordinary_user(), FileEvidence(str(tree.root)) as evidence:
            assert problem(evidence.read, "proc/iomem") == "permission"
            assert problem(evidence.read, "closed/file") == "permission"
            assert problem(evidence.names, "closed") == "permission"
            assert problem(FileEvidence, str(tree.root / "closed")) == "permission"
            assert evidence.read("proc/open") == b"x"
            assert evidence.reads == [
                ("", "proc/iomem", "permission"),
                ("", "closed/file", "permission"),
                ("", "proc/open", None),
            ]
        (tree.root / "closed").chmod(0o755)


# --- sizes and names -------------------------------------------------------------------------------------------------


def test_a_file_as_large_as_is_allowed_and_one_byte_more(tree, evidence):
    tree.write("fits", b"x" * 1000).write("over", b"x" * 1001)
    assert evidence.read("fits", 1000) == b"x" * 1000
    assert problem(evidence.read, "over", 1000) == "too-large"


def test_a_sparse_file_of_a_tebibyte_costs_no_memory(tree, evidence):
    tree.write("proc/cpuinfo")
    os.truncate(tree.root / "proc/cpuinfo", 1 << 40)
    assert problem(evidence.read, "proc/cpuinfo") == "too-large"
    with evidence.directory("proc") as folder:
        opened = folder.open("cpuinfo")
        assert opened.read_at((1 << 40) - 1, 100) == b"\0"
        opened.close()


def test_a_hundred_thousand_names_are_listed():
    # In memory where that can be, and not in tmp_path, which is kept: so many files take a disk long to make and remove.
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        descriptor = os.open(folder, os.O_RDONLY)
        for number in range(100_000):
            os.symlink("x", f"{number:06}", dir_fd=descriptor)
        os.close(descriptor)
        with FileEvidence(folder) as evidence:
            names = evidence.names(".")
    assert len(names) == 100_000
    assert names[::99_999] == ["000000", "099999"]


def test_names_are_text_whatever_their_bytes(tree, evidence):
    for name in (b"line\nbreak", b"esc\x1b[2J", b"\xff\xfe", "übel".encode(), b"plain"):
        (tree.root / os.fsdecode(name)).symlink_to(os.fsdecode(b"to-" + name))
    assert evidence.names(".") == ["esc\x1b[2J", "line\nbreak", "plain", "übel", "\ufffd\ufffd"]
    for name in evidence.names("."):
        name.encode()
    assert evidence.link("line\nbreak") == "to-line\nbreak"
    with evidence.directory(".") as folder:
        assert folder.link(os.fsdecode(b"\xff\xfe")) == "to-\ufffd\ufffd"


def test_the_name_of_the_tree_is_text_too(tmp_path):
    Tree(tmp_path / os.fsdecode(b"h\xff"))
    with FileEvidence(f"{tmp_path}/{os.fsdecode(bytes([104, 255]))}") as evidence:
        assert evidence.sources == (f"{tmp_path}/h\ufffd",)


# --- links that became small files -----------------------------------------------------------------------------------


def test_a_link_that_became_a_small_file_still_leads_on(tree, evidence):
    tree.write("sys/devices/d/value", "1").write("sys/bus/d", "../devices/d").write("sys/bus/value", "../devices/d/value")
    assert evidence.link("sys/bus/d") == "../devices/d"
    assert evidence.read("sys/bus/d/value") == b"1"
    assert evidence.read("sys/bus/value") == b"1"
    assert evidence.names("sys/bus/d") == ["value"]


@pytest.mark.parametrize("text", ["../../outside", "../" * 40 + "outside", "/etc", "/proc/self/root"])
def test_a_small_file_leads_out_no_more_than_a_link_does(tree, evidence, outside, text):
    tree.write("sys/link", text)
    assert problem(evidence.read, "sys/link/secret") in ("missing", "not-a-file")
    assert problem(evidence.read, "sys/link/passwd") in ("missing", "not-a-file")


@pytest.mark.parametrize("content", ["plain", "two words/here", "../a\n", "../a\0b", b"../\xff/x", "../" + "a" * 5000, ""])
def test_a_file_that_is_no_link_is_none(tree, evidence, content):
    tree.write("sys/file", content)
    assert problem(evidence.link, "sys/file") in ("not-a-file", "too-large")


def test_small_files_in_a_circle_end(tree, evidence):
    tree.write("a", "./b").write("b", "../b").write("c", "../c/../c")
    for name in ("a/x", "b/x", "c/x"):
        assert problem(evidence.read, name) == "not-a-file"


def test_on_a_live_host_links_are_links(tree):
    tree.write("d/value", "1").write("link", "./d")
    with FileEvidence(str(tree.root), "live") as evidence:
        assert problem(evidence.read, "link/value") in ("missing", "not-a-file")
        assert problem(evidence.link, "link") == "not-a-file"


# --- what reading leaves behind --------------------------------------------------------------------------------------


def test_every_attempt_is_remembered(tree, evidence):
    tree.write("f/a", "1").write("f/big", "x" * 100)
    evidence.read("f/a")
    with evidence.directory("f") as folder:
        folder.read("a")
        folder.open("a").close()
        problem(folder.read, "big", 10)
        problem(folder.read, "none")
    assert evidence.reads == [
        ("", "f/a", None),
        ("f", "a", None),
        ("f", "a", None),
        ("f", "big", "too-large"),
        ("f", "none", "missing"),
    ]


def test_no_descriptor_is_left_open(tree):
    tree.write("a/b/c", "1").link("link", "a/b").write("flat", "a/b")
    os.mkfifo(tree.root / "a/fifo")
    before = os.listdir("/proc/self/fd")
    with FileEvidence(str(tree.root)) as evidence:
        for path in ("a/b/c", "link/c", "flat/c", "a/fifo", "a/none", "none/x", "a/b/c/x", "../../a/b/c"):
            with contextlib.suppress(Unreadable):
                evidence.read(path)
            with contextlib.suppress(Unreadable):
                evidence.names(path)
            with contextlib.suppress(Unreadable):
                evidence.link(path)
        with evidence.directory("a") as folder:
            for name in ("b/c", "../a", "fifo", "b", "none"):
                for call in (folder.read, folder.link, folder.names):
                    with contextlib.suppress(Unreadable):
                        call(name)
                with contextlib.suppress(Unreadable):
                    folder.open(name).close()
    assert os.listdir("/proc/self/fd") == before
