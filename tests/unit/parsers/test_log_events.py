from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostdoctor import knowledge
from hostdoctor.parsers.kernel_log import read_log
from hostdoctor.parsers.log_events import joined, read_events

A, PORT = "0000:41:00.0", "0000:40:01.1"


def events(text):
    return read_events(read_log("dmesg.txt", list(enumerate(text.split("\n"), 1)))).events


def told(text):
    return [(event.kind, event.address) for event in events(text)]


@pytest.mark.parametrize(
    ("line", "kind", "address"),
    [
        # PCI Express
        (
            f"pcieport {PORT}: PCIe Bus Error: severity=Corrected, type=Physical Layer, id=00e5(Receiver ID)",
            "aer-corrected",
            PORT,
        ),
        (f"pcieport {PORT}: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Receiver ID)", "aer-corrected", PORT),
        (
            "nvme 0000:01:00.0: AER: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)",
            "aer-corrected",
            "0000:01:00.0",
        ),
        (
            f"pcieport {PORT}: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, (Requester ID)",
            "aer-nonfatal",
            PORT,
        ),
        (
            f"pcieport {PORT}: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Inaccessible, (Unregistered Agent ID)",
            "aer-fatal",
            PORT,
        ),
        (f"pcieport {PORT}: AER: Multiple Corrected error received: id=00e5", "aer-report-corrected", PORT),
        (f"pcieport {PORT}: AER: Correctable error message received from 0000:00:00.0", "aer-report-corrected", PORT),
        (f"pcieport {PORT}: AER: Uncorrectable (Fatal) error message received from {A}", "aer-report-uncorrected", PORT),
        (f"pcieport {PORT}: DPC: containment event, status:0x1f01 source:0x0000", "dpc", PORT),
        (f"pcieport {PORT}: pciehp: Slot(0-1): Link Down", "link-down", PORT),
        (f"pciehp {PORT}:pcie24: slot(6): Link Down event", "link-down", PORT),
        (f"pcieport {PORT}: pciehp: Slot(1): Link Up", "link-up", PORT),
        (f"pcieport {PORT}: pciehp: Slot(1): Card not present", "slot-emptied", PORT),
        (f"pcieport {PORT}: broken device, retraining non-functional downstream link at 2.5GT/s", "link-retrained", PORT),
        (f"nvidia {A}: Unable to change power state from D3cold to D0, device inaccessible", "inaccessible", A),
        (f"nvidia {A}: can't change power state from D3cold to D0 (config space inaccessible)", "inaccessible", A),
        (f"vfio-pci {A}: not ready 65535ms after FLR; giving up", "inaccessible", A),
        (f"igc {A} eth0: PCIe link lost, device now detached", "lost", A),
        (f"igb {A}: PCIe link lost", "lost", A),
        (
            f'pci {A}: can\'t set Max Payload Size to 512; if necessary, use "pci=pcie_bus_safe" and report a bug',
            "payload-size",
            A,
        ),
        # NVIDIA
        ("NVRM: Xid (PCI:0000:41:00): 79, pid=1, GPU has fallen off the bus.", "xid", A),
        ("NVRM: Xid (0000:41:00): 13, Graphics Exception", "xid", A),
        ("NVRM: Xid (PCI:0001:41:00.0): 48, DBE", "xid", "0001:41:00.0"),
        ("NVRM: Xid: 154, GPU recovery action changed to 0x2 (Node Reboot Required)", "xid", ""),
        (f"NVRM: GPU {A}: GPU has fallen off the bus.", "lost", A),
        ("NVRM: GPU at PCI:0000:41:00: has fallen off the bus.", "lost", A),
        (f"NVRM: GPU {A}: RmInitAdapter failed! (0x26:0x56:1463)", "nvidia-init", A),
        (f"nvidia: probe of {A} failed with error -1", "nvidia-init", A),
        (f"nvidia {A}: probe with driver nvidia failed with error -1", "nvidia-init", A),
        (f"NVRM: GPU {A} is already bound to nouveau.", "nvidia-held", A),
        ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", "sxid", "0000:c1:00.0"),
        # AMD
        (f"amdgpu {A}: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=3", "ring-timeout", A),
        (f"amdgpu {A}: [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout, but soft recovered", "ring-timeout", A),
        (
            "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx timeout, signaled seq=610763, emitted seq=610766",
            "ring-timeout",
            "",
        ),
        (f"amdgpu {A}: GPU reset begin!", "gpu-reset", A),
        (f"amdgpu {A}: amdgpu: GPU reset begin!. Source:  1", "gpu-reset", A),
        (f"amdgpu {A}: amdgpu: GPU reset(2) failed", "gpu-reset-failed", A),
        (f"amdgpu {A}: amdgpu: GPU Recovery Failed: -19", "gpu-reset-failed", A),
        (f"amdgpu {A}: amdgpu: GPU reset end with ret = 0", None, None),
        (f"amdgpu {A}: amdgpu: device lost from bus!", "lost", A),
        (
            f"amdgpu {A}: amdgpu: socket: 0, die: 0, 1 uncorrectable hardware errors detected in umc block",
            "ras-uncorrectable",
            A,
        ),
        (f"amdgpu {A}: {{7}}1 uncorrectable hardware errors detected in total in umc block", "ras-uncorrectable", A),
        (f"amdgpu {A}: {{7}} socket: 0, die: 1, 2 new deferred hardware errors detected in umc block", "ras-uncorrectable", A),
        (f"amdgpu {A}: {{14}}poison is consumed by client 12, kick off gpu reset flow", "ras-uncorrectable", A),
        (f"amdgpu {A}: amdgpu: 0 uncorrectable hardware errors detected in total in umc block", None, None),
        (f"amdgpu {A}: amdgpu: 3 correctable hardware errors detected in total in gfx block", "ras-corrected", A),
        (f"amdgpu {A}: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:3 pasid:32769)", "gpu-page-fault", A),
        (f"amdgpu {A}: GPU fault detected: 146 0x0c00440c", "gpu-page-fault", A),
        (f"amdgpu {A}: amdgpu: Fatal error during GPU init", "amdgpu-init", A),
        (f"amdgpu: probe of {A} failed with error -22", "amdgpu-init", A),
        (f"amdgpu {A}: probe with driver amdgpu failed with error -22", "amdgpu-init", A),
        (f"amdgpu {A}: amdgpu: trn=2 ACK should not assert! wait again !", None, None),
        (f"amdgpu {A}: [drm] device wedged, but recovered through reset", None, None),
        ("kfd kfd: amdgpu: skipped device 1002:731f, PCI rejects atomics 730<145", "kfd-atomics", ""),
        ("kfd kfd: skipped device 1002:67df, PCI rejects atomics", "kfd-atomics", ""),
        ("kfd kfd: amdgpu: PITCAIRN  not supported in kfd", "kfd-unsupported", ""),
        ("kfd kfd: DID 6665 not supported in kfd", "kfd-unsupported", ""),
        ("kfd kfd: amdgpu: device 1002:744c NOT added due to errors", "kfd-failed", ""),
        # Intel
        (f"xe {A}: [drm] *ERROR* CRITICAL: Xe has declared device {A} as wedged.", "wedged", A),
        (f"i915 {A}: [drm] GPU HANG: ecode 12:1:85dffffb, in Xorg [1234]", "gpu-hang", A),
        # IOMMU
        (f"nvidia {A}: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0007 address=0x90000040 flags=0x0020]", "iommu-fault", A),
        ("AMD-Vi: Event logged [IO_PAGE_FAULT device=41:00.0 domain=0x0007 address=0x90000040 flags=0x0020]", "iommu-fault", A),
        (
            "AMD-Vi: Event logged [IO_PAGE_FAULT device=0000:41:00.0 domain=0x0007 address=0x90000040 flags=0x0020]",
            "iommu-fault",
            A,
        ),
        ("iommu ivhd0: AMD-Vi: Event logged [IOTLB_INV_TIMEOUT device=41:00.0 address=0x100]", "iommu-other", A),
        ("AMD-Vi: Completion-Wait loop timed out", "iommu-stuck", ""),
        ("DMAR:[DMA Read] Request device [41:00.0] fault addr fff00000 ", "iommu-fault", A),
        (
            "DMAR: [DMA Write NO_PASID] Request device [41:00.0] fault addr 0x7b00 [fault reason 0x05]",
            "iommu-fault",
            A,
        ),
        (
            "DMAR: [DMA Write] Request device [0000:41:00.0] PASID ffffffff fault addr f8139000 [fault reason 05]",
            "iommu-fault",
            A,
        ),
        ("DMAR: [INTR-REMAP] Request device [f0:1f.7] fault index 0x0 [fault reason 0x25]", "iommu-other", "0000:f0:1f.7"),
        ("DMAR: DRHD: handling fault status reg 3", None, None),
        (
            f"arm-smmu-v3 arm-smmu-v3.16.auto: event: F_TRANSLATION client: {A} sid: 0x10000 iova: 0xffe00000",
            "iommu-fault",
            A,
        ),
        ("arm-smmu-v3 arm-smmu-v3.0.auto: event 0x10 received:", "iommu-fault", ""),
        ("iommu: Default domain type: Passthrough (set via kernel command line)", "iommu-default", ""),
        ('Unknown kernel command line parameters "splash", will be passed to user space.', "unknown-parameters", ""),
        ("AMD-Vi: Unknown option - 'on'", "unknown-option", ""),
        ("nvidia: unknown parameter 'NVreg_Foo' ignored", "unknown-module-parameter", ""),
        # what only looks alike
        ("usb 1-4: Product: NVRM: Xid (PCI:0000:41:00): 79", None, None),
        ("systemd[1]: amdgpu 0000:41:00.0: GPU reset begin!", None, None),
        (f"nvidia {A}: enabling device (0000 -> 0003)", None, None),
    ],
)
def test_messages_of_each_wording(line, kind, address):
    assert told(f"[   10.000000] {line}") == ([] if kind is None else [(kind, address)])


def test_an_error_of_several_lines_is_one_event():
    (reported, error) = events(
        f"pcieport {PORT}: AER: Correctable error message received from 0000:00:00.0\n"
        f"pcieport {PORT}: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)\n"
        f"pcieport {PORT}:   device [8086:43b8] error status/mask=00000001/00002000\n"
        f"pcieport {PORT}:    [ 0] RxErr                  (First)\n"
        f"pcieport {PORT}:    [12] Timeout               "
    )
    assert reported.kind == "aer-report-corrected"
    assert (error.count, error.details["layer"], error.details["bits"], error.source) == (
        1, "Physical", "RxErr, Timeout", "dmesg.txt:2",
    )  # fmt: skip


def test_what_firmware_reports_has_its_severity_above():
    text = (
        "{1}[Hardware Error]: event severity: recoverable\n"
        "{1}[Hardware Error]:  Error 0, type: recoverable\n"
        "{1}[Hardware Error]:   section_type: PCIe error\n"
        "{1}[Hardware Error]:   device_id: 0000:80:01.1\n"
        "{2}[Hardware Error]: event severity: corrected\n"
        "{2}[Hardware Error]:   section_type: memory error\n"
        "{2}[Hardware Error]:   device_id: 0000:80:02.1"
    )
    assert told(text) == [("aer-nonfatal", "0000:80:01.1")]


def test_messages_of_nvidia_that_break_over_lines():
    lost = f"NVRM: The NVIDIA GPU {A}\nNVRM: (PCI ID: 10de:26b5) installed in this system has\nNVRM: fallen off the bus and"
    assert told(lost) == [("lost", A)]
    unsupported = f"NVRM: The NVIDIA GPU {A} (PCI ID: 10de:13c2)\nNVRM: installed in this system is not supported by open"
    assert told(unsupported) == [("nvidia-unsupported", A)]
    (mismatch,) = events(
        "NVRM: API mismatch: the client has the version 535.183.01, but\nNVRM: this kernel module has the version 535.171.04."
    )
    assert (mismatch.details["client"], mismatch.details["module"]) == ("535.183.01", "535.171.04")
    two = "\n".join(
        f"NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\nNVRM: BAR1 is 0M @ 0x0 (PCI:0000:{bus}:00.0)"
        for bus in ("41", "61")
    )
    assert told(two) == [("nvidia-bar", A), ("nvidia-bar", "0000:61:00.0")]


def test_a_name_long_before_is_not_the_one_meant():
    text = f"NVRM: The NVIDIA GPU {A}\n" + "usb 1-1: new device\n" * 50 + "NVRM: fallen off the bus and is not responding"
    assert told(text) == [("lost", "")]


def test_counting_over_time():
    line = "NVRM: Xid (PCI:0000:41:00): 31, pid=1"
    (event,) = events(f"[  10.000000] {line}\n[  10.500000] {line}\n[ 100.000000] {line}")
    assert (event.count, event.bursts, event.first_s, event.last_s) == (3, 2, 10.0, 100.0)
    other = line.replace("31", "13")
    assert [each.details["code"] for each in events(f"{line}\n{other}")] == ["31", "13"]


def test_what_the_kernel_held_back_counts():
    fault = "DMAR: [DMA Read] Request device [41:00.0] fault addr 0"
    (event,) = events(f"{fault}\ndmar_fault: 57 callbacks suppressed")
    assert (event.count, event.details["suppressed"]) == (58, "yes")


def test_signs_of_life_and_boots():
    lost = f"[  50.000000] NVRM: GPU {A}: GPU has fallen off the bus."
    (event,) = events(f"{lost}\n[  90.000000] nvidia {A}: enabling device (0000 -> 0003)")
    assert event.back
    (event,) = events(lost)
    assert not event.back
    first, second = events(
        f"{lost}\n[    0.000000] Linux version 6.1\n[   70.000000] NVRM: GPU {A}: GPU has fallen off the bus."
    )
    assert (first.boots_ago, second.boots_ago) == (1, 0)


def test_the_last_driver_of_each_function_in_the_last_boot():
    log = read_log(
        "x",
        list(
            enumerate(
                [
                    f"[ 9.000000] nouveau {A}: x",
                    "[ 0.000000] Linux version 6",
                    f"[ 1.000000] pci {A}: y",
                    f"[ 9.000000] nvidia {A}: z",
                ]
            )
        ),
    )
    assert read_events(log).drivers == {A: "nvidia"}


def test_two_logs_of_the_same_hours_do_not_count_twice():
    few, many = (
        read_events(read_log("x", list(enumerate([f"[ {n}.000000] igb {A}: PCIe link lost" for n in range(times)]))))
        for times in (2, 5)
    )
    (event,) = joined([few, many]).events
    assert event.count == 5


def test_every_rule_can_be_compiled_and_its_sources_are_known():
    for rule in knowledge.load_log_rules():
        assert re.compile(rule.pattern)
        assert rule.kind
        assert rule.speakers


@given(st.text(max_size=300))
def test_any_text_is_read(text):
    events(text)


@given(st.integers(0, 300), st.sampled_from(["NVRM: Xid (PCI:0000:41:00): 79, x", f"pcieport {PORT}:    [ 0] RxErr  (First)"]))
def test_a_line_cut_anywhere_is_read(at, line):
    text = f"[   10.000000] {line}"
    events(text[:at])
    events(text[at:])
