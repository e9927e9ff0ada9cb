"""Short ways to a check's findings."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def judge(build):
    """All findings of a check over a host."""
    return build.judge


@pytest.fixture(scope="session")
def verdict(build):
    """The only finding of a check over a host."""
    return build.verdict


@pytest.fixture(scope="session")
def text(build):
    """Everything a person reads of a finding."""
    return build.text
