"""How a kernel parameter is written so that shell and GRUB hand it on unchanged.

/etc/default/grub is read by sh, what it gives stands in grub.cfg, and GRUB parses that once more: there `;` ends a command,
`$x` is a variable, and a backslash goes (GNU GRUB manual, "Shell-like scripting"; tried with grub-emu of GRUB 2.06).
"""

from __future__ import annotations

import re

# What GRUB's script parser hands on as it is inside a word; anything else gets a backslash.
_PLAIN_TO_GRUB = re.compile(r"[^A-Za-z0-9_.,:=/@%+*?~^!()\[\]#-]")
_SPECIAL_IN_DOUBLE_QUOTES = re.compile(r'([\\"$`])')

# What a parameter may hold at all before it comes near a shell: no control characters, blanks only inside its double quotes.
_SOUND = re.compile(r'(?:[A-Za-z0-9_.,:;=/@%+*?~^!()\[\]#{}&|<>$\'\\-]|"[^"\x00-\x1f\x7f`]*")+\Z')
LONGEST = 1024


def is_sound(token: str) -> bool:
    """Whether a text is one kernel parameter that can be written into boot files without surprises."""
    return len(token) <= LONGEST and _SOUND.match(token) is not None


def for_grub(token: str) -> str:
    """A parameter as it must stand in grub.cfg for the kernel to get it."""
    escaped = _PLAIN_TO_GRUB.sub(lambda sign: f"\\{sign[0]}", token)
    return f"\\{escaped}" if escaped.startswith("#") else escaped


def from_grub(text: str) -> str:
    """What GRUB hands on of a word that stands in grub.cfg with backslashes and quotes, without variables."""
    return re.sub(r"\\(.)|'([^']*)'", lambda match: match[1] or match[2] or "", text)


def in_double_quotes(text: str) -> str:
    """A text as it must stand between double quotes for sh to give it back."""
    return _SPECIAL_IN_DOUBLE_QUOTES.sub(r"\\\1", text)
