"""A file for /etc/default/grub.d that changes the kernel command line without touching the administrator's own files.

It is POSIX sh, adds what is missing, takes out what is to go, and does nothing more when it is read twice. Nothing in it
depends on how the other files are written, since it works on the variable's value after all of them were read. What is
written here, hostdoctor/parsers/grub_dropin.py reads again.
"""

from __future__ import annotations

from collections.abc import Iterable

from hostdoctor.parsers.grub_dropin import Step
from hostdoctor.remedies.quoting import for_grub, in_double_quotes

NAME = "zz-hostdoctor.cfg"

_HEAD = """\
# Written by hostdoctor: kernel parameters for the GPUs of this host.
# To take them back, delete this file and run: {command}
"""
_ADD = """\
case " ${variable} " in *" {token} "*) ;;
  *) {variable}="${{{variable}:+${variable} }}{token}" ;;
esac
"""
_REMOVE = """\
_hostdoctor=" ${variable} "
while :; do
  case "$_hostdoctor" in
    *" {token} "*) _hostdoctor="${{_hostdoctor%%" {token} "*}} ${{_hostdoctor#*" {token} "}}" ;;
    *) break ;;
  esac
done
_hostdoctor="${{_hostdoctor# }}"
{variable}="${{_hostdoctor% }}"
unset _hostdoctor
"""


def drop_in(variable: str, add: Iterable[str], remove: Iterable[str], command: str = "update-grub") -> str:
    """The text of the file.

    Args:
        variable: which one is changed, GRUB_CMDLINE_LINUX_DEFAULT.
        add: parameters to add at its end where they are missing, as the kernel shall get them.
        remove: parameters to take out, wherever they stand.
        command: what makes GRUB's configuration again.
    """
    steps = [
        *(Step(variable, for_grub(each), False) for each in remove),
        *(Step(variable, for_grub(each), True) for each in add),
    ]
    return drop_in_of(steps, command)


def drop_in_of(steps: Iterable[Step], command: str = "update-grub") -> str:
    """The text of the file that takes these steps, in this order."""
    parts = [_HEAD.format(command=command)]
    for step in steps:
        shape = _ADD if step.adds else _REMOVE
        parts.append(shape.format(variable=step.variable, token=in_double_quotes(step.token)))
    return "".join(parts)
