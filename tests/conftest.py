"""What every test shares."""

from __future__ import annotations

import signal

from hypothesis import settings

# A loaded machine must not turn a test red, nor chance: the same examples are tried each time. What no run has tried yet
# is looked for with pytest --hypothesis-profile=searching.
settings.register_profile("untimed", settings(), deadline=None, derandomize=True)
settings.register_profile("searching", settings(), deadline=None, max_examples=1000)
settings.load_profile("untimed")

# A shell that starts this in the background has it ignore SIGINT, and every program the tests start would do so too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
