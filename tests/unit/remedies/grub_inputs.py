"""Ways in which people write /etc/default/grub, and the shells as judges of what a change makes of them."""

from __future__ import annotations

import random
import re
import shutil
import subprocess

from tests.unit.remedies import rehearsal

V, W = "GRUB_CMDLINE_LINUX_DEFAULT", "GRUB_CMDLINE_LINUX"
STOCK = """\
# If you change this file, run 'update-grub' afterwards to update
# /boot/grub/grub.cfg.
# For full documentation of the options in this file, see:
#   info -f grub -n 'Simple configuration'

GRUB_DEFAULT=0
GRUB_TIMEOUT=5
GRUB_DISTRIBUTOR=`lsb_release -i -s 2> /dev/null || echo Debian`
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
GRUB_CMDLINE_LINUX=""

# Uncomment to enable BadRAM filtering, modify to suit your needs
#GRUB_BADRAM="0x01234567,0xfefefefe,0x89abcdef,0xefefefef"

# Uncomment to disable graphical terminal
#GRUB_TERMINAL=console
"""

# Name, file, and what is right: an edit in place, a block behind everything, or a refusal for dash and for bash.
PLACE, BLOCK, NO = "in place", "block", "refused"
INPUTS = [
    ("double quotes", f'{V}="quiet splash"\n', PLACE, PLACE),
    ("single quotes", f"{V}='quiet splash'\n", PLACE, PLACE),
    ("a bare word", f"{V}=quiet\n", PLACE, PLACE),
    ("nothing", f"{V}=\n", PLACE, PLACE),
    ("empty quotes", f'{V}=""\n', PLACE, PLACE),
    ("two kinds of quotes", f"""{V}="quiet"' splash'\n""", PLACE, PLACE),
    ("a blank behind a backslash", f"{V}=quiet\\ splash\n", PLACE, PLACE),
    ("escaped quotes", f'{V}="quiet dyndbg=\\"file pci.c +p\\" splash"\n', PLACE, PLACE),
    ("quotes in quotes", f"""{V}='quiet dyndbg="file pci.c +p" splash'\n""", PLACE, PLACE),
    ("a continued line", f'{V}="quiet \\\n splash"\n', PLACE, PLACE),
    ("a line end in quotes", f'{V}="quiet\nsplash"\n', NO, NO),
    ("itself", f'{V}="quiet"\n{V}="${V} splash"\n', PLACE, PLACE),
    ("+=", f'{V}="quiet"\n{V}+=" splash"\n', NO, PLACE),
    ("twice", f'{V}="quiet"\nGRUB_TIMEOUT=5\n{V}="splash"\n', PLACE, PLACE),
    ("a comment alone", f'#{V}="quiet splash"\nGRUB_TIMEOUT=5\n', BLOCK, BLOCK),
    ("indented", f'  {V}="quiet splash"\n', PLACE, PLACE),
    ("export", f'export {V}="quiet splash"\n', PLACE, PLACE),
    ("a comment behind it", f'{V}="quiet splash"  # keep me\n', PLACE, PLACE),
    ("a number sign inside", f'{V}="quiet nomodule#x splash" #c\n', PLACE, PLACE),
    ("a command's output", f'{V}="quiet $(echo splash)"\n', BLOCK, BLOCK),
    ("as tuned writes it", f'{V}="quiet"\n{V}="${{{V}:+${V} }}\\$tuned_params"\n', BLOCK, BLOCK),
    ("if", f'if [ -d /nonexistent ]; then\n  {V}="quiet"\nelse\n  {V}="splash"\nfi\n', BLOCK, BLOCK),
    ("a semicolon", f'GRUB_TIMEOUT=5; {V}="quiet splash"\n', PLACE, PLACE),
    ("line ends of Windows", f'GRUB_TIMEOUT=5\r\n{V}="quiet splash"\r\n', NO, NO),
    ("no final line end", f'{V}="quiet splash"', PLACE, PLACE),
    ("blanks around =", f'{V} = "quiet splash"\n', NO, NO),
    ("an open quote", f'{V}="quiet splash\nGRUB_TIMEOUT=5\n', NO, NO),
    ("latin-1", f'# caf\udce9\n{V}="quiet splash"\n', PLACE, PLACE),
    ("return", f'{V}="quiet splash"\nreturn 0\n', NO, NO),
    ("text for a command", f'{V}="quiet splash"\ncat <<E >/dev/null\n{V}="bogus"\nE\n', NO, NO),
    ("readonly", f'{V}="quiet splash"\nreadonly {V}\n', NO, NO),
    ("two on one line", f'{W}="a" {V}="quiet splash"\n', PLACE, PLACE),
    ("a parameter outside the quotes", f'{V}="quiet splash" intel_iommu=on\n', NO, NO),
    ("a word outside the quotes", f'{V}="quiet" splash\n', NO, NO),
    ("curly quotes", f"{V}=\u201cquiet splash\u201d\n", NO, NO),
    ("a dollar in single quotes", f"{V}='quiet $vt_handoff'\n", PLACE, PLACE),
    ("as Debian ships it", STOCK, PLACE, PLACE),
    ("a byte order mark", f'\ufeff{V}="quiet splash"\n', NO, NO),
    ("another variable", f'BASE="quiet splash"\n{V}="$BASE"\n', PLACE, PLACE),
    ("unset later", f'{V}="quiet splash"\nunset {V}\n', BLOCK, BLOCK),
    ("an array", f"{V}=(quiet splash)\n", NO, NO),
    ("quotes of bash", f"{V}=$'quiet splash'\n", NO, NO),
    ("&&", f'[ -e /etc/passwd ] && {V}="quiet splash"\n', BLOCK, BLOCK),
]

SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"]}
MISSING = [name for name in SHELLS if shutil.which(name) is None]
_SOURCE = f"""\
for file; do
  (
    set -e
    exec 3>&1 >/dev/null 2>&1
    . "$file"
    exec >&3
    printf 'read\\0%s\\0%s\\0' "${{{V}-}}" "${{{W}-}}"
    unset {V} file
    set
  )
  printf '\\0--\\0'
done
"""
_OF_THE_SHELL = re.compile(rb"(?:BASH\w*|_|PPID|LINENO|OPT\w+|PIPESTATUS|RANDOM|SECONDS|EPOCH\w+|SHLVL)=")


def sourced(folder, shell, texts):
    """What a shell makes of each text: V's value, W's and all other variables; None where it does not get to the end."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for number, text in enumerate(texts):
        files.append(folder / f"{number}")
        files[-1].write_bytes(text.encode("utf-8", "surrogateescape"))
    sandbox = () if rehearsal.why_not() else rehearsal.SANDBOX
    done = subprocess.run(
        [*sandbox, *SHELLS[shell], "-c", _SOURCE, "sh", *files],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        cwd="/",
        timeout=300,
        check=False,
    )
    found = []
    for part in done.stdout.split(b"\0--\0")[: len(files)]:
        mark, _, rest = part.partition(b"\0")
        if mark != b"read":
            found.append(None)
            continue
        ours, always, others = rest.split(b"\0")
        kept = [line for line in others.split(b"\n") if not _OF_THE_SHELL.match(line)]
        found.append((ours.decode("latin-1"), always.decode("latin-1"), kept))
    assert len(found) == len(files)
    return found


# --- quotings by chance -----------------------------------------------------------------------------------------------

_TOKENS = [
    "quiet", "splash", "console=ttyS0,115200n8", "pci=realloc", "isolcpus=1-3,5", "mem=4G#1", "nosplash", "splash=x", "a[1]=*",
    'dyndbg="file a.c +p"', "bar=$x", "x='y'", "foo=a\\;b", "a\\\\b", "$tuned_params", "~", "x=~/y", "\\#z",
]  # fmt: skip
_BEFORE = [
    "# c\n",
    "\n",
    "GRUB_TIMEOUT=5\n",
    "GRUB_DISTRIBUTOR='x y'\n",
    f'#{V}="no"\n',
    f'{W}="root=a splash"\n',
    f'{V}="old"\n',
]


def _quoted(text, style):
    if style == "double":
        return '"' + "".join("\\" + sign if sign in '\\"$`' else sign for sign in text) + '"'
    if style == "single":
        return "'" + text.replace("'", "'\\''") + "'"
    return "".join(sign if sign.isalnum() or sign in "=,.-_/:" else "\\" + sign for sign in text)


def by_chance(seed):
    """A file with one value in quotings that nobody would write, and others around it."""
    chance = random.Random(seed)
    words = [chance.choice(_TOKENS) for _ in range(chance.randint(0, 6))]
    value = chance.choice([" ", "  ", "\t"]).join(words)
    parts, at = [], 0
    while at < len(value):
        size = chance.randint(1, len(value))
        parts.append(_quoted(value[at : at + size], chance.choice(["double", "single", "bare"])))
        at += size
    behind = chance.choice(["", " # c \" ' ", " ;", f'; {W}="b"', ""])
    line = f"{chance.choice(['', '  ', 'export ', 'GRUB_A=1 '])}{V}={''.join(parts)}{behind}\n"
    before = "".join(chance.choice(_BEFORE) for _ in range(chance.randint(0, 4)))
    after = chance.choice(["", "GRUB_X=1\n", f'{V}="${V} late"\n', f"{V}=${V}\n", f'[ -e / ] || {V}="no"\n'])
    return before + line + after
