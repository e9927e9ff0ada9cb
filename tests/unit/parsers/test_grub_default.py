"""/etc/default/grub, followed without running it, held against dash and bash, which run it."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostdoctor.facts.unknown import Unknown
from hostdoctor.parsers.grub_default import evaluate

V, W = "GRUB_CMDLINE_LINUX_DEFAULT", "GRUB_CMDLINE_LINUX"
SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"]}

DEBIAN = f"""# If you change this file, run 'update-grub' afterwards to update
# /boot/grub/grub.cfg.
GRUB_DEFAULT=0
GRUB_TIMEOUT=5
GRUB_DISTRIBUTOR=`( . /etc/os-release && echo ${{NAME}} ) 2>/dev/null || echo Debian`
{V}="quiet"
{W}=""
"""

# Each is a file as somebody may have written it; several lines where they belong together.
FILES = [
    DEBIAN,
    f'{V}="quiet splash"\n',
    f"{V}='quiet splash'\n",
    f"{V}=quiet\n",
    f"{V}=\n",
    f'{V}=""\n',
    f"{V}=''\n",
    f"""{V}="quiet"' splash'\n""",
    f"""{V}=quiet' 'spla"sh"\n""",
    f"{V}=quiet\\ splash\n",
    f'{V}="quiet dyndbg=\\"file pci.c +p\\" splash"\n',
    f"""{V}='quiet dyndbg="file pci.c +p" splash'\n""",
    f'{V}="quiet \\\n splash"\n',
    f'{V}="quiet\\\nsplash"\n',
    f'{V}="quiet\nsplash"\n',
    f'{V}="quiet"\n{V}="${V} splash"\n',
    f'{V}="quiet"\n{V}="${{{V}}} splash"\n',
    f'{V}="quiet"\n{V}+=" splash"\n',
    f'{V}="quiet"\nGRUB_TIMEOUT=5\n{V}="splash"\n',
    f'#{V}="quiet splash"\nGRUB_TIMEOUT=5\n',
    f'  \t{V}="quiet splash"  \t\n',
    f'export {V}="quiet splash"\n',
    f'export {V}\n{V}="quiet splash"\n',
    f'export {V}=a {W}="${V}"\n',
    f"export {V}=a {W}=b\n",
    f'{V}="quiet splash"  # keep me "\n',
    f'{V}="quiet nomodule#x" #c\n',
    f"{V}=quiet#no-comment\n",
    f'{V}="quiet $(echo splash)"\n{W}="console=tty0"\n',
    f'{V}="$(printf %s "a)b" \'c)\')"\n{W}=x\n',
    f'{V}="`echo \\`echo a\\``"\n{W}=x\n',
    f'{V}="quiet"\n{V}="${{{V}:+${V} }}\\$tuned_params"\n',
    f'{V}="${{{V}:+${V} }}iommu=pt"\n',
    f'{V}="${{GRUB_NONE:-iommu=pt}}"\n',
    f'GRUB_NONE=\n{V}="${{GRUB_NONE-iommu=pt}}${{GRUB_NONE:-quiet}}"\n',
    f'{V}="${{GRUB_NONE+x}}y${{GRUB_NONE-a ${{GRUB_OTHER:-b}} c}}"\n',
    f'if [ -d /nonexistent ]; then\n  {V}="quiet"\nelse\n  {V}="splash"\nfi\n{W}="console=tty0"\n',
    f'if [ -e /etc/passwd ] && test -n "$PATH"; then {V}=a; elif true; then {V}=b; fi; {W}=c\n',
    f'GRUB_TIMEOUT=5; {V}="quiet splash"\n',
    f'GRUB_TIMEOUT=5\r\n{V}="quiet splash"\r\n',
    f'{V}="quiet splash"',
    f'{V} = "quiet splash"\n',
    f'{V}="quiet splash\nGRUB_TIMEOUT=5\n',
    f'# caf\u00e9\n{V}="quiet splash"\n',
    f'{V}="quiet splash"\nreturn 0\n{V}=x\n',
    f'{V}="quiet splash"\ncat <<E >/dev/null\n{V}="bogus"\nE\n',
    f'{V}="quiet splash"\nreadonly {V}\n',
    f'{W}="a" {V}="quiet splash"\n',
    f'{V}="quiet splash" intel_iommu=on\n',
    f'{V}="quiet" splash\n',
    f"{V}=\u201cquiet splash\u201d\n",
    f"{V}='quiet $vt_handoff'\n",
    f'\ufeff{V}="quiet splash"\n',
    f'BASE="quiet splash"\n{V}="$BASE"\n',
    f'{V}="quiet splash"\nunset {V}\n',
    f"{V}=(quiet splash)\n",
    f"{V}=$'quiet splash'\n",
    f'[ -e /etc/passwd ] && {V}="quiet splash"\n{W}=a\n',
    f'[ -e /nonexistent ] || {V}="quiet splash"\n{W}=a\n',
    f'for x in a b; do {V}="${V} $x"; done\n{W}=c\n',
    f'case "$(uname -s)" in Linux) {V}=a ;; *) {V}=b ;; esac\n{W}=c\n',
    f"f() {{ {V}=hidden; }}\n{W}=c\n",
    f"f() {{ {V}=hidden; }}\n{V}=seen\nf\n",
    f"{{ {V}=a; {W}=b; }}\n",
    f"( {V}=a )\n{W}=b\n",
    f"{V}=a; ! false; {W}=b\n",
    f"echo hello >/dev/null && {V}=x\n{W}=b\n",
    f": ${{{V}:=iommu=pt}}\n",
    f"eval '{V}=a'\n",
    f"{V}=~/x\n{W}=a:~\n",
    f'{V}="~"\n{W}=a=~\n',
    f"{V}=a*b?[c]\n{W}=x\\*\n",
    f"{V}=a;b=c\n",
    f"{V}=a & {W}=b\n",
    f"{V}=a | cat\n",
    f"{V}=$((1+1))\n",
    f"{V}=$1$#x\n{W}=$\n",
    f'{V}="a$"b"$ c"\n',
    f'{V}="a\\b\\$c\\`d\\\\e"\n{W}=\\$x\\"\\\'\n',
    f"while false; do {V}=a; done; {W}=b\n",
    f"true; false\n{V}=a\n",
    f"{V}=a;;\n",
    f"fi\n{V}=a\n",
    f'""if\n{V}=a\n',
    f"{V}=a\n#{V}=b \\\n{V}=c\n",
    f"{V}=a \\\n{W}=b\n",
    f"LC_ALL=C {V}=x\n",
    f'{V}="a\tb  c"\n{W}=\'$x `y` "z" \\\'\n',
    f"A=1 B=2 {V}=$A$B\n",
    f"{V}=x{{a,b}}\n{W}=-n\n",
]


def sourced(shell, text, names=(V, W)):
    """What a shell makes of a file, as grub-mkconfig reads it; None where it does not get to the end."""
    show = "".join(
        f'if [ "${{{name}+set}}" = set ]; then printf "1%s\\0" "${name}"; else printf "0\\0"; fi\n' for name in names
    )
    program = f'set -e\nexec 3>&1 >/dev/null 2>&1\n. /dev/stdin\nexec >&3\nprintf "MARK\\0"\n{show}'
    done = subprocess.run(
        [*SHELLS[shell], "-c", program],
        input=text.encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        cwd="/nonexistent" if os.path.isdir("/nonexistent") else "/",
        timeout=20,
        check=False,
    )
    mark, _, rest = done.stdout.partition(b"\0")
    if mark != b"MARK":
        return None
    return [value[1:].decode() for value in rest.split(b"\0")[:-1]]


def agrees(shell, text):
    """Wherever a value is given, the shell gives the same, unless it does not get to the end."""
    expected = sourced(shell, text)
    found = evaluate([("grub", text)], bash=shell == "bash")
    values = [found.value(name) for name in (V, W)]
    if expected is not None:
        for ours, theirs in zip(values, expected, strict=True):
            assert isinstance(ours, Unknown) or ours == theirs, (shell, text, ours, theirs)
    return values, expected


needs_shells = pytest.mark.skipif(not all(map(shutil.which, SHELLS)), reason="dash and bash are not both here")


@needs_shells
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("text", FILES, ids=range(len(FILES)))
def test_each_value_is_the_shells(shell, text):
    agrees(shell, text)


@needs_shells
@pytest.mark.parametrize("shell", SHELLS)
def test_files_that_the_shell_refuses_give_no_value(shell):
    """What ends with an error leaves the old grub.cfg in place: nothing of it may be called configured."""
    refused = [text for text in FILES if sourced(shell, text) is None]
    assert len(refused) > 8
    for text in refused:
        assert all(isinstance(value, Unknown) for value in agrees(shell, text)[0]), text


@needs_shells
def test_most_files_are_understood():
    known = [text for text in FILES if not isinstance(evaluate([("grub", text)]).value(V), Unknown)]
    assert len(known) > len(FILES) * 0.55


_TOKENS = [
    "quiet",
    "splash",
    "console=ttyS0,115200n8",
    'dyndbg="file a.c +p"',
    "pci=realloc",
    "a;b",
    "$x",
    "x='y'",
    "a\\b",
    "é",
    "#",
]
_words = st.lists(st.sampled_from(_TOKENS), max_size=5).map(" ".join)


@st.composite
def _quoted(draw):
    """Words, quoted in pieces of different styles."""
    text, written = draw(_words), ""
    while text:
        size = draw(st.integers(1, len(text)))
        piece, text = text[:size], text[size:]
        style = draw(st.sampled_from(["double", "single", "bare"]))
        if style == "double":
            written += '"' + "".join("\\" + sign if sign in '\\"$`' else sign for sign in piece) + '"'
        elif style == "single":
            written += "'" + piece.replace("'", "'\\''") + "'"
        else:
            written += "".join(sign if sign.isalnum() or sign in "=,.-_/:" else "\\" + sign for sign in piece)
    return written


_name = st.sampled_from([V, W, "GRUB_X"])
_appended = st.tuples(_name, _name, _words).map(lambda t: f'{t[0]}="${{{t[1]}:-none}} {t[2].translate(_PLAIN)}"')
_PLAIN = str.maketrans("", "", "\"$\\'#;")
_statement = st.one_of(
    st.tuples(st.sampled_from(["", "  ", "export "]), _name, _quoted()).map(lambda t: f"{t[0]}{t[1]}={t[2]}"),
    _appended,
    st.tuples(_name, _words).map(lambda t: f"{t[0]}+='{t[1].translate(_PLAIN)}'"),
    st.sampled_from([
        "", "# a comment \" '", "GRUB_TIMEOUT=5", "GRUB_D=`echo x`", f"unset {V}", ": nothing", "true && GRUB_X=1",
        f"if false; then {V}=a; fi", f"if true; then {W}=a; else GRUB_X=b; fi", "f() { GRUB_X=f; }", "f", "return 0",
        f"{{ {W}=group; }}", f"for i in 1 2; do {V}=\"${V}$i\"; done", "[ -e /nonexistent ]", "( GRUB_X=sub )", "echo x; true",
        f'case a in a) {V}=case;; esac', f"{V}=x false", "GRUB_X=$((2*3))", "set -u", f"{W}=$(echo \"$({'echo'} a)\")",
    ]),
)  # fmt: skip
_files = st.lists(st.tuples(_statement, st.sampled_from(["\n", "; ", " \\\n", "\n\n", " # c\n"])), max_size=6).map(
    lambda lines: "".join(statement + end for statement, end in lines)
)


@needs_shells
@settings(max_examples=120)
@given(_files, st.sampled_from(list(SHELLS)))
def test_each_value_is_the_shells_for_any_file(text, shell):
    agrees(shell, text)


# --- without a shell --------------------------------------------------------------------------------------------------


def test_files_are_read_in_order():
    found = evaluate([("grub", f'{V}="quiet"\n'), ("50-a.cfg", f'{V}="${V} a"\n'), ("99-b.cfg", f'{V}="b"\n')])
    assert found.value(V) == "b"
    assert [(each.file, each.line, each.value, each.keeps) for each in found.assignments] == [
        ("grub", 1, "quiet", False),
        ("50-a.cfg", 1, "quiet a", True),
        ("99-b.cfg", 1, "b", False),
    ]


def test_a_value_that_needs_running_is_unknown_with_its_line():
    found = evaluate([("grub", f'GRUB_TIMEOUT=5\n{V}="quiet $(cat /x)"\n{W}=a\n')])
    assert isinstance(found.value(V), Unknown)
    assert "line 2" in found.value(V).reason
    assert "command" in found.value(V).reason
    assert found.value(W) == "a"


def test_a_condition_leaves_the_others_alone():
    found = evaluate([("grub", f"if [ -e /x ]; then\n  {V}=a\nfi\n{W}=b\n")])
    assert "line 2" in found.value(V).reason
    assert found.value(W) == "b"


@pytest.mark.parametrize(
    "line", ["eval x", ". /etc/x", "source x", "f() { :; }; f", "set -a", "exit 0", "alias a=b", "cat <<E"]
)
def test_what_can_change_anything_makes_all_unknown(line):
    found = evaluate([("grub", f"{V}=a\n{line}\n{W}=b\n")])
    assert all("line 2" in found.value(name).reason for name in (V, W))
    assert found.stopped is not None


def test_dash_ends_at_an_addition_that_bash_makes():
    text = f"{V}=a\n{V}+=' b'\n"
    assert evaluate([("grub", text)], bash=True).value(V) == "a b"
    assert "dash" in evaluate([("grub", text)], bash=False).value(V).reason


def test_a_variable_that_no_file_sets():
    assert evaluate([("grub", f'{V}="a $GRUB_NONE b"\n')]).value(V) == "a  b"
    assert "$HOME" in evaluate([("grub", f'{V}="a $HOME b"\n')]).value(V).reason
    assert isinstance(evaluate([("grub", f'{V}="$GRUB_DEVICE"\n')]).value(V), Unknown)
    assert evaluate([]).value(V) == ""


@given(st.text() | st.text(alphabet="A=_'\"\\$`{}()|&;<>#! \n+:-ifthendo", max_size=200))
def test_any_text_gives_a_result(text):
    found = evaluate([("a", text), ("b", f"{V}=x")])
    assert isinstance(found.value(V), str | Unknown)


@given(st.sampled_from(FILES), st.integers(0, 200))
def test_a_file_that_is_cut_gives_a_result(text, end):
    evaluate([("a", text[:end])])


DOUBLED = f"{V}=xx\n" + f"{V}=${V}${V}\n" * 1500


@pytest.mark.parametrize("text", [f"{V}={V}\n" * 4000, DOUBLED, f'A=xxxxxxx\n{V}="{"$A" * 90_000}"'])
def test_values_that_hold_each_other_do_not_grow_without_end(text):
    found = evaluate([("a", text)])
    assert isinstance(found.value(V), Unknown)
    assert all(len(each.value) <= 1 << 13 for each in found.assignments if isinstance(each.value, str))


@pytest.mark.parametrize(
    "text", ["(" * 5000, "$(" * 5000, "${a:-" * 5000, "if true; then " * 5000, "`" * 5001, "\\`" * 50_000 + "`"]
)
def test_depth_and_length_have_an_end(text):
    assert isinstance(evaluate([("a", f"{V}={text}")]).value(V), str | Unknown)
    assert isinstance(evaluate([("a", text)]).value(V), str | Unknown)


@needs_shells
@pytest.mark.parametrize("shell", SHELLS)
def test_what_is_said_to_fail_fails(shell):
    """grub-mkconfig stops there: nothing else may be called broken."""
    found = [text for text in FILES if evaluate([("grub", text)], bash=shell == "bash").fails]
    assert len(found) > 3
    for text in found:
        assert sourced(shell, text) is None, text


@pytest.mark.parametrize(
    "text",
    [
        f'{V}="a\n',
        f"{V}='a\n",
        f'{V} = "a"\n',
        f'{V}="a" b\n',
        f"{V}=a iommu.passthrough=1\n",
        "iommu.passthrough=1\n",
        f"{V}=a\nfi\n",
        f"\ufeff{V}=a\n",
        f"{V}=a\nexit 0\n",
        f"{V}=$(echo a\n",
        f"{V}=`echo a\n",
    ],
)
@needs_shells
@pytest.mark.parametrize("shell", SHELLS)
def test_slips_that_end_the_file(shell, text):
    assert evaluate([("grub", text)], bash=shell == "bash").fails
    assert sourced(shell, text) is None


@pytest.mark.parametrize("text", [f"{V}=a\nreturn 0\n", f"{V}=a\n. /x\n", f"if true; then exit; fi\n{V}=a\n", f"{V}=$'a'\n"])
def test_what_may_be_fine_is_not_said_to_fail(text):
    found = evaluate([("grub", text)], bash=True)
    assert found.stopped
    assert not found.fails
