"""Parameters on the running kernel's command line that do not do what they seem to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from hostdoctor import knowledge, logged, wording
from hostdoctor.facts.boot_files import Parameter
from hostdoctor.facts.log import LogEvent
from hostdoctor.facts.pci import AMD, INTEL
from hostdoctor.facts.unknown import Unknown, known
from hostdoctor.findings import Check, Evidence, Finding, unjudged
from hostdoctor.parsers.cmdline import parse_command_line
from hostdoctor.view import View

ID = "kernel-parameters"

_LINE = "/proc/cmdline"
_HOST_BRIDGE = "0000:00:00.0"
_MAKERS: Mapping[int, str] = {AMD: "amd", INTEL: "intel"}  # guests have Intel's, whatever their processor
_HELP = "attach the whole output of dmesg, from the boot on"
_TYPOGRAPHY = "“”„‘’–—\u00a0"  # what text programs make of quotes, hyphens and spaces

Given = tuple[Parameter, str]  # a parameter and one element of its value


def judge(view: View) -> Iterator[Finding]:
    """One finding for each parameter that is worth a word, or one for all."""
    boot = view.host.boot
    if isinstance(boot.command_line, Unknown):
        yield from _by_the_kernel(view, []) or [unjudged(ID, (), "kernel command line", boot.command_line)]
        return
    given = list(_elements(boot.parameters))
    found = [*_by_rule(view, given), *_unknown_values(view, given)]
    to_be_removed = {finding.subject for finding in found if "remove-parameter" in finding.remedies}
    found += [each for each in _repeated(given) if each.subject not in to_be_removed]
    found += [*_settings(given), *_given_twice(given), *_slips(boot.parameters)]
    found += [*_after_the_end(boot.init_arguments), *_typography(boot.parameters)]
    found += _by_the_kernel(view, found)
    said = {subject for finding in found for subject in finding.subject}
    found += _undecided(view, given, said)
    yield from found
    if not found:
        yield Finding(ID, "ok", (), "nothing on the command line is without effect or against itself")


def _elements(parameters: tuple[Parameter, ...]) -> Iterator[Given]:
    """Each parameter of this tool's field with each element of its value."""
    table = knowledge.load_kernel_parameters().by_name
    for parameter in parameters:
        described = table.get(parameter.key)
        parts = described.elements(parameter.value or "") if described else ()
        for element in parts or (parameter.value or "",):
            yield parameter, element


def _shown(parameter: Parameter, element: str) -> str:
    return f"{parameter.name}={element}" if element else parameter.name


def _meaning(parameter: Parameter, element: str) -> str:
    """An element in the spelling of the rules."""
    described = knowledge.load_kernel_parameters().by_name.get(parameter.key)
    return described.meaning(element) if described else element


def _by_rule(view: View, given: list[Given]) -> Iterator[Finding]:
    for rule, parameter, shown in _matching(given):
        if _conditions_hold(view, rule):
            yield _finding(rule, parameter, shown)


def _matching(given: list[Given]) -> Iterator[tuple[knowledge.Rule, Parameter, str]]:
    """Each rule that is about what is given, whatever the host is, with the parameter and what is shown of it."""
    on_line = {f"{parameter.key}={_meaning(parameter, element)}" for parameter, element in given}
    seen = set()
    for rule in knowledge.load_kernel_parameters().rule:
        for parameter, element in given:
            shown = _shown(parameter, element)
            if parameter.key != rule.parameter or (rule.id, shown) in seen:
                continue
            if not rule.matches(_meaning(parameter, element)):
                continue
            if set(rule.together_with) <= on_line:
                seen.add((rule.id, shown))
                yield rule, parameter, shown


def _undecided(view: View, given: list[Given], said: set[str]) -> Iterator[Finding]:
    """One finding for the parameters of which a rule would say something, were more known of the host."""
    undecided: dict[str, str] = {}
    for rule, _, shown in _matching(given):
        if shown not in said and (missing := _what_is_unknown(view, rule)):
            undecided.setdefault(shown, missing)
    if undecided:
        why = Unknown(f"{wording.listed(dict.fromkeys(undecided.values()))} is not in this evidence", _HELP)
        yield unjudged(ID, tuple(undecided), wording.listed(undecided, 8), why)


def _what_is_unknown(view: View, rule: knowledge.Rule) -> str:
    """What a rule needs to know, where nothing that is known of the host speaks against it; else nothing."""
    boot, cpu = view.host.boot, view.host.cpu
    needed = (
        (bool(rule.cpu_vendor), _vendor(view), "the processor"),
        (bool(rule.cpu_family_min), cpu.family, "the processor"),
        (bool(rule.release_has or rule.release_lacks), boot.release, "the kernel's release"),
        (bool(rule.true_in or rule.false_in), boot.version, "the kernel's release"),
    )
    missing = next((name for is_needed, value, name in needed if is_needed and isinstance(value, Unknown)), "")
    return missing if missing and _conditions_hold(view, rule, of_unknown=True) else ""


def _conditions_hold(view: View, rule: knowledge.Rule, *, of_unknown: bool = False) -> bool:
    """Whether a rule's conditions on the host hold; one that is not known counts as `of_unknown` says."""
    boot, cpu = view.host.boot, view.host.cpu
    release = known(boot.release, "")
    vendor = _vendor(view)
    if rule.cpu_vendor and rule.cpu_vendor != vendor and not (of_unknown and isinstance(vendor, Unknown)):
        return False
    if rule.cpu_family_min and known(cpu.family, 255 if of_unknown else 0) < rule.cpu_family_min:
        return False
    if (rule.release_has or rule.release_lacks) and not release:
        return of_unknown
    if rule.release_has and not any(text in release for text in rule.release_has):
        return False
    if any(text in release for text in rule.release_lacks):
        return False
    if rule.gpu_ids and not any(gpu.id in rule.gpu_ids for gpu in view.gpus):
        return False
    if not rule.true_in and not rule.false_in:
        return True
    version = boot.version
    if isinstance(version, Unknown):
        return of_unknown
    return rule.holds_in((version.major, version.minor)) is True


def _vendor(view: View) -> str | Unknown:
    """Who made the processor: "amd", "intel", or empty for others; its host bridge tells where the processor does not."""
    cpu = view.host.cpu
    if not isinstance(cpu.vendor, Unknown):
        return "amd" if cpu.is_amd else "intel" if cpu.is_intel else ""
    bridge = view.topology.functions.get(_HOST_BRIDGE)
    if bridge is None or bridge.class_code >> 8 != 0x0600 or view.host.environment.is_guest:
        return cpu.vendor
    return _MAKERS.get(bridge.vendor, cpu.vendor)


def _finding(rule: knowledge.Rule, parameter: Parameter, shown: str) -> Finding:
    what = {
        "no-such-value": "there is no such value",
        "no-such-option": "there is no such option",
        "inert": "it does nothing here",
        "wrong-vendor": "it is for another vendor's processor",
        "deprecated": "it is deprecated",
        "contradiction": "it contradicts another parameter",
        "side-effect": "it does more, or less, than it seems to",
        "patch": "only a kernel with the patch knows it",
    }[rule.kind]
    return Finding(
        ID,
        rule.outcome,
        (shown,),
        f"{shown}: {what}",
        rule.text,
        evidence=(Evidence(_LINE, parameter.text),),
        remedies=(_remedy(rule.remedy),) if rule.remedy else (),
        next=_next(rule.remedy, shown),
    )


def _remedy(remedy: str) -> str:
    return "replace-parameter" if remedy.startswith("replace:") else remedy


def _next(remedy: str, shown: str) -> str:
    if remedy.startswith("replace:"):
        return f"put {remedy.removeprefix('replace:')} in the place of {shown} on the kernel command line"
    return f"take {shown} out of the kernel command line" if remedy else ""


def _unknown_values(view: View, given: list[Given]) -> Iterator[Finding]:
    """Values that the running kernel does not know, where all it knows are in the tables and no rule has spoken."""
    version = view.host.boot.version
    if isinstance(version, Unknown):
        return
    tables = knowledge.load_kernel_parameters()
    for parameter, element in given:
        described = tables.by_name.get(parameter.key)
        if described is None or not element or (described.cpu_vendor and described.cpu_vendor != _vendor(view)):
            continue
        if any(
            rule.parameter == parameter.key and rule.matches(element) and _conditions_hold(view, rule) for rule in tables.rule
        ):
            continue
        if described.knows(element, (version.major, version.minor)) is False:
            yield Finding(
                ID,
                "warning",
                (_shown(parameter, element),),
                f"{_shown(parameter, element)}: kernel {version} knows no such value",
                f"{described.name} is {described.about}. The kernel ignores values it does not know, often silently.",
                "likely",
                (Evidence(_LINE, parameter.text),),
                remedies=("remove-parameter",),
                next=_next("remove-parameter", _shown(parameter, element)),
            )


def _repeated(given: list[Given]) -> Iterator[Finding]:
    """What is on the line more than once with the same value."""
    tables = knowledge.load_kernel_parameters()
    times: dict[str, list[Given]] = {}
    for parameter, element in given:
        if parameter.key in tables.known_names and not _setting_of(parameter, element):
            times.setdefault(f"{parameter.key}={element}", []).append((parameter, element))
    for same in times.values():
        if len(same) > 1:
            yield _redundant(same)


def _setting_of(parameter: Parameter, element: str) -> tuple[knowledge.Setting, str] | None:
    token = f"{parameter.key}={_meaning(parameter, element)}"
    settings = knowledge.load_kernel_parameters().settings
    return next(((setting, way) for setting in settings if (way := setting.way(token))), None)


def _settings(given: list[Given]) -> Iterator[Finding]:
    """Parameters that set the same thing: against each other, or once too often."""
    for setting in knowledge.load_kernel_parameters().settings:
        found = [
            (parameter, element, way)
            for parameter, element in given
            if (way := setting.way(f"{parameter.key}={_meaning(parameter, element)}"))
        ]
        if len({way for *_, way in found}) > 1:
            yield _contradiction(found)
        elif len(found) > 1:
            yield _redundant([(parameter, element) for parameter, element, _ in found])


def _contradiction(found: list[tuple[Parameter, str, str]]) -> Finding:
    last, counts = _shown(*found[-1][:2]), found[-1][2]
    others = list(dict.fromkeys(_shown(parameter, element) for parameter, element, way in found if way != counts))
    return Finding(
        ID,
        "warning",
        (*others, last),
        f"{last} contradicts {wording.listed(others)}, and the last counts",
        f"They set the same thing, and the kernel keeps what comes last: {last}, so {counts}.",
        evidence=tuple(dict.fromkeys(Evidence(_LINE, parameter.text) for parameter, *_ in found)),
        remedies=("keep-one-parameter",),
        next=f"take {wording.listed(others)} out of the kernel command line, or {last} if that is not what you mean",
    )


def _redundant(same: list[Given]) -> Finding:
    shown = list(dict.fromkeys(_shown(parameter, element) for parameter, element in same))
    what = f"{shown[0]} is given {len(same)} times" if len(shown) == 1 else f"{wording.listed(shown)} say the same"
    return Finding(
        ID,
        "info",
        tuple(shown),
        f"{what}; one of them is enough",
        evidence=tuple(dict.fromkeys(Evidence(_LINE, parameter.text) for parameter, _ in same)),
        remedies=("keep-one-parameter",),
        next=f"keep {shown[0]} once on the kernel command line",
    )


def _given_twice(given: list[Given]) -> Iterator[Finding]:
    for rule in knowledge.load_kernel_parameters().last_wins:
        found = [
            (parameter, element)
            for parameter, element in given
            if parameter.key == rule.parameter and (element == rule.element or element.startswith(rule.element))
        ]
        if len({element for _, element in found}) > 1:
            evidence = tuple(Evidence(_LINE, parameter.text) for parameter, _ in found)
            shown = tuple(_shown(parameter, element) for parameter, element in found)
            name = f"{rule.parameter}={rule.element.rstrip('=')}"
            yield Finding(
                ID,
                "warning",
                shown,
                f"{name} is given {len(found)} times, and only the last counts",
                rule.text,
                evidence=evidence,
                remedies=("keep-one-parameter",),
                next=f"put all devices into one {name}=, separated by semicolons, and take the others out",
            )


def _slips(parameters: tuple[Parameter, ...]) -> Iterator[Finding]:
    """Names one slip of a key away from one of this field."""
    names = knowledge.load_kernel_parameters().known_names
    for parameter in parameters:
        if parameter.key in names:
            continue
        meant = next((name for name, slips in names.items() if slips and _one_slip(parameter.key, name)), None)
        if meant is not None:
            yield Finding(
                ID,
                "warning",
                (parameter.text,),
                f"{parameter.name}: there is no such parameter; {meant} may be meant",
                "The kernel hands parameters it does not know to init, without a word to you.",
                "likely",
                (Evidence(_LINE, parameter.text),),
                remedies=("replace-parameter",),
                next=f"put {meant} in the place of {parameter.name} if that is what you mean",
            )


def _one_slip(name: str, known_name: str) -> bool:
    """Whether one letter is missing, added, changed, or swapped with its neighbour, or only the case differs."""
    if name == known_name:
        return False
    if name.lower() == known_name.lower():
        return True
    short, long = sorted((name, known_name), key=len)
    if len(long) - len(short) == 1:
        at = next((n for n, letter in enumerate(short) if letter != long[n]), len(short))
        return short[at:] == long[at + 1 :]
    if len(long) != len(short):
        return False
    differing = [n for n, letter in enumerate(short) if letter != long[n]]
    if len(differing) == 1:
        return True
    first, *rest = differing
    return rest == [first + 1] and short[first] == long[first + 1] and short[first + 1] == long[first]


def _after_the_end(arguments: tuple[Parameter, ...]) -> Iterator[Finding]:
    names = knowledge.load_kernel_parameters().known_names
    for argument in arguments:
        if argument.key in names:
            title = f"{argument.text} stands after --, so it goes to init and not to the kernel"
            evidence = (Evidence(_LINE, f"-- ... {argument.text}"),)
            next_ = f"move {argument.text} before the --"
            yield Finding(ID, "warning", (argument.text,), title, evidence=evidence, next=next_)


def _typography(parameters: tuple[Parameter, ...]) -> Iterator[Finding]:
    for parameter in parameters:
        if any(sign in parameter.text for sign in _TYPOGRAPHY):
            title = f"{parameter.text}: typographic quotes or dashes, which the kernel takes literally"
            evidence = (Evidence(_LINE, parameter.text),)
            next_ = "write it again with the plain characters \" ' and -"
            yield Finding(ID, "warning", (parameter.text,), title, evidence=evidence, next=next_)


# --- what the kernel itself says of parameters ------------------------------------------------------------------------

# Which parameter a subsystem reads its options from, by how its message begins.
_OPTIONS_OF = (("AMD-Vi", "amd_iommu"), ("DMAR", "intel_iommu"), ("PCI", "pci"))


def _by_the_kernel(view: View, found: list[Finding]) -> list[Finding]:
    """What the kernel's log calls unknown and no finding speaks of yet."""
    log = view.host.log
    if log is None:
        return []
    spoken_of = {part for finding in found for subject in finding.subject for part in (subject, subject.partition("=")[0])}
    names = knowledge.load_kernel_parameters().known_names
    new: dict[str, Finding] = {}
    for event in logged.of_last_boot(log, "unknown-parameters", "unknown-option", "unknown-module-parameter"):
        for text in _called_unknown(event, names):
            if text not in spoken_of and text.partition("=")[0] not in spoken_of:
                new.setdefault(text, _ruled(view, text, event) or _unknown_to_the_kernel(text, event))
    return list(new.values())


def _ruled(view: View, text: str, event: LogEvent) -> Finding | None:
    """What the rules say of a parameter that only the log names, as without the command line."""
    parameters = parse_command_line(text)[0]
    by_rule = next(iter((*_by_rule(view, list(_elements(parameters))), *_slips(parameters))), None)
    return by_rule and msgspec.structs.replace(by_rule, evidence=logged.evidence([event]))


def _called_unknown(event: LogEvent, names: Mapping[str, bool]) -> list[str]:
    """The parameters of this field that a message calls unknown; what is meant for init and programs is none of ours."""
    if event.kind == "unknown-module-parameter":
        module = event.text.partition(":")[0]
        return [f"{module}.{name}" for name in event.details.get("parameter", "").split(", ") if name]
    if event.kind == "unknown-option":
        parameter = next((name for start, name in _OPTIONS_OF if event.text.startswith(start)), "intel_iommu")
        return [f"{parameter}={option}" for option in event.details.get("option", "").split(", ") if option]
    tokens = event.details.get("parameters", "").replace(", ", " ").split()
    return [token for token in tokens if _is_of_this_field(token.partition("=")[0].replace("-", "_"), names)]


def _is_of_this_field(key: str, names: Mapping[str, bool]) -> bool:
    return key in names or any(slips and _one_slip(key, name) for name, slips in names.items())


def _unknown_to_the_kernel(text: str, event: LogEvent) -> Finding:
    is_module = event.kind == "unknown-module-parameter"
    return Finding(
        ID,
        "warning",
        (text,),
        f"{text}: {'the module' if is_module else 'the kernel'} says that it does not know it",
        "It has no effect, whatever guide it comes from: it may be of another version, of a patch, or misspelt.",
        evidence=logged.evidence([event]),
        remedies=("remove-parameter",),
        next=f"take {text} out of the kernel command line{' or the files in /etc/modprobe.d' if is_module else ''}",
    )


CHECK = Check(
    id=ID,
    subject="parameter",
    summary="Every parameter of this field on the kernel command line exists, has effect and agrees with the others.",
    looks_at="The running kernel's command line, its release, the processor's vendor and family, and what the kernel's log "
    "calls unknown.",
    why="The kernel says little or nothing about parameters it does not know, so advice from old guides lives on in "
    "command lines for years.",
    decides="A warning for an option or value that does not exist, a contradiction (also between two names of one setting, "
    "iommu=pt and iommu.passthrough=0), a slip of a key; info for what is inert, redundant, for another vendor's processor "
    "without effect, or known only to kernels with a patch. A rule that depends on a fact that is missing says nothing.",
    sources=(
        "Linux Documentation/admin-guide/kernel-parameters.txt",
        "Linux drivers/iommu/amd/init.c parse_amd_iommu_options, drivers/iommu/intel/iommu.c, arch/x86/kernel/pci-dma.c",
        "Linux drivers/pci/pci.c pci_setup; lib/cmdline.c next_arg; lib/kstrtox.c kstrtobool",
    ),
    judge=judge,
    remedies=("remove-parameter", "replace-parameter", "keep-one-parameter"),
    nothing="no command line",
    bare_metal_only=False,
    needs_pci=False,
)
