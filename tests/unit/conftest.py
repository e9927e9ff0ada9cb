"""Gives tests the builder of hosts; the importlib import mode keeps neighbours from importing each other."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest


def _load_builder():
    spec = spec_from_file_location("hostdoctor_test_build", Path(__file__).with_name("build.py"))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_BUILDER = _load_builder()


@pytest.fixture(scope="session")
def build():
    """The builder of hosts, build.py."""
    return _BUILDER
