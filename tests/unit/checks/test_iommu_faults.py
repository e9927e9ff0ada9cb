from __future__ import annotations

import msgspec
import pytest


def fault(build, address, count=5, **more):
    more.setdefault("details", {"iova": "0x90000040"})
    return build.event(
        "iommu-fault", address, "AMD-Vi: Event logged [IO_PAGE_FAULT ...", count, first_s=10.0, last_s=11.0, **more
    )


def test_faults_of_a_gpu_are_a_failure(build, verdict, text):
    found = verdict("iommu-faults", build.host(build.two_nvidia_gpus(), log=build.log(fault(build, "0000:41:00.0"))))
    assert (found.outcome, found.subject) == ("failure", ("0000:41:00.0",))
    assert "iommu-passthrough" in found.remedies
    assert "0x90000040" in text(found)


@pytest.mark.parametrize("driver", ["nvidia", "amdgpu", "nouveau", "xe"])
def test_a_gpu_that_only_the_log_knows_is_known_by_its_driver(build, verdict, driver):
    log = build.log(fault(build, "0000:0a:00.0"), drivers={"0000:0a:00.0": driver}, from_boot=False)
    found = verdict("iommu-faults", build.host(functions=build.NOT_CAPTURED, log=log))
    assert (found.outcome, found.subject) == ("failure", ("0000:0a:00.0",))
    assert not found.remedies


def test_addresses_in_the_bar_of_another_gpu_are_named(build, verdict):
    event = fault(build, "0000:41:00.0", details={"iova": f"{4 * build.TIB + 4096:#x}"})
    parts = [
        build.root_port("0000:40:01.1"),
        build.gpu("0000:41:00.0", build.A5000, "0000:40:01.1", bar_at=8 * build.TIB),
        build.root_port("0000:80:01.1"),
        build.gpu("0000:81:00.0", build.A5000, "0000:80:01.1", bar_at=4 * build.TIB),
    ]
    assert "BAR of 0000:81:00.0" in verdict("iommu-faults", build.host(parts, log=build.log(event))).explanation


def test_passthrough_is_not_offered_where_amd_gpus_need_the_translation(build, judge):
    parts = build.two_navi_cards(bar_at=56 * build.TIB, iommu_type="DMA-FQ", dma_mask_bits=44)
    host = build.host(parts, log=build.log(fault(build, build.FIRST)))
    assert not any(found.remedies for found in judge("iommu-faults", host))


def test_other_devices_count_where_they_repeat_it(build, verdict):
    host = build.host(build.two_nvidia_gpus(), build.nvme("0000:51:00.0"))
    repeated = msgspec.structs.replace(host, log=build.log(fault(build, "0000:51:00.0", 3)))
    assert (verdict("iommu-faults", repeated).outcome, verdict("iommu-faults", repeated).subject) == (
        "warning",
        ("0000:51:00.0",),
    )
    once = msgspec.structs.replace(host, log=build.log(fault(build, "0000:51:00.0", 1)))
    assert verdict("iommu-faults", once).outcome == "ok"


def test_interrupts_that_are_blocked_are_no_accesses_of_a_gpu(build, verdict):
    event = build.event("iommu-other", "0000:41:00.0", details={"event": "INTR-REMAP"})
    assert verdict("iommu-faults", build.host(build.two_nvidia_gpus(), log=build.log(event))).outcome == "ok"


def test_a_gpu_of_a_guest_counts_as_another_device(build, verdict):
    parts = build.changed(build.two_nvidia_gpus(), "0000:41:00.0", driver="vfio-pci")
    assert verdict("iommu-faults", build.host(parts, log=build.log(fault(build, "0000:41:00.0", 2)))).outcome == "ok"
    assert verdict("iommu-faults", build.host(parts, log=build.log(fault(build, "0000:41:00.0", 9)))).outcome == "warning"


def test_an_integrated_gpu_counts_as_another_device(build, verdict):
    igpu = build.gpu("0000:00:02.0", "8086:a780", config=build.ConfigFacts(), bar_size=256 << 20)
    assert verdict("iommu-faults", build.host(igpu, log=build.log(fault(build, "0000:00:02.0", 1)))).outcome == "ok"


def test_an_iommu_that_waits(build, verdict):
    found = verdict("iommu-faults", build.host(build.two_nvidia_gpus(), log=build.log(build.event("iommu-stuck", count=4))))
    assert (found.outcome, found.subject) == ("warning", ())


def test_an_earlier_boot_is_a_warning(build, verdict):
    log = build.log(fault(build, "0000:41:00.0", boots_ago=1))
    found = verdict("iommu-faults", build.host(build.two_nvidia_gpus(), log=log))
    assert found.outcome == "warning"
    assert "earlier boot" in found.explanation


def test_silence(build, verdict):
    assert verdict("iommu-faults", build.host(build.two_nvidia_gpus())).outcome == "ok"
    cut = verdict("iommu-faults", build.host(build.two_nvidia_gpus(), log=build.log(from_boot=False)))
    assert (cut.outcome, cut.help) == ("unknown", "attach the whole output of dmesg")
    none = verdict("iommu-faults", build.host(build.two_nvidia_gpus(), log=None))
    assert (none.outcome, none.help) == ("unknown", "attach the output of dmesg")
    assert verdict("iommu-faults", build.host(log=None)).outcome == "not-applicable"
