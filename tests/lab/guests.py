"""Boots a machine under QEMU, has it do some steps, and brings back what they gave."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import re
import shutil
import socket
import stat
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lab import archive, disk
from tests.lab.config_space import QemuMemory
from tests.lab.image import GUEST_FILES, PARAMETERS, Images
from tests.lab.machine import Machine

QEMU = "qemu-system-x86_64"
_TIMEOUT_S = 300
_POLL_S = 0.05

Step = tuple[str | int, ...]
Tree = Mapping[str, bytes]

BARE = "--assume-bare-metal"
# What most guests do: judge as root and as an ordinary user, and tell what the kernel says before and after.
LOOK: tuple[Step, ...] = (
    ("state", "before"),
    ("scan", "root", BARE),
    ("scan", "user", BARE),
    ("facts",),
    ("state", "after"),
    ("lspci",),
)


@dataclass(frozen=True)
class Guest:
    """A machine, its kernel, and what to do in it.

    Attributes:
        machine: what is emulated.
        cmdline: the kernel's parameters, besides the lab's own.
        kernel: a name from image.KERNELS.
        steps: functions of guest/run with their arguments.
        answers: what the host does when the guest says a word.
        boots: the boot loader of the disk that it starts from with UEFI firmware, a name from disk.py; empty where QEMU
            hands it the kernel. Then `cmdline` and `kernel` say nothing.
        restarts: what to do after each further start from the same disks.
    """

    machine: Machine
    cmdline: str = ""
    kernel: str = "6.12"
    steps: tuple[Step, ...] = LOOK
    answers: Mapping[str, Callable[[Running], None]] = field(default_factory=dict)
    boots: str = ""
    restarts: tuple[tuple[Step, ...], ...] = ()


class GuestFailed(Exception):
    """The guest did not do its steps."""


@dataclass(frozen=True)
class Result:
    """What came out of a guest."""

    files: Tree
    seconds: float

    def json(self, name: str) -> Any:
        """A report or a state by its name."""
        return json.loads(self.files[f"{name}.json"])

    def text(self, name: str) -> str:
        """A file as text."""
        return self.files[name].decode("utf-8", "replace")

    def findings(self, check: str, report: str = "root") -> list[dict[str, Any]]:
        """The findings of one check."""
        return [finding for finding in self.json(report)["findings"] if finding["check"] == check]

    @property
    def functions(self) -> dict[str, Any]:
        """What the kernel says of each function."""
        found: dict[str, Any] = self.json("before")["functions"]
        return found


class Running:
    """A guest at work: QEMU's monitor and its memory."""

    def __init__(self, process: subprocess.Popen[bytes], monitor: Path) -> None:
        self.process = process
        self._socket = socket.socket(socket.AF_UNIX)
        _until(lambda: _connects(self._socket, monitor), process, "QEMU opens no monitor")
        self._stream = self._socket.makefile("rw", encoding="utf-8")
        self._stream.readline()
        self.monitor("qmp_capabilities")
        self.memory = QemuMemory(process.pid)

    def monitor(self, command: str, **arguments: object) -> object:
        """Send a command to the monitor and wait for its answer."""
        self._stream.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._stream.flush()
        for line in self._stream:
            answer = json.loads(line)
            if "error" in answer:
                raise GuestFailed(f"{command}: {answer['error']}")
            if "return" in answer:
                return answer["return"]
        raise GuestFailed(f"{command}: QEMU closed its monitor")

    def close(self) -> None:
        """Let go of the guest."""
        self.memory.close()
        self._stream.close()
        self._socket.close()


def boot(guest: Guest, images: Images, site: Path, folder: Path) -> Result:
    """Boot a guest and wait until it has switched itself off, as often as it is to start.

    Args:
        guest: what to boot and do.
        images: what it boots from.
        site: hostdoctor, installed for the guest's Python.
        folder: a new folder for what the boot leaves.

    Returns:
        What it found; of a further start, below a folder of its number: "2/root.json".

    Raises:
        GuestFailed: it did not come up, or a step failed.
    """
    began = time.monotonic()
    folder.mkdir(parents=True)
    kept = _Kept(guest, images, folder)
    try:
        files = _start(guest, guest.steps, kept, site, folder)
        for number, steps in enumerate(guest.restarts, 2):
            further = folder / str(number)
            further.mkdir()
            files |= {f"{number}/{name}": data for name, data in _start(guest, steps, kept, site, further).items()}
    finally:
        kept.remove()
    return Result(files, time.monotonic() - began)


class _Kept:
    """What a guest boots from, and what of it outlives a restart: its disks and the firmware's variables."""

    def __init__(self, guest: Guest, images: Images, folder: Path) -> None:
        self.images = images
        originals = [images.boot_disks[guest.boots], images.root_disk] if guest.boots else []
        self.disks = disk.copies(originals, folder)
        is_uefi = guest.machine.uefi or bool(guest.boots)
        self.variables = Path(shutil.copy(images.firmware_variables, folder / "variables")) if is_uefi else None

    def remove(self) -> None:
        """Take the disks away, which are large."""
        for path in self.disks:
            path.unlink()


def _start(guest: Guest, steps: Sequence[Step], kept: _Kept, site: Path, folder: Path) -> dict[str, bytes]:
    """One start; `folder` gets what QEMU and the console say."""
    payload = folder / "payload"
    if guest.boots:
        _write_payload_disk(payload, steps, site)
    else:
        _write_initrd(payload, guest, kept.images, steps, site)
    with (folder / "qemu.log").open("wb") as log:
        process = subprocess.Popen(_command(guest, kept, folder), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            _attend(guest, process, folder)
        except (GuestFailed, OSError) as error:
            raise GuestFailed(f"{error}\n{_tail(folder)}") from error
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            payload.unlink()
    return _results(folder)


def _write_initrd(path: Path, guest: Guest, images: Images, steps: Sequence[Step], site: Path) -> None:
    with path.open("wb") as out:
        for part in (images.system, images.kernels[guest.kernel].modules):
            with part.open("rb") as source:
                shutil.copyfileobj(source, out, 1 << 22)
        archive.write(out, (archive.folder("payload"), *_payload(steps, site, "payload/")))


def _write_payload_disk(path: Path, steps: Sequence[Step], site: Path) -> None:
    """A disk that holds an archive and nothing else."""
    with tarfile.open(path, "w") as tar:
        for entry in _payload(steps, site):
            member = tarfile.TarInfo(entry.path)
            member.mode, member.size = stat.S_IMODE(entry.mode), len(entry.data)
            member.type = tarfile.DIRTYPE if stat.S_ISDIR(entry.mode) else tarfile.REGTYPE
            tar.addfile(member, io.BytesIO(entry.data))


def _payload(steps: Sequence[Step], site: Path, prefix: str = "") -> Iterator[archive.Entry]:
    yield archive.file(f"{prefix}steps.json", json.dumps(steps))
    yield archive.file(f"{prefix}run", (GUEST_FILES / "run").read_bytes(), executable=True)
    yield archive.folder(f"{prefix}site")
    yield from archive.tree(site, f"{prefix}site/")


def _command(guest: Guest, kept: _Kept, folder: Path) -> list[str]:
    command = [
        QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-S", "-machine", "q35", "-accel", "tcg",
        "-chardev", f"file,id=console,path={folder}/console", "-serial", "chardev:console",
        "-chardev", f"file,id=results,path={folder}/results", "-serial", "chardev:results",
        "-qmp", f"unix:{folder}/monitor,server=on,wait=off",
    ]  # fmt: skip
    if kept.variables:
        command += ["-drive", f"if=pflash,format=raw,unit=0,readonly=on,file={kept.images.firmware}"]
        command += ["-drive", f"if=pflash,format=raw,unit=1,file={kept.variables}"]
    return [*command, *_source(guest, kept, folder / "payload"), *guest.machine.arguments]


def _source(guest: Guest, kept: _Kept, payload: Path) -> list[str]:
    """Where the kernel and what to do come from."""
    if not guest.boots:
        image = kept.images.kernels[guest.kernel].image
        return ["-kernel", str(image), "-initrd", str(payload), "-append", f"{PARAMETERS} {guest.cmdline}".strip()]
    found = []
    # The guest's names for them, vda and so on, follow the order of their addresses.
    for number, path in enumerate((*kept.disks, payload)):
        found += ["-drive", f"if=none,id=disk{number},format=raw,cache=unsafe,file={path}"]
        found += ["-device", f"virtio-blk-pci,drive=disk{number},addr={0x18 + number:#x},bootindex={number}"]
    return found


def _attend(guest: Guest, process: subprocess.Popen[bytes], folder: Path) -> None:
    """Dress the devices, let the guest run, and answer what it says until it is off."""
    running = Running(process, folder / "monitor")
    try:
        running.memory.change(guest.machine.looks)
        running.monitor("cont")
        heard = 0
        end = time.monotonic() + _TIMEOUT_S
        while process.poll() is None:
            if time.monotonic() > end:
                raise GuestFailed(f"not done after {_TIMEOUT_S} s")
            words = re.findall(r"LAB-SAY (\S+)", _read(folder / "console")) if guest.answers else []
            for word in words[heard:]:
                guest.answers[word](running)
            heard = len(words)
            time.sleep(_POLL_S)
    finally:
        running.close()


def _results(folder: Path) -> dict[str, bytes]:
    text = _read(folder / "results")
    match = re.search(r"LAB-STATUS (\d+)\s(.*)LAB-END", text, re.DOTALL)
    if match is None:
        raise GuestFailed(f"the guest ended without results\n{_tail(folder)}")
    files = dict(_members(base64.b64decode(re.sub(r"\s", "", match[2]))))
    if match[1] != "0":
        raise GuestFailed(f"a step failed with status {match[1]}:\n{files['stderr'].decode('utf-8', 'replace')}")
    return files


def _members(data: bytes) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as tar:
        for member in tar:
            if (content := tar.extractfile(member)) is not None:
                yield member.name.removeprefix("./"), content.read()


def _read(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace") if path.exists() else ""


def _tail(folder: Path) -> str:
    """The last of what QEMU and the guest's console said."""
    return "\n".join(line for name in ("qemu.log", "console") for line in _read(folder / name).splitlines()[-15:])


def _connects(client: socket.socket, path: Path) -> bool:
    with contextlib.suppress(OSError):
        client.connect(str(path))
        return True
    return False


def _until(done: Callable[[], bool], process: subprocess.Popen[bytes], complaint: str) -> None:
    end = time.monotonic() + _TIMEOUT_S
    while not done():
        if process.poll() is not None or time.monotonic() > end:
            raise GuestFailed(complaint)
        time.sleep(_POLL_S)
