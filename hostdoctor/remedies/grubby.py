"""What grubby does to the options of entries, and the call that makes one line of another.

grubby first takes out each of --remove-args: the one parameter where it has a value, else all of that name. Then it takes out
every parameter that has the name of one in --args, whatever its value, and puts those of --args at the end: whoever adds one
console= or pci= has to name the others again. All of it passes through the shell and through sed.

Sources: grubby 8.40 (RHEL 8 to 10, Fedora), grubby-bls update_args, update_bls_fragment, set_bls_value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from hostdoctor.remedies.grub_line import Word, meaning, meanings
from hostdoctor.remedies.patch import Refused
from hostdoctor.remedies.quoting import in_double_quotes

_BY_HAND = "Change the options line of the files in /boot/loader/entries by hand."
# What the shell matches against file names, what sed puts in, and what quotes in /etc/default/grub would let through.
_NOT_TO_ADD = frozenset("*?[&$`\\'\"")
_NOT_TO_REMOVE = frozenset('*+?()[]{}|^$&`\\"')
_ENDS_A_COMMAND = frozenset(";|<>{}")


class Call(msgspec.Struct, frozen=True):
    """The arguments of one call, as they stand in entries."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()

    def command(self, kernel: str = "ALL", *options: str) -> str:
        """The call for one kernel, or for all."""
        words = ["grubby", f"--update-kernel={kernel}", *options]
        for option, values in (("--remove-args", self.remove), ("--args", self.add)):
            if values:
                words.append(f'{option}="{in_double_quotes(" ".join(values))}"')
        return " ".join(words)

    @property
    def is_empty(self) -> bool:
        """Whether it would do nothing."""
        return not self.add and not self.remove


def spelled(parameter: str) -> str:
    """A parameter as it must stand in an entry for GRUB to hand it on, and for grubby to leave it alone; raises Refused."""
    odd = sorted(_NOT_TO_ADD & set(parameter))
    name, equals, value = parameter.partition("=")
    if odd or (_ENDS_A_COMMAND & set(name)) or parameter.startswith("#"):
        raise Refused(f"{parameter} holds {' '.join(odd) or 'a sign'} that grubby does not keep as it is", _BY_HAND)
    if not _ENDS_A_COMMAND & set(value):
        return parameter
    return f"{name}{equals}'{value}'"


def call_for(old: Sequence[Word], new: Sequence[Word]) -> Call:
    """The call that makes one line of another; raises Refused where none does."""
    gone = list((Counter(word.raw for word in old) - Counter(word.raw for word in new)).elements())
    fresh = list((Counter(word.raw for word in new) - Counter(word.raw for word in old)).elements())
    for raw in gone:
        if odd := sorted(_NOT_TO_REMOVE & set(raw)):
            raise Refused(f"{raw} holds {' '.join(odd)}, which grubby takes for a pattern", _BY_HAND)
    names = {_name(raw) for raw in fresh} | {raw for raw in gone if "=" not in raw}
    add = tuple(word.raw for word in new if _name(word.raw) in names)
    for raw in add:
        if odd := sorted((_NOT_TO_ADD - {"'"}) & set(raw)):
            raise Refused(
                f"{raw} would have to be named again, and holds {' '.join(odd)}, which grubby does not keep", _BY_HAND
            )
    return Call(add, tuple(gone))


def applied(words: Sequence[Word], call: Call) -> list[Word]:
    """What a call makes of a line."""
    kept = list(words)
    for raw in call.remove:
        if "=" not in raw:
            kept = [word for word in kept if _name(word.raw) != raw]
        elif found := next((word for word in kept if word.raw == raw), None):
            kept.remove(found)
    names = {_name(raw) for raw in call.add}
    kept = [word for word in kept if _name(word.raw) not in names]
    return [*kept, *(Word(raw, raw.replace("'", "")) for raw in call.add)]


def changed_words(words: Sequence[Word], add: Sequence[str], remove: Sequence[str]) -> list[Word]:
    """A line's words after a change, in order."""
    gone = meanings(remove)
    kept = [word for word in words if meaning(word.text) not in gone]
    there = meanings(word.text for word in kept)
    return [*kept, *(Word(spelled(each), each) for each in dict.fromkeys(add) if meaning(each) not in there)]


def does(call: Call, old: Sequence[Word], new: Sequence[Word]) -> bool:
    """Whether a call makes one line of another, as the kernel sees it."""
    return Counter(meaning(word.text) for word in applied(old, call)) == Counter(meaning(word.text) for word in new)


def refuse_fragile(raw_options: str, where: str) -> None:
    """Refuse options that any call of grubby would change besides."""
    if odd := sorted(set("&\\") & set(raw_options)):
        raise Refused(f"{where}: the options hold {' '.join(odd)}, which any call of grubby changes", _BY_HAND)


def _name(raw: str) -> str:
    return raw.partition("=")[0]
