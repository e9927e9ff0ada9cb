"""Boots a machine under QEMU, has it do some steps, and brings back what they gave."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import re
import shutil
import socket
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lab import archive
from tests.lab.config_space import QemuMemory
from tests.lab.image import GUEST_FILES, Images
from tests.lab.machine import Machine

QEMU = "qemu-system-x86_64"
_TIMEOUT_S = 300
_POLL_S = 0.05

# A busy machine can make the emulated timer look broken, which the kernel takes for a reason to stop.
_PARAMETERS = "console=ttyS0 panic=-1 no_timer_check"

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
    """

    machine: Machine
    cmdline: str = ""
    kernel: str = "6.12"
    steps: tuple[Step, ...] = LOOK
    answers: Mapping[str, Callable[[Running], None]] = field(default_factory=dict)


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
    """Boot a guest and wait until it has switched itself off.

    Args:
        guest: what to boot and do.
        images: what it boots from.
        site: hostdoctor, installed for the guest's Python.
        folder: a new folder for what the boot leaves.

    Raises:
        GuestFailed: it did not come up, or a step failed.
    """
    began = time.monotonic()
    folder.mkdir(parents=True)
    initrd = folder / "initrd"
    _write_initrd(initrd, guest, images, site)
    with (folder / "qemu.log").open("wb") as log:
        process = subprocess.Popen(_command(guest, images, folder), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            _attend(guest, process, folder)
        except (GuestFailed, OSError) as error:
            raise GuestFailed(f"{error}\n{_tail(folder)}") from error
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            initrd.unlink()
    files = _results(folder)
    return Result(files, time.monotonic() - began)


def _write_initrd(path: Path, guest: Guest, images: Images, site: Path) -> None:
    with path.open("wb") as out:
        for part in (images.system, images.kernels[guest.kernel].modules):
            with part.open("rb") as source:
                shutil.copyfileobj(source, out, 1 << 22)
        archive.write(out, _payload(guest, site))


def _payload(guest: Guest, site: Path) -> Iterator[archive.Entry]:
    yield archive.folder("payload")
    yield archive.file("payload/steps.json", json.dumps(guest.steps))
    yield archive.file("payload/run", (GUEST_FILES / "run").read_bytes(), executable=True)
    yield archive.folder("payload/site")
    yield from archive.tree(site, "payload/site/")


def _command(guest: Guest, images: Images, folder: Path) -> list[str]:
    command = [
        QEMU, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-S", "-machine", "q35", "-accel", "tcg",
        "-kernel", str(images.kernels[guest.kernel].image), "-initrd", str(folder / "initrd"),
        "-append", f"{_PARAMETERS} {guest.cmdline}".strip(),
        "-chardev", f"file,id=console,path={folder}/console", "-serial", "chardev:console",
        "-chardev", f"file,id=results,path={folder}/results", "-serial", "chardev:results",
        "-qmp", f"unix:{folder}/monitor,server=on,wait=off",
    ]  # fmt: skip
    if guest.machine.uefi:
        variables = shutil.copy(images.firmware_variables, folder / "variables")
        command += ["-drive", f"if=pflash,format=raw,unit=0,readonly=on,file={images.firmware}"]
        command += ["-drive", f"if=pflash,format=raw,unit=1,file={variables}"]
    return [*command, *guest.machine.arguments]


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


def _results(folder: Path) -> Tree:
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
