"""The tables of firmware menus: consistent in themselves, and with the checks and remedies they serve."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase

import msgspec
import pytest

from hostdoctor.knowledge import compile as compiler
from hostdoctor.knowledge import firmware
from hostdoctor.registry import built_in
from hostdoctor.remedies.arithmetic import choice_bytes

TABLE = json.loads(next(text for path, text in compiler.compiled().items() if path.stem == "firmware"))
FAMILIES = {each.id: each for each in firmware.load_firmware_families()}
OPTIONS = list(firmware.load_firmware_options().values())
SETTINGS, FORMS = firmware.load_firmware_settings(), firmware.load_firmware_forms()


LOADED = {"family": FAMILIES.values(), "option": OPTIONS, "setting": SETTINGS.values(), "form": FORMS.values()}


@pytest.mark.parametrize("kind", LOADED)
def test_what_is_read_is_what_the_file_says(kind):
    assert len(LOADED[kind]) == len(TABLE[kind])
    for entry, value in zip(TABLE[kind], LOADED[kind], strict=True):
        read = json.loads(msgspec.json.encode(value))
        assert {key: read[key] for key in entry} == entry


@pytest.mark.parametrize("kind", ["family", "option", "setting", "form"])
def test_every_entry_says_how_sure_it_is(kind):
    for entry in TABLE[kind]:
        assert entry["confidence"] in ("certain", "likely", "possible")
        assert entry["source"]


@pytest.mark.parametrize("option", OPTIONS, ids=lambda each: f"{each.family} {each.setting}")
def test_options_are_consistent(option):
    assert option.family in FAMILIES
    assert option.setting in SETTINGS
    assert option.absent or option.path
    assert not option.absent or option.note
    if option.absent:
        return
    if option.means == "switch":
        assert option.target
        assert not option.choices or option.target in option.choices
    elif option.means in ("base", "limit", "per-bus"):
        assert all(choice_bytes(choice) for choice in option.choices)
    for choice in (option.default, *option.prefer):
        assert not choice or choice in option.choices
    needing = [FORMS[form] for form in FAMILIES[option.family].forms if "{group}" in "".join(FORMS[form].change)]
    assert not (needing and option.attribute) or option.group


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda each: each.id)
def test_families_are_consistent(family):
    assert set(family.forms) <= set(FORMS)
    assert family.enter
    assert any(option.family == family.id for option in OPTIONS)
    for pattern in (*family.vendor, *family.board, *family.product, *family.processor, *family.exact):
        assert pattern == pattern.lower()
    assert all(any(fnmatchcase(board, pattern) for pattern in family.board) for board in family.exact)


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda each: each.id)
def test_settings_name_checks_that_exist(setting):
    assert set(setting.checks) <= {check.id for check in built_in()}
    assert setting.means != "switch" or setting.target
    assert setting.name in setting.synonyms or setting.id in ("mmio-size", "resizable-bar", "slot-speed", "acs", "iommu")
    assert setting.affects
    assert setting.look


@pytest.mark.parametrize("form", FORMS.values(), ids=lambda each: each.id)
def test_commands_hold_placeholders_and_no_secrets(form):
    text = "\n".join((*form.read, *form.change, *form.finish))
    assert form.read, "the value of today is read first"
    assert "-k" not in text.split()
    assert "root" not in text
    assert bool(form.body) == ("change.json" in text)
