"""The file that hostdoctor itself puts into /etc/default/grub.d: what it does to the variables, read back from its text.

It is a shell program with loops, which nothing else here could follow; hostdoctor/remedies/grub_dropin.py writes it.
"""

from __future__ import annotations

import re

import msgspec

_MOST_CHARACTERS = 1 << 16
_OURS = re.compile(r"(?:.*/)?z+-hostdoctor\.cfg\Z")
_WRITTEN = r'(?P<token>(?:[^"\\$`\n]|\\[\\"$`])+)'
_ADDS = re.compile(
    rf'case " \$(?P<variable>\w+) " in \*" {_WRITTEN} "\*\) ;;\n'
    r'  \*\) (?P=variable)="\$\{(?P=variable):\+\$(?P=variable) \}(?P=token)" ;;\n'
    r"esac\n"
)
_REMOVES = re.compile(
    r'_hostdoctor=" \$(?P<variable>\w+) "\n'
    r"while :; do\n"
    r'  case "\$_hostdoctor" in\n'
    rf'    \*" {_WRITTEN} "\*\) _hostdoctor="\$\{{_hostdoctor%%" (?P=token) "\*\}} \$\{{_hostdoctor#\*" (?P=token) "\}}" ;;\n'
    r"    \*\) break ;;\n"
    r"  esac\n"
    r"done\n"
    r'_hostdoctor="\$\{_hostdoctor# \}"\n'
    r'(?P=variable)="\$\{_hostdoctor% \}"\n'
    r"unset _hostdoctor\n"
)
_COMMENT = re.compile(r"#[^\n]*\n")


class Step(msgspec.Struct, frozen=True):
    """One parameter that comes or goes.

    Attributes:
        variable: "GRUB_CMDLINE_LINUX_DEFAULT".
        token: as it stands in the variable, which is as GRUB reads it.
        adds: whether it comes.
        line: the number of the line that says so, from 1.
    """

    variable: str
    token: str
    adds: bool
    line: int = 0

    def applied(self, value: str) -> str:
        """The variable's value after it."""
        around, wanted = f" {value} ", f" {self.token} "
        if self.adds:
            return value if wanted in around else f"{value} {self.token}" if value else self.token
        while wanted in around:
            before, _, after = around.partition(wanted)
            around = f"{before} {after}"
        return around.removeprefix(" ").removesuffix(" ")


def is_ours(path: str) -> bool:
    """Whether a file of grub.d has a name that hostdoctor gives."""
    return _OURS.match(path) is not None


def read_drop_in(text: str) -> tuple[Step, ...] | None:
    """What the file does, in order; None where it holds anything else than hostdoctor writes."""
    if len(text) > _MOST_CHARACTERS or "hostdoctor" not in text:
        return None
    steps: list[Step] = []
    at, line = 0, 1
    while at < len(text):
        match = _COMMENT.match(text, at) or _ADDS.match(text, at) or _REMOVES.match(text, at)
        if match is None:
            return None
        if match.re is not _COMMENT:
            token = re.sub(r"\\(.)", r"\1", match["token"])
            steps.append(Step(match["variable"], token, match.re is _ADDS, line))
        line += match[0].count("\n")
        at = match.end()
    return tuple(steps) or None
