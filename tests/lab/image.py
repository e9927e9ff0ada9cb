"""Builds what the guests boot from: a small Debian with Python, kernels with a few modules, UEFI firmware, and disks.

    python -m tests.lab.image        build what is missing
    python -m tests.lab.image --all  build everything again

Everything lies in one folder outside the tree ($HOSTDOCTOR_LAB, else ~/.cache/hostdoctor-lab). Packages come through apt
with lists of its own, so the machine's own package lists and packages stay as they are. Needs root, for debootstrap.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.lab import archive, disk

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
GUEST_FILES = Path(__file__).resolve().parent / "guest"

PACKAGES = ("python3", "pciutils", "udev", "kmod", "busybox-static")
MODULES = ("aer_inject", "vfio_pci", *disk.ROOT_MODULES, *disk.OTHER_MODULES)
# What each start needs. A busy machine can make the emulated timer look broken, which the kernel takes for a reason to stop.
PARAMETERS = "console=ttyS0 panic=-1 no_timer_check"
# Where the guest's Python finds what hostdoctor needs, beside the wheel that is tested.
DEPENDENCIES = "opt/dependencies"

GUEST_SUITE, NEWER_SUITE = "bookworm", "trixie"
# By the name tests use; of several versions the newest is taken.
KERNELS = {
    "6.1": r"linux-image-6\.1\.0-\d+-amd64",
    "6.12": r"linux-image-6\.12\.\d+\+deb12-amd64",
    "newest": r"linux-image-\d+\.\d+\.\d+\+deb13-amd64",
}
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_TRIMMED = (
    "var/cache/apt", "var/lib/apt", "var/lib/dpkg", "var/log", "usr/share/doc", "usr/share/man", "usr/share/locale",
    "usr/share/info", "usr/share/zoneinfo", "usr/share/i18n", "usr/share/perl5", "usr/lib/x86_64-linux-gnu/perl-base",
    "usr/lib/x86_64-linux-gnu/gconv", "usr/lib/apt", "usr/lib/udev/hwdb.d", "boot",
)  # fmt: skip


class CannotBuild(Exception):
    """Why there is no image."""


class Kernel(NamedTuple):
    """A kernel to boot and the archive with its modules."""

    image: Path
    modules: Path


class Images(NamedTuple):
    """Everything a guest boots from."""

    system: Path
    root: Path  # the same system as a folder, to run its Python in
    kernels: Mapping[str, Kernel]
    firmware: Path  # UEFI code; its variables lie beside it
    firmware_variables: Path
    root_disk: Path
    boot_disks: Mapping[str, Path]  # by the boot loader's name


def cache_folder() -> Path:
    """Where images are kept."""
    return Path(os.environ.get("HOSTDOCTOR_LAB") or Path.home() / ".cache/hostdoctor-lab")


def built(again: bool = False) -> Images:
    """The images, built now as far as they are missing or were built by another recipe.

    Raises:
        CannotBuild: a tool or a package is missing, or there is no Debian mirror.
    """
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / "lock"):
        stamp, recipe = cache / "recipe", _recipe()
        if again or not stamp.exists() or stamp.read_text() != recipe:
            _require_tools()
            stamp.unlink(missing_ok=True)
            _build(cache)
            stamp.write_text(recipe)
    return _images(cache)


def _images(cache: Path) -> Images:
    kernels = {name: Kernel(cache / f"kernel-{name}", cache / f"modules-{name}.cpio") for name in KERNELS}
    firmware = (cache / "OVMF_CODE.fd", cache / "OVMF_VARS.fd")
    return Images(cache / "system.cpio", cache / "root", kernels, *firmware, *disk.images(cache))


def _recipe() -> str:
    """What the images depend on, as one word."""
    sources = [Path(__file__), Path(disk.__file__), GUEST_FILES / "init", GUEST_FILES / "initramfs"]
    parts = [*(path.read_bytes() for path in sources), "\n".join(_dependencies()).encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _dependencies() -> list[str]:
    found: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    return found


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _require_tools() -> None:
    if os.geteuid() != 0:
        raise CannotBuild("building the guest's image needs root")
    for tool in ("apt-get", "debootstrap", "depmod", "dpkg-deb", "mcopy", "mformat", "mke2fs", "modprobe", "sfdisk"):
        if shutil.which(tool, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
            raise CannotBuild(f"building the guest's image needs {tool}")


def _run(*command: str | Path) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-8:])
        raise CannotBuild(f"{' '.join(map(str, command[:6]))} ...: exit status {done.returncode}\n{tail}")
    return done.stdout


def _build(cache: Path) -> None:
    mirror, security = _mirrors()
    work = cache / "work"
    shutil.rmtree(work, ignore_errors=True)
    apt = _Apt(work / "apt", mirror, security)
    staged = {
        name: _build_kernel(cache, work, name, apt.download_kernel(apt.newest(pattern))) for name, pattern in KERNELS.items()
    }
    _build_firmware(cache, work, apt.download("ovmf", NEWER_SUITE))
    _build_system(cache, mirror)
    _build_disks(cache, work, apt, staged[disk.KERNEL])
    shutil.rmtree(work)


# --- packages ---------------------------------------------------------------------------------------------------------


def _mirrors() -> tuple[str, str]:
    """The Debian mirror of this machine's own apt and the one of security updates, or $HOSTDOCTOR_LAB_MIRROR."""
    if mirror := os.environ.get("HOSTDOCTOR_LAB_MIRROR", "").rstrip("/"):
        return mirror, f"{mirror}-security"
    listed = _run("apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)", "Created-By: Packages")
    found = {line.split()[-1].rstrip("/") for line in listed.splitlines() if line.startswith("Debian ")}
    plain = sorted(each for each in found if each.endswith("/debian"))
    security = sorted(each for each in found if each.endswith("-security"))
    if not plain:
        raise CannotBuild("apt knows no Debian mirror here (apt-get update helps on Debian); else set HOSTDOCTOR_LAB_MIRROR")
    return plain[0], (security or [f"{plain[0]}-security"])[0]


class _Apt:
    """apt with sources, lists and a status of its own: it can fetch packages and changes nothing on this machine."""

    def __init__(self, folder: Path, mirror: str, security: str) -> None:
        self._folder = folder
        for name in ("lists/partial", "cache/archives/partial", "preferences.d", "debs"):
            (folder / name).mkdir(parents=True)
        suites = [(mirror, GUEST_SUITE), (mirror, NEWER_SUITE), (mirror, f"{NEWER_SUITE}-backports")]
        suites.append((security, f"{GUEST_SUITE}-security"))
        lines = [f"deb [signed-by={_KEYRING}] {url} {suite} main\n" for url, suite in suites]
        (folder / "sources.list").write_text("".join(lines))
        (folder / "status").touch()
        self._apt("apt-get", "update", "-qq")

    def _apt(self, command: str, *arguments: str) -> str:
        options = {
            "Dir::Etc::sourcelist": self._folder / "sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::Etc::preferencesparts": self._folder / "preferences.d",
            "Dir::State::lists": self._folder / "lists",
            "Dir::State::status": self._folder / "status",
            "Dir::Cache": self._folder / "cache",
            "Debug::NoLocking": "1",
            "APT::Sandbox::User": "root",
        }
        given = [f"-o{name}={value}" for name, value in options.items()]
        return _run("env", "-C", self._folder / "debs", command, *given, *arguments)

    def newest(self, pattern: str) -> str:
        """The package of the highest version whose name matches."""
        names = self._apt("apt-cache", "pkgnames", "linux-image-").split()
        found = [name for name in names if re.fullmatch(pattern, name)]
        if not found:
            raise CannotBuild(f"the mirror has no package {pattern}")
        return max(found, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])

    def download(self, package: str, suite: str = "") -> Path:
        """Fetch a package."""
        self._apt("apt-get", "download", "-qq", f"{package}/{suite}" if suite else package)
        return next((self._folder / "debs").glob(f"{package}_*.deb"))

    def download_kernel(self, package: str) -> list[Path]:
        """Fetch a kernel, whose files newer versions have in several packages."""
        image = self.download(package)
        depends = _run("dpkg-deb", "-f", image, "Depends")
        release = re.escape(package.removeprefix("linux-image-"))
        parts = re.findall(rf"linux-(?:base|binary|modules)-{release}(?![\w.+-])", depends)
        return [image, *map(self.download, parts)]


def _unpacked(packages: Iterable[Path], target: Path) -> Path:
    for package in packages:
        _run("dpkg-deb", "-x", package, target)
    return target


# --- what is built from them ------------------------------------------------------------------------------------------


def _build_kernel(cache: Path, work: Path, name: str, packages: list[Path]) -> Path:
    """Make a kernel's image and the archive of its modules; the result is the folder with these."""
    tree = _unpacked(packages, work / f"kernel-{name}")
    image = next(tree.rglob("vmlinuz*"))
    release = packages[0].name.partition("_")[0].removeprefix("linux-image-")
    base = tree / "usr" if (tree / "usr/lib/modules").is_dir() else tree
    _run("depmod", "-b", base, release)
    staged = work / f"modules-{name}"
    for path in _with_dependencies(base, release, MODULES):
        target = staged / "usr" / path.relative_to(base)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    for index in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        shutil.copy(base / "lib/modules" / release / index, staged / "usr/lib/modules" / release / index)
    _run("depmod", "-b", staged / "usr", release)
    (staged / "boot").mkdir()
    shutil.copy(next(path for path in tree.rglob("config*") if path.is_file()), staged / f"boot/config-{release}")
    with (cache / f"modules-{name}.cpio").open("wb") as out:
        archive.write(out, archive.tree(staged))
    shutil.copy(image, cache / f"kernel-{name}")
    shutil.rmtree(tree)
    return staged


def _with_dependencies(base: Path, release: str, modules: Iterable[str]) -> list[Path]:
    """The files of modules, each behind those that it needs."""
    found: dict[Path, None] = {}
    for module in modules:
        listed = _run("modprobe", "-d", base, "-S", release, "--show-depends", module)
        found.update((Path(line.split()[1]), None) for line in listed.splitlines() if line.startswith("insmod "))
    return list(found)


def _build_firmware(cache: Path, work: Path, package: Path) -> None:
    tree = _unpacked([package], work / "firmware")
    for name in ("CODE", "VARS"):
        shutil.copy(tree / f"usr/share/OVMF/OVMF_{name}_4M.fd", cache / f"OVMF_{name}.fd")


def _build_system(cache: Path, mirror: str) -> None:
    root = cache / "root"
    shutil.rmtree(root, ignore_errors=True)
    bootstrap = ("debootstrap", "--variant=minbase", f"--keyring={_KEYRING}", f"--include={','.join(PACKAGES)}")
    _run(*bootstrap, GUEST_SUITE, root, mirror)
    for path in _TRIMMED:
        shutil.rmtree(root / path, ignore_errors=True)
    python = next((root / "usr/bin").glob("python3.*")).name
    _install_dependencies(root / DEPENDENCIES, python.removeprefix("python"))
    compile_python(root, f"/usr/lib/{python}", f"/{DEPENDENCIES}")
    shutil.copy(GUEST_FILES / "init", root / "init")
    (root / "init").chmod(0o755)
    data = io.BytesIO()
    archive.write(data, archive.tree(root))
    (cache / "system.cpio").write_bytes(data.getvalue())


def _build_disks(cache: Path, work: Path, apt: _Apt, staged: Path) -> None:
    release = next((staged / "usr/lib/modules").iterdir()).name
    parts = disk.Parts(
        system=cache / "root",
        kernel=cache / f"kernel-{disk.KERNEL}",
        modules=staged,
        packages=_unpacked((apt.download(name, GUEST_SUITE) for name in disk.PACKAGES), work / "disk-packages"),
        loaders=_unpacked((apt.download(name, GUEST_SUITE) for name in disk.LOADERS), work / "disk-loaders"),
        release=release,
        to_load=_with_dependencies(staged / "usr", release, disk.ROOT_MODULES),
    )
    disk.build(cache, work, parts, PARAMETERS, _run)


def compile_python(root: Path, *folders: str) -> None:
    """Compile everything in some folders of the guest's system, since its slow processor would else do so at each start.

    Archives keep no times, so the compiled files must not be held against them.
    """
    how = ("-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash")
    _run("chroot", root, "python3", *how, *folders)


def _install_dependencies(target: Path, version: str) -> None:
    """Wheels for the guest's Python, unpacked; the pip that fetches them may be of any Python."""
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
    wanted = ("--target", target, "--python-version", version, "--implementation", "cp", "--only-binary", ":all:")
    platforms = [
        word for tag in ("manylinux_2_28", "manylinux2014", "manylinux_2_17") for word in ("--platform", f"{tag}_x86_64")
    ]
    _run(*pip, *wanted, *platforms, *_dependencies())


if __name__ == "__main__":
    try:
        images = built(again="--all" in sys.argv[1:])
    except CannotBuild as error:
        sys.exit(str(error))
    sys.stdout.write(f"the images are in {images.system.parent}\n")
