"""Whether two GPUs can do peer-to-peer DMA: the conditions in order, each with its evidence, and the first that fails.

A prediction is directional: the accessor reads and writes the owner's memory. It says what driver and kernel will allow;
only a copy whose data was compared proves that P2P works.

Sources: AMD: drivers/gpu/drm/amd/amdgpu/amdgpu_device.c amdgpu_device_is_peer_accessible and
amdgpu_device_check_iommu_remap, drivers/pci/p2pdma.c. NVIDIA: open-gpu-kernel-modules
src/nvidia/src/kernel/platform/p2p/p2p_caps.c. What a pasted tool says of access (HSA's and CUDA's own answers) is the
driver's word, as KFD's and NVML's are where they can be asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import msgspec

from hostdoctor import knowledge
from hostdoctor.bars import missing_bars, vram_bar
from hostdoctor.drivers import nvml_gpu, nvml_p2p
from hostdoctor.facts.driver import PairWord
from hostdoctor.facts.host import Host, KernelVersion, Kfd, Module
from hostdoctor.facts.pci import ATI, INTEL, NVIDIA, Function, GpuFacts
from hostdoctor.facts.unknown import Unknown, known
from hostdoctor.findings import Evidence
from hostdoctor.topology import is_lost

if TYPE_CHECKING:
    from hostdoctor.view import View

State = Literal["holds", "fails", "unknown"]

# The first kernel whose amdgpu lets a translating IOMMU stand in for a BAR within reach.
REMAP_SINCE = KernelVersion(6, 12)
XGMI = 11
# Reserved by AMD's IOMMU for HyperTransport (drivers/iommu/amd/amd_iommu_types.h HT_RANGE_START, HT_RANGE_END).
HT_HOLE_START, HT_HOLE_END = 0xFD00000000, 0xFFFFFFFFFF
_BUILT_WITH = ("PCI_P2PDMA", "HSA_AMD_P2P")  # the second depends on the first
_OFF = ("0", "n", "no", "off", "false", "f")  # lib/kstrtox.c kstrtobool
_P2P_DRIVERS = {ATI: "amdgpu", NVIDIA: "nvidia"}
TRANSLATED = ("DMA", "DMA-FQ")
_DRIVER_DECIDES = ("same-chip", "policy", "root-complex")  # conditions that NVIDIA's driver checks by itself


class Condition(msgspec.Struct, frozen=True):
    """One thing that must hold.

    Attributes:
        name: short and stable, "bar-reach".
        state: holds, fails or unknown.
        text: what is so, or what is missing to know it; one sentence without a full stop.
        evidence: what was seen.
        by_design: a failure nobody can change on this host (a product's policy, a processor's rule).
        remedies: ids of what would change a failure.
    """

    name: str
    state: State
    text: str
    evidence: tuple[Evidence, ...] = ()
    by_design: bool = False
    remedies: tuple[str, ...] = ()


class Prediction(msgspec.Struct, frozen=True):
    """The verdict for one ordered pair."""

    accessor: Function
    owner: Function
    conditions: tuple[Condition, ...]
    driver_says: bool | None = None  # KFD's or NVML's own verdict, where it can be read, else what a pasted tool was told
    driver_evidence: tuple[Evidence, ...] = ()
    by_word: bool = False  # whether it is a pasted tool's word

    @property
    def decisive(self) -> Condition | None:
        """The first condition that fails, else the first that is unknown, else None."""
        unknown = None
        for each in self.conditions:
            if each.state == "fails":
                return each
            if each.state == "unknown" and unknown is None:
                unknown = each
        return unknown

    @property
    def state(self) -> State:
        """Holds where all conditions hold, fails where one fails, else unknown."""
        decisive = self.decisive
        return decisive.state if decisive else "holds"

    @property
    def disagrees(self) -> bool:
        """Whether the driver's own verdict is another than ours."""
        return self.driver_says is not None and self.state != "unknown" and self.driver_says != (self.state == "holds")


def candidates(view: View, vendor: int) -> list[Function]:
    """The GPUs of one vendor that P2P can be wanted of: an old card that the driver radeon lights a screen with is none."""
    return [gpu for gpu in view.gpus_of(vendor) if gpu.driver != "radeon"]


def predict(view: View) -> tuple[Prediction, ...]:
    """A prediction for each ordered pair of discrete GPUs that the host itself uses; none where these are several hosts'."""
    if view.crowd is not None:
        return ()
    gpus = [gpu for gpu in view.gpus if gpu.driver != "vfio-pci"]
    gone = {gpu.address: _gone(view, gpu) for gpu in gpus}
    return tuple(
        _predict(view, accessor, owner, gone[accessor.address] or gone[owner.address])
        for accessor in gpus
        for owner in gpus
        if accessor is not owner
    )


def _predict(view: View, accessor: Function, owner: Function, gone: Condition | None) -> Prediction:
    if accessor.vendor != owner.vendor:
        text = "no driver does P2P between GPUs of different vendors"
        return Prediction(accessor, owner, (Condition("same-vendor", "fails", text, by_design=True),))
    if gone is not None:
        return Prediction(accessor, owner, (gone,))
    if accessor.vendor == ATI:
        return _with_word(view, _predict_amd(view, accessor, owner))
    if accessor.vendor == NVIDIA:
        return _with_word(view, _predict_nvidia(view, accessor, owner))
    text = "there is no rule yet for P2P between Intel GPUs"
    return Prediction(accessor, owner, (Condition("rule", "unknown", text),))


def _gone(view: View, gpu: Function) -> Condition | None:
    """A GPU that no longer answers, itself or through a port above it, does nothing at all."""
    if (told := nvml_gpu(view.host, gpu)) and told.lost:
        evidence = (Evidence(told.origin or "NVML", "GPU is lost (NVML 15)"),)
        text = f"NVIDIA's driver has lost {gpu.address}"
        return Condition("answers", "fails", text, evidence, remedies=("check-power-and-seating",))
    for function in (gpu, *view.topology.above(gpu)):
        if lost := is_lost(function):
            text = f"{function.address} no longer answers"
            evidence = (Evidence(function.source("config"), lost),)
            return Condition("answers", "fails", text, evidence, remedies=("check-power-and-seating",))
    return None


# --- what tools were told ---------------------------------------------------------------------------------------------


def access_word(view: View, accessor: str, owner: str) -> PairWord | None:
    """What a tool was told of the access; None where none was, or where two were told otherwise."""
    told = [word for word in view.words_on(accessor, owner) if word.allowed is not None]
    return told[0] if len({word.allowed for word in told}) == 1 else None


def linked_by(view: View, accessor: str, owner: str) -> str:
    """The kind of link that a tool names for a pair, "XGMI", or empty."""
    return next((word.link for word in view.words_on(accessor, owner) if word.link), "")


def _with_word(view: View, prediction: Prediction) -> Prediction:
    """A prediction with a tool's word, where neither KFD nor NVML could be asked.

    A refusal is a condition of its own: the last, so that what explains it goes before it.
    """
    word = access_word(view, prediction.accessor.address, prediction.owner.address)
    if word is None or prediction.driver_says is not None:
        return prediction
    evidence = (Evidence(word.source, word.text),)
    conditions = prediction.conditions
    if not word.allowed:
        text = "the driver grants no access, and why cannot be seen here"
        by_design = prediction.accessor.vendor == NVIDIA and _refuses_some(view, prediction)
        conditions += (Condition("access", "fails", text, evidence, by_design=by_design, remedies=("attach-p2p-evidence",)),)
    return msgspec.structs.replace(
        prediction, conditions=conditions, driver_says=word.allowed, driver_evidence=evidence, by_word=True
    )


def _refuses_some(view: View, prediction: Prediction) -> bool:
    """Whether NVIDIA's driver refuses this pair as it refuses some on healthy hosts.

    It does so between products that it need not allow it on, and, where it allows other pairs, between those that neither
    NVLink nor a chipset it knows joins.
    """
    policies = {pcie_p2p_policy(gpu) for gpu in (prediction.accessor, prediction.owner)}
    return "allowed" not in policies or view.some_access_granted


# --- AMD -------------------------------------------------------------------------------------------------------------


def _predict_amd(view: View, accessor: Function, owner: Function) -> Prediction:
    says, evidence = kfd_verdict(view.host.kfd, accessor, owner)
    if xgmi := same_hive(view.host.kfd, accessor, owner) or _told_xgmi(view, accessor, owner):
        return Prediction(accessor, owner, (xgmi,), says, evidence)
    conditions = (
        _amdgpu_bound(accessor, owner),
        p2p_switched_on(view),
        *_processor_fabric(view.host.kfd, owner),
        _distance(view, accessor, owner),
        _large_bar(view, owner, view.host.gpu_facts.get(owner.address, GpuFacts())),
        view.amd_reaches.get((accessor.address, owner.address)) or reach(view, accessor, owner),
    )
    return Prediction(accessor, owner, conditions, says, evidence)


def same_hive(kfd: Kfd | Unknown | None, accessor: Function, owner: Function) -> Condition | None:
    """The condition that replaces all others between GPUs of one XGMI hive; None for any other pair."""
    if kfd is None or isinstance(kfd, Unknown):
        return None
    hives = {node.address: node.hive_id for node in kfd.nodes}
    hive = hives.get(accessor.address, 0)
    if not hive or hive != hives.get(owner.address):
        return None
    return Condition("xgmi", "holds", "both are in one XGMI hive, which needs no PCIe P2P")


def _told_xgmi(view: View, accessor: Function, owner: Function) -> Condition | None:
    """The same by what a tool names as the link, where KFD could not be read."""
    if isinstance(view.host.kfd, Kfd):
        return None
    word = next((each for each in view.words_on(accessor.address, owner.address) if each.link == "XGMI"), None)
    if word is None or word.allowed is False:
        return None
    return Condition("xgmi", "holds", "XGMI joins both, which needs no PCIe P2P", (Evidence(word.source, word.text),))


def _processor_fabric(kfd: Kfd | Unknown | None, owner: Function) -> Iterator[Condition]:
    """A GPU that XGMI joins to the processor offers nothing over PCIe (amdgpu's gmc.xgmi.connected_to_cpu)."""
    if kfd is None or isinstance(kfd, Unknown):
        return
    number = next((node.number for node in kfd.nodes if node.address == owner.address), None)
    processors = {node.number for node in kfd.nodes if node.address is None}
    for link in kfd.links:
        if link.node_from == number and link.node_to in processors and link.type == XGMI:
            text = "XGMI joins the owner to the processor, and amdgpu then does no P2P over PCIe"
            yield Condition("processor-fabric", "fails", text, (Evidence(link.source, f"type {link.type}"),), by_design=True)
            return


def kfd_verdict(kfd: Kfd | Unknown | None, accessor: Function, owner: Function) -> tuple[bool | None, tuple[Evidence, ...]]:
    """What KFD itself publishes for the pair; None where it cannot be read or does not know one of the two."""
    if kfd is None or isinstance(kfd, Unknown):
        return None, ()
    numbers = {node.address: node.number for node in kfd.nodes if node.address}
    if accessor.address not in numbers or owner.address not in numbers:
        return None, ()
    ends = (numbers[accessor.address], numbers[owner.address])
    for link in kfd.links:
        if (link.node_from, link.node_to) == ends and (link.peer or link.type == XGMI):
            return True, (Evidence(link.source, f"node_from {ends[0]} node_to {ends[1]} type {link.type}"),)
    return False, (Evidence("/sys/class/kfd/kfd/topology/nodes", f"no p2p link from node {ends[0]} to {ends[1]}"),)


def _amdgpu_bound(accessor: Function, owner: Function) -> Condition:
    other = next((gpu for gpu in (accessor, owner) if gpu.driver != "amdgpu"), None)
    if other is None:
        return Condition("driver", "holds", "amdgpu drives both")
    if isinstance(other.driver, Unknown):
        return Condition("driver", "unknown", f"which driver {other.address} has is not known: {other.driver.reason}")
    evidence = (Evidence(other.source("driver"), other.driver or "none"),)
    text = f"{other.address} has {'the driver ' + other.driver if other.driver else 'no driver'}, and P2P needs amdgpu"
    if other.driver == "radeon":
        return Condition("driver", "fails", text, evidence, by_design=True)
    return Condition("driver", "unknown", text, evidence, remedies=("load-driver",))


def p2p_switched_on(view: View) -> Condition:
    """Whether the loaded amdgpu was built with P2P and has it on.

    Its parameter pcie_p2p exists only in a driver built with CONFIG_HSA_AMD_P2P (amdgpu_drv.c), so it tells more than
    the kernel's configuration, which does not describe a module built outside the kernel.
    """
    modules = view.host.modules
    amdgpu = None if isinstance(modules, Unknown) else modules.get("amdgpu")
    by_parameter = _by_its_parameter(view, amdgpu) if amdgpu else None
    return by_parameter or _switched_off_by_line(view) or _by_the_configuration(view, amdgpu)


def _by_its_parameter(view: View, amdgpu: Module) -> Condition | None:
    path = "/sys/module/amdgpu/parameters"
    if amdgpu.lacks("pcie_p2p"):
        text = "the loaded amdgpu was built without P2P: it has no parameter pcie_p2p"
        evidence = (Evidence(f"{path}/", "no pcie_p2p among its parameters"), *_config_evidence(view))
        return Condition("p2p-kernel", "fails", text, evidence, remedies=("kernel-with-p2p",))
    value = amdgpu.parameters.get("pcie_p2p")
    if value is None:
        return None
    evidence = (Evidence(f"{path}/pcie_p2p", value or "not readable"), *_config_evidence(view))
    if value.startswith(("N", "0")):
        text = "amdgpu's P2P is switched off by its parameter pcie_p2p"
        return Condition("p2p-kernel", "fails", text, evidence, remedies=("amdgpu-enable-pcie-p2p",))
    if value:
        return Condition("p2p-kernel", "holds", "amdgpu is built with P2P, and it is on", evidence)
    return Condition("p2p-kernel", "unknown", "amdgpu is built with P2P, but whether it is on cannot be read", evidence)


def _by_the_configuration(view: View, amdgpu: Module | None) -> Condition:
    modules, config = view.host.modules, view.host.boot.config
    if amdgpu and amdgpu.version:
        text = "the loaded amdgpu is not the kernel's own, and its parameters cannot be seen here"
        return Condition("p2p-kernel", "unknown", text)
    told = [] if isinstance(config, Unknown) or not config else [config.get(f"CONFIG_{name}", "n") for name in _BUILT_WITH]
    if told and told[1] == "y":
        text = "the kernel is built with P2P for amdgpu, but whether the loaded driver has it on cannot be seen here"
        return Condition("p2p-kernel", "unknown", text, _config_evidence(view))
    if "n" not in told:  # of picked lines neither option may be among them
        return Condition("p2p-kernel", "unknown", "whether amdgpu was built with P2P cannot be seen here")
    if isinstance(modules, Unknown) and told[0] != "n":
        text = "the kernel's own amdgpu is built without P2P, but whether another one is loaded cannot be seen here"
        return Condition("p2p-kernel", "unknown", text, _config_evidence(view))
    text = f"the kernel is built without CONFIG_{_BUILT_WITH[told.index('n')]}"
    return Condition("p2p-kernel", "fails", text, _config_evidence(view), remedies=("kernel-with-p2p",))


def _switched_off_by_line(view: View) -> Condition | None:
    """The command line's word where the parameter itself is not seen: off it is, however the driver was built."""
    given = [each for each in view.host.boot.parameters if each.key == "amdgpu.pcie_p2p"]
    if not given or (given[-1].value or "").lower() not in _OFF:
        return None
    text = "amdgpu's P2P is switched off on the kernel command line"
    evidence = (Evidence("/proc/cmdline", given[-1].text), *_config_evidence(view))
    return Condition("p2p-kernel", "fails", text, evidence, remedies=("amdgpu-enable-pcie-p2p",))


def _config_evidence(view: View) -> tuple[Evidence, ...]:
    config = view.host.boot.config
    if isinstance(config, Unknown):
        return ()
    names = ("CONFIG_HSA_AMD_P2P", "CONFIG_PCI_P2PDMA")
    value = ", ".join(f"{name}={told}" for name in names if (told := config.get(name, "n")))
    return (Evidence(view.host.boot.config_source, value),)


def _distance(view: View, accessor: Function, owner: Function) -> Condition:
    """pci_p2pdma_distance: a common bridge without ACS redirect, or host bridges the kernel allows."""
    common = view.topology.common_bridge(owner, accessor)
    cut_off = [gpu.address for gpu in (accessor, owner) if not view.topology.knows_way_up(gpu)]
    if common is None and cut_off:
        return Condition("distance", "unknown", f"the ports above {cut_off[0]} are not all in this evidence")
    hosts = _host_bridges(view, accessor, owner)
    if common is None or hosts.state == "holds":
        return hosts
    way = view.topology.way_between(owner, accessor)
    redirecting = [each for each in way if (acs := each.acs) and not isinstance(acs, Unknown) and acs.redirects]
    if redirecting:
        names = ", ".join(each.address for each in redirecting)
        text = f"ACS redirect is set on {names}, on the way over the common bridge {common.address}, and {hosts.text}"
        evidence = tuple(Evidence(each.source("config"), "ACSCtl redirect") for each in redirecting)
        return Condition("distance", hosts.state, text, evidence, remedies=("acs-clear-redirect",))
    unread = next((each for each in way if isinstance(each.acs, Unknown)), None)
    if unread is not None and isinstance(unread.acs, Unknown):
        text = f"the ACS bits of {unread.address}, on the way over {common.address}, are not known: {unread.acs.reason}"
        return Condition("distance", "unknown", text)
    text = f"both lie below the bridge {common.address}, and nothing on the way redirects"
    return Condition("distance", "holds", text, (Evidence(common.origin, common.id),))


def _host_bridges(view: View, accessor: Function, owner: Function) -> Condition:
    """Whether the kernel lets P2P pass the root complex (drivers/pci/p2pdma.c host_bridge_whitelist, cpu_supports_p2pdma)."""
    cpu = view.host.cpu
    family = known(cpu.family, 0)
    if cpu.is_amd and isinstance(cpu.family, Unknown):
        return Condition("distance", "unknown", f"the processor's family is {cpu.family.reason}")
    if cpu.is_amd and family >= 0x17:
        text = f"the kernel allows P2P through the root complex of this processor (AMD family {family:#x})"
        return Condition("distance", "holds", text, (Evidence("/proc/cpuinfo", f"cpu family {family}"),))
    if isinstance(cpu.vendor, Unknown) and not _is_intel_host(view, accessor):
        return Condition("distance", "unknown", f"which processor this is, is not known: {cpu.vendor.reason}")
    firsts = [view.topology.first_on_root(function) for function in (accessor, owner)]
    if None in firsts:
        return Condition("distance", "unknown", "which host bridges they lie below is not in this evidence")
    version = view.host.boot.version
    if isinstance(version, Unknown):
        return Condition("distance", "unknown", "the kernel version is not known, and its list of host bridges varies")
    verdicts = [_host_bridge_allowed(first, version, accessor.root == owner.root) for first in firsts]
    if all(verdicts):
        text = "the kernel allows P2P through these host bridges"
        return Condition("distance", "holds", text, _host_bridge_evidence(firsts))
    refused = next((first for first, verdict in zip(firsts, verdicts, strict=True) if verdict is False), None)
    if refused is not None:
        name = f"{refused.address} [{refused.id}]"
        text = f"kernel {version} does not list {name} among the host bridges it allows P2P through"
        return Condition("distance", "fails", text, _host_bridge_evidence(firsts), by_design=True)
    text = f"whether kernel {version} allows P2P through these host bridges is not known"
    return Condition("distance", "unknown", text, _host_bridge_evidence(firsts))


def _is_intel_host(view: View, accessor: Function) -> bool:
    first = view.topology.first_on_root(accessor)
    return view.host.cpu.is_intel or (first is not None and first.vendor == 0x8086)


def _host_bridge_allowed(first: Function | None, version: KernelVersion, same: bool) -> bool | None:
    if first is None:
        return False
    if not first.has_known_id:
        return None
    found = knowledge.host_bridge_allowed(first.id, (version.major, version.minor))
    if found is None:
        return False
    bridge, allowed = found
    return False if bridge.same_host_bridge and not same else allowed


def _host_bridge_evidence(firsts: list[Function | None]) -> tuple[Evidence, ...]:
    unique = {first.address: first for first in firsts if first is not None}
    return tuple(Evidence(first.origin, first.id) for first in unique.values())


def _large_bar(view: View, owner: Function, facts: GpuFacts) -> Condition:
    """Visible VRAM must be all of VRAM (amdgpu_gmc large BAR); amdgpu says so itself."""
    total, visible = facts.vram_bytes, facts.visible_vram_bytes
    if isinstance(total, Unknown) or isinstance(visible, Unknown):
        by_id = _large_bar_by_id(owner)
        return _large_bar_by_word(view, owner) or by_id if by_id.state == "unknown" else by_id
    evidence = (
        Evidence(facts.memory_source or owner.source("mem_info_vis_vram_total"), str(visible)),
        Evidence(facts.memory_source or owner.source("mem_info_vram_total"), str(total)),
    )
    if visible and visible == total:
        return Condition("large-bar", "holds", "all of the owner's memory shows in its BAR", evidence)
    text = f"only {visible >> 20:,} of {total >> 20:,} MiB of the owner's memory show in its BAR"
    if _bar_is_largest(owner, facts):
        return Condition("large-bar", "fails", f"{text}, the largest the card offers", evidence, by_design=True)
    return Condition("large-bar", "fails", text, evidence, remedies=("firmware-resizable-bar",))


def _bar_is_largest(gpu: Function, facts: GpuFacts) -> bool:
    """Whether the memory BAR is known to be as large as the card can make it."""
    bar, config = vram_bar(gpu), gpu.config
    if bar is None or isinstance(bar, Unknown):
        return False
    if sizes := facts.bar_sizes_bytes.get(bar.index):
        return max(sizes) <= bar.size_bytes
    if isinstance(config, Unknown) or isinstance(config.resizable_bars, Unknown):
        return False
    return all(
        max(each.sizes_bytes, default=0) <= bar.size_bytes for each in config.resizable_bars if each.bar_index == bar.index
    )


def _large_bar_by_id(owner: Function) -> Condition:
    bar, vram = vram_bar(owner), knowledge.vram_range_bytes(owner.id)
    if bar is None or isinstance(bar, Unknown) or not bar.assigned or vram is None:
        text = "how much of the owner's memory shows in its BAR is not known"
        return Condition("large-bar", "unknown", text)
    evidence = (Evidence(bar.said_at or owner.source("resource"), f"BAR{bar.index} {bar.size_bytes >> 20:,} MiB"),)
    if bar.size_bytes >= vram[1]:
        return Condition("large-bar", "holds", "the owner's BAR is as large as its memory", evidence)
    if bar.size_bytes < vram[0] * 0.9:
        text = f"the owner's BAR of {bar.size_bytes >> 20:,} MiB is smaller than its memory"
        return Condition("large-bar", "fails", text, evidence, remedies=("firmware-resizable-bar",))
    return Condition("large-bar", "unknown", "how much memory the owner has is not known", evidence)


def _large_bar_by_word(view: View, owner: Function) -> Condition | None:
    """HSA lets a processor reach a GPU's memory where the BAR shows all of it (hsa_amd_agent_memory_pool_get_info)."""
    words = view.processor_words.get(owner.address, [])
    if not words or any(word.allowed is not False for word in words):
        return None
    text = "no processor can reach the owner's memory: its BAR does not show all of it"
    evidence = (Evidence(words[0].source, f"{words[0].accessor} to {owner.address}: {words[0].text}"),)
    return Condition("large-bar", "fails", text, evidence, remedies=("firmware-resizable-bar",))


def mask_bits(gpu: Function) -> tuple[int | Unknown, Evidence]:
    """How many address bits a GPU can put on the bus: the driver's DMA mask, else what its generation has.

    The kernel's attribute reads 32 until a driver has set the mask, and only the driver that does P2P sets the one that
    counts (nouveau's is narrower than the GPU).
    """
    bits = gpu.dma_mask_bits
    if not isinstance(bits, Unknown) and bits > 32 and gpu.driver == _P2P_DRIVERS.get(gpu.vendor):
        return bits, Evidence(gpu.source("dma_mask_bits"), str(bits))
    by_id = knowledge.dma_bits_of(gpu.id)
    if by_id is None:
        return Unknown(f"how many bits {gpu.address} addresses is not known"), Evidence(gpu.source("device"), gpu.id)
    return by_id, Evidence(gpu.source("device"), f"{gpu.id}: {by_id} bits by its generation")


def reach(view: View, accessor: Function, owner: Function) -> Condition:
    """Whether the accessor can address the owner's BAR, or the IOMMU maps it (amdgpu_device_check_iommu_remap)."""
    bar, (bits, mask) = vram_bar(owner), mask_bits(accessor)
    if isinstance(bar, Unknown):
        return Condition("bar-reach", "unknown", "where the owner's BAR lies is not known")
    if bar is None and not missing_bars(owner):
        return Condition("bar-reach", "unknown", "where the owner's BAR lies is not known")
    if bar is None or not bar.assigned:
        said_at = next((each.said_at for each in missing_bars(owner)), "")
        nowhere = (Evidence(said_at or owner.source("resource"), "no address for the memory BAR"),)
        text = "the owner's memory BAR has no address"
        return Condition("bar-reach", "fails", text, nowhere, remedies=("firmware-above-4g-decoding",))
    if isinstance(bits, Unknown):
        return Condition("bar-reach", "unknown", bits.reason)
    where = Evidence(bar.said_at or owner.source("resource"), f"BAR{bar.index} {bar.address:#x}-{bar.end:#x}")
    if view.host.cpu.is_amd and bar.address <= HT_HOLE_END and bar.end >= HT_HOLE_START:
        text = "the owner's BAR lies in the HyperTransport range just below 1 TiB, where AMD processors may map no DMA"
        return Condition("bar-reach", "unknown", text, (where,), remedies=("firmware-mmio-below-dma-limit",))
    if bar.end < 1 << bits:
        return Condition("bar-reach", "holds", f"the owner's BAR lies within {bits} bits", (where, mask))
    beyond = f"the owner's BAR lies beyond the {bits} bits the accessor addresses"
    if accessor.vendor != ATI:
        return Condition("bar-reach", "unknown", f"{beyond}, and what the driver then does is not known", (where, mask))
    return _reach_by_remapping(view, accessor, beyond, (where, mask))


def driver_remaps(view: View) -> bool | Unknown:
    """Whether the loaded amdgpu lets a translating IOMMU stand in for reach.

    The kernel's version tells for its own driver only: not for one built outside it, nor for vendors' kernels, which
    carry newer drivers than their version says.
    """
    boot, modules = view.host.boot, view.host.modules
    amdgpu = None if isinstance(modules, Unknown) else modules.get("amdgpu")
    if amdgpu and amdgpu.version:
        return Unknown(f"amdgpu {amdgpu.version} is not the kernel's own")
    if isinstance(boot.version, Unknown):
        return False if boot.older_than is not None and boot.older_than <= REMAP_SINCE else boot.version
    if boot.version >= REMAP_SINCE:
        return True
    if ".el" in known(boot.release, ""):
        return Unknown(f"kernel {boot.release} carries drivers newer than its version")
    return False


def _reach_by_remapping(view: View, accessor: Function, beyond: str, seen: tuple[Evidence, ...]) -> Condition:
    type_, remaps = accessor.iommu_type, driver_remaps(view)
    if remaps is not False and (isinstance(type_, Unknown) or (isinstance(remaps, Unknown) and type_ in TRANSLATED)):
        why = remaps.reason if isinstance(remaps, Unknown) else "its mode is not known"
        return Condition("bar-reach", "unknown", f"{beyond}, and whether the IOMMU maps it is not known: {why}", seen)
    shown = type_.reason if isinstance(type_, Unknown) else type_ or "no IOMMU group"
    mode = Evidence(accessor.source("iommu_group/type"), shown)
    if type_ in TRANSLATED and remaps:
        text = f"{beyond}, but the IOMMU ({type_}) maps it, as kernels from {REMAP_SINCE} on let amdgpu do"
        return Condition("bar-reach", "holds", text, (*seen, mode))
    text = f"{beyond}, and nothing maps it within reach"
    return Condition("bar-reach", "fails", text, (*seen, mode), remedies=("firmware-mmio-below-dma-limit",))


# --- NVIDIA ----------------------------------------------------------------------------------------------------------


def _predict_nvidia(view: View, accessor: Function, owner: Function) -> Prediction:
    conditions = _nvidia_conditions(view, accessor, owner)
    verdict = nvml_p2p(view.nvml_pairs.get((accessor.address, owner.address)))
    if verdict is None:
        nvlink = _told_nvlink(view.host, accessor, owner)
        return Prediction(accessor, owner, (nvlink,) if nvlink else conditions)
    state: State = "unknown" if verdict.allowed is None else "holds" if verdict.allowed else "fails"
    nvml = Condition("nvml", state, verdict.text, verdict.evidence, by_design=state == "fails" and not verdict.by_key)
    if verdict.over_nvlink and verdict.allowed is not False:
        nvlink = Condition("nvlink", "holds", "NVLink joins both, which needs no PCIe P2P", verdict.evidence)
        mig = tuple(each for each in conditions if each.name == "mig" and not verdict.allowed)
        told = (nvlink, nvml) if verdict.allowed else (*mig, nvlink)
        return Prediction(accessor, owner, told, verdict.allowed, verdict.evidence)
    # What the driver decides for itself and the tables do not know is settled by its own word.
    settled = tuple(each for each in conditions if each.state != "unknown" or each.name not in _DRIVER_DECIDES)
    if verdict.granted and verdict.allowed is None and settled == conditions:
        return Prediction(accessor, owner, conditions)  # half an answer, and none was needed
    told = (*(settled if verdict.granted else conditions), nvml)
    return Prediction(accessor, owner, told, verdict.allowed, verdict.evidence)


def _told_nvlink(host: Host, accessor: Function, owner: Function) -> Condition | None:
    """NVLink that another tool has seen up: NCCL asks NVML for each link's state and whether it serves P2P."""
    for word in host.pair_words:
        if (
            word.link == "NVLINK"
            and word.allowed is not False
            and (word.accessor, word.owner) == (accessor.address, owner.address)
        ):
            evidence = (Evidence(word.source, word.text),)
            return Condition("nvlink", "holds", "NVLink joins both, which needs no PCIe P2P", evidence)
    return None


def _nvidia_conditions(view: View, accessor: Function, owner: Function) -> tuple[Condition, ...]:
    return (
        *_partitioned(view.host, accessor, owner),
        _same_chip(accessor, owner),
        _product_policy(accessor, owner),
        _nvidia_bound(accessor, owner),
        _one_old_root_complex(view, accessor, owner),
        _not_translated(accessor, owner),
    )


def products_of(gpu: Function) -> tuple[knowledge.Gpu, ...]:
    """The products that a GPU can be: by its id, else by what a tool calls it."""
    return knowledge.gpus_by_id(gpu.id) or knowledge.gpus_by_name(gpu.name)


def chip_of(gpu: Function) -> str:
    """The die, where all products that a GPU can be have the same; else empty."""
    if chip := knowledge.chip_of(gpu.id):
        return chip
    chips = {product.chip for product in products_of(gpu)}
    return chips.pop() if len(chips) == 1 else ""


def _partitioned(host: Host, accessor: Function, owner: Function) -> Iterator[Condition]:
    """A GPU that is divided (MIG) does no P2P (p2p_caps.c)."""
    for gpu in (accessor, owner):
        told = nvml_gpu(host, gpu)
        if told and told.mig_enabled is True:
            text = f"{gpu.address} is divided by MIG, and NVIDIA's driver does no P2P with it then"
            yield Condition("mig", "fails", text, (Evidence(told.origin or "NVML", "MIG mode: enabled"),), by_design=True)
            return


def same_nvidia_chip(a: Function, b: Function) -> bool | None:
    """Whether two GPUs have the same die; None where one of them is not in the tables."""
    if a.is_twin_of(b):
        return True
    chips = (chip_of(a), chip_of(b))
    return chips[0] == chips[1] if all(chips) else None


def _identity(gpu: Function) -> Evidence:
    """What tells which product it is."""
    if not gpu.device:
        return Evidence(gpu.origin, gpu.name or "no name")
    return Evidence(gpu.source("device"), f"{gpu.id} {knowledge.name_of(gpu.id)}".strip())


def _same_chip(accessor: Function, owner: Function) -> Condition:
    """p2p_caps.c compares architecture and implementation of both."""
    same = same_nvidia_chip(accessor, owner)
    ids = (_identity(accessor), _identity(owner))
    if same is None:
        return Condition("same-chip", "unknown", "whether both have the same chip is not in the tables", ids)
    if same:
        return Condition("same-chip", "holds", "both have the same chip", ids)
    chips = " and ".join(sorted((chip_of(gpu) or gpu.id).upper() for gpu in (accessor, owner)))
    text = f"NVIDIA's driver does PCIe P2P only between GPUs of the same chip, and these are {chips}"
    return Condition("same-chip", "fails", text, ids, by_design=True)


def pcie_p2p_policy(gpu: Function) -> str:
    """What the stock driver does with the product: "allowed", "refused", "unconfirmed", "none", or "" if not in the tables."""
    policies = {product.pcie_p2p for product in products_of(gpu)}
    return policies.pop() if len(policies) == 1 else ""


def _product_policy(accessor: Function, owner: Function) -> Condition:
    policies = {gpu.address: pcie_p2p_policy(gpu) for gpu in (accessor, owner)}
    for gpu in (accessor, owner):
        if policies[gpu.address] in ("refused", "none"):
            name = knowledge.name_of(gpu.id) if gpu.device else gpu.name
            text = f"NVIDIA's stock driver refuses PCIe P2P on {name}: a policy of the product, not a fault"
            seen = Evidence(gpu.source("device"), gpu.id) if gpu.device else _identity(gpu)
            return Condition("policy", "fails", text, (seen,), by_design=True)
    if all(policy == "allowed" for policy in policies.values()):
        return Condition("policy", "holds", "the driver is not known to refuse P2P on these products")
    text = "whether the driver allows P2P on these products is not known; nvidia-smi topo -p2p r tells"
    return Condition("policy", "unknown", text)


def _nvidia_bound(accessor: Function, owner: Function) -> Condition:
    other = next((gpu for gpu in (accessor, owner) if gpu.driver != "nvidia"), None)
    if other is None:
        return Condition("driver", "holds", "the driver nvidia drives both")
    if isinstance(other.driver, Unknown):
        return Condition("driver", "unknown", f"which driver {other.address} has is {other.driver.reason}")
    what = f"the driver {other.driver}" if other.driver else "no driver"
    text = f"{other.address} has {what}, and P2P needs NVIDIA's own"
    evidence = (Evidence(other.source("driver"), other.driver or "none"),)
    return Condition("driver", "unknown", text, evidence, remedies=("load-driver",))


def _one_old_root_complex(view: View, accessor: Function, owner: Function) -> Condition:
    """The driver refuses P2P across the processors' interconnect of old Intel platforms (p2p_caps.c)."""
    cut_off = [gpu.address for gpu in (accessor, owner) if not view.topology.knows_way_up(gpu)]
    if cut_off:
        return Condition("root-complex", "unknown", f"the ports above {cut_off[0]} are not all in this evidence")
    roots = [(view.topology.above(gpu) or (gpu,))[-1] for gpu in (accessor, owner)]
    old = [root for root in roots if knowledge.nvidia_old_root_port(root.id)]
    nameless = [root.address for root in roots if root.vendor == INTEL and not root.has_known_id]
    if not old and nameless and accessor.root != owner.root:
        return Condition("root-complex", "unknown", f"which processor's port {nameless[0]} is, its name does not tell")
    if not old or accessor.root == owner.root:
        return Condition("root-complex", "holds", "no old root complex lies between them")
    text = f"the driver refuses P2P between root complexes of this generation of Intel processors ({old[0].id})"
    return Condition("root-complex", "fails", text, (Evidence(old[0].origin, old[0].id),), by_design=True)


def _not_translated(accessor: Function, owner: Function) -> Condition:
    """NVIDIA does not support peer copies on bare metal with a translating IOMMU; the open module is aware of one."""
    for gpu in (accessor, owner):
        if isinstance(gpu.iommu_type, Unknown):
            return Condition("iommu", "unknown", f"the IOMMU mode of {gpu.address} is {gpu.iommu_type.reason}")
        if gpu.iommu_type in TRANSLATED:
            text = f"the IOMMU translates ({gpu.iommu_type}), which NVIDIA does not support for P2P"
            evidence = (Evidence(gpu.source("iommu_group/type"), gpu.iommu_type or ""),)
            return Condition("iommu", "unknown", text, evidence, remedies=("iommu-passthrough",))
    return Condition("iommu", "holds", "the IOMMU does not translate either")
