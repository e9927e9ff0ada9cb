"""Hosts of each boot loader as folders, and their patches applied to these folders by `patch` and by `git apply`."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from hostdoctor.evidence.files import FileEvidence
from hostdoctor.readers.boot_files import Files
from hostdoctor.readers.host import read_host
from hostdoctor.remedies.loaders import patch_for
from hostdoctor.remedies.patch import Patch, Refused, Request, diff
from tests.trees import CPUINFO, Tree

DEBIAN = 'ID=debian\nVERSION_ID="13"\nPRETTY_NAME="Debian GNU/Linux 13 (trixie)"\n'
FEDORA = 'ID=fedora\nVERSION_ID=42\nPRETTY_NAME="Fedora Linux 42"\n'
ARCH = 'ID=arch\nPRETTY_NAME="Arch Linux"\n'
IOMMU = Request(("iommu=pt",))


class Host(Tree):
    """A tree with a command line, and what a request makes of it."""

    def started_with(self, line: str, release: str = "", kernel: str = "6.12.9") -> Host:
        self.write("proc/cpuinfo", CPUINFO).write("proc/cmdline", f"{line}\n").write("proc/sys/kernel/osrelease", f"{kernel}\n")
        if release:
            self.write("etc/os-release", release)
        return self

    def variable(self, name: str, value: str) -> Host:
        """A variable that a boot loader left in the firmware."""
        path = f"sys/firmware/efi/efivars/{name}-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
        self.write(path, b"\x06\0\0\0" + f"{value}\0".encode("utf-16-le"))
        return self

    def loader(self) -> str:
        """The name of the loader that is found."""
        with FileEvidence(str(self.root)) as evidence:
            return getattr(read_host(evidence).boot_files.loader, "name", "")

    def asked(self, request: Request = IOMMU, *, line: str | None = None) -> Patch:
        """The patch for a request."""
        with FileEvidence(str(self.root)) as evidence:
            host = read_host(evidence)
            running = host.boot.command_line if line is None else line
            return patch_for(request, Files((evidence,)), host.boot_files, running)

    def refused(self, request: Request = IOMMU) -> Refused:
        """The refusal of a request."""
        with pytest.raises(Refused) as caught:
            self.asked(request)
        assert caught.value.reason
        assert not caught.value.reason.endswith(".")
        assert caught.value.manual
        return caught.value

    def applied(self, patch: Patch) -> Host:
        """Apply a patch with `patch -p1`, after seeing that `git apply` makes the same of it."""
        assert {"patch", "git"} <= {tool for tool in ("patch", "git") if shutil.which(tool)}
        text = diff(patch.files).encode("utf-8", "surrogateescape")
        copy = self.root.with_name(f"{self.root.name}.git")
        for change in patch.files:
            path = change.path.lstrip("/")
            there = self.root / path
            assert there.exists() == (change.before is not None)
            if change.before is not None:
                assert there.read_bytes() == _bytes(change.before)
                Tree(copy).write(path, there.read_bytes())
        copy.mkdir(exist_ok=True)
        commands = ((copy, ["git", "apply", "--whitespace=nowarn", "-"]), (self.root, ["patch", "-p1", "--fuzz=0", "-s"]))
        for folder, command in commands:
            done = subprocess.run(command, cwd=folder, input=text, check=False, capture_output=True, timeout=60)
            assert done.returncode == 0, (done.stdout, done.stderr)
            for change in patch.files:
                assert (folder / change.path.lstrip("/")).read_bytes() == _bytes(change.after)
        shutil.rmtree(copy)
        return self

    def changed(self, request: Request = IOMMU) -> Patch:
        """Ask, apply, and see that asking again changes no file."""
        patch = self.asked(request)
        assert patch.files
        assert patch.reboot
        assert patch.show
        assert patch.revert
        assert patch.once_without
        assert patch.result
        self.applied(patch)
        again = self.asked(request)
        assert again.files == ()
        assert again.result == patch.result
        done = self.asked(request, line=patch.result)
        assert (done.files, done.commands, done.reboot) == ((), (), False)
        return patch


def _bytes(text: str | None) -> bytes:
    return (text or "").encode("utf-8", "surrogateescape")
