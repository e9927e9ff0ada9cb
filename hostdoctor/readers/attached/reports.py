"""Reports of this program among what was attached: those that carry facts are judged again, others are named."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from hostdoctor.evidence.attached import Attachment
from hostdoctor.facts.record import Record

_IS_JSON = "it is a JSON report of hostdoctor, which holds verdicts and not the facts behind them"
_BEGINS = re.compile(r'\s{0,100}\{\s{0,20}"tool":\s{0,20}\{\s{0,20}"name":\s{0,20}"hostdoctor"')


class Carried(NamedTuple):
    """The facts in a report, and the name of its file."""

    name: str
    record: Record


class Sorted(NamedTuple):
    """What was attached, apart.

    Attributes:
        texts: what is no report.
        carried: the facts of reports that have them.
        json: reports as JSON, which have none.
        refused: the names of reports without facts, those of JSON included, with the reason.
    """

    texts: list[Attachment]
    carried: list[Carried]
    json: list[Attachment]
    refused: list[tuple[str, str]]


class _Tool(msgspec.Struct):
    name: str


class _JsonReport(msgspec.Struct):
    tool: _Tool
    findings: list[msgspec.Raw]


def take_out(files: Iterable[Attachment]) -> Sorted:
    """The reports apart from everything else."""
    found = Sorted([], [], [], [])
    for file in files:
        if is_json_report(file.text):
            found.json.append(file)
            found.refused.append((file.name, _IS_JSON))
        elif "hostdoctor-facts/" in file.text:
            found.texts.extend(_without_report(file, found))
        else:
            found.texts.append(file)
    return found


def _without_report(file: Attachment, found: Sorted) -> list[Attachment]:
    from hostdoctor.facts.block import find  # noqa: PLC0415  few attachments are reports

    block = find(file.text)
    if block is None:
        return [file]
    if block.record:
        found.carried.extend(Carried(file.name, record) for record in (block.record, *block.others))
    else:
        found.refused.append((file.name, block.problem))
    return [file._replace(text=block.rest)] if block.rest.strip() else []


def is_json_report(text: str) -> bool:
    """Whether it is what `hostdoctor scan --format json` prints."""
    if _BEGINS.match(text):  # also one that was cut
        return True
    if not text[:100].lstrip().startswith("{") or '"hostdoctor"' not in text:
        return False
    try:
        return msgspec.json.decode(text, type=_JsonReport).tool.name == "hostdoctor"
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return False
