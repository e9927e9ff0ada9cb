"""The drop-in for /etc/default/grub.d, read by the shells that read it on real hosts."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostdoctor.remedies.grub_dropin import drop_in
from hostdoctor.remedies.quoting import for_grub, from_grub, is_sound

VARIABLE = "GRUB_CMDLINE_LINUX_DEFAULT"
SHELLS = [
    pytest.param(shell, marks=pytest.mark.skipif(shutil.which(shell[0]) is None, reason=f"there is no {shell[0]}"))
    for shell in (["dash"], ["bash", "--posix"], ["busybox", "sh"])
]
ACS = "pci=disable_acs_redir=0000:40:01.1/00.0;0000:80:01.1"


def value_after(shell, start, text, times=1):
    """What the variable holds once a shell has read the drop-in as grub-mkconfig reads it; `start` None leaves it unset."""
    setting = "" if start is None else f"{VARIABLE}=$1\n"
    script = f'set -e\n{setting}{text * times}printf "%s" "${VARIABLE}"'
    done = subprocess.run([*shell, "-c", script, "sh", start or ""], capture_output=True, text=True, check=True, timeout=20)
    return done.stdout


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("start", "add", "remove", "end"),
    [
        ("quiet splash", ["iommu=pt"], [], "quiet splash iommu=pt"),
        ("", ["iommu=pt"], [], "iommu=pt"),
        (None, ["iommu=pt"], [], "iommu=pt"),
        ("quiet iommu=pt", ["iommu=pt"], [], "quiet iommu=pt"),
        ("quiet iommu=ptx", ["iommu=pt"], [], "quiet iommu=ptx iommu=pt"),
        ("amd_iommu=on quiet amd_iommu=on", [], ["amd_iommu=on"], "quiet"),
        ("amd_iommu=on", [], ["amd_iommu=on"], ""),
        ("quiet amd_iommu=on splash", ["iommu=pt"], ["amd_iommu=on"], "quiet splash iommu=pt"),
        ("nosplash splash", [], ["splash"], "nosplash"),
        ("a* ? [b] a*", ["c*"], ["a*"], "? [b] c*"),
        ("quiet", [ACS], [], f"quiet {for_grub(ACS)}"),
        (f"quiet {for_grub(ACS)}", [], [ACS], "quiet"),
        ('quiet dyndbg="file pci.c +p"', ["x"], [], 'quiet dyndbg="file pci.c +p" x'),
        ("quiet $vt_handoff", ["iommu=pt"], [], "quiet $vt_handoff iommu=pt"),
    ],
)
def test_what_shells_make_of_it(shell, start, add, remove, end):
    text = drop_in(VARIABLE, add, remove)
    assert value_after(shell, start, text) == end
    assert value_after(shell, start, text, times=2) == end


TOKENS = st.text("abc019=._,:;/@%+*?~^!()[]#{}&|<>$'\\-\"", min_size=1, max_size=12).filter(is_sound)


@settings(max_examples=60, deadline=None)
@given(st.lists(TOKENS, max_size=4), TOKENS, st.data())
@pytest.mark.skipif(shutil.which("dash") is None, reason="there is no dash")
def test_any_sound_parameter_comes_and_goes(before, token, data):
    remove = data.draw(st.sampled_from([[], before[:1]])) if before else []
    start = " ".join(map(for_grub, before))
    kept = [each for each in before if each not in remove]
    wanted = [*kept, *([] if token in kept else [token])]
    found = value_after(["dash"], start, drop_in(VARIABLE, [token], remove))
    assert found.split(" ") == [for_grub(each) for each in wanted]


@given(TOKENS)
def test_grub_hands_on_what_was_meant(token):
    assert from_grub(for_grub(token)) == token


@pytest.mark.parametrize("token", ["iommu=pt", ACS, 'dyndbg="file pci.c +p"', "amdgpu.pcie_p2p=1", "console=ttyS0,115200n8"])
def test_parameters_are_sound(token):
    assert is_sound(token)


@pytest.mark.parametrize("token", ["", "a b", "a\nb", "a\0", 'a"b', "`id`", "a\x1b[2J", "ä", "x" * 2000])
def test_what_is_no_parameter(token):
    assert not is_sound(token)


def test_it_says_how_to_take_it_back():
    assert "delete this file and run: update-grub" in drop_in(VARIABLE, ["iommu=pt"], [])
