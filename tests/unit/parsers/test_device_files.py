"""ls -l, getfacl, id, groups and ulimit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.device_files import (
    mode_of,
    parse_acls,
    parse_groups,
    parse_id,
    parse_listing,
    parse_memlock,
)

LISTING = """total 0
drwxr-xr-x  2 root root        120 Feb 20 08:11 by-path
crw-rw----+ 1 root video  226,   0 Feb 20 08:11 card0
crw-rw----. 1 root render 226, 128 2024-05-01 10:00 /dev/dri/renderD128
crw-rw-rw-  1 root root   195, 255 févr. 20 08:11 nvidiactl
brw-rw----  1 root disk     8,   0 Feb 20 08:11 /dev/sda
ls: cannot access '/dev/kfd': No such file or directory
"""


def test_a_listing():
    nodes, missing = parse_listing(LISTING.splitlines())
    assert [(node.path, node.group, node.mode, node.has_acl) for node in nodes] == [
        ("/dev/dri/card0", "video", 0o660, True),
        ("/dev/dri/renderD128", "render", 0o660, False),
        ("/dev/nvidiactl", "root", 0o666, False),
        ("/dev/sda", "disk", 0o660, False),
    ]
    assert [path for path, _ in missing] == ["/dev/kfd"]


@pytest.mark.parametrize(
    ("text", "mode"), [("rw-rw----", 0o660), ("rwxr-xr-x", 0o755), ("---------", 0), ("rw-rw-rwT", 0o666), ("rw", 0o600)]
)
def test_modes(text, mode):
    assert mode_of(text) == mode


@pytest.mark.parametrize("word", ["groups", "groupes", "Gruppen", "групи"])
def test_id_in_any_language(word):
    user = parse_id([f"uid=1000(a b) gid=1000(a) {word}=1000(a),44(video),100(domain users),109 context=u:r:t:s0"])
    assert (user.number, user.name) == (1000, "a b")
    assert user.groups == ((1000, "a"), (44, "video"), (100, "domain users"), (109, ""))


def test_id_without_groups_has_the_first():
    assert parse_id(["uid=0(root) gid=0(root)"]).groups == ((0, "root"),)
    assert parse_id(["no id"]) is None


def test_groups():
    assert parse_groups(["alice : alice video render"]).groups == ((None, "alice"), (None, "video"), (None, "render"))
    assert parse_groups(["root : root"]).number == 0
    assert parse_groups(["alice video"]).name == ""
    assert parse_groups(["(!)"]) is None


def test_access_lists():
    text = "# file: dev/kfd\n# owner: root\n# group: render\nuser::rw-\nuser:a:r--\nmask::rw-\n\n# file: dev/x\ngroup::---"
    first, second = parse_acls(text.splitlines())
    assert (first.path, first.group) == ("/dev/kfd", "render")
    assert first.rights == {("user", ""): 6, ("user", "a"): 4, ("mask", ""): 6}
    assert (second.path, second.rights) == ("/dev/x", {("group", ""): 0})


@pytest.mark.parametrize(
    ("line", "limit"),
    [
        ("unlimited", -1),
        ("8192", 8192 << 10),
        ("max locked memory           (kbytes, -l) 65536", 65536 << 10),
        ("max locked memory       (kbytes, -l) unlimited", -1),
        ("max user processes (-u) 5", None),
    ],
)
def test_locked_memory(line, limit):
    assert parse_memlock([line]) == limit


@given(st.lists(st.text() | st.sampled_from(LISTING.splitlines()), max_size=8))
def test_any_text(lines):
    parse_listing(lines)
    parse_acls(lines)
    parse_id(lines)
    parse_groups(lines)
    parse_memlock(lines)


@pytest.mark.parametrize("cut", ["", " gid=1000(a)", " gid=1000(a) groups=1000(a),", " gid=1000(a) groups=1000(a),27(su"])
def test_an_id_that_the_paste_cuts_is_nobodys(cut):
    assert parse_id([f"uid=1000(a){cut}"]) is None
