"""The driver of each GPU."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from hostdoctor import knowledge, logged, refused, wording
from hostdoctor.facts.driver import Nvml, NvmlGpu
from hostdoctor.facts.host import Kfd, Module
from hostdoctor.facts.log import LogEvent
from hostdoctor.facts.pci import ATI, INTEL, NVIDIA, Function, GpuFacts
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.findings import OUTCOMES, Check, Evidence, Finding, unjudged
from hostdoctor.view import View

ID = "gpu-driver"

_ORDER = {outcome: place for place, outcome in enumerate(OUTCOMES)}

# The drivers that serve compute, by vendor.
_COMPUTE = {ATI: ("amdgpu",), NVIDIA: ("nvidia",), INTEL: ("xe", "i915")}
_FOR_GUESTS = frozenset({"vfio-pci", "pci-stub", "nvgrace_gpu_vfio_pci"})
_CONTROLLER_3D = 0x0302  # a display controller without outputs

# nvmlReturn_t, as the last thing in a reason: "(9)", "(NVML 18)".
_CODE = re.compile(r"\((?:NVML )?(\d{1,3})\)\Z")
_NO_DEVICES, _DRIVER_NOT_LOADED, _VERSION_MISMATCH = "6", "9", "18"


def judge(view: View) -> Iterator[Finding]:
    """One finding for each discrete GPU, and one where only a log, or a tool that was refused, tells of any."""
    found = list(_told(view))
    yield from found
    if not found and isinstance(view.host.functions, Unknown):
        yield unjudged(ID, (), "driver", view.host.functions)


def _told(view: View) -> Iterator[Finding]:
    told = refused.of_driver(view)
    said = _by_the_log(view)
    if told:
        yield told.finding(ID)
    for gpu in view.gpus:
        logged_one = said.pop(gpu.address, None)
        if told is not None and gpu in told.gpus:
            continue
        finding = _judge_gpu(view, gpu)
        # Of two failures the log's tells more: what failed, where tools only see that something did.
        if logged_one is not None and (finding.outcome == logged_one.outcome == "failure" or _is_worse(logged_one, finding)):
            yield logged_one
        else:
            yield finding
    yield from said.values()
    if not said and not any(gpu.vendor == NVIDIA for gpu in view.gpus):
        yield from _only_complaint(view)


def _is_worse(one: Finding, other: Finding) -> bool:
    return _ORDER[one.outcome] < _ORDER[other.outcome]


def _only_complaint(view: View) -> Iterator[Finding]:
    """What nvidia-smi says of its driver where no GPU of NVIDIA is in the evidence."""
    nvml, functions = view.host.nvml, view.host.functions
    if not isinstance(nvml, Unknown) or not view.host.nvml_complaint:
        return
    evidence = (Evidence(view.host.nvml_complaint, nvml.reason),)
    code = match[1] if (match := _CODE.search(nvml.reason)) else ""
    if code == _VERSION_MISMATCH:
        yield _mismatch((), nvml.reason, evidence)
    elif code == _DRIVER_NOT_LOADED and isinstance(functions, Unknown):
        yield _not_reached((), evidence)
    elif not view.gpus:
        yield unjudged(ID, (), "driver", nvml, evidence)


def _not_reached(subject: tuple[str, ...], evidence: tuple[Evidence, ...]) -> Finding:
    return Finding(
        ID,
        "failure",
        subject,
        "nvidia-smi finds no working NVIDIA driver",
        "The module nvidia is not loaded, or has failed: not built for the running kernel, refused by Secure Boot, kept out by "
        "nouveau, or without a GPU that it serves.",
        "likely",
        evidence,
        remedies=("load-driver",),
        next="modprobe nvidia, and read the kernel log for lines of NVRM: they say why it does not load",
    )


# --- what the log says ------------------------------------------------------------------------------------------------


def _by_the_log(view: View) -> dict[str, Finding]:
    """By GPU what its driver wrote of its start; under an empty key what names no GPU that is known."""
    log = view.host.log
    found: dict[str, Finding] = {}
    if log is None:
        return found
    for kind, judge_event in _LOGGED.items():
        for event in logged.of_last_boot(log, kind):
            for address in _concerned(view, event):
                finding = judge_event(view, address, event)
                if finding is not None and not _works_all_the_same(view, address):
                    found.setdefault(address, finding)
    return found


def _concerned(view: View, event: LogEvent) -> tuple[str, ...]:
    """The GPUs that a message is about: the one it names, those with the id it names, or all of that vendor."""
    if event.address:
        return () if logged.is_integrated(view, event.address) else (event.address,)
    vendor = ATI if event.kind.startswith(("kfd-", "amdgpu-")) else NVIDIA
    named = event.details.get("id", "")
    ids = [":".join(part.rjust(4, "0") for part in id_.split(":")) for id_ in named.split(", ")]
    gpus = [gpu.address for gpu in view.gpus if gpu.vendor == vendor and (not named or gpu.id in ids)]
    if event.kind in _OF_ALL or len(gpus) == 1:
        return tuple(gpus) or ("",)
    return ("",)


def _works_all_the_same(view: View, address: str) -> bool:
    """Whether the driver itself answers for the GPU now, so that what the log says is over."""
    nvml, kfd = view.host.nvml, view.host.kfd
    if isinstance(nvml, Nvml) and any(each.address == address and not each.lost and not each.trouble for each in nvml.gpus):
        return True
    return isinstance(kfd, Kfd) and any(node.address == address for node in kfd.nodes)


def _name(view: View, address: str) -> str:
    return logged.name(view, address) if address else "a GPU that the log does not name"


def _failed(view: View, address: str, event: LogEvent) -> Finding:
    driver = "amdgpu" if event.kind == "amdgpu-init" else "nvidia"
    return Finding(
        ID,
        "failure",
        logged.subject(address),
        f"{driver} failed to bring up {_name(view, address)}",
        "So no program can use it. Lines around this one in the log say at which step it failed.",
        evidence=logged.evidence([event]),
        remedies=("load-driver",),
        next="update the driver and the board's firmware; if an older driver worked, go back to it; check power and seating",
    )


def _bar_invalid(view: View, address: str, event: LogEvent) -> Finding:
    return Finding(
        ID,
        "failure",
        logged.subject(address),
        f"nvidia refuses {_name(view, address)}: a BAR of it has no valid address",
        "The firmware gave the GPU no space for it: see bar-unassigned and window-space.",
        evidence=logged.evidence([event]),
        next="enable Above 4G Decoding in the firmware setup, and give memory above 4 GB more room there",
    )


def _logged_mismatch(view: View, address: str, event: LogEvent) -> Finding:
    client, module = event.details.get("client", "?"), event.details.get("module", "")
    return Finding(
        ID,
        "failure",
        logged.subject(address),
        "the loaded NVIDIA module and the installed libraries are of different versions",
        f"A program came with version {client}{f', and the module is {module}' if module else ''}, so it cannot use the GPU. "
        "It is what an update leaves behind until the next restart, or what a container brings along.",
        "certain" if module else "likely",
        logged.evidence([event]),
        remedies=("load-driver",),
        next="restart the host, or unload and load nvidia's modules while nothing uses them",
    )


def _unsupported(view: View, address: str, event: LogEvent) -> Finding:
    """An old card for the screen beside others is no loss for computing."""
    others = [each for each in logged.gpus_driven_by(view, "nvidia") if each != address]
    return Finding(
        ID,
        "info" if others else "failure",
        logged.subject(address),
        f"this NVIDIA driver does not support {_name(view, address)}",
        "Drivers leave out old generations, and the open modules those before Turing; the newest generations have open modules "
        "only.",
        evidence=logged.evidence([event]),
        remedies=() if others else ("load-driver",),
        next="" if others else "install the driver branch and the kind of module, open or proprietary, that knows this GPU",
    )


def _held(view: View, address: str, event: LogEvent) -> Finding | None:
    holder = event.details.get("holder", "another driver, such as nouveau")
    if holder.startswith("vfio"):
        return None
    return Finding(
        ID,
        "warning",
        logged.subject(address),
        f"{holder} holds {_name(view, address)}, so nvidia cannot drive it",
        "Nothing can compute on it as long as another driver has it.",
        "likely",
        logged.evidence([event]),
        remedies=("load-driver",),
        next="keep nouveau from loading (blacklist it and rebuild the initramfs), then restart",
    )


def _not_probed(view: View, address: str, event: LogEvent) -> Finding | None:
    log = view.host.log
    if log is None or view.uses_vfio or "vfio-pci" in log.drivers.values() or log.of("nvidia-held"):
        return None  # guests have them, or the log names who does
    return _held(view, address, event)


def _kfd_unsupported(view: View, address: str, event: LogEvent) -> Finding:
    chip = event.details.get("chip", "this generation")
    return Finding(
        ID,
        "info",
        logged.subject(address),
        f"AMD's compute driver (KFD) does not support {chip}",
        "amdgpu can light a screen with it, but nothing can compute on it with ROCm. That is the generation's limit.",
        evidence=logged.evidence([event]),
    )


def _kfd_failed(view: View, address: str, event: LogEvent) -> Finding:
    what = _name(view, address) if address else f"the GPU {event.details.get('id', '?')}"
    return Finding(
        ID,
        "failure",
        logged.subject(address) or tuple(event.details.get("id", "").split(", ")),
        f"AMD's compute driver (KFD) did not take {what}, because of errors",
        "Nothing can compute on it. Lines before this one in the log say what failed.",
        evidence=logged.evidence([event]),
        remedies=("load-driver",),
        next="read the lines of kfd and amdgpu before it; update the driver and the GPU's firmware",
    )


_OF_ALL = ("nvidia-mismatch", "nvidia-not-probed", "kfd-failed")
# The most telling first: of two about one GPU the first stands.
_LOGGED: Mapping[str, Callable[[View, str, LogEvent], Finding | None]] = {
    "nvidia-bar": _bar_invalid,
    "nvidia-unsupported": _unsupported,
    "nvidia-mismatch": _logged_mismatch,
    "nvidia-held": _held,
    "nvidia-not-probed": _not_probed,
    "nvidia-init": _failed,
    "amdgpu-init": _failed,
    "kfd-failed": _kfd_failed,
    "kfd-unsupported": _kfd_unsupported,
}


# --- what the host shows ----------------------------------------------------------------------------------------------


def _judge_gpu(view: View, gpu: Function) -> Finding:
    driver = gpu.driver
    if isinstance(driver, Unknown) and not (gpu.vendor == NVIDIA and view.host.nvml_complaint):
        return unjudged(ID, (gpu.address,), "driver", driver)
    if driver is None:
        return _without(view, gpu)
    if not isinstance(driver, Unknown) and driver in _FOR_GUESTS:
        return _for_guests(view, gpu, driver)
    if not isinstance(driver, Unknown) and driver not in _COMPUTE[gpu.vendor]:
        return _other(view, gpu, driver)
    if driver == "nvidia" or isinstance(driver, Unknown):
        return _nvidia(view, gpu)
    return _amdgpu(view, gpu) if driver == "amdgpu" else _fine(gpu, driver)


def _bound(gpu: Function, driver: str) -> Evidence:
    return Evidence(gpu.source("driver"), driver)


def _fine(gpu: Function, driver: str, version: str | None = None, *more: Evidence) -> Finding:
    title = f"{driver} {version} drives it" if version else f"{driver} drives it"
    return Finding(ID, "ok", (gpu.address,), title, evidence=(_bound(gpu, driver), *more))


def _handed_over(view: View, gpu: Function) -> bool:
    """Whether the command line keeps GPUs of this kind for guests (vfio-pci.ids, pci-stub.ids)."""
    return any(
        parameter.key in ("vfio_pci.ids", "pci_stub.ids") and gpu.id in (parameter.value or "").lower()
        for parameter in view.host.boot.parameters
    )


def _without(view: View, gpu: Function) -> Finding:
    subject, evidence = (gpu.address,), (Evidence(gpu.source("driver"), "there is none"),)
    if _handed_over(view, gpu):
        title = "no driver has it now; the kernel command line keeps it for guests"
        return Finding(ID, "info", subject, title, evidence=evidence)
    wanted = " or ".join(_COMPUTE[gpu.vendor])
    loaded = [name for name in _COMPUTE[gpu.vendor] if _module(view, name)]
    why = f"The module {loaded[0]} is loaded and has not taken it: the kernel log says why." if loaded else ""
    return Finding(
        ID,
        "failure",
        subject,
        f"no driver has taken {view.name(gpu)}",
        why or f"Without {wanted} nothing can compute on it.",
        evidence=evidence,
        remedies=("load-driver",),
        next=f"load {wanted}, or install it for this kernel. The kernel log says why it refuses a GPU",
    )


def _module(view: View, name: str) -> Module | None:
    modules = view.host.modules
    return None if isinstance(modules, Unknown) else modules.get(name)


def _for_guests(view: View, gpu: Function, driver: str) -> Finding:
    subject, evidence = (gpu.address,), (_bound(gpu, driver),)
    twins = [each for each in view.gpus if each.is_twin_of(gpu) and each.driver in _COMPUTE[gpu.vendor]]
    asked = view.host.boot.command_line
    if not twins or isinstance(asked, Unknown) or _handed_over(view, gpu):
        return Finding(ID, "info", subject, f"{driver} keeps it for guests", evidence=evidence)
    return Finding(
        ID,
        "warning",
        subject,
        f"{driver} keeps it for guests, while {wording.count(len(twins), 'GPU')} of its kind can compute on this host",
        f"Nothing on the kernel command line asks for it. If no guest uses it, it does nothing, and "
        f"{wording.listed(t.address for t in twins)} must do without it.",
        "possible",
        (*evidence, *(_bound(twin, str(twin.driver)) for twin in twins[:2])),
        remedies=("load-driver",),
        next=f"if this host is to compute on it, unbind it from {driver} and bind it to {twins[0].driver}",
    )


def _other(view: View, gpu: Function, driver: str) -> Finding:
    """A driver that only lights a screen: all that a desktop wants of it."""
    subject, evidence = (gpu.address,), (_bound(gpu, driver),)
    why = _why_compute_is_wanted(view, gpu)
    if not why:
        title = f"{driver} drives it: that is for the screen, and compute needs {' or '.join(_COMPUTE[gpu.vendor])}"
        return Finding(ID, "info", subject, title, evidence=evidence)
    return Finding(
        ID,
        "warning",
        subject,
        f"{driver} drives it, so nothing can compute on it",
        f"{why}.",
        "likely",
        evidence,
        remedies=("load-driver",),
        next=f"install {_COMPUTE[gpu.vendor][0]} for this kernel and keep {driver} from loading",
    )


def _why_compute_is_wanted(view: View, gpu: Function) -> str:
    """Only of products that today's drivers know: an old card beside the others is there for the screen."""
    products = knowledge.gpus_by_id(gpu.id)
    if not products:
        return ""
    if gpu.class_code >> 8 == _CONTROLLER_3D and all(product.vendor_class == "professional" for product in products):
        return f"{view.name(gpu)} has no outputs, so computing is all that it is for"
    if gpu.vendor == NVIDIA and view.host.nvml_complaint and isinstance(view.host.nvml, Unknown):
        return "Somebody asked NVIDIA's driver for it, which nvidia-smi does not find"
    others = [each.address for each in view.gpus if each.vendor == gpu.vendor and each.driver in _COMPUTE[gpu.vendor]]
    return f"{wording.listed(others)} of this host can compute" if others else ""


def _nvidia(view: View, gpu: Function) -> Finding:
    subject, nvml = (gpu.address,), view.host.nvml
    module = _module(view, "nvidia")
    version = module.version if module else None
    loaded = Evidence("/proc/driver/nvidia/version", version or "no version")
    if isinstance(nvml, Nvml):
        return _as_nvml_sees_it(gpu, nvml, version, loaded)
    if nvml is None:
        return _fine(gpu, "nvidia", version)
    code = match[1] if (match := _CODE.search(nvml.reason)) else ""
    told = Evidence(view.host.nvml_complaint or "NVML", nvml.reason)
    if code == _VERSION_MISMATCH:
        return _mismatch(subject, nvml.reason, (loaded, told) if version else (told,))
    if code == _DRIVER_NOT_LOADED:
        return _not_reached(subject, (told,)) if view.host.nvml_complaint else _not_loaded(view, gpu, nvml)
    if code == _NO_DEVICES:
        return _not_brought_up(gpu, told)
    if isinstance(gpu.driver, Unknown):
        return unjudged(ID, subject, "driver", nvml, (told,))
    if nvml.reason.startswith("timed out") or "crashed" in nvml.reason:
        return unjudged(ID, subject, "driver", nvml, (_bound(gpu, "nvidia"),))
    return _fine(gpu, "nvidia", version)


def _as_nvml_sees_it(gpu: Function, nvml: Nvml, version: str | None, loaded: Evidence) -> Finding:
    theirs = nvml.driver_version
    seen = Evidence(nvml.origin, "driver version unknown" if isinstance(theirs, Unknown) else f"driver {theirs}")
    told = next((each for each in nvml.gpus if each.address == gpu.address), None)
    if told and told.lost:
        return _lost(gpu, told)
    if told and told.trouble:
        return _in_trouble(gpu, told)
    # An nvidia-smi that answers has passed the driver's own comparison; printed at another time, it may be another driver.
    asked_now = nvml.origin == "NVML"
    if asked_now and version and not isinstance(theirs, Unknown) and theirs != version:
        return _mismatch((gpu.address,), f"the module is {version}, the libraries are {theirs}", (loaded, seen))
    return _fine(gpu, "nvidia", version or (None if isinstance(theirs, Unknown) else theirs), seen)


def _lost(gpu: Function, told: NvmlGpu) -> Finding:
    return Finding(
        ID,
        "failure",
        (gpu.address,),
        "the driver has lost the GPU",
        "It fell off the bus, or no longer answers the driver.",
        evidence=(_bound(gpu, "nvidia"), Evidence(told.origin or "NVML", "GPU is lost (NVML 15)")),
        remedies=("check-power-and-seating",),
        next="read the kernel log for the Xid of that moment, check power and seating, then power cycle the host",
    )


def _in_trouble(gpu: Function, told: NvmlGpu) -> Finding:
    return Finding(
        ID,
        "failure",
        (gpu.address,),
        told.trouble,
        "No program can rely on a GPU in this state.",
        "likely",
        (Evidence(told.origin or "NVML", told.trouble),),
        remedies=("check-power-and-seating",),
        next="read the kernel log for the Xid of that moment (lines of NVRM), then reset the GPU or restart the host",
    )


def _not_brought_up(gpu: Function, told: Evidence) -> Finding:
    return Finding(
        ID,
        "failure",
        (gpu.address,),
        "nvidia is bound to it, but nvidia-smi finds no GPU",
        "The driver is loaded and could not start the GPU.",
        "likely",
        (_bound(gpu, "nvidia"), told),
        remedies=("load-driver", "check-power-and-seating"),
        next="read the kernel log for lines of NVRM (RmInitAdapter failed and the like): they say what failed",
    )


def _mismatch(subject: tuple[str, ...], why: str, evidence: tuple[Evidence, ...]) -> Finding:
    return Finding(
        ID,
        "failure",
        subject,
        "the loaded NVIDIA module and the installed libraries are of different versions",
        f"{why[0].upper()}{why[1:]}. So no program can use the GPU; it is what an update leaves behind until the next restart.",
        evidence=evidence,
        remedies=("load-driver",),
        next="restart the host, or unload and load nvidia's modules while nothing uses them",
    )


def _not_loaded(view: View, gpu: Function, nvml: Unknown) -> Finding:
    """NVML says the same where it finds no device file, as in a container that was given none."""
    access = view.host.access
    here = not isinstance(access, Unknown) and any(node.path == "/dev/nvidiactl" for node in access.nodes)
    if not here or view.host.environment.container:
        return unjudged(ID, (gpu.address,), "driver", nvml, (_bound(gpu, "nvidia"),))
    return Finding(
        ID,
        "failure",
        (gpu.address,),
        "nvidia is bound to it, but does not work",
        "NVIDIA's library finds no working driver behind /dev/nvidiactl.",
        evidence=(_bound(gpu, "nvidia"), Evidence("NVML", nvml.reason)),
        remedies=("load-driver",),
        next="read the kernel log for lines of NVRM: they say what failed",
    )


def _amdgpu(view: View, gpu: Function) -> Finding:
    subject, kfd = (gpu.address,), view.host.kfd
    vram = view.host.gpu_facts.get(gpu.address, GpuFacts()).vram_bytes
    if not isinstance(kfd, Kfd) or any(node.address == gpu.address for node in kfd.nodes):
        hangs = isinstance(vram, Unknown) and "did not end within" in vram.reason
        return unjudged(ID, subject, "driver", vram) if hangs and isinstance(vram, Unknown) else _fine(gpu, "amdgpu")
    evidence = (_bound(gpu, "amdgpu"), Evidence("/sys/class/kfd/kfd/topology/nodes", "no node of this GPU"))
    if vram == NOT_CAPTURED:
        return Finding(
            ID,
            "failure",
            subject,
            "amdgpu is bound to it, but has not brought it up",
            "The driver shows neither its memory nor a node of it in KFD.",
            "likely",
            (*evidence, Evidence(gpu.source("mem_info_vram_total"), "there is none")),
            remedies=("load-driver",),
            next="read the kernel log for lines of amdgpu: they say what failed",
        )
    known_for_compute = bool(knowledge.gpus_by_id(gpu.id))
    return Finding(
        ID,
        "warning" if known_for_compute else "info",
        subject,
        "amdgpu drives it, but KFD offers no compute on it",
        "AMD's compute driver (KFD) shows other nodes and none of this GPU: it has refused it, as it does with generations it "
        "does not support and with GPUs that lack PCIe atomics or memory for their queues.",
        "likely" if known_for_compute else "certain",
        evidence,
        remedies=("load-driver",) if known_for_compute else (),
        next="read the kernel log for lines of kfd: they say why it skipped the GPU" if known_for_compute else "",
    )


CHECK = Check(
    id=ID,
    subject="GPU",
    summary="Each GPU has a driver that serves compute, and that driver works.",
    looks_at="The driver bound to each GPU, KFD's nodes, the version of the loaded NVIDIA module and what NVIDIA's library "
    "or nvidia-smi's output says of it; what drivers write of their start into the kernel's log. In pastes also what rocminfo, "
    "rocm-smi and amd-smi say where they find no driver.",
    why="A GPU without its driver, or with one that failed, is missing from every program without a word.",
    decides="A failure where a GPU has no driver (info where the command line keeps it for guests), where amdgpu is bound and "
    "shows neither memory nor a KFD node, where NVIDIA's library finds no driver or has lost the GPU, where its version "
    "differs from the module's, or where the GPU wants a reset. A driver for screens (nouveau, radeon) is info, and a "
    "warning only for products that are known here where another GPU of the vendor computes, or that have no outputs. "
    "vfio-pci is info, and a warning only where GPUs of the same kind compute and the command line does not ask for it. A "
    "warning where KFD leaves out a GPU that is known for compute. Where the log says that a driver failed at the GPU, "
    "refused it or met libraries of another version, a failure, unless the driver answers for it now; a generation that KFD "
    "does not support is info. Integrated GPUs are not judged.",
    sources=(
        "NVML, nvml.h: NVML_ERROR_DRIVER_NOT_LOADED, NVML_ERROR_LIB_RM_VERSION_MISMATCH, NVML_ERROR_GPU_IS_LOST",
        "NVIDIA driver README, The /proc file system interface",
        "Linux drivers/gpu/drm/amd/amdkfd/kfd_device.c kgd2kfd_device_init: which GPUs KFD refuses",
        "Linux Documentation/driver-api/vfio.rst",
    ),
    judge=judge,
    remedies=("load-driver", "check-power-and-seating"),
    needs_pci=False,
)
