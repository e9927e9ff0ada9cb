"""What is written for GRUB, rehearsed with the real grub-mkconfig and read by GRUB itself."""

from __future__ import annotations

import pytest

from hostdoctor.remedies.grub_dropin import NAME, drop_in

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
