"""Kernel parameters: which exist, which values they take, and verdicts on those that do not do what they seem to.

How to judge a command line with this:

1. For each `Rule` whose `parameter` is given: split the value with `Parameter.elements`, and see which elements the rule
   `matches`. A rule with neither elements nor a pattern matches whatever the value, and a parameter without one. All
   other conditions of the rule must hold; where one of them is not known (`holds_in` is None, no processor vendor), the
   rule says nothing.
2. An element that no rule matched and that `Parameter.knows` answers with False is no such value in this kernel.
3. A name that is not in `known_names`, but one slip of a key away from one whose `slips` is true, is probably meant to
   be that.
4. `Setting`: parameters that set the same thing, against each other or once too often.
5. `LastWins`: an element given more than once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Literal

import msgspec

from hostdoctor.knowledge.read import KernelPair, presence, read_table

Kind = Literal[
    "no-such-value", "no-such-option", "inert", "wrong-vendor", "deprecated", "contradiction", "side-effect", "patch"
]


class ParameterValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value that the kernel knows. A name that ends in = takes an argument ("disable_acs_redir=").

    Attributes:
        name: "pt", "config_acs=".
        present_in: kernel trees that know it, "6.12"; with `absent_in` empty too, all do.
        absent_in: kernel trees that do not.
        debian: added by Debian's kernels.
    """

    name: str
    present_in: tuple[str, ...] = ()
    absent_in: tuple[str, ...] = ()
    debian: bool = False


class Parameter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A kernel parameter.

    Attributes:
        name: with _ where the kernel also takes -.
        about: what it is for.
        source: keys of sources.toml.
        cpu_vendor: "amd" or "intel" where it is that vendor's only.
        comma_list: whether the value is a list separated by commas.
        complete: whether `values` are all there are.
        compare: "prefix": the kernel compares the beginning only (iommu=ptx works like iommu=pt).
        boolean: whether it takes 1, y, on and 0, n, off, as lib/kstrtox.c kstrtobool reads them.
        values: what it knows.
    """

    name: str
    about: str
    source: tuple[str, ...]
    cpu_vendor: Literal["", "amd", "intel"] = ""
    comma_list: bool = False
    complete: bool = False
    compare: Literal["exact", "prefix"] = "exact"
    boolean: bool = False
    values: tuple[ParameterValue, ...] = ()

    def elements(self, value: str) -> tuple[str, ...]:
        """The value, split the way the kernel splits it; empty elements left out."""
        return tuple(element for element in (value.split(",") if self.comma_list else [value]) if element)

    def meaning(self, element: str) -> str:
        """A value in the one spelling that the rules use: of a boolean "1" or "0"; any other as it is.

        kstrtobool looks at the first letter, and at the second of "on" and "off".
        """
        if not self.boolean:
            return element
        lower = element.lower()
        if lower.startswith(("1", "y", "on")):
            return "1"
        return "0" if lower.startswith(("0", "n", "of")) else element

    def knows(self, element: str, kernel: KernelPair) -> bool | None:
        """Whether a kernel knows a value; None where it cannot be told, as for one whose values are not listed."""
        if self.boolean:
            newer = element.lower().startswith(("t", "f"))  # "true" and "false" are understood by newer kernels only
            return None if newer else self.meaning(element) in ("0", "1")
        if not self.complete:
            return None
        answers = {
            presence(kernel, value.present_in, value.absent_in)
            for value in self.values
            if element == value.name
            or ((self.compare == "prefix" or value.name.endswith("=")) and element.startswith(value.name))
        }
        return True if True in answers else None if None in answers else False


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One verdict on one parameter; all conditions that are given must hold.

    Attributes:
        id: "amd-iommu-on".
        parameter: the name, with _ where the kernel also takes -.
        outcome: "warning", or "info" where nothing is lost.
        kind: why: the value or the option does not exist, it is known but without effect here ("inert"), it is for
            another processor, deprecated, contradicts another one, does something besides what it seems to
            ("side-effect"), or is there only with a patch.
        text: one or two sentences: what it does, and what to do.
        source: keys of sources.toml.
        elements: values it is about, compared whole; one that ends in = stands for itself with any argument.
        pattern: a regular expression for a value, in place of elements.
        together_with: other values that must be on the command line too, each "name=value".
        cpu_vendor: "amd" or "intel".
        cpu_family_min: the processor's family must be this or more (23 is 17h, Zen).
        true_in: kernel trees where it holds.
        false_in: kernel trees where it does not.
        release_has: one of these occurs in the kernel's release (uname -r).
        release_lacks: none of these does.
        gpu_ids: one of these GPUs is in the host.
        remedy: "remove-parameter", "replace:" and what to put in its place, or "" where its owner must decide. Both
            concern the value that matched, not others in the same list.
    """

    id: str
    parameter: str
    outcome: Literal["warning", "info"]
    kind: Kind
    text: str
    source: tuple[str, ...]
    elements: tuple[str, ...] = ()
    pattern: str = ""
    together_with: tuple[str, ...] = ()
    cpu_vendor: Literal["", "amd", "intel"] = ""
    cpu_family_min: int = 0
    true_in: tuple[str, ...] = ()
    false_in: tuple[str, ...] = ()
    release_has: tuple[str, ...] = ()
    release_lacks: tuple[str, ...] = ()
    gpu_ids: tuple[str, ...] = ()
    remedy: str = ""

    def matches(self, element: str) -> bool:
        """Whether a value is one that the rule is about."""
        if self.pattern:
            return re.match(self.pattern, element) is not None
        return not self.elements or any(
            element == wanted or (wanted.endswith("=") and element.startswith(wanted)) for wanted in self.elements
        )

    def holds_in(self, kernel: KernelPair) -> bool | None:
        """Whether it holds in a kernel; None where that lies between trees that differ."""
        return presence(kernel, self.true_in, self.false_in)


class KnownNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names to hold an unknown parameter against; `slips` is false where other parameters lie as close."""

    names: tuple[str, ...]
    source: tuple[str, ...]
    slips: bool = True


class Setting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that more than one parameter sets, "passthrough" by iommu=pt or iommu.passthrough=1; the last wins."""

    ways: Mapping[str, tuple[str, ...]]
    source: tuple[str, ...]

    def way(self, name_and_value: str) -> str:
        """What "iommu=pt" sets; empty for what belongs to something else."""
        return next((way for way, tokens in self.ways.items() if name_and_value in tokens), "")


class LastWins(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value that may be given once only, "pci" with "disable_acs_redir=": the kernel keeps the last."""

    parameter: str
    element: str
    text: str
    source: tuple[str, ...]

    def is_in(self, key: str, value: str | None) -> bool:
        """Whether a parameter gives it."""
        return key == self.parameter and any(each.startswith(self.element) for each in (value or "").split(","))


class Names(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group of parameters, by their names with _ for -, the beginnings of names, and whole texts."""

    source: tuple[str, ...]
    names: tuple[str, ...] = ()
    beginnings: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    def hold(self, key: str, text: str) -> bool:
        """Whether a parameter is of the group."""
        return key in self.names or key.startswith(self.beginnings) or text in self.texts


class KernelParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole table; `boot_process` are parameters of no interest here, `of_field` those beside the known names that are."""

    parameter: tuple[Parameter, ...]
    rule: tuple[Rule, ...]
    known: tuple[KnownNames, ...]
    setting: tuple[Setting, ...]
    last_wins: tuple[LastWins, ...]
    boot_process: tuple[Names, ...]
    of_field: tuple[Names, ...]

    @property
    def settings(self) -> tuple[Setting, ...]:
        """Those listed, and each boolean parameter that belongs to none of them: it is on or off."""
        listed = {token for setting in self.setting for tokens in setting.ways.values() for token in tokens}
        single = [each for each in self.parameter if each.boolean and f"{each.name}=1" not in listed]
        return (
            *self.setting,
            *(Setting({"on": (f"{each.name}=1",), "off": (f"{each.name}=0",)}, each.source) for each in single),
        )

    @property
    def by_name(self) -> Mapping[str, Parameter]:
        """The parameters whose values are described."""
        return {parameter.name: parameter for parameter in self.parameter}

    @property
    def known_names(self) -> Mapping[str, bool]:
        """Every name of this field, and whether a near miss of it is probably a slip of a key."""
        return {name: group.slips for group in self.known for name in group.names}


@cache
def load_kernel_parameters() -> KernelParameters:
    """What is known of kernel parameters in this field."""
    return read_table("kernel_parameters", KernelParameters)
