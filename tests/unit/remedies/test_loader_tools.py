"""What is written, read by the programs that it is for: kernel-install, GRUB and sh."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from hostdoctor.remedies.patch import Request
from tests.unit.remedies import rehearsal
from tests.unit.remedies.loader_trees import DEBIAN, Host

ACS = "pci=disable_acs_redir=0000:40:01.1;0000:80:01.1"
ADD = ("iommu=pt", ACS, "amdgpu.ppfeaturemask=0xffffffff", "nvidia.NVreg_RegistryDwords=ForceP2P=0x11;x=1")
MACHINE = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path / "host")


def need(*tools):
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


@pytest.mark.parametrize("content", ["root=UUID=0a1b ro quiet\n", "root=UUID=0a1b ro\n\nquiet", None])
def test_kernel_install_makes_an_entry_that_has_it_all(host, tmp_path, content):
    """The real kernel-install with the real plug-in, in a sandbox in which only our folder can be written."""
    need("kernel-install", "bwrap")
    line = f"initrd=\\x\\initrd.img root=UUID=0a1b ro quiet systemd.machine_id={MACHINE}"
    host.started_with(line, DEBIAN).variable("LoaderInfo", "systemd-boot 252.39")
    if content is not None:
        host.write("etc/kernel/cmdline", content)
    patch = host.changed(Request(ADD))
    settings = host.root / "etc/kernel"
    host.write("etc/kernel/install.conf", f"layout=bls\nBOOT_ROOT={tmp_path}/esp\nMACHINE_ID={MACHINE}\n")
    host.write("etc/kernel/entry-token", f"{MACHINE}\n").write("image", "kernel")
    (tmp_path / "esp").mkdir()
    plugin = "/usr/lib/kernel/install.d/90-loaderentry.install"
    sandbox = [
        "bwrap",
        "--unshare-all",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--bind",
        tmp_path,
        tmp_path,
    ]
    done = subprocess.run(
        [*sandbox, "kernel-install", "add", "6.12.9", host.root / "image"],
        env={
            "PATH": os.environ["PATH"],
            "TMPDIR": str(tmp_path),
            "KERNEL_INSTALL_CONF_ROOT": str(settings),
            "KERNEL_INSTALL_PLUGINS": plugin,
        },
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    entry = (tmp_path / f"esp/loader/entries/{MACHINE}-6.12.9.conf").read_text()
    (options,) = [entry_line.split()[1:] for entry_line in entry.split("\n") if entry_line.startswith("options")]
    assert options == [*patch.result.split(), f"systemd.machine_id={MACHINE}"]
    host.write("proc/cmdline", f"initrd=\\x {' '.join(options)}\n")
    done_again = host.asked(Request(ADD))
    assert (done_again.files, done_again.commands) == ((), ())


def test_bootctl_reads_what_an_entry_has(host, tmp_path):
    """On a file system of its own, since bootctl asks of a boot partition that it is one."""
    need("bootctl", "bwrap")
    entry = "title Debian\nversion 6.12.9\nlinux /vmlinuz\ninitrd /initrd\noptions root=UUID=0a1b ro quiet\n"
    host.started_with("initrd=\\initrd root=UUID=0a1b ro quiet", DEBIAN).variable("LoaderInfo", "systemd-boot 252.39")
    host.variable("LoaderEntrySelected", "debian.conf").write("boot/loader/entries/debian.conf", entry)
    host.changed(Request(ADD))
    host.write("boot/vmlinuz").write("boot/initrd")
    host.folder("boot/EFI")
    sandbox = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/mnt"]
    listed = 'cp -r "$1"/. /mnt && bootctl --esp-path=/mnt --no-pager list'
    variables = {"PATH": os.environ["PATH"], "SYSTEMD_RELAX_ESP_CHECKS": "1"}
    command = [*sandbox, "sh", "-c", listed, "sh", host.root / "boot"]
    done = subprocess.run(command, env=variables, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    told = dict(line.strip().split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    assert told["options"].split() == ["root=UUID=0a1b", "ro", "quiet", *ADD]


@pytest.mark.parametrize("content", ["", 'set oem_id="x"\nset linux_append="flatcar.autologin amd_iommu=on"\n'])
def test_grub_hands_on_what_flatcars_file_has(host, tmp_path, content):
    need("grub-emu", "grub-script-check")
    host.started_with("BOOT_IMAGE=/flatcar/vmlinuz-a root=LABEL=ROOT amd_iommu=on", "ID=flatcar\n").write(
        "oem/grub.cfg", content
    )
    host.applied(host.asked(Request(ADD, ("amd_iommu=on",))))
    script = (host.root / "oem/grub.cfg").read_text()
    assert rehearsal.is_script(script)
    got = rehearsal.linux_gets(tmp_path / "emu", f"{script}\nlinux /flatcar/vmlinuz-a $linux_append\n")
    assert got == ["/flatcar/vmlinuz-a", *(["flatcar.autologin"] if content else []), *ADD]


@pytest.mark.parametrize(
    "content", ["#U_BOOT_PARAMETERS=x\n", 'U_BOOT_PARAMETERS="ro quiet"\n', "U_BOOT_PARAMETERS='ro quiet'"]
)
@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_sh_reads_what_u_boot_menus_file_has(host, content, shell):
    need(shell)
    host.started_with("root=UUID=0a1b ro quiet", DEBIAN).write("proc/device-tree/model", "Radxa ROCK 5B")
    generated = "## use: u-boot-update\ndefault l0\nlabel l0\n\tlinux /vmlinuz\n\tappend root=UUID=0a1b ro quiet\n"
    host.write("boot/extlinux/extlinux.conf", generated).write("etc/default/u-boot", content)
    host.changed(Request(ADD))
    file = host.root / "etc/default/u-boot"
    command = [shell, "-c", '. "$1"; printf %s "append $U_BOOT_PARAMETERS"', shell, file]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={}, timeout=60)
    assert done.stdout == f"append ro quiet {' '.join(ADD)}"


def test_sh_takes_the_commands_apart_as_they_were_meant(host):
    """Every printed command is one word a parameter, whatever characters it holds."""
    host.started_with("root=UUID=0a1b ostree=/x", "ID=fedora\n").write("usr/bin/rpm-ostree")
    nasty = ("a=$(id)", "b=x;y", "c=&|<>", "d={e}")
    (command,) = host.asked(Request(nasty)).commands
    script = f"rpm-ostree() {{ printf '%s\\n' \"$@\"; }}\n{command}"
    done = subprocess.run(["bash", "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.split("\n")[:-1] == ["kargs", *(f"--append-if-missing={each}" for each in nasty)]
