"""A change of a kernel command line in place: what is not asked for stays as it is, byte for byte.

Texts hold bytes that are no UTF-8 as lone surrogates (surrogateescape), so that a file is written as it was read.
Tokens are those of the kernel (lib/cmdline.c next_arg): only double quotes hold blanks together, - and _ are the same in
names, and what follows a bare -- is init's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hostdoctor import knowledge
from hostdoctor.facts.boot_files import Parameter
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.knowledge.kernel import Setting
from hostdoctor.parameters import all_meanings, meanings
from hostdoctor.parsers.cmdline import elements, parse_command_line, token_spans
from hostdoctor.readers.boot_loader import Files
from hostdoctor.remedies.patch import Refused, Request
from hostdoctor.remedies.quoting import is_sound

LONGEST_LINE_BYTES = 2000  # COMMAND_LINE_SIZE is 2,048 on x86 and arm64, and the loader adds to the line
_MOST_BYTES = 64 << 10
_BLANKS = " \t\n\v\f\r"
# Each of these may be given more than once, so that a later one does not undo an earlier one.
_REPEATED = frozenset(("console", "earlycon", "hugepages", "hugepagesz", "memmap", "module_blacklist", "blacklist", "rd.break"))
_MANAGED = re.compile(r"(?:managed|generated|maintained) by (ansible|puppet|chef|salt|cloud-init|maas)|ansible managed", re.I)


# --- reading ----------------------------------------------------------------------------------------------------------


def read_text(files: Files, path: str, manual: str, *, ends_with_cr: bool = False) -> str | None:
    """A boot file's text, losslessly.

    Args:
        files: of the host.
        path: without its leading slash.
        manual: what to do by hand where it is refused.
        ends_with_cr: whether its reader takes CR LF for a line end, so that no CR reaches the kernel.

    Returns:
        None where the host has no such file; raises Refused where that is not known or it cannot be edited safely.
    """
    data = files.data(path)
    if isinstance(data, Unknown):
        if data is NOT_CAPTURED and files.is_tree:
            return None
        why = "it is not in this evidence" if data is NOT_CAPTURED else data.reason
        raise Refused(f"what stands in /{path} is not known: {why}", manual)
    text = data.decode("utf-8", "surrogateescape")
    plain = text.replace("\r\n", "\n") if ends_with_cr else text
    problems = {
        f"is longer than {_MOST_BYTES >> 10} KiB": len(data) > _MOST_BYTES,
        "holds a NUL byte": "\0" in text,
        "begins with a byte order mark": text.startswith("\ufeff"),
        "has line ends with CR, which would reach the kernel": "\r" in plain and not ends_with_cr,
        "has a CR inside of a line": "\r" in plain and ends_with_cr,
    }
    for problem, is_there in problems.items():
        if is_there:
            raise Refused(f"/{path} {problem}", manual)
    if managed := _MANAGED.search(text):
        raise Refused(f'/{path} is written by other software ("{managed[0]}"), which would undo the change', manual)
    return text


def refuse_unsound(request: Request, more: str = "", why: str = "") -> None:
    """Refuse parameters that are no single ones, and characters that one kind of file cannot hold."""
    for token in (*request.add, *request.remove):
        if not is_sound(token):
            raise Refused(
                f"{token!r} is no single kernel parameter", "Give one parameter at a time, without blanks outside quotes."
            )
    for token in request.add:
        found = next((sign for sign in more if sign in token), None)
        if found is not None:
            raise Refused(
                f"{token} holds {'a blank' if found == ' ' else found}, {why}", f"Add {token} by hand, and look at the result."
            )


# --- changing ---------------------------------------------------------------------------------------------------------


def edited(pieces: Sequence[str], request: Request) -> list[str]:
    """The pieces of one kernel line after a change: each a line of a file, or its part that holds parameters.

    What is added comes at the end of the last piece, or before the bare -- where there is one. Nothing else moves.
    """
    texts = [_as_bytes(piece) for piece in pieces]
    for text in texts:
        if text.count('"') % 2:
            raise Refused(f"a quote is not closed in: {_shown(text)}", "Close the quote, then try again.")
    changed = _without(texts, {_identity(token) for token in map(_as_bytes, request.remove)})
    kept = _kernels_part(changed)
    fresh: list[str] = []
    for token in request.add:
        if not stands([*kept, *fresh], token):
            fresh.append(_as_bytes(token))
    undone = next((token for token in request.add if not stands([*kept, *fresh], token)), "")
    if undone:
        raise Refused(
            f"{undone} and another parameter that is to be added undo each other", f"Leave out {undone} or the other one."
        )
    if fresh:
        refuse_second_list(kept, fresh)
        _insert(changed, " ".join(fresh))
    return [_as_text(text) for text in changed]


def stands(tokens: Sequence[str], wanted: str) -> bool:
    """Whether tokens of a line have in force what a parameter asks for."""
    parameter = _parameter(_as_bytes(wanted))
    given = [_parameter(each) for each in tokens]
    table = knowledge.load_kernel_parameters()
    for setting in table.setting:
        ours = setting.way(_spelled(parameter))
        if ours:
            ways = [way for each in tokens if (way := _last_way(setting, _as_text(each)))]
            return bool(ways) and ways[-1] == ours
    if (described := table.by_name.get(parameter.key)) is not None and described.comma_list:
        return meanings(parameter) <= all_meanings(given)
    same = [each for each in given if each.key == parameter.key]
    if parameter.key in _REPEATED:
        return any(each.value == parameter.value for each in same)
    return bool(same) and meanings(same[-1]) == meanings(parameter)


def undone_by(tokens: Sequence[str], wanted: str) -> str:
    """What on a line undoes a parameter: the last one that sets the same thing, where it sets it another way; else empty."""
    for setting in knowledge.load_kernel_parameters().settings:
        if way := _last_way(setting, wanted):
            found = [(each, its) for each in tokens if (its := _last_way(setting, each))]
            return found[-1][0] if found and found[-1][1] != way else ""
    return ""


def _last_way(setting: Setting, token: str) -> str:
    """How a parameter sets a thing, in whatever spelling and list; of several elements the last counts."""
    parameter = _parameter(_as_bytes(token))
    described = knowledge.load_kernel_parameters().by_name.get(parameter.key)
    parts = described.elements(parameter.value or "") if described else ()
    texts = [described.meaning(part) for part in parts] if described else [parameter.value or ""]
    ways = [way for text in texts if (way := setting.way(f"{parameter.key}={text}"))]
    return ways[-1] if ways else ""


def not_found_notes(pieces: Sequence[str], request: Request, shown: str) -> list[str]:
    """A note for each parameter that is to go and stands nowhere in the kernel's part of a line."""
    there = {_identity(token) for token in _kernels_part([_as_bytes(piece) for piece in pieces])}
    missing = [token for token in request.remove if _identity(_as_bytes(token)) not in there]
    return [f"{token} is not in {shown}, so there is nothing to take out." for token in missing]


def waits(shown: str) -> str:
    """The note where a file says already what the running kernel lacks."""
    return f"{shown} says so already: what is missing is the command, or the restart."


def is_same(pieces: Sequence[str], others: Sequence[str]) -> bool:
    """Whether two lists of pieces hold the same tokens."""
    lists = [
        [text[start:end] for text in map(_as_bytes, each) for start, end in token_spans(text)] for each in (pieces, others)
    ]
    return lists[0] == lists[1]


def joined(pieces: Sequence[str]) -> str:
    """The kernel line that pieces give together, for people to read; refused where it is too long for the kernel."""
    texts = [_as_bytes(piece) for piece in pieces]
    line = " ".join(text[start:end] for text in texts for start, end in token_spans(text))
    if len(line) > LONGEST_LINE_BYTES:
        raise Refused(
            f"the kernel command line would have {len(line)} bytes, and the kernel cuts it at 2,048",
            "Take out parameters that are not needed, then try again.",
        )
    return line.encode("latin-1").decode("utf-8", "replace")


def names(line: str, key: str) -> str | None:
    """The last value of a parameter on a line, "" where it has none, None where it is not there."""
    found = [each.value or "" for each in parse_command_line(line)[0] if each.key == key]
    return found[-1] if found else None


def refuse_other_root(line: str, running: str | Unknown, file: str) -> None:
    """Refuse a line with another root file system than the running kernel got: then another file started this host."""
    if isinstance(running, Unknown):
        return
    ours, theirs = names(line, "root"), names(running, "root")
    if ours is not None and theirs is not None and ours != theirs:
        raise Refused(
            f"{file} has root={ours} and this host was started with root={theirs}, so another file or entry started it",
            f"Find out where root={theirs} stands, and change the parameters there.",
        )


def is_in_force(request: Request, running: str | Unknown) -> bool:
    """Whether the running kernel has all that is to be added and nothing that is to go."""
    if isinstance(running, Unknown):
        return False
    tokens = _kernels_part([_as_bytes(running)])
    there = {_identity(token) for token in tokens}
    return all(stands(tokens, token) for token in request.add) and not any(
        _identity(_as_bytes(token)) in there for token in request.remove
    )


def without_keys(line: str, keys: Sequence[str]) -> str:
    """A kernel line without parameters of these names, wherever they stand before --."""
    text = _as_bytes(line.strip(_BLANKS))
    gone = {_identity(token) for token in _kernels_part([text]) if _parameter(token).key in keys}
    return _as_text(_without([text], gone)[0])


def _without(texts: Sequence[str], gone: set[tuple[str, str | None]]) -> list[str]:
    """The pieces without some tokens, each with the blanks before it, or behind it at the beginning of a line."""
    left = []
    over = False
    for text in texts:
        cuts = []
        for start, end in token_spans(text):
            over = over or text[start:end] == "--"
            if not over and _identity(text[start:end]) in gone:
                cuts.append((start, end))
        left.append(_cut(text, cuts))
    return left


def _cut(text: str, cuts: Sequence[tuple[int, int]]) -> str:
    for start, end in reversed(cuts):
        before = len(text[:start].rstrip(_BLANKS))
        if before == 0:
            behind = len(text) - len(text[end:].lstrip(_BLANKS))
            text = text[:start] + text[behind:]
        else:
            text = text[:before] + text[end:]
    return text


def _insert(texts: list[str], fresh: str) -> None:
    """Put parameters before the bare --, else behind the last token."""
    for number, text in enumerate(texts):
        for start, end in token_spans(text):
            if text[start:end] == "--":
                texts[number] = f"{text[:start]}{fresh} {text[start:]}"
                return
    text = texts[-1].rstrip(_BLANKS)
    texts[-1] = f"{text}{' ' if text else ''}{fresh}{texts[-1][len(text) :]}"


def refuse_second_list(kept: Sequence[str], fresh: Sequence[str]) -> None:
    """Refuse to write a second list where the kernel keeps the last one only (drivers/pci/pci.c pci_setup)."""
    for once in knowledge.load_kernel_parameters().last_wins:
        lists = [(token, each) for token in (*kept, *fresh) for each in _elements(token, once.parameter, once.element)]
        ours = [each for token in fresh for each in _elements(token, once.parameter, once.element)]
        if not ours or len({each for _, each in lists}) < 2:
            continue
        old = next(token for token, each in lists if token not in fresh or each != ours[-1])
        devices = ";".join(dict.fromkeys(part for _, each in lists for part in each.removeprefix(once.element).split(";")))
        raise Refused(
            f"{once.parameter}={once.element} would be given twice, and the kernel keeps only the last: {_shown(old)} is there",
            f"Take out {_shown(old)}, and add one list with all devices: {once.parameter}={once.element}{devices}",
        )


def _elements(token: str, name: str, beginning: str) -> list[str]:
    parameter = _parameter(token)
    return [each for each in elements(parameter.value or "") if each.startswith(beginning)] if parameter.key == name else []


def _kernels_part(texts: Sequence[str]) -> list[str]:
    """The tokens before a bare --."""
    tokens = [text[start:end] for text in texts for start, end in token_spans(text)]
    return tokens[: tokens.index("--")] if "--" in tokens else tokens


def _parameter(token: str) -> Parameter:
    kernel, _ = parse_command_line(_as_text(token))
    return kernel[0] if kernel else Parameter(token, None, token)


def _identity(token: str) -> tuple[str, str | None]:
    parameter = _parameter(token)
    return parameter.key, parameter.value


def _spelled(parameter: Parameter) -> str:
    return f"{parameter.key}={parameter.value}"


def _as_bytes(text: str) -> str:
    """A text with one character a byte, as the kernel sees it."""
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def _as_text(text: str) -> str:
    return text.encode("latin-1").decode("utf-8", "surrogateescape")


def _shown(text: str) -> str:
    return text.encode("latin-1").decode("utf-8", "replace")
