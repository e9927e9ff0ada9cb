"""GRUB of openSUSE and SLE: /etc/default/grub, edited as elsewhere, and what makes grub.cfg of it.

Sources: openSUSE perl-bootloader, update-bootloader(8); transactional-update(8).
"""

from __future__ import annotations

from hostdoctor.facts.boot_files import BootFiles
from hostdoctor.facts.unknown import Unknown
from hostdoctor.parsers.os_release import parse_os_release
from hostdoctor.readers.boot_loader import Files
from hostdoctor.remedies.grub_patch import RECOVERY, Grub, Task
from hostdoctor.remedies.loaders.grub_edit import patch_as_read
from hostdoctor.remedies.patch import Patch, Request

_GRUB_CFG = "/boot/grub2/grub.cfg"
_PLAIN = Grub(
    f"grub2-mkconfig -o {_GRUB_CFG}",
    _GRUB_CFG,
    recovery=RECOVERY,
    notes=("update-bootloader --config makes grub.cfg as well, and is what packages of the distribution call.",),
)
# The root file system is read-only there, and grub.cfg belongs to a snapshot.
_TRANSACTIONAL = Grub(
    "transactional-update grub.cfg",
    _GRUB_CFG,
    recovery=RECOVERY,
    notes=("transactional-update rollback goes back to the snapshot before.",),
)
_TRANSACTIONAL_SYSTEMS = ("micro", "aeon", "kalpa")


def patch(request: Request, files: Files, boot: BootFiles, running: str | Unknown) -> Patch:
    """The patch: an edit of /etc/default/grub."""
    text = files.text("etc/os-release")
    release = {} if isinstance(text, Unknown) else parse_os_release(text)
    named = f"{release.get('ID', '')} {release.get('VARIANT_ID', '')}".lower()
    transactional = any(word in named for word in _TRANSACTIONAL_SYSTEMS)
    return patch_as_read(Task(request, files, boot, running), _TRANSACTIONAL if transactional else _PLAIN)
