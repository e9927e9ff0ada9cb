"""The kernel's log among what people attach: from text to findings."""

from __future__ import annotations

import pytest

from hostdoctor.diagnosis import diagnose
from hostdoctor.evidence.attached import Attached, Attachment
from hostdoctor.facts.unknown import Unknown
from hostdoctor.readers.attached import Pasted, read_attached
from hostdoctor.registry import built_in
from hostdoctor.view import View

BOOT = (
    "[    0.000000] Linux version 6.8.0-52-generic (buildd@host) #53-Ubuntu SMP\n"
    "[    0.000000] Command line: BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro iommu=pt amd_iommu=on\n"
    "[    0.000000] DMI: Gigabyte Technology Co., Ltd. G292-Z20/MZ22-G20, BIOS R26 08/12/2022\n"
    "[    0.100000] Booting paravirtualized kernel on bare hardware\n"
    "[    0.200000] smpboot: CPU0: AMD EPYC 7302 16-Core Processor (family: 0x17, model: 0x31, stepping: 0x0)\n"
)


def host(*texts):
    files = tuple(Attachment(f"log{n}.txt", "", text) for n, text in enumerate(texts))
    return read_attached(Pasted(Attached(files, ()), ()), None, 5.0, False)


def found(*texts):
    return diagnose(View(host(*texts)), built_in())


def alarms(*texts):
    return {(each.check, each.outcome, each.subject) for each in found(*texts) if each.outcome in ("failure", "warning")}


def test_the_log_tells_of_the_host():
    told = host(BOOT)
    assert (told.boot.release, str(told.boot.version)) == ("6.8.0-52-generic", "6.8")
    assert [parameter.text for parameter in told.boot.parameters][-1] == "amd_iommu=on"
    assert (told.cpu.vendor, told.cpu.family, told.cpu.model) == ("AuthenticAMD", 0x17, 0x31)
    assert (told.firmware.board_name, told.firmware.bios_version) == ("MZ22-G20", "R26")
    assert told.environment.kind == "bare-metal"
    assert told.log.from_boot


@pytest.mark.parametrize(
    ("line", "kind", "hypervisor"),
    [
        ("[    0.000000] Hypervisor detected: KVM", "virtual-machine", "KVM"),
        ("[    0.000000] Hypervisor detected: Microsoft Hyper-V", "virtual-machine", "Microsoft Hyper-V"),
        ("[    0.000000] Linux version 5.15.167.4-microsoft-standard-WSL2 (root@x)", "wsl", "Hyper-V (WSL)"),
    ],
)
def test_guests(line, kind, hypervisor):
    environment = host(line).environment
    assert (environment.kind, environment.hypervisor) == (kind, hypervisor)


def test_a_guest_whose_hypervisor_hides_is_known_by_its_firmware():
    text = BOOT.replace("Gigabyte Technology Co., Ltd. G292-Z20/MZ22-G20", "QEMU Standard PC (Q35)")
    assert host(text).environment.kind == "virtual-machine"


def test_a_control_domain_may_own_the_hardware():
    assert isinstance(host("[    0.000000] Hypervisor detected: Xen PV").environment.kind, Unknown)


def test_the_kernels_own_word_is_not_said_twice():
    text = f"{BOOT}[    0.300000] AMD-Vi: Unknown option - 'on'"
    assert [each.subject for each in found(text) if each.check == "kernel-parameters"] == [("amd_iommu=on",)]


def test_the_kernels_own_word_where_the_command_line_is_not_here():
    text = (
        "[    0.300000] AMD-Vi: Unknown option - 'of'\n"
        '[    0.400000] Unknown kernel command line parameters "splash intel_iomu=on", will be passed to user space.\n'
        '[    0.400000] Unknown kernel command line parameters "pcie_acs_override=downstream", will be passed to user space.\n'
        "[    3.000000] amdgpu: unknown parameter 'pcie_ptp' ignored"
    )
    assert alarms(text) == {
        ("kernel-parameters", "warning", ("amd_iommu=of",)),
        ("kernel-parameters", "warning", ("intel_iomu=on",)),
        ("kernel-parameters", "warning", ("pcie_acs_override=downstream",)),
        ("kernel-parameters", "warning", ("amdgpu.pcie_ptp",)),
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "NVRM: GPU at PCI:0000:41:00: GPU-7f0d61c4\nNVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.",
            {("device-lost", "failure", ("0000:41:00.0",)), ("gpu-faults", "failure", ("0000:41:00.0",))},
        ),
        (
            "[ 9000.1000] amdgpu 0000:0a:00.0: amdgpu: GPU reset begin!. Source:  1\n"
            "[ 9001.2000] amdgpu 0000:0a:00.0: amdgpu: device lost from bus!",
            {("device-lost", "failure", ("0000:0a:00.0",)), ("gpu-faults", "failure", ("0000:0a:00.0",))},
        ),
        ("igb 0000:51:00.0: PCIe link lost", {("device-lost", "failure", ("0000:51:00.0",))}),
        (
            "[   12.3000] amdgpu 0000:c3:00.0: amdgpu: Fatal error during GPU init\n"
            "[   12.5000] amdgpu: probe of 0000:c3:00.0 failed with error -62",
            {("gpu-driver", "failure", ("0000:c3:00.0",))},
        ),
        (
            "[   12.0000] NVRM: GPU 0000:21:00.0 is already bound to nouveau.\n"
            "[   12.0001] NVRM: The NVIDIA probe routine was not called for 1 device(s).",
            {("gpu-driver", "warning", ("0000:21:00.0",))},
        ),
        ("NVRM: GPU 0000:21:00.0 is already bound to vfio-pci.", set()),
        (
            "kfd kfd: amdgpu: skipped device 1002:731f, PCI rejects atomics 144<145",
            {("pcie-atomics", "failure", ("1002:731f",))},
        ),
        ("[    5.2000] amdgpu 0000:0b:00.0: amdgpu: PCIE atomic ops is not supported", set()),
        (
            '[    0.2411] pci 0000:02:00.0: can\'t set Max Payload Size to 256; if necessary, use "pci=pcie_bus_safe"',
            {("payload-size", "warning", ("0000:02:00.0",))},
        ),
        (
            "\n".join(
                f"[  {n}00.0000] pcieport 0000:00:01.1: pciehp: Slot(1): Link {word}"
                for n in (1, 2, 3)
                for word in ("Down", "Up")
            ),
            {("link-stability", "warning", ("0000:00:01.1",))},
        ),
    ],
)
def test_fragments(text, expected):
    """Named by the log alone, without a function anywhere else."""
    assert alarms(text) == expected


def error(seconds, kind="severity=Correctable", port="0000:00:01.1"):
    return f"[{seconds:12.6f}] pcieport {port}: PCIe Bus Error: {kind}, type=Physical Layer, (Receiver ID)"


@pytest.mark.parametrize(
    ("times", "outcome"),
    [
        ([10.0], "info"),
        ([10.0, 10.1, 10.2], "info"),
        ([10.0 + n / 100 for n in range(8)], "warning"),
        ([10.0 + n / 100 for n in range(40)], "failure"),
        ([10.0 + n * 60 for n in range(8)], "warning"),
        ([10.0 + n * 86_400 for n in range(8)], "info"),
    ],
)
def test_corrected_errors_by_their_rate(times, outcome):
    text = "\n".join(error(seconds) for seconds in times)
    (finding,) = (each for each in found(text) if each.check == "link-errors")
    assert (finding.outcome, finding.subject) == (outcome, ("0000:00:01.1",))


def test_errors_that_are_no_fault_of_the_link():
    advice = "\n".join(f"{error(n)}\n[{n:12.6f}] pcieport 0000:00:01.1:    [13] NonFatalErr           " for n in range(20))
    (finding,) = (each for each in found(advice) if each.check == "link-errors")
    assert finding.outcome == "info"
    asked = (
        f"{error(5, 'severity=Uncorrectable (Non-Fatal)')}\n[    5.000001] pcieport 0000:00:01.1:    [20] UnsupReq   (First)"
    )
    (finding,) = (each for each in found(asked) if each.check == "link-errors")
    assert (finding.outcome, finding.confidence, finding.remedies) == ("failure", "likely", ())


def test_who_reports_an_error_is_not_who_has_it():
    text = f"[    9.000000] pcieport 0000:00:01.1: AER: Correctable error message received from 0000:00:00.0\n{error(9.1)}"
    assert {each.subject for each in found(text) if each.check == "link-errors"} == {("0000:00:01.1",)}


def test_an_earlier_boot_does_not_count_as_now():
    lost = "[ 8000.000000] NVRM: Xid (PCI:0000:04:00): 79, GPU has fallen off the bus."
    again = "[    0.000000] Linux version 6.8.12\n[    5.000000] nvidia 0000:04:00.0: enabling device (0000 -> 0003)"
    assert alarms(f"{again}\n{lost}\n{again}") == {("gpu-faults", "warning", ("0000:04:00.0",))}
    assert ("device-lost", "failure", ("0000:04:00.0",)) in alarms(f"{again}\n{lost}")


def test_docks_come_and_go():
    text = (
        "[ 1000.000000] pcieport 0000:00:07.0: pciehp: Slot(3): Link Down\n"
        "[ 1000.000100] pcieport 0000:00:07.0: pciehp: Slot(3): Card not present\n"
        "[ 1000.000200] pcieport 0000:2c:00.0: Unable to change power state from D3cold to D0, device inaccessible\n"
        "[ 1000.000300] xhci_hcd 0000:2d:00.0: Unable to change power state from D3cold to D0, device inaccessible\n"
        "[ 9000.000100] pcieport 0000:00:07.0: pciehp: Slot(3): Link Up"
    )
    assert not alarms(BOOT.replace(" amd_iommu=on", "") + text)


def test_faults_of_a_gpu_say_that_the_iommu_translates():
    lspci = "\n".join(
        f"{bus}:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102 [RTX A5000] [10de:2231] (rev a1)"
        for bus in ("0a", "0b")
    )
    fault = (
        "[ 5120.330112] nvidia 0000:0a:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0007 address=0x90000040 flags=0x0020]"
    )
    assert ("iommu-faults", "failure", ("0000:0a:00.0",)) in alarms(lspci, fault)


def test_a_log_of_others_says_nothing():
    text = "Nov 23 02:41:07 h systemd[1]: NVRM: Xid (PCI:0000:41:00): 79\nNov 23 02:41:07 h sudo[2]: pcieport 0000:00:01.1: x"
    assert host(text).log is None


def test_a_log_pasted_twice_counts_once():
    line = "pcieport 0000:00:01.1: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)"
    log = "".join(f"[  100.00{number}000] {line}\n" for number in range(6))
    journal = "".join(f"Apr 05 10:11:12 host kernel: {line}\n" for _ in range(6))
    text = f"```\n{log}```\n```\n{log}```\n$ journalctl -k\n{journal}"
    (event,) = host(text).log.of("aer-corrected")
    assert event.count == 6


def test_the_graphics_of_an_intel_processor_are_no_gpu_of_ours():
    """Where nothing but its driver's name tells, its place does."""
    log = "[    5.000000] i915 0000:00:02.0: enabling device (0006 -> 0007)\n" + "".join(
        f"[    6.00{n}000] DMAR: [DMA Write NO_PASID] Request device [00:02.0] fault addr 0x{n}000 [fault reason 0x05] x\n"
        for n in range(3)
    )
    assert alarms(log) == {("iommu-faults", "warning", ("0000:00:02.0",))}
