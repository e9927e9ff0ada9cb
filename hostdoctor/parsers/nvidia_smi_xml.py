"""The XML of `nvidia-smi -q -x`, in the fields of the long listing (nvsmi_device_v*.dtd of drivers 390 to 580)."""

from __future__ import annotations

from hostdoctor.parsers.nvidia_smi import MOST_GPUS, Output, Reading, take_reason, take_uncorrected
from hostdoctor.parsers.xml_tree import Element, parse_xml

_LONGEST_VALUE = 200

_PATHS = {
    "product_name": "name",
    "pci/pci_device_id": "device_id",
    "pci/pci_sub_system_id": "subsystem_id",
    "pci/pci_base_class": "base_class",
    "pci/pci_sub_class": "sub_class",
    "pci/pci_gpu_link_info/pcie_gen/max_link_gen": "max_generation",
    "pci/pci_gpu_link_info/pcie_gen/current_link_gen": "generation",
    "pci/pci_gpu_link_info/pcie_gen/max_device_link_gen": "gpu_max_generation",
    "pci/pci_gpu_link_info/link_widths/max_link_width": "max_width",
    "pci/pci_gpu_link_info/link_widths/current_link_width": "width",
    "pci/replay_counter": "replays",
    "performance_state": "state",
    "utilization/gpu_util": "busy",
    "fb_memory_usage/total": "memory",
    "bar1_memory_usage/total": "bar1",
    "ecc_mode/current_ecc": "ecc",
    "mig_mode/current_mig": "mig",
    "gpu_virtualization_mode/virtualization_mode": "virtualization",
    "gpu_reset_status/reset_required": "reset_required",
    "gpu_recovery_action": "recovery_action",
    "remapped_rows/remapped_row_pending": "remapping_pending",
    "remapped_rows/remapped_row_failure": "remapping_failed",
}  # fmt: skip
_REASONS = {
    "clocks_throttle_reasons": "clocks_throttle_reason_",
    "clocks_event_reasons": "clocks_event_reason_",
}
_UNCORRECTED = (
    "sram_uncorrectable",
    "sram_uncorrectable_parity",
    "sram_uncorrectable_secded",
    "dram_uncorrectable",
    "double_bit/total",
)


def parse_xml_listing(text: str) -> Output:
    """The output of `nvidia-smi -q -x`; of a cut one, what stands before the cut."""
    root = parse_xml(text)
    log = next(root.all("nvidia_smi_log"), root)
    gpus = [Reading(gpu.line, _fields(gpu)) for gpu in log.children if gpu.tag == "gpu"]
    attached = log.at("attached_gpus")
    return Output(
        tuple(gpus[:MOST_GPUS]),
        log.at("driver_version")[:40],
        log.at("cuda_version")[:40],
        int(attached) if attached.isdecimal() and len(attached) < 5 else None,
    )


def _fields(gpu: Element) -> dict[str, str]:
    fields = {name: gpu.at(path)[:_LONGEST_VALUE] for path, name in _PATHS.items()}
    fields["bus_id"] = gpu.attributes.get("id", "") or gpu.at("pci/pci_bus_id")
    for heading, prefix in _REASONS.items():
        for reason in getattr(gpu.child(heading), "children", ()):
            take_reason(reason.tag.removeprefix(prefix).replace("_", " "), reason.text, fields)
    for path in _UNCORRECTED:
        take_uncorrected(gpu.at(f"ecc_errors/volatile/{path}"), fields)
    return {name: value for name, value in fields.items() if value}
