"""The example, installed as anyone would install it, and what plugins that are broken cost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent
CASES = EXAMPLE.parent / "cases"
FOUR_GPUS, ONE_GPU = CASES / "seed-v620-before" / "input", CASES / "sysfs-x1-of-x16" / "input"


def hostdoctor(*arguments, plugins=None):
    environment = {**os.environ, "PYTHONPATH": str(plugins or "")}
    command = [sys.executable, "-m", "hostdoctor", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60, env=environment)


def scan(*arguments, plugins, tree=ONE_GPU):
    done = hostdoctor("scan", "--format", "json", "--root", str(tree), *arguments, plugins=plugins)
    assert done.returncode in (0, 1), done.stderr
    assert not done.stderr
    return json.loads(done.stdout)["findings"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    source = shutil.copytree(EXAMPLE, folder / "source")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    if subprocess.run([sys.executable, "-c", "import setuptools, wheel"], check=False, capture_output=True).returncode == 0:
        pip.append("--no-build-isolation")
    else:
        pip.remove("--no-index")
    done = subprocess.run([*pip, "--target", folder / "site", source], check=False, capture_output=True, text=True, timeout=300)
    if "No matching distribution found for setuptools" in done.stderr:
        pytest.skip("there is no setuptools here to build a package with")
    assert done.returncode == 0, done.stderr
    return folder / "site"


def test_its_finding_is_among_those_of_a_scan(installed):
    found = [each for each in scan(plugins=installed, tree=FOUR_GPUS) if each["check"] == "serial-console"]
    assert [(each["outcome"], each["subject"]) for each in found] == [("warning", ["console="])]
    assert found[0]["evidence"][0]["source"] == "/proc/cmdline"


def test_it_can_be_chosen_listed_and_explained(installed):
    assert {each["check"] for each in scan("--check", "serial-*", plugins=installed)} == {"serial-console"}
    assert "serial-console" not in {each["check"] for each in scan("--skip", "serial-*", plugins=installed)}
    rows = json.loads(hostdoctor("checks", "--format", "json", plugins=installed).stdout)
    assert {"id": "serial-console", "subject": "host", "summary": "A host with several GPUs has a serial console."} in rows
    assert "serial-console" in hostdoctor("checks", plugins=installed).stdout
    assert "serial-console.rst" in hostdoctor("explain", "serial-console", plugins=installed).stdout


def test_its_warning_counts(installed):
    arguments = ("scan", "--root", str(FOUR_GPUS), "--check", "serial-console", "--fail-on")
    assert hostdoctor(*arguments, "warning", plugins=installed).returncode == 1
    assert hostdoctor(*arguments, "failure", plugins=installed).returncode == 0


# --- broken ones -----------------------------------------------------------------------------------------------------

CHECK = """
from hostdoctor.findings import Check, Finding
def check(judge, id="broken", **options):
    return Check(id=id, subject="host", summary="s", looks_at="l", why="w", decides="d", sources=("s",), judge=judge, **options)
"""
GOOD = 'Finding("broken", "ok", (), "fine")'

NOT_LOADED = {
    "import error": "import a_module_that_is_not_there",
    "exit at import": "raise SystemExit(0)",
    "exception at import": "raise Exception('no')",
    "no CHECK": "x = 1",
    "not a check": "CHECK = 'a text'",
    "a list with a stranger": "CHECK = [3]",
    "id is no text": "CHECK = check(lambda view: [], id=5)",
    "id with an escape": "CHECK = check(lambda view: [], id='a\\x1b[2J')",
    "no judge": "CHECK = check(None)",
    "texts of the wrong type": "CHECK = check(lambda view: [], nothing=None)",
    "remedies of the wrong type": "CHECK = check(lambda view: [], remedies=3)",
    "name that is taken": "CHECK = check(lambda view: [], id='link-width')",
    "no Python": "this is no Python",
}
FAILING = {
    "raises": "def judge(view): raise ValueError('no')",
    "raises in the middle": f"def judge(view):\n    yield {GOOD}\n    raise ValueError('no')",
    "exits": "def judge(view): raise SystemExit(0)",
    "raises a bare exception": "def judge(view): raise BaseException",
    "returns None": "def judge(view): return None",
    "returns a number": "def judge(view): return 3",
    "yields no finding": "def judge(view): yield 'a text'",
    "yields None": "def judge(view): yield None",
    "yields an unheard-of outcome": "def judge(view): yield Finding('broken', 'awful', (), 'title')",
    "yields a title of bytes": "def judge(view): yield Finding('broken', 'ok', (), 3)",
    "yields subjects of numbers": "def judge(view): yield Finding('broken', 'ok', (1,), 'title')",
    "takes no argument": "def judge(): yield",
    "recurses without end": "def judge(view): return judge(view)",
}


def plugin(folder, code, name="broken"):
    information = folder / f"{name}_plugin-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "entry_points.txt").write_text(f"[hostdoctor.checks]\n{name} = {name}_plugin:CHECK\n")
    (folder / f"{name}_plugin.py").write_text(code)
    return folder


@pytest.fixture(scope="module")
def sound():
    return scan(plugins=None)


@pytest.mark.parametrize("code", NOT_LOADED.values(), ids=NOT_LOADED)
def test_a_plugin_that_cannot_be_loaded_costs_one_unknown_entry(tmp_path, sound, code):
    findings = scan(plugins=plugin(tmp_path, CHECK + code))
    extra = [each for each in findings if each not in sound]
    assert [(each["outcome"], each["subject"]) for each in extra] == [("unknown", [])]
    assert "could not be loaded" in extra[0]["title"]
    assert len(findings) == len(sound) + 1


@pytest.mark.parametrize("code", FAILING.values(), ids=FAILING)
def test_a_plugin_that_fails_costs_one_unknown_entry(tmp_path, sound, code):
    findings = scan(plugins=plugin(tmp_path, f"{CHECK}{code}\nCHECK = check(judge)"))
    extra = [each for each in findings if each not in sound]
    assert [(each["check"], each["outcome"], each["subject"]) for each in extra] == [("broken", "unknown", [])]
    assert "failed itself" in extra[0]["title"]
    assert len(findings) == len(sound) + 1


def test_a_plugin_that_gives_nothing_is_not_applicable(tmp_path):
    findings = scan("--check", "broken", plugins=plugin(tmp_path, CHECK + "CHECK = check(lambda view: [], nothing='no such')"))
    assert [(each["outcome"], each["title"]) for each in findings] == [("not-applicable", "no such")]


def test_names_that_are_no_text_do_not_spoil_the_report(tmp_path):
    code = "CHECK = check(lambda view: [Finding('broken', 'ok', (), 'a\\udcff\\x9b31m\\u202e\\U000e0001')])"
    findings = scan("--check", "broken", plugins=plugin(tmp_path, CHECK + code))
    assert findings[0]["title"] == "a?\x9b31m\u202e\U000e0001"
    done = hostdoctor("scan", "--root", str(ONE_GPU), "--check", "broken", "--format", "json", plugins=tmp_path)
    assert done.stdout.replace("\n", "").isprintable()


def test_two_plugins_with_one_name(tmp_path, sound):
    plugin(tmp_path, f"{CHECK}CHECK = check(lambda view: [{GOOD}])", "first")
    plugin(tmp_path, f"{CHECK}CHECK = check(lambda view: [{GOOD}])", "second")
    extra = [each for each in scan(plugins=tmp_path) if each not in sound]
    assert sorted(each["outcome"] for each in extra) == ["ok", "unknown"]


def test_a_name_that_is_taken_leaves_the_built_in_check_explained(tmp_path):
    plugin(tmp_path, CHECK + NOT_LOADED["name that is taken"])
    done = hostdoctor("explain", "link-width", plugins=tmp_path)
    assert done.returncode == 0
    assert "PCI Express Base Specification" in done.stdout


def test_broken_plugins_are_listed_and_not_explained(tmp_path):
    plugin(tmp_path, "raise ValueError('line one\\nline \\x1b[2Jtwo')")
    listed = hostdoctor("checks", plugins=tmp_path).stdout.splitlines()
    assert any(line.startswith("broken ") and "could not be loaded: ValueError: line one" in line for line in listed)
    assert not any("\x1b" in line for line in listed)
    done = hostdoctor("explain", "broken", plugins=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "could not be loaded" in done.stderr


def test_an_interrupt_in_a_check_ends_with_130(tmp_path):
    os.mkfifo(tmp_path / "told")
    os.mkfifo(tmp_path / "never")
    waits = f"def judge(view):\n    open({str(tmp_path / 'told')!r}, 'w').close()\n    open({str(tmp_path / 'never')!r})"
    plugin(tmp_path, f"{CHECK}{waits}\nCHECK = check(judge)")
    command = [sys.executable, "-m", "hostdoctor", "scan", "--root", str(ONE_GPU), "--format", "json"]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(tmp_path)}
    )
    (tmp_path / "told").read_text()
    running.send_signal(signal.SIGINT)
    output, errors = running.communicate(timeout=30)
    assert (running.returncode, output) == (130, b"")
    assert b"Traceback" not in errors
