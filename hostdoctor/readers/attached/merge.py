"""Joins what several sources say of the same functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from hostdoctor import knowledge
from hostdoctor.facts.host import Contradiction, Host
from hostdoctor.facts.pci import Function, Power
from hostdoctor.facts.unknown import Unknown
from hostdoctor.parsers.addresses import address_of

__all__ = ["address_of", "joined", "with_functions"]

# Fields in which two sources cannot differ without one being wrong, and how they are called.
_COMPARED = {"vendor": "vendor id", "device": "device id", "subsystem_vendor": "subsystem vendor", "numa_node": "memory node"}
_NO_POWER = Power()
_KEPT_APART = ("address", "origin")


def with_functions(host: Host, new: Iterable[Function]) -> Host:
    """The host with further functions, and with what they add to those that are there; what was known before stands."""
    functions: dict[str, Function] = {} if isinstance(host.functions, Unknown) else dict(host.functions)
    contradictions = list(host.contradictions)
    for function in new:
        old = functions.get(function.address)
        if old is None:
            functions[function.address] = function
        else:
            functions[function.address] = joined(old, function)
            contradictions += _contradictions(old, function)
    if not functions:
        return host
    ordered = dict(sorted(functions.items()))
    return msgspec.structs.replace(host, functions=ordered, contradictions=tuple(contradictions))


def joined(old: Function, new: Function) -> Function:
    """A function with what a second source adds to the first."""
    changes: Mapping[str, Any] = {
        name: theirs
        for name in Function.__struct_fields__
        if name not in _KEPT_APART
        and _says_nothing(name, getattr(old, name))
        and not _says_nothing(name, theirs := getattr(new, name))
    }
    return msgspec.structs.replace(old, **changes) if changes else old


def _says_nothing(name: str, value: object) -> bool:
    """Whether a field is not known; zero is a value for a memory node alone."""
    return isinstance(value, Unknown) or value is None or value in ("", (), _NO_POWER) or (value == 0 and name != "numa_node")


def _contradictions(old: Function, new: Function) -> list[Contradiction]:
    found = []
    for name, what in _COMPARED.items():
        ours, theirs = getattr(old, name), getattr(new, name)
        if not _says_nothing(name, ours) and not _says_nothing(name, theirs) and ours != theirs:
            shown = [f"{value:04x}" if name != "numa_node" else str(value) for value in (ours, theirs)]
            said = ((old.origin, shown[0]), (new.origin, shown[1]))
            found.append(Contradiction(old.address, what, said))
    if products := _other_products(old, new):
        found.append(Contradiction(old.address, "model", ((old.origin, products[0]), (new.origin, products[1]))))
    return found


def _other_products(old: Function, new: Function) -> tuple[str, str] | None:
    """What both are called, where one source tells an id, the other a name, and no product has both."""
    if bool(old.device) == bool(new.device) or not (old.device or old.name) or not (new.device or new.name):
        return None
    numbered, named = (old, new) if old.device else (new, old)
    by_id, by_name = knowledge.gpus_by_id(numbered.id), knowledge.gpus_by_name(named.name)
    if not by_id or not by_name or {each.name for each in by_id} & {each.name for each in by_name}:
        return None
    names = {id(numbered): by_id[0].name, id(named): named.name}
    return names[id(old)], names[id(new)]
