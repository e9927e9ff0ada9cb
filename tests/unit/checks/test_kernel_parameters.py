"""kernel-parameters: what stands on the command line and does not do what it seems to."""

from __future__ import annotations

import pytest

from hostdoctor.facts.host import Cpu
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown

ID = "kernel-parameters"


@pytest.fixture
def on(build):
    """The findings over a host with this command line."""

    def judged(line, **facts):
        return build.judge(ID, build.host(command_line=line, **facts))

    return judged


@pytest.mark.parametrize(
    "line",
    [
        "",
        "BOOT_IMAGE=/vmlinuz-6.12 root=UUID=1 ro quiet splash",
        "ro iommu=pt",
        "ro iommu=nopt iommu.strict=1 amdgpu.pcie_p2p=1 amdgpu.noretry=0",
        "ro amd_iommu=force_isolation",
        "ro pci=realloc=off,noaer pcie_ports=native pcie_port_pm=off",
        "ro pci=disable_acs_redir=0000:02:00.0;0000:02:01.0",
        "ro pti=off pcie_hp=nomsi nopti apic=debug mce=off",
        "ro iommu=pt,noforce",
    ],
)
def test_sound_lines_are_in_order(on, line):
    found = on(line)
    assert [(each.outcome, each.subject) for each in found] == [("ok", ())], [each.title for each in found]


# --- no such value, no such option ------------------------------------------------------------------------------------


def test_amd_iommu_on_is_no_value(build, on):
    (found,) = on("ro amd_iommu=on iommu=pt")
    assert (found.outcome, found.subject, found.remedies) == ("info", ("amd_iommu=on",), ("remove-parameter",))
    assert "no such value" in found.title
    assert "take amd_iommu=on out" in found.next
    assert [(each.source, each.value) for each in found.evidence] == [("/proc/cmdline", "amd_iommu=on")]


@pytest.mark.parametrize(
    ("line", "subject"),
    [
        ("ro amd_iommu=pt", "amd_iommu=pt"),
        ("ro pci=noacs", "pci=noacs"),
        ("ro pcie_acs_override=downstream,multifunction", "pcie_acs_override=downstream,multifunction"),
        ("ro amd_iommu=fullspeed", "amd_iommu=fullspeed"),
        ("ro pci=relaoc", "pci=relaoc"),
        ("ro iommu=passthrough_please", "iommu=passthrough_please"),
    ],
)
def test_what_does_not_exist_is_a_warning(on, line, subject):
    found = on(line)
    assert [(each.outcome, each.subject) for each in found] == [("warning", (subject,))]
    assert found[0].remedies


def test_a_replacement_is_named(on):
    (found,) = on("ro amd_iommu=pt")
    assert found.remedies == ("replace-parameter",)
    assert "put iommu=pt in the place of amd_iommu=pt" in found.next


def test_a_good_value_beside_a_bad_one_is_left_alone(on):
    assert [each.subject for each in on("ro pci=noaer,noacs")] == [("pci=noacs",)]


STOCK = [
    "6.8.0-52-generic", "6.12.48+deb13-amd64", "6.12.48+deb13-rt-amd64", "6.1.0-25-cloud-arm64", "5.14.0-503.el9.x86_64",
    "6.11.4-301.fc41.x86_64", "6.12.10-1-lts", "6.4.0-150600.23-default", "6.12.10-arch1-1", "6.1.115-126.197.amzn2023.x86_64",
]  # fmt: skip
OTHERS = [
    "6.12.10", "6.12.10-x64v3-xanmod1", "6.12.10-2-cachyos", "6.12.10-1-cachyos-lts", "6.12.9-1-liquorix-amd64",
    "6.12.24-Unraid", "6.12.12-201.fsync.fc41.x86_64", "6.12.5-203.bazzite.fc41.x86_64", "6.9.3-76060903-generic",
    "6.12.10-gentoo", "6.1.74-acs-amd64",
]  # fmt: skip


@pytest.mark.parametrize("kernel", STOCK)
def test_stock_kernels_have_no_override_patch(on, kernel):
    (found,) = on("ro pcie_acs_override=downstream", kernel=kernel)
    assert (found.outcome, found.remedies) == ("warning", ("remove-parameter",))
    assert "no such option" in found.title


@pytest.mark.parametrize("kernel", OTHERS)
def test_other_kernels_may_have_the_override_patch(on, kernel):
    (found,) = on("ro pcie_acs_override=downstream", kernel=kernel)
    assert (found.outcome, found.remedies) == ("info", ())
    assert "only a kernel with the patch knows it" in found.title


def test_the_override_patch_of_proxmox_exists_there(on):
    (found,) = on("ro pcie_acs_override=downstream", kernel="6.8.12-4-pve")
    assert found.outcome == "info"
    assert "pretend" in found.explanation


@pytest.mark.parametrize(("kernel", "outcome"), [("6.1.0-25-amd64", "warning"), ("6.12.10", "ok"), ("6.8.0-52-generic", "ok")])
def test_a_value_newer_than_the_kernel(on, kernel, outcome):
    """Between a kernel that knows it and one that does not, nothing is said."""
    (found,) = on("ro pci=config_acs=000000@0000:02:00.0", kernel=kernel)
    assert found.outcome == outcome


def test_a_value_that_some_kernels_have_needs_one(on):
    (found,) = on("ro pci=config_acs=000000@0000:02:00.0", kernel=NOT_CAPTURED)
    assert found.outcome == "unknown"
    assert "the kernel's release is not in this evidence" in found.title


def test_what_no_kernel_has_needs_no_version(on):
    assert [each.outcome for each in on("ro amd_iommu=pt", kernel=NOT_CAPTURED)] == ["warning"]


def test_a_patch_is_not_judged_without_the_kernels_release(on):
    (found,) = on("ro pcie_acs_override=downstream", kernel=NOT_CAPTURED)
    assert (found.outcome, found.subject) == ("unknown", ("pcie_acs_override=downstream",))


def test_values_are_not_judged_without_the_kernel_version(on):
    assert [each.outcome for each in on("ro pci=relaoc", kernel=NOT_CAPTURED)] == ["ok"]


# --- wrong vendor, inert ----------------------------------------------------------------------------------------------


def test_the_other_vendors_parameter_is_inert(build, on):
    (found,) = on("ro amd_iommu=on", cpu=build.INTEL)
    assert (found.outcome, found.subject) == ("info", ("amd_iommu=on",))
    assert "another vendor" in found.title
    (found,) = on("ro intel_iommu=on")
    assert (found.outcome, found.subject) == ("info", ("intel_iommu=on",))


def test_a_processor_that_is_not_known_leaves_open_whom_a_parameter_is_for(on):
    (found,) = on("ro amd_iommu=on intel_iommu=on", cpu=Cpu())
    assert (found.outcome, found.subject) == ("unknown", ("amd_iommu=on", "intel_iommu=on"))
    assert "the processor is not in this evidence" in found.title
    assert [each.outcome for each in on("ro quiet iommu=pt", cpu=Cpu())] == ["ok"]


@pytest.mark.parametrize(("id_", "outcomes"), [("8086:a700", ["info"]), ("1022:14d8", ["ok"]), ("10de:0a82", ["unknown"])])
def test_a_host_bridge_tells_who_made_the_processor(build, judge, id_, outcomes):
    parts = build.function("0000:00:00.0", id_, 0x060000), build.root_port("0000:00:01.1")
    host = build.host(*parts, command_line="ro amd_iommu=pgtbl_v2", cpu=Cpu())
    assert [each.outcome for each in judge(ID, host)] == outcomes


@pytest.mark.parametrize(("cpu", "outcome"), [("ZEN", "info"), ("BULLDOZER", "ok"), ("INTEL", "info")])
def test_big_root_window_acts_on_family_15h_alone(build, on, cpu, outcome):
    (found,) = on("ro pci=big_root_window", cpu=getattr(build, cpu))
    assert found.outcome == outcome


# --- against each other -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "subject"),
    [
        ("iommu=pt iommu=off", "iommu=pt"),
        ("iommu=pt amd_iommu=off", "iommu=pt"),
        ("iommu.passthrough=1 iommu=off", "iommu.passthrough=1"),
        ("amd_iommu=off iommu.passthrough=on", "iommu.passthrough=on"),
        ("iommu.passthrough=Y amd_iommu=force_isolation", "amd_iommu=force_isolation"),
        ("iommu=pt amd_iommu=force_isolation", "amd_iommu=force_isolation"),
    ],
)
def test_contradictions_are_warnings(on, line, subject):
    found = [each for each in on(f"ro {line}") if each.outcome == "warning"]
    assert [each.subject for each in found] == [(subject,)]
    assert "contradicts" in found[0].title


def test_on_intel_its_own_parameter_contradicts(build, on):
    found = on("ro intel_iommu=off iommu.passthrough=1", cpu=build.INTEL)
    assert [(each.outcome, each.subject) for each in found] == [("warning", ("iommu.passthrough=1",))]
    assert [each.outcome for each in on("ro amd_iommu=off iommu.passthrough=1", cpu=build.INTEL)] == ["info"]


@pytest.mark.parametrize(
    ("line", "others", "last", "means"),
    [
        ("iommu=pt,nopt", ("iommu=pt",), "iommu=nopt", "translation"),
        ("iommu=nopt iommu=pt", ("iommu=nopt",), "iommu=pt", "passthrough"),
        ("iommu=pt iommu.passthrough=0", ("iommu=pt",), "iommu.passthrough=0", "translation"),
        ("iommu.passthrough=off iommu=pt", ("iommu.passthrough=off",), "iommu=pt", "passthrough"),
        ("iommu=nopt iommu.passthrough=y", ("iommu=nopt",), "iommu.passthrough=y", "passthrough"),
        ("iommu.passthrough=1 iommu.passthrough=N", ("iommu.passthrough=1",), "iommu.passthrough=N", "translation"),
        ("iommu.strict=1 iommu.strict=0", ("iommu.strict=1",), "iommu.strict=0", "off"),
        ("amdgpu.pcie_p2p=0 amdgpu.pcie-p2p=Y", ("amdgpu.pcie_p2p=0",), "amdgpu.pcie-p2p=Y", "on"),
        ("iommu=pt iommu=nopt iommu.passthrough=1", ("iommu=nopt",), "iommu.passthrough=1", "passthrough"),
    ],
)
def test_of_opposites_the_last_counts(on, line, others, last, means):
    (found,) = on(f"ro {line}")
    assert (found.outcome, found.subject) == ("warning", (*others, last))
    assert f"{last} contradicts" in found.title
    assert f"{last}, so {means}." in found.explanation


@pytest.mark.parametrize(
    ("line", "subject"),
    [
        ("iommu=pt iommu=pt", ("iommu=pt",)),
        ("iommu=pt,pt", ("iommu=pt",)),
        ("iommu=pt iommu.passthrough=1", ("iommu=pt", "iommu.passthrough=1")),
        ("iommu.passthrough=1 iommu.passthrough=on", ("iommu.passthrough=1", "iommu.passthrough=on")),
        ("pci=noaer quiet pci=noaer", ("pci=noaer",)),
        ("pci=disable_acs_redir=0000:02:00.0 pci=disable_acs_redir=0000:02:00.0", ("pci=disable_acs_redir=0000:02:00.0",)),
    ],
)
def test_what_is_said_twice_is_redundant(on, line, subject):
    (found,) = on(f"ro {line}")
    assert (found.outcome, found.subject, found.remedies) == ("info", subject, ("keep-one-parameter",))
    assert "one of them is enough" in found.title
    assert f"keep {subject[0]} once" in found.next


def test_what_does_not_exist_is_no_better_once(on):
    assert [each.title for each in on("ro amd_iommu=on amd_iommu=on")] == ["amd_iommu=on: there is no such value"]


def test_repeats_of_other_fields_are_left_alone(on):
    assert [each.outcome for each in on("ro console=tty0 console=tty0 quiet quiet iommu=pt")] == ["ok"]


@pytest.mark.parametrize(
    ("value", "outcome"), [("Y", "ok"), ("off", "ok"), ("true", "ok"), ("maybe", "warning"), ("-1", "warning")]
)
def test_a_switch_takes_what_the_kernel_reads_as_yes_or_no(on, value, outcome):
    (found,) = on(f"ro iommu.passthrough={value}")
    assert found.outcome == outcome


def test_amd_asks_for_realloc_off_with_mi300(build, on):
    card = build.gpu("0000:03:00.0", "1002:74a1", "0000:00:01.1")
    found = build.judge(ID, build.host(build.root_port("0000:00:01.1"), card, command_line="ro pci=realloc"))
    assert [(each.outcome, each.subject) for each in found] == [("warning", ("pci=realloc",))]
    assert "pci=realloc=off" in found[0].next
    assert on("ro pci=realloc")[0].outcome == "ok", "with other GPUs it is a choice"


def test_of_two_device_lists_only_the_last_counts(on):
    (found,) = on("ro pci=disable_acs_redir=0000:02:00.0 pci=disable_acs_redir=0000:02:01.0")
    assert found.outcome == "warning"
    assert "only the last counts" in found.title
    assert len(found.evidence) == 2
    assert found.next.startswith("put all devices into one pci=disable_acs_redir=")


def test_devices_separated_by_commas_are_not_one_list(on):
    found = on("ro pci=disable_acs_redir=0000:02:00.0,0000:02:01.0")
    assert [(each.outcome, each.subject) for each in found] == [("warning", ("pci=0000:02:01.0",))]
    assert "semicolons" in found[0].explanation


# --- slips ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("iomu=pt", "iommu"),
        ("iommmu=pt", "iommu"),
        ("iommu_=pt", "iommu"),
        ("IOMMU=pt", "iommu"),
        ("imomu=pt", "iommu"),
        ("and_iommu=off", "amd_iommu"),
        ("amdgpu.pcie_p2=1", "amdgpu.pcie_p2p"),
        ("pcie-asmp=off", "pcie_aspm"),
    ],
)
def test_a_slip_of_a_key_is_found(on, text, meant):
    (found,) = on(f"ro {text}")
    assert (found.outcome, found.confidence, found.subject) == ("warning", "likely", (text,))
    assert f"{meant} may be meant" in found.title


@pytest.mark.parametrize("text", ["pc=1", "psi=1", "omu=pt", "amdgpu.ppfeaturemask=0xffffffff", "nvidia-drm.modeset=1"])
def test_other_parameters_are_left_alone(on, text):
    assert [each.outcome for each in on(f"ro {text}")] == ["ok"]


def test_dashes_are_underscores(on):
    assert on("ro amd-iommu=pt")[0].outcome == "warning"


def test_what_stands_after_two_dashes_goes_to_init(on):
    (found,) = on("ro quiet -- iommu=pt single")
    assert (found.outcome, found.subject) == ("warning", ("iommu=pt",))
    assert "goes to init" in found.title
    assert "before the --" in found.next


def test_typographic_quotes(on):
    (found,) = on("ro foo=“bar”")
    assert (found.outcome, found.subject) == ("warning", ("foo=“bar”",))


# --- where it cannot be judged ----------------------------------------------------------------------------------------


def test_no_command_line_is_unknown(on):
    (found,) = on(Unknown("not permitted", "run with sudo"))
    assert (found.outcome, found.help) == ("unknown", "run with sudo")


def test_a_guest_has_a_command_line_of_its_own(build, on):
    assert on("ro amd_iommu=pt", environment=build.GUEST)[0].outcome == "warning"


def test_it_needs_no_pci_function(on):
    assert on("ro amd_iommu=pt", functions=Unknown("no PCI functions"))[0].outcome == "warning"
