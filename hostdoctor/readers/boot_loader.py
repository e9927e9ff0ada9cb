"""Which boot loader started the running kernel: no file says it, so what the kernel was given decides, then what lies there.

The order follows how much a sign proves: an operating system that keeps its boot files by itself, then what the loader
left on the kernel's command line and in the firmware's variables, then files. Sources: systemd, "The Boot Loader
Interface"; Proxmox VE Administration Guide, "Host Bootloader"; openSUSE /etc/sysconfig/bootloader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from hostdoctor.evidence import Evidence, Unreadable
from hostdoctor.facts.boot_files import Loader
from hostdoctor.facts.host import Boot
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.parsers.os_release import parse_os_release
from hostdoctor.readers.text import unknown_from

LIMIT = 4 << 20
GRUBBY, BOOTCTL = "attached/grubby", "attached/bootctl"  # where attached outputs of these commands are put

_EFI = "sys/firmware/efi/efivars/{}-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
_LIVE = {"boot": ("live", "casper"), "root": ("live:", "/dev/nfs", "nfs:", "nbd:"), "BOOTIF": ("",), "netboot": ("",)}
_LIVE_IMAGES = ("(tftp", "(http", "(pxe", "(loop", "http:", "https:", "/casper/", "/live/", "/isolinux/", "/arch/boot/")
_LIVE_NAMES = ("rd.live.image", "rd.live.dir", "netroot", "fetch", "findiso", "iso-scan/filename", "coreos.live.rootfs_url")
_FAMILIES = {
    "debian": ("debian", "ubuntu"),
    "redhat": ("fedora", "rhel", "centos", "rocky", "almalinux", "ol", "amzn"),
    "suse": ("suse", "opensuse", "sles"),
    "arch": ("arch", "manjaro", "endeavouros"),
}
_RELEASES = {
    "debian": ("-generic", "-amd64", "-pve", "-lowlatency"),
    "redhat": (".el7", ".el8", ".el9", ".el10", ".fc"),
    "suse": ("-default",),
    "arch": ("-arch",),
}


class Files:
    """The files of one host, which may lie in more than one evidence: of two the first counts."""

    def __init__(self, evidences: Sequence[Evidence]) -> None:
        self.evidences = evidences
        self._names: dict[str, list[str]] = {}

    @property
    def is_tree(self) -> bool:
        """Whether a file that is missing here is missing on the host: not so where only attachments are at hand."""
        return any(evidence.kind != "attachments" for evidence in self.evidences)

    def text(self, path: str) -> str | Unknown:
        """A file's text; NOT_CAPTURED where there is none, another Unknown where it cannot be read."""
        found = self.data(path)
        return found if isinstance(found, Unknown) else found.decode("utf-8", "replace")

    def data(self, path: str) -> bytes | Unknown:
        """A file's bytes, or why there are none."""
        why = NOT_CAPTURED
        for evidence in self.evidences:
            try:
                return evidence.read(path, LIMIT)
            except Unreadable as error:
                why = why if error.problem == "missing" else unknown_from(error)
        return why

    def names(self, path: str) -> list[str]:
        """The sorted names in a folder; none where it is not there, or may not be read."""
        if path not in self._names:
            found: set[str] = set()
            for evidence in self.evidences:
                try:
                    found.update(evidence.names(path))
                except Unreadable:
                    continue
            self._names[path] = sorted(found)
        return self._names[path]

    def has(self, path: str) -> bool:
        """Whether a file or folder is there."""
        folder, _, name = path.rpartition("/")
        return name in self.names(folder)

    def link(self, path: str) -> str:
        """Where a link leads, as it says; empty where the path is no link."""
        for evidence in self.evidences:
            try:
                return evidence.link(path)
            except Unreadable:
                continue
        return ""

    def why_closed(self, path: str) -> Unknown | None:
        """Why a folder that is there cannot be listed; None where it can, or is not there."""
        for evidence in self.evidences:
            try:
                evidence.names(path)
            except Unreadable as error:
                if error.problem != "missing":
                    return unknown_from(error)
        return None

    def where(self, path: str, line: int) -> str:
        """How a line is named to people: "/etc/default/grub:12", or where it stands in a paste."""
        for evidence in self.evidences:
            shown = evidence.shown(path)
            if shown != f"/{path}":
                source, _, first = shown.rpartition(":")
                return f"{source}:{int(first) + line - 1}" if source and first.isdecimal() else f"{shown}:{line}"
        return f"/{path}:{line}"


class Signs(msgspec.Struct, frozen=True):
    """What tells of the boot loader.

    Attributes:
        values: of the running kernel's parameters, by name; of several the last.
        family: "debian", "redhat", "suse", "arch" or empty.
        distribution: ID of os-release.
    """

    files: Files
    boot: Boot
    values: Mapping[str, str]
    family: str
    distribution: str

    @property
    def image(self) -> str:
        """BOOT_IMAGE, which GRUB gives, and loaders of the syslinux family too."""
        return self.values.get("BOOT_IMAGE", "")

    @property
    def started_by_grub(self) -> bool:
        """Whether the command line is of the form that GRUB makes: it never adds initrd=."""
        return self.image.startswith(("/", "(")) and "initrd" not in self.values

    def variable(self, name: str) -> str:
        """A variable that the boot loader left in the firmware: four bytes of attributes, then UTF-16 (UEFI 2.10, 8.2)."""
        data = self.files.data(_EFI.format(name))
        return "" if isinstance(data, Unknown) else data[4:].decode("utf-16-le", "replace").rstrip("\0").strip()


def read_signs(files: Files, boot: Boot) -> Signs:
    """Gather them."""
    text = files.text("etc/os-release")
    release = parse_os_release(text) if not isinstance(text, Unknown) else {}
    distribution = release.get("ID", "") or (boot.distribution_id if isinstance(boot.distribution_id, str) else "")
    values = {each.name: each.value or "" for each in boot.parameters}
    words = {distribution, *release.get("ID_LIKE", "").split()}
    family = next((name for name, ids in _FAMILIES.items() if any(word.startswith(ids) for word in words if word)), "")
    if not family and not distribution:
        named = f"{boot.release if isinstance(boot.release, str) else ''} {values.get('BOOT_IMAGE', '')}"
        family = next((name for name, endings in _RELEASES.items() if any(ending in named for ending in endings)), "")
    return Signs(files, boot, values, family, distribution)


def decide(signs: Signs) -> Loader | Unknown:
    """The loader that governs, by the first sign that proves one."""
    if isinstance(signs.boot.command_line, Unknown):
        return Unknown("the running kernel's command line, which shows the boot loader, is not in this evidence")
    if started := _not_from_these_files(signs):
        return started
    return _by_distribution(signs) or _by_loader(signs) or _by_files(signs) or _nobody_knows(signs)


def _not_from_these_files(signs: Signs) -> Unknown | None:
    """A live system, or one that came over the network."""
    for name, beginnings in _LIVE.items():
        if name in signs.values and signs.values[name].startswith(beginnings):
            return Unknown(f"{name}={signs.values[name]}: this host was started from a live system or over the network")
    found = next((name for name in _LIVE_NAMES if name in signs.values), "")
    if not found and signs.image.startswith(_LIVE_IMAGES):
        found = f"BOOT_IMAGE={signs.image}"
    return Unknown(f"{found}: this host was started from a live system or over the network") if found else None


def _because(name: str, *why: tuple[str, str], certain: bool = True) -> Loader:
    return Loader(name, why, certain)


def _token(signs: Signs, name: str) -> tuple[str, str]:
    return "/proc/cmdline", f"{name}={signs.values[name]}"


def _by_distribution(signs: Signs) -> Loader | None:
    """Systems that keep their boot files by themselves, whatever loader reads them."""
    release = ("/etc/os-release", f"ID={signs.distribution}")
    for name in ("nixos", "talos", "ubuntu-core", "flatcar"):
        if signs.distribution == name:
            return _because(name, release)
    if "snapd_recovery_mode" in signs.values:
        return _because("ubuntu-core", _token(signs, "snapd_recovery_mode"))
    return _because("rpm-ostree", _token(signs, "ostree")) if "ostree" in signs.values else None


def _by_loader(signs: Signs) -> Loader | Unknown | None:
    """What the loader itself left on the command line or in the firmware."""
    if signs.started_by_grub:
        return _grub(signs)
    initrd = signs.values.get("initrd", "")
    if "BOOT_IMAGE" in signs.values:
        return Unknown(f"BOOT_IMAGE={signs.image} on a line of this form is of PXELINUX, syslinux or another loader than GRUB")
    if "\\EFI\\proxmox\\" in initrd:
        return _because("proxmox-systemd-boot", ("/proc/cmdline", f"initrd={initrd}"))
    info, stub = _loader_info(signs), _stub_info(signs)
    if stub:
        return _because("uki", stub)
    if info and "systemd-boot" in info[1]:
        return _systemd_boot(signs, info)
    if info and "refind" in info[1].lower():
        return _because("refind", info)
    if initrd.startswith("\\"):
        if signs.files.has("boot/refind_linux.conf"):
            return _because("refind", ("/boot/refind_linux.conf", "is there"), certain=False)
        return _systemd_boot(signs, ("/proc/cmdline", f"initrd={initrd}"))
    return None


def _loader_info(signs: Signs) -> tuple[str, str] | None:
    value = signs.variable("LoaderInfo")
    if value:
        return f"/{_EFI.format('LoaderInfo')}", value
    product = _bootctl(signs.files)[0]
    return ("bootctl", product) if product else None


def _stub_info(signs: Signs) -> tuple[str, str] | None:
    value = signs.variable("StubInfo")
    if value:
        return f"/{_EFI.format('StubInfo')}", value
    stub = _bootctl(signs.files)[1]
    return ("bootctl", stub) if stub else None


def _bootctl(files: Files) -> tuple[str, str]:
    text = files.text(BOOTCTL) if not all(each.whole for each in files.evidences) else NOT_CAPTURED
    if isinstance(text, Unknown):
        return "", ""
    from hostdoctor.parsers.bls import parse_bootctl  # noqa: PLC0415  few hosts have it

    found = parse_bootctl(text)
    return found.product, found.stub


def _grub(signs: Signs) -> Loader:
    why = [("/proc/cmdline", f"BOOT_IMAGE={signs.image}")]
    if signs.distribution:
        why.append(("/etc/os-release", f"ID={signs.distribution}"))
    certain = bool(signs.family)
    if signs.family == "suse":
        type_ = _loader_type(signs)
        if type_ in ("grub2-bls", "systemd-boot"):
            return _because("sdbootutil", *why, ("/etc/sysconfig/bootloader", f"LOADER_TYPE={type_}"))
        return _because("grub-suse", *why)
    if signs.family == "redhat" or signs.image.startswith("("):
        name = "grub-bls" if _reads_entries(signs) else "grub-redhat"
        return _because(name, *why, certain=certain)
    if signs.family == "debian" or (not signs.distribution and _is_debians(signs)):
        return _because("grub-debian", *why, certain=certain)
    if not certain and _made_from_defaults(signs):
        return _because("grub", *why, ("/boot/grub/grub.cfg", "grub-mkconfig made it"))
    return _because("grub", *why, certain=certain)


def _made_from_defaults(signs: Signs) -> bool:
    """Whether grub-mkconfig made the file that GRUB reads, and its defaults are there: so on any distribution."""
    made, defaults = (signs.files.text(path) for path in ("boot/grub/grub.cfg", "etc/default/grub"))
    return not isinstance(defaults, Unknown) and not isinstance(made, Unknown) and "### BEGIN /etc/grub.d/10_linux ###" in made


def _is_debians(signs: Signs) -> bool:
    text = signs.files.text("etc/default/grub")
    return not isinstance(text, Unknown) and "update-grub" in text


def _reads_entries(signs: Signs) -> bool:
    """Whether GRUB reads entries of the Boot Loader Specification: its own file says it, or the switch that makes it."""
    for path in ("boot/grub2/grub.cfg", "boot/grub/grub.cfg"):
        text = signs.files.text(path)
        if not isinstance(text, Unknown):
            return "blscfg" in text
    if signs.files.names("boot/loader/entries") or signs.files.has(GRUBBY):
        return True
    text = signs.files.text("etc/default/grub")
    return not isinstance(text, Unknown) and any(
        line.strip().replace('"', "").replace("'", "") == "GRUB_ENABLE_BLSCFG=true" for line in text.splitlines()
    )


def _loader_type(signs: Signs) -> str:
    text = signs.files.text("etc/sysconfig/bootloader")
    return "" if isinstance(text, Unknown) else parse_os_release(text).get("LOADER_TYPE", "")


def _systemd_boot(signs: Signs, why: tuple[str, str]) -> Loader:
    files = signs.files
    if files.has("etc/kernel/proxmox-boot-uuids"):
        return _because("proxmox-systemd-boot", why, ("/etc/kernel/proxmox-boot-uuids", "is there"))
    if files.has("etc/kernelstub/configuration"):
        return _because("kernelstub", why, ("/etc/kernelstub/configuration", "is there"))
    if signs.family == "suse" and _loader_type(signs) == "systemd-boot":
        return _because("sdbootutil", why, ("/etc/sysconfig/bootloader", "LOADER_TYPE=systemd-boot"))
    if "systemd.machine_id" in signs.values:
        return _because("kernel-install", why, _token(signs, "systemd.machine_id"))
    return _because("systemd-boot", why)


def _by_files(signs: Signs) -> Loader | None:
    """Loaders that leave nothing on the command line: the one whose file is there."""
    files = signs.files
    model = files.text("proc/device-tree/model")
    for path in ("boot/firmware/cmdline.txt", "boot/cmdline.txt"):
        if not isinstance(model, Unknown) and "Raspberry Pi" in model and files.has(path):
            return _because("raspberry-pi", ("/proc/device-tree/model", model.strip("\0\n")), (f"/{path}", "is there"))
    if files.has("boot/extlinux/extlinux.conf"):
        why = ("/boot/extlinux/extlinux.conf", "is there")
        if isinstance(model, Unknown) or files.has("sys/firmware/efi"):
            return _because("extlinux", why, certain=False)
        return _because("extlinux", ("/proc/device-tree/model", model.strip("\0\n")), why)
    if "systemd.machine_id" in signs.values and not signs.image:
        return _because("kernel-install", _token(signs, "systemd.machine_id"), certain=False)
    return None


def _nobody_knows(signs: Signs) -> Unknown:
    seen = _names(each.name for each in signs.boot.parameters[:3])
    return Unknown(
        f"nothing on the command line ({seen}) or in the firmware's variables shows which boot loader started this kernel"
    )


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "it is empty"
