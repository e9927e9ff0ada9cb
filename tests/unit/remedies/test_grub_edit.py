"""The editor of /etc/default/grub, with the shells that read it as judges: what is asked for, in one place, or a refusal."""

from __future__ import annotations

import pytest

from hostdoctor.parsers.grub_cfg import grub_words
from hostdoctor.remedies.grub_files import PATH, follow, refuse_broken
from hostdoctor.remedies.loaders.grub_edit import edited
from hostdoctor.remedies.patch import Refused, Request
from tests.unit.remedies.grub_host import ALWAYS, DEFAULT, GrubHost
from tests.unit.remedies.grub_inputs import BLOCK, INPUTS, MISSING, NO, PLACE, SHELLS, by_chance, sourced

ACS = "pci=disable_acs_redir=0000:40:01.1/00.0;0000:80:01.1"
MARK = "# >>> hostdoctor >>>"
needs_shells = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
COUNT = 150  # for each request and shell
REQUESTS = [
    Request(("intel_iommu=on", "iommu=pt")),
    Request(("iommu=pt",), ("splash",)),
    Request((), ("quiet", "splash")),
    Request((ACS,)),
]


def change(text, request, shell="bash", variable=DEFAULT):
    """The text after a change, None where it is refused."""
    try:
        grub = follow({PATH: text}, shell == "bash")
        refuse_broken(grub)
        return edited(grub, request, variable).texts[PATH]
    except Refused as refused:
        return None if refused.reason and refused.manual else ""


def judge(shell, folder, pairs, request):
    """Hold pairs of texts, before and after, against the shell; returns how many were edited."""
    pairs = [(old, new) for old, new in pairs if new is not None and new != old]
    old_values = sourced(folder / "old", shell, [old for old, _ in pairs])
    new_values = sourced(folder / "new", shell, [new for _, new in pairs])
    for (old, new), before, after in zip(pairs, old_values, new_values, strict=True):
        assert before is not None, old
        assert after is not None, new
        words = [grub_words(value) for value in (before[0], after[0])]
        kept = [word for word in words[0] if word not in request.remove]
        there = [*kept, *(word for word in grub_words(before[1]) if word not in request.remove)]
        assert words[1] == [*kept, *(each for each in request.add if each not in there)], (old, new)
        always = [word for word in grub_words(before[1]) if word not in request.remove]
        assert grub_words(after[1]) == always
        if grub_words(before[1]) == always:
            assert before[1] == after[1]
            assert before[2] == after[2], (old, new)
    return len(pairs)


def is_one_place(old, new):
    """Whether nothing but one line differs, or a block was added behind everything."""
    if new.startswith(old.rstrip("\n")) and MARK in new[len(old.rstrip("\n")) :]:
        return True
    before, after = old.split("\n"), new.split("\n")
    return len(before) == len(after) and sum(one != other for one, other in zip(before, after, strict=True)) == 1


@needs_shells
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("request_", REQUESTS)
def test_all_inputs_are_changed_rightly_or_refused(tmp_path, shell, request_):
    pairs = [(text, change(text, request_, shell)) for _, text, _, _ in INPUTS]
    assert judge(shell, tmp_path, pairs, request_) > 12
    for old, new in pairs:
        if new is not None and new != old and not request_.remove:
            assert is_one_place(old, new), (old, new)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("name", "text", "by_dash", "by_bash"), INPUTS, ids=[each[0] for each in INPUTS])
def test_how_each_input_is_changed(shell, name, text, by_dash, by_bash):
    new = change(text, Request(("iommu=pt",)), shell)
    how = NO if new is None else BLOCK if MARK in new else PLACE
    assert how == (by_dash if shell == "dash" else by_bash), name


@needs_shells
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("request_", REQUESTS)
def test_quotings_by_chance(tmp_path, shell, request_):
    first = 1000 * REQUESTS.index(request_)
    texts = [by_chance(seed) for seed in range(first, first + COUNT)]
    pairs = [(text, change(text, request_, shell)) for text in texts]
    edited_ = judge(shell, tmp_path, pairs, request_)
    unchanged = sum(new == old for old, new in pairs)
    assert edited_ + unchanged > 0.55 * COUNT
    for old, new in pairs:
        if new is not None and new != old:
            assert change(new, request_, shell) == new, "a second time nothing is left to do"
            if not request_.remove:
                assert is_one_place(old, new), (old, new)


@pytest.mark.parametrize(
    ("text", "add", "remove", "end"),
    [
        (f'{DEFAULT}="quiet splash"\n', ["a"], ["splash"], f'{DEFAULT}="quiet a"\n'),
        (f"{DEFAULT}='quiet splash'  # keep\n", ["a"], ["quiet"], f"{DEFAULT}='splash a'  # keep\n"),
        (f"{DEFAULT}=quiet\n", ["a", "b"], [], f'{DEFAULT}=quiet" a b"\n'),
        (f"{DEFAULT}=\n", ["a"], [], f'{DEFAULT}="a"\n'),
        (f'{DEFAULT}="quiet "\n', ["a"], [], f'{DEFAULT}="quiet a"\n'),
        (f"""{DEFAULT}="quiet"' splash'\n""", [], ["splash"], f"""{DEFAULT}="quiet"''\n"""),
        (f'{DEFAULT}="splash quiet splash"\n', [], ["splash"], f'{DEFAULT}="quiet"\n'),
        (f'{DEFAULT}="quiet nosplash"\n', [], ["splash"], f'{DEFAULT}="quiet nosplash"\n'),
        (f'{DEFAULT}="quiet dyndbg=\\"file pci.c +p\\" x"\n', [], ['dyndbg="file pci.c +p"'], f'{DEFAULT}="quiet x"\n'),
        (
            f'{DEFAULT}="quiet splash"\n{DEFAULT}="${DEFAULT} x"\n',
            [],
            ["splash"],
            f'{DEFAULT}="quiet"\n{DEFAULT}="${DEFAULT} x"\n',
        ),
        (f'{ALWAYS}="quiet a"\n{DEFAULT}="quiet"\n', ["a"], ["quiet"], f'{ALWAYS}="a"\n{DEFAULT}=""\n'),
    ],
)
def test_edits(text, add, remove, end):
    found = change(text, Request(tuple(add), tuple(remove)))
    assert found == end


def test_a_semicolon_is_written_so_that_grub_keeps_it():
    assert change(f'{DEFAULT}="quiet"\n', Request(("a=b;c",))) == f'{DEFAULT}="quiet a=b\\\\;c"\n'
    assert change(f"{DEFAULT}='quiet'\n", Request(("a=b;c",))) == f"{DEFAULT}='quiet a=b\\;c'\n"


def test_a_block_grows_and_goes():
    start = f'{DEFAULT}="$(echo quiet)"'
    first = change(start, Request(("a",)))
    assert first == f'{start}\n{MARK}\n{DEFAULT}="${{{DEFAULT}:+${DEFAULT} }}a"\n# <<< hostdoctor <<<\n'
    start = f'if true; then {DEFAULT}="quiet"; fi\nunset {DEFAULT}\n'
    one = change(start, Request(("a",)))
    two = change(one, Request(("b",)))
    assert two == one.replace("}a", "}a b")
    assert change(two, Request((), ("a",))) == one.replace("}a", "}b")
    assert change(two, Request((), ("b", "a"))) == start


# --- hosts ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def arch(tmp_path):
    return lambda text, **more: GrubHost(tmp_path / "host", system="arch", grub=text, **more)


def test_a_patch_for_arch(arch):
    host = arch(f'GRUB_TIMEOUT=5\n{DEFAULT}="loglevel=3 quiet"\n{ALWAYS}=""\n')
    patch = host.patch(["iommu=pt"], ["quiet"])
    assert patch.commands == ("grub-mkconfig -o /boot/grub/grub.cfg",)
    assert patch.result == "root=UUID=1111-2222 ro loglevel=3 iommu=pt"
    assert patch.revert == ("patch -R -p1 -d / < FILE", *patch.commands)
    assert "write quiet" in patch.once_without
    host.apply(patch)
    assert host.configured() == ["loglevel=3", "iommu=pt"]
    assert host.patch(["iommu=pt"], ["quiet"]).files == ()


@pytest.mark.parametrize(
    "text",
    [
        f'{DEFAULT}="quiet"',
        f'# caf\udce9 \u00e4\n{DEFAULT}="quiet"\n',
        f"# form\x0cfeed \u2028 \x85\n{DEFAULT}=quiet",
        f"GRUB_TIMEOUT=1\n{'# filler' * 9}\n" * 9 + f'{DEFAULT}="quiet"\n' + "# more\n" * 9,
        "GRUB_TIMEOUT=5",
    ],
)
def test_diffs_apply_to_the_byte(arch, text):
    host = arch(text)
    host.apply(host.patch(["iommu=pt"]))
    assert host.configured()[-1] == "iommu=pt"
    if "\udce9" in text:
        assert b"# caf\xe9 \xc3\xa4\n" in host.read("etc/default/grub")


def test_grub_of_arch_that_reads_drop_ins(arch):
    host = arch(f'{DEFAULT}="quiet"\n').write("usr/bin/grub-mkconfig", "for x in /etc/default/grub.d/*.cfg; do . $x; done\n")
    patch = host.patch(["iommu=pt"])
    assert patch.files[0].path == "/etc/default/grub.d/zz-hostdoctor.cfg"
    assert "grub-mkconfig -o /boot/grub/grub.cfg" in patch.files[0].after
    assert patch.commands == ("grub-mkconfig -o /boot/grub/grub.cfg",)


def test_grub_of_debian_that_does_not(tmp_path):
    host = GrubHost(tmp_path / "host", grub=f'{DEFAULT}="quiet"\n').write("usr/sbin/grub-mkconfig", "#!/bin/sh\n")
    patch = host.patch(["iommu=pt"])
    assert patch.files[0].path == "/etc/default/grub"
    assert patch.commands == ("update-grub",)


@pytest.mark.parametrize("line", ["# Ansible managed", "# This file is managed by Puppet.", "# managed by cloud-init: no"])
def test_what_a_configuration_management_keeps_is_left_to_it(arch, line):
    host = arch(f'{DEFAULT}="quiet"\n{line}\n')
    with pytest.raises(Refused, match="line 2"):
        host.patch(["iommu=pt"])
    assert host.patch(["quiet"]).files == ()


def test_a_refusal_names_the_line_to_change(arch):
    with pytest.raises(Refused) as refused:
        arch(f'GRUB_TIMEOUT=5\n{DEFAULT}="quiet"\nreturn 0\n').patch(["iommu=pt"])
    assert refused.value.reason.startswith("/etc/default/grub, line 3: return")
    assert refused.value.manual == f'Change line 2 of /etc/default/grub by hand: {DEFAULT}="quiet"'


def test_without_the_file_there_is_no_patch(tmp_path):
    with pytest.raises(Refused, match="not in the evidence"):
        GrubHost(tmp_path / "host", system="arch").patch(["iommu=pt"])


@pytest.mark.parametrize("is_made", [True, False])
def test_any_distribution_whose_grub_cfg_was_made_from_the_defaults(tmp_path, is_made):
    mark = "### BEGIN /etc/grub.d/10_linux ###\n" if is_made else ""
    host = GrubHost(tmp_path / "host", grub=f'{DEFAULT}="quiet"\n').write("etc/os-release", "ID=void\n")
    host.write("boot/grub/grub.cfg", f"{mark}menuentry 'Void' {{\n\tlinux /boot/vmlinuz root=UUID=1111-2222 ro quiet\n}}\n")
    if is_made:
        patch = host.patch(["iommu=pt"])
        assert patch.commands == ("grub-mkconfig -o /boot/grub/grub.cfg",)
        assert host.apply(patch).configured() == ["quiet", "iommu=pt"]
    else:
        with pytest.raises(Refused):
            host.patch(["iommu=pt"])
