"""What every test shares."""

from __future__ import annotations

from hypothesis import settings

# A loaded machine must not turn a test red.
settings.register_profile("untimed", settings(), deadline=None)
settings.load_profile("untimed")
