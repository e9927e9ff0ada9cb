"""Takes pastes apart as people make them."""

from __future__ import annotations

import html

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.formats import FORMATS, recogniser
from hostdoctor.parsers.paste import clean, split

LSPCI = """\
43:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1) (prog-if 00 [VGA controller])
\tSubsystem: Micro-Star International Co., Ltd. [MSI] Device 3884
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x16 (ok)
\tKernel driver in use: nvidia

43:00.1 Audio device: NVIDIA Corporation GA102 High Definition Audio Controller (rev a1)
\tKernel driver in use: snd_hda_intel"""
DMESG = """\
[    0.000000] Linux version 6.8.0-52-generic (buildd@lcy02) #53-Ubuntu SMP
[   12.345678] pcieport 0000:00:01.1: AER: Corrected error received: 0000:01:00.0"""
TOPO = """\
\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity
GPU0\t X \tPHB\t0-15\t0
GPU1\tPHB\t X \t0-15\t0"""
RBT = """\
          RocmBandwidthTest Version: 2.6.0

          Device: 0,  AMD EPYC 7401P
          Device: 1,  AMD Radeon PRO V620,  GPU-93f448b3a5aa3c81,  06:0.0"""
CMDLINE = "BOOT_IMAGE=/vmlinuz-6.8.0-52-generic root=UUID=0a1b ro quiet iommu=pt"


def kinds(text):
    return [part.kind for part in split(text, "paste.txt")]


def lines(text, kind):
    return [part.lines for part in split(text, "paste.txt") if part.kind == kind]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (LSPCI, "lspci"),
        (DMESG, "kernel-log"),
        (TOPO, "nvidia-topo"),
        (RBT, "rocm-bandwidth-test"),
        (CMDLINE, "file:proc/cmdline"),
    ],
)
def test_one_output_alone_is_one_part(text, kind):
    (part,) = split(text, "paste.txt")
    assert (part.kind, part.first_line, part.text) == (kind, 1, text)
    assert part.where(1) == "paste.txt:2"


def test_several_outputs_in_one_file():
    text = "\n\n".join((LSPCI, DMESG, RBT, TOPO, CMDLINE))
    found = split(text, "paste.txt")
    assert [part.kind for part in found] == ["lspci", "kernel-log", "rocm-bandwidth-test", "nvidia-topo", "file:proc/cmdline"]
    for part in found:
        assert text.split("\n")[part.first_line - 1] == part.lines[0]


def test_a_table_of_gpus_may_be_part_of_another_output():
    """Without the words of its heading it is too little to end another tool's output."""
    cut = "GPU0 GPU1\nGPU0 0 1\nGPU1 1 0"
    assert kinds(f"{RBT}\n\n{cut}") == ["rocm-bandwidth-test"]


def test_fences_and_prompts_part_outputs():
    text = f"""Hello, my GPUs are slow.
```
user@box:~$ nvidia-smi topo -m
{TOPO}
user@box:~$ cat /proc/cmdline
{CMDLINE}
```
and this:
```text
[root@box ~]# /opt/rocm/bin/rocm-bandwidth-test
{RBT}
# lspci -vvv
{LSPCI}
```
Thanks!"""
    found = [part for part in split(text, "issue.md") if part.kind]
    assert [(part.kind, part.command) for part in found] == [
        ("nvidia-topo", "nvidia-smi topo -m"),
        ("file:proc/cmdline", "cat /proc/cmdline"),
        ("rocm-bandwidth-test", "/opt/rocm/bin/rocm-bandwidth-test"),
        ("lspci", "lspci -vvv"),
    ]
    assert [part.lines for part in found] == [tuple(each.split("\n")) for each in (TOPO, CMDLINE, RBT, LSPCI)]


def quoted(text):
    return "\n".join(f"> {line}".rstrip() if line else ">" for line in text.split("\n"))


def diffed(text):
    return "@@ -0,0 +1,7 @@\n" + "\n".join(f"+{line}" for line in text.split("\n"))


def coloured(text):
    return "".join(f"\x1b[1;31m{line}\x1b[0m\x1b]0;title\x07\n" for line in text.split("\n"))


@pytest.mark.parametrize(
    "disguise",
    [
        quoted,
        diffed,
        coloured,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\r"),
        lambda text: f"\ufeff{text}",
        lambda text: text.replace(" ", "\u00a0", 3),
        html.escape,
        lambda text: f"<pre><code class='language-text'>{html.escape(text)}</code></pre>",
        lambda text: f"[code]{text}[/code]",
    ],
)
@pytest.mark.parametrize(("text", "kind"), [(LSPCI, "lspci"), (DMESG, "kernel-log"), (RBT, "rocm-bandwidth-test")])
def test_disguises(disguise, text, kind):
    found = [part for part in split(disguise(text), "paste.txt") if part.kind]
    assert [part.kind for part in found] == [kind]
    assert [line.strip() for line in found[0].lines if line.strip()] == [
        line.strip() for line in text.split("\n") if line.strip()
    ]


def test_the_signs_of_a_file_in_xml_are_its_own():
    text = '<?xml version="1.0" ?>\n<nvidia_smi_log>\n<product_name>A &amp; B</product_name>\n</nvidia_smi_log>'
    (part,) = (part for part in split(text, "smi.xml") if part.kind == "nvidia-smi-xml")
    assert "A &amp; B" in part.text


def test_tabs_that_became_blanks():
    assert kinds(LSPCI.replace("\t", "        ")) == ["lspci"]


def test_a_cut_head_is_still_recognised():
    body = "\n".join(LSPCI.split("\n")[1:5])
    assert [kind for kind in kinds(f"{body}\n{DMESG}") if kind] == ["lspci-fields", "kernel-log"]


def test_what_is_nothing_known_is_kept_with_its_place():
    (part,) = split("first\n\nsecond\n", "note.txt")
    assert (part.kind, part.lines, part.where()) == ("", ("first", "", "second"), "note.txt:1")


def test_prose_between_log_lines_is_a_part_of_its_own():
    text = f"{DMESG}\nthen it hung\n{DMESG}"
    assert kinds(text) == ["kernel-log", "", "kernel-log"]


@pytest.mark.parametrize("text", ["", "\n\n\n", "   ", "\x00\x01", "```\n```"])
def test_nothing(text):
    assert split(text, "paste.txt") == []


def test_no_escape_is_left():
    text = "\x1b]8;;http://example.invalid\x07click\x1b]8;;\x07 \x1b[2J\x9b31m\x1bP1$r\x1b\\ \x08\x7f\x85 end"
    assert clean(text).isprintable()


@given(st.text(max_size=400))
def test_any_text_is_taken_apart(text):
    found = split(text, "paste.txt")
    for part in found:
        assert part.lines
        assert part.first_line >= 1
    numbers = [part.first_line for part in found]
    assert numbers == sorted(numbers)


@given(st.lists(st.sampled_from([*LSPCI.split("\n"), *DMESG.split("\n"), *RBT.split("\n"), *TOPO.split("\n"), "```", "$ ls"])))
def test_no_line_is_lost_or_told_twice(chosen):
    found = split("\n".join(chosen), "paste.txt")
    seen = [(part.first_line + number, line) for part in found for number, line in enumerate(part.lines) if line.strip()]
    expected = [(number, line) for number, line in enumerate(chosen, 1) if line.strip() and line not in ("```", "$ ls")]
    assert seen == expected


def test_patterns_have_no_groups_of_their_own():
    names = set(recogniser().pattern.groupindex)
    assert recogniser().pattern.groups == len(names)
    assert len(names) == sum(bool(each.start) + bool(each.inside) for each in FORMATS)


@pytest.mark.parametrize(
    "unit", [" ", "a", "0", "[", "GPU0 ", "\t", "=", "root=", "0000:00:00.0 ", "-", "x: ", "uid=0(", "crw-rw-rw- "]
)
def test_long_lines_do_no_harm(unit):
    line = unit * (16_000 // len(unit))
    split(f"{line}\n" * 50, "paste.txt")


TABLE = """\
Thu Jan 13 09:12:44 2022
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 470.82.01    Driver Version: 470.82.01    CUDA Version: 11.4     |
|   0  NVIDIA RTX A6000    On   | 00000000:CA:00.0 Off |                  Off |
+-----------------------------------------------------------------------------+"""


def test_a_table_begins_with_its_frame_and_date():
    (part,) = split(TABLE, "paste.txt")
    assert (part.kind, part.first_line) == ("nvidia-smi", 1)


def test_a_complaint_before_a_table_does_not_swallow_it():
    text = f"Unable to determine the device handle for GPU 0000:41:00.0: Unknown Error\n{TABLE}"
    assert "NVIDIA RTX A6000" in "\n".join(line for part in lines(text, "nvidia-smi") for line in part)


@pytest.mark.parametrize("table", [TOPO, " GPU0\tX\tOK\n GPU1\tOK\tX"])
def test_matrices_right_below_a_table(table):
    assert kinds(f"{TABLE}\n\n{table}") == ["nvidia-smi", "nvidia-topo"]


@pytest.mark.parametrize(
    ("above", "command"),
    [
        ("user@box:~$ nvidia-smi topo -m", "nvidia-smi topo -m"),
        ("nvidia-smi topo -p2p w:", "nvidia-smi topo -p2p w"),
        ("### `nvidia-smi topo -p2p r`", "nvidia-smi topo -p2p r"),
        ("/usr/bin/nvidia-smi topo -m", "nvidia-smi topo -m"),
        ("nvidia-smi is what I ran, and it printed:", ""),
    ],
)
def test_commands_with_and_without_a_prompt(above, command):
    (part,) = (part for part in split(f"{above}\n{TOPO}", "paste.txt") if part.kind)
    assert part.command == command


def test_rows_without_a_heading_are_known_by_their_command():
    text = "$ nvidia-smi --query-gpu=pcie.link.gen.current,pstate --format=csv,noheader\n4, P0\n1, P8\n$ ls"
    (part,) = (part for part in split(text, "paste.txt") if part.kind)
    assert (part.kind, part.lines) == ("nvidia-query", ("4, P0", "1, P8"))


def test_a_heading_keeps_the_command():
    text = "$ nvidia-smi --query-gpu=pstate,pcie.link.gen.max --format=csv\npstate, pcie.link.gen.max\nP0, 4"
    (part,) = (part for part in split(text, "paste.txt") if part.kind)
    assert part.command.startswith("nvidia-smi --query-gpu")


def test_sections_of_a_bug_report():
    rule = "____________________________________________"
    text = f"""{rule}

*** /proc/cmdline
*** ls: -r--r--r-- 1 root root 0 2025-01-18 10:12:44.611920388 +0000 /proc/cmdline
{CMDLINE}

{rule}

/usr/bin/nvidia-smi --query

==============NVSMI LOG==============

Attached GPUs                             : 0

{rule}

Skipping ldd output (glxinfo not found)"""
    assert kinds(text) == ["file:proc/cmdline", "nvidia-smi-q", ""]
    assert lines(text, "file:proc/cmdline") == [(CMDLINE,)]
