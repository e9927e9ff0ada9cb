"""Where checks come from, and which files may be run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hostdoctor.findings import Check
from hostdoctor.registry import Broken, built_in, load_checks
from tests.trees import NOBODY, as_nobody

CODE = """
from __future__ import annotations
import dataclasses
from hostdoctor.findings import Check, Finding

@dataclasses.dataclass
class Note:
    text: str

def judge(view):
    yield Finding("{id}", "ok", (), Note("fine").text)

CHECK = Check(id="{id}", subject="host", summary="s", looks_at="l", why="w", decides="d", sources=("s",), judge=judge)
"""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root is careful about who wrote a file")


@pytest.fixture
def site(tmp_path):
    folder = tmp_path / "checks.d"
    folder.mkdir(mode=0o755)
    return folder


def put(site, name="own.py", code=None, id_="site-own"):
    path = site / name
    path.write_text(code if code is not None else CODE.format(id=id_))
    path.chmod(0o644)
    return path


def added(site):
    """What the site's folder adds to the built-in checks and those of packages installed here."""
    without = len(load_checks(str(site / "none")))
    return load_checks(str(site))[without:]


def reasons(site):
    found = added(site)
    assert all(isinstance(each, Broken) for each in found)
    return [each.reason for each in found]


def test_the_built_in_checks_are_those_of_the_folder():
    folder = Path(__file__).parents[2] / "checks"
    checks = list(built_in())
    assert {check.id for check in checks} == {path.stem.replace("_", "-") for path in folder.glob("[!_]*.py")}
    assert len({check.id for check in checks}) == len(checks)
    assert load_checks("/nowhere")[: len(checks)] == checks


def test_a_site_adds_checks(site):
    put(site)
    put(site, "two.py", CODE.format(id="site-a") + "\nCHECKS = [CHECK, Check('site-b', 'h', 's', 'l', 'w', 'd', (), judge)]\n")
    put(site, "notes.txt", "this is no Python")
    assert [(type(each), each.id) for each in added(site)] == [(Check, "site-own"), (Check, "site-a"), (Check, "site-b")]


def test_a_folder_that_is_not_there_or_no_folder_adds_nothing(site):
    assert added(site / "none") == []
    assert added(put(site)) == []


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("x = 1", "AttributeError: "),
        ("import nothing_of_that_name", "ModuleNotFoundError: "),
        ("raise SystemExit('bye')", "SystemExit: bye"),
        ("this is no Python", "SyntaxError: "),
        ("\0", "SyntaxError: "),
        ("CHECK = 5", "it offers a int where a Check is expected"),
        ("def f(): f()\nf()", "RecursionError: "),
    ],
)
def test_a_file_that_is_broken(site, code, reason):
    put(site, code=code)
    put(site, "sound.py")
    first, second = added(site)
    assert (first.id, first.source) == ("own.py", str(site / "own.py"))
    assert first.reason.startswith(reason) or (code == "\0" and first.reason.startswith("ValueError"))
    assert second.id == "site-own"


def test_a_name_that_is_taken(site):
    put(site, id_="link-width")
    assert reasons(site) == ["another check has this name already"]


def test_an_interrupt_is_no_fault_of_a_file(site):
    put(site, code="raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        load_checks(str(site))


@as_root
def test_root_runs_only_what_root_owns(site):
    os.chown(put(site), NOBODY, -1)
    assert reasons(site) == [f"{site / 'own.py'} does not belong to root"]


@as_root
@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_root_runs_nothing_that_others_can_write(site, mode):
    put(site).chmod(mode)
    assert reasons(site) == [f"{site / 'own.py'} can be written by others than root"]


@as_root
@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_root_runs_nothing_in_a_folder_that_others_can_write(site, mode):
    put(site)
    site.chmod(mode)
    assert reasons(site) == [f"{site} can be written by others than root"]


@as_root
def test_root_runs_nothing_in_a_folder_of_somebody_else(site):
    put(site)
    os.chown(site, NOBODY, -1)
    assert reasons(site) == [f"{site} does not belong to root"]


@as_root
def test_a_link_is_what_it_leads_to(site, tmp_path):
    elsewhere = tmp_path / "elsewhere.py"
    elsewhere.write_text(CODE.format(id="site-own"))
    os.chown(elsewhere, NOBODY, -1)
    (site / "link.py").symlink_to(elsewhere)
    (site / "nowhere.py").symlink_to("none")
    assert reasons(site) == [
        f"{elsewhere.parent}/checks.d/link.py does not belong to root",
        f"{site}/nowhere.py: No such file or directory",
    ]


@as_root
def test_nothing_that_is_refused_has_run(site, tmp_path):
    path = put(site, code=f"open({str(tmp_path / 'ran')!r}, 'w')")
    path.chmod(0o666)
    assert len(reasons(site)) == 1
    assert not (tmp_path / "ran").exists()


def test_no_compiled_copy_is_written_or_trusted(site):
    path = put(site)
    cache = site / "__pycache__"
    cache.mkdir()
    for tag in (sys.implementation.cache_tag, f"{sys.implementation.cache_tag}.opt-1"):
        (cache / f"{path.stem}.{tag}.pyc").write_bytes(b"not to be looked at")
    before = sorted(site.rglob("*"))
    assert [each.id for each in added(site)] == ["site-own"]
    assert sorted(site.rglob("*")) == before


def test_an_ordinary_user_runs_what_may_be_read(site):
    """Nothing of this site's can be read by them, and that is no fault of the program."""
    put(site)
    assert added(site)
    site.chmod(0)
    assert as_nobody(lambda: repr(load_checks(str(site)) == load_checks("/nowhere")).encode()) == b"True"


def metadata(folder, text, name="thing-1.0.dist-info"):
    (folder / name).mkdir(parents=True)
    (folder / name / "entry_points.txt").write_bytes(text.encode("utf-8", "surrogateescape"))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("[hostdoctor.checks]\na = nothing_a:CHECK\nb=nothing_b\n", ["a", "b"]),
        ("[ hostdoctor.checks ]\n# no = no\n; no = no\n\na = nothing_a:CHECK [extra]\n[other]\nc = c\n", ["a"]),
        ("[other]\nhostdoctor.checks = x\n", []),
        ("[hostdoctor.checks]\nno equals sign\n", []),
        ("[hostdoctor.checks", []),
        ("a = b\n[hostdoctor.checks]\n", []),
        ("[hostdoctor.checks]\n\udcff = nothing_a:\udcfe\n", ["\ufffd"]),
        ("", []),
    ],
)
def test_entry_points_are_read_as_packaging_writes_them(tmp_path, monkeypatch, text, names):
    without = load_checks("/nowhere")
    metadata(tmp_path, text)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = [each for each in load_checks("/nowhere") if each not in without]
    assert [each.id for each in found] == names
    assert all(isinstance(each, Broken) for each in found)


def test_one_package_found_twice_is_loaded_once(tmp_path, monkeypatch):
    without = load_checks("/nowhere")
    for folder in ("a", "b"):
        metadata(tmp_path / folder, "[hostdoctor.checks]\nx = plugin_found_twice\n")
        monkeypatch.syspath_prepend(str(tmp_path / folder))
    (tmp_path / "a" / "plugin_found_twice.py").write_text(CODE.format(id="found-twice"))
    assert [each.id for each in load_checks("/nowhere") if each not in without] == ["found-twice"]
    sys.modules.pop("plugin_found_twice")
