"""GRUB with grub.d: the drop-in that is written there, what it leaves alone, and what is refused."""

from __future__ import annotations

import pytest

from hostdoctor.remedies.patch import Refused
from tests.unit.remedies.grub_host import ALWAYS, DEFAULT, GrubHost

OURS = "etc/default/grub.d/zz-hostdoctor.cfg"
GRUB_CFG = """\
### BEGIN /etc/grub.d/10_linux ###
menuentry 'Debian' {{
\tlinux\t/boot/vmlinuz-6.8.0-52-generic root=UUID=1111-2222 ro {0}
}}
### END /etc/grub.d/10_linux ###
"""
STOCK = """\
# If you change this file, run 'update-grub' afterwards to update
# /boot/grub/grub.cfg.
GRUB_DEFAULT=0
GRUB_TIMEOUT=5
GRUB_DISTRIBUTOR=`lsb_release -i -s 2> /dev/null || echo Debian`
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
GRUB_CMDLINE_LINUX=""
"""


@pytest.fixture
def host(tmp_path):
    return lambda grub=STOCK, **more: GrubHost(tmp_path / "host", grub=grub, **more)


def test_a_new_file_and_nothing_else(host):
    patch = host().patch(["iommu=pt"])
    assert [(each.path, each.before) for each in patch.files] == [(f"/{OURS}", None)]
    assert patch.commands == ("update-grub",)
    assert patch.result == "root=UUID=1111-2222 ro quiet iommu=pt"
    assert patch.revert == (f"rm /{OURS}", "update-grub")
    assert "/boot/grub/grub.cfg" in patch.show
    assert "press e" in patch.once_without
    assert "delete iommu=pt" in patch.once_without
    assert "recovery mode" in patch.once_without
    assert patch.reboot


def test_a_second_time_nothing_is_left(host):
    ours = host()
    ours.apply(ours.patch(["iommu=pt"], ["quiet"]))
    assert ours.configured() == ["iommu=pt"]
    again = ours.patch(["iommu=pt"], ["quiet"])
    assert again.files == ()
    assert again.commands == ("update-grub",)


def test_a_later_change_keeps_what_an_earlier_one_did(host):
    ours = host(STOCK.replace('"quiet"', '"quiet amd_iommu=on splash"'))
    ours.apply(ours.patch(["iommu=pt"], ["amd_iommu=on"]))
    ours.apply(ours.patch(["pci=realloc=off"], ["splash"]))
    assert ours.configured() == ["quiet", "iommu=pt", "pci=realloc=off"]
    assert ours.patch(["pci=noaer"]).revert[0].startswith("patch -R")


def test_taking_all_back_takes_the_file_away(host):
    ours = host()
    ours.apply(ours.patch(["iommu=pt"]))
    patch = ours.patch([], ["iommu=pt"])
    assert [each.after for each in patch.files] == [None]
    ours.apply(patch)
    assert ours.configured() == ["quiet"]
    assert not (ours.root / OURS).exists()


def test_what_was_taken_out_can_come_back(host):
    ours = host()
    ours.apply(ours.patch([], ["quiet"]))
    assert ours.configured() == []
    ours.apply(ours.patch(["quiet"]))
    assert ours.configured() == ["quiet"]
    assert not (ours.root / OURS).exists()


def test_what_recovery_entries_get_is_taken_out_there(host):
    ours = host(f'{ALWAYS}="amd_iommu=on console=ttyS0"\n{DEFAULT}="quiet amd_iommu=on"\n')
    ours.apply(ours.patch(["iommu=pt"], ["amd_iommu=on"]))
    assert ours.configured() == ["console=ttyS0", "quiet", "iommu=pt"]


@pytest.mark.parametrize(
    ("later", "name"),
    [
        ("50-cloudimg-settings.cfg", "zz-hostdoctor.cfg"),
        ("zz-site.cfg", "zzz-hostdoctor.cfg"),
        ("zzz.cfg", "zzzz-hostdoctor.cfg"),
        ("zz-site.conf", "zz-hostdoctor.cfg"),
        (".zzzz.cfg", "zz-hostdoctor.cfg"),
        ("Zz.cfg", "zz-hostdoctor.cfg"),
    ],
)
def test_the_name_sorts_last(host, later, name):
    ours = host().write(f"etc/default/grub.d/{later}", f'{DEFAULT}="console=ttyS0"\n')
    patch = ours.patch(["iommu=pt"])
    assert patch.files[0].path == f"/etc/default/grub.d/{name}"
    read = later.endswith(".cfg") and later[0] != "."
    assert patch.result.split()[2:] == ["console=ttyS0" if read else "quiet", "iommu=pt"]


def test_it_moves_where_a_later_file_came(host):
    ours = host()
    ours.apply(ours.patch(["iommu=pt"]))
    ours.write("etc/default/grub.d/zz-site.cfg", f'{DEFAULT}="quiet"\n')
    patch = ours.patch(["iommu=pt"])
    assert [(each.path.rpartition("/")[2], each.after is None) for each in patch.files] == [
        ("zz-hostdoctor.cfg", True),
        ("zzz-hostdoctor.cfg", False),
    ]
    ours.apply(patch)
    assert ours.configured() == ["quiet", "iommu=pt"]


def test_nothing_can_sort_after_some_names(host):
    with pytest.raises(Refused, match="is read after"):
        host().write("etc/default/grub.d/~last.cfg", "").patch(["iommu=pt"])


def test_a_file_of_ours_that_was_changed_by_hand_stays(host):
    with pytest.raises(Refused, match="changed by hand"):
        host().write(OURS, f'{DEFAULT}="${DEFAULT} iommu=pt"\n').patch(["pci=noaer"])


@pytest.mark.parametrize(
    ("generated", "running", "commands", "reboot"),
    [
        ("quiet", "quiet", ("update-grub",), True),
        ("quiet iommu=pt", "quiet", (), True),
        ("quiet iommu=pt", "quiet iommu=pt", (), False),
    ],
)
def test_what_is_configured_already(host, generated, running, commands, reboot):
    line = f"BOOT_IMAGE=/boot/vmlinuz-6.8.0-52-generic root=UUID=1111-2222 ro {running}"
    ours = host(f'{DEFAULT}="quiet iommu=pt"\n', line=line).write("boot/grub/grub.cfg", GRUB_CFG.format(generated))
    patch = ours.patch(["iommu=pt"])
    assert (patch.files, patch.commands, patch.reboot) == ((), commands, reboot)
    assert patch.result == "root=UUID=1111-2222 ro quiet iommu=pt"
    assert bool(patch.notes) == reboot


def test_the_result_holds_all_that_waits(host):
    ours = host(f'{DEFAULT}="quiet mitigations=auto"\n').write("boot/grub/grub.cfg", GRUB_CFG.format("quiet"))
    assert ours.patch(["iommu=pt"]).result == "root=UUID=1111-2222 ro quiet mitigations=auto iommu=pt"


BROKEN = {
    "a quote": (f'GRUB_TIMEOUT=5\n{DEFAULT}="quiet\n', "line 2.*not closed.*fails there today"),
    "blanks": (f'{DEFAULT} = "quiet"\n', "line 1.*blanks around the ="),
    "a word": (f'{DEFAULT}="quiet" splash\n', "line 1.*splash.*runs as a command"),
    "a dotted word": ("GRUB_TIMEOUT=5\niommu.passthrough=1\n", "line 2.*runs as a command"),
    "curly quotes": (f"{DEFAULT}=\u201cquiet splash\u201d\n", "line 1.*command"),
    "line ends": (f'GRUB_TIMEOUT=5\r\n{DEFAULT}="quiet"\r\n', "line 1 ends in a carriage return"),
    "a byte order mark": (f'\ufeff{DEFAULT}="quiet"\n', "line 1: a byte order mark"),
    "a line end": (f'{DEFAULT}="quiet\nsplash"\n', "line 1.*line end"),
    "a stray": (f'{DEFAULT}="quiet splash" intel_iommu=on\n', "line 1: intel_iommu=on stands outside of the quotes"),
    "a stray alone": (f'{DEFAULT}="quiet"\nintel_iommu=on\n', "line 2: intel_iommu=on stands outside"),
    "a stray nobody knows": (f'{DEFAULT}="quiet" foo=1\n', "line 1: foo=1 stands outside"),
    "+=": (f'{DEFAULT}="quiet"\n{DEFAULT}+=" splash"\n', "line 2.*dash"),
    "an array": (f"{DEFAULT}=(quiet splash)\n", "line 1"),
    "fi": (f'{DEFAULT}="quiet"\nfi\n', "line 2"),
    "exit": (f'{DEFAULT}="quiet"\nexit 0\n', "line 2: exit"),
    "readonly": (f'{DEFAULT}="quiet"\nreadonly {DEFAULT}\n', "line 2: readonly"),
    "a semicolon": (f'{DEFAULT}="quiet pci=disable_acs_redir=0000:00:03.0;0000:40:03.0 x"\n', "line 1.*;"),
    "a comment": (f'{DEFAULT}="quiet #splash"\n', "line 1.*#"),
    "for init": (f'{DEFAULT}="quiet -- single"\n', "line 1.*init"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_files_that_fail_today_are_refused(host, kind):
    text, why = BROKEN[kind]
    with pytest.raises(Refused, match=why) as refused:
        host(text).patch(["iommu=pt"])
    assert refused.value.reason.startswith("/etc/default/grub")
    assert refused.value.manual.endswith((".", "grub"))


@pytest.mark.parametrize("kind", ["a quote", "a stray", "+="])
def test_so_are_drop_ins(host, kind):
    ours = host().write("etc/default/grub.d/50-site.cfg", BROKEN[kind][0])
    with pytest.raises(Refused) as refused:
        ours.patch(["iommu=pt"])
    assert refused.value.reason.startswith("/etc/default/grub.d/50-site.cfg, line")


@pytest.mark.parametrize("parameter", ['dyndbg="file pci.c +p"', "x='y'", "a\\b", "a b", "--", "", "x" * 2000])
def test_parameters_that_grub_does_not_hand_on_unchanged(host, parameter):
    with pytest.raises(Refused):
        host().patch([parameter])


def test_a_line_that_the_kernel_would_cut(host):
    with pytest.raises(Refused, match="bytes long"):
        host().patch([f"a{number}={'x' * 900}" for number in range(3)])


def test_what_only_running_the_file_would_tell(host):
    ours = host(f'. /etc/lsb-release\n{DEFAULT}="quiet"\n')
    patch = ours.patch(["iommu=pt"], ["quiet"])
    assert len(patch.files) == 1
    assert "cannot be told without running" in patch.notes[0]
    ours.apply(patch)
    assert ours.patch(["iommu=pt"], ["quiet"]).files == ()


@pytest.mark.parametrize(
    ("spelled", "parameter"),
    [
        ("'pci=noaer'", "pci=noaer"),
        ("pci=\\\\;a", "pci=;a"),
        ('dyndbg=\\"file pci.c +p\\"', 'dyndbg="file pci.c +p"'),
        ("'a;b'", "a;b"),
        ("splash nosplash splash", "splash"),
    ],
)
def test_a_parameter_goes_in_whatever_spelling_it_stands(host, spelled, parameter):
    ours = host(f'{DEFAULT}="quiet {spelled} x"\n')
    ours.apply(ours.patch([], [parameter]))
    assert [each for each in ours.configured() if each != "nosplash"] == ["quiet", "x"]
    assert ours.patch([], [parameter]).files == ()


def test_without_any_file_a_new_one_is_still_right(tmp_path):
    patch = GrubHost(tmp_path / "host").patch(["iommu=pt"], ["quiet"])
    assert len(patch.files) == 1
    assert patch.result == "root=UUID=1111-2222 ro iommu=pt"


def test_our_own_changes_raise_no_finding(host):
    ours = host(f'{DEFAULT}="quiet amd_iommu=on"\n')
    ours.apply(ours.patch(["iommu=pt"], ["amd_iommu=on"]))
    assert ours.facts[1].configured.overridden == ()
    assert ours.facts[1].configured.unknown == ()


def test_the_way_back_names_what_changes_only(host):
    once = host().patch(["iommu=pt"], ["amd_iommu=on"]).once_without
    assert "delete iommu=pt" in once
    assert "amd_iommu" not in once


def test_a_menu_that_nobody_can_reach_is_told(host):
    assert any("GRUB_TIMEOUT=0" in note for note in host(STOCK.replace("TIMEOUT=5", "TIMEOUT=0")).patch(["iommu=pt"]).notes)
    assert not host().patch(["iommu=pt"]).notes


def test_files_that_were_not_captured_are_told(tmp_path):
    host = GrubHost(tmp_path / "host", "ubuntu")
    assert any(
        "see that no file in it has a name that sorts after zz-hostdoctor.cfg" in note for note in host.patch(["a"]).notes
    )


@pytest.mark.parametrize("variable", [ALWAYS, DEFAULT])
def test_what_goes_from_files_that_were_not_captured(tmp_path, variable):
    host = GrubHost(tmp_path / "host", "ubuntu", line="BOOT_IMAGE=/vmlinuz-6.8.0-52-generic root=UUID=1 ro amd_iommu=on")
    patch = host.patch((), ["amd_iommu=on"])
    assert patch.commands == ("update-grub",)
    host.write("etc/default/grub", f'{variable}="quiet amd_iommu=on"\n').apply(patch)
    assert host.configured() == ["quiet"]
