from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.kernel_log import read_log, read_logs
from hostdoctor.parsers.paste import split

TEXT = "pcieport 0000:00:01.1: PCIe Bus Error: severity=Correctable"


def read(text):
    return read_log("log", list(enumerate(text.split("\n"), 1)))


def one(line):
    log = read(line)
    return [(message.seconds, message.text) for message in log.messages]


@pytest.mark.parametrize(
    ("prefix", "seconds"),
    [
        ("", None),
        ("    ", None),
        ("[    1.234567] ", 1.234567),
        ("   [    1.234567] ", 1.234567),
        ("[90117.102211] ", 90117.102211),
        ("[    1.234567][    T1] ", 1.234567),
        ("[    1.234567][ T4021@C12] ", 1.234567),
        ("[    1.234567][    C3] ", 1.234567),
        ("[90117.102211 <    0.000017>] ", 90117.102211),
        ("<4>[    1.234567] ", 1.234567),
        ("kern  :warn  : [    1.234567] ", 1.234567),
        ("kern  :err   : [Tue Nov  5 00:21:55 2024] ", 0.0),
        ("[Tue Nov  5 00:21:55 2024] ", 0.0),
        ("[Di Nov  5 00:21:55 2024] ", 0.0),
        ("[lun. févr. 12 21:03:18 2024] ", 0.0),
        ("[日  2月 11 21:03:18 2024] ", 0.0),
        ("[  +0.500000] ", 0.5),
        ("2024-11-23T02:41:07,123456+01:00 ", 0.0),
        ("Nov 23 02:41:07 bench1 kernel: ", 0.0),
        ("Nov  3 02:41:07.123456 bench1 kernel: ", 0.0),
        ("Nov  3 02:41:07 kernel: ", 0.0),
        ("Nov  3 02:41:07 bench1 kern.info kernel: [    1.234567] ", 1.234567),
        ("Nov 23 02:41:07 bench1 kernel: [90117.102211] ", 90117.102211),
        ("2024-11-23T02:41:07+0100 bench1 kernel: ", 0.0),
        ("2024-11-23T02:41:07.123456+01:00 bench1 kernel: [90117.102211] ", 90117.102211),
        ("2024-11-23T01:41:07.123456Z bench1 kernel: ", 0.0),
        ("Sat 2024-11-23 02:41:07 CET bench1 kernel: ", 0.0),
        ("[90117.102211] bench1 kernel: ", 90117.102211),
        ("[90117.102211] kernel: ", 90117.102211),
        ("févr. 11 21:03:18 tour kernel: ", 0.0),
        (" 2月 11 21:03:18 tour kernel: ", 0.0),
        ("4,1234,5678,-;", 0.005678),
        ("4,1234,5678,-,caller=T1;", 0.005678),
        ("1234:[    1.234567] ", 1.234567),
        ("kern.log.1:Nov 23 02:41:07 bench1 kernel: [90117.102211] ", 90117.102211),
        ("- [   90.102211] ", 90.102211),
        ("`[   90.102211] ", 90.102211),
        ("| [   90.102211] ", 90.102211),
        ("[   90.102211] [    T77] ", 90.102211),
        ("2024-11-23T02:41:07.123456789Z [   90.102211] ", 90.102211),
        ("10.5.0.2: kern: warning: [2024-11-23T02:41:07.123456789Z]: ", 0.0),
        ("kern  :err   : 2024-11-23T02:41:07,123456+01:00 ", 0.0),
        ("/var/log/kern.log:77:Nov 23 02:41:07 bench1 kernel: [90117.102211] ", 90117.102211),
    ],
)
def test_a_prefix_is_taken_off_and_its_time_read(prefix, seconds):
    assert one(prefix + TEXT) == [(seconds, TEXT)]
    parts = split(prefix + TEXT, "log")
    assert [part.kind for part in parts] == ["kernel-log"]


@pytest.mark.parametrize(
    "line",
    [
        "Nov 23 02:41:07 bench1 systemd[1]: Started something.",
        "févr. 11 21:03:18 tour gdm[77]: NVRM: Xid (PCI:0000:04:00): 79",
        "2024-11-23T02:41:07+0100 bench1 sudo[901]: root : COMMAND=/usr/bin/dmesg",
        "[90117.102211] bench1 NetworkManager[801]: <info>",
        "<30>[    1.234567] systemd[1]: Started something.",
        "daemon:info  : [    1.234567] systemd[1]: Started something.",
        "30,1234,5678,-;systemd[1]: Started something.",
    ],
)
def test_lines_of_other_programs_do_not_count(line):
    assert one(line) == []


def test_the_message_keeps_its_own_brackets_and_colons():
    assert one("[    1.234567] pcieport 0000:00:1c.0:    [ 0] RxErr   (First)")[0][1] == (
        "pcieport 0000:00:1c.0:    [ 0] RxErr   (First)"
    )
    assert one("2024-11-23T02:41:07,123456+01:00 kfd kfd: amdgpu: added device 1002:66a1")[0][1] == (
        "kfd kfd: amdgpu: added device 1002:66a1"
    )


def test_lines_are_numbered_as_in_the_file():
    text = "a note\n\n[    1.000000] pci a\nanother note\n[    2.000000] pci b"
    (log,) = read_logs([part for part in split(text, "paste.md") if part.kind])
    assert [(log.where(message), message.text) for message in log.messages] == [
        ("paste.md:3", "pci a"),
        ("paste.md:5", "pci b"),
    ]


def test_repeated_messages_are_counted():
    log = read(
        "Nov 23 02:41:07 h kernel: [  7.100000] pci a\n"
        "Nov 23 02:41:08 h kernel: message repeated 5 times: [ [  7.100000] pci b]\n"
        "Nov 23 02:41:09 h kernel: last message repeated 3 times"
    )
    assert [(message.text, message.count) for message in log.messages] == [("pci a", 1), ("pci b", 5), ("pci b", 3)]


def test_wall_clocks_become_seconds_since_the_first_line_also_over_months():
    log = read("janv. 31 23:59:59 h kernel: a\nfévr.  1 00:00:01 h kernel: b\n")
    assert [message.seconds for message in log.messages] == [0.0, 2.0]
    log = read("2024-01-31T23:59:59+0100 h kernel: a\n2024-02-01T00:00:01.5+0100 h kernel: b")
    assert [message.seconds for message in log.messages] == [0.0, 2.5]


def test_times_since_boot_win_over_wall_clocks():
    log = read("Nov 23 02:41:07 h kernel: [   50.100000] a\nNov 23 02:41:09 h kernel: b")
    assert [message.seconds for message in log.messages] == [50.1, None]


def test_relative_stamps_add_up():
    log = read("[Nov23 02:41] a\n[  +0.250000] b\n[  +1.000000] c")
    assert [message.seconds for message in log.messages] == [0.0, 0.25, 1.25]


@pytest.mark.parametrize(
    "text",
    [
        "[    0.000000] Linux version 6.1.0\n[  900.000000] a\n[    0.000000] Linux version 6.1.0\n[    5.000000] b",
        "[    0.000000] Linux version 6.1.0\n[    2.000000] a\n[    0.000000] Linux version 6.1.0\n[    5.000000] b",
        "Nov 23 02:41:07 h kernel: a\n-- Boot 0123456789abcdef0123456789abcdef --\nNov 23 02:45:07 h kernel: b",
        "-- Boot 0123456789abcdef0123456789abcdef --\nNov 23 02:41:07 h kernel: a\n-- Reboot --\nNov 23 02:45:07 h kernel: b",
        "[90000.000000] a\n[    3.000000] b",
    ],
)
def test_boots_are_told_apart(text):
    log = read(text)
    assert (log.messages[0].boot, log.messages[-1].boot, log.boots) == (0, 1, 2)


def test_one_boot_with_a_word_before_its_first_message():
    log = read(
        "[    0.000000] microcode: updated early\n[    0.000000] Linux version 6.1.0\n[    1.000000] a\n[    0.900000] b"
    )
    assert (log.boots, log.from_boot) == (1, True)
    assert not read("[   50.000000] a").from_boot


@given(st.text(alphabet=st.sampled_from("[]<>():-.,; 0123456789kernelpciNov févr\n\t"), max_size=200))
def test_any_text_is_read(text):
    read(text)


@given(st.integers(0, 400))
def test_a_log_cut_anywhere_is_read(at):
    text = f"Nov 23 02:41:07 h kernel: [   50.100000] {TEXT}\n<4>[    1.234567] {TEXT}\n4,1,5678,-;{TEXT}\n2024-11-23T02:41:07"
    read(text[:at])
    read(text[at:])


def test_a_restart_in_a_log_with_wall_clocks_alone():
    log = read(
        "Nov 23 02:41:07 h kernel: pci a\nNov 23 02:41:57 h kernel: Linux version 6.8.0\nNov 23 02:41:57 h kernel: pci b"
    )
    assert ([message.boot for message in log.messages], log.from_boot) == ([0, 1, 1], True)


def test_what_some_kernels_write_before_their_version_is_no_boot_of_its_own():
    log = read("Nov 23 02:41:57 h kernel: microcode: updated early\nNov 23 02:41:57 h kernel: Linux version 6.8.0")
    assert (log.boots, log.from_boot) == (1, True)


def test_the_journals_heading_is_part_of_the_log():
    heading = "-- Logs begin at Fri 2024-04-05 09:00:00 CEST, end at Fri 2024-04-05 13:00:00 CEST. --\n"
    assert [part.kind for part in split(heading + "Nov 23 02:41:57 h kernel: pci a", "journal")] == ["kernel-log"]
