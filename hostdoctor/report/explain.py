"""The text of `hostdoctor explain` and of docs/checks.md: both from the check itself."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from hostdoctor.findings import Check
from hostdoctor.knowledge import load_remedies

_WIDTH = 80


def _wrapped(text: str, indent: str = "  ", first: str = "  ") -> str:
    return textwrap.fill(text, _WIDTH, initial_indent=first, subsequent_indent=indent, break_on_hyphens=False)


def explain_text(check: Check) -> str:
    """A check in words, for a terminal of 80 columns."""
    remedies = load_remedies()
    parts = [f"{check.id}: {check.summary}\n"]
    for heading, text in (
        ("What it looks at", check.looks_at),
        ("Why it matters", check.why),
        ("How it decides", check.decides),
    ):
        parts.append(f"{heading}\n{_wrapped(text)}\n")
    if check.remedies:
        titles = [remedies[each].title if each in remedies else each for each in check.remedies]
        lines = "\n".join(
            _wrapped(f"{each}: {title}", "    ", "  - ") for each, title in zip(check.remedies, titles, strict=True)
        )
        parts.append(f"Remedies\n{lines}\n")
    sources = "\n".join(_wrapped(source, "    ", "  - ") for source in check.sources)
    parts.append(f"Sources\n{sources}\n")
    return "\n".join(parts)


def explain_markdown(checks: Iterable[Check]) -> str:
    """All checks as one Markdown page."""
    parts = ["# Checks\n", "Made from the checks themselves by `make docs`; `hostdoctor explain CHECK` prints the same.\n"]
    for check in checks:
        parts.append(f"## {check.id}\n\n{check.summary}\n")
        parts.append(f"**Looks at.** {check.looks_at}\n\n**Why.** {check.why}\n\n**Decides.** {check.decides}\n")
        if check.remedies:
            parts.append("**Remedies.** " + ", ".join(f"`{each}`" for each in check.remedies) + "\n")
        parts.append("**Sources.**\n\n" + "\n".join(f"- {source}" for source in check.sources) + "\n")
    return "\n".join(parts)
