"""Runs the real grub-mkconfig over files of ours in a sandbox, and asks GRUB itself what the kernel would get.

In the sandbox (bubblewrap) /boot and /etc/default are ours and grub-probe is a stub, since there is no disk to look at. What
comes out is checked by grub-script-check, and read by grub-emu, in which `linux` prints its arguments.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache

TOOLS = ("bwrap", "grub-mkconfig", "grub-script-check", "grub-emu")
KERNEL = "6.8.0-52-generic"
_GRUB_PROBE = """\
#!/bin/sh
for each; do
  case "$each" in
    --target=device) echo /dev/stub ;;
    --target=fs_uuid) echo 1111-2222 ;;
    --target=partuuid) echo 3333-01 ;;
    --target=fs) echo ext2 ;;
    --target=*) echo "${each#--target=}" ;;
  esac
done
exit 0
"""
_LINUX = 'function linux {\n  for each in "$@"; do echo "ARG<$each>"; done\n}\n'
_LINE_END = "\n\r"  # also where its console of 80 columns breaks a line
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
_ENTRY = re.compile(r"^[ \t]*linux[ \t].*?(?=^[ \t]*(?:echo|initrd))", re.MULTILINE | re.DOTALL)


@cache
def why_not() -> str:
    """Why nothing can be rehearsed here; empty where it can."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    done = subprocess.run([*SANDBOX, "true"], check=False, capture_output=True, text=True, timeout=60)
    return "" if done.returncode == 0 else f"bwrap: {done.stderr.strip()}"


SANDBOX = (
    "bwrap",
    "--unshare-all",
    "--uid",
    "0",
    "--die-with-parent",
    "--ro-bind",
    "/",
    "/",
    "--dev",
    "/dev",
    "--proc",
    "/proc",
)


def make_config(folder, files):
    """The text of grub.cfg that grub-mkconfig makes of files below etc/default; raises where it refuses.

    Args:
        folder: an empty folder to work in.
        files: texts by their path below /etc/default, "grub" and "grub.d/NAME".
    """
    for path, text in {
        **files,
        "../boot/grub/x": "",
        f"../boot/vmlinuz-{KERNEL}": "",
        f"../boot/initrd.img-{KERNEL}": "",
    }.items():
        file = folder / "default" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (folder / "probe").write_text(_GRUB_PROBE)
    (folder / "probe").chmod(0o755)
    binds = []
    for ours, theirs in (("boot", "/boot"), ("default", "/etc/default"), ("probe", shutil.which("grub-probe"))):
        binds += ["--ro-bind", folder / ours, theirs]
    command = [*SANDBOX, "--tmpfs", "/tmp", *binds, "grub-mkconfig"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
    if done.returncode:
        raise ValueError(done.stderr.strip().splitlines()[-1])
    return done.stdout


def is_script(config):
    """Whether grub-script-check takes it."""
    return subprocess.run(["grub-script-check"], check=False, input=config, text=True, capture_output=True).returncode == 0


def kernel_gets(folder, config, entry=0):
    """The arguments that GRUB itself hands to the kernel of an entry, the kernel's path first."""
    return linux_gets(folder, list(_ENTRY.finditer(config))[entry][0])


def linux_gets(folder, script):
    """The arguments that GRUB itself hands to `linux` in a script, the kernel's path first."""
    folder.mkdir(exist_ok=True)
    (folder / "grub.cfg").write_text(f"{_LINUX}{script}\nexit\n")
    done = subprocess.run(["grub-emu", "-d", folder], check=False, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
    shown = _ESCAPES.sub("", done.stdout.decode("utf-8", "replace"))
    if "error" in shown:
        raise ValueError(shown)
    return [each.replace(_LINE_END, "") for each in re.findall(rf"ARG<(.*?)>{_LINE_END}", shown, re.DOTALL)]
