"""The pastes of tests/cases, damaged as pastes are: nothing crashes, and a cut paste of a healthy host is no fault.

Everything is drawn from a fixed seed, so that a failure comes again. HOSTDOCTOR_FUZZ_ROUNDS asks for more of it.
"""

from __future__ import annotations

import html
import os
import random

import pytest

from hostdoctor.diagnosis import diagnose, exit_code
from hostdoctor.evidence.attached import Attached, Attachment, read_attachments
from hostdoctor.readers.attached import Pasted, read_attached
from hostdoctor.registry import built_in
from hostdoctor.report import model, text
from hostdoctor.view import View
from tests.test_cases import CASES, is_tree

ROUNDS = int(os.environ.get("HOSTDOCTOR_FUZZ_ROUNDS", "4"))
CHECKS = list(built_in())


ALL = [case / ("attachments" if is_tree(case) else "input") for case in CASES]
FOLDERS = [pytest.param(folder, id=folder.parent.name) for folder in ALL if folder.is_dir()]


def attached(folder):
    return read_attachments([str(folder)]).files


def findings(files):
    """What is said of some texts; every report must be one that can be shown."""
    pasted = Pasted(Attached(tuple(files), ()), ("paste",))
    host = read_attached(pasted, None, 10, assume_bare_metal=False)
    view = View(host)
    found = diagnose(view, CHECKS)
    report = model.build(model.sources_of(pasted.evidence, pasted), view, found, exit_code(found))
    assert model.to_json(report)
    shown = text.render(report, text.Style(width=80, color=False, verbose=True, quiet=False), 0.0)
    assert all(sign.isprintable() or sign == "\n" for sign in shown)
    own_faults = [each.title for each in found if "failed itself" in each.title]
    assert own_faults == []
    return found


def chances(folder, what):
    return [random.Random(f"{folder.parent.name} {what} {number}") for number in range(ROUNDS)]


def changed(files, change):
    return [Attachment(each.name, each.path, change(each.text)) for each in files]


@pytest.mark.parametrize("folder", FOLDERS)
def test_cut_anywhere(folder):
    files = attached(folder)
    healthy = not any(each.outcome == "failure" for each in findings(files)) if files else False
    for chance in chances(folder, "cut"):
        cut = changed(files, lambda whole, chance=chance: whole[: chance.randrange(len(whole) + 1)])
        beheaded = changed(files, lambda whole, chance=chance: whole[chance.randrange(len(whole) + 1) :])
        for pieces in (cut, beheaded):
            failures = [each for each in findings(pieces) if each.outcome == "failure"]
            assert not (healthy and failures)


@pytest.mark.parametrize("folder", FOLDERS)
def test_lines_shuffled_lost_and_repeated(folder):
    def shuffle(whole, chance):
        lines = whole.split("\n")
        chance.shuffle(lines)
        return "\n".join(lines)

    def thin_out(whole, chance):
        return "\n".join(line for line in whole.split("\n") if chance.random() < 0.7)

    def repeat(whole, chance):
        return "\n".join(line for line in whole.split("\n") for _ in range(chance.randrange(3)))

    for change in (shuffle, thin_out, repeat):
        for chance in chances(folder, change.__name__):
            findings(changed(attached(folder), lambda whole, change=change, chance=chance: change(whole, chance)))


@pytest.mark.parametrize("folder", FOLDERS)
def test_bytes_flipped(folder):
    def flip(whole, chance):
        data = bytearray(whole.encode())
        for _ in range(1 + len(data) // 200):
            if data:
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        return data.decode("utf-8", "replace")

    for chance in chances(folder, "flip"):
        findings(changed(attached(folder), lambda whole, chance=chance: flip(whole, chance)))


# What web pages, mail programs and terminals do to a text without taking anything away from it.
DISGUISES = {
    "escaped": html.escape,
    "windows": lambda whole: whole.replace("\n", "\r\n"),
    "fenced": lambda whole: f"It hangs:\n```\n{whole}\n```\nThanks",
    "code": lambda whole: f"<pre><code>{html.escape(whole)}</code></pre>",
    "quoted": lambda whole: "\n".join(f"> {line}" for line in whole.split("\n")),
    "spaced": lambda whole: "\n\n".join(whole.split("\n")),
    "stripped": lambda whole: "\n".join(line.rstrip() for line in whole.split("\n")),
    "nul": lambda whole: whole.replace("\n", "\0\n"),
    "non-breaking": lambda whole: whole.replace(" ", "\u00a0"),
    "pasted twice": lambda whole: f"```\n{whole}\n```\n```\n{whole}\n```",
}
# What takes something away from each line.
LOSSES = {
    "cut at 80": lambda whole: "\n".join(line[:80] for line in whole.split("\n")),
    "cut at 60": lambda whole: "\n".join(line[:60] for line in whole.split("\n")),
    "wrapped at 80": lambda whole: "\n".join(
        line[at : at + 80] for line in whole.split("\n") for at in range(0, len(line) or 1, 80)
    ),
    "without its start": lambda whole: "\n".join(line[5:] for line in whole.split("\n")),
    "one blank for many": lambda whole: "\n".join(" ".join(line.split()) for line in whole.split("\n")),
    "without brackets": lambda whole: whole.replace("[", "").replace("]", ""),
    "in one line": lambda whole: whole.replace("\n", " "),
    "from the end": lambda whole: "\n".join(reversed(whole.split("\n"))),
    "in capitals": str.upper,
}


def alarms(files):
    return {(each.check, each.outcome, each.subject) for each in findings(files) if each.outcome in ("failure", "warning")}


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_disguise_changes_no_verdict(folder):
    files = [each for each in attached(folder) if "<?xml" not in each.text]  # whose signs are its own
    plain = alarms(files)
    for name, disguise in DISGUISES.items():
        assert (name, alarms(changed(files, disguise))) == (name, plain)


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_is_left_of_the_lines_of_a_healthy_host_is_no_fault(folder):
    files = attached(folder)
    healthy = not any(outcome == "failure" for _, outcome, _ in alarms(files))
    for name, loss in LOSSES.items():
        failures = [each for each in alarms(changed(files, loss)) if each[1] == "failure"]
        assert (name, failures if healthy else []) == (name, [])


def test_outputs_of_different_hosts_in_one_paste():
    texts = [each.text for folder in ALL if folder.is_dir() for each in attached(folder)]
    for number in range(ROUNDS * 4):
        chance = random.Random(f"several {number}")
        findings([Attachment("paste", "", "\n".join(chance.sample(texts, 4)))])


def test_everything_at_once():
    findings([each for folder in ALL if folder.is_dir() for each in attached(folder)])


def test_the_corpus_is_there():
    assert len(FOLDERS) > 40
