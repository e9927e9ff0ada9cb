"""What the calling user may do with the device files that compute needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from hostdoctor import wording
from hostdoctor.facts.driver import Access, DeviceNode, Refusal
from hostdoctor.facts.host import Kfd
from hostdoctor.facts.pci import ATI, NVIDIA
from hostdoctor.facts.unknown import ANOTHER_USER, Unknown
from hostdoctor.findings import Check, Evidence, Finding, unjudged
from hostdoctor.view import View

ID = "gpu-access"

# What the kernel (8 MiB, before 5.16 64 KiB) and systemd (8 MiB, 64 MiB for what it needs itself) give by themselves: up
# to there nobody has set the limit. RDMA pins its buffers in memory, and its manuals ask for no limit at all.
_DEFAULT_MEMLOCK_BYTES = 64 * wording.MIB

_KFD = "/dev/kfd"
_DRIVERS = {ATI: "amdgpu", NVIDIA: "nvidia"}
_FILES = {ATI: (_KFD, "/dev/dri/"), NVIDIA: ("/dev/nvidia",)}
_NOT_MEMBER = re.compile(r"is not (?:a )?member of \"?([\w-]{1,32})")

_AMBIGUOUS = Unknown("the listings do not tell whose files they are and which groups the user is in", "attach ls -ln and id")

_CONTAINER = "start the container with {}; what it lacks now it cannot be given later"
_FOR_AMD = "--device=/dev/kfd --device=/dev/dri --group-add with the group of /dev/kfd"
_FOR_NVIDIA = "--gpus all, or the device files of nvidia"


def judge(view: View) -> Iterator[Finding]:
    """What stands in the user's way, or one finding that nothing does."""
    access = view.host.access
    refused = [_refused(view, each) for each in view.host.refusals if _is_about_rights(view, each)][:1]
    yield from refused
    if access == ANOTHER_USER and view.gpus and not refused:
        yield Finding(ID, "not-applicable", (), f"rights not judged: {ANOTHER_USER.reason}")
        return
    amd, nvidia = _concerns(view, access, ATI), _concerns(view, access, NVIDIA)
    why = access if amd or nvidia else _why_unjudged(view)
    if isinstance(why, Unknown) and not refused:
        yield unjudged(ID, (), "rights of the user", why)
    if isinstance(access, Access) and (amd or nvidia):
        yield from _judge_access(view, access, amd, nvidia, refused)


def _is_about_rights(view: View, refusal: Refusal) -> bool:
    """Also a file that is missing, in a container: there it was not handed in."""
    return refusal.kind in ("permission", "prohibited") or (refusal.kind == "missing" and bool(view.host.environment.container))


def _concerns(view: View, access: Access | Unknown, vendor: int) -> bool:
    """Whether this vendor's files matter: its driver has GPUs here, or a paste lists them."""
    if any(gpu.driver == _DRIVERS[vendor] for gpu in view.gpus_of(vendor)):
        return True
    listed = isinstance(access, Access) and access.absent is not None
    return listed and isinstance(access, Access) and any(node.path.startswith(_FILES[vendor]) for node in access.nodes)


def _why_unjudged(view: View) -> Unknown | None:
    """Why there is nothing to judge, where that is because something is not known."""
    if isinstance(view.host.functions, Unknown):
        return view.host.functions
    return next((gpu.driver for gpu in view.gpus if isinstance(gpu.driver, Unknown)), None)


def _judge_access(view: View, access: Access, amd: bool, nvidia: bool, refused: list[Finding]) -> Iterator[Finding]:
    settled = _settled(view)
    found: list[Finding] = []
    if amd:
        nodes = [node for node in access.nodes if node.path not in settled]
        found += _judge_amd(view, access, _chosen(nodes, "/dev/kfd"), _chosen(nodes, "/dev/dri/"), settled)
    if nvidia:
        found += _judge_nvidia(view, access, _chosen(access.nodes, "/dev/nvidia"))
    found += _judge_memlock(view, access)
    yield from found
    if not found and not refused and access.absent is not None and not access.nodes:
        yield unjudged(ID, (), "rights of the user", _AMBIGUOUS)
    elif not found and not refused and access.nodes:
        title = f"{_who(access)} may use {wording.listed([node.path for node in access.nodes], 6)}"
        yield Finding(ID, "ok", (), title, evidence=tuple(_seen(access, node) for node in access.nodes))


def _settled(view: View) -> set[str]:
    """Files of which a tool's attempt has told already: that it may not open them, or that the driver refused."""
    return {_KFD} if any(each.kind != "runtime" for each in view.host.refusals) else set()


def _chosen(nodes: Iterable[DeviceNode], start: str) -> list[DeviceNode]:
    return [node for node in nodes if node.path.startswith(start)]


def _who(access: Access | Unknown) -> str:
    if isinstance(access, Unknown):
        return "the user"
    if access.user == 0:
        return "root"
    return f"user {access.user_name or access.user}" if access.user_name or access.user > 0 else "the user"


def _group(access: Access, group: int) -> str:
    name = access.group_names.get(group)
    return str(group) if not name else name if group < 0 else f"{name} ({group})"


def _seen(access: Access, node: DeviceNode) -> Evidence:
    owner = "" if node.owner < 0 else f" owner {node.owner},"
    mode = f"mode {node.mode:04o},{owner} group {_group(access, node.group)}"
    return Evidence(node.source, f"{node.path} {mode}") if node.source else Evidence(node.path, mode)


def _refused(view: View, refusal: Refusal) -> Finding:
    """The kernel's own answer to a tool."""
    access = view.host.access
    nodes = [] if isinstance(access, Unknown) else _chosen(access.nodes, _KFD)
    evidence = [Evidence(refusal.source, f"opening {_KFD}: {refusal.answer}"), *(Evidence(*note) for note in refusal.notes)]
    if not isinstance(access, Unknown):
        evidence += [_seen(access, node) for node in nodes]
    title = f"{_who(access)} cannot open {_KFD}: {refusal.answer.lower()}"
    if refusal.kind == "missing":
        title = f"there is no {_KFD} in this container, which compute on AMD GPUs needs"
    why = "Compute needs to read and to write this file; without that, programs find no GPU."
    if refusal.kind == "prohibited":
        why += " It is not the file's mode that forbids it: a container's rules for devices do, or the driver itself."
    return Finding(ID, "failure", (_KFD,), title, why, evidence=tuple(evidence), next=_refusal_step(view, refusal, nodes))


def _refusal_step(view: View, refusal: Refusal, nodes: list[DeviceNode]) -> str:
    said = " ".join(text for _, text in refusal.notes)
    if refusal.kind != "permission" or view.host.environment.container:
        return _CONTAINER.format(_FOR_AMD)
    denied = [node for node in nodes if not (node.readable and node.writable)]
    if denied and isinstance(view.host.access, Access):
        return _step(view, view.host.access, denied, _FOR_AMD)
    if " is member of " in said or nodes:
        return "log out and in again: a session that began before the user joined the group does not have it"
    group = match[1] if (match := _NOT_MEMBER.search(said)) else "render"
    return f"usermod -aG {group} for this user, then log in again; in a container, start it with {_FOR_AMD}"


def _judge_amd(
    view: View, access: Access, kfd: list[DeviceNode], render: list[DeviceNode], settled: set[str]
) -> Iterator[Finding]:
    found = (("/dev/kfd", kfd), ("/dev/dri/renderD*", render))
    missing = [path for path, nodes in found if not nodes and path not in settled and _is_absent(access, path)]
    if missing:
        yield _missing_amd(view, missing)
    denied = [node for node in (*kfd, *render) if not (node.readable and node.writable)]
    if denied:
        yield _denied(view, access, denied, _FOR_AMD)


def _is_absent(access: Access, path: str) -> bool:
    """Whether a file that is not listed is not there: in a paste only where that is said."""
    return access.absent is None or any(fnmatchcase(each, path) or each == path for each in access.absent)


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
    files = ("/dev/nvidiactl", "/dev/nvidia0")
    missing = [path for path in files if not _covered(path, nodes) and _is_absent(access, path)]
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
    if unnamed := [name for name in names if name.isdecimal()]:
        return (
            f"they belong to a group that has no name here: start the container with --group-add {unnamed[0]}, or make a group "
            f"of that number and put the user into it"
        )
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
        f"{_who(access)} may lock only {wording.size(limit)} of memory, and there are RDMA network cards",
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
    "the user read and write them, asked without opening them; and RLIMIT_MEMLOCK. In pastes: rocminfo, ls -l, getfacl, id "
    "and groups.",
    why="Without these rights programs report that there is no GPU.",
    decides="A failure where one of the files may not be read and written, or is missing in a container or although KFD has "
    "GPUs; info where NVIDIA's files are not made yet. A warning where there are RDMA network cards, the user is not root and "
    f"may lock {wording.size(_DEFAULT_MEMLOCK_BYTES)} or less: what systems set by themselves. Judged by what the kernel "
    "answers, not by names of groups. Not applicable to a tree: its user is not here. In pastes, a failure where rocminfo was "
    "refused /dev/kfd, or where listings of the files and of the user's groups say that it would be.",
    sources=(
        "AMD, ROCm installation on Linux, prerequisites: groups render and video",
        "systemd rules.d/50-udev-default.rules.in: group and mode of kfd and renderD*",
        "NVIDIA driver README, Installed components: nvidia-modprobe and the device files",
        "Linux include/uapi/linux/resource.h MLOCK_LIMIT",
    ),
    judge=judge,
    nothing="no discrete GPU with a driver for compute",
    needs_pci=False,
)
