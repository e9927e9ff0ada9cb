"""The same settings without the menu: vendors' tools and Redfish, with placeholders where accounts and addresses belong.

What a command or a request holds comes from the knowledge tables alone, never from what a host says of itself.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from hostdoctor.knowledge.firmware import Family, Form, load_firmware_forms
from hostdoctor.remedies.guide import GuideSetting, Way


def ways_of(families: Sequence[Family], settings: Sequence[GuideSetting]) -> tuple[Way, ...]:
    """One for each tool of the board's vendor that can set something of the guide."""
    ids = next((family.forms for family in families if family.forms), ())
    forms = load_firmware_forms()
    ways = (_way(forms[id_], settings) for id_ in ids)
    return tuple(way for way in ways if way is not None)


def _way(form: Form, settings: Sequence[GuideSetting]) -> Way | None:
    wanted = [each for each in settings if each.role in ("needed", "optional") and each.value and each.known_here]
    if not form.by_name and any("{name}" not in command for command in form.change or ("",)):
        wanted = [each for each in wanted if each.attribute]
    if not wanted:
        return None
    commands = [*_each(form.read, wanted), *_each(form.change, wanted), *form.finish]
    note = form.note
    if form.by_name:
        note = f"<...> stands for an attribute's name: look in the AttributeRegistry for the one with this DisplayName. {note}"
    return Way(form.title, form.needs, tuple(commands), _body(form, wanted), note, form.confidence)


def _each(templates: Sequence[str], settings: Sequence[GuideSetting]) -> list[str]:
    """The commands, each once, those with placeholders for each setting."""
    return list(dict.fromkeys(_filled(template, setting) for setting in settings for template in templates))


def _filled(template: str, setting: GuideSetting) -> str:
    values = {
        "{attribute}": setting.attribute,
        "{dotted}": setting.attribute.replace("_", "."),
        "{group}": setting.group,
        "{name}": setting.setting,
        "{value}": setting.value,
    }
    for placeholder, value in values.items():
        template = template.replace(placeholder, value)
    return template


def _body(form: Form, settings: Sequence[GuideSetting]) -> str:
    if not form.body:
        return ""
    names = {each: f"<{each.setting}>" if form.by_name else each.attribute for each in settings}
    request: dict[str, object] = {"Attributes": {names[each]: each.value for each in settings}}
    if form.body == "on-reset":
        request = {"@Redfish.SettingsApplyTime": {"ApplyTime": "OnReset"}, **request}
    return json.dumps(request, indent=2)
