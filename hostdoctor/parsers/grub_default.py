"""What /etc/default/grub and the files of grub.d assign, without running them.

grub-mkconfig sources these files with `set -e`, so they are shell programs. This follows the part of the shell that both
dash and bash read alike: assignments, quotes, ${V:-x}, comments and continued lines, in order. What is set only under a
condition, or by a command's output, is Unknown for that variable; a command that can change anything (eval, source, a
function's call) or end the file makes every variable Unknown. Commands inside of values are taken to succeed.

Sources: POSIX.1-2017, Shell Command Language; GRUB util/grub-mkconfig.in, and Debian's patch that reads grub.d.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from hostdoctor.facts.boot_files import Assignment
from hostdoctor.facts.unknown import Unknown
from hostdoctor.parsers.grub_dropin import Step, read_drop_in
from hostdoctor.parsers.shell_words import NotStatic, Piece, Token, tokens

_MOST_CHARACTERS = 1 << 18
_MOST_ASSIGNMENTS = 2000
_LONGEST_VALUE = 1 << 13  # the kernel takes 4,096 bytes at most; a variable may hold another many times over
_DEEPEST = 40
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=)")
_TILDE = re.compile(r"(?:\A|[:=])~")
_KEYWORDS = frozenset((
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "in", "{", "}", "!",
    "function", "select", "time", "coproc", "[[", "]]",
))  # fmt: skip
_MISPLACED = frozenset(("then", "else", "elif", "fi", "do", "done", "esac", "}"))
_REDIRECTS = frozenset(("<", ">", ">>", "<&", ">&", "<>", ">|"))
_HARMLESS = frozenset((":", "true", "echo"))
# Commands of the shell that can change variables, or what later lines do.
_STATEFUL = frozenset((
    "eval", ".", "source", "set", "shopt", "exec", "exit", "return", "break", "continue", "read", "trap", "alias", "unalias",
    "local", "declare", "typeset", "readonly", "let", "getopts", "mapfile", "readarray", "printf", "cd", "shift", "builtin",
    "command", "enable", "hash", "wait", "times", "umask", "ulimit", "pushd", "popd",
))  # fmt: skip
# Variables that the shell itself gives a value, or does not let anybody change.
_SPECIAL = re.compile(
    r"(?:BASH\w*|COMP_\w+|EPOCH\w+|RANDOM|SRANDOM|SECONDS|LINENO|E?UID|PPID|SHELLOPTS|HISTCMD|OPT\w+|GROUPS|FUNCNAME|DIRSTACK"
    r"|IFS|PATH|ENV|HOME|PWD|OLDPWD|POSIXLY_CORRECT|_|LC_\w+|LANG|PS\d|MAIL\w*|SHELL|TMOUT)\Z"
)

# What grub-mkconfig itself sets before it reads these files.
_PRESET = ("GRUB_DEVICE", "GRUB_FS", "GRUB_PREFIX", "GRUB_STOCK")


class Evaluation(msgspec.Struct, frozen=True):
    """What a set of files assigns.

    Attributes:
        values: each variable that is assigned, with its value at the end; None where it is unset again.
        assignments: every assignment, in order.
        stopped: why nothing is known of any variable, else None.
        fails: whether the shell itself stops there, so that grub-mkconfig makes nothing.
    """

    values: Mapping[str, str | Unknown | None]
    assignments: tuple[Assignment, ...]
    stopped: Unknown | None
    fails: bool = False

    def value(self, variable: str) -> str | Unknown:
        """A variable's value at the end; empty where no file sets it."""
        if self.stopped is not None:
            return self.stopped
        value = self.values.get(variable)
        return "" if value is None else value


def evaluate(files: Iterable[tuple[str, str]], bash: bool = True) -> Evaluation:
    """Follows files in the order in which the shell reads them.

    Args:
        files: the name of each, as reasons should show it, and its text.
        bash: whether the host's sh is bash, which knows +=; dash ends the file there.
    """
    state = _State(bash)
    for name, text in files:
        state.file = name
        try:
            if len(text) > _MOST_CHARACTERS or "\0" in text:
                raise NotStatic(1, "it is no such file")
            if text.startswith("\ufeff"):
                raise NotStatic(1, "a byte order mark, which the shell takes as part of a command's name", fails=True)
            if (steps := read_drop_in(text)) is not None:
                for step in steps:
                    state.change(step)
            else:
                _Program(state, text).run()
        except NotStatic as error:
            stopped = Unknown(f"{name}, line {error.line}: {error.why}")
            return Evaluation({}, tuple(state.assignments), stopped, error.fails)
    return Evaluation(state.values, tuple(state.assignments), None)


class _Context(msgspec.Struct, frozen=True):
    """How a command is run: perhaps; as a condition, so that its failure does not end the file; or never, in a function."""

    maybe: bool = False
    exempt: bool = False
    dormant: bool = False


def _changed(context: _Context, maybe: bool = False, exempt: bool = False) -> _Context:
    """The context of something inside of it."""
    return _Context(context.maybe or maybe, context.exempt or exempt, context.dormant)


class _State:
    """Variables and assignments so far."""

    def __init__(self, bash: bool) -> None:
        self.bash = bash
        self.file = ""
        self.functions = False
        self.values: dict[str, str | Unknown | None] = {}
        self.assignments: list[Assignment] = []

    def assign(self, name: str, operator: str, pieces: tuple[Piece, ...], line: int, context: _Context) -> None:
        """Give a variable a value."""
        if context.dormant:
            return
        if len(self.assignments) >= _MOST_ASSIGNMENTS:
            raise NotStatic(line, "more assignments than anybody writes")
        if _SPECIAL.match(name):
            raise NotStatic(line, f"{name} is a variable of the shell's own")
        if operator == "+=" and not self.bash:
            raise NotStatic(line, "+= is no assignment for dash, which ends there with an error", fails=True)
        value = self._text(pieces, line)
        appends = operator == "+="
        if appends:
            before = self._variable(name, line) or ""
            value = before if isinstance(before, Unknown) else value if isinstance(value, Unknown) else before + value
        if isinstance(value, str) and len(value) > _LONGEST_VALUE:
            value = self._unknown(line, "the value is longer than any kernel takes")
        if context.maybe:
            value = self._unknown(line, f"{name} is set there under a condition only")
        self.values[name] = value
        keeps = appends or _names(pieces, name)
        self.assignments.append(Assignment(name, self.file, line, value, keeps))

    def change(self, step: Step) -> None:
        """What a file of hostdoctor's own does to a variable."""
        before = self.values.get(step.variable) or ""
        value = before if isinstance(before, Unknown) else step.applied(before)
        if value != before:
            self.values[step.variable] = value
            self.assignments.append(Assignment(step.variable, self.file, step.line, value, True))

    def unset(self, name: str, line: int, context: _Context) -> None:
        """Take a variable's value away."""
        if not context.dormant:
            gone = self._unknown(line, f"{name} is unset there under a condition only") if context.maybe else None
            self.values[name] = gone
            self.assignments.append(Assignment(name, self.file, line, "" if gone is None else gone, False))

    def forget(self, name: str, line: int, why: str) -> None:
        """Nothing is known of a variable any more."""
        self.values[name] = self._unknown(line, why)
        self.assignments.append(Assignment(name, self.file, line, self._unknown(line, why), False))

    def _unknown(self, line: int, why: str) -> Unknown:
        return Unknown(f"{self.file}, line {line}: {why}")

    def _text(self, pieces: tuple[Piece, ...], line: int) -> str | Unknown:
        """The value of a word in an assignment, where the shell splits nothing and matches no files."""
        found: list[str] = []
        length = 0
        for number, piece in enumerate(pieces):
            if length > _LONGEST_VALUE:
                return self._unknown(line, "the value is longer than any kernel takes")
            if piece.kind == "unknown":
                return self._unknown(line, f"{piece.text} is part of the value")
            if piece.kind == "text":
                before = "" if number == 0 else "x"
                if not piece.quoted and _TILDE.search(before + piece.text):
                    return self._unknown(line, "a home folder is part of the value")
                text: str | Unknown = piece.text
            else:
                text = self._expanded(piece, line)
            if isinstance(text, Unknown):
                return text
            found.append(text)
            length += len(text)
        return "".join(found)

    def _variable(self, name: str, line: int) -> str | Unknown | None:
        """A variable's value now: whatever is not GRUB's own may come from the environment."""
        if name in self.values or (name.startswith("GRUB_") and not name.startswith(_PRESET)):
            return self.values.get(name)
        return self._unknown(line, f"${name} is set nowhere in these files")

    def _expanded(self, piece: Piece, line: int) -> str | Unknown:
        value = self._variable(piece.text, line)
        if isinstance(value, Unknown):
            return value
        if not piece.operator:
            return value or ""
        filled = value is not None if piece.operator in ("-", "+") else bool(value)
        if filled == (piece.operator in ("-", ":-")):
            return value or ""
        if not filled and piece.operator in ("+", ":+"):
            return ""
        return self._text(piece.alternative, line)


def _names(pieces: tuple[Piece, ...], name: str) -> bool:
    return any(piece.kind == "variable" and (piece.text == name or _names(piece.alternative, name)) for piece in pieces)


class _Program:
    """Follows one file, statement by statement.

    A method for a statement returns why the file may end there where its command fails, which the caller drops where the
    statement is a condition, or empty.
    """

    def __init__(self, state: _State, text: str) -> None:
        self._state = state
        self._tokens = tokens(text)
        self._token = next(self._tokens)
        self._depth = 0

    def run(self) -> None:
        """All of it; raises NotStatic."""
        self._list(_Context(), frozenset())
        if self._token.kind != "end":
            raise self._unexpected()

    # --- tokens ---

    def _take(self) -> Token:
        token = self._token
        if token.kind != "end":
            self._token = next(self._tokens)
        return token

    def _is(self, *texts: str) -> bool:
        """Whether the next token is one of these operators or keywords."""
        token = self._token
        return token.text in texts if token.kind == "operator" else token.literal in texts if token.literal else False

    def _expect(self, text: str) -> None:
        if not self._is(text):
            raise self._unexpected()
        self._take()

    def _newlines(self) -> None:
        while self._token.kind == "newline":
            self._take()

    def _unexpected(self) -> NotStatic:
        shown = {"end": "the end", "newline": "the end of the line"}.get(self._token.kind, repr(self._token.text[:40]))
        # What dash refuses may be one of the many things that bash knows besides.
        return NotStatic(self._token.line, f"{shown} where the shell expects something else", fails=not self._state.bash)

    # --- statements ---

    def _list(self, context: _Context, ends: frozenset[str]) -> None:
        """Statements up to one of the keywords or operators that end them."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise NotStatic(self._token.line, "statements in one another, deeper than anybody writes")
        self._newlines()
        while self._token.kind != "end" and not self._is(*ends):
            line = self._token.line
            why = self._and_or(context)
            if why and not context.exempt and not context.dormant:
                raise NotStatic(line, why)
            self._end_of_statement(ends)
            self._newlines()
        self._depth -= 1

    def _end_of_statement(self, ends: frozenset[str]) -> None:
        if self._is(";") or self._token.kind == "newline":
            self._take()
        elif self._token.kind != "end" and not self._is(*ends):
            raise self._unexpected()

    def _body(self, context: _Context, *ends: str) -> None:
        """Statements of which the shell expects one at least."""
        self._newlines()
        if self._is(*ends):
            raise self._unexpected()
        self._list(context, frozenset(ends))

    def _and_or(self, context: _Context) -> str:
        why = self._pipeline(context)
        while self._is("&&", "||"):
            self._take()
            self._newlines()
            why = self._pipeline(_changed(context, maybe=True))
        return why

    def _pipeline(self, context: _Context) -> str:
        negated = self._is("!")
        if negated:
            self._take()
        seen = len(self._state.assignments)
        why = self._command(context)
        while self._is("|"):
            self._take()
            self._newlines()
            why = self._command(_changed(context, maybe=True))
            if len(self._state.assignments) > seen:
                raise NotStatic(self._token.line, "an assignment in a pipe, which some shells keep")
        return "" if negated else why

    def _command(self, context: _Context) -> str:
        compound = {
            "if": self._if,
            "while": self._loop,
            "until": self._loop,
            "for": self._for,
            "case": self._case,
            "{": self._group,
            "(": self._subshell,
        }
        word = self._token.text if self._is(*compound) else ""
        if not word:
            return self._simple(context)
        self._take()
        compound[word](context)
        if self._is(*_REDIRECTS, "<<", "<<-"):
            raise NotStatic(self._token.line, "a file that a group of commands reads or writes")
        # Of all groups a subshell alone ends the file with what failed inside a condition.
        return "commands in brackets are run there, and the file ends if they fail" if word == "(" else ""

    def _if(self, context: _Context) -> None:
        self._body(_changed(context, exempt=True), "then")
        self._expect("then")
        perhaps = _changed(context, maybe=True)
        self._body(perhaps, "elif", "else", "fi")
        while self._is("elif"):
            self._take()
            self._body(_changed(perhaps, exempt=True), "then")
            self._expect("then")
            self._body(perhaps, "elif", "else", "fi")
        if self._is("else"):
            self._take()
            self._body(perhaps, "fi")
        self._expect("fi")

    def _loop(self, context: _Context) -> None:
        perhaps = _changed(context, maybe=True)
        self._body(_changed(perhaps, exempt=True), "do")
        self._expect("do")
        self._body(perhaps, "done")
        self._expect("done")

    def _for(self, context: _Context) -> None:
        name = self._take()
        if not _NAME.match(name.literal):
            raise NotStatic(name.line, "a loop over no variable")
        self._newlines()
        if self._is("in"):
            self._take()
            while self._token.kind == "word":
                self._take()
        if self._is(";"):
            self._take()
        self._newlines()
        self._expect("do")
        if not context.dormant:
            self._state.forget(name.literal, name.line, f"{name.literal} is set there by a loop")
        self._body(_changed(context, maybe=True), "done")
        self._expect("done")

    def _case(self, context: _Context) -> None:
        if self._take().kind != "word":
            raise self._unexpected()
        self._newlines()
        self._expect("in")
        self._newlines()
        while not self._is("esac"):
            if self._is("("):
                self._take()
            while self._token.kind == "word" or self._is("|"):
                self._take()
            self._expect(")")
            self._list(_changed(context, maybe=True), frozenset((";;", "esac")))
            if self._is(";;"):
                self._take()
            self._newlines()
        self._expect("esac")

    def _group(self, context: _Context) -> None:
        self._body(context, "}")
        self._expect("}")

    def _subshell(self, context: _Context) -> None:
        self._body(_changed(context, maybe=True), ")")
        self._expect(")")

    # --- simple commands ---

    def _simple(self, context: _Context) -> str:
        """Assignments, or a command with its words."""
        first = self._token
        assigned, words, redirected = self._parts_of_command()
        if not words and not assigned and not redirected:
            raise self._unexpected()
        if self._is("&"):
            raise NotStatic(self._token.line, "a command in the background")
        if self._is("(") and len(words) == 1 and not assigned and not redirected:
            return self._function(words[0])
        if words:
            if any(_assigned(token)[0].startswith("GRUB_") for token in assigned) and not context.dormant:
                shown = words[0].text[:40]
                raise NotStatic(
                    words[0].line, f"{shown!r} behind the quotes, which the shell runs as a command", not context.maybe
                )
            return self._run(words, bool(assigned), redirected, context)
        for token in assigned:
            self._assign(token, context)
        return f"{first.text[:40]} writes or reads a file" if redirected else ""

    def _parts_of_command(self) -> tuple[list[Token], list[Token], bool]:
        """The assignments before a command, its words, and whether it reads or writes a file."""
        assigned: list[Token] = []
        words: list[Token] = []
        redirected = False
        while True:
            if self._is("<<", "<<-"):
                raise NotStatic(self._token.line, "text for a command's input")
            if self._is(*_REDIRECTS):
                self._take()
                redirected = True
                if self._take().kind != "word":
                    raise self._unexpected()
            elif self._token.kind != "word":
                return assigned, words, redirected
            elif not words and _assigned(self._token)[0]:
                assigned.append(self._take())
            else:
                words.append(self._take())

    def _function(self, name: Token) -> str:
        if not _NAME.match(name.literal) or name.literal in _KEYWORDS | _HARMLESS | _STATEFUL | {"export", "unset"}:
            raise self._unexpected()
        self._take()
        self._expect(")")
        self._newlines()
        if not self._is("{", "("):
            raise self._unexpected()
        self._state.functions = True
        self._command(_Context(dormant=True))
        return ""

    def _assign(self, token: Token, context: _Context) -> None:
        name, operator = _assigned(token)
        head, *rest = token.pieces
        value = msgspec.structs.replace(head, text=head.text[len(name) + len(operator) :])
        pieces = (value, *rest) if value.text or not rest else tuple(rest)
        self._state.assign(name, operator, pieces, token.line, context)

    def _run(self, words: list[Token], has_assignments: bool, redirected: bool, context: _Context) -> str:
        """A command: why the file may end with it, or empty."""
        if context.dormant:
            return ""
        name, line = words[0].literal, words[0].line
        if why := _no_command(words):
            raise NotStatic(line, why, fails=not context.maybe)
        if not name or self._state.functions or has_assignments or name in _KEYWORDS:
            raise NotStatic(line, f"{words[0].text[:40]!r} is run there, which may change any variable")
        if name == "export":
            self._export(words[1:], context)
            return ""
        if name == "unset":
            for word in words[1:]:
                if not _NAME.match(word.literal):
                    raise NotStatic(line, "unset with something that is no name")
                self._state.unset(word.literal, line, context)
            return ""
        looks_up = name == "command" and len(words) > 1 and words[1].literal in ("-v", "-V")
        if name in _STATEFUL and not looks_up:
            ends = name in ("exit", "exec") and not context.maybe
            raise NotStatic(line, f"{name} is run there, which may change any variable", ends)
        return "" if name in _HARMLESS and not redirected else f"{name} is run there, and the file ends if it fails"

    def _export(self, words: list[Token], context: _Context) -> None:
        if len(words) > 1 and any(piece.kind != "text" for word in words for piece in word.pieces):
            raise NotStatic(words[0].line, "export with several values, which are all worked out before the first is set")
        for word in words:
            if _assigned(word)[0]:
                # Unlike in a plain assignment, a shell may split and match what is not quoted.
                if any(not piece.quoted and (piece.kind != "text" or set(piece.text) & set("*?[{~")) for piece in word.pieces):
                    raise NotStatic(word.line, "export with a value that shells read differently")
                self._assign(word, context)
            elif not _NAME.match(word.literal):
                raise NotStatic(word.line, "export with something that is no name")


def _no_command(words: list[Token]) -> str:
    """Why the shell finds no command of this name, for slips that people make; empty for all others."""
    name = words[0].literal
    if name.startswith("GRUB_") and len(words) > 1 and words[1].text.startswith("="):
        return f"blanks around the = behind {name}, which make it a command"
    if "=" in name:
        return f"{name[:40]!r}, which the shell runs as a command"
    return f"{name} without what it belongs to" if name in _MISPLACED else ""


def _assigned(token: Token) -> tuple[str, str]:
    """Name and operator of a word that assigns, else two empty texts."""
    head = token.pieces[0]
    found = _ASSIGNED.match(head.text) if head.kind == "text" and not head.quoted else None
    return (found[1], found[2]) if found else ("", "")
