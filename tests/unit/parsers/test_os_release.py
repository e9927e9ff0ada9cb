from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.facts.host import KernelVersion
from hostdoctor.facts.unknown import Unknown
from hostdoctor.parsers.kernel_release import parse_release
from hostdoctor.parsers.os_release import parse_os_release

DEBIAN = """PRETTY_NAME="Debian GNU/Linux 13 (trixie)"
NAME="Debian GNU/Linux"
VERSION_ID="13"
VERSION_CODENAME=trixie
ID=debian
HOME_URL="https://www.debian.org/"
"""


def test_debian():
    release = parse_os_release(DEBIAN)
    assert release["PRETTY_NAME"] == "Debian GNU/Linux 13 (trixie)"
    assert (release["ID"], release["VERSION_ID"]) == ("debian", "13")
    assert len(release) == 6


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=b", "b"),
        ("A='b c'", "b c"),
        ("A='b\\c'", "b\\c"),
        ('A="b \\"c\\" \\$d \\\\ \\x"', 'b "c" $d \\ \\x'),
        ("A=b\\ c", "b c"),
        ("A='b'\"c\"d", "bcd"),
        ("A=b # note", "b"),
        ('A="$HOME `id` $(id)"', "$HOME `id` $(id)"),
        ('A="open', "open"),
        ("A='open", "open"),
        ("A=", ""),
        ('A=""', ""),
        ("A=b\r", "b"),
        ("A=b\nA=c", "c"),
        ("  A=b", "b"),
    ],
)
def test_quoting(line, value):
    assert parse_os_release(line) == {"A": value}


@pytest.mark.parametrize("text", ["", "# A=b", "A b", "1A=b", "=b", "A-B=c"])
def test_what_is_no_assignment_is_left_out(text):
    assert parse_os_release(text) == {}


@given(st.text(alphabet=st.characters(exclude_characters="\n\r\0", exclude_categories=["Cs", "Zl", "Zp", "Cc"])))
def test_what_a_shell_quotes_is_read_back(value):
    assert parse_os_release(f"A={shlex.quote(value)}") == {"A": value}


@given(st.text() | st.text(alphabet="A='\"\\ \n$"))
def test_any_text_gives_a_result(text):
    assert isinstance(parse_os_release(text), dict)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("6.8.0-52-generic\n", (6, 8)),
        ("6.12.57+deb13-amd64", (6, 12)),
        ("5.15.167.4-microsoft-standard-WSL2", (5, 15)),
        ("6.11.10-300.fc41.x86_64", (6, 11)),
        ("5.14.0-503.el9.x86_64", (5, 14)),
        ("7.0-rc1", (7, 0)),
        ("6.12", (6, 12)),
    ],
)
def test_kernel_releases(text, version):
    assert parse_release(text) == KernelVersion(*version)


@pytest.mark.parametrize("text", ["", "linux", "6", "v6.8", "6.x", "12345.1", "6.12345", "٦.٨"])
def test_what_is_no_kernel_release(text):
    assert isinstance(parse_release(text), Unknown)


@given(st.text() | st.from_regex(r"[0-9]+\.[0-9]+", fullmatch=True))
def test_any_text_gives_a_version_or_a_reason(text):
    assert isinstance(parse_release(text), KernelVersion | Unknown)
