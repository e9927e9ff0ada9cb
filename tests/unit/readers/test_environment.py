"""Bare metal, guest, WSL or container, from what each leaves in /proc and /sys."""

from __future__ import annotations

import os

import pytest

from hostdoctor.evidence.files import FileEvidence
from hostdoctor.facts.unknown import Unknown
from hostdoctor.readers.host import read_host
from tests.trees import CPUINFO, Tree

GUEST_CPUINFO = CPUINFO.replace("flags\t\t: fpu", "flags\t\t: fpu hypervisor")


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / "host")


def environment_of(tree, **options):
    with FileEvidence(str(tree.root)) as evidence:
        return read_host(evidence, **options).environment


def dmi(tree, vendor, product):
    return tree.write("sys/class/dmi/id/sys_vendor", f"{vendor}\n").write("sys/class/dmi/id/product_name", f"{product}\n")


@pytest.mark.parametrize(
    ("vendor", "product", "hypervisor"),
    [
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)", "QEMU"),
        ("Red Hat", "KVM", "KVM"),
        ("OpenStack Foundation", "OpenStack Nova", "KVM"),
        ("KubeVirt", "None", "KVM"),
        ("VMware, Inc.", "VMware Virtual Platform", "VMware"),
        ("VMware, Inc.", "VMW201.00V.20829224.B64.2211211842", "VMware"),
        ("innotek GmbH", "VirtualBox", "VirtualBox"),
        ("Oracle Corporation", "VirtualBox", "VirtualBox"),
        ("Xen", "HVM domU", "Xen"),
        ("Bochs", "Bochs", "Bochs"),
        ("Parallels International GmbH.", "Parallels ARM Virtual Machine", "Parallels"),
        ("BHYVE", "BHYVE", "bhyve"),
        ("Microsoft Corporation", "Virtual Machine", "Hyper-V"),
        ("Google", "Google Compute Engine", "Google Compute Engine"),
        ("Amazon EC2", "p4d.24xlarge", "Amazon EC2"),
        ("Cloud Hypervisor", "cloud-hypervisor", "cloud-hypervisor"),
    ],
)
@pytest.mark.parametrize("cpuinfo", [CPUINFO, GUEST_CPUINFO, None], ids=["no flag", "flag", "no cpuinfo"])
def test_hypervisors_that_dmi_names(tree, vendor, product, hypervisor, cpuinfo):
    dmi(tree, vendor, product)
    if cpuinfo:
        tree.write("proc/cpuinfo", cpuinfo)
    environment = environment_of(tree)
    assert environment.kind == "virtual-machine"
    assert environment.hypervisor == hypervisor
    assert environment.is_guest
    assert any(source.startswith("/sys/class/dmi/id/") for source, _ in environment.evidence)


@pytest.mark.parametrize(
    ("vendor", "product"),
    [
        ("Supermicro", "SYS-4029GP-TRT"),
        ("Microsoft Corporation", "Surface Laptop Studio"),
        ("Amazon EC2", "g4dn.metal"),
        ("Dell Inc.", "PowerEdge XE9680"),
        ("To Be Filled By O.E.M.", "To Be Filled By O.E.M."),
        ("Intel Corporation", "Xeon Phi Coprocessor"),
    ],
)
def test_machines_that_are_none(tree, vendor, product):
    environment = environment_of(dmi(tree.common(), vendor, product))
    assert (environment.kind, environment.hypervisor, environment.is_guest) == ("bare-metal", "", False)


def test_the_flag_alone_makes_a_guest_of_an_unnamed_hypervisor(tree):
    tree.write("proc/cpuinfo", GUEST_CPUINFO)
    environment = environment_of(dmi(tree, "Supermicro", "X11"))
    assert (environment.kind, environment.hypervisor) == ("virtual-machine", "")
    assert environment.evidence == (("/proc/cpuinfo", "flags: hypervisor"),)


@pytest.mark.parametrize(("id_", "hypervisor"), [("1B36:000C", "QEMU"), ("15AD:0790", "VMware"), ("1414:5353", "Hyper-V")])
def test_devices_that_only_hypervisors_have(tree, id_, hypervisor):
    tree.common().function("0000:00:02.0", id_=id_, class_code="60400")
    environment = environment_of(tree)
    assert (environment.kind, environment.hypervisor) == ("virtual-machine", hypervisor)


def test_a_guest_can_be_judged_as_hardware(tree):
    environment = environment_of(dmi(tree, "QEMU", "Standard PC"), assume_bare_metal=True)
    assert (environment.kind, environment.is_guest, environment.assumed_bare_metal) == ("virtual-machine", False, True)


@pytest.mark.parametrize("release", ["5.15.167.4-microsoft-standard-WSL2", "4.4.0-19041-Microsoft-WSL"])
def test_wsl(tree, release):
    tree.write("proc/cpuinfo", GUEST_CPUINFO).write("proc/sys/kernel/osrelease", f"{release}\n")
    environment = environment_of(tree)
    assert (environment.kind, environment.hypervisor, environment.is_guest) == ("wsl", "Hyper-V (WSL)", True)
    assert environment.evidence == (("/proc/sys/kernel/osrelease", release),)


def test_wsl_by_proc_version(tree):
    tree.write("proc/version", "Linux version 5.15.1-microsoft-standard-WSL2 (oe-user@oe-host)\n")
    assert environment_of(tree).kind == "wsl"


def test_the_control_domain_of_xen_owns_its_hardware(tree):
    tree.write("proc/cpuinfo", GUEST_CPUINFO).write("proc/xen/capabilities", "control_d\n")
    environment = environment_of(tree)
    assert (environment.kind, environment.evidence) == ("bare-metal", (("/proc/xen/capabilities", "control_d"),))


def test_other_domains_of_xen_are_guests(tree):
    dmi(tree, "Xen", "HVM domU").write("proc/xen/capabilities", "")
    assert environment_of(tree).hypervisor == "Xen"


@pytest.mark.parametrize(
    ("path", "content", "container"),
    [
        (".dockerenv", "", "docker"),
        ("run/.containerenv", 'engine="podman-5.4.0"\n', "podman"),
        ("run/systemd/container", "lxc\n", "lxc"),
        ("run/systemd/container", "systemd-nspawn\n", "systemd-nspawn"),
        ("proc/1/cgroup", "12:devices:/docker/0123456789abcdef\n", "docker"),
        ("proc/1/cgroup", "4:memory:/lxc/101/ns/init.scope\n", "lxc"),
        ("proc/1/cgroup", "0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-0123.scope\n", "Kubernetes"),
        ("proc/1/cgroup", "0::/machine.slice/libpod-0123.scope/container\n", "libpod"),
        ("proc/1/cgroup", "0::/init.scope\n", ""),
        ("run/systemd/container", "\n", ""),
    ],
)
def test_containers_are_told_by_their_marks(tree, path, content, container):
    environment = environment_of(tree.common().write(path, content))
    assert (environment.kind, environment.container) == ("bare-metal", container)


def test_a_container_in_a_guest_is_both(tree):
    environment = environment_of(dmi(tree, "QEMU", "Standard PC").write(".dockerenv"))
    assert (environment.kind, environment.container) == ("virtual-machine", "docker")


def test_a_mark_that_is_no_file_is_no_mark(tree):
    os.mkfifo(tree.common().root / ".dockerenv")
    assert environment_of(tree).container == ""


def test_where_nothing_tells_it_is_unknown(tree):
    environment = environment_of(tree)
    assert isinstance(environment.kind, Unknown)
    assert not environment.is_guest


def test_a_name_of_a_container_is_kept_short(tree):
    assert len(environment_of(tree.write("run/systemd/container", "x" * 5000)).container) == 40
