"""What stands in GRUB's two variables, as the kernel gets it, and what a change makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from hostdoctor.parsers.cmdline import parse_command_line
from hostdoctor.parsers.grub_cfg import raw_words
from hostdoctor.remedies.kernel_line import refuse_second_list, undone_by
from hostdoctor.remedies.patch import Refused, Request
from hostdoctor.remedies.quoting import is_sound

ALWAYS, DEFAULT = "GRUB_CMDLINE_LINUX", "GRUB_CMDLINE_LINUX_DEFAULT"
# COMMAND_LINE_SIZE is 2,048 on x86 and arm64, and GRUB adds the kernel's path.
LONGEST_LINE = 1900

# GRUB builds differ in how they hand these on: upstream puts a backslash before them or quotes around the word, others not
# (grub-core/lib/cmdline.c grub_create_loader_cmdline of GRUB 2.06, 2.14 and Red Hat's).
_HANDED_ON_DIFFERENTLY = frozenset("\"'\\ ")


class Word(msgspec.Struct, frozen=True):
    """A parameter in a variable's value: as it stands there, and as the kernel gets it."""

    raw: str
    text: str


def words_of(value: str) -> list[Word] | None:
    """The words of a variable's value; None where GRUB does not read it to its end, so that nothing may follow it."""
    found = raw_words(value)
    if found is None or "\n" in value or "\r" in value:
        return None
    return [Word(each.text, f'"{each.word}"' if " " in each.word else each.word) for each in found if each.word]


def meaning(text: str) -> tuple[str, str | None]:
    """Name and value of a parameter, whichever way it is quoted for the kernel."""
    parameters, arguments = parse_command_line(text)
    first = next(iter((*parameters, *arguments)), None)
    return (first.name, first.value) if first else ("", None)


def meanings(texts: Iterable[str]) -> set[tuple[str, str | None]]:
    """Those of several."""
    return {meaning(each) for each in texts}


def changed(words: Sequence[str], request: Request) -> list[str]:
    """A line's parameters after a change, in order."""
    gone = meanings(request.remove)
    kept = [each for each in words if meaning(each) not in gone]
    there = meanings(kept)
    return [*kept, *(each for each in dict.fromkeys(request.add) if meaning(each) not in there)]


def check(request: Request) -> None:
    """Refuse what cannot be handed through GRUB."""
    for each in request.add:
        if not is_sound(each) or each == "--":
            raise Refused(f"{each!r} is not one kernel parameter", "Give one parameter, as the kernel shall get it.")
        odd = sorted(_HANDED_ON_DIFFERENTLY & set(each))
        if odd:
            shown = " and ".join("a blank" if sign == " " else sign for sign in odd)
            raise Refused(
                f"{each} holds {shown}, which builds of GRUB hand to the kernel in different ways",
                "Write it into /etc/default/grub by hand, and look in /proc/cmdline after the restart how it arrived.",
            )


def check_length(words: Sequence[str]) -> None:
    """Refuse a line of which the kernel would cut the end off."""
    length = len(" ".join(words).encode("utf-8", "replace"))
    if length > LONGEST_LINE:
        raise Refused(
            f"the kernel command line would be {length} bytes long, and the kernel cuts off what is beyond 2,048",
            "Take out parameters that are not needed any more first.",
        )


def check_in_force(words: Sequence[str], request: Request) -> None:
    """Refuse a line on which something that comes later undoes what is added, or that has two lists of which one counts."""
    for each in request.add:
        if by := undone_by(words, each):
            raise Refused(f"{by}, which comes later on the line, would undo {each}", f"Take out {by} as well: --remove {by}")
    refuse_second_list([each for each in words if each not in request.add], request.add)
