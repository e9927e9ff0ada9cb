from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor.parsers.cmdline import elements, parse_command_line


def split(text):
    return [(parameter.name, parameter.value) for parameter in parse_command_line(text)[0]]


SPACES = " \t\n\v\f\r\xa0"


def scan(args):
    """The loop of lib/cmdline.c next_arg: where the token ends, and where its = is (0 for none)."""
    in_quote = args[0] == '"'
    start = i = int(in_quote)
    equals = 0
    while args[i] != "\0" and (in_quote or args[i] not in SPACES):
        if equals == 0 and args[i] == "=":
            equals = i - start
        if args[i] == '"':
            in_quote = not in_quote
        i += 1
    return start, i, equals


def next_arg(text):
    """lib/cmdline.c next_arg, transcribed character by character over a C string."""
    found = []
    args = (text.split("\0")[0] + "\0").lstrip(SPACES)
    while args[0] != "\0":
        start, end, equals = scan(args)
        characters = [*args[start:end], "\0"]
        i = end - start
        value_start = None
        if equals:
            characters[equals] = "\0"
            value_start = equals + 1
            if characters[value_start] == '"':
                value_start += 1
                if characters[i - 1] == '"':
                    characters[i - 1] = "\0"
        if start and i > 0 and characters[i - 1] == '"':
            characters[i - 1] = "\0"
        token = "".join(characters)
        found.append((token.split("\0")[0], None if value_start is None else token[value_start:].split("\0")[0]))
        args = (args[end + 1 :] or "\0").lstrip(SPACES)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ro quiet", [("ro", None), ("quiet", None)]),
        (
            "BOOT_IMAGE=(hd0,gpt2)/vmlinuz-5.14 root=UUID=1 ro",
            [("BOOT_IMAGE", "(hd0,gpt2)/vmlinuz-5.14"), ("root", "UUID=1"), ("ro", None)],
        ),
        ('"dyndbg=file pci.c +p" x', [("dyndbg", "file pci.c +p"), ("x", None)]),
        ('dyndbg="file pci.c +p" x', [("dyndbg", "file pci.c +p"), ("x", None)]),
        (r"a\ b", [("a\\", None), ("b", None)]),
        ("'a b'", [("'a", None), ("b'", None)]),
        ('a="b', [("a", "b")]),
        ('a="b c', [("a", "b c")]),
        ('a=b"c d"e f', [("a", 'b"c d"e'), ("f", None)]),
        ('a=""', [("a", "")]),
        ('a="', [("a", "")]),
        ("a=", [("a", "")]),
        ("=a", [("=a", None)]),
        ("=a=b", [("=a", "b")]),
        ('"', [("", None)]),
        ('""', [("", None)]),
        ("  a\t\nb \n", [("a", None), ("b", None)]),
        ("", []),
        ("a\0b", [("a", None)]),
        ("iommu=pt\u00a0quiet", [("iommu", "pt\ufffd"), ("quiet", None)]),
        ("name=größe", [("name", "größe")]),
        (
            "initrd=\\EFI\\proxmox\\6.8.12-4-pve\\initrd.img root=ZFS=rpool/ROOT/pve-1",
            [("initrd", "\\EFI\\proxmox\\6.8.12-4-pve\\initrd.img"), ("root", "ZFS=rpool/ROOT/pve-1")],
        ),
    ],
)
def test_tokens(text, expected):
    assert split(text) == expected


def test_what_follows_two_dashes_is_for_init():
    kernel, init = parse_command_line("init=/bin/sh iommu=pt -- --foo intel_iommu=on")
    assert [parameter.text for parameter in kernel] == ["init=/bin/sh", "iommu=pt"]
    assert [(p.name, p.value) for p in init] == [("--foo", None), ("intel_iommu", "on")]


def test_two_dashes_with_a_value_are_a_parameter():
    kernel, init = parse_command_line("--=x a")
    assert [parameter.name for parameter in kernel] == ["--", "a"]
    assert init == ()


def test_text_and_key_are_kept():
    (parameter,), _ = parse_command_line('"pcie-aspm=off"')
    assert (parameter.text, parameter.name, parameter.key) == ('"pcie-aspm=off"', "pcie-aspm", "pcie_aspm")


@given(st.text(alphabet='ab=" \t\n-\0\xa0', max_size=40))
def test_splits_as_the_kernel_does(text):
    line = text.replace("\xa0", "\f")  # bytes above 7f have a test of their own
    kernel, init = parse_command_line(line)
    expected = next_arg(line)
    dashes = next((index for index, token in enumerate(expected) if token == ("--", None)), len(expected))
    assert [(p.name, p.value) for p in kernel] == expected[:dashes]
    assert [(p.name, p.value) for p in init] == expected[dashes + 1 :]


@given(st.text())
def test_any_text_is_split(text):
    kernel, init = parse_command_line(text)
    assert all(parameter.text for parameter in kernel + init)


def test_an_endless_quote_takes_linear_time():
    (parameter,), _ = parse_command_line('a="' + "b c" * 1_000_000)
    assert len(parameter.text) == 1 << 16


def test_elements_keep_semicolon_lists_together():
    assert elements("realloc,,disable_acs_redir=0000:00:03.0;0000:40:03.0,noaer") == (
        "realloc",
        "disable_acs_redir=0000:00:03.0;0000:40:03.0",
        "noaer",
    )
    assert elements("") == ()
