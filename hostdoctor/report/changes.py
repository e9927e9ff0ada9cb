"""A difference in words: as text, as Markdown, as JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from hostdoctor import __version__, wording
from hostdoctor.diff import Change, Difference, Verdict

SCHEMA = 1

_HEADINGS: tuple[tuple[Verdict, str], ...] = (("worse", "Worse"), ("better", "Better"), ("other", "Other changes"))
_SUBJECTS_AT_MOST = 4
_WAYS_AT_MOST = 4
_EVIDENCE_AT_MOST = 6
_NOTHING = "nothing changed"


class Tool(msgspec.Struct, frozen=True):
    """Which program compared."""

    name: str = "hostdoctor"
    version: str = __version__


class DifferenceReport(msgspec.Struct, frozen=True):
    """What `hostdoctor diff --format json` prints; `text` of a change is its line of the text."""

    before: str
    after: str
    changes: tuple[dict[str, object], ...]
    summary: dict[str, int]
    told_by_one: tuple[str, ...]
    checks_of_one: tuple[str, ...]
    exit: Literal[0, 1]
    tool: Tool = Tool()
    schema: int = SCHEMA


def as_json(difference: Difference, before: str, after: str) -> bytes:
    """One object; control characters are written as escapes."""
    from hostdoctor.report.model import printable  # noqa: PLC0415  the other formats do without

    changes = [{**msgspec.to_builtins(change), "text": _line([change], difference)} for change in difference.changes]
    for change in changes:
        change["evidence"] = [dict(zip(("source", "before", "after"), each, strict=True)) for each in change["evidence"]]
    report = DifferenceReport(
        before=before,
        after=after,
        changes=tuple(changes),
        summary={verdict: sum(each.verdict == verdict for each in difference.changes) for verdict, _ in _HEADINGS},
        told_by_one=difference.told_once,
        checks_of_one=difference.checks_once,
        exit=1 if difference.is_worse else 0,
    )
    return printable(report)


def as_text(difference: Difference, before: str, after: str, verbose: bool) -> str:
    """For a terminal."""
    from hostdoctor.report.phrases import safe  # noqa: PLC0415  JSON does without

    lines = [f"{before} → {after}"]
    for heading, group in _sections(difference, verbose):
        lines += ["", heading, *(f"  {line}" for line in group)]
    lines += ["", *_closing(difference, verbose)]
    return "\n".join(safe(line) for line in lines) + "\n"


def as_markdown(difference: Difference, before: str, after: str, verbose: bool) -> str:
    """For a bug tracker; what stands in the reports is in code, where no markup is read."""
    from hostdoctor.report.phrases import safe  # noqa: PLC0415  as above

    lines = [f"# {_code(before)} → {_code(after)}"]
    for heading, group in _sections(difference, verbose):
        lines += ["", f"## {heading}", "", *(f"- {_code(safe(line.strip()))}" for line in group)]
    lines += ["", *(_escaped(safe(line)) for line in _closing(difference, verbose))]
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    fence = "`" * (max((len(run) for run in _runs(text)), default=0) + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"


def _runs(text: str) -> Iterator[str]:
    """The runs of backticks in a text."""
    yield from (run for run in "".join(sign if sign == "`" else " " for sign in text).split() if run)


def _escaped(text: str) -> str:
    return "".join(f"\\{sign}" if sign in "\\`*_<>[]#|" else sign for sign in text)


def _sections(difference: Difference, verbose: bool) -> Iterator[tuple[str, list[str]]]:
    for verdict, heading in _HEADINGS:
        changes = [change for change in difference.changes if change.verdict == verdict]
        if changes:
            yield heading, list(_lines(changes, difference, verbose))


def _lines(changes: Sequence[Change], difference: Difference, verbose: bool) -> Iterator[str]:
    for group in _grouped(changes):
        if group[0].kind == "bandwidth" and len(group) > _WAYS_AT_MOST and not verbose:
            yield _ways(group)
        elif group[0].kind == "bandwidth":
            yield from (_line([change], difference) for change in group)
        else:
            yield _line(group, difference)
            values = [each for change in group for each in change.evidence]
            for source, old, new in values if verbose else values[:_EVIDENCE_AT_MOST]:
                yield f"  {source}: {old} → {new}"


def _grouped(changes: Iterable[Change]) -> Iterable[list[Change]]:
    """Changes that read the same but for their subjects, together; of bandwidths those that came or went together."""
    found: dict[tuple[object, ...], list[Change]] = defaultdict(list)
    for change in changes:
        if change.kind == "bandwidth":
            ends = tuple("host" if end.startswith("host") else "GPU" for end in change.subject)
            same: tuple[object, ...] = (change.what, ends, change.before == "no figure", change.after == "no figure")
        else:
            same = (change.kind, change.what, change.check, change.before, change.after)
        found[same].append(change)
    return found.values()


def _line(group: Sequence[Change], difference: Difference) -> str:
    first = group[0]
    if first.kind == "finding":
        return _finding(group)
    if first.kind == "pair":
        pairs = f"{len(group)} of {wording.count(difference.pairs, 'pair')}{_some_pairs(group)}"
        return f"P2P: {pairs}: {first.before} → {first.after}"
    if first.kind == "bandwidth":
        return f"{first.what}, {_arrow(first.subject)}: {first.before} → {first.after}"
    if first.kind == "gpu":
        return f"{first.what}: {_subjects(group)}: {' → '.join(each for each in (first.before, first.after) if each)}"
    if first.what == "command line":
        return f"command line: {_parameter(first)}"
    where = f" of {_subjects(group)}" if first.subject else ""
    return f"{first.what}{where}: {first.before} → {first.after}"


def _parameter(change: Change) -> str:
    if not change.before or not change.after:
        return f"+ {change.after}" if change.after else f"- {change.before}"
    return f"{change.before} → {change.after}"


def _finding(group: Sequence[Change]) -> str:
    first = group[0]
    where = f" [{_subjects(group)}]" if first.subject else ""
    titles = [first.before, first.after] if first.what.startswith("still") else [first.after or first.before]
    if first.what in ("cured", "no longer") or first.what.endswith(("judged", "with the card")):
        titles = [first.before]
    return f"{first.what}: {first.check}{where}: {' → '.join(title for title in titles if title)}"


def _subjects(group: Sequence[Change]) -> str:
    """The subjects of a group; of many pairs their number."""
    if len(group[0].subject) == 2 and len(group) > _SUBJECTS_AT_MOST:
        return wording.count(len(group), "pair")
    if len(group) == 1:
        return _arrow(group[0].subject) if len(group[0].subject) == 2 else wording.listed(group[0].subject, 8)
    return wording.listed([_arrow(change.subject) for change in group], _SUBJECTS_AT_MOST)


def _some_pairs(group: Sequence[Change]) -> str:
    return f" ({', '.join(_arrow(change.subject) for change in group)})" if len(group) <= 2 else ""


def _arrow(subject: Sequence[str]) -> str:
    return " → ".join(subject)


def _ways(group: Sequence[Change]) -> str:
    """Many measured copies in one line."""
    first = group[0]
    between = "copies between GPUs" if not any(end.startswith("host") for end in first.subject) else "copies with the host"
    return f"{first.what}, {len(group)} {between}: {_span([c.before for c in group])} → {_span([c.after for c in group])}"


def _span(figures: Sequence[str]) -> str:
    """Figures in words as one: the lowest and the highest; what is no figure stands by itself."""
    numbers = sorted(float(part) for figure in figures for part in figure.split() if part.replace(".", "", 1).isdecimal())
    if not numbers:
        return figures[0]
    return wording.gbs(numbers[0]) if numbers[0] == numbers[-1] else f"{numbers[0]:.1f} to {numbers[-1]:.1f} GB/s"


def _closing(difference: Difference, verbose: bool) -> Iterator[str]:
    """What it comes to, and what could not be compared."""
    if not difference.changes:
        yield _NOTHING
    else:
        worse = len(list(_grouped(change for change in difference.changes if change.verdict == "worse")))
        yield f"{wording.count(worse, 'thing')} got worse" if worse else "nothing got worse"
    if difference.checks_once:
        yield f"not compared, for only one of both was judged by: {wording.listed(difference.checks_once, 8)}"
    if difference.told_once:
        yield f"not compared, for only one of both tells it: {wording.listed(difference.told_once, 99 if verbose else 8)}"
