"""A host with GRUB as a tree of files: patched by the writer of its loader, the patch applied by real tools, read again."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from hostdoctor.evidence.files import FileEvidence
from hostdoctor.facts.unknown import Unknown
from hostdoctor.readers.boot_files import read_boot_files
from hostdoctor.readers.boot_loader import Files
from hostdoctor.readers.platform import read_boot
from hostdoctor.remedies.loaders import patch_for
from hostdoctor.remedies.patch import Request, diff

DEFAULT, ALWAYS = "GRUB_CMDLINE_LINUX_DEFAULT", "GRUB_CMDLINE_LINUX"
RELEASES = {
    "debian": "ID=debian\nPRETTY_NAME=Debian\n",
    "ubuntu": "ID=ubuntu\nID_LIKE=debian\n",
    "arch": "ID=arch\n",
    "suse": 'ID=opensuse-leap\nID_LIKE="suse opensuse"\n',
    "rhel8": 'ID="almalinux"\nID_LIKE="rhel centos fedora"\nVERSION_ID="8.10"\n',
    "rhel9": 'ID="almalinux"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.5"\n',
    "fedora": "ID=fedora\nVERSION_ID=41\n",
}
LINE = "BOOT_IMAGE=/boot/vmlinuz-6.8.0-52-generic root=UUID=1111-2222 ro quiet"


class GrubHost:
    """A tree; paths are given without a leading slash, texts as str or bytes."""

    def __init__(self, root, system="debian", line=LINE, **files):
        self.root = Path(root)
        self.line = line
        self.write("etc/os-release", RELEASES[system])
        self.write("proc/cmdline", f"{line}\n")
        if grub := files.pop("grub", None):
            self.write("etc/default/grub", grub)
        assert not files

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))
        return self

    def read(self, path):
        return (self.root / path).read_bytes()

    @property
    def facts(self):
        """The files as evidence, and what the readers make of them."""
        evidence = FileEvidence(str(self.root))
        boot = read_boot(evidence, with_config=False)
        return Files([evidence]), read_boot_files((evidence,), boot), boot.command_line

    def patch(self, add=(), remove=()):
        """What the writer for this host's loader makes of a request."""
        return patch_for(Request(tuple(add), tuple(remove)), *self.facts)

    def configured(self):
        """The parameters that the files give, as the readers see them; None where part of it is not known."""
        configured = self.facts[1].configured
        if configured is None or configured.unknown:
            return None
        return [each.parameter.text for each in configured.parameters]

    def below_default(self):
        """The files below /etc/default by path, for a rehearsal."""
        folder = self.root / "etc/default"
        return {
            str(file.relative_to(folder)): file.read_bytes().decode("latin-1") for file in folder.rglob("*") if file.is_file()
        }

    def apply(self, patch):
        """Apply the diff with patch and with git, each to a copy, hold the copies against each other and `after`, keep one."""
        text = diff(patch.files).encode("utf-8", "surrogateescape")
        if not patch.files:
            assert text == b""
            return self
        copies = []
        for number, command in enumerate((["patch", "-p1", "--no-backup-if-mismatch", "-s"], ["git", "apply", "--verbose"])):
            copy = self.root.parent / f"{self.root.name}-copy{number}"
            shutil.copytree(self.root, copy)
            done = subprocess.run(command, cwd=copy, input=text, capture_output=True, check=False, env=_ENVIRONMENT)
            assert done.returncode == 0, (command, done.stdout, done.stderr, text)
            copies.append(copy)
            for change in patch.files:
                file = copy / change.path[1:]
                assert file.exists() == (change.after is not None)
                if change.after is not None:
                    assert file.read_bytes() == change.after.encode("utf-8", "surrogateescape")
        assert _contents(copies[0]) == _contents(copies[1])
        back = subprocess.run(["patch", "-R", "-p1", "-s"], cwd=copies[1], input=text, capture_output=True, check=False)
        assert back.returncode == 0, back.stderr
        assert _contents(copies[1]) == _contents(self.root)
        shutil.rmtree(self.root)
        shutil.rmtree(copies[1])
        copies[0].rename(self.root)
        return self


_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "GIT_CEILING_DIRECTORIES": "/", "GIT_DIR": "/nonexistent"}


def _contents(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def is_known(value):
    return not isinstance(value, Unknown)
