"""Boots the guests that the chosen tests ask for, a few at a time, while the first tests already judge results.

A test names its guests with the marker: @pytest.mark.lab("intel-pt"). The fixture `guest` is the first one's result,
`guests` all of them in that order.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.lab import guests as booting
from tests.lab.image import ROOT, CannotBuild, Images, built, compile_python
from tests.lab.scenarios import GUESTS

_SOURCES = ("pyproject.toml", "README.md", "LICENSE", "hostdoctor", "checks", "templates", "packaging")
_AT_ONCE = int(os.environ.get("HOSTDOCTOR_LAB_JOBS", "2"))


def _cannot(reason: str) -> None:
    """Skip for a reason; where everything must be tested, fail."""
    if os.environ.get("CI"):
        pytest.fail(f"the lab must run here: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def images() -> Images:
    """What guests boot from."""
    if os.geteuid() != 0:
        _cannot("the lab needs root, to edit the devices that QEMU emulates")
    if shutil.which(booting.QEMU) is None:
        _cannot(f"{booting.QEMU} is not installed")
    try:
        return built()
    except CannotBuild as error:
        _cannot(str(error))
        raise


@pytest.fixture(scope="session")
def site(images: Images, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, installed for the guest's Python; built from a copy, so that nothing is left in the tree."""
    work = tmp_path_factory.mktemp("site")
    copy = work / "copy"
    copy.mkdir()
    for name in _SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy / name)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", work, copy], check=True)
    inside = Path("tmp", f"site-{os.getpid()}")
    wheel = next(work.glob("*.whl"))
    target = images.root / inside
    subprocess.run([*pip, "install", "--no-deps", "--no-compile", "--no-index", "--target", target, wheel], check=True)
    compile_python(images.root, f"/{inside}")
    return Path(shutil.move(target, work / "installed"))


class Lab:
    """The guests that were started, by name."""

    def __init__(self, images: Images, site: Path, folder: Path) -> None:
        self._images, self._site, self._folder = images, site, folder
        self._pool = ThreadPoolExecutor(_AT_ONCE)
        self._started: dict[str, Future[booting.Result]] = {}

    def start(self, name: str) -> None:
        """Boot a guest as soon as there is room."""
        if name not in self._started:
            arguments = (GUESTS[name], self._images, self._site, self._folder / name)
            self._started[name] = self._pool.submit(booting.boot, *arguments)

    def result(self, name: str) -> booting.Result:
        """What came out of a guest; waits for it."""
        self.start(name)
        return self._started[name].result()

    def close(self) -> None:
        """Start no more guests, and wait for those that run."""
        self._pool.shutdown(cancel_futures=True)


def _wanted(item: pytest.Item) -> list[str]:
    return [name for marker in item.iter_markers("lab") for name in marker.args]


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest, images: Images, site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """All guests of the chosen tests, started in the order in which they are asked for."""
    started = Lab(images, site, tmp_path_factory.mktemp("guests"))
    for item in request.session.items:
        for name in _wanted(item):
            started.start(name)
    yield started
    started.close()


@pytest.fixture
def guests(request: pytest.FixtureRequest, lab: Lab) -> list[booting.Result]:
    """The results of the guests that the test names."""
    return [lab.result(name) for name in _wanted(request.node)]


@pytest.fixture
def guest(guests: list[booting.Result]) -> booting.Result:
    """The result of the guest that the test names."""
    return guests[0]
