"""The file of grub.d that hostdoctor writes, read back: what it says is what the shell makes of it."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostdoctor.parsers.grub_default import evaluate
from hostdoctor.parsers.grub_dropin import Step, is_ours, read_drop_in
from hostdoctor.remedies.grub_dropin import NAME, drop_in_of

V, W = "GRUB_CMDLINE_LINUX_DEFAULT", "GRUB_CMDLINE_LINUX"
needs_dash = pytest.mark.skipif(shutil.which("dash") is None, reason="there is no dash")

TOKENS = st.text("ab=;.\\$\"'`*[ ", min_size=1, max_size=8).filter(lambda text: text.strip() == text and "  " not in text)
STEPS = st.lists(st.builds(Step, st.sampled_from([V, W]), TOKENS, st.booleans()), min_size=1, max_size=5)


def without_lines(steps):
    return [Step(each.variable, each.token, each.adds) for each in steps]


@given(STEPS)
def test_what_was_written_is_read(steps):
    found = read_drop_in(drop_in_of(steps))
    assert without_lines(found) == steps
    lines = drop_in_of(steps).split("\n")
    assert all(each.variable in lines[each.line - 1] for each in found)


@needs_dash
@settings(max_examples=60, deadline=None)
@given(STEPS, st.lists(TOKENS, max_size=5).map(" ".join), st.data())
def test_the_shell_does_what_is_read(steps, value, data):
    if data.draw(st.booleans()):
        value = " ".join([value, *(each.token for each in steps)]).strip()
    text = drop_in_of(steps)
    program = f'set -e\n{V}=$1 {W}=$2\n{text}printf "%s\\0%s" "${V}" "${W}"'
    done = subprocess.run(["dash", "-c", program, "sh", value, "x"], capture_output=True, text=True, check=True, timeout=20)
    start = "".join(
        f"{name}='{text_.replace(chr(39), chr(39) + chr(92) + chr(39) * 2)}'\n" for name, text_ in ((V, value), (W, "x"))
    )
    found = evaluate([("grub", start), (NAME, text)])
    assert [found.value(V), found.value(W)] == done.stdout.split("\0")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + f'{V}="x"\n',
        lambda text: text.replace("esac", "esac; reboot"),
        lambda text: text.replace("iommu=pt", "$(reboot)"),
        lambda text: text.replace("iommu=pt", "iommu=`x`"),
        lambda text: text.replace("}iommu=pt", "}iommu=off"),
        lambda text: text.replace("  *) ", "  *)"),
        lambda text: text[:-2],
        lambda text: "# hostdoctor\n",
        lambda text: "",
    ],
)
def test_what_was_changed_by_hand_is_not_taken_for_ours(change):
    text = drop_in_of([Step(V, "iommu=pt", True), Step(V, "quiet", False)])
    assert read_drop_in(text)
    assert read_drop_in(change(text)) is None


@given(st.text(max_size=300))
def test_any_text_can_be_read(text):
    assert read_drop_in(f"# hostdoctor\n{text}") is None or "case" in text


@settings(max_examples=50)
@given(STEPS, st.integers(0, 2000))
def test_it_can_be_cut_anywhere(steps, length):
    text = drop_in_of(steps)
    found = read_drop_in(text[:length])
    assert found is None or without_lines(found) == steps[: len(found)]


def test_names():
    assert is_ours("/etc/default/grub.d/zz-hostdoctor.cfg")
    assert is_ours("zzzz-hostdoctor.cfg")
    assert not is_ours("/etc/default/grub.d/hostdoctor.cfg")
    assert not is_ours("zz-hostdoctor.cfg.bak")


def test_a_value_that_is_not_known_stays_so():
    found = evaluate([("grub", f'[ -e /x ] && {V}="quiet"\n'), (NAME, drop_in_of([Step(V, "a", True)]))])
    assert "under a condition" in found.value(V).reason
    assert found.value(W) == ""
