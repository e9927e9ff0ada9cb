"""What the calling user may do with the device files that compute needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hostdoctor import wording
from hostdoctor.facts.driver import Access, DeviceNode
from hostdoctor.facts.host import Kfd
from hostdoctor.facts.unknown import ANOTHER_USER, Unknown
from hostdoctor.findings import Check, Evidence, Finding, unjudged
from hostdoctor.view import View

ID = "gpu-access"

# What the kernel (8 MiB, before 5.16 64 KiB) and systemd (8 MiB, 64 MiB for what it needs itself) give by themselves: up
# to there nobody has set the limit. RDMA pins its buffers in memory, and its manuals ask for no limit at all.
_DEFAULT_MEMLOCK_BYTES = 64 * wording.MIB

_CONTAINER = "start the container with {}; what it lacks now it cannot be given later"
_FOR_AMD = "--device=/dev/kfd --device=/dev/dri --group-add with the group of /dev/kfd"
_FOR_NVIDIA = "--gpus all, or the device files of nvidia"


def judge(view: View) -> Iterator[Finding]:
    """What stands in the user's way, or one finding that nothing does."""
    access = view.host.access
    if access == ANOTHER_USER and view.gpus:
        yield Finding(ID, "not-applicable", (), f"rights not judged: {ANOTHER_USER.reason}")
        return
    amd = [gpu for gpu in view.amd_gpus if gpu.driver == "amdgpu"]
    nvidia = [gpu for gpu in view.nvidia_gpus if gpu.driver == "nvidia"]
    if not amd and not nvidia:
        unread = next((gpu.driver for gpu in view.gpus if isinstance(gpu.driver, Unknown)), None)
        if unread is not None:
            yield unjudged(ID, (), "rights of the user", unread)
        return
    if isinstance(access, Unknown):
        yield unjudged(ID, (), "rights of the user", access)
        return
    found: list[Finding] = []
    if amd:
        found += _judge_amd(view, access, _chosen(access, "/dev/kfd"), _chosen(access, "/dev/dri/"))
    if nvidia:
        found += _judge_nvidia(view, access, _chosen(access, "/dev/nvidia"))
    found += _judge_memlock(view, access)
    yield from found
    if not found:
        title = f"{_who(access)} may use {wording.listed([node.path for node in access.nodes], 6)}"
        yield Finding(ID, "ok", (), title, evidence=tuple(_seen(access, node) for node in access.nodes))


def _chosen(access: Access, start: str) -> list[DeviceNode]:
    return [node for node in access.nodes if node.path.startswith(start)]


def _who(access: Access) -> str:
    return "root" if access.user == 0 else f"user {access.user}"


def _group(access: Access, group: int) -> str:
    name = access.group_names.get(group)
    return f"{name} ({group})" if name else str(group)


def _seen(access: Access, node: DeviceNode) -> Evidence:
    return Evidence(node.path, f"mode {node.mode:04o}, owner {node.owner}, group {_group(access, node.group)}")


def _judge_amd(view: View, access: Access, kfd: list[DeviceNode], render: list[DeviceNode]) -> Iterator[Finding]:
    missing = [path for path, nodes in (("/dev/kfd", kfd), ("/dev/dri/renderD*", render)) if not nodes]
    if missing:
        yield _missing_amd(view, missing)
    denied = [node for node in (*kfd, *render) if not (node.readable and node.writable)]
    if denied:
        yield _denied(view, access, denied, _FOR_AMD)


def _missing_amd(view: View, missing: list[str]) -> Finding:
    container, kfd = view.host.environment.container, view.host.kfd
    what = wording.listed(missing)
    has_compute = isinstance(kfd, Kfd) and any(node.address for node in kfd.nodes)
    if not container and not has_compute:
        why = Unknown(f"there is no {what}, and whether the kernel offers compute is not known")
        return unjudged(ID, tuple(missing), "rights of the user", why)
    shown = "the kernel offers compute on AMD GPUs" if has_compute else "amdgpu drives GPUs of this host"
    return Finding(
        ID,
        "failure",
        tuple(missing),
        f"there is no {what} here, which compute on AMD GPUs needs",
        f"{shown[0].upper()}{shown[1:]}, but the device files are not {'in this container' if container else 'in /dev'}.",
        evidence=tuple(Evidence(path, "there is none") for path in missing),
        next=_CONTAINER.format(_FOR_AMD) if container else "see whether udev runs: it makes the files",
    )


def _judge_nvidia(view: View, access: Access, nodes: list[DeviceNode]) -> Iterator[Finding]:
    denied = [node for node in nodes if not (node.readable and node.writable)]
    if denied:
        yield _denied(view, access, denied, _FOR_NVIDIA)
    # nvidia-uvm's file comes with its module, which the first CUDA program loads.
    missing = [path for path in ("/dev/nvidiactl", "/dev/nvidia0") if not _covered(path, nodes)]
    if not missing:
        return
    what = wording.listed(missing)
    evidence = tuple(Evidence(path, "there is none") for path in missing)
    if view.host.environment.container:
        title = f"there is no {what} in this container, which compute on NVIDIA GPUs needs"
        step = _CONTAINER.format(_FOR_NVIDIA)
        yield Finding(ID, "failure", tuple(missing), title, evidence=evidence, next=step)
    else:
        title = f"there is no {what} yet"
        explanation = "nvidia-modprobe or nvidia-persistenced makes these files when the GPU is first used."
        yield Finding(ID, "info", tuple(missing), title, explanation, evidence=evidence)


def _covered(path: str, nodes: Sequence[DeviceNode]) -> bool:
    """Whether a file is there; for a GPU's own, whether that of any GPU is."""
    if path == "/dev/nvidia0":
        return any(node.path[len("/dev/nvidia") :].isdecimal() for node in nodes)
    return any(node.path == path for node in nodes)


def _denied(view: View, access: Access, nodes: list[DeviceNode], in_container: str) -> Finding:
    return Finding(
        ID,
        "failure",
        tuple(node.path for node in nodes),
        f"{_who(access)} cannot open {wording.listed([node.path for node in nodes], 6)}",
        "Compute needs to read and to write these files; without that, programs find no GPU.",
        evidence=tuple(_seen(access, node) for node in nodes),
        next=_step(view, access, nodes, in_container),
    )


def _step(view: View, access: Access, nodes: list[DeviceNode], in_container: str) -> str:
    helping = list(dict.fromkeys(node.group for node in nodes if node.mode & 0o060 == 0o060 and node.group))
    if view.host.environment.container:
        return _CONTAINER.format(in_container)
    if not helping:
        return "no group may open them: a udev rule has to give them a group and mode 0660"
    names = [access.group_names.get(group, str(group)) for group in helping]
    return f"usermod -aG {','.join(names)} for this user, then log in again"


def _judge_memlock(view: View, access: Access) -> Iterator[Finding]:
    """Only RDMA needs it, and root is not bound by it."""
    network, limit = view.host.network, access.memlock_bytes
    cards = [] if isinstance(network, Unknown) else [device for device in network if device.rdma]
    if not cards or access.user == 0 or limit is None or isinstance(limit, Unknown) or limit > _DEFAULT_MEMLOCK_BYTES:
        return
    yield Finding(
        ID,
        "warning",
        ("RLIMIT_MEMLOCK",),
        f"user {access.user} may lock only {wording.size(limit)} of memory, and there are RDMA network cards",
        "RDMA pins its buffers in memory. With this limit, what the system sets by itself, collectives over these cards fail "
        "or fall back to sockets.",
        "likely",
        (Evidence("RLIMIT_MEMLOCK", wording.size(limit)), Evidence("/sys/class/infiniband", wording.listed(cards[0].rdma))),
        next="set memlock to unlimited in /etc/security/limits.d, or LimitMEMLOCK=infinity in the service",
    )


CHECK = Check(
    id=ID,
    subject="user",
    summary="Whoever runs this may use the device files that compute needs.",
    looks_at="/dev/kfd, /dev/dri/renderD* and /dev/nvidia* where a GPU has the driver for them: whether the kernel would let "
    "the user read and write them, asked without opening them; and RLIMIT_MEMLOCK.",
    why="Without these rights programs report that there is no GPU.",
    decides="A failure where one of the files may not be read and written, or is missing in a container or although KFD has "
    "GPUs; info where NVIDIA's files are not made yet. A warning where there are RDMA network cards, the user is not root and "
    f"may lock {wording.size(_DEFAULT_MEMLOCK_BYTES)} or less: what systems set by themselves. Judged by what the kernel "
    "answers, not by names of groups. Not applicable to a tree: its user is not here.",
    sources=(
        "AMD, ROCm installation on Linux, prerequisites: groups render and video",
        "systemd rules.d/50-udev-default.rules.in: group and mode of kfd and renderD*",
        "NVIDIA driver README, Installed components: nvidia-modprobe and the device files",
        "Linux include/uapi/linux/resource.h MLOCK_LIMIT",
    ),
    judge=judge,
    nothing="no discrete GPU with a driver for compute",
)
