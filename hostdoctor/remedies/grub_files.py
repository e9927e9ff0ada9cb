"""The files that grub-mkconfig sources, followed without running them, and what forbids to touch them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from hostdoctor import knowledge
from hostdoctor.facts.boot_files import Assignment
from hostdoctor.facts.unknown import NOT_CAPTURED, Unknown
from hostdoctor.parsers.grub_default import Evaluation, evaluate
from hostdoctor.readers.boot_loader import Files
from hostdoctor.remedies.grub_line import ALWAYS, DEFAULT, Word, meanings, words_of
from hostdoctor.remedies.patch import Refused, Request

PATH, FOLDER = "/etc/default/grub", "/etc/default/grub.d"
_MOST_FILES = 200
_LOCKS = re.compile(r"^[ \t]*(?:readonly|declare|typeset)\b.*", re.MULTILINE)
_BOTH = (ALWAYS, DEFAULT)


class GrubFiles(msgspec.Struct, frozen=True):
    """The files in the order in which they are read.

    Attributes:
        texts: by path; bytes that are not UTF-8 stand in them as surrogates.
        bash: whether the host's sh is bash.
        evaluation: what they assign.
    """

    texts: Mapping[str, str]
    bash: bool
    evaluation: Evaluation

    def with_texts(self, texts: Mapping[str, str]) -> GrubFiles:
        """The same host with other files."""
        return follow(texts, self.bash)

    def words(self, variable: str) -> list[Word] | Unknown:
        """The parameters in a variable, or why they are not known."""
        value = self.evaluation.value(variable)
        return value if isinstance(value, Unknown) else words_of(value) or []

    @property
    def unknown(self) -> Unknown | None:
        """Why one of the two variables is not known."""
        values = [self.evaluation.value(variable) for variable in _BOTH]
        return next((value for value in values if isinstance(value, Unknown)), None)

    @property
    def line(self) -> list[str] | None:
        """The parameters of a normal entry, as the kernel gets them; None where they are not known."""
        found = [self.words(variable) for variable in _BOTH]
        return None if self.unknown else [word.text for words in found if not isinstance(words, Unknown) for word in words]


def follow(texts: Mapping[str, str], bash: bool) -> GrubFiles:
    """Follow files."""
    return GrubFiles(texts, bash, evaluate(texts.items(), bash))


def read_texts(files: Files, drop_ins: bool) -> dict[str, str]:
    """/etc/default/grub and, where they are read, the files of grub.d; what is not in the evidence is left out."""
    paths = [PATH]
    if drop_ins:
        names = [name for name in files.names(FOLDER[1:]) if name.endswith(".cfg") and not name.startswith(".")]
        paths += [f"{FOLDER}/{name}" for name in sorted(names, key=lambda name: name.encode("utf-8", "surrogateescape"))]
    if len(paths) > _MOST_FILES:
        raise Refused(f"{FOLDER} holds more files than are read here", f"Put the parameters into a file of {FOLDER} by hand.")
    found = {}
    for path in paths:
        data = files.data(path[1:])
        if not isinstance(data, Unknown):
            found[path] = data.decode("utf-8", "surrogateescape")
        elif data is not NOT_CAPTURED:
            raise Refused(f"{path} cannot be read: {data.reason}", "Run it as a user who may read the file.")
    return found


def refuse_broken(grub: GrubFiles) -> None:
    """Refuse files that grub-mkconfig does not get through today, or that lose what is written into them."""
    for path, text in grub.texts.items():
        _refuse_line_ends(path, text)
    evaluation = grub.evaluation
    if evaluation.stopped and evaluation.fails:
        raise Refused(
            f"{printable(evaluation.stopped.reason)}; grub-mkconfig fails there today, and the old grub.cfg stays in use",
            "Correct that line, run the command that makes grub.cfg, and see that it ends without an error.",
        )
    _refuse_strays(grub)
    for path, text in grub.texts.items():
        if match := _LOCKS.search(text):
            number = text.count("\n", 0, match.start()) + 1
            raise Refused(
                f"{path}, line {number}: {printable(match[0].strip()[:80])} may keep variables from being changed",
                "Add the parameters in that file by hand.",
            )
    _refuse_cut_values(grub)


def _refuse_line_ends(path: str, text: str) -> None:
    for number, line in enumerate(text.split("\n"), 1):
        if "\r" in line and not line.lstrip().startswith("#"):
            raise Refused(
                f"{path}, line {number} ends in a carriage return, as files of Windows do, which the shell takes as part of "
                "the value or as a command, so that grub-mkconfig fails or hands it to the kernel today",
                f"Convert the file first: sed -i 's/\\r$//' {path}",
            )


def _refuse_strays(grub: GrubFiles) -> None:
    """A parameter that stands outside of the quotes, where the shell takes it for a variable of its own."""
    table = knowledge.load_kernel_parameters()
    assigned = grub.evaluation.assignments
    beside = {(each.file, each.line) for each in assigned if each.variable in _BOTH}
    for each in assigned:
        is_parameter = each.variable in table.by_name or each.variable in table.known_names
        if each.variable.isupper() or not (
            is_parameter or (_starts_with_ours(grub, each) and (each.file, each.line) in beside)
        ):
            continue
        value = "" if isinstance(each.value, Unknown) else printable(each.value)
        raise Refused(
            f"{each.file}, line {each.line}: {each.variable}={value} stands outside of the quotes; the shell takes it for a "
            "variable of its own, and the kernel does not get it today",
            f"Move it between the quotes of {DEFAULT}, or delete it, and try again.",
        )


def _starts_with_ours(grub: GrubFiles, each: Assignment) -> bool:
    line = grub.texts[each.file].split("\n")[each.line - 1]
    return re.match(r"[ \t]*(?:export[ \t]+)?GRUB_\w+\+?=", line) is not None and ";" not in line


def _refuse_cut_values(grub: GrubFiles) -> None:
    """A value that GRUB does not read to its end: what comes behind it would be lost."""
    for variable in _BOTH:
        value = grub.evaluation.value(variable)
        if isinstance(value, Unknown):
            continue
        where = last_place(grub, variable)
        if "\n" in value:
            raise Refused(
                f"{where}: the value of {variable} holds a line end, at which GRUB cuts the kernel's line today",
                "Put all parameters on one line, and try again.",
            )
        words = words_of(value)
        if words is None:
            raise Refused(
                f"{where}: GRUB does not read {variable} to its end, because of a quote or one of ; & | < > {{ }} # in "
                f"{printable(value)!r}, so that parameters behind it are lost today",
                "Put a backslash before that sign (two of them between double quotes), and try again.",
            )
        if any(word.text == "--" for word in words):
            raise Refused(
                f"{where}: {variable} holds --, and the kernel hands what follows to init",
                "Write the parameters before -- by hand.",
            )


def last_place(grub: GrubFiles, variable: str) -> str:
    """Where a variable gets its value, "/etc/default/grub, line 12"."""
    found = [each for each in grub.evaluation.assignments if each.variable == variable]
    return f"{found[-1].file}, line {found[-1].line}" if found else PATH


def keeps_recovery_clean(request: Request, after: GrubFiles) -> bool:
    """Whether there are recovery entries, and none of what is added gets into them."""
    always = after.words(ALWAYS)
    if not request.add or isinstance(always, Unknown):
        return False
    there = meanings(word.text for word in always) & meanings(request.add)
    return not there and after.evaluation.values.get("GRUB_DISABLE_RECOVERY") in (None, "", "false")


def notes_on_menu(grub: GrubFiles) -> list[str]:
    """What stands in the way of whoever needs GRUB's menu after a change that went wrong."""
    timeout = grub.evaluation.values.get("GRUB_TIMEOUT")
    if timeout not in ("0", "0.0") or grub.evaluation.stopped is not None:
        return []
    return [f"GRUB_TIMEOUT={timeout} leaves hardly any time for the key that shows GRUB's menu: 5 is safer for this restart."]


def printable(text: str) -> str:
    """A text of the host's without what a terminal would obey."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def others(paths: Iterable[str], ours: Iterable[str]) -> list[str]:
    """The names of the files of grub.d that are not hostdoctor's."""
    own = set(ours)
    return [path.rpartition("/")[2] for path in paths if path.startswith(f"{FOLDER}/") and path not in own]
