"""What is built and shipped: the wheel, the generated files, the README's commands, and what `--help` imports."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

import hostdoctor
from hostdoctor.findings import Check
from hostdoctor.registry import built_in

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
# What the build reads.
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "hostdoctor", "checks", "templates", "packaging")


def text(name):
    return (ROOT / name).read_text("utf-8")


def generator():
    spec = importlib.util.spec_from_file_location("packaging_generate", ROOT / "packaging/generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def generated():
    return generator().outputs()


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The wheel of this tree, built from a copy so that nothing is left in the tree."""
    if importlib.util.find_spec("setuptools") is None or importlib.util.find_spec("pip") is None:
        pytest.skip("there is no setuptools or pip here to build with")
    folder = tmp_path_factory.mktemp("build")
    copy = folder / "copy"
    copy.mkdir()
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*build, "--wheel-dir", str(folder), str(copy)], check=True, stdin=subprocess.DEVNULL)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def members(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def modules_below(name):
    return {f"hostdoctor/{name}/{path.name}" for path in (ROOT / name).iterdir() if path.suffix in {".py", ".j2"}}


def test_the_wheel_has_every_check_and_template(members):
    assert modules_below("checks") | modules_below("templates") <= members


def test_the_wheel_has_every_module_and_every_table_of_knowledge(members):
    package = ROOT / "hostdoctor"
    wanted = {str(path.relative_to(ROOT)) for path in package.rglob("*.py")}
    wanted |= {str(path.relative_to(ROOT)) for path in (package / "knowledge").iterdir() if path.suffix in {".json", ".toml"}}
    assert wanted
    assert wanted | {"hostdoctor/py.typed"} <= members


def test_the_wheel_brings_no_second_top_level_package(members):
    tops = {name.split("/")[0] for name in members}
    assert {top.partition("-")[0] for top in tops} == {"hostdoctor"}


def test_the_wheel_has_the_license_and_the_man_page(members):
    release = f"hostdoctor-{hostdoctor.__version__}"
    assert f"{release}.dist-info/licenses/LICENSE" in members
    assert f"{release}.data/data/share/man/man1/hostdoctor.1" in members


def test_the_wheel_works_where_nothing_else_of_the_tree_is(wheel, tmp_path):
    """Unpacked elsewhere, its checks are found; site-packages gives the dependencies."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    program = "import hostdoctor, hostdoctor.cli.main as m; print(hostdoctor.__file__); m.cli(['checks'])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    assert str(tmp_path) in done.stdout.splitlines()[0]
    assert all(f"\n{check.id} " in done.stdout for check in built_in())


def test_one_version_everywhere():
    stated = tomllib.loads(text("pyproject.toml"))["project"]["version"]
    assert stated == hostdoctor.__version__
    assert f"\n## {stated}" in text("CHANGELOG.md")


def test_the_installed_package_is_this_version():
    assert version("hostdoctor") == hostdoctor.__version__


@pytest.mark.parametrize("name", ["docs/checks.md", "docs/report.schema.json", "packaging/man/hostdoctor.1", "README.md"])
def test_generated_files_are_up_to_date(name, generated):
    assert text(name) == generated[ROOT / name], f"`make docs` makes {name} again"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_are_up_to_date(shell, generated):
    """Click words its scripts anew from time to time; only the same click makes the same script."""
    path = ROOT / f"packaging/completions/hostdoctor.{shell}"
    made_with = re.search(r"^# Made by .* with (click [\w.]+)\.$", path.read_text("utf-8"), re.MULTILINE)
    assert made_with
    if made_with[1] != generator().click_version():
        pytest.skip(f"made with {made_with[1]}")
    assert path.read_text("utf-8") == generated[path]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_are_valid(shell):
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    subprocess.run([shell, "-n", str(ROOT / f"packaging/completions/hostdoctor.{shell}")], check=True)


def test_the_man_page_is_valid():
    if shutil.which("man") is None:
        pytest.skip("there is no man here")
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"}
    page = str(ROOT / "packaging/man/hostdoctor.1")
    done = subprocess.run(["man", "--warnings", "-l", page], env=environment, check=True, capture_output=True, text=True)
    assert done.stderr == ""
    assert "hostdoctor scan" in done.stdout
    assert "--root" in done.stdout


def test_the_man_page_names_every_check_of_the_command_line(generated):
    page = generated[ROOT / "packaging/man/hostdoctor.1"]
    for option in ("--root", "--deadline", "--fail-on", "--strict", "--format", "--all", "-h, --help"):
        assert f"\n.B {option}".replace("-", "\\-") in page


def test_the_readmes_commands_are_targets_of_the_makefile():
    targets = set(re.findall(r"^([\w-]+):", text("Makefile"), re.MULTILINE))
    commands = set(
        re.findall(r"\bmake ([a-z]+)\b(?! no)", "\n".join(re.findall(r"```sh\n(.*?)```", text("README.md"), re.DOTALL)))
    )
    assert {"scan", "test"} <= {command for command in commands if command in targets}
    for name in ("scan", "test", "lint", "docs", "bench", "venv"):
        assert name in targets


def test_the_readmes_test_command_is_what_ci_runs():
    command = next(line for line in text("README.md").splitlines() if line.endswith("&& make test"))
    assert f"\n{command}\n" in text(".ci/run")


@pytest.mark.parametrize("name", ["README.md", "docs/architecture.md", "docs/writing-a-check.md", "docs/json.md"])
def test_links_between_documents_lead_somewhere(name):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text(name)):
        assert ((ROOT / name).parent / target).exists(), target


def test_the_check_in_the_guide_is_one():
    code = re.search(r"```python\n(.*?)```", text("docs/writing-a-check.md"), re.DOTALL)[1]
    names: dict[str, object] = {}
    exec(compile(code, "docs/writing-a-check.md", "exec"), names)
    assert isinstance(names["CHECK"], Check)


def test_the_guide_tells_every_field_of_a_check():
    told = set(re.findall(r"^\| `(\w+)` \|", text("docs/writing-a-check.md"), re.MULTILINE))
    assert told == set(Check.__struct_fields__)


def test_every_dependency_is_accounted_for():
    project = tomllib.loads(text("pyproject.toml"))["project"]
    listed = [*project["dependencies"], *(each for extra in project["optional-dependencies"].values() for each in extra)]
    page = text("docs/dependencies.md")
    for requirement in listed:
        assert re.search(rf"\b{re.match(r'[A-Za-z0-9-]+', requirement)[0]}\b", page), requirement


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_the_overview_imports_nothing_heavy(option):
    program = (
        "import sys\nfrom hostdoctor.cli.main import cli\n"
        f"cli([{option!r}], standalone_mode=False)\n"
        "heavy = {'rich', 'jinja2', 'pyudev', 'pyroute2', 'pynvml', 'msgspec'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert "hostdoctor" in done.stdout.lower()
