"""Disks for guests that start as real hosts do: firmware, a boot loader, Debian's kernel, an initramfs, a root on ext4.

Two boot loaders, each on a disk of its own with an EFI system partition, start the same root, which is a whole disk. Nothing
is mounted to make them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from tests.lab import archive

GUEST_FILES = Path(__file__).resolve().parent / "guest"

# What is unpacked onto the root: patch, and the boot loaders' tools with the libraries that the small system lacks for them.
PACKAGES = (
    "patch", "grub2-common", "grub-common", "libdevmapper1.02.1", "systemd-boot", "libsystemd-shared", "libip4tc2",
)  # fmt: skip
# Boot loaders as their packages have them, the first as Debian's signed build of GRUB, which looks for its
# configuration in /EFI/debian.
GRUB_PACKAGE, GRUB_IMAGE = "grub-efi-amd64-signed", "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed"
SYSTEMD_PACKAGE, SYSTEMD_IMAGE = "systemd-boot-efi", "usr/lib/systemd/boot/efi/systemd-bootx64.efi"
LOADERS = (GRUB_PACKAGE, SYSTEMD_PACKAGE)
# What the initramfs loads to read the root, and what the system loads later.
ROOT_MODULES, OTHER_MODULES = ("virtio_pci", "virtio_blk", "ext4"), ("vfat", "nls_cp437", "nls_ascii", "efivarfs")
KERNEL = "6.1"

GRUB, SYSTEMD_BOOT = "grub", "systemd-boot"
ROOT_DEVICE = "/dev/vdb"
_ROOT_UUID = "6f1a3c0e-58a4-4c07-9d0b-3d2f7c1b9e55"
_ROOT_SIZE, _BOOT_DISK_SIZE = "600M", 64 << 20
# One partition, which leaves room for the tables at both ends.
_ESP_START, _ESP_SIZE = 1 << 20, 62 << 20
_TABLE = f"label: gpt\nstart={_ESP_START // 512}, size={_ESP_SIZE // 512}, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B\n"
# Every feature by name, whatever this machine's own defaults are: GRUB knows no newer ones.
_FEATURES = "none,has_journal,ext_attr,dir_index,filetype,extent,64bit,flex_bg,sparse_super,large_file,extra_isize"
# What grub-probe would say in the guest; here it would look at this machine's disks.
_PROBE = f"""\
#!/bin/sh
for each; do
  case "$each" in
    --target=device) echo {ROOT_DEVICE} ;;
    --target=fs_uuid) echo {_ROOT_UUID} ;;
    --target=fs) echo ext2 ;;
    --target=compatibility_hint) echo hd1 ;;
  esac
done
"""
_GRUB_START = f"search.fs_uuid {_ROOT_UUID} root\nset prefix=($root)'/boot/grub'\nconfigfile $prefix/grub.cfg\n"


class Parts(NamedTuple):
    """What the disks are made from.

    Attributes:
        system: a folder with the guests' small system.
        kernel: a kernel image.
        modules: a folder with the kernel's modules and its configuration, as they lie below the root.
        packages: a folder into which PACKAGES are unpacked.
        loaders: the same for the boot loaders.
        release: the kernel's, as uname has it.
        to_load: files of ROOT_MODULES, with those that they need before them.
    """

    system: Path
    kernel: Path
    modules: Path
    packages: Path
    loaders: Path
    release: str
    to_load: Sequence[Path]


Run = Callable[..., str]


def build(cache: Path, work: Path, parts: Parts, cmdline: str, run: Run) -> None:
    """Make the disks; `cmdline` is what every start needs, and `run` runs a command or says why not."""
    root = work / "disk-root"
    run("cp", "-a", parts.system, root)
    for source in (parts.packages, parts.modules):
        shutil.copytree(source, root, symlinks=True, dirs_exist_ok=True)  # /lib may be a link to usr/lib
    boot = root / "boot"
    for name in ("grub", "efi"):
        (boot / name).mkdir(parents=True)
    shutil.copy(parts.kernel, boot / f"vmlinuz-{parts.release}")
    with (boot / f"initrd.img-{parts.release}").open("wb") as out:
        _write_initramfs(out, parts)
    _configure_grub(root, cmdline, run)
    _make_root(root, cache / "disk-root", run)
    for name, files in (
        (GRUB, _grub_files(parts)),
        (SYSTEMD_BOOT, _systemd_boot_files(parts, boot, cmdline)),
    ):
        _make_esp(work / f"esp-{name}", files, cache / f"disk-{name}", run)
    shutil.rmtree(root)


def images(cache: Path) -> tuple[Path, Mapping[str, Path]]:
    """The root's image, and those of the EFI system partitions by the boot loader's name."""
    return cache / "disk-root", {name: cache / f"disk-{name}" for name in (GRUB, SYSTEMD_BOOT)}


def _write_initramfs(out: BinaryIO, parts: Parts) -> None:
    busybox = (parts.system / "usr/bin/busybox").read_bytes()
    entries = [archive.folder(name) for name in ("bin", "dev", "modules", "new")]
    entries.append(archive.file("bin/busybox", busybox, executable=True))
    entries.append(archive.file("init", (GUEST_FILES / "initramfs").read_bytes(), executable=True))
    for number, module in enumerate(parts.to_load):
        entries.append(archive.file(f"modules/{number:02}-{module.name}", module.read_bytes()))
    archive.write(out, entries)


def _configure_grub(root: Path, cmdline: str, run: Run) -> None:
    """/etc/default/grub as the package has it, less what needs a screen, and the grub.cfg that is made of it."""
    (root / "etc/default").mkdir(exist_ok=True)
    text = (root / "usr/share/grub/default/grub").read_text("utf-8")
    text = text.replace("GRUB_TIMEOUT=5", "GRUB_TIMEOUT=0").replace("#GRUB_TERMINAL=", "GRUB_TERMINAL=")
    text = text.replace('GRUB_CMDLINE_LINUX=""', f'GRUB_CMDLINE_LINUX="{cmdline}"')
    (root / "etc/default/grub").write_text(text)
    with _stubbed(root / "usr/sbin/grub-probe"):
        run("chroot", root, "grub-mkconfig", "-o", "/boot/grub/grub.cfg")


@contextmanager
def _stubbed(program: Path) -> Iterator[None]:
    aside = program.rename(program.with_name("grub-probe.real"))
    program.write_text(_PROBE)
    program.chmod(0o755)
    try:
        yield
    finally:
        aside.rename(program)


def _make_root(root: Path, image: Path, run: Run) -> None:
    image.unlink(missing_ok=True)
    run("mke2fs", "-q", "-t", "ext4", "-O", _FEATURES, "-U", _ROOT_UUID, "-d", root, image, _ROOT_SIZE)


def _grub_files(parts: Parts) -> dict[str, bytes]:
    image = (parts.loaders / GRUB_IMAGE).read_bytes()
    return {"EFI/BOOT/BOOTX64.EFI": image, "EFI/debian/grub.cfg": _GRUB_START.encode()}


def _systemd_boot_files(parts: Parts, boot: Path, cmdline: str) -> dict[str, bytes]:
    """systemd-boot with an entry written by hand, and the kernel beside it, since firmware reads no ext4."""
    names = (f"vmlinuz-{parts.release}", f"initrd.img-{parts.release}")
    entry = (
        "title   Debian GNU/Linux",
        f"version {parts.release}",
        f"linux   /debian/{names[0]}",
        f"initrd  /debian/{names[1]}",
        f"options root={ROOT_DEVICE} ro quiet {cmdline}",
    )
    return {
        "EFI/BOOT/BOOTX64.EFI": (parts.loaders / SYSTEMD_IMAGE).read_bytes(),
        "loader/loader.conf": b"default debian.conf\ntimeout 0\n",
        "loader/entries/debian.conf": ("\n".join(entry) + "\n").encode(),
        **{f"debian/{name}": (boot / name).read_bytes() for name in names},
    }


def _make_esp(folder: Path, files: Mapping[str, bytes], image: Path, run: Run) -> None:
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    with image.open("wb") as out:
        out.truncate(_BOOT_DISK_SIZE)
    table = folder.with_suffix(".table")
    table.write_text(_TABLE)
    run("sh", "-c", 'sfdisk --quiet --no-reread --no-tell-kernel "$0" < "$1"', image, table)
    esp = f"{image}@@{_ESP_START}"
    run("mformat", "-i", esp, "-v", "ESP", "-T", str(_ESP_SIZE // 512), "::")
    run("mcopy", "-s", "-i", esp, *(folder / name for name in sorted(os.listdir(folder))), "::")
    shutil.rmtree(folder)


def copies(originals: Sequence[Path], folder: Path) -> list[Path]:
    """Copies of disks that a guest may write to; their holes stay holes."""
    found = [folder / original.name for original in originals]
    for original, copy in zip(originals, found, strict=True):
        subprocess.run(["cp", "--sparse=always", "--reflink=auto", original, copy], check=True)
    return found
