"""What is written for GRUB, rehearsed with the real grub-mkconfig and read by GRUB itself."""

from __future__ import annotations

import pytest

from hostdoctor.remedies.grub_dropin import NAME, drop_in
from hostdoctor.remedies.grubby import spelled
from tests.unit.remedies import rehearsal
from tests.unit.remedies.grub_host import ALWAYS, GrubHost

VARIABLE = "GRUB_CMDLINE_LINUX_DEFAULT"
ACS = "pci=disable_acs_redir=0000:40:01.1/00.0;0000:80:01.1"


@pytest.mark.parametrize(
    ("own", "start"),
    [
        (f'{VARIABLE}="quiet splash"\n', ["quiet", "splash"]),
        (f"{VARIABLE}='quiet splash'\n", ["quiet", "splash"]),
        (f"{VARIABLE}=quiet\n", ["quiet"]),
        ("GRUB_TIMEOUT=5\n", []),
        (f'{VARIABLE}="quiet"\n{VARIABLE}="${VARIABLE} splash"\n', ["quiet", "splash"]),
        (f'{VARIABLE}="quiet dyndbg=\\"file pci.c +p\\""\n', ["quiet", "dyndbg=file pci.c +p"]),
    ],
)
@pytest.mark.parametrize("add", [["iommu=pt"], [ACS, "iommu=pt"], ['dyndbg="file x.c +p"']])
def test_the_kernel_gets_what_was_there_and_what_was_added(grub, own, start, add):
    normal, recovery = grub({"grub": own, f"grub.d/{NAME}": drop_in(VARIABLE, add, [])})
    assert normal == ["ro", *start, *add]
    assert not set(add) & set(recovery)


def test_later_files_of_the_image_do_not_win(grub):
    image = {"grub": f'{VARIABLE}="quiet"\n', "grub.d/50-cloudimg-settings.cfg": f'{VARIABLE}="console=ttyS0"\n'}
    assert grub({**image, f"grub.d/{NAME}": drop_in(VARIABLE, ["iommu=pt"], [])})[0] == ["ro", "console=ttyS0", "iommu=pt"]


def test_what_is_taken_out_is_gone(grub):
    own = {"grub": f'{VARIABLE}="quiet amd_iommu=on {ACS.replace(";", chr(92) * 2 + ";")}"\n'}
    assert grub(own)[0] == ["ro", "quiet", "amd_iommu=on", ACS]
    assert grub({**own, f"grub.d/{NAME}": drop_in(VARIABLE, [], ["amd_iommu=on", ACS])})[0] == ["ro", "quiet"]


# Files as administrators write them, and what the kernel gets today.
FILES = {
    "stock": (f'GRUB_DISTRIBUTOR=`lsb_release -i -s 2> /dev/null || echo Debian`\n{VARIABLE}="quiet"\n{ALWAYS}=""\n', []),
    "single quotes": (f"{VARIABLE}='quiet amd_iommu=on splash'\n", []),
    "both": (f'{ALWAYS}="console=ttyS0 amd_iommu=on"\n{VARIABLE}="quiet amd_iommu=on"\n', []),
    "spelled": (f"{VARIABLE}=\"quiet {ACS.replace(';', chr(92) * 2 + ';')} 'amd_iommu=on' x\"\n", []),
    "cloud": (f'{VARIABLE}="quiet"\n', [("50-cloudimg-settings.cfg", f'{VARIABLE}="console=ttyS0 amd_iommu=on"\n')]),
    "late": (f'{VARIABLE}="quiet"\n', [("zz-site.cfg", f'{VARIABLE}="console=ttyS0"\n')]),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_patch_for_debian_gives_the_kernel_exactly_what_it_says(grub, tmp_path, kind):
    text, drop_ins = FILES[kind]
    host = GrubHost(tmp_path / "host", grub=text)
    for name, content in drop_ins:
        host.write(f"etc/default/grub.d/{name}", content)
    before, recovery_before = grub(host.below_default())
    patch = host.patch(["iommu=pt", ACS], ["amd_iommu=on"])
    normal, recovery = grub(host.apply(patch).below_default())
    expected = [each for each in before if each != "amd_iommu=on"]
    expected += [each for each in ("iommu=pt", ACS) if each not in expected]
    assert normal == expected
    assert recovery == [each for each in recovery_before if each != "amd_iommu=on"]
    assert patch.result.split()[1:] == expected
    assert host.configured() == expected[1:]


# The same in files that are edited, since no other file is read there.
EDITED = {
    "double quotes": f'{VARIABLE}="loglevel=3 quiet amd_iommu=on"\n{ALWAYS}=""\n',
    "single quotes": f"{VARIABLE}='amd_iommu=on quiet'\n",
    "a bare word": f"{VARIABLE}=quiet\n",
    "both": f'{ALWAYS}="amd_iommu=on console=ttyS0"\n{VARIABLE}="quiet"\\ amd_iommu=on\n',
    "absent": "GRUB_TIMEOUT=1\n",
    "a block": f'if true; then {VARIABLE}="quiet"; fi\nunset {VARIABLE}\n',
    "quotes for grub": f'{VARIABLE}="quiet \'x=a;b\' dyndbg=\\"file pci.c +p\\" amd_iommu=on"',
}


@pytest.mark.parametrize("system", ["arch", "suse"])
@pytest.mark.parametrize("kind", EDITED)
def test_an_edit_gives_the_kernel_exactly_what_it_says(grub, tmp_path, kind, system):
    host = GrubHost(tmp_path / "host", system, grub=EDITED[kind])
    before, recovery_before = grub(host.below_default())
    patch = host.patch(["iommu=pt", ACS], ["amd_iommu=on"])
    assert [each.path for each in patch.files] == ["/etc/default/grub"]
    normal, recovery = grub(host.apply(patch).below_default())
    assert normal == [*(each for each in before if each != "amd_iommu=on"), "iommu=pt", ACS]
    assert recovery == [each for each in recovery_before if each != "amd_iommu=on"]
    assert host.patch(["iommu=pt", ACS], ["amd_iommu=on"]).files == ()


@pytest.mark.usefixtures("grub")
def test_what_stands_in_entries_gets_through_grub(tmp_path):
    line = f"\tlinux\t/vmlinuz root=/dev/sda ro {spelled(ACS)} {spelled('x=a|b<c>{d}')} iommu=pt\n\tinitrd\t/x\n"
    assert rehearsal.is_script(line.replace("linux", "echo").replace("initrd", "echo"))
    assert rehearsal.kernel_gets(tmp_path / "emu", line)[3:] == [ACS, "x=a|b<c>{d}", "iommu=pt"]
