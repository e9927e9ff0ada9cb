"""environment: what kind of machine it is."""

from __future__ import annotations

import msgspec
import pytest

from hostdoctor.facts.host import Environment
from hostdoctor.facts.unknown import Unknown

ID = "environment"


def test_bare_metal_is_in_order_and_shows_why(build, verdict):
    found = verdict(ID, build.host())
    assert (found.outcome, found.title) == ("ok", "bare metal")
    assert found.evidence[0].value == "no hypervisor flag"


def test_a_guest_is_told_what_is_not_judged(build, verdict, text):
    found = verdict(ID, build.host(environment=build.GUEST))
    assert found.outcome == "info"
    assert "virtual machine (KVM)" in found.title
    assert "not judged" in found.explanation
    assert "--assume-bare-metal" in text(found)


def test_a_guest_judged_as_hardware_says_so(build, verdict):
    environment = msgspec.structs.replace(build.GUEST, assumed_bare_metal=True)
    found = verdict(ID, build.host(environment=environment))
    assert found.outcome == "info"
    assert "because you asked" in found.title


@pytest.mark.parametrize("assumed", [False, True])
def test_wsl(build, verdict, assumed):
    found = verdict(ID, build.host(environment=Environment("wsl", "Hyper-V (WSL)", assumed_bare_metal=assumed)))
    assert found.outcome == "info"
    assert "WSL" in found.title


def test_a_container_on_bare_metal_is_judged_but_its_files_are_its_own(build, verdict):
    found = verdict(ID, build.host(environment=Environment("bare-metal", container="docker")))
    assert found.outcome == "info"
    assert "docker" in found.title


def test_a_container_in_a_guest_is_both(build, judge):
    found = judge(ID, build.host(environment=Environment("virtual-machine", "QEMU", "lxc")))
    assert [each.outcome for each in found] == ["info", "info"]
    assert "QEMU" in found[0].title
    assert "lxc" in found[1].title


def test_a_machine_that_cannot_be_told_is_unknown(build, verdict):
    found = verdict(ID, build.host(environment=Environment(Unknown("nothing says what it is"))))
    assert found.outcome == "unknown"
    assert "judged as bare metal" in found.title
    assert "nothing says" in found.explanation


def test_it_speaks_without_any_pci_function(build, verdict):
    assert verdict(ID, build.host(functions=Unknown("no PCI functions"))).outcome == "ok"
